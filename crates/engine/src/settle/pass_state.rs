//! What one settle pass has found so far, and what it writes.

use super::complete_delivery::keys::KeySample;
use crate::relations::marks::CHECK;
use crate::relations::{ChangeCause, Propagation, SettleRules, ValueChange};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::links::TargetRule;
use stook_catalogue::value::{SmolStr, Value};
use stook_store::queue::JobId;
use stook_store::{NewChangeLogEntry, RecordChange, RecordContent, RecordWrite, StaleMark, StoredRecord, UniqueConflict};

/// Edges read by one pass that fans out.
pub(super) const MOST_CHILDREN: usize = 4_000;

/// Who caused marks.
pub(super) type CausingJobs = BTreeSet<JobId>;

/// What one pass has found out so far.
pub(super) struct PassState<'p> {
    pub(super) rules: &'p SettleRules,
    pub(super) evaluator: &'p Evaluator,
    pub(super) writes: Vec<RecordWrite>,
    pub(super) propagation: Propagation,
    pub(super) cleared: Vec<i64>,
    pub(super) log: Vec<NewChangeLogEntry>,
    /// Records that changed although nothing but a check asked for it.
    pub(super) incorrect: Vec<(CollectionId, Key)>,
    /// Whether a check asks.
    pub(super) checks: bool,
    /// Records on which expressions have failed, with what has.
    pub(super) failed: BTreeMap<(CollectionId, Key), Vec<String>>,
    /// Whether some target was not there.
    pub(super) missing: bool,
    /// Files, by job and number, that were decided about.
    pub(super) decided: BTreeSet<(JobId, usize)>,
    /// Keys of files that are written by this pass, by the file's name.
    pub(super) unwritten: BTreeMap<SmolStr, KeySample>,
    /// Records that cannot be written.
    pub(super) refused: &'p [UniqueConflict],
    /// Those of them that this pass would have written: their places in `refused`.
    pub(super) refused_here: BTreeSet<usize>,
}

impl<'p> PassState<'p> {
    /// A pass that has found nothing yet, for these marks.
    pub(super) fn new(rules: &'p SettleRules, evaluator: &'p Evaluator, marks: &[StaleMark], refused: &'p [UniqueConflict]) -> Self {
        Self {
            rules,
            evaluator,
            writes: Vec::new(),
            propagation: Propagation::default(),
            cleared: Vec::new(),
            log: Vec::new(),
            incorrect: Vec::new(),
            checks: marks.iter().any(|mark| mark.job == CHECK),
            failed: BTreeMap::new(),
            missing: false,
            decided: BTreeSet::new(),
            unwritten: BTreeMap::new(),
            refused,
            refused_here: BTreeSet::new(),
        }
    }

    /// Notes what the evaluator has found to fail on a record. Whoever evaluates something about a record says so before something is
    /// evaluated about the next one.
    pub(super) fn note_failed(&mut self, collection: CollectionId, key: &Key) {
        let failures = self.evaluator.failures();
        if !failures.is_empty() {
            let known = self.failed.entry((collection, key.clone())).or_default();
            for failure in failures {
                if !known.contains(&failure) {
                    known.push(failure);
                }
            }
        }
    }

    /// Writes settled values that are new, and what follows from them.
    pub(super) fn settle(&mut self, collection: CollectionId, stored: &StoredRecord, golden: Arc<[Value]>, by: ChangeCause, jobs: &CausingJobs) {
        if golden[..] == stored.golden[..] {
            return;
        }
        for job in jobs {
            let changed = ValueChange { collection, key: &stored.key, before: Some(&stored.golden), after: Some(&golden), job: *job, by };
            self.propagation.follow(self.rules, self.evaluator, &changed);
            self.note_failed(collection, &stored.key);
        }
        // what a link by key gives stands among what documents say
        let links = self.rules.relations[collection].from.iter().map(|link| &self.rules.catalogue.links[*link]);
        let is_keyed =
            links.filter(|link| matches!(link.target_rule, TargetRule::Key(_))).any(|link| golden[link.field] != stored.golden[link.field]);
        let content = Box::new(content_of(stored, golden));
        let change = if is_keyed { RecordChange::Put(content) } else { RecordChange::Settle(content) };
        self.write(RecordWrite { collection, key: stored.key.clone(), expect: Some(stored.version), change }, jobs);
    }

    /// Writes what certain jobs have caused.
    pub(super) fn write(&mut self, write: RecordWrite, jobs: &CausingJobs) {
        if jobs.iter().all(|job| *job == CHECK) && !jobs.is_empty() {
            self.incorrect.push((write.collection, write.key.clone()));
        }
        self.writes.push(write);
    }
}

/// A record's content with other golden values.
fn content_of(stored: &StoredRecord, golden: Arc<[Value]>) -> RecordContent {
    RecordContent {
        created_job: stored.created_job,
        exists: stored.exists,
        golden,
        state: stored.state.clone(),
        state_set: stored.state_set.clone(),
        conflicts: stored.conflicts.clone(),
        contributions: stored.contributions.clone(),
        raw: stored.raw.clone().map(Into::into),
        indexes_unchanged: false,
    }
}

/// Says which record cannot be written as it would have to be.
pub(crate) fn why_refused(catalogue: &Catalogue, refused: &UniqueConflict) -> String {
    let collection = &catalogue.collections[refused.collection];
    let (field, holder, key) = (&collection.fields[refused.field].name, &refused.holder, &refused.key);
    format!("{} {key}: `{field}` must be unique, but record {holder:?} already has this value", collection.name)
}
