//! Settling that is told to stop: a pass is given up between the pieces it is done in, and its marks stay.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stook_store::wanted::CancelToken;
use stook_store::{Result, StoreError};

/// How often somebody looks whether settling is told to stop.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Does `work`; when `is_stopping`, what it asks of stores on this thread is given up, passes included, and it ends with nothing. Whatever was
/// committed stays, and marks that were not answered stay.
///
/// # Errors
/// As `work`.
pub fn until_stopped<T>(is_stopping: &(dyn Fn() -> bool + Sync), work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    let (token, is_done) = (CancelToken::default(), AtomicBool::new(false));
    let ended = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                if is_stopping() {
                    return token.end();
                }
                std::thread::park_timeout(LOOK_AGAIN);
            }
        });
        let _done = Done(&is_done, watcher.thread());
        token.during(work)
    });
    match ended {
        Err(StoreError::Unwanted) if token.is_over() => Ok(None),
        ended => ended.map(Some),
    }
}

/// Ends the watcher, also where the work panics.
struct Done<'d>(&'d AtomicBool, &'d std::thread::Thread);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.unpark();
    }
}

/// Fails a pass that is given up. Passes ask between pieces of their work.
pub(super) fn go_on() -> Result<()> {
    if CancelToken::now().is_some_and(|token| token.is_over()) { Err(StoreError::Unwanted) } else { Ok(()) }
}
