//! What both stores share for jobs and journals: names, counts, pages of a listing.

use crate::damage::Damage;
use crate::journal::{CORRECTION_OFFSET, ChunkJournal, DocumentOutcome, Issue, JournalEntry, Outcome, OutcomeCounts};
use crate::queue::{JOB_STATES, Job, JobId, JobState, SplitProgress};
use crate::{LeaseToken, StoreError};
use std::borrow::Cow;
use std::collections::HashMap;
use stook_catalogue::ids::{CollectionId, IdVec};
use stook_catalogue::record::{DecodeError, Decoder, put_varint};

/// Outcomes that a packed list of counts begins with; later ones follow the documents and warnings, and older lists lack them.
const FIRST_OUTCOMES: usize = 7;

/// Packs counts as zigzag varints.
pub fn pack_counts(counts: &OutcomeCounts) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (first, later) = counts.outcomes.split_at(FIRST_OUTCOMES);
    for count in first.iter().chain([&counts.documents, &counts.warnings]).chain(later) {
        put_varint(&mut bytes, ((count << 1) ^ (count >> 63)) as u64);
    }
    bytes
}

/// Reads what [`pack_counts`] wrote.
pub fn read_counts(bytes: &[u8]) -> Result<OutcomeCounts, DecodeError> {
    let mut input = Decoder { bytes };
    let mut counts = OutcomeCounts::default();
    let next = |input: &mut Decoder<'_>| input.varint().map(|number| (number >> 1) as i64 ^ -((number & 1) as i64));
    let (first, later) = counts.outcomes.split_at_mut(FIRST_OUTCOMES);
    for count in first.iter_mut().chain([&mut counts.documents, &mut counts.warnings]) {
        *count = next(&mut input)?;
    }
    for count in later {
        if !input.bytes.is_empty() {
            *count = next(&mut input)?;
        }
    }
    Ok(counts)
}

/// Whether files have been split further than the stored progress.
pub fn is_further(progress: &SplitProgress, stored: &SplitProgress) -> bool {
    let extent = |progress: &SplitProgress| (progress.complete, progress.file, progress.offset, progress.chunks);
    extent(progress) > extent(stored)
}

/// The reason of a chunk that is dead because it was leased too often.
pub const WORKERS_STOPPED: &str = "its workers stopped without reporting; the chunk may have crashed them";

/// The final state of a job without waiting or leased chunks, and the reason. `has_dead_chunks` says whether it has dead chunks.
pub fn final_state(has_dead_chunks: bool, counts: &OutcomeCounts) -> (JobState, Option<&'static str>) {
    if has_dead_chunks {
        (JobState::Failed, Some("some chunks failed too often; see `stook queue ls`"))
    } else if counts.of(Outcome::Failed) > 0 {
        (JobState::CompletedWithErrors, None)
    } else {
        (JobState::Completed, None)
    }
}

/// The state with this name in a store.
pub fn state_by_name(job: JobId, name: &str) -> Result<JobState, StoreError> {
    let state = JOB_STATES.iter().find(|(_, state_name)| *state_name == name).map(|(state, _)| *state);
    state.ok_or_else(|| StoreError::Damaged(Damage::of_row(job_row(job), format!("{name:?} is no state of a job"))))
}

/// The description of a job's row.
pub fn job_row(job: JobId) -> String {
    format!("job {job}")
}

/// Reads the counts of a chunk in a job's journal.
pub fn read_job_counts(job: JobId, bytes: &[u8]) -> Result<OutcomeCounts, StoreError> {
    read_counts(bytes).map_err(|DecodeError(reason)| StoreError::Damaged(Damage::of_row(format!("the journal of {}", job_row(job)), reason)))
}

/// Reads the outcomes of a chunk in a job's journal.
pub fn read_job_outcomes(job: JobId, bytes: &[u8]) -> Result<Vec<DocumentOutcome>, StoreError> {
    crate::journal::unpack(bytes)
        .map_err(|DecodeError(reason)| StoreError::Damaged(Damage::of_row(format!("the journal of {}", job_row(job)), reason)))
}

/// The outcome with this number in a correction.
pub fn outcome_by_number(job: JobId, number: i64) -> Result<Outcome, StoreError> {
    let outcome = u8::try_from(number).ok().and_then(Outcome::from_number);
    outcome.ok_or_else(|| StoreError::Damaged(Damage::of_row(format!("a correction of {}", job_row(job)), format!("{number} is no outcome"))))
}

/// The issue rows of a journal: its issues, and the reasons of its corrections.
pub fn issues<'j>(journal: &'j ChunkJournal, name: impl Fn(CollectionId) -> String + 'j) -> impl Iterator<Item = Cow<'j, Issue>> {
    let reasons = journal.corrections.iter().map(move |correction| Issue {
        document: correction.document,
        file: journal.file,
        record: 0,
        offset: CORRECTION_OFFSET,
        key: Some(name(correction.collection)),
        failed: false,
        reason: correction.reason.clone(),
    });
    journal.troubles.iter().map(Cow::Borrowed).chain(reasons.map(Cow::Owned))
}

/// An issue row as it is read.
pub struct ReasonRow {
    pub document: u64,
    /// Only for a correction.
    pub collection: Option<String>,
    /// The key of the record that it is about, if it is known and this is no correction.
    pub key: Option<String>,
    pub reason: String,
}

