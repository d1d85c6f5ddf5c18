//! Settles whatever waits, tenant by tenant, until nothing does.

use super::stop::until_stopped;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stook_store::{PassReport, Result, SettlePass, Store, StoreError, Tenant};

/// Answers marks until there are none, or `stop` says so; returns what was done.
///
/// # Errors
/// When the store fails.
pub fn drain(store: &dyn Store, rules: &Arc<dyn SettlePass>, stop: &AtomicBool) -> Result<PassReport> {
    answer(store, rules, stop, &|| Ok(store.tenants_with_marks()?.is_empty()))
}

/// Answers marks until `is_over`, or `stop` says so; returns what was done.
pub(super) fn answer(store: &dyn Store, rules: &Arc<dyn SettlePass>, stop: &AtomicBool, is_over: &dyn Fn() -> Result<bool>) -> Result<PassReport> {
    let mut total = PassReport::default();
    let is_stopping = || stop.load(Ordering::SeqCst);
    until_stopped(&is_stopping, || {
        while !is_stopping() && !is_over()? {
            let round = round(store, rules, stop, &|_, _, _| ())?;
            if round.marks_cleared == 0 {
                // others are at it
                std::thread::sleep(Duration::from_millis(5));
            }
            total.include(round);
        }
        Ok(())
    })?;
    Ok(total)
}

/// One pass for every tenant that has marks: a tenant with many does not keep one with few waiting. `tell` hears of each.
///
/// # Errors
/// When the store fails.
pub fn round(store: &dyn Store, rules: &Arc<dyn SettlePass>, stop: &AtomicBool, tell: &dyn Fn(&Tenant, &PassReport, Duration)) -> Result<PassReport> {
    let mut total = PassReport::default();
    for tenant in store.tenants_with_marks()? {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let began = Instant::now();
        let passed = match store.settle(&tenant, rules) {
            Err(StoreError::Unwanted) if stop.load(Ordering::SeqCst) => break,
            passed => passed?,
        };
        if passed.marks_cleared > 0 {
            tell(&tenant, &passed, began.elapsed());
        }
        total.include(passed);
    }
    Ok(total)
}
