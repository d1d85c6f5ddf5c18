//! Capacity of a system: the Universal Scalability Law (Gunther 1993) fitted to measurements.
//!
//! `X(N) = l N / (1 + s (N - 1) + k N (N - 1))`: `l` is the rate of one worker, `s` the share of work that is serialised, and `k` the cost of each
//! pair of workers that must coordinate.

use crate::{LabError, Result};
use serde::{Deserialize, Serialize};
use stook_report::run::{Run, RunKind};
use stook_report::{Report, ReportTable, Section, svg};

/// A measurement: concurrency and throughput.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThroughputPoint {
    /// Number of concurrent clients, workers or machines.
    pub at_once: f64,
    /// Their total rate per second.
    pub rate: f64,
}

/// Named points, as in a capacity plan.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ThroughputSeries {
    /// What was measured.
    pub name: String,
    /// What runs concurrently: clients, workers or machines.
    pub of: String,
    /// What the rate counts.
    pub unit: String,
    /// The source of the points.
    pub source: String,
    /// The points.
    pub points: Vec<ThroughputPoint>,
}

/// A fitted law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScalabilityLaw {
    /// The rate of one.
    pub single_rate: f64,
    /// The share of work that is serialised.
    pub serial: f64,
    /// The cost of coordination of each pair.
    pub pair: f64,
}

impl ScalabilityLaw {
    /// Returns the rate of this many.
    pub fn rate_at(&self, concurrency: f64) -> f64 {
        self.single_rate * concurrency / (1.0 + self.serial * (concurrency - 1.0) + self.pair * concurrency * (concurrency - 1.0))
    }

    /// Returns the number with the highest rate; `None` if more always help.
    pub fn knee(&self) -> Option<f64> {
        (self.pair > 1e-12).then(|| ((1.0 - self.serial).max(0.0) / self.pair).sqrt().max(1.0))
    }

    /// Returns the highest rate for any number.
    pub fn peak_rate(&self) -> f64 {
        match self.knee() {
            Some(knee) => self.rate_at(knee),
            None if self.serial > 1e-12 => self.single_rate / self.serial,
            None => f64::INFINITY,
        }
    }

    /// Fits the law by least squares of relative errors, with serial and pair of at least 0.
    ///
    /// # Errors
    /// With fewer than three different numbers.
    pub fn fit(points: &[ThroughputPoint]) -> Result<Self> {
        let mut numbers: Vec<f64> = points.iter().map(|point| point.at_once).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        if numbers.len() < 3 || points.iter().any(|point| !(point.at_once > 0.0 && point.rate > 0.0)) {
            return Err(LabError::Plan("a law needs points with three different numbers at once, all of them larger than 0".into()));
        }
        // for a given serial and pair, the best rate of one follows; these two are searched on finer and finer grids
        let error = |serial: f64, pair: f64| -> (f64, f64) {
            let unit_law = ScalabilityLaw { single_rate: 1.0, serial, pair };
            let ratios = points.iter().map(|point| unit_law.rate_at(point.at_once) / point.rate);
            let single_rate = ratios.clone().sum::<f64>() / ratios.clone().map(|ratio| ratio * ratio).sum::<f64>();
            (ratios.map(|ratio| (single_rate * ratio - 1.0).powi(2)).sum(), single_rate)
        };
        let (mut best, mut step) = ((0.0, 0.0), (0.05, 0.005));
        let mut least_error = error(0.0, 0.0).0;
        for _ in 0..60 {
            let center = best;
            for serial in -10..=10 {
                for pair in -10..=10 {
                    let candidate = ((center.0 + f64::from(serial) * step.0).clamp(0.0, 1.0), (center.1 + f64::from(pair) * step.1).max(0.0));
                    let found = error(candidate.0, candidate.1).0;
                    if found < least_error {
                        (least_error, best) = (found, candidate);
                    }
                }
            }
            if best == center {
                step = (step.0 / 3.0, step.1 / 3.0);
            }
        }
        Ok(ScalabilityLaw { single_rate: error(best.0, best.1).1, serial: best.0, pair: best.1 })
    }
}

