//! Room on the disk for what the log holds.
//!
//! Pages that a commit adds are in the log first. On a disk that the log has filled to the last byte the file cannot grow to take them in,
//! and then the log cannot be given back either: the disk would stay full until somebody makes room. So nothing is written any more while
//! there is still room for that.

use super::error::failure;
use crate::{Result, StoreError};
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// Bytes that a group may add to the log, before any group has shown what they add.
const LEAST: u64 = 1 << 20;

/// What the file still needs, and what the disk has.
pub struct DiskSpace {
    path: PathBuf,
    page_size: u64,
    /// Most bytes by which one group has made the log longer.
    largest: u64,
}

impl DiskSpace {
    pub fn new(connection: &Connection, path: &Path) -> Result<Self> {
        let page_size: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(failure)?;
        Ok(Self { path: path.to_owned(), page_size: page_size.unsigned_abs(), largest: LEAST })
    }

    /// Whether another group may begin: what it adds to the log may be new pages of the file, too.
    ///
    /// # Errors
    /// [`StoreError::Full`].
    pub fn for_a_group(&self, connection: &Connection) -> Result<()> {
        self.for_bytes(connection, 2 * self.largest)
    }

    /// Whether the pages that there are now fit into the file.
    ///
    /// # Errors
    /// [`StoreError::Full`].
    pub fn for_the_file(&self, connection: &Connection) -> Result<()> {
        self.for_bytes(connection, 0)
    }

    /// Notes by how many pages a group has made the log longer.
    pub fn note(&mut self, pages: u64) {
        self.largest = self.largest.max(pages * self.page_size);
    }

    fn for_bytes(&self, connection: &Connection, more: u64) -> Result<()> {
        let mut statement = connection.prepare_cached("PRAGMA page_count").map_err(failure)?;
        let pages: i64 = statement.query_row([], |row| row.get(0)).map_err(failure)?;
        // where the disk does not say what it has, its errors have to do
        let (Ok(file), Ok(disk)) = (std::fs::metadata(&self.path), rustix::fs::statvfs(&self.path)) else { return Ok(()) };
        if disk.f_blocks == 0 {
            return Ok(());
        }
        let needed = (pages.unsigned_abs() * self.page_size).saturating_sub(file.len()) + more;
        if disk.f_bavail * disk.f_frsize < needed { Err(StoreError::Full) } else { Ok(()) }
    }
}
