//! Draws marks along time: lanes under a common axis. Every mark is a link.

use super::shown::short;
use maud::{Markup, html};
use stook_catalogue::value::{FieldType, Value, from_text};

/// Width of a drawing in its own units, and the part of it that names take.
const WIDTH: f64 = 1_000.0;
const NAMES: f64 = 190.0;
/// Height of a lane, and of the axis.
const LANE: f64 = 24.0;
/// Max characters of a name next to a lane.
const MAX_NAME_CHARS: usize = 24;
/// Max ticks of an axis.
const TICKS: f64 = 7.0;
/// Possible distances of ticks, in seconds.
const STEPS: [f64; 19] = [
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    1_800.0,
    3_600.0,
    7_200.0,
    10_800.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    604_800.0,
    2_592_000.0,
];

/// An interval, in seconds.
pub struct TimelineMark {
    pub from: f64,
    pub to: f64,
    /// Its class in the style sheet.
    pub kind: &'static str,
    /// Its link.
    pub href: String,
    /// Its label.
    pub label: String,
}

/// A row of marks.
pub struct TimelineLane {
    pub name: String,
    pub href: String,
    pub marks: Vec<TimelineMark>,
}

/// Returns the first and last time of spans, if there are any.
pub fn extent(spans: impl Iterator<Item = (f64, f64)>) -> Option<(f64, f64)> {
    spans.reduce(|(from, to), (start, stop)| (from.min(start), to.max(stop))).filter(|(from, to)| from <= to)
}

/// Draws lanes from one time to another.
pub fn drawing(lanes: &[TimelineLane], (from, to): (f64, f64), label: &str) -> Markup {
    let length = (to - from).max(1.0);
    let x_of = |time: f64| NAMES + ((time - from) / length).clamp(0.0, 1.0) * (WIDTH - NAMES);
    let number = |time: f64| format!("{time:.2}");
    let height = LANE * (lanes.len() + 1) as f64;
    let ticks = ticks(from, from + length);
    html! {
        div.wide tabindex="0" {
            svg.timeline viewBox={ "0 0 " (WIDTH) " " (height) } role="group" aria-label=(label) {
                @for (time, shown) in &ticks {
                    line.tick x1=(number(x_of(*time))) x2=(number(x_of(*time))) y1=(LANE - 6.0) y2=(height) {}
                    text.quiet x=(number(x_of(*time) + 3.0)) y=(LANE - 8.0) { (shown) }
                }
                @for (row, lane) in lanes.iter().enumerate() {
                    @let top = LANE * (row + 1) as f64;
                    a href=(lane.href) { text x="0" y=(number(top + LANE * 0.7)) { (short(&lane.name, MAX_NAME_CHARS)) title { (lane.name) } } }
                    a href=(lane.href) tabindex="-1" aria-hidden="true" {
                        rect.missing x=(NAMES) y=(number(top + 4.0)) width=(WIDTH - NAMES) height=(LANE - 8.0) {}
                    }
                    @for mark in &lane.marks {
                        a href=(mark.href) aria-label=(mark.label) {
                            rect class=(mark.kind) x=(number(x_of(mark.from))) y=(number(top + 4.0))
                                width=(number((x_of(mark.to) - x_of(mark.from)).max(1.5))) height=(LANE - 8.0) { title { (mark.label) } }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the ticks of an axis with their labels; the first of a day includes the date.
fn ticks(from: f64, to: f64) -> Vec<(f64, String)> {
    let fits = |step: f64| (to - from) / step <= TICKS;
    let longest = STEPS[STEPS.len() - 1];
    let step = STEPS.into_iter().find(|step| fits(*step)).unwrap_or_else(|| ((to - from) / TICKS / longest).ceil() * longest);
    let mut last_day = String::new();
    let mut ticks = Vec::new();
    let mut time = (from / step).ceil() * step;
    while time <= to {
        let shown = Value::Int((time * 1e6) as i64).show(&FieldType::Timestamp);
        let (day, clock) = shown.split_once('T').unwrap_or((&shown, ""));
        let clock = &clock[..clock.len().min(if step < 60.0 { 8 } else { 5 })];
        ticks.push((
            time,
            if step >= 86_400.0 {
                day.to_owned()
            } else if day == last_day {
                clock.to_owned()
            } else {
                format!("{day} {clock}")
            },
        ));
        last_day = day.to_owned();
        time += step;
    }
    ticks
}

/// Reads a time as seconds since 1970.
pub fn seconds(text: &str) -> Option<f64> {
    from_text(text, &FieldType::Timestamp, None).ok()?.as_int().map(|micros| micros as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_an_axis_are_at_round_times() {
        let shown = |from: &str, to: &str| -> Vec<String> {
            ticks(seconds(from).unwrap(), seconds(to).unwrap()).into_iter().map(|(_, shown)| shown).collect()
        };
        assert_eq!(shown("2026-01-01T00:50:03Z", "2026-01-01T00:55:50Z"), ["2026-01-01 00:51", "00:52", "00:53", "00:54", "00:55"]);
        assert_eq!(shown("2026-01-01T23:59:57Z", "2026-01-02T00:00:03Z").len(), 7);
        assert_eq!(shown("2026-01-01T18:00:00Z", "2026-01-02T06:00:00Z")[..4], ["2026-01-01 18:00", "20:00", "22:00", "2026-01-02 00:00"]);
        assert_eq!(shown("2026-01-01T00:00:00Z", "2026-01-07T00:00:00Z").first().map(String::as_str), Some("2026-01-01"));
        assert!(shown("1990-01-01T00:00:00Z", "2026-01-01T00:00:00Z").len() <= 8);
        assert!(shown("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z").len() <= 1);
    }
}
