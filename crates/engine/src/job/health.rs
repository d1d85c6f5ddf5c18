//! How sources are doing, by their newest jobs.

use std::collections::BTreeMap;
use stook_catalogue::definition::Catalogue;
use stook_store::journal::Outcome;
use stook_store::queue::{Job, JobState};

/// The jobs that are looked at, of all tenants.
pub const LOOKED_AT: usize = 500;

/// How a source is doing for a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceHealth {
    /// The tenant.
    pub tenant: String,
    /// The source.
    pub source: String,
    /// When the last job ended of which documents were imported, in microseconds.
    pub last_success: Option<i64>,
    /// The bytes of its files.
    pub bytes: u64,
    /// The last job that has ended.
    pub last_job: u64,
    /// How that job has ended.
    pub state: Option<JobState>,
    /// The documents of that job that failed.
    pub failed_documents: u64,
    /// Why that job failed as a whole, if it did.
    pub failure: Option<String>,
}

/// How sources are doing, by jobs with the newest first. Sources of which none is among these jobs are left out.
#[must_use]
pub fn source_health(catalogue: &Catalogue, jobs: &[Job]) -> Vec<SourceHealth> {
    let mut all: BTreeMap<(&str, &str), SourceHealth> = BTreeMap::new();
    for job in jobs.iter().filter(|job| catalogue.source(&job.source).is_some()) {
        let Some(finished) = job.finished else { continue };
        let health = all.entry((&job.tenant, &job.source)).or_insert_with(|| SourceHealth {
            tenant: job.tenant.clone(),
            source: job.source.clone(),
            last_job: job.id,
            state: Some(job.state),
            failed_documents: job.counts.of(Outcome::Failed).max(0).unsigned_abs(),
            failure: job.reason.clone().filter(|_| job.state == JobState::Failed),
            ..SourceHealth::default()
        });
        if health.last_success.is_none() && matches!(job.state, JobState::Completed | JobState::CompletedWithErrors) {
            health.last_success = Some(finished);
            health.bytes = job.files.iter().map(|file| file.size).sum();
        }
    }
    all.into_values().collect()
}
