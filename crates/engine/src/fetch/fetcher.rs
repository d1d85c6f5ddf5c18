//! Fetches from services what queries need: which calls are made, which are in progress, and which answers are fetched ahead.

use super::answer::{AnswerState, AnswerStore, ServiceAnswer};
use super::bind::{BoundArguments, MissingCondition, QueryConditions};
use super::call::{FetchRequest, fetch};
use super::limits::ServiceLimits;
use super::options::{FetchOptions, FetchPolicy};
use super::status::ServiceStatus;
use super::url::path;
use crate::Result;
use crate::relations::SettleRules;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stook_catalogue::definition::{Catalogue, Collection, Service, ServiceBinding, Source};
use stook_catalogue::ids::{CollectionId, FieldId, SourceId};
use stook_store::cancel;
use stook_store::plan::{PlanColumn, QueryPlan};
use stook_store::{Store, Tenant};

/// Fetches from services for one process; a call that several queries need at once is made once.
pub struct Fetcher {
    rules: Arc<SettleRules>,
    limits: Vec<ServiceLimits>,
    in_flight: Mutex<HashMap<FetchKey, Arc<InFlightFetch>>>,
    /// Answers that were used lately, with the time when they were looked up, by tenant, source and conditions.
    recent: Mutex<HashMap<FetchKey, (Instant, ServiceAnswer)>>,
    /// Answers that queries have used, of services that are fetched ahead, by request, with the number of uses.
    in_demand: Mutex<HashMap<FetchKey, (ServiceAnswer, u32)>>,
    /// The newest answer of each source, by tenant.
    newest: Mutex<HashMap<(Tenant, SourceId), ServiceAnswer>>,
    stop: AtomicBool,
}

/// The number of times that an answer must have been used to be fetched ahead.
const MIN_USES_AHEAD: u32 = 2;
/// The maximum number of calls that are made ahead at once.
const MAX_CALLS_AHEAD: usize = 32;
/// How long an answer is used without reading the store, where another process may have put a newer one.
const CACHE_TIME: Duration = Duration::from_secs(1);
/// The maximum number of answers in `recent`, and in `in_demand`.
const MAX_CACHED_ANSWERS: usize = 10_000;

/// Tenant, source, and conditions or request.
type FetchKey = (Tenant, SourceId, String);

/// How often a query that waits for a service checks whether it has been cancelled.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// A call in progress.
pub(super) struct InFlightFetch {
    ended: Mutex<Option<ServiceAnswer>>,
    changed: Condvar,
}

impl InFlightFetch {
    pub(super) fn wait(&self, until: Instant) -> Option<ServiceAnswer> {
        let mut ended = lock(&self.ended);
        while ended.is_none() {
            let mut remaining = until.checked_duration_since(Instant::now()).filter(|remaining| !remaining.is_zero())?;
            if let Some(cancel_token) = cancel::CancelToken::current() {
                // the call continues after this: other queries may wait for it, and its answer is stored
                remaining = Some(remaining.min(CANCEL_CHECK_INTERVAL)).filter(|_| !cancel_token.is_cancelled())?;
            }
            ended = self.changed.wait_timeout(ended, remaining).unwrap_or_else(PoisonError::into_inner).0;
        }
        ended.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A source that may have documents for a query.
pub(super) struct CandidateSource<'c> {
    pub(super) index: SourceId,
    pub(super) source: &'c Source,
    pub(super) binding: &'c ServiceBinding,
    pub(super) service: &'c Service,
    pub(super) collection: &'c Collection,
}

impl<'c> CandidateSource<'c> {
    /// The source with this id, if it is fetched from.
    fn from_source(catalogue: &'c Catalogue, index: SourceId) -> Option<Self> {
        let source = &catalogue.sources[index];
        let binding = source.asks.as_ref()?;
        let (service, collection) = (&catalogue.services[binding.service], &catalogue.collections[source.feeds[0].collection]);
        Some(Self { index, source, binding, service, collection })
    }

    /// The status of a source that is not fetched from.
    pub(super) fn unfetched(&self) -> ServiceStatus {
        ServiceStatus {
            service: self.service.name.clone(),
            source: self.source.name.clone(),
            through: None,
            request: None,
            default_arguments: None,
            answer: None,
            cached: false,
            reason: None,
        }
    }

