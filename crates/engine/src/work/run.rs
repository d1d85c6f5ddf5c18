//! Processes jobs as long as a process lives, even if the store fails for a while.

use super::event::{WorkerEvent, WorkerOptions};
use super::pool::{MAX_IDLE_PAUSE, WorkerPool};
use crate::{EngineError, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stook_catalogue::definition::Catalogue;
use stook_store::{Store, StoreError};

/// Processes all live jobs until `stop` is set or, with `drain`, no chunk is left. When the store fails (a server that is down, a full disk), tries
/// again later.
///
/// # Errors
/// When the definition has changed, or the store is damaged.
pub fn run(
    catalogue: &Arc<Catalogue>,
    store: &dyn Store,
    options: &WorkerOptions,
    stop: &AtomicBool,
    report: &(dyn Fn(WorkerEvent) + Sync),
) -> Result<()> {
    let mut pause = Duration::from_secs(1);
    let before = AtomicU64::new(0);
    loop {
        let started = Instant::now();
        let report_total = |event| match event {
            WorkerEvent::Committed(documents) => report(WorkerEvent::Committed(before.load(Ordering::SeqCst) + documents)),
            other => report(other),
        };
        let pool = WorkerPool::new(catalogue, store, options, stop, &report_total);
        let result = pool.work(|| Ok(options.drain && store.is_idle()?));
        before.fetch_add(pool.committed.load(Ordering::SeqCst), Ordering::SeqCst);
        match result {
            Err(EngineError::Store(error @ (StoreError::ReadOnly(_) | StoreError::Busy(_) | StoreError::Full | StoreError::Slow(_))))
                if !stop.load(Ordering::SeqCst) =>
            {
                report(WorkerEvent::StoreUnavailable(error));
            }
            result => return result,
        }
        pause = if started.elapsed() > Duration::from_secs(60) { Duration::from_secs(1) } else { (pause * 2).min(Duration::from_secs(30)) };
        let until = Instant::now() + pause;
        while Instant::now() < until && !stop.load(Ordering::SeqCst) {
            std::thread::sleep(MAX_IDLE_PAUSE.min(pause));
        }
    }
}
