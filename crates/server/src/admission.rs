//! Admission: a bounded number of requests is in work, a bounded number waits a bounded time, the others are answered 503.

use crate::problem::Problem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Kinds of requests that do not compete with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Somebody waits for the answer.
    Interactive,
    /// Uploads and whole collections.
    Bulk,
    /// Those who watch a job.
    Watch,
}

/// The limits of one class.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most requests in work.
    pub most: usize,
    /// Longest time a request waits for its turn.
    pub wait: Duration,
}

/// The gate of one class. As many requests may wait as may be in work: whoever waits, waits for one of those before it.
pub struct Gate {
    places: Arc<Semaphore>,
    limits: Limits,
    waiting: AtomicUsize,
}

impl Gate {
    /// A gate with these limits.
    pub fn new(limits: Limits) -> Self {
        Self { places: Arc::new(Semaphore::new(limits.most.max(1))), limits, waiting: AtomicUsize::new(0) }
    }

    /// Requests in work.
    pub fn in_work(&self) -> usize {
        self.limits.most.max(1) - self.places.available_permits()
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
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Ok(place);
        }
        let full = || Problem::busy("too many requests are in work; try again");
        let _waits = Waits::new(&self.waiting, self.limits.most).ok_or_else(full)?;
        match tokio::time::timeout(self.limits.wait, self.places.clone().acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(full()),
        }
    }
}

/// One request that waits, also when it goes away while waiting.
struct Waits<'g>(&'g AtomicUsize);

impl<'g> Waits<'g> {
    fn new(waiting: &'g AtomicUsize, most: usize) -> Option<Self> {
        let own = Self(waiting);
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        // dropping it counts it out again
        (before < most).then_some(own)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
