//! Runs work that may block on a thread for such work; it keeps the permit of its request until it has ended.

use super::admission::{AdmissionPermit, BlockingWork};
use super::problem::{HandlerResult, Problem};
use axum::http::StatusCode;
use stook_store::audit::AuditScope;

/// Runs work that may block to its end, even if the caller disconnects. It holds the request's permit until then.
pub async fn blocking<T: Send + 'static, E: Into<Problem> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> HandlerResult<T> {
    let (permit, scope) = (AdmissionPermit::current(), AuditScope::current());
    let work = move || {
        let _permit = permit;
        match scope {
            Some(scope) => scope.during(work),
            None => work(),
        }
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(Into::into),
        Err(error) => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("internal error: {error}"))),
    }
}

/// The same for work that only reads; it is cancelled when its caller no longer waits.
pub async fn reading<T: Send + 'static, E: Into<Problem> + Send + 'static>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> HandlerResult<T> {
    let (working, _waiting) = BlockingWork::new();
    blocking(move || working.run(work)).await
}
