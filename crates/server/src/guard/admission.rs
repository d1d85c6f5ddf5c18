//! Admission: a bounded number of requests is in work, a bounded number waits a bounded time, the others are answered 503.

use crate::guard::problem::Problem;
use prometheus_client::metrics::counter::Counter;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use stook_store::wanted::CancelToken;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

tokio::task_local! {
    /// The place of the request that a task answers.
    static PLACE: AdmissionPermit;
}

/// A place among the requests in work. It is taken as long as anything works for the request, also where its caller has gone.
#[derive(Clone)]
pub struct AdmissionPermit {
    _permit: Arc<OwnedSemaphorePermit>,
    given_up: Counter,
}

impl AdmissionPermit {
    /// A place that counts whether its work is given up.
    pub fn new(permit: OwnedSemaphorePermit, given_up: Counter) -> Self {
        Self { _permit: Arc::new(permit), given_up }
    }

    /// Answers a request that has this place.
    pub async fn during<T>(self, answer: impl Future<Output = T>) -> T {
        PLACE.scope(self, answer).await
    }

    /// The place of the request that this task answers, if that needs one.
    pub fn now() -> Option<Self> {
        PLACE.try_with(Clone::clone).ok()
    }
}

/// Work for a request on a thread that may wait. It has the request's place until it has ended.
pub struct BlockingWork {
    place: Option<AdmissionPermit>,
    wanted: CancelToken,
}

/// Who waits for such work: when this is dropped, its answer is not wanted any more.
pub struct WorkWaiter(CancelToken);

impl Drop for WorkWaiter {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl BlockingWork {
    /// Work for the request that this task answers, and what stands for who waits for it.
    pub fn new() -> (Self, WorkWaiter) {
        let wanted = CancelToken::default();
        (Self { place: AdmissionPermit::now(), wanted: wanted.clone() }, WorkWaiter(wanted))
    }

    /// Does it. What is asked of the store is given up when nobody waits for the answer any more.
    pub fn run<T, E>(self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let done = self.wanted.during(work);
        if let Some(place) = self.place.as_ref().filter(|_| done.is_err() && self.wanted.is_over()) {
            place.given_up.inc();
        }
        done
    }
}

/// Kinds of requests that do not compete with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestClass {
    /// Somebody waits for the answer.
    Interactive,
    /// Uploads and whole collections.
    Bulk,
    /// Those who watch a job.
    Watch,
}

/// The limits of one class.
#[derive(Debug, Clone, Copy)]
pub struct ClassLimits {
    /// Most requests in work.
    pub most: usize,
    /// Longest time a request waits for its turn.
    pub wait: Duration,
}

/// The gate of one class. As many requests may wait as may be in progress, so each waits for at most one to end.
pub struct AdmissionGate {
    permits: Arc<Semaphore>,
    limits: ClassLimits,
    waiting: AtomicUsize,
}

impl AdmissionGate {
    /// A gate with these limits.
    pub fn new(limits: ClassLimits) -> Self {
        Self { permits: Arc::new(Semaphore::new(limits.most.max(1))), limits, waiting: AtomicUsize::new(0) }
    }

    /// Requests in work.
    pub fn in_work(&self) -> usize {
        self.limits.most.max(1) - self.permits.available_permits()
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// A place, held until it is dropped.
    ///
    /// # Errors
    /// When there is none in time.
    pub async fn enter(&self) -> Result<OwnedSemaphorePermit, Problem> {
        if let Ok(place) = self.permits.clone().try_acquire_owned() {
            return Ok(place);
        }
        let full = || Problem::unavailable("too many requests are in progress; try again");
        let _waits = QueuedRequest::new(&self.waiting, self.limits.most).ok_or_else(full)?;
        match tokio::time::timeout(self.limits.wait, self.permits.clone().acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(full()),
        }
    }
}

/// One request that waits, also when it goes away while waiting.
struct QueuedRequest<'g>(&'g AtomicUsize);

impl<'g> QueuedRequest<'g> {
    fn new(waiting: &'g AtomicUsize, most: usize) -> Option<Self> {
        let own = Self(waiting);
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        // dropping it counts it out again
        (before < most).then_some(own)
    }
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
