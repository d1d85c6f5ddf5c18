//! The store on a PostgreSQL server, which any number of processes share.
//!
//! * [`session`] opens connections, keeps a bounded number of them and says what an error means; [`writer`] takes units in
//!   line and commits each in a transaction of its own.
//! * [`tables`] says how a definition becomes tables of one schema, [`records`] writes rows, [`query`] turns plans into SQL,
//!   [`work`] is the queue and the journal, [`values`] says how types are written.

mod query;
mod records;
mod session;
mod settle;
mod tables;
mod tags;
mod values;
mod work;
mod writer;

use crate::access::{NewToken, Token, Tokens};
use crate::journal::JournalEntry;
use crate::plan::{Aggregate, Queries, QueryPlan, ResultRows};
use crate::queue::*;
use crate::shape::{AccessMode, StoreSchema};
use crate::tag::{CollectionTags, Tag};
use crate::vitals::StoreStats;
use crate::wanted::CancelToken;
use crate::*;
use ::tokio_postgres::Config;
use session::{DatabaseError, DbResult, Pool, Session};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::key::Key;
use stook_catalogue::value::{SmolStr, Value};
use tables::StoreTables;
use values::RowExt;
use work::LeaseView;
use writer::{PostgresWriter, WriteContext};

/// How a store on a server is opened.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// How long to wait for the server, or for a free connection, in seconds.
    pub wait: u64,
    /// Most connections at a time.
    pub connections: usize,
    /// Whether tables are created and changed as the definition wants them; if not, a store that does not fit is refused.
    pub prepare: bool,
    /// Without `prepare`: records are only read, so a definition by which rows look alike fits, too.
    pub read_only: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { wait: 30, connections: 16, prepare: true, read_only: false }
    }
}

/// How long a server is waited for when a store is opened.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// The schema of a store whose URL names none.
const SCHEMA: &str = "stook";

/// A store on a server.
pub struct PostgresStore {
    catalogue: Arc<Catalogue>,
    bench: WriteContext,
    writer: PostgresWriter,
    /// The connection that hears of new chunks.
    ear: Mutex<Option<Session>>,
    changes: Vec<String>,
    redefined: bool,
    /// The one connection that asks for snapshots.
    eye: Pool,
    stand: Mutex<ObservedSnapshot>,
}

/// The snapshot that was seen last, and its number. A snapshot that was seen again stands for the same data only if it was
/// seen on the same connection: a server that has crashed gives the numbers of transactions that were lost to others.
#[derive(Default)]
struct ObservedSnapshot {
    connection: u64,
    snapshot: String,
    number: i64,
}

/// The server's time, as far as this process knows it; strictly increasing.
struct ServerClock {
    last: AtomicI64,
    /// How far the server's clock is ahead of this machine's, in microseconds.
    offset: AtomicI64,
}

impl ServerClock {
    fn now(&self) -> i64 {
        let here = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
        here + self.offset.load(Ordering::Relaxed)
    }

    fn tick(&self) -> i64 {
        let now = self.now();
        let advance = |last: i64| Some(now.max(last + 1));
        self.last.fetch_update(Ordering::SeqCst, Ordering::SeqCst, advance).map_or(now, |last| now.max(last + 1))
    }

    fn hear(&self, stamp: i64) {
        self.offset.fetch_add(stamp - self.now(), Ordering::Relaxed);
        self.last.fetch_max(stamp, Ordering::SeqCst);
    }
}

/// Begins a transaction that writes; returns its time. Nobody may have changed the definition.
fn begin(session: &mut Session, tables: &StoreTables, clock: &ServerClock, waits: bool) -> DbResult<i64> {
    session.begin(waits);
    let sql = "SELECT setval('clock', greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, last_value + 1, $1::bigint + 1)),
        (SELECT value FROM meta WHERE name = 'definition') FROM clock";
    let row = session.one(sql, &[&clock.last.load(Ordering::SeqCst)])?;
    if !tables.holds(row.at::<Option<&str>>(1)?) {
        return Err(StoreError::DefinitionChanged.into());
    }
    let stamp = row.at(0)?;
    clock.hear(stamp);
    Ok(stamp)
}

