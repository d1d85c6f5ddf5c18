//! Whether a job can be undone, and if not, why, and what to do instead.

use crate::job::policy::policy;
use crate::tags::is_rebuild;
use crate::{EngineError, Result};
use std::collections::BTreeSet;
use stook_catalogue::definition::{Catalogue, OnMatched, OnUnmatched, Source};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::show_timestamp;
use stook_store::Store;
use stook_store::former::OtherJob;
use stook_store::queue::{Job, JobState};

/// A job that can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undoable {
    /// Until when, in microseconds.
    pub until: i64,
}

/// Returns until when a job can be undone.
///
/// # Errors
/// When it cannot be undone, or the store fails.
pub fn undoable(catalogue: &Catalogue, store: &dyn Store, job: &Job) -> Result<Undoable> {
    let refuse = |reason: String| Err(EngineError::Wrong(format!("job {} cannot be undone: {reason}", job.id)));
    if let Some(undone) = job.undoes() {
        return refuse(format!("it undoes job {undone}; import the files of that one again"));
    }
    if is_rebuild(&job.source).is_some() {
        return refuse("it evaluates tags, which contributes nothing".into());
    }
    let Some((_, source)) = catalogue.source(&job.source) else {
        return refuse(format!("the definition has no source `{}` any more", job.source));
    };
    let Some(kept) = source.undo else {
        let advice =
            format!("with `undo: 30d` in the definition of the source, jobs that begin from then on can be; `stook withdraw {}`", source.name);
        return refuse(format!("what jobs of `{}` replace is not kept; {advice} removes everything that the source has contributed", source.name));
    };
    if !job.state.is_final() {
        return refuse(format!("it has not ended; `stook cancel {}` ends it", job.id));
    }
    let until = job.created.saturating_add(i64::try_from(kept.as_micros()).unwrap_or(i64::MAX));
    if until < store.clock() {
        return refuse(format!("what it replaced was kept until {}, as `undo` of `{}` says", show_timestamp(until), source.name));
    }
    if store.first_undoable(&source.name)?.is_none_or(|first| job.id < first) {
        return refuse(format!(
            "not everything that it replaced is kept: it was created before `{}` said `undo`, or said it for as long",
            source.name
        ));
    }
    if policy(catalogue, job.profile.as_deref(), job.id)?.matched == OnMatched::Withdraw {
        return refuse("it withdrew contributions, which are not kept; import their documents again".into());
    }
    for other in store.other_jobs(job.id)? {
        if other.source == job.source && !other.state.is_final() {
            return refuse(format!("job {} of `{}` has not ended; wait for it, or end it with `stook cancel {}`", other.id, source.name, other.id));
        }
        if other.state != JobState::Undone && decides_by_existence(catalogue, source, &other) {
            let profile = other.profile.unwrap_or_default();
            return refuse(format!(
                "which documents job {} imported was decided, by its profile `{profile}`, by which records existed with this job; undo that one first",
                other.id
            ));
        }
    }
    Ok(Undoable { until })
}

/// Whether another job has decided, by which records existed, what to do with documents for records of a source.
fn decides_by_existence(catalogue: &Catalogue, source: &Source, other: &OtherJob) -> bool {
    let Some((_, other_source)) = catalogue.source(&other.source) else { return false };
    if collections(catalogue, source).is_disjoint(&collections(catalogue, other_source)) {
        return false;
    }
    // what a profile said that the definition no longer has is not known
    let Ok(policy) = policy(catalogue, other.profile.as_deref(), other.id) else { return true };
    !matches!((policy.matched, policy.unmatched), (OnMatched::Update, OnUnmatched::Create) | (OnMatched::Withdraw, OnUnmatched::Skip))
}

/// The collections that a source feeds, also with embedded documents.
fn collections(catalogue: &Catalogue, source: &Source) -> BTreeSet<CollectionId> {
    let embedded = source.embeds.iter().map(|embedded| &catalogue.sources[embedded.source]);
    std::iter::once(source).chain(embedded).flat_map(|source| &source.feeds).map(|feed| feed.collection).collect()
}
