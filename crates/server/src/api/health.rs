//! Health checks: whether the process runs, and whether it can answer requests now.

use crate::App;
use crate::guard::problem::Problem;
use axum::extract::State;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Answers that the process runs.
pub async fn healthy() -> &'static str {
    "ok\n"
}

/// Answers whether requests can be processed now.
pub async fn ready(State(app): State<Arc<App>>) -> Result<&'static str, Problem> {
    if app.ending.load(Ordering::SeqCst) {
        return Err(Problem::unavailable("the server is shutting down"));
    }
    if let Some(reason) = app.workers_failed.lock().unwrap_or_else(PoisonError::into_inner).clone() {
        return Err(Problem::unavailable(reason));
    }
    // a server with an outdated definition, which could only refuse requests, is not ready
    let check = tokio::task::spawn_blocking(move || app.store.check_definition().and_then(|()| app.store.jobs(None, 1)));
    match tokio::time::timeout(Duration::from_secs(5), check).await {
        Ok(Ok(Ok(_))) => Ok("ready\n"),
        Ok(Ok(Err(error))) => Err(Problem::unavailable(error.to_string())),
        _ => Err(Problem::unavailable("the store does not respond")),
    }
}
