//! Propagation: the edges and stale marks that a change of a record makes necessary.
//!
//! [`Propagation::follow`] fills one from a [`ValueChange`]. It is called for chunks (`chunk/follow.rs`), edits and withdrawals
//! (`RecordMerger::follow`), settle passes (`PassState::settle`), and complete deliveries (`settle/complete_delivery/`), which also add their own.

use super::edges::{EdgeBuilder, EdgeKey, registered};
use super::marks::{CHILD, FOUND, PARENT, READ, SearchBounds};
use super::rules::SettleRules;
use super::stored::interval_of;
use std::collections::BTreeSet;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;
use stook_catalogue::links::{Derivation, Link};
use stook_catalogue::value::{SmolStr, Value};
use stook_store::queue::JobId;
use stook_store::{Edge, EdgeChange, SettlingChanges, StaleMark};

/// What changed a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeCause {
    /// A document, an edit, a withdrawal or a complete delivery.
    External,
    /// The same, and the record's settled values are already correct.
    InlineSettled,
    /// The pass that settles it as a child.
    ChildPass,
    /// The pass that settles it as a parent.
    ParentPass,
}

/// A change of a record's golden values; these are `None` if the record does not exist.
#[derive(Debug)]
pub struct ValueChange<'c> {
    /// Its collection.
    pub collection: CollectionId,
    /// Its key.
    pub key: &'c Key,
    /// The values before.
    pub before: Option<&'c [Value]>,
    /// The values after.
    pub after: Option<&'c [Value]>,
    /// The job that did it.
    pub job: JobId,
    /// What kind of work changed it.
    pub cause: ChangeCause,
}

/// What changes of records make necessary for other records: edges to put or delete, in order, and stale marks, each once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Propagation {
    edges: Vec<EdgeChange>,
    marks: BTreeSet<StaleMark>,
    /// Marks that are needed only if edges lead to their target: of records that are new, or that have given up a unique value.
    marks_if_linked: BTreeSet<StaleMark>,
}

