//! Retires contributions that a newer file does not repeat, and restores those that no file retires any more.

use super::ledger::DeliveryLedger;
use super::names::{ContributionName, EdgeAge, all_times, job_note, job_note_key, retirement_place};
use crate::content::history::golden_change;
use crate::job::ImportPolicy;
use crate::merge::RecordMerger;
use crate::relations::marks::{FOUND, SearchBounds};
use crate::relations::stored::number;
use crate::relations::{ChangeCause, ValueChange};
use crate::settle::pass_state::{CausingJobs, MOST_CHILDREN, PassState};
use crate::settle::stop::go_on;
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
        WaitingMark { order: FOUND, rule: *link, target: target.clone(), part }
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
        heard: RetirementChange,
    ) -> Result<()> {
        let retired = heard == RetirementChange::Restore;
        let link = retirement_place(replaces, "", retired).0;
        let (edges, jobs) = self.paged(context, link, (FOUND, link), marks, &|bounds| (bounds.low, bounds.high))?;
        let scope_of = |target: &SmolStr| if retired { target.get(1..).unwrap_or_default().to_owned() } else { target.to_string() };
        let ranges: Vec<_> = jobs.keys().map(|target| all_times(&scope_of(target))).collect();
        let ledger = DeliveryLedger::new(context.edges_starting_between(replaces.ledger(), &ranges, None)?)?;
        let mut found: BTreeMap<(CollectionId, Key), Vec<ScopedContribution>> = BTreeMap::new();
        for edge in edges {
            let (age, scope) = (EdgeAge::of(&edge)?, scope_of(&edge.target));
            if ledger.is_dead(&scope, edge.start, age.as_of) == retired {
                continue;
            }
            let name = ContributionName::of(&edge)?;
            match name.record(&self.rules.catalogue) {
                Some(place) => found.entry(place).or_default().push(ScopedContribution { contributor: name.contributor, age, scope, edge }),
                // the definition no longer has the collection
                None => self.propagation.edge(EdgeChange::Delete(edge)),
            }
        }
        debug_assert!(found.len() <= MOST_CHILDREN);
        let mut counted: BTreeMap<(JobId, String, RetirementResult), u64> = BTreeMap::new();
        let collections: BTreeSet<CollectionId> = found.keys().map(|(collection, _)| *collection).collect();
        for collection in collections {
            let keys: Vec<Key> = found.keys().filter(|place| place.0 == collection).map(|(_, key)| key.clone()).collect();
            let held = context.hold(collection, &keys)?;
            for (key, stored) in keys.into_iter().zip(held) {
                go_on()?;
                let own = found.remove(&(collection, key)).unwrap_or_default();
                let caused: CausingJobs = own.iter().filter_map(|own| jobs.get(&own.edge.target)).flatten().copied().collect();
                let scope = own.first().map(|own| own.scope.clone()).unwrap_or_default();
                if let Some(restated) = self.restate_one(replaces, (collection, stored), own, heard, &caused)? {
                    caused.into_iter().for_each(|job| *counted.entry((job, scope.clone(), restated)).or_default() += 1);
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
        let known = if targets.is_empty() { Vec::new() } else { context.edges(replaces.history(), &targets, None)? };
        for ((job, scope, restated), count) in counted {
            let child: SmolStr = format!("{}{scope}", restated.kind()).into();
            let before = known.iter().find(|edge| edge.target == job_note_key(job) && edge.child == child).map_or(Ok(0), number)?;
            let payload = (before + count as i64).to_le_bytes().into();
            self.propagation.edge(EdgeChange::Put(job_note(replaces, job, child, payload)));
        }
        Ok(())
    }

    /// Retires or restores contributions of one record; returns what became of it, or `None` if nothing changes.
    fn restate_one(
        &mut self,
        replaces: &CompleteDelivery,
        (collection, stored): (CollectionId, Option<StoredRecord>),
        own: Vec<ScopedContribution>,
        heard: RetirementChange,
        jobs: &CausingJobs,
    ) -> Result<Option<RetirementResult>> {
        let definition = &self.rules.catalogue.collections[collection];
        let contributions = match &stored {
            Some(record) => record.contributions_of(definition)?,
            None => Vec::new(),
        };
        let mut moved = Vec::new();
        for own in &own {
            let said = contributions.iter().find(|said| *said.contributor == *own.contributor);
            // the edge of a newer contribution was written together with that
            if said.is_none_or(|said| !own.age.is_before(said)) {
                moved.push(EdgeChange::Delete(own.edge.clone()));
            }
            if said.is_some_and(|said| own.age.is_of(said)) {
                let (link, target) = retirement_place(replaces, &own.scope, heard == RetirementChange::Retire);
                moved.push(EdgeChange::Put(Edge { link, target, ..own.edge.clone() }));
            }
        }
        let change = match &stored {
            Some(record) => {
                let policy = ImportPolicy { job: first_of(jobs), matched: OnMatched::Update, unmatched: OnUnmatched::Skip };
                let consolidator = Consolidator::new(&self.rules.catalogue, definition, self.evaluator);
                let merger = RecordMerger::new(self.rules, collection, &consolidator, self.evaluator, policy);
                let is_meant = |said: &Contribution| own.iter().any(|own| *own.contributor == *said.contributor && own.age.is_of(said));
                let retired = if heard == RetirementChange::Restore { Retirement::Live } else { Retirement::ByLaterDelivery };
                merger.retire_or_restore(record, contributions, is_meant, retired)
            }
            None => None,
        };
        if let (Some(record), Some(RecordChange::Put(content))) = (&stored, &change) {
            let again: Vec<WaitingMark> = own.iter().map(ScopedContribution::mark).collect();
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
            let changed = ValueChange { collection, key: &record.key, before, after, job: *job, by: ChangeCause::External };
            self.propagation.follow(self.rules, self.evaluator, &changed);
        }
        self.note_failed(collection, &record.key);
        if let Some(change) = golden_change(definition, Some(&record), &change) {
            let caller = format!("job {}", first_of(jobs));
            self.log.push(NewChangeLogEntry { collection, key: record.key.clone(), transition: None, caller, change });
        }
        self.write(RecordWrite { collection, key: record.key, expect: Some(record.version), change }, jobs);
        Ok(Some(if heard == RetirementChange::Restore { RetirementResult::Restored } else { RetirementResult::Retired }))
    }
}
