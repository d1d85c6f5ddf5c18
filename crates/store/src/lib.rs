//! The store contract: a transactional, batch-only record store with a work queue inside it.
//!
//! [`Store`] is what the engine, the query planner and the server know. [`sqlite::SqliteStore`] is the embedded store; the
//! suite in `tests/conformance` is written against the contract, so another store is added without touching it.
//!
//! Two rules carry everything else:
//! * **A unit of work commits whole or not at all.** Records, unique reservations, edges, marks, the chunk's journal and
//!   its removal from the queue, fenced by the lease's token, are one transaction ([`Unit`]).
//! * **A record is written only if it is still the version that was read.** Keys that changed meanwhile are handed back to
//!   the unit inside the transaction, which merges again ([`Unit::resolve`]).
//!
//! Reading never waits for writing. All calls block; none may be made from inside [`Unit`]'s methods.

pub mod access;
pub mod damage;
pub mod journal;
pub mod ledger;
mod listing;
mod pattern;
pub mod plan;
pub mod postgres;
pub mod queue;
mod row;
pub mod schedule;
pub mod shape;
pub mod sqlite;
pub mod tag;
pub mod vitals;
pub mod wanted;

use access::{NewToken, Token};
use bytes::Bytes;
use damage::{Damage, DamagedPart};
use journal::{ChunkJournal, JournalEntry};
use plan::{Aggregate, QueryPlan, ResultRows};
use queue::{ChunkData, ChunkId, ChunkInfo, ChunkSlice, Job, JobId, JobState, LeasedChunk, NewChunk, NewJob, SplitProgress};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::expr::ExpressionFailures;
use stook_catalogue::key::Key;
use stook_catalogue::value::{SmolStr, Value};
use tag::{CollectionTags, Tag, TagChanges, TagWrites};
use tokio::sync::oneshot::{self, Receiver, Sender};
use vitals::StoreStats;

/// The tenant of a store used by one owner.
pub const DEFAULT_TENANT: &str = "main";

/// An isolated owner of records. Every query names one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// Checks a name: 1 to 64 small letters, digits, `-` and `_`.
    ///
    /// # Errors
    /// When the name has another form.
    pub fn new(name: &str) -> Result<Self> {
        let valid = (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_'));
        if valid {
            Ok(Self(name.into()))
        } else {
            Err(StoreError::Wrong(format!("`{name}` is not a tenant: 1 to 64 small letters, digits, - and _")))
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a store says when it cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store's definition and the process's differ in a way that cannot be applied.
    #[error("{0}")]
    Definition(String),
    /// Another process changed the definition while this one ran.
    #[error("the store now holds another definition (another process prepared it); restart with the current catalogue.yaml")]
    DefinitionChanged,
    /// The lease is not this worker's any more; nothing was written.
    #[error("chunk {0} was taken over by another worker; nothing was written twice")]
    Fenced(ChunkId),
    /// Another process holds the store's write lock.
    #[error("the store has been locked by another process for {0} s; try again later")]
    Busy(u64),
    /// Another transaction holds the record, and the unit does not wait.
    #[error("another transaction is changing the record")]
    Held,
    /// The unit was written, and then another one of the same transaction failed; nothing of it is there.
    #[error("the transaction was rolled back")]
    Undone,
    /// No space is left.
    #[error("the disk is full; free some space, then continue with `stook import --resume JOB`")]
    Full,
    /// The store cannot be written.
    #[error("the store cannot be written: {0}")]
    ReadOnly(String),
    /// The database gave up before it was done.
    #[error("the store took too long: {0}")]
    Slow(String),
    /// Nobody waits for the answer any more, see [`wanted`].
    #[error("cancelled: the caller has gone")]
    Unwanted,
    /// The caller asked for something that makes no sense.
    #[error("{0}")]
    Wrong(String),
    /// A stored row cannot be read.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The database cannot read its own file.
    #[error("the store is damaged ({0}): restore a backup, or import into a new store (--store)")]
    Broken(String),
    /// Anything else the database says.
    #[error("the store failed: {0}")]
    Other(String),
}

/// Results of store calls.
pub type Result<T> = std::result::Result<T, StoreError>;

/// The version of a row: the content's revision, and a counter of writes that did not change content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Version {
    /// Microseconds of the store's clock when the content last changed; strictly increasing per record.
    pub revision: i64,
    /// Writes since then that changed no content.
    pub minor: i64,
    /// Where the store has it, if it says so.
    pub location: RowHint,
}

impl Version {
    /// A version that was read somewhere else than in the store.
    pub fn new(revision: i64, touch: i64) -> Self {
        Self { revision, minor: touch, location: RowHint::default() }
    }
}

/// Where a store has found a record, so that it is found again with less work. A hint and no part of a version: all are equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct RowHint(pub(crate) Option<i64>);

impl PartialEq for RowHint {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for RowHint {}

/// A record as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRecord {
    /// Its key.
    pub key: Key,
    /// Its version.
    pub version: Version,
    /// The import job that brought it to life; 0 for edits.
    pub created_job: JobId,
    /// Whether it exists for readers.
    pub alive: bool,
    /// Packed contributions, see [`stook_catalogue::record`]; empty when only values were read.
    pub contributions: Vec<u8>,
    /// State fields that transitions have set, by index.
    pub state_set: Vec<(usize, Value)>,
    /// Golden values, empty when only the head was read.
    pub golden: Vec<Value>,
    /// Effective state values, empty when only the head was read.
    pub state: Vec<Value>,
    /// Fields on which contributors disagree.
    pub conflicts: Vec<usize>,
    /// Kept documents, concatenated; nothing unless everything was read.
    pub raw: Option<Vec<u8>>,
    /// Parts that cannot be read, and have no value here; none unless damage was asked for.
    pub damage: Vec<DamagedPart>,
}

/// How much of a record is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadDetail {
    /// What decides whether a write is needed: version, contributions, state that was set.
    Head,
    /// What readers see: version, golden values, state; neither contributions nor kept documents.
    Values,
    /// Everything.
    Full,
}

