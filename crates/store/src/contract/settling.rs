//! Settling: stale marks, the passes that clear them, and what a pass reads and writes.

use super::edges::{Edge, EdgeChange, EdgeCursor, StartRange};
use super::error::Result;
use super::ids::JobId;
use super::records::{NewChangeLogEntry, RecordWrite, RefusedWrite, StoredRecord};
use super::tenant::Tenant;
use std::collections::HashMap;
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::ExpressionFailures;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;
use stook_catalogue::value::SmolStr;

/// A note that derived values of a target must be computed again. A mark is never changed: units append marks, even if there is an equal one, and the
/// pass that processes a mark deletes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct StaleMark {
    /// Assigned by the store.
    pub id: i64,
    /// The depth of the collection, times four, plus the phase: passes take the lowest first. The column is called `stratum`.
    pub pass_order: u32,
    /// The number of the collection or link whose rules apply.
    pub rule: u32,
    /// What must be settled: a key, or a value that both ends of a link have in common.
    pub target: SmolStr,
    /// What of the target: empty for all of it, `made`, `g` and a group, the bounds of a search as JSON, or the cursor `[group, start, child]` after
    /// which a pass continues.
    pub part: SmolStr,
    /// The job that caused it, see [`JobRef::number`](super::ids::JobRef::number).
    pub job: JobId,
}

/// Number of lock partitions. All marks of one target are in the same one, and only one pass at a time processes marks of a partition.
pub const LOCK_PARTITIONS: u32 = 4;

/// Returns the lock partition of a target.
pub fn lock_partition_of(target: &str) -> u32 {
    // FNV-1a
    let hash = target.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash % LOCK_PARTITIONS
}

/// Changes of edges and marks by a unit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SettlingChanges {
    /// Links whose edges are all removed before others are written.
    pub cleared_links: Vec<u32>,
    /// Edges to change.
    pub edges: Vec<EdgeChange>,
    /// Marks to append.
    pub marks: Vec<StaleMark>,
    /// Marks to append only if there were edges before this unit, of the link that is their rule, to the record that is their target. A store that
    /// cannot know appends them.
    pub marks_if_linked: Vec<StaleMark>,
    /// Ids of the marks that were processed.
    pub cleared: Vec<i64>,
}

impl SettlingChanges {
    /// Returns, by link and target, how many children this unit links to the target, for links whose children are found by their field.
    pub(crate) fn linked_by_field(&self, catalogue: &Catalogue) -> HashMap<(u32, &str), usize> {
        // of several changes of one edge the last one counts
        let mut last_changes: HashMap<(u32, &str, &str), bool> = HashMap::new();
        for change in self.edges.iter().filter(|change| !change.is_stored(catalogue)) {
            let (EdgeChange::Put(edge) | EdgeChange::Delete(edge)) = change;
            last_changes.insert((edge.link, &edge.target, &edge.child), matches!(change, EdgeChange::Put(_)));
        }
        let mut child_counts = HashMap::new();
        for (link, target, _) in last_changes.into_iter().filter(|(_, is_put)| *is_put).map(|(edge, _)| edge) {
            *child_counts.entry((link, target)).or_default() += 1;
        }
        child_counts
    }
}

/// Processes marks inside a transaction of the store.
pub trait SettlePass: Send + Sync {
    /// The maximum number of marks that it processes at once.
    fn max_marks(&self) -> usize;
    /// Passes of a tenant with equal numbers do not run at the same time, whatever their lock partitions.
    fn exclusive_group(&self, _marks: &[StaleMark]) -> Option<u32> {
        None
    }
    /// Computes what follows from marks, which all have the same order and rule. It reads at least everything committed before, or by the marks' own
    /// transactions; no other pass processes marks of their lock partitions meanwhile. The records in `refused` must stay as they are: the store has
    /// undone what the pass wrote before, because it would have given them a unique value of another record.
    ///
    /// # Errors
    /// Fails the pass: the marks stay.
    fn run(&self, tenant: &Tenant, marks: &[StaleMark], refused: &[RefusedWrite], context: &mut dyn PassContext) -> Result<PassWrites>;
}

