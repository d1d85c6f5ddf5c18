//! One call of a service: its pages are requested and imported, and what a complete answer does not repeat is withdrawn.

use super::answer::{AnswerState, AnswerStore, ServiceAnswer, is_wide, noted};
use super::bind::{BoundArguments, part, single_values};
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
    request: &FetchRequest<'_>,
    stop: &AtomicBool,
) -> Result<ServiceAnswer> {
    let catalogue = &rules.catalogue;
    let source = &catalogue.sources[request.source];
    let Some(binding) = &source.asks else { return Err(EngineError::Wrong(format!("source `{}` does not fetch on demand", source.name))) };
    let collection = &catalogue.collections[source.feeds[0].collection];
    let (service, call) = (&catalogue.services[binding.service], &binding.calls[request.call]);
    let answers = AnswerStore { store, tenant: request.tenant, collection, binding };
    let started = store.clock();
    let old = answers.answers_to(request.request)?;
    let was_requested_before = !old.is_empty();
    for old in old.iter().filter(|old| old.state == AnswerState::Running && old.expires < started) {
        // the process that made this call has died
        for job in &old.jobs {
            if store.job_state(*job).is_ok_and(|state| !state.is_final()) {
                store.end_job(*job, JobState::Cancelled, "superseded by a newer fetch")?;
            }
        }
    }
    let is_wide_request = is_wide(&request.arguments);
    let mut answer =
        ServiceAnswer::running(request.request, &call.name, noted(collection, call, &request.arguments), started, started + service.deadline);
    answers.store_answer(&answer, is_wide_request)?;
    let mut run = FetchRun {
        rules,
        store,
        tenant: request.tenant,
        source,
        service,
        limits: &limits[binding.service],
        until: Instant::now() + limits[binding.service].deadline,
        part: part(collection, call, &request.arguments),
        arguments: single_values(collection, call, &request.arguments),
        stop,
        ttl: None,
        beginning: String::new(),
    };
    let fetched = run.pages(call, request.request, &mut answer, &mut |answer| answers.store_answer(answer, is_wide_request));
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
                run.first_issue_of(&answer.jobs, |outcome| outcome == Outcome::Failed)?.map(|reason| format!(" ({reason})")).unwrap_or_default();
            let (failed, all) = (answer.failed, answer.documents);
            // an error message may be a document of the same format
            let first = if answer.state == AnswerState::Failed { format!("{first}, which begins with: {}", run.beginning) } else { first };
            answer.reason = Some(format!("{failed} of {all} documents could not be read{first}; see the journal of job {}", jobs.join(", ")));
        }
        Ok(()) => answer.state = AnswerState::Complete,
    }
    if answer.state == AnswerState::Complete && (was_requested_before || answers.has_other_requests(request.request)?) {
        answer.retired += run.withdraw_unrepeated(&answers, (call, &request.arguments), started)?;
    }
    let ttl = match answer.state {
        AnswerState::Complete => run.ttl.unwrap_or(if answer.documents == 0 { service.ttl_empty } else { service.ttl }),
        _ => service.ttl_failed,
    };
    answer.ended = store.clock();
    answer.expires = answer.ended.saturating_add(ttl);
    answers.store_answer(&answer, is_wide_request)?;
    // keep the jobs of the last complete answer and of attempts since, which another process may have stored meanwhile
    let current = answers.answers_to(request.request)?;
    for job in old.iter().flat_map(|old| &old.jobs).filter(|job| !current.iter().any(|current| current.jobs.contains(job))) {
        if store.job_state(*job).is_ok_and(JobState::is_final) {
            store.forget_job(*job)?;
        }
    }
    // documents that were imported here may be older than a newer answer that does not contain them
    for newer in answers.newer(started)? {
        if let Some((call, bound_arguments)) = answers.bound_arguments(&newer) {
            run.withdraw_unrepeated(&answers, (&binding.calls[call], &bound_arguments), newer.started)?;
        }
    }
    Ok(answer)
}
