//! Plans as they are written, and as the file of a run keeps them: of requests, and of imports for several tenants.

use crate::{ReportError, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A plan as it is written. Unknown words are mistakes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlanFile {
    /// Its name.
    pub name: String,
    /// `http://HOST:PORT`.
    pub target: String,
    /// Sent with every request; `${NAME}` is from the environment.
    pub headers: BTreeMap<String, String>,
    /// Name to `FILE` or `FILE#MEMBER`.
    pub parameters: BTreeMap<String, String>,
    /// What is asked.
    pub routes: Vec<RouteEntry>,
    /// Requests of a set; several for sets of several sizes.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub requests: Vec<u64>,
    /// Time between the beginnings of requests; several for several sets.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub every: Vec<String>,
    /// Requests per second; several for several sets.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub rate: Vec<f64>,
    /// How long a set takes, instead of a number of requests.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// How requests follow each other.
    pub schedule: Schedule,
    /// The rate at the end, of a ramp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<f64>,
    /// A set for each route instead of all routes mixed.
    pub each_route: bool,
    /// How much faster than written requests follow each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faster: Option<f64>,
    /// Time between sets, after the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<String>,
    /// When a request counts as not answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Most connections at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
    /// A connection for each request.
    pub close: bool,
    /// Equal seeds draw equal values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Where counters of the served side are read before and after each set: a path of Prometheus metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// Clients at once, of a sweep.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub clients: Vec<usize>,
    /// Other targets by name, of a sweep: shown beside each other.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, String>,
    /// Figures of somebody else's system, to stand beside the measured ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<ReportedFigures>,
}

/// What somebody else measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReportedFigures {
    /// Whose.
    pub by: String,
    /// Percent of success, by `REQUESTS every TIME` of a set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub success: BTreeMap<String, f64>,
    /// Mean seconds, by route; of a sweep by `ROUTE by CLIENTS`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub seconds: BTreeMap<String, f64>,
}

/// A list, or its only element.
fn one_or_many<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> std::result::Result<Vec<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany<T> {
        One(T),
        Many(Vec<T>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

/// How requests follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// In equal steps.
    #[default]
    Constant,
    /// At random, with the rate as the mean.
    Poisson,
    /// From one rate to another, steadily.
    Ramp,
    /// That long after the answer to the one before.
    Delay,
}

/// A route as it is written.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouteEntry {
    /// Its name; without one, what is asked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A path that is asked by GET, with parameters in braces.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub get: String,
    /// By POST.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub post: String,
    /// By PUT.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub put: String,
    /// By PATCH.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub patch: String,
    /// By DELETE.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub delete: String,
    /// What is sent, with parameters in braces.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Sent with it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How often, beside the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u64>,
}

/// A matrix as it is written. Unknown words are mistakes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImportPlanFile {
    /// Its name.
    pub name: String,
    /// `http://HOST:PORT` of a server of Stook.
    pub target: String,
    /// Whose records, in the order in which they begin.
    pub tenants: Vec<String>,
    /// Sent with every request, with a token that is good for all tenants; `${NAME}` is from the environment.
    pub headers: BTreeMap<String, String>,
    /// The profile of imports.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub profile: String,
    /// What each tenant imports, in this order.
    pub files: Vec<ImportFileEntry>,
    /// Time between the end of an import and the next of the same tenant. Without it all are begun at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<String>,
    /// How often all of it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Who works meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<UsersEntry>,
    /// Programs whose processor time and memory are watched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// A database whose connections and statements are watched.
    #[serde(skip_serializing)]
    pub postgres: Option<String>,
    /// Whose figures stand beside ours.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reported_by: String,
}

/// A file of a matrix, or something else that a job does.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImportFileEntry {
    /// Where it is, beside the plan; `{round}` and `{tenant}` in it are replaced, one `*` in its last part stands for all there are.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The source of what has no profile.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Instead of a file: a path below the tenant's that is posted to, and begins a job.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub post: String,
    /// What it is called in tables.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Seconds that somebody else's system took, by tenant in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reported: Vec<f64>,
    /// Its users' mean and 95th percentile meanwhile in seconds, by route.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reported_users: BTreeMap<String, [f64; 2]>,
}

/// Users who work meanwhile.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UsersEntry {
    /// How many.
    pub number: usize,
    /// How long they work before anything is imported.
    pub idle: String,
    /// Between an answer and the next request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<String>,
    /// Name to `FILE` or `FILE#MEMBER`.
    pub parameters: BTreeMap<String, String>,
    /// What each does, one after the other, with the same values; then again with others.
    pub routes: Vec<RouteEntry>,
    /// Mean and 95th percentile in seconds of somebody else's users while nothing was imported, by route.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reported: BTreeMap<String, [f64; 2]>,
}

/// The phase before anything is imported.
pub const IDLE: &str = "idle";

impl ImportFileEntry {
    /// What it is called.
    pub fn name(&self) -> &str {
        [&self.name, &self.file, &self.post].into_iter().find(|name| !name.is_empty()).map_or("", String::as_str)
    }
}

/// Microseconds, milliseconds, seconds, minutes.
///
/// # Errors
/// When it is no duration.
pub fn duration(text: &str) -> Result<Duration> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("m", 60.0), ("h", 3_600.0)];
    let found = units.iter().find_map(|(unit, seconds)| Some((text.trim().strip_suffix(unit)?.trim().parse::<f64>().ok()?, seconds)));
    let seconds = found.map(|(number, seconds)| number * seconds).filter(|seconds| (0.0..=1e7).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| ReportError::Content(format!("{text:?} is no duration: for example 50ms, 2s, 1min")))
}
