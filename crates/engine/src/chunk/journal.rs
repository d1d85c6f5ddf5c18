//! The journal of a chunk: the outcome of each document, and its issues.

use super::mapped::UnmappedDocument;
use super::unit::ChunkUnit;
use crate::merge::{ChangedOutcome, MergeResult, NumberedContribution};
use crate::relations::left_out::left_out;
use crate::tags::{FailedEvaluation, TagEvaluator};
use stook_catalogue::key::Key;
use stook_store::journal::{ChunkJournal, DocumentOutcome, Issue, Outcome, OutcomeCorrection, OutcomeCounts, pack};

/// The maximum number of bytes of a document that is kept when it fails.
pub const MAX_KEPT_BYTES: usize = 256 << 10;
/// The maximum number of bytes of all failed documents of a chunk that are kept.
pub const MAX_KEPT_BYTES_OF_CHUNK: usize = 1 << 20;

impl ChunkUnit {
    /// The documents that failed, by number, as far as they are kept: completely or not at all.
    fn failed_documents(&self, outcomes: &[DocumentOutcome]) -> Vec<(u64, Vec<u8>)> {
        let mut kept: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut kept_bytes = 0;
        let mut failed: Vec<u64> = outcomes.iter().filter(|outcome| outcome.outcome == Outcome::Failed).map(|outcome| outcome.document).collect();
        // one may have failed in several collections
        failed.dedup();
        let mut entries = self.mapped.entries.iter();
        for document in failed {
            // both are in the order of the documents
            let Some(entry) = entries.find(|entry| entry.document == document) else { continue };
            let length = self.mapped.prefix.len() + entry.bytes.len();
            if !entry.bytes.is_empty() && length <= MAX_KEPT_BYTES && kept_bytes + length <= MAX_KEPT_BYTES_OF_CHUNK {
                kept_bytes += length;
                kept.push((entry.document, [&self.mapped.prefix[..], &entry.bytes].concat()));
            }
        }
        kept
    }

    /// The journal; built if it is not up to date.
    pub(super) fn current_journal(&mut self) -> Option<&ChunkJournal> {
        if self.journal.is_none() {
            self.journal = Some(self.build_journal());
        }
        self.journal.as_ref()
    }

    /// Collects outcomes and issues from the decisions.
    pub(super) fn build_journal(&self) -> ChunkJournal {
        let mut counts = OutcomeCounts { documents: self.mapped.entries.len() as i64, ..OutcomeCounts::default() };
        let mut document_outcomes: Vec<DocumentOutcome> = Vec::with_capacity(self.mapped.entries.len());
        let mut troubles = self.mapped.troubles.clone();
        let mut corrections = Vec::new();
        let location = |document: u64| {
            let position = self.mapped.entries.partition_point(|entry| entry.document < document);
            self.mapped.entries.get(position).map_or((0, 0), |entry| (entry.record, entry.offset))
        };
        // both are in the same order
        let mut records = self.mapped.records.iter().peekable();
        for (decided @ (collection, key), decision) in &self.decisions {
            while records.next_if(|(record, _)| *record < decided).is_some() {}
            let Some((_, contributions)) = records.next_if(|(record, _)| *record == decided) else { continue };
            let outcomes = contributions.iter().zip(&decision.outcomes).enumerate();
            for (position, (numbered, (outcome, reason))) in outcomes.filter(|(_, (numbered, _))| !numbered.contribution.embedded) {
                let (record, offset) = location(numbered.document);
                let outcome = &with_embedded(numbered, *outcome, contributions, decision);
                counts.add(*outcome, 1);
                document_outcomes.push(DocumentOutcome {
                    document: numbered.document,
                    offset,
                    collection: Some(*collection),
                    outcome: *outcome,
                    key: if decision.is_erased { "".into() } else { key.shared() },
                    reason: decision.instead.get(&position).filter(|_| matches!(outcome, Outcome::Superseded | Outcome::Deleted)).map(Into::into),
                });
                if let Some(reason) = reason {
                    let key = (!decision.is_erased).then(|| key.to_string());
                    let (document, file, reason) = (numbered.document, self.file, reason.clone());
                    let failed = *outcome == Outcome::Failed;
                    troubles.push(Issue { document, file, record, offset, key, failed, reason });
                }
            }
            // these warnings follow from all contributions together; they are journalled with the record's last document in the chunk
            if let Some(document) = contributions.last().map(|numbered| numbered.document).filter(|_| !decision.is_erased) {
                let values = decision.after.as_deref().unwrap_or_default();
                let left_out = if values.is_empty() { Vec::new() } else { left_out(&self.context.rules.catalogue, *collection, values) };
                let reasons = left_out.into_iter().chain(decision.repaired.clone()).chain(decision.failures.iter().cloned());
                let ((record, offset), key) = (location(document), Some(key.to_string()));
                let trouble = |reason| Issue { document, file: self.file, record, offset, key: key.clone(), failed: false, reason };
                troubles.extend(reasons.map(trouble));
            }
            for ChangedOutcome { document, from, to, reason } in &decision.corrections {
                counts.add(*from, -1);
                counts.add(*to, 1);
                corrections.push(OutcomeCorrection { document: *document, collection: *collection, outcome: *to, reason: reason.clone() });
            }
        }
        for FailedEvaluation { collection, key, reason } in self.tagger.iter().flat_map(TagEvaluator::failures) {
            let numbered = self.mapped.records.get(&(collection, key.clone())).and_then(|contributions| contributions.last());
            let Some(document) = numbered.map(|numbered| numbered.document) else { continue };
            let (record, offset) = location(document);
            troubles.push(Issue { document, file: self.file, record, offset, key: Some(key.to_string()), failed: false, reason });
        }
        let only = match self.context.rules.catalogue.sources[self.context.source].feeds.as_slice() {
            [feed] => Some(feed.collection),
            _ => None,
        };
        for UnmappedDocument { document, outcome, key, reason } in &self.mapped.without_record {
            counts.add(*outcome, 1);
            let (_, offset) = location(*document);
            document_outcomes.push(DocumentOutcome {
                document: *document,
                offset,
                collection: only,
                outcome: *outcome,
                key: key.as_ref().map(Key::shared).unwrap_or_default(),
                reason: reason.as_deref().map(Into::into),
            });
        }
        document_outcomes.sort_by_key(|outcome| (outcome.document, outcome.collection));
        troubles.sort_by_key(|trouble| trouble.document);
        counts.warnings = troubles.iter().filter(|trouble| !trouble.failed).count() as i64;
        let first = self.mapped.entries.first().map_or(0, |entry| entry.document);
        let failed_documents = self.failed_documents(&document_outcomes);
        ChunkJournal {
            file: self.file,
            file_start: self.mapped.file_start,
            counts,
            first,
            packed_outcomes: pack(&document_outcomes),
            troubles,
            failed_documents,
            corrections,
        }
    }
}

/// The outcome of a document: if it changes nothing itself, but documents embedded in it do, it is an update.
fn with_embedded(numbered: &NumberedContribution, outcome: Outcome, contributions: &[NumberedContribution], decision: &MergeResult) -> Outcome {
    let embedded =
        contributions.iter().zip(&decision.outcomes).filter(|(other, _)| other.contribution.embedded && other.document == numbered.document);
    let changes = |(_, (outcome, _)): (&NumberedContribution, &(Outcome, Option<String>))| {
        matches!(outcome, Outcome::Created | Outcome::Updated | Outcome::Deleted)
    };
    if outcome == Outcome::Unchanged && embedded.into_iter().any(changes) { Outcome::Updated } else { outcome }
}
