//! The embedded store: one SQLite file, write-ahead log, one writer and many readers.
//!
//! * [`writer`] is the only connection that writes: a thread that groups bulk units into one transaction and closes it at
//!   the next unit's boundary when somebody waits. Another process on the file is waited for, or reported.
//! * [`tables`] says how a definition becomes tables, [`records`] writes rows, [`query`] turns plans into SQL, [`work`] is
//!   the queue and the journal.
//!
//! A record is a row of a rowid table with a separate unique index on (tenant, key): random keys go in three to four times
//! faster than into a table clustered by key. The index holds keys [`packed`], and is asked where a record is looked for; what
//! was read is written back to its row. The kept document is the last column, so that reading anything else does not touch its
//! pages.
//!
//! Any program that knows SQLite can read, check and copy the file.

mod backup;
mod log;
mod packed;
mod query;
mod records;
mod room;
mod settle;
#[cfg(debug_assertions)]
mod statements;
mod tables;
mod tags;
mod upgrade;
mod work;
mod writer;

pub use backup::{BackupReport, backup};
pub use packed::teach;

use crate::access::{NewToken, Token, Tokens};
use crate::journal::JournalEntry;
use crate::plan::{Aggregate, Queries, QueryPlan, ResultRows};
use crate::queue::*;
use crate::shape::{AccessMode, StoreSchema};
use crate::tag::{CollectionTags, Tag};
use crate::vitals::StoreStats;
use crate::wanted::CancelToken;
use crate::*;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::key::Key;
use stook_catalogue::value::{SmolStr, Value};
use tables::StoreTables;
use writer::{SqliteWriter, WriterCommand};

/// How the embedded store is opened.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// How long to wait for another process that writes, in seconds.
    pub wait: u64,
    /// Memory for pages of the connection that writes, in bytes.
    pub writer_cache: usize,
    /// Memory for pages of each connection that reads, in bytes; at most 16 are kept open. A sort has as much again and goes on in
    /// temporary files beyond that, and so do unique rows beyond 2 MiB: a query has some 20 MB, whatever it sorts.
    pub reader_cache: usize,
    /// Rows after which a group of bulk units is committed.
    pub group_rows: u64,
    /// Only read; nothing is created or changed, not even on a medium that cannot be written.
    pub read_only: bool,
    /// Whether the file is made and changed as the definition wants it; if not, a store that does not fit is refused.
    pub prepare: bool,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { wait: 30, writer_cache: 96 << 20, reader_cache: 8 << 20, group_rows: 30_000, read_only: false, prepare: true }
    }
}

/// The embedded store.
pub struct SqliteStore {
    catalogue: Arc<Catalogue>,
    tables: Arc<StoreTables>,
    path: PathBuf,
    options: SqliteOptions,
    readers: Mutex<Vec<Connection>>,
    /// How many of them are out of that list, answering.
    reading: AtomicU64,
    looking: Mutex<Vec<ChangeProbe>>,
    tenants: RwLock<HashMap<Tenant, i64>>,
    writer: Option<SqliteWriter>,
    /// The time given last where there is no writer to keep it.
    reading_clock: AtomicI64,
    added: ChunkSignal,
    changes: Vec<String>,
    redefined: bool,
    still: Option<ImmutableFile>,
}

/// A file that is read without locks, because they cannot be written beside it, and how it was then. Who changes it would not be
/// noticed by the database.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ImmutableFile {
    size: u64,
    changed: Option<SystemTime>,
}

impl ImmutableFile {
    /// How the file is now; nothing where what was written last may be in a log that cannot be read without writing.
    fn of(path: &Path) -> Option<Self> {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        if std::fs::metadata(log).is_ok_and(|log| log.len() > 0) {
            return None;
        }
        let file = std::fs::metadata(path).ok()?;
        Some(Self { size: file.len(), changed: file.modified().ok() })
    }
}

/// A connection that only looks whether anybody has committed, which the database tells without reading a page.
struct ChangeProbe {
    connection: Connection,
    /// What the database said last.
    version: i64,
    /// The stand of that time.
    stand: i64,
}

impl ChangeProbe {
    fn stand(&mut self, tables: &StoreTables) -> Result<i64> {
        let mut statement = self.connection.prepare_cached("PRAGMA data_version").map_err(failure)?;
        let version = statement.query_row([], |row| row.get(0)).map_err(failure)?;
        drop(statement);
        if version != self.version {
            tables::check(&self.connection, tables)?;
            self.stand = tables::read_clock(&self.connection)?;
            self.version = version;
        }
        Ok(self.stand)
    }
}

