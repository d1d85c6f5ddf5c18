//! What every request goes through before it is answered: who calls, a place among those in work, a time limit, counting.

use crate::App;
use crate::access::Caller;
use crate::admission::{AdmissionPermit, RequestClass};
use crate::log::{self, RequestLogLevel};
use crate::metrics::{RequestCounters, RequestStep};
use crate::problem::Problem;
use crate::records::blocking;
use crate::request::RequestContext;
use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use stook_catalogue::diagnostic::did_you_mean;
use stook_store::access::Role;
use stook_store::{DEFAULT_TENANT, StoreError, Tenant};
use tokio::sync::OwnedSemaphorePermit;

/// Bytes of a body that are read at most, whatever is done with them.
const DRAINED: usize = 16 << 20;

/// The number of a request, in answers and in the log.
pub const REQUEST_ID: &str = "x-request-id";

/// Gives each request a number of its own.
pub struct RequestIds {
    process: u32,
    next: AtomicU64,
}

impl Default for RequestIds {
    fn default() -> Self {
        let mut random = [0; 4];
        // numbers that two processes share only make a log harder to read
        let _ = getrandom::fill(&mut random);
        Self { process: u32::from_le_bytes(random), next: AtomicU64::new(1) }
    }
}

impl RequestIds {
    /// The id the caller sent, if it is a sound one, else a new one.
    fn id(&self, request: &Request) -> HeaderValue {
        let sound = |value: &&HeaderValue| {
            (1..=64).contains(&value.len()) && value.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        };
        if let Some(sent) = request.headers().get(REQUEST_ID).filter(sound) {
            return sent.clone();
        }
        let mut own = String::with_capacity(24);
        // writing into memory does not fail
        let _ = write!(own, "{:08x}-{:x}", self.process, self.next.fetch_add(1, Ordering::Relaxed));
        HeaderValue::try_from(own).unwrap_or(HeaderValue::from_static("-"))
    }
}

/// Puts routes of a class behind the guard.
pub fn guarded(app: &Arc<App>, class: RequestClass, router: Router<Arc<App>>) -> Router<Arc<App>> {
    router.route_layer(from_fn_with_state((app.clone(), class), guard))
}

/// What the guard found out about a request.
#[derive(Clone)]
pub struct GuardedRequest {
    /// Who calls.
    pub caller: Caller,
    /// What it is counted as.
    pub counted: Arc<RequestCounters>,
    /// How much longer than others it may take, in milliseconds.
    pub patience: Arc<AtomicU64>,
}

/// Gives answers of what is not guarded their ids: of routes, and of what is none.
pub async fn numbered(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let id = app.requests.id(&request);
    let mut response = next.run(request).await;
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

async fn guard(State((app, class)): State<(Arc<App>, RequestClass)>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = app.requests.id(&request);
    let _in_flight = InFlightGuard::new(&app);
    let caller = app.tokens.caller(request.headers());
    let counted = {
        let tenant = match &caller {
            Ok(caller) => caller.tenant.as_ref().map_or_else(|| tenant_in(request.uri().path()), Tenant::as_str),
            Err(_) => "-",
        };
        let route = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str);
        app.metrics.counted(route, method_name(request.method()), tenant)
    };
    counted.stage(RequestStep::Accepted);
    let logged = (app.options.log == RequestLogLevel::All).then(|| (request.method().clone(), request.uri().path().to_owned()));
    let mut response = match caller {
        Err(problem) => problem.into_response(),
        Ok(caller) => {
            let patience = Arc::new(AtomicU64::new(0));
            request.extensions_mut().insert(GuardedRequest { caller, counted: counted.clone(), patience: patience.clone() });
            admitted(&app, class, &counted, &patience, request, next).await
        }
    };
    let (took, status) = (began.elapsed(), response.status());
    app.metrics.answered(&counted, status.as_u16(), took);
    let trouble = status.is_server_error() || took > Duration::from_secs(1);
    if app.options.log == RequestLogLevel::All || (trouble && app.options.log == RequestLogLevel::Problems) {
        let (method, path) = logged.map_or((None, None), |(method, path)| (Some(method.to_string()), Some(path)));
        log::write(
            "request",
            [
                ("id", id.to_str().unwrap_or_default().into()),
                ("method", method.into()),
                ("path", path.into()),
                ("route", counted.route().into()),
                ("tenant", (*counted.tenant).into()),
                ("status", status.as_u16().into()),
                ("ms", (took.as_micros() as f64 / 1_000.0).into()),
            ],
        );
    }
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// What a future gives, or nothing after `time` and as many milliseconds as `patience` says by then. One that is ready at once costs
/// no timer.
async fn within<T>(time: Duration, patience: &AtomicU64, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let first = std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context))).await;
    match first {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => match tokio::time::timeout(time, future.as_mut()).await {
            Ok(value) => Some(value),
            Err(_) => tokio::time::timeout(Duration::from_millis(patience.load(Ordering::Relaxed)), future).await.ok(),
        },
    }
}

