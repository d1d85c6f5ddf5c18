//! A settle pass: the marks of one phase and one rule are processed in one transaction of the store.

use super::pass_state::{CausingJobs, PassState, why_refused};
use crate::relations::SettleRules;
use crate::relations::marks::{CHILD, FOUND, PARENT, READ, parse_key};
use std::collections::BTreeMap;
use stook_catalogue::eval::{Evaluator, ExpressionFailures};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_store::{PassContext, PassWrites, RefusalReason, RefusedWrite, Result, SettlePass, SettlingChanges, StaleMark, StoreError, Tenant};

/// The maximum number of marks that one pass processes: a compromise between long transactions and many passes.
const MAX_MARKS: usize = 3_000;

impl SettlePass for SettleRules {
    fn max_marks(&self) -> usize {
        MAX_MARKS
    }

    /// The collection whose records the pass settles as children, by its id in marks. No two passes do so for one collection at the same time, so
    /// a pass need not lock children whose values are already correct.
    fn exclusive_group(&self, marks: &[StaleMark]) -> Option<u32> {
        let first = marks.first()?;
        match first.pass_order & 3 {
            PARENT => None,
            CHILD => Some(first.rule),
            _ => self.links.get(&first.rule).map(|link| self.relations[self.catalogue.links[*link].child_collection].id),
        }
    }

    /// Processes marks. A damaged record or edge fails only the marks that need it: the marks are halved until the first of them is alone, which
    /// is then cleared and the damage reported, so that it is not retried forever. Repairing the row writes new marks.
    fn run(&self, _tenant: &Tenant, marks: &[StaleMark], refused: &[RefusedWrite], context: &mut dyn PassContext) -> Result<PassWrites> {
        let mut batch = marks;
        loop {
            match (self.process(batch, refused, context), batch) {
                (Err(StoreError::Damaged(damage)), [mark]) => {
                    let settling = SettlingChanges { cleared: vec![mark.id], ..SettlingChanges::default() };
                    return Ok(PassWrites { settling, damaged: vec![damage.to_string()], ..PassWrites::default() });
                }
                (Err(StoreError::Damaged(_)), larger) => batch = &larger[..larger.len() / 2],
                (result, _) => return result,
            }
        }
    }
}

impl SettleRules {
    /// Computes what follows from marks, and returns it with the marks that are done.
    fn process(&self, marks: &[StaleMark], refused: &[RefusedWrite], context: &mut dyn PassContext) -> Result<PassWrites> {
        let evaluator = Evaluator::new(self.catalogue.tables.clone());
        let mut state = PassState::new(self, &evaluator, marks, refused);
        let Some(first) = marks.first() else { return Ok(PassWrites::default()) };
        let (link, collection) = (self.links.get(&first.rule), self.collections.get(&first.rule));
        match (first.pass_order & 3, link, collection) {
            (FOUND, None, _) if let Some(replaces) = self.replacing(first.rule) => state.process_complete_delivery(context, replaces, marks)?,
            (FOUND, None, _) if let Some(collection) = self.waiting.get(&first.rule) => state.process_waiting(context, *collection, marks)?,
            (FOUND, Some(link), _) => state.process_found(context, *link, marks)?,
            (READ, Some(link), _) => state.process_read(context, *link, marks)?,
            (CHILD, _, Some(collection)) => state.process_child(context, *collection, marks)?,
            (PARENT, _, Some(collection)) => state.process_parent(context, *collection, marks)?,
            // the definition no longer has this rule
            _ => state.cleared.extend(marks.iter().map(|mark| mark.id)),
        }
        state.note_incorrect(context)?;
        let mut failures = ExpressionFailures::default();
        for ((collection, key), failed) in std::mem::take(&mut state.failed) {
            failures.add(&self.catalogue.collections[collection].name, key.as_str(), failed);
        }
        let PassState { writes, propagation, cleared, log, refused_positions, .. } = state;
        let mut settling = propagation.settling();
        settling.cleared = cleared;
        let left = refused_positions.into_iter().map(|position| &refused[position]).filter(|refused| refused.reason != RefusalReason::Erased);
        let damaged = left.map(|refused| why_refused(&self.catalogue, refused)).collect();
        Ok(PassWrites { writes, settling, log, failures, damaged })
    }
}

impl PassState<'_> {
    fn process_child(&mut self, context: &mut dyn PassContext, collection: CollectionId, marks: &[StaleMark]) -> Result<()> {
        let mut children: BTreeMap<Key, CausingJobs> = BTreeMap::new();
        for mark in marks {
            self.cleared.push(mark.id);
            children.entry(parse_key(&mark.target)?).or_default().insert(mark.job);
        }
        self.children(context, collection, &children)
    }
}
