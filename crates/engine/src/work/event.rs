//! Options and events of workers.

use crate::chunk::changes::ChangeSummary;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use stook_catalogue::eval::ExpressionFailures;
use stook_store::journal::OutcomeCounts;
use stook_store::queue::{Job, JobId};
use stook_store::{StoreError, Tenant};

/// The length of a lease that is not renewed, in seconds.
pub const LEASE_SECONDS: u64 = 60;

/// What workers do, and how.
#[derive(Debug, Clone, Copy)]
pub struct WorkerOptions {
    /// Number of threads that map documents.
    pub workers: usize,
    /// Seconds after which a chunk goes to another worker if its lease is not renewed.
    pub lease_seconds: u64,
    /// Whether to end when no chunk is left, instead of waiting for more.
    pub drain: bool,
    /// Whether to run settle passes, too.
    pub settles: bool,
    /// Process only chunks of this job.
    pub only: Option<JobId>,
}

/// How one process runs a job to its end.
#[derive(Debug, Clone, Copy)]
pub struct JobRun<'r> {
    /// The job.
    pub job: JobId,
    /// Number of threads that map documents.
    pub workers: usize,
    /// Whether to settle derived values, too, and to wait until this job's are.
    pub settles: bool,
    /// Stops the run; the job can be resumed later.
    pub stop: &'r AtomicBool,
}

impl JobRun<'_> {
    pub(crate) fn options(&self) -> WorkerOptions {
        WorkerOptions { workers: self.workers, lease_seconds: LEASE_SECONDS, drain: false, settles: self.settles, only: Some(self.job) }
    }
}

/// What workers report while they run.
#[derive(Debug)]
pub enum WorkerEvent {
    /// Number of documents that this pool has committed so far.
    Committed(u64),
    /// A chunk or a settle pass was committed.
    TaskDone(TaskReport),
    /// A job has ended.
    Ended(Box<Job>),
    /// The store cannot be used at present; work continues when it can.
    StoreUnavailable(StoreError),
}

/// A task that has been committed.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskReport {
    /// `chunk` or `settle`.
    pub name: &'static str,
    /// Its tenant.
    pub tenant: Tenant,
    /// The job of a chunk; `None` for a settle pass.
    pub job: Option<JobId>,
    /// The outcomes of a chunk's documents.
    pub counts: OutcomeCounts,
    /// What a chunk changes, and its issues.
    pub changes: Box<ChangeSummary>,
    /// Number of marks that a settle pass has cleared.
    pub marks_cleared: u64,
    /// Rows written.
    pub rows: u64,
    /// Why a settle pass has cleared marks without doing what they require: rows that cannot be read, records that cannot be written.
    pub damaged: Vec<String>,
    /// Expressions that failed for records in a settle pass; their values are null.
    pub failures: ExpressionFailures,
    /// The time from its start to its commit.
    pub took: Duration,
}
