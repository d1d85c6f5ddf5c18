//! The middleware of all API routes: it identifies the caller, gets a permit, limits the time and counts the request.

use crate::App;
use crate::app::request_ids::REQUEST_ID;
use crate::guard::access::{Caller, Identity, refuse_other_origins};
use crate::guard::admission::{AdmissionPermit, RequestClass};
use crate::guard::audited::{Audited, log_refusal, scope_of};
use crate::guard::problem::Problem;
use crate::guard::refusals::Refused;
use crate::guard::request::GuardedRequest;
use crate::log::{self, RequestLogLevel};
use crate::metrics::{RequestCounters, RequestStep, UNKNOWN_TENANT};
use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stook_store::DEFAULT_TENANT;
use stook_store::access::Role;
use tokio::sync::OwnedSemaphorePermit;

/// Max bytes read of a body that is too long.
const MAX_DRAINED_BYTES: usize = 16 << 20;

/// Adds the guard to the routes of a class.
pub fn guarded(app: &Arc<App>, class: RequestClass, router: Router<Arc<App>>) -> Router<Arc<App>> {
    with_guard(GuardSettings { app: app.clone(), class, is_open: false, is_declared: false }, router)
}

/// Adds the guard to routes that the definition declares. Open ones need no token: their caller is anonymous and may read.
pub fn guarded_declared(app: &Arc<App>, router: Router<Arc<App>>, is_open: bool) -> Router<Arc<App>> {
    with_guard(GuardSettings { app: app.clone(), class: RequestClass::Interactive, is_open, is_declared: true }, router)
}

fn with_guard(settings: GuardSettings, router: Router<Arc<App>>) -> Router<Arc<App>> {
    // a definition may declare no routes of a kind, and a layer needs one
    if router.has_routes() { router.route_layer(from_fn_with_state(settings, guard)) } else { router }
}

/// What the guard knows about the routes that it guards.
#[derive(Clone)]
struct GuardSettings {
    app: Arc<App>,
    class: RequestClass,
    /// Whether they need no token.
    is_open: bool,
    /// Whether the definition declares them, and so says which web pages may call them.
    is_declared: bool,
}

/// Adds a request id to responses of routes without a guard, and to those of unknown paths.
pub async fn add_request_id(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let id = app.requests.id(&request);
    let mut response = next.run(request).await;
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

async fn guard(State(GuardSettings { app, class, is_open, is_declared }): State<GuardSettings>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = app.requests.id(&request);
    let _in_flight = InFlightGuard::new(&app);
    let caller = if is_open { Ok(Caller::anonymous(Role::Read)) } else { app.caller(request.extensions(), request.headers()) };
    let allowed_origins: &[String] = if is_declared { &app.catalogue.serving.origins } else { &[] };
    let caller = caller.and_then(|caller| refuse_other_origins(request.method(), request.headers(), allowed_origins).map(|()| caller));
    let identity = caller.as_ref().map_or(Identity::Nobody, |caller| caller.identity);
    let caller = caller.and_then(|caller| caller.require_any().map(|()| caller));
    let counters = {
        let route = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str);
        let method = method_name(request.method());
        match &caller {
            Ok(Caller { tenant: Some(tenant), .. }) => app.metrics.counters(route, method, tenant.as_str()),
            Ok(_) => app.metrics.counters_of_named(route, method, tenant_in(request.uri().path())),
            Err(_) => app.metrics.counters(route, method, UNKNOWN_TENANT),
        }
    };
    counters.count_step(RequestStep::Accepted);
    let logged = (app.options.log == RequestLogLevel::All).then(|| (request.method().clone(), request.uri().path().to_owned()));
    let mut response = match caller {
        Err(problem) => problem.into_response(),
        Ok(caller) => {
            let extra_time = Arc::new(AtomicU64::new(0));
            let scope = scope_of(&request, &caller);
            request.extensions_mut().insert(GuardedRequest { caller, counters: counters.clone(), extra_time: extra_time.clone() });
            let admission = Admission { class, counters: &counters, extra_time: &extra_time };
            let answered = admit_and_answer(&app, &admission, request, next);
            match scope {
                None => answered.await,
                Some(scope) => {
                    let response = Audited::new(scope.clone(), answered).await;
                    // anybody on this machine could fill the log
                    if identity != Identity::Nobody {
                        log_refusal(&app, &scope, response.status());
                    }
                    response
                }
            }
        }
    };
    let (took, status) = (began.elapsed(), response.status());
    app.metrics.count_response(&counters, status.as_u16(), took);
    // refusals have a line a second together
    let is_problem = (status.is_server_error() || took > Duration::from_secs(1)) && response.extensions().get::<Refused>().is_none();
    if app.options.log == RequestLogLevel::All || (is_problem && app.options.log == RequestLogLevel::Problems) {
        let (method, path) = logged.map_or((None, None), |(method, path)| (Some(method.to_string()), Some(path)));
        log::write(
            "request",
            [
                ("id", id.to_str().unwrap_or_default().into()),
                ("method", method.into()),
                ("path", path.into()),
                ("route", counters.route().into()),
                ("tenant", (*counters.tenant).into()),
                ("token", identity.token().into()),
                ("status", status.as_u16().into()),
                ("ms", (took.as_micros() as f64 / 1_000.0).into()),
            ],
        );
    }
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Returns the result of a future, or `None` if it is not ready after `time` plus the milliseconds in `extra_time`, which is read when `time` is over.
/// A future that is ready at once needs no timer.
async fn with_timeout<T>(time: Duration, extra_time: &AtomicU64, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let first_poll = std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context))).await;
    match first_poll {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => match tokio::time::timeout(time, future.as_mut()).await {
            Ok(value) => Some(value),
            Err(_) => tokio::time::timeout(Duration::from_millis(extra_time.load(Ordering::Relaxed)), future).await.ok(),
        },
    }
}

