//! Compares derived values with what they should be, by settling everything again.

use super::drain::drain_until;
use super::notes::{FAILED, UNDECIDED, WRONG, notes_link};
use super::remake::{created, mark_all, mark_outdated};
use super::stop::until_stopped;
use crate::Result;
use crate::relations::marks::CHECK;
use crate::relations::{SettleRules, SettlingUnit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stook_catalogue::key::Key;
use stook_store::{Edge, EdgeChange, SettlePass, SettlingChanges, Store, Tenant};

/// How long a check waits for pending marks before it begins: while imports run, there may always be some.
const MAX_WAIT_FOR_MARKS: Duration = Duration::from_secs(10);

/// A record of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedRecord {
    /// Its tenant.
    pub tenant: Tenant,
    /// The name of its collection.
    pub collection: String,
    /// Its key.
    pub key: Key,
}

/// What a check has found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct DeepCheckReport {
    /// Number of records checked.
    pub records: u64,
    /// Records of which a derived value was wrong although no pending mark could explain it; they have been corrected.
    pub incorrect: Vec<CheckedRecord>,
    /// Number of such records for which pending marks could explain the difference.
    pub inconclusive: u64,
    /// Records for which expressions of settled values fail, with the failures; these values are null.
    pub failed: Vec<(CheckedRecord, String)>,
}

/// Settles everything again and returns what was wrong. Imports may run meanwhile, and other processes may process the marks: a pass that finds a
/// difference notes it in the transaction that corrects it. Returns nothing if `stop` was set.
///
/// # Errors
/// When the store fails.
pub fn check(store: &dyn Store, rules: &Arc<SettleRules>, stop: &AtomicBool, show: &dyn Fn(u64)) -> Result<Option<DeepCheckReport>> {
    let is_stopping = || stop.load(Ordering::SeqCst);
    let checked = until_stopped(&is_stopping, || settle_again(store, rules, stop, show))?;
    Ok(checked.filter(|_| !is_stopping()))
}

fn settle_again(store: &dyn Store, rules: &Arc<SettleRules>, stop: &AtomicBool, show: &dyn Fn(u64)) -> stook_store::Result<DeepCheckReport> {
    let pass: Arc<dyn SettlePass> = rules.clone();
    // values that other rules have settled are not wrong, but must be settled by these first
    mark_outdated(store, rules, &|_| ())?;
    let started = Instant::now();
    drain_until(store, &pass, stop, &|| Ok(started.elapsed() >= MAX_WAIT_FOR_MARKS || store.tenants_with_marks()?.is_empty()))?;
    let mut checked = DeepCheckReport { records: mark_all(store, rules, (CHECK, &created(rules, "")), show)?, ..DeepCheckReport::default() };
    for tenant in store.tenants()? {
        drain_until(store, &pass, stop, &|| Ok(!store.has_marks(&tenant, CHECK)?))?;
        let record = |note: &Edge, key: Key| CheckedRecord { tenant: tenant.clone(), collection: note.group.to_string(), key };
        let mut settling = SettlingChanges::default();
        for target in [WRONG, UNDECIDED] {
            for note in store.edges(&tenant, notes_link(), target)? {
                match Key::new(note.child.as_str()) {
                    Ok(key) if target == WRONG => checked.incorrect.push(record(&note, key)),
                    _ => checked.inconclusive += 1,
                }
                settling.edges.push(EdgeChange::Delete(note));
            }
        }
        for note in store.edges(&tenant, notes_link(), FAILED)? {
            if let Ok(key) = Key::new(note.child.as_str()) {
                let failure = String::from_utf8_lossy(&note.payload).into_owned();
                checked.failed.push((record(&note, key), failure));
            }
            settling.edges.push(EdgeChange::Delete(note));
        }
        if !settling.edges.is_empty() {
            store.commit(Box::new(SettlingUnit { tenant, settling }))?;
        }
    }
    Ok(checked)
}