/// A change of one record.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordWrite {
    /// The collection's index.
    pub collection: usize,
    /// The record.
    pub key: Key,
    /// The version that was read; `None` when there was no record.
    pub expect: Option<Version>,
    /// What to write.
    pub change: RecordChange,
}

/// What happens to a record.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordChange {
    /// New content: the revision grows.
    Put(Box<RecordContent>),
    /// New contributions (times) with the same golden content: the revision stays.
    Touch {
        /// Packed contributions.
        contributions: Vec<u8>,
    },
    /// New state with the same golden content: the revision grows.
    State {
        /// A value per state field.
        state: Vec<Value>,
        /// State fields that transitions have set, by index.
        state_set: Vec<(usize, Value)>,
    },
    /// New settled values with the same content beside them: the revision stays.
    Settle(Box<RecordContent>),
    /// The row goes.
    Delete,
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordContent {
    /// The import job that brought it to life; 0 for edits.
    pub created_job: JobId,
    /// Whether it exists for readers.
    pub exists: bool,
    /// A value per field.
    pub golden: Arc<[Value]>,
    /// A value per state field.
    pub state: Vec<Value>,
    /// State fields that transitions have set, by index.
    pub state_set: Vec<(usize, Value)>,
    /// Fields on which contributors disagree.
    pub conflicts: Vec<usize>,
    /// Packed contributions.
    pub contributions: Vec<u8>,
    /// Kept documents, concatenated.
    pub raw: Option<Bytes>,
    /// Whether values that are indexed or unique are those of the record that is replaced.
    pub indexes_unchanged: bool,
}

/// What a child says to its target. Edges are ordered by group, start and child. Those of links that are
/// [only read](stook_catalogue::links::Link::is_only_read) say nothing: what a unit says of them is not kept, a store finds the children by
/// their field, in an order of its own, without group, start and payload.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge {
    /// The link, by its number in the definition.
    pub link: u32,
    /// Key of the target, or name of a time slot.
    pub target: SmolStr,
    /// Group inside the target.
    pub group: SmolStr,
    /// Where the child's interval starts, in microseconds; 0 without one.
    pub start: i64,
    /// Key of the child.
    pub child: SmolStr,
    /// What rules need of the child.
    pub payload: Vec<u8>,
}

/// A change of an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EdgeChange {
    /// Adds it, or replaces the payload of an equal one.
    Put(Edge),
    /// Removes the one with the same link, target, group, start and child.
    Delete(Edge),
}

impl EdgeChange {
    /// Whether a store keeps what is said: of links that are only read it finds the children by their field.
    fn is_kept(&self, catalogue: &Catalogue) -> bool {
        let (EdgeChange::Put(edge) | EdgeChange::Delete(edge)) = self;
        catalogue.link_by_field(edge.link).is_none()
    }
}

/// "This target needs settling". Marks are only ever appended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StaleMark {
    /// Given by the store.
    pub id: i64,
    /// Which rules are to run: lower ones first.
    pub phase: u32,
    /// The collection or link they are of, by its number.
    pub rule: u32,
    /// What needs settling: a key, or what a link's ends have in common.
    pub target: SmolStr,
    /// Which part of it.
    pub group: SmolStr,
    /// The job that caused it, 0 for edits.
    pub job: JobId,
}

/// Marks of equal targets are in one lane; of a lane, one pass at a time is answered.
pub const LANES: u32 = 4;

