//! The store in a file: opens it, and keeps its reading connections and its writer.

use super::connection::{ImmutableFile, SqliteOptions, connect, connect_reading, use_log};
use super::error::{after_waiting, failure};
use super::tables::{self, StoreTables};
use super::upgrade;
use super::writer::{SqliteWriter, WriterCommand};
use crate::sql::shape::{AccessMode, StoreSchema};
use crate::wanted::CancelToken;
use crate::*;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;
use stook_catalogue::definition::Catalogue;

/// A store in a file.
pub struct SqliteStore {
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) tables: Arc<StoreTables>,
    pub(super) path: PathBuf,
    pub(super) options: SqliteOptions,
    pub(super) readers: Mutex<Vec<Connection>>,
    /// Number of reading connections in use, which are not in `readers`.
    pub(super) reading: AtomicU64,
    pub(super) looking: Mutex<Vec<ChangeProbe>>,
    tenants: RwLock<HashMap<Tenant, i64>>,
    pub(super) writer: Option<SqliteWriter>,
    /// The last time that was given, if there is no writer to keep it.
    pub(super) reading_clock: AtomicI64,
    pub(super) added: ChunkSignal,
    pub(super) changes: Vec<String>,
    pub(super) redefined: bool,
    pub(super) still: Option<ImmutableFile>,
}

/// A connection that only checks whether any process has committed, which the database can tell without reading a page.
pub struct ChangeProbe {
    pub(super) connection: Connection,
    /// The last `data_version`, if it was read.
    pub(super) version: Option<i64>,
    /// The commit number at that version.
    pub(super) stand: i64,
}

impl ChangeProbe {
    pub(super) fn commit_number(&mut self, tables: &StoreTables) -> Result<i64> {
        let mut statement = self.connection.prepare_cached("PRAGMA data_version").map_err(failure)?;
        let version = statement.query_row([], |row| row.get(0)).map_err(failure)?;
        drop(statement);
        if self.version != Some(version) {
            tables::check(&self.connection, tables)?;
            self.stand = tables::read_clock(&self.connection)?;
            self.version = Some(version);
        }
        Ok(self.stand)
    }
}

/// Number of database instructions, some ten microseconds, between checks whether the result is still wanted.
pub(super) const LOOK_EVERY: i32 = 1_000;

/// Wakes threads that wait for chunks.
#[derive(Default)]
pub struct ChunkSignal {
    times: Mutex<u64>,
    told: Condvar,
}

impl ChunkSignal {
    fn tell(&self) {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.told.notify_all();
    }

    pub(super) fn wait(&self, timeout: Duration) {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *times;
        let _ = self.told.wait_timeout_while(times, timeout, |now| *now == before);
    }
}

impl SqliteStore {
    /// Opens the store of a catalogue; with `prepare`, creates it or applies additions of the definition.
    ///
    /// # Errors
    /// When the file cannot be used, or the definition does not fit what is stored.
    pub fn open(path: &Path, catalogue: Arc<Catalogue>, options: SqliteOptions) -> Result<Self> {
        let tables = StoreTables::new(&catalogue);
        Self::open_as(path, catalogue, tables, options)
    }

    /// Whether a store must still be created at `path`: there is no file, or one without tables, as left by a process that was killed while it
    /// created one.
    pub fn is_missing(path: &Path) -> bool {
        let is_empty = |connection: Connection| connection.query_row("SELECT NOT EXISTS(SELECT 1 FROM sqlite_schema)", [], |row| row.get(0));
        !path.exists() || Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(is_empty).unwrap_or(false)
    }

    /// Returns the schema that a store was prepared for; `None` if there is no store yet. Does not change the file.
    ///
    /// # Errors
    /// When it cannot be read, or has an unknown format.
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
            Ok(Some(crate::sql::shape::stored(tables::meta(&connection, "shape")?.as_deref())?))
        };
        read().map_err(|error| after_waiting(error, options.wait))
    }

    /// Opens a store for its jobs, chunks and tokens, whatever its definition.
    pub(crate) fn open_admin(path: &Path, options: SqliteOptions) -> Result<Self> {
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

    /// Runs `read`, which makes several reads, on one snapshot.
    pub(super) fn with_snapshot<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.with_reader(|connection| {
            let _snapshot = connection.unchecked_transaction().map_err(failure)?;
            read(connection)
        })
    }

    /// Runs `read` on a reading connection.
    pub(super) fn with_reader<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
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
            // a missing index is no damage if another process has prepared the store for another definition
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

    /// Runs a small write as an interactive unit of its own.
    pub(super) fn write<T: Send + 'static>(&self, work: impl FnMut(&Connection, i64) -> Result<T> + Send + 'static) -> Result<T> {
        self.write_as(Priority::Interactive, work)
    }

    pub(super) fn write_as<T: Send + 'static>(
        &self,
        urgency: Priority,
        mut work: impl FnMut(&Connection, i64) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Some(writer) = &self.writer else { return Err(StoreError::ReadOnly("the store was opened read-only".into())) };
        let (answer, received) = std::sync::mpsc::channel();
        let small = move |connection: &Connection, stamp: i64| {
            let value = work(connection, stamp)?;
            let _ = answer.send(value);
            Ok(CommitReceipt { committed_at: stamp, rows: 1 })
        };
        writer.run(WriterCommand::Function(Box::new(small)), urgency).wait()?;
        // if the work was started again, its last result counts
        received.try_iter().last().ok_or_else(|| StoreError::Other("the writer thread has stopped".into()))
    }

    /// Runs a small write after which chunks may wait, and wakes the threads that wait for chunks.
    pub(super) fn write_and_tell<T: Send + 'static>(&self, work: impl FnMut(&Connection, i64) -> Result<T> + Send + 'static) -> Result<T> {
        let value = self.write(work)?;
        self.added.tell();
        Ok(value)
    }

    /// Returns the id of a tenant, if it has ever written. Ids never change, so they are cached.
    pub(super) fn tenant_id(&self, connection: &Connection, tenant: &Tenant) -> Result<Option<i64>> {
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
