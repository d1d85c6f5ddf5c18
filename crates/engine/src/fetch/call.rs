//! One call of a service: its pages are requested and imported, and what a complete answer does not repeat is withdrawn.

use super::answer::{AnswerState, AnswerStore, ServiceAnswer, is_wide, noted};
use super::bind::{BoundArguments, part};
use super::limits::ServiceLimits;
use super::run::FetchRun;
use crate::relations::SettleRules;
use crate::{EngineError, Result};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use stook_catalogue::ids::SourceId;
use stook_store::journal::Outcome;
use stook_store::queue::JobState;
use stook_store::{Store, Tenant};

/// A call to be made.
pub struct FetchRequest<'q> {
    /// The tenant of the records.
    pub tenant: &'q Tenant,
    /// The source's index.
    pub source: SourceId,
    /// The call's index.
    pub call: usize,
    /// The conditions to pass.
    pub arguments: BoundArguments,
    /// The path with its arguments.
    pub request: &'q str,
}

/// Makes a call, imports its pages and stores the answer.
///
/// # Errors
/// When the store fails; failures of the service are part of the answer.
pub fn fetch(
    rules: &Arc<SettleRules>,
    store: &dyn Store,
    limits: &[ServiceLimits],
    question: &FetchRequest<'_>,
    stop: &AtomicBool,
) -> Result<ServiceAnswer> {
    let catalogue = &rules.catalogue;
    let source = &catalogue.sources[question.source];
    let Some(asks) = &source.asks else { return Err(EngineError::Wrong(format!("source `{}` does not fetch on demand", source.name))) };
    let collection = &catalogue.collections[source.feeds[0].collection];
    let (service, call) = (&catalogue.services[asks.service], &asks.calls[question.call]);
    let known = AnswerStore { store, tenant: question.tenant, collection, asks };
    let begun = store.clock();
    let old = known.of(question.request)?;
    let asked_before = !old.is_empty();
    for old in old.iter().filter(|old| old.state == AnswerState::Running && old.expires < begun) {
        // the process that made this call has died
        for job in &old.jobs {
            if store.job_state(*job).is_ok_and(|state| !state.is_final()) {
                store.end_job(*job, JobState::Cancelled, "superseded by a newer fetch")?;
            }
        }
    }
    let wide = is_wide(&question.arguments);
    let mut answer =
        ServiceAnswer::begun(question.request, &call.name, noted(collection, call, &question.arguments), begun, begun + service.deadline);
    known.note(&answer, wide)?;
    let mut fetching = FetchRun {
        rules,
        store,
        tenant: question.tenant,
        source,
        service,
        limits: &limits[asks.service],
        until: Instant::now() + limits[asks.service].deadline,
        part: part(collection, call, &question.arguments),
        stop,
        ttl: None,
        beginning: String::new(),
    };
    let fetched = fetching.pages(call, question.request, &mut answer, &mut |answer| known.note(answer, wide));
    match fetched {
        Err(EngineError::Store(error)) => return Err(error.into()),
        Err(error) => {
            answer.state = if answer.documents > answer.failed { AnswerState::Partial } else { AnswerState::Failed };
            answer.reason = Some(match error {
                EngineError::NoDocument { reason, .. } => format!("its answer {reason}"),
                other => other.to_string(),
            });
        }
        Ok(()) if answer.failed > 0 => {
            answer.state = if answer.documents > answer.failed { AnswerState::Partial } else { AnswerState::Failed };
            let jobs: Vec<String> = answer.jobs.iter().map(ToString::to_string).collect();
            let first =
                fetching.first_of(&answer.jobs, |outcome| outcome == Outcome::Failed)?.map(|reason| format!(" ({reason})")).unwrap_or_default();
            let (failed, all) = (answer.failed, answer.documents);
            // an error message may be a document of the same format
            let first = if answer.state == AnswerState::Failed { format!("{first}, which begins with: {}", fetching.beginning) } else { first };
            answer.reason = Some(format!("{failed} of {all} documents could not be read{first}; see the journal of job {}", jobs.join(", ")));
        }
        Ok(()) => answer.state = AnswerState::Complete,
    }
    if answer.state == AnswerState::Complete && (asked_before || known.has_others(question.request)?) {
        answer.retired += fetching.retire(&known, (call, &question.arguments), begun)?;
    }
    let ttl = match answer.state {
        AnswerState::Complete => fetching.ttl.unwrap_or(if answer.documents == 0 { service.ttl_empty } else { service.ttl }),
        _ => service.ttl_failed,
    };
    answer.ended = store.clock();
    answer.expires = answer.ended.saturating_add(ttl);
    known.note(&answer, wide)?;
    // keep the jobs of the last complete answer and of attempts since, which another process may have stored meanwhile
    let kept = known.of(question.request)?;
    for job in old.iter().flat_map(|old| &old.jobs).filter(|job| !kept.iter().any(|kept| kept.jobs.contains(job))) {
        if store.job_state(*job).is_ok_and(JobState::is_final) {
            store.forget_job(*job)?;
        }
    }
    // documents that were imported here may be older than a newer answer that does not contain them
    for newer in known.newer(begun)? {
        if let Some((call, told)) = known.told(&newer) {
            fetching.retire(&known, (&asks.calls[call], &told), newer.begun)?;
        }
    }
    Ok(answer)
}
