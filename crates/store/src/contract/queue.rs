//! Jobs and chunks: the queue of work, and how jobs proceed.

pub use super::ids::{ChunkId, JobId, JobRef};

use super::error::Result;
use super::ids::LeaseToken;
use super::journal::{JournalEntry, OutcomeCounts};
use super::tenant::Tenant;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A chunk is dead if its lease expires after it was leased this often: no worker that had it has reported, so the chunk itself may crash them.
pub const MAX_LEASES: u32 = 10;

/// A file of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFile {
    /// Its path.
    pub path: String,
    /// Bytes on disk.
    pub size: u64,
    /// Modification time in microseconds.
    pub modified: i64,
    /// The name of its syntax; `None` for an empty file.
    pub syntax: Option<String>,
    /// Whether its chunks carry their bytes (as those of compressed files do) or point into the file.
    pub compressed: bool,
    /// The part of the source that its documents belong to, if not all of it: the part of the contributor's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// If it is an answer of a service: the values that the service was asked for, by the names of the call's arguments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, String>,
    /// Whether it retires what it does not repeat, however much that is, for sources with complete deliveries.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retires_all: bool,
    /// What the file was found to have before it was imported, if its source expects something of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<FileChecks>,
}

impl JobFile {
    /// Its name without folders.
    pub fn short_name(&self) -> &str {
        self.path.rsplit(['/', ':']).next().unwrap_or(&self.path)
    }
}

/// What a file was found to have, and whether that was expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChecks {
    /// The number of its documents.
    pub documents: u64,
    /// The as-of time of its newest document, in microseconds.
    pub as_of: i64,
    /// Each expectation.
    pub expectations: Vec<ExpectationOutcome>,
}

impl FileChecks {
    /// Whether the file must not be imported.
    pub fn stops(&self) -> bool {
        self.expectations.iter().any(|own| own.stops && !own.holds)
    }
}

/// What became of an expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectationOutcome {
    /// What was expected, in words.
    pub expected: String,
    /// What was found.
    pub found: String,
    /// Whether it is as expected.
    pub holds: bool,
    /// Whether the file is not imported otherwise.
    pub stops: bool,
}

/// A job to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// The tenant.
    pub tenant: Tenant,
    /// The profile's name; `None` for the default (update and create).
    pub profile: Option<String>,
    /// The source's name.
    pub source: String,
    /// The as-of time of documents that state none, in microseconds.
    pub as_of: Option<i64>,
    /// The files.
    pub files: Vec<JobFile>,
}

/// How far a job's files have been split into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SplitProgress {
    /// The current file, from 0.
    pub file: usize,
    /// Position in this file.
    pub offset: u64,
    /// Documents of this file before that position.
    pub file_documents: u64,
    /// Documents of all files before that position.
    pub documents: u64,
    /// Chunks created.
    pub chunks: u32,
    /// Whether all files have been split.
    pub complete: bool,
}

/// A chunk to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChunk {
    /// Number inside the job; [`Queue::replace_chunk`] assigns another one.
    pub ordinal: u32,
    /// The part of the file.
    pub slice: ChunkSlice,
}

/// A part of a file, at document boundaries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChunkSlice {
    /// The file, from 0.
    pub file: usize,
    /// Position of the first byte in the uncompressed file.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// Documents of this file before it.
    pub file_documents: u64,
    /// Documents of the job before it.
    pub documents_before: u64,
    /// Documents in it.
    pub documents: u32,
    /// Whether the file ends with it.
    pub is_last: bool,
    /// What a scanner must know about the bytes before it.
    pub head: Vec<u8>,
    /// The bytes, compressed with zstd, if the file cannot be read from the middle; empty for a document that is too long, which is not kept.
    pub payload: Option<Vec<u8>>,
}

impl ChunkSlice {
    /// Whether it is one document that is too long and was not kept.
    pub fn is_given_up(&self) -> bool {
        self.payload.as_ref().is_some_and(Vec::is_empty)
    }
}

/// A leased chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedChunk {
    /// The chunk.
    pub chunk: ChunkId,
    /// The lease token that the commit must present.
    pub token: i64,
    /// How often it has been leased, this time included.
    pub attempt: u32,
    /// The part of the file.
    pub slice: ChunkSlice,
}

/// A chunk in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChunkInfo {
    /// The job.
    pub job: JobId,
    /// Number inside the job.
    pub ordinal: u32,
    /// Its state.
    pub state: ChunkState,
    /// How often it has been leased.
    pub attempts: u32,
    /// Documents in it.
    pub documents: u32,
    /// Number of bytes.
    pub length: u64,
    /// Why it failed the last time.
    pub reason: Option<String>,
}

/// States of a chunk. A finished chunk is not in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkState {
    /// Waits for a worker.
    Waiting,
    /// A worker has it.
    Leased,
    /// Failed, or lost its lease, too often.
    Dead,
}

