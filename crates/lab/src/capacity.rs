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
    pub one: f64,
    /// The share of work that is serialised.
    pub serial: f64,
    /// The cost of coordination of each pair.
    pub pair: f64,
}

impl ScalabilityLaw {
    /// Returns the rate of this many.
    pub fn at(&self, many: f64) -> f64 {
        self.one * many / (1.0 + self.serial * (many - 1.0) + self.pair * many * (many - 1.0))
    }

    /// Returns the number with the highest rate; `None` if more always help.
    pub fn knee(&self) -> Option<f64> {
        (self.pair > 1e-12).then(|| ((1.0 - self.serial).max(0.0) / self.pair).sqrt().max(1.0))
    }

    /// Returns the highest rate for any number.
    pub fn most(&self) -> f64 {
        match self.knee() {
            Some(knee) => self.at(knee),
            None if self.serial > 1e-12 => self.one / self.serial,
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
            let shape = ScalabilityLaw { one: 1.0, serial, pair };
            let ratios = points.iter().map(|point| shape.at(point.at_once) / point.rate);
            let one = ratios.clone().sum::<f64>() / ratios.clone().map(|ratio| ratio * ratio).sum::<f64>();
            (ratios.map(|ratio| (one * ratio - 1.0).powi(2)).sum(), one)
        };
        let (mut best, mut step) = ((0.0, 0.0), (0.05, 0.005));
        let mut least = error(0.0, 0.0).0;
        for _ in 0..60 {
            let around = best;
            for serial in -10..=10 {
                for pair in -10..=10 {
                    let here = ((around.0 + f64::from(serial) * step.0).clamp(0.0, 1.0), (around.1 + f64::from(pair) * step.1).max(0.0));
                    let found = error(here.0, here.1).0;
                    if found < least {
                        (least, best) = (found, here);
                    }
                }
            }
            if best == around {
                step = (step.0 / 3.0, step.1 / 3.0);
            }
        }
        Ok(ScalabilityLaw { one: error(best.0, best.1).1, serial: best.0, pair: best.1 })
    }
}

