//! A unit of work: what is written in one transaction, and the methods that the store calls meanwhile.

use super::edges::EdgeRange;
use super::erasure::NewErasure;
use super::error::{Result, StoreError};
use super::former::FormerWrite;
use super::ids::LeaseToken;
use super::journal::ChunkJournal;
use super::plan::QueryPlan;
use super::records::{NewChangeLogEntry, RecordWrite, RefusedWrite, Version, WriteConflict};
use super::settling::SettlingChanges;
use super::tag::{CollectionTags, TagChanges, TagWrites};
use super::tenant::Tenant;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

/// A request that takes effect once, however often it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotentCall {
    /// Hash of the caller, the request's target and the idempotency key.
    pub id: [u8; 16],
    /// Hash of the complete request: the same id with another request is an error.
    pub request: [u8; 16],
}

/// How long the response to an [`IdempotentCall`] is kept, in microseconds.
pub const CALL_RETENTION: i64 = 24 * 3600 * 1_000_000;

/// A record that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordRead {
    /// Its collection.
    pub collection: CollectionId,
    /// Its key.
    pub key: Key,
    /// The version that was read; `None` if there was no record.
    pub version: Option<Version>,
}

/// What a unit has read in addition to the records it writes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadSet {
    /// Single records.
    pub records: Vec<RecordRead>,
    /// Ranges of edges.
    pub ranges: Vec<EdgeRange>,
}

/// A search for records: which keys a plan has found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRead {
    /// The plan; its only column is the key.
    pub plan: QueryPlan,
    /// The keys that it found, in the plan's order.
    pub keys: Vec<Key>,
}

/// A record at the revision at which it was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RevisionRead {
    /// Its collection.
    pub collection: CollectionId,
    /// Its key.
    pub key: Key,
    /// Its revision.
    pub revision: i64,
}

/// What must still be so when a unit is written, because its changes were decided by it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Premises {
    /// Searches that must find the same keys.
    pub searches: Vec<SearchRead>,
    /// Records that must have the same content, without those that the unit writes.
    pub records: Vec<RevisionRead>,
}

