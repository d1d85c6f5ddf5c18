//! The store in a file: opens it, and keeps its reading connections and its writer.

use super::connection::{ImmutableFile, SqliteOptions, connect, connect_reading, use_wal};
use super::error::{after_waiting, store_error};
use super::tables::{self, StoreTables};
use super::upgrade;
use super::writer::{SqliteWriter, WriterCommand};
use crate::audit::AuditScope;
use crate::cancel::CancelToken;
use crate::sql::store_schema::{AccessMode, PreparedFor};
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
    pub(super) readers_in_use: AtomicU64,
    pub(super) probes: Mutex<Vec<ChangeProbe>>,
    tenants: RwLock<HashMap<Tenant, i64>>,
    pub(super) writer: Option<SqliteWriter>,
    /// The last time that was given, if there is no writer to keep it.
    pub(super) reading_clock: AtomicI64,
    pub(super) chunk_signal: ChunkSignal,
    pub(super) changes: Vec<String>,
    pub(super) redefined: bool,
    pub(super) immutable: Option<ImmutableFile>,
}

/// A connection that only checks whether any process has committed, which the database can tell without reading a page.
pub struct ChangeProbe {
    pub(super) connection: Connection,
    /// The last `data_version`, if it was read.
    pub(super) version: Option<i64>,
    /// The commit number at that version.
    pub(super) commit_number: i64,
}

impl ChangeProbe {
    pub(super) fn commit_number(&mut self, tables: &StoreTables) -> Result<i64> {
        let mut statement = self.connection.prepare_cached("PRAGMA data_version").map_err(store_error)?;
        let version = statement.query_row([], |row| row.get(0)).map_err(store_error)?;
        drop(statement);
        if self.version != Some(version) {
            tables::check_definition(&self.connection, tables)?;
            self.commit_number = tables::read_clock(&self.connection)?;
            self.version = Some(version);
        }
        Ok(self.commit_number)
    }
}

/// Number of database instructions, some ten microseconds, between checks whether the result is still wanted.
pub(super) const CANCEL_CHECK_INTERVAL: i32 = 1_000;

/// Wakes threads that wait for chunks.
#[derive(Default)]
pub struct ChunkSignal {
    notifications: Mutex<u64>,
    notified: Condvar,
}

impl ChunkSignal {
    fn notify(&self) {
        *self.notifications.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.notified.notify_all();
    }

    pub(super) fn wait(&self, timeout: Duration) {
        let notifications = self.notifications.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *notifications;
        let _ = self.notified.wait_timeout_while(notifications, timeout, |count| *count == before);
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

    /// Returns what a store was prepared for; `None` if there is no store yet. Does not change the file.
    ///
    /// # Errors
    /// When it cannot be read, or has an unknown format.
    pub fn prepared_for(path: &Path) -> Result<Option<PreparedFor>> {
        if !path.exists() {
            return Ok(None);
        }
        let options = SqliteOptions { read_only: true, ..SqliteOptions::default() };
        let read = || {
            let (connection, _still) = connect_reading(path, &options)?;
            let has_meta = "SELECT EXISTS(SELECT 1 FROM sqlite_schema WHERE name = 'meta')";
            if !connection.query_row(has_meta, [], |row| row.get::<_, bool>(0)).map_err(store_error)? {
                return Ok(None);
            }
            PreparedFor::read(tables::FORMAT, upgrade::UPGRADABLE_FORMATS, &mut |name| tables::meta(&connection, name)).map(Some)
        };
        read().map_err(|error| after_waiting(error, options.wait))
    }

    /// Opens a store for its jobs, chunks and tokens, whatever its definition.
    pub(crate) fn open_admin(path: &Path, options: SqliteOptions) -> Result<Self> {
        Self::open_as(path, Arc::new(Catalogue::empty()), StoreTables::for_any_definition(), SqliteOptions { prepare: false, ..options })
    }

    fn open_as(path: &Path, catalogue: Arc<Catalogue>, tables: StoreTables, options: SqliteOptions) -> Result<Self> {
        let (prepares, wait) = (options.prepare && !options.read_only, options.wait);
        if !prepares && !path.exists() {
            return Err(StoreError::Wrong(format!("there is no store at {}", path.display())));
        }
        Self::open_now(path, catalogue, Arc::new(tables), (options, prepares)).map_err(|error| after_waiting(error, wait))
    }

    fn open_now(path: &Path, catalogue: Arc<Catalogue>, tables: Arc<StoreTables>, (options, prepares): (SqliteOptions, bool)) -> Result<Self> {
        let (mut connection, immutable) = if options.read_only { connect_reading(path, &options)? } else { (connect(path, &options, None)?, None) };
        let (mut changes, mut redefined) = (Vec::new(), false);
        if !prepares {
            let purpose = match options.read_only {
                _ if tables.accepts_any_definition() => AccessMode::Admin,
                true => AccessMode::Read,
                false => AccessMode::Write,
            };
            tables::check_fits(&connection, &tables, purpose)?;
        }
        if !options.read_only {
            use_wal(&connection, Duration::from_secs(options.wait))?;
        }
        if prepares {
            (changes, redefined) = tables::prepare(&mut connection, &tables)?;
        }
        let generations = tables::read_generations(&connection, &catalogue)?;
        tables.set_generations(generations);
        let reading_clock = AtomicI64::new(tables::read_clock(&connection)?);
        let writer = if options.read_only { None } else { Some(SqliteWriter::start(connection, path, tables.clone(), &options)?) };
        let (path, readers, readers_in_use, probes, tenants) =
            (path.to_owned(), Mutex::default(), AtomicU64::new(0), Mutex::default(), RwLock::default());
        let chunk_signal = ChunkSignal::default();
        Ok(Self {
            catalogue,
            tables,
            path,
            options,
            readers,
            readers_in_use,
            probes,
            tenants,
            writer,
            reading_clock,
            chunk_signal,
            changes,
            redefined,
            immutable,
        })
    }

    /// Runs `read`, which makes several reads, on one snapshot.
    pub(super) fn with_snapshot<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.with_reader(|connection| {
            let _snapshot = connection.unchecked_transaction().map_err(store_error)?;
            read(connection)
        })
    }

