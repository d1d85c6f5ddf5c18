//! Charts as SVG: axes, lines, points, bars.

use crate::run::{Durations, RequestSet};
use crate::sections::{escaped, time};
use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 40.0;
/// Colours that can be distinguished despite colour blindness (Okabe, Ito 2008).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999"];

/// A line of a chart.
#[derive(Debug, Clone)]
pub struct PlotLine {
    /// Its name.
    pub name: String,
    /// x, y, and the uncertainty of y.
    pub points: Vec<(f64, (f64, f64))>,
}

/// Maps values to coordinates.
#[derive(Clone, Copy)]
struct AxisScale {
    low: f64,
    high: f64,
    logarithmic: bool,
    from: f64,
    to: f64,
}

impl AxisScale {
    fn new(values: impl Iterator<Item = f64>, logarithmic: bool, (from, to): (f64, f64)) -> Self {
        let values: Vec<f64> = values.filter(|value| value.is_finite() && (!logarithmic || *value > 0.0)).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low <= high { (low, high) } else { (1.0, 2.0) };
        let (low, high) = match logarithmic {
            true => (10_f64.powf(low.log10().floor()), 10_f64.powf((high.log10() + 1e-9).ceil())),
            false => (low.min(0.0), if high > low.min(0.0) { high * 1.02 } else { low + 1.0 }),
        };
        Self { low, high, logarithmic, from, to }
    }