/// Receives the complete body of a request, so that a slow sender holds no permit.
async fn receive_body(app: &App, request: Request) -> Result<Request, Problem> {
    let (head, body) = request.into_parts();
    let (mut bytes, mut length, mut permit) = (Vec::new(), 0, None::<OwnedSemaphorePermit>);
    let mut stream = body.into_data_stream();
    while let Some(next) = stream.next().await {
        let next = next.map_err(Problem::unreadable_body)?;
        length += next.len();
        if length > app.options.body {
            // read on, so that the sender gets the response instead of a connection reset
            if length > MAX_DRAINED_BYTES {
                break;
            }
            continue;
        }
        let acquired = app.gathered_bytes.clone().try_acquire_many_owned(next.len() as u32);
        let acquired = acquired.map_err(|_| Problem::unavailable("too many request bodies are being received; try again"))?;
        match &mut permit {
            Some(permit) => permit.merge(acquired),
            None => permit = Some(acquired),
        }
        bytes.extend_from_slice(&next);
    }
    if length > app.options.body {
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {} bytes", app.options.body)));
    }
    Ok(Request::from_parts(head, Body::new(BodyWithPermit { body: Body::from(bytes), _permit: permit })))
}

/// What the admission of a request needs.
struct Admission<'a> {
    class: RequestClass,
    counters: &'a RequestCounters,
    /// Milliseconds that it may take in addition to the time limit.
    extra_time: &'a AtomicU64,
}

async fn admit_and_answer(app: &Arc<App>, admission: &Admission<'_>, request: Request, next: Next) -> Response {
    let Admission { class, counters, extra_time } = *admission;
    let request = if class == RequestClass::Interactive && !request.body().is_end_stream() {
        // boxed, because most requests have no body and should not carry this large future
        match Box::pin(receive_body(app, request)).await {
            Ok(request) => request,
            Err(problem) => return problem.into_response(),
        }
    } else {
        request
    };
    let permit = match app.gate(class).enter().await {
        Ok(permit) => AdmissionPermit::new(permit, app.metrics.given_up().clone()),
        Err(problem) => {
            let pause = app.refusals.pause(Instant::now());
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let mut response = problem.into_response();
            response.extensions_mut().insert(Refused);
            return response;
        }
    };
    counters.count_step(RequestStep::Started);
    match class {
        RequestClass::Interactive => {
            let given_up = || Problem::unavailable("the request timed out; a change may still be applied").into_response();
            with_timeout(app.options.request_time, extra_time, permit.during(next.run(request))).await.unwrap_or_else(given_up)
        }
        // the permit is held until the last byte is sent
        RequestClass::Bulk | RequestClass::Watch => {
            let response = permit.clone().during(next.run(request)).await;
            response.map(|body| Body::new(BodyWithPermit { body, _permit: permit }))
        }
    }
}

/// A body that holds a permit until it is sent.
struct BodyWithPermit<T> {
    body: Body,
    _permit: T,
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

/// Counts a request as in flight until it has a response, or is dropped because its peer disconnects.
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

/// Returns the tenant that a path names, or the default one.
fn tenant_in(path: &str) -> &str {
    path.strip_prefix("/v1/").map_or(DEFAULT_TENANT, |rest| rest.split('/').next().unwrap_or_default())
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
