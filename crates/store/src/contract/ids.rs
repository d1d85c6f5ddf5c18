//! Numbers of jobs and chunks, and lease tokens.

use std::fmt;

/// Number of a job, from 1, assigned by the store.
pub type JobId = u64;

/// The job by which something was made, where a job's number is stored. Records, contributions and marks store [`JobRef::number`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobRef {
    /// A job.
    Job(JobId),
    /// No job: an edit, a withdrawal, a settle pass.
    None,
    /// A dry run: nothing with its number is ever stored.
    DryRun,
}

impl JobRef {
    /// The number to store; those of [`JobRef::None`] and [`JobRef::DryRun`] belong to no job.
    pub const fn number(self) -> JobId {
        match self {
            JobRef::Job(id) => id,
            JobRef::None => 0,
            // the largest value of a store's column
            JobRef::DryRun => JobId::MAX >> 1,
        }
    }
}

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

/// The lease under which a unit of work completes a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseToken {
    /// The chunk.
    pub chunk: ChunkId,
    /// The token that was given with the lease.
    pub token: i64,
}
