//! Load plans: which requests are made, at what rate and when.

use crate::template::{RequestTemplate, TemplateParameter, values};
use crate::{LabError, Result};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;
use stook_report::plan::{PlanFile, RouteEntry, Schedule, duration};
use stook_sample::random::Random;

/// A plan that can be run.
#[derive(Debug)]
pub struct LoadPlan {
    /// The plan as written, without secrets.
    pub text: Json,
    /// Its name.
    pub name: String,
    /// The target of requests.
    pub target: TargetAddress,
    /// The routes.
    pub routes: Vec<PlannedRoute>,
    /// Values of parameters.
    pub parameters: Vec<TemplateParameter>,
    /// Sets, in their order.
    pub sets: Vec<RequestSetPlan>,
    /// Time between sets.
    pub pause: Duration,
    /// Timeout of a request.
    pub timeout: Duration,
    /// Max connections.
    pub connections: usize,
    /// Whether each connection is used for one request only.
    pub close: bool,
    /// The seed of random numbers.
    pub seed: u64,
    /// Path of the metrics of the system under test.
    pub metrics: Option<String>,
    /// Numbers of clients of a sweep.
    pub clients: Vec<usize>,
    /// Targets of a sweep, by name.
    pub series: Vec<(String, TargetAddress)>,
}

/// The target of requests.
#[derive(Debug, Clone)]
pub struct TargetAddress {
    /// The address.
    pub address: SocketAddr,
    /// The value of the Host header.
    pub host: String,
    /// The prefix of every path.
    pub base: String,
}

/// A route of a plan.
#[derive(Debug)]
pub struct PlannedRoute {
    /// Its name.
    pub name: String,
    /// Its frequency relative to other routes.
    pub weight: u64,
    method: &'static str,
    path: RequestTemplate,
    headers: String,
    body: Option<RequestTemplate>,
}

/// Requests of one kind at one rate.
#[derive(Debug, Clone)]
pub struct RequestSetPlan {
    /// Its only route; `None` for all routes.
    pub route: Option<usize>,
    /// The number of requests.
    pub requests: u64,
    /// Mean time between their starts.
    pub every: Duration,
    /// How they follow each other.
    pub schedule: Schedule,
    /// The time between starts at the end of a ramp.
    pub until: Duration,
}

impl TargetAddress {
    /// Parses `http://HOST[:PORT][/BASE]`.
    ///
    /// # Errors
    /// When it is something else, or the host has no address.
    pub fn from_url(url: &str) -> Result<Self> {
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

/// Replaces `${NAME}` by environment variables.
pub(super) fn from_environment(text: &str) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, tail)) = rest.split_once("${") {
        let (name, after) = tail.split_once('}').ok_or_else(|| LabError::Plan(format!("{text}: `${{` is never closed")))?;
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
    /// Checks a plan and reads the files it names, relative to `folder`.
    ///
    /// # Errors
    /// The first error.
    pub fn new(text: &PlanFile, folder: &Path) -> Result<Self> {
        let shown = serde_json::to_value(text).map_err(|error| LabError::Plan(error.to_string()))?;
        let target = TargetAddress::from_url(&from_environment(&text.target)?)?;
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
            series.push((name.clone(), TargetAddress::from_url(&from_environment(url)?)?));
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

    /// Draws a route at random by weight.
    pub fn draw(&self, random: &mut Random) -> usize {
        let total_weight: u64 = self.routes.iter().map(|route| route.weight).sum();
        let mut remaining = random.below(total_weight.max(1));
        let found = self.routes.iter().position(|route| {
            let is_drawn = remaining < route.weight;
            remaining = remaining.saturating_sub(route.weight);
            is_drawn
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
    let set_routes: Vec<Option<usize>> = if text.each_route { (0..routes).map(Some).collect() } else { vec![None] };
    let mut sets = Vec::new();
    for route in set_routes {
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
    /// Returns the start of each request, relative to the start of the set.
    pub fn times(&self, seed: u64) -> SendTimes {
        SendTimes { set: self.clone(), random: Random::new(seed), next: 0, at: Duration::ZERO }
    }

    /// Returns its approximate duration.
    pub fn expected(&self) -> Duration {
        let mean = (self.every + self.until) / 2;
        mean.saturating_mul(self.requests.min(u64::from(u32::MAX)) as u32)
    }
}

/// The starts of requests.
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
                // the rate grows linearly in time, so its square grows linearly in the number of requests
                let done = self.next as f64 / self.set.requests as f64;
                1.0 / (from.powi(2) + (to.powi(2) - from.powi(2)) * done).sqrt()
            }
        };
        self.next += 1;
        // errors of constant steps must not accumulate
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
        let mut methods = methods.into_iter().filter(|(_, path)| !path.is_empty());
        let (Some((method, path)), None) = (methods.next(), methods.next()) else {
            return Err(LabError::Plan("a route has one of get, post, put, patch, delete".into()));
        };
        if !path.starts_with('/') || path.contains([' ', '\r', '\n']) {
            return Err(LabError::Plan(format!("{path}: a path begins with / and has no blanks")));
        }
        let own_headers = header_lines(&text.headers)?;
        let has_content_type = format!("{common}{own_headers}").to_ascii_lowercase().contains("content-type:");
        let json = if text.body.is_empty() || has_content_type { "" } else { "content-type: application/json\r\n" };
        Ok(Self {
            name: if text.name.is_empty() { format!("{method} {path}") } else { text.name.clone() },
            weight: text.weight.unwrap_or(1),
            method,
            path: RequestTemplate::new(path, parameters, true)?,
            headers: format!("{common}{own_headers}{json}"),
            body: (!text.body.is_empty()).then(|| RequestTemplate::new(&text.body, parameters, false)).transpose()?,
        })
    }

    /// Writes a request with randomly drawn values.
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
