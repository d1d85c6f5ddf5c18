//! What is to be asked, how often, and when.

use super::template::{RequestTemplate, TemplateParameter, values};
use super::{LabError, Result};
use crate::random::Random;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
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
    /// Time between sets, behind the last answer.
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
    /// That long behind the answer to the one before.
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

/// A plan ready to be carried out.
#[derive(Debug)]
pub struct LoadPlan {
    /// As it was written, without secrets.
    pub text: Json,
    /// Its name.
    pub name: String,
    /// Where requests go.
    pub target: TargetAddress,
    /// What is asked.
    pub routes: Vec<PlannedRoute>,
    /// Values of parameters.
    pub parameters: Vec<TemplateParameter>,
    /// Sets in their order.
    pub sets: Vec<RequestSetPlan>,
    /// Time between sets.
    pub pause: Duration,
    /// When a request counts as not answered.
    pub timeout: Duration,
    /// Most connections.
    pub connections: usize,
    /// Whether connections are used once.
    pub close: bool,
    /// Of random numbers.
    pub seed: u64,
    /// Path of the served side's counters.
    pub metrics: Option<String>,
    /// Clients of a sweep.
    pub clients: Vec<usize>,
    /// Targets of a sweep, by name.
    pub series: Vec<(String, TargetAddress)>,
}

/// Where requests go.
#[derive(Debug, Clone)]
pub struct TargetAddress {
    /// Address.
    pub address: SocketAddr,
    /// As it stands in the Host header.
    pub host: String,
    /// What stands before every path.
    pub base: String,
}

/// Something that is asked.
#[derive(Debug)]
pub struct PlannedRoute {
    /// Its name.
    pub name: String,
    /// How often, beside the others.
    pub weight: u64,
    method: &'static str,
    path: RequestTemplate,
    headers: String,
    body: Option<RequestTemplate>,
}

/// Requests of one kind at one rate.
#[derive(Debug, Clone)]
pub struct RequestSetPlan {
    /// The only route, or all.
    pub route: Option<usize>,
    /// How many requests.
    pub requests: u64,
    /// Mean time between their beginnings.
    pub every: Duration,
    /// How they follow each other.
    pub schedule: Schedule,
    /// The time between beginnings at the end of a ramp.
    pub until: Duration,
}

/// Microseconds, milliseconds, seconds, minutes.
///
/// # Errors
/// When it is no duration.
pub fn duration(text: &str) -> Result<Duration> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("m", 60.0), ("h", 3_600.0)];
    let found = units.iter().find_map(|(unit, seconds)| Some((text.trim().strip_suffix(unit)?.trim().parse::<f64>().ok()?, seconds)));
    let seconds = found.map(|(number, seconds)| number * seconds).filter(|seconds| (0.0..=1e7).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| LabError::Plan(format!("{text:?} is no duration: for example 50ms, 2s, 1min")))
}

impl TargetAddress {
    /// Of `http://HOST[:PORT][/BASE]`.
    ///
    /// # Errors
    /// When it is something else, or the host has no address.
    pub fn of(url: &str) -> Result<Self> {
        let wrong = |why: &str| LabError::Plan(format!("{url}: {why}"));
        let rest = url.strip_prefix("http://").ok_or_else(|| wrong("a target begins with http://; TLS is not supported"))?;
        let (host, base) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let with_port =
            if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) { host.to_owned() } else { format!("{host}:80") };
        let mut found = with_port.to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
        let address = found.next().ok_or_else(|| wrong("the host has no address"))?;
        Ok(Self { address, host: host.to_owned(), base: base.trim_end_matches('/').to_owned() })
    }
}

