//! Lookups by key and by value. What the cache has is returned at once. A few threads read everything else from the store, combining what several
//! requests need, so that many requests cost few statements.

use super::batch::BatchQueue;
use super::cache::{KeyListId, RecordCache};
use super::reader::{KeyLists, KeyListsRequest, LookupState, RecordsRequest, RequestReadPoint, packed};
use super::record::ServedRecord;
use crate::metrics::{CachedKind, Metrics};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;
use stook_store::plan::PlanColumn;
use stook_store::{Result, Store, StoreError, Tenant};
use tokio::sync::oneshot;

/// Max keys of a list that is cached.
const MAX_KEPT: usize = 10_000;

/// Number of threads that read records.
const THREADS: usize = 2;
/// Lookups through the cache.
pub struct LookupService {
    inner: Arc<LookupState>,
    threads: Vec<JoinHandle<()>>,
}

impl LookupService {
    /// Creates lookups with a cache of about `cache` bytes; 0 means no cache.
    ///
    /// # Errors
    /// When the store fails.
    pub fn new(catalogue: Arc<Catalogue>, store: Arc<dyn Store>, cache: u64, metrics: Arc<Metrics>) -> Result<Self> {
        let cache = if cache > 0 { Some(RecordCache::new(&*store, cache)?) } else { None };
        let store_is_local = store.is_local();
        let inner = Arc::new(LookupState {
            catalogue,
            store,
            cache,
            metrics,
            record_requests: BatchQueue::new(),
            list_requests: BatchQueue::new(),
            read_point_requests: BatchQueue::new(),
            store_is_local,
        });
        let mut threads = Vec::new();
        for thread in 0..THREADS + 2 {
            let state = inner.clone();
            let work = move || match thread {
                0 => state.serve_read_points(),
                1 => state.serve_lists(),
                _ => state.serve_records(),
            };
            let started = std::thread::Builder::new().name("reads".into()).spawn(work);
            threads.push(started.map_err(|error| StoreError::Other(error.to_string()))?);
        }
        Ok(Self { inner, threads })
    }

    /// The cache, if there is one.
    pub fn cache(&self) -> Option<&RecordCache> {
        self.inner.cache.as_ref()
    }

    /// Begins the lookups of one request. They see everything committed before this call, and possibly later commits.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn begin(&self, tenant: &Tenant, miss_policy: MissPolicy) -> Result<RequestLookups<'_>> {
        let read_point = match &self.inner.cache {
            None => None,
            Some(cache) if self.inner.store_is_local => Some(cache.shared_read_point(&*self.inner.store).await?),
            Some(_) => {
                let (sender, receiver) = oneshot::channel();
                self.inner.read_point_requests.push(sender);
                Some(receiver.await.unwrap_or_else(|_| Err(shutting_down()))?)
            }
        };
        Ok(RequestLookups { reads: self, tenant: tenant.clone(), read_point, miss_policy, missed: AtomicBool::new(false) })
    }

    /// The same on a thread that may block: every lookup runs on that thread.
    ///
    /// # Errors
    /// When the store fails.
    pub fn begin_directly(&self, tenant: &Tenant) -> Result<RequestLookups<'_>> {
        Ok(RequestLookups {
            reads: self,
            tenant: tenant.clone(),
            read_point: self.inner.read_point()?,
            miss_policy: MissPolicy::Inline,
            missed: AtomicBool::new(false),
        })
    }

    /// Whether a read from the store costs less than handing it to another thread. A request with several lookups then tries the cache first, and
    /// otherwise one thread does them all.
    pub fn store_is_local(&self) -> bool {
        self.inner.store_is_local
    }
}

/// How a lookup is done that the cache cannot answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissPolicy {
    /// By other threads, combined with the lookups of other requests.
    Batched,
    /// Not at all: the lookup fails and [`RequestLookups::has_missed`] returns true.
    CacheOnly,
    /// By the calling thread, which may block.
    Inline,
}

/// Lookups of one request.
pub struct RequestLookups<'r> {
    reads: &'r LookupService,
    tenant: Tenant,
    read_point: RequestReadPoint,
    miss_policy: MissPolicy,
    missed: AtomicBool,
}