/// Instructions of the database after which it is looked whether their answer is still wanted: some ten microseconds.
const LOOK_EVERY: i32 = 1_000;

/// How often chunks that another process has added are looked for.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Wakes those who wait for chunks.
#[derive(Default)]
struct ChunkSignal {
    times: Mutex<u64>,
    told: Condvar,
}

impl ChunkSignal {
    fn tell(&self) {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.told.notify_all();
    }

    fn wait(&self, timeout: Duration) {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *times;
        let _ = self.told.wait_timeout_while(times, timeout, |now| *now == before);
    }
}

impl SqliteStore {
    /// Opens or creates the store of a catalogue and applies additions of its definition.
    ///
    /// # Errors
    /// When the file cannot be used, or the definition does not fit what is stored.
    pub fn open(path: &Path, catalogue: Arc<Catalogue>, options: SqliteOptions) -> Result<Self> {
        let tables = StoreTables::new(&catalogue);
        Self::open_as(path, catalogue, tables, options)
    }

    /// What a store was prepared for; nothing where there is none yet. The file stays as it is.
    ///
    /// # Errors
    /// When it cannot be read, or has a format that is not known.
    pub fn prepared_for(path: &Path) -> Result<Option<StoreSchema>> {
        if !path.exists() {
            return Ok(None);
        }
        let options = SqliteOptions { read_only: true, ..SqliteOptions::default() };
        let read = || {
            let (connection, _still) = connect_reading(path, &options)?;
            let has_meta = "SELECT EXISTS(SELECT 1 FROM sqlite_schema WHERE name = 'meta')";
            if !connection.query_row(has_meta, [], |row| row.get::<_, bool>(0)).map_err(failure)? {
                return Ok(None);
            }
            if !tables::meta(&connection, "format")?.is_some_and(|format| upgrade::FROM.contains(&&*format)) {
                tables::check_format(&connection)?;
            }
            Ok(Some(crate::shape::stored(tables::meta(&connection, "shape")?.as_deref())?))
        };
        read().map_err(|error| after_waiting(error, options.wait))
    }

    /// Opens what a store knows of jobs, chunks and tokens, whatever its definition.
    pub(crate) fn open_ledger(path: &Path, options: SqliteOptions) -> Result<Self> {
        Self::open_as(path, Arc::new(Catalogue::empty()), StoreTables::of_ledger(), SqliteOptions { prepare: false, ..options })
    }

    fn open_as(path: &Path, catalogue: Arc<Catalogue>, tables: StoreTables, options: SqliteOptions) -> Result<Self> {
        let (prepares, wait) = (options.prepare && !options.read_only, options.wait);
        if !prepares && !path.exists() {
            return Err(StoreError::Wrong(format!("there is no store at {}", path.display())));
        }
        Self::open_now(path, catalogue, Arc::new(tables), (options, prepares)).map_err(|error| after_waiting(error, wait))
    }

    fn open_now(path: &Path, catalogue: Arc<Catalogue>, tables: Arc<StoreTables>, (options, prepares): (SqliteOptions, bool)) -> Result<Self> {
        let (mut connection, still) = if options.read_only { connect_reading(path, &options)? } else { (connect(path, &options, None)?, None) };
        let (mut changes, mut redefined) = (Vec::new(), false);
        if !prepares {
            let purpose = match options.read_only {
                _ if tables.is_of_ledger() => AccessMode::Admin,
                true => AccessMode::Read,
                false => AccessMode::Write,
            };
            tables::fits(&connection, &tables, purpose)?;
        }
        if !options.read_only {
            use_log(&connection, Duration::from_secs(options.wait))?;
        }
        if prepares {
            (changes, redefined) = tables::prepare(&mut connection, &tables)?;
        }
        let generations = tables::read_generations(&connection, &catalogue)?;
        tables.set_generations(generations);
        let reading_clock = AtomicI64::new(tables::read_clock(&connection)?);
        let writer = if options.read_only { None } else { Some(SqliteWriter::start(connection, path, tables.clone(), &options)?) };
        let (path, readers, reading, looking, tenants) = (path.to_owned(), Mutex::default(), AtomicU64::new(0), Mutex::default(), RwLock::default());
        let added = ChunkSignal::default();
        Ok(Self { catalogue, tables, path, options, readers, reading, looking, tenants, writer, reading_clock, added, changes, redefined, still })
    }