/// Returns the lowest and highest of a value over the laws that fit if one point at a time is left out.
fn between(points: &[ThroughputPoint], value: impl Fn(&ScalabilityLaw) -> f64) -> (f64, f64) {
    let without = |place: usize| {
        let rest: Vec<ThroughputPoint> = points.iter().enumerate().filter(|(own, _)| *own != place).map(|(_, point)| *point).collect();
        ScalabilityLaw::fit(&rest).ok()
    };
    let values: Vec<f64> = (0..points.len()).filter_map(without).chain(ScalabilityLaw::fit(points)).map(|law| value(&law)).collect();
    (values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

/// Returns the points of sweeps.
///
/// # Errors
/// When a run is not a sweep.
pub fn of_runs(runs: &[Run]) -> Result<Vec<ThroughputSeries>> {
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
    let (of, unit) = (or(&measured.of, "clients"), or(&measured.unit, "answers"));
    let mut words = vec![
        format!(
            "X(N) = {} N / (1 + {:.5} (N - 1) + {:.7} N (N - 1)), from {} points; {}",
            show(law.one),
            law.serial,
            law.pair,
            points.len(),
            measured.source
        ),
        format!("one {of} does {} {unit}/s; {:.2} % of the work is serial", show(law.one), law.serial * 100.0),
    ];
    match law.knee() {
        Some(knee) => {
            let (low, high) = between(points, |law| law.knee().unwrap_or(f64::INFINITY));
            words.push(format!(
                "the peak is at {} concurrent {of} (range {} to {} when a point is left out): {} {unit}/s; beyond that throughput falls",
                show(knee),
                show(low),
                show(high),
                show(law.most())
            ));
        }
        None if law.most().is_finite() => words.push(format!("throughput approaches {} {unit}/s", show(law.most()))),
        None => words.push("throughput scales linearly as far as measured".into()),
    }
    let reached = points.iter().map(|point| point.at_once).fold(0.0, f64::max);
    if law.knee().is_some_and(|knee| knee > 2.0 * reached) {
        words.push(format!("the peak is far beyond the {} {of} measured; measure with more before relying on it", show(reached)));
    }
    let mut table = ReportTable::new(0, &[&format!("concurrent {of}"), &format!("{unit}/s"), "fit", "residual %"]);
    let mut squares = 0.0;
    for point in points {
        let fit = law.at(point.at_once);
        squares += (point.rate / fit - 1.0).powi(2);
        table.rows.push(vec![show(point.at_once), show(point.rate), show(fit), format!("{:+.1}", (point.rate / fit - 1.0) * 100.0)]);
    }
    words.push(format!("the fit is off by {:.1} % (root of the mean square)", (squares / points.len() as f64).sqrt() * 100.0));
    if let Some(target) = target {
        words.extend(sized(points, &law, target, of, unit));
    }
    let curve: Vec<(f64, (f64, f64))> = (1..=60)
        .map(|step| reached.max(law.knee().unwrap_or(0.0).min(4.0 * reached)) * f64::from(step) / 60.0)
        .map(|many| (many, (law.at(many), 0.0)))
        .collect();
    let seen = points.iter().map(|point| (point.at_once, (point.rate, 0.0))).collect();
    let lines = [svg::PlotLine { name: "measured".into(), points: seen }, svg::PlotLine { name: "fit".into(), points: curve }];
    let picture = Some(svg::lines(&lines, of, &format!("{unit}/s")));
    let title = or(&measured.name, "capacity").to_owned();
    Ok(Report { title, sections: vec![Section { words, table: Some(table), picture, ..Section::default() }] })
}

fn or<'t>(text: &'t str, otherwise: &'t str) -> &'t str {
    if text.is_empty() { otherwise } else { text }
}

fn sized(points: &[ThroughputPoint], law: &ScalabilityLaw, target: f64, of: &str, unit: &str) -> Vec<String> {
    let of_one =
        |law: &ScalabilityLaw| if law.most().is_finite() { law.most() } else { law.at(points.iter().map(|point| point.at_once).fold(1.0, f64::max)) };
    let needed = |law: &ScalabilityLaw| (target / (of_one(law) * PLANNED)).ceil();
    let (low, high) = between(points, needed);
    let mut words = vec![
        format!("target: {} {unit}/s", show(target)),
        format!(
            "one system of this kind does at most {} {unit}/s; planned at {:.0} % of that it does {}, so {} / {} = {:.2}: {} systems ({} to {} when a point is left out)",
            show(of_one(law)),
            PLANNED * 100.0,
            show(of_one(law) * PLANNED),
            show(target),
            show(of_one(law) * PLANNED),
            target / (of_one(law) * PLANNED),
            show(needed(law)),
            show(low),
            show(high)
        ),
    ];
    let enough =
        (1..=100_000).map(f64::from).take_while(|many| law.knee().is_none_or(|knee| *many <= knee.ceil())).find(|many| law.at(*many) >= target);
    words.push(match enough {
        Some(many) => format!("one system reaches it with {} concurrent {of}: X({0}) = {}", show(many), show(law.at(many))),
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
        let wobble = |place: usize| 1.0 + noise * if place.is_multiple_of(2) { 1.0 } else { -1.0 };
        numbers.iter().enumerate().map(|(place, many)| ThroughputPoint { at_once: *many, rate: law.at(*many) * wobble(place) }).collect()
    }

    #[test]
    fn a_law_that_made_the_points_is_found_again() {
        let numbers = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
        for (serial, pair) in [(0.0, 0.0), (0.05, 0.0), (0.02, 0.0005), (0.2, 0.01), (0.0, 0.001), (0.6, 0.0)] {
            let law = ScalabilityLaw { one: 950.0, serial, pair };
            let found = ScalabilityLaw::fit(&points(law, &numbers, 0.0)).expect("a law");
            for many in numbers {
                assert!((found.at(many) / law.at(many) - 1.0).abs() < 0.002, "{law:?} {found:?} at {many}");
            }
            let noisy = ScalabilityLaw::fit(&points(law, &numbers, 0.03)).expect("a law");
            assert!((noisy.at(64.0) / law.at(64.0) - 1.0).abs() < 0.08, "{law:?} {noisy:?}");
        }
        let law = ScalabilityLaw { one: 100.0, serial: 0.02, pair: 0.0005 };
        assert!((law.knee().expect("a knee") - 44.27).abs() < 0.01);
        assert!(ScalabilityLaw::fit(&points(law, &[1.0, 2.0], 0.0)).is_err());
    }

    /// Example: 10 000 machines in 12 s alone, three at once in 15 s each, four in 20 s.
    #[test]
    fn a_target_is_sized_in_words() {
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
