//! Reads from the store what the cache does not have. Requests that wait at the same time share one read.

use super::batch::{BatchQueue, batch_failed, count_that_fit, reply_to_all};
use super::cache::{CachedRecord, ReadPoint, RecordCache, RecordId};
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
const MAX_KEYS_PER_READ: usize = 2_000;
/// Max values whose lists one read combines.
const MAX_VALUES_PER_READ: usize = 200;

/// The read point of a request, which sees everything committed before it. The outer `None` means no cache; the inner `None` means that the store has
/// no commit number, so that every use of a cached entry must be checked.
pub type RequestReadPoint = Option<Option<ReadPoint>>;

/// A request for records of one collection.
pub struct RecordsRequest {
    pub tenant: Tenant,
    pub collection: CollectionId,
    pub keys: Vec<Key>,
    pub read_point: RequestReadPoint,
    pub reply: oneshot::Sender<Result<Vec<Option<Arc<ServedRecord>>>>>,
}

/// A request for lists of keys: for each value, of the records that have it in a column.
pub struct KeyListsRequest {
    pub tenant: Tenant,
    pub collection: CollectionId,
    pub column: PlanColumn,
    pub values: Vec<Value>,
    pub reply: oneshot::Sender<Result<KeyLists>>,
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
    pub record_requests: BatchQueue<RecordsRequest>,
    pub list_requests: BatchQueue<KeyListsRequest>,
    /// Requests that begin while reading the commit number needs a round trip.
    pub read_point_requests: BatchQueue<oneshot::Sender<Result<Option<ReadPoint>>>>,
    pub store_is_local: bool,
}

impl LookupState {
    /// Returns the read point of a read that begins now: the outer `None` means no cache, the inner `None` that every use must be checked.
    pub fn read_point(&self) -> Result<RequestReadPoint> {
        self.cache.as_ref().map(|cache| cache.read_point(&*self.store)).transpose()
    }