    /// Runs `read`, which asks several questions, on one snapshot.
    fn with_snapshot<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.with_reader(|connection| {
            let _snapshot = connection.unchecked_transaction().map_err(failure)?;
            read(connection)
        })
    }

    /// Runs `read` on a connection of its own.
    fn with_reader<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let wanted = CancelToken::now();
        if wanted.as_ref().is_some_and(CancelToken::is_over) {
            return Err(StoreError::Unwanted);
        }
        let pooled = self.readers.lock().ok().and_then(|mut readers| readers.pop());
        let mut connection = match pooled {
            Some(connection) => connection,
            None => connect(&self.path, &SqliteOptions { read_only: true, ..self.options.clone() }, self.still.as_ref())?,
        };
        let is_watched = wanted.is_some();
        if let Some(wanted) = wanted {
            connection.progress_handler(LOOK_EVERY, Some(move || wanted.is_over())).map_err(failure)?;
        }
        self.reading.fetch_add(1, Ordering::Relaxed);
        let result = read(&connection).map_err(|error| match error {
            // an index that is gone is no damage where another process has prepared the store for another definition
            StoreError::Other(_) if matches!(tables::check(&connection, &self.tables), Err(StoreError::DefinitionChanged)) => {
                StoreError::DefinitionChanged
            }
            error => after_waiting(error, self.options.wait),
        });
        self.reading.fetch_sub(1, Ordering::Relaxed);
        if is_watched {
            connection.progress_handler(0, None::<fn() -> bool>).map_err(failure)?;
        }
        if self.still.is_some() && self.still != ImmutableFile::of(&self.path) {
            return Err(StoreError::Other("the file changed while it was read without locks (its folder is read-only); try again".into()));
        }
        if let Ok(mut readers) = self.readers.lock()
            && readers.len() < 16
        {
            readers.push(connection);
        }
        result
    }

    /// Runs a small write as interactive work of its own.
    fn write<T: Send + 'static>(&self, work: impl FnMut(&Connection, i64) -> Result<T> + Send + 'static) -> Result<T> {
        self.write_as(Priority::Interactive, work)
    }

    fn write_as<T: Send + 'static>(&self, urgency: Priority, mut work: impl FnMut(&Connection, i64) -> Result<T> + Send + 'static) -> Result<T> {
        let Some(writer) = &self.writer else { return Err(StoreError::ReadOnly("the store was opened read-only".into())) };
        let (answer, received) = std::sync::mpsc::channel();
        let small = move |connection: &Connection, stamp: i64| {
            let value = work(connection, stamp)?;
            let _ = answer.send(value);
            Ok(CommitReceipt { committed_at: stamp, rows: 1 })
        };
        writer.run(WriterCommand::Function(Box::new(small)), urgency).wait()?;
        // of work that was begun again the last answer counts
        received.try_iter().last().ok_or_else(|| StoreError::Other("the writer thread has stopped".into()))
    }

    /// Runs a small write after which chunks may wait.
    fn write_and_tell<T: Send + 'static>(&self, work: impl FnMut(&Connection, i64) -> Result<T> + Send + 'static) -> Result<T> {
        let value = self.write(work)?;
        self.added.tell();
        Ok(value)
    }

    /// The number of a tenant, if it has ever written. Numbers never change, so they are remembered.
    fn tenant_id(&self, connection: &Connection, tenant: &Tenant) -> Result<Option<i64>> {
        let known = self.tenants.read().ok().and_then(|tenants| tenants.get(tenant).copied());
        if known.is_some() {
            return Ok(known);
        }
        let mut statement = connection.prepare_cached("SELECT id FROM tenants WHERE name = ?").map_err(failure)?;
        let found: Option<i64> = statement.query_row(params![tenant.as_str()], |row| row.get(0)).optional().map_err(failure)?;
        if let (Some(id), Ok(mut tenants)) = (found, self.tenants.write()) {
            tenants.insert(tenant.clone(), id);
        }
        Ok(found)
    }
}

/// Opens a connection that reads a file which may be on a medium that cannot be written: then no locks can be made beside it, and
/// none are needed.
fn connect_reading(path: &Path, options: &SqliteOptions) -> Result<(Connection, Option<ImmutableFile>)> {
    let look = |connection: Connection| {
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0)).map_err(failure)?;
        Ok(connection)
    };
    let reason = match connect(path, options, None).and_then(look) {
        Err(StoreError::ReadOnly(reason)) => reason,
        opened => return Ok((opened?, None)),
    };
    let Some(still) = ImmutableFile::of(path) else {
        return Err(StoreError::ReadOnly(format!(
            "{reason}; the latest changes are in its write-ahead log ({}-wal), which needs a writable folder: copy both files to one",
            path.display()
        )));
    };
    let connection = connect(path, options, Some(&still)).and_then(look)?;
    Ok((connection, Some(still)))
}

