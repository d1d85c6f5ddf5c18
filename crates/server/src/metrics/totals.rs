//! Sums since the process started, from which rates and quantiles of an interval are computed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of latency buckets. Each bound is the square root of two times the one before, from a microsecond to about an hour.
pub const STEPS: usize = 64;

/// Sums since the process started.
#[derive(Default)]
pub struct ProcessTotals {
    /// Requests that failed with status 500 or above.
    pub failed: AtomicU64,
    /// Documents that imports have processed.
    pub documents: AtomicU64,
    /// Rows that settling has written.
    pub settled: AtomicU64,
    /// Cache hits, of records and lists.
    pub hits: AtomicU64,
    /// Cache misses, of records and lists.
    pub misses: AtomicU64,
    /// Reads from the store by lookups.
    pub store_lookups: AtomicU64,
    /// Requests by duration.
    times: LatencyBuckets,
}

struct LatencyBuckets([AtomicU64; STEPS]);

impl Default for LatencyBuckets {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl ProcessTotals {
    /// Counts a finished request.
    pub fn count_response(&self, status: u16, took: Duration) {
        let step = (took.as_micros().max(1) as f64).log2() * 2.0;
        self.times.0[(step as usize).min(STEPS - 1)].fetch_add(1, Ordering::Relaxed);
        if status >= 500 {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the current sums.
    pub fn read(&self) -> TotalsSample {
        let load = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        TotalsSample {
            counts: [&self.failed, &self.documents, &self.settled, &self.hits, &self.misses, &self.store_lookups].map(load),
            times: std::array::from_fn(|step| load(&self.times.0[step])),
        }
    }
}

/// The sums at one time.
#[derive(Clone)]
pub struct TotalsSample {
    /// Failed requests, documents, settled rows, hits, misses, lookups.
    pub counts: [u64; 6],
    /// Requests by latency bucket.
    pub times: [u64; STEPS],
}

/// Returns the time in seconds within which this share of the requests was answered.
pub fn quantile(times: &[u64; STEPS], share: f64) -> Option<f64> {
    let total: u64 = times.iter().sum();
    let mut seen = 0;
    let step = times.iter().position(|number| {
        seen += number;
        total > 0 && seen as f64 >= total as f64 * share
    })?;
    Some(2f64.powf((step + 1) as f64 / 2.0) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_upper_bounds_of_the_counted_times() {
        let totals = ProcessTotals::default();
        assert_eq!(quantile(&totals.read().times, 0.5), None);
        for millis in [1, 1, 1, 1, 1, 1, 1, 1, 1, 500] {
            totals.count_response(200, Duration::from_millis(millis));
        }
        let times = totals.read().times;
        let (half, tail) = (quantile(&times, 0.5).expect("seen"), quantile(&times, 0.99).expect("seen"));
        assert!((0.001..0.0015).contains(&half) && (0.5..0.75).contains(&tail), "{half} {tail}");
    }
}
