//! Numbers of records. Counting a collection costs as much as reading an index of it, so a number is kept for some seconds.

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
pub const MOST_CONFLICTS: u64 = 1_000;
/// Max cached counts; when they are reached, all are removed.
const MOST: usize = 10_000;

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
    /// Number of records with a conflict, at most [`MOST_CONFLICTS`]; `None` if the collection does not detect conflicts.
    pub conflicts: Option<u64>,
}

impl RecordCountCache {
    /// Returns the counts of all collections for a tenant.
    ///
    /// # Errors
    /// When the store fails.
    pub fn of(&self, catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant) -> Result<Vec<RecordCounts>> {
        catalogue.collections.ids().map(|collection| self.one(catalogue, store, tenant, collection)).collect()
    }

    fn one(&self, catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant, collection: CollectionId) -> Result<RecordCounts> {
        let place = (tenant.as_str().to_owned(), collection);
        let known = self.0.lock().ok().and_then(|known| known.get(&place).copied());
        if let Some((_, number)) = known.filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(number);
        }
        let all = QueryPlan::all(tenant.clone(), collection);
        let disagree = |_| {
            let conditions = vec![Condition { column: PlanColumn::Conflict, test: Comparison::Exists(true) }];
            store.find(&QueryPlan { conditions, limit: Some(MOST_CONFLICTS), any_order: true, ..all.clone() })
        };
        let compares = catalogue.collections[collection].compares().then_some(());
        let conflicts = compares.map(disagree).transpose()?.map(|found| found.rows.len() as u64);
        let records = store.count(&all)?;
        let before = known.filter(|(at, _)| at.elapsed() < LONG_AGO);
        let rate = before.map(|(at, before)| (records as f64 - before.records as f64) / at.elapsed().as_secs_f64());
        let number = RecordCounts { records, rate, conflicts };
        if let Ok(mut known) = self.0.lock() {
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(place, (Instant::now(), number));
        }
        Ok(number)
    }
}