/// `${NAME}` replaced by what the environment says.
pub(super) fn from_environment(text: &str) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        let (name, after) = behind.split_once('}').ok_or_else(|| LabError::Plan(format!("{text}: `${{` is never closed")))?;
        out.push_str(before);
        out.push_str(&std::env::var(name).map_err(|_| LabError::Plan(format!("the environment has no {name}")))?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

pub(super) fn header_lines(headers: &BTreeMap<String, String>) -> Result<String> {
    let mut lines = String::new();
    for (name, value) in headers {
        let value = from_environment(value)?;
        if name.is_empty() || format!("{name}{value}").contains(['\r', '\n', '\0']) || name.contains([':', ' ']) {
            return Err(LabError::Plan(format!("`{name}` is no header")));
        }
        lines.push_str(&format!("{name}: {value}\r\n"));
    }
    Ok(lines)
}

impl LoadPlan {
    /// Checks a plan and reads what it names; files are beside `folder`.
    ///
    /// # Errors
    /// The first mistake.
    pub fn new(text: &PlanFile, folder: &Path) -> Result<Self> {
        let shown = serde_json::to_value(text).map_err(|error| LabError::Plan(error.to_string()))?;
        let target = TargetAddress::of(&from_environment(&text.target)?)?;
        let mut parameters = Vec::new();
        for (name, written) in &text.parameters {
            parameters.push(TemplateParameter { name: name.clone(), values: values(written, folder)? });
        }
        let common = header_lines(&text.headers)?;
        let mut routes = Vec::new();
        for route in &text.routes {
            routes.push(PlannedRoute::new(route, &parameters, &common)?);
        }
        if routes.is_empty() {
            return Err(LabError::Plan("a plan has at least one route: `routes: [{ get: /path }]`".into()));
        }
        let optional = |text: &Option<String>, otherwise: Duration| text.as_deref().map_or(Ok(otherwise), duration);
        let mut series = Vec::new();
        for (name, url) in &text.series {
            series.push((name.clone(), TargetAddress::of(&from_environment(url)?)?));
        }
        let clients = if text.clients.is_empty() { (1..10).chain([10, 20, 50, 100]).collect() } else { text.clients.clone() };
        if clients.iter().any(|clients| !(1..=20_000).contains(clients)) {
            return Err(LabError::Plan("clients are 1 to 20 000".into()));
        }
        Ok(Self {
            name: if text.name.is_empty() { routes[0].name.clone() } else { text.name.clone() },
            target,
            sets: sets(text, routes.len())?,
            routes,
            parameters,
            pause: optional(&text.pause, Duration::from_millis(200))?,
            timeout: optional(&text.timeout, Duration::from_secs(30))?,
            connections: text.connections.unwrap_or(1_024).clamp(1, 60_000),
            close: text.close,
            seed: text.seed.unwrap_or(1),
            metrics: text.metrics.clone(),
            clients,
            series,
            text: shown,
        })
    }

    /// A route at random by weight.
    pub fn draw(&self, random: &mut Random) -> usize {
        let all: u64 = self.routes.iter().map(|route| route.weight).sum();
        let mut at = random.below(all.max(1));
        let found = self.routes.iter().position(|route| {
            let here = at < route.weight;
            at = at.saturating_sub(route.weight);
            here
        });
        found.unwrap_or(0)
    }
}

fn sets(text: &PlanFile, routes: usize) -> Result<Vec<RequestSetPlan>> {
    let wrong = |why: &str| Err(LabError::Plan(why.to_owned()));
    let faster = text.faster.unwrap_or(1.0);
    if faster <= 0.0 || text.rate.iter().chain(&text.until).any(|rate| *rate <= 0.0) {
        return wrong("rates and `faster` are larger than 0");
    }
    let mut gaps = Vec::new();
    for every in &text.every {
        gaps.push(duration(every)?.div_f64(faster));
    }
    gaps.extend(text.rate.iter().map(|rate| Duration::from_secs_f64(1.0 / (rate * faster))));
    if gaps.is_empty() {
        gaps.push(Duration::from_millis(10));
    }
    if gaps.iter().any(|gap| gap.is_zero() && text.schedule != Schedule::Delay) {
        return wrong("requests follow each other in some time: `every: [50ms]` or `rate: [100]`");
    }
    let time = text.time.as_deref().map(duration).transpose()?;
    let until = text.until.map(|rate| Duration::from_secs_f64(1.0 / (rate * faster)));
    if text.schedule == Schedule::Ramp && until.is_none() {
        return wrong("a ramp says where it ends: `until: 500`, in requests per second");
    }
    let each: Vec<Option<usize>> = if text.each_route { (0..routes).map(Some).collect() } else { vec![None] };
    let mut sets = Vec::new();
    for route in each {
        for every in &gaps {
            let counts: Vec<u64> = match (time, text.requests.is_empty()) {
                (Some(_), false) => return wrong("a set ends by `for` or by `requests`, not by both"),
                (Some(time), true) => {
                    let rate = 1.0 / every.as_secs_f64().max(1e-6);
                    let end = until.filter(|_| text.schedule == Schedule::Ramp).map_or(rate, |until| 1.0 / until.as_secs_f64());
                    vec![((rate + end) / 2.0 * time.as_secs_f64()).ceil() as u64]
                }
                (None, false) => text.requests.clone(),
                (None, true) => vec![1_000],
            };
            for requests in counts {
                sets.push(RequestSetPlan { route, requests, every: *every, schedule: text.schedule, until: until.unwrap_or(*every) });
            }
        }
    }
    Ok(sets)
}

impl RequestSetPlan {
    /// When each request begins, since the set does.
    pub fn times(&self, seed: u64) -> SendTimes {
        SendTimes { set: self.clone(), random: Random::new(seed), next: 0, at: Duration::ZERO }
    }

    /// About how long it takes.
    pub fn expected(&self) -> Duration {
        let mean = (self.every + self.until) / 2;
        mean.saturating_mul(self.requests.min(u64::from(u32::MAX)) as u32)
    }
}

/// When requests begin.
pub struct SendTimes {
    set: RequestSetPlan,
    random: Random,
    next: u64,
    at: Duration,
}

impl Iterator for SendTimes {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if self.next == self.set.requests {
            return None;
        }
        let due = self.at;
        let step = match self.set.schedule {
            Schedule::Constant | Schedule::Delay => self.set.every.as_secs_f64(),
            Schedule::Poisson => {
                let share = (self.random.number() >> 11) as f64 / (1_u64 << 53) as f64;
                -(1.0 - share).ln() * self.set.every.as_secs_f64()
            }
            Schedule::Ramp => {
                let (from, to) = (1.0 / self.set.every.as_secs_f64(), 1.0 / self.set.until.as_secs_f64());
                // the rate grows steadily in time, so its square grows steadily in requests
                let done = self.next as f64 / self.set.requests as f64;
                1.0 / (from.powi(2) + (to.powi(2) - from.powi(2)) * done).sqrt()
            }
        };
        self.next += 1;
        // constant steps must not add up errors
        self.at = if self.set.schedule == Schedule::Constant {
            Duration::from_nanos((self.set.every.as_nanos() as f64 * self.next as f64) as u64)
        } else {
            self.at + Duration::from_secs_f64(step)
        };
        Some(due)
    }
}

