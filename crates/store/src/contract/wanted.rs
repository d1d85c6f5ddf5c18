//! Cancellation: whether a caller still wants a result. Code that calls a store for a caller who may disconnect does so inside
//! [`CancelToken::during`]. The store looks at the thread's token while it works, and gives up with
//! [`StoreError::Unwanted`](super::error::StoreError::Unwanted) once it is cancelled.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// Whether one result is still wanted, shared by the code that waits for it and the code that computes it.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    is_over: AtomicBool,
    told: Notify,
}

thread_local! {
    /// The token of the work that this thread does now.
    static NOW: RefCell<Option<CancelToken>> = const { RefCell::new(None) };
}

/// Restores the previous token of the thread.
struct CancelScope(Option<CancelToken>);

impl Drop for CancelScope {
    fn drop(&mut self) {
        NOW.with_borrow_mut(|now| *now = self.0.take());
    }
}

impl CancelToken {
    /// Does `work` on this thread under this token. Once the token is cancelled, store calls in `work` give up. That includes settle passes, of which
    /// nothing is written then, but not units that were submitted.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let _before = CancelScope(NOW.with_borrow_mut(|now| now.replace(self.clone())));
        work()
    }

    /// The token under which this thread works, if any.
    pub fn now() -> Option<Self> {
        NOW.with_borrow(Clone::clone)
    }

    /// Cancels: the result is not wanted any more.
    pub fn end(&self) {
        self.0.is_over.store(true, Ordering::SeqCst);
        self.0.told.notify_waiters();
    }

    /// Whether the token was cancelled.
    pub fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::SeqCst)
    }

    /// Resolves when the token is cancelled.
    pub async fn over(&self) {
        loop {
            // registered before the check, so that a notification in between is not lost
            let told = self.0.told.notified();
            if self.is_over() {
                return;
            }
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_what_it_works_on_and_for_how_long() {
        assert!(CancelToken::now().is_none());
        let (outer, inner) = (CancelToken::default(), CancelToken::default());
        outer.during(|| {
            inner.during(|| inner.end());
            assert!(!CancelToken::now().expect("the outer one").is_over());
        });
        assert!(CancelToken::now().is_none() && inner.is_over());
    }
}
