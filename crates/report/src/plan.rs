//! Plans of requests, and of imports for several tenants, as they are written and as run files keep them.

use crate::{ReportError, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A load plan as it is written. Unknown keys are errors.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlanFile {
    /// Its name.
    pub name: String,
    /// `http://HOST:PORT`.
    pub target: String,
    /// Headers of every request; `${NAME}` is taken from the environment.
    pub headers: BTreeMap<String, String>,
    /// Parameters: name, and `FILE` or `FILE#MEMBER` with its values.
    pub parameters: BTreeMap<String, String>,
    /// The routes.
    pub routes: Vec<RouteEntry>,
    /// Number of requests of a set; several numbers for several sets.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub requests: Vec<u64>,
    /// Time between the starts of requests; several times for several sets.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub every: Vec<String>,
    /// Requests per second; several rates for several sets.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub rate: Vec<f64>,
    /// Duration of a set, instead of a number of requests.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// How requests follow each other.
    pub schedule: Schedule,
    /// The rate at the end of a ramp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<f64>,
    /// Whether each route has a set of its own, instead of all routes mixed.
    pub each_route: bool,
    /// Factor by which requests are faster than written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faster: Option<f64>,
    /// Time between sets, after the last response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<String>,
    /// Timeout of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Max concurrent connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
    /// Whether each request has a new connection.
    pub close: bool,
    /// Equal seeds draw equal values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Path of the Prometheus metrics of the system under test, which are read before and after each set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// Numbers of concurrent clients of a sweep.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub clients: Vec<usize>,
    /// Targets of a sweep by name, which are shown together.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, String>,
    /// Figures of another system, to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<ReportedFigures>,
}

/// Reported figures of another system.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReportedFigures {
    /// The name of the other system.
    pub by: String,
    /// Percent of success, by `REQUESTS every TIME` of a set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub success: BTreeMap<String, f64>,
    /// Mean seconds, by route; of a sweep by `ROUTE by CLIENTS`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub seconds: BTreeMap<String, f64>,
}

/// Reads a list, or a single element as a list of one.
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
    /// At equal distances.
    #[default]
    Constant,
    /// At random, with the rate as the mean.
    Poisson,
    /// With a rate that changes linearly to another.
    Ramp,
    /// At a fixed time after the previous response.
    Delay,
}

/// A route as it is written.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouteEntry {
    /// Its name; by default the path.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The path of a GET request, with parameters in braces.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub get: String,
    /// The path of a POST request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub post: String,
    /// The path of a PUT request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub put: String,
    /// The path of a PATCH request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub patch: String,
    /// The path of a DELETE request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub delete: String,
    /// The body, with parameters in braces.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Headers of this route.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Its frequency relative to other routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u64>,
}

/// An import matrix as it is written. Unknown keys are errors.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImportPlanFile {
    /// Its name.
    pub name: String,
    /// `http://HOST:PORT` of a Stook server.
    pub target: String,
    /// The tenants, in the order in which they start.
    pub tenants: Vec<String>,
    /// Headers of every request, with a token for all tenants; `${NAME}` is taken from the environment.
    pub headers: BTreeMap<String, String>,
    /// The profile of imports.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub profile: String,
    /// The files that each tenant imports, in this order.
    pub files: Vec<ImportFileEntry>,
    /// Time between the end of an import and the next of the same tenant. Without it all imports start at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<String>,
    /// Number of repetitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Users who work during the imports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<UsersEntry>,
    /// Programs whose processor time and memory are recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// A database whose connections and statements are recorded.
    #[serde(skip_serializing)]
    pub postgres: Option<String>,
    /// The name of the system whose figures are compared.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reported_by: String,
}

/// A file of a matrix, or another step that starts a job.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImportFileEntry {
    /// Its path relative to the plan; `{round}` and `{tenant}` are replaced, and one `*` in the last part matches any text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The source, if there is no profile.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Instead of a file: a path below the tenant's for a POST request that starts a job.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub post: String,
    /// Its name in tables.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Seconds that the other system took, by tenant in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reported: Vec<f64>,
    /// Mean and 95th percentile, in seconds, of the other system's users during this import, by route.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reported_users: BTreeMap<String, [f64; 2]>,
}

/// Users who work during the imports.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UsersEntry {
    /// The number of users.
    pub number: usize,
    /// How long they work before the first import.
    pub idle: String,
    /// Time between a response and the next request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<String>,
    /// Parameters: name, and `FILE` or `FILE#MEMBER` with its values.
    pub parameters: BTreeMap<String, String>,
    /// The routes that each user requests in order, with the same values; then again with other values.
    pub routes: Vec<RouteEntry>,
    /// Mean and 95th percentile, in seconds, of the other system's users while nothing was imported, by route.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reported: BTreeMap<String, [f64; 2]>,
}

/// The phase before the first import.
pub const IDLE: &str = "idle";

impl ImportFileEntry {
    /// Returns its name.
    pub fn name(&self) -> &str {
        [&self.name, &self.file, &self.post].into_iter().find(|name| !name.is_empty()).map_or("", String::as_str)
    }
}

/// Parses a duration in us, ms, s, min or m, or h.
///
/// # Errors
/// When it is not a duration.
pub fn duration(text: &str) -> Result<Duration> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("m", 60.0), ("h", 3_600.0)];
    let found = units.iter().find_map(|(unit, seconds)| Some((text.trim().strip_suffix(unit)?.trim().parse::<f64>().ok()?, seconds)));
    let seconds = found.map(|(number, seconds)| number * seconds).filter(|seconds| (0.0..=1e7).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| ReportError::Content(format!("{text:?} is no duration: for example 50ms, 2s, 1min")))
}