/// Adds to entries the reasons why they failed, what was left out, or which contribution counts instead; `rows` are in the order in which they were
/// written. A reason is added to the entries of its record, or, if there are none, to the first entry of its document.
///
/// With `issues_only`, entries that no issue was added to are removed: those of the other records of a document with an issue.
pub fn add_reasons(entries: &mut Vec<JournalEntry>, rows: impl IntoIterator<Item = ReasonRow>, issues_only: bool) {
    let mut reasons: HashMap<u64, Vec<ReasonRow>> = HashMap::new();
    for row in rows {
        reasons.entry(row.document).or_default().push(row);
    }
    let mut has_issue = Vec::with_capacity(entries.len());
    for entries in entries.chunk_by_mut(|one, next| one.document == next.document) {
        let before = has_issue.len();
        has_issue.resize(before + entries.len(), false);
        let document_reasons = reasons.get(&entries[0].document).map(Vec::as_slice).unwrap_or_default();
        for ReasonRow { key, reason, .. } in document_reasons.iter().filter(|row| row.collection.is_none()) {
            let is_of_record = |entry: &JournalEntry| key.is_some() && entry.key == *key;
            let has_entry = entries.iter().any(is_of_record);
            let chosen = entries.iter_mut().enumerate().filter(|(index, entry)| if has_entry { is_of_record(entry) } else { *index == 0 });
            for (index, entry) in chosen {
                entry.reasons.push(reason.clone());
                has_issue[before + index] = true;
            }
        }
        for entry in entries {
            // of several corrections the last one counts, and one that makes the document count again has no reason
            let correction = document_reasons.iter().rfind(|row| row.collection.is_some() && row.collection == entry.collection);
            entry.reasons.extend(correction.map(|row| row.reason.clone()).filter(|reason| !reason.is_empty()));
        }
    }
    if issues_only {
        let mut has_issue = has_issue.into_iter();
        entries.retain(|_| has_issue.next().unwrap_or(true));
    }
}

/// The error for a job that does not exist.
pub fn no_job(job: JobId) -> StoreError {
    StoreError::Wrong(format!("no job {job}; see `stook jobs`"))
}

/// A request to lease chunks.
#[derive(Debug, Clone, Copy)]
pub struct WantedLeases {
    /// Only of this job.
    pub job: Option<JobId>,
    pub limit: usize,
    /// How long to lease them.
    pub seconds: u64,
}

/// A leased chunk whose processing failed.
#[derive(Debug, Clone, Copy)]
pub struct FailedLease<'r> {
    pub lease: LeaseToken,
    pub reason: &'r str,
    /// How long the chunk waits before it is leased again.
    pub delay_seconds: u64,
    /// The chunk is dead if it has been leased this often.
    pub attempts: u32,
}

/// Which documents of a job are listed.
#[derive(Debug, Clone, Copy)]
pub struct JournalRange {
    pub job: JobId,
    /// The number of the document before the first one.
    pub after: u64,
    pub limit: usize,
    /// Only those with failures or warnings.
    pub troubles_only: bool,
}

/// A page of a journal while it is filled. It ends with the last outcome of a document.
pub struct JournalPage<'p> {
    /// Names of collections by their numbers.
    pub names: &'p IdVec<CollectionId, String>,
    pub job: &'p Job,
    pub corrections: HashMap<(u64, String), Outcome>,
    pub limit: usize,
    pub entries: Vec<JournalEntry>,
}

impl JournalPage<'_> {
    /// Whether the page has no space for another outcome of this document.
    pub fn is_full(&self, document: u64) -> bool {
        self.entries.len() >= self.limit && self.entries.last().is_none_or(|last| last.document != document)
    }

    /// Adds an outcome of a chunk.
    pub fn add(&mut self, found: &DocumentOutcome, chunk: &ChunkOutcomes) {
        let collection = found.collection.and_then(|collection| self.names.get(collection)).cloned();
        let corrected = collection.as_ref().and_then(|name| self.corrections.get(&(found.document, name.clone())).copied());
        let outcome = corrected.unwrap_or(found.outcome);
        // a document that failed before it had a key reached no collection
        let reached = outcome != Outcome::Failed || !found.key.is_empty();
        self.entries.push(JournalEntry {
            document: found.document,
            file: self.job.files.get(chunk.file).map(|file| file.path.clone()).unwrap_or_default(),
            record: found.document.saturating_sub(chunk.file_start),
            offset: found.offset,
            collection: collection.filter(|_| reached),
            key: Some(found.key.to_string()).filter(|key| !key.is_empty()),
            outcome,
            // a correction has a reason of its own
            reasons: found.reason.iter().filter(|_| corrected.is_none()).map(ToString::to_string).collect(),
        });
    }
}

/// The outcomes of a chunk, in the order of their documents.
pub struct ChunkOutcomes {
    pub outcomes: Vec<DocumentOutcome>,
    pub file: usize,
    pub file_start: u64,
}

/// Tables with rows of a job, each with the column that has its number.
pub const JOB_TABLES: [(&str, &str); 6] =
    [("chunks", "job"), ("chunk_journals", "job"), ("troubles", "job"), ("failed_documents", "job"), ("corrections", "job"), ("jobs", "id")];

#[cfg(test)]
mod tests {
    use super::{OutcomeCounts, pack_counts, read_counts};
    use crate::journal::OUTCOMES;

    #[test]
    fn counts_are_read_as_they_were_written_by_this_version_and_by_earlier_ones() {
        let mut counts = OutcomeCounts { documents: 70, warnings: -3, ..OutcomeCounts::default() };
        OUTCOMES.iter().enumerate().for_each(|(position, (outcome, _))| counts.add(*outcome, position as i64 * 100 - 250));
        let packed = pack_counts(&counts);
        assert_eq!(read_counts(&packed), Ok(counts));
        // versions without deletions as an outcome wrote nothing after the warnings
        counts.outcomes[7] = 0;
        let shorter = pack_counts(&counts);
        assert_eq!(read_counts(&shorter[..shorter.len() - 1]), Ok(counts));
    }
}
