//! Whether an answer is still wanted. Who asks a store for a caller that may go says so for as long as it asks, on the thread on which it
//! asks: a store looks at that while it works, and gives up with [`StoreError::Unwanted`](super::error::StoreError::Unwanted) what nobody waits for.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// Whether one answer is still wanted, shared by who waits for it and who works on it.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    is_over: AtomicBool,
    told: Notify,
}

thread_local! {
    /// What is worked on by this thread.
    static NOW: RefCell<Option<CancelToken>> = const { RefCell::new(None) };
}

/// Puts back what was worked on before.
struct CancelScope(Option<CancelToken>);

impl Drop for CancelScope {
    fn drop(&mut self) {
        NOW.with_borrow_mut(|now| *now = self.0.take());
    }
}

impl CancelToken {
    /// Does `work` on this thread. What it asks of stores is given up when the answer is not wanted any more, settle passes included, of which
    /// nothing is written then; what it submits to be written is not.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let _before = CancelScope(NOW.with_borrow_mut(|now| now.replace(self.clone())));
        work()
    }

    /// What this thread works on, if its answer may become unwanted.
    pub fn now() -> Option<Self> {
        NOW.with_borrow(Clone::clone)
    }

    /// The answer is not wanted any more.
    pub fn end(&self) {
        self.0.is_over.store(true, Ordering::SeqCst);
        self.0.told.notify_waiters();
    }

    /// Whether the answer is not wanted any more.
    pub fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::SeqCst)
    }

    /// Ends when the answer is not wanted any more.
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
