//! Admission: a limited number of requests is in progress, a limited number waits for a limited time, all others get a 503.

use crate::guard::problem::Problem;
use prometheus_client::metrics::counter::Counter;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use stook_store::cancel::CancelToken;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

tokio::task_local! {
    /// The permit of the request that a task answers.
    static CURRENT_PERMIT: AdmissionPermit;
}

/// The right of a request to be in progress. It is held as long as any work for the request runs, even after the caller has disconnected.
#[derive(Clone)]
pub struct AdmissionPermit {
    _permit: Arc<OwnedSemaphorePermit>,
    given_up: Counter,
}

impl AdmissionPermit {
    /// Wraps a permit; `given_up` counts requests whose work is cancelled.
    pub fn new(permit: OwnedSemaphorePermit, given_up: Counter) -> Self {
        Self { _permit: Arc::new(permit), given_up }
    }

    /// Runs a future with this permit as the current one.
    pub async fn during<T>(self, answer: impl Future<Output = T>) -> T {
        CURRENT_PERMIT.scope(self, answer).await
    }

    /// Returns the permit of the request that this task answers, if it has one.
    pub fn current() -> Option<Self> {
        CURRENT_PERMIT.try_with(Clone::clone).ok()
    }
}

/// Work for a request on a thread that may block. It holds the request's permit until it has ended.
pub struct BlockingWork {
    permit: Option<AdmissionPermit>,
    cancel_token: CancelToken,
}

/// The waiting side of such work: dropping it cancels the work.
pub struct WorkWaiter(CancelToken);

impl Drop for WorkWaiter {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl BlockingWork {
    /// Creates work for the request that this task answers, and its waiting side.
    pub fn new() -> (Self, WorkWaiter) {
        let cancel_token = CancelToken::default();
        (Self { permit: AdmissionPermit::current(), cancel_token: cancel_token.clone() }, WorkWaiter(cancel_token))
    }

    /// Runs the work. Its store operations are cancelled when the waiting side is dropped.
    pub fn run<T, E>(self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let done = self.cancel_token.during(work);
        if let Some(permit) = self.permit.as_ref().filter(|_| done.is_err() && self.cancel_token.is_cancelled()) {
            permit.given_up.inc();
        }
        done
    }
}

/// Classes of requests that do not compete with each other for permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestClass {
    /// The caller waits for the response.
    Interactive,
    /// Uploads and exports.
    Bulk,
    /// Requests that watch a job or a query.
    Watch,
}

/// The limits of one class.
#[derive(Debug, Clone, Copy)]
pub struct ClassLimits {
    /// Max requests in progress.
    pub max_requests: usize,
    /// Max time that a request waits for a permit.
    pub wait: Duration,
}

/// The gate of one class. At most as many requests wait as may be in progress, so a request gets its permit at the latest when all requests that were
/// in progress on its arrival have ended.
pub struct AdmissionGate {
    permits: Arc<Semaphore>,
    limits: ClassLimits,
    waiting: AtomicUsize,
}

impl AdmissionGate {
    /// Creates a gate with these limits.
    pub fn new(limits: ClassLimits) -> Self {
        Self { permits: Arc::new(Semaphore::new(limits.max_requests.max(1))), limits, waiting: AtomicUsize::new(0) }
    }

    /// Number of requests in progress.
    pub fn in_progress(&self) -> usize {
        self.limits.max_requests.max(1) - self.permits.available_permits()
    }

    /// Number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns a permit, which is held until it is dropped.
    ///
    /// # Errors
    /// 503 when there is none in time.
    pub async fn enter(&self) -> Result<OwnedSemaphorePermit, Problem> {
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let full = || Problem::unavailable("too many requests are in progress; try again");
        let _queued = QueuedRequest::new(&self.waiting, self.limits.max_requests).ok_or_else(full)?;
        match tokio::time::timeout(self.limits.wait, self.permits.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(full()),
        }
    }
}

/// Counts one waiting request until it is dropped, also if it is cancelled while it waits.
struct QueuedRequest<'g>(&'g AtomicUsize);

impl<'g> QueuedRequest<'g> {
    fn new(waiting: &'g AtomicUsize, max_requests: usize) -> Option<Self> {
        let queued = Self(waiting);
        let waiting_before = waiting.fetch_add(1, Ordering::Relaxed);
        // if there are too many, dropping `queued` decrements the counter again
        (waiting_before < max_requests).then_some(queued)
    }
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
