//! Imports: files, uploads and deliveries become jobs, chunks and committed records.
//!
//! [`sort_files`] finds the source of each file. [`create`] checks the files, also what their source expects of them (`expect.rs`), and writes a job
//! ([`plan`]). [`run()`] splits them into chunks
//! ([`split`]) while workers process these, and settles what follows. [`split_files`] and [`upload`] leave the chunks in the queue for workers of
//! other processes. [`dry_run()`] does everything but write. [`deliver`] writes a few documents in one transaction, without a job. [`write_failed`] writes
//! the documents that failed as files again, and [`retry`] imports them.

pub mod deliver;
pub mod dry_run;
mod expect;
pub mod failed;
pub mod files;
pub mod plan;
pub mod queued;
pub mod request;
pub mod run;
pub mod split;

pub use crate::job::file::UPLOADED;
pub use dry_run::{DryRunLimits, DryRunReport, dry_run};
pub use failed::{FailedFiles, FailedReport, Together, retry, write_failed};
pub use files::{SortedFiles, sort_files};
pub use plan::{create, create_all};
pub use queued::{split_files, upload};
pub use request::{ImportEvent, ImportProgress, ImportRequest, UploadRequest};
pub use run::run;
