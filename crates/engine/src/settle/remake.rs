//! Settling everything again: edges are built by the present rules, and every record that is settled is marked. Values stay as they are until a
//! pass computes others.

use crate::job::sizes::PAGE;
use crate::relations::marks::MADE;
use crate::relations::{ChangeCause, Propagation, SettleRules, ValueChange};
use std::collections::BTreeSet;
use std::sync::Arc;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_store::queue::JobId;
use stook_store::{Priority, ReadDetail, ReadSet, RecordRead, RefusedWrite, Result, SettlingChanges, Store, StoredRecord, Tenant, Unit};

/// Consolidates records again whose values other rules choose now, and marks all records if the store was settled by other rules than these; passes do
/// the rest. Returns the number of records marked.
///
/// # Errors
/// When the store fails.
pub fn mark_outdated(store: &dyn Store, rules: &Arc<SettleRules>, show: &dyn Fn(u64)) -> Result<u64> {
    crate::change::again::consolidate_again(store, rules)?;
    let current = &rules.catalogue.settling;
    let Some(settled_by) = outdated_rules(store, rules)? else { return Ok(0) };
    let marked = mark_all(store, rules, (0, &created(rules, &settled_by)), show)?;
    let link_ids: Vec<u32> = rules.catalogue.links.iter().flat_map(|link| [link.edges(), link.children(), link.targets()]).collect();
    let replaced = rules.catalogue.sources.iter().filter_map(|source| source.replaces.as_ref());
    let kept_links = replaced.flat_map(|replaces| replaces.links());
    let kept_links = kept_links.chain(rules.catalogue.sources.iter().filter_map(|source| source.collect.as_ref()).map(|collect| collect.id));
    let waiting = rules.waiting.keys().copied();
    store.set_settled_by(current, &link_ids.into_iter().chain(kept_links).chain(waiting).collect::<Vec<u32>>())?;
    Ok(marked)
}

/// Whether everything is settled by these rules.
///
/// # Errors
/// When the store fails.
pub fn is_settled(store: &dyn Store, rules: &SettleRules) -> Result<bool> {
    Ok(store.awaiting_consolidation()?.is_empty() && outdated_rules(store, rules)?.is_none() && store.tenants_with_marks()?.is_empty())
}

/// The rules by which the store was settled, if they differ from these and either of them settles anything.
fn outdated_rules(store: &dyn Store, rules: &SettleRules) -> Result<Option<String>> {
    let settled_by = store.settled_by()?.unwrap_or_default();
    let is_outdated = settled_by != rules.catalogue.settling && (rules.needs_settling() || !created(rules, &settled_by).is_empty());
    Ok(is_outdated.then_some(settled_by))
}

/// Collections whose records links may create, by these rules or by those that the store was settled by.
pub(super) fn created(rules: &SettleRules, settled_by: &str) -> BTreeSet<CollectionId> {
    let names = |rules: &str| rules.split(' ').skip(1).map(str::to_owned).collect::<Vec<String>>();
    let all = names(settled_by).into_iter().chain(names(&rules.catalogue.settling));
    all.filter_map(|name| Some(rules.catalogue.collection(&name)?.0)).collect()
}

/// Marks every record that is settled or that others depend on, for a job, and writes its edges again. For records of collections in `created`,
/// also marks whether links still create them. Returns the number of records.
///
/// # Errors
/// When the store fails.
pub(super) fn mark_all(
    store: &dyn Store,
    rules: &Arc<SettleRules>,
    (job, created): (JobId, &BTreeSet<CollectionId>),
    show: &dyn Fn(u64),
) -> Result<u64> {
    let mut marked = 0;
    let is_concerned = |collection: &CollectionId| rules.has_consequences(*collection) || created.contains(collection);
    for tenant in store.tenants()? {
        for collection in rules.catalogue.collections.ids().filter(is_concerned) {
            let mut after = String::new();
            loop {
                let keys = store.keys_after(&tenant, collection, &after, PAGE)?;
                let Some(last) = keys.last() else { break };
                last.as_str().clone_into(&mut after);
                let read = store.read(&tenant, collection, &keys, ReadDetail::Values)?;
                let records: Vec<StoredRecord> = read.into_iter().flatten().filter(|record| record.exists).collect();
                marked += records.len() as u64;
                let mut remake = ResettleUnit::new(rules, &tenant, collection, records, job);
                if created.contains(&collection) {
                    remake.mark_created_by_link(rules, job);
                }
                store.submit(Box::new(remake), Priority::Bulk).wait()?;
                show(marked);
            }
        }
    }
    Ok(marked)
}

/// Writes edges and marks of some records, if these have not changed since they were read.
struct ResettleUnit {
    tenant: Tenant,
    propagations: Vec<Propagation>,
    read_set: ReadSet,
}

impl ResettleUnit {
    fn new(rules: &SettleRules, tenant: &Tenant, collection: CollectionId, records: Vec<StoredRecord>, job: JobId) -> Self {
        let evaluator = Evaluator::new(rules.catalogue.tables.clone());
        let (mut propagations, mut read_set) = (Vec::with_capacity(records.len()), ReadSet::default());
        for record in records {
            let changed = ValueChange { collection, key: &record.key, before: None, after: Some(&record.golden), job, cause: ChangeCause::External };
            let mut propagation = Propagation::default();
            propagation.follow(rules, &evaluator, &changed);
            // links by key are checked, too, because their rule may have changed
            if !rules.relations[collection].from.is_empty() {
                propagation.mark_child(rules, collection, &record.key, job);
            }
            propagations.push(propagation);
            read_set.records.push(RecordRead { collection, key: record.key, version: Some(record.version) });
        }
        Self { tenant: tenant.clone(), propagations, read_set }
    }

    fn mark_created_by_link(&mut self, rules: &SettleRules, job: JobId) {
        for (propagation, read) in self.propagations.iter_mut().zip(&self.read_set.records) {
            propagation.mark_parent(rules, read.collection, (&read.key, MADE), job);
        }
    }
}

impl Unit for ResettleUnit {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn read_set(&self) -> Option<&ReadSet> {
        Some(&self.read_set)
    }

    fn read_set_changed(&mut self, records: &[usize], _ranges: &[usize]) -> Vec<(CollectionId, Key)> {
        // the unit that changed a record after it was read here has marked it
        records.iter().for_each(|record| self.propagations[*record] = Propagation::default());
        Vec::new()
    }

    fn refused(&mut self, _refused: RefusedWrite) {}

    fn settling(&mut self) -> SettlingChanges {
        let mut all = Propagation::default();
        self.propagations.iter().for_each(|propagation| all.extend(propagation));
        all.settling()
    }
}
