//! What a job does with documents of records that exist, and with documents of others.

use crate::{EngineError, Result};
use stook_catalogue::definition::{Catalogue, OnMatched, OnUnmatched};
use stook_store::queue::JobId;

/// The job of what no job has written: what it wrote before is never its own.
pub const NO_JOB: JobId = stook_store::queue::JobRef::None.number();

/// What an import does with documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportPolicy {
    /// The job; [`NO_JOB`] for none: then nothing that was written before is its own.
    pub job: JobId,
    /// For records that existed before it.
    pub matched: OnMatched,
    /// For the others.
    pub unmatched: OnUnmatched,
}

impl ImportPolicy {
    /// Whether what this job has written is what is asked about.
    pub(crate) fn wrote(&self, job: JobId) -> bool {
        self.job != NO_JOB && self.job == job
    }
}

/// The policy of a profile, or of none.
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
