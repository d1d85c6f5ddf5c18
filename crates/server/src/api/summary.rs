//! Metrics summarised for people: requests by route and tasks by kind with their durations, and the current state.

use super::metrics;
use crate::App;
use crate::api::response::json_answer;
use crate::guard::problem::HandlerResult;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns sums since the process started, largest total time first. An admin of one tenant sees only that tenant's.
///
/// # Errors
/// 403 for callers who are not admins.
pub async fn get(State(app): State<Arc<App>>, request: Request) -> HandlerResult<Response> {
    let text = metrics::metrics_text(&app, &app.caller(request.extensions(), request.headers())?).await?;
    Ok(json_answer(StatusCode::OK, summary_of(&text).to_string()))
}

fn summary_of(text: &str) -> Json {
    let samples: Vec<Sample<'_>> = text.lines().filter_map(Sample::parse).collect();
    let timed = |name: &str, labels: [&str; 2]| -> Vec<Json> {
        let shown = |(key, summary): ([&str; 2], HistogramSummary)| {
            let mut row: Map<String, Json> =
                labels.into_iter().zip(key).filter(|(name, _)| !name.is_empty()).map(|(name, value)| (name.to_owned(), value.into())).collect();
            row.insert("number".into(), json!(summary.count as u64));
            row.insert("mean".into(), json!(summary.sum / summary.count.max(1.0)));
            row.insert("p99".into(), json!(summary.tail()));
            Json::Object(row)
        };
        HistogramSummary::all(&samples, name, labels).into_iter().map(shown).collect()
    };
    let state: Map<String, Json> = samples
        .iter()
        .filter(|sample| sample.name == "stook_state")
        .map(|sample| (sample.label("what").to_owned(), json!(sample.value as u64)))
        .collect();
    json!({
        "requests": timed("stook_request_duration_seconds", ["method", "route"]),
        "stages": timed("stook_stage_duration_seconds", ["stage", ""]),
        "state": state,
    })
}

/// A line of the Prometheus text format.
struct Sample<'t> {
    name: &'t str,
    labels: Vec<(&'t str, &'t str)>,
    value: f64,
}

impl<'t> Sample<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let (head, value) = line.rsplit_once(' ').filter(|(head, _)| !head.starts_with('#'))?;
        let (name, labels) = head.split_once('{').map_or((head, ""), |(name, rest)| (name, rest.trim_end_matches('}')));
        // routes contain braces, but no `",`: a label ends with its quote
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
struct HistogramSummary {
    count: f64,
    sum: f64,
    /// Upper bounds with the number of values at most that, by the bound's bits.
    buckets: BTreeMap<u64, (f64, f64)>,
}

impl HistogramSummary {
    /// Sums the histograms of a name by two labels, largest total time first.
    fn all<'t>(samples: &[Sample<'t>], name: &str, by: [&str; 2]) -> Vec<([&'t str; 2], Self)> {
        let mut all: BTreeMap<[&str; 2], Self> = BTreeMap::new();
        for sample in samples {
            let Some(part) = sample.name.strip_prefix(name) else { continue };
            let summary = all.entry(by.map(|label| sample.label(label))).or_default();
            match part {
                "_count" => summary.count += sample.value,
                "_sum" => summary.sum += sample.value,
                "_bucket" => {
                    let bound: f64 = sample.label("le").parse().unwrap_or(f64::INFINITY);
                    summary.buckets.entry(bound.to_bits()).or_insert((bound, 0.0)).1 += sample.value;
                }
                _ => {}
            }
        }
        let mut all: Vec<([&str; 2], Self)> = all.into_iter().collect();
        all.sort_by(|(_, a), (_, b)| b.sum.total_cmp(&a.sum));
        all
    }

    /// Returns the bound that 99 % of the values are within; `None` if that is above the largest bound.
    fn tail(&self) -> Option<f64> {
        // positive floats and their bits have the same order
        self.buckets.values().find(|(_, below)| *below >= self.count * 0.99).map(|(bound, _)| *bound).filter(|bound| bound.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_in_text_format_are_summarised() {
        let text = "# HELP x\nstook_request_duration_seconds_sum{route=\"/v1/{tenant}/a\",method=\"GET\"} 2.0\n\
                    stook_request_duration_seconds_count{route=\"/v1/{tenant}/a\",method=\"GET\"} 4\n\
                    stook_request_duration_seconds_bucket{le=\"0.1\",route=\"/v1/{tenant}/a\",method=\"GET\"} 3\n\
                    stook_request_duration_seconds_bucket{le=\"+Inf\",route=\"/v1/{tenant}/a\",method=\"GET\"} 4\n\
                    stook_stage_duration_seconds_sum{stage=\"import\"} 3\nstook_stage_duration_seconds_count{stage=\"import\"} 2\n\
                    stook_stage_duration_seconds_bucket{stage=\"import\",le=\"2.5\"} 2\nstook_state{what=\"queue_dead\"} 7\n";
        let wanted = json!({
            "requests": [{ "method": "GET", "route": "/v1/{tenant}/a", "number": 4, "mean": 0.5, "p99": null }],
            "stages": [{ "stage": "import", "number": 2, "mean": 1.5, "p99": 2.5 }],
            "state": { "queue_dead": 7 },
        });
        assert_eq!(summary_of(text), wanted);
    }
}