/// Takes `schema=NAME` out of a URL.
fn settings(url: &str) -> Result<(Config, String)> {
    // not with the URL itself, which may hold a password
    let wrong = |reason: String| StoreError::Wrong(format!("this is not the URL of a PostgreSQL store: {reason}"));
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let (own, others): (Vec<&str>, Vec<&str>) = query.split('&').filter(|part| !part.is_empty()).partition(|part| part.starts_with("schema="));
    let schema = own.last().and_then(|part| part.strip_prefix("schema=")).unwrap_or(SCHEMA).to_owned();
    let plain = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
    if schema.is_empty() || schema.len() > 63 || !schema.chars().all(plain) {
        return Err(wrong("a schema's name has small letters, digits and _".into()));
    }
    let rest = if others.is_empty() { address.to_owned() } else { format!("{address}?{}", others.join("&")) };
    let mut config: Config = rest.parse().map_err(|error: ::tokio_postgres::Error| wrong(error.to_string()))?;
    if config.get_application_name().is_none() {
        config.application_name("stook");
    }
    config.connect_timeout(Duration::from_secs(10)).keepalives_idle(Duration::from_secs(30));
    Ok((config, schema))
}

impl PostgresStore {
    /// Opens or creates the store of a catalogue at `postgres://USER@HOST/DATABASE?schema=NAME` and applies additions of its
    /// definition.
    ///
    /// # Errors
    /// When the server cannot be used, or the definition does not fit what is stored.
    pub fn open(url: &str, catalogue: Arc<Catalogue>, options: &PostgresOptions) -> Result<Self> {
        let tables = StoreTables::new(&catalogue);
        let purpose = if options.read_only { AccessMode::Read } else { AccessMode::Write };
        Self::open_as(url, catalogue, tables, (purpose, options))
    }

    /// Opens what a store knows of jobs, chunks and tokens, whatever its definition.
    pub(crate) fn open_ledger(url: &str, options: &PostgresOptions) -> Result<Self> {
        let options = PostgresOptions { prepare: false, ..options.clone() };
        Self::open_as(url, Arc::new(Catalogue::empty()), StoreTables::of_ledger(), (AccessMode::Admin, &options))
    }

    fn open_as(url: &str, catalogue: Arc<Catalogue>, tables: StoreTables, (purpose, options): (AccessMode, &PostgresOptions)) -> Result<Self> {
        let (config, schema) = settings(url)?;
        let tables = Arc::new(tables);
        // whoever waits for a command to begin hears soon of a server that is not there
        let first = Pool::new(config.clone(), schema.clone(), FIRST_WAIT.min(Duration::from_secs(options.wait)), 1);
        let wait = Duration::from_secs(options.wait);
        let eye = Pool::new(config.clone(), schema.clone(), wait, 1);
        let pool = Arc::new(Pool::new(config, schema, wait, options.connections.max(2)));
        let ready = |session: &mut Session| match options.prepare {
            true => tables::prepare(session, &tables, pool.schema()),
            false => tables::fits(session, &tables, pool.schema(), purpose).map(|()| (Vec::new(), false)),
        };
        let (changes, redefined) = first.run(ready).map_err(|trouble| match trouble {
            DatabaseError::ConnectionLost(reason) => StoreError::Other(format!("the server does not answer: {reason}")),
            other => other.into(),
        })?;
        pool.adopt(first);
        let clock = Arc::new(ServerClock { last: AtomicI64::new(0), offset: AtomicI64::new(0) });
        let last: i64 = pool.run(|session| {
            tables::remember(session, &tables)?;
            let sql = "SELECT greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, last_value) FROM clock";
            session.one(sql, &[])?.at(0)
        })?;
        clock.hear(last);
        let bench = WriteContext { pool, tables, clock, tenants: Arc::default(), written: Arc::default(), growth: Arc::default() };
        let writer = PostgresWriter::start(bench.clone())?;
        Ok(Self { catalogue, bench, writer, ear: Mutex::default(), changes, redefined, eye, stand: Mutex::default() })
    }

