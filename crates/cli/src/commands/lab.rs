//! `stook lab`: measures Stook and any other HTTP service.

use crate::arguments::lab::{LabCommand, LoadArgs, ReportArgs, RunOutputArgs};
use crate::output_file::Output;
use crate::process::stop_signal;
use crate::{CommandError, CommandResult, output};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stook_catalogue::diagnostic::{Diagnostic, render};
use stook_catalogue::yaml::{self, Node, NodeKind};
use stook_lab::capacity::{self, ThroughputSeries};
use stook_lab::import::{self, ImportPlan};
use stook_lab::kpi::{self, LogTasks};
use stook_lab::plan::LoadPlan;
use stook_lab::{ProgressFn, RunProgress, closed, limits, open};
use stook_report::compare::{self, MetricComparison};
use stook_report::plan::{ImportPlanFile, PlanFile, RouteEntry, duration};
use stook_report::run::{FORMAT, GeneratorInfo, MachineInfo, RequestSet, Run, RunKind};
use stook_report::{Report, sections, show};

/// How long each limit of the machine is measured, alone and before a run.
const LIMIT_TIME: Duration = Duration::from_secs(1);
const LIMIT_TIME_BEFORE_RUN: Duration = Duration::from_millis(250);

/// Runs a subcommand.
pub fn lab(command: &LabCommand) -> CommandResult {
    match command {
        LabCommand::Load { load, rate, every, requests, time, schedule, output_args } => {
            let mut text = plan_of(load)?;
            if !rate.is_empty() || !every.is_empty() {
                (text.rate, text.every) = (rate.clone(), every.clone());
            }
            if !requests.is_empty() {
                (text.requests, text.time) = (requests.clone(), None);
            }
            if let Some(time) = time {
                (text.time, text.requests) = (Some(time.clone()), Vec::new());
            }
            text.schedule = schedule.unwrap_or(text.schedule);
            let plan = LoadPlan::new(&text, &folder_of(load))?;
            run_plan(plan, RunKind::Load, output_args, |plan, watch| open::run(plan, watch))
        }
        LabCommand::Sweep { load, clients, time, output_args } => {
            let mut text = plan_of(load)?;
            if !clients.is_empty() {
                text.clients.clone_from(clients);
            }
            let time = duration(time.as_deref().or(text.time.as_deref()).unwrap_or("2s"))?;
            text.time = None;
            let plan = LoadPlan::new(&text, &folder_of(load))?;
            run_plan(plan, RunKind::Sweep, output_args, |plan, watch| Ok((closed::run(plan, time, watch)?, GeneratorInfo::default())))
        }
        LabCommand::Import { plan, target, postgres, output_args } => {
            let mut text: ImportPlanFile = read_yaml(&plan.display().to_string())?;
            text.target = target.clone().unwrap_or(text.target);
            text.postgres = postgres.clone().or(text.postgres);
            let matrix = ImportPlan::new(&text, plan.parent().unwrap_or(Path::new(".")))?;
            let (name, text) = (matrix.name.clone(), matrix.text.clone());
            run_measurement(RunKind::Import, name, text, output_args, |should_continue| {
                import::run(matrix, &|line| {
                    show_progress(line);
                    should_continue()
                })
            })
        }
        LabCommand::Schema => {
            say!("{}", stook_report::run::SCHEMA.trim_end());
            Ok(0)
        }
        LabCommand::Limits { folder, postgres, output, json } => {
            let (begun, started) = (now(), Instant::now());
            let limits = limits::measure(folder, postgres.as_deref(), LIMIT_TIME, &|name| show_progress(&format!("{name} ...")));
            show_progress("");
            let partial = Run { limits: limits?, ..Run::default() };
            let run = run_of(RunKind::Limits, "limits of this machine".into(), serde_json::Value::Null, (begun, started), partial);
            write_and_show(&run, output.as_deref(), *json)
        }
        LabCommand::Kpi { logs, form, json } => {
            let logs = logs.iter().map(|path| LogTasks::read(path)).collect::<Result<Vec<_>, _>>()?;
            if *json {
                say!("{}", serde_json::to_string(&logs)?);
                return Ok(0);
            }
            write_report(&kpi::report(&logs), form)
        }
        LabCommand::Compare { runs, fail_on, form, json } => compare_runs(runs, fail_on.as_deref(), form, *json),
        LabCommand::Plan { runs, target, form } => {
            let is_points = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
            let mut all_series: Vec<ThroughputSeries> = Vec::new();
            for path in runs.iter().filter(|path| is_points(path)) {
                all_series.push(read_yaml(&path.display().to_string())?);
            }
            let measured = runs.iter().filter(|path| !is_points(path)).map(|path| Run::read(path)).collect::<Result<Vec<_>, _>>()?;
            all_series.extend(capacity::series_of_runs(&measured)?);
            let mut combined_report = Report { title: "Capacity".into(), sections: Vec::new() };
            for points in &all_series {
                let mut report = capacity::report(points, *target)?;
                report.sections.iter_mut().for_each(|section| section.title.clone_from(&report.title));
                combined_report.sections.extend(report.sections);
            }
            write_report(&combined_report, form)
        }
        LabCommand::Show { run, form } => write_report(&show::report(&Run::read(run)?), form),
    }
}

