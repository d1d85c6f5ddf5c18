//! The file of a run. Everything that is shown is computed from it.
//!
//! One JSON object; times are in nanoseconds in histograms and in seconds elsewhere. `format` changes when readers must.

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
    /// Requests at times of a plan.
    #[default]
    Load,
    /// Clients that wait for answers.
    Sweep,
    /// Imports, and users beside them.
    Import,
    /// The machine.
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
    /// How long it took.
    pub seconds: f64,
    /// Of what measured, by name.
    pub versions: BTreeMap<String, String>,
    /// Where.
    pub machine: MachineInfo,
    /// What was asked for.
    pub plan: Json,
    /// What the machine could do in the same run, by name.
    #[serde(default)]
    pub limits: Vec<MachineLimit>,
    /// Sets of requests, in the order they were made.
    #[serde(default)]
    pub sets: Vec<RequestSet>,
    /// Imports, in the order they were begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<ImportResult>,
    /// What the run cost the machine, over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
    /// What a database spent most time on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<SqlStatementStats>,
    /// Whether the generator, not the target, was what was measured; and why.
    #[serde(default)]
    pub generator: GeneratorInfo,
}

/// The machine of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MachineInfo {
    /// Cores that may be used.
    pub cores: usize,
    /// The processor.
    pub processor: String,
    /// Bytes.
    pub memory: u64,
    /// The system and its version.
    pub system: String,
}

/// What the machine, or a library, can do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineLimit {
    /// What.
    pub name: String,
    /// How much of it.
    pub value: f64,
    /// The unit.
    pub unit: String,
}

/// An import. Times are in seconds since the run began.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ImportResult {
    /// Whose.
    pub tenant: String,
    /// What the file is called.
    pub file: String,
    /// Which time, from 1.
    pub round: u64,
    /// When its first byte was sent.
    pub begun: f64,
    /// When all of it was taken.
    pub sent: f64,
    /// When its last document was committed; 0 of one that the run did not wait for.
    pub ended: f64,
    /// When all that follows from it was brought up to date.
    #[serde(default)]
    pub settled: f64,
    /// Documents.
    pub documents: u64,
    /// Those that failed.
    pub failed: u64,
    /// How the job ended.
    pub state: String,
}

/// Something over time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Curve {
    /// What.
    pub name: String,
    /// The unit.
    pub unit: String,
    /// Seconds since the run began, and how much of it.
    pub points: Vec<(f64, f64)>,
}

/// A statement of a database.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SqlStatementStats {
    /// With its parameters' places.
    pub text: String,
    /// How often it was carried out.
    pub calls: u64,
    /// How long that took.
    pub seconds: f64,
    /// Rows that it gave or changed.
    pub rows: u64,
}

/// How well requests were made.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GeneratorInfo {
    /// It was too slow for the plan: what is measured is the generator.
    pub bottleneck: bool,
    /// Why, in words.
    pub reason: Option<String>,
}

/// Requests of one kind at one rate, or by one number of clients.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RequestSet {
    /// What was asked: a route of the plan, or all of them.
    pub route: String,
    /// Which of several targets, or sizes.
    #[serde(default)]
    pub series: String,
    /// Seconds between the beginnings of requests, where that was planned.
    #[serde(default)]
    pub every: Option<f64>,
    /// How many were planned.
    #[serde(default)]
    pub planned: Option<u64>,
    /// Clients at once, where that was planned.
    #[serde(default)]
    pub clients: Option<u64>,
    /// How long it took.
    pub seconds: f64,
    /// Requests that ended.
    pub requests: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// By status, or by what happened instead: refused, reset, cut, unreadable, timeout, unconnected.
    pub outcomes: BTreeMap<String, u64>,
    /// From when a request was to begin to the end of its answer.
    pub latency: Durations,
    /// From when it was begun on a connection.
    pub service: Durations,
    /// From when it was to begin to when it was begun.
    pub waiting: Durations,
    /// From when it was to begin to when the generator came to it.
    pub late: Durations,
    /// Seconds of a stretch of time.
    pub bin: f64,
    /// By when requests were to begin.
    pub bins: Vec<TimeBin>,
    /// A fair selection of single requests.
    pub points: Vec<RequestPoint>,
    /// Counters of the served side before and after, by name.
    #[serde(default)]
    pub served: BTreeMap<String, u64>,
}

/// Times of one kind.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Durations {
    /// Times in nanoseconds, ascending, each with how often it was seen; three digits are exact.
    pub histogram: Vec<(u64, u64)>,
}

/// A stretch of time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TimeBin {
    /// Where it begins.
    pub at: f64,
    /// Requests that were to begin in it.
    pub requests: u64,
    /// Of these without success.
    pub unsuccessful: u64,
    /// Half of them took less.
    pub p50: f64,
    /// Nine of ten.
    pub p90: f64,
    /// 99 of 100.
    pub p99: f64,
    /// The slowest.
    pub max: f64,
}

/// A request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestPoint {
    /// When it was to begin.
    pub at: f64,
    /// How long it took from then.
    pub latency: f64,
    /// What came of it.
    pub outcome: String,
}

impl Durations {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.histogram.iter().map(|(_, count)| count).sum()
    }

    /// The time in seconds that this share (0 to 1) does not exceed; nothing of none.
    pub fn at(&self, share: f64) -> Option<f64> {
        let all = self.count();
        let wanted = ((share * all as f64).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        let found = self.histogram.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        found.map(|(time, _)| *time as f64 / 1e9)
    }

    /// Mean and population standard deviation in seconds.
    pub fn mean(&self) -> Option<(f64, f64)> {
        let all = self.count() as f64;
        let sum: f64 = self.histogram.iter().map(|(time, count)| *time as f64 / 1e9 * *count as f64).sum();
        let mean = sum / all;
        let squares: f64 = self.histogram.iter().map(|(time, count)| (*time as f64 / 1e9 - mean).powi(2) * *count as f64).sum();
        (all > 0.0).then(|| (mean, (squares / all).sqrt()))
    }

    /// The smallest and the largest in seconds.
    pub fn ends(&self) -> Option<(f64, f64)> {
        let seconds = |step: &(u64, u64)| step.0 as f64 / 1e9;
        Some((seconds(self.histogram.first()?), seconds(self.histogram.last()?)))
    }

    /// Both together.
    pub fn and(&self, other: &Durations) -> Durations {
        let mut all: BTreeMap<u64, u64> = self.histogram.iter().copied().collect();
        for (time, count) in &other.histogram {
            *all.entry(*time).or_default() += count;
        }
        Durations { histogram: all.into_iter().collect() }
    }
}

impl RequestSet {
    /// How many had this outcome.
    pub fn of(&self, outcome: &str) -> u64 {
        self.outcomes.get(outcome).copied().unwrap_or(0)
    }

    /// How many had no answer.
    pub fn unanswered(&self) -> u64 {
        self.outcomes.iter().filter(|(name, _)| name.parse::<u16>().is_err()).map(|(_, count)| count).sum()
    }

    /// How many were answered 2xx or 3xx.
    pub fn successes(&self) -> u64 {
        let is_success = |name: &String| name.parse::<u16>().is_ok_and(|status| (200..400).contains(&status));
        self.outcomes.iter().filter(|(name, _)| is_success(name)).map(|(_, count)| count).sum()
    }

    /// Both together, as far as that means something.
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
    /// This one.
    pub fn here() -> Self {
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
    /// When the file cannot be read, or is no run of this format.
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
