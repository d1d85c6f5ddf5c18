//! What workers are asked to do, and what they report.

use std::sync::atomic::AtomicBool;
use std::time::Duration;
use stook_catalogue::eval::ExpressionFailures;
use stook_store::journal::OutcomeCounts;
use stook_store::queue::{Job, JobId};
use stook_store::{StoreError, Tenant};

/// Seconds a lease is held without a sign of life.
pub const LEASE_SECONDS: u64 = 60;

/// What workers do.
#[derive(Debug, Clone, Copy)]
pub struct WorkerOptions {
    /// Threads that map documents.
    pub workers: usize,
    /// Seconds after which a chunk goes to another worker when its own gives no sign of life.
    pub lease_seconds: u64,
    /// Whether to end when no chunk is left, rather than to wait for more.
    pub drain: bool,
    /// Whether what follows from the documents is settled, too.
    pub settles: bool,
    /// Only chunks of this job.
    pub only: Option<JobId>,
}

/// How a job is run to its end by one process.
#[derive(Debug, Clone, Copy)]
pub struct JobRun<'r> {
    /// The job.
    pub job: JobId,
    /// Threads that map documents.
    pub workers: usize,
    /// Whether to wait until what follows from the documents is settled, too.
    pub settles: bool,
    /// Ends it; the job can go on later.
    pub stop: &'r AtomicBool,
}

impl JobRun<'_> {
    pub(crate) fn options(&self) -> WorkerOptions {
        WorkerOptions { workers: self.workers, lease_seconds: LEASE_SECONDS, drain: false, settles: self.settles, only: Some(self.job) }
    }
}

/// What there is to tell while workers run.
#[derive(Debug)]
pub enum WorkerEvent {
    /// Documents committed so far, by this pool.
    Committed(u64),
    /// A chunk was committed, or a pass has settled something.
    TaskDone(TaskReport),
    /// A job has ended.
    Ended(Box<Job>),
    /// The store cannot be used now; work goes on when it can.
    StoreUnavailable(StoreError),
}

/// One piece of work that is in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskReport {
    /// `chunk` or `settle`.
    pub name: &'static str,
    /// Whose.
    pub tenant: Tenant,
    /// The job of a chunk.
    pub job: Option<JobId>,
    /// What became of a chunk's documents.
    pub counts: OutcomeCounts,
    /// Marks that a pass has answered.
    pub marks_cleared: u64,
    /// Rows written.
    pub rows: u64,
    /// Why marks are answered without what should follow from them: which rows cannot be read.
    pub damaged: Vec<String>,
    /// Expressions that fail on records, which a pass has settled without their values.
    pub failures: ExpressionFailures,
    /// From its beginning to its commit.
    pub took: Duration,
}
