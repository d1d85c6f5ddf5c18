//! Connections: opens them, pools them with a bounded wait, and classifies errors by what they mean for the current work.
//!
//! A round trip costs more than most statements. Statements whose result is not needed at once are deferred and sent with the next one; their results
//! are checked together with its result.

use super::erasure::WRITERS_LOCK;
use crate::StoreError;
use crate::cancel::CancelToken;
use ::tokio_postgres::binary_copy::BinaryCopyInWriter;
use ::tokio_postgres::error::SqlState;
use ::tokio_postgres::types::private::BytesMut;
use ::tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use ::tokio_postgres::{AsyncMessage, Client, Error, Row, Statement};
use futures_util::TryStreamExt;
use futures_util::future::{Either, join, join_all, select};
use std::borrow::Cow;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stook_connection::{ConnectError, Connected, MakeRustlsConnect, ServerAddress};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{self, UnboundedReceiver};

/// Why work on the database failed.
#[derive(Debug)]
pub enum DatabaseError {
    /// A conflict with another transaction: the same work may succeed when it is done again.
    Retry(String),
    /// The connection was lost; nothing was committed.
    ConnectionLost(String),
    /// The connection was lost during COMMIT: it is not known whether it was done.
    CommitUnknown(String),
    /// A failure that trying again will not help.
    Store(StoreError),
}

impl From<StoreError> for DatabaseError {
    fn from(error: StoreError) -> Self {
        DatabaseError::Store(error)
    }
}

impl From<::tokio_postgres::Error> for DatabaseError {
    fn from(error: ::tokio_postgres::Error) -> Self {
        let Some(db_error) = error.as_db_error() else {
            return if error.is_closed() || std::error::Error::source(&error).is_some_and(|source| source.is::<std::io::Error>()) {
                DatabaseError::ConnectionLost(with_source(&error))
            } else {
                DatabaseError::Store(StoreError::Other(with_source(&error)))
            };
        };
        let text = format!("{}{}", db_error.message(), db_error.detail().map(|detail| format!(" ({detail})")).unwrap_or_default());
        match db_error.code() {
            code if [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE, SqlState::UNIQUE_VIOLATION].contains(code) => {
                DatabaseError::Retry(text)
            }
            code if [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW].contains(code) => {
                DatabaseError::ConnectionLost(text)
            }
            // a statement that another client has prepared on this connection, or this one on another
            code if [SqlState::DUPLICATE_PSTATEMENT, SqlState::INVALID_SQL_STATEMENT_NAME].contains(code) => shared_connections(),
            code if *code == SqlState::LOCK_NOT_AVAILABLE => DatabaseError::Store(StoreError::Held),
            code if *code == SqlState::DISK_FULL => DatabaseError::Store(StoreError::Full),
            code if [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::INSUFFICIENT_PRIVILEGE].contains(code) => {
                DatabaseError::Store(StoreError::ReadOnly(text))
            }
            code if *code == SqlState::QUERY_CANCELED => DatabaseError::Store(StoreError::Slow(text)),
            // the chunk is not the cause: the import stops and can be resumed
            code if [SqlState::TOO_MANY_CONNECTIONS, SqlState::OUT_OF_MEMORY, SqlState::IO_ERROR].contains(code) => {
                DatabaseError::Store(StoreError::ReadOnly(text))
            }
            _ => DatabaseError::Store(StoreError::Other(text)),
        }
    }
}

/// The error where a pooler gives one connection of the database to several clients in turn.
fn shared_connections() -> DatabaseError {
    let reason = "a pooler gives connections of the database to several clients in turn (PgBouncer with pool_mode = transaction or statement), but Stook keeps \
                  settings and statements on its connections: connect to PostgreSQL itself, or set pool_mode = session for this database";
    DatabaseError::Store(StoreError::Wrong(reason.into()))
}

impl From<ConnectError> for DatabaseError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Failed(error) => error.into(),
            ConnectError::Refused(reason) => StoreError::Other(reason).into(),
        }
    }
}

fn with_source(error: &::tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Store(error) => error,
            DatabaseError::Retry(reason) => StoreError::Other(format!("gave up after repeated transaction conflicts: {reason}")),
            DatabaseError::ConnectionLost(reason) => StoreError::ReadOnly(format!("the connection is lost: {reason}")),
            DatabaseError::CommitUnknown(reason) => {
                StoreError::ReadOnly(format!("the connection was lost during a commit; check whether the change was applied: {reason}"))
            }
        }
    }
}

