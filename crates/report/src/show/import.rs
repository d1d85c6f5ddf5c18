//! Reports of an import matrix, with figures of another system for comparison.

use crate::plan::{IDLE, ImportFileEntry, ImportPlanFile};
use crate::run::{ImportResult, RequestSet, Run};
use crate::sections::{Report, ReportTable, Section, number, time};
use crate::statistics::{deviation, mean};
use crate::svg;
use std::collections::BTreeMap;

/// Max imports listed individually.
const MOST_ROWS: usize = 20;

/// Adds the sections of a matrix.
pub fn sections(run: &Run, report: &mut Report) {
    // the plan is only needed for names and figures: a run without it is shown, too
    let plan: ImportPlanFile = serde_json::from_value(run.plan.clone()).unwrap_or_default();
    let files = firsts(run.imports.iter().map(|import| import.file.as_str()));
    let begun = run.imports.iter().map(|import| import.tenant.as_str());
    let tenants = firsts(plan.tenants.iter().map(String::as_str).chain(begun));
    report.sections.push(durations(run, &plan, &files, &tenants));
    report.sections.extend(users(run, &plan));
    report.sections.push(order(run, &tenants));
    for unit in firsts(run.curves.iter().map(|curve| curve.unit.as_str())) {
        let curves = run.curves.iter().filter(|curve| curve.unit == unit);
        let lines: Vec<svg::PlotLine> = curves
            .map(|curve| svg::PlotLine { name: curve.name.clone(), points: curve.points.iter().map(|(at, value)| (*at, (*value, 0.0))).collect() })
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
        for own in &run.statements {
            let text: String = own.text.chars().take(120).collect();
            table.rows.push(vec![text, own.calls.to_string(), number(own.seconds), own.rows.to_string()]);
        }
        report.sections.push(Section { title: "Top statements of PostgreSQL".into(), table: Some(table), ..Section::default() });
    }
}

/// Returns distinct texts, in the order of their first occurrence.
fn firsts<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    all.for_each(|one| {
        if !seen.contains(&one) {
            seen.push(one);
        }
    });
    seen
}

/// Returns the duration of an import that has ended.
fn seconds(import: &ImportResult) -> Option<f64> {
    (import.ended > 0.0).then_some(import.ended - import.begun)
}

fn planned<'p>(plan: &'p ImportPlanFile, file: &str) -> Option<&'p ImportFileEntry> {
    plan.files.iter().find(|own| own.name() == file)
}

/// Returns the name of the system whose figures are compared.
fn by(plan: &ImportPlanFile) -> &str {
    if plan.reported_by.is_empty() { "reported" } else { &plan.reported_by }
}

/// Formats how many times faster Stook is.
fn ratio(theirs: f64, ours: f64) -> String {
    if ours > 0.0 && theirs > 0.0 { format!("{}x", number(theirs / ours)) } else { String::new() }
}

fn durations(run: &Run, plan: &ImportPlanFile, files: &[&str], tenants: &[&str]) -> Section {
    let compares = plan.files.iter().any(|file| !file.reported.is_empty());
    let settles = run.imports.iter().any(|import| import.settled > import.ended);
    let theirs = by(plan);
    let mut headings = vec!["file".to_owned(), "documents".into()];
    for tenant in tenants {
        headings.extend([tenant.to_string(), "documents/s".into()]);
        if settles {
            headings.push("until settled".into());
        }
        if compares {
            headings.extend([format!("{theirs}, {tenant}"), "faster".into()]);
        }
    }
    let mut table = ReportTable { headings, names: 1, rows: Vec::new() };
    for file in files {
        let own = || run.imports.iter().filter(|import| import.file == *file);
        let documents = own().map(|import| import.documents).sum::<u64>() as f64 / own().count().max(1) as f64;
        let mut row = vec![(*file).to_owned(), number(documents)];
        for (place, tenant) in tenants.iter().enumerate() {
            let own: Vec<f64> = run.imports.iter().filter(|import| import.file == *file && import.tenant == *tenant).filter_map(seconds).collect();
            let average = mean(own.iter().copied());
            row.push(if own.len() > 1 { format!("{} ± {}", time(average), time(deviation(own.iter().copied()))) } else { time(average) });
            row.push(number(documents / average.max(1e-9)));
            if settles {
                let own = run.imports.iter().filter(|import| import.file == *file && import.tenant == *tenant && import.settled > 0.0);
                row.push(time(mean(own.map(|import| import.settled - import.begun))));
            }
            if compares {
                let theirs = planned(plan, file).and_then(|own| own.reported.get(place).copied());
                row.push(theirs.map_or_else(String::new, time));
                row.push(theirs.map_or_else(String::new, |theirs| ratio(theirs, average)));
            }
        }
        table.rows.push(row);
    }
    let mut bad = BTreeMap::<_, (u64, u64)>::new();
    for own in run.imports.iter().filter(|import| import.failed > 0 || import.state != "completed") {
        let (jobs, failed) = bad.entry((&own.tenant, &own.file, &own.state)).or_default();
        (*jobs, *failed) = (*jobs + 1, *failed + own.failed);
    }
    let said = |((tenant, file, state), (jobs, failed))| format!("{file} of {tenant}: {jobs} {state}, {failed} documents failed");
    let bad = bad.into_iter().map(said).collect();
    Section {
        title: "How long it took, from the first byte sent to the last document committed".into(),
        words: bad,
        table: Some(table),
        ..Section::default()
    }
}