/// Returns the lowest and highest of a value over the laws that fit if one point at a time is left out.
fn range_without_a_point(points: &[ThroughputPoint], value: impl Fn(&ScalabilityLaw) -> f64) -> (f64, f64) {
    let without = |left_out: usize| {
        let rest: Vec<ThroughputPoint> = points.iter().enumerate().filter(|(index, _)| *index != left_out).map(|(_, point)| *point).collect();
        ScalabilityLaw::fit(&rest).ok()
    };
    let values: Vec<f64> = (0..points.len()).filter_map(without).chain(ScalabilityLaw::fit(points)).map(|law| value(&law)).collect();
    (values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

/// Returns the points of sweeps.
///
/// # Errors
/// When a run is not a sweep.
pub fn series_of_runs(runs: &[Run]) -> Result<Vec<ThroughputSeries>> {
    let mut all: Vec<ThroughputSeries> = Vec::new();
    for run in runs {
        if run.kind != RunKind::Sweep {
            return Err(LabError::Plan(format!("{}: capacity is planned by sweeps over numbers of clients", run.name)));
        }
        for set in &run.sets {
            let name = if set.series.is_empty() { set.route.clone() } else { format!("{}: {}", set.series, set.route) };
            let point = ThroughputPoint { at_once: set.clients.unwrap_or(1) as f64, rate: set.successes() as f64 / set.seconds.max(1e-9) };
            match all.iter_mut().find(|known| known.name == name) {
                Some(known) => known.points.push(point),
                None => {
                    let (of, unit) = ("clients".into(), "answers".into());
                    all.push(ThroughputSeries { name, of, unit, source: format!("run of {}", run.begun), points: vec![point] });
                }
            }
        }
    }
    Ok(all)
}

/// The share of the capacity to plan with: above it, waiting times grow fast.
const PLANNED: f64 = 0.7;

/// Reports the fit, its residuals, the knee, and what a target rate needs, with the arithmetic in words.
///
/// # Errors
/// When there are too few points.
pub fn report(measured: &ThroughputSeries, target: Option<f64>) -> Result<Report> {
    let points = &measured.points;
    let law = ScalabilityLaw::fit(points)?;
    let (of, unit) = (text_or(&measured.of, "clients"), text_or(&measured.unit, "answers"));
    let mut words = vec![
        format!(
            "X(N) = {} N / (1 + {:.5} (N - 1) + {:.7} N (N - 1)), from {} points; {}",
            show(law.single_rate),
            law.serial,
            law.pair,
            points.len(),
            measured.source
        ),
        format!("one {of} does {} {unit}/s; {:.2} % of the work is serial", show(law.single_rate), law.serial * 100.0),
    ];
    match law.knee() {
        Some(knee) => {
            let (low, high) = range_without_a_point(points, |law| law.knee().unwrap_or(f64::INFINITY));
            words.push(format!(
                "the peak is at {} concurrent {of} (range {} to {} when a point is left out): {} {unit}/s; beyond that throughput falls",
                show(knee),
                show(low),
                show(high),
                show(law.peak_rate())
            ));
        }
        None if law.peak_rate().is_finite() => words.push(format!("throughput approaches {} {unit}/s", show(law.peak_rate()))),
        None => words.push("throughput scales linearly as far as measured".into()),
    }
    let max_measured = points.iter().map(|point| point.at_once).fold(0.0, f64::max);
    if law.knee().is_some_and(|knee| knee > 2.0 * max_measured) {
        words.push(format!("the peak is far beyond the {} {of} measured; measure with more before relying on it", show(max_measured)));
    }
    let mut table = ReportTable::new(0, &[&format!("concurrent {of}"), &format!("{unit}/s"), "fit", "residual %"]);
    let mut squares = 0.0;
    for point in points {
        let fit = law.rate_at(point.at_once);
        squares += (point.rate / fit - 1.0).powi(2);
        table.rows.push(vec![show(point.at_once), show(point.rate), show(fit), format!("{:+.1}", (point.rate / fit - 1.0) * 100.0)]);
    }
    words.push(format!("the fit is off by {:.1} % (root of the mean square)", (squares / points.len() as f64).sqrt() * 100.0));
    if let Some(target) = target {
        words.extend(sizing_words(points, &law, target, of, unit));
    }
    let curve: Vec<(f64, (f64, f64))> = (1..=60)
        .map(|step| max_measured.max(law.knee().unwrap_or(0.0).min(4.0 * max_measured)) * f64::from(step) / 60.0)
        .map(|concurrency| (concurrency, (law.rate_at(concurrency), 0.0)))
        .collect();
    let measured_points = points.iter().map(|point| (point.at_once, (point.rate, 0.0))).collect();
    let lines = [svg::PlotLine { name: "measured".into(), points: measured_points }, svg::PlotLine { name: "fit".into(), points: curve }];
    let picture = Some(svg::lines(&lines, of, &format!("{unit}/s")));
    let title = text_or(&measured.name, "capacity").to_owned();
    Ok(Report { title, sections: vec![Section { words, table: Some(table), picture, ..Section::default() }] })
}

fn text_or<'t>(text: &'t str, otherwise: &'t str) -> &'t str {
    if text.is_empty() { otherwise } else { text }
}

fn sizing_words(points: &[ThroughputPoint], law: &ScalabilityLaw, target: f64, of: &str, unit: &str) -> Vec<String> {
    let peak_of_system = |law: &ScalabilityLaw| {
        if law.peak_rate().is_finite() { law.peak_rate() } else { law.rate_at(points.iter().map(|point| point.at_once).fold(1.0, f64::max)) }
    };
    let needed = |law: &ScalabilityLaw| (target / (peak_of_system(law) * PLANNED)).ceil();
    let (low, high) = range_without_a_point(points, needed);
    let mut words = vec![
        format!("target: {} {unit}/s", show(target)),
        format!(
            "one system of this kind does at most {} {unit}/s; planned at {:.0} % of that it does {}, so {} / {} = {:.2}: {} systems ({} to {} when a point is left out)",
            show(peak_of_system(law)),
            PLANNED * 100.0,
            show(peak_of_system(law) * PLANNED),
            show(target),
            show(peak_of_system(law) * PLANNED),
            target / (peak_of_system(law) * PLANNED),
            show(needed(law)),
            show(low),
            show(high)
        ),
    ];
    let sufficient = (1..=100_000)
        .map(f64::from)
        .take_while(|concurrency| law.knee().is_none_or(|knee| *concurrency <= knee.ceil()))
        .find(|concurrency| law.rate_at(*concurrency) >= target);
    words.push(match sufficient {
        Some(concurrency) => format!("one system reaches it with {} concurrent {of}: X({0}) = {}", show(concurrency), show(law.rate_at(concurrency))),
        None => format!("no number of {of} on one system reaches it"),
    });
    words
}

fn show(value: f64) -> String {
    match value {
        value if !value.is_finite() => "any number".into(),
        value if value.fract() == 0.0 && value.abs() < 1e15 => format!("{value:.0}"),
        value if value.abs() >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(law: ScalabilityLaw, numbers: &[f64], noise: f64) -> Vec<ThroughputPoint> {
        let noise_factor = |index: usize| 1.0 + noise * if index.is_multiple_of(2) { 1.0 } else { -1.0 };
        numbers
            .iter()
            .enumerate()
            .map(|(index, concurrency)| ThroughputPoint { at_once: *concurrency, rate: law.rate_at(*concurrency) * noise_factor(index) })
            .collect()
    }

    #[test]
    fn fitting_finds_the_law_that_produced_the_points() {
        let numbers = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
        for (serial, pair) in [(0.0, 0.0), (0.05, 0.0), (0.02, 0.0005), (0.2, 0.01), (0.0, 0.001), (0.6, 0.0)] {
            let law = ScalabilityLaw { single_rate: 950.0, serial, pair };
            let found = ScalabilityLaw::fit(&points(law, &numbers, 0.0)).expect("a law");
            for concurrency in numbers {
                assert!((found.rate_at(concurrency) / law.rate_at(concurrency) - 1.0).abs() < 0.002, "{law:?} {found:?} at {concurrency}");
            }
            let noisy = ScalabilityLaw::fit(&points(law, &numbers, 0.03)).expect("a law");
            assert!((noisy.rate_at(64.0) / law.rate_at(64.0) - 1.0).abs() < 0.08, "{law:?} {noisy:?}");
        }
        let law = ScalabilityLaw { single_rate: 100.0, serial: 0.02, pair: 0.0005 };
        assert!((law.knee().expect("a knee") - 44.27).abs() < 0.01);
        assert!(ScalabilityLaw::fit(&points(law, &[1.0, 2.0], 0.0)).is_err());
    }

    /// Example: 10 000 machines in 12 s alone, three at once in 15 s each, four in 20 s.
    #[test]
    fn the_report_says_what_a_target_rate_needs() {
        let measured = ThroughputSeries {
            points: vec![
                ThroughputPoint { at_once: 1.0, rate: 833.3 },
                ThroughputPoint { at_once: 3.0, rate: 2_000.0 },
                ThroughputPoint { at_once: 4.0, rate: 2_000.0 },
            ],
            ..ThroughputSeries::default()
        };
        let shown = report(&measured, Some(100_000.0 / 12.0)).expect("a report").text();
        assert!(shown.contains("the peak is at") && shown.contains("systems") && shown.contains("residual %"), "{shown}");
    }
}
