//! Reads from the store what the cache does not have. Requests that wait at the same time share one read.

use super::batch::{BatchQueue, answer, batch_failed, together};
use super::cache::{CachedRecord, Place, ReadPoint, RecordCache};
use super::record::ServedRecord;
use crate::metrics::{CachedKind, Metrics};
use std::collections::HashMap;
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::record::put_value;
use stook_catalogue::value::Value;
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::{ReadDetail, Result, Store, StoreError, Tenant};
use tokio::sync::oneshot;

/// Max keys that one read combines.
const TOGETHER: usize = 2_000;
/// Max values whose lists one read combines.
const LISTS_TOGETHER: usize = 200;

/// The read point of a request, which sees everything committed before it. The outer `None` means no cache; the inner `None` means that the store has
/// no commit number.
pub type VisibleFrom = Option<Option<ReadPoint>>;

/// A request for records of one collection.
pub struct RecordsRequest {
    pub tenant: Tenant,
    pub collection: CollectionId,
    pub keys: Vec<Key>,
    pub now: VisibleFrom,
    pub answer: oneshot::Sender<Result<Vec<Option<Arc<ServedRecord>>>>>,
}

/// A request for lists of keys: for each value, of the records that have it in a column.
pub struct KeyListsRequest {
    pub tenant: Tenant,
    pub collection: CollectionId,
    pub column: PlanColumn,
    pub values: Vec<Value>,
    pub answer: oneshot::Sender<Result<KeyLists>>,
}

/// Keys of records with a value in common.
pub type KeyList = Arc<[Key]>;

/// Complete lists for several values, or `None` if there are too many records to look up. A list is never cut.
pub type KeyLists = Option<Vec<KeyList>>;

/// Max records that one lookup by values finds.
pub const MAX_FOUND: usize = 50_000;

pub struct LookupState {
    pub catalogue: Arc<Catalogue>,
    pub store: Arc<dyn Store>,
    pub cache: Option<RecordCache>,
    pub metrics: Arc<Metrics>,
    pub asks: BatchQueue<RecordsRequest>,
    pub lists: BatchQueue<KeyListsRequest>,
    /// Requests that begin while reading the commit number needs a round trip.
    pub read_point_requests: BatchQueue<oneshot::Sender<Result<Option<ReadPoint>>>>,
    pub near: bool,
}

impl LookupState {
    /// Returns the read point of a read that begins now: the outer `None` means no cache, the inner `None` that every use must be checked.
    pub fn now(&self) -> Result<VisibleFrom> {
        self.cache.as_ref().map(|cache| cache.now(&*self.store)).transpose()
    }

    /// Returns all of these records if the cache has them and all are current.
    pub fn cached(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key], now: Option<ReadPoint>) -> Option<Vec<Option<Arc<ServedRecord>>>> {
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

    /// Gives beginning requests their read point. One read of the commit number serves all requests that arrived before it.
    pub fn tell_moments(&self) {
        while let Some(beginners) = self.read_point_requests.take(|waiting| waiting.len()) {
            let mut moment = self.now();
            for beginner in beginners {
                let own = match &moment {
                    Ok(now) => Ok(now.flatten()),
                    Err(_) => std::mem::replace(&mut moment, Err(batch_failed())).map(Option::flatten),
                };
                let _ = beginner.send(own);
            }
        }
    }

    pub fn serve_lists(&self) {
        while let Some(asks) = self.lists.take(|asks| together(asks, LISTS_TOGETHER, |ask| ask.values.len())) {
            let mut groups: HashMap<(Tenant, CollectionId, PlanColumn), Vec<KeyListsRequest>> = HashMap::new();
            // requests whose caller has disconnected are dropped
            for ask in asks.into_iter().filter(|ask| !ask.answer.is_closed()) {
                groups.entry((ask.tenant.clone(), ask.collection, ask.column)).or_default().push(ask);
            }
            for ((tenant, collection, column), asks) in groups {
                // read each value only once
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
                    // too many records for one of the requests, or only for all of them together
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

    /// Answers the requests of a batch one by one. Requests for the same values share one read.
    fn answer_one_by_one(&self, tenant: &Tenant, (collection, column): (CollectionId, PlanColumn), asks: Vec<KeyListsRequest>) {
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

    pub fn serve(&self) {
        while let Some(asks) = self.asks.take(|asks| together(asks, TOGETHER, |ask| ask.keys.len())) {
            let mut groups: HashMap<(Tenant, CollectionId), Vec<RecordsRequest>> = HashMap::new();
            for ask in asks.into_iter().filter(|ask| !ask.answer.is_closed()) {
                groups.entry((ask.tenant.clone(), ask.collection)).or_default().push(ask);
            }
            for ((tenant, collection), asks) in groups {
                let mut keys: Vec<Key> = asks.iter().flat_map(|ask| ask.keys.iter().cloned()).collect();
                keys.sort_unstable();
                keys.dedup();
                // a record that is current at the latest read point is current for all requests
                let now = asks.iter().map(|ask| ask.now).max().flatten();
                let found = self.read(&tenant, collection, &keys, now);
                if let (Err(StoreError::Damaged(_)), 2..) = (&found, asks.len()) {
                    // a damaged record must not fail requests for other records
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

    /// Returns those of the records that exist.
    pub fn read(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key], now: VisibleFrom) -> Result<HashMap<Key, Arc<ServedRecord>>> {
        let mut found: HashMap<Key, Arc<ServedRecord>> = HashMap::with_capacity(keys.len());
        let mut missing: Vec<Key> = Vec::new();
        let mut unchecked: Vec<(Key, Arc<ServedRecord>)> = Vec::new();
        for key in keys {
            let place = || Place { tenant: tenant.clone(), collection, key: key.clone() };
            match self.cache.as_ref().zip(now).and_then(|(cache, now)| cache.record(&place(), now)) {
                Some(CachedRecord::Exact(record)) => {
                    found.insert(key.clone(), record);
                }
                Some(CachedRecord::Unchecked(record)) => unchecked.push((key.clone(), record)),
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
                let Some(stored) = stored.filter(|stored| stored.exists) else { continue };
                let record = Arc::new(ServedRecord::new(stored, &self.catalogue.collections[collection]));
                if let (Some(cache), Some(now)) = (&self.cache, now) {
                    cache.put_record(Place { tenant: tenant.clone(), collection, key: key.clone() }, now, record.clone());
                }
                found.insert(key.clone(), record);
            }
        }
        Ok(found)
    }

    /// Reads the lists of some values in one query, so that all show the same state of the store.
    pub fn find_keys(&self, tenant: &Tenant, collection: CollectionId, column: PlanColumn, values: &[Value]) -> Result<KeyLists> {
        let test = if let [only] = values { Comparison::Equal(only.clone()) } else { Comparison::In(values.to_vec()) };
        let mut plan = QueryPlan::all(tenant.clone(), collection);
        plan.conditions.push(Condition { column, test });
        plan.columns = vec![PlanColumn::Key, column];
        plan.limit = Some(MAX_FOUND as u64 + 1);
        self.metrics.asked("find");
        let rows = self.store.find(&plan)?.rows;
        if rows.len() > MAX_FOUND {
            return Ok(None);
        }
        let mut lists: Vec<Vec<Key>> = vec![Vec::new(); values.len()];
        // a folded column also finds values that differ in case
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

/// Encodes a value so that equal values have equal bytes.
pub fn packed(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_value(&mut out, value);
    out
}
