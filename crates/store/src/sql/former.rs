//! What both stores share of keeping former contributions.

use crate::damage::Damage;
use crate::queue::JobId;
use crate::{Result, StoreError};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::key::Key;

/// The beginning of the names in `meta` under which the first job of a source is that can be undone.
const FIRST_JOB: &str = "undo ";

/// The name in `meta` under which the first job of a source is that can be undone.
pub fn first_job_name(source: &str) -> String {
    format!("{FIRST_JOB}{source}")
}

/// The source of a name that [`first_job_name`] has made.
pub fn source_of(name: &str) -> Option<&str> {
    name.strip_prefix(FIRST_JOB)
}

/// Whether former contributions are kept for any source.
pub fn has_undo(catalogue: &Catalogue) -> bool {
    catalogue.sources.iter().any(|source| source.undo.is_some())
}

/// Reads the number of the first job of a source that can be undone.
pub fn job_number(source: &str, text: &str) -> Result<JobId> {
    let damaged =
        |_| StoreError::Damaged(Damage::of_row(format!("the first job of `{source}` that can be undone"), format!("{text:?} is no number")));
    text.parse().map_err(damaged)
}

/// Reads the key of a record with former contributions.
pub fn key(text: &str) -> Result<Key> {
    Key::new(text).map_err(|error| StoreError::Damaged(Damage::of_row("a former contribution", error.to_string())))
}

/// The error for undoing a job that has not ended.
pub fn not_ended(job: JobId) -> StoreError {
    StoreError::Wrong(format!("job {job} has not ended; `stook cancel {job}` ends it, then it can be undone"))
}

/// The error for undoing a job for which not everything is kept any more.
pub fn no_longer_undoable(job: JobId) -> StoreError {
    StoreError::Wrong(format!("job {job} cannot be undone: what it has replaced is not kept, or not any more"))
}