/// The lane of a target.
pub fn lane_of(target: &str) -> u32 {
    // FNV-1a
    let hash = target.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash % LANES
}

/// Answers marks inside a transaction of the store.
pub trait SettlePass: Send + Sync {
    /// Most marks it takes at once.
    fn most(&self) -> usize;
    /// Passes of a tenant with equal numbers are not run at the same time, whatever their lanes.
    fn alone(&self, _marks: &[StaleMark]) -> Option<u32> {
        None
    }
    /// What follows from marks, which are all of one stratum and rule. What it reads is what was committed before, or by the
    /// marks' own transactions; nobody else answers marks of their lane meanwhile. The records in `refused` stay as they are: the store
    /// has undone what the pass wrote before, because they would have had a unique value of another record.
    ///
    /// # Errors
    /// Fails the pass: the marks stay.
    fn run(&self, tenant: &Tenant, marks: &[StaleMark], refused: &[UniqueConflict], desk: &mut dyn PassContext) -> Result<PassWrites>;
}

/// What a [`SettlePass`] may ask of the store.
pub trait PassContext {
    /// Records by key, whole, in the order of `keys`. They are what they are until the pass has ended.
    ///
    /// # Errors
    /// When the database fails, or one of the records is damaged.
    fn hold(&mut self, collection: usize, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>>;
    /// Values of records by key, in the order of `keys`.
    ///
    /// # Errors
    /// When the database fails, or one of the records is damaged.
    fn read(&mut self, collection: usize, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>>;
    /// Edges of targets, each of one group or of all: target after target, by group, start and child; not more than `limit`.
    ///
    /// # Errors
    /// When the database fails.
    fn edges(&mut self, link: u32, targets: &[(String, Option<String>)], limit: usize) -> Result<Vec<Edge>>;
    /// Edges of targets that start between bounds, both included: target after target, by start and child; not more than
    /// `limit`.
    ///
    /// # Errors
    /// When the database fails.
    fn between(&mut self, link: u32, ranges: &[(SmolStr, i64, i64)], limit: usize) -> Result<Vec<Edge>>;
    /// Edges of one target, `limit` of them behind one of group, start and child.
    ///
    /// # Errors
    /// When the database fails.
    fn behind(&mut self, link: u32, target: &str, place: (&str, i64, &str), limit: usize) -> Result<Vec<Edge>>;
    /// Waits for units that are being written and have been told already that no edges lead to their new records, or that the edges
    /// they rely on are still those: what is read from now on includes what they write.
    ///
    /// # Errors
    /// When the database fails.
    fn wait_for_new(&mut self) -> Result<()>;
    /// Keys of records whose field has one of these values.
    ///
    /// # Errors
    /// When the database fails, or the field has no index.
    fn keys_by(&mut self, collection: usize, field: usize, values: &[&str]) -> Result<Vec<Key>>;
    /// As [`Store::keys_behind`].
    ///
    /// # Errors
    /// When the database fails.
    fn keys_behind(&mut self, collection: usize, key: &str, limit: usize) -> Result<Vec<Key>>;
    /// Jobs that have marks now, each once.
    ///
    /// # Errors
    /// When the database fails.
    fn marking(&mut self) -> Result<Vec<JobId>>;
}

/// A record that cannot be written, because another one has the same value in a unique field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueConflict {
    /// Its collection.
    pub collection: usize,
    /// Its key.
    pub key: Key,
    /// The unique field.
    pub field: usize,
    /// The key of the record that has the value.
    pub holder: String,
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

/// The lease that a unit of work hands back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseToken {
    /// The chunk.
    pub chunk: ChunkId,
    /// The token it was leased with.
    pub token: i64,
}

/// A record that changed between reading and writing.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteConflict {
    /// The collection's index.
    pub collection: usize,
    /// The key.
    pub key: Key,
    /// The record as it is now, whole, or nothing. It may be damaged.
    pub record: Option<StoredRecord>,
}

/// A call that is done once, however often it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotentCall {
    /// Who calls what by which key, hashed.
    pub id: [u8; 16],
    /// The whole request, hashed: the same call with another request is a mistake.
    pub request: [u8; 16],
}

/// How long the answer to a [`IdempotentCall`] is kept, in microseconds.
pub const CALL_KEPT: i64 = 24 * 3600 * 1_000_000;

/// A change of a record's state by a transition, kept for ever, or one of its golden fields, kept where the collection asks for
/// it as often as it says.
#[derive(Debug, Clone, PartialEq)]
pub struct NewChangeLogEntry {
    /// The collection's index.
    pub collection: usize,
    /// The record.
    pub key: Key,
    /// The transition's name; nothing for a change of golden fields.
    pub transition: Option<String>,
    /// Who called it, or which work changed the fields.
    pub caller: String,
    /// Values of the fields that changed, before and after, where there was a record; a transition's arguments, too:
    /// `{"args": {}, "before": {}, "after": {}}`.
    pub change: serde_json::Value,
}

