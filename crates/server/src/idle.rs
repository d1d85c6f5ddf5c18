//! Connections without a request in progress. When a server has as many connections as it may have, the one of these that has been idle longest gives up
//! its place for a new one: who only connects keeps nobody out.

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Response;
use hyper::body::{Frame, SizeHint};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::Notify;

/// All open connections of a server.
#[derive(Default)]
pub(crate) struct OpenConnections {
    by_number: Mutex<HashMap<u64, Arc<ConnectionState>>>,
    /// Counts what happens, so that it is known what happened first.
    clock: AtomicU64,
}

/// What is known of an open connection.
#[derive(Default)]
struct ConnectionState {
    has_request: AtomicBool,
    /// When it was opened, or its last response was sent.
    idle_since: AtomicU64,
    must_close: Notify,
}

/// A connection that is open for as long as this exists.
pub(crate) struct OpenConnection {
    all: Arc<OpenConnections>,
    number: u64,
    state: Arc<ConnectionState>,
}

impl OpenConnections {
    /// Adds a connection.
    pub(crate) fn add(self: &Arc<Self>) -> Arc<OpenConnection> {
        let number = self.clock.fetch_add(1, Ordering::Relaxed);
        let state = Arc::new(ConnectionState { idle_since: AtomicU64::new(number), ..ConnectionState::default() });
        self.by_number.lock().unwrap_or_else(PoisonError::into_inner).insert(number, state.clone());
        Arc::new(OpenConnection { all: self.clone(), number, state })
    }

    /// Closes the connection that has been idle longest; returns whether there was one. Looks at all connections.
    pub(crate) fn close_idle(&self) -> bool {
        let mut connections = self.by_number.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = connections.iter().filter(|(_, state)| !state.has_request.load(Ordering::Relaxed));
        let Some(number) = idle.min_by_key(|(_, state)| state.idle_since.load(Ordering::Relaxed)).map(|(number, _)| *number) else { return false };
        // it is closed once
        if let Some(state) = connections.remove(&number) {
            state.must_close.notify_one();
        }
        true
    }
}

impl OpenConnection {
    /// Notes that a request has arrived; it is in progress until the response's body has been sent or dropped.
    pub(crate) fn begin_request(self: &Arc<Self>) -> RequestInProgress {
        self.state.has_request.store(true, Ordering::Relaxed);
        RequestInProgress(self.clone())
    }

    /// Waits until the connection must give up its place. One whose request arrives at the last moment keeps it.
    pub(crate) async fn must_close(&self) {
        self.state.must_close.notified().await;
        if self.state.has_request.load(Ordering::Relaxed) {
            std::future::pending().await
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.all.by_number.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// A request in progress.
pub(crate) struct RequestInProgress(Arc<OpenConnection>);

impl RequestInProgress {
    /// The same response, until the end of whose body the request is in progress.
    pub(crate) fn until_sent(self, response: Response<Body>) -> Response<Body> {
        response.map(|body| Body::new(BodyInProgress { body, _request: self }))
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        let connection = &self.0;
        connection.state.idle_since.store(connection.all.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        connection.state.has_request.store(false, Ordering::Relaxed);
    }
}

struct BodyInProgress {
    body: Body,
    _request: RequestInProgress,
}

impl HttpBody for BodyInProgress {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