    /// What a store was prepared for; nothing where there is none yet.
    ///
    /// # Errors
    /// When the server does not answer, or another program wrote it.
    pub fn prepared_for(url: &str) -> Result<Option<StoreSchema>> {
        let (config, schema) = settings(url)?;
        let pool = Pool::new(config, schema, FIRST_WAIT, 1);
        let read = pool.run(|session| {
            if !session.one("SELECT to_regclass('meta') IS NOT NULL", &[])?.at::<bool>(0)? {
                return Ok(None);
            }
            tables::check_format(session)?;
            Ok(Some(crate::shape::stored(tables::meta(session, "shape")?.as_deref())?))
        });
        read.map_err(|trouble| match trouble {
            DatabaseError::ConnectionLost(reason) => StoreError::Other(format!("the server does not answer: {reason}")),
            other => other.into(),
        })
    }

    /// Asks on a connection of its own.
    fn ask<T>(&self, read: impl FnMut(&mut Session) -> DbResult<T>) -> Result<T> {
        let wanted = CancelToken::now();
        let is_over = || wanted.as_ref().is_some_and(CancelToken::is_over);
        if is_over() {
            return Err(StoreError::Unwanted);
        }
        let checked = self.bench.pool.run(read);
        match checked {
            // whatever the server says to a statement that it was asked to give up
            Err(_) if is_over() => Err(StoreError::Unwanted),
            // a table that is gone is no damage where another process has prepared the store for another definition
            Err(DatabaseError::Store(StoreError::Other(reason))) => {
                let changed = self.bench.pool.run(|session| tables::check(session, &self.bench.tables));
                Err(if matches!(changed, Err(DatabaseError::Store(StoreError::DefinitionChanged))) {
                    StoreError::DefinitionChanged
                } else {
                    StoreError::Other(reason)
                })
            }
            other => Ok(other?),
        }
    }

    /// Asks several questions of one snapshot.
    fn ask_snapshot<T>(&self, mut read: impl FnMut(&mut Session) -> DbResult<T>) -> Result<T> {
        self.ask(|session| {
            session.begin_snapshot();
            let value = read(session)?;
            session.batch("COMMIT")?;
            Ok(value)
        })
    }

    fn write<T>(&self, work: impl FnMut(&mut Session, i64) -> DbResult<T>) -> Result<T> {
        Ok(self.bench.transaction(work)?)
    }

    /// Small work after which a job may have ended.
    fn write_and_finish(&self, job: JobId, work: impl FnMut(&mut Session, i64) -> DbResult<()>) -> Result<()> {
        self.write(work)?;
        Ok(self.bench.finish_job(job)?)
    }

    /// Small work after which chunks may wait.
    fn write_and_tell<T>(&self, mut work: impl FnMut(&mut Session) -> DbResult<T>) -> Result<T> {
        self.write(|session, _| {
            let value = work(session)?;
            work::tell(session, self.bench.pool.schema())?;
            Ok(value)
        })
    }

    fn tenant_id(&self, session: &mut Session, tenant: &Tenant) -> DbResult<Option<i64>> {
        self.bench.tenants.find(session, tenant)
    }
}

impl Store for PostgresStore {
    fn clock(&self) -> i64 {
        self.bench.clock.tick()
    }

    fn changes(&self) -> &[String] {
        &self.changes
    }

    fn has_redefined(&self) -> bool {
        self.redefined
    }

    fn check_definition(&self) -> Result<()> {
        self.ask(|session| tables::check(session, &self.bench.tables))
    }

    fn generation(&self, source: usize, feed: usize) -> u32 {
        self.bench.tables.generation(source, feed)
    }

    fn vitals(&self) -> Result<StoreStats> {
        let sql =
            "SELECT coalesce(sum(pg_table_size(oid)), 0)::bigint FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind IN ('r', 'i')";
        let bytes: i64 = self.ask(|session| session.one(sql, &[&self.bench.pool.schema()])?.at(0))?;
        let (connections, idle, asking) = self.bench.pool.standing();
        let (waiting, written) = (self.writer.waiting() + asking, self.bench.written.vitals());
        Ok(StoreStats { waiting, connections, connections_in_use: connections - idle, bytes: bytes as u64, ..written })
    }

