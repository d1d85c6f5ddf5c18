//! Look-ups by key and by value, in bulk. What the cache holds is answered at once; everything else that is asked for meanwhile
//! is asked of the store together, by a few threads, so that many requests cost few statements.

use crate::cache::{CachedRecord, KeyListId, Place, ReadPoint, RecordCache};
use crate::metrics::{CachedKind, Metrics};
use axum::http::HeaderValue;
use bytes::Bytes;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::key::Key;
use stook_catalogue::record::put_value;
use stook_catalogue::value::Value;
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::{ReadDetail, Result, Store, StoreError, StoredRecord, Tenant};
use tokio::sync::oneshot;

/// A record as readers see it.
#[derive(Debug)]
pub struct ServedRecord {
    /// Version, golden values, state; without what is in `texts`.
    pub stored: StoredRecord,
    /// Values of type json by field, as text: parsed they would take three times the memory.
    texts: Vec<(usize, Box<str>)>,
    /// Its entity tag.
    pub etag: HeaderValue,
    /// The same as JSON text, made when it is first asked for.
    json: OnceLock<Bytes>,
}

impl ServedRecord {
    fn new(mut stored: StoredRecord, collection: &Collection) -> Self {
        let mut texts = Vec::new();
        for (index, value) in stored.golden.iter_mut().enumerate() {
            if let Value::Json(json) = value {
                texts.push((index, json.to_string().into()));
                *value = Value::Null;
            }
        }
        Self { etag: crate::records::etag(stored.version, collection), stored, texts, json: OnceLock::new() }
    }

    /// The value of a golden field.
    pub fn field(&self, index: usize) -> Cow<'_, Value> {
        match self.texts.iter().find(|(known, _)| *known == index) {
            Some((_, text)) => Cow::Owned(serde_json::from_str(text).map_or(Value::Null, |json| Value::Json(Arc::new(json)))),
            None => Cow::Borrowed(&self.stored.golden[index]),
        }
    }

    /// The value of a field of type json, as the text that is kept of it.
    pub fn text(&self, index: usize) -> Option<&str> {
        self.texts.iter().find(|(known, _)| *known == index).map(|(_, text)| &**text)
    }

    /// The record as JSON.
    pub fn to_json(&self, collection: &Collection) -> serde_json::Value {
        if self.texts.is_empty() {
            return stook_engine::record::to_json(collection, &self.stored);
        }
        let golden = (0..self.stored.golden.len()).map(|index| self.field(index).into_owned()).collect();
        stook_engine::record::to_json(collection, &StoredRecord { golden, ..self.stored.clone() })
    }

    /// The record as JSON text.
    pub fn json(&self, collection: &Collection) -> Bytes {
        self.json.get_or_init(|| self.to_json(collection).to_string().into()).clone()
    }

    /// Bytes of memory, about, its JSON text included.
    pub fn size(&self) -> usize {
        let values = self.stored.golden.iter().chain(&self.stored.state);
        let texts: usize = self.texts.iter().map(|(_, text)| 40 + 2 * text.len()).sum();
        texts + values.map(|value| 48 + size(value)).sum::<usize>()
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Text(text) => 2 * text.len(),
        Value::List(items) => items.iter().map(|item| 40 + size(item)).sum(),
        _ => 8,
    }
}

/// What a request sees: everything committed before. Nothing without a cache; nothing inside where the store has no stand.
type VisibleFrom = Option<Option<ReadPoint>>;

/// Records of one collection that somebody asks for.
struct RecordsRequest {
    tenant: Tenant,
    collection: usize,
    keys: Vec<Key>,
    now: VisibleFrom,
    answer: oneshot::Sender<Result<Vec<Option<Arc<ServedRecord>>>>>,
}

/// Lists of keys that somebody asks for: of records that have one of these values in a column.
struct KeyListsRequest {
    tenant: Tenant,
    collection: usize,
    column: PlanColumn,
    values: Vec<Value>,
    answer: oneshot::Sender<Result<KeyLists>>,
}

/// What waits for a thread, taken together.
struct BatchQueue<T> {
    waiting: Mutex<Vec<T>>,
    arrived: Condvar,
    closed: AtomicBool,
}

impl<T> BatchQueue<T> {
    fn new() -> Self {
        Self { waiting: Mutex::default(), arrived: Condvar::new(), closed: AtomicBool::new(false) }
    }