/// The result of all functions in `postgres/`. The error says whether the same work may be tried again.
pub type DbResult<T> = Result<T, DatabaseError>;

/// A parameter of a statement.
pub type SqlParameter<'p> = &'p (dyn ToSql + Sync);

/// Connections opened so far.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// How often a thread that waits for a connection checks whether the result is still wanted, and how often a request to cancel a statement is
/// repeated.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of deferred statements.
const MAX_DEFERRED: usize = 16;

/// An encoded parameter.
#[derive(Debug)]
struct EncodedParameter(Option<BytesMut>);

impl ToSql for EncodedParameter {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match &self.0 {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                IsNull::No
            }
            None => IsNull::Yes,
        })
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A deferred statement, to be sent with the next one.
enum DeferredStatement {
    Batch(Cow<'static, str>),
    Prepared { statement: Statement, parameters: Vec<EncodedParameter>, expected: Option<ExpectedRows> },
}

/// How many rows a statement must touch, and the reason of the conflict if it does not.
struct ExpectedRows {
    rows: u64,
    mismatch_reason: &'static str,
}

impl DeferredStatement {
    async fn send(&self, client: &Client) -> Result<u64, Error> {
        match self {
            DeferredStatement::Batch(sql) => client.batch_execute(sql).await.map(|()| 0),
            DeferredStatement::Prepared { statement, parameters, .. } => client.execute_raw(statement, parameters).await,
        }
    }

