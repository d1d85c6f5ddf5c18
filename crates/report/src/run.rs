//! The file of a run. All reports are computed from it.
//!
//! It is one JSON object; times are in nanoseconds in histograms, and in seconds elsewhere. `format` changes when readers must change.

use crate::{ReportError, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::Path;

/// The version of the format.
pub const FORMAT: &str = "stook-lab 1";
/// The JSON Schema of the file.
pub const SCHEMA: &str = include_str!("run.schema.json");

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// Requests at planned times.
    #[default]
    Load,
    /// Clients that wait for responses.
    Sweep,
    /// Imports, and users who work during them.
    Import,
    /// Limits of the machine.
    Limits,
}

/// A run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`].
    pub format: String,
    /// What was measured.
    pub kind: RunKind,
    /// Its name.
    pub name: String,
    /// When it began, RFC 3339 in UTC.
    pub begun: String,
    /// Its duration, in seconds.
    pub seconds: f64,
    /// Versions of the measuring programs, by name.
    pub versions: BTreeMap<String, String>,
    /// The machine.
    pub machine: MachineInfo,
    /// The plan.
    pub plan: Json,
    /// Limits of the machine, measured before the run.
    #[serde(default)]
    pub limits: Vec<MachineLimit>,
    /// Sets of requests, in the order they were made.
    #[serde(default)]
    pub sets: Vec<RequestSet>,
    /// Imports, in the order of their starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<ImportResult>,
    /// Resource usage of the machine, over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
    /// The database statements that took most time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<SqlStatementStats>,
    /// Whether the generator, not the target, was the bottleneck.
    #[serde(default)]
    pub generator: GeneratorInfo,
}

/// The machine of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MachineInfo {
    /// Number of usable cores.
    pub cores: usize,
    /// The processor.
    pub processor: String,
    /// Bytes of memory.
    pub memory: u64,
    /// The system and its version.
    pub system: String,
}

/// A limit of the machine, or of a library.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineLimit {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// The unit.
    pub unit: String,
}

/// The result of an import. Times are in seconds since the start of the run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ImportResult {
    /// The tenant.
    pub tenant: String,
    /// The name of the file.
    pub file: String,
    /// The round, from 1.
    pub round: u64,
    /// When its first byte was sent.
    pub begun: f64,
    /// When it was received completely.
    pub sent: f64,
    /// When its last document was committed; 0 if the run did not wait for it.
    pub ended: f64,
    /// When all derived values were settled.
    #[serde(default)]
    pub settled: f64,
    /// Number of documents.
    pub documents: u64,
    /// Number of failed documents.
    pub failed: u64,
    /// The final state of the job.
    pub state: String,
}

/// Values over time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// The unit.
    pub unit: String,
    /// Seconds since the start of the run, and the value.
    pub points: Vec<(f64, f64)>,
}

/// A statement of a database.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SqlStatementStats {
    /// Its text, with placeholders.
    pub text: String,
    /// How often it was executed.
    pub calls: u64,
    /// Its total time, in seconds.
    pub seconds: f64,
    /// Rows it returned or changed.
    pub rows: u64,
}

/// Quality of the load generator.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GeneratorInfo {
    /// Whether it was too slow for the plan, so that the generator itself was measured.
    pub bottleneck: bool,
    /// Why, in words.
    pub reason: Option<String>,
}

/// Requests of one kind at one rate, or of one number of clients.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RequestSet {
    /// The route, or all routes of the plan.
    pub route: String,
    /// The target, or size, if there are several.
    #[serde(default)]
    pub series: String,
    /// Seconds between the starts of requests, if planned.
    #[serde(default)]
    pub every: Option<f64>,
    /// Number of planned requests.
    #[serde(default)]
    pub planned: Option<u64>,
    /// Number of concurrent clients, if planned.
    #[serde(default)]
    pub clients: Option<u64>,
    /// Its duration, in seconds.
    pub seconds: f64,
    /// Number of completed requests.
    pub requests: u64,
    /// Bytes of response bodies.
    pub bytes: u64,
    /// Number of requests by status, or by what happened instead: refused, reset, cut, unreadable, timeout, unconnected.
    pub outcomes: BTreeMap<String, u64>,
    /// Time from when a request was due to the end of its response.
    pub latency: Durations,
    /// Time from when it was sent on a connection to the end of its response.
    pub service: Durations,
    /// Time from when it was due to when it was sent.
    pub waiting: Durations,
    /// Time from when it was due to when the generator processed it.
    pub late: Durations,
    /// Seconds of a time bin.
    pub bin: f64,
    /// Results by due time.
    pub bins: Vec<TimeBin>,
    /// A random sample of single requests.
    pub points: Vec<RequestPoint>,
    /// By how much counters of the system under test grew, by name.
    #[serde(default)]
    pub served: BTreeMap<String, u64>,
}