    fn tenants(&self) -> Result<Vec<Tenant>> {
        let rows = self.ask(|session| session.query("SELECT name FROM tenants ORDER BY id", &[]))?;
        rows.iter().map(|row| Tenant::new(row.at::<&str>(0).map_err(StoreError::from)?)).collect()
    }
}

impl Records for PostgresStore {
    fn read(&self, tenant: &Tenant, collection: usize, keys: &[Key], detail: ReadDetail) -> Result<Vec<Option<StoredRecord>>> {
        self.ask(|session| {
            let Some(tenant) = self.tenant_id(session, tenant)? else { return Ok(vec![None; keys.len()]) };
            records::read(session, &self.bench.tables, tenant, collection, keys, detail)
        })
    }

    fn read_damaged(&self, tenant: &Tenant, collection: usize, keys: &[Key], detail: ReadDetail) -> Result<Vec<Option<StoredRecord>>> {
        self.ask(|session| {
            let Some(tenant) = self.tenant_id(session, tenant)? else { return Ok(vec![None; keys.len()]) };
            records::read_damaged(session, &self.bench.tables, tenant, collection, keys, detail)
        })
    }

    fn versions(&self, tenant: &Tenant, collection: usize, keys: &[Key]) -> Result<Vec<Option<Version>>> {
        self.ask(|session| {
            let Some(tenant) = self.tenant_id(session, tenant)? else { return Ok(vec![None; keys.len()]) };
            records::versions(session, &self.bench.tables, tenant, collection, keys)
        })
    }

    fn keys_behind(&self, tenant: &Tenant, collection: usize, key: &str, limit: usize) -> Result<Vec<Key>> {
        self.ask(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => settle::keys_behind(session, &self.bench.tables, tenant, collection, key, limit),
            None => Ok(Vec::new()),
        })
    }

    fn log(&self, tenant: &Tenant, collection: usize, key: &Key, before: Option<i64>, limit: usize) -> Result<Vec<ChangeLogEntry>> {
        self.ask(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => records::log(session, &self.bench.tables, tenant, collection, key, before, limit),
            None => Ok(Vec::new()),
        })
    }
}

impl Queries for PostgresStore {
    fn visit(&self, plan: &QueryPlan, visit: &mut dyn FnMut(Vec<Value>) -> Result<()>) -> Result<()> {
        let mut begun = false;
        self.ask(|session| {
            let Some(tenant) = self.tenant_id(session, &plan.tenant)? else { return Ok(()) };
            // what was shown cannot be taken back: rows are not shown twice because a connection went
            if begun {
                return Err(StoreError::ReadOnly("the connection was lost while rows were read; ask again".into()).into());
            }
            query::visit(session, &self.catalogue, tenant, plan, &mut |row| {
                begun = true;
                visit(row)
            })
        })
    }

    fn count(&self, plan: &QueryPlan) -> Result<u64> {
        self.ask(|session| match self.tenant_id(session, &plan.tenant)? {
            Some(tenant) => query::count(session, &self.catalogue, tenant, plan),
            None => Ok(0),
        })
    }

    fn find_and_count(&self, plan: &QueryPlan) -> Result<(ResultRows, u64)> {
        self.ask_snapshot(|session| {
            let Some(tenant) = self.tenant_id(session, &plan.tenant)? else { return Ok((ResultRows::default(), 0)) };
            let mut rows = Vec::new();
            query::visit(session, &self.catalogue, tenant, plan, &mut |row| {
                rows.push(row);
                Ok(())
            })?;
            Ok((ResultRows { rows }, query::count(session, &self.catalogue, tenant, plan)?))
        })
    }

    fn aggregate(&self, plan: &QueryPlan, aggregates: &[Aggregate]) -> Result<Vec<Value>> {
        self.ask_snapshot(|session| {
            let tenant = self.tenant_id(session, &plan.tenant)?.unwrap_or(-1);
            aggregates.iter().map(|aggregate| query::aggregate(session, &self.catalogue, tenant, plan, *aggregate)).collect()
        })
    }