/// The name of a file of which the database is told that nobody changes it.
fn unchanging(path: &Path) -> PathBuf {
    let mut name = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => name.push(char::from(*byte)),
            other => name.push_str(&format!("%{other:02X}")),
        }
    }
    PathBuf::from(name + "?immutable=1")
}

/// Opens a connection with what every connection needs.
fn connect(path: &Path, options: &SqliteOptions, still: Option<&ImmutableFile>) -> Result<Connection> {
    let mut access = match (options.read_only, options.prepare) {
        (true, _) => OpenFlags::SQLITE_OPEN_READ_ONLY,
        (false, true) => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        (false, false) => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    let mut name = path.to_owned();
    if still.is_some() {
        access |= OpenFlags::SQLITE_OPEN_URI;
        name = unchanging(path);
    }
    #[cfg_attr(not(debug_assertions), allow(unused_mut, reason = "only builds for tests look at statements"))]
    let mut connection = Connection::open_with_flags(name, access | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(failure)?;
    #[cfg(debug_assertions)]
    statements::note(&mut connection).map_err(failure)?;
    connection.busy_timeout(Duration::from_secs(options.wait)).map_err(failure)?;
    rusqlite::vtab::array::load_module(&connection).map_err(failure)?;
    packed::teach(&connection).map_err(failure)?;
    connection.set_prepared_statement_cache_capacity(128);
    // indexes are named: a statement need not be planned anew for other parameters
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(failure)?;
    let cache = if options.read_only { options.reader_cache } else { options.writer_cache } / 1024;
    // what is read may be sorted, however much it is; who writes keeps little aside, and often
    let aside = if options.read_only { "FILE" } else { "MEMORY" };
    // the size of a page comes first: the database counts the cache in pages of the size it knows of
    let settings = format!(
        "PRAGMA page_size = 8192; PRAGMA cache_size = -{cache}; PRAGMA synchronous = FULL; PRAGMA temp_store = {aside}; PRAGMA foreign_keys = OFF;"
    );
    connection.execute_batch(&settings).map_err(failure)?;
    Ok(connection)
}

/// Switches a file to the write-ahead log. When several processes do so at once the database does not wait for them by itself.
fn use_log(connection: &Connection, wait: Duration) -> Result<()> {
    let deadline = Instant::now() + wait;
    let mode = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0)).map_err(failure);
    let switch = || {
        if mode("PRAGMA journal_mode")? != "wal" {
            let now = mode("PRAGMA journal_mode = WAL")?;
            if now != "wal" {
                return Err(StoreError::Other(format!("the file system does not support shared memory (the journal's mode stays {now})")));
            }
        }
        Ok(())
    };
    loop {
        match switch() {
            Err(StoreError::Busy(_)) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            ended => return ended,
        }
    }
}

/// A database error as the contract's.
fn failure(error: rusqlite::Error) -> StoreError {
    let code = error.sqlite_error_code();
    match code {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::OperationInterrupted) => StoreError::Unwanted,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy(0),
        // nothing is wrong with the chunk at hand: the import stops and can be resumed
        Some(ErrorCode::SystemIoFailure) => StoreError::ReadOnly(error.to_string()),
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly(error.to_string()),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => StoreError::ReadOnly(error.to_string()),
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Broken(error.to_string()),
        _ => StoreError::Other(error.to_string()),
    }
}

