//! How sources are doing.

use crate::api::response::json_answer;
use crate::guard::blocking::reading;
use crate::guard::problem::HandlerResult;
use crate::guard::undecided::{Decides, UndecidedContext};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use stook_catalogue::value::show_timestamp;
use stook_engine::job::health::{LOOKED_AT, SourceHealth, source_health};

/// Lists the sources that the caller may see, in the order of the definition: how the last job of each ended, and when one was successful last.
pub async fn list(ctx: UndecidedContext) -> HandlerResult {
    let ctx = ctx.decided(Decides::ByJob);
    ctx.params.end()?;
    ctx.count_store_reached();
    let (app, tenant) = (ctx.app.clone(), ctx.tenant.clone());
    let jobs = reading(move || app.store.jobs(Some(&tenant), LOOKED_AT)).await?;
    let (catalogue, now) = (&ctx.app.catalogue, ctx.app.store.clock());
    let known: BTreeMap<String, SourceHealth> = source_health(catalogue, &jobs).into_iter().map(|health| (health.source.clone(), health)).collect();
    let unfinished = |source: &str| jobs.iter().filter(|job| job.source == source && job.finished.is_none()).count();
    // a source whose documents are embedded in those of others need not have jobs of its own
    let own = catalogue.sources.iter().map(|source| source.name.as_str());
    let visible = own.filter(|source| ctx.sees_source(source) && (known.contains_key(*source) || !catalogue.is_embedded(source)));
    let sources: Vec<Json> = visible.map(|source| shown(source, known.get(source), unfinished(source), now)).collect();
    Ok(json_answer(StatusCode::OK, json!({ "sources": sources, "whole": jobs.len() < LOOKED_AT }).to_string()))
}

fn shown(source: &str, health: Option<&SourceHealth>, unfinished: usize, now: i64) -> Json {
    let last_success = health.and_then(|health| health.last_success);
    json!({
        "source": source,
        "state": health.and_then(|health| health.state).map(|state| state.name()),
        "failure": health.and_then(|health| health.failure.as_deref()),
        "failed_documents": health.map(|health| health.failed_documents),
        "last_job": health.map(|health| health.last_job),
        "last_success": last_success.map(show_timestamp),
        "age": last_success.map(|at| (now - at).max(0) / 1_000_000),
        "bytes": last_success.and(health).map(|health| health.bytes),
        "unfinished": unfinished,
    })
}