    fn join(&self, one: T) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(one);
        // where others wait, a thread is on its way
        if waiting.len() == 1 {
            self.arrived.notify_one();
        }
    }

    /// Waits for some and takes as many of them as `most` says, one at least.
    fn take(&self, most: impl Fn(&[T]) -> usize) -> Option<Vec<T>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while waiting.is_empty() {
            if self.closed.load(Ordering::SeqCst) {
                return None;
            }
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        let taken = most(&waiting).max(1);
        let all: Vec<T> = waiting.drain(..taken).collect();
        if !waiting.is_empty() {
            self.arrived.notify_one();
        }
        Some(all)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.arrived.notify_all();
    }
}

/// How many of those who wait are asked for at once.
fn together<T>(waiting: &[T], most: usize, size: impl Fn(&T) -> usize) -> usize {
    let mut all = 0;
    let fits = |ask: &&T| {
        all += size(ask);
        all <= most
    };
    waiting.iter().take_while(fits).count()
}

/// Answers all who asked together: each with its own of what was found, or that it failed.
fn answer<T, F, V>(asks: Vec<T>, mut found: Result<F>, own: impl Fn(&F, &T) -> V, whom: impl Fn(T) -> oneshot::Sender<Result<V>>) {
    for ask in asks {
        let answer = match &found {
            Ok(found) => Ok(own(found, &ask)),
            Err(_) => std::mem::replace(&mut found, Err(beside())).map(|found| own(&found, &ask)),
        };
        let _ = whom(ask).send(answer);
    }
}

/// The error of a question that was asked for several at once, for the others.
fn beside() -> StoreError {
    StoreError::ReadOnly("another lookup in the same batch failed".into())
}

/// Threads that read records.
const THREADS: usize = 2;
/// Keys asked for at once.
const TOGETHER: usize = 2_000;
/// Values of which lists are asked for at once.
const LISTS_TOGETHER: usize = 200;

/// Look-ups through the cache.
pub struct LookupService {
    inner: Arc<LookupState>,
    threads: Vec<JoinHandle<()>>,
}

struct LookupState {
    catalogue: Arc<Catalogue>,
    store: Arc<dyn Store>,
    cache: Option<RecordCache>,
    metrics: Arc<Metrics>,
    asks: BatchQueue<RecordsRequest>,
    lists: BatchQueue<KeyListsRequest>,
    /// Requests that begin, where the stand is not at hand.
    read_point_requests: BatchQueue<oneshot::Sender<Result<Option<ReadPoint>>>>,
    near: bool,
}

impl LookupService {
    /// Look-ups with a cache of about `cache` bytes, or none.
    ///
    /// # Errors
    /// When the store fails.
    pub fn new(catalogue: Arc<Catalogue>, store: Arc<dyn Store>, cache: u64, metrics: Arc<Metrics>) -> Result<Self> {
        let cache = if cache > 0 { Some(RecordCache::new(&*store, cache)?) } else { None };
        let near = store.is_near();
        let inner = Arc::new(LookupState {
            catalogue,
            store,
            cache,
            metrics,
            asks: BatchQueue::new(),
            lists: BatchQueue::new(),
            read_point_requests: BatchQueue::new(),
            near,
        });
        let mut threads = Vec::new();
        for thread in 0..THREADS + 2 {
            let own = inner.clone();
            let work = move || match thread {
                0 => own.tell_moments(),
                1 => own.serve_lists(),
                _ => own.serve(),
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

    /// Look-ups of one request, which sees what was committed before now, or later.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn begin(&self, tenant: &Tenant, way: MissPolicy) -> Result<RequestLookups<'_>> {
        let now = match &self.inner.cache {
            None => None,
            Some(cache) if self.inner.near => Some(cache.shared_now(&*self.inner.store).await?),
            Some(_) => {
                let (answer, told) = oneshot::channel();
                self.inner.read_point_requests.join(answer);
                Some(told.await.unwrap_or_else(|_| Err(ending()))?)
            }
        };
        Ok(RequestLookups { reads: self, tenant: tenant.clone(), now, way, missed: AtomicBool::new(false) })
    }

    /// The same on a thread that may wait: every look-up is done when it is asked for.
    ///
    /// # Errors
    /// When the store fails.
    pub fn begin_directly(&self, tenant: &Tenant) -> Result<RequestLookups<'_>> {
        Ok(RequestLookups { reads: self, tenant: tenant.clone(), now: self.inner.now()?, way: MissPolicy::Inline, missed: AtomicBool::new(false) })
    }

    /// Whether a question to the store costs less than to hand it to another thread: of a request with several look-ups the cache
    /// is asked first, then one thread does them all.
    pub fn are_near(&self) -> bool {
        self.inner.near
    }
}

/// How what the cache does not have is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissPolicy {
    /// Together with what other requests ask for, by other threads.
    Batched,
    /// Not at all: the look-up fails, and [`RequestLookups::has_missed`] says so.
    CacheOnly,
    /// By this thread, which may wait.
    Inline,
}

