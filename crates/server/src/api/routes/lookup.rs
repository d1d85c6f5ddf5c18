//! Runs declared lookups on the thread where that costs least.

use super::fragment::JsonFragment;
use super::parameters::RouteParams;
use super::records::{FirstLookup, RouteRequest};
use super::steps::find_all;
use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use crate::reads::MissPolicy;
use axum::http::StatusCode;
use futures_util::FutureExt;
use stook_catalogue::eval::ExpressionFailures;
use stook_catalogue::route::{LookupPart, LookupRoute, ResponseMedia, Route, RouteAction};

/// How often a lookup is repeated because records were changed while it ran.
pub const ATTEMPTS: usize = 10;

pub fn changing_too_quickly() -> Problem {
    Problem::unavailable("the records are being changed too quickly to be read consistently; try again")
}

/// The response of a route.
pub struct RouteResponse {
    /// HTTP status.
    pub status: StatusCode,
    /// Its media type.
    pub media: ResponseMedia,
    /// The body: JSON text or, by its media type, any.
    pub text: String,
    /// Expressions that failed; their values are null.
    pub failures: ExpressionFailures,
}

/// Runs a route's lookups. On a near store they are tried with the cache alone first, and otherwise run on one blocking thread; on a server they are
/// combined with those of other requests.
pub async fn look_up(ctx: RequestContext, route: &Route, params: RouteParams<'_>, index: usize) -> HandlerResult<Option<RouteResponse>> {
    if !ctx.app.reads.store_is_local() {
        for _ in 0..ATTEMPTS {
            let lookups = ctx.app.reads.begin(&ctx.tenant, MissPolicy::Batched).await?;
            let request = RouteRequest::new(&ctx, &params, lookups).of(route);
            let found = respond(&request, route).await;
            if !request.has_changed_meanwhile() {
                return found;
            }
        }
        return Err(changing_too_quickly());
    }
    let cached = {
        let lookups = ctx.app.reads.begin(&ctx.tenant, MissPolicy::CacheOnly).await?;
        let request = RouteRequest::new(&ctx, &params, lookups).of(route);
        let found = respond(&request, route).await;
        (!request.lookups.has_missed() && !request.has_changed_meanwhile()).then_some(found)
    };
    if let Some(found) = cached {
        return found;
    }
    let permit = ctx.app.lookup_permits.clone().acquire_owned().await.map_err(|error| Problem::unavailable(error.to_string()))?;
    let values = params.values;
    reading(move || {
        let _permit = permit;
        let app = ctx.app.clone();
        let route = &app.catalogue.routes[index];
        let params = RouteParams { all: &route.params, values };
        for _ in 0..ATTEMPTS {
            let lookups = ctx.app.reads.begin_directly(&ctx.tenant)?;
            let request = RouteRequest::new(&ctx, &params, lookups).of(route);
            // with `MissPolicy::Inline` no lookup waits, so the future is ready at once
            let ended = respond(&request, route).now_or_never();
            if !request.has_changed_meanwhile() {
                return ended.unwrap_or_else(|| Err(Problem::unavailable("a lookup did not finish")));
            }
        }
        Err(changing_too_quickly())
    })
    .await
}

/// Returns the response of a route that reads; `None` if its single record is missing.
async fn respond(request: &RouteRequest<'_>, route: &Route) -> HandlerResult<Option<RouteResponse>> {
    let found = match &route.action {
        RouteAction::Lookup(lookup_route) => answer(request, lookup_route).await?,
        RouteAction::Steps(steps) => {
            let found = find_all(request, steps, false).await?;
            return Ok(Some(found.response(request, &steps.response)));
        }
        RouteAction::Transition { .. } | RouteAction::Query(_) => None,
    };
    Ok(found.map(|shown| RouteResponse { status: StatusCode::OK, media: ResponseMedia::Json, text: shown.text(), failures: request.failures() }))
}

/// Returns the response of a lookup; `None` if its single record is missing.
pub async fn answer<'l>(request: &RouteRequest<'_>, route: &'l LookupRoute) -> HandlerResult<Option<JsonFragment<'l>>> {
    let params = request.params;
    let lookup = &route.lookup;
    let max_rows = route.page.and_then(|page| page.max_rows).map(|max_rows| params.number(max_rows));
    let (records, counted) = match request.first(route).await? {
        FirstLookup::Records(records) => (records, None),
        FirstLookup::Page(records, total) => (records, Some(total)),
        FirstLookup::TooMany(total) => return Ok(Some(composed(route, JsonFragment::Array([].into()), total))),
    };
    let mut rows = request.finish(lookup, vec![records]).await?.pop().unwrap_or_default();
    if let Some(total) = counted {
        return Ok(Some(composed(route, JsonFragment::Array(rows.into()), total)));
    }
    if lookup.single {
        return Ok(rows.pop().map(|row| composed(route, row, 1)));
    }
    if route.distinct {
        let mut seen = std::collections::HashSet::new();
        rows.retain(|row| seen.insert(row.text()));
    }
    let total = rows.len() as u64;
    if max_rows.is_some_and(|max_rows| total > max_rows) {
        rows.clear();
    }
    if let Some(page) = route.page {
        let (number, size) = (params.number(page.number).max(1), params.number(page.size));
        let start = (number - 1).saturating_mul(size).min(rows.len() as u64) as usize;
        let end = start.saturating_add(size as usize).min(rows.len());
        rows = rows.drain(start..end).collect();
    }
    Ok(Some(composed(route, JsonFragment::Array(rows.into()), total)))
}

fn composed<'l>(route: &'l LookupRoute, rows: JsonFragment<'l>, total: u64) -> JsonFragment<'l> {
    if route.answer.is_empty() {
        return rows;
    }
    let member = |(name, part): &'l (String, LookupPart)| {
        let value = match part {
            LookupPart::Rows => rows.clone(),
            LookupPart::Total => JsonFragment::Json(total.into()),
        };
        (name.as_str(), value)
    };
    JsonFragment::Object(route.answer.iter().map(member).collect())
}
