//! Commit numbers and notifications, by which a cache of records stays exact.

use super::error::Result;
use super::tenant::Tenant;
use std::sync::Arc;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

/// Is notified of each commit of this process. A store's commit number grows with every commit of any process; if it is unchanged, nothing was
/// committed.
pub trait CommitObserver: Send + Sync {
    /// From now on readers may see the commit number `current`; the one before was `previous`.
    fn committing(&self, previous: i64, current: i64);
    /// The commit is done, and these records may have changed; the callers that wrote them have not been answered yet.
    fn committed(&self, commit_number: i64, changed: &[ChangedRecord]);
}

/// A record that a commit may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedRecord {
    /// The tenant.
    pub tenant: Tenant,
    /// The collection.
    pub collection: CollectionId,
    /// Its key.
    pub key: Key,
    /// Whether its values may have changed, or only its contributions.
    pub content_changed: bool,
}

/// Finds out whether anything was committed since something was read.
pub trait CommitNumbers {
    /// Whether the commit number can be read without a round trip.
    fn is_local(&self) -> bool {
        false
    }

    /// The commit number that readers see now. `None` if the database has none; then every use of a cached record is checked with
    /// [`Records::versions`](super::records::Records::versions).
    ///
    /// # Errors
    /// When the database fails, or now holds another definition.
    fn commit_number(&self) -> Result<Option<i64>> {
        Ok(None)
    }

    /// Notifies `observer` of every commit of this process from now on, if [`CommitNumbers::is_local`]; does nothing otherwise.
    fn watch(&self, _observer: Arc<dyn CommitObserver>) {}
}