    fn check(&self, rows: u64) -> DbResult<()> {
        match self {
            DeferredStatement::Prepared { expected: Some(expected), .. } if expected.rows != rows => {
                Err(DatabaseError::Retry(expected.mismatch_reason.into()))
            }
            _ => Ok(()),
        }
    }
}

/// A connection and the statements prepared on it.
pub struct Session {
    /// A number that no other connection of this process has had.
    pub number: u64,
    runtime: Runtime,
    client: Client,
    /// Encrypts requests to cancel a statement.
    tls: MakeRustlsConnect,
    statements: HashMap<String, Statement>,
    deferred: Vec<DeferredStatement>,
    /// Notifications from other sessions.
    notifications: UnboundedReceiver<()>,
    /// Whether the server was asked to cancel a statement: it may cancel the next one instead, so this connection must not be used again.
    cancelled: bool,
    /// Whether any record was erased when the open transaction began to write.
    pub has_erased: bool,
}

/// Waits for `work`. When its result is not wanted any more, asks the server to cancel the statement.
async fn until_cancelled<T>((client, tls): (&Client, &MakeRustlsConnect), cancel_token: Option<&CancelToken>, work: impl Future<Output = T>) -> T {
    let Some(cancel_token) = cancel_token else { return work.await };
    let mut work = pin!(work);
    if let Either::Left((done, _)) = select(work.as_mut(), pin!(cancel_token.cancelled())).await {
        return done;
    }
    loop {
        // a server that has not started the statement ignores the request, so it is repeated; if it fails, the statement ends by itself
        let _ = client.cancel_token().cancel_query(tls.clone()).await;
        if let Either::Left((done, _)) = select(work.as_mut(), pin!(tokio::time::sleep(CANCEL_CHECK_INTERVAL))).await {
            return done;
        }
    }
}

impl Session {
    fn open(address: &ServerAddress, schema: &str) -> DbResult<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| StoreError::Other(error.to_string()))?;
        let Connected { client, mut connection, tls } = address.connect(|attempt| runtime.block_on(attempt.connect()))?;
        let (sender, notifications) = mpsc::unbounded_channel();
        // this task runs whenever the session waits for a response
        runtime.spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(_) = message {
                    let _ = sender.send(());
                }
            }
        });
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let mut session = Self {
            number,
            runtime,
            client,
            tls,
            statements: HashMap::new(),
            deferred: Vec::new(),
            notifications,
            cancelled: false,
            has_erased: false,
        };
        // Statements outside of a transaction write what may be lost in a crash of the machine (leases); `begin` makes commits durable. A table,
        // however small, is scanned completely only if no index can be used, and joined rows are found one by one. Rows cost more than pages, so that
        // the index that touches fewest rows is used: frequently used data is in memory.
        session.batch(&format!(
            "SET search_path TO \"{schema}\"; SET client_min_messages = warning; SET timezone = 'UTC'; SET jit = off; \
             SET synchronous_commit = off; \
             SET enable_seqscan = off; SET enable_mergejoin = off; SET enable_hashjoin = off; SET random_page_cost = 1; \
             SET cpu_tuple_cost = 0.5; SET cpu_index_tuple_cost = 0.25; SET cpu_operator_cost = 0.05"
        ))?;
        Ok(session)
    }

    /// Sends the deferred statements and another one; returns when all have been answered.
    fn exchange<T>(&mut self, request: impl AsyncFnOnce(&Client) -> Result<T, Error>) -> DbResult<T> {
        let (deferred, client, cancel_token) = (std::mem::take(&mut self.deferred), &self.client, CancelToken::current());
        // each is sent when its future is first polled, in this order
        let work = async { join(join_all(deferred.iter().map(|deferred| deferred.send(client))), request(client)).await };
        let (deferred_rows, result) = self.runtime.block_on(until_cancelled((client, &self.tls), cancel_token.as_ref(), work));
        self.cancelled |= cancel_token.is_some_and(|cancel_token| cancel_token.is_cancelled());
        for (deferred, rows) in deferred.iter().zip(deferred_rows) {
            deferred.check(rows?)?;
        }
        Ok(result?)
    }

    /// Returns the statement, prepared once.
    pub fn prepare(&mut self, sql: &str) -> DbResult<Statement> {
        if let Some(prepared) = self.statements.get(sql) {
            return Ok(prepared.clone());
        }
        // there are as many queries as users think of: forget all statements rather than keep all
        if self.statements.len() >= 256 {
            self.statements.clear();
        }
        let statement = self.runtime.block_on(self.client.prepare(sql))?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Executes a statement; returns how many rows it touched.
    pub fn execute(&mut self, sql: &str, parameters: &[SqlParameter<'_>]) -> DbResult<u64> {
        let statement = self.prepare(sql)?;
        self.exchange(async |client| client.execute(&statement, parameters).await)
    }

    /// Defers a statement: it runs with the next one or before the commit.
    pub fn defer(&mut self, sql: &str, parameters: &[SqlParameter<'_>]) -> DbResult<()> {
        self.defer_statement(sql, parameters, None)
    }

    /// Defers a statement that must touch so many rows; otherwise there was a conflict with another transaction.
    pub fn defer_expecting(&mut self, rows: usize, mismatch_reason: &'static str, sql: &str, parameters: &[SqlParameter<'_>]) -> DbResult<()> {
        self.defer_statement(sql, parameters, Some(ExpectedRows { rows: rows as u64, mismatch_reason }))
    }

    /// Defers statements without parameters.
    pub fn defer_batch(&mut self, sql: impl Into<Cow<'static, str>>) {
        self.deferred.push(DeferredStatement::Batch(sql.into()));
    }

    fn defer_statement(&mut self, sql: &str, parameters: &[SqlParameter<'_>], expected: Option<ExpectedRows>) -> DbResult<()> {
        let statement = self.prepare(sql)?;
        let encode = |(parameter, ty): (&SqlParameter<'_>, &Type)| {
            let mut bytes = BytesMut::new();
            Ok(EncodedParameter(match parameter.to_sql_checked(ty, &mut bytes).map_err(|error| StoreError::Other(error.to_string()))? {
                IsNull::Yes => None,
                IsNull::No => Some(bytes),
            }))
        };
        let parameters = parameters.iter().zip(statement.params()).map(encode).collect::<DbResult<_>>()?;
        self.deferred.push(DeferredStatement::Prepared { statement, parameters, expected });
        if self.deferred.len() < MAX_DEFERRED { Ok(()) } else { self.flush() }
    }

    /// Sends the deferred statements, if there are any.
    fn flush(&mut self) -> DbResult<()> {
        if self.deferred.is_empty() { Ok(()) } else { self.exchange(async |_| Ok(())) }
    }

    /// Returns all rows of a statement.
    pub fn query(&mut self, sql: &str, parameters: &[SqlParameter<'_>]) -> DbResult<Vec<Row>> {
        let statement = self.prepare(sql)?;
        self.exchange(async |client| client.query(&statement, parameters).await)
    }

    /// Returns the first row, if there is one.
    pub fn query_first(&mut self, sql: &str, parameters: &[SqlParameter<'_>]) -> DbResult<Option<Row>> {
        Ok(self.query(sql, parameters)?.into_iter().next())
    }

    /// Returns the first row, which must exist.
    pub fn query_one(&mut self, sql: &str, parameters: &[SqlParameter<'_>]) -> DbResult<Row> {
        self.query_first(sql, parameters)?.ok_or_else(|| StoreError::Other("the database returned no row".into()).into())
    }

    /// Calls `visit` with each row as it arrives.
    pub fn visit(&mut self, sql: &str, parameters: &[SqlParameter<'_>], mut visit: impl FnMut(&Row) -> DbResult<()>) -> DbResult<()> {
        let statement = self.prepare(sql)?;
        let mut rows = pin!(self.exchange(async |client| client.query_raw(&statement, parameters.iter().copied()).await)?);
        let cancel_token = CancelToken::current();
        loop {
            let next = self.runtime.block_on(until_cancelled((&self.client, &self.tls), cancel_token.as_ref(), rows.try_next()));
            self.cancelled |= cancel_token.as_ref().is_some_and(CancelToken::is_cancelled);
            let Some(row) = next? else { return Ok(()) };
            visit(&row)?;
        }
    }

    /// Runs statements without parameters.
    pub fn batch(&mut self, sql: &str) -> DbResult<()> {
        self.exchange(async |client| client.batch_execute(sql).await)
    }

    /// Begins to copy rows of these types. Deferred statements are flushed before: if one of them failed, the copy would not begin, and the client
    /// would receive one response more than it expects.
    pub fn copy_in(&mut self, sql: &str, types: &[Type]) -> DbResult<CopyWriter<'_>> {
        self.flush()?;
        let statement = self.prepare(sql)?;
        let sink = self.exchange(async |client| client.copy_in(&statement).await)?;
        Ok(CopyWriter { runtime: &self.runtime, writer: Box::pin(BinaryCopyInWriter::new(sink, types)) })
    }

    /// Begins a transaction whose commit is as durable as the server is configured to make it. One that does not wait for locks fails with
    /// [`StoreError::Held`] if it would have to.
    pub fn begin(&mut self, waits_for_locks: bool) {
        let settings = match waits_for_locks {
            true => "SET LOCAL synchronous_commit TO DEFAULT",
            false => "SET LOCAL synchronous_commit TO DEFAULT; SET LOCAL lock_timeout = '20ms'",
        };
        self.defer_batch(format!("BEGIN; {settings}; SELECT pg_advisory_xact_lock_shared({WRITERS_LOCK})"));
    }

    /// Begins a read-only transaction on one snapshot.
    pub fn begin_snapshot(&mut self) {
        self.defer_batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    }

    /// Returns when another session has sent a notification, and after `timeout` at the latest.
    pub fn wait_for_notification(&mut self, timeout: Duration) -> DbResult<()> {
        let notifications = &mut self.notifications;
        let received = self.runtime.block_on(async { tokio::time::timeout(timeout, notifications.recv()).await });
        // notifications that have arrived meanwhile need no second check
        while notifications.try_recv().is_ok() {}
        if received != Ok(None) && self.is_usable() { Ok(()) } else { Err(DatabaseError::ConnectionLost("the connection was closed".into())) }
    }

    /// Commits. If the connection is lost now, the outcome is unknown.
    pub fn commit(&mut self) -> DbResult<()> {
        self.flush()?;
        self.batch("COMMIT").map_err(|error| match error {
            DatabaseError::ConnectionLost(reason) => DatabaseError::CommitUnknown(reason),
            other => other,
        })
    }

    /// Rolls back the open transaction.
    pub fn roll_back(&mut self) -> DbResult<()> {
        self.deferred.clear();
        self.batch("ROLLBACK")
    }

    /// Whether the connection can be used again.
    fn is_usable(&self) -> bool {
        !self.client.is_closed() && self.deferred.is_empty() && !self.cancelled
    }
}

/// Copies rows into a table.
pub struct CopyWriter<'s> {
    runtime: &'s Runtime,
    writer: Pin<Box<BinaryCopyInWriter>>,
}

impl CopyWriter<'_> {
    /// Writes a row.
    pub fn write(&mut self, row: &[SqlParameter<'_>]) -> DbResult<()> {
        Ok(self.runtime.block_on(self.writer.as_mut().write(row))?)
    }

    /// Returns when all rows are in the table.
    pub fn finish(mut self) -> DbResult<u64> {
        Ok(self.runtime.block_on(self.writer.as_mut().finish())?)
    }
}

struct IdleSessions {
    sessions: Vec<Session>,
    open: usize,
    waiting: u64,
}

/// How many connections a pool has, how many of them are idle, and how many callers wait for one.
pub struct PoolStats {
    pub open: u64,
    pub idle: u64,
    pub waiting: u64,
}

/// How long callers of a pool wait.
#[derive(Debug, Clone, Copy)]
pub struct PoolWaits {
    /// For a free connection, and for a server that restarts.
    pub wait: Duration,
    /// For a server that cannot be reached. After so long without it, callers are refused at once.
    pub outage: Duration,
}

/// A server that cannot be reached.
struct Outage {
    since: Instant,
    /// When a connection was last tried.
    tried: Instant,
}

/// While callers are refused at once, one of them in this time tries to connect.
const OUTAGE_RETRY: Duration = Duration::from_millis(500);

/// A bounded number of connections.
pub struct Pool {
    address: ServerAddress,
    schema: String,
    waits: PoolWaits,
    max_open: usize,
    idle: Mutex<IdleSessions>,
    returned: Condvar,
    /// Shared by the pools of a store: all of them connect to the same server.
    outage: Arc<Mutex<Option<Outage>>>,
}

/// A connection from the pool; it is returned when dropped.
pub struct Pooled<'p> {
    pool: &'p Pool,
    session: Option<Session>,
}

impl Pool {
    pub fn new(address: ServerAddress, schema: String, waits: PoolWaits, max_open: usize) -> Self {
        Self {
            address,
            schema,
            waits,
            max_open,
            idle: Mutex::new(IdleSessions { sessions: Vec::new(), open: 0, waiting: 0 }),
            returned: Condvar::new(),
            outage: Arc::default(),
        }
    }

    /// Another pool of connections to the same store, which knows of the same outages.
    pub fn beside(&self, max_open: usize) -> Self {
        Self { outage: self.outage.clone(), ..Self::new(self.address.clone(), self.schema.clone(), self.waits, max_open) }
    }

    /// The schema that contains all tables.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Takes over the connections of another pool to the same store.
    pub fn adopt(&self, other: Pool) {
        let sessions = other.idle.into_inner().unwrap_or_else(PoisonError::into_inner).sessions;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.open += sessions.len();
        idle.sessions.extend(sessions);
    }

    /// Returns a connection, as soon as one is free and the server responds.
    pub fn get(&self) -> DbResult<Pooled<'_>> {
        let deadline = Instant::now() + self.waits.wait;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            while let Some(session) = idle.sessions.pop() {
                if session.is_usable() {
                    return Ok(Pooled { pool: self, session: Some(session) });
                }
                idle.open -= 1;
            }
            if idle.open < self.max_open {
                self.check_reachable()?;
                idle.open += 1;
                drop(idle);
                return self.open(deadline);
            }
            let mut remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Err(StoreError::Busy(self.waits.wait.as_secs()).into());
            }
            if let Some(cancel_token) = CancelToken::current() {
                if cancel_token.is_cancelled() {
                    return Err(StoreError::Cancelled.into());
                }
                remaining = remaining.min(CANCEL_CHECK_INTERVAL);
            }
            idle.waiting += 1;
            idle = self.returned.wait_timeout(idle, remaining).unwrap_or_else(PoisonError::into_inner).0;
            idle.waiting -= 1;
        }
    }

    /// Returns the numbers of connections now.
    pub fn stats(&self) -> PoolStats {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        PoolStats { open: idle.open as u64, idle: idle.sessions.len() as u64, waiting: idle.waiting }
    }

    /// Checks that each connection is one to the database, and not to a pooler that shares them: then one sees what another has set.
    pub fn check_own_connections(&self) -> DbResult<()> {
        let (mut first, mut second) = (self.get()?, self.get()?);
        let mark = format!("{}-{}", std::process::id(), first.number);
        first.batch(&format!("SET stook.session = '{mark}'"))?;
        let seen: Option<String> = second.query_one("SELECT current_setting('stook.session', true)", &[])?.try_get(0)?;
        if seen.is_some_and(|seen| seen == mark) { Err(shared_connections()) } else { Ok(()) }
    }

    /// Opens a connection outside the pool that receives the notifications of a channel.
    pub fn listen(&self, channel: &str) -> DbResult<Session> {
        let mut session = Session::open(&self.address, &self.schema)?;
        session.batch(&format!("LISTEN \"{channel}\""))?;
        Ok(session)
    }

    /// Connects; waits for a server that is starting or restarting, unless it has been away for long.
    fn open(&self, deadline: Instant) -> DbResult<Pooled<'_>> {
        let mut pause = Duration::from_millis(10);
        loop {
            let opened = Session::open(&self.address, &self.schema);
            let lasts = self.note_reachable(!matches!(opened, Err(DatabaseError::ConnectionLost(_))));
            match opened {
                Ok(session) => return Ok(Pooled { pool: self, session: Some(session) }),
                Err(DatabaseError::ConnectionLost(_)) if Instant::now() + pause < deadline && !lasts => std::thread::sleep(pause),
                Err(error) => {
                    self.idle.lock().unwrap_or_else(PoisonError::into_inner).open -= 1;
                    // those who wait for a connection learn that there will be none
                    self.returned.notify_all();
                    return Err(error);
                }
            }
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    /// Fails at once while the server has been away for long; but one caller in a while may try to connect.
    fn check_reachable(&self) -> DbResult<()> {
        let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(outage) = outage.as_mut().filter(|outage| outage.since.elapsed() >= self.waits.outage) else { return Ok(()) };
        if outage.tried.elapsed() < OUTAGE_RETRY {
            let seconds = outage.since.elapsed().as_secs();
            return Err(StoreError::ReadOnly(format!("the database server has not answered for {seconds} s; try again later")).into());
        }
        outage.tried = Instant::now();
        Ok(())
    }

    /// Notes whether the server was reached; returns whether it has been away for long.
    fn note_reachable(&self, is_reached: bool) -> bool {
        let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        if is_reached {
            *outage = None;
            return false;
        }
        let now = Instant::now();
        outage.get_or_insert(Outage { since: now, tried: now }).since.elapsed() >= self.waits.outage
    }

    /// Does `work` on a connection, again if the connection was lost before anything was committed, or on a conflict with another transaction.
    pub fn run<T>(&self, mut work: impl FnMut(&mut Session) -> DbResult<T>) -> DbResult<T> {
        let deadline = Instant::now() + self.waits.wait;
        let mut attempts = 0;
        loop {
            let result = {
                let mut session = self.get()?;
                let result = work(&mut session);
                if result.is_err() {
                    session.roll_back_or_discard();
                }
                result
            };
            attempts += 1;
            match result {
                Err(DatabaseError::Retry(_)) if attempts < 50 => std::thread::sleep(Duration::from_millis(attempts)),
                Err(DatabaseError::ConnectionLost(_)) if Instant::now() < deadline => {}
                ended => return ended,
            }
        }
    }
}

impl Pooled<'_> {
    /// Rolls back; a connection on which that fails is not used again.
    fn roll_back_or_discard(&mut self) {
        let is_usable = self.session.as_mut().is_some_and(|session| session.roll_back().is_ok());
        if !is_usable {
            self.session = None;
        }
    }
}

