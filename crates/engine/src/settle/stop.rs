//! Stopping: a settle pass is given up between steps of its work, and its marks stay.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stook_store::cancel::CancelToken;
use stook_store::{Result, StoreError};

/// How often the watcher checks whether settling is to stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Does `work`. When `is_stopping` returns true, calls of stores on this thread are cancelled, settle passes included, and `None` is returned.
/// What was committed stays, and so do marks that were not processed.
///
/// # Errors
/// As `work`.
pub fn until_stopped<T>(is_stopping: &(dyn Fn() -> bool + Sync), work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    let (token, is_done) = (CancelToken::default(), AtomicBool::new(false));
    let result = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                if is_stopping() {
                    return token.cancel();
                }
                std::thread::park_timeout(CHECK_INTERVAL);
            }
        });
        let _done = Done(&is_done, watcher.thread());
        token.during(work)
    });
    match result {
        Err(StoreError::Cancelled) if token.is_cancelled() => Ok(None),
        result => result.map(Some),
    }
}

/// Ends the watcher, also if the work panics.
struct Done<'d>(&'d AtomicBool, &'d std::thread::Thread);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.unpark();
    }
}

/// Fails if the current pass has been cancelled; to be called between steps of its work.
pub(super) fn check_cancelled() -> Result<()> {
    if CancelToken::current().is_some_and(|token| token.is_cancelled()) { Err(StoreError::Cancelled) } else { Ok(()) }
}