impl PlannedRoute {
    fn new(text: &RouteEntry, parameters: &[TemplateParameter], common: &str) -> Result<Self> {
        let methods = [("GET", &text.get), ("POST", &text.post), ("PUT", &text.put), ("PATCH", &text.patch), ("DELETE", &text.delete)];
        let mut said = methods.into_iter().filter(|(_, path)| !path.is_empty());
        let (Some((method, path)), None) = (said.next(), said.next()) else {
            return Err(LabError::Plan("a route has one of get, post, put, patch, delete".into()));
        };
        if !path.starts_with('/') || path.contains([' ', '\r', '\n']) {
            return Err(LabError::Plan(format!("{path}: a path begins with / and has no blanks")));
        }
        let own = header_lines(&text.headers)?;
        let typed = format!("{common}{own}").to_ascii_lowercase().contains("content-type:");
        let json = if text.body.is_empty() || typed { "" } else { "content-type: application/json\r\n" };
        Ok(Self {
            name: if text.name.is_empty() { format!("{method} {path}") } else { text.name.clone() },
            weight: text.weight.unwrap_or(1),
            method,
            path: RequestTemplate::new(path, parameters, true)?,
            headers: format!("{common}{own}{json}"),
            body: (!text.body.is_empty()).then(|| RequestTemplate::new(&text.body, parameters, false)).transpose()?,
        })
    }

