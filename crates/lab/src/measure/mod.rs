//! Measuring any HTTP service: requests made by a plan, what came of each, and a file that has all of it.

pub mod capacity;
pub mod closed;
pub mod compare;
pub mod http;
pub mod kpi;
pub mod limits;
pub mod open;
pub mod plan;
pub mod record;
pub mod run;
pub mod served;
pub mod template;

/// Why something cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The plan, a file it names, or the target is wrong.
    #[error("{0}")]
    Plan(String),
    /// A file cannot be read or written.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// The machine refuses something.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Results of measuring.
pub type Result<T> = std::result::Result<T, LabError>;
