//! Settles parents: which of their children are read, and in which order their values are computed.

use super::work::{ChildAtHand, ChildrenByLink, ParentAtHand, ParentWork};
use crate::relations::marks::{MADE, key_of};
use crate::relations::payload::ChildPayload;
use crate::relations::stored::damaged;
use crate::settle::measured::measures;
use crate::settle::pass_state::PassState;
use crate::settle::stop::go_on;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use stook_catalogue::ids::{CollectionId, LinkId};
use stook_catalogue::key::Key;
use stook_catalogue::links::{CoverageKind, Derivation};
use stook_store::{Edge, PassContext, Result, StaleMark, StoredRecord};

impl PassState<'_> {
    pub(in crate::settle) fn parents(&mut self, context: &mut dyn PassContext, collection: CollectionId, marks: &[StaleMark]) -> Result<()> {
        let mut wanted: BTreeMap<Key, ParentWork> = BTreeMap::new();
        for mark in marks {
            self.cleared.push(mark.id);
            let own = wanted.entry(key_of(&mark.target)?).or_default();
            own.jobs.insert(mark.job);
            match mark.part.strip_prefix('g') {
                Some(group) => {
                    own.groups.insert(group.to_owned());
                }
                None => {
                    own.all = true;
                    own.created_by_link |= mark.part == MADE;
                }
            }
        }
        let keys: Vec<Key> = wanted.keys().cloned().collect();
        let held = context.hold(collection, &keys)?;
        self.widen(collection, &held, &mut wanted);
        let told = self.told(context, collection, &wanted)?;
        let mut parents: Vec<ParentAtHand> = Vec::with_capacity(keys.len());
        for (((key, wanted), record), told) in wanted.into_iter().zip(held).zip(told) {
            go_on()?;
            let state = self.exists(collection, &key, record.as_ref(), &wanted, &told)?;
            parents.push(ParentAtHand { key, state, wanted, children: told });
        }
        let mut covered = HashMap::new();
        for coverage in &self.rules.relations[collection].coverages {
            self.cover(context, *coverage, &parents, &mut covered)?;
        }
        Ok(())
    }

    /// Extends the work to all children of a parent if a rollup or runs may change, or if the parent does not exist yet and links may create it.
    fn widen(&self, collection: CollectionId, held: &[Option<StoredRecord>], wanted: &mut BTreeMap<Key, ParentWork>) {
        let own = &self.rules.relations[collection];
        let definition = &self.rules.catalogue.collections[collection];
        let rolls = |group: &str| {
            own.rollups.iter().any(|field| match &definition.fields[*field].derive {
                Some(Derivation::Rollup(rollup)) => rollup.groups.as_ref().is_none_or(|groups| groups.is_match(group)),
                _ => false,
            })
        };
        let created = own.to.iter().any(|link| self.rules.catalogue.links[*link].create);
        let has_runs = own.coverages.iter().any(|coverage| matches!(self.rules.catalogue.coverages[*coverage].kind, CoverageKind::Runs { .. }));
        for (wanted, record) in wanted.values_mut().zip(held) {
            let is_there = record.as_ref().is_some_and(|record| record.exists);
            wanted.all |= has_runs || (created && !is_there) || wanted.groups.iter().any(|group| rolls(group));
        }
    }

    /// Reads the edges of parents: of all groups, or of those that have changed.
    fn told(&self, context: &mut dyn PassContext, collection: CollectionId, wanted: &BTreeMap<Key, ParentWork>) -> Result<Vec<ChildrenByLink>> {
        let own = &self.rules.relations[collection];
        let definition = &self.rules.catalogue.collections[collection];
        let rolled = own.rollups.iter().filter_map(|field| match &definition.fields[*field].derive {
            Some(Derivation::Rollup(rollup)) => Some(rollup.link),
            _ => None,
        });
        let measured = own.coverages.iter().filter_map(|coverage| measures(&self.rules.catalogue.coverages[*coverage].kind));
        let creating = own.to.iter().copied().filter(|link| self.rules.catalogue.links[*link].create);
        let links: BTreeSet<LinkId> = rolled.chain(measured).chain(creating).collect();
        let places: HashMap<&str, usize> = wanted.keys().enumerate().map(|(place, key)| (key.as_str(), place)).collect();
        let mut told: Vec<ChildrenByLink> = wanted.iter().map(|_| ChildrenByLink::new()).collect();
        let mut asked: Vec<(String, Option<String>)> = Vec::new();
        for (key, wanted) in wanted {
            let target = key.as_str().to_owned();
            if wanted.all {
                asked.push((target, None));
            } else {
                asked.extend(wanted.groups.iter().map(|group| (target.clone(), Some(group.clone()))));
            }
        }
        for link in links {
            let definition = &self.rules.catalogue.links[link];
            for Edge { target, group, child, payload, .. } in context.edges(definition.edges(), &asked, None)? {
                go_on()?;
                let Some(place) = places.get(target.as_str()) else { continue };
                let child = ChildAtHand { group, key: child, told: ChildPayload::unpack(&payload, definition).map_err(damaged)? };
                told[*place].entry(link).or_default().push(child);
            }
        }
        Ok(told)
    }
}
