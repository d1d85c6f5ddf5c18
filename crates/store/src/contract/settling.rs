//! Settling: the marks of what must be settled, the passes that clear them, and what a pass reads and writes.

use super::edges::{Edge, EdgeChange, EdgeCursor, StartRange};
use super::error::Result;
use super::ids::JobId;
use super::records::{NewChangeLogEntry, RecordWrite, StoredRecord, UniqueConflict};
use super::tenant::Tenant;
use std::collections::HashMap;
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::ExpressionFailures;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;
use stook_catalogue::value::SmolStr;

/// A note that derived values of a target have to be computed again. A mark is never changed: units append marks, also where there is an equal
/// one, and the pass that answers a mark deletes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct StaleMark {
    /// Given by the store.
    pub id: i64,
    /// The collection's order, times four, plus the phase: passes take the lowest first. The column is called `stratum`.
    pub order: u32,
    /// The collection or link they are of, by its number.
    pub rule: u32,
    /// What needs settling: a key, or what a link's ends have in common.
    pub target: SmolStr,
    /// Which part of the target: empty for all of it, `made`, `g` and a group, or the bounds of a search as JSON.
    pub part: SmolStr,
    /// The job that caused it, see [`JobRef::number`](super::ids::JobRef::number).
    pub job: JobId,
}

/// Marks of one target are in one lock partition; only one pass at a time answers marks of a partition.
pub const LOCK_PARTITIONS: u32 = 4;

/// The lock partition of a target.
pub fn lock_partition_of(target: &str) -> u32 {
    // FNV-1a
    let hash = target.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash % LOCK_PARTITIONS
}

/// What a unit says about derived values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SettlingChanges {
    /// Links of which all edges are removed before others are written.
    pub cleared_links: Vec<u32>,
    /// Edges to change.
    pub edges: Vec<EdgeChange>,
    /// Marks to append.
    pub marks: Vec<StaleMark>,
    /// Marks to append only where there were edges before this unit, of the link that is their rule, to the record that is their
    /// target. A store that cannot know appends them.
    pub marks_if_linked: Vec<StaleMark>,
    /// Marks answered.
    pub cleared: Vec<i64>,
}

impl SettlingChanges {
    /// How many children this unit says lead to targets, by link and target, of links whose children are found by their field.
    pub(crate) fn named_by_field(&self, catalogue: &Catalogue) -> HashMap<(u32, &str), usize> {
        // of several changes of one edge the last counts
        let mut last: HashMap<(u32, &str, &str), bool> = HashMap::new();
        for change in self.edges.iter().filter(|change| !change.is_kept(catalogue)) {
            let (EdgeChange::Put(edge) | EdgeChange::Delete(edge)) = change;
            last.insert((edge.link, &edge.target, &edge.child), matches!(change, EdgeChange::Put(_)));
        }
        let mut named = HashMap::new();
        for (link, target, _) in last.into_iter().filter(|(_, is_put)| *is_put).map(|(edge, _)| edge) {
            *named.entry((link, target)).or_default() += 1;
        }
        named
    }
}

/// Answers marks inside a transaction of the store.
pub trait SettlePass: Send + Sync {
    /// Most marks it takes at once.
    fn max_marks(&self) -> usize;
    /// Passes of a tenant with equal numbers are not run at the same time, whatever their lanes.
    fn exclusive_group(&self, _marks: &[StaleMark]) -> Option<u32> {
        None
    }
    /// What follows from marks, which are all of one stratum and rule. What it reads is what was committed before, or by the
    /// marks' own transactions; nobody else answers marks of their lane meanwhile. The records in `refused` stay as they are: the store
    /// has undone what the pass wrote before, because they would have had a unique value of another record.
    ///
    /// # Errors
    /// Fails the pass: the marks stay.
    fn run(&self, tenant: &Tenant, marks: &[StaleMark], refused: &[UniqueConflict], context: &mut dyn PassContext) -> Result<PassWrites>;
}

