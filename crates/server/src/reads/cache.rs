//! An exact cache of records and lists of keys.
//!
//! Every read gets the store's current commit number. An entry remembers the commit number at which it was read. A commit of this process notes its
//! own number in the slot of each key it wrote. An entry is used if its number is not less than its slot's, so nothing is ever removed and a slow
//! read cannot put back an old value. If the current commit number was not made by this process, another process has written, and all older entries
//! are no longer used.
//!
//! On a server, getting the commit number costs a round trip. One round trip then serves all requests that wait for it, commits are not known key by
//! key, and an entry that is not current is checked by its version before the record is read again. If a store has no commit number, the version of
//! every record is checked before it is used, and lists of keys are not cached.

use super::record::ServedRecord;
use quick_cache::sync::Cache as Map;
use quick_cache::{DefaultHashBuilder, Weighter};
use std::hash::Hash;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_store::plan::PlanColumn;
use stook_store::{ChangedRecord, CommitObserver, Store, Tenant};

/// Number of slots. A slot remembers the last commit of all keys that hash to it.
const SLOTS: usize = 1 << 16;

/// The address of a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordId {
    /// The tenant.
    pub tenant: Tenant,
    /// The collection.
    pub collection: CollectionId,
    /// The record's key.
    pub key: Key,
}

/// Identifies a cached list: the keys of the records with a value in a column.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyListId {
    /// The tenant.
    pub tenant: Tenant,
    /// The collection.
    pub collection: CollectionId,
    /// The column.
    pub column: PlanColumn,
    /// The value, packed as bytes.
    pub value: Vec<u8>,
}

/// The state of the store that a read has seen: a commit number, and the epoch, which grows when another process has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ReadPoint {
    epoch: u64,
    commit_number: i64,
}

#[derive(Clone)]
struct CacheEntry<T> {
    read_point: ReadPoint,
    value: T,
}

#[derive(Clone)]
struct EntryWeigher;

impl Weighter<RecordId, CacheEntry<Arc<ServedRecord>>> for EntryWeigher {
    fn weight(&self, id: &RecordId, entry: &CacheEntry<Arc<ServedRecord>>) -> u64 {
        (id.key.as_str().len() + entry.value.size() + 200) as u64
    }
}

impl Weighter<KeyListId, CacheEntry<Arc<[Key]>>> for EntryWeigher {
    fn weight(&self, id: &KeyListId, entry: &CacheEntry<Arc<[Key]>>) -> u64 {
        (id.value.len() + entry.value.iter().map(|key| key.as_str().len() + 32).sum::<usize>() + 200) as u64
    }
}

/// The cache of records and of lists of keys.
pub struct RecordCache {
    records: Map<RecordId, CacheEntry<Arc<ServedRecord>>, EntryWeigher>,
    lists: Map<KeyListId, CacheEntry<Arc<[Key]>>, EntryWeigher>,
    tracker: Arc<CommitTracker>,
    checks: Mutex<CommitChecks>,
    store_is_local: bool,
}

/// Counts reads of the commit number, so that requests can share them.
#[derive(Default)]
struct CommitChecks {
    begun: u64,
    /// The last read that has finished, and its result in `read_point`.
    done: u64,
    read_point: Option<ReadPoint>,
}

/// What this process knows about commits.
struct CommitTracker {
    /// All changes up to this commit number are known, key by key.
    applied: AtomicI64,
    /// Grows when another process has written; then no older entry is used.
    epoch: AtomicU64,
    /// The last commit number that this process has announced.
    committing: Mutex<Option<i64>>,
    slots: Box<[AtomicI64]>,
    hasher: DefaultHashBuilder,
}

impl CommitTracker {
    fn slot(&self, key: impl Hash) -> &AtomicI64 {
        &self.slots[self.hasher.hash_one(key) as usize % SLOTS]
    }

    fn record_slot(&self, tenant: &Tenant, collection: CollectionId, key: &Key) -> &AtomicI64 {
        self.slot((tenant, collection, key))
    }

    fn lists_slot(&self, tenant: &Tenant, collection: CollectionId) -> &AtomicI64 {
        self.slot((tenant, collection))
    }

    /// Another process has written, up to this commit number.
    fn begin_epoch(&self, commit_number: i64) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.applied.store(commit_number, Ordering::SeqCst);
    }
}

impl CommitObserver for CommitTracker {
    fn committing(&self, before: i64, commit_number: i64) {
        let mut announced = self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        if before > self.applied.load(Ordering::SeqCst) {
            self.begin_epoch(before);
        }
        *announced = Some(commit_number);
    }

    fn committed(&self, commit_number: i64, changed: &[ChangedRecord]) {
        for ChangedRecord { tenant, collection, key, content_changed: content } in changed {
            self.record_slot(tenant, *collection, key).fetch_max(commit_number, Ordering::SeqCst);
            if *content {
                self.lists_slot(tenant, *collection).fetch_max(commit_number, Ordering::SeqCst);
            }
        }
        let _announced = self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        self.applied.fetch_max(commit_number, Ordering::SeqCst);
    }
}

/// Whether a cached record may be used without a check.
pub enum CachedRecord {
    /// It is current.
    Exact(Arc<ServedRecord>),
    /// It may be used if the store still has the same version.
    Unchecked(Arc<ServedRecord>),
}

