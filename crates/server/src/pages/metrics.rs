//! Metrics: what the server counts, as tables.

use super::shown::{count, items};
use super::visit::{View, Visit};
use crate::problem::Answer;
use maud::{Markup, PreEscaped, html};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use stook_lab::show::svg;

/// Requests by route, stages of imports, and how things stand.
pub async fn page(visit: Arc<Visit>) -> Answer<View> {
    visit.caller.need(stook_store::access::Role::Admin)?;
    let text = visit.ask_text("/metrics").await?;
    let samples: Vec<Sample<'_>> = text.lines().filter_map(Sample::of).collect();
    let (routes, stages) =
        (Timed::all(&samples, "stook_request_duration_seconds", "route"), Timed::all(&samples, "stook_stage_duration_seconds", "stage"));
    let gauges = samples.iter().filter(|sample| sample.name == "stook_state");
    // that is of all tenants: who is of one sees only what is counted of that
    let history = visit.ask_at("/metrics/history").await.ok();
    let body = html! {
        @if let Some(history) = &history { section { h2 { "The last hour" } (curves(history)) } }
        p.quiet { "Since the process began. Prometheus finds everything at " code { "/metrics" } "." }
        section { h2 { "Requests" } (table("route", &routes)) }
        @if !stages.is_empty() { section { h2 { "Imports and what follows from them" } (table("stage", &stages)) } }
        @if history.is_some() { section { h2 { "How things stand" } dl { @for gauge in gauges { dt { (gauge.label("what").replace('_', " ")) } dd { (standing(gauge)) } } } } }
    };
    Ok(View::new("Metrics", body))
}

/// What is drawn together: a title, a unit, and what of each point.
const CURVES: [(&str, &str, &[&str]); 8] = [
    ("Requests", "in a second", &["requests", "failed"]),
    ("Times of answers", "seconds", &["p50", "p99"]),
    ("Queues", "waiting", &["in_work", "waiting", "chunks"]),
    ("Imports and settling", "in a second", &["documents", "settled"]),
    ("Cache: found, of what was looked up", "share", &["hits"]),
    ("Store: questions and commits", "in a second", &["asked", "commits"]),
    ("Store: rows written", "in a second", &["written"]),
    ("Store: writing, of a second", "seconds", &["writing"]),
];

/// Curves of what was not always nothing.
fn curves(history: &Json) -> Markup {
    let points = items(&history["points"]);
    let minutes = |place: usize| (place as f64 + 1.0 - points.len() as f64) * history["every"].as_f64().unwrap_or(0.0) / 60.0;
    let line = |name: &&str| {
        let value = |(place, point): (usize, &Json)| Some((minutes(place), (point[*name].as_f64()?, 0.0)));
        svg::Line { name: name.replace('_', " "), points: points.iter().enumerate().filter_map(value).collect() }
    };
    let drawn = CURVES.iter().filter_map(|(title, unit, names)| {
        let lines: Vec<svg::Line> = names.iter().map(line).collect();
        let is_flat = lines.iter().all(|line| line.points.iter().all(|(_, (value, _))| *value == 0.0));
        (!is_flat).then(|| (title, svg::curves(&lines, "minutes", unit)))
    });
    html! {
        @if points.len() < 2 { p.quiet { "A point is kept every ten seconds; there will be a curve soon." } }
        @else {
            div.pictures {
                @for (title, picture) in drawn {
                    // drawn by this program from numbers
                    figure.picture { figcaption { (title) } (PreEscaped(picture.as_str())) }
                }
            }
        }
    }
}

fn table(what: &str, rows: &[(String, Timed)]) -> Markup {
    html! {
        div.wide tabindex="0" {
            table {
                thead { tr { th scope="col" { (what) } th.number scope="col" { "number" } th.number scope="col" { "mean" } th.number scope="col" { "99 of 100 below" } } }
                tbody {
                    @for (name, own) in rows {
                        tr { th scope="row" { code { (name) } } td.number { (count(own.count as u64)) } td.number { (shown(own.sum / own.count.max(1.0))) } td.number { (own.tail().map_or_else(|| "longer".to_owned(), shown)) } }
                    }
                }
            }
        }
    }
}