impl std::ops::Deref for Pooled<'_> {
    type Target = Session;

    #[expect(clippy::expect_used, reason = "only `roll_back_or_discard` takes the session, when nothing is done with it any more")]
    fn deref(&self) -> &Session {
        self.session.as_ref().expect("a session")
    }
}

impl std::ops::DerefMut for Pooled<'_> {
    #[expect(clippy::expect_used, reason = "as above")]
    fn deref_mut(&mut self) -> &mut Session {
        self.session.as_mut().expect("a session")
    }
}

impl Drop for Pooled<'_> {
    fn drop(&mut self) {
        let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        match self.session.take() {
            Some(session) if session.is_usable() => idle.sessions.push(session),
            _ => idle.open -= 1,
        }
        self.pool.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stook_testkit::postgres::TestServer;

    #[test]
    fn a_copy_after_a_statement_that_fails_leaves_the_connection_usable() {
        let Some(server) = TestServer::for_test(&["fsync=off"]) else { return };
        let address = ServerAddress::parse(&server.url("postgres")).expect("an address");
        let mut session = Session::open(&address, "public").expect("it connects");
        session.batch("CREATE TABLE copied(a bigint)").expect("a table");
        for _ in 0..20 {
            session.begin(true);
            session.defer("SELECT 1 / (SELECT count(*) FROM copied)", &[]).expect("it is kept");
            assert!(session.copy_in("COPY copied FROM STDIN BINARY", &[Type::INT8]).is_err(), "nothing is divided by zero");
            session.batch("ROLLBACK").expect("the transaction ends");
            assert_eq!(session.query_one("SELECT count(*) FROM copied", &[]).expect("it answers").get::<_, i64>(0), 0);
        }
    }
}
