//! Former contributions: what documents have contributed to records and does not count, because something newer of the same contributor does. They
//! are kept for sources that say `undo:`, so that they count again when the job that has replaced them is undone.
//!
//! The contributions in a record's row and the former ones belong together: a unit changes former contributions only of records that it also writes.
//! So whoever writes a record at the version that was read knows its former contributions, too, if these were read after the record.

use super::error::Result;
use super::ids::JobId;
use super::queue::{JobState, NewJob};
use super::tenant::Tenant;
use bytes::Bytes;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::SmolStr;

/// Identifies a former contribution among those of its contributor to a record: a hash of its age, its mapping and its document.
pub type FormerId = [u8; 16];

/// A former contribution as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormerContribution {
    /// Its contributor.
    pub contributor: SmolStr,
    /// Its identity.
    pub id: FormerId,
    /// The contribution, packed as a list of one by [`stook_catalogue::record::pack`] for a record without golden values.
    pub packed: Vec<u8>,
    /// Its document, if it is kept.
    pub raw: Option<Bytes>,
}

/// A change of the former contributions of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormerChange {
    /// Adds one; does nothing if there is one with the same identity.
    Add(FormerContribution),
    /// Removes one, if it is there.
    Remove(SmolStr, FormerId),
    /// Removes all of a contributor.
    RemoveAll(SmolStr),
}

/// A change of the former contributions of a record that the same unit writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormerWrite {
    /// The collection.
    pub collection: CollectionId,
    /// The record.
    pub key: Key,
    /// The change.
    pub change: FormerChange,
}

/// A job that was there, or came, after another one had begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherJob {
    /// Its number.
    pub id: JobId,
    /// Its source.
    pub source: String,
    /// Its profile, if one was named.
    pub profile: Option<String>,
    /// Its state.
    pub state: JobState,
}

/// Former contributions, and the jobs that can be undone with them. They are written by units: [`Unit::former`](super::unit::Unit::former).
pub trait FormerContributions {
    /// Returns the former contributions to records, in the order of `keys`; none if no source of the definition says `undo:`.
    ///
    /// # Errors
    /// When the database fails.
    fn former(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<Vec<FormerContribution>>>;

    /// Returns up to `limit` keys after `key`, in their order, of records with former contributions.
    ///
    /// # Errors
    /// When the database fails.
    fn keys_with_former(&self, tenant: &Tenant, collection: CollectionId, key: &str, limit: usize) -> Result<Vec<Key>>;

    /// Returns the first job of a source that can be undone, because former contributions are complete from it on; `None` if the source did not say
    /// `undo:` when the store was prepared.
    ///
    /// # Errors
    /// When the database fails.
    fn first_undoable(&self, source: &str) -> Result<Option<JobId>>;

    /// Makes jobs of a source that were created before `time` impossible to undo, so that what is only kept for them can be removed. Returns the
    /// first job that still can be undone; `None` if nothing was changed, because a job is being undone, or the source does not say `undo:`.
    ///
    /// # Errors
    /// When the database fails.
    fn end_undo_before(&self, source: &str, time: i64) -> Result<Option<JobId>>;

    /// Returns the other jobs of a job's tenant that had not ended when it was created, also later ones.
    ///
    /// # Errors
    /// When there is no such job, or the database fails.
    fn other_jobs(&self, job: JobId) -> Result<Vec<OtherJob>>;

    /// Creates the job `undo`, which undoes another one. From then on that one is shown as undone, and nothing more of it is committed.
    ///
    /// # Errors
    /// When there is no such job, it has not ended, it can no longer be undone, or the database fails.
    fn start_undo(&self, job: JobId, undo: NewJob) -> Result<JobId>;
}
