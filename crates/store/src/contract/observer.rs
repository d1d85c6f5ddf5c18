//! What a cache of records needs to know of commits to be exact.

use super::error::Result;
use super::tenant::Tenant;
use std::sync::Arc;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

/// Hears of this process's commits, so that a cache of records can be exact. The stand of a store is a number that grows with
/// every commit of any process: where it is what it was, nothing was committed meanwhile.
pub trait CommitObserver: Send + Sync {
    /// Readers may see from now on that the stand is `stand` where it was `before`.
    fn committing(&self, before: i64, stand: i64);
    /// The commit is done, these records may have changed; those who wrote them have not been answered yet.
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

/// Whether what was remembered of a store is still so.
pub trait Commits {
    /// Whether a question is answered inside this process, without a round trip.
    fn is_near(&self) -> bool {
        false
    }

    /// The stand that readers see now. Nothing where the database does not say: then every use of something remembered is checked
    /// with [`Records::versions`](super::records::Records::versions).
    ///
    /// # Errors
    /// When the database fails, or holds another definition now.
    fn stand(&self) -> Result<Option<i64>> {
        Ok(None)
    }

    /// Tells `watch` of every commit of this process from now on, where the store is near.
    fn watch(&self, _watch: Arc<dyn CommitObserver>) {}
}
