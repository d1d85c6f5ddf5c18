//! Counters in the text format of Prometheus.

use super::health::SourceMetrics;
use super::totals::ProcessTotals;
use crate::guard::tokens::ExpiringToken;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;
use stook_store::stats::StoreStats;
use stook_store::{DEFAULT_TENANT, Store};

/// Labels of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: Arc<str>,
    method: &'static str,
    tenant: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestStepLabels {
    route: Arc<str>,
    tenant: Arc<str>,
    stage: RequestStep,
}

/// The steps of a request. The difference between two counters is the number of requests that got no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(missing_docs, reason = "the names say it")]
pub enum RequestStep {
    Accepted,
    Started,
    StoreReached,
    Completed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabels {
    route: Arc<str>,
    tenant: Arc<str>,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabels {
    stage: &'static str,
    tenant: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskOutcomeLabels {
    stage: &'static str,
    tenant: Arc<str>,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GaugeLabels {
    what: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    token: u64,
    tenant: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CacheLabels {
    kind: &'static str,
    result: &'static str,
}

/// What is looked up in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachedKind {
    /// Records by key.
    Record,
    /// Keys by value.
    List,
}

/// All counters.
pub struct Metrics {
    registry: Registry,
    stages: Family<RequestStepLabels, Counter>,
    answers: Family<StatusLabels, Counter>,
    duration: Family<RouteLabels, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    given_up: Counter,
    connections: Gauge,
    gauges: Family<GaugeLabels, Gauge>,
    store_calls: Family<GaugeLabels, Counter>,
    token_expiry: Family<TokenLabels, Gauge>,
    /// Hits and misses of records and of lists.
    cached: [[Counter; 2]; 2],
    commits: Counter,
    written: Counter,
    writing: Counter<f64, AtomicU64>,
    /// Sums over all labels, for the history of the last hour.
    pub totals: ProcessTotals,
    work: Family<TaskLabels, Histogram, fn() -> Histogram>,
    outcomes: Family<TaskOutcomeLabels, Counter>,
    by_hash: RwLock<HashMap<u64, (CounterKey, Arc<RequestCounters>)>>,
    hasher: RandomState,
    tenants: KnownTenants,
    /// Of sources.
    pub sources: SourceMetrics,
}

fn seconds() -> Histogram {
    Histogram::new([0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0])
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("stook");
        let (stages, answers, in_flight, connections) = (Family::default(), Family::default(), Gauge::default(), Gauge::default());
        let given_up = Counter::default();
        registry.register("given_up", "Requests cancelled because the client disconnected", given_up.clone());
        let (gauges, store_calls, cached) = (Family::default(), Family::default(), Family::<CacheLabels, Counter>::default());
        let duration = Family::<RouteLabels, Histogram, fn() -> Histogram>::new_with_constructor(seconds);
        let work = Family::<TaskLabels, Histogram, fn() -> Histogram>::new_with_constructor(seconds);
        let outcomes = Family::default();
        registry.register_with_unit("stage_duration", "Duration of chunks and settle passes, up to their commit", Unit::Seconds, work.clone());
        registry.register("stage_outcomes", "Documents by outcome, and rows written by settle passes", outcomes.clone());
        registry.register("requests", "Requests by the step they reached", stages.clone());
        registry.register("answers", "Responses by status", answers.clone());
        registry.register_with_unit("request_duration", "Time from the request's header to the response", Unit::Seconds, duration.clone());
        registry.register("in_flight", "Requests in progress", in_flight.clone());
        registry.register("connections", "Open connections", connections.clone());
        registry.register("state", "State of queue, admission and cache", gauges.clone());
        registry.register("store_calls", "Store lookups", store_calls.clone());
        let token_expiry = Family::default();
        registry.register_with_unit("token_expires_timestamp", "When tokens expire, in seconds since 1970", Unit::Seconds, token_expiry.clone());
        let (commits, written, writing) = (Counter::default(), Counter::default(), Counter::default());
        registry.register("store_commits", "Transactions that this process has committed", commits.clone());
        registry.register("store_rows", "Rows of records they have written", written.clone());
        registry.register_with_unit("store_writing", "Time spent in write transactions; connections overlap", Unit::Seconds, writing.clone());
        registry.register("cache", "Cache lookups by result", cached.clone());
        let sources = SourceMetrics::registered(&mut registry);
        Self {
            registry,
            stages,
            answers,
            duration,
            in_flight,
            given_up,
            connections,
            gauges,
            store_calls,
            token_expiry,
            cached: ["record", "list"].map(|kind| ["hit", "miss"].map(|result| cached.get_or_create_owned(&CacheLabels { kind, result }))),
            commits,
            written,
            writing,
            totals: ProcessTotals::default(),
            work,
            outcomes,
            by_hash: RwLock::default(),
            hasher: RandomState::new(),
            tenants: KnownTenants::default(),
            sources,
        }
    }
}

/// The label of tenants of which nothing is stored.
pub const UNKNOWN_TENANT: &str = "-";

/// The tenants of which something is stored.
#[derive(Default)]
struct KnownTenants {
    names: RwLock<HashSet<Box<str>>>,
    /// Whether a request has named another one since they were read.
    is_outdated: AtomicBool,
}

impl KnownTenants {
    fn contains(&self, tenant: &str) -> bool {
        let is_known = tenant == DEFAULT_TENANT || self.names.read().is_ok_and(|names| names.contains(tenant));
        if !is_known {
            self.is_outdated.store(true, Ordering::Relaxed);
        }
        is_known
    }

    fn refresh(&self, store: &dyn Store) -> stook_store::Result<()> {
        if self.is_outdated.swap(false, Ordering::Relaxed) {
            let names = store.tenants()?.iter().map(|tenant| tenant.as_str().into()).collect();
            if let Ok(mut known) = self.names.write() {
                *known = names;
            }
        }
        Ok(())
    }
}

/// Counters of one route, method and tenant, so that a request finds them only once.
pub struct RequestCounters {
    /// The tenant, or `-` if it is not known.
    pub tenant: Arc<str>,
    route: Arc<str>,
    stages: [Counter; 4],
    duration: Histogram,
    /// Counters of the statuses returned so far.
    answers: RwLock<Vec<(u16, Counter)>>,
}

/// Route, method, tenant.
type CounterKey = (Box<str>, &'static str, Box<str>);

impl RequestCounters {
    /// Counts that the request has reached a step.
    pub fn count_step(&self, step: RequestStep) {
        self.stages[step as usize].inc();
    }

    /// The route's pattern.
    pub fn route(&self) -> &str {
        &self.route
    }
}

impl Metrics {
    /// Returns the counters of a request of a caller whose token is for all tenants. What names a tenant of which nothing is stored counts for `-`, so that
    /// callers cannot invent labels.
    pub fn counters_of_named(&self, route: &str, method: &'static str, tenant: &str) -> Arc<RequestCounters> {
        self.counters(route, method, if self.tenants.contains(tenant) { tenant } else { UNKNOWN_TENANT })
    }

    /// Reads the names of tenants again, if requests have named others.
    ///
    /// # Errors
    /// When the store fails.
    pub fn refresh_tenants(&self, store: &dyn Store) -> stook_store::Result<()> {
        self.tenants.refresh(store)
    }

    /// Returns the counters of a request.
    pub fn counters(&self, route: &str, method: &'static str, tenant: &str) -> Arc<RequestCounters> {
        let hash = self.hasher.hash_one((route, method, tenant));
        let fits = |labels: &CounterKey| *labels.0 == *route && labels.1 == method && *labels.2 == *tenant;
        let find = |cache: &HashMap<u64, (CounterKey, Arc<RequestCounters>)>| {
            cache.get(&hash).filter(|(labels, _)| fits(labels)).map(|(_, counters)| counters.clone())
        };
        if let Some(counters) = self.by_hash.read().ok().and_then(|cache| find(&cache)) {
            return counters;
        }
        let (shared_route, shared_tenant): (Arc<str>, Arc<str>) = (route.into(), tenant.into());
        let stage = |stage| {
            let labels = RequestStepLabels { route: shared_route.clone(), tenant: shared_tenant.clone(), stage };
            self.stages.get_or_create(&labels).clone()
        };
        let stages = [RequestStep::Accepted, RequestStep::Started, RequestStep::StoreReached, RequestStep::Completed].map(stage);
        let labels = RouteLabels { route: shared_route.clone(), method, tenant: shared_tenant.clone() };
        let duration = self.duration.get_or_create(&labels).clone();
        let counters = Arc::new(RequestCounters { tenant: shared_tenant, route: shared_route, stages, duration, answers: RwLock::default() });
        if let Ok(mut cache) = self.by_hash.write() {
            cache.insert(hash, ((route.into(), method, tenant.into()), counters.clone()));
        }
        counters
    }

    /// Counts a finished request.
    pub fn count_response(&self, request: &RequestCounters, status: u16, took: Duration) {
        request.count_step(RequestStep::Completed);
        self.totals.count_response(status, took);
        request.duration.observe(took.as_secs_f64());
        let count_known =
            |answers: &Vec<(u16, Counter)>| answers.iter().find(|(known, _)| *known == status).map(|(_, counter)| counter.inc()).is_some();
        if request.answers.read().is_ok_and(|answers| count_known(&answers)) {
            return;
        }
        let labels = StatusLabels { route: request.route.clone(), tenant: request.tenant.clone(), status };
        let counter = self.answers.get_or_create(&labels).clone();
        counter.inc();
        if let Ok(mut answers) = request.answers.write() {
            answers.push((status, counter));
        }
    }

    /// Requests in progress.
    pub fn in_flight(&self) -> &Gauge {
        &self.in_flight
    }

    /// Requests cancelled because the client disconnected.
    pub fn given_up(&self) -> &Counter {
        &self.given_up
    }

    /// Open connections.
    pub fn connections(&self) -> &Gauge {
        &self.connections
    }

    /// Counts a read from the store by a lookup.
    pub fn count_store_call(&self, what: &'static str) {
        self.totals.store_lookups.fetch_add(1, Ordering::Relaxed);
        self.store_calls.get_or_create(&GaugeLabels { what }).inc();
    }

    /// Counts hits and misses of the cache.
    pub fn count_cached(&self, kind: CachedKind, hits: usize, misses: usize) {
        let [hit_counter, miss_counter] = &self.cached[kind as usize];
        for (count, total, counter) in [(hits, &self.totals.hits, hit_counter), (misses, &self.totals.misses, miss_counter)] {
            if count > 0 {
                total.fetch_add(count as u64, Ordering::Relaxed);
                counter.inc_by(count as u64);
            }
        }
    }

    /// Counts a committed chunk or settle pass.
    pub fn count_task(&self, stage: &stook_engine::work::TaskReport) {
        let tenant: Arc<str> = stage.tenant.as_str().into();
        self.work.get_or_create(&TaskLabels { stage: stage.name, tenant: tenant.clone() }).observe(stage.took.as_secs_f64());
        let count = |outcome: &'static str, times: u64| {
            if times > 0 {
                self.outcomes.get_or_create(&TaskOutcomeLabels { stage: stage.name, tenant: tenant.clone(), outcome }).inc_by(times);
            }
        };
        self.totals.documents.fetch_add(stage.counts.documents.max(0) as u64, Ordering::Relaxed);
        for (outcome, name) in stook_store::journal::OUTCOMES {
            count(name, stage.counts.of(outcome).max(0) as u64);
        }
        if stage.job.is_none() {
            self.totals.settled.fetch_add(stage.rows, Ordering::Relaxed);
            count("settled", stage.rows);
            count("damaged", stage.damaged.len() as u64);
            count("failing", stage.failures.count);
        }
    }

    /// Sets a gauge; called when the metrics are read.
    pub fn set(&self, what: &'static str, value: u64) {
        self.gauges.get_or_create(&GaugeLabels { what }).set(value as i64);
    }

    /// Sets when tokens expire; called when the metrics are read.
    pub fn set_token_expiry(&self, tokens: &[ExpiringToken]) {
        self.token_expiry.clear();
        for token in tokens {
            let labels = TokenLabels { token: token.id, tenant: token.tenant.clone().unwrap_or_else(|| "*".into()) };
            self.token_expiry.get_or_create(&labels).set(token.expires / 1_000_000);
        }
    }

    /// Sets the metrics of the store.
    pub fn store(&self, stats: &StoreStats) {
        self.commits.inner().store(stats.commits, Ordering::Relaxed);
        self.written.inner().store(stats.rows, Ordering::Relaxed);
        self.writing.inner().store(stats.write_time.as_secs_f64().to_bits(), Ordering::Relaxed);
        self.set("store_waiting", stats.waiting);
        self.set("store_connections", stats.connections);
        self.set("store_connections_in_use", stats.connections_in_use);
        self.set("store_bytes", stats.bytes);
    }

    /// Returns all metrics as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // writing to memory does not fail
        let _ = encode(&mut out, &self.registry);
        out
    }
}
