//! What a cache of records needs to know of commits to be exact.

use super::error::Result;
use super::tenant::Tenant;
use std::sync::Arc;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

/// Called for each commit of this process, so that a cache of records can be exact. The commit number of a store grows with every commit of
/// any process; if it is unchanged, nothing was committed.
pub trait CommitObserver: Send + Sync {
    /// From now on readers may see the commit number `stand`; it was `before`.
    fn committing(&self, before: i64, stand: i64);
    /// The commit is done, and these records may have changed; the callers that wrote them have no answer yet.
    fn committed(&self, stand: i64, changed: &[ChangedRecord]);
}

/// A record that a commit may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedRecord {
    /// Whose.
    pub tenant: Tenant,
    /// The collection's index.
    pub collection: CollectionId,
    /// Its key.
    pub key: Key,
    /// Whether its values may have changed, not only its contributions.
    pub content_changed: bool,
}

/// Tells whether anything was committed since something was read.
pub trait CommitNumbers {
    /// Whether the number is read without a round trip.
    fn is_near(&self) -> bool {
        false
    }

    /// The commit number that readers see now. `None` where the database has none: then every use of a cached record is checked
    /// with [`Records::versions`](super::records::Records::versions).
    ///
    /// # Errors
    /// When the database fails, or holds another definition now.
    fn commit_number(&self) -> Result<Option<i64>> {
        Ok(None)
    }

    /// Tells `watch` of every commit of this process from now on, where the store is near.
    fn watch(&self, _watch: Arc<dyn CommitObserver>) {}
}