/// The error with the time that was waited, which the place where it came up does not know.
fn after_waiting(error: StoreError, wait: u64) -> StoreError {
    if matches!(error, StoreError::Busy(_)) { StoreError::Busy(wait) } else { error }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

impl Store for SqliteStore {
    fn clock(&self) -> i64 {
        self.writer.as_ref().map_or_else(|| writer::tick(&self.reading_clock), SqliteWriter::clock)
    }

    fn changes(&self) -> &[String] {
        &self.changes
    }

    fn has_redefined(&self) -> bool {
        self.redefined
    }

    fn check_definition(&self) -> Result<()> {
        self.with_reader(|connection| tables::check(connection, &self.tables))
    }

    fn damage(&self) -> Result<Vec<String>> {
        self.with_reader(|connection| {
            let mut statement = connection.prepare("PRAGMA integrity_check").map_err(failure)?;
            let found = statement.query_map([], |row| row.get(0)).and_then(Iterator::collect::<rusqlite::Result<Vec<String>>>);
            // the first answer begins with a line that names the database
            let lines = found.map_err(failure)?.join("\n");
            let mut found: Vec<String> = lines.lines().filter(|line| *line != "ok" && !line.starts_with("***")).map(str::to_owned).collect();
            // the database does not know what these columns must be; rows of a damaged file cannot all be read
            if found.is_empty() {
                for own in &self.tables.collections {
                    found.extend(own.wrong_columns(connection)?);
                }
            }
            Ok(found)
        })
    }

    fn generation(&self, source: usize, feed: usize) -> u32 {
        self.tables.generation(source, feed)
    }

    fn vitals(&self) -> Result<StoreStats> {
        let in_use = self.reading.load(Ordering::Relaxed);
        let idle = self.readers.lock().map_or(0, |readers| readers.len()) as u64;
        // the log is not always there
        let bytes = ["", "-wal"].iter().filter_map(|end| {
            let mut path = self.path.clone().into_os_string();
            path.push(end);
            std::fs::metadata(path).ok()
        });
        let bytes = bytes.map(|file| file.len()).sum();
        let writing = self.writer.as_ref().map(SqliteWriter::vitals).unwrap_or_default();
        Ok(StoreStats { connections: u64::from(self.writer.is_some()) + idle + in_use, connections_in_use: in_use, bytes, ..writing })
    }

    fn tenants(&self) -> Result<Vec<Tenant>> {
        self.with_reader(|connection| {
            let mut statement = connection.prepare_cached("SELECT name FROM tenants ORDER BY id").map_err(failure)?;
            let names = statement.query_map([], |row| row.get::<_, String>(0)).map_err(failure)?;
            names.map(|name| Tenant::new(&name.map_err(failure)?)).collect()
        })
    }
}

impl Records for SqliteStore {
    fn read(&self, tenant: &Tenant, collection: usize, keys: &[Key], detail: ReadDetail) -> Result<Vec<Option<StoredRecord>>> {
        self.with_reader(|connection| {
            let Some(tenant) = self.tenant_id(connection, tenant)? else { return Ok(vec![None; keys.len()]) };
            records::read(connection, &self.tables, tenant, collection, keys, detail)
        })
    }

    fn read_damaged(&self, tenant: &Tenant, collection: usize, keys: &[Key], detail: ReadDetail) -> Result<Vec<Option<StoredRecord>>> {
        self.with_reader(|connection| {
            let Some(tenant) = self.tenant_id(connection, tenant)? else { return Ok(vec![None; keys.len()]) };
            records::read_damaged(connection, &self.tables, tenant, collection, keys, detail)
        })
    }

    fn keys_behind(&self, tenant: &Tenant, collection: usize, key: &str, limit: usize) -> Result<Vec<Key>> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => settle::keys_behind(connection, &self.tables, tenant, collection, key, limit),
            None => Ok(Vec::new()),
        })
    }

    fn log(&self, tenant: &Tenant, collection: usize, key: &Key, before: Option<i64>, limit: usize) -> Result<Vec<ChangeLogEntry>> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => records::log(connection, &self.tables, tenant, collection, key, before, limit),
            None => Ok(Vec::new()),
        })
    }
}

impl Queries for SqliteStore {
    fn visit(&self, plan: &QueryPlan, visit: &mut dyn FnMut(Vec<Value>) -> Result<()>) -> Result<()> {
        // a page at a time where that costs no more: whoever takes what is found slowly keeps the log from beginning anew
        let Some(mut page) = query::KeyPager::of(&self.catalogue, plan) else {
            return self.with_reader(|connection| match self.tenant_id(connection, &plan.tenant)? {
                Some(tenant) => query::visit(connection, &self.catalogue, tenant, plan, visit),
                None => Ok(()),
            });
        };
        loop {
            let rows = self.with_reader(|connection| match self.tenant_id(connection, &plan.tenant)? {
                Some(tenant) => page.read(connection, &self.catalogue, tenant),
                None => Ok(Vec::new()),
            })?;
            let goes_on = page.goes_on(&rows);
            for row in rows {
                visit(page.row(row))?;
            }
            if !goes_on {
                return Ok(());
            }
        }
    }

    fn count(&self, plan: &QueryPlan) -> Result<u64> {
        self.with_reader(|connection| match self.tenant_id(connection, &plan.tenant)? {
            Some(tenant) => query::count(connection, &self.catalogue, tenant, plan),
            None => Ok(0),
        })
    }