    fn explain(&self, plan: &QueryPlan) -> Result<Vec<String>> {
        self.ask(|session| query::explain(session, &self.catalogue, plan))
    }
}

impl Units for PostgresStore {
    fn submit(&self, unit: Box<dyn Unit>, urgency: Priority) -> PendingCommit {
        self.writer.run(unit, urgency)
    }

    fn sync(&self) -> Result<()> {
        // every commit is on the server's disk when it returns
        Ok(())
    }
}

impl Commits for PostgresStore {
    fn stand(&self) -> Result<Option<i64>> {
        if self.bench.tables.distributed() {
            // other servers commit what this one does not see
            return Ok(None);
        }
        let number = self.eye.run(|session| {
            let row = session.one("SELECT pg_current_snapshot()::text", &[])?;
            let (connection, snapshot): (u64, &str) = (session.number, row.at(0)?);
            let mut stand = self.stand.lock().unwrap_or_else(PoisonError::into_inner);
            if stand.connection != connection || stand.snapshot != snapshot {
                *stand = ObservedSnapshot { connection, snapshot: snapshot.into(), number: stand.number + 1 };
            }
            Ok(stand.number)
        })?;
        Ok(Some(number))
    }
}

impl Settling for PostgresStore {
    fn edges(&self, tenant: &Tenant, link: u32, target: &str) -> Result<Vec<Edge>> {
        self.ask(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => settle::edges(session, &self.bench.tables, tenant, link, &[(target.to_owned(), None)], usize::MAX >> 1),
            None => Ok(Vec::new()),
        })
    }

    fn between(&self, tenant: &Tenant, link: u32, ranges: &[(SmolStr, i64, i64)]) -> Result<Vec<Edge>> {
        self.ask(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => settle::between(session, &self.bench.tables, tenant, link, ranges, usize::MAX >> 1),
            None => Ok(Vec::new()),
        })
    }

    fn marks(&self, tenant: &Tenant, limit: usize) -> Result<Vec<StaleMark>> {
        let lanes: Vec<i64> = (0..i64::from(crate::LANES)).collect();
        self.ask(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => records::marks(session, &self.bench.tables, tenant, &lanes, limit),
            None => Ok(Vec::new()),
        })
    }

    fn has_marks(&self, tenant: &Tenant, job: JobId) -> Result<bool> {
        self.ask(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => settle::has_marks(session, tenant, job),
            None => Ok(false),
        })
    }

    fn owing(&self) -> Result<Vec<Tenant>> {
        self.ask(|session| settle::owing(session, &self.bench.tables))
    }

    fn is_settled(&self, job: JobId) -> Result<bool> {
        self.ask(|session| settle::is_settled(session, job))
    }

    fn settle(&self, tenant: &Tenant, pass: &Arc<dyn SettlePass>) -> Result<PassReport> {
        let bench = &self.bench;
        let Some(id) = self.ask(|session| self.tenant_id(session, tenant))? else { return Ok(PassReport::default()) };
        // done twice it answers marks that are there the second time
        let mut refused = Vec::new();
        let work = |session: &mut Session, stamp: i64| {
            settle::pass(session, &bench.tables, bench.pool.schema(), (tenant, id), (&**pass, &mut refused), stamp)
        };
        let (passed, sizes) = bench.transaction(work)?;
        bench.count(sizes);
        Ok(passed)
    }

    fn settled_by(&self) -> Result<Option<String>> {
        self.ask(|session| tables::meta(session, "settled"))
    }

    fn set_settled_by(&self, rules: &str, links: &[u32]) -> Result<()> {
        let links: Vec<i64> = links.iter().map(|link| i64::from(*link)).collect();
        self.write(|session, _| {
            tables::put_meta(session, "settled", rules)?;
            session.execute("DELETE FROM edges WHERE NOT link = ANY($1)", &[&links])?;
            Ok(())
        })
    }
}

