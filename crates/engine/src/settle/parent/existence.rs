//! Parents that exist because children link to them, and rollups of parents.

use super::work::{ChildrenByLink, ParentState, ParentWork};
use crate::content::settled::carry_settled;
use crate::content::state::effective_state;
use crate::job::NO_JOB;
use crate::relations::marks::{MADE, PARENT};
use crate::relations::payload::ChildPayload;
use crate::relations::{ChangeCause, ValueChange};
use crate::settle::measure::rollup_value;
use crate::settle::pass_state::PassState;
use crate::settle::waiting::WaitingMark;
use std::sync::Arc;
use stook_catalogue::definition::KeyDefinition;
use stook_catalogue::ids::{CollectionId, LinkId};
use stook_catalogue::key::Key;
use stook_catalogue::links::Derivation;
use stook_catalogue::record::{Contribution, ContributionContent, ContributionOrigin, Retirement, UNKNOWN_TIME, pack, pack_raw};
use stook_catalogue::survivorship::Consolidator;
use stook_catalogue::value::{SmolStr, Value};
use stook_store::{RecordChange, RecordContent, RecordWrite, Result, StoredRecord};

/// What becomes of a parent because of the children that link to it.
#[derive(Default)]
struct LinkedExistence {
    /// Its new content if that changes; `Some(None)` if the record is to be deleted.
    content: Option<Option<RecordContent>>,
    /// Whether all its children must be read to decide.
    needs_all_children: bool,
}