/// Bytes of bodies that are read at once before their requests have a place.
pub const MOST_GATHERED: usize = 64 << 20;

/// A request with all of its body, so that who sends slowly has no place meanwhile.
async fn gathered(app: &App, request: Request) -> Result<Request, Problem> {
    let (head, body) = request.into_parts();
    let (mut bytes, mut length, mut room) = (Vec::new(), 0, None::<OwnedSemaphorePermit>);
    let mut stream = body.into_data_stream();
    while let Some(next) = stream.next().await {
        let next = next.map_err(Problem::unread)?;
        length += next.len();
        if length > app.options.body {
            // some more is read, so that its sender hears of it
            if length > DRAINED {
                break;
            }
            continue;
        }
        let more = app.gathered.clone().try_acquire_many_owned(next.len() as u32);
        let more = more.map_err(|_| Problem::busy("too many request bodies are being received; try again"))?;
        match &mut room {
            Some(room) => room.merge(more),
            None => room = Some(more),
        }
        bytes.extend_from_slice(&next);
    }
    if length > app.options.body {
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {} bytes", app.options.body)));
    }
    Ok(Request::from_parts(head, Body::new(BodyWithPermit { body: Body::from(bytes), _place: room })))
}

async fn admitted(app: &Arc<App>, class: RequestClass, counted: &RequestCounters, patience: &AtomicU64, request: Request, next: Next) -> Response {
    let request = if class == RequestClass::Interactive && !request.body().is_end_stream() {
        // most requests have none, and no room for what reads one
        match Box::pin(gathered(app, request)).await {
            Ok(request) => request,
            Err(problem) => return problem.into_response(),
        }
    } else {
        request
    };
    let place = match app.gate(class).enter().await {
        Ok(permit) => AdmissionPermit::new(permit, app.metrics.given_up().clone()),
        Err(problem) => return problem.into_response(),
    };
    counted.stage(RequestStep::Started);
    match class {
        RequestClass::Interactive => {
            let given_up = || Problem::busy("the request timed out; a change may still be applied").into_response();
            within(app.options.request_time, patience, place.during(next.run(request))).await.unwrap_or_else(given_up)
        }
        // their place is theirs until the last byte is sent
        RequestClass::Bulk | RequestClass::Watch => {
            let response = place.clone().during(next.run(request)).await;
            response.map(|body| Body::new(BodyWithPermit { body, _place: place }))
        }
    }
}

/// A body that keeps something until it is sent.
struct BodyWithPermit<T> {
    body: Body,
    _place: T,
}

impl<T: Unpin> axum::body::HttpBody for BodyWithPermit<T> {
    type Data = bytes::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
        std::pin::Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}

/// Counts a request as long as it has no answer, also one whose peer goes away.
struct InFlightGuard<'a>(&'a App);

impl<'a> InFlightGuard<'a> {
    fn new(app: &'a App) -> Self {
        app.metrics.in_flight().inc();
        Self(app)
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.0.metrics.in_flight().dec();
    }
}

/// The tenant in a path, if it could be one.
fn tenant_in(path: &str) -> &str {
    let named = path.strip_prefix("/v1/").map_or(DEFAULT_TENANT, |rest| rest.split('/').next().unwrap_or_default());
    if Tenant::new(named).is_ok() { named } else { "-" }
}

fn method_name(method: &Method) -> &'static str {
    const KNOWN: [(&Method, &str); 6] = [
        (&Method::GET, "GET"),
        (&Method::POST, "POST"),
        (&Method::PUT, "PUT"),
        (&Method::PATCH, "PATCH"),
        (&Method::DELETE, "DELETE"),
        (&Method::HEAD, "HEAD"),
    ];
    KNOWN.iter().find(|(known, _)| *known == method).map_or("other", |(_, name)| name)
}

/// The process runs.
pub async fn healthy() -> &'static str {
    "ok\n"
}

