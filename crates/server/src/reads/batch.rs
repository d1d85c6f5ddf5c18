//! Queues that combine the reads of several requests: one thread takes them together and answers each.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use stook_store::{Result, StoreError};
use tokio::sync::oneshot;

/// Requests that wait for a thread, which takes several of them together.
pub struct BatchQueue<T> {
    waiting: Mutex<Vec<T>>,
    arrived: Condvar,
    closed: AtomicBool,
}

impl<T> BatchQueue<T> {
    pub fn new() -> Self {
        Self { waiting: Mutex::default(), arrived: Condvar::new(), closed: AtomicBool::new(false) }
    }

    pub fn push(&self, request: T) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(request);
        // if other requests are waiting already, a thread has been notified
        if waiting.len() == 1 {
            self.arrived.notify_one();
        }
    }

    /// Waits for requests and takes the first `batch_size(waiting)` of them, but at least one. `None` once the queue is closed and empty.
    pub fn take(&self, batch_size: impl Fn(&[T]) -> usize) -> Option<Vec<T>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while waiting.is_empty() {
            if self.closed.load(Ordering::SeqCst) {
                return None;
            }
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        let taken = batch_size(&waiting).max(1);
        let batch: Vec<T> = waiting.drain(..taken).collect();
        if !waiting.is_empty() {
            self.arrived.notify_one();
        }
        Some(batch)
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.arrived.notify_all();
    }
}

/// Returns how many of the waiting requests fit into one batch of at most `max` elements, where a request has `size` elements.
pub fn count_that_fit<T>(waiting: &[T], max: usize, size: impl Fn(&T) -> usize) -> usize {
    let mut total = 0;
    let fits = |request: &&T| {
        total += size(request);
        total <= max
    };
    waiting.iter().take_while(fits).count()
}

/// Sends each request of a batch its part of what was found, or an error. Only the first request gets the original error.
pub fn reply_to_all<T, F, V>(
    requests: Vec<T>,
    mut found: Result<F>,
    part_of: impl Fn(&F, &T) -> V,
    sender_of: impl Fn(T) -> oneshot::Sender<Result<V>>,
) {
    for request in requests {
        let reply = match &found {
            Ok(found) => Ok(part_of(found, &request)),
            Err(_) => std::mem::replace(&mut found, Err(batch_failed())).map(|found| part_of(&found, &request)),
        };
        let _ = sender_of(request).send(reply);
    }
}

/// The error for the other requests of a batch whose read failed.
pub fn batch_failed() -> StoreError {
    StoreError::ReadOnly("another lookup in the same batch failed".into())
}