/// An entry of a record's log.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeLogEntry {
    /// Number in the order of writing.
    pub id: i64,
    /// When, in microseconds.
    pub at: i64,
    /// As in [`NewChangeLogEntry`].
    pub transition: Option<String>,
    /// As in [`NewChangeLogEntry`].
    pub caller: String,
    /// As in [`NewChangeLogEntry`].
    pub change: serde_json::Value,
}

/// One transaction's work. The store calls the methods in the order they are listed here, inside the transaction. When the
/// transaction has to be begun again (another unit in it failed), it calls them all once more.
pub trait Unit: Send {
    /// Whose records these are.
    fn tenant(&self) -> &Tenant;
    /// The lease to hand back; the unit fails with [`StoreError::Fenced`] when it is lost.
    fn fence(&self) -> Option<LeaseToken> {
        None
    }
    /// The call this unit answers, if it must not be done twice.
    fn call(&self) -> Option<&IdempotentCall> {
        None
    }
    /// The call was answered before: whether by the same request, and how. Nothing else is done.
    fn repeated(&mut self, _same: bool, _answer: Vec<u8>) {}
    /// Whether the unit waits for records that other transactions hold, rather than fail with [`StoreError::Held`].
    fn waits(&self) -> bool {
        true
    }
    /// Changes computed from what was read, ordered by collection and key, one per record.
    fn writes(&self) -> &[RecordWrite] {
        &[]
    }
    /// Records that are not any more what was read: merge again. What is returned is written without another check, the
    /// store holds them.
    ///
    /// # Errors
    /// Fails the unit, as a unit does that writes nothing or holds what it writes: it has no second thoughts.
    fn resolve(&mut self, conflicts: Vec<WriteConflict>) -> Result<Vec<RecordWrite>> {
        let keys: Vec<&str> = conflicts.iter().map(|conflict| conflict.key.as_str()).take(3).collect();
        Err(StoreError::Other(format!("records changed while they were locked: {}", keys.join(", "))))
    }
    /// A record was not written. Whoever writes none has nothing to do here; everybody else must not count it, log it or tell others of it.
    fn refused(&mut self, refused: UniqueConflict);
    /// Edges to change and marks to append (their ids are ignored), and marks by id that this unit has answered.
    fn settling(&mut self) -> SettlingChanges {
        SettlingChanges::default()
    }
    /// What was read to compute derived values, where the store can tell whether it is still so when the unit is written.
    fn relies(&self) -> Option<&ReadSet> {
        None
    }
    /// Which records and ranges of [`Unit::relies`] are not any more what was read, by their places. Returns records that
    /// the unit wants to see as they are.
    fn broken(&mut self, _records: &[usize], _ranges: &[usize]) -> Vec<(usize, Key)> {
        Vec::new()
    }
    /// The records that [`Unit::broken`] wanted to see, whole.
    fn seen(&mut self, _records: Vec<WriteConflict>) {}
    /// The stamp of the tenant's tags by which the unit has found out who carries what; nothing where it says nothing of tags.
    fn knows_tags(&self) -> Option<i64> {
        None
    }
    /// Tags are not any more what the unit knows: these are all, by collection. They stay so until it has ended.
    fn retag(&mut self, _tags: Vec<(usize, CollectionTags)>) {}
    /// Documents of records, and who carries what.
    fn tagging(&mut self) -> Vec<TagWrites> {
        Vec::new()
    }
    /// What that changed.
    fn tagged(&mut self, _given: TagChanges) {}
    /// Changes to be logged, ordered by collection and key.
    fn log(&mut self) -> Vec<NewChangeLogEntry> {
        Vec::new()
    }
    /// The answer to [`Unit::call`] that is kept; nothing when the call may be tried again.
    fn answer(&mut self) -> Option<Vec<u8>> {
        None
    }
    /// The journal of the chunk.
    fn journal(&mut self) -> Option<&ChunkJournal> {
        None
    }
    /// Whether who submitted the unit makes it again where it is answered with [`StoreError::Undone`]: then it need not be kept
    /// until what it has written is committed.
    fn is_made_again(&self) -> bool {
        false
    }
}

/// Edges of targets that start between bounds: which link, the targets with their bounds, what was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EdgeRange {
    /// The link.
    pub link: u32,
    /// Targets, each with the first and the last start.
    pub ranges: Vec<(SmolStr, i64, i64)>,
    /// What there was.
    pub edges: Vec<Edge>,
}

