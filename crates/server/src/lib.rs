//! The HTTP API: records, queries, jobs, transitions, declared routes.
//!
//! A request goes through [`connection`] (limits on what a peer may do with time and memory), the guard in [`guard`]
//! (who calls, a place among the requests in work, counting) and then to the room that answers it: [`records`], [`query`],
//! [`transitions`], [`jobs`], [`tokens`], [`routes`]. Look-ups go through [`reads`] and its exact [`cache`]. [`openapi`]
//! describes all of it.

pub mod access;
pub mod admission;
mod asks;
pub mod cache;
mod connection;
mod counts;
mod coverage;
mod deliver;
mod events;
mod guard;
mod history;
mod jobs;
mod log;
pub mod metrics;
pub mod openapi;
mod pace;
mod pages;
mod problem;
mod query;
mod reads;
mod records;
mod request;
mod routes;
mod runs;
mod services;
mod shown;
mod suggest;
mod summary;
mod tags;
mod tenants;
mod tokens;
mod transitions;

use access::TokenCache;
use admission::{AdmissionGate, ClassLimits, RequestClass};
use axum::Router;
use axum::body::Body;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post};
use metrics::Metrics;
use reads::LookupService;
use request::RequestContext;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::expr::Evaluator;
use stook_engine::ask::{FetchOptions, Fetcher, ServiceStatus};
use stook_engine::pick::PickGroups;
use stook_engine::settle::SettleRules;
use stook_query::CompiledQuery;
use stook_store::Store;
use tokio::sync::Semaphore;
use tower_http::compression::CompressionLayer;

pub use connection::{serve, serve_routes};
pub use guard::guarded;
pub use jobs::work;
pub use log::{RequestLogLevel, worked};

/// How the API is served.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Limits of requests that somebody waits for.
    pub interactive: ClassLimits,
    /// Limits of uploads and exports.
    pub bulk: ClassLimits,
    /// Limits of those who watch jobs.
    pub watch: ClassLimits,
    /// Longest time a request may take.
    pub request_time: Duration,
    /// Longest time without progress of a peer that sends or receives.
    pub stall: Duration,
    /// Most bytes of a body, uploads aside.
    pub body: usize,
    /// Most bytes of an upload.
    pub upload: u64,
    /// Most connections.
    pub connections: usize,
    /// Bytes of the cache; 0 for none.
    pub cache: u64,
    /// The folder from which files may be imported by name.
    pub files: Option<PathBuf>,
    /// The folder of runs of the lab that are shown.
    pub runs: Option<PathBuf>,
    /// What is logged of requests.
    pub log: RequestLogLevel,
    /// Whether only this machine can reach the server.
    pub loopback: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            interactive: ClassLimits { most: 128, wait: Duration::from_millis(100) },
            bulk: ClassLimits { most: 8, wait: Duration::from_millis(100) },
            watch: ClassLimits { most: 64, wait: Duration::ZERO },
            request_time: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            body: 1 << 20,
            upload: 4 << 30,
            connections: 4_096,
            cache: 256 << 20,
            files: None,
            runs: None,
            log: RequestLogLevel::Problems,
            loopback: true,
        }
    }
}

/// Everything that requests share.
pub struct App {
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) rules: Arc<SettleRules>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) reads: LookupService,
    pub(crate) asker: Arc<Fetcher>,
    pub(crate) vocabularies: suggest::VocabularyCache,
    pub(crate) counts: counts::RecordCountCache,
    pub(crate) unanswered: query::PendingQueries,
    pub(crate) history: history::MetricsHistory,
    pub(crate) picks: PickGroups,
    /// Queries that may wait for services: others find a place while some of these are slow.
    pub(crate) waiting: Arc<Semaphore>,
    pub(crate) tokens: TokenCache,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) interactive: AdmissionGate,
    pub(crate) bulk: AdmissionGate,
    pub(crate) watch: AdmissionGate,
    /// Bytes of bodies that are read before their requests have a place.
    pub(crate) gathered: Arc<Semaphore>,
    pub(crate) options: ServerOptions,
    pub(crate) openapi: bytes::Bytes,
    /// Threads that do whole look-ups: more would only take the processor from each other.
    pub(crate) lookers: Arc<Semaphore>,
    /// Set when no new work is taken.
    pub(crate) ending: AtomicBool,
    /// Why the import workers do nothing at the moment.
    pub(crate) workers_failed: Mutex<Option<String>>,
    pub(crate) requests: guard::RequestIds,
}