    fn answers<'k>(&'k self, store: &'k dyn Store, tenant: &'k Tenant) -> AnswerStore<'k> {
        AnswerStore { store, tenant, collection: self.collection, binding: self.binding }
    }
}

/// What to do about a source.
pub(super) enum FetchStep {
    Done(ServiceStatus),
    Wait(ServiceStatus, Arc<InFlightFetch>),
}

impl Fetcher {
    /// A fetcher that has made no calls yet.
    pub fn new(catalogue: &Arc<Catalogue>) -> Arc<Self> {
        let limits = catalogue.services.iter().map(ServiceLimits::new).collect();
        Arc::new(Self {
            rules: Arc::new(SettleRules::new(catalogue)),
            limits,
            in_flight: Mutex::default(),
            recent: Mutex::default(),
            in_demand: Mutex::default(),
            newest: Mutex::default(),
            stop: AtomicBool::new(false),
        })
    }

    pub(super) fn catalogue(&self) -> &Arc<Catalogue> {
        &self.rules.catalogue
    }

    /// Whether any call of a collection's sources has an argument for a field.
    pub(super) fn takes(&self, collection: CollectionId, field: FieldId) -> bool {
        self.candidates(collection).any(|candidate| candidate.binding.calls.iter().flat_map(|call| &call.args).any(|arg| arg.field == field))
    }

    /// The longest time that fetching an answer of a source may take.
    pub(super) fn deadline(&self, source: SourceId) -> Duration {
        self.rules.catalogue.sources[source].asks.as_ref().map_or(Duration::ZERO, |binding| self.limits[binding.service].deadline)
    }

    /// The status of each source that is fetched from: the newest answer that this process has fetched for a tenant, and the number of its calls in
    /// progress.
    pub fn services(&self, tenant: &Tenant) -> Vec<(ServiceStatus, usize)> {
        let catalogue = &self.rules.catalogue;
        let candidates = catalogue.sources.ids().filter_map(|index| CandidateSource::from_source(catalogue, index));
        let (newest, flights) = (lock(&self.newest), lock(&self.in_flight));
        candidates
            .map(|candidate| {
                let answer = newest.get(&(tenant.clone(), candidate.index)).cloned();
                let request = answer.as_ref().map(|answer| answer.request.clone());
                let running = flights.keys().filter(|(owner, source, _)| owner == tenant && *source == candidate.index).count();
                (ServiceStatus { request, answer, cached: true, ..candidate.unfetched() }, running)
            })
            .collect()
    }

