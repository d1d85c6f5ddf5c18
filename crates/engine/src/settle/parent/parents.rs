//! Settles parents: which of their children are read, and in which order their values are computed.

use super::work::{ChildrenByLink, EdgeChild, ParentToSettle, ParentWork};
use crate::relations::marks::{MADE, parse_key};
use crate::relations::payload::ChildPayload;
use crate::relations::stored::damaged;
use crate::settle::measured::measured_link;
use crate::settle::pass_state::PassState;
use crate::settle::stop::check_cancelled;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use stook_catalogue::ids::{CollectionId, LinkId};
use stook_catalogue::key::Key;
use stook_catalogue::links::{CoverageKind, Derivation};
use stook_store::{Edge, PassContext, Result, StaleMark, StoredRecord};

impl PassState<'_> {
    pub(in crate::settle) fn process_parent(&mut self, context: &mut dyn PassContext, collection: CollectionId, marks: &[StaleMark]) -> Result<()> {
        let mut work_by_parent: BTreeMap<Key, ParentWork> = BTreeMap::new();
        for mark in marks {
            self.cleared.push(mark.id);
            let work = work_by_parent.entry(parse_key(&mark.target)?).or_default();
            work.jobs.insert(mark.job);
            match mark.part.strip_prefix('g') {
                Some(group) => {
                    work.groups.insert(group.to_owned());
                }
                None => {
                    work.all = true;
                    work.created_by_link |= mark.part == MADE;
                }
            }
        }
        let keys: Vec<Key> = work_by_parent.keys().cloned().collect();
        let locked = context.read_for_update(collection, &keys)?;
        self.widen(collection, &locked, &mut work_by_parent);
        let children_of = self.read_children(context, collection, &work_by_parent)?;
        let mut parents: Vec<ParentToSettle> = Vec::with_capacity(keys.len());
        for (((key, work), record), children) in work_by_parent.into_iter().zip(locked).zip(children_of) {
            check_cancelled()?;
            let state = self.settle_existence(collection, &key, record.as_ref(), &work, &children)?;
            parents.push(ParentToSettle { key, state, work, children });
        }
        let mut covered = HashMap::new();
        for coverage in &self.rules.relations[collection].coverages {
            self.cover(context, *coverage, &parents, &mut covered)?;
        }
        Ok(())
    }

    /// Extends the work to all children of a parent if a rollup or runs may change, or if the parent does not exist yet and links may create it.
    fn widen(&self, collection: CollectionId, records: &[Option<StoredRecord>], work_by_parent: &mut BTreeMap<Key, ParentWork>) {
        let relations = &self.rules.relations[collection];
        let definition = &self.rules.catalogue.collections[collection];
        let rolls = |group: &str| {
            relations.rollups.iter().any(|field| match &definition.fields[*field].derive {
                Some(Derivation::Rollup(rollup)) => rollup.groups.as_ref().is_none_or(|groups| groups.is_match(group)),
                _ => false,
            })
        };
        let is_created_by_links = relations.to.iter().any(|link| self.rules.catalogue.links[*link].create);
        let has_runs = relations.coverages.iter().any(|coverage| matches!(self.rules.catalogue.coverages[*coverage].kind, CoverageKind::Runs { .. }));
        for (work, record) in work_by_parent.values_mut().zip(records) {
            let exists = record.as_ref().is_some_and(|record| record.exists);
            work.all |= has_runs || (is_created_by_links && !exists) || work.groups.iter().any(|group| rolls(group));
        }
    }

    /// Reads the edges of parents: of all groups, or of those that have changed.
    fn read_children(
        &self,
        context: &mut dyn PassContext,
        collection: CollectionId,
        work_by_parent: &BTreeMap<Key, ParentWork>,
    ) -> Result<Vec<ChildrenByLink>> {
        let relations = &self.rules.relations[collection];
        let definition = &self.rules.catalogue.collections[collection];
        let rolled = relations.rollups.iter().filter_map(|field| match &definition.fields[*field].derive {
            Some(Derivation::Rollup(rollup)) => Some(rollup.link),
            _ => None,
        });
        let measured = relations.coverages.iter().filter_map(|coverage| measured_link(&self.rules.catalogue.coverages[*coverage].kind));
        let creating = relations.to.iter().copied().filter(|link| self.rules.catalogue.links[*link].create);
        let links: BTreeSet<LinkId> = rolled.chain(measured).chain(creating).collect();
        let positions: HashMap<&str, usize> = work_by_parent.keys().enumerate().map(|(position, key)| (key.as_str(), position)).collect();
        let mut children_of: Vec<ChildrenByLink> = work_by_parent.iter().map(|_| ChildrenByLink::new()).collect();
        let mut requested: Vec<(String, Option<String>)> = Vec::new();
        for (key, work) in work_by_parent {
            let target = key.as_str().to_owned();
            if work.all {
                requested.push((target, None));
            } else {
                requested.extend(work.groups.iter().map(|group| (target.clone(), Some(group.clone()))));
            }
        }
        for link in links {
            let definition = &self.rules.catalogue.links[link];
            for Edge { target, group, child, payload, .. } in context.edges(definition.edges(), &requested, None)? {
                check_cancelled()?;
                let Some(position) = positions.get(target.as_str()) else { continue };
                let child = EdgeChild { group, key: child, payload: ChildPayload::unpack(&payload, definition).map_err(damaged)? };
                children_of[*position].entry(link).or_default().push(child);
            }
        }
        Ok(children_of)
    }
}
