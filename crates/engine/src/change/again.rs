//! Consolidates records again, from the contributions that are kept, after a definition has chosen other rules for their values. Until then they have
//! the values of the rules before; whoever writes one meanwhile writes it by the new ones.

use super::removal::{Purpose, Removal, RemovalUnit};
use crate::job::NO_JOB;
use crate::job::sizes::PAGE;
use crate::relations::SettleRules;
use crate::{EngineError, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use stook_catalogue::ids::CollectionId;
use stook_store::{Priority, Store, StoreError, Tenant};

/// Consolidates what waits for it; marks what follows elsewhere. If it is stopped, the next call begins again, and finds most records done. Returns
/// the number of records that changed.
///
/// # Errors
/// When the store fails.
pub(crate) fn consolidate_again(store: &dyn Store, rules: &Arc<SettleRules>) -> std::result::Result<u64, StoreError> {
    let mut changed = 0;
    for collection in store.awaiting_consolidation()? {
        for tenant in store.tenants()? {
            changed += consolidate_collection(store, rules, &tenant, collection).map_err(|error| match error {
                EngineError::Store(error) => error,
                other => StoreError::Other(other.to_string()),
            })?;
        }
        store.set_consolidated(collection)?;
    }
    Ok(changed)
}

fn consolidate_collection(store: &dyn Store, rules: &Arc<SettleRules>, tenant: &Tenant, collection: CollectionId) -> Result<u64> {
    let removal =
        Removal { tenant: tenant.clone(), removes: Arc::new(|_| ()), caller: "changed rules".into(), purpose: Purpose::NewRules, job: NO_JOB };
    let (mut after, mut changed) = (String::new(), 0);
    loop {
        let keys = store.keys_after(tenant, collection, &after, PAGE)?;
        let Some(last) = keys.last() else { return Ok(changed) };
        let unit = RemovalUnit::new(rules, store, &removal, &BTreeMap::from([(collection, keys.clone())]), None)?;
        let results = unit.results();
        if !unit.is_empty() {
            match store.submit(Box::new(unit), Priority::Bulk).wait() {
                Ok(_) => changed += results.lock().map_or(0, |results| results.records.len() as u64),
                // another unit of the same transaction has failed
                Err(StoreError::Undone) => continue,
                Err(error) => return Err(error.into()),
            }
        }
        last.as_str().clone_into(&mut after);
    }
}
