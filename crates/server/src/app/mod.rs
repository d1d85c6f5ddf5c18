//! What all requests of a process share: the definition, the store, caches, limits, and what is kept between requests.

pub mod counts;
pub mod pending;
pub mod request_ids;
pub mod vocabularies;
pub mod workers;

use crate::guard::admission::{AdmissionGate, ClassLimits, RequestClass};
use crate::guard::proxy::TrustedProxy;
use crate::guard::refusals::Refusals;
use crate::guard::tokens::TokenCache;
use crate::log::RequestLogLevel;
use crate::metrics::{Metrics, MetricsHistory};
use crate::reads::LookupService;
use crate::tls::ServerTls;
use counts::RecordCountCache;
use pending::PendingQueries;
use request_ids::RequestIds;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::Evaluator;
use stook_engine::fetch::{FetchOptions, Fetcher, ServiceStatus};
use stook_engine::pick::PickGroups;
use stook_engine::settle::SettleRules;
use stook_query::CompiledQuery;
use stook_store::Store;
use tokio::sync::Semaphore;
use vocabularies::VocabularyCache;

/// Max bytes of request bodies held at one time for requests that have no permit yet.
const MAX_GATHERED_BYTES: usize = 64 << 20;

/// Options of the HTTP server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Limits of requests whose caller waits for the response.
    pub interactive: ClassLimits,
    /// Limits of uploads and exports.
    pub bulk: ClassLimits,
    /// Limits of requests that watch jobs or queries.
    pub watch: ClassLimits,
    /// Max time of a request.
    pub request_time: Duration,
    /// Max time without progress while a peer sends or receives.
    pub stall: Duration,
    /// Max bytes of a request body, except uploads.
    pub body: usize,
    /// Max bytes of an upload.
    pub upload: u64,
    /// Max number of connections.
    pub connections: usize,
    /// Bytes of the record cache; 0 for none.
    pub cache: u64,
    /// The folder from which files may be imported by name.
    pub files: Option<PathBuf>,
    /// The folder of lab runs to show.
    pub runs: Option<PathBuf>,
    /// Which requests are logged.
    pub log: RequestLogLevel,
    /// Whether only this machine can reach the server.
    pub loopback: bool,
    /// The certificate by which connections are encrypted, if they are.
    pub tls: Option<Arc<ServerTls>>,
    /// Proxies that identify people.
    pub proxy: Option<Arc<TrustedProxy>>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            interactive: ClassLimits { max_requests: 128, wait: Duration::from_millis(100) },
            bulk: ClassLimits { max_requests: 8, wait: Duration::from_millis(100) },
            watch: ClassLimits { max_requests: 64, wait: Duration::ZERO },
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
            tls: None,
            proxy: None,
        }
    }
}

/// Everything that requests share.
pub struct App {
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) rules: Arc<SettleRules>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) reads: LookupService,
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) vocabularies: Arc<VocabularyCache>,
    pub(crate) counts: RecordCountCache,
    pub(crate) pending_queries: PendingQueries,
    pub(crate) history: MetricsHistory,
    pub(crate) picks: PickGroups,
    /// Limits the queries that wait for services, so that slow services leave permits for other requests.
    pub(crate) waiting_queries: Arc<Semaphore>,
    pub(crate) tokens: TokenCache,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) interactive: AdmissionGate,
    pub(crate) bulk: AdmissionGate,
    pub(crate) watch: AdmissionGate,
    /// Limits the bytes of request bodies that are received before their requests have a permit.
    pub(crate) gathered_bytes: Arc<Semaphore>,
    pub(crate) options: ServerOptions,
    /// The OpenAPI document for requests without a token, made together with the routes.
    pub(crate) openapi: OnceLock<bytes::Bytes>,
    /// Limits the threads that do the lookups of declared routes: more would only compete for the processors.
    pub(crate) lookup_permits: Arc<Semaphore>,
    /// Up to which position changes of records were committed, and when that was read, for those who wait for changes.
    pub(crate) newest_change: tokio::sync::Mutex<Option<(Instant, i64)>>,
    /// Set when the server is shutting down.
    pub(crate) ending: AtomicBool,
    /// Why the import workers are stopped at the moment.
    pub(crate) workers_failed: Mutex<Option<String>>,
    pub(crate) requests: RequestIds,
    pub(crate) refusals: Refusals,
}

impl App {
    /// Creates an application on an open store.
    ///
    /// # Errors
    /// When the store fails.
    pub fn new(catalogue: Arc<Catalogue>, store: Arc<dyn Store>, options: ServerOptions) -> stook_store::Result<Arc<Self>> {
        let metrics = Arc::new(Metrics::default());
        let reads = LookupService::new(catalogue.clone(), store.clone(), options.cache, metrics.clone())?;
        // a proxy on this machine passes on what others send
        let tokens = TokenCache::read(&*store, options.loopback && options.proxy.is_none())?;
        Ok(Arc::new(Self {
            fetcher: Fetcher::new(&catalogue),
            vocabularies: Arc::default(),
            counts: RecordCountCache::default(),
            pending_queries: PendingQueries::default(),
            history: MetricsHistory::default(),
            picks: PickGroups::default(),
            waiting_queries: Arc::new(Semaphore::new((options.interactive.max_requests / 2).max(1))),
            interactive: AdmissionGate::new(options.interactive),
            bulk: AdmissionGate::new(options.bulk),
            watch: AdmissionGate::new(options.watch),
            gathered_bytes: Arc::new(Semaphore::new(MAX_GATHERED_BYTES)),
            rules: Arc::new(SettleRules::new(&catalogue)),
            catalogue,
            store,
            reads,
            tokens,
            metrics,
            options,
            openapi: OnceLock::new(),
            lookup_permits: Arc::new(Semaphore::new(2 * std::thread::available_parallelism().map_or(2, usize::from))),
            newest_change: tokio::sync::Mutex::default(),
            ending: AtomicBool::new(false),
            workers_failed: Mutex::default(),
            requests: RequestIds::default(),
            refusals: Refusals::default(),
        }))
    }

    /// Fetches from services what a query needs. If too many queries are waiting already, this one does not wait, but its fetches are started.
    pub(crate) fn fetch(&self, query: &CompiledQuery, options: FetchOptions) -> stook_engine::Result<Vec<ServiceStatus>> {
        let permit = self.waiting_queries.try_acquire().ok();
        let time = if permit.is_some() { options.time } else { Some(Duration::ZERO) };
        self.fetcher.fetch(&self.store, &query.plan, &query.aggregated_columns(), FetchOptions { time, ..options })
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
