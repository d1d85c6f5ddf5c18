//! Opens connections to the file, each with the settings that it needs.

use super::error::store_error;
use super::packed;
use crate::*;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How to open a store in a file.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// How long to wait for another process that writes, in seconds.
    pub wait: u64,
    /// Page cache of the writing connection, in bytes.
    pub writer_cache: usize,
    /// Page cache of each reading connection, in bytes; at most 16 idle ones are kept open. A sort may use as much again and then continues in
    /// temporary files, as distinct rows do beyond 2 MiB: a query uses some 20 MB, whatever it sorts.
    pub reader_cache: usize,
    /// Rows after which a group of bulk units is committed.
    pub group_rows: u64,
    /// Whether to only read: nothing is created or changed, and the medium may be read-only.
    pub read_only: bool,
    /// Whether to create the file and change it to fit the definition; if not, a store that does not fit is refused.
    pub prepare: bool,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { wait: 30, writer_cache: 96 << 20, reader_cache: 8 << 20, group_rows: 30_000, read_only: false, prepare: true }
    }
}

/// The state of a file that is read without locks, because none can be created in its folder. The database would not notice changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImmutableFile {
    size: u64,
    modified: Option<SystemTime>,
}

impl ImmutableFile {
    /// The current state of the file; `None` if the last writes may be in a WAL that cannot be read without writing.
    pub fn from_path(path: &Path) -> Option<Self> {
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        if std::fs::metadata(wal).is_ok_and(|wal| wal.len() > 0) {
            return None;
        }
        let file = std::fs::metadata(path).ok()?;
        Some(Self { size: file.len(), modified: file.modified().ok() })
    }
}

/// Opens a read-only connection. If the medium is read-only, locks cannot be created and are not needed.
pub fn connect_reading(path: &Path, options: &SqliteOptions) -> Result<(Connection, Option<ImmutableFile>)> {
    let check_readable = |connection: Connection| {
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0)).map_err(store_error)?;
        Ok(connection)
    };
    let reason = match connect(path, options, None).and_then(check_readable) {
        Err(StoreError::ReadOnly(reason)) => reason,
        opened => return Ok((opened?, None)),
    };
    let Some(immutable) = ImmutableFile::from_path(path) else {
        return Err(StoreError::ReadOnly(format!(
            "{reason}; the latest changes are in its write-ahead log ({}-wal), which needs a writable folder: copy both files to one",
            path.display()
        )));
    };
    let connection = connect(path, options, Some(&immutable)).and_then(check_readable)?;
    Ok((connection, Some(immutable)))
}

/// The URI of a file that tells the database that it does not change.
fn immutable_uri(path: &Path) -> PathBuf {
    let mut name = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => name.push(char::from(*byte)),
            byte => name.push_str(&format!("%{byte:02X}")),
        }
    }
    PathBuf::from(name + "?immutable=1")
}

/// Opens a connection with the settings and functions that every connection needs.
pub fn connect(path: &Path, options: &SqliteOptions, immutable: Option<&ImmutableFile>) -> Result<Connection> {
    let mut flags = match (options.read_only, options.prepare) {
        (true, _) => OpenFlags::SQLITE_OPEN_READ_ONLY,
        (false, true) => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        (false, false) => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    let mut name = path.to_owned();
    if immutable.is_some() {
        flags |= OpenFlags::SQLITE_OPEN_URI;
        name = immutable_uri(path);
    }
    #[cfg_attr(not(debug_assertions), allow(unused_mut, reason = "only builds for tests look at statements"))]
    let mut connection = Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(store_error)?;
    #[cfg(debug_assertions)]
    super::statements::record_statements(&mut connection).map_err(store_error)?;
    connection.busy_timeout(Duration::from_secs(options.wait)).map_err(store_error)?;
    rusqlite::vtab::array::load_module(&connection).map_err(store_error)?;
    packed::register_functions(&connection).map_err(store_error)?;
    connection.set_prepared_statement_cache_capacity(128);
    // indexes are named explicitly: a statement need not be planned again for other parameters
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(store_error)?;
    let cache_kib = if options.read_only { options.reader_cache } else { options.writer_cache } / 1024;
    // readers may sort any amount of rows; the writer needs little temporary space, but often
    let temp_store = if options.read_only { "FILE" } else { "MEMORY" };
    // the page size comes first: the database counts the cache in pages of the size it knows
    let settings = format!(
        "PRAGMA page_size = 8192; PRAGMA cache_size = -{cache_kib}; PRAGMA synchronous = FULL; PRAGMA temp_store = {temp_store}; PRAGMA foreign_keys = OFF;"
    );
    connection.execute_batch(&settings).map_err(store_error)?;
    Ok(connection)
}

/// Switches a file to the WAL. If several processes do so at once, the database does not wait for them by itself.
pub fn use_wal(connection: &Connection, wait: Duration) -> Result<()> {
    let deadline = Instant::now() + wait;
    let query_mode = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0)).map_err(store_error);
    let try_switch = || {
        if query_mode("PRAGMA journal_mode")? != "wal" {
            let mode = query_mode("PRAGMA journal_mode = WAL")?;
            if mode != "wal" {
                return Err(StoreError::Other(format!("the file system does not support shared memory (the journal's mode stays {mode})")));
            }
        }
        Ok(())
    };
    loop {
        match try_switch() {
            Err(StoreError::Busy(_)) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            result => return result,
        }
    }
}
