//! Turns the contributions of a record into its content, and a change of it into propagation.

use super::contribution::{NewContribution, NumberedContribution};
use super::result::MergeResult;
use crate::content::history::indexed_stay;
use crate::content::settled::carry_settled;
use crate::content::state::effective_state;
use crate::job::policy::ImportPolicy;
use crate::relations::{ChangeCause, Propagation, SettleRules, ValueChange};
use crate::tags::document;
use stook_catalogue::definition::Collection;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::record::{Contribution, Retirement, pack, pack_raw};
use stook_catalogue::survivorship::{Consolidator, GoldenRecord};
use stook_store::queue::JobId;
use stook_store::{RecordChange, RecordContent, StoredRecord};

/// Merges contributions to records of one collection. Used by one thread.
pub struct RecordMerger<'c> {
    pub(super) collection: &'c Collection,
    pub(super) consolidator: &'c Consolidator<'c>,
    pub(super) evaluator: &'c Evaluator,
    pub(super) policy: ImportPolicy,
    pub(super) rules: &'c SettleRules,
    pub(super) index: CollectionId,
}

impl<'c> RecordMerger<'c> {
    /// A merger for the collection with this index, and a policy.
    pub fn new(
        rules: &'c SettleRules,
        index: CollectionId,
        consolidator: &'c Consolidator<'c>,
        evaluator: &'c Evaluator,
        policy: ImportPolicy,
    ) -> Self {
        Self { collection: &rules.catalogue.collections[index], consolidator, evaluator, policy, rules, index }
    }

    /// The edges and marks that follow from a change.
    pub fn follow(&self, key: &Key, stored: Option<&StoredRecord>, change: &RecordChange) -> Propagation {
        let mut propagation = Propagation::default();
        let after = match change {
            RecordChange::Put(content) => content.exists.then_some(&content.golden[..]),
            RecordChange::Delete => None,
            RecordChange::Touch { .. } | RecordChange::State { .. } | RecordChange::Settle(_) => return propagation,
        };
        let before = stored.filter(|record| record.exists).map(|record| &record.golden[..]);
        let changed = ValueChange { collection: self.index, key, before, after, job: self.policy.job, cause: ChangeCause::External };
        propagation.follow(self.rules, self.evaluator, &changed);
        propagation
    }

    /// Keeps the record's new values for propagation; the caller has the old ones.
    pub(super) fn keep_new_values(&self, stored: Option<&StoredRecord>, change: &RecordChange, decision: &mut MergeResult) {
        if !self.rules.has_consequences(self.index) {
            return;
        }
        decision.after = match change {
            RecordChange::Put(content) => content.exists.then(|| content.golden.clone()),
            RecordChange::Delete => None,
            RecordChange::Touch { .. } | RecordChange::State { .. } | RecordChange::Settle(_) => {
                stored.filter(|record| record.exists).map(|record| record.golden.iter().cloned().collect())
            }
        };
    }

    /// Notes which documents of a record change, if tags are computed from them.
    pub(super) fn documents(
        &self,
        stored: Option<&StoredRecord>,
        before: &[Contribution],
        after: &[Contribution],
        incoming: &[NumberedContribution],
        decision: &mut MergeResult,
    ) {
        let Some(document) = self.collection.tag_document() else { return };
        let tree_of = |own: &Contribution| {
            let is_same = |own: &Contribution, other: &NewContribution| own.contributor == other.contributor && own.hash == other.hash;
            incoming.iter().map(|other| &other.contribution).find(|other| is_same(own, other))?.tree.clone()
        };
        decision.documents = document::changes(&self.rules.catalogue, document, before, after, tree_of);
        decision.reevaluates_tags = stored.is_none() || !decision.documents.is_empty();
    }

    /// The golden values of contributions, together with the settled values that the record has so far.
    pub(super) fn golden_record(&self, stored: Option<&StoredRecord>, contributions: &[Contribution]) -> GoldenRecord {
        let mut golden = self.consolidator.golden_record(contributions);
        if let Some(record) = stored.filter(|record| !record.golden.is_empty()) {
            carry_settled(self.collection, &record.golden, &mut golden.values);
        }
        golden
    }

    /// Retires or restores the contributions that `is_meant` selects. `None` if there is nothing to change, for example because they were replaced.
    pub fn retire_or_restore(
        &self,
        record: &StoredRecord,
        mut contributions: Vec<Contribution>,
        is_meant: impl Fn(&Contribution) -> bool,
        retired: Retirement,
    ) -> Option<RecordChange> {
        let mut changed = false;
        let differs = |contribution: &Contribution| contribution.counts() != (retired == Retirement::None);
        for contribution in contributions.iter_mut().filter(|contribution| differs(contribution)) {
            if is_meant(contribution) {
                contribution.retired = retired;
                changed = true;
            }
        }
        if !changed {
            return None;
        }
        let golden = self.golden_record(Some(record), &contributions);
        Some(RecordChange::Put(Box::new(self.content(Some(record), record.created_job, golden, &contributions))))
    }

    /// The change that leaves a record with `contributions`. A record without any is deleted, unless transitions have set its state.
    pub fn without(&self, record: &StoredRecord, mut contributions: Vec<Contribution>) -> RecordChange {
        if contributions.is_empty() && record.state_set.is_empty() {
            return RecordChange::Delete;
        }
        let golden = self.golden_record(Some(record), sorted(&mut contributions));
        RecordChange::Put(Box::new(self.content(Some(record), record.created_job, golden, &contributions)))
    }

    /// The content of a record with these contributions, which must be in stored order.
    pub fn content(&self, stored: Option<&StoredRecord>, created_job: JobId, golden: GoldenRecord, contributions: &[Contribution]) -> RecordContent {
        let state_set = stored.map(|record| record.state_set.clone()).unwrap_or_default();
        let state = effective_state(self.collection, self.evaluator, &golden.values, &state_set);
        let comparable = stored.filter(|record| record.exists && golden.alive && !record.golden.is_empty());
        let stays = |record: &StoredRecord| record.state == state && indexed_stay(self.collection, &record.golden, &golden.values);
        let indexed_stay = comparable.is_some_and(stays);
        RecordContent {
            created_job,
            exists: golden.alive,
            state,
            state_set,
            conflicts: golden.conflicts,
            contributions: pack(contributions, self.collection, &golden.values),
            raw: pack_raw(contributions),
            golden: golden.values,
            indexes_unchanged: indexed_stay,
        }
    }
}

/// Sorts contributions into stored order.
pub(super) fn sorted(contributions: &mut [Contribution]) -> &[Contribution] {
    contributions.sort_by(|a, b| a.contributor.cmp(&b.contributor));
    contributions
}
