//! Reports of a run: tables and charts, all computed from its file.

mod import;

use crate::plan::{ReportedFigures, duration};
use crate::run::{Durations, RequestSet, Run, RunKind};
use crate::sections::{Report, ReportTable, Section, number, time};
use crate::svg;

fn shown_quantile(times: &Durations, share: f64) -> String {
    times.quantile(share).map_or_else(String::new, time)
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.2}", part as f64 * 100.0 / whole as f64) }
}

/// Makes the report of a run.
pub fn report(run: &Run) -> Report {
    let mut report = Report { title: run.name.clone(), sections: vec![about(run)] };
    match run.kind {
        RunKind::Load => load(run, &mut report),
        RunKind::Sweep => sweep(run, &mut report),
        RunKind::Import => import::sections(run, &mut report),
        RunKind::Limits => {}
    }
    if !run.limits.is_empty() {
        let mut table = ReportTable::new(1, &["limit of this machine", "value", "unit"]);
        for limit in &run.limits {
            table.rows.push(vec![limit.name.clone(), number(limit.value), limit.unit.clone()]);
        }
        report.sections.push(Section { title: "Limits".into(), table: Some(table), ..Section::default() });
    }
    report
}

fn about(run: &Run) -> Section {
    let machine = &run.machine;
    let versions: Vec<String> = run.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let mut words = vec![
        format!("{}, {} s; {}", run.begun, number(run.seconds), versions.join(", ")),
        format!("{} cores of {}, {} GiB, {}", machine.cores, machine.processor, number(machine.memory as f64 / (1_u64 << 30) as f64), machine.system),
    ];
    match &run.generator.reason {
        Some(reason) if run.generator.bottleneck => words.push(format!("THE GENERATOR WAS THE BOTTLENECK: {reason}")),
        Some(reason) => words.push(format!("note: {reason}")),
        None => {}
    }
    Section { words, ..Section::default() }
}

/// A table of outcomes, in the layout of the business register's report, and of latencies.
fn outcomes(name: &str, sets: &[(String, RequestSet)]) -> ReportTable {
    let mut statuses: Vec<String> = vec!["404".into(), "500".into()];
    for (_, set) in sets {
        let failed_statuses = set.outcomes.keys().filter(|name| name.parse::<u16>().is_ok_and(|status| status >= 300));
        statuses.extend(failed_statuses.cloned());
    }
    statuses.sort();
    statuses.dedup();
    let mut headings = vec![name.to_owned(), "requests".into(), "Success (200)".into(), "No Response".into()];
    headings.extend(statuses.iter().cloned());
    headings.extend(["fastest", "mean", "p50", "p90", "p99", "slowest", "late p99"].map(str::to_owned));
    let rows = sets.iter().map(|(name, set)| {
        let mut row = vec![name.clone(), set.requests.to_string(), share(set.successes(), set.requests), share(set.unanswered(), set.requests)];
        row.extend(statuses.iter().map(|status| share(set.count_of(status), set.requests)));
        let ends = set.latency.ends();
        row.push(ends.map_or_else(String::new, |(fastest, _)| time(fastest)));
        row.push(set.latency.mean().map_or_else(String::new, |(mean, _)| time(mean)));
        row.extend([0.5, 0.9, 0.99].map(|share| shown_quantile(&set.latency, share)));
        row.push(ends.map_or_else(String::new, |(_, slowest)| time(slowest)));
        row.push(shown_quantile(&set.late, 0.99));
        row
    });
    ReportTable { headings, names: 1, rows: rows.collect() }
}

/// Merges sets with the same name, in the order of their first occurrence.
fn grouped(sets: &[RequestSet], name: impl Fn(&RequestSet) -> String) -> Vec<(String, RequestSet)> {
    let mut groups: Vec<(String, RequestSet)> = Vec::new();
    for set in sets {
        let name_of_set = name(set);
        match groups.iter_mut().find(|(group, _)| *group == name_of_set) {
            Some((_, group)) => *group = group.and(set),
            None => groups.push((name_of_set, set.clone())),
        }
    }
    groups
}

fn every(set: &RequestSet) -> String {
    set.every.map_or_else(String::new, |every| format!("{} ({}/s)", time(every), number(1.0 / every.max(1e-9))))
}

/// Returns the figures of another system in the plan.
fn reported(run: &Run) -> ReportedFigures {
    serde_json::from_value(run.plan["reported"].clone()).unwrap_or_default()
}

/// Formats the other system's mean, and by which factor Stook is faster.
fn faster_than(reported_seconds: Option<&f64>, set: &RequestSet) -> Option<[String; 2]> {
    let (reported_seconds, (mean, _)) = (reported_seconds?, set.latency.mean()?);
    Some([time(*reported_seconds), format!("{}x", number(reported_seconds / mean.max(1e-9)))])
}

