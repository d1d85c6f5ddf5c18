//! Metrics in the text format of Prometheus. An admin of one tenant sees only that tenant's.

use crate::App;
use crate::guard::access::Caller;
use crate::guard::blocking::blocking;
use crate::guard::problem::Problem;
use crate::metrics::health::gauges;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use stook_engine::job::health::{LOOKED_AT, source_health};
use stook_store::{StoreError, Tenant};

/// Returns the metrics.
///
/// # Errors
/// 403 for callers who are not admins.
pub async fn get(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    let text = metrics_text(&app, &app.caller(request.extensions(), request.headers())?).await?;
    Ok(([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response())
}

/// Returns the metrics that a caller may see, as text.
///
/// # Errors
/// 403 for callers who are not admins.
pub async fn metrics_text(app: &Arc<App>, caller: &Caller) -> Result<String, Problem> {
    caller.require_metrics()?;
    let tenant = restricted_tenant(app, caller).await?;
    let metrics = &app.metrics;
    for (gauge, value) in [
        ("interactive_in_work", app.interactive.in_progress()),
        ("interactive_waiting", app.interactive.waiting()),
        ("bulk_in_work", app.bulk.in_progress()),
        ("bulk_waiting", app.bulk.waiting()),
        ("watching", app.watch.in_progress()),
        ("cache_records", app.reads.cache().map_or(0, crate::reads::cache::RecordCache::records)),
        ("cache_bytes", app.reads.cache().map_or(0, |cache| cache.size() as usize)),
    ] {
        metrics.set(gauge, value as u64);
    }
    metrics.set_token_expiry(&app.tokens.expiring());
    let store = app.store.clone();
    let store_state = tokio::task::spawn_blocking(move || Ok::<_, StoreError>((store.chunks(None)?, store.stats()?))).await;
    if let Ok(Ok((chunks, stats))) = store_state {
        metrics.store(&stats);
        use stook_store::queue::ChunkState;
        for (gauge, state) in [("queue_waiting", ChunkState::Waiting), ("queue_leased", ChunkState::Leased), ("queue_dead", ChunkState::Dead)] {
            metrics.set(gauge, chunks.iter().filter(|chunk| chunk.state == state).count() as u64);
        }
    }
    if metrics.sources.is_due() {
        let store = app.store.clone();
        let read = move || Ok::<_, StoreError>((store.health()?, store.jobs(None, LOOKED_AT)?, store.clock()));
        if let Ok(Ok((health, jobs, now))) = tokio::task::spawn_blocking(read).await {
            gauges(&health).into_iter().for_each(|(name, value)| metrics.set(name, value));
            metrics.sources.set(&source_health(&app.catalogue, &jobs), now);
        }
    }
    Ok(match tenant {
        Some(tenant) => lines_of_tenant(&metrics.text(), tenant.as_str()),
        None => metrics.text(),
    })
}

/// Returns the tenant whose metrics alone a caller may see; `None` if the caller may see all, or there is no other tenant.
///
/// # Errors
/// When the store fails.
pub async fn restricted_tenant(app: &Arc<App>, caller: &Caller) -> Result<Option<Tenant>, Problem> {
    let Some(tenant) = caller.tenant.clone().filter(|_| !app.tokens.are_optional()) else { return Ok(None) };
    let store = app.store.clone();
    let all = blocking(move || store.tenants()).await?;
    Ok(if all.iter().all(|other| *other == tenant) { None } else { Some(tenant) })
}

/// Keeps the lines of a tenant.
fn lines_of_tenant(text: &str, tenant: &str) -> String {
    let label = format!("tenant=\"{tenant}\"");
    let is_of_tenant = |line: &&str| line.starts_with('#') || line.split_once('{').is_some_and(|(_, rest)| rest.contains(&label));
    text.lines().filter(is_of_tenant).map(|line| format!("{line}\n")).collect()
}