impl Tags for PostgresStore {
    fn tags(&self, tenant: &Tenant, collection: usize) -> Result<CollectionTags> {
        self.ask(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => tags::tags(session, &self.bench.tables, tenant, collection),
            None => Ok(CollectionTags::default()),
        })
    }

    fn put_tags(&self, tenant: &Tenant, collection: usize, tags: Vec<Tag>, new: bool) -> Result<()> {
        self.write(|session, stamp| tags::put(session, &self.bench.tables, tenant, collection, &tags, new, stamp))
    }

    fn delete_tag(&self, tenant: &Tenant, collection: usize, name: &str) -> Result<bool> {
        self.write(|session, stamp| tags::delete(session, &self.bench.tables, tenant, collection, name, stamp))
    }

    fn tagged(&self, tenant: &Tenant, collection: usize, keys: &[Key]) -> Result<Vec<Vec<String>>> {
        self.ask(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => tags::tagged(session, &self.bench.tables, tenant, collection, keys),
            None => Ok(vec![Vec::new(); keys.len()]),
        })
    }

    fn trees(&self, tenant: &Tenant, collection: usize, keys: &[Key]) -> Result<Vec<PackedTrees>> {
        self.ask(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => tags::trees(session, &self.bench.tables, tenant, collection, keys),
            None => Ok(vec![Vec::new(); keys.len()]),
        })
    }
}

impl Tokens for PostgresStore {
    fn create_token(&self, token: NewToken) -> Result<u64> {
        let sql = "INSERT INTO api_tokens(digest, tenant, role, name, created) VALUES ($1, $2, $3, $4, $5) RETURNING id";
        let tenant = token.tenant.as_ref().map(Tenant::as_str);
        let id = self.bench.transaction_once(|session, stamp| {
            let row = session.one(sql, &[&token.digest.as_slice(), &tenant, &token.role.name(), &token.name, &stamp])?;
            row.at::<i64>(0)
        })?;
        Ok(id as u64)
    }

    fn tokens(&self) -> Result<Vec<Token>> {
        self.ask(|session| {
            let sql = "SELECT id, digest, tenant, role, name, created FROM api_tokens WHERE revoked IS NULL ORDER BY id";
            let rows = session.query(sql, &[])?;
            let token = |row: &::tokio_postgres::Row| -> DbResult<Token> {
                Ok(Token::from_row(row.at(0)?, row.at(1)?, row.at(2)?, row.at(3)?, row.at(4)?, row.at(5)?)?)
            };
            rows.iter().map(token).collect()
        })
    }

    fn has_had_tokens(&self) -> Result<bool> {
        self.ask(|session| session.one("SELECT EXISTS(SELECT 1 FROM api_tokens)", &[])?.at(0))
    }

    fn revoke_token(&self, id: u64) -> Result<bool> {
        let sql = "UPDATE api_tokens SET revoked = $1 WHERE id = $2 AND revoked IS NULL";
        self.write(|session, stamp| Ok(session.execute(sql, &[&stamp, &(id as i64)])? == 1))
    }
}

impl Queue for PostgresStore {
    fn create_job(&self, job: NewJob) -> Result<JobId> {
        Ok(self.bench.transaction_once(|session, stamp| work::create_job(session, &job, stamp))?)
    }

    fn add_chunks(&self, job: JobId, chunks: Vec<NewChunk>, progress: SplitProgress) -> Result<()> {
        self.write_and_tell(|session| work::add_chunks(session, job, &chunks, progress))?;
        Ok(self.bench.finish_job(job)?)
    }

    fn lease(&self, job: Option<JobId>, limit: usize, seconds: u64) -> Result<Vec<LeasedChunk>> {
        let tables = &self.bench.tables;
        let LeaseView { line, expired, maybe_finished: quiet, now } = self.ask(|session| work::look(session, tables, job))?;
        if expired {
            for dead in self.ask(|session| work::bury(session, now))? {
                self.bench.finish_job(dead)?;
            }
        }
        let each = if job.is_some() { limit } else { 1 };
        let leases = line.lease(limit, each, |choice, limit| {
            self.ask(|session| match choice.share.max_running {
                Some(most) => work::take_within(session, choice, now, most, limit, seconds),
                None => work::take(session, choice, now, limit, seconds),
            })
        })?;
        if leases.is_empty() {
            quiet.into_iter().try_for_each(|job| self.bench.finish_job(job))?;
        }
        Ok(leases)
    }

