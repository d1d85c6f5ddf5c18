//! Imports: files to jobs, jobs to chunks, chunks to committed records.
//!
//! A document's way is [`chunk::read`] (bytes to documents), [`chunk::map`] (document to contributions, once), then
//! [`chunk::consolidate`] (contributions to records and outcomes) and [`chunk::commit`] (one transaction). [`split`] cuts
//! files into chunks, [`collect`] asks services for pages, [`import`] makes jobs, [`work`] runs them on all cores, [`deliver`] writes a few documents
//! at once. [`record`] answers questions about single records, [`edit`] and [`transition`] change them one by one, [`pick`] any one that will do, [`withdraw`]
//! takes contributions back, [`export`] writes records out.

pub mod aggregate;
pub mod ask;
pub mod chunk;
pub mod collect;
pub mod damage;
pub mod deliver;
pub mod edit;
pub mod export;
mod http;
pub mod import;
pub mod pick;
pub mod queue;
pub mod record;
pub mod settle;
pub mod split;
pub mod tags;
pub mod transition;
pub mod withdraw;
pub mod work;

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