    fn find_and_count(&self, plan: &QueryPlan) -> Result<(ResultRows, u64)> {
        self.with_snapshot(|connection| {
            let Some(tenant) = self.tenant_id(connection, &plan.tenant)? else { return Ok((ResultRows::default(), 0)) };
            let mut rows = Vec::new();
            query::visit(connection, &self.catalogue, tenant, plan, &mut |row| {
                rows.push(row);
                Ok(())
            })?;
            Ok((ResultRows { rows }, query::count(connection, &self.catalogue, tenant, plan)?))
        })
    }

    fn aggregate(&self, plan: &QueryPlan, aggregates: &[Aggregate]) -> Result<Vec<Value>> {
        self.with_snapshot(|connection| {
            let tenant = self.tenant_id(connection, &plan.tenant)?.unwrap_or(-1);
            aggregates.iter().map(|aggregate| query::aggregate(connection, &self.catalogue, tenant, plan, *aggregate)).collect()
        })
    }

    fn explain(&self, plan: &QueryPlan) -> Result<Vec<String>> {
        self.with_reader(|connection| query::explain(connection, &self.catalogue, plan))
    }
}

impl Units for SqliteStore {
    fn submit(&self, unit: Box<dyn Unit>, urgency: Priority) -> PendingCommit {
        let Some(writer) = &self.writer else {
            let (answer, pending) = CommitReply::new(None);
            answer.send(Err(StoreError::ReadOnly("the store was opened read-only".into())), Some(unit));
            return pending;
        };
        writer.run(WriterCommand::Unit(unit), urgency)
    }

    fn sync(&self) -> Result<()> {
        // any interactive commit syncs the log, and with it all that was written before
        self.write(|_, _| Ok(()))
    }
}

impl Commits for SqliteStore {
    fn is_near(&self) -> bool {
        true
    }

    fn stand(&self) -> Result<Option<i64>> {
        let looking = self.looking.lock().ok().and_then(|mut looking| looking.pop());
        let mut looking = match looking {
            Some(looking) => looking,
            None => ChangeProbe {
                connection: connect(
                    &self.path,
                    &SqliteOptions { read_only: true, reader_cache: 1 << 20, ..self.options.clone() },
                    self.still.as_ref(),
                )?,
                version: -1,
                stand: 0,
            },
        };
        let stand = looking.stand(&self.tables).map_err(|error| after_waiting(error, self.options.wait))?;
        if let Ok(mut all) = self.looking.lock() {
            all.push(looking);
        }
        Ok(Some(stand))
    }

    fn watch(&self, watch: Arc<dyn CommitObserver>) {
        if let Some(writer) = &self.writer {
            writer.watch(watch);
        }
    }
}