/// A gauge's number, bytes as people read them.
fn standing(gauge: &Sample<'_>) -> String {
    let mega = gauge.value / 1e6;
    if gauge.label("what").ends_with("bytes") { format!("{mega:.1} MB") } else { count(gauge.value as u64) }
}

fn shown(seconds: f64) -> String {
    if seconds < 0.001 {
        format!("{:.0} µs", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{seconds:.1} s")
    }
}

/// A line of Prometheus' text.
struct Sample<'t> {
    name: &'t str,
    labels: Vec<(&'t str, &'t str)>,
    value: f64,
}

impl<'t> Sample<'t> {
    fn of(line: &'t str) -> Option<Self> {
        let (head, value) = line.rsplit_once(' ').filter(|(head, _)| !head.starts_with('#'))?;
        let (name, labels) = head.split_once('{').map_or((head, ""), |(name, rest)| (name, rest.trim_end_matches('}')));
        // routes have braces and commas have none: a label ends with its quote
        let labels =
            labels.split("\",").filter_map(|label| label.split_once("=\"")).map(|(name, value)| (name, value.trim_end_matches('"'))).collect();
        Some(Self { name, labels, value: value.parse().ok()? })
    }

    fn label(&self, name: &str) -> &'t str {
        self.labels.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }
}

/// A histogram.
#[derive(Default)]
struct Timed {
    count: f64,
    sum: f64,
    /// Upper bounds, and how many were at most that.
    buckets: BTreeMap<u64, (f64, f64)>,
}

impl Timed {
    /// Histograms of a name by a label, those with most time first.
    fn all(samples: &[Sample<'_>], name: &str, by: &str) -> Vec<(String, Self)> {
        let mut all: BTreeMap<String, Self> = BTreeMap::new();
        for sample in samples {
            let Some(part) = sample.name.strip_prefix(name) else { continue };
            let own = all.entry([sample.label("method"), sample.label(by)].join(" ").trim().to_owned()).or_default();
            match part {
                "_count" => own.count += sample.value,
                "_sum" => own.sum += sample.value,
                "_bucket" => {
                    let bound: f64 = sample.label("le").parse().unwrap_or(f64::INFINITY);
                    own.buckets.entry(bound.to_bits()).or_insert((bound, 0.0)).1 += sample.value;
                }
                _ => {}
            }
        }
        let mut all: Vec<(String, Self)> = all.into_iter().collect();
        all.sort_by(|(_, a), (_, b)| b.sum.total_cmp(&a.sum));
        all
    }

    /// The bound that 99 of 100 are below; nothing when it is longer than all bounds.
    fn tail(&self) -> Option<f64> {
        // bits of positive numbers are in the order of the numbers
        self.buckets.values().find(|(_, below)| *below >= self.count * 0.99).map(|(bound, _)| *bound).filter(|bound| bound.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_read_from_lines() {
        let text = "# HELP x\nx_sum{route=\"/v1/{tenant}/a\",method=\"GET\"} 2.0\nx_count{route=\"/v1/{tenant}/a\",method=\"GET\"} 4\n\
                    x_bucket{le=\"0.1\",route=\"/v1/{tenant}/a\",method=\"GET\"} 3\nx_bucket{le=\"+Inf\",route=\"/v1/{tenant}/a\",method=\"GET\"} 4\n";
        let samples: Vec<Sample<'_>> = text.lines().filter_map(Sample::of).collect();
        let all = Timed::all(&samples, "x", "route");
        let (name, own) = &all[0];
        assert_eq!((name.as_str(), own.count, own.sum, own.tail()), ("GET /v1/{tenant}/a", 4.0, 2.0, None));
    }
}