/// Look-ups of one request.
pub struct RequestLookups<'r> {
    reads: &'r LookupService,
    tenant: Tenant,
    now: VisibleFrom,
    way: MissPolicy,
    missed: AtomicBool,
}

impl RequestLookups<'_> {
    /// How what the cache does not have is looked up.
    pub fn way(&self) -> MissPolicy {
        self.way
    }

    /// Whether the cache did not have something that was looked for there only.
    pub fn has_missed(&self) -> bool {
        self.missed.load(Ordering::Relaxed)
    }

    /// Fails a look-up that the cache cannot answer.
    ///
    /// # Errors
    /// Always.
    pub fn miss<T>(&self) -> Result<T> {
        self.missed.store(true, Ordering::Relaxed);
        Err(StoreError::Other("not in the cache".into()))
    }

    /// Records by key, in the order of `keys`; those that do not exist for readers are nothing.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn records(&self, collection: usize, keys: &[Key]) -> Result<Vec<Option<Arc<ServedRecord>>>> {
        let (inner, tenant) = (&self.reads.inner, &self.tenant);
        if let Some(found) = inner.cached(tenant, collection, keys, self.now.flatten()) {
            return Ok(found);
        }
        match self.way {
            MissPolicy::CacheOnly => return self.miss(),
            MissPolicy::Inline => {
                let found = inner.read(tenant, collection, keys, self.now)?;
                return Ok(keys.iter().map(|key| found.get(key).cloned()).collect());
            }
            MissPolicy::Batched => {}
        }
        let (answer, received) = oneshot::channel();
        inner.asks.join(RecordsRequest { tenant: tenant.clone(), collection, keys: keys.to_vec(), now: self.now, answer });
        received.await.unwrap_or_else(|_| Err(ending()))
    }

    /// One record by key.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn record(&self, collection: usize, key: Key) -> Result<Option<Arc<ServedRecord>>> {
        Ok(self.records(collection, std::slice::from_ref(&key)).await?.pop().flatten())
    }

    /// For each value the keys of all records that have it in a column, in the order of keys; nothing where these are more than
    /// [`MOST_FOUND`] records together. The lists are of one moment: a record that goes from one of the values to another is in one of them.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn keys(&self, collection: usize, column: PlanColumn, values: &[Value]) -> Result<KeyLists> {
        let (inner, tenant) = (&self.reads.inner, &self.tenant);
        let places: Vec<KeyListId> = values.iter().map(|value| list_place(tenant, collection, column, value)).collect();
        let cached = |place: &KeyListId| inner.cache.as_ref().and_then(|cache| cache.list(place, self.now.flatten()));
        if let Some(lists) = places.iter().map(cached).collect::<KeyLists>() {
            inner.metrics.cached(CachedKind::List, lists.len(), 0);
            return Ok(Some(lists));
        }
        // lists of different moments could both be without a record that has gone from one to the other: all are read together
        let found = match self.way {
            MissPolicy::CacheOnly => return self.miss(),
            MissPolicy::Inline => inner.find_keys(tenant, collection, column, values)?,
            MissPolicy::Batched => {
                let (answer, received) = oneshot::channel();
                inner.lists.join(KeyListsRequest { tenant: tenant.clone(), collection, column, values: values.to_vec(), answer });
                received.await.unwrap_or_else(|_| Err(ending()))?
            }
        };
        inner.metrics.cached(CachedKind::List, 0, places.len());
        if let (Some(cache), Some(lists)) = (&inner.cache, &found) {
            for (place, list) in places.into_iter().zip(lists).filter(|(_, list)| list.len() <= MOST_KEPT) {
                cache.put_list(place, self.now.flatten(), list.clone());
            }
        }
        Ok(found)
    }
}

