//! Services and their state.

use crate::api::response::json_answer;
use crate::guard::problem::HandlerResult;
use crate::guard::request::RequestContext;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};

/// Lists the sources of services: the latest answer in this process, and the number of fetches in progress.
pub async fn list(ctx: RequestContext) -> HandlerResult {
    ctx.params.end()?;
    let all = ctx.app.fetcher.services(&ctx.tenant).into_iter().map(|(status, running)| {
        let mut shown = status.to_json();
        shown["running"] = running.into();
        shown
    });
    Ok(json_answer(StatusCode::OK, json!({ "services": all.collect::<Vec<Json>>() }).to_string()))
}
