//! The file of a measured run, and reports of it: tables and charts of one run, and comparisons of several. Nothing is measured here.

pub mod compare;
pub mod plan;
pub mod run;
pub mod sections;
pub mod show;
pub mod statistics;
pub mod svg;

pub use sections::{Report, ReportTable, Section};

/// The error of reading or comparing runs.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file has wrong content, or runs cannot be compared.
    #[error("{0}")]
    Content(String),
    /// A file cannot be read or written.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
}

/// The result of reading or comparing runs.
pub type Result<T> = std::result::Result<T, ReportError>;
