//! Jobs and chunks: what waits to be imported.

pub use super::ids::{ChunkId, JobId, JobRef};

use super::error::Result;
use super::ids::LeaseToken;
use super::journal::{JournalEntry, OutcomeCounts};
use super::tenant::Tenant;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How often a chunk is leased before it is dead: whoever had it never gave an answer, so it may be the chunk that ends them.
pub const MOST_LEASES: u32 = 10;

/// A file of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFile {
    /// Where it is.
    pub path: String,
    /// Bytes on disk.
    pub size: u64,
    /// Modification time in microseconds.
    pub modified: i64,
    /// Its syntax, by name; nothing for an empty file.
    pub syntax: Option<String>,
    /// Whether its chunks carry their bytes (compressed files) or point into it.
    pub compressed: bool,
    /// What its documents tell of a list, if not all: the part of their contributor's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Whether it retires what it lacks, however much that is: for sources whose files take the place of others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retires_all: bool,
}

/// A job to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// Whose.
    pub tenant: Tenant,
    /// The profile's name; nothing for the default (update and create).
    pub profile: Option<String>,
    /// The source's name.
    pub source: String,
    /// The time of documents that do not say one, in microseconds.
    pub as_of: Option<i64>,
    /// The files.
    pub files: Vec<JobFile>,
}

/// How far a job's files have been cut into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SplitProgress {
    /// The file at hand, from 0.
    pub file: usize,
    /// Position in it.
    pub offset: u64,
    /// Documents of this file before that position.
    pub file_documents: u64,
    /// Documents of all files before that position.
    pub documents: u64,
    /// Chunks made.
    pub chunks: u32,
    /// Whether all files have been cut.
    pub complete: bool,
}

/// A chunk to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChunk {
    /// Number inside the job; given anew by [`Queue::replace_chunk`].
    pub ordinal: u32,
    /// Where its bytes are.
    pub slice: ChunkSlice,
}

/// A stretch of a file, at document boundaries.
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
    /// What a scanner needs to know of the bytes before.
    pub head: Vec<u8>,
    /// The bytes, compressed with zstd, when the file cannot be read from the middle; nothing at all of a document that is too long.
    pub payload: Option<Vec<u8>>,
}

impl ChunkSlice {
    /// Whether it is one document that is too long, of which nothing is kept.
    pub fn is_given_up(&self) -> bool {
        self.payload.as_ref().is_some_and(Vec::is_empty)
    }
}

/// A leased chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedChunk {
    /// The chunk.
    pub chunk: ChunkId,
    /// Fences the commit.
    pub token: i64,
    /// How often it has been leased, this time included.
    pub attempt: u32,
    /// Its bytes.
    pub slice: ChunkSlice,
}

/// A chunk in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChunkInfo {
    /// The job.
    pub job: JobId,
    /// Number inside the job.
    pub ordinal: u32,
    /// waiting, leased or dead.
    pub state: ChunkState,
    /// How often it was leased.
    pub attempts: u32,
    /// Documents in it.
    pub documents: u32,
    /// Bytes.
    pub length: u64,
    /// Why it failed last.
    pub reason: Option<String>,
}

/// States of a chunk. A finished chunk is not in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkState {
    /// To be done.
    Waiting,
    /// A worker has it.
    Leased,
    /// Failed too often.
    Dead,
}

/// A chunk with all it needs to be done elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkData {
    /// What `ls` shows.
    pub info: ChunkInfo,
    /// Its bytes.
    pub slice: ChunkSlice,
}

/// States of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Nothing was done yet.
    Queued,
    /// Some chunk has been leased, and nobody has said that they stopped.
    Running,
    /// Whoever worked on it has stopped before its end. Workers go on with the chunks that wait; files that were not cut to their end
    /// are cut by resuming it.
    Interrupted,
    /// Everything is in the store.
    Completed,
    /// Everything that could be is in the store; some documents failed.
    CompletedWithErrors,
    /// Chunks are dead, or the files could not be read.
    Failed,
    /// Somebody stopped it.
    Cancelled,
}

/// Every state with its name in words and in a store.
pub const JOB_STATES: [(JobState, &str); 7] = [
    (JobState::Queued, "queued"),
    (JobState::Running, "running"),
    (JobState::Interrupted, "interrupted"),
    (JobState::Completed, "completed"),
    (JobState::CompletedWithErrors, "completed_with_errors"),
    (JobState::Failed, "failed"),
    (JobState::Cancelled, "cancelled"),
];

impl JobState {
    /// Its name.
    pub fn name(self) -> &'static str {
        JOB_STATES.iter().find(|(state, _)| *state == self).map_or("?", |(_, name)| name)
    }

    /// Whether nothing more will happen by itself.
    pub fn is_final(self) -> bool {
        !matches!(self, JobState::Queued | JobState::Running | JobState::Interrupted)
    }
}

/// A job and where it stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// Whose.
    pub tenant: String,
    /// The profile, if one was named.
    pub profile: Option<String>,
    /// The source.
    pub source: String,
    /// The time of documents that do not say one, in microseconds.
    pub as_of: Option<i64>,
    /// The files.
    pub files: Vec<JobFile>,
    /// Where it stands.
    pub state: JobState,
    /// Why it failed or was cancelled.
    pub reason: Option<String>,
    /// When it was created, in microseconds.
    pub created: i64,
    /// When it ended, in microseconds.
    pub finished: Option<i64>,
    /// How far its files have been cut.
    pub progress: SplitProgress,
    /// Outcomes so far.
    pub counts: OutcomeCounts,
    /// Chunks waiting or leased.
    pub chunks_left: u64,
    /// Chunks that somebody works on now: leased, and not for longer than their lease.
    pub chunks_working: u64,
    /// Chunks that failed too often.
    pub chunks_dead: u64,
}