impl Propagation {
    /// Whether nothing follows.
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty() && self.marks.is_empty() && self.marks_if_linked.is_empty()
    }

    /// Adds what follows from other changes.
    pub fn extend(&mut self, other: &Propagation) {
        self.edges.extend_from_slice(&other.edges);
        self.marks.extend(other.marks.iter().cloned());
        self.marks_if_linked.extend(other.marks_if_linked.iter().cloned());
    }

    /// Copies the marks of one job to others.
    pub(crate) fn share(&mut self, job: JobId, others: &[JobId]) {
        for marks in [&mut self.marks, &mut self.marks_if_linked] {
            let copied: Vec<_> = marks.iter().filter(|mark| mark.job == job).cloned().collect();
            for other in others {
                marks.extend(copied.iter().cloned().map(|mark| StaleMark { job: *other, ..mark }));
            }
        }
    }

    /// Converts it for the store.
    pub fn settling(self) -> SettlingChanges {
        let (marks, marks_if_linked) = (self.marks.into_iter().collect(), self.marks_if_linked.into_iter().collect());
        SettlingChanges { edges: self.edges, marks, marks_if_linked, ..SettlingChanges::default() }
    }

    /// Marks a record to be settled as a child.
    pub fn mark_child(&mut self, rules: &SettleRules, collection: CollectionId, key: &Key, job: JobId) {
        let relations = &rules.relations[collection];
        self.mark(relations.depth << 2 | CHILD, relations.id, key.shared(), "", job);
    }

    /// Marks a record to be settled as a parent; `part` says what of it.
    pub fn mark_parent(&mut self, rules: &SettleRules, collection: CollectionId, (key, part): (&Key, &str), job: JobId) {
        let relations = &rules.relations[collection];
        self.mark(relations.depth << 2 | PARENT, relations.id, key.shared(), part, job);
    }

    /// Marks a record to check whether it still has the unique values that other records wait for.
    pub(crate) fn mark_waiting(&mut self, rules: &SettleRules, collection: CollectionId, holder: SmolStr, job: JobId) {
        let relations = &rules.relations[collection];
        self.mark(relations.depth << 2 | FOUND, relations.waiting, holder, "", job);
    }

    /// Adds a change of an edge.
    pub fn edge(&mut self, change: EdgeChange) {
        self.edges.push(change);
    }

    pub(crate) fn mark(&mut self, pass_order: u32, rule: u32, target: impl Into<SmolStr>, part: impl Into<SmolStr>, job: JobId) {
        self.marks.insert(StaleMark { id: 0, pass_order, rule, target: target.into(), part: part.into(), job });
    }

    fn mark_if_linked(&mut self, pass_order: u32, rule: u32, target: SmolStr, job: JobId) {
        self.marks_if_linked.insert(StaleMark { id: 0, pass_order, rule, target, part: SmolStr::default(), job });
    }

    /// Adds what follows from a change.
    pub fn follow(&mut self, rules: &SettleRules, evaluator: &Evaluator, changed: &ValueChange<'_>) {
        let relations = &rules.relations[changed.collection];
        if !relations.has_consequences() || changed.before == changed.after {
            return;
        }
        self.follow_edges(rules, evaluator, changed);
        let collection = &rules.catalogue.collections[changed.collection];
        let key = || changed.key.shared();
        let differs = |field: FieldId| match (changed.before, changed.after) {
            (Some(before), Some(after)) => before[field] != after[field],
            (before, after) => before.is_some() != after.is_some(),
        };
        let needs_settling = || match (changed.before, changed.after) {
            (Some(before), Some(after)) => !rules.stays_settled(changed.collection, before, after),
            (_, after) => after.is_some(),
        };
        if relations.is_child() && !matches!(changed.cause, ChangeCause::ChildPass | ChangeCause::InlineSettled) && needs_settling() {
            self.mark(relations.depth << 2 | CHILD, relations.id, key(), "", changed.job);
        }
        // what has one target with this record finds it through this record
        let merging = relations.lookup_links.iter().map(|link| &rules.catalogue.links[*link]).filter(|link| link.target_rule.merges());
        for link in merging.filter(|link| changed.cause == ChangeCause::ChildPass && differs(link.field)) {
            let texts = changed.after.map(|values| registered(link, collection, &link.target_rule.own_criteria(), values));
            texts.into_iter().flatten().flatten().for_each(|text| self.mark_sharing(rules, link, text, changed.job));
        }
        for link in relations.to.iter().map(|link| &rules.catalogue.links[*link]) {
            let existence_changes = changed.before.is_some() != changed.after.is_some();
            if link.read_fields.iter().any(|field| differs(*field)) || link.reads_existence && existence_changes {
                let pass_order = rules.relations[link.child_collection].depth << 2 | READ;
                if changed.before.is_none() {
                    self.mark_if_linked(pass_order, link.id, key(), changed.job);
                } else {
                    self.mark(pass_order, link.id, key(), "", changed.job);
                }
            }
        }
        if let Some(before) = changed.before {
            let is_given_up = |field: &FieldId| !before[*field].is_null() && changed.after.is_none_or(|after| after[*field] != before[*field]);
            if relations.awaited.iter().any(is_given_up) {
                self.mark_if_linked(relations.depth << 2 | FOUND, relations.waiting, key(), changed.job);
            }
        }
        let is_rollup = |field: FieldId| matches!(collection.fields[field].derive, Some(Derivation::Rollup(_)));
        if relations.is_parent()
            && changed.cause != ChangeCause::ParentPass
            && collection.fields.ids().any(|field| !is_rollup(field) && differs(field))
        {
            self.mark_parent(rules, changed.collection, (changed.key, ""), changed.job);
        }
    }

    /// Marks the records that share a value to be settled.
    fn mark_sharing(&mut self, rules: &SettleRules, link: &Link, text: SmolStr, job: JobId) {
        self.mark(rules.relations[link.child_collection].depth << 2 | FOUND, link.id, text, SearchBounds::default().text(), job);
    }

    fn follow_edges(&mut self, rules: &SettleRules, evaluator: &Evaluator, changed: &ValueChange<'_>) {
        let edge_builder = EdgeBuilder { rules, evaluator, collection: changed.collection, key: changed.key };
        let before = changed.before.map(|values| edge_builder.edges(values)).unwrap_or_default();
        let after = changed.after.map(|values| edge_builder.edges(values)).unwrap_or_default();
        let removed = before.iter().filter(|(id, _)| !after.contains_key(*id));
        let put = after.iter().filter(|(id, payload)| before.get(*id) != Some(*payload));
        for ((id, payload), is_put) in removed.map(|edge| (edge, false)).chain(put.map(|edge| (edge, true))) {
            let Some(link) = rules.links.get(&(id.link & !3)).map(|link| &rules.catalogue.links[*link]) else { continue };
            if id.link == link.edges() {
                if link.is_measured() {
                    let target = &rules.relations[link.target_collection];
                    self.mark(target.depth << 2 | PARENT, target.id, id.target.clone(), format!("g{}", id.group), changed.job);
                }
            } else if id.link == link.children() && link.target_rule.merges() {
                self.mark_sharing(rules, link, id.target.clone(), changed.job);
            } else if id.link == link.targets() {
                // the payload was just built, so it has an interval
                let Some((low, high)) = interval_of(payload) else { continue };
                self.mark(
                    rules.relations[link.child_collection].depth << 2 | FOUND,
                    link.id,
                    id.target.clone(),
                    SearchBounds { low, high, cursor: None }.text(),
                    changed.job,
                );
            }
            let EdgeKey { link, target, group, start, child } = id.clone();
            let edge = Edge { link, target, group, start, child, payload: payload.clone() };
            self.edges.push(if is_put { EdgeChange::Put(edge) } else { EdgeChange::Delete(edge) });
        }
    }
}
