//! What a job does with documents that match a record, and with documents that do not.

use crate::{EngineError, Result};
use stook_catalogue::definition::{Catalogue, OnMatched, OnUnmatched};
use stook_store::queue::JobId;

/// The job number of writes without a job; these never count as written by the same job.
pub const NO_JOB: JobId = stook_store::queue::JobRef::None.number();

/// What an import does with documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportPolicy {
    /// The job; [`NO_JOB`] for none, so that nothing counts as written by it.
    pub job: JobId,
    /// What is done with documents for records that existed before the job.
    pub matched: OnMatched,
    /// What is done with other documents.
    pub unmatched: OnUnmatched,
}

impl ImportPolicy {
    /// Whether `job` is this job.
    pub(crate) fn wrote(&self, job: JobId) -> bool {
        self.job != NO_JOB && self.job == job
    }
}

/// The policy of a profile, or the default one.
///
/// # Errors
/// When the definition has no such profile.
pub(crate) fn policy(catalogue: &Catalogue, profile: Option<&str>, job: JobId) -> Result<ImportPolicy> {
    match profile {
        None => Ok(ImportPolicy { job, matched: OnMatched::Update, unmatched: OnUnmatched::Create }),
        Some(name) => {
            let profile = catalogue.profile(name).ok_or_else(|| EngineError::Wrong(format!("there is no profile `{name}` any more")))?;
            Ok(ImportPolicy { job, matched: profile.matched, unmatched: profile.unmatched })
        }
    }
}