    /// A request with values drawn.
    pub fn write(&self, target: &TargetAddress, close: bool, parameters: &[TemplateParameter], random: &mut Random, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(target.base.as_bytes());
        self.path.fill(parameters, random, out);
        out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
        out.extend_from_slice(target.host.as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.headers.as_bytes());
        if close {
            out.extend_from_slice(b"connection: close\r\n");
        }
        match &self.body {
            None if self.method != "GET" => out.extend_from_slice(b"content-length: 0\r\n\r\n"),
            None => out.extend_from_slice(b"\r\n"),
            Some(body) => {
                let mut filled = Vec::new();
                body.fill(parameters, random, &mut filled);
                out.extend_from_slice(format!("content-length: {}\r\n\r\n", filled.len()).as_bytes());
                out.extend_from_slice(&filled);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(schedule: Schedule, every: u64, until: u64, requests: u64) -> Vec<Duration> {
        let set = RequestSetPlan { route: None, requests, every: Duration::from_millis(every), schedule, until: Duration::from_millis(until) };
        set.times(3).collect()
    }

    #[test]
    fn requests_follow_each_other_as_planned() {
        let constant = times(Schedule::Constant, 50, 50, 5);
        assert_eq!(constant, [0, 50, 100, 150, 200].map(Duration::from_millis));
        let poisson = times(Schedule::Poisson, 10, 10, 20_000);
        let mean = poisson[19_999].as_secs_f64() / 19_999.0;
        assert!((mean - 0.010).abs() < 0.000_3, "{mean}");
        // from 10 to 100 a second: 1 000 requests take 1 000 / 55 seconds, and half of the time passes with a third of them
        let ramp = times(Schedule::Ramp, 100, 10, 1_000);
        let end = ramp[999].as_secs_f64();
        assert!((end - 1_000.0 / 55.0).abs() < 0.3, "{end}");
        let half = ramp.iter().filter(|at| at.as_secs_f64() < end / 2.0).count();
        assert!((280..340).contains(&half), "{half}");
    }

    #[test]
    fn a_plan_is_a_matrix_of_sets() {
        let text = PlanFile {
            target: "http://127.0.0.1:1".into(),
            routes: vec![RouteEntry { get: "/a".into(), ..RouteEntry::default() }, RouteEntry { get: "/b".into(), ..RouteEntry::default() }],
            requests: vec![100, 200, 500],
            every: vec!["50ms".into(), "2s".into()],
            each_route: true,
            faster: Some(10.0),
            ..PlanFile::default()
        };
        let plan = LoadPlan::new(&text, Path::new(".")).expect("a plan");
        assert_eq!(plan.sets.len(), 12);
        assert_eq!((plan.sets[0].every, plan.sets[11].every), (Duration::from_millis(5), Duration::from_millis(200)));
        for wrong in ["127.0.0.1:1", "https://x", "http://nobody.invalid:1"] {
            assert!(LoadPlan::new(&PlanFile { target: wrong.into(), ..text.clone() }, Path::new(".")).is_err(), "{wrong}");
        }
        let unclear = PlanFile { time: Some("1s".into()), ..text.clone() };
        assert!(LoadPlan::new(&unclear, Path::new(".")).is_err());
    }
}