impl App {
    /// An application on an opened store.
    ///
    /// # Errors
    /// When the store fails.
    pub fn new(catalogue: Arc<Catalogue>, store: Arc<dyn Store>, options: ServerOptions) -> stook_store::Result<Arc<Self>> {
        let metrics = Arc::new(Metrics::default());
        let reads = LookupService::new(catalogue.clone(), store.clone(), options.cache, metrics.clone())?;
        let tokens = TokenCache::read(&*store, options.loopback)?;
        let openapi = openapi::document(&catalogue, None).to_string().into();
        Ok(Arc::new(Self {
            asker: Fetcher::new(&catalogue),
            vocabularies: suggest::VocabularyCache::default(),
            counts: counts::RecordCountCache::default(),
            unanswered: query::PendingQueries::default(),
            history: history::MetricsHistory::default(),
            picks: PickGroups::default(),
            waiting: Arc::new(Semaphore::new((options.interactive.most / 2).max(1))),
            interactive: AdmissionGate::new(options.interactive),
            bulk: AdmissionGate::new(options.bulk),
            watch: AdmissionGate::new(options.watch),
            gathered: Arc::new(Semaphore::new(guard::MOST_GATHERED)),
            rules: Arc::new(SettleRules::new(&catalogue)),
            catalogue,
            store,
            reads,
            tokens,
            metrics,
            options,
            openapi,
            lookers: Arc::new(Semaphore::new(2 * std::thread::available_parallelism().map_or(2, usize::from))),
            ending: AtomicBool::new(false),
            workers_failed: Mutex::default(),
            requests: guard::RequestIds::default(),
        }))
    }

    /// Asks services for what a query needs. Where too many wait already, nobody waits: what is missing is asked for all the same.
    pub(crate) fn ask(&self, query: &CompiledQuery, wish: FetchOptions) -> stook_engine::Result<Vec<ServiceStatus>> {
        let place = self.waiting.try_acquire().ok();
        let time = if place.is_some() { wish.time } else { Some(Duration::ZERO) };
        self.asker.ask(&self.store, &query.plan, &query.aggregates, FetchOptions { time, ..wish })
    }

    pub(crate) fn evaluator(&self) -> Evaluator {
        Evaluator::new(self.catalogue.tables.clone())
    }

    pub(crate) fn gate(&self, class: RequestClass) -> &AdmissionGate {
        match class {
            RequestClass::Interactive => &self.interactive,
            RequestClass::Bulk => &self.bulk,
            RequestClass::Watch => &self.watch,
        }
    }
}