/// Requests can be answered now.
pub async fn ready(State(app): State<Arc<App>>) -> Result<&'static str, Problem> {
    if app.ending.load(Ordering::SeqCst) {
        return Err(Problem::busy("the server is shutting down"));
    }
    if let Some(reason) = app.workers_failed.lock().unwrap_or_else(PoisonError::into_inner).clone() {
        return Err(Problem::busy(reason));
    }
    // who could only answer that the definition is another one is not ready
    let asked = tokio::task::spawn_blocking(move || app.store.check_definition().and_then(|()| app.store.jobs(None, 1)));
    match tokio::time::timeout(Duration::from_secs(5), asked).await {
        Ok(Ok(Ok(_))) => Ok("ready\n"),
        Ok(Ok(Err(error))) => Err(Problem::busy(error.to_string())),
        _ => Err(Problem::busy("the store does not respond")),
    }
}

/// Everything that is counted.
///
/// # Errors
/// Who is not an admin is refused.
pub async fn metrics(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    let text = counted(&app, request.headers()).await?;
    Ok(([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response())
}

/// Everything that is counted, or what is of a tenant for who may see no more, as text.
///
/// # Errors
/// Who is not an admin is refused.
pub async fn counted(app: &Arc<App>, headers: &HeaderMap) -> Result<String, Problem> {
    let caller = app.tokens.caller(headers)?;
    caller.need(Role::Admin)?;
    let only = only_of(app, &caller).await?;
    let metrics = &app.metrics;
    for (what, value) in [
        ("interactive_in_work", app.interactive.in_work()),
        ("interactive_waiting", app.interactive.waiting()),
        ("bulk_in_work", app.bulk.in_work()),
        ("bulk_waiting", app.bulk.waiting()),
        ("watching", app.watch.in_work()),
        ("cache_records", app.reads.cache().map_or(0, crate::cache::RecordCache::records)),
        ("cache_bytes", app.reads.cache().map_or(0, |cache| cache.size() as usize)),
    ] {
        metrics.set(what, value as u64);
    }
    let own = app.clone();
    let asked = tokio::task::spawn_blocking(move || Ok::<_, StoreError>((own.store.chunks(None)?, own.store.vitals()?))).await;
    if let Ok(Ok((chunks, vitals))) = asked {
        metrics.store(&vitals);
        use stook_store::queue::ChunkState;
        for (what, state) in [("queue_waiting", ChunkState::Waiting), ("queue_leased", ChunkState::Leased), ("queue_dead", ChunkState::Dead)] {
            metrics.set(what, chunks.iter().filter(|chunk| chunk.state == state).count() as u64);
        }
    }
    Ok(match only {
        Some(tenant) => of_tenant(&metrics.text(), tenant.as_str()),
        None => metrics.text(),
    })
}

/// The tenant of which a caller is told and no other; nothing for who may see all, or where there is no other.
///
/// # Errors
/// When the store fails.
pub async fn only_of(app: &Arc<App>, caller: &Caller) -> Result<Option<Tenant>, Problem> {
    let Some(own) = caller.tenant.clone().filter(|_| !app.tokens.are_open()) else { return Ok(None) };
    let store = app.store.clone();
    let all = blocking(move || store.tenants()).await?;
    Ok(if all.iter().all(|tenant| *tenant == own) { None } else { Some(own) })
}

/// What is counted of a tenant.
fn of_tenant(text: &str, tenant: &str) -> String {
    let label = format!("tenant=\"{tenant}\"");
    let is_own = |line: &&str| line.starts_with('#') || line.split_once('{').is_some_and(|(_, rest)| rest.contains(&label));
    text.lines().filter(is_own).map(|line| format!("{line}\n")).collect()
}

/// The path is known, the method is not one of its.
pub async fn wrong_method(request: Request) -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("method {} is not allowed here", request.method()))
}

/// The path is not known.
pub async fn nothing_there(State(app): State<Arc<App>>, request: Request) -> Problem {
    let path = request.uri().path();
    let named = path.strip_prefix("/v1/").and_then(|rest| rest.split('/').nth(1)).unwrap_or_default();
    let known = || app.catalogue.collections.iter().map(|collection| collection.name.as_str());
    let hint = match did_you_mean(named, known()) {
        Some(meant) if meant != named => format!("did you mean {meant}?"),
        _ => "see /docs for all paths".into(),
    };
    Problem::missing(format!("no such path: {path}; {hint}"))
}

impl RequestContext {
    /// The store is about to be asked.
    pub fn reaches_store(&self) {
        self.counters.stage(RequestStep::StoreReached);
    }
}
