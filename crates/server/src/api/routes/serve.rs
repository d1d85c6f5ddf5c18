//! Serves declared routes under the paths, and with the errors, that the definition declares.
//!
//! A lookup finds its records by key, or by the values of an indexed field; each include is looked up once for all records. Responses are not cached;
//! records and lists of keys are.

use super::lookup::{RouteResponse, look_up};
use super::parameters::{RouteParams, generate, parameters};
use super::{query, transition, writes};
use crate::App;
use crate::api::response::json_answer;
use crate::api::transitions::{IDEMPOTENCY_KEY, call_of};
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use crate::guard::undecided::{Decides, UndecidedContext};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{self, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use serde_json::json;
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::did_you_mean;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::route::{FindKind, Lookup, Method, ResponseMedia, Route, RouteAction, RouteSelector};
use stook_store::access::Operation;
use tower_http::cors::{AllowOrigin, CorsLayer};

/// The header that lists failed expressions and what was ignored; the body has only the members that the catalogue declares.
const WARNING: HeaderName = HeaderName::from_static("stook-warning");

/// Max failures in the headers, because proxies limit the size of a head.
const MAX_WARNINGS: usize = 5;

/// Returns the declared routes of a catalogue that need a token, or those that need none.
pub fn router(catalogue: &Catalogue, is_open: bool) -> Router<Arc<App>> {
    let mut router = Router::new();
    // routes that are told apart by a parameter have one handler
    let mut handlers: Vec<(&Route, Vec<usize>)> = Vec::new();
    for (index, route) in catalogue.routes.iter().enumerate().filter(|(_, route)| route.is_open == is_open) {
        match handlers.iter_mut().find(|(first, _)| (first.method, &first.path) == (route.method, &route.path)) {
            Some((_, indexes)) => indexes.push(index),
            None => handlers.push((route, vec![index])),
        }
    }
    for (route, indexes) in handlers {
        let filter = match route.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Put => MethodFilter::PUT,
            Method::Patch => MethodFilter::PATCH,
            Method::Delete => MethodFilter::DELETE,
        };
        let indexes: Arc<[usize]> = indexes.into();
        let handler = move |State(app): State<Arc<App>>, ctx: Result<UndecidedContext, Problem>, body: Body| serve(app, ctx, body, indexes);
        router = router.route(&route.path, on(filter, handler));
    }
    router
}

/// Returns the route of a request, of those with its method and path: that with the value of the parameter which tells them apart, or the one without.
fn chosen(catalogue: &Catalogue, ctx: &mut RequestContext, indexes: &[usize]) -> HandlerResult<usize> {
    let route = |index: &usize| &catalogue.routes[*index];
    let Some(RouteSelector { param, .. }) = indexes.iter().find_map(|index| route(index).selector.as_ref()) else { return Ok(indexes[0]) };
    let sent = ctx.params.all_named(param);
    // an empty value is none
    let wanted = sent.first().map(String::as_str).filter(|value| !value.is_empty());
    let reason = match (indexes.iter().find(|index| route(index).selected_by() == wanted), wanted) {
        _ if sent.len() > 1 => format!("the parameter {param} is given {} times", sent.len()),
        (Some(index), _) => return Ok(*index),
        (None, None) => format!("the parameter {param} is missing"),
        (None, Some(wanted)) => match did_you_mean(wanted, indexes.iter().filter_map(|index| route(index).selected_by())) {
            Some(meant) => format!("{param}={wanted:?} is not known here; did you mean `{meant}`?"),
            None => format!("{param}={wanted:?} is not known here"),
        },
    };
    let known: Vec<&str> = indexes.iter().map(|index| route(index).selected_by().unwrap_or("none")).collect();
    Err(Problem::bad_request(format!("{reason}; {param} is one of {}", known.join(", "))))
}

/// Returns what answers web pages of other origins (CORS); `None` if none may call.
pub fn cors(catalogue: &Catalogue) -> Option<CorsLayer> {
    let origins = &catalogue.serving.origins;
    let allowed = match origins.iter().any(|origin| origin == "*") {
        true => AllowOrigin::any(),
        false => AllowOrigin::list(origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok())),
    };
    let methods = [http::Method::GET, http::Method::POST, http::Method::PUT, http::Method::PATCH, http::Method::DELETE];
    let headers = [header::AUTHORIZATION, header::CONTENT_TYPE, IDEMPOTENCY_KEY];
    (!origins.is_empty()).then(|| CorsLayer::new().allow_origin(allowed).allow_methods(methods).allow_headers(headers))
}

async fn serve(app: Arc<App>, ctx: Result<UndecidedContext, Problem>, body: Body, indexes: Arc<[usize]>) -> Response {
    let routes = &app.catalogue.routes;
    let refused = |index: usize, problem: Problem| as_declared(&app.catalogue, &routes[index], problem);
    let mut ctx = match ctx {
        Ok(ctx) => ctx.decided(Decides::ByName),
        Err(problem) => return refused(indexes[0], problem),
    };
    match chosen(&app.catalogue, &mut ctx, &indexes) {
        Ok(index) => run(ctx, body, index).await.unwrap_or_else(|problem| refused(index, problem)),
        Err(problem) => refused(indexes[0], problem),
    }
}