impl Settling for SqliteStore {
    fn edges(&self, tenant: &Tenant, link: u32, target: &str) -> Result<Vec<Edge>> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => settle::edges(connection, &self.tables, tenant, link, (target, None), usize::MAX >> 1),
            None => Ok(Vec::new()),
        })
    }

    fn between(&self, tenant: &Tenant, link: u32, ranges: &[(SmolStr, i64, i64)]) -> Result<Vec<Edge>> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => settle::between(connection, tenant, link, ranges, usize::MAX >> 1),
            None => Ok(Vec::new()),
        })
    }

    fn marks(&self, tenant: &Tenant, limit: usize) -> Result<Vec<StaleMark>> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => records::marks(connection, tenant, limit),
            None => Ok(Vec::new()),
        })
    }

    fn has_marks(&self, tenant: &Tenant, job: JobId) -> Result<bool> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => settle::has_marks(connection, tenant, job),
            None => Ok(false),
        })
    }

    fn owing(&self) -> Result<Vec<Tenant>> {
        self.with_reader(settle::owing)
    }

    fn is_settled(&self, job: JobId) -> Result<bool> {
        self.with_reader(|connection| settle::is_settled(connection, job))
    }

    fn settle(&self, tenant: &Tenant, pass: &Arc<dyn SettlePass>) -> Result<PassReport> {
        let Some(writer) = &self.writer else { return Err(StoreError::ReadOnly("the store was opened read-only".into())) };
        let passed = Arc::new(Mutex::new(PassReport::default()));
        let changed = Arc::new(Mutex::new(Vec::new()));
        let (tenant, pass, tables) = (tenant.clone(), pass.clone(), self.tables.clone());
        let (answer, told) = (passed.clone(), changed.clone());
        let work = move |connection: &Connection, stamp: i64| {
            let (passed, changed) = settle::pass(connection, &tables, &tenant, &*pass, stamp)?;
            let rows = passed.rows;
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = passed;
            *told.lock().unwrap_or_else(PoisonError::into_inner) = changed;
            Ok(CommitReceipt { committed_at: stamp, rows })
        };
        writer.run(WriterCommand::Pass(Box::new(work), changed), Priority::Bulk).wait()?;
        Ok(passed.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn settled_by(&self) -> Result<Option<String>> {
        self.with_reader(|connection| tables::meta(connection, "settled"))
    }

    fn set_settled_by(&self, rules: &str, links: &[u32]) -> Result<()> {
        let (rules, links) = (rules.to_owned(), serde_json::Value::from(links).to_string());
        self.write(move |connection, _| {
            tables::put_meta(connection, "settled", &rules)?;
            records::execute(connection, "DELETE FROM edges WHERE link NOT IN (SELECT value FROM json_each(?))", params![links])
        })
    }
}

impl Tags for SqliteStore {
    fn tags(&self, tenant: &Tenant, collection: usize) -> Result<CollectionTags> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => tags::tags(connection, &self.tables, tenant, collection),
            None => Ok(CollectionTags::default()),
        })
    }

    fn put_tags(&self, tenant: &Tenant, collection: usize, tags: Vec<Tag>, new: bool) -> Result<()> {
        let (tables, tenant) = (self.tables.clone(), tenant.clone());
        self.write(move |connection, stamp| tags::put(connection, &tables, &tenant, collection, &tags, new, stamp))
    }

    fn delete_tag(&self, tenant: &Tenant, collection: usize, name: &str) -> Result<bool> {
        let (tables, tenant, name) = (self.tables.clone(), tenant.clone(), name.to_owned());
        self.write(move |connection, stamp| tags::delete(connection, &tables, &tenant, collection, &name, stamp))
    }

    fn tagged(&self, tenant: &Tenant, collection: usize, keys: &[Key]) -> Result<Vec<Vec<String>>> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => tags::tagged(connection, &self.tables, tenant, collection, keys),
            None => Ok(vec![Vec::new(); keys.len()]),
        })
    }

    fn trees(&self, tenant: &Tenant, collection: usize, keys: &[Key]) -> Result<Vec<PackedTrees>> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => tags::trees(connection, &self.tables, tenant, collection, keys),
            None => Ok(vec![Vec::new(); keys.len()]),
        })
    }
}

impl Tokens for SqliteStore {
    fn create_token(&self, token: NewToken) -> Result<u64> {
        self.write(move |connection, stamp| {
            let sql = "INSERT INTO api_tokens(digest, tenant, role, name, created) VALUES (?, ?, ?, ?, ?)";
            let tenant = token.tenant.as_ref().map(Tenant::as_str);
            records::execute(connection, sql, params![token.digest.as_slice(), tenant, token.role.name(), token.name, stamp])?;
            Ok(connection.last_insert_rowid() as u64)
        })
    }

    fn tokens(&self) -> Result<Vec<Token>> {
        self.with_reader(|connection| {
            let sql = "SELECT id, digest, tenant, role, name, created FROM api_tokens WHERE revoked IS NULL ORDER BY id";
            let mut statement = connection.prepare_cached(sql).map_err(failure)?;
            let mut rows = statement.query([]).map_err(failure)?;
            let mut tokens = Vec::new();
            while let Some(row) = rows.next().map_err(failure)? {
                let get = || -> rusqlite::Result<_> {
                    Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?, row.get(2)?, row.get::<_, String>(3)?, row.get(4)?, row.get(5)?))
                };
                let (id, digest, tenant, role, name, created) = get().map_err(failure)?;
                tokens.push(Token::from_row(id, &digest, tenant, &role, name, created)?);
            }
            Ok(tokens)
        })
    }

    fn has_had_tokens(&self) -> Result<bool> {
        self.with_reader(|connection| connection.query_row("SELECT EXISTS(SELECT 1 FROM api_tokens)", [], |row| row.get(0)).map_err(failure))
    }

    fn revoke_token(&self, id: u64) -> Result<bool> {
        self.write(move |connection, stamp| {
            let sql = "UPDATE api_tokens SET revoked = ? WHERE id = ? AND revoked IS NULL";
            let mut statement = connection.prepare_cached(sql).map_err(failure)?;
            Ok(statement.execute(params![stamp, id as i64]).map_err(failure)? == 1)
        })
    }
}

