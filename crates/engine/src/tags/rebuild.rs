//! Evaluates definitions for all records: a job whose chunks are ranges of keys. A range is read once for all definitions that must be evaluated
//! in it.

use super::collection::collection;
use super::tagger::{FailedEvaluation, TagEvaluator};
use crate::job::sizes::CHUNK_DOCUMENTS;
use crate::{EngineError, Result};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::record::unpack;
use stook_catalogue::value::Value;
use stook_store::journal::{ChunkJournal, DocumentOutcome, Issue, Outcome, OutcomeCounts, pack};
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::queue::{ChunkSlice, ChunkState, Job, JobFile, JobId, JobState, NewChunk, NewJob, SplitProgress};
use stook_store::tag::{CollectionTags, Tag, TagChanges, TagWrites};
use stook_store::{LeaseToken, ReadDetail, ReadSet, RecordRead, RefusedWrite, Store, StoredRecord, Tenant, Unit, WriteConflict};

/// The prefix of the source names of such jobs; no source of a definition can have it.
const PREFIX: &str = "tags of ";

/// The number of records whose trees are read at once: as many as a processor's cache holds.
const TREES: usize = 64;

/// The name of the collection whose tags a job evaluates, by the name of the job's source.
pub fn is_rebuild(source: &str) -> Option<&str> {
    source.strip_prefix(PREFIX)
}

/// A range of keys, and the tags to be evaluated for its records.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct KeyRange {
    /// The range starts after this key.
    after: String,
    /// The range ends with this key; `None` for the end of the collection.
    until: Option<String>,
    tags: Vec<String>,
    /// Whether trees are built again from the kept documents.
    #[serde(default)]
    whole: bool,
}

impl KeyRange {
    fn overlaps(&self, other: &KeyRange) -> bool {
        let ends_before = |one: &KeyRange, other: &KeyRange| one.until.as_ref().is_some_and(|until| *until <= other.after);
        !ends_before(self, other) && !ends_before(other, self)
    }
}

/// What is to be evaluated for all records of a collection.
pub(super) struct Rebuild<'r> {
    pub(super) tenant: &'r Tenant,
    pub(super) index: CollectionId,
    pub(super) collection: &'r Collection,
    /// All tags of the collection.
    pub(super) known: &'r [Tag],
    /// The tags to be evaluated.
    pub(super) stale: &'r [String],
    /// Whether trees are built again from the kept documents.
    pub(super) whole: bool,
}

/// Creates a job that evaluates tags for all records; `put` writes the tags with the job's number. What other such jobs have not finished is
/// continued in this one.
pub(super) fn start(store: &dyn Store, rebuild: &Rebuild<'_>, put: impl FnOnce(JobId) -> Result<()>) -> Result<JobId> {
    let Rebuild { tenant, index, collection, known, stale, whole } = *rebuild;
    let source = format!("{PREFIX}{}", collection.name);
    let file = JobFile { path: source.clone(), size: 0, modified: store.clock(), compressed: true, ..JobFile::default() };
    let job = store.create_job(NewJob { tenant: tenant.clone(), profile: None, source, as_of: None, files: vec![file] })?;
    put(job)?;
    let (unfinished_ranges, unfinished_jobs) = unfinished(store, tenant, known, index)?;
    let mut progress = SplitProgress::default();
    let (mut after, mut batch) = (String::new(), Vec::new());
    loop {
        let keys = store.keys_after(tenant, index, &after, CHUNK_DOCUMENTS as usize)?;
        let is_last = keys.len() < CHUNK_DOCUMENTS as usize;
        let until = keys.last().filter(|_| !is_last).map(|key| key.as_str().to_owned());
        let mut range = KeyRange { after: std::mem::take(&mut after), until: until.clone(), tags: stale.to_vec(), whole };
        range.whole |= unfinished_ranges.iter().any(|own| own.whole && own.overlaps(&range));
        for own in unfinished_ranges.iter().filter(|own| own.overlaps(&range)).flat_map(|own| own.tags.clone()).collect::<Vec<_>>() {
            if !range.tags.contains(&own) {
                range.tags.push(own);
            }
        }
        let head = serde_json::to_vec(&range).map_err(|error| EngineError::Wrong(error.to_string()))?;
        let (documents_before, documents) = (progress.documents, living(store, tenant, index, &range)?);
        let slice = ChunkSlice { file_documents: documents_before, documents_before, documents, is_last, head, ..ChunkSlice::default() };
        let documents = documents_before + u64::from(documents);
        progress = SplitProgress { offset: documents, documents, chunks: progress.chunks + 1, complete: is_last, ..progress };
        batch.push(NewChunk { ordinal: progress.chunks, slice });
        // small batches first, because workers are waiting for them
        if is_last || batch.len() > progress.chunks as usize / 2 {
            store.add_chunks(job, std::mem::take(&mut batch), progress)?;
        }
        match until {
            Some(until) => after = until,
            None => break,
        }
    }
    for other in unfinished_jobs {
        // from now on, the tags of the other job refer to this one
        let mut tags = store.tags(tenant, index)?.tags;
        tags.retain(|tag| tag.job == other);
        tags.iter_mut().for_each(|tag| tag.job = job);
        store.put_tags(tenant, index, tags, false)?;
        store.end_job(other, JobState::Cancelled, &format!("continued in job {job}"))?;
    }
    Ok(job)
}