    /// Prevents further requests; those in progress fail.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    pub(super) fn candidates(&self, collection: CollectionId) -> impl Iterator<Item = CandidateSource<'_>> {
        let catalogue = &self.rules.catalogue;
        let feeds = move |candidate: &CandidateSource<'_>| candidate.source.feeds[0].collection == collection;
        catalogue.sources.ids().filter_map(|index| CandidateSource::from_source(catalogue, index)).filter(feeds)
    }

    /// Looks for an answer of a source that covers a plan; if there is none, starts a call.
    pub(super) fn step(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        (plan, aggregated): (&QueryPlan, &[PlanColumn]),
        options: FetchOptions,
        candidate: &CandidateSource<'_>,
    ) -> Result<FetchStep> {
        let (collection, service) = (candidate.collection, candidate.service);
        let conditions = QueryConditions::from_plan(collection, candidate.binding, plan, aggregated);
        let status = candidate.unfetched();
        let key = (plan.tenant.clone(), candidate.index, format!("{:?}{}", plan.conditions, conditions.needs()));
        let (now, answers) = (store.clock(), candidate.answers(&**store, &plan.tenant));
        if options.when != FetchPolicy::Always {
            let is_recent = |(read, answer): &&(Instant, ServiceAnswer)| read.elapsed() < CACHE_TIME && answer.expires > now;
            let recent = lock(&self.recent).get(&key).filter(is_recent).map(|(_, answer)| answer.clone());
            let is_new = recent.is_none();
            let found = match recent {
                Some(answer) => Some(answer),
                None => answers.covering(&conditions, now)?,
            };
            if let Some(answer) = found {
                let is_fresh = answer.expires > now;
                if is_fresh && service.ahead.is_some() {
                    self.note_use(&plan.tenant, candidate.index, &answer);
                }
                if is_fresh || options.when == FetchPolicy::Background {
                    let has_defaults = candidate.binding.calls.iter().flat_map(|call| &call.args).any(|arg| arg.default.is_some());
                    let bound_arguments = if has_defaults { answers.bound_arguments(&answer) } else { None };
                    let by_default = bound_arguments
                        .and_then(|(call, bound_arguments)| conditions.by_default(collection, &candidate.binding.calls[call], &bound_arguments));
                    let status = ServiceStatus {
                        request: Some(answer.request.clone()),
                        default_arguments: by_default,
                        cached: true,
                        answer: Some(answer.clone()),
                        ..status
                    };
                    if is_fresh && is_new {
                        let mut recent = lock(&self.recent);
                        if recent.len() >= MAX_CACHED_ANSWERS {
                            recent.clear();
                        }
                        recent.insert(key, (Instant::now(), answer));
                    }
                    if !is_fresh && let Ok((call, bound_arguments)) = choose(candidate, &conditions) {
                        let request = path(collection, &candidate.binding.calls[call], &bound_arguments, &service.wildcard);
                        self.start_call(store, &plan.tenant, candidate.index, (call, bound_arguments, request));
                    }
                    return Ok(FetchStep::Done(status));
                }
            }
        }
        let (call, bound_arguments) = match choose(candidate, &conditions) {
            Ok(chosen) => chosen,
            Err(missing) => {
                let reason = format!("it requires {missing}");
                return Ok(FetchStep::Done(ServiceStatus { reason: Some(reason), ..status }));
            }
        };
        let request = path(collection, &candidate.binding.calls[call], &bound_arguments, &service.wildcard);
        let status =
            ServiceStatus { default_arguments: conditions.by_default(collection, &candidate.binding.calls[call], &bound_arguments), ..status };
        // a call that has just failed is not repeated at once
        if options.when != FetchPolicy::Always {
            let failed = |answer: &ServiceAnswer| matches!(answer.state, AnswerState::Failed | AnswerState::Partial) && answer.expires > now;
            if let Some(answer) = answers.answers_to(&request)?.into_iter().find(failed) {
                return Ok(FetchStep::Done(ServiceStatus { request: Some(request), answer: Some(answer), cached: true, ..status }));
            }
        }
        let flight = self.start_call(store, &plan.tenant, candidate.index, (call, bound_arguments, request.clone()));
        Ok(FetchStep::Wait(ServiceStatus { request: Some(request), ..status }, flight))
    }

    fn note_use(&self, tenant: &Tenant, source: SourceId, answer: &ServiceAnswer) {
        let mut in_demand = lock(&self.in_demand);
        if in_demand.len() < MAX_CACHED_ANSWERS {
            let entry = in_demand.entry((tenant.clone(), source, answer.request.clone())).or_insert_with(|| (answer.clone(), 0));
            entry.0.clone_from(answer);
            entry.1 += 1;
        }
    }

    /// Fetches again answers that will expire soon and that queries have used since they were fetched, the most used ones first. To be called at
    /// intervals.
    ///
    /// # Errors
    /// When the store fails.
    pub fn refresh(self: &Arc<Self>, store: &Arc<dyn Store>) -> Result<()> {
        let now = store.clock();
        let catalogue = &self.rules.catalogue;
        let ahead = |source: SourceId| CandidateSource::from_source(catalogue, source)?.service.ahead;
        let mut due: Vec<(u32, FetchKey, ServiceAnswer)> = Vec::new();
        lock(&self.in_demand).retain(|key, (answer, times)| {
            let soon = answer.expires - ahead(key.1).unwrap_or(0) <= now;
            let is_due = soon && *times >= MIN_USES_AHEAD && answer.expires > now;
            if is_due {
                due.push((*times, key.clone(), answer.clone()));
            }
            // those over the limit are fetched by a later refresh
            !soon || is_due
        });
        due.sort_by_key(|(times, ..)| std::cmp::Reverse(*times));
        for (_, key, answer) in due.into_iter().take(MAX_CALLS_AHEAD) {
            lock(&self.in_demand).remove(&key);
            let (tenant, source, request) = key;
            let Some(candidate) = CandidateSource::from_source(catalogue, source) else { continue };
            let answers = candidate.answers(&**store, &tenant);
            // another process may have fetched it meanwhile
            let is_newest = !answers.answers_to(&request)?.iter().any(|other| other.started > answer.started && other.state != AnswerState::Failed);
            if let Some((call, bound_arguments)) = answers.bound_arguments(&answer).filter(|_| is_newest) {
                self.start_call(store, &tenant, source, (call, bound_arguments, request));
            }
        }
        Ok(())
    }

    /// Forgets what is known of a source's older answers, after a new one.
    fn forget(&self, (tenant, source, request): &FetchKey) {
        lock(&self.recent).retain(|(owner, own, _), _| owner != tenant || own != source);
        lock(&self.in_demand).remove(&(tenant.clone(), *source, request.clone()));
    }

    /// Starts a call on a thread of its own, unless it is already in progress.
    fn start_call(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        tenant: &Tenant,
        source: SourceId,
        (call, bound_arguments, request): (usize, BoundArguments, String),
    ) -> Arc<InFlightFetch> {
        let key = (tenant.clone(), source, request);
        let mut flights = lock(&self.in_flight);
        if let Some(flight) = flights.get(&key) {
            return flight.clone();
        }
        let flight = Arc::new(InFlightFetch { ended: Mutex::new(None), changed: Condvar::new() });
        flights.insert(key.clone(), flight.clone());
        drop(flights);
        let (fetcher, store, call_in_progress) = (self.clone(), store.clone(), flight.clone());
        std::thread::spawn(move || {
            let fetch_request = FetchRequest { tenant: &key.0, source, call, arguments: bound_arguments, request: &key.2 };
            let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                fetch(&fetcher.rules, &*store, &fetcher.limits, &fetch_request, &fetcher.stop)
            }));
            let answer = match answer {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => ServiceAnswer::failed(&key.2, store.clock(), error.to_string()),
                Err(_) => ServiceAnswer::failed(&key.2, store.clock(), "the fetch failed with an internal error".into()),
            };
            fetcher.forget(&key);
            lock(&fetcher.in_flight).remove(&key);
            lock(&fetcher.newest).insert((key.0, source), answer.clone());
            *lock(&call_in_progress.ended) = Some(answer);
            call_in_progress.changed.notify_all();
        });
        flight
    }
}

