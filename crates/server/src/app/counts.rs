//! Numbers of records and of conflicts, which are kept for some seconds: then it is known how fast records are added.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::{Result, Store, Tenant};

/// How long a count is used.
pub const FRESH: Duration = Duration::from_secs(5);
/// After this time no rate is computed from the previous count.
const LONG_AGO: Duration = Duration::from_secs(60);
/// Conflicts are counted up to this number.
pub const MAX_CONFLICTS: u64 = 1_000;
/// Max cached counts; when they are reached, all are removed.
const MAX_COUNTS: usize = 10_000;

/// Counts by tenant and collection, with the time of counting.
#[derive(Default)]
pub struct RecordCountCache(Mutex<HashMap<(String, CollectionId), (Instant, RecordCounts)>>);

/// The counts of one collection.
#[derive(Debug, Clone, Copy)]
pub struct RecordCounts {
    /// Number of records.
    pub records: u64,
    /// Records added per second since the previous count; `None` if that was too long ago.
    pub rate: Option<f64>,
    /// Number of records with a conflict, at most [`MAX_CONFLICTS`]; `None` if the collection does not detect conflicts.
    pub conflicts: Option<u64>,
}

impl RecordCountCache {
    /// Returns the counts of all collections for a tenant.
    ///
    /// # Errors
    /// When the store fails.
    pub fn for_tenant(&self, catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant) -> Result<Vec<RecordCounts>> {
        catalogue.collections.ids().map(|collection| self.for_collection(catalogue, store, tenant, collection)).collect()
    }

    fn for_collection(&self, catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant, collection: CollectionId) -> Result<RecordCounts> {
        let cache_key = (tenant.as_str().to_owned(), collection);
        let cached = self.0.lock().ok().and_then(|cached| cached.get(&cache_key).copied());
        if let Some((_, counts)) = cached.filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(counts);
        }
        let all = QueryPlan::all(tenant.clone(), collection);
        let find_conflicts = |_| {
            let conditions = vec![Condition { column: PlanColumn::Conflict, test: Comparison::Exists(true) }];
            store.find(&QueryPlan { conditions, limit: Some(MAX_CONFLICTS), any_order: true, ..all.clone() })
        };
        let compares = catalogue.collections[collection].compares().then_some(());
        let conflicts = compares.map(find_conflicts).transpose()?.map(|found| found.rows.len() as u64);
        let records = store.count(&all)?;
        let previous = cached.filter(|(at, _)| at.elapsed() < LONG_AGO);
        let rate = previous.map(|(at, previous)| (records as f64 - previous.records as f64) / at.elapsed().as_secs_f64());
        let counts = RecordCounts { records, rate, conflicts };
        if let Ok(mut cached) = self.0.lock() {
            if cached.len() >= MAX_COUNTS {
                cached.clear();
            }
            cached.insert(cache_key, (Instant::now(), counts));
        }
        Ok(counts)
    }
}