/// The changes of one transaction. The store calls its methods inside the transaction, in this order:
///
/// 1. [`lease_token`](Unit::lease_token): the leased chunk is removed from the queue; if the lease is lost, the unit fails with
///    [`StoreError::Fenced`].
/// 2. [`call`](Unit::call): if the same call was answered before, [`repeated`](Unit::repeated) is the last method called.
/// 3. [`erases`](Unit::erases): what is noted, before anything is written. [`premises`](Unit::premises): if they no longer hold, the unit fails with [`StoreError::Outdated`].
/// 4. [`writes`](Unit::writes), which discards anything kept from an earlier attempt; [`resolve`](Unit::resolve) with the records that have
///    changed, if any; [`refused`](Unit::refused) for each record that could not be written, and
///    then [`must_be_undone`](Unit::must_be_undone): whether the unit therefore fails with [`StoreError::Outdated`].
/// 5. [`read_set`](Unit::read_set); [`read_set_changed`](Unit::read_set_changed) if something in it has changed;
///    [`changed_records`](Unit::changed_records) with the records that `read_set_changed` asked for, if any.
/// 6. [`tag_revision`](Unit::tag_revision), and only if it returns one: [`retag`](Unit::retag) if it is out of date,
///    [`tagging`](Unit::tagging), [`tags_changed`](Unit::tags_changed).
/// 7. [`settling`](Unit::settling), which therefore knows all of the above.
/// 8. [`former`](Unit::former), [`log`](Unit::log), [`response_to_keep`](Unit::response_to_keep), [`journal`](Unit::journal).
///
/// If the transaction has to be restarted (another unit in it failed), all methods are called again, from the first on. Methods that only return
/// something (tenant, lease token, call, `waits_for_locks`, premises, read set) may also be called before and between these. `writes` may also be called before
/// them, but not after the writes have been refused or resolved: units take a call of it as the start of an attempt, and discard their results.
pub trait Unit: Send {
    /// The tenant whose records these are.
    fn tenant(&self) -> &Tenant;
    /// The lease of the chunk that this unit completes; the unit fails with [`StoreError::Fenced`] when it is lost.
    fn lease_token(&self) -> Option<LeaseToken> {
        None
    }
    /// The idempotent call that this unit answers, if any.
    fn call(&self) -> Option<&IdempotentCall> {
        None
    }
    /// The call was answered before: whether by the same request, and with which response. Nothing else is done.
    fn repeated(&mut self, _is_same_request: bool, _response: Vec<u8>) {}
    /// Whether the unit waits for records that other transactions have locked, instead of failing with [`StoreError::Held`].
    fn waits_for_locks(&self) -> bool {
        true
    }
    /// What must still be so when the unit is written. Searches that other units are written by, and that have such premises, too, wait until this
    /// unit ends; records of premises do not change until then.
    fn premises(&self) -> Option<&Premises> {
        None
    }
    /// Changes computed from what was read, ordered by collection and key, one per record. A call starts an attempt: what the unit has kept of an
    /// earlier one is discarded.
    fn writes(&self) -> &[RecordWrite] {
        &[]
    }
    /// These records changed after they were read; the conflicts contain their current content. Returns the writes for them, based on these versions:
    /// the unit fails with [`StoreError::Wrong`] if a write is based on another one.
    ///
    /// # Errors
    /// The default always fails, which is right for units that write nothing or have locked what they write.
    fn resolve(&mut self, conflicts: Vec<WriteConflict>) -> Result<Vec<RecordWrite>> {
        let keys: Vec<&str> = conflicts.iter().map(|conflict| conflict.key.as_str()).take(3).collect();
        Err(StoreError::Other(format!("records changed while they were locked: {}", keys.join(", "))))
    }
    /// A record was not written because of a unique conflict, or because it was erased. A unit that writes records must not count or log its change, nor propagate it.
    fn refused(&mut self, refused: RefusedWrite);
    /// Whether the unit is written completely or not at all, and a record of it was [`refused`](Unit::refused): nothing of it is written.
    fn must_be_undone(&self) -> bool {
        false
    }
    /// The records that this unit erases, see [`erasure`](super::erasure): it deletes those of them that there are, and nobody writes them from now on.
    fn erases(&self) -> &[NewErasure] {
        &[]
    }
    /// What was read to compute derived values, if the store can check, when it writes the unit, whether that is unchanged.
    fn read_set(&self) -> Option<&ReadSet> {
        None
    }
    /// Which records and ranges of [`Unit::read_set`] have changed since they were read, by their positions in it. Returns the records
    /// that the unit has to read again.
    fn read_set_changed(&mut self, _records: &[usize], _ranges: &[usize]) -> Vec<(CollectionId, Key)> {
        Vec::new()
    }
    /// The records that [`Unit::read_set_changed`] asked for, with everything.
    fn changed_records(&mut self, _records: Vec<WriteConflict>) {}
    /// The revision of the tenant's tags with which the unit has computed which records carry which tags; `None` if it writes no tags.
    fn tag_revision(&self) -> Option<i64> {
        None
    }
    /// The tags have changed since the unit read them: these are all tags, by collection. They do not change again before the unit ends.
    fn retag(&mut self, _tags: Vec<(CollectionId, CollectionTags)>) {}
    /// Trees of records' documents, and which records carry which tags.
    fn tagging(&mut self) -> Vec<TagWrites> {
        Vec::new()
    }
    /// Which records gained or lost tags by [`Unit::tagging`].
    fn tags_changed(&mut self, _changes: TagChanges) {}
    /// Edges to change, marks to append (their ids are ignored), and the ids of marks that this unit has processed.
    fn settling(&mut self) -> SettlingChanges {
        SettlingChanges::default()
    }
    /// Whether [`resolve`](Unit::resolve) needs the former contributions of records.
    fn reads_former(&self) -> bool {
        false
    }
    /// Changes of former contributions, of records that are written; ordered by collection and key.
    fn former(&mut self) -> Vec<FormerWrite> {
        Vec::new()
    }
    /// Entries for the change logs, ordered by collection and key.
    fn log(&mut self) -> Vec<NewChangeLogEntry> {
        Vec::new()
    }
    /// The response to [`Unit::call`] to be kept; `None` if the call may be tried again. Revisions follow from the time of the commit.
    fn response_to_keep(&mut self, _committed_at: i64) -> Option<Vec<u8>> {
        None
    }
    /// The journal of the chunk.
    fn journal(&mut self) -> Option<&ChunkJournal> {
        None
    }
    /// Whether the submitter builds the unit again if its result is [`StoreError::Undone`]: then it need not be kept until its transaction is
    /// committed.
    fn is_rebuilt_if_undone(&self) -> bool {
        false
    }
}