/// Converts a problem to the form that the catalogue declares.
fn as_declared(catalogue: &Catalogue, route: &Route, problem: Problem) -> Response {
    let status = problem.status;
    let text = if problem.errors.len() > 1 { problem.errors.join("\n") } else { problem.detail.clone() };
    let body = match (&catalogue.serving.error_member, problem.errors.as_slice()) {
        (Some(member), [] | [_]) if !problem.are_listed => Some(json!({ member.as_str(): problem.detail })),
        (Some(member), several) => Some(json!({ member.as_str(): several })),
        (None, _) => None,
    };
    let declared = match body {
        _ if route.has_text_errors => text_answer(status, text),
        Some(body) => json_answer(status, body.to_string()),
        None => return problem.into_response(),
    };
    let retry = problem.into_response().headers_mut().remove(header::RETRY_AFTER);
    let mut declared = declared;
    if let Some(retry) = retry {
        declared.headers_mut().insert(header::RETRY_AFTER, retry);
    }
    declared
}

fn text_answer(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

async fn run(mut ctx: RequestContext, body: Body, index: usize) -> HandlerResult {
    let app = ctx.app.clone();
    let route = &app.catalogue.routes[index];
    check_allowed(&ctx, route)?;
    let mut values = parameters(&mut ctx, &route.params, body).await?;
    let ignored = ctx.params.unknown();
    let answer = match &route.action {
        RouteAction::Steps(steps) if !steps.writes.is_empty() => {
            // values that are generated are new for a repeated request
            let sent = RouteParams { all: &route.params, values: values.clone() }.to_json().to_string();
            let call = call_of(&ctx, &format!("{} {}", route.method.name(), route.declared_path()), &sent)?;
            generate(&route.params, &mut values)?;
            ctx.count_store_reached();
            Ok(shown(writes::write(ctx, values, index, call).await?))
        }
        RouteAction::Lookup(_) | RouteAction::Steps(_) => {
            ctx.count_store_reached();
            generate(&route.params, &mut values)?;
            let found = look_up(ctx, route, RouteParams { all: &route.params, values }, index).await?;
            let missing = || Problem::not_found(route.missing.clone().unwrap_or_else(|| "there is no such record".into()));
            Ok(shown(found.ok_or_else(missing)?))
        }
        RouteAction::Transition { .. } => transition::answer(ctx, route, &RouteParams { all: &route.params, values }).await,
        RouteAction::Query(query_route) => query::answer(ctx, query_route, &RouteParams { all: &route.params, values }).await,
    };
    let mut answer = answer?;
    let ignored = ignored.and_then(|reason| HeaderValue::from_str(&format!("{}; it was ignored", reason.escape_default())).ok());
    answer.headers_mut().extend(ignored.map(|ignored| (WARNING, ignored)));
    Ok(answer)
}

/// Checks that the caller may read every collection that a route looks up, and write those that it changes. The collection of a query is checked when it is
/// compiled.
fn check_allowed(ctx: &RequestContext, route: &Route) -> HandlerResult<()> {
    let reads = |lookup: &Lookup| collections_of(lookup).into_iter().try_for_each(|collection| ctx.require(Operation::Read, collection));
    match &route.action {
        RouteAction::Lookup(route) => reads(&route.lookup),
        RouteAction::Transition { collection, .. } => ctx.require(Operation::Write, *collection),
        RouteAction::Query(_) => Ok(()),
        RouteAction::Steps(steps) => {
            steps.writes.iter().try_for_each(|write| ctx.require(Operation::Write, write.collection))?;
            steps.finds.iter().try_for_each(|find| match &find.kind {
                FindKind::Records(route) => reads(&route.lookup),
                FindKind::Tags(find) => ctx.require(Operation::Read, find.collection),
            })?;
            // one that reads and writes nothing is for every caller that may read
            if steps.writes.is_empty() && steps.finds.is_empty() && !route.is_open { ctx.caller.require_any() } else { Ok(()) }
        }
    }
}

/// The collections of a lookup and of what it includes.
fn collections_of(lookup: &Lookup) -> Vec<CollectionId> {
    let included = lookup.includes.iter().flat_map(|(_, include)| collections_of(include));
    std::iter::once(lookup.collection).chain(included).collect()
}

fn shown(RouteResponse { status, media, text, failures }: RouteResponse) -> Response {
    let mut answer = match media {
        _ if text.is_empty() => status.into_response(),
        ResponseMedia::Json => json_answer(status, text),
        ResponseMedia::Text => text_answer(status, text),
    };
    let first = failures.first.iter().take(MAX_WARNINGS).map(|failure| failure.escape_default().to_string());
    let more = (failures.truncated || failures.first.len() > MAX_WARNINGS).then(|| "more expressions fail".to_owned());
    for warning in first.chain(more).filter_map(|warning| HeaderValue::from_str(&warning).ok()) {
        answer.headers_mut().append(WARNING, warning);
    }
    answer
}
