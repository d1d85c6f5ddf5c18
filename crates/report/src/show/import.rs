//! Reports of an import matrix, with figures of another system for comparison.

use crate::plan::{IDLE, ImportFileEntry, ImportPlanFile};
use crate::run::{ImportResult, RequestSet, Run};
use crate::sections::{Report, ReportTable, Section, number, time};
use crate::statistics::{deviation, mean};
use crate::svg;
use std::collections::BTreeMap;

/// Max imports listed individually.
const MAX_ROWS: usize = 20;

/// Adds the sections of a matrix.
pub fn sections(run: &Run, report: &mut Report) {
    // the plan is only needed for names and figures: a run without it is shown, too
    let plan: ImportPlanFile = serde_json::from_value(run.plan.clone()).unwrap_or_default();
    let files = distinct(run.imports.iter().map(|import| import.file.as_str()));
    let tenants_of_imports = run.imports.iter().map(|import| import.tenant.as_str());
    let tenants = distinct(plan.tenants.iter().map(String::as_str).chain(tenants_of_imports));
    report.sections.push(durations(run, &plan, &files, &tenants));
    report.sections.extend(users(run, &plan));
    report.sections.push(order(run, &tenants));
    for unit in distinct(run.curves.iter().map(|curve| curve.unit.as_str())) {
        let curves = run.curves.iter().filter(|curve| curve.unit == unit);
        let lines: Vec<svg::PlotLine> = curves
            .map(|curve| svg::PlotLine {
                name: curve.name.clone(),
                points: curve.points.iter().map(|(seconds, value)| (*seconds, (*value, 0.0))).collect(),
            })
            .collect();
        let picture = svg::curves(&lines, "seconds into the run", unit);
        report.sections.push(Section { title: format!("Resources, {unit}"), picture: Some(picture), ..Section::default() });
    }
    if !run.curves.is_empty() {
        let mut table = ReportTable::new(2, &["unit", "what", "mean", "most"]);
        for curve in &run.curves {
            let values = || curve.points.iter().map(|(_, value)| *value);
            table.rows.push(vec![curve.unit.clone(), curve.name.clone(), number(mean(values())), number(values().fold(0.0, f64::max))]);
        }
        report.sections.push(Section { title: "Resources".into(), table: Some(table), ..Section::default() });
    }
    if !run.statements.is_empty() {
        let mut table = ReportTable::new(1, &["statement", "calls", "seconds", "rows"]);
        for statement in &run.statements {
            let text: String = statement.text.chars().take(120).collect();
            table.rows.push(vec![text, statement.calls.to_string(), number(statement.seconds), statement.rows.to_string()]);
        }
        report.sections.push(Section { title: "Top statements of PostgreSQL".into(), table: Some(table), ..Section::default() });
    }
}

/// Returns distinct texts, in the order of their first occurrence.
fn distinct<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    all.for_each(|text| {
        if !seen.contains(&text) {
            seen.push(text);
        }
    });
    seen
}

/// Returns the duration of an import that has ended.
fn seconds(import: &ImportResult) -> Option<f64> {
    (import.ended > 0.0).then_some(import.ended - import.begun)
}

fn plan_entry<'p>(plan: &'p ImportPlanFile, file: &str) -> Option<&'p ImportFileEntry> {
    plan.files.iter().find(|entry| entry.name() == file)
}

/// Returns the name of the system whose figures are compared.
fn other_system_name(plan: &ImportPlanFile) -> &str {
    if plan.reported_by.is_empty() { "reported" } else { &plan.reported_by }
}

/// Formats how many times faster Stook is.
fn speedup(other_seconds: f64, stook_seconds: f64) -> String {
    if stook_seconds > 0.0 && other_seconds > 0.0 { format!("{}x", number(other_seconds / stook_seconds)) } else { String::new() }
}

fn durations(run: &Run, plan: &ImportPlanFile, files: &[&str], tenants: &[&str]) -> Section {
    let has_reported = plan.files.iter().any(|file| !file.reported.is_empty());
    let has_settled = run.imports.iter().any(|import| import.settled > import.ended);
    let other_name = other_system_name(plan);
    let mut headings = vec!["file".to_owned(), "documents".into()];
    for tenant in tenants {
        headings.extend([tenant.to_string(), "documents/s".into()]);
        if has_settled {
            headings.push("until settled".into());
        }
        if has_reported {
            headings.extend([format!("{other_name}, {tenant}"), "faster".into()]);
        }
    }
    let mut table = ReportTable { headings, names: 1, rows: Vec::new() };
    for file in files {
        let imports = || run.imports.iter().filter(|import| import.file == *file);
        let documents = imports().map(|import| import.documents).sum::<u64>() as f64 / imports().count().max(1) as f64;
        let mut row = vec![(*file).to_owned(), number(documents)];
        for (tenant_index, tenant) in tenants.iter().enumerate() {
            let durations: Vec<f64> =
                run.imports.iter().filter(|import| import.file == *file && import.tenant == *tenant).filter_map(seconds).collect();
            let average = mean(durations.iter().copied());
            row.push(if durations.len() > 1 {
                format!("{} ± {}", time(average), time(deviation(durations.iter().copied())))
            } else {
                time(average)
            });
            row.push(number(documents / average.max(1e-9)));
            if has_settled {
                let imports = run.imports.iter().filter(|import| import.file == *file && import.tenant == *tenant && import.settled > 0.0);
                row.push(time(mean(imports.map(|import| import.settled - import.begun))));
            }
            if has_reported {
                let other_seconds = plan_entry(plan, file).and_then(|entry| entry.reported.get(tenant_index).copied());
                row.push(other_seconds.map_or_else(String::new, time));
                row.push(other_seconds.map_or_else(String::new, |other_seconds| speedup(other_seconds, average)));
            }
        }
        table.rows.push(row);
    }
    let mut unsuccessful_imports = BTreeMap::<_, (u64, u64)>::new();
    for import in run.imports.iter().filter(|import| import.failed > 0 || import.state != "completed") {
        let (jobs, failed) = unsuccessful_imports.entry((&import.tenant, &import.file, &import.state)).or_default();
        (*jobs, *failed) = (*jobs + 1, *failed + import.failed);
    }
    let describe = |((tenant, file, state), (jobs, failed))| format!("{file} of {tenant}: {jobs} {state}, {failed} documents failed");
    let unsuccessful_imports = unsuccessful_imports.into_iter().map(describe).collect();
    Section {
        title: "How long it took, from the first byte sent to the last document committed".into(),
        words: unsuccessful_imports,
        table: Some(table),
        ..Section::default()
    }
}

