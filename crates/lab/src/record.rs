//! Collects the results of a run: histograms, outcomes, values over time.

use crate::RunProgress;
use crate::http::RequestOutcome;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;
use stook_report::run::{Durations, RequestPoint, RequestSet, TimeBin};
use stook_sample::random::Random;

/// Max duration of histograms: an hour, in nanoseconds.
const MAX_LATENCY: u64 = 3_600_000_000_000;
/// Max requests kept individually.
const POINTS: usize = 4_000;
/// Number of time bins in the expected duration of a set; if it takes longer, up to four times as many are used.
const BINS: usize = 400;

/// Durations of one kind.
pub struct LatencyHistogram(Histogram<u32>);

impl LatencyHistogram {
    /// Creates an empty histogram.
    pub fn new() -> Self {
        // the bounds are valid: three digits up to an hour
        let made = Histogram::new_with_bounds(1, MAX_LATENCY, 3);
        Self(made.unwrap_or_else(|_| unreachable!("constant bounds are valid")))
    }

    /// Adds a duration.
    pub fn add(&mut self, time: Duration) {
        self.0.saturating_record((time.as_nanos() as u64).max(1));
    }

    /// Returns the duration that this share (0 to 1) does not exceed.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }

    /// Converts it to the format of run files.
    pub fn times(&self) -> Durations {
        Durations { histogram: self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value().into())).collect() }
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

/// A completed request. Times are relative to the start of the run.
#[derive(Debug, Clone, Copy)]
pub struct CompletedRequest {
    /// When it was due.
    pub due: Duration,
    /// When the generator processed it.
    pub picked_up: Duration,
    /// When it was sent on a connection.
    pub sent: Duration,
    /// When its response was complete.
    pub ended: Duration,
    /// Its outcome.
    pub outcome: RequestOutcome,
    /// Bytes of the response's body.
    pub bytes: u64,
}

/// Records the requests of one set.
pub struct ResultRecorder {
    latency: LatencyHistogram,
    service: LatencyHistogram,
    waiting: LatencyHistogram,
    generator_delay: LatencyHistogram,
    outcomes: BTreeMap<RequestOutcome, u64>,
    bytes: u64,
    /// Due time, latency and outcome of selected requests.
    points: Vec<(Duration, Duration, RequestOutcome)>,
    seen: u64,
    random: Random,
    bins: Vec<LatencyHistogram>,
    counts: Vec<(u64, u64)>,
    /// Width of a bin.
    width: Duration,
}

impl ResultRecorder {
    /// Creates an empty recorder for a set of about this duration.
    pub fn new(expected: Duration) -> Self {
        let width = (expected / BINS as u32).max(Duration::from_millis(10));
        Self {
            latency: LatencyHistogram::new(),
            service: LatencyHistogram::new(),
            waiting: LatencyHistogram::new(),
            generator_delay: LatencyHistogram::new(),
            outcomes: BTreeMap::new(),
            bytes: 0,
            points: Vec::new(),
            seen: 0,
            random: Random::new(1),
            bins: Vec::new(),
            counts: Vec::new(),
            width,
        }
    }

    /// Adds a request.
    pub fn add(&mut self, request: &CompletedRequest) {
        let latency = request.ended.saturating_sub(request.due);
        self.generator_delay.add(request.picked_up.saturating_sub(request.due));
        *self.outcomes.entry(request.outcome).or_default() += 1;
        self.bytes += request.bytes;
        // a request without a response has no latency
        if matches!(request.outcome, RequestOutcome::Status(_)) {
            self.latency.add(latency);
            self.service.add(request.ended.saturating_sub(request.sent));
            self.waiting.add(request.sent.saturating_sub(request.due));
        }
        let bin = ((request.due.as_nanos() / self.width.as_nanos().max(1)) as usize).min(4 * BINS);
        while self.bins.len() <= bin {
            self.bins.push(coarse_histogram());
            self.counts.push((0, 0));
        }
        self.bins[bin].add(latency);
        let (all, unsuccessful) = &mut self.counts[bin];
        (*all, *unsuccessful) = (*all + 1, *unsuccessful + u64::from(!request.outcome.is_success()));
        // reservoir sampling: every request has the same chance to be kept
        self.seen += 1;
        let point = (request.due, latency, request.outcome);
        if self.points.len() < POINTS {
            self.points.push(point);
        } else {
            let index = self.random.below(self.seen) as usize;
            if let Some(replaced) = self.points.get_mut(index) {
                *replaced = point;
            }
        }
    }

    /// Returns the progress after this time.
    pub fn progress(&self, time: Duration) -> RunProgress {
        let unsuccessful = self.outcomes.iter().filter(|(outcome, _)| !outcome.is_success()).map(|(_, count)| count).sum();
        let rate = self.seen as f64 / time.as_secs_f64().max(0.001);
        RunProgress {
            done: self.seen,
            unsuccessful,
            rate,
            p50: self.latency.quantile(0.5),
            p99: self.latency.quantile(0.99),
            ..RunProgress::default()
        }
    }

    /// Converts it to the format of run files.
    pub fn set(mut self, seconds: f64) -> RequestSet {
        self.points.sort_by_key(|(due, ..)| *due);
        let point = |(due, latency, outcome): (Duration, Duration, RequestOutcome)| RequestPoint {
            at: due.as_secs_f64(),
            latency: latency.as_secs_f64(),
            outcome: outcome.name(),
        };
        let bins = self.bins.iter().zip(&self.counts).enumerate().filter(|(_, (_, (all, _)))| *all > 0);
        let seconds_at = |timing: &LatencyHistogram, share: f64| timing.quantile(share).as_secs_f64();
        let bins = bins.map(|(index, (timing, (all, unsuccessful)))| TimeBin {
            at: self.width.as_secs_f64() * index as f64,
            requests: *all,
            unsuccessful: *unsuccessful,
            p50: seconds_at(timing, 0.5),
            p90: seconds_at(timing, 0.9),
            p99: seconds_at(timing, 0.99),
            max: seconds_at(timing, 1.0),
        });
        RequestSet {
            seconds,
            requests: self.seen,
            bytes: self.bytes,
            outcomes: self.outcomes.iter().map(|(outcome, count)| (outcome.name(), *count)).collect(),
            latency: self.latency.times(),
            service: self.service.times(),
            waiting: self.waiting.times(),
            late: self.generator_delay.times(),
            bin: self.width.as_secs_f64(),
            bins: bins.collect(),
            points: self.points.into_iter().map(point).collect(),
            ..RequestSet::default()
        }
    }
}

/// A histogram with fewer digits, because there are many of them.
fn coarse_histogram() -> LatencyHistogram {
    let made = Histogram::new_with_bounds(1_000, MAX_LATENCY, 2);
    LatencyHistogram(made.unwrap_or_else(|_| unreachable!("constant bounds are valid")))
}
