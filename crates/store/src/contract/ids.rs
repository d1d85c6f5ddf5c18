//! Numbers of jobs, of their chunks, and of the leases by which workers hold chunks.

use std::fmt;

/// Number of an import job, from 1, given by the store.
pub type JobId = u64;

/// Who has brought something to life, where the number of a job says so. Records, contributions and marks keep [`JobRef::number`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobRef {
    /// An import job.
    Job(JobId),
    /// No job: an edit, a withdrawal, a settle pass.
    None,
    /// A job that is only tried: what has its number is never stored.
    DryRun,
}

impl JobRef {
    /// Its number: no job has that of [`JobRef::None`] or of [`JobRef::DryRun`].
    pub const fn number(self) -> JobId {
        match self {
            JobRef::Job(id) => id,
            JobRef::None => 0,
            // the largest that a store's column takes
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

/// The lease that a unit of work hands back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseToken {
    /// The chunk.
    pub chunk: ChunkId,
    /// The token it was leased with.
    pub token: i64,
}
