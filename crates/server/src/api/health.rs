//! Health checks: whether the process runs, and whether it can answer requests now.

use crate::App;
use crate::api::response::json_answer;
use crate::guard::problem::{HandlerResult, Problem};
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use stook_store::Result as StoreResult;

/// How long the store may take to answer.
const STORE_TIME: Duration = Duration::from_secs(5);

/// Answers that the process runs.
pub async fn healthy() -> &'static str {
    "ok\n"
}

/// Answers whether requests can be processed now, and how the store, the import workers and the services are. A service that fails does not keep the
/// server from answering.
pub async fn ready(State(app): State<Arc<App>>) -> HandlerResult {
    let is_ending = app.ending.load(Ordering::SeqCst);
    let workers = app.workers_failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let check = tokio::task::spawn_blocking(move || services(&app));
    let (services, store) = match tokio::time::timeout(STORE_TIME, check).await {
        Ok(Ok(Ok(services))) => (services, None),
        Ok(Ok(Err(error))) => (Vec::new(), Some(error.to_string())),
        _ => (Vec::new(), Some("the store does not respond".to_owned())),
    };
    let reason = is_ending.then(|| "the server is shutting down".to_owned()).or_else(|| workers.clone()).or_else(|| store.clone());
    let state = |failed: Option<String>| failed.map_or(json!({ "state": "ok" }), |reason| json!({ "state": "failed", "reason": reason }));
    let (store, workers) = (state(store), state(workers));
    match reason {
        None => Ok(json_answer(StatusCode::OK, json!({ "ready": true, "store": store, "workers": workers, "services": services }).to_string())),
        Some(reason) => {
            Err(Problem::unavailable(reason).with("ready", false).with("store", store).with("workers", workers).with("services", services))
        }
    }
}

/// The services with the state of their newest answers in this process, whichever tenant asked, if the store can answer requests: one with an outdated
/// definition could only refuse them.
fn services(app: &App) -> StoreResult<Vec<Json>> {
    app.store.check_definition()?;
    app.store.jobs(None, 1)?;
    let mut states: BTreeMap<String, &'static str> = BTreeMap::new();
    for tenant in app.store.tenants()? {
        for (status, _) in app.fetcher.services(&tenant) {
            let state = states.entry(status.service.clone()).or_insert("unasked");
            // the worst one of several sources and tenants
            let rank = |state: &str| ["failed", "partial", "complete", "running"].iter().position(|known| *known == state).unwrap_or(usize::MAX);
            if rank(status.state()) < rank(state) {
                *state = status.state();
            }
        }
    }
    Ok(states.into_iter().map(|(name, state)| json!({ "name": name, "state": state })).collect())
}
