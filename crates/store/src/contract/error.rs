//! Errors of a store, and how they name the record that cannot be read.

use super::damage::Damage;
use super::ids::ChunkId;
use stook_catalogue::key::Key;
use stook_catalogue::record::DecodeError;

/// The reason why a store call failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store's definition and the process's differ in a way that cannot be applied.
    #[error("{0}")]
    Definition(String),
    /// Another process changed the definition while this one ran.
    #[error("the store now holds another definition (another process prepared it); restart with the current catalogue.yaml")]
    DefinitionChanged,
    /// The worker no longer holds the lease: another one has it, or the job was cancelled. Nothing was written.
    #[error("the lease of chunk {0} has ended: another worker has it, or the job was cancelled; nothing was written")]
    Fenced(ChunkId),
    /// Another process holds the store's write lock.
    #[error("the store has been locked by another process for {0} s; try again later")]
    Busy(u64),
    /// Another transaction holds the record, and the unit does not wait.
    #[error("another transaction is changing the record")]
    Held,
    /// The unit was written, but the transaction was rolled back because another unit in it failed; nothing of it remains.
    #[error("the transaction was rolled back")]
    Undone,
    /// What the unit was decided by has changed since it was read, or a record of it was refused; nothing was written.
    #[error("the records were being changed by other requests; try again")]
    Outdated,
    /// The disk is full.
    #[error("the disk is full; free some space, then continue with `stook import --resume JOB`")]
    Full,
    /// The store cannot be written.
    #[error("the store cannot be written: {0}")]
    ReadOnly(String),
    /// The database cancelled the call because it took too long.
    #[error("the store took too long: {0}")]
    Slow(String),
    /// The caller no longer waits for the result, see [`cancel`](super::cancel).
    #[error("cancelled: the caller has gone")]
    Cancelled,
    /// The call is invalid, for example because it names a job that does not exist.
    #[error("{0}")]
    Wrong(String),
    /// A stored row cannot be read.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The database itself finds its file corrupt.
    #[error("the store is damaged ({0}): restore a backup, or import into a new store (--store)")]
    Broken(String),
    /// Any other failure.
    #[error("the store failed: {0}")]
    Other(String),
}

/// Results of store calls.
pub type Result<T> = std::result::Result<T, StoreError>;

impl From<DecodeError> for StoreError {
    fn from(DecodeError(reason): DecodeError) -> Self {
        StoreError::Damaged(Damage::of_row("a row", reason))
    }
}

/// Adds the record to the error of a row that cannot be read.
pub trait ForRecord<T> {
    /// Names the record in the error.
    ///
    /// # Errors
    /// The same error, as [`StoreError::Damaged`] with the record.
    fn for_record(self, collection: &str, key: &Key) -> Result<T>;
}

impl<T> ForRecord<T> for std::result::Result<T, DecodeError> {
    fn for_record(self, collection: &str, key: &Key) -> Result<T> {
        self.map_err(|DecodeError(reason)| StoreError::Damaged(Damage::of_record(collection, key.as_str(), reason)))
    }
}