    fn renew(&self, fences: &[LeaseToken], seconds: u64) -> Result<Vec<LeaseToken>> {
        self.write(|session, stamp| work::renew(session, fences, seconds, stamp))
    }

    fn give_back(&self, fences: &[LeaseToken]) -> Result<()> {
        self.write_and_tell(|session| work::give_back(session, fences))
    }

    fn is_idle(&self) -> Result<bool> {
        self.ask(work::is_idle)
    }

    fn wait_for_chunks(&self, timeout: Duration) {
        // who cannot be told asks again after a while
        let Ok(mut ear) = self.ear.try_lock() else { return std::thread::sleep(timeout) };
        let told = match ear.take() {
            Some(session) => Ok(session),
            None => self.bench.pool.listen(&work::channel(self.bench.pool.schema())),
        };
        match told.and_then(|mut session| session.wait_to_be_told(timeout).map(|()| session)) {
            Ok(session) => *ear = Some(session),
            Err(_) => std::thread::sleep(timeout),
        }
    }

    fn take_over(&self, job: JobId) -> Result<u64> {
        self.write_and_tell(|session| work::take_over(session, job))
    }

    fn release(&self, fence: LeaseToken, reason: &str, delay_seconds: u64, attempts: u32) -> Result<()> {
        self.write_and_finish(fence.chunk.job, |session, stamp| work::release(session, fence, reason, delay_seconds, attempts, stamp))
    }

    fn job(&self, job: JobId) -> Result<Job> {
        self.ask_snapshot(|session| work::job(session, job))
    }

    fn job_state(&self, job: JobId) -> Result<JobState> {
        self.ask(|session| work::job_state(session, job))
    }

    fn jobs(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<Job>> {
        self.ask_snapshot(|session| work::jobs(session, None, tenant, limit))
    }

    fn interrupt_job(&self, job: JobId) -> Result<()> {
        self.write(|session, stamp| work::interrupt_job(session, job, stamp))
    }

    fn end_job(&self, job: JobId, state: JobState, reason: &str) -> Result<()> {
        self.write(|session, stamp| work::end_job(session, job, state, reason, stamp))
    }

    fn forget_job(&self, job: JobId) -> Result<()> {
        self.write(|session, _| work::forget_job(session, job))
    }

    fn journal(&self, job: JobId, after: u64, limit: usize, troubles_only: bool) -> Result<Vec<JournalEntry>> {
        self.ask_snapshot(|session| {
            let names = tables::collections(session, &self.bench.tables)?;
            work::journal(session, &names, job, after, limit, troubles_only)
        })
    }

    fn failed_document(&self, job: JobId, document: u64) -> Result<Option<Vec<u8>>> {
        self.ask(|session| work::failed_document(session, job, document))
    }

    fn chunks(&self, job: Option<JobId>) -> Result<Vec<ChunkInfo>> {
        self.ask(|session| work::chunks(session, job))
    }

    fn chunk(&self, chunk: ChunkId) -> Result<ChunkData> {
        self.ask(|session| work::chunk(session, chunk))
    }

    fn retry(&self, job: JobId, ordinal: Option<u32>) -> Result<u64> {
        self.write_and_tell(|session| work::retry(session, job, ordinal))
    }

    fn load_chunk(&self, chunk: ChunkId, slice: ChunkSlice) -> Result<()> {
        Ok(self.bench.transaction_once(|session, _| {
            work::load_chunk(session, chunk, &slice)?;
            work::tell(session, self.bench.pool.schema())
        })?)
    }

    fn replace_chunk(&self, chunk: ChunkId, parts: Vec<NewChunk>) -> Result<()> {
        self.bench.transaction_once(|session, _| {
            work::replace_chunk(session, chunk, &parts)?;
            work::tell(session, self.bench.pool.schema())
        })?;
        Ok(self.bench.finish_job(chunk.job)?)
    }
}
