//! What one settle pass has computed so far and will write.

use super::complete_delivery::keys::KeySample;
use crate::relations::marks::CHECK;
use crate::relations::{ChangeCause, Propagation, SettleRules, ValueChange};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::links::TargetRule;
use stook_catalogue::value::{SmolStr, Value};
use stook_store::erasure::ERASED;
use stook_store::queue::JobId;
use stook_store::{NewChangeLogEntry, RecordChange, RecordContent, RecordWrite, RefusalReason, RefusedWrite, StaleMark, StoredRecord};

/// The maximum number of edges that a pass from one record to its children reads at once.
pub(super) const MAX_CHILDREN: usize = 4_000;

/// The jobs that caused a mark or a write.
pub(super) type CausingJobs = BTreeSet<JobId>;

/// What one pass has computed so far and will write.
pub(super) struct PassState<'p> {
    pub(super) rules: &'p SettleRules,
    pub(super) evaluator: &'p Evaluator,
    pub(super) writes: Vec<RecordWrite>,
    pub(super) propagation: Propagation,
    pub(super) cleared: Vec<i64>,
    pub(super) log: Vec<NewChangeLogEntry>,
    /// Records that changed although only a check had marked them.
    pub(super) incorrect: Vec<(CollectionId, Key)>,
    /// Whether any of the marks comes from a check.
    pub(super) checks: bool,
    /// Records for which expressions have failed, with the failures.
    pub(super) failed: BTreeMap<(CollectionId, Key), Vec<String>>,
    /// Whether the target of some link does not exist.
    pub(super) has_missing_target: bool,
    /// Files that this pass has decided about, by job and number.
    pub(super) decided: BTreeSet<(JobId, usize)>,
    /// Keys of files that this pass will write, by the name of the file.
    pub(super) unwritten: BTreeMap<SmolStr, KeySample>,
    /// Unique conflicts of earlier attempts at this pass; the records in them cannot be written.
    pub(super) refused: &'p [RefusedWrite],
    /// Positions in `refused` of the records that this pass would have written.
    pub(super) refused_positions: BTreeSet<usize>,
}

impl<'p> PassState<'p> {
    /// An empty state for a pass over these marks.
    pub(super) fn new(rules: &'p SettleRules, evaluator: &'p Evaluator, marks: &[StaleMark], refused: &'p [RefusedWrite]) -> Self {
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
            has_missing_target: false,
            decided: BTreeSet::new(),
            unwritten: BTreeMap::new(),
            refused,
            refused_positions: BTreeSet::new(),
        }
    }

    /// Collects the failures that the evaluator has noted, for this record. Must be called after evaluating expressions for one record and before
    /// evaluating any for the next.
    pub(super) fn note_failed(&mut self, collection: CollectionId, key: &Key) {
        let failures = self.evaluator.failures();
        if !failures.is_empty() {
            let noted = self.failed.entry((collection, key.clone())).or_default();
            for failure in failures {
                if !noted.contains(&failure) {
                    noted.push(failure);
                }
            }
        }
    }

    /// Writes a record's settled values if they differ, and what follows from the change.
    pub(super) fn settle(&mut self, collection: CollectionId, stored: &StoredRecord, golden: Arc<[Value]>, cause: ChangeCause, jobs: &CausingJobs) {
        if golden[..] == stored.golden[..] {
            return;
        }
        for job in jobs {
            let changed = ValueChange { collection, key: &stored.key, before: Some(&stored.golden), after: Some(&golden), job: *job, cause };
            self.propagation.follow(self.rules, self.evaluator, &changed);
            self.note_failed(collection, &stored.key);
        }
        // a link by key counts as content: unlike other settled values, its change gives the record a new revision
        let links = self.rules.relations[collection].from.iter().map(|link| &self.rules.catalogue.links[*link]);
        let is_keyed =
            links.filter(|link| matches!(link.target_rule, TargetRule::Key(_))).any(|link| golden[link.field] != stored.golden[link.field]);
        let content = Box::new(content_of(stored, golden));
        let change = if is_keyed { RecordChange::Put(content) } else { RecordChange::Settle(content) };
        self.write(RecordWrite { collection, key: stored.key.clone(), expect: Some(stored.version), change }, jobs);
    }

    /// Adds a write that these jobs have caused.
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

/// Why a record of a collection cannot be written.
pub(crate) fn refusal(collection: &Collection, reason: &RefusalReason) -> String {
    match reason {
        RefusalReason::Taken { field, holder } => {
            format!("`{}` must be unique, but record {holder:?} already has this value", collection.fields[*field].name)
        }
        RefusalReason::Erased => ERASED.to_owned(),
    }
}

/// The message for a record that cannot be written.
pub(crate) fn why_refused(catalogue: &Catalogue, refused: &RefusedWrite) -> String {
    let collection = &catalogue.collections[refused.collection];
    format!("{} {}: {}", collection.name, refused.key, refusal(collection, &refused.reason))
}
