//! Retires contributions that a newer file does not repeat, and restores those that no file retires any more.

use super::ledger::DeliveryLedger;
use super::names::{ContributionName, EdgeAge, all_times, contribution_edge_target, job_note, job_note_key};
use crate::content::history::golden_change;
use crate::job::ImportPolicy;
use crate::merge::RecordMerger;
use crate::relations::marks::{FOUND, SearchBounds};
use crate::relations::stored::number;
use crate::relations::{ChangeCause, ValueChange};
use crate::settle::pass_state::{CausingJobs, MAX_CHILDREN, PassState};
use crate::settle::stop::check_cancelled;
use crate::settle::waiting::WaitingMark;
use std::collections::{BTreeMap, BTreeSet};
use stook_catalogue::definition::CompleteDelivery;
use stook_catalogue::definition::{OnMatched, OnUnmatched};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::record::{Contribution, Retirement};
use stook_catalogue::survivorship::Consolidator;
use stook_catalogue::value::SmolStr;
use stook_store::queue::JobId;
use stook_store::{Edge, EdgeChange, NewChangeLogEntry, PassContext, RecordChange, RecordWrite, Result, StaleMark, StoredRecord};

/// How contributions change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetirementChange {
    /// A file that counts replaces them.
    Retire,
    /// No file that counts replaces them any more.
    Restore,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RetirementResult {
    /// Contributions of older files no longer count.
    Retired,
    /// They count again.
    Restored,
    /// It was not changed, because another record has a unique value that it would get.
    UniqueConflict,
}

impl RetirementResult {
    /// The first letter of the edges that count such records for a job.
    fn kind(self) -> char {
        match self {
            Self::Retired => 'r',
            Self::Restored => 'v',
            Self::UniqueConflict => 'u',
        }
    }
}

/// A contribution in a scope.
struct ScopedContribution {
    contributor: String,
    age: EdgeAge,
    scope: String,
    edge: Edge,
}

impl ScopedContribution {
    /// The mark to check again whether it counts.
    fn mark(&self) -> WaitingMark {
        let Edge { link, target, start, .. } = &self.edge;
        let part = SearchBounds { low: *start, high: *start, cursor: None }.text().into();
        WaitingMark { pass_order: FOUND, rule: *link, target: target.clone(), part }
    }
}

/// The job that is named if several jobs caused something.
fn first_of(jobs: &CausingJobs) -> JobId {
    jobs.first().copied().unwrap_or_default()
}