/// What a [`SettlePass`] may ask of the store.
pub trait PassContext {
    /// Records by key, whole, in the order of `keys`. They are what they are until the pass has ended.
    ///
    /// # Errors
    /// When the database fails, or one of the records is damaged.
    fn hold(&mut self, collection: CollectionId, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>>;
    /// Values of records by key, in the order of `keys`.
    ///
    /// # Errors
    /// When the database fails, or one of the records is damaged.
    fn read(&mut self, collection: CollectionId, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>>;
    /// Edges of targets, each of one group or of all: target after target, by group, start and child; not more than `limit`.
    ///
    /// # Errors
    /// When the database fails.
    fn edges(&mut self, link: u32, targets: &[(String, Option<String>)], limit: Option<usize>) -> Result<Vec<Edge>>;
    /// Edges of targets that start between bounds, both included: target after target, by start and child; not more than
    /// `limit`.
    ///
    /// # Errors
    /// When the database fails.
    fn edges_starting_between(&mut self, link: u32, ranges: &[StartRange], limit: Option<usize>) -> Result<Vec<Edge>>;
    /// Edges of one target, `limit` of them after one.
    ///
    /// # Errors
    /// When the database fails.
    fn edges_after(&mut self, link: u32, target: &str, after: EdgeCursor<'_>, limit: usize) -> Result<Vec<Edge>>;
    /// Waits for units in progress whose edges or read sets were already checked, so that later reads include what they write.
    ///
    /// # Errors
    /// When the database fails.
    fn wait_for_new(&mut self) -> Result<()>;
    /// Keys of records whose field has one of these values.
    ///
    /// # Errors
    /// When the database fails, or the field has no index.
    fn keys_by(&mut self, collection: CollectionId, field: FieldId, values: &[&str]) -> Result<Vec<Key>>;
    /// As [`Records::keys_after`](super::records::Records::keys_after).
    ///
    /// # Errors
    /// When the database fails.
    fn keys_after(&mut self, collection: CollectionId, key: &str, limit: usize) -> Result<Vec<Key>>;
    /// Jobs that have marks now, each once.
    ///
    /// # Errors
    /// When the database fails.
    fn marking(&mut self) -> Result<Vec<JobId>>;
}

/// What a pass writes.
#[derive(Debug, Default)]
pub struct PassWrites {
    /// Records, all of them held.
    pub writes: Vec<RecordWrite>,
    /// Edges, marks, and which marks are answered.
    pub settling: SettlingChanges,
    /// Changes of records to be logged.
    pub log: Vec<NewChangeLogEntry>,
    /// Why marks are answered without what should follow from them: which rows cannot be read, which records cannot be written.
    pub damaged: Vec<String>,
    /// Expressions that fail on records, which are settled without their values.
    pub failures: ExpressionFailures,
}

/// What became of a pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PassReport {
    /// Marks answered.
    pub marks_cleared: u64,
    /// Rows written.
    pub rows: u64,
    /// Why some were answered without what should follow from them.
    pub damaged: Vec<String>,
    /// Expressions that fail on records, which are settled without their values.
    pub failures: ExpressionFailures,
}

impl PassReport {
    /// Adds what became of another pass.
    pub fn include(&mut self, other: PassReport) {
        self.marks_cleared += other.marks_cleared;
        self.rows += other.rows;
        self.damaged.extend(other.damaged);
        self.failures.include(other.failures);
    }
}

/// Reads edges and marks, and lets passes clear marks.
pub trait Settling {
    /// Edges of a target, ordered by group, start and child.
    ///
    /// # Errors
    /// When the database fails.
    fn edges(&self, tenant: &Tenant, link: u32, target: &str) -> Result<Vec<Edge>>;

    /// Edges of targets that start between bounds, both included: target after target, by start and child.
    ///
    /// # Errors
    /// When the database fails.
    fn edges_starting_between(&self, tenant: &Tenant, link: u32, ranges: &[StartRange]) -> Result<Vec<Edge>>;

    /// Marks, lowest stratum first, then oldest.
    ///
    /// # Errors
    /// When the database fails.
    fn marks(&self, tenant: &Tenant, limit: usize) -> Result<Vec<StaleMark>>;

    /// Whether a tenant has marks that a job has caused.
    ///
    /// # Errors
    /// When the database fails.
    fn has_marks(&self, tenant: &Tenant, job: JobId) -> Result<bool>;

    /// Tenants that have marks.
    ///
    /// # Errors
    /// When the database fails.
    fn tenants_with_marks(&self) -> Result<Vec<Tenant>>;

    /// Whether a job's marks, and those that followed from them, are answered.
    ///
    /// # Errors
    /// When the database fails.
    fn is_settled(&self, job: JobId) -> Result<bool>;

    /// Lets `pass` answer some marks of a tenant, in a transaction. Nothing is answered where there are none, or where other
    /// processes answer them. On the thread on which the pass runs [`CancelToken::now`](super::wanted::CancelToken::now) is that of the caller:
    /// when it ends the pass is given up with [`StoreError::Unwanted`](super::error::StoreError::Unwanted), and nothing is written.
    ///
    /// # Errors
    /// When the database or the pass fails.
    fn settle(&self, tenant: &Tenant, pass: &Arc<dyn SettlePass>) -> Result<PassReport>;

    /// The rules by which everything was settled, or marked to be.
    ///
    /// # Errors
    /// When the database fails.
    fn settled_by(&self) -> Result<Option<String>>;

    /// Notes that everything is marked to be settled by these rules, and forgets edges of other links than theirs.
    ///
    /// # Errors
    /// When the database fails.
    fn set_settled_by(&self, rules: &str, links: &[u32]) -> Result<()>;
}
