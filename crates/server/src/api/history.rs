//! Metrics of the last hour: a point every ten seconds, kept in memory.

use super::metrics::restricted_tenant;
use crate::App;
use crate::api::response::json_answer;
use crate::guard::problem::Problem;
use crate::metrics::{STEPS, quantile};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stook_catalogue::value::show_timestamp;
use stook_store::queue::ChunkState;
use stook_store::stats::StoreStats;

/// Time between two points.
const INTERVAL: Duration = Duration::from_secs(10);

/// Adds a point every ten seconds, forever.
pub async fn record_points(app: Arc<App>) {
    let (mut before, mut at) = (app.metrics.totals.read(), Instant::now());
    let mut stored_before = StoreStats::default();
    loop {
        tokio::time::sleep(INTERVAL).await;
        let store = app.store.clone();
        let read_state = move || {
            let chunks = match store.is_idle() {
                Ok(true) => 0,
                _ => store.chunks(None).map_or(0, |chunks| chunks.iter().filter(|chunk| chunk.state == ChunkState::Waiting).count()),
            };
            (chunks, store.stats().ok())
        };
        let (chunks, stored) = tokio::task::spawn_blocking(read_state).await.unwrap_or_default();
        let stored = stored.unwrap_or(stored_before);
        let (now, seconds) = (app.metrics.totals.read(), at.elapsed().as_secs_f64());
        at = Instant::now();
        let times: [u64; STEPS] = std::array::from_fn(|step| now.times[step] - before.times[step]);
        let [failed, documents, settled, hits, misses, store_lookups] = std::array::from_fn(|index| now.counts[index] - before.counts[index]);
        let rate = |number: u64| number as f64 / seconds;
        app.history.push(json!({
            "at": show_timestamp(app.store.clock()),
            "requests": rate(times.iter().sum()),
            "failed": rate(failed),
            "p50": quantile(&times, 0.5),
            "p99": quantile(&times, 0.99),
            "in_work": app.interactive.in_progress() + app.bulk.in_progress(),
            "waiting": app.interactive.waiting() + app.bulk.waiting(),
            "chunks": chunks,
            "documents": rate(documents),
            "settled": rate(settled),
            "hits": (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64),
            "asked": rate(store_lookups),
            "commits": rate(stored.commits - stored_before.commits),
            "written": rate(stored.rows - stored_before.rows),
            "writing": (stored.write_time - stored_before.write_time).as_secs_f64() / seconds,
            "connections": stored.connections_in_use,
            "bytes": stored.bytes,
        }));
        (before, stored_before) = (now, stored);
    }
}

/// Returns the points, oldest first.
///
/// # Errors
/// 403 for callers who are not admins, and for admins of one tenant if there are other tenants.
pub async fn get(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    let caller = app.caller(request.extensions(), request.headers())?;
    caller.require_metrics()?;
    if restricted_tenant(&app, &caller).await?.is_some() {
        let all = "this covers all tenants and requires a token for all of them: `stook token create --role admin --tenant '*'`";
        return Err(Problem::new(StatusCode::FORBIDDEN, all));
    }
    let points: Vec<Json> = app.history.points();
    Ok(json_answer(StatusCode::OK, json!({ "every": INTERVAL.as_secs(), "points": points }).to_string()))
}