    fn coordinate(&self, value: f64) -> f64 {
        let share = match self.logarithmic {
            true => (value.max(self.low).log10() - self.low.log10()) / (self.high.log10() - self.low.log10()).max(1e-9),
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn tick_values(&self) -> Vec<f64> {
        if self.logarithmic {
            let (low, high) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
            return (low..=high).map(|exponent| 10_f64.powi(exponent)).collect();
        }
        let step = (self.high - self.low) / 5.0;
        if step <= 0.0 || !step.is_finite() {
            return Vec::new();
        }
        let magnitude = 10_f64.powf(step.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * magnitude).find(|nice| *nice >= step).unwrap_or(step);
        let first = (self.low / step).ceil() as i64;
        (first..).map(|number| number as f64 * step).take_while(|value| *value <= self.high).collect()
    }
}

/// Formats the label of a tick.
fn tick_label(value: f64, unit: &str) -> String {
    match unit {
        "seconds" if value > 0.0 => time(value).replace(".00 ", " ").replace(".0 ", " "),
        _ if value != 0.0 && value.abs() < 0.01 => format!("{value:e}"),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

struct Chart {
    out: String,
    x: AxisScale,
    y: AxisScale,
}

impl Chart {
    fn new(x: AxisScale, y: AxisScale, names: (&str, &str), units: (&str, &str)) -> Self {
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" \
             font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"currentColor\"><title>{} by {}</title>",
            escaped(names.1),
            escaped(names.0)
        );
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for value in x.tick_values() {
            let position = x.coordinate(value);
            let _ = write!(
                out,
                "<path d=\"M{position:.1} {TOP}V{bottom}\" stroke=\"#8884\"/><text x=\"{position:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 14.0,
                tick_label(value, units.0)
            );
        }
        for value in y.tick_values() {
            let position = y.coordinate(value);
            let _ = write!(
                out,
                "<path d=\"M{LEFT} {position:.1}H{right}\" stroke=\"#8884\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                position + 4.0,
                tick_label(value, units.1)
            );
        }
        let _ = write!(out, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>", (LEFT + right) / 2.0, HEIGHT - 8.0, escaped(names.0));
        Self { out, x, y }
    }

    fn line(&mut self, points: impl Iterator<Item = (f64, f64)>, colour: &str) {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "{}{:.1} {:.1}", if path.is_empty() { "M" } else { "L" }, self.x.coordinate(x), self.y.coordinate(y));
        }
        let _ = write!(self.out, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>");
    }

    fn point(&mut self, x: f64, y: f64, colour: &str, radius: f64) {
        let _ = write!(self.out, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\" fill=\"{colour}\"/>", self.x.coordinate(x), self.y.coordinate(y));
    }

    fn legend(&mut self, row: usize, name: &str, colour: &str) {
        let y = TOP + 12.0 + 16.0 * row as f64;
        let shown: String = name.chars().take(22).collect();
        let _ = write!(
            self.out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
            WIDTH - RIGHT + 8.0,
            y - 9.0,
            WIDTH - RIGHT + 22.0,
            escaped(&shown)
        );
    }

    fn end(mut self) -> String {
        self.out.push_str("</svg>");
        self.out
    }
}

const X_RANGE: (f64, f64) = (LEFT, WIDTH - RIGHT);
const Y_RANGE: (f64, f64) = (HEIGHT - BOTTOM, TOP);

fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// Draws lines with points, and with bars if values are uncertain.
pub fn lines(lines: &[PlotLine], across: &str, unit: &str) -> String {
    let wide = lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).fold(0.0, f64::max) > 50.0;
    draw(lines, across, unit, wide, true)
}

/// Draws lines of many points over time.
pub fn curves(lines: &[PlotLine], across: &str, unit: &str) -> String {
    draw(lines, across, unit, false, false)
}

fn draw(lines: &[PlotLine], across: &str, unit: &str, is_logarithmic: bool, has_points: bool) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let x = AxisScale::new(points().map(|(x, _)| *x), is_logarithmic, X_RANGE);
    let y = AxisScale::new(points().map(|(_, (y, deviation))| y + deviation), false, Y_RANGE);
    let mut picture = Chart::new(x, y, (across, unit), ("", unit));
    for (index, line) in lines.iter().enumerate() {
        picture.line(line.points.iter().map(|(x, (y, _))| (*x, *y)), colour(index));
        for (x, (y, deviation)) in line.points.iter().filter(|_| has_points) {
            picture.point(*x, *y, colour(index), 2.4);
            if *deviation > 0.0 {
                let (x_coordinate, low, high) =
                    (picture.x.coordinate(*x), picture.y.coordinate((y - deviation).max(0.0)), picture.y.coordinate(y + deviation));
                let _ = write!(picture.out, "<path d=\"M{x_coordinate:.1} {low:.1}V{high:.1}\" stroke=\"{}\" stroke-opacity=\".5\"/>", colour(index));
            }
        }
        picture.legend(index, &line.name, colour(index));
    }
    picture.end()
}

/// Draws latency against the share of requests that took longer: 90 %, 99 %, 99.9 % have equal distances.
pub fn percentiles(all: &[(&str, &Durations)]) -> String {
    let curve = |times: &Durations| -> Vec<(f64, f64)> {
        let count = times.count() as f64;
        let mut seen = 0.0;
        let step = |(time, number): &(u64, u64)| {
            seen += *number as f64;
            (count / (count - seen).max(0.5), *time as f64 / 1e9)
        };
        times.histogram.iter().map(step).collect()
    };
    let curves: Vec<Vec<(f64, f64)>> = all.iter().map(|(_, times)| curve(times)).collect();
    let points = || curves.iter().flatten();
    let (x, y) =
        (AxisScale::new(points().map(|(x, _)| *x).chain([1.0, 10.0]), true, X_RANGE), AxisScale::new(points().map(|(_, y)| *y), true, Y_RANGE));
    let mut picture = Chart::new(x, y, ("one of N requests took longer", "time"), ("", "seconds"));
    for (index, ((name, _), curve)) in all.iter().zip(&curves).enumerate() {
        picture.line(curve.iter().copied(), colour(index));
        picture.legend(index, name, colour(index));
    }
    picture.end()
}

/// Draws latencies by due time: single ones, and p50, p99 and max by time bin.
pub fn over_time(set: &RequestSet) -> String {
    let x = AxisScale::new(set.bins.iter().map(|bin| bin.at + set.bin).chain([0.0]), false, X_RANGE);
    let y = AxisScale::new(set.bins.iter().flat_map(|bin| [bin.p50, bin.max]), true, Y_RANGE);
    let mut picture = Chart::new(x, y, ("seconds into the test", "time"), ("", "seconds"));
    for point in &set.points {
        let is_success = point.outcome.starts_with(['2', '3']);
        picture.point(point.at, point.latency, if is_success { "#0072b255" } else { "#d55e00" }, if is_success { 1.2 } else { 2.0 });
    }
    for (index, (name, value)) in [("p50", 0), ("p99", 1), ("slowest", 2)].into_iter().enumerate() {
        let values = set.bins.iter().map(|bin| (bin.at + set.bin / 2.0, [bin.p50, bin.p99, bin.max][value]));
        picture.line(values, colour(index + 2));
        picture.legend(index, name, colour(index + 2));
    }
    picture.legend(3, "a request", "#0072b2");
    picture.legend(4, "without success", "#d55e00");
    picture.end()
}

/// Draws outcomes by group, as parts of a bar.
pub fn outcomes(groups: &[(String, RequestSet)]) -> String {
    let x = AxisScale { low: 0.0, high: 100.0, logarithmic: false, from: LEFT + 60.0, to: WIDTH - RIGHT };
    let height = (HEIGHT - BOTTOM - TOP) / groups.len().max(1) as f64;
    let y = AxisScale { low: 0.0, high: 1.0, logarithmic: false, from: TOP, to: TOP };
    let mut picture = Chart::new(x, AxisScale { high: 0.0, ..y }, ("percent of requests", "outcomes"), ("", ""));
    let mut names: Vec<String> = groups.iter().flat_map(|(_, set)| set.outcomes.keys().cloned()).collect();
    names.sort();
    names.dedup();
    let colour_of = |name: &str| if name.starts_with('2') { 2 } else { 1 + 2 * usize::from(name.parse::<u16>().is_ok()) };
    for (index, (group, set)) in groups.iter().enumerate() {
        let (top, mut done_share) = (TOP + height * index as f64, 0.0);
        for name in &names {
            let share = set.count_of(name) as f64 * 100.0 / set.requests.max(1) as f64;
            let (from, to) = (picture.x.coordinate(done_share), picture.x.coordinate(done_share + share));
            done_share += share;
            let _ = write!(
                picture.out,
                "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{}: {share:.2} %</title></rect>",
                top + 2.0,
                (to - from).max(0.0),
                (height - 4.0).max(1.0),
                colour(colour_of(name)),
                escaped(name)
            );
        }
        let _ =
            write!(picture.out, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", LEFT + 54.0, top + height / 2.0 + 4.0, escaped(group));
    }
    for (index, name) in names.iter().enumerate() {
        picture.legend(index, name, colour(colour_of(name)));
    }
    picture.end()
}
