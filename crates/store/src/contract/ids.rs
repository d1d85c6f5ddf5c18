//! Numbers of jobs, of their chunks, and of the leases by which workers hold chunks.

use std::fmt;

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

/// The lease that a unit of work hands back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseToken {
    /// The chunk.
    pub chunk: ChunkId,
    /// The token it was leased with.
    pub token: i64,
}
