//! Metrics of the database and of sources, for alerts. They are read at most every fifteen seconds, however often metrics are fetched.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use stook_engine::job::health::SourceHealth;
use stook_store::health::StoreHealth;

/// How long what was read counts.
const READ_INTERVAL: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    source: String,
    tenant: String,
}

type SourceGauge = Family<SourceLabels, Gauge>;

/// Metrics of sources.
#[derive(Default)]
pub struct SourceMetrics {
    last_success: SourceGauge,
    age: SourceGauge,
    failed_documents: SourceGauge,
    size: SourceGauge,
    read: Mutex<Option<Instant>>,
}

impl SourceMetrics {
    /// Makes the metrics and registers them.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let success = metrics.last_success.clone();
        registry.register_with_unit(
            "source_last_success_timestamp",
            "When the last job of a source ended that imported documents",
            Unit::Seconds,
            success,
        );
        registry.register_with_unit("source_age", "Time since then", Unit::Seconds, metrics.age.clone());
        registry.register("source_failed_documents", "Failed documents of the last job of a source", metrics.failed_documents.clone());
        registry.register_with_unit("source_size", "Size of the files of the last successful job of a source", Unit::Bytes, metrics.size.clone());
        metrics
    }

    /// Whether what was read is too old; if so, the caller reads it again.
    pub fn is_due(&self) -> bool {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = read.is_none_or(|read| read.elapsed() > READ_INTERVAL);
        if is_due {
            *read = Some(Instant::now());
        }
        is_due
    }

    /// Sets the metrics; sources that are not among these have none any more.
    pub fn set(&self, sources: &[SourceHealth], now: i64) {
        let all = [&self.last_success, &self.age, &self.failed_documents, &self.size];
        all.into_iter().for_each(SourceGauge::clear);
        for source in sources {
            let labels = SourceLabels { source: source.source.clone(), tenant: source.tenant.clone() };
            self.failed_documents.get_or_create(&labels).set(i64::try_from(source.failed_documents).unwrap_or(i64::MAX));
            if let Some(at) = source.last_success {
                self.last_success.get_or_create(&labels).set(at / 1_000_000);
                self.age.get_or_create(&labels).set((now - at).max(0) / 1_000_000);
                self.size.get_or_create(&labels).set(i64::try_from(source.bytes).unwrap_or(i64::MAX));
            }
        }
    }
}

/// The gauges of a database, by name.
pub fn gauges(health: &StoreHealth) -> Vec<(&'static str, u64)> {
    let mut gauges = vec![("store_size_bytes", health.bytes), ("store_free_bytes", health.free_bytes)];
    gauges.extend(health.log_bytes.map(|bytes| ("store_log_bytes", bytes)));
    gauges.extend(health.disk_free.map(|bytes| ("disk_free_bytes", bytes)));
    gauges.extend(health.replicas.iter().filter_map(|replica| replica.behind_bytes).max().map(|bytes| ("replica_behind_bytes", bytes)));
    gauges.push(("rights_missing", health.missing_rights.len() as u64));
    gauges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use std::time::Duration;
    use stook_store::health::Replica;

    const RULES: &str = include_str!("../../../../packaging/prometheus/stook.rules.yml");

    /// Everything that can be measured is in the text.
    fn all_metrics() -> String {
        let metrics = Metrics::default();
        let health = StoreHealth {
            log_bytes: Some(1),
            disk_free: Some(1),
            replicas: vec![Replica { name: "r".into(), state: "streaming".into(), behind_bytes: Some(1) }],
            ..StoreHealth::default()
        };
        gauges(&health).into_iter().for_each(|(name, value)| metrics.set(name, value));
        let source = SourceHealth { source: "prices".into(), tenant: "main".into(), last_success: Some(1_000_000), ..SourceHealth::default() };
        metrics.sources.set(&[source], 3_000_000);
        // what is counted by route is there from the first request on
        metrics.count_response(&metrics.counters("/healthz", "GET", "main"), 200, Duration::from_millis(1));
        metrics.text()
    }

    #[test]
    fn alerts_use_metrics_that_exist() {
        let text = all_metrics();
        let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let mut used = 0;
        for line in RULES.lines().filter(|line| line.trim_start().starts_with("expr:")) {
            for (at, _) in line.match_indices("stook_") {
                let name = line[at..].split(|character| !is_name(character)).next().unwrap_or_default();
                let base = ["_bucket", "_total"].iter().fold(name, |name, end| name.trim_end_matches(end));
                assert!(text.contains(&format!("# TYPE {base} ")), "{name} in {line}");
                used += 1;
            }
            for (_, rest) in line.match_indices("what=\"").map(|(at, start)| line[at..].split_at(start.len())) {
                let what = rest.split('"').next().unwrap_or_default();
                let is_known = text.contains(&format!("what=\"{what}\"")) || ["queue_dead", "queue_waiting"].contains(&what);
                assert!(is_known, "{what} in {line}");
            }
        }
        assert!(used > 8, "{used}");
    }

    #[test]
    fn a_source_that_is_not_among_the_newest_jobs_any_more_has_no_metrics() {
        let text = all_metrics();
        assert!(text.contains("stook_source_age_seconds{source=\"prices\",tenant=\"main\"} 2"), "{text}");
        let metrics = Metrics::default();
        metrics.sources.set(&[SourceHealth { source: "prices".into(), tenant: "main".into(), ..SourceHealth::default() }], 0);
        metrics.sources.set(&[], 0);
        assert!(!metrics.text().contains("prices"));
    }
}
