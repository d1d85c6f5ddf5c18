//! Runs declared lookups on the thread where that costs least.

use super::fragment::JsonFragment;
use super::parameters::RouteParams;
use super::records::{FirstLookup, RouteRequest};
use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use crate::reads::MissPolicy;
use futures_util::FutureExt;
use stook_catalogue::eval::ExpressionFailures;
use stook_catalogue::route::{LookupPart, LookupRoute, RouteAction};

/// How often a lookup is repeated because records were changed while it ran.
const ATTEMPTS: usize = 10;

fn restless() -> Problem {
    Problem::unavailable("the records are being changed too quickly to be read consistently; try again")
}

/// The response of a lookup.
pub struct RouteResponse {
    /// JSON text.
    pub text: String,
    /// Expressions that failed; their values are null.
    pub failures: ExpressionFailures,
}

/// Runs a route's lookups. On a near store they are tried with the cache alone first, and otherwise run on one blocking thread; on a server they are
/// combined with those of other requests.
pub async fn look_up(ctx: RequestContext, find: &LookupRoute, given: RouteParams<'_>, index: usize) -> HandlerResult<Option<RouteResponse>> {
    let looked = |request: &RouteRequest<'_>, found: Option<JsonFragment<'_>>| {
        found.map(|shown| RouteResponse { text: shown.text(), failures: request.failures() })
    };
    if !ctx.app.reads.are_near() {
        for _ in 0..ATTEMPTS {
            let looking = ctx.app.reads.begin(&ctx.tenant, MissPolicy::Batched).await?;
            let request = RouteRequest::new(&ctx, &given, looking);
            let found = answer(&request, find).await.map(|found| looked(&request, found));
            if !request.has_moved() {
                return found;
            }
        }
        return Err(restless());
    }
    let cached = {
        let looking = ctx.app.reads.begin(&ctx.tenant, MissPolicy::CacheOnly).await?;
        let request = RouteRequest::new(&ctx, &given, looking);
        let found = answer(&request, find).await.map(|found| looked(&request, found));
        (!request.looking.has_missed() && !request.has_moved()).then_some(found)
    };
    if let Some(found) = cached {
        return found;
    }
    let place = ctx.app.lookers.clone().acquire_owned().await.map_err(|error| Problem::unavailable(error.to_string()))?;
    let values = given.values;
    reading(move || {
        let _place = place;
        let app = ctx.app.clone();
        let route = &app.catalogue.routes[index];
        let RouteAction::Lookup(find) = &route.action else { return Ok(None) };
        let given = RouteParams { all: &route.params, values };
        for _ in 0..ATTEMPTS {
            let looking = ctx.app.reads.begin_directly(&ctx.tenant)?;
            let request = RouteRequest::new(&ctx, &given, looking);
            // with `MissPolicy::Inline` no lookup waits, so the future is ready at once
            let ended = answer(&request, find).now_or_never();
            if !request.has_moved() {
                return ended.unwrap_or_else(|| Err(Problem::unavailable("a lookup did not finish"))).map(|found| looked(&request, found));
            }
        }
        Err(restless())
    })
    .await
}

/// Returns the response of a lookup; `None` if its single record is missing.
async fn answer<'l>(request: &RouteRequest<'_>, find: &'l LookupRoute) -> HandlerResult<Option<JsonFragment<'l>>> {
    let given = request.params;
    let look = &find.lookup;
    let most = find.page.and_then(|page| page.max_rows).map(|most| given.number(most));
    let (records, counted) = match request.first(find).await? {
        FirstLookup::Records(records) => (records, None),
        FirstLookup::Page(records, total) => (records, Some(total)),
        FirstLookup::TooMany(total) => return Ok(Some(composed(find, JsonFragment::Array([].into()), total))),
    };
    let mut rows = request.finish(look, vec![records]).await?.pop().unwrap_or_default();
    if let Some(total) = counted {
        return Ok(Some(composed(find, JsonFragment::Array(rows.into()), total)));
    }
    if look.single {
        return Ok(rows.pop().map(|row| composed(find, row, 1)));
    }
    if find.distinct {
        let mut seen = std::collections::HashSet::new();
        rows.retain(|row| seen.insert(row.text()));
    }
    let total = rows.len() as u64;
    if most.is_some_and(|most| total > most) {
        rows.clear();
    }
    if let Some(page) = find.page {
        let (number, size) = (given.number(page.number).max(1), given.number(page.size));
        let from = (number - 1).saturating_mul(size).min(rows.len() as u64) as usize;
        let until = from.saturating_add(size as usize).min(rows.len());
        rows = rows.drain(from..until).collect();
    }
    Ok(Some(composed(find, JsonFragment::Array(rows.into()), total)))
}

fn composed<'l>(find: &'l LookupRoute, rows: JsonFragment<'l>, total: u64) -> JsonFragment<'l> {
    if find.answer.is_empty() {
        return rows;
    }
    let member = |(name, part): &'l (String, LookupPart)| {
        let value = match part {
            LookupPart::Rows => rows.clone(),
            LookupPart::Total => JsonFragment::Json(total.into()),
        };
        (name.as_str(), value)
    };
    JsonFragment::Object(find.answer.iter().map(member).collect())
}