/// A chunk with everything needed to process it elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkData {
    /// What `stook queue ls` shows.
    pub info: ChunkInfo,
    /// The part of the file, or its bytes.
    pub slice: ChunkSlice,
}

/// States of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// No chunk has been leased yet.
    Queued,
    /// A chunk has been leased, and the job was not interrupted since.
    Running,
    /// The process that imported it stopped before its end. Workers go on with the chunks that wait; files that are not split to their end are split
    /// by resuming the job.
    Interrupted,
    /// All documents are committed.
    Completed,
    /// All documents that could be imported are committed; some failed.
    CompletedWithErrors,
    /// Chunks are dead, or files could not be read.
    Failed,
    /// Stopped by a user.
    Cancelled,
    /// Another job takes back, or has taken back, what it committed.
    Undone,
}

/// Every state with its name, in texts and in a store.
pub const JOB_STATES: [(JobState, &str); 8] = [
    (JobState::Queued, "queued"),
    (JobState::Running, "running"),
    (JobState::Interrupted, "interrupted"),
    (JobState::Completed, "completed"),
    (JobState::CompletedWithErrors, "completed_with_errors"),
    (JobState::Failed, "failed"),
    (JobState::Cancelled, "cancelled"),
    (JobState::Undone, "undone"),
];

impl JobState {
    /// The state's name.
    pub fn name(self) -> &'static str {
        JOB_STATES.iter().find(|(state, _)| *state == self).map_or("?", |(_, name)| name)
    }

    /// Whether the job has ended.
    pub fn is_final(self) -> bool {
        !matches!(self, JobState::Queued | JobState::Running | JobState::Interrupted)
    }
}

/// A job with its state and progress.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// The tenant.
    pub tenant: String,
    /// The profile, if one was named.
    pub profile: Option<String>,
    /// The source.
    pub source: String,
    /// The as-of time of documents that state none, in microseconds.
    pub as_of: Option<i64>,
    /// The files.
    pub files: Vec<JobFile>,
    /// Its state.
    pub state: JobState,
    /// Why it failed or was cancelled.
    pub reason: Option<String>,
    /// When it was created, in microseconds.
    pub created: i64,
    /// When it ended, in microseconds.
    pub finished: Option<i64>,
    /// How far its files have been split.
    pub progress: SplitProgress,
    /// Outcomes so far.
    pub counts: OutcomeCounts,
    /// Chunks waiting or leased.
    pub chunks_left: u64,
    /// Chunks that are being processed: leased, with leases that have not expired.
    pub chunks_working: u64,
    /// Dead chunks.
    pub chunks_dead: u64,
}

/// The beginning of the source name of a job that undoes another one; no source of a definition can have it.
const UNDO: &str = "undo of job ";
/// The beginning of the reason of a job that is undone.
const UNDONE_BY: &str = "undone by job ";

/// The source name of a job that undoes another one.
pub fn undo_source(job: JobId) -> String {
    format!("{UNDO}{job}")
}

/// Why a job is undone: the job that does it.
pub(crate) fn undone_reason(undo: JobId) -> String {
    format!("{UNDONE_BY}{undo}")
}

impl Job {
    /// The job that it undoes, if it undoes one.
    pub fn undoes(&self) -> Option<JobId> {
        self.source.strip_prefix(UNDO)?.parse().ok()
    }

    /// The job that undoes it or has undone it.
    pub fn undone_by(&self) -> Option<JobId> {
        self.reason.as_deref().filter(|_| self.state == JobState::Undone)?.strip_prefix(UNDONE_BY)?.parse().ok()
    }

    /// Whether a file is not as its source expects, so that nothing of the job may be imported.
    pub fn is_refused(&self) -> bool {
        self.files.iter().filter_map(|file| file.checks.as_ref()).any(FileChecks::stops)
    }

    /// Number of documents in the journal: they are done.
    pub fn documents_done(&self) -> u64 {
        self.counts.documents.max(0) as u64
    }

    /// Number of documents found so far in the files ([`SplitProgress::complete`] says whether these are all).
    pub fn documents_found(&self) -> u64 {
        self.progress.documents.max(self.documents_done())
    }
}

/// Jobs, and their chunks that wait for workers.
pub trait Queue {
    /// Creates a job.
    ///
    /// # Errors
    /// When the database fails.
    fn create_job(&self, job: NewJob) -> Result<JobId>;

    /// Adds chunks to a job and stores how far its files have been split. Does nothing if the store has the same or further progress already, because
    /// another process has split the same files.
    ///
    /// # Errors
    /// When there is no such job, it has ended, or the database fails.
    fn add_chunks(&self, job: JobId, chunks: Vec<NewChunk>, progress: SplitProgress) -> Result<()>;

