//! Reserves disk space for checkpoints.
//!
//! Pages that a commit adds are first in the WAL. If the WAL has filled the disk completely, the file cannot grow to take them, and then the WAL
//! cannot be truncated either: the disk would stay full until a user frees space. So writing stops while there is still space for that.

use super::error::store_error;
use crate::{Result, StoreError};
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// Bytes that a group may add to the WAL, before any group has shown how many it adds.
const MIN_GROUP_BYTES: u64 = 1 << 20;

/// Compares the space that the file still needs with what the disk has.
pub struct DiskSpace {
    path: PathBuf,
    page_size: u64,
    /// The most bytes that one group has added to the WAL.
    max_group_bytes: u64,
}

impl DiskSpace {
    pub fn new(connection: &Connection, path: &Path) -> Result<Self> {
        let page_size: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(store_error)?;
        Ok(Self { path: path.to_owned(), page_size: page_size.unsigned_abs(), max_group_bytes: MIN_GROUP_BYTES })
    }

    /// Checks whether another group may begin: what it adds to the WAL may also be new pages of the file.
    ///
    /// # Errors
    /// [`StoreError::Full`].
    pub fn check_group_fits(&self, connection: &Connection) -> Result<()> {
        self.check_fits(connection, 2 * self.max_group_bytes)
    }

    /// Checks whether the pages that exist now fit into the file.
    ///
    /// # Errors
    /// [`StoreError::Full`].
    pub fn check_file_fits(&self, connection: &Connection) -> Result<()> {
        self.check_fits(connection, 0)
    }

    /// Notes how many pages a group has added to the WAL.
    pub fn record_group(&mut self, pages: u64) {
        self.max_group_bytes = self.max_group_bytes.max(pages * self.page_size);
    }

    fn check_fits(&self, connection: &Connection, extra: u64) -> Result<()> {
        let mut statement = connection.prepare_cached("PRAGMA page_count").map_err(store_error)?;
        let pages: i64 = statement.query_row([], |row| row.get(0)).map_err(store_error)?;
        // if the disk does not report its free space, only its errors stop the writer
        let (Ok(file), Ok(disk)) = (std::fs::metadata(&self.path), rustix::fs::statvfs(&self.path)) else { return Ok(()) };
        if disk.f_blocks == 0 {
            return Ok(());
        }
        let needed = (pages.unsigned_abs() * self.page_size).saturating_sub(file.len()) + extra;
        if disk.f_bavail * disk.f_frsize < needed { Err(StoreError::Full) } else { Ok(()) }
    }
}
