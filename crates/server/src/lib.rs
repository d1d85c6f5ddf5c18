//! The HTTP API and the web pages: records, queries, jobs, transitions, declared routes.
//!
//! A request passes through these modules:
//!
//! 1. `connection` accepts its connection, encrypted by `tls` if there is a certificate, and limits the time and memory that a peer may take.
//! 2. `router` finds the handler of its path.
//! 3. `guard` identifies the caller, gives the request a permit or refuses it, limits its time and counts it.
//! 4. `api` answers it: one file for each resource. What handlers share is in `app`, and lookups go through `reads` and its exact cache.
//! 5. `pages` are the web pages; each calls the API inside the process.
//!
//! `metrics` counts what happens, and `log` writes it to standard error.

mod api;
mod app;
mod connection;
mod guard;
mod idle;
mod log;
mod metrics;
#[cfg(feature = "pages")]
mod pages;
mod reads;
mod router;
mod tls;

use std::future::Future;
use std::sync::Arc;
use tokio::net::TcpListener;

pub use api::audit::shown as shown_audit_entry;
pub use app::workers::work;
pub use app::{App, ServerOptions};
pub use connection::serve_routes;
pub use guard::{access, admission, guarded, proxy, secret};
pub use log::{RequestLogLevel, worked};
pub use router::router;
pub use tls::ServerTls;

/// Serves until `stop` is done; then accepts no new requests and finishes those in progress.
///
/// # Errors
/// When connections cannot be accepted at all.
pub async fn serve(app: Arc<App>, listener: TcpListener, stop: impl Future<Output = ()>) -> std::io::Result<()> {
    let routes = router(&app);
    serve_routes(app, routes, listener, stop).await
}
