//! Metrics: what the server counts, as tables.

use super::shown::{count, items, members, named};
use super::visit::{PageContext, RenderedPage};
use crate::guard::problem::HandlerResult;
use maud::{Markup, PreEscaped, html};
use serde_json::Value as Json;
use std::sync::Arc;
use stook_report::svg;

/// Requests by route, tasks by kind, and the current state.
pub async fn page(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let summary = ctx.get_json_at("/metrics/summary").await?;
    // the history covers all tenants, so an admin of one tenant may not see it
    let history = ctx.get_json_at("/metrics/history").await.ok();
    let body = html! {
        @if let Some(history) = &history { section { h2 { "The last hour" } (curves(history)) } }
        p.quiet { "Since the process started. All metrics for Prometheus: " code { "/metrics" } "." }
        section { h2 { "Requests" } (table("route", items(&summary["requests"]))) }
        @if !items(&summary["stages"]).is_empty() { section { h2 { "Imports and settling" } (table("stage", items(&summary["stages"]))) } }
        @if members(&summary["state"]).next().is_some() {
            section { h2 { "Current state" } dl { @for (gauge, number) in members(&summary["state"]) { dt { (gauge.replace('_', " ")) } dd { (state_text(gauge, number)) } } } }
        }
    };
    Ok(RenderedPage::new("Metrics", body))
}

/// The charts: title, unit, and members of a point.
const CURVES: [(&str, &str, &[&str]); 8] = [
    ("Requests", "per second", &["requests", "failed"]),
    ("Response times", "seconds", &["p50", "p99"]),
    ("Queues", "waiting", &["in_work", "waiting", "chunks"]),
    ("Imports and settling", "per second", &["documents", "settled"]),
    ("Cache hit rate", "share", &["hits"]),
    ("Store: lookups and commits", "per second", &["asked", "commits"]),
    ("Store: rows written", "per second", &["written"]),
    ("Store: share of time spent writing", "seconds", &["writing"]),
];

/// Charts of values that were not always zero.
fn curves(history: &Json) -> Markup {
    let points = items(&history["points"]);
    let minutes = |index: usize| (index as f64 + 1.0 - points.len() as f64) * history["every"].as_f64().unwrap_or(0.0) / 60.0;
    let plot_line = |name: &&str| {
        let value = |(index, point): (usize, &Json)| Some((minutes(index), (point[*name].as_f64()?, 0.0)));
        svg::PlotLine { name: name.replace('_', " "), points: points.iter().enumerate().filter_map(value).collect() }
    };
    let charts = CURVES.iter().filter_map(|(title, unit, names)| {
        let plot_lines: Vec<svg::PlotLine> = names.iter().map(plot_line).collect();
        let is_flat = plot_lines.iter().all(|plot_line| plot_line.points.iter().all(|(_, (value, _))| *value == 0.0));
        (!is_flat).then(|| (title, svg::curves(&plot_lines, "minutes", unit)))
    });
    html! {
        @if points.len() < 2 { p.quiet { "Values are sampled every ten seconds; the charts will appear shortly." } }
        @else {
            div.pictures {
                @for (title, picture) in charts {
                    // drawn by this program from numbers
                    figure.picture { figcaption { (title) } (PreEscaped(picture.as_str())) }
                }
            }
        }
    }
}

fn table(key: &str, rows: &[Json]) -> Markup {
    html! {
        div.wide tabindex="0" {
            table {
                thead { tr { th scope="col" { (key) } th.number scope="col" { "number" } th.number scope="col" { "mean" } th.number scope="col" { "99th percentile" } } }
                tbody {
                    @for row in rows {
                        tr {
                            th scope="row" { code { (named(row, "method")) " " (named(row, key)) } }
                            td.number { (count(row["number"].as_u64().unwrap_or(0))) } td.number { (time(&row["mean"])) } td.number { (time(&row["p99"])) }
                        }
                    }
                }
            }
        }
    }
}

/// Formats a number, or bytes as MB.
fn state_text(gauge: &str, number: &Json) -> String {
    let number = number.as_u64().unwrap_or(0);
    if gauge.ends_with("bytes") { format!("{:.1} MB", number as f64 / 1e6) } else { count(number) }
}

/// Formats seconds; null is above the largest bucket.
fn time(seconds: &Json) -> String {
    match seconds.as_f64() {
        None => "longer".into(),
        Some(seconds) if seconds < 0.001 => format!("{:.0} µs", seconds * 1e6),
        Some(seconds) if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.1} s"),
    }
}