/// Reports users' latencies during imports, and how much higher they are than without: a table for each route.
fn users(run: &Run, plan: &ImportPlanFile) -> Vec<Section> {
    let reported_idle = plan.users.as_ref().map(|users| &users.reported).filter(|reported| !reported.is_empty());
    let mut headings = vec!["beside", "import", "requests", "avg", "p95", "avg delta", "p95 delta"];
    let reported_headings = ["avg", "p95", "avg delta", "p95 delta"].map(|what| format!("{}, {what}", other_system_name(plan)));
    if reported_idle.is_some() {
        headings.extend(reported_headings.iter().map(String::as_str));
    }
    let figures = |set: &RequestSet| Some([set.latency.mean()?.0, set.latency.quantile(0.95)?]);
    // the two times, and their growth
    let cells = |times: Option<[f64; 2]>, idle: Option<[f64; 2]>| -> [String; 4] {
        let shown_times = [0, 1].map(|index| times.map_or_else(String::new, |times| time(times[index])));
        let growth = [0, 1].map(|index| match (times, idle) {
            (Some(times), Some(idle)) if idle[index] > 0.0 => format!("{:+.0}%", (times[index] / idle[index] - 1.0) * 100.0),
            _ => String::new(),
        });
        let [[average, p95], [average_grown, p95_grown]] = [shown_times, growth];
        [average, p95, average_grown, p95_grown]
    };
    let of_route = |route: &str| {
        let mut table = ReportTable::new(1, &headings);
        let mut words = Vec::new();
        let sets = || run.sets.iter().filter(|set| set.route == route);
        let idle = sets().find(|set| set.series == IDLE).and_then(figures);
        for set in sets() {
            let is_during_import = set.series != IDLE;
            let import_seconds: Vec<f64> = run.imports.iter().filter(|import| import.file == set.series).filter_map(seconds).collect();
            let import_seconds = if import_seconds.is_empty() { String::new() } else { time(mean(import_seconds.iter().copied())) };
            let mut row = vec![set.series.clone(), import_seconds, set.requests.to_string()];
            row.extend(cells(figures(set), idle.filter(|_| is_during_import)));
            if let Some(reported_idle) = reported_idle {
                let reported_idle = reported_idle.get(route).copied();
                let times = if is_during_import {
                    plan_entry(plan, &set.series).and_then(|entry| entry.reported_users.get(route).copied())
                } else {
                    reported_idle
                };
                row.extend(cells(times, reported_idle.filter(|_| is_during_import)));
            }
            table.rows.push(row);
            if set.successes() < set.requests {
                words.push(format!("during {}: {} unsuccessful", set.series, set.requests - set.successes()));
            }
        }
        Section { title: format!("Response times for users during imports: {route}"), words, table: Some(table), ..Section::default() }
    };
    distinct(run.sets.iter().map(|set| set.route.as_str())).into_iter().map(of_route).collect()
}

/// Reports the order in which imports ended, and their fairness.
fn order(run: &Run, tenants: &[&str]) -> Section {
    let mut ended: Vec<&ImportResult> = run.imports.iter().collect();
    ended.sort_by(|a, b| a.ended.total_cmp(&b.ended));
    let mut table = ReportTable::new(3, &["ended", "tenant", "file", "begun at", "sent at", "ended at", "documents"]);
    for (index, import) in ended.iter().enumerate().take(MAX_ROWS) {
        let numbers = [import.begun, import.sent, import.ended].map(time);
        let mut row = vec![(index + 1).to_string(), import.tenant.clone(), import.file.clone()];
        row.extend(numbers);
        row.push(import.documents.to_string());
        table.rows.push(row);
    }
    let rate = |tenant: &&str| {
        let imports = || run.imports.iter().filter(|import| import.tenant == **tenant);
        let (from, to) =
            (imports().map(|import| import.begun).fold(f64::INFINITY, f64::min), imports().map(|import| import.ended).fold(0.0, f64::max));
        imports().map(|import| import.documents).sum::<u64>() as f64 / (to - from).max(1e-9)
    };
    let rates: Vec<f64> = tenants.iter().map(rate).collect();
    let mut words = Vec::new();
    if rates.len() > 1 {
        // Jain, Chiu, Hawe 1984
        let fairness = rates.iter().sum::<f64>().powi(2) / (rates.len() as f64 * rates.iter().map(|rate| rate * rate).sum::<f64>());
        let shown: Vec<String> = tenants.iter().zip(&rates).map(|(tenant, rate)| format!("{tenant} {}", number(*rate))).collect();
        words.push(format!("documents/s by tenant: {}; fairness (Jain's index; 1 is even): {fairness:.3}", shown.join(", ")));
    }
    Section { title: "In order of completion".into(), words, table: Some(table), ..Section::default() }
}