/// The call that takes most of a query's conditions, and of several the cheapest; or the conditions that are missing.
pub(super) fn choose(candidate: &CandidateSource<'_>, conditions: &QueryConditions<'_>) -> std::result::Result<(usize, BoundArguments), String> {
    let mut best: Option<(usize, BoundArguments)> = None;
    let mut missing: Vec<MissingCondition> = Vec::new();
    for (index, call) in candidate.binding.calls.iter().enumerate() {
        match conditions.bind(candidate.collection, call, |_| true) {
            Ok(bound_arguments) => {
                let better = |(other, best_arguments): &(usize, BoundArguments)| {
                    (bound_arguments.len(), std::cmp::Reverse(call.cost))
                        > (best_arguments.len(), std::cmp::Reverse(candidate.binding.calls[*other].cost))
                };
                if best.as_ref().is_none_or(better) {
                    best = Some((index, bound_arguments));
                }
            }
            Err(wanted) if !missing.contains(&wanted) => missing.push(wanted),
            Err(_) => {}
        }
    }
    best.ok_or_else(|| {
        let fields: Vec<&str> =
            missing.iter().filter_map(|wanted| if let MissingCondition::Any(field) = wanted { Some(&**field) } else { None }).collect();
        let any = (!fields.is_empty()).then(|| format!("a condition on {}", fields.join(" or ")));
        let forms = missing.iter().filter_map(|wanted| if let MissingCondition::Form(words) = wanted { Some(words.clone()) } else { None });
        any.into_iter().chain(forms).collect::<Vec<_>>().join(", or ")
    })
}
