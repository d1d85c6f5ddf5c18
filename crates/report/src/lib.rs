//! The file of a measured run, and what is shown of it: tables and pictures of one, and several side by side. Nothing is measured here.

pub mod compare;
pub mod plan;
pub mod run;
pub mod sections;
pub mod show;
pub mod statistics;
pub mod svg;

pub use sections::{Report, ReportTable, Section};

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// What is written in a file is wrong, or runs cannot be compared.
    #[error("{0}")]
    Content(String),
    /// A file cannot be read or written.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
}

/// Results of reading runs and of comparing them.
pub type Result<T> = std::result::Result<T, ReportError>;
