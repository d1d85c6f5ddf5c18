//! The state of a store's database, for those who look after it.

use super::error::Result;

/// A database that follows a store's database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// Its name, or that of the slot by which it follows.
    pub name: String,
    /// Its state, in the database's word; `inactive` if it does not follow now.
    pub state: String,
    /// The bytes of the log that it has not applied yet, if that is known.
    pub behind_bytes: Option<u64>,
}

/// The state of a store's database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreHealth {
    /// The store's format.
    pub format: String,
    /// The database and its version.
    pub database: String,
    /// Bytes of the file or of the tables, with indexes.
    pub bytes: u64,
    /// Bytes of them that are free for new rows; on a server estimated from rows that are deleted and not cleaned up.
    pub free_bytes: u64,
    /// Bytes of the WAL, if it belongs to the store or may be seen.
    pub log_bytes: Option<u64>,
    /// Bytes that are free on the disk of a file.
    pub disk_free: Option<u64>,
    /// What follows the database.
    pub replicas: Vec<Replica>,
    /// The time of the database's clock, in microseconds.
    pub time: i64,
    /// The time of the last commit, in microseconds; 0 if there was none.
    pub last_commit: i64,
    /// What this process may not do, in words.
    pub missing_rights: Vec<String>,
}

/// Tells the state of the database.
pub trait Health {
    /// Reads the state. It costs no more than a small query, whatever the size of the store.
    ///
    /// # Errors
    /// When the database fails.
    fn health(&self) -> Result<StoreHealth>;
}
