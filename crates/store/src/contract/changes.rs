//! The records of a collection in the order in which they changed, for callers who fetch what is new.

use super::error::Result;
use super::tenant::Tenant;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

/// A position among the changes of a collection, which are ordered by revision and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangePosition {
    /// A revision.
    pub revision: i64,
    /// The key of the last record with that revision that lies before the position; empty if none does.
    pub key: String,
}

/// Changes after a position that were made before a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRange {
    /// The position.
    pub after: ChangePosition,
    /// The time in microseconds, excluded.
    pub until: i64,
}

/// A record that changed. Only its last change counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisedRecord {
    /// When its content last changed.
    pub revision: i64,
    /// Its key.
    pub key: Key,
    /// Whether it exists for readers.
    pub exists: bool,
}

/// Reads records by the time of their last change.
pub trait Changes {
    /// Returns the first `limit` records of a range, in the order of revisions and keys, including those that do not exist for readers. There is an
    /// index if the collection has [`publish`](stook_catalogue::definition::Collection::publish); the cost does not grow with the collection.
    ///
    /// # Errors
    /// When the collection is not published, or the database fails.
    fn changed(&self, tenant: &Tenant, collection: CollectionId, range: &ChangeRange, limit: usize) -> Result<Vec<RevisedRecord>>;

    /// A time before which everything has been committed: no later commit of any process has a smaller revision. It may be in the past by as much as
    /// the longest transaction that is being written.
    ///
    /// # Errors
    /// When the database fails.
    fn committed_until(&self) -> Result<i64>;
}