    /// Runs `read` on a reading connection.
    pub(super) fn with_reader<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let cancel_token = CancelToken::current();
        if cancel_token.as_ref().is_some_and(CancelToken::is_cancelled) {
            return Err(StoreError::Cancelled);
        }
        let pooled = self.readers.lock().ok().and_then(|mut readers| readers.pop());
        let mut connection = match pooled {
            Some(connection) => connection,
            None => connect(&self.path, &SqliteOptions { read_only: true, ..self.options.clone() }, self.immutable.as_ref())?,
        };
        let is_cancellable = cancel_token.is_some();
        if let Some(cancel_token) = cancel_token {
            connection.progress_handler(CANCEL_CHECK_INTERVAL, Some(move || cancel_token.is_cancelled())).map_err(store_error)?;
        }
        self.readers_in_use.fetch_add(1, Ordering::Relaxed);
        let result = read(&connection).map_err(|error| match error {
            // a missing index is no damage if another process has prepared the store for another definition
            StoreError::Other(_) if matches!(tables::check_definition(&connection, &self.tables), Err(StoreError::DefinitionChanged)) => {
                StoreError::DefinitionChanged
            }
            error => after_waiting(error, self.options.wait),
        });
        self.readers_in_use.fetch_sub(1, Ordering::Relaxed);
        if is_cancellable {
            connection.progress_handler(0, None::<fn() -> bool>).map_err(store_error)?;
        }
        if self.immutable.is_some() && self.immutable != ImmutableFile::from_path(&self.path) {
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

    /// The same for what changes nothing that anybody asked for.
    pub(super) fn write_unaudited<T: Send + 'static>(&self, work: impl FnMut(&Connection, i64) -> Result<T> + Send + 'static) -> Result<T> {
        AuditScope::outside(|| self.write(work))
    }

    pub(super) fn write_as<T: Send + 'static>(
        &self,
        priority: Priority,
        mut work: impl FnMut(&Connection, i64) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Some(writer) = &self.writer else { return Err(StoreError::ReadOnly("the store was opened read-only".into())) };
        let (sender, received) = std::sync::mpsc::channel();
        let function = move |connection: &Connection, commit_time: i64| {
            let value = work(connection, commit_time)?;
            let _ = sender.send(value);
            Ok(CommitReceipt { committed_at: commit_time, rows: 1 })
        };
        writer.run(WriterCommand::Function(Box::new(function)), priority).wait()?;
        // if the work was started again, its last result counts
        received.try_iter().last().ok_or_else(|| StoreError::Other("the writer thread has stopped".into()))
    }

    /// Runs a small write after which chunks may wait, and wakes the threads that wait for chunks.
    pub(super) fn write_and_notify<T: Send + 'static>(&self, work: impl FnMut(&Connection, i64) -> Result<T> + Send + 'static) -> Result<T> {
        let value = self.write(work)?;
        self.chunk_signal.notify();
        Ok(value)
    }

    /// Returns the id of a tenant, if it has ever written. Ids never change, so they are cached.
    pub(super) fn tenant_id(&self, connection: &Connection, tenant: &Tenant) -> Result<Option<i64>> {
        let cached = self.tenants.read().ok().and_then(|tenants| tenants.get(tenant).copied());
        if cached.is_some() {
            return Ok(cached);
        }
        let mut statement = connection.prepare_cached("SELECT id FROM tenants WHERE name = ?").map_err(store_error)?;
        let found: Option<i64> = statement.query_row(params![tenant.as_str()], |row| row.get(0)).optional().map_err(store_error)?;
        if let (Some(id), Ok(mut tenants)) = (found, self.tenants.write()) {
            tenants.insert(tenant.clone(), id);
        }
        Ok(found)
    }
}