/// Durations of one kind.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Durations {
    /// Durations in nanoseconds, ascending, each with its count; three digits are exact.
    pub histogram: Vec<(u64, u64)>,
}

/// A time bin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TimeBin {
    /// Its start.
    pub at: f64,
    /// Requests that were due in it.
    pub requests: u64,
    /// Those without success.
    pub unsuccessful: u64,
    /// Median latency, in seconds.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Max latency.
    pub max: f64,
}

/// A single request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestPoint {
    /// When it was due.
    pub at: f64,
    /// Its latency.
    pub latency: f64,
    /// Its outcome.
    pub outcome: String,
}

impl Durations {
    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.histogram.iter().map(|(_, count)| count).sum()
    }

    /// Returns the duration in seconds that this share (0 to 1) does not exceed; `None` if there are none.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let all = self.count();
        let wanted = ((share * all as f64).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        let found = self.histogram.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        found.map(|(time, _)| *time as f64 / 1e9)
    }

    /// Returns mean and population standard deviation, in seconds.
    pub fn mean(&self) -> Option<(f64, f64)> {
        let all = self.count() as f64;
        let sum: f64 = self.histogram.iter().map(|(time, count)| *time as f64 / 1e9 * *count as f64).sum();
        let mean = sum / all;
        let squares: f64 = self.histogram.iter().map(|(time, count)| (*time as f64 / 1e9 - mean).powi(2) * *count as f64).sum();
        (all > 0.0).then(|| (mean, (squares / all).sqrt()))
    }

    /// Returns the smallest and the largest, in seconds.
    pub fn ends(&self) -> Option<(f64, f64)> {
        let seconds = |step: &(u64, u64)| step.0 as f64 / 1e9;
        Some((seconds(self.histogram.first()?), seconds(self.histogram.last()?)))
    }

    /// Merges two histograms.
    pub fn and(&self, other: &Durations) -> Durations {
        let mut all: BTreeMap<u64, u64> = self.histogram.iter().copied().collect();
        for (time, count) in &other.histogram {
            *all.entry(*time).or_default() += count;
        }
        Durations { histogram: all.into_iter().collect() }
    }
}

impl RequestSet {
    /// Returns the number of requests with this outcome.
    pub fn count_of(&self, outcome: &str) -> u64 {
        self.outcomes.get(outcome).copied().unwrap_or(0)
    }

    /// Returns the number of requests without a response.
    pub fn unanswered(&self) -> u64 {
        self.outcomes.iter().filter(|(name, _)| name.parse::<u16>().is_err()).map(|(_, count)| count).sum()
    }

    /// Returns the number of responses with status 2xx or 3xx.
    pub fn successes(&self) -> u64 {
        let is_success = |name: &String| name.parse::<u16>().is_ok_and(|status| (200..400).contains(&status));
        self.outcomes.iter().filter(|(name, _)| is_success(name)).map(|(_, count)| count).sum()
    }

    /// Merges two sets, as far as that is meaningful.
    pub fn and(&self, other: &RequestSet) -> RequestSet {
        let mut outcomes = self.outcomes.clone();
        for (name, count) in &other.outcomes {
            *outcomes.entry(name.clone()).or_default() += count;
        }
        RequestSet {
            every: self.every.filter(|_| self.every == other.every),
            planned: self.planned.filter(|_| self.planned == other.planned),
            seconds: self.seconds + other.seconds,
            requests: self.requests + other.requests,
            bytes: self.bytes + other.bytes,
            outcomes,
            latency: self.latency.and(&other.latency),
            service: self.service.and(&other.service),
            waiting: self.waiting.and(&other.waiting),
            late: self.late.and(&other.late),
            ..RequestSet::default()
        }
    }
}

impl MachineInfo {
    /// Describes this machine.
    pub fn of_this_machine() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, name: &str| -> Option<String> {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let (processors, memory, release) = (read("/proc/cpuinfo"), read("/proc/meminfo"), read("/etc/os-release"));
        let kilobytes = value(&memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        let pretty = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).map(|name| name.trim_matches('"').to_owned());
        let kernel = read("/proc/sys/kernel/osrelease");
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: value(&processors, "model name").unwrap_or_default(),
            memory: kilobytes.unwrap_or(0) * 1_024,
            system: format!("{}, Linux {}", pretty.unwrap_or_else(|| std::env::consts::OS.into()), kernel.trim()),
        }
    }
}

impl Run {
    /// Reads a run.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a run of this format.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = || path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| ReportError::File(shown(), error))?;
        let run: Run =
            serde_json::from_slice(&bytes).map_err(|error| ReportError::Content(format!("{}: it is no run of the lab: {error}", shown())))?;
        if run.format != FORMAT {
            return Err(ReportError::Content(format!("{}: it has format {}, this program reads {FORMAT}", shown(), run.format)));
        }
        Ok(run)
    }
}