impl Drop for LookupService {
    fn drop(&mut self) {
        self.inner.asks.close();
        self.inner.lists.close();
        self.inner.read_point_requests.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn ending() -> StoreError {
    StoreError::Other("the server is shutting down".into())
}

fn list_place(tenant: &Tenant, collection: usize, column: PlanColumn, value: &Value) -> KeyListId {
    KeyListId { tenant: tenant.clone(), collection, column, value: packed(value) }
}

/// Keys of records with a value in common.
type KeyList = Arc<[Key]>;

/// Lists of several values, all of them whole; nothing where they have too many records to be looked up. There is no list that was cut.
type KeyLists = Option<Vec<KeyList>>;

/// Most records that one look-up by values finds.
pub const MOST_FOUND: usize = 50_000;

/// Most keys of a list that the cache keeps.
const MOST_KEPT: usize = 10_000;

impl LookupState {
    /// The moment of a read that begins now: none without a cache, none inside where every use is checked.
    fn now(&self) -> Result<VisibleFrom> {
        self.cache.as_ref().map(|cache| cache.now(&*self.store)).transpose()
    }

    /// All of these, if the cache has them as they are now.
    fn cached(&self, tenant: &Tenant, collection: usize, keys: &[Key], now: Option<ReadPoint>) -> Option<Vec<Option<Arc<ServedRecord>>>> {
        let (cache, now) = (self.cache.as_ref()?, now?);
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let place = Place { tenant: tenant.clone(), collection, key: key.clone() };
            match cache.record(&place, Some(now)) {
                Some(CachedRecord::Exact(record)) => found.push(Some(record)),
                _ => return None,
            }
        }
        self.metrics.cached(CachedKind::Record, keys.len(), 0);
        Some(found)
    }

    /// Tells requests that begin which moment it is; one question is for all that came before it.
    fn tell_moments(&self) {
        while let Some(beginners) = self.read_point_requests.take(|waiting| waiting.len()) {
            let mut moment = self.now();
            for beginner in beginners {
                let own = match &moment {
                    Ok(now) => Ok(now.flatten()),
                    Err(_) => std::mem::replace(&mut moment, Err(beside())).map(Option::flatten),
                };
                let _ = beginner.send(own);
            }
        }
    }

    fn serve_lists(&self) {
        while let Some(asks) = self.lists.take(|asks| together(asks, LISTS_TOGETHER, |ask| ask.values.len())) {
            let mut groups: HashMap<(Tenant, usize, PlanColumn), Vec<KeyListsRequest>> = HashMap::new();
            // whoever has gone is not asked for
            for ask in asks.into_iter().filter(|ask| !ask.answer.is_closed()) {
                groups.entry((ask.tenant.clone(), ask.collection, ask.column)).or_default().push(ask);
            }
            for ((tenant, collection, column), asks) in groups {
                // each value once
                let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
                let mut values = Vec::new();
                for value in asks.iter().flat_map(|ask| &ask.values) {
                    places.entry(packed(value)).or_insert_with(|| {
                        values.push(value.clone());
                        values.len() - 1
                    });
                }
                let found = self.find_keys(&tenant, collection, column, &values);
                if asks.len() > 1 && matches!(found, Ok(None)) {
                    // too many for one of them, or only together
                    self.answer_one_by_one(&tenant, (collection, column), asks);
                    continue;
                }
                let own = |lists: &KeyLists, ask: &KeyListsRequest| -> KeyLists {
                    let lists = lists.as_ref()?;
                    Some(ask.values.iter().map(|value| lists[places[&packed(value)]].clone()).collect())
                };
                answer(asks, found, own, |ask| ask.answer);
            }
        }
    }

    /// Answers those who asked together each for itself; who asks for the same is answered the same.
    fn answer_one_by_one(&self, tenant: &Tenant, (collection, column): (usize, PlanColumn), asks: Vec<KeyListsRequest>) {
        let mut known: HashMap<Vec<Vec<u8>>, KeyLists> = HashMap::new();
        for ask in asks {
            let place: Vec<Vec<u8>> = ask.values.iter().map(packed).collect();
            let found = match known.get(&place) {
                Some(lists) => Ok(lists.clone()),
                None => self.find_keys(tenant, collection, column, &ask.values),
            };
            if let Ok(lists) = &found {
                known.insert(place, lists.clone());
            }
            let _ = ask.answer.send(found);
        }
    }

    fn serve(&self) {
        while let Some(asks) = self.asks.take(|asks| together(asks, TOGETHER, |ask| ask.keys.len())) {
            let mut groups: HashMap<(Tenant, usize), Vec<RecordsRequest>> = HashMap::new();
            for ask in asks.into_iter().filter(|ask| !ask.answer.is_closed()) {
                groups.entry((ask.tenant.clone(), ask.collection)).or_default().push(ask);
            }
            for ((tenant, collection), asks) in groups {
                let mut keys: Vec<Key> = asks.iter().flat_map(|ask| ask.keys.iter().cloned()).collect();
                keys.sort_unstable();
                keys.dedup();
                // what is current at the last moment is so for all
                let now = asks.iter().map(|ask| ask.now).max().flatten();
                let found = self.read(&tenant, collection, &keys, now);
                if let (Err(StoreError::Damaged(_)), 2..) = (&found, asks.len()) {
                    // one record that cannot be read is nothing to those who ask for others
                    for ask in asks {
                        let found = self.read(&tenant, collection, &ask.keys, ask.now);
                        let found = found.map(|found| ask.keys.iter().map(|key| found.get(key).cloned()).collect());
                        let _ = ask.answer.send(found);
                    }
                    continue;
                }
                let own =
                    |found: &HashMap<Key, Arc<ServedRecord>>, ask: &RecordsRequest| ask.keys.iter().map(|key| found.get(key).cloned()).collect();
                answer(asks, found, own, |ask| ask.answer);
            }
        }
    }

    /// Living records among `keys`.
    fn read(&self, tenant: &Tenant, collection: usize, keys: &[Key], now: VisibleFrom) -> Result<HashMap<Key, Arc<ServedRecord>>> {
        let mut found: HashMap<Key, Arc<ServedRecord>> = HashMap::with_capacity(keys.len());
        let mut missing: Vec<Key> = Vec::new();
        let mut unchecked: Vec<(Key, Arc<ServedRecord>)> = Vec::new();
        for key in keys {
            let place = || Place { tenant: tenant.clone(), collection, key: key.clone() };
            match self.cache.as_ref().zip(now).and_then(|(cache, now)| cache.record(&place(), now)) {
                Some(CachedRecord::Exact(record)) => {
                    found.insert(key.clone(), record);
                }
                Some(CachedRecord::Version(_, record)) => unchecked.push((key.clone(), record)),
                None => missing.push(key.clone()),
            }
        }
        if !unchecked.is_empty() {
            let asked: Vec<Key> = unchecked.iter().map(|(key, _)| key.clone()).collect();
            self.metrics.asked("versions");
            let versions = self.store.versions(tenant, collection, &asked)?;
            for ((key, record), version) in unchecked.into_iter().zip(versions) {
                if version == Some(record.stored.version) {
                    if let (Some(cache), Some(now @ Some(_))) = (&self.cache, now) {
                        cache.put_record(Place { tenant: tenant.clone(), collection, key: key.clone() }, now, record.clone());
                    }
                    found.insert(key, record);
                } else if version.is_some() {
                    missing.push(key);
                }
            }
        }
        self.metrics.cached(CachedKind::Record, found.len(), missing.len());
        if !missing.is_empty() {
            self.metrics.asked("read");
            for (key, stored) in missing.iter().zip(self.store.read(tenant, collection, &missing, ReadDetail::Values)?) {
                let Some(stored) = stored.filter(|stored| stored.alive) else { continue };
                let record = Arc::new(ServedRecord::new(stored, &self.catalogue.collections[collection]));
                if let (Some(cache), Some(now)) = (&self.cache, now) {
                    cache.put_record(Place { tenant: tenant.clone(), collection, key: key.clone() }, now, record.clone());
                }
                found.insert(key.clone(), record);
            }
        }
        Ok(found)
    }

    /// The lists of some values, by one question: they are of one moment.
    fn find_keys(&self, tenant: &Tenant, collection: usize, column: PlanColumn, values: &[Value]) -> Result<KeyLists> {
        let test = if let [only] = values { Comparison::Equal(only.clone()) } else { Comparison::In(values.to_vec()) };
        let mut plan = QueryPlan::all(tenant.clone(), collection);
        plan.conditions.push(Condition { column, test });
        plan.columns = vec![PlanColumn::Key, column];
        plan.limit = Some(MOST_FOUND as u64 + 1);
        self.metrics.asked("find");
        let rows = self.store.find(&plan)?.rows;
        if rows.len() > MOST_FOUND {
            return Ok(None);
        }
        let mut lists: Vec<Vec<Key>> = vec![Vec::new(); values.len()];
        // folded columns find what is equal but for case
        let fold = |value: &Value| match (value, column) {
            (Value::Text(text), PlanColumn::Field(index)) if self.catalogue.collections[collection].fields[index].fold => {
                Value::text(stook_catalogue::fold::fold(text))
            }
            (value, _) => value.clone(),
        };
        let mut places: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
        for (index, value) in values.iter().enumerate() {
            places.entry(packed(&fold(value))).or_default().push(index);
        }
        for row in rows {
            let [key, found] = row.as_slice() else { continue };
            let Some(key) = key.as_text().and_then(|key| Key::new(key).ok()) else { continue };
            for element in found.elements() {
                for index in places.get(&packed(&fold(element))).into_iter().flatten() {
                    if lists[*index].last() != Some(&key) {
                        lists[*index].push(key.clone());
                    }
                }
            }
        }
        Ok(Some(lists.into_iter().map(Arc::from).collect()))
    }
}

/// A value as bytes: equal values, equal bytes.
pub fn packed(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_value(&mut out, value);
    out
}