/// The reads that a [`SettlePass`] may make.
pub trait PassContext {
    /// Reads complete records by key, in the order of `keys`. They do not change until the pass has ended: the store locks them, or repeats the pass
    /// if its write finds another version.
    ///
    /// # Errors
    /// When the database fails, or one of the records is damaged.
    fn read_for_update(&mut self, collection: CollectionId, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>>;
    /// Reads values of records by key, in the order of `keys`.
    ///
    /// # Errors
    /// When the database fails, or one of the records is damaged.
    fn read(&mut self, collection: CollectionId, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>>;
    /// Reads at most `limit` edges of targets, each with one group or all: target after target, by group, start and child.
    ///
    /// # Errors
    /// When the database fails.
    fn edges(&mut self, link: u32, targets: &[(String, Option<String>)], limit: Option<usize>) -> Result<Vec<Edge>>;
    /// Reads at most `limit` edges without a group that start between bounds, both included: target after target, by start and child.
    ///
    /// # Errors
    /// When the database fails.
    fn edges_starting_between(&mut self, link: u32, ranges: &[StartRange], limit: Option<usize>) -> Result<Vec<Edge>>;
    /// Reads `limit` edges of one target, after one of them.
    ///
    /// # Errors
    /// When the database fails.
    fn edges_after(&mut self, link: u32, target: &str, after: EdgeCursor<'_>, limit: usize) -> Result<Vec<Edge>>;
    /// Waits for units in progress whose edges or read sets were already checked, so that later reads include what they write.
    ///
    /// # Errors
    /// When the database fails.
    fn wait_for_units_in_progress(&mut self) -> Result<()>;
    /// Reads the keys of records whose field has one of these values.
    ///
    /// # Errors
    /// When the database fails, or the field has no index.
    fn keys_by(&mut self, collection: CollectionId, field: FieldId, values: &[&str]) -> Result<Vec<Key>>;
    /// As [`Records::keys_after`](super::records::Records::keys_after).
    ///
    /// # Errors
    /// When the database fails.
    fn keys_after(&mut self, collection: CollectionId, key: &str, limit: usize) -> Result<Vec<Key>>;
    /// Returns the jobs that have marks now, each once.
    ///
    /// # Errors
    /// When the database fails.
    fn jobs_with_marks(&mut self) -> Result<Vec<JobId>>;
}

/// What a pass writes.
#[derive(Debug, Default)]
pub struct PassWrites {
    /// Writes of records, all of which were read with [`PassContext::read_for_update`].
    pub writes: Vec<RecordWrite>,
    /// Edges, new marks, and the marks that were processed.
    pub settling: SettlingChanges,
    /// Entries for change logs.
    pub log: Vec<NewChangeLogEntry>,
    /// Why marks are cleared although what follows from them could not be written: damaged rows, or records that cannot be written.
    pub damaged: Vec<String>,
    /// Expressions that fail on records, which are settled without their values.
    pub failures: ExpressionFailures,
}

/// The result of a pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PassReport {
    /// Number of marks cleared.
    pub marks_cleared: u64,
    /// Number of records written.
    pub rows: u64,
    /// As [`PassWrites::damaged`].
    pub damaged: Vec<String>,
    /// Expressions that fail on records, which are settled without their values.
    pub failures: ExpressionFailures,
}

impl PassReport {
    /// Adds the result of another pass.
    pub fn include(&mut self, other: PassReport) {
        self.marks_cleared += other.marks_cleared;
        self.rows += other.rows;
        self.damaged.extend(other.damaged);
        self.failures.include(other.failures);
    }
}

/// Reads edges and marks, and lets passes clear marks.
pub trait Settling {
    /// Returns the edges of a target, ordered by group, start and child.
    ///
    /// # Errors
    /// When the database fails.
    fn edges(&self, tenant: &Tenant, link: u32, target: &str) -> Result<Vec<Edge>>;

    /// Returns edges without a group that start between bounds, both included: target after target, by start and child.
    ///
    /// # Errors
    /// When the database fails.
    fn edges_starting_between(&self, tenant: &Tenant, link: u32, ranges: &[StartRange]) -> Result<Vec<Edge>>;

    /// Returns marks, lowest order first, then by rule and age.
    ///
    /// # Errors
    /// When the database fails.
    fn marks(&self, tenant: &Tenant, limit: usize) -> Result<Vec<StaleMark>>;

    /// Whether a tenant has marks caused by a job.
    ///
    /// # Errors
    /// When the database fails.
    fn has_marks(&self, tenant: &Tenant, job: JobId) -> Result<bool>;

    /// Returns the tenants that have marks.
    ///
    /// # Errors
    /// When the database fails.
    fn tenants_with_marks(&self) -> Result<Vec<Tenant>>;

    /// Whether a job's marks, and those that followed from them, are cleared.
    ///
    /// # Errors
    /// When the database fails.
    fn is_settled(&self, job: JobId) -> Result<bool>;

    /// Lets `pass` process some marks of a tenant in a transaction. Does nothing if there are none, or if other processes are processing them.
    /// [`CancelToken::current`](super::cancel::CancelToken::current) on the pass's thread is that of the caller: once it is cancelled, the pass gives
    /// up with [`StoreError::Cancelled`](super::error::StoreError::Cancelled), and nothing is written.
    ///
    /// # Errors
    /// When the database or the pass fails.
    fn settle(&self, tenant: &Tenant, pass: &Arc<dyn SettlePass>) -> Result<PassReport>;

    /// Counts all records, and corrects the numbers of records that are kept where they are wrong; returns a sentence for each. Cost: an index of every
    /// collection is read; on a file, nothing is written meanwhile if one is wrong.
    ///
    /// # Errors
    /// When the database fails.
    fn correct_record_counts(&self) -> Result<Vec<String>>;

    /// Returns the collections whose records wait to be consolidated again, because a definition chooses their values by other rules.
    ///
    /// # Errors
    /// When the database fails.
    fn awaiting_consolidation(&self) -> Result<Vec<CollectionId>>;

    /// Notes that the records of a collection were consolidated again.
    ///
    /// # Errors
    /// When the database fails.
    fn set_consolidated(&self, collection: CollectionId) -> Result<()>;

    /// Returns the rules by which everything was settled or marked, as [`Settling::set_settled_by`] stored them.
    ///
    /// # Errors
    /// When the database fails.
    fn settled_by(&self) -> Result<Option<String>>;

    /// Notes that everything is settled or marked by these rules, and deletes edges of links other than `links`.
    ///
    /// # Errors
    /// When the database fails.
    fn set_settled_by(&self, rules: &str, links: &[u32]) -> Result<()>;
}
