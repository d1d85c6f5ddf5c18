//! Refusals of requests for which there is no place: how soon they are sent, and how they are logged.
//!
//! Clients that repeat a refused request at once would otherwise take the processor from the requests that have a place. So no more refusals are sent
//! per second than a small part of a processor can make; the others are sent a little later, at most after the second that `Retry-After` names.

use crate::log;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two refusals if there are too many.
const INTERVAL: Duration = Duration::from_micros(500);
/// How many refusals are sent at once before that.
const BURST: u32 = 200;
/// The longest time that a refusal waits.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Marks a response as a refusal.
#[derive(Debug, Clone, Copy)]
pub struct Refused;

/// The refusals of a server.
#[derive(Default)]
pub struct Refusals {
    /// When the next refusal is due.
    next: Mutex<Option<Instant>>,
    /// Refusals that have not been logged yet.
    unlogged: AtomicU64,
}

impl Refusals {
    /// Counts a refusal and returns how long to wait before it is sent.
    pub fn pause(&self, now: Instant) -> Duration {
        self.unlogged.fetch_add(1, Ordering::Relaxed);
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        // unused time is saved for a burst
        let earliest = now.checked_sub(INTERVAL * BURST).unwrap_or(now);
        let due = next.map_or(earliest, |next| next.max(earliest));
        let pause = due.saturating_duration_since(now);
        if pause >= MAX_PAUSE {
            return MAX_PAUSE;
        }
        *next = Some(due + INTERVAL);
        pause
    }

    /// Writes a line with the number of refusals since the last line, if there were any.
    pub fn write_log(&self) {
        let refused = self.unlogged.swap(0, Ordering::Relaxed);
        if refused > 0 {
            log::write("refused", [("requests", refused.into()), ("status", 503.into()), ("reason", "too many requests are in progress".into())]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_refusals_are_sent_at_once_and_many_at_a_limited_rate() {
        let (refusals, now) = (Refusals::default(), Instant::now() + Duration::from_secs(3_600));
        for _ in 0..=BURST {
            assert_eq!(refusals.pause(now), Duration::ZERO);
        }
        let pauses: Vec<Duration> = (0..3_000).map(|_| refusals.pause(now)).collect();
        assert_eq!((pauses[0], pauses[499]), (INTERVAL, INTERVAL * 500));
        assert_eq!(pauses.last(), Some(&MAX_PAUSE), "nobody waits longer than the second that he is told to");
        // later there is room again
        assert_eq!(refusals.pause(now + MAX_PAUSE * 2), Duration::ZERO);
        assert_eq!(refusals.unlogged.load(Ordering::Relaxed), u64::from(BURST) + 1 + 3_000 + 1);
    }
}