/// What a unit has read beside the records it writes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadSet {
    /// Collection, key, and the version; nothing where there was no record.
    pub records: Vec<(usize, Key, Option<Version>)>,
    /// Ranges of edges.
    pub ranges: Vec<EdgeRange>,
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
    fn named_by_field(&self, catalogue: &Catalogue) -> HashMap<(u32, &str), usize> {
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

/// How urgent a unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Somebody waits for the answer: overtakes bulk work at the next unit's boundary.
    Interactive,
    /// Shares a transaction with other bulk work. It survives the end of the process at once, and that of the machine from
    /// the next interactive commit or [`Store::sync`] on: what is lost then is lost together with the removal of its chunk
    /// from the queue, so the chunk is done again.
    Bulk,
}

/// What became of a unit; given when it is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommitReceipt {
    /// The store's clock when it was written, in microseconds; units that share a transaction may have the same.
    pub committed_at: i64,
    /// Rows written.
    pub rows: u64,
}

/// Packed trees of a record, each of a source by name.
pub type PackedTrees = Vec<(String, Vec<u8>)>;

/// A unit on its way; [`PendingCommit::wait`] blocks until it is committed, [`PendingCommit::committed`] does not block. The unit itself comes
/// back, with the answer or before, so that giving back its memory is not the writer's work.
pub struct PendingCommit {
    written: Option<Receiver<Box<dyn Unit>>>,
    answer: Receiver<CommitResult>,
    awaited: Option<Arc<WaiterFlag>>,
}

/// The answer to a unit, and the unit if it came so far and was not given back before.
pub type CommitResult = (Result<CommitReceipt>, Option<Box<dyn Unit>>);

/// Where the store answers a unit.
pub struct CommitReply {
    written: Option<Sender<Box<dyn Unit>>>,
    answer: Sender<CommitResult>,
    awaited: Option<Arc<WaiterFlag>>,
}

/// Whether somebody waits for an answer.
struct WaiterFlag {
    is_so: AtomicBool,
    /// Wakes who is to know.
    wake: WakeFn,
}

/// Wakes a thread that looks again.
pub type WakeFn = Arc<dyn Fn() + Send + Sync>;

impl CommitReply {
    /// For one unit; `wake` is called when somebody begins to wait for the answer, where that is to be known.
    pub fn new(wake: Option<WakeFn>) -> (Self, PendingCommit) {
        let ((written, is_written), (answer, answered)) = (oneshot::channel(), oneshot::channel());
        let awaited = wake.map(|wake| Arc::new(WaiterFlag { is_so: AtomicBool::new(false), wake }));
        let pending = PendingCommit { written: Some(is_written), answer: answered, awaited: awaited.clone() };
        (Self { written: Some(written), answer, awaited }, pending)
    }

    /// Whether it is known that somebody waits for it.
    pub fn is_awaited(&self) -> bool {
        self.awaited.as_ref().is_some_and(|awaited| awaited.is_so.load(Ordering::SeqCst))
    }

    /// Gives a unit back that is written but not committed.
    pub fn give_back(&mut self, unit: Box<dyn Unit>) {
        if let Some(written) = self.written.take() {
            let _ = written.send(unit);
        }
    }

    /// What came of it; it does not matter whether somebody is still waiting.
    pub fn send(self, result: Result<CommitReceipt>, unit: Option<Box<dyn Unit>>) {
        let _ = self.answer.send((result, unit));
    }
}

impl PendingCommit {
    /// Waits until the unit is committed.
    ///
    /// # Errors
    /// When it was not written.
    pub fn wait(self) -> Result<CommitReceipt> {
        self.awaits();
        self.answer.blocking_recv().map_err(|_| closed())?.0
    }

    /// Ends when the unit is committed; it tells what became of it.
    ///
    /// # Errors
    /// When it was not written.
    pub async fn committed(self) -> Result<(CommitReceipt, Box<dyn Unit>)> {
        self.awaits();
        let (result, unit) = self.answer.await.map_err(|_| closed())?;
        Ok((result?, unit.ok_or_else(closed)?))
    }

    /// From now on somebody waits for the answer.
    fn awaits(&self) {
        if let Some(awaited) = self.awaited.as_ref().filter(|_| !self.is_answered()) {
            awaited.is_so.store(true, Ordering::SeqCst);
            (awaited.wake)();
        }
    }

    /// Whether [`PendingCommit::wait`] would not block.
    pub fn is_answered(&self) -> bool {
        !self.answer.is_empty()
    }

