//! Measures any HTTP service: makes requests by a plan and records their outcomes in the file of a run, which `stook-report` reads and shows.

pub mod capacity;
pub mod closed;
mod database;
pub mod http;
pub mod import;
pub mod kpi;
pub mod limits;
pub mod open;
pub mod plan;
pub mod record;
pub mod served;
pub mod template;
pub mod watched;

use std::time::Duration;
use stook_report::ReportError;

/// The progress of a set, for display.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunProgress {
    /// The current set, from 0.
    pub set: usize,
    /// The number of sets.
    pub sets: usize,
    /// Completed requests.
    pub done: u64,
    /// Planned requests.
    pub planned: u64,
    /// Requests without success.
    pub unsuccessful: u64,
    /// Requests per second so far.
    pub rate: f64,
    /// The median latency.
    pub p50: Duration,
    /// The 99th percentile of latencies.
    pub p99: Duration,
}

/// Called with the progress of a run; returns whether to continue.
pub type ProgressFn<'w> = dyn Fn(&RunProgress) -> bool + 'w;

/// Why something cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The plan, a file it names, or the target is wrong.
    #[error("{0}")]
    Plan(String),
    /// A file cannot be read or written.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// A run file or a plan file is wrong.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// An operation of the system failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// The result of a measurement.
pub type Result<T> = std::result::Result<T, LabError>;