/// Compares runs; the exit code says whether one got worse by more than is allowed.
fn compare_runs(runs: &[String], fail_on: Option<&str>, form: &ReportArgs, json: bool) -> CommandResult {
    let max_regression = match fail_on {
        None => f64::INFINITY,
        Some(text) => {
            let share = text.strip_prefix("regression=").and_then(|share| share.strip_suffix('%')?.parse::<f64>().ok());
            share.ok_or_else(|| CommandError::usage(format!("--fail-on {text}: for example regression=5%")))? / 100.0
        }
    };
    let mut groups = Vec::new();
    for group in runs {
        groups.push(group.split(',').map(|path| Run::read(Path::new(path))).collect::<Result<Vec<_>, _>>()?);
    }
    let all = compare::compare(&groups)?;
    let names: Vec<String> = runs
        .iter()
        .map(|group| Path::new(group.split(',').next().unwrap_or(group)).file_stem().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    if json {
        let shown = |comparison: &MetricComparison| {
            serde_json::json!({
                "set": comparison.set, "metric": comparison.metric, "values": comparison.values, "delta": (comparison.ratio - 1.0) * 100.0, "ratio": comparison.ratio,
                "chance": comparison.p_value, "real": comparison.is_real(), "worse": comparison.regression, "changed_at": comparison.changed_at.map(|at| &names[at]),
            })
        };
        say!("{}", serde_json::Value::Array(all.iter().map(shown).collect()));
    } else {
        write_report(&compare::report(&names, &groups, &all), form)?;
    }
    let regressions: Vec<&MetricComparison> =
        all.iter().filter(|comparison| comparison.is_real() && comparison.regression > max_regression).collect();
    for comparison in &regressions {
        eprintln!("regression: {} of {} is {:.1} % worse", comparison.metric, comparison.set, comparison.regression * 100.0);
    }
    Ok(u8::from(!regressions.is_empty()))
}

/// Writes a report in the requested form.
fn write_report(report: &Report, form: &ReportArgs) -> CommandResult {
    let ReportArgs { html, md, svg, output } = form;
    let pictures = || report.sections.iter().filter_map(|section| section.picture.as_deref()).collect::<Vec<_>>();
    let text = match (html, md, svg) {
        (true, ..) => report.html(),
        (_, true, _) => markdown(report, output.as_deref())?,
        (.., Some(number)) => {
            (*pictures().get(number.saturating_sub(1)).ok_or_else(|| CommandError::usage(format!("there are {} pictures", pictures().len())))?)
                .to_owned()
        }
        _ => report.text(),
    };
    match output {
        Some(path) => write(path, &text).map(|()| eprintln!("written: {}", path.display()))?,
        None => say!("{}", text.trim_end()),
    }
    Ok(0)
}

fn run_of(kind: RunKind, name: String, plan: serde_json::Value, (begun, started): (i64, Instant), partial: Run) -> Run {
    Run {
        format: FORMAT.into(),
        kind,
        name,
        begun: stook_catalogue::value::show_timestamp(begun),
        seconds: started.elapsed().as_secs_f64(),
        versions: BTreeMap::from([("stook".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
        machine: MachineInfo::of_this_machine(),
        plan,
        ..partial
    }
}

/// Writes a run to a file, if requested, and shows it.
fn write_and_show(run: &Run, output: Option<&Path>, json: bool) -> CommandResult {
    if let Some(path) = output {
        write(path, &serde_json::to_string(run)?)?;
        eprintln!("written: {}; stook lab show {0} --html -o report.html", path.display());
    }
    if json {
        say!("{}", serde_json::to_string(&run)?);
    } else {
        say!("{}", show::report(run).text().trim_end());
    }
    Ok(0)
}

fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    let mut out = Output::new(Some(path))?;
    out.write_all(text.as_bytes())?;
    out.finish()
}

/// Formats a report as Markdown, and writes its pictures to files next to it.
fn markdown(report: &Report, output: Option<&Path>) -> Result<String, CommandError> {
    let Some(path) = output else { return Ok(report.markdown(&|_| None)) };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = |index: usize| format!("{stem}-{index}.svg");
    for (index, section) in report.sections.iter().enumerate() {
        if let Some(picture) = &section.picture {
            write(&path.with_file_name(name(index)), picture)?;
        }
    }
    Ok(report.markdown(&|index| Some(name(index))))
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// Returns the folder of a plan's files.
fn folder_of(load: &LoadArgs) -> PathBuf {
    match load.plan_or_urls.first() {
        Some(plan) if !is_url(plan) => Path::new(plan).parent().map(Path::to_owned).unwrap_or_default(),
        _ => PathBuf::from("."),
    }
}

/// Reads a plan from a file, or makes one of URLs.
fn plan_of(load: &LoadArgs) -> Result<PlanFile, CommandError> {
    let mut text = match load.plan_or_urls.as_slice() {
        [plan] if !is_url(plan) => read_yaml(plan)?,
        urls => {
            let mut text = PlanFile::default();
            for url in urls {
                let at = url.find("://").map_or(0, |at| at + 3);
                let path = url[at..].find('/').map_or(url.len(), |slash| at + slash);
                let (target, path) = url.split_at(path);
                if !is_url(url) || (!text.target.is_empty() && text.target != target) {
                    return Err(CommandError::usage(format!("{url}: URLs of one run have one target; else write a plan")));
                }
                text.target = target.to_owned();
                text.routes.push(RouteEntry { get: if path.is_empty() { "/".into() } else { path.to_owned() }, ..RouteEntry::default() });
            }
            text
        }
    };
    for parameter in &load.param {
        let (name, file) =
            parameter.split_once('=').ok_or_else(|| CommandError::usage(format!("{parameter}: a parameter is NAME=FILE or NAME=FILE#MEMBER")))?;
        text.parameters.insert(name.to_owned(), file.to_owned());
    }
    for header in &load.header {
        let (name, value) = header.split_once(':').ok_or_else(|| CommandError::usage(format!("{header}: a header is NAME: VALUE")))?;
        text.headers.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    text.target = load.target.clone().unwrap_or(text.target);
    text.seed = load.seed.or(text.seed);
    text.connections = load.connections.or(text.connections);
    text.timeout = load.timeout.clone().or(text.timeout);
    text.faster = load.faster.or(text.faster);
    text.close |= load.close;
    text.metrics = load.metrics.clone().or(text.metrics);
    Ok(text)
}

fn read_yaml<T: serde::de::DeserializeOwned>(path: &str) -> Result<T, CommandError> {
    let text = std::fs::read_to_string(path).map_err(|error| CommandError::new(format!("{path}: {error}")))?;
    let error_with = |problems: &[Diagnostic]| CommandError::new(render(path, &text, problems, output::colours()).trim_end().to_owned());
    let node = yaml::parse(&text).map_err(|problems| error_with(&problems))?;
    serde_path_to_error::deserialize(to_json(&node)).map_err(|error| {
        let (name, value) = span_of_path(&node, error.path());
        let message = error.inner().to_string();
        // for an unknown name the name is wrong, not its value
        let span = if message.starts_with("unknown field") || value.is_empty() { name } else { value };
        error_with(&[Diagnostic::new(span, message)])
    })
}

/// Returns the positions of the name and the value at a path; if the path does not exist completely, those of its last existing part.
fn span_of_path(node: &Node, path: &serde_path_to_error::Path) -> (Range<usize>, Range<usize>) {
    use serde_path_to_error::Segment;
    let (mut node, mut spans) = (node, (node.span.clone(), node.span.clone()));
    for segment in path {
        let entry = match (segment, &node.kind) {
            (Segment::Map { key }, NodeKind::Map(entries)) => entries.iter().find(|(name, _)| name.text() == Some(key)),
            (Segment::Seq { index }, NodeKind::List(items)) => {
                let Some(item) = items.get(*index) else { break };
                (node, spans) = (item, (item.span.clone(), item.span.clone()));
                continue;
            }
            _ => None,
        };
        let Some((name, value)) = entry else { break };
        (node, spans) = (value, (name.span.clone(), value.span.clone()));
    }
    spans
}

fn to_json(node: &Node) -> serde_json::Value {
    match &node.kind {
        NodeKind::Map(entries) => entries.iter().map(|(name, value)| (name.text().unwrap_or_default().to_owned(), to_json(value))).collect(),
        NodeKind::List(items) => items.iter().map(to_json).collect(),
        NodeKind::Scalar { .. } if node.is_null() => serde_json::Value::Null,
        NodeKind::Scalar { text, quoted } => {
            let json = if *quoted { None } else { serde_json::from_str::<serde_json::Value>(text).ok() };
            json.filter(|json| json.is_number() || json.is_boolean()).unwrap_or_else(|| text.as_str().into())
        }
    }
}

/// Replaces the progress line, on a terminal.
fn show_progress(line: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{line}");
        let _ = std::io::stderr().flush();
    }
}

/// Runs a plan and shows its progress.
fn run_plan(
    plan: LoadPlan,
    kind: RunKind,
    output_args: &RunOutputArgs,
    work: impl FnOnce(LoadPlan, &ProgressFn<'_>) -> stook_lab::Result<(Vec<RequestSet>, GeneratorInfo)>,
) -> CommandResult {
    let (name, text) = (plan.name.clone(), plan.text.clone());
    run_measurement(kind, name, text, output_args, |should_continue| {
        let watch = |progress: &RunProgress| {
            let RunProgress { set, sets, done, planned, unsuccessful, rate, p50, p99 } = *progress;
            let planned = if planned > 0 { format!(" of {planned}") } else { String::new() };
            let (p50, p99) = (sections::time(p50.as_secs_f64()), sections::time(p99.as_secs_f64()));
            show_progress(&format!(
                "set {} of {sets}: {done}{planned} answered, {rate:.0}/s, {unsuccessful} without success, p50 {p50}, p99 {p99}",
                set + 1
            ));
            should_continue()
        };
        let (sets, generator) = work(plan, &watch)?;
        Ok(Run { sets, generator, ..Run::default() })
    })
}

/// Runs a measurement, and writes and shows its result.
fn run_measurement(
    kind: RunKind,
    name: String,
    plan: serde_json::Value,
    output_args: &RunOutputArgs,
    work: impl FnOnce(&dyn Fn() -> bool) -> stook_lab::Result<Run>,
) -> CommandResult {
    let stop = stop_signal()?;
    let is_stored = output_args.json || output_args.output.is_some();
    let folder = output_args.output.as_deref().and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let limits = if is_stored && !output_args.no_limits {
        limits::measure(folder, None, LIMIT_TIME_BEFORE_RUN, &|name| show_progress(&format!("limits of this machine: {name} ...")))?
    } else {
        Vec::new()
    };
    let (begun, started) = (now(), Instant::now());
    let done = work(&|| !stop.load(Ordering::Relaxed));
    show_progress("");
    let run = Run { limits, ..run_of(kind, name, plan, (begun, started), done?) };
    write_and_show(&run, output_args.output.as_deref(), output_args.json)?;
    Ok(u8::from(stop.load(Ordering::Relaxed)))
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since.as_micros() as i64
}
