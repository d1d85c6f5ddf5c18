//! Everything again: edges as the rules make them now, and a mark for every record that is settled. For rules that have changed,
//! and to compare what is settled with what should be. Values stay what they are until a pass finds others.

use super::{By, Changed, Followed, Rules, drain};
use crate::Result;
use crate::withdraw::PAGE;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stook_catalogue::expr::Evaluator;
use stook_catalogue::key::Key;
use stook_store::{Detail, Pass, Passed, Reliance, Settling, Store, StoredRecord, Tenant, Unit, Urgency};

/// Marks everything again if the rules are not those by which the store was settled; passes do the rest. Returns how many
/// records were marked.
///
/// # Errors
/// When the store fails.
pub fn bring_up(store: &dyn Store, rules: &Arc<Rules>, show: &dyn Fn(u64)) -> Result<u64> {
    let wanted = &rules.catalogue.settling;
    let settled_by = store.settled_by()?;
    if settled_by.as_deref() == Some(wanted.as_str()) {
        return Ok(0);
    }
    let marked = mark_all(store, rules, show)?;
    let known: Vec<u32> = rules.catalogue.links.iter().flat_map(|link| [link.edges(), link.children(), link.targets()]).collect();
    let replaced = rules.catalogue.sources.iter().filter_map(|source| source.replaces.as_ref());
    let kept = replaced.flat_map(|replaces| [replaces.ledger(), replaces.parts(), replaces.statements()]);
    let kept = kept.chain(rules.catalogue.sources.iter().filter_map(|source| source.collect.as_ref()).map(|collect| collect.id));
    store.set_settled_by(wanted, &known.into_iter().chain(kept).collect::<Vec<u32>>())?;
    Ok(marked)
}

/// Marks every record that is settled, or tells others, and writes its edges again. Returns how many there are.
///
/// # Errors
/// When the store fails.
pub fn mark_all(store: &dyn Store, rules: &Arc<Rules>, show: &dyn Fn(u64)) -> Result<u64> {
    let mut marked = 0;
    for tenant in store.tenants()? {
        for collection in (0..rules.catalogue.collections.len()).filter(|collection| rules.concern(*collection)) {
            let mut after = String::new();
            loop {
                let keys = store.keys_behind(&tenant, collection, &after, PAGE)?;
                let Some(last) = keys.last() else { break };
                last.as_str().clone_into(&mut after);
                let read = store.read(&tenant, collection, &keys, Detail::Values)?;
                let records: Vec<StoredRecord> = read.into_iter().flatten().filter(|record| record.alive).collect();
                marked += records.len() as u64;
                store.submit(Box::new(Remake::new(rules, &tenant, collection, records)), Urgency::Bulk).wait()?;
                show(marked);
            }
        }
    }
    Ok(marked)
}

/// Settles everything again and returns what passes had to change: nothing, where everything is what it must be.
///
/// # Errors
/// When the store fails.
pub fn check(store: &dyn Store, rules: &Arc<Rules>, stop: &AtomicBool, show: &dyn Fn(u64)) -> Result<(u64, Passed)> {
    let pass: Arc<dyn Pass> = rules.clone();
    drain(store, &pass, stop)?;
    let marked = mark_all(store, rules, show)?;
    Ok((marked, drain(store, &pass, stop)?))
}

/// Edges and marks of some records, as long as they are what was read.
struct Remake {
    tenant: Tenant,
    followed: Vec<Followed>,
    reliance: Reliance,
}

impl Remake {
    fn new(rules: &Rules, tenant: &Tenant, collection: usize, records: Vec<StoredRecord>) -> Self {
        let evaluator = Evaluator::new(rules.catalogue.tables.clone());
        let (mut followed, mut reliance) = (Vec::with_capacity(records.len()), Reliance::default());
        for record in records {
            let changed = Changed { collection, key: &record.key, before: None, after: Some(&record.golden), job: 0, by: By::Outside };
            let mut own = Followed::default();
            own.follow(rules, &evaluator, &changed);
            followed.push(own);
            reliance.records.push((collection, record.key, Some(record.version)));
        }
        Self { tenant: tenant.clone(), followed, reliance }
    }
}

impl Unit for Remake {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn relies(&self) -> Option<&Reliance> {
        Some(&self.reliance)
    }

    fn broken(&mut self, records: &[usize], _ranges: &[usize]) -> Vec<(usize, Key)> {
        // whoever has changed them has told what follows
        records.iter().for_each(|record| self.followed[*record] = Followed::default());
        Vec::new()
    }

    fn settling(&mut self) -> Settling {
        let mut all = Followed::default();
        self.followed.iter().for_each(|followed| all.extend(followed));
        all.settling()
    }
}