impl Queue for SqliteStore {
    fn create_job(&self, job: NewJob) -> Result<JobId> {
        self.write(move |connection, stamp| work::create_job(connection, &job, stamp))
    }

    fn add_chunks(&self, job: JobId, chunks: Vec<NewChunk>, progress: SplitProgress) -> Result<()> {
        self.write_and_tell(move |connection, stamp| work::add_chunks(connection, job, &chunks, progress, stamp))
    }

    fn lease(&self, job: Option<JobId>, limit: usize, seconds: u64) -> Result<Vec<LeasedChunk>> {
        // whoever looks again and again does not disturb those who write
        let now = self.clock();
        let (line, expired) = self.with_snapshot(|connection| work::line(connection, &self.tables, job, now))?;
        if !expired && line.next().is_none() {
            return Ok(Vec::new());
        }
        let tables = self.tables.clone();
        self.write_as(Priority::Bulk, move |connection, stamp| work::lease(connection, &tables, job, limit, seconds, stamp))
    }

    fn renew(&self, fences: &[LeaseToken], seconds: u64) -> Result<Vec<LeaseToken>> {
        let fences = fences.to_vec();
        self.write(move |connection, stamp| work::renew(connection, &fences, seconds, stamp))
    }

    fn give_back(&self, fences: &[LeaseToken]) -> Result<()> {
        let fences = fences.to_vec();
        self.write_and_tell(move |connection, _| work::give_back(connection, &fences))
    }

    fn is_idle(&self) -> Result<bool> {
        self.with_reader(work::is_idle)
    }

    fn wait_for_chunks(&self, timeout: Duration) {
        // other processes do not tell
        self.added.wait(timeout.min(ASK_AGAIN));
    }

    fn take_over(&self, job: JobId) -> Result<u64> {
        self.write_and_tell(move |connection, _| work::take_over(connection, job))
    }

    fn release(&self, fence: LeaseToken, reason: &str, delay_seconds: u64, attempts: u32) -> Result<()> {
        let reason = reason.to_owned();
        self.write(move |connection, stamp| work::release(connection, fence, &reason, delay_seconds, attempts, stamp))
    }

    fn job(&self, job: JobId) -> Result<Job> {
        let now = self.clock();
        self.with_snapshot(|connection| work::job(connection, job, now))
    }

    fn job_state(&self, job: JobId) -> Result<JobState> {
        self.with_reader(|connection| work::job_state(connection, job))
    }

    fn jobs(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<Job>> {
        let now = self.clock();
        self.with_snapshot(|connection| work::jobs(connection, None, tenant, limit, now))
    }

    fn interrupt_job(&self, job: JobId) -> Result<()> {
        self.write(move |connection, stamp| work::interrupt_job(connection, job, stamp))
    }

    fn end_job(&self, job: JobId, state: JobState, reason: &str) -> Result<()> {
        let reason = reason.to_owned();
        self.write(move |connection, stamp| work::end_job(connection, job, state, &reason, stamp))
    }

    fn forget_job(&self, job: JobId) -> Result<()> {
        self.write(move |connection, _| work::forget_job(connection, job))
    }

    fn journal(&self, job: JobId, after: u64, limit: usize, troubles_only: bool) -> Result<Vec<JournalEntry>> {
        self.with_snapshot(|connection| {
            let names = tables::collections(connection, &self.tables)?;
            work::journal(connection, &names, job, after, limit, troubles_only)
        })
    }

    fn failed_document(&self, job: JobId, document: u64) -> Result<Option<Vec<u8>>> {
        self.with_reader(|connection| work::failed_document(connection, job, document))
    }

    fn chunks(&self, job: Option<JobId>) -> Result<Vec<ChunkInfo>> {
        self.with_reader(|connection| work::chunks(connection, job))
    }

    fn chunk(&self, chunk: ChunkId) -> Result<ChunkData> {
        self.with_reader(|connection| work::chunk(connection, chunk))
    }

    fn retry(&self, job: JobId, ordinal: Option<u32>) -> Result<u64> {
        self.write_and_tell(move |connection, _| work::retry(connection, job, ordinal))
    }

    fn load_chunk(&self, chunk: ChunkId, slice: ChunkSlice) -> Result<()> {
        self.write_and_tell(move |connection, _| work::load_chunk(connection, chunk, &slice))
    }

    fn replace_chunk(&self, chunk: ChunkId, parts: Vec<NewChunk>) -> Result<()> {
        self.write_and_tell(move |connection, stamp| work::replace_chunk(connection, chunk, &parts, stamp))
    }
}
