//! A chunk of a job that undoes another one: a range of the documents of that one's journal.

use crate::change::removal::RemovalResults;
use crate::job::sizes::CHUNK_DOCUMENTS;
use crate::settle;
use crate::{EngineError, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_store::Store;
use stook_store::journal::{ChunkJournal, DocumentOutcome, Issue, Outcome, OutcomeCounts, pack};
use stook_store::queue::{ChunkSlice, JobId, NewChunk, SplitProgress};

/// The number of entries of a journal that are read at once.
const ENTRIES: usize = 4 * CHUNK_DOCUMENTS as usize;

/// What a chunk carries: the documents after one number, up to another.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct DocumentRange {
    after: u64,
    until: u64,
}

/// The chunks that cover this number of documents, and the progress when they are added.
pub(super) fn chunks(documents: u64) -> Result<(Vec<NewChunk>, SplitProgress)> {
    let size = u64::from(CHUNK_DOCUMENTS);
    let mut chunks = Vec::new();
    for after in (0..documents.max(1)).step_by(CHUNK_DOCUMENTS as usize) {
        let range = DocumentRange { after, until: (after + size).min(documents) };
        let head = serde_json::to_vec(&range).map_err(|error| EngineError::Wrong(error.to_string()))?;
        let count = (range.until - after) as u32;
        let slice = ChunkSlice {
            offset: after,
            file_documents: after,
            documents_before: after,
            documents: count,
            is_last: range.until == documents,
            head,
            ..ChunkSlice::default()
        };
        chunks.push(NewChunk { ordinal: chunks.len() as u32 + 1, slice });
    }
    let progress = SplitProgress { offset: documents, documents, chunks: chunks.len() as u32, complete: true, ..SplitProgress::default() };
    Ok((chunks, progress))
}

/// The records to which a range of an undone job's documents has contributed.
pub(crate) struct UndoneRange {
    range: DocumentRange,
    /// The first document of each record.
    documents: BTreeMap<(CollectionId, Key), u64>,
}

impl UndoneRange {
    /// Reads the part of the journal of job `undone` that a chunk is.
    ///
    /// # Errors
    /// When the chunk is no range of documents, or the store fails.
    pub(super) fn read(catalogue: &Catalogue, store: &dyn Store, undone: JobId, slice: &ChunkSlice) -> Result<Self> {
        let range: DocumentRange =
            serde_json::from_slice(&slice.head).map_err(|_| EngineError::Wrong("the chunk is no range of documents".into()))?;
        let (mut documents, mut after) = (BTreeMap::new(), range.after);
        while after < range.until {
            let entries = store.journal(undone, after, ENTRIES, false)?;
            let Some(last) = entries.last() else { break };
            after = last.document;
            for entry in entries.iter().filter(|entry| entry.document <= range.until) {
                if matches!(entry.outcome, Outcome::Failed | Outcome::Skipped | Outcome::Withdrawn) {
                    continue;
                }
                let collection = entry.collection.as_deref().and_then(|name| catalogue.collection(name));
                if let (Some((collection, _)), Some(Ok(key))) = (collection, entry.key.as_deref().map(Key::new)) {
                    documents.entry((collection, key)).or_insert(entry.document);
                }
            }
        }
        Ok(Self { range, documents })
    }

    /// The keys of the records, by collection.
    pub(super) fn keys(&self) -> BTreeMap<CollectionId, Vec<Key>> {
        let mut keys: BTreeMap<CollectionId, Vec<Key>> = BTreeMap::new();
        self.documents.keys().for_each(|(collection, key)| keys.entry(*collection).or_default().push(key.clone()));
        keys
    }

    /// The number of its documents.
    pub(super) fn len(&self) -> u64 {
        self.range.until - self.range.after
    }

    /// The journal of the chunk: what became of each record, at the number of the document that had contributed to it first.
    pub(crate) fn journal(&self, catalogue: &Catalogue, results: &RemovalResults) -> ChunkJournal {
        let mut counts = OutcomeCounts { documents: self.len() as i64, ..OutcomeCounts::default() };
        let (mut outcomes, mut troubles) = (Vec::new(), Vec::new());
        let mut note = |(collection, key): &(CollectionId, Key), outcome: Outcome| {
            let document = self.documents.get(&(*collection, key.clone())).copied().unwrap_or(self.range.after + 1);
            counts.add(outcome, 1);
            outcomes.push(DocumentOutcome { document, offset: 0, collection: Some(*collection), outcome, key: key.shared(), reason: None });
            document
        };
        for (id, removed) in &results.records {
            note(id, removed.outcome);
        }
        let refused = results.unique_conflicts.iter().map(|refused| {
            let reason = settle::why_refused(catalogue, refused);
            ((refused.collection, refused.key.clone()), format!("{reason}; nothing of it was undone, which can be repeated later"))
        });
        let incomplete = results.incomplete.iter().map(|(id, reason)| (id.clone(), reason.clone()));
        for (id, reason) in refused.chain(incomplete) {
            let document = note(&id, Outcome::Failed);
            troubles.push(Issue { document, file: 0, record: document, offset: 0, key: Some(id.1.to_string()), failed: true, reason });
        }
        // expressions that fail without the job are warnings
        for (id, removed) in &results.records {
            let document = self.documents.get(id).copied().unwrap_or_default();
            counts.warnings += removed.failures.len() as i64;
            troubles.extend(removed.failures.iter().map(|failure| Issue {
                document,
                file: 0,
                record: document,
                offset: 0,
                key: Some(id.1.to_string()),
                failed: false,
                reason: failure.clone(),
            }));
        }
        outcomes.sort_by_key(|outcome| outcome.document);
        troubles.sort_by_key(|trouble| trouble.document);
        ChunkJournal { counts, first: self.range.after + 1, packed_outcomes: pack(&outcomes), troubles, ..ChunkJournal::default() }
    }
}