impl RequestLookups<'_> {
    /// How a lookup is done that the cache cannot answer.
    pub fn miss_policy(&self) -> MissPolicy {
        self.miss_policy
    }

    /// Whether a lookup with [`MissPolicy::CacheOnly`] was not answered by the cache.
    pub fn has_missed(&self) -> bool {
        self.missed.load(Ordering::Relaxed)
    }

    /// Records that the cache could not answer a lookup, and fails it.
    ///
    /// # Errors
    /// Always.
    pub fn miss<T>(&self) -> Result<T> {
        self.missed.store(true, Ordering::Relaxed);
        Err(StoreError::Other("not in the cache".into()))
    }

    /// Returns records by key, in the order of `keys`; `None` for those that do not exist.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn records(&self, collection: CollectionId, keys: &[Key]) -> Result<Vec<Option<Arc<ServedRecord>>>> {
        let (inner, tenant) = (&self.reads.inner, &self.tenant);
        if let Some(found) = inner.cached(tenant, collection, keys, self.read_point.flatten()) {
            return Ok(found);
        }
        match self.miss_policy {
            MissPolicy::CacheOnly => return self.miss(),
            MissPolicy::Inline => {
                let found = inner.read(tenant, collection, keys, self.read_point)?;
                return Ok(keys.iter().map(|key| found.get(key).cloned()).collect());
            }
            MissPolicy::Batched => {}
        }
        let (sender, receiver) = oneshot::channel();
        inner.record_requests.push(RecordsRequest {
            tenant: tenant.clone(),
            collection,
            keys: keys.to_vec(),
            read_point: self.read_point,
            reply: sender,
        });
        receiver.await.unwrap_or_else(|_| Err(shutting_down()))
    }

    /// Returns one record by key.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn record(&self, collection: CollectionId, key: Key) -> Result<Option<Arc<ServedRecord>>> {
        Ok(self.records(collection, std::slice::from_ref(&key)).await?.pop().flatten())
    }

    /// Returns for each value the keys of all records that have it in a column, in key order; `None` if these are more than
    /// [`MAX_FOUND`](super::MAX_FOUND) records in total. All lists show the same state of the store: a record that changes from one of the values to
    /// another is in exactly one of them.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn keys(&self, collection: CollectionId, column: PlanColumn, values: &[Value]) -> Result<KeyLists> {
        let (inner, tenant) = (&self.reads.inner, &self.tenant);
        let ids: Vec<KeyListId> = values.iter().map(|value| key_list_id(tenant, collection, column, value)).collect();
        let cached = |id: &KeyListId| inner.cache.as_ref().and_then(|cache| cache.list(id, self.read_point.flatten()));
        if let Some(lists) = ids.iter().map(cached).collect::<KeyLists>() {
            inner.metrics.count_cached(CachedKind::List, lists.len(), 0);
            return Ok(Some(lists));
        }
        // cached and new lists are not combined: a record that has changed from one value to another might be missing in both
        let found = match self.miss_policy {
            MissPolicy::CacheOnly => return self.miss(),
            MissPolicy::Inline => inner.find_keys(tenant, collection, column, values)?,
            MissPolicy::Batched => {
                let (sender, receiver) = oneshot::channel();
                inner.list_requests.push(KeyListsRequest { tenant: tenant.clone(), collection, column, values: values.to_vec(), reply: sender });
                receiver.await.unwrap_or_else(|_| Err(shutting_down()))?
            }
        };
        inner.metrics.count_cached(CachedKind::List, 0, ids.len());
        if let (Some(cache), Some(lists)) = (&inner.cache, &found) {
            for (id, list) in ids.into_iter().zip(lists).filter(|(_, list)| list.len() <= MAX_KEPT) {
                cache.put_list(id, self.read_point.flatten(), list.clone());
            }
        }
        Ok(found)
    }
}

impl Drop for LookupService {
    fn drop(&mut self) {
        self.inner.record_requests.close();
        self.inner.list_requests.close();
        self.inner.read_point_requests.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn shutting_down() -> StoreError {
    StoreError::Other("the server is shutting down".into())
}

fn key_list_id(tenant: &Tenant, collection: CollectionId, column: PlanColumn, value: &Value) -> KeyListId {
    KeyListId { tenant: tenant.clone(), collection, column, value: packed(value) }
}