/// The routes of an application.
pub fn router(app: &Arc<App>) -> Router {
    let v1 = Router::new()
        .route("/v1", get(tenants::list))
        .route("/v1/{tenant}", get(records::overview))
        .route("/v1/{tenant}/query", get(query::get).post(query::post).layer(CompressionLayer::new()))
        .route("/v1/{tenant}/query/asked/{id}", get(query::again).layer(CompressionLayer::new()))
        .route("/v1/{tenant}/query/facets", get(query::narrow))
        .route("/v1/{tenant}/query/completions", get(query::go_on))
        .route("/v1/{tenant}/suggest", get(suggest::get))
        .route("/v1/{tenant}/coverage", get(coverage::days))
        .route("/v1/{tenant}/coverage/children", get(coverage::children))
        .route("/v1/{tenant}/services", get(services::list))
        .route("/v1/{tenant}/lookup", post(records::lookup))
        .route("/v1/{tenant}/lab", get(runs::list))
        .route("/v1/{tenant}/lab/{run}", get(runs::one).layer(CompressionLayer::new()))
        .route("/v1/{tenant}/lab/{run}/report", get(runs::report).layer(CompressionLayer::new()))
        .route("/v1/{tenant}/pick", post(transitions::pick))
        .route("/v1/{tenant}/deliver", post(deliver::create))
        .route("/v1/{tenant}/jobs", get(jobs::list))
        .route("/v1/{tenant}/jobs/{job}", get(jobs::one))
        .route("/v1/{tenant}/jobs/{job}/journal", get(jobs::journal))
        .route("/v1/{tenant}/jobs/{job}/chunks", get(jobs::chunks))
        .route("/v1/{tenant}/jobs/{job}/chunks/{chunk}/rechunk", post(jobs::rechunk))
        .route("/v1/{tenant}/jobs/{job}/documents/{document}", get(jobs::document))
        .route("/v1/{tenant}/jobs/{job}/cancel", post(jobs::cancel))
        .route("/v1/{tenant}/jobs/{job}/retry", post(jobs::retry))
        .route("/v1/{tenant}/tokens", get(tokens::list).post(tokens::create))
        .route("/v1/{tenant}/tokens/{token}", delete(tokens::revoke));
    let mut v1 = v1.merge(routes::router(&app.catalogue));
    let rows = get(query::export_rows).layer(CompressionLayer::new());
    let mut bulk = Router::new().route("/v1/{tenant}/import", post(jobs::create)).route("/v1/{tenant}/export", rows);
    for (index, collection) in app.catalogue.collections.iter().enumerate() {
        v1 = v1.merge(of_collection(index, collection));
        let export = move |ctx: RequestContext| query::export(ctx.about(index));
        bulk = bulk.route(&format!("/v1/{{tenant}}/export/{}", collection.name), get(export).layer(CompressionLayer::new()));
    }
    let events = Router::new().route("/v1/{tenant}/jobs/{job}/events", get(jobs::events)).route("/v1/{tenant}/query/events", get(query::events));
    let numbered = from_fn_with_state(app.clone(), guard::numbered);
    let open = Router::new()
        .route("/healthz", get(guard::healthy))
        .route("/readyz", get(guard::ready))
        .route("/openapi.json", get(openapi::serve))
        .route("/metrics", get(guard::metrics))
        .route("/metrics/history", get(history::get))
        .route("/metrics/summary", get(summary::get))
        .route_layer(numbered.clone());
    let api = Router::new()
        .merge(guarded(app, RequestClass::Interactive, v1))
        .merge(guarded(app, RequestClass::Bulk, bulk))
        .merge(guarded(app, RequestClass::Watch, events))
        .merge(open)
        .method_not_allowed_fallback(guard::wrong_method.layer(numbered.clone()))
        .fallback(guard::nothing_there.layer(numbered))
        .with_state(app.clone());
    // pages ask the API as others do
    pages::router(app, &api).merge(api)
}

/// The routes of a collection's records.
fn of_collection(index: usize, collection: &Collection) -> Router<Arc<App>> {
    let all = format!("/v1/{{tenant}}/{}", collection.name);
    let one = format!("{all}/{{key}}");
    let item = get(move |ctx: RequestContext| records::get(ctx.about(index)))
        .put(move |ctx: RequestContext, body: Body| records::put(ctx.about(index), body))
        .patch(move |ctx: RequestContext, body: Body| records::patch(ctx.about(index), body))
        .delete(move |ctx: RequestContext| records::delete(ctx.about(index)));
    let some = get(move |ctx: RequestContext| records::by_key(ctx.about(index)))
        .post(move |ctx: RequestContext, body: Body| records::create(ctx.about(index), body));
    let mut router = Router::new()
        .route(&all, some)
        .route(&one, item)
        .route(&format!("{one}/explain"), get(move |ctx: RequestContext| records::explain(ctx.about(index))))
        .route(&format!("{one}/document"), get(move |ctx: RequestContext| records::document(ctx.about(index))))
        .route(&format!("{one}/log"), get(move |ctx: RequestContext| records::log(ctx.about(index))));
    if collection.tags.is_some() {
        let tags = format!("/v1/{{tenant}}/tags/{}", collection.name);
        let tag = format!("{tags}/{{tag}}");
        let all = get(move |ctx: RequestContext| tags::list(ctx.about(index)))
            .post(move |ctx: RequestContext, body: Body| tags::create(ctx.about(index), body));
        let one = get(move |ctx: RequestContext| tags::one(ctx.about(index)))
            .patch(move |ctx: RequestContext, body: Body| tags::set(ctx.about(index), body))
            .delete(move |ctx: RequestContext| tags::remove(ctx.about(index)));
        router = router
            .route(&tags, all)
            .route(&tag, one)
            .route(&format!("{tag}/rebuild"), post(move |ctx: RequestContext| tags::rebuild(ctx.about(index))))
            .route(&format!("{tag}/records"), post(move |ctx: RequestContext, body: Body| tags::assign(ctx.about(index), body)));
    }
    for transition in &collection.transitions {
        let name = transition.name.clone();
        let run = move |ctx: RequestContext, body: Body| transitions::run(ctx.about(index), name.clone(), body);
        router = router.route(&format!("{one}/{}", transition.name), post(run));
    }
    router
}