impl RecordCache {
    /// Creates a cache of about `bytes` bytes that observes the store's commits.
    ///
    /// # Errors
    /// When the store fails.
    pub fn new(store: &dyn Store, bytes: u64) -> stook_store::Result<Self> {
        let tracker = Arc::new(CommitTracker {
            applied: AtomicI64::new(0),
            epoch: AtomicU64::new(0),
            committing: Mutex::default(),
            slots: (0..SLOTS).map(|_| AtomicI64::new(0)).collect(),
            hasher: DefaultHashBuilder::default(),
        });
        store.watch(tracker.clone());
        if let Some(commit_number) = store.commit_number()? {
            tracker.begin_epoch(commit_number);
        }
        let items = (bytes / 1_000).clamp(100, 10_000_000) as usize;
        Ok(Self {
            records: Map::with_weighter(items, bytes * 3 / 4, EntryWeigher),
            lists: Map::with_weighter(items, bytes / 4, EntryWeigher),
            tracker,
            checks: Mutex::default(),
            store_is_local: store.is_local(),
        })
    }

    /// Returns the read point of a read that begins now, or `None` if the store has no commit number, so that every use must be checked.
    ///
    /// # Errors
    /// When the store fails.
    pub fn read_point(&self, store: &dyn Store) -> stook_store::Result<Option<ReadPoint>> {
        let Some(commit_number) = store.commit_number()? else { return Ok(None) };
        let tracker = &self.tracker;
        if commit_number > tracker.applied.load(Ordering::SeqCst) {
            let announced = tracker.committing.lock().unwrap_or_else(PoisonError::into_inner);
            if *announced == Some(commit_number) {
                // this process's own commit, seen before it was reported: what is read now is at least that new, but cached entries are not
                return Ok(Some(ReadPoint { commit_number, epoch: tracker.epoch.load(Ordering::SeqCst) }));
            }
            if commit_number > tracker.applied.load(Ordering::SeqCst) {
                tracker.begin_epoch(commit_number);
            }
        }
        Ok(Some(ReadPoint { commit_number, epoch: tracker.epoch.load(Ordering::SeqCst) }))
    }

    /// The same as [`Self::read_point`], shared by all requests that arrive before the commit number is read. A request first yields, so that more
    /// requests can arrive.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn shared_read_point(&self, store: &dyn Store) -> stook_store::Result<Option<ReadPoint>> {
        let lock = || self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = lock().begun + 1;
        tokio::task::yield_now().await;
        let mut checks = lock();
        if checks.done < wanted {
            checks.begun += 1;
            checks.read_point = self.read_point(store)?;
            checks.done = checks.begun;
        }
        Ok(checks.read_point)
    }

    /// Whether all commits up to `read_point` are known.
    fn is_exact(&self, read_point: ReadPoint) -> bool {
        read_point.commit_number <= self.tracker.applied.load(Ordering::SeqCst)
    }

    fn is_current(&self, read: ReadPoint, read_point: ReadPoint, slot: &AtomicI64) -> bool {
        read.epoch == read_point.epoch && read.commit_number >= slot.load(Ordering::SeqCst) && self.is_exact(read_point)
    }

    /// Returns a cached record: exact if it is current at `read_point`; otherwise, if checking it is worthwhile or `read_point` is `None`, unchecked.
    pub fn record(&self, id: &RecordId, read_point: Option<ReadPoint>) -> Option<CachedRecord> {
        let entry = self.records.get(id)?;
        match read_point {
            None => Some(CachedRecord::Unchecked(entry.value)),
            Some(read_point) => {
                let slot = self.tracker.record_slot(&id.tenant, id.collection, &id.key);
                if self.is_current(entry.read_point, read_point, slot) {
                    return Some(CachedRecord::Exact(entry.value));
                }
                // on a near store, reading the record again costs no more than checking its version
                (!self.store_is_local).then(|| CachedRecord::Unchecked(entry.value))
            }
        }
    }

    /// Caches a record that was read at `read` or later.
    pub fn put_record(&self, id: RecordId, read: Option<ReadPoint>, value: Arc<ServedRecord>) {
        self.records.insert(id, CacheEntry { read_point: read.unwrap_or_default(), value });
    }

    /// Returns a cached list if it is current at `read_point`.
    pub fn list(&self, id: &KeyListId, read_point: Option<ReadPoint>) -> Option<Arc<[Key]>> {
        let (read_point, entry) = (read_point?, self.lists.get(id)?);
        let slot = self.tracker.lists_slot(&id.tenant, id.collection);
        self.is_current(entry.read_point, read_point, slot).then_some(entry.value)
    }

    /// Caches a list that was read at `read` or later.
    pub fn put_list(&self, id: KeyListId, read: Option<ReadPoint>, value: Arc<[Key]>) {
        if let Some(read_point) = read {
            self.lists.insert(id, CacheEntry { read_point, value });
        }
    }

    /// Number of records in the cache.
    pub fn records(&self) -> usize {
        self.records.len()
    }

    /// Approximate size in bytes.
    pub fn size(&self) -> u64 {
        self.records.weight() + self.lists.weight()
    }
}
