//! What can go wrong with a whole operation.

use stook_store::StoreError;

/// What can go wrong with a whole operation; single documents fail in the journal.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be read.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// A file or an answer has no document, and nothing in it says that it is an empty one.
    #[error("{name} {reason}")]
    NoDocument {
        /// What it is called.
        name: String,
        /// What it looks like, and how it begins.
        reason: String,
    },
    /// The caller asked for something that makes no sense.
    #[error("{0}")]
    Wrong(String),
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, EngineError>;