    /// Gives back the memory of a unit that is written, and says whether it is.
    pub fn is_written(&mut self) -> bool {
        let waits = self.written.as_mut().is_some_and(|written| matches!(written.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
        if !waits {
            self.written = None;
        }
        !waits
    }

    /// The same, when it is.
    pub fn wait_until_written(&mut self) {
        if let Some(written) = self.written.take() {
            let _ = written.blocking_recv();
        }
    }
}

fn closed() -> StoreError {
    StoreError::Other("the store was closed".into())
}

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
    pub collection: usize,
    /// Its key.
    pub key: Key,
    /// Whether its values may have changed, not only its contributions.
    pub content_changed: bool,
}

/// A record store for one catalogue.
pub trait Store: Send + Sync {
    /// The store's clock, in microseconds since 1970; strictly increasing over all calls.
    fn clock(&self) -> i64;

    /// Notes of what opening the store with this definition changed, in plain sentences.
    fn changes(&self) -> &[String];

    /// Whether opening it gave it another definition in the place of the one it held: processes that began with that one must be
    /// started again.
    fn has_redefined(&self) -> bool;

    /// Whether the store still holds the definition that it was opened with.
    ///
    /// # Errors
    /// [`StoreError::DefinitionChanged`] when another process has prepared it for another one; when the database fails.
    fn check_definition(&self) -> Result<()>;

