//! Cancellation: whether a caller still wants a result. Code that calls a store for a caller who may disconnect does so inside
//! [`CancelToken::during`]. The store looks at the thread's token while it works, and gives up with
//! [`StoreError::Cancelled`](super::error::StoreError::Cancelled) once it is cancelled.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// Whether one result is still wanted, shared by the code that waits for it and the code that computes it.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    is_cancelled: AtomicBool,
    notify: Notify,
}

thread_local! {
    /// The token of the work that this thread does now.
    static CURRENT: RefCell<Option<CancelToken>> = const { RefCell::new(None) };
}

/// Restores the previous token of the thread.
struct CancelScope(Option<CancelToken>);

impl Drop for CancelScope {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| *current = self.0.take());
    }
}

impl CancelToken {
    /// Does `work` on this thread under this token. Once the token is cancelled, store calls in `work` give up. That includes settle passes, of which
    /// nothing is written then, but not units that were submitted.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let _scope = CancelScope(CURRENT.with_borrow_mut(|current| current.replace(self.clone())));
        work()
    }

    /// The token under which this thread works, if any.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Cancels: the result is not wanted any more.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::SeqCst);
        self.0.notify.notify_waiters();
    }

    /// Whether the token was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::SeqCst)
    }

    /// Resolves when the token is cancelled.
    pub async fn cancelled(&self) {
        loop {
            // registered before the check, so that a notification in between is not lost
            let notified = self.0.notify.notified();
            if self.is_cancelled() {
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_innermost_token_until_its_work_returns() {
        assert!(CancelToken::current().is_none());
        let (outer, inner) = (CancelToken::default(), CancelToken::default());
        outer.during(|| {
            inner.during(|| inner.cancel());
            assert!(!CancelToken::current().expect("the outer one").is_cancelled());
        });
        assert!(CancelToken::current().is_none() && inner.is_cancelled());
    }
}
