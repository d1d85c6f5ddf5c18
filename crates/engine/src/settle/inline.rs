//! Inline settling: derived values are computed in the transaction that writes the records, if everything they depend on is known there.

use super::linked_values::read_through;
use super::targets::{find, target_criteria, target_keys};
use crate::relations::SettleRules;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::{CollectionId, LinkId};
use stook_catalogue::key::Key;
use stook_catalogue::links::Link;
use stook_catalogue::value::Value;
use stook_store::{ReadDetail, ReadSet, RecordRead, Result, StartRange, Store, Tenant};

/// Looks up a record among those of the same unit: `None` if the unit does not write it, else its values if it exists afterwards.
pub type PendingWrites<'w, 't> = dyn Fn(CollectionId, &Key) -> Option<Option<&'t [Value]>> + 'w;

/// A record that needs no pass: its settled values, and what they depend on.
pub struct InlineResult {
    /// All its values.
    pub values: Arc<[Value]>,
    /// Records it links to and reads.
    pub targets: Vec<(CollectionId, Key)>,
    /// Ranges in which targets were looked for, by their positions in the read set.
    pub ranges: Vec<usize>,
    /// Expressions that failed.
    pub failures: Vec<String>,
}

/// What inline settling needs.
pub struct InlineContext<'t> {
    /// The rules by which values are settled.
    pub rules: &'t SettleRules,
    /// Evaluates expressions.
    pub evaluator: &'t Evaluator,
    /// The tenant of the records.
    pub tenant: &'t Tenant,
    /// The store from which targets are read; without it, only records of the same unit are known.
    pub store: Option<&'t dyn Store>,
}

/// Settles records before they are written, if possible: their targets are in the same unit (`written`), or are read from the store and noted
/// in the read set, which the store checks at commit. `golden` has their values so far. Returns `None` for a record that needs a pass.
///
/// # Errors
/// When the store fails.
pub fn settle_inline<'t>(
    context: &InlineContext<'t>,
    collection: CollectionId,
    mut golden: Vec<Arc<[Value]>>,
    written: &PendingWrites<'_, 't>,
    read_set: &mut ReadSet,
) -> Result<Vec<Option<InlineResult>>> {
    let InlineContext { rules, evaluator, tenant, store } = *context;
    let relations = &rules.relations[collection];
    let mut ranges: Vec<Vec<usize>> = vec![Vec::new(); golden.len()];
    let mut needs_pass = vec![false; golden.len()];
    let mut ambiguous: Vec<Vec<String>> = vec![Vec::new(); golden.len()];
    for index in &relations.lookup_links {
        let link = &rules.catalogue.links[*index];
        // which records share values with others is known only when all of them are written
        let Some(store) = store.filter(|_| !link.target_rule.merges()) else {
            for (values, needs_pass) in golden.iter_mut().zip(&mut needs_pass) {
                *needs_pass |= target_criteria(&rules.catalogue, evaluator, link, values).is_some();
                Arc::make_mut(values)[link.field] = Value::Null;
            }
            continue;
        };
        let mut between = |link: u32, ranges: &[StartRange]| store.edges_starting_between(tenant, link, ranges);
        let mut seek = |_, link: &Link, values: &[Value]| target_criteria(&rules.catalogue, evaluator, link, values);
        let found = find(&rules.catalogue, *index, &mut golden, &mut seek, &mut between)?;
        let searched = ranges.iter_mut().zip(found.has_searched).filter(|(_, has_searched)| *has_searched);
        searched.for_each(|(ranges, _)| ranges.push(read_set.ranges.len()));
        read_set.ranges.push(found.edges);
        found.ambiguous.into_iter().for_each(|(position, reason)| ambiguous[position].push(reason));
    }
    let mut stored_targets: HashMap<(CollectionId, Key), Option<Vec<Value>>> = HashMap::new();
    for link in relations.from.iter().map(|link| &rules.catalogue.links[*link]).filter(|link| link.is_read()) {
        let mut keys: BTreeSet<Key> = BTreeSet::new();
        for (values, needs_pass) in golden.iter().zip(&mut needs_pass) {
            for key in target_keys(link, values).into_iter().filter(|key| written(link.target_collection, key).is_none()) {
                *needs_pass |= store.is_none();
                keys.insert(key);
            }
        }
        let Some(store) = store.filter(|_| !keys.is_empty()) else { continue };
        let keys: Vec<Key> = keys.into_iter().filter(|key| !stored_targets.contains_key(&(link.target_collection, key.clone()))).collect();
        let found = store.read(tenant, link.target_collection, &keys, ReadDetail::Values)?;
        for (key, record) in keys.into_iter().zip(found) {
            let version = record.as_ref().map(|record| record.version);
            read_set.records.push(RecordRead { collection: link.target_collection, key: key.clone(), version });
            stored_targets.insert((link.target_collection, key), record.filter(|record| record.exists).map(|record| record.golden));
        }
    }
    let mut settled = Vec::with_capacity(golden.len());
    // these failures are noted again when the record's edges are built
    drop(evaluator.failures());
    for (((mut values, ranges), needs_pass), mut failures) in golden.into_iter().zip(ranges).zip(needs_pass).zip(ambiguous) {
        if needs_pass {
            settled.push(None);
            continue;
        }
        let reads = relations.from.iter().map(|link| &rules.catalogue.links[*link]).filter(|link| link.is_read());
        let targets = reads.flat_map(|link| target_keys(link, &values).into_iter().map(|key| (link.target_collection, key))).collect();
        let target = |link: LinkId, key: &Key| {
            let target_collection = rules.catalogue.links[link].target_collection;
            match written(target_collection, key) {
                Some(written) => written,
                None => stored_targets.get(&(target_collection, key.clone()))?.as_deref(),
            }
        };
        read_through(rules, evaluator, collection, Arc::make_mut(&mut values), &target);
        failures.extend(evaluator.failures());
        settled.push(Some(InlineResult { values, targets, ranges, failures }));
    }
    Ok(settled)
}
