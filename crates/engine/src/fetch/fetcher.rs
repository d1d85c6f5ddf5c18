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
use stook_store::plan::{Aggregate, QueryPlan};
use stook_store::wanted;
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
const OFTEN: u32 = 2;
/// The maximum number of calls that are made ahead at once.
const MOST_AHEAD: usize = 32;
/// How long an answer is used without reading the store, where another process may have put a newer one.
const LATELY: Duration = Duration::from_secs(1);
/// The maximum number of answers in `recent`, and in `in_demand`.
const MOST_LATELY: usize = 10_000;

/// Tenant, source, and conditions or request.
type FetchKey = (Tenant, SourceId, String);

/// How often a query that waits for a service checks whether it has been cancelled.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// A call in progress.
pub(super) struct InFlightFetch {
    ended: Mutex<Option<ServiceAnswer>>,
    changed: Condvar,
}

impl InFlightFetch {
    pub(super) fn wait(&self, until: Instant) -> Option<ServiceAnswer> {
        let mut ended = lock(&self.ended);
        while ended.is_none() {
            let mut left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            if let Some(wanted) = wanted::CancelToken::now() {
                // the call continues after this: other queries may wait for it, and its answer is stored
                left = Some(left.min(LOOK_AGAIN)).filter(|_| !wanted.is_over())?;
            }
            ended = self.changed.wait_timeout(ended, left).unwrap_or_else(PoisonError::into_inner).0;
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
    pub(super) asks: &'c ServiceBinding,
    pub(super) service: &'c Service,
    pub(super) collection: &'c Collection,
}

impl<'c> CandidateSource<'c> {
    /// The source with this id, if it is fetched from.
    fn of(catalogue: &'c Catalogue, index: SourceId) -> Option<Self> {
        let source = &catalogue.sources[index];
        let asks = source.asks.as_ref()?;
        let (service, collection) = (&catalogue.services[asks.service], &catalogue.collections[source.feeds[0].collection]);
        Some(Self { index, source, asks, service, collection })
    }

    /// The status of a source that is not fetched from.
    pub(super) fn unasked(&self) -> ServiceStatus {
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

    fn known<'k>(&'k self, store: &'k dyn Store, tenant: &'k Tenant) -> AnswerStore<'k> {
        AnswerStore { store, tenant, collection: self.collection, asks: self.asks }
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
        self.candidates(collection).any(|candidate| candidate.asks.calls.iter().flat_map(|call| &call.args).any(|arg| arg.field == field))
    }

    /// The longest time that fetching an answer of a source may take.
    pub(super) fn deadline(&self, source: SourceId) -> Duration {
        self.rules.catalogue.sources[source].asks.as_ref().map_or(Duration::ZERO, |asks| self.limits[asks.service].deadline)
    }

    /// The status of each source that is fetched from: the newest answer that this process has fetched for a tenant, and the number of its calls in
    /// progress.
    pub fn services(&self, tenant: &Tenant) -> Vec<(ServiceStatus, usize)> {
        let catalogue = &self.rules.catalogue;
        let candidates = catalogue.sources.ids().filter_map(|index| CandidateSource::of(catalogue, index));
        let (newest, flights) = (lock(&self.newest), lock(&self.in_flight));
        candidates
            .map(|candidate| {
                let answer = newest.get(&(tenant.clone(), candidate.index)).cloned();
                let asked = answer.as_ref().map(|answer| answer.asked.clone());
                let running = flights.keys().filter(|(whose, source, _)| whose == tenant && *source == candidate.index).count();
                (ServiceStatus { request: asked, answer, cached: true, ..candidate.unasked() }, running)
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
        catalogue.sources.ids().filter_map(|index| CandidateSource::of(catalogue, index)).filter(feeds)
    }

    /// Looks for an answer of a source that covers a plan; if there is none, starts a call.
    pub(super) fn step(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        (plan, aggregates): (&QueryPlan, &[Aggregate]),
        wish: FetchOptions,
        candidate: &CandidateSource<'_>,
    ) -> Result<FetchStep> {
        let (collection, service) = (candidate.collection, candidate.service);
        let conditions = QueryConditions::of(collection, candidate.asks, plan, aggregates);
        let status = candidate.unasked();
        let place = (plan.tenant.clone(), candidate.index, format!("{:?}{}", plan.conditions, conditions.needs()));
        let (now, known) = (store.clock(), candidate.known(&**store, &plan.tenant));
        if wish.when != FetchPolicy::Always {
            let is_known = |known: &&(Instant, ServiceAnswer)| known.0.elapsed() < LATELY && known.1.expires > now;
            let lately = lock(&self.recent).get(&place).filter(is_known).map(|(_, answer)| answer.clone());
            let is_new = lately.is_none();
            let found = match lately {
                Some(answer) => Some(answer),
                None => known.covering(&conditions, now)?,
            };
            if let Some(answer) = found {
                let is_fresh = answer.expires > now;
                if is_fresh && service.ahead.is_some() {
                    self.note_need(&plan.tenant, candidate.index, &answer);
                }
                if is_fresh || wish.when == FetchPolicy::Background {
                    let has_defaults = candidate.asks.calls.iter().flat_map(|call| &call.args).any(|arg| arg.default.is_some());
                    let told = if has_defaults { known.told(&answer) } else { None };
                    let by_default = told.and_then(|(call, told)| conditions.by_default(collection, &candidate.asks.calls[call], &told));
                    let status = ServiceStatus {
                        request: Some(answer.asked.clone()),
                        default_arguments: by_default,
                        cached: true,
                        answer: Some(answer.clone()),
                        ..status
                    };
                    if is_fresh && is_new {
                        let mut lately = lock(&self.recent);
                        if lately.len() >= MOST_LATELY {
                            lately.clear();
                        }
                        lately.insert(place, (Instant::now(), answer));
                    }
                    if !is_fresh && let Ok((call, told)) = choose(candidate, &conditions) {
                        let asked = path(collection, &candidate.asks.calls[call], &told, &service.wildcard);
                        self.fly(store, &plan.tenant, candidate.index, (call, told, asked));
                    }
                    return Ok(FetchStep::Done(status));
                }
            }
        }
        let (call, told) = match choose(candidate, &conditions) {
            Ok(chosen) => chosen,
            Err(missing) => {
                let reason = format!("it requires {missing}");
                return Ok(FetchStep::Done(ServiceStatus { reason: Some(reason), ..status }));
            }
        };
        let asked = path(collection, &candidate.asks.calls[call], &told, &service.wildcard);
        let status = ServiceStatus { default_arguments: conditions.by_default(collection, &candidate.asks.calls[call], &told), ..status };
        // a call that has just failed is not repeated at once
        if wish.when != FetchPolicy::Always {
            let failed = |answer: &ServiceAnswer| matches!(answer.state, AnswerState::Failed | AnswerState::Partial) && answer.expires > now;
            if let Some(answer) = known.of(&asked)?.into_iter().find(failed) {
                return Ok(FetchStep::Done(ServiceStatus { request: Some(asked), answer: Some(answer), cached: true, ..status }));
            }
        }
        let flight = self.fly(store, &plan.tenant, candidate.index, (call, told, asked.clone()));
        Ok(FetchStep::Wait(ServiceStatus { request: Some(asked), ..status }, flight))
    }

    fn note_need(&self, tenant: &Tenant, source: SourceId, answer: &ServiceAnswer) {
        let mut needed = lock(&self.in_demand);
        if needed.len() < MOST_LATELY {
            let own = needed.entry((tenant.clone(), source, answer.asked.clone())).or_insert_with(|| (answer.clone(), 0));
            own.0.clone_from(answer);
            own.1 += 1;
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
        let ahead = |source: SourceId| CandidateSource::of(catalogue, source)?.service.ahead;
        let mut due: Vec<(u32, FetchKey, ServiceAnswer)> = Vec::new();
        lock(&self.in_demand).retain(|place, (answer, times)| {
            let soon = answer.expires - ahead(place.1).unwrap_or(0) <= now;
            let is_due = soon && *times >= OFTEN && answer.expires > now;
            if is_due {
                due.push((*times, place.clone(), answer.clone()));
            }
            // those over the limit are fetched by a later refresh
            !soon || is_due
        });
        due.sort_by_key(|(times, ..)| std::cmp::Reverse(*times));
        for (_, place, answer) in due.into_iter().take(MOST_AHEAD) {
            lock(&self.in_demand).remove(&place);
            let (tenant, source, asked) = place;
            let Some(candidate) = CandidateSource::of(catalogue, source) else { continue };
            let known = candidate.known(&**store, &tenant);
            // another process may have fetched it meanwhile
            let is_newest = !known.of(&asked)?.iter().any(|other| other.begun > answer.begun && other.state != AnswerState::Failed);
            if let Some((call, told)) = known.told(&answer).filter(|_| is_newest) {
                self.fly(store, &tenant, source, (call, told, asked));
            }
        }
        Ok(())
    }

    /// Forgets what is known of a source's older answers, after a new one.
    fn forget(&self, (tenant, source, asked): &FetchKey) {
        lock(&self.recent).retain(|(whose, own, _), _| whose != tenant || own != source);
        lock(&self.in_demand).remove(&(tenant.clone(), *source, asked.clone()));
    }

    /// Starts a call on a thread of its own, unless it is already in progress.
    fn fly(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        tenant: &Tenant,
        source: SourceId,
        (call, told, asked): (usize, BoundArguments, String),
    ) -> Arc<InFlightFetch> {
        let place = (tenant.clone(), source, asked);
        let mut flights = lock(&self.in_flight);
        if let Some(flight) = flights.get(&place) {
            return flight.clone();
        }
        let flight = Arc::new(InFlightFetch { ended: Mutex::new(None), changed: Condvar::new() });
        flights.insert(place.clone(), flight.clone());
        drop(flights);
        let (asker, store, own) = (self.clone(), store.clone(), flight.clone());
        std::thread::spawn(move || {
            let question = FetchRequest { tenant: &place.0, source, call, arguments: told, request: &place.2 };
            let answer =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fetch(&asker.rules, &*store, &asker.limits, &question, &asker.stop)));
            let answer = match answer {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => ServiceAnswer::failed(&place.2, store.clock(), error.to_string()),
                Err(_) => ServiceAnswer::failed(&place.2, store.clock(), "the fetch failed with an internal error".into()),
            };
            asker.forget(&place);
            lock(&asker.in_flight).remove(&place);
            lock(&asker.newest).insert((place.0, source), answer.clone());
            *lock(&own.ended) = Some(answer);
            own.changed.notify_all();
        });
        flight
    }
}

/// The call that takes most of a query's conditions, and of several the cheapest; or the conditions that are missing.
pub(super) fn choose(candidate: &CandidateSource<'_>, conditions: &QueryConditions<'_>) -> std::result::Result<(usize, BoundArguments), String> {
    let mut best: Option<(usize, BoundArguments)> = None;
    let mut missing: Vec<MissingCondition> = Vec::new();
    for (place, call) in candidate.asks.calls.iter().enumerate() {
        match conditions.bind(candidate.collection, call, |_| true) {
            Ok(told) => {
                let better = |(other, known): &(usize, BoundArguments)| {
                    (told.len(), std::cmp::Reverse(call.cost)) > (known.len(), std::cmp::Reverse(candidate.asks.calls[*other].cost))
                };
                if best.as_ref().is_none_or(better) {
                    best = Some((place, told));
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