/// Reports users' latencies during imports, and how much higher they are than without: a table for each route.
fn users(run: &Run, plan: &ImportPlanFile) -> Vec<Section> {
    let theirs = plan.users.as_ref().map(|users| &users.reported).filter(|reported| !reported.is_empty());
    let mut headings = vec!["beside", "import", "requests", "avg", "p95", "avg delta", "p95 delta"];
    let others = ["avg", "p95", "avg delta", "p95 delta"].map(|what| format!("{}, {what}", by(plan)));
    if theirs.is_some() {
        headings.extend(others.iter().map(String::as_str));
    }
    let figures = |set: &RequestSet| Some([set.latency.mean()?.0, set.latency.at(0.95)?]);
    // the two times, and their growth
    let cells = |own: Option<[f64; 2]>, idle: Option<[f64; 2]>| -> [String; 4] {
        let times = [0, 1].map(|place| own.map_or_else(String::new, |own| time(own[place])));
        let grown = [0, 1].map(|place| match (own, idle) {
            (Some(own), Some(idle)) if idle[place] > 0.0 => format!("{:+.0}%", (own[place] / idle[place] - 1.0) * 100.0),
            _ => String::new(),
        });
        let [[average, p95], [average_grown, p95_grown]] = [times, grown];
        [average, p95, average_grown, p95_grown]
    };
    let of_route = |route: &str| {
        let mut table = ReportTable::new(1, &headings);
        let mut words = Vec::new();
        let sets = || run.sets.iter().filter(|set| set.route == route);
        let idle = sets().find(|set| set.series == IDLE).and_then(figures);
        for set in sets() {
            let beside = set.series != IDLE;
            let took: Vec<f64> = run.imports.iter().filter(|import| import.file == set.series).filter_map(seconds).collect();
            let took = if took.is_empty() { String::new() } else { time(mean(took.iter().copied())) };
            let mut row = vec![set.series.clone(), took, set.requests.to_string()];
            row.extend(cells(figures(set), idle.filter(|_| beside)));
            if let Some(theirs) = theirs {
                let theirs = theirs.get(route).copied();
                let own = if beside { planned(plan, &set.series).and_then(|own| own.reported_users.get(route).copied()) } else { theirs };
                row.extend(cells(own, theirs.filter(|_| beside)));
            }
            table.rows.push(row);
            if set.successes() < set.requests {
                words.push(format!("during {}: {} unsuccessful", set.series, set.requests - set.successes()));
            }
        }
        Section { title: format!("Response times for users during imports: {route}"), words, table: Some(table), ..Section::default() }
    };
    firsts(run.sets.iter().map(|set| set.route.as_str())).into_iter().map(of_route).collect()
}

/// Reports the order in which imports ended, and their fairness.
fn order(run: &Run, tenants: &[&str]) -> Section {
    let mut ended: Vec<&ImportResult> = run.imports.iter().collect();
    ended.sort_by(|a, b| a.ended.total_cmp(&b.ended));
    let mut table = ReportTable::new(3, &["ended", "tenant", "file", "begun at", "sent at", "ended at", "documents"]);
    for (place, own) in ended.iter().enumerate().take(MOST_ROWS) {
        let numbers = [own.begun, own.sent, own.ended].map(time);
        let mut row = vec![(place + 1).to_string(), own.tenant.clone(), own.file.clone()];
        row.extend(numbers);
        row.push(own.documents.to_string());
        table.rows.push(row);
    }
    let rate = |tenant: &&str| {
        let own = || run.imports.iter().filter(|import| import.tenant == **tenant);
        let (from, to) = (own().map(|own| own.begun).fold(f64::INFINITY, f64::min), own().map(|own| own.ended).fold(0.0, f64::max));
        own().map(|own| own.documents).sum::<u64>() as f64 / (to - from).max(1e-9)
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