/// The number of records of a range that exist. Deleted records are evaluated, too, because they may be restored, but not counted.
fn living(store: &dyn Store, tenant: &Tenant, collection: CollectionId, range: &KeyRange) -> Result<u32> {
    let low = Some((Value::text(range.after.as_str()), false));
    let high = range.until.as_ref().map(|until| (Value::text(until.as_str()), true));
    let condition = Condition { column: PlanColumn::Key, test: Comparison::Range { low, high } };
    let count = store.count(&QueryPlan { conditions: vec![condition], ..QueryPlan::all(tenant.clone(), collection) })?;
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Ranges that other jobs of these tags have not finished, and those jobs.
fn unfinished(store: &dyn Store, tenant: &Tenant, known: &[Tag], index: CollectionId) -> Result<(Vec<KeyRange>, Vec<JobId>)> {
    let mut jobs: Vec<JobId> = known.iter().map(|tag| tag.job).filter(|job| *job > 0).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let (mut ranges, mut live) = (Vec::new(), Vec::new());
    let still: Vec<String> = store.tags(tenant, index)?.tags.into_iter().map(|tag| tag.name).collect();
    for job in jobs {
        if store.job_state(job)?.is_final() {
            continue;
        }
        live.push(job);
        for chunk in store.chunks(Some(job))?.iter().filter(|chunk| chunk.state != ChunkState::Dead) {
            let chunk = store.chunk(stook_store::queue::ChunkId { job, ordinal: chunk.ordinal });
            // it was finished in the meantime
            let Ok(chunk) = chunk else { continue };
            if let Ok(mut range) = serde_json::from_slice::<KeyRange>(&chunk.slice.head) {
                range.tags.retain(|tag| still.contains(tag));
                ranges.push(range);
            }
        }
    }
    Ok((ranges, live))
}

/// The progress of a job, and what it has changed.
pub fn progress(job: &Job) -> Json {
    let done = job.counts.documents.max(0) as u64;
    let all = job.progress.documents;
    json!({
        "job": job.id,
        "state": job.state,
        "records": done,
        "of": all,
        "added": job.counts.of(Outcome::Created),
        "removed": job.counts.of(Outcome::Withdrawn),
        "failed": job.counts.of(Outcome::Failed),
    })
}

/// An evaluated range, as a unit of work.
pub struct TagEvaluationUnit {
    tenant: Tenant,
    lease_token: LeaseToken,
    catalogue: Arc<Catalogue>,
    collection: CollectionId,
    tagger: TagEvaluator,
    read_set: ReadSet,
    /// The records of the range that exist.
    living: BTreeSet<Key>,
    first: u64,
    given: TagChanges,
    journal: ChunkJournal,
}

impl TagEvaluationUnit {
    /// Reads and evaluates a range: first the versions of its records, then their documents.
    ///
    /// # Errors
    /// When the range cannot be read, or the store fails.
    pub fn new(catalogue: &Arc<Catalogue>, store: &dyn Store, job: (&Tenant, &str), slice: &ChunkSlice, lease_token: LeaseToken) -> Result<Self> {
        let (tenant, of) = job;
        let (collection, _) = collection(catalogue, of)?;
        let definition = &catalogue.collections[collection];
        let range: KeyRange = serde_json::from_slice(&slice.head).map_err(|_| EngineError::Wrong("the chunk is no range of keys".into()))?;
        let tags = store.tags(tenant, collection)?;
        let mut tagger = TagEvaluator::new(catalogue, &[(collection, tags)], Some(range.tags));
        let (mut read_set, mut living) = (ReadSet::default(), BTreeSet::new());
        let mut after = range.after;
        loop {
            let mut keys = store.keys_after(tenant, collection, &after, CHUNK_DOCUMENTS as usize)?;
            let full = keys.len() == CHUNK_DOCUMENTS as usize;
            let before = keys.len();
            keys.retain(|key| range.until.as_ref().is_none_or(|until| key.as_str() <= until.as_str()));
            let goes_on = full && keys.len() == before;
            if let Some(last) = keys.last() {
                last.as_str().clone_into(&mut after);
            }
            if range.whole {
                for record in store.read(tenant, collection, &keys, ReadDetail::Full)?.into_iter().flatten() {
                    read_set.records.push(RecordRead { collection, key: record.key.clone(), version: Some(record.version) });
                    living.extend(record.exists.then(|| record.key.clone()));
                    add_whole(&mut tagger, definition, collection, &record);
                }
                if goes_on {
                    continue;
                }
                break;
            }
            // versions first, so that a document that is written after this read is noticed
            let heads = store.read(tenant, collection, &keys, ReadDetail::Head)?;
            for (keys, heads) in keys.chunks(TREES).zip(heads.chunks(TREES)) {
                for ((key, head), trees) in keys.iter().zip(heads).zip(store.trees(tenant, collection, keys)?) {
                    let Some(head) = head else { continue };
                    let parts = trees.into_iter().map(|(source, tree)| (source.into(), Bytes::from(tree))).collect();
                    tagger.add(collection, key.clone(), Vec::new(), Some(parts));
                    read_set.records.push(RecordRead { collection, key: key.clone(), version: Some(head.version) });
                    living.extend(head.exists.then(|| key.clone()));
                }
            }
            if !goes_on {
                break;
            }
        }
        let first = slice.documents_before + 1;
        let (tenant, catalogue) = (tenant.clone(), catalogue.clone());
        let (given, journal) = (TagChanges::default(), ChunkJournal::default());
        Ok(Self { tenant, lease_token, catalogue, collection, tagger, read_set, living, first, given, journal })
    }

    /// The number of records in it that exist.
    pub fn records(&self) -> usize {
        self.living.len()
    }
}

/// Adds a record with its kept documents; a damaged one keeps its tags.
fn add_whole(tagger: &mut TagEvaluator, definition: &Collection, collection: CollectionId, record: &StoredRecord) {
    if let Ok(contributions) = unpack(&record.contributions, definition, &record.golden, record.raw.as_deref()) {
        tagger.add_whole(collection, record.key.clone(), Some(&contributions));
    }
}

impl Unit for TagEvaluationUnit {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn refused(&mut self, _refused: RefusedWrite) {}

    fn lease_token(&self) -> Option<LeaseToken> {
        Some(self.lease_token)
    }

    fn read_set(&self) -> Option<&ReadSet> {
        Some(&self.read_set)
    }

    fn read_set_changed(&mut self, records: &[usize], _ranges: &[usize]) -> Vec<(CollectionId, Key)> {
        let key = |record: &usize| (self.collection, self.read_set.records[*record].key.clone());
        records.iter().map(key).collect()
    }

    fn changed_records(&mut self, records: Vec<WriteConflict>) {
        for WriteConflict { key, record, .. } in records {
            self.tagger.forget(self.collection, &key);
            self.living.remove(&key);
            if let Some(record) = record {
                add_whole(&mut self.tagger, &self.catalogue.collections[self.collection], self.collection, &record);
                self.living.extend(record.exists.then_some(key));
            }
        }
    }

    fn tag_revision(&self) -> Option<i64> {
        Some(self.tagger.revision)
    }

    fn retag(&mut self, tags: Vec<(CollectionId, CollectionTags)>) {
        self.tagger.retag(&tags);
    }

    fn tagging(&mut self) -> Vec<TagWrites> {
        self.tagger.tagging()
    }

    fn tags_changed(&mut self, given: TagChanges) {
        self.given = given;
    }

    fn journal(&mut self) -> Option<&ChunkJournal> {
        let mut counts = OutcomeCounts { documents: self.records() as i64, ..OutcomeCounts::default() };
        let (mut outcomes, mut troubles) = (Vec::new(), Vec::new());
        // the existing records of the range count as the documents of the job
        let positions: HashMap<&Key, u64> = self.living.iter().zip(0..).collect();
        for (outcome, keys) in [(Outcome::Created, &self.given.added), (Outcome::Withdrawn, &self.given.removed)] {
            let outcome_of = |key: &Key| {
                let document = self.first + positions.get(key)?;
                Some(DocumentOutcome { document, offset: 0, collection: Some(self.collection), outcome, key: key.shared(), reason: None })
            };
            let before = outcomes.len();
            outcomes.extend(keys.iter().filter_map(outcome_of));
            counts.add(outcome, (outcomes.len() - before) as i64);
        }
        for FailedEvaluation { collection, key, reason } in self.tagger.failures() {
            let Some(position) = positions.get(key).copied() else { continue };
            counts.add(Outcome::Failed, 1);
            let (document, record, offset) = (self.first + position, position + 1, 0);
            outcomes.push(DocumentOutcome {
                document,
                offset,
                collection: Some(collection),
                outcome: Outcome::Failed,
                key: key.shared(),
                reason: None,
            });
            troubles.push(Issue { document, file: 0, record, offset, key: Some(key.to_string()), failed: true, reason });
        }
        outcomes.sort_by_key(|outcome| outcome.document);
        troubles.sort_by_key(|trouble| trouble.document);
        self.journal = ChunkJournal { counts, first: self.first, packed_outcomes: pack(&outcomes), troubles, ..ChunkJournal::default() };
        Some(&self.journal)
    }
}
