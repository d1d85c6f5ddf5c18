//! Who changes what by HTTP: requests that may change something are done for an operation that the store writes into its audit log with the change.

use super::access::Caller;
use crate::App;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use stook_store::audit::{AuditScope, AuditedOperation};

/// The address of a connection's peer.
#[derive(Debug, Clone, Copy)]
pub struct PeerAddress(pub IpAddr);

/// The statuses of refusals that the log has: not allowed, in conflict, or wrong. Others are of requests that cannot be understood, or are repeated.
const LOGGED: [StatusCode; 4] = [StatusCode::FORBIDDEN, StatusCode::CONFLICT, StatusCode::PRECONDITION_FAILED, StatusCode::UNPROCESSABLE_ENTITY];

/// The operation of a request that may change something; `None` for others.
pub fn scope_of(request: &Request, caller: &Caller) -> Option<AuditScope> {
    let path = request.uri().path();
    // these only read, with a body
    let is_read = request.method().is_safe() || path.ends_with("/query") || path.ends_with("/lookup") || path.ends_with("/oai");
    if is_read || request.method() == Method::OPTIONS {
        return None;
    }
    let address = request.extensions().get::<PeerAddress>().map(|PeerAddress(address)| address.to_string());
    let (token, name) = (caller.identity.token(), caller.name.to_string());
    let operation = AuditedOperation::new(&format!("{} {path}", request.method()));
    Some(AuditScope::new(AuditedOperation { tenant: caller.tenant_in(path), token, caller: name, address, ..operation }))
}

/// Adds to the log that the operation was refused, if it changed nothing.
pub fn log_refusal(app: &Arc<App>, scope: &AuditScope, status: StatusCode) {
    if scope.is_written() || !LOGGED.contains(&status) {
        return;
    }
    let (app, operation) = (app.clone(), scope.operation().clone());
    tokio::task::spawn_blocking(move || app.store.add_refusal(&operation, &format!("refused: {}", status.as_u16())));
}

/// A future whose store calls are done for an operation.
pub struct Audited<F> {
    scope: AuditScope,
    work: Pin<Box<F>>,
}

impl<F: Future> Audited<F> {
    /// Does `work` for an operation.
    pub fn new(scope: AuditScope, work: F) -> Self {
        Self { scope, work: Box::pin(work) }
    }
}

impl<F: Future> Future for Audited<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let scope = self.scope.clone();
        let work = self.work.as_mut();
        scope.during(|| work.poll(context))
    }
}
