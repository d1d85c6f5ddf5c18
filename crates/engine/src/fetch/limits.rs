//! How many requests a service is sent at a time, and at which intervals.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stook_catalogue::definition::Service;

/// The limits of a service, for all calls of this process.
pub struct ServiceLimits {
    /// The longest time for all requests of an answer.
    pub deadline: Duration,
    pub(super) timeout: Duration,
    pub(super) interval: Duration,
    pub(super) parallel: usize,
    busy: Mutex<LimitState>,
    freed: Condvar,
}

struct LimitState {
    requests: usize,
    /// The earliest time of the next request.
    next: Instant,
}

impl ServiceLimits {
    pub fn new(service: &Service) -> Self {
        let micros = |micros: i64| Duration::from_micros(micros.max(0) as u64);
        Self {
            deadline: micros(service.deadline),
            timeout: micros(service.timeout),
            interval: service.rate.map_or(Duration::ZERO, |rate| Duration::from_secs(1) / rate),
            parallel: service.parallel,
            busy: Mutex::new(LimitState { requests: 0, next: Instant::now() }),
            freed: Condvar::new(),
        }
    }

    /// Waits until a request may be sent; `None` if that is later than `until` or `stop` is set.
    pub(super) fn enter(&self, until: Instant, stop: &AtomicBool) -> Option<RequestSlot<'_>> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            if now >= until || stop.load(Ordering::SeqCst) {
                return None;
            }
            let wait = if busy.requests >= self.parallel {
                until - now
            } else if busy.next > now {
                busy.next - now
            } else {
                busy.requests += 1;
                busy.next = busy.next.max(now - self.interval) + self.interval;
                return Some(RequestSlot(self));
            };
            // `stop` does not notify, so it is polled
            let wait = wait.min(Duration::from_millis(200));
            busy = self.freed.wait_timeout(busy, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The right to send a request, held while it is in progress.
pub(super) struct RequestSlot<'l>(&'l ServiceLimits);

impl Drop for RequestSlot<'_> {
    fn drop(&mut self) {
        self.0.busy.lock().unwrap_or_else(PoisonError::into_inner).requests -= 1;
        self.0.freed.notify_one();
    }
}