impl PassState<'_> {
    /// Retires the contributions of scopes that the ledger covers, or restores those that it no longer covers.
    pub(super) fn retire_or_restore(
        &mut self,
        context: &mut dyn PassContext,
        replaces: &CompleteDelivery,
        marks: &[StaleMark],
        change_kind: RetirementChange,
    ) -> Result<()> {
        let is_restoring = change_kind == RetirementChange::Restore;
        let link = contribution_edge_target(replaces, "", is_restoring).0;
        let (edges, jobs) = self.paged(context, link, (FOUND, link), marks, &|bounds| (bounds.low, bounds.high))?;
        let scope_of = |target: &SmolStr| if is_restoring { target.get(1..).unwrap_or_default().to_owned() } else { target.to_string() };
        let ranges: Vec<_> = jobs.keys().map(|target| all_times(&scope_of(target))).collect();
        let ledger = DeliveryLedger::new(context.edges_starting_between(replaces.ledger_link(), &ranges, None)?)?;
        let mut found: BTreeMap<(CollectionId, Key), Vec<ScopedContribution>> = BTreeMap::new();
        for edge in edges {
            let (age, scope) = (EdgeAge::from_edge(&edge)?, scope_of(&edge.target));
            if ledger.is_replaced(&scope, edge.start, age.delivery_age()) == is_restoring {
                continue;
            }
            let name = ContributionName::from_edge(&edge)?;
            match name.record(&self.rules.catalogue) {
                Some(record_id) => found.entry(record_id).or_default().push(ScopedContribution { contributor: name.contributor, age, scope, edge }),
                // the definition no longer has the collection
                None => self.propagation.edge(EdgeChange::Delete(edge)),
            }
        }
        debug_assert!(found.len() <= MAX_CHILDREN);
        let mut counted: BTreeMap<(JobId, String, RetirementResult), u64> = BTreeMap::new();
        let collections: BTreeSet<CollectionId> = found.keys().map(|(collection, _)| *collection).collect();
        for collection in collections {
            let keys: Vec<Key> = found.keys().filter(|record_id| record_id.0 == collection).map(|(_, key)| key.clone()).collect();
            let locked = context.read_for_update(collection, &keys)?;
            for (key, stored) in keys.into_iter().zip(locked) {
                check_cancelled()?;
                let scoped = found.remove(&(collection, key)).unwrap_or_default();
                let causing_jobs: CausingJobs = scoped.iter().filter_map(|scoped| jobs.get(&scoped.edge.target)).flatten().copied().collect();
                // documents are many: what they retire is counted together
                let named = scoped.first().filter(|_| replaces.files.is_some());
                let scope = named.map(|scoped| scoped.scope.clone()).unwrap_or_default();
                if let Some(result) = self.retire_or_restore_one(replaces, (collection, stored), scoped, change_kind, &causing_jobs)? {
                    causing_jobs.into_iter().for_each(|job| *counted.entry((job, scope.clone(), result)).or_default() += 1);
                }
            }
        }
        self.count(context, replaces, counted)
    }

    /// Adds to the counts of jobs how many records they have changed in a scope, or could not change.
    fn count(
        &mut self,
        context: &mut dyn PassContext,
        replaces: &CompleteDelivery,
        counted: BTreeMap<(JobId, String, RetirementResult), u64>,
    ) -> Result<()> {
        let jobs: BTreeSet<JobId> = counted.keys().map(|(job, ..)| *job).collect();
        let targets: Vec<(String, Option<String>)> = jobs.into_iter().map(|job| (job_note_key(job).into(), None)).collect();
        let former_counts = if targets.is_empty() { Vec::new() } else { context.edges(replaces.history_link(), &targets, None)? };
        for ((job, scope, result), count) in counted {
            let child: SmolStr = format!("{}{scope}", result.kind()).into();
            let before = former_counts.iter().find(|edge| edge.target == job_note_key(job) && edge.child == child).map_or(Ok(0), number)?;
            let payload = (before + count as i64).to_le_bytes().into();
            self.propagation.edge(EdgeChange::Put(job_note(replaces, job, child, payload)));
        }
        Ok(())
    }

    /// Retires or restores contributions of one record; returns what became of it, or `None` if nothing changes.
    fn retire_or_restore_one(
        &mut self,
        replaces: &CompleteDelivery,
        (collection, stored): (CollectionId, Option<StoredRecord>),
        scoped: Vec<ScopedContribution>,
        change_kind: RetirementChange,
        jobs: &CausingJobs,
    ) -> Result<Option<RetirementResult>> {
        let definition = &self.rules.catalogue.collections[collection];
        let contributions = match &stored {
            Some(record) => record.contributions_of(definition)?,
            None => Vec::new(),
        };
        let mut moved = Vec::new();
        for scoped in &scoped {
            let contribution = contributions.iter().find(|contribution| *contribution.contributor == *scoped.contributor);
            // the edge of a newer contribution was written together with that
            if contribution.is_none_or(|contribution| !scoped.age.is_before(contribution)) {
                moved.push(EdgeChange::Delete(scoped.edge.clone()));
            }
            if contribution.is_some_and(|contribution| scoped.age.is_of(contribution)) {
                let (link, target) = contribution_edge_target(replaces, &scoped.scope, change_kind == RetirementChange::Retire);
                moved.push(EdgeChange::Put(Edge { link, target, ..scoped.edge.clone() }));
            }
        }
        let change = match &stored {
            Some(record) => {
                let policy = ImportPolicy { job: first_of(jobs), matched: OnMatched::Update, unmatched: OnUnmatched::Skip };
                let consolidator = Consolidator::new(&self.rules.catalogue, definition, self.evaluator);
                let merger = RecordMerger::new(self.rules, collection, &consolidator, self.evaluator, policy);
                let is_selected = |contribution: &Contribution| {
                    scoped.iter().any(|scoped| *scoped.contributor == *contribution.contributor && scoped.age.is_of(contribution))
                };
                let new_retirement = if change_kind == RetirementChange::Restore { Retirement::None } else { Retirement::ByLaterDelivery };
                merger.retire_or_restore(record, contributions, is_selected, new_retirement)
            }
            None => None,
        };
        if let (Some(record), Some(RecordChange::Put(content))) = (&stored, &change) {
            let again: Vec<WaitingMark> = scoped.iter().map(ScopedContribution::mark).collect();
            if self.must_wait((collection, &record.key), content, &again, jobs) {
                return Ok(Some(RetirementResult::UniqueConflict));
            }
        }
        moved.into_iter().for_each(|change| self.propagation.edge(change));
        let (Some(record), Some(change)) = (stored, change) else { return Ok(None) };
        let RecordChange::Put(content) = &change else { return Ok(None) };
        let before = record.exists.then_some(&record.golden[..]);
        let after = content.exists.then_some(&content.golden[..]);
        for job in jobs {
            let changed = ValueChange { collection, key: &record.key, before, after, job: *job, cause: ChangeCause::External };
            self.propagation.follow(self.rules, self.evaluator, &changed);
        }
        self.note_failed(collection, &record.key);
        if let Some(change) = golden_change(definition, Some(&record), &change) {
            let caller = format!("job {}", first_of(jobs));
            self.log.push(NewChangeLogEntry { collection, key: record.key.clone(), transition: None, caller, change });
        }
        self.write(RecordWrite { collection, key: record.key, expect: Some(record.version), change }, jobs);
        Ok(Some(if change_kind == RetirementChange::Restore { RetirementResult::Restored } else { RetirementResult::Retired }))
    }
}
