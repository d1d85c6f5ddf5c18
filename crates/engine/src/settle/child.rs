//! The pass that settles records as children: which records they link to, and which values they take from these.

use super::linked_values::read_through;
use super::pass_state::{CausingJobs, PassState};
use super::stop::go_on;
use super::targets::{find, keys_of, sought};
use crate::relations::ChangeCause;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use stook_catalogue::ids::{CollectionId, LinkId};
use stook_catalogue::key::Key;
use stook_catalogue::links::{KeyedLink, Link, TargetRule, keyed};
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
        let mut golden = self.settled(context, collection, &read)?;
        if self.missing {
            // a missing target may be written by a unit that is in progress
            context.wait_for_new()?;
            golden = self.settled(context, collection, &read)?;
        }
        let stale = read.iter().zip(&golden).filter(|(record, golden)| record.golden[..] != golden[..]);
        let keys: Vec<Key> = stale.map(|(record, _)| record.key.clone()).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let held: Vec<StoredRecord> = context.hold(collection, &keys)?.into_iter().flatten().filter(|record| record.exists).collect();
        let golden = self.settled(context, collection, &held)?;
        for (record, golden) in held.iter().zip(golden) {
            self.settle(collection, record, golden, ChangeCause::ChildPass, &children[&record.key]);
        }
        Ok(())
    }

    /// Computes the correct values of records.
    fn settled(&mut self, context: &mut dyn PassContext, collection: CollectionId, records: &[StoredRecord]) -> Result<Vec<Arc<[Value]>>> {
        let mut golden: Vec<Arc<[Value]>> = records.iter().map(|record| Arc::from(&*record.golden)).collect();
        let own = &self.rules.relations[collection];
        self.missing = false;
        let definition = &self.rules.catalogue.collections[collection];
        // links by key were computed when documents were imported; the rule may have changed since
        for link in own.from.iter().map(|link| &self.rules.catalogue.links[*link]) {
            let TargetRule::Key(key) = &link.target_rule else { continue };
            for (values, record) in golden.iter_mut().zip(records) {
                let found = keyed(self.evaluator, definition, &KeyedLink { name: &link.name, when: link.when.as_ref(), key }, values);
                self.note_failed(collection, &record.key);
                go_on()?;
                if values[link.field] != found {
                    Arc::make_mut(values)[link.field] = found;
                }
            }
        }
        for link in &own.lookup_links {
            let mut between = |link: u32, ranges: &[StartRange]| context.edges_starting_between(link, ranges, None);
            let (rules, evaluator) = (self.rules, self.evaluator);
            let mut seek = |place: usize, link: &Link, values: &[Value]| {
                let sought = sought(rules, evaluator, link, values);
                self.note_failed(collection, &records[place].key);
                sought
            };
            find(rules, *link, &mut golden, &mut seek, &mut between)?;
        }
        if !own.link_expressions.is_empty() {
            self.take(context, collection, &mut golden, records)?;
        }
        Ok(golden)
    }

    /// Computes settled fields that have expressions.
    fn take(&mut self, context: &mut dyn PassContext, collection: CollectionId, golden: &mut [Arc<[Value]>], records: &[StoredRecord]) -> Result<()> {
        let own = &self.rules.relations[collection];
        let mut targets: HashMap<LinkId, HashMap<Key, Vec<Value>>> = HashMap::new();
        for index in &own.from {
            let link = &self.rules.catalogue.links[*index];
            if !link.is_read() {
                continue;
            }
            let keys: BTreeSet<Key> = golden.iter().flat_map(|values| keys_of(link, values)).collect();
            let keys: Vec<Key> = keys.into_iter().collect();
            let records = if keys.is_empty() { Vec::new() } else { context.read(link.target_collection, &keys)? };
            self.missing |= records.iter().any(|record| record.as_ref().is_none_or(|record| !record.exists));
            let there = records.into_iter().flatten().filter(|record| record.exists);
            targets.insert(*index, there.map(|record| (record.key, record.golden)).collect());
        }
        for (values, record) in golden.iter_mut().zip(records) {
            go_on()?;
            read_through(self.rules, self.evaluator, collection, Arc::make_mut(values), &|link, key| targets.get(&link)?.get(key).map(Vec::as_slice));
            self.note_failed(collection, &record.key);
        }
        Ok(())
    }
}
