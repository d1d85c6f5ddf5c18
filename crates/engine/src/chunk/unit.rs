//! A chunk while it is processed: its documents, the merged records, its read set and its journal.

use super::changes::{ChangeSummary, RecordDifference};
use super::mapped::{ChunkInput, MappedDocuments, map_documents};
use crate::Result;
use crate::job::JobContext;
use crate::merge::{MergeResult, RecordMerger};
use crate::settle::complete_delivery::{self, FileShare};
use crate::tags::TagEvaluator;
use std::collections::{BTreeMap, HashMap};
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::survivorship::Consolidator;
use stook_store::journal::{ChunkJournal, OutcomeCounts};
use stook_store::{LeaseToken, ReadSet, RecordWrite, Store, StoredRecord};

/// A chunk that has been read and mapped, and then consolidated with the records stored at that time.
pub struct ChunkUnit {
    pub(super) context: JobContext,
    pub(super) evaluator: Evaluator,
    pub(super) lease_token: Option<LeaseToken>,
    pub(super) file: usize,
    /// Its documents, with what they contribute.
    pub(super) mapped: MappedDocuments,
    pub(super) decisions: BTreeMap<(CollectionId, Key), MergeResult>,
    pub(super) writes: Vec<RecordWrite>,
    /// Records that were settled inline, by the targets that they read.
    pub(super) settled_by_target: HashMap<(CollectionId, Key), Vec<(CollectionId, Key)>>,
    /// For each range of the read set, the records whose targets were looked for in it.
    pub(super) search_ranges: Vec<Vec<(CollectionId, Key)>>,
    pub(super) read_set: ReadSet,
    /// Changes of tags, if any collection of the chunk has tags.
    pub(super) tagger: Option<TagEvaluator>,
    /// Built before the chunk is submitted, and again if something changes after that.
    pub(super) journal: Option<ChunkJournal>,
    /// The name of the caller in change logs.
    pub(super) caller: String,
}

impl ChunkUnit {
    /// Reads and maps a chunk. For a source with complete deliveries, also reads their ledger from the store.
    ///
    /// # Errors
    /// When the chunk as a whole cannot be read, or the store fails.
    pub fn map(context: &JobContext, store: &dyn Store, input: &ChunkInput<'_>, lease_token: Option<LeaseToken>) -> Result<Self> {
        let evaluator = Evaluator::new(context.rules.catalogue.tables.clone());
        let mapped = map_documents(context, store, input, &evaluator)?;
        Ok(Self {
            context: context.clone(),
            evaluator,
            lease_token,
            file: input.slice.file,
            mapped,
            decisions: BTreeMap::new(),
            writes: Vec::new(),
            settled_by_target: HashMap::new(),
            search_ranges: Vec::new(),
            read_set: ReadSet::default(),
            tagger: None,
            journal: None,
            caller: format!("job {}", context.policy.job),
        })
    }

    /// Merges the contributions to records of one collection.
    pub(super) fn decide(&mut self, collection: CollectionId, stored: impl Iterator<Item = (Key, Option<StoredRecord>)>) {
        let definition = &self.context.rules.catalogue.collections[collection];
        let consolidator = Consolidator::new(&self.context.rules.catalogue, definition, &self.evaluator);
        let merger = RecordMerger::new(&self.context.rules, collection, &consolidator, &self.evaluator, self.context.policy);
        for (key, record) in stored {
            let record_id = (collection, key);
            let Some(contributions) = self.mapped.records.get(&record_id) else { continue };
            let mut decision = merger.decide(record.as_ref(), contributions);
            decision.failures = self.evaluator.failures();
            decision.difference = decision.write.as_ref().and_then(|(_, change)| RecordDifference::of(record.as_ref(), change));
            // the former values of a repaired record are unknown, and so are its edges: it writes all of them again
            if decision.write.is_some() && decision.repaired.is_none() && self.context.rules.has_consequences(collection) {
                decision.before = record.filter(|record| record.exists).map(|record| record.golden);
            }
            self.decisions.insert(record_id, decision);
        }
    }

    /// Sets the name of the caller in change logs, which is otherwise the job.
    pub fn set_caller(&mut self, caller: &str) {
        caller.clone_into(&mut self.caller);
    }

    /// How much of its file the chunk is, without the number of failures, and the names of its contributions, if the source says `replaces:`; for a
    /// dry run.
    pub fn share(&self) -> Option<(&FileShare, impl Iterator<Item = String>)> {
        let catalogue = &self.context.rules.catalogue;
        let contributions =
            self.mapped.records.iter().flat_map(|((collection, key), all)| all.iter().map(move |own| (*collection, key, &own.contribution)));
        let named = contributions
            .filter(|(_, _, own)| own.scope.is_some())
            .map(|(collection, key, own)| complete_delivery::contribution_name(&catalogue.collections[collection].name, &own.contributor, key));
        Some((self.mapped.share.as_ref()?, named))
    }

    /// The merged records; for a dry run.
    pub fn merged(&self) -> impl Iterator<Item = (&(CollectionId, Key), &MergeResult)> {
        self.decisions.iter()
    }

    /// The number of documents by outcome.
    pub fn counts(&self) -> OutcomeCounts {
        self.journal.as_ref().map(|journal| journal.counts).unwrap_or_default()
    }

    /// What it changes, and its issues.
    pub fn changes(&self) -> ChangeSummary {
        let mut summary = ChangeSummary::default();
        for ((collection, _), decision) in &self.decisions {
            decision.difference.iter().for_each(|difference| summary.note(*collection, difference));
        }
        self.journal.iter().flat_map(|journal| &journal.troubles).for_each(|issue| summary.note_issue(issue));
        summary
    }

    /// Whether its records have no tags, pass nothing to other records and depend on none.
    pub fn is_independent(&self) -> bool {
        let rules = &self.context.rules;
        self.mapped
            .records
            .keys()
            .all(|(collection, _)| !rules.has_consequences(*collection) && rules.catalogue.collections[*collection].tags.is_none())
    }

    /// The number of records that it contributes to.
    pub fn records(&self) -> usize {
        self.mapped.records.len()
    }

    /// The number of documents read.
    pub fn documents(&self) -> usize {
        self.mapped.entries.len()
    }

    pub(super) fn take_writes(&mut self, wanted: impl Fn(&(CollectionId, Key)) -> bool) -> Vec<RecordWrite> {
        let mut writes = Vec::with_capacity(self.decisions.len());
        for (record_id, decision) in &mut self.decisions {
            if !wanted(record_id) {
                continue;
            }
            let (collection, key) = record_id;
            if let Some((expect, change)) = decision.write.take() {
                writes.push(RecordWrite { collection: *collection, key: key.clone(), expect, change });
            }
        }
        writes
    }
}