    /// Returns all of these records if the cache has them and all are current.
    pub fn cached(
        &self,
        tenant: &Tenant,
        collection: CollectionId,
        keys: &[Key],
        read_point: Option<ReadPoint>,
    ) -> Option<Vec<Option<Arc<ServedRecord>>>> {
        let (cache, read_point) = (self.cache.as_ref()?, read_point?);
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let id = RecordId { tenant: tenant.clone(), collection, key: key.clone() };
            match cache.record(&id, Some(read_point)) {
                Some(CachedRecord::Exact(record)) => found.push(Some(record)),
                _ => return None,
            }
        }
        self.metrics.count_cached(CachedKind::Record, keys.len(), 0);
        Some(found)
    }

    /// Gives beginning requests their read point. One read of the commit number serves all requests that arrived before it.
    pub fn serve_read_points(&self) {
        while let Some(senders) = self.read_point_requests.take(|waiting| waiting.len()) {
            let mut read_point = self.read_point();
            for sender in senders {
                let reply = match &read_point {
                    Ok(read_point) => Ok(read_point.flatten()),
                    Err(_) => std::mem::replace(&mut read_point, Err(batch_failed())).map(Option::flatten),
                };
                let _ = sender.send(reply);
            }
        }
    }

    pub fn serve_lists(&self) {
        while let Some(requests) = self.list_requests.take(|requests| count_that_fit(requests, MAX_VALUES_PER_READ, |request| request.values.len())) {
            let mut groups: HashMap<(Tenant, CollectionId, PlanColumn), Vec<KeyListsRequest>> = HashMap::new();
            // requests whose caller has disconnected are dropped
            for request in requests.into_iter().filter(|request| !request.reply.is_closed()) {
                groups.entry((request.tenant.clone(), request.collection, request.column)).or_default().push(request);
            }
            for ((tenant, collection, column), requests) in groups {
                // read each value only once
                let mut indexes: HashMap<Vec<u8>, usize> = HashMap::new();
                let mut values = Vec::new();
                for value in requests.iter().flat_map(|request| &request.values) {
                    indexes.entry(packed(value)).or_insert_with(|| {
                        values.push(value.clone());
                        values.len() - 1
                    });
                }
                let found = self.find_keys(&tenant, collection, column, &values);
                if requests.len() > 1 && matches!(found, Ok(None)) {
                    // too many records for one of the requests, or only for all of them together
                    self.answer_one_by_one(&tenant, (collection, column), requests);
                    continue;
                }
                let part_of = |lists: &KeyLists, request: &KeyListsRequest| -> KeyLists {
                    let lists = lists.as_ref()?;
                    Some(request.values.iter().map(|value| lists[indexes[&packed(value)]].clone()).collect())
                };
                reply_to_all(requests, found, part_of, |request| request.reply);
            }
        }
    }

    /// Answers the requests of a batch one by one. Requests for the same values share one read.
    fn answer_one_by_one(&self, tenant: &Tenant, (collection, column): (CollectionId, PlanColumn), requests: Vec<KeyListsRequest>) {
        let mut known: HashMap<Vec<Vec<u8>>, KeyLists> = HashMap::new();
        for request in requests {
            let packed_values: Vec<Vec<u8>> = request.values.iter().map(packed).collect();
            let found = match known.get(&packed_values) {
                Some(lists) => Ok(lists.clone()),
                None => self.find_keys(tenant, collection, column, &request.values),
            };
            if let Ok(lists) = &found {
                known.insert(packed_values, lists.clone());
            }
            let _ = request.reply.send(found);
        }
    }

    pub fn serve_records(&self) {
        while let Some(requests) = self.record_requests.take(|requests| count_that_fit(requests, MAX_KEYS_PER_READ, |request| request.keys.len())) {
            let mut groups: HashMap<(Tenant, CollectionId), Vec<RecordsRequest>> = HashMap::new();
            for request in requests.into_iter().filter(|request| !request.reply.is_closed()) {
                groups.entry((request.tenant.clone(), request.collection)).or_default().push(request);
            }
            for ((tenant, collection), requests) in groups {
                let mut keys: Vec<Key> = requests.iter().flat_map(|request| request.keys.iter().cloned()).collect();
                keys.sort_unstable();
                keys.dedup();
                // a record that is current at the latest read point is current for all requests
                let read_point = requests.iter().map(|request| request.read_point).max().flatten();
                let found = self.read(&tenant, collection, &keys, read_point);
                if let (Err(StoreError::Damaged(_)), 2..) = (&found, requests.len()) {
                    // a damaged record must not fail requests for other records
                    for request in requests {
                        let found = self.read(&tenant, collection, &request.keys, request.read_point);
                        let found = found.map(|found| request.keys.iter().map(|key| found.get(key).cloned()).collect());
                        let _ = request.reply.send(found);
                    }
                    continue;
                }
                let part_of = |found: &HashMap<Key, Arc<ServedRecord>>, request: &RecordsRequest| {
                    request.keys.iter().map(|key| found.get(key).cloned()).collect()
                };
                reply_to_all(requests, found, part_of, |request| request.reply);
            }
        }
    }

    /// Returns those of the records that exist.
    pub fn read(
        &self,
        tenant: &Tenant,
        collection: CollectionId,
        keys: &[Key],
        read_point: RequestReadPoint,
    ) -> Result<HashMap<Key, Arc<ServedRecord>>> {
        let mut found: HashMap<Key, Arc<ServedRecord>> = HashMap::with_capacity(keys.len());
        let mut missing: Vec<Key> = Vec::new();
        let mut unchecked: Vec<(Key, Arc<ServedRecord>)> = Vec::new();
        for key in keys {
            let id = || RecordId { tenant: tenant.clone(), collection, key: key.clone() };
            match self.cache.as_ref().zip(read_point).and_then(|(cache, read_point)| cache.record(&id(), read_point)) {
                Some(CachedRecord::Exact(record)) => {
                    found.insert(key.clone(), record);
                }
                Some(CachedRecord::Unchecked(record)) => unchecked.push((key.clone(), record)),
                None => missing.push(key.clone()),
            }
        }
        if !unchecked.is_empty() {
            let keys_to_check: Vec<Key> = unchecked.iter().map(|(key, _)| key.clone()).collect();
            self.metrics.count_store_call("versions");
            let versions = self.store.versions(tenant, collection, &keys_to_check)?;
            for ((key, record), version) in unchecked.into_iter().zip(versions) {
                if version == Some(record.stored.version) {
                    if let (Some(cache), Some(read_point @ Some(_))) = (&self.cache, read_point) {
                        cache.put_record(RecordId { tenant: tenant.clone(), collection, key: key.clone() }, read_point, record.clone());
                    }
                    found.insert(key, record);
                } else if version.is_some() {
                    missing.push(key);
                }
            }
        }
        self.metrics.count_cached(CachedKind::Record, found.len(), missing.len());
        if !missing.is_empty() {
            self.metrics.count_store_call("read");
            for (key, stored) in missing.iter().zip(self.store.read(tenant, collection, &missing, ReadDetail::Values)?) {
                let Some(stored) = stored.filter(|stored| stored.exists) else { continue };
                let record = Arc::new(ServedRecord::new(stored, &self.catalogue.collections[collection]));
                if let (Some(cache), Some(read_point)) = (&self.cache, read_point) {
                    cache.put_record(RecordId { tenant: tenant.clone(), collection, key: key.clone() }, read_point, record.clone());
                }
                found.insert(key.clone(), record);
            }
        }
        Ok(found)
    }

    /// Reads the lists of some values in one query, so that all show the same state of the store.
    pub fn find_keys(&self, tenant: &Tenant, collection: CollectionId, column: PlanColumn, values: &[Value]) -> Result<KeyLists> {
        let comparison = if let [only] = values { Comparison::Equal(only.clone()) } else { Comparison::In(values.to_vec()) };
        let mut plan = QueryPlan::all(tenant.clone(), collection);
        plan.conditions.push(Condition { column, test: comparison });
        plan.columns = vec![PlanColumn::Key, column];
        plan.limit = Some(MAX_FOUND as u64 + 1);
        self.metrics.count_store_call("find");
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
        let mut indexes: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
        for (index, value) in values.iter().enumerate() {
            indexes.entry(packed(&fold(value))).or_default().push(index);
        }
        for row in rows {
            let [key, found] = row.as_slice() else { continue };
            let Some(key) = key.as_text().and_then(|key| Key::new(key).ok()) else { continue };
            for element in found.elements() {
                for index in indexes.get(&packed(&fold(element))).into_iter().flatten() {
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
