//! Serves declared routes under the paths, and with the errors, that the definition declares.
//!
//! A lookup finds its records by key, or by the values of an indexed field; each include is looked up once for all records. Responses are not cached;
//! records and lists of keys are.

use super::lookup::{RouteResponse, look_up};
use super::parameters::{RouteParams, parameters};
use super::{query, transition};
use crate::App;
use crate::api::response::json_answer;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use serde_json::json;
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::route::{Method, RouteAction};

/// The header that lists failed expressions; the body has only the members that the catalogue declares.
const WARNING: HeaderName = HeaderName::from_static("stook-warning");

/// Max failures in the headers, because proxies limit the size of a head.
const MAX_WARNINGS: usize = 5;

/// Returns the declared routes of a catalogue.
pub fn router(catalogue: &Catalogue) -> Router<Arc<App>> {
    let mut router = Router::new();
    for (index, route) in catalogue.routes.iter().enumerate() {
        let filter = match route.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Put => MethodFilter::PUT,
            Method::Patch => MethodFilter::PATCH,
            Method::Delete => MethodFilter::DELETE,
        };
        router = router.route(
            &route.path,
            on(filter, move |State(app): State<Arc<App>>, ctx: Result<RequestContext, Problem>, body: Body| serve(app, ctx, body, index)),
        );
    }
    router
}

async fn serve(app: Arc<App>, ctx: Result<RequestContext, Problem>, body: Body, index: usize) -> Response {
    let answered = match ctx {
        Ok(ctx) => run(ctx, body, index).await,
        Err(problem) => Err(problem),
    };
    answered.unwrap_or_else(|problem| as_declared(&app.catalogue, problem))
}

/// Converts a problem to the form that the catalogue declares.
fn as_declared(catalogue: &Catalogue, problem: Problem) -> Response {
    let Some(member) = &catalogue.error_member else { return problem.into_response() };
    let message = match problem.errors.as_slice() {
        [] | [_] => json!(problem.detail),
        several => json!(several),
    };
    let status = problem.status;
    let mut response = problem.into_response();
    let retry = response.headers_mut().remove(header::RETRY_AFTER);
    let mut declared = json_answer(status, json!({ member.as_str(): message }).to_string());
    if let Some(retry) = retry {
        declared.headers_mut().insert(header::RETRY_AFTER, retry);
    }
    declared
}

async fn run(mut ctx: RequestContext, body: Body, index: usize) -> HandlerResult {
    let app = ctx.app.clone();
    let route = &app.catalogue.routes[index];
    let values = parameters(&mut ctx, &route.params, body).await?;
    let params = RouteParams { all: &route.params, values };
    match &route.action {
        RouteAction::Lookup(lookup_route) => {
            ctx.count_store_reached();
            let found = look_up(ctx, lookup_route, params, index).await?;
            let missing = || Problem::not_found(route.missing.clone().unwrap_or_else(|| "there is no such record".into()));
            let RouteResponse { text, failures } = found.ok_or_else(missing)?;
            let mut answer = json_answer(StatusCode::OK, text);
            let first = failures.first.iter().take(MAX_WARNINGS).map(|failure| failure.escape_default().to_string());
            let more = (failures.truncated || failures.first.len() > MAX_WARNINGS).then(|| "more expressions fail".to_owned());
            for warning in first.chain(more).filter_map(|warning| HeaderValue::from_str(&warning).ok()) {
                answer.headers_mut().append(WARNING, warning);
            }
            Ok(answer)
        }
        RouteAction::Transition { .. } => transition::answer(ctx, route, &params).await,
        RouteAction::Query(query_route) => query::answer(ctx, query_route, &params).await,
    }
}
