//! What all chunks of a job share, and how many of the records that they contribute to exist.

use super::policy::{ImportPolicy, policy};
use crate::relations::SettleRules;
use crate::{EngineError, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use stook_catalogue::ids::{CollectionId, SourceId};
use stook_store::Tenant;
use stook_store::queue::Job;

/// What all chunks of a job share.
#[derive(Clone)]
pub struct JobContext {
    /// The definition, and the relations between its collections.
    pub rules: Arc<SettleRules>,
    /// The tenant of the records.
    pub tenant: Tenant,
    /// The source's index.
    pub source: SourceId,
    /// What is done with documents that match a record and with those that do not.
    pub policy: ImportPolicy,
    /// The time of the delivery, in microseconds.
    pub received: i64,
    /// When the store accepted it, in microseconds by the store's clock; this orders deliveries, whichever is processed first.
    pub accepted: i64,
    /// How many of the records that its documents contribute to exist.
    pub match_ratio: Arc<MatchRatio>,
}

/// How many of the records that a job's documents contribute to existed already, by collection. If next to none did, chunks are written without
/// reading their records first: the store reports those that exist, and they are merged again. Reading a key that does not exist costs a page of
/// the key index, as much as reading one that does.
#[derive(Debug, Default)]
pub struct MatchRatio(Mutex<HashMap<CollectionId, (u64, u64)>>);

impl MatchRatio {
    /// The number of records after which the ratio is used.
    const MIN_RECORDS: u64 = 500;
    /// The number of records after which older ones count half.
    const HALVE_AFTER: u64 = 20_000;
    /// Records count as seldom if at most one in this many exists.
    const MIN_RECORDS_PER_MATCH: u64 = 50;

    pub(crate) fn note(&self, collection: CollectionId, records: usize, existing: usize) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = all.entry(collection).or_default();
        *counts = (counts.0 + records as u64, counts.1 + existing as u64);
        if counts.0 > Self::HALVE_AFTER {
            *counts = (counts.0 / 2, counts.1 / 2);
        }
    }

    pub(crate) fn is_seldom(&self, collection: CollectionId) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&collection).is_some_and(|(records, existing)| *records >= Self::MIN_RECORDS && existing * Self::MIN_RECORDS_PER_MATCH <= *records)
    }
}

/// What the chunks of a job share.
///
/// # Errors
/// When the definition no longer has its source or its profile.
pub(crate) fn context(rules: &Arc<SettleRules>, job: &Job) -> Result<JobContext> {
    let catalogue = &rules.catalogue;
    let (source, _) = catalogue.source(&job.source).ok_or_else(|| no_source(&job.source))?;
    let received = job.as_of.or_else(|| job.files.first().map(|file| file.modified)).unwrap_or(job.created);
    Ok(JobContext {
        rules: rules.clone(),
        tenant: Tenant::new(&job.tenant)?,
        source,
        policy: policy(catalogue, job.profile.as_deref(), job.id)?,
        received,
        accepted: job.created,
        match_ratio: Arc::default(),
    })
}

pub(crate) fn no_source(name: &str) -> EngineError {
    EngineError::Wrong(format!("there is no source `{name}` any more"))
}
