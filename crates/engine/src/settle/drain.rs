//! Settles all tenants until no marks are left.

use super::stop::until_stopped;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stook_store::{PassReport, Result, SettlePass, Store, StoreError, Tenant};

/// Runs passes until no marks are left or `stop` is set; returns what they did.
///
/// # Errors
/// When the store fails.
pub fn drain(store: &dyn Store, rules: &Arc<dyn SettlePass>, stop: &AtomicBool) -> Result<PassReport> {
    drain_until(store, rules, stop, &|| Ok(store.tenants_with_marks()?.is_empty()))
}

/// Runs passes until `is_over` returns true or `stop` is set; returns what they did.
pub(super) fn drain_until(
    store: &dyn Store,
    rules: &Arc<dyn SettlePass>,
    stop: &AtomicBool,
    is_over: &dyn Fn() -> Result<bool>,
) -> Result<PassReport> {
    let mut total = PassReport::default();
    let is_stopping = || stop.load(Ordering::SeqCst);
    until_stopped(&is_stopping, || {
        while !is_stopping() && !is_over()? {
            let round = round(store, rules, stop, &|_, _, _| ())?;
            if round.marks_cleared == 0 {
                // another thread or process is processing the marks
                std::thread::sleep(Duration::from_millis(5));
            }
            total.include(round);
        }
        Ok(())
    })?;
    Ok(total)
}

/// Runs one pass for every tenant that has marks, so that a tenant with many marks does not delay one with few. Calls `report` after each pass.
///
/// # Errors
/// When the store fails.
pub fn round(
    store: &dyn Store,
    rules: &Arc<dyn SettlePass>,
    stop: &AtomicBool,
    report: &dyn Fn(&Tenant, &PassReport, Duration),
) -> Result<PassReport> {
    let mut total = PassReport::default();
    for tenant in store.tenants_with_marks()? {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let started = Instant::now();
        let passed = match store.settle(&tenant, rules) {
            Err(StoreError::Cancelled) if stop.load(Ordering::SeqCst) => break,
            passed => passed?,
        };
        if passed.marks_cleared > 0 {
            report(&tenant, &passed, started.elapsed());
        }
        total.include(passed);
    }
    Ok(total)
}
