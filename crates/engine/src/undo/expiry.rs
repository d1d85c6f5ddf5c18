//! Removes former contributions that no job needs any more: those of jobs that are too old to be undone.

use crate::Result;
use crate::change::removal::{Purpose, Removal, RemovalUnit, RemoveContributions};
use crate::job::NO_JOB;
use crate::job::sizes::PAGE;
use crate::relations::SettleRules;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stook_catalogue::definition::{Catalogue, Source};
use stook_catalogue::record::Contribution;
use stook_catalogue::value::SmolStr;
use stook_store::queue::JobId;
use stook_store::{Store, StoreError};

/// Removes what is no longer needed of a source, if jobs of it have become too old since the last time. Ends early if `stop` is set; the next call
/// after another job has become too old goes on. Returns the number of records of which something was removed.
///
/// # Errors
/// When the store fails.
pub fn expire(catalogue: &Arc<Catalogue>, store: &dyn Store, source: &Source, stop: &AtomicBool) -> Result<u64> {
    let Some(kept) = source.undo else { return Ok(0) };
    let oldest = store.clock().saturating_sub(i64::try_from(kept.as_micros()).unwrap_or(i64::MAX));
    expire_before(catalogue, store, source, oldest, stop)
}

/// The same for jobs that were created before a time.
///
/// # Errors
/// When the store fails.
pub fn expire_before(catalogue: &Arc<Catalogue>, store: &dyn Store, source: &Source, oldest: i64, stop: &AtomicBool) -> Result<u64> {
    let before = store.first_undoable(&source.name)?;
    let Some(first) = store.end_undo_before(&source.name, oldest)?.filter(|first| before != Some(*first)) else { return Ok(0) };
    let (rules, name) = (Arc::new(SettleRules::new(catalogue)), source.name.clone());
    let removes: RemoveContributions = Arc::new(move |all: &mut Vec<Contribution>| remove_needless(all, &name, first));
    let caller = format!("expiry of `{}`", source.name);
    let collections: BTreeSet<_> = source.feeds.iter().map(|feed| feed.collection).collect();
    let mut records = 0;
    for tenant in store.tenants()? {
        let removal = Removal { tenant: tenant.clone(), removes: removes.clone(), caller: caller.clone(), purpose: Purpose::Expiry, job: NO_JOB };
        for collection in &collections {
            let mut after = String::new();
            loop {
                let keys = store.keys_with_former(&tenant, *collection, &after, PAGE)?;
                let Some(last) = keys.last().filter(|_| !stop.load(Ordering::SeqCst)) else { break };
                last.as_str().clone_into(&mut after);
                let unit = RemovalUnit::new(&rules, store, &removal, &BTreeMap::from([(*collection, keys)]), None)?;
                let results = unit.results();
                if !unit.is_empty() {
                    match store.submit(Box::new(unit), stook_store::Priority::Bulk).wait() {
                        Ok(_) => records += results.lock().map_or(0, |results| results.records.len() as u64),
                        // another unit of the same transaction has failed; what remains is removed the next time
                        Err(StoreError::Undone) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
    }
    Ok(records)
}

/// Removes the contributions of a source that can never count again, when no job before `first` can be undone: older ones than the newest that always
/// stays. If fields are unreadable in that one, those that fill them stay, too.
fn remove_needless(all: &mut Vec<Contribution>, source: &str, first: JobId) {
    let mut by_contributor: BTreeMap<SmolStr, Vec<&Contribution>> = BTreeMap::new();
    for own in all.iter().filter(|own| own.source() == source && own.origin.job < first) {
        by_contributor.entry(own.contributor.clone()).or_default().push(own);
    }
    let mut limits = BTreeMap::new();
    for (contributor, mut lasting) in by_contributor {
        lasting.sort_by_key(|own| Reverse((own.age(), own.origin)));
        if let Some(complete) = lasting.iter().find(|own| own.unreadable.is_empty()) {
            // of one time, those of another mapping may count instead of it
            limits.insert(contributor, complete.age().moment());
        }
    }
    all.retain(|own| limits.get(&own.contributor).is_none_or(|limit| own.age().moment() >= *limit));
}
