//! Jobs and chunks: what waits to be imported.

use crate::Tenant;
use crate::journal::OutcomeCounts;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How often a chunk is leased before it is dead: whoever had it never gave an answer, so it may be the chunk that ends them.
pub const MOST_LEASES: u32 = 10;

/// Number of an import job, from 1, given by the store.
pub type JobId = u64;

/// A chunk: its job and its number inside it, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkId {
    /// The job.
    pub job: JobId,
    /// The number.
    pub ordinal: u32,
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.ordinal)
    }
}

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
    /// Number inside the job; given anew by [`crate::Store::replace_chunk`].
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
    pub fn planned(&self) -> u64 {
        self.progress.documents.max(self.done())
    }
}

/// Tables that say something of a job, with the column that has its number.
pub(crate) const OF_JOB: [(&str, &str); 6] =
    [("chunks", "job"), ("chunk_journals", "job"), ("troubles", "job"), ("failed_documents", "job"), ("corrections", "job"), ("jobs", "id")];
