//! Questions of several requests, taken together by one thread and answered each with its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use stook_store::{Result, StoreError};
use tokio::sync::oneshot;

/// What waits for a thread, taken together.
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
        // where others wait, a thread is on its way
        if waiting.len() == 1 {
            self.arrived.notify_one();
        }
    }

    /// Waits for some and takes as many of them as `most` says, one at least.
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

/// How many of those who wait are asked for at once.
pub fn together<T>(waiting: &[T], most: usize, size: impl Fn(&T) -> usize) -> usize {
    let mut all = 0;
    let fits = |ask: &&T| {
        all += size(ask);
        all <= most
    };
    waiting.iter().take_while(fits).count()
}

/// Answers all who asked together: each with its own of what was found, or that it failed.
pub fn answer<T, F, V>(asks: Vec<T>, mut found: Result<F>, own: impl Fn(&F, &T) -> V, whom: impl Fn(T) -> oneshot::Sender<Result<V>>) {
    for ask in asks {
        let answer = match &found {
            Ok(found) => Ok(own(found, &ask)),
            Err(_) => std::mem::replace(&mut found, Err(batch_failed())).map(|found| own(&found, &ask)),
        };
        let _ = whom(ask).send(answer);
    }
}

/// The error of a question that was asked for several at once, for the others.
pub fn batch_failed() -> StoreError {
    StoreError::ReadOnly("another lookup in the same batch failed".into())
}
