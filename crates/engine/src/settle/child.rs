//! The pass that settles records as children: which records they link to, and which values they take from these.

use super::linked_values::read_through;
use super::pass_state::{CausingJobs, PassState};
use super::stop::check_cancelled;
use super::targets::{find, target_criteria, target_keys};
use crate::relations::ChangeCause;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use stook_catalogue::ids::{CollectionId, LinkId};
use stook_catalogue::key::Key;
use stook_catalogue::links::{KeyedLink, Link, TargetRule, target_by_template};
use stook_catalogue::value::Value;
use stook_store::{PassContext, Result, StartRange, StoredRecord};

impl PassState<'_> {
    /// Settles children of one collection.
    pub(super) fn children(&mut self, context: &mut dyn PassContext, collection: CollectionId, children: &BTreeMap<Key, CausingJobs>) -> Result<()> {
        let keys: Vec<Key> = children.keys().cloned().collect();
        if keys.is_empty() {
            return Ok(());
        }
        // most records are already correct: only those that are not are read again and locked
        let read: Vec<StoredRecord> = context.read(collection, &keys)?.into_iter().flatten().filter(|record| record.exists).collect();
        let mut golden = self.settled_values(context, collection, &read)?;
        if self.has_missing_target {
            // a missing target may be written by a unit that is in progress
            context.wait_for_units_in_progress()?;
            golden = self.settled_values(context, collection, &read)?;
        }
        let stale = read.iter().zip(&golden).filter(|(record, golden)| record.golden[..] != golden[..]);
        let keys: Vec<Key> = stale.map(|(record, _)| record.key.clone()).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let locked: Vec<StoredRecord> = context.read_for_update(collection, &keys)?.into_iter().flatten().filter(|record| record.exists).collect();
        let golden = self.settled_values(context, collection, &locked)?;
        for (record, golden) in locked.iter().zip(golden) {
            self.settle(collection, record, golden, ChangeCause::ChildPass, &children[&record.key]);
        }
        Ok(())
    }

    /// Computes the correct values of records.
    fn settled_values(&mut self, context: &mut dyn PassContext, collection: CollectionId, records: &[StoredRecord]) -> Result<Vec<Arc<[Value]>>> {
        let mut golden: Vec<Arc<[Value]>> = records.iter().map(|record| Arc::from(&*record.golden)).collect();
        let relations = &self.rules.relations[collection];
        self.has_missing_target = false;
        let definition = &self.rules.catalogue.collections[collection];
        // links by key were computed when documents were imported; the rule may have changed since
        for link in relations.from.iter().map(|link| &self.rules.catalogue.links[*link]) {
            let TargetRule::Key(key) = &link.target_rule else { continue };
            for (values, record) in golden.iter_mut().zip(records) {
                let found = target_by_template(self.evaluator, definition, &KeyedLink { name: &link.name, when: link.when.as_ref(), key }, values);
                self.note_failed(collection, &record.key);
                check_cancelled()?;
                if values[link.field] != found {
                    Arc::make_mut(values)[link.field] = found;
                }
            }
        }
        for link in &relations.lookup_links {
            let mut between = |link: u32, ranges: &[StartRange]| context.edges_starting_between(link, ranges, None);
            let (rules, evaluator) = (self.rules, self.evaluator);
            let mut seek = |position: usize, link: &Link, values: &[Value]| {
                let criteria = target_criteria(&rules.catalogue, evaluator, link, values);
                self.note_failed(collection, &records[position].key);
                criteria
            };
            let found = find(&rules.catalogue, *link, &mut golden, &mut seek, &mut between)?;
            for (position, reason) in found.ambiguous {
                self.evaluator.note_message(|| reason);
                self.note_failed(collection, &records[position].key);
            }
            self.components(context, *link, &mut golden, records)?;
        }
        if !relations.link_expressions.is_empty() {
            self.compute_link_expressions(context, collection, &mut golden, records)?;
        }
        Ok(golden)
    }

    /// Computes settled fields that have expressions.
    fn compute_link_expressions(
        &mut self,
        context: &mut dyn PassContext,
        collection: CollectionId,
        golden: &mut [Arc<[Value]>],
        records: &[StoredRecord],
    ) -> Result<()> {
        let relations = &self.rules.relations[collection];
        let mut targets: HashMap<LinkId, HashMap<Key, Vec<Value>>> = HashMap::new();
        for index in &relations.from {
            let link = &self.rules.catalogue.links[*index];
            if !link.is_read() {
                continue;
            }
            let keys: BTreeSet<Key> = golden.iter().flat_map(|values| target_keys(link, values)).collect();
            let keys: Vec<Key> = keys.into_iter().collect();
            let records = if keys.is_empty() { Vec::new() } else { context.read(link.target_collection, &keys)? };
            self.has_missing_target |= records.iter().any(|record| record.as_ref().is_none_or(|record| !record.exists));
            let existing = records.into_iter().flatten().filter(|record| record.exists);
            targets.insert(*index, existing.map(|record| (record.key, record.golden)).collect());
        }
        for (values, record) in golden.iter_mut().zip(records) {
            check_cancelled()?;
            read_through(self.rules, self.evaluator, collection, Arc::make_mut(values), &|link, key| targets.get(&link)?.get(key).map(Vec::as_slice));
            self.note_failed(collection, &record.key);
        }
        Ok(())
    }
}
