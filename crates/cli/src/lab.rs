//! `stook lab`: measuring this and any other HTTP service.

use crate::arguments::{Lab, LabSchedule, LabTarget};
use crate::{Failure, Outcome, output};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stook_catalogue::yaml::{self, Kind as Shape, Node};
use stook_lab::measure::open::Progress;
use stook_lab::measure::plan::{Plan, PlanText, RouteText, Schedule, duration};
use stook_lab::measure::run::{FORMAT, Generator, Kind, Machine, Run};
use stook_lab::measure::{closed, open};
use stook_lab::show::{self, Report};

/// Carries out a subcommand.
pub fn lab(command: &Lab) -> Outcome {
    match command {
        Lab::Load { what, rate, every, requests, time, schedule, output, json } => {
            let mut text = plan_of(what)?;
            if !rate.is_empty() || !every.is_empty() {
                (text.rate, text.every) = (rate.clone(), every.clone());
            }
            if !requests.is_empty() {
                (text.requests, text.time) = (requests.clone(), None);
            }
            if let Some(time) = time {
                (text.time, text.requests) = (Some(time.clone()), Vec::new());
            }
            if let Some(schedule) = schedule {
                text.schedule = match schedule {
                    LabSchedule::Constant => Schedule::Constant,
                    LabSchedule::Poisson => Schedule::Poisson,
                };
            }
            let plan = Plan::new(&text, &folder_of(what))?;
            finish(plan, Kind::Load, output.as_deref(), *json, |plan, watch| open::run(plan, watch))
        }
        Lab::Sweep { what, clients, time, output, json } => {
            let mut text = plan_of(what)?;
            if !clients.is_empty() {
                text.clients.clone_from(clients);
            }
            let time = duration(time.as_deref().or(text.time.as_deref()).unwrap_or("2s"))?;
            text.time = None;
            let plan = Plan::new(&text, &folder_of(what))?;
            finish(plan, Kind::Sweep, output.as_deref(), *json, |plan, watch| Ok((closed::run(plan, time, watch)?, Generator::default())))
        }
        Lab::Show { run, html, md, output } => {
            let report = show::report(&Run::read(run)?);
            let (ending, text) = match (html, md) {
                (true, _) => ("html", report.html()),
                (false, true) => ("md", markdown(&report, output.as_deref())?),
                (false, false) => ("txt", report.text()),
            };
            match output {
                Some(path) => write(path, &text).map(|()| eprintln!("written: {} ({ending})", path.display()))?,
                None => print!("{text}"),
            }
            Ok(0)
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// Markdown with its pictures in files beside it.
fn markdown(report: &Report, output: Option<&Path>) -> Result<String, Failure> {
    let Some(path) = output else { return Ok(report.markdown(&|_| None)) };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = |place: usize| format!("{stem}-{place}.svg");
    for (place, section) in report.sections.iter().enumerate() {
        if let Some(picture) = &section.picture {
            write(&path.with_file_name(name(place)), picture)?;
        }
    }
    Ok(report.markdown(&|place| Some(name(place))))
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// Where files of a plan are.
fn folder_of(what: &LabTarget) -> PathBuf {
    match what.what.first() {
        Some(plan) if !is_url(plan) => Path::new(plan).parent().map(Path::to_owned).unwrap_or_default(),
        _ => PathBuf::from("."),
    }
}

/// A plan of a file, or of URLs.
fn plan_of(what: &LabTarget) -> Result<PlanText, Failure> {
    let mut text = match what.what.as_slice() {
        [plan] if !is_url(plan) => read_plan(plan)?,
        urls => {
            let mut text = PlanText::default();
            for url in urls {
                let at = url.find("://").map_or(0, |at| at + 3);
                let path = url[at..].find('/').map_or(url.len(), |slash| at + slash);
                let (target, path) = url.split_at(path);
                if !is_url(url) || (!text.target.is_empty() && text.target != target) {
                    return Err(Failure::usage(format!("{url}: URLs of one run have one target; else write a plan")));
                }
                text.target = target.to_owned();
                text.routes.push(RouteText { get: if path.is_empty() { "/".into() } else { path.to_owned() }, ..RouteText::default() });
            }
            text
        }
    };
    for parameter in &what.param {
        let (name, file) =
            parameter.split_once('=').ok_or_else(|| Failure::usage(format!("{parameter}: a parameter is NAME=FILE or NAME=FILE#MEMBER")))?;
        text.parameters.insert(name.to_owned(), file.to_owned());
    }
    for header in &what.header {
        let (name, value) = header.split_once(':').ok_or_else(|| Failure::usage(format!("{header}: a header is NAME: VALUE")))?;
        text.headers.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    text.target = what.target.clone().unwrap_or(text.target);
    text.seed = what.seed.or(text.seed);
    text.connections = what.connections.or(text.connections);
    text.timeout = what.timeout.clone().or(text.timeout);
    text.faster = what.faster.or(text.faster);
    text.close |= what.close;
    text.metrics = what.metrics.clone().or(text.metrics);
    Ok(text)
}

fn read_plan(path: &str) -> Result<PlanText, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::new(format!("{path}: {error}")))?;
    let node = yaml::parse(&text).map_err(|problems| Failure::new(stook_catalogue::diagnostic::render(path, &text, &problems, output::colours())))?;
    serde_json::from_value(to_json(&node, "")).map_err(|error| Failure::new(format!("{path}: {error}")))
}

/// A list may be written as its only element.
const LISTS: [&str; 5] = ["requests", "every", "rate", "clients", "routes"];

fn to_json(node: &Node, key: &str) -> serde_json::Value {
    let own = match &node.kind {
        Shape::Map(entries) => {
            let entries = entries.iter().map(|(name, value)| {
                let name = name.text().unwrap_or_default();
                (name.to_owned(), to_json(value, name))
            });
            serde_json::Value::Object(entries.collect())
        }
        Shape::List(items) => return serde_json::Value::Array(items.iter().map(|item| to_json(item, "")).collect()),
        Shape::Scalar { .. } if node.is_null() => serde_json::Value::Null,
        Shape::Scalar { text, quoted } => {
            let json = if !*quoted {
                serde_json::from_str::<serde_json::Value>(text).ok().filter(|json| json.is_number() || json.is_boolean())
            } else {
                None
            };
            json.unwrap_or_else(|| text.as_str().into())
        }
    };
    if LISTS.contains(&key) { vec![own].into() } else { own }
}

type Watch<'w> = dyn Fn(&Progress) -> bool + 'w;

fn finish(
    plan: Plan,
    kind: Kind,
    output: Option<&Path>,
    json: bool,
    work: impl FnOnce(Plan, &Watch<'_>) -> stook_lab::measure::Result<(Vec<stook_lab::measure::run::Set>, Generator)>,
) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let shows = std::io::stderr().is_terminal();
    let watch = |progress: &Progress| {
        if shows {
            let Progress { set, sets, done, planned, unsuccessful, rate, p50, p99 } = *progress;
            let planned = if planned > 0 { format!(" of {planned}") } else { String::new() };
            let (p50, p99) = (show::time(p50.as_secs_f64()), show::time(p99.as_secs_f64()));
            let line =
                format!("set {} of {sets}: {done}{planned} answered, {rate:.0}/s, {unsuccessful} without success, p50 {p50}, p99 {p99}", set + 1);
            eprint!("\r\x1b[K{line}");
            let _ = std::io::stderr().flush();
        }
        !stop.load(Ordering::Relaxed)
    };
    let (name, text, begun, started) = (plan.name.clone(), plan.text.clone(), stook_catalogue::value::show_timestamp(now()), Instant::now());
    let done = work(plan, &watch);
    if shows {
        eprint!("\r\x1b[K");
    }
    let (sets, generator) = done?;
    let run = Run {
        format: FORMAT.into(),
        kind,
        name,
        begun,
        seconds: started.elapsed().as_secs_f64(),
        versions: BTreeMap::from([("stook".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
        machine: Machine::here(),
        plan: text,
        limits: Vec::new(),
        sets,
        generator,
    };
    if let Some(path) = output {
        run.write(path)?;
        eprintln!("written: {}; stook lab show {0} --html -o report.html", path.display());
    }
    if json {
        println!("{}", serde_json::to_string(&run)?);
    } else {
        print!("{}", show::report(&run).text());
    }
    let stopped = stop.load(Ordering::Relaxed);
    Ok(if stopped { 1 } else { 0 })
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since.as_micros() as i64
}
