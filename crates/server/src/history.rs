//! How the last hour was: a point for every ten seconds, kept in memory.

use crate::App;
use crate::guard::only_of;
use crate::problem::Problem;
use crate::records::json_answer;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stook_catalogue::value::show_timestamp;
use stook_store::access::Role;
use stook_store::queue::ChunkState;
use stook_store::vitals::StoreStats;

/// From point to point.
const EVERY: Duration = Duration::from_secs(10);
/// Points that are kept: an hour.
const POINTS: usize = 360;
/// Times are told apart by a factor of the square root of two, from a microsecond to an hour.
const STEPS: usize = 64;

/// Sums over everything that was done, since the process began.
#[derive(Default)]
pub struct ProcessTotals {
    /// Requests that failed here: status 500 and above.
    pub failed: AtomicU64,
    /// Documents that imports have dealt with.
    pub documents: AtomicU64,
    /// Rows that settling has written.
    pub settled: AtomicU64,
    /// Records that the cache had.
    pub hits: AtomicU64,
    /// Records that it had not.
    pub misses: AtomicU64,
    /// Questions asked of the store by look-ups.
    pub store_lookups: AtomicU64,
    /// Requests by how long they took.
    times: LatencyBuckets,
}

struct LatencyBuckets([AtomicU64; STEPS]);

impl Default for LatencyBuckets {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl ProcessTotals {
    /// A request was answered.
    pub fn answered(&self, status: u16, took: Duration) {
        let step = (took.as_micros().max(1) as f64).log2() * 2.0;
        self.times.0[(step as usize).min(STEPS - 1)].fetch_add(1, Ordering::Relaxed);
        if status >= 500 {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(&self) -> TotalsSample {
        let one = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        TotalsSample {
            counts: [&self.failed, &self.documents, &self.settled, &self.hits, &self.misses, &self.store_lookups].map(one),
            times: std::array::from_fn(|step| one(&self.times.0[step])),
        }
    }
}

/// Totals at a moment.
#[derive(Clone)]
struct TotalsSample {
    counts: [u64; 6],
    times: [u64; STEPS],
}

/// The time within which so many of these requests were answered, in seconds.
fn quantile(times: &[u64; STEPS], share: f64) -> Option<f64> {
    let all: u64 = times.iter().sum();
    let mut seen = 0;
    let step = times.iter().position(|number| {
        seen += number;
        all > 0 && seen as f64 >= all as f64 * share
    })?;
    Some(2f64.powf((step + 1) as f64 / 2.0) / 1e6)
}

/// Points of the last hour.
#[derive(Default)]
pub struct MetricsHistory(Mutex<VecDeque<Json>>);

impl MetricsHistory {
    fn push(&self, point: Json) {
        if let Ok(mut points) = self.0.lock() {
            if points.len() >= POINTS {
                points.pop_front();
            }
            points.push_back(point);
        }
    }
}

/// Adds a point every ten seconds.
pub async fn keep(app: Arc<App>) {
    let (mut before, mut at) = (app.metrics.totals.read(), Instant::now());
    let mut stored_before = StoreStats::default();
    loop {
        tokio::time::sleep(EVERY).await;
        let own = app.clone();
        let ask = move || {
            let chunks = match own.store.is_idle() {
                Ok(true) => 0,
                _ => own.store.chunks(None).map_or(0, |chunks| chunks.iter().filter(|chunk| chunk.state == ChunkState::Waiting).count()),
            };
            (chunks, own.store.vitals().ok())
        };
        let (chunks, stored) = tokio::task::spawn_blocking(ask).await.unwrap_or_default();
        let stored = stored.unwrap_or(stored_before);
        let (now, seconds) = (app.metrics.totals.read(), at.elapsed().as_secs_f64());
        at = Instant::now();
        let times: [u64; STEPS] = std::array::from_fn(|step| now.times[step] - before.times[step]);
        let [failed, documents, settled, hits, misses, asked] = std::array::from_fn(|place| now.counts[place] - before.counts[place]);
        let rate = |number: u64| number as f64 / seconds;
        app.history.push(json!({
            "at": show_timestamp(app.store.clock()),
            "requests": rate(times.iter().sum()),
            "failed": rate(failed),
            "p50": quantile(&times, 0.5),
            "p99": quantile(&times, 0.99),
            "in_work": app.interactive.in_work() + app.bulk.in_work(),
            "waiting": app.interactive.waiting() + app.bulk.waiting(),
            "chunks": chunks,
            "documents": rate(documents),
            "settled": rate(settled),
            "hits": (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64),
            "asked": rate(asked),
            "commits": rate(stored.commits - stored_before.commits),
            "written": rate(stored.rows - stored_before.rows),
            "writing": (stored.write_time - stored_before.write_time).as_secs_f64() / seconds,
            "connections": stored.connections_in_use,
            "bytes": stored.bytes,
        }));
        (before, stored_before) = (now, stored);
    }
}

/// The points, the oldest first.
///
/// # Errors
/// Who is not an admin is refused, and who is one of a tenant beside others.
pub async fn get(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    let caller = app.tokens.caller(request.headers())?;
    caller.need(Role::Admin)?;
    if only_of(&app, &caller).await?.is_some() {
        let all = "this covers all tenants and requires a token for all of them: `stook token create --role admin --tenant '*'`";
        return Err(Problem::new(StatusCode::FORBIDDEN, all));
    }
    let points: Vec<Json> = app.history.0.lock().map(|points| points.iter().cloned().collect()).unwrap_or_default();
    Ok(json_answer(StatusCode::OK, json!({ "every": EVERY.as_secs(), "points": points }).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_bounds_of_what_was_seen() {
        let totals = ProcessTotals::default();
        assert_eq!(quantile(&totals.read().times, 0.5), None);
        for millis in [1, 1, 1, 1, 1, 1, 1, 1, 1, 500] {
            totals.answered(200, Duration::from_millis(millis));
        }
        let times = totals.read().times;
        let (half, tail) = (quantile(&times, 0.5).expect("seen"), quantile(&times, 0.99).expect("seen"));
        assert!((0.001..0.0015).contains(&half) && (0.5..0.75).contains(&tail), "{half} {tail}");
    }
}
