//! What a backup of a store consists of: settings and rows of one snapshot, the same for every kind of store.

use super::error::Result;
use stook_catalogue::value::Value;

/// One cell of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A value, also a null.
    Value(Value),
    /// Bytes that only the engine understands.
    Bytes(Vec<u8>),
}

/// One item of a backup.
#[derive(Debug, Clone, PartialEq)]
pub enum BackupItem {
    /// What a store records about itself, by name.
    Setting(String, String),
    /// A row of a table; rows of a table follow each other.
    Row(String, Vec<Cell>),
    /// A record that cannot be read and is not in the backup, in words.
    LeftOut(String),
}

/// Gives everything that a store holds, and takes it.
pub trait Backups {
    /// Hands everything to `take`, as it was at one moment, while others read and write.
    ///
    /// # Errors
    /// When the database fails, or `take` does.
    fn dump(&self, take: &mut dyn FnMut(BackupItem) -> Result<()>) -> Result<()>;

    /// Fills the store with what [`Backups::dump`] of any kind of store gave, completely or not at all. The store must hold nothing yet, and must be
    /// opened again afterwards.
    ///
    /// # Errors
    /// When it holds something, the items are of another definition or not those of a backup, or the database fails.
    fn fill(&self, items: &mut dyn Iterator<Item = Result<BackupItem>>) -> Result<()>;
}