fn load(run: &Run, report: &mut Report) {
    let sets = &run.sets;
    let planned = |set: &RequestSet| set.planned.map_or_else(String::new, |planned| planned.to_string());
    let (reported, faster) = (reported(run), run.plan["faster"].as_f64().unwrap_or(1.0));
    let mut section = |title: &str, name: &str, groups: Vec<(String, RequestSet)>, comparison: &dyn Fn(&str, &RequestSet) -> Option<[String; 2]>| {
        let comparisons: Vec<_> = groups.iter().map(|(name, set)| comparison(name, set)).collect();
        if groups.len() > 1 || comparisons.iter().any(Option::is_some) {
            let mut table = outcomes(name, &groups);
            table.add_reported_columns(&reported.by, comparisons);
            report.sections.push(Section { title: title.into(), table: Some(table), ..Section::default() });
        }
    };
    let success = |_: &str, set: &RequestSet| {
        let is_of_set = |written: &str| {
            let (requests, offset) = written.split_once(" every ")?;
            let offset = duration(offset).ok()?.as_secs_f64();
            Some(requests.parse().ok() == set.planned && (set.every? * faster / offset - 1.0).abs() < 0.001)
        };
        let (_, percent) = reported.success.iter().find(|(written, _)| is_of_set(written) == Some(true))?;
        Some([format!("{percent:.2}"), format!("{}x", number(set.successes() as f64 * 100.0 / set.requests.max(1) as f64 / percent))])
    };
    let seconds = |name: &str, set: &RequestSet| faster_than(reported.seconds.get(name), set);
    section("By requests and offset, in percent", "set", grouped(sets, |set| format!("{} every {}", planned(set), every(set))), &success);
    section("By offset", "Offset", grouped(sets, every), &|_, _| None);
    section("By route", "route", grouped(sets, |set| set.route.clone()), &seconds);
    let all = grouped(sets, |_| "all".into());
    report.sections.push(Section { title: "Overall".into(), table: Some(outcomes("", &all)), ..Section::default() });
    if let Some((_, all)) = all.first() {
        let failed: Vec<String> = all.outcomes.iter().map(|(name, count)| format!("{name}: {count}")).collect();
        let mut words = vec![format!("outcomes: {}", failed.join(", "))];
        let parts = [("service", &all.service), ("waiting", &all.waiting), ("the generator's own delay", &all.late)];
        let parts = parts.map(|(name, times)| format!("{name} p50 {} p99 {}", shown_quantile(times, 0.5), shown_quantile(times, 0.99)));
        words.push(format!("latency is measured from the scheduled start: {}", parts.join(", ")));
        report.sections.push(Section {
            words,
            picture: Some(svg::percentiles(&[("latency", &all.latency), ("service", &all.service)])),
            ..Section::default()
        });
        report.sections.push(Section { title: "Outcomes".into(), picture: Some(svg::outcomes(&grouped(sets, every))), ..Section::default() });
    }
    for set in sets.iter().take(12) {
        let title = format!("{}, {} every {}", set.route, planned(set), every(set));
        report.sections.push(Section { title, picture: Some(svg::over_time(set)), ..Section::default() });
    }
    add_counters(sets, report);
}

/// Shows how far requests got between sender and store.
fn add_counters(sets: &[RequestSet], report: &mut Report) {
    let mut table = ReportTable::new(1, &["counter of the system under test", "grew by"]);
    let mut all: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    for (name, value) in sets.iter().flat_map(|set| &set.served) {
        *all.entry(name).or_default() += value;
    }
    table.rows.push(vec!["requests sent".into(), sets.iter().map(|set| set.requests).sum::<u64>().to_string()]);
    table.rows.extend(all.into_iter().map(|(name, value)| vec![name.to_owned(), value.to_string()]));
    if table.rows.len() > 1 {
        report.sections.push(Section { title: "Outcomes of requests".into(), table: Some(table), ..Section::default() });
    }
}

fn sweep(run: &Run, report: &mut Report) {
    let headings = ["what", "clients", "answers/s", "mean", "deviation", "p50", "p90", "p99", "slowest", "without success"];
    let mut table = ReportTable::new(1, &headings);
    let name = |set: &RequestSet| if set.series.is_empty() { set.route.clone() } else { format!("{}: {}", set.series, set.route) };
    for set in &run.sets {
        let (mean, deviation) = set.latency.mean().unwrap_or_default();
        table.rows.push(vec![
            name(set),
            set.clients.unwrap_or(0).to_string(),
            number(set.requests as f64 / set.seconds.max(1e-9)),
            time(mean),
            time(deviation),
            shown_quantile(&set.latency, 0.5),
            shown_quantile(&set.latency, 0.9),
            shown_quantile(&set.latency, 0.99),
            set.latency.ends().map_or_else(String::new, |(_, slowest)| time(slowest)),
            (set.requests - set.successes()).to_string(),
        ]);
    }
    let reported = reported(run);
    let reported_seconds = |set: &RequestSet| faster_than(reported.seconds.get(&format!("{} by {}", name(set), set.clients.unwrap_or(0))), set);
    table.add_reported_columns(&reported.by, run.sets.iter().map(reported_seconds).collect());
    report.sections.push(Section { title: "By clients".into(), table: Some(table), ..Section::default() });
    let mut lines: Vec<(String, Vec<&RequestSet>)> = Vec::new();
    for set in &run.sets {
        match lines.iter_mut().find(|(name_of_line, _)| *name_of_line == name(set)) {
            Some((_, sets)) => sets.push(set),
            None => lines.push((name(set), vec![set])),
        }
    }
    let points = |value: &dyn Fn(&RequestSet) -> Option<(f64, f64)>| -> Vec<svg::PlotLine> {
        let line = |(name, sets): &(String, Vec<&RequestSet>)| svg::PlotLine {
            name: name.clone(),
            points: sets.iter().filter_map(|set| Some((set.clients? as f64, value(set)?))).collect(),
        };
        lines.iter().map(line).collect()
    };
    let mean = points(&|set| set.latency.mean());
    let p99 = points(&|set| set.latency.quantile(0.99).map(|time| (time, 0.0)));
    let rate = points(&|set| Some((set.requests as f64 / set.seconds.max(1e-9), 0.0)));
    for (title, lines, unit) in [("Mean and deviation", mean, "seconds"), ("p99", p99, "seconds"), ("Responses per second", rate, "1/s")] {
        let picture = svg::lines(&lines, "clients", unit);
        report.sections.push(Section { title: title.into(), picture: Some(picture), ..Section::default() });
    }
}
