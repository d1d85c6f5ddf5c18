//! Measuring any HTTP service: requests made by a plan, and what came of each, for the file of a run that `stook-report` reads and shows.

pub mod capacity;
pub mod closed;
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

/// What a set has seen so far, for whoever watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunProgress {
    /// Which set, from 0.
    pub set: usize,
    /// Of how many.
    pub sets: usize,
    /// Requests that ended.
    pub done: u64,
    /// Requests that were planned.
    pub planned: u64,
    /// Those without success.
    pub unsuccessful: u64,
    /// Requests per second so far.
    pub rate: f64,
    /// Half of the answers took less.
    pub p50: Duration,
    /// 99 of 100.
    pub p99: Duration,
}

/// Watches a run; says whether it goes on.
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
    /// A run, or something written in a plan.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The machine refuses something.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Results of measuring.
pub type Result<T> = std::result::Result<T, LabError>;
