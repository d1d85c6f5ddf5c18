//! The errors of this crate.

use stook_store::StoreError;

/// An error that ends a whole operation; failures of single documents are in the journal instead.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store fails or refuses the operation.
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
        /// The name of the file or the answer.
        name: String,
        /// What it looks like, and how it begins.
        reason: String,
    },
    /// What was asked for is not kept any more.
    #[error("{0}")]
    Expired(String),
    /// The request is wrong.
    #[error("{0}")]
    Wrong(String),
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, EngineError>;