    /// What the database finds wrong with its own structures, in its words, the first of it; nothing if it is sound. A server looks after
    /// that itself. Cost: a file is read whole.
    ///
    /// # Errors
    /// When it cannot be read.
    fn damage(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// The number under which contributions made by a feed's map are stored.
    fn generation(&self, source: usize, feed: usize) -> u32;

    /// Reads records by key, in the order of `keys`. One statement, whatever their number.
    ///
    /// # Errors
    /// When the database fails, or one of the records is damaged.
    fn read(&self, tenant: &Tenant, collection: usize, keys: &[Key], detail: ReadDetail) -> Result<Vec<Option<StoredRecord>>>;

    /// The same, with records that are damaged, which say what of them cannot be read.
    ///
    /// # Errors
    /// When the database fails.
    fn read_damaged(&self, tenant: &Tenant, collection: usize, keys: &[Key], detail: ReadDetail) -> Result<Vec<Option<StoredRecord>>>;

    /// The versions of records, in the order of `keys`. One statement, whatever their number.
    ///
    /// # Errors
    /// When the database fails.
    fn versions(&self, tenant: &Tenant, collection: usize, keys: &[Key]) -> Result<Vec<Option<Version>>> {
        let heads = self.read(tenant, collection, keys, ReadDetail::Head)?;
        Ok(heads.into_iter().map(|record| record.map(|record| record.version)).collect())
    }

    /// Whether a question is answered inside this process, without a round trip.
    fn is_near(&self) -> bool {
        false
    }

    /// The stand that readers see now. Nothing where the database does not say: then every use of something remembered is checked
    /// with [`Store::versions`].
    ///
    /// # Errors
    /// When the database fails, or holds another definition now.
    fn stand(&self) -> Result<Option<i64>> {
        Ok(None)
    }

    /// Tells `watch` of every commit of this process from now on, where the store is near.
    fn watch(&self, _watch: std::sync::Arc<dyn CommitObserver>) {}

    /// Changes of a record's state, newest first, `limit` of them before entry `before`.
    ///
    /// # Errors
    /// When the database fails.
    fn log(&self, tenant: &Tenant, collection: usize, key: &Key, before: Option<i64>, limit: usize) -> Result<Vec<ChangeLogEntry>>;

    /// Writes a token; returns its number.
    ///
    /// # Errors
    /// When the database fails.
    fn create_token(&self, token: NewToken) -> Result<u64>;

    /// All tokens that have not been revoked.
    ///
    /// # Errors
    /// When the database fails.
    fn tokens(&self) -> Result<Vec<Token>>;

    /// Whether there has ever been a token.
    ///
    /// # Errors
    /// When the database fails.
    fn has_had_tokens(&self) -> Result<bool>;

    /// Revokes a token; false when there is none with this number.
    ///
    /// # Errors
    /// When the database fails.
    fn revoke_token(&self, id: u64) -> Result<bool>;

    /// Starts a unit of work; the answer is in [`PendingCommit`].
    fn submit(&self, unit: Box<dyn Unit>, urgency: Priority) -> PendingCommit;

    /// Submits a unit somebody waits for, and waits.
    ///
    /// # Errors
    /// When it was not written.
    fn commit(&self, unit: Box<dyn Unit>) -> Result<CommitReceipt> {
        self.submit(unit, Priority::Interactive).wait()
    }

    /// Returns when everything committed so far survives the end of the machine.
    ///
    /// # Errors
    /// When the database fails.
    fn sync(&self) -> Result<()>;

    /// Rows that satisfy a plan, in its order.
    ///
    /// # Errors
    /// When the plan is not one of this catalogue, or the database fails.
    fn find(&self, plan: &QueryPlan) -> Result<ResultRows> {
        let mut rows = Vec::new();
        self.visit(plan, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(ResultRows { rows })
    }

    /// Calls `visit` with every row of a plan, in its order, from one snapshot. Memory does not grow with their number.
    ///
    /// # Errors
    /// As [`Store::find`], or what `visit` says.
    fn visit(&self, plan: &QueryPlan, visit: &mut dyn FnMut(Vec<Value>) -> Result<()>) -> Result<()>;

    /// How many rows satisfy a plan, its page aside.
    ///
    /// # Errors
    /// As [`Store::find`].
    fn count(&self, plan: &QueryPlan) -> Result<u64>;

    /// The rows of a plan's page and how many there are without it, of one snapshot.
    ///
    /// # Errors
    /// As [`Store::find`].
    fn find_and_count(&self, plan: &QueryPlan) -> Result<(ResultRows, u64)>;

    /// One value per aggregate over all rows of a plan, its page aside.
    ///
    /// # Errors
    /// As [`Store::find`].
    fn aggregate(&self, plan: &QueryPlan, aggregates: &[Aggregate]) -> Result<Vec<Value>>;

    /// How the database answers a plan, in words.
    ///
    /// # Errors
    /// As [`Store::find`].
    fn explain(&self, plan: &QueryPlan) -> Result<Vec<String>>;

    /// Keys of a collection, `limit` of them behind one, in their order; those of records that do not exist for readers, too.
    ///
    /// # Errors
    /// When the database fails.
    fn keys_behind(&self, tenant: &Tenant, collection: usize, key: &str, limit: usize) -> Result<Vec<Key>>;

    /// Edges of a target, ordered by group, start and child.
    ///
    /// # Errors
    /// When the database fails.
    fn edges(&self, tenant: &Tenant, link: u32, target: &str) -> Result<Vec<Edge>>;

    /// Edges of targets that start between bounds, both included: target after target, by start and child.
    ///
    /// # Errors
    /// When the database fails.
    fn between(&self, tenant: &Tenant, link: u32, ranges: &[(SmolStr, i64, i64)]) -> Result<Vec<Edge>>;

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
    fn owing(&self) -> Result<Vec<Tenant>>;

    /// Whether a job's marks, and those that followed from them, are answered.
    ///
    /// # Errors
    /// When the database fails.
    fn is_settled(&self, job: JobId) -> Result<bool>;

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

    /// How the store does.
    ///
    /// # Errors
    /// When the database fails.
    fn vitals(&self) -> Result<StoreStats>;

    /// Everybody who has, or had, records.
    ///
    /// # Errors
    /// When the database fails.
    fn tenants(&self) -> Result<Vec<Tenant>>;

    /// Lets `pass` answer some marks of a tenant, in a transaction. Nothing is answered where there are none, or where other
    /// processes answer them.
    ///
    /// # Errors
    /// When the database or the pass fails.
    fn settle(&self, tenant: &Tenant, pass: &Arc<dyn SettlePass>) -> Result<PassReport>;

    // --- tags

    /// The tags of a collection.
    ///
    /// # Errors
    /// When its records carry none, or the database fails.
    fn tags(&self, tenant: &Tenant, collection: usize) -> Result<CollectionTags>;

    /// Writes tags: new ones, where `new` says so, and else in the place of those with the same names. A tag's
    /// times are the caller's.
    ///
    /// # Errors
    /// When one that must be new is not, or the database fails.
    fn put_tags(&self, tenant: &Tenant, collection: usize, tags: Vec<Tag>, new: bool) -> Result<()>;

    /// Removes a tag from the collection and from all records; false when there is none.
    ///
    /// # Errors
    /// When the database fails.
    fn delete_tag(&self, tenant: &Tenant, collection: usize, name: &str) -> Result<bool>;

    /// Names of the tags that records were given, in the order of `keys`; those of queries are not among them.
    ///
    /// # Errors
    /// When the database fails.
    fn tagged(&self, tenant: &Tenant, collection: usize, keys: &[Key]) -> Result<Vec<Vec<String>>>;

    /// Documents of records as trees, each of a source by name, in the order of `keys`.
    ///
    /// # Errors
    /// When the database fails.
    fn trees(&self, tenant: &Tenant, collection: usize, keys: &[Key]) -> Result<Vec<PackedTrees>>;

    // --- jobs and their chunks

    /// Writes a new job.
    ///
    /// # Errors
    /// When the database fails.
    fn create_job(&self, job: NewJob) -> Result<JobId>;

    /// Adds chunks to a job and remembers how far its files have been cut. Adding a chunk that is there changes nothing.
    ///
    /// # Errors
    /// When the database fails.
    fn add_chunks(&self, job: JobId, chunks: Vec<NewChunk>, progress: SplitProgress) -> Result<()>;

    /// Leases up to `limit` chunks for `seconds`: of one job, if given, else of the jobs that [`schedule`] chooses one after
    /// the other. A chunk whose lease has run out waits again, or is dead when that happened [`queue::MOST_LEASES`] times.
    /// Leases need not survive the end of the machine: the chunks then wait.
    ///
    /// # Errors
    /// When the database fails.
    fn lease(&self, job: Option<JobId>, limit: usize, seconds: u64) -> Result<Vec<LeasedChunk>>;

    /// Prolongs leases by `seconds` from now; returns those that are still held.
    ///
    /// # Errors
    /// When the database fails.
    fn renew(&self, fences: &[LeaseToken], seconds: u64) -> Result<Vec<LeaseToken>>;

    /// Gives chunks back that nobody has begun: they wait as if they had not been leased.
    ///
    /// # Errors
    /// When the database fails.
    fn give_back(&self, fences: &[LeaseToken]) -> Result<()>;

    /// Whether no chunk waits or is leased.
    ///
    /// # Errors
    /// When the database fails.
    fn is_idle(&self) -> Result<bool>;

    /// Returns when chunks may have been added, by whatever process, and after `timeout` at the latest. It is a hint:
    /// somebody else may have leased them, and some that were added may not be told.
    fn wait_for_chunks(&self, timeout: Duration);

    /// Takes the chunks of a job away from whoever holds them; their commits will be fenced off.
    ///
    /// # Errors
    /// When the database fails.
    fn take_over(&self, job: JobId) -> Result<u64>;

    /// Gives a chunk back after a failure. It waits `delay_seconds`, or is dead when it has failed `attempts` times.
    ///
    /// # Errors
    /// When the database fails.
    fn release(&self, fence: LeaseToken, reason: &str, delay_seconds: u64, attempts: u32) -> Result<()>;

    /// One job.
    ///
    /// # Errors
    /// When there is none, or the database fails.
    fn job(&self, job: JobId) -> Result<Job>;

    /// The state of a job, which costs less than [`Store::job`].
    ///
    /// # Errors
    /// When there is none, or the database fails.
    fn job_state(&self, job: JobId) -> Result<JobState>;

    /// The newest jobs of a tenant, or of all.
    ///
    /// # Errors
    /// When the database fails.
    fn jobs(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<Job>>;

    /// Notes that whoever worked on a job has stopped before its end, unless somebody else works on it or it has ended. A lease of one
    /// of its chunks makes it running again.
    ///
    /// # Errors
    /// When there is none, or the database fails.
    fn interrupt_job(&self, job: JobId) -> Result<()>;

    /// Ends a job: failed or cancelled. Its waiting chunks go, what was committed stays.
    ///
    /// # Errors
    /// When the database fails.
    fn end_job(&self, job: JobId, state: JobState, reason: &str) -> Result<()>;

    /// Removes a job that has ended, with its journal; one that has not stays. What it committed stays, and says its number.
    ///
    /// # Errors
    /// When there is no such job, or the database fails.
    fn forget_job(&self, job: JobId) -> Result<()>;

    /// Outcomes of a job's documents in the order of its files, `limit` of them after document `after`.
    ///
    /// # Errors
    /// When the database fails.
    fn journal(&self, job: JobId, after: u64, limit: usize, troubles_only: bool) -> Result<Vec<JournalEntry>>;

    /// A document of a job that failed, by its number, as it was read, if it was kept.
    ///
    /// # Errors
    /// When the store fails.
    fn failed_document(&self, job: JobId, document: u64) -> Result<Option<Vec<u8>>>;

    /// Chunks that wait, are leased or dead.
    ///
    /// # Errors
    /// When the database fails.
    fn chunks(&self, job: Option<JobId>) -> Result<Vec<ChunkInfo>>;

    /// A chunk with its bytes, if it carries them.
    ///
    /// # Errors
    /// When there is none, or the database fails.
    fn chunk(&self, chunk: ChunkId) -> Result<ChunkData>;

    /// Lets dead chunks (all of a job, or one) wait again; returns how many.
    ///
    /// # Errors
    /// When the database fails.
    fn retry(&self, job: JobId, ordinal: Option<u32>) -> Result<u64>;

    /// Puts a dumped chunk back, in the place of the one with its number if that waits or is dead. It waits from then on.
    ///
    /// # Errors
    /// When the chunk is leased or done already, its job is unknown, or the database fails.
    fn load_chunk(&self, chunk: ChunkId, slice: ChunkSlice) -> Result<()>;

    /// Puts `parts` in the place of a chunk that is not leased. They get new ordinals.
    ///
    /// # Errors
    /// When the chunk is leased or gone, or the database fails.
    fn replace_chunk(&self, chunk: ChunkId, parts: Vec<NewChunk>) -> Result<()>;
}