    /// Leases up to `limit` chunks for `seconds`: of one job, if given, otherwise of the jobs that [`schedule`](crate::schedule) chooses one after
    /// the other. A chunk whose lease has expired can be leased again, or is dead if it has been leased [`MAX_LEASES`] times. Leases need not
    /// survive a crash of the machine: the chunks then wait. A call that finds nothing to lease may end jobs whose chunks are all done.
    ///
    /// # Errors
    /// When the database fails.
    fn lease(&self, job: Option<JobId>, limit: usize, seconds: u64) -> Result<Vec<LeasedChunk>>;

    /// Sets leases to end `seconds` from now; returns those that are still held.
    ///
    /// # Errors
    /// When the database fails.
    fn renew(&self, leases: &[LeaseToken], seconds: u64) -> Result<Vec<LeaseToken>>;

    /// Returns chunks that were not started: they wait as if they had not been leased.
    ///
    /// # Errors
    /// When the database fails.
    fn return_unstarted(&self, leases: &[LeaseToken]) -> Result<()>;

    /// Whether no chunk waits or is leased.
    ///
    /// # Errors
    /// When the database fails.
    fn is_idle(&self) -> Result<bool>;

    /// Returns when chunks may have been added, by any process, and after `timeout` at the latest. It is a hint: another worker may have leased them,
    /// and some additions may go unnoticed.
    fn wait_for_chunks(&self, timeout: Duration);

    /// Ends all leases of a job's chunks, whose commits will then be refused; returns their number.
    ///
    /// # Errors
    /// When the database fails.
    fn take_over(&self, job: JobId) -> Result<u64>;

    /// Returns a chunk after a failure. It waits `delay_seconds`, or is dead if it has been leased `attempts` times. Does nothing if the lease is
    /// lost.
    ///
    /// # Errors
    /// When the database fails.
    fn release(&self, lease: LeaseToken, reason: &str, delay_seconds: u64, attempts: u32) -> Result<()>;

    /// Returns a job.
    ///
    /// # Errors
    /// When there is none, or the database fails.
    fn job(&self, job: JobId) -> Result<Job>;

    /// Returns the state of a job, which costs less than [`Queue::job`].
    ///
    /// # Errors
    /// When there is none, or the database fails.
    fn job_state(&self, job: JobId) -> Result<JobState>;

    /// Returns the newest jobs of a tenant, or of all tenants.
    ///
    /// # Errors
    /// When the database fails.
    fn jobs(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<Job>>;

    /// Notes that the process that imported a job has stopped before its end, unless chunks of it are leased or it has ended. The next lease of one
    /// of its chunks sets it to running again.
    ///
    /// # Errors
    /// When there is none, or the database fails.
    fn interrupt_job(&self, job: JobId) -> Result<()>;

    /// Ends a job as failed or cancelled. All its chunks are deleted; what was committed stays. Does nothing if the job has ended.
    ///
    /// # Errors
    /// When there is no such job, `state` is neither failed nor cancelled, or the database fails.
    fn end_job(&self, job: JobId, state: JobState, reason: &str) -> Result<()>;

    /// Removes a job that has ended, with its journal; does nothing if it has not. What it committed stays, with its number.
    ///
    /// # Errors
    /// When there is no such job, or the database fails.
    fn forget_job(&self, job: JobId) -> Result<()>;

    /// Returns outcomes of a job's documents in the order of its files, `limit` of them after document `after`.
    ///
    /// # Errors
    /// When the database fails.
    fn journal(&self, job: JobId, after: u64, limit: usize, troubles_only: bool) -> Result<Vec<JournalEntry>>;

    /// Returns the bytes of a document of a job that failed, by its number, if they were kept.
    ///
    /// # Errors
    /// When the store fails.
    fn failed_document(&self, job: JobId, document: u64) -> Result<Option<Vec<u8>>>;

    /// Returns the chunks in the queue, of one job or of all.
    ///
    /// # Errors
    /// When the database fails.
    fn chunks(&self, job: Option<JobId>) -> Result<Vec<ChunkInfo>>;

    /// Returns a chunk, with its bytes if it carries them.
    ///
    /// # Errors
    /// When there is none, or the database fails.
    fn chunk(&self, chunk: ChunkId) -> Result<ChunkData>;

    /// Lets dead chunks (all of a job, or one) wait again; returns their number.
    ///
    /// # Errors
    /// When the database fails.
    fn retry(&self, job: JobId, ordinal: Option<u32>) -> Result<u64>;

    /// Adds a dumped chunk again, replacing the one with its number if that waits or is dead. It waits from then on.
    ///
    /// # Errors
    /// When the chunk is leased or done already, its job is unknown, completed or cancelled, or the database fails.
    fn load_chunk(&self, chunk: ChunkId, slice: ChunkSlice) -> Result<()>;

    /// Replaces a chunk that is not leased by `parts`, which get new ordinals.
    ///
    /// # Errors
    /// When the chunk is leased or not in the queue, or the database fails.
    fn replace_chunk(&self, chunk: ChunkId, parts: Vec<NewChunk>) -> Result<()>;
}