impl PassState<'_> {
    /// Creates or deletes a parent, depending on whether children link to it, and settles its rollups; returns it if it exists.
    pub(super) fn settle_existence(
        &mut self,
        collection: CollectionId,
        key: &Key,
        stored: Option<&StoredRecord>,
        work: &ParentWork,
        children_by_link: &ChildrenByLink,
    ) -> Result<Option<ParentState>> {
        let relations = &self.rules.relations[collection];
        let creating: Vec<LinkId> = relations.to.iter().copied().filter(|link| self.rules.catalogue.links[*link].create).collect();
        let may_change = work.created_by_link || !creating.is_empty();
        let LinkedExistence { content: linked_existence, needs_all_children } = if may_change {
            self.linked_existence((collection, key), stored, (children_by_link, work.all), &creating)?
        } else {
            LinkedExistence::default()
        };
        if needs_all_children {
            for job in &work.jobs {
                self.propagation.mark_parent(self.rules, collection, (key, ""), *job);
            }
        }
        let living = stored.filter(|record| record.exists);
        let mut golden = match &linked_existence {
            Some(content) => content.as_ref().filter(|content| content.exists).map(|content| content.golden.clone()),
            None => living.map(|record| Arc::from(&*record.golden)),
        };
        if let Some(golden) = golden.as_mut().filter(|_| work.all && !relations.rollups.is_empty()) {
            let golden = Arc::make_mut(golden);
            let definition = &self.rules.catalogue.collections[collection];
            for field in &relations.rollups {
                let Some(Derivation::Rollup(rollup)) = &definition.fields[*field].derive else { continue };
                let children = children_by_link.get(&rollup.link).map(Vec::as_slice).unwrap_or_default();
                let children: Vec<(&str, &ChildPayload)> = children.iter().map(|child| (child.group.as_str(), &child.payload)).collect();
                golden[*field] = rollup_value(&self.rules.catalogue, rollup, &definition.fields[*field].ty, &children).unwrap_or_else(|reason| {
                    let failure = format!("`{}` is left out: {reason}", definition.fields[*field].name);
                    self.failed.entry((collection, key.clone())).or_default().push(failure);
                    Value::Null
                });
            }
        }
        match (linked_existence, &golden) {
            (Some(content), _) => {
                let again = WaitingMark { pass_order: relations.depth << 2 | PARENT, rule: relations.id, target: key.shared(), part: MADE.into() };
                if content.as_ref().is_some_and(|content| self.must_wait((collection, key), content, &[again], &work.jobs)) {
                    return Ok(living.map(|record| ParentState { key: key.clone(), golden: Arc::from(&*record.golden) }));
                }
                for job in &work.jobs {
                    let before = living.map(|record| &record.golden[..]);
                    let changed = ValueChange { collection, key, before, after: golden.as_deref(), job: *job, cause: ChangeCause::ParentPass };
                    self.propagation.follow(self.rules, self.evaluator, &changed);
                }
                self.note_failed(collection, key);
                let change = match content {
                    Some(content) => {
                        RecordChange::Put(Box::new(RecordContent { golden: golden.clone().unwrap_or_else(|| content.golden.clone()), ..content }))
                    }
                    None => RecordChange::Delete,
                };
                let expect = stored.map(|record| record.version);
                self.write(RecordWrite { collection, key: key.clone(), expect, change }, &work.jobs);
            }
            (None, Some(golden)) => {
                if let Some(record) = living {
                    self.settle(collection, record, golden.clone(), ChangeCause::ParentPass, &work.jobs);
                }
            }
            (None, None) => {}
        }
        Ok(golden.map(|golden| ParentState { key: key.clone(), golden }))
    }

    /// What becomes of a parent that children link to: it has a contribution of each link through which they do, even if documents contribute to it,
    /// too. Without any contribution it is deleted. `is_all` says whether `children_by_link` has the children of all groups.
    fn linked_existence(
        &self,
        (collection, key): (CollectionId, &Key),
        stored: Option<&StoredRecord>,
        (children_by_link, is_all): (&ChildrenByLink, bool),
        links: &[LinkId],
    ) -> Result<LinkedExistence> {
        let definition = &self.rules.catalogue.collections[collection];
        let KeyDefinition::Field(key_field) = definition.key else { return Ok(LinkedExistence::default()) };
        let contributor_of = |link: &LinkId| -> SmolStr {
            let link = &self.rules.catalogue.links[*link];
            format!("{}.{}", self.rules.catalogue.collections[link.child_collection].name, link.name).into()
        };
        let mut contributions = match stored {
            Some(record) => record.contributions_of(definition)?,
            None => Vec::new(),
        };
        let before: Vec<SmolStr> = contributions.iter().map(|contribution| contribution.contributor.clone()).collect();
        let names: Vec<SmolStr> = links.iter().map(contributor_of).collect();
        if is_all {
            // links that the definition no longer has
            contributions.retain(|own| !own.is_from_link() || names.contains(&own.contributor));
        }
        let mut needs_all_children = false;
        for (link, contributor) in links.iter().zip(names) {
            let is_linked = children_by_link.get(link).is_some_and(|children| !children.is_empty());
            let has_contribution = contributions.iter().any(|contribution| contribution.contributor == contributor);
            if is_linked && !has_contribution {
                let mut values = vec![Value::Null; definition.fields.len()];
                values[key_field] = stook_catalogue::value::from_text(key.as_str(), &definition.fields[key_field].ty, None).unwrap_or_default();
                contributions.push(Contribution {
                    contributor,
                    as_of: UNKNOWN_TIME,
                    received: None,
                    hash: [0; 16],
                    generation: 0,
                    origin: ContributionOrigin::default(),
                    before: None,
                    retired: Retirement::None,
                    content: ContributionContent::Values(values.into()),
                    raw: None,
                    unreadable: Vec::new(),
                    corrections: Vec::new(),
                });
            } else if !is_linked && has_contribution {
                // its last child may be gone: only reading all children can tell
                needs_all_children |= !is_all;
                contributions.retain(|contribution| !is_all || contribution.contributor != contributor);
            }
        }
        contributions.sort_by(|a, b| a.contributor.cmp(&b.contributor));
        if contributions.iter().map(|contribution| &contribution.contributor).eq(&before) {
            return Ok(LinkedExistence { content: None, needs_all_children });
        }
        if contributions.is_empty() && stored.is_some_and(|record| record.state_set.is_empty()) {
            return Ok(LinkedExistence { content: Some(None), needs_all_children });
        }
        let mut survived = Consolidator::new(&self.rules.catalogue, definition, self.evaluator).golden_record(&contributions);
        if let Some(record) = stored {
            carry_settled(definition, &record.golden, &mut survived.values);
        }
        let state_set = stored.map(|record| record.state_set.clone()).unwrap_or_default();
        let content = RecordContent {
            created_job: stored.map_or(NO_JOB, |record| record.created_job),
            exists: survived.alive,
            state: effective_state(definition, self.evaluator, &survived.values, &state_set),
            state_set,
            conflicts: survived.conflicts,
            contributions: pack(&contributions, definition, &survived.values),
            raw: pack_raw(&contributions),
            golden: survived.values,
            indexes_unchanged: false,
        };
        Ok(LinkedExistence { content: Some(Some(content)), needs_all_children })
    }
}
