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

    pub fn join(&self, one: T) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(one);
        // if other requests are waiting already, a thread has been notified
        if waiting.len() == 1 {
            self.arrived.notify_one();
        }
    }

    /// Waits for requests and takes the first `most(waiting)` of them, but at least one. `None` once the queue is closed and empty.
    pub fn take(&self, most: impl Fn(&[T]) -> usize) -> Option<Vec<T>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while waiting.is_empty() {
            if self.closed.load(Ordering::SeqCst) {
                return None;
            }
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        let taken = most(&waiting).max(1);
        let all: Vec<T> = waiting.drain(..taken).collect();
        if !waiting.is_empty() {
            self.arrived.notify_one();
        }
        Some(all)
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.arrived.notify_all();
    }
}

/// Returns how many of the waiting requests fit into one batch of `most` elements, where a request has `size` elements.
pub fn together<T>(waiting: &[T], most: usize, size: impl Fn(&T) -> usize) -> usize {
    let mut all = 0;
    let fits = |ask: &&T| {
        all += size(ask);
        all <= most
    };
    waiting.iter().take_while(fits).count()
}

/// Sends each request of a batch its part of what was found, or an error. Only the first request gets the original error.
pub fn answer<T, F, V>(asks: Vec<T>, mut found: Result<F>, own: impl Fn(&F, &T) -> V, whom: impl Fn(T) -> oneshot::Sender<Result<V>>) {
    for ask in asks {
        let answer = match &found {
            Ok(found) => Ok(own(found, &ask)),
            Err(_) => std::mem::replace(&mut found, Err(batch_failed())).map(|found| own(&found, &ask)),
        };
        let _ = whom(ask).send(answer);
    }
}

/// The error for the other requests of a batch whose read failed.
pub fn batch_failed() -> StoreError {
    StoreError::ReadOnly("another lookup in the same batch failed".into())
}
