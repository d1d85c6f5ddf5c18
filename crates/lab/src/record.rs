//! What a run has seen, as it is collected: histograms, outcomes, a picture over time.

use crate::RunProgress;
use crate::http::RequestOutcome;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;
use stook_report::run::{Durations, RequestPoint, RequestSet, TimeBin};
use stook_sample::random::Random;

/// Longest time that is told apart: an hour, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;
/// Most requests that are kept one by one.
const POINTS: usize = 4_000;
/// Most stretches of time.
const BINS: usize = 400;

/// Times of one kind.
pub struct LatencyHistogram(Histogram<u32>);

impl LatencyHistogram {
    /// None yet.
    pub fn new() -> Self {
        // the bounds are valid: three digits up to an hour
        let made = Histogram::new_with_bounds(1, LONGEST, 3);
        Self(made.unwrap_or_else(|_| unreachable!("constant bounds are valid")))
    }

    /// Adds one.
    pub fn add(&mut self, time: Duration) {
        self.0.saturating_record((time.as_nanos() as u64).max(1));
    }

    /// The time that this share (0 to 1) does not exceed.
    pub fn at(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }

    /// As it stands in run files.
    pub fn times(&self) -> Durations {
        Durations { histogram: self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value().into())).collect() }
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

/// A request that is over. Times are since the run began.
#[derive(Debug, Clone, Copy)]
pub struct CompletedRequest {
    /// When it was to begin.
    pub due: Duration,
    /// When the generator came to it.
    pub picked_up: Duration,
    /// When it was begun on a connection.
    pub sent: Duration,
    /// When all of its answer was here.
    pub ended: Duration,
    /// What came of it.
    pub outcome: RequestOutcome,
    /// Bytes of its answer's body.
    pub bytes: u64,
}

/// Everything about the requests of one set.
pub struct ResultRecorder {
    latency: LatencyHistogram,
    service: LatencyHistogram,
    waiting: LatencyHistogram,
    generator_delay: LatencyHistogram,
    outcomes: BTreeMap<RequestOutcome, u64>,
    bytes: u64,
    /// When requests were to begin, how long they took from then, what came of them.
    points: Vec<(Duration, Duration, RequestOutcome)>,
    seen: u64,
    random: Random,
    bins: Vec<LatencyHistogram>,
    counts: Vec<(u64, u64)>,
    /// Width of a bin.
    width: Duration,
}

impl ResultRecorder {
    /// Nothing seen yet of a set that takes about this long.
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
    pub fn add(&mut self, own: &CompletedRequest) {
        let latency = own.ended.saturating_sub(own.due);
        self.generator_delay.add(own.picked_up.saturating_sub(own.due));
        *self.outcomes.entry(own.outcome).or_default() += 1;
        self.bytes += own.bytes;
        // what was not answered has taken no time to answer
        if matches!(own.outcome, RequestOutcome::Status(_)) {
            self.latency.add(latency);
            self.service.add(own.ended.saturating_sub(own.sent));
            self.waiting.add(own.sent.saturating_sub(own.due));
        }
        let bin = ((own.due.as_nanos() / self.width.as_nanos().max(1)) as usize).min(4 * BINS);
        while self.bins.len() <= bin {
            self.bins.push(small());
            self.counts.push((0, 0));
        }
        self.bins[bin].add(latency);
        let (all, bad) = &mut self.counts[bin];
        (*all, *bad) = (*all + 1, *bad + u64::from(!own.outcome.is_success()));
        // a fair selection of all that come
        self.seen += 1;
        let point = (own.due, latency, own.outcome);
        if self.points.len() < POINTS {
            self.points.push(point);
        } else {
            let place = self.random.below(self.seen) as usize;
            if let Some(kept) = self.points.get_mut(place) {
                *kept = point;
            }
        }
    }

    /// For whoever watches, after this time.
    pub fn progress(&self, time: Duration) -> RunProgress {
        let unsuccessful = self.outcomes.iter().filter(|(outcome, _)| !outcome.is_success()).map(|(_, count)| count).sum();
        let rate = self.seen as f64 / time.as_secs_f64().max(0.001);
        RunProgress { done: self.seen, unsuccessful, rate, p50: self.latency.at(0.5), p99: self.latency.at(0.99), ..RunProgress::default() }
    }

    /// As it stands in run files.
    pub fn set(mut self, seconds: f64) -> RequestSet {
        self.points.sort_by_key(|(due, ..)| *due);
        let point = |(due, latency, outcome): (Duration, Duration, RequestOutcome)| RequestPoint {
            at: due.as_secs_f64(),
            latency: latency.as_secs_f64(),
            outcome: outcome.name(),
        };
        let bins = self.bins.iter().zip(&self.counts).enumerate().filter(|(_, (_, (all, _)))| *all > 0);
        let at = |timing: &LatencyHistogram, share: f64| timing.at(share).as_secs_f64();
        let bins = bins.map(|(place, (timing, (all, bad)))| TimeBin {
            at: self.width.as_secs_f64() * place as f64,
            requests: *all,
            unsuccessful: *bad,
            p50: at(timing, 0.5),
            p90: at(timing, 0.9),
            p99: at(timing, 0.99),
            max: at(timing, 1.0),
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

/// Fewer digits, where there are many histograms.
fn small() -> LatencyHistogram {
    let made = Histogram::new_with_bounds(1_000, LONGEST, 2);
    LatencyHistogram(made.unwrap_or_else(|_| unreachable!("constant bounds are valid")))
}
