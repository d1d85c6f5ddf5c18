//! What to import, and what an import reports while it runs.

use crate::chunk::changes::ChangeSummary;
use crate::work::TaskReport;
use std::collections::BTreeMap;
use std::path::PathBuf;
use stook_store::Tenant;
use stook_store::queue::{JobFile, SplitProgress};

/// What to import, and how.
#[derive(Debug, Clone)]
pub struct ImportRequest {
    /// Files, in their order.
    pub files: Vec<PathBuf>,
    /// A profile of the definition.
    pub profile: Option<String>,
    /// A source of the definition.
    pub source: Option<String>,
    /// The tenant of the records.
    pub tenant: Tenant,
    /// The time of the delivery, in microseconds; default: the modification time of each job's first file.
    pub as_of: Option<i64>,
    /// The part of the contributor's name, if the documents contain only a part of a list.
    pub part: Option<String>,
    /// The values that a service was asked for, if the documents are its answer.
    pub arguments: BTreeMap<String, String>,
    /// Whether the files may retire whatever they lack, however much that is, if the source says `replaces:`.
    pub retires_all: bool,
    /// Whether files are imported that are not as their source expects; otherwise those with `do: stop` are not.
    pub unexpected: bool,
}

/// An import of bytes that can be read only once.
#[derive(Debug, Clone)]
pub struct UploadRequest {
    /// The name of the bytes, such as a file name.
    pub name: String,
    /// The number of bytes, if known.
    pub size: Option<u64>,
    /// A profile of the definition.
    pub profile: Option<String>,
    /// A source of the definition.
    pub source: Option<String>,
    /// The tenant of the records.
    pub tenant: Tenant,
    /// The time of the delivery, in microseconds; default: now.
    pub as_of: Option<i64>,
    /// As in [`ImportRequest`].
    pub retires_all: bool,
    /// As in [`ImportRequest`].
    pub unexpected: bool,
}

/// The progress of an import.
#[derive(Debug, Clone, Copy)]
pub struct ImportProgress {
    /// Bytes of all files that have been split so far.
    pub bytes: u64,
    /// Bytes of all files.
    pub all_bytes: u64,
    /// Number of documents committed.
    pub documents: u64,
    /// Number of documents in chunks so far.
    pub split: u64,
    /// Whether all files have been split.
    pub complete: bool,
}

impl ImportProgress {
    pub(crate) fn new(files: &[JobFile], progress: SplitProgress, documents: u64) -> Self {
        let all_bytes = files.iter().map(|file| file.size).sum();
        let before: u64 = files.iter().take(progress.file).map(|file| file.size).sum();
        Self { bytes: (before + progress.offset).min(all_bytes), all_bytes, documents, split: progress.documents, complete: progress.complete }
    }
}

/// What an import reports while it runs.
#[derive(Debug)]
pub enum ImportEvent {
    /// Its progress.
    Progress(ImportProgress),
    /// A chunk was committed that changes this.
    Changed(ChangeSummary),
    /// A settle pass was committed.
    Settled(TaskReport),
}
