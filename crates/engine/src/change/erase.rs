//! Erases records, as data protection law demands: nothing that was ever said of them stays, and what is delivered of them later is left out.

use super::removal::{Purpose, Removal, RemovalUnit};
use crate::content::collection::find_collection;
use crate::job::NO_JOB;
use crate::job::sizes::PAGE;
use crate::relations::SettleRules;
use crate::{EngineError, Result};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;
use stook_store::erasure::{ErasedTraces, Erasure, MAX_SHARED, NewErasure, digest, digits};
use stook_store::plan::{Condition, PlanColumn, QueryPlan};
use stook_store::{Store, Tenant};

/// What an erasure has done.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct ErasureReport {
    /// The collection.
    pub collection: String,
    /// The key.
    pub key: String,
    /// Whether there was such a record.
    pub existed: bool,
    /// What told of it, and was removed.
    pub traces: ErasedTraces,
    /// Records whose values still name its key, by collection and key; at most [`MAX_SHARED`].
    pub linked: Vec<(String, String)>,
}

/// The record that is to be erased.
#[derive(Debug, Clone, Copy)]
pub struct ErasureRequest<'r> {
    /// Its tenant.
    pub tenant: &'r Tenant,
    /// The name of its collection.
    pub collection: &'r str,
    /// Its key.
    pub key: &'r str,
    /// Why, for the list of erasures.
    pub reason: Option<&'r str>,
    /// Who erases, for marks of what follows.
    pub caller: &'r str,
}

/// Erases a record, whether it exists or not: in one transaction it is deleted with its former contributions and tags, and it is noted that it was
/// erased; then what tells of it elsewhere is removed. If that is interrupted, erasing the record again continues it. What follows for other records
/// is left to be settled.
///
/// # Errors
/// When there is no such collection, or the store fails.
pub fn erase(catalogue: &Arc<Catalogue>, store: &dyn Store, request: &ErasureRequest<'_>) -> Result<ErasureReport> {
    let ErasureRequest { tenant, collection, key, reason, caller } = *request;
    let (id, definition) = find_collection(catalogue, collection)?;
    let key = Key::new(key).map_err(|error| EngineError::Wrong(error.to_string()))?;
    let rules = Arc::new(SettleRules::new(catalogue));
    let removal = Removal {
        tenant: tenant.clone(),
        removes: Arc::new(|contributions| contributions.clear()),
        caller: caller.to_owned(),
        purpose: Purpose::Erasure,
        job: NO_JOB,
    };
    let erased = vec![NewErasure { collection: id, key: key.clone(), reason: reason.map(str::to_owned) }];
    let unit = RemovalUnit::new(&rules, store, &removal, &BTreeMap::from([(id, vec![key.clone()])]), None)?.erasing(erased);
    let results = unit.results();
    store.commit(Box::new(unit))?;
    let existed = results.lock().is_ok_and(|results| !results.records.is_empty());
    let traces = store.clear_traces(tenant, id, &key)?;
    let mut linked = Vec::new();
    for link in catalogue.links.iter().filter(|link| link.target_collection == id) {
        let child = &catalogue.collections[link.child_collection].name;
        let names_it = Condition::equal(PlanColumn::Field(link.field), Value::text(key.as_str()));
        let all = QueryPlan::all(tenant.clone(), link.child_collection);
        let found = store.find(&QueryPlan { conditions: vec![names_it], any_order: true, limit: Some(MAX_SHARED as u64), ..all })?;
        linked.extend(found.rows.iter().filter_map(|row| Some((child.clone(), row.first()?.as_text()?.to_owned()))));
    }
    linked.sort();
    linked.dedup();
    linked.truncate(MAX_SHARED);
    Ok(ErasureReport { collection: definition.name.clone(), key: key.as_str().to_owned(), existed, traces, linked })
}

/// Makes erasures again in a store that does not know of them, such as one that was restored from a backup made before them: notes them, and erases the
/// records that they are of. Returns what was erased. Cost: the keys of their collections are read.
///
/// # Errors
/// When a hash is none, or the store fails. Erasures of collections that the definition does not have are noted only.
pub fn erase_again(catalogue: &Arc<Catalogue>, store: &dyn Store, erasures: &[Erasure], caller: &str) -> Result<Vec<ErasureReport>> {
    store.note_erasures(erasures)?;
    let mut digests: BTreeMap<(&str, &str), HashSet<&str>> = BTreeMap::new();
    for own in erasures {
        digests.entry((&own.tenant, &own.collection)).or_default().insert(&own.digest);
    }
    let mut reports = Vec::new();
    for ((tenant, collection), digests) in digests {
        let (Ok(tenant), Some(id)) = (Tenant::new(tenant), catalogue.collections.ids().find(|id| catalogue.collections[*id].name == collection))
        else {
            continue;
        };
        let mut after = String::new();
        loop {
            let keys = store.keys_after(&tenant, id, &after, PAGE)?;
            let Some(last) = keys.last() else { break };
            last.as_str().clone_into(&mut after);
            let is_erased = |key: &&Key| {
                let hash = digits(&digest(&tenant, collection, key.as_str()));
                digests.contains(hash.as_str())
            };
            for key in keys.iter().filter(is_erased) {
                let request = ErasureRequest { tenant: &tenant, collection, key: key.as_str(), reason: None, caller };
                reports.push(erase(catalogue, store, &request)?);
            }
        }
    }
    Ok(reports)
}
