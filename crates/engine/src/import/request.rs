//! What to import, and what an import reports while it runs.

use crate::work::TaskReport;
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
    /// Whose records.
    pub tenant: Tenant,
    /// The time of the delivery, in microseconds; default: the modification time of each job's first file.
    pub as_of: Option<i64>,
    /// What the documents tell of a list, if not all: the part of their contributor's name.
    pub part: Option<String>,
    /// Whether the files retire what they lack, however much that is: for sources whose files take the place of others.
    pub retires_all: bool,
}

/// Bytes to be imported that come in once.
#[derive(Debug, Clone)]
pub struct UploadRequest {
    /// What they are called.
    pub name: String,
    /// Their number, if it is known.
    pub size: Option<u64>,
    /// A profile of the definition.
    pub profile: Option<String>,
    /// A source of the definition.
    pub source: Option<String>,
    /// Whose records.
    pub tenant: Tenant,
    /// The time of the delivery, in microseconds; default: now.
    pub as_of: Option<i64>,
    /// As in [`ImportRequest`].
    pub retires_all: bool,
}

/// Something to show while an import runs.
#[derive(Debug, Clone, Copy)]
pub struct ImportProgress {
    /// Bytes cut so far, of all files.
    pub bytes: u64,
    /// Bytes of all files.
    pub all_bytes: u64,
    /// Documents committed.
    pub documents: u64,
    /// Documents of chunks that have been cut.
    pub split: u64,
    /// Whether all files have been cut.
    pub complete: bool,
}

impl ImportProgress {
    pub(crate) fn of(files: &[JobFile], cut: SplitProgress, documents: u64) -> Self {
        let all_bytes = files.iter().map(|file| file.size).sum();
        let before: u64 = files.iter().take(cut.file).map(|file| file.size).sum();
        Self { bytes: (before + cut.offset).min(all_bytes), all_bytes, documents, split: cut.documents, complete: cut.complete }
    }
}

/// What an import tells while it runs.
#[derive(Debug)]
pub enum ImportEvent {
    /// How far it is.
    Progress(ImportProgress),
    /// What a pass has settled.
    Settled(TaskReport),
}