impl Job {
    /// Documents that are done: all of them are in the journal.
    pub fn done(&self) -> u64 {
        self.counts.documents.max(0) as u64
    }

    /// Documents that there are to do, as far as the files have been cut ([`SplitProgress::complete`] says whether they are all).
    pub fn documents_known(&self) -> u64 {
        self.progress.documents.max(self.done())
    }
}

/// Jobs, and the chunks of them that wait for workers.
pub trait Queue {
    /// Writes a new job.
    ///
    /// # Errors
    /// When the database fails.
    fn create_job(&self, job: NewJob) -> Result<JobId>;

    /// Adds chunks to a job and remembers how far its files have been cut. Adding a chunk that is there changes nothing.
    ///
    /// # Errors
    /// When the database fails.
    fn add_chunks(&self, job: JobId, chunks: Vec<NewChunk>, progress: SplitProgress) -> Result<()>;

    /// Leases up to `limit` chunks for `seconds`: of one job, if given, else of the jobs that [`schedule`](crate::schedule) chooses one after
    /// the other. A chunk whose lease has run out waits again, or is dead when that happened [`MOST_LEASES`] times.
    /// Leases need not survive the end of the machine: the chunks then wait.
    ///
    /// # Errors
    /// When the database fails.
    fn lease(&self, job: Option<JobId>, limit: usize, seconds: u64) -> Result<Vec<LeasedChunk>>;

    /// Prolongs leases by `seconds` from now; returns those that are still held.
    ///
    /// # Errors
    /// When the database fails.
    fn renew(&self, leases: &[LeaseToken], seconds: u64) -> Result<Vec<LeaseToken>>;

    /// Gives chunks back that nobody has begun: they wait as if they had not been leased.
    ///
    /// # Errors
    /// When the database fails.
    fn return_unstarted(&self, leases: &[LeaseToken]) -> Result<()>;

    /// Whether no chunk waits or is leased.
    ///
    /// # Errors
    /// When the database fails.
    fn is_idle(&self) -> Result<bool>;

    /// Returns when chunks may have been added, by whatever process, and after `timeout` at the latest. It is a hint:
    /// somebody else may have leased them, and some that were added may not be told.
    fn wait_for_chunks(&self, timeout: Duration);

    /// Takes the chunks of a job away from whoever holds them; their commits will be fenced off.
    ///
    /// # Errors
    /// When the database fails.
    fn take_over(&self, job: JobId) -> Result<u64>;

    /// Gives a chunk back after a failure. It waits `delay_seconds`, or is dead when it has failed `attempts` times.
    ///
    /// # Errors
    /// When the database fails.
    fn release(&self, lease: LeaseToken, reason: &str, delay_seconds: u64, attempts: u32) -> Result<()>;

    /// One job.
    ///
    /// # Errors
    /// When there is none, or the database fails.
    fn job(&self, job: JobId) -> Result<Job>;

    /// The state of a job, which costs less than [`Queue::job`].
    ///
    /// # Errors
    /// When there is none, or the database fails.
    fn job_state(&self, job: JobId) -> Result<JobState>;

    /// The newest jobs of a tenant, or of all.
    ///
    /// # Errors
    /// When the database fails.
    fn jobs(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<Job>>;

    /// Notes that whoever worked on a job has stopped before its end, unless somebody else works on it or it has ended. A lease of one
    /// of its chunks makes it running again.
    ///
    /// # Errors
    /// When there is none, or the database fails.
    fn interrupt_job(&self, job: JobId) -> Result<()>;

    /// Ends a job: failed or cancelled. Its waiting chunks go, what was committed stays.
    ///
    /// # Errors
    /// When the database fails.
    fn end_job(&self, job: JobId, state: JobState, reason: &str) -> Result<()>;

    /// Removes a job that has ended, with its journal; one that has not stays. What it committed stays, and says its number.
    ///
    /// # Errors
    /// When there is no such job, or the database fails.
    fn forget_job(&self, job: JobId) -> Result<()>;

    /// Outcomes of a job's documents in the order of its files, `limit` of them after document `after`.
    ///
    /// # Errors
    /// When the database fails.
    fn journal(&self, job: JobId, after: u64, limit: usize, troubles_only: bool) -> Result<Vec<JournalEntry>>;

    /// A document of a job that failed, by its number, as it was read, if it was kept.
    ///
    /// # Errors
    /// When the store fails.
    fn failed_document(&self, job: JobId, document: u64) -> Result<Option<Vec<u8>>>;

    /// Chunks that wait, are leased or dead.
    ///
    /// # Errors
    /// When the database fails.
    fn chunks(&self, job: Option<JobId>) -> Result<Vec<ChunkInfo>>;

    /// A chunk with its bytes, if it carries them.
    ///
    /// # Errors
    /// When there is none, or the database fails.
    fn chunk(&self, chunk: ChunkId) -> Result<ChunkData>;

    /// Lets dead chunks (all of a job, or one) wait again; returns how many.
    ///
    /// # Errors
    /// When the database fails.
    fn retry(&self, job: JobId, ordinal: Option<u32>) -> Result<u64>;

    /// Puts a dumped chunk back, in the place of the one with its number if that waits or is dead. It waits from then on.
    ///
    /// # Errors
    /// When the chunk is leased or done already, its job is unknown, or the database fails.
    fn load_chunk(&self, chunk: ChunkId, slice: ChunkSlice) -> Result<()>;

    /// Puts `parts` in the place of a chunk that is not leased. They get new ordinals.
    ///
    /// # Errors
    /// When the chunk is leased or gone, or the database fails.
    fn replace_chunk(&self, chunk: ChunkId, parts: Vec<NewChunk>) -> Result<()>;
}
