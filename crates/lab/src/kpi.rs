//! Durations and rates of the tasks of a pipeline, from its log.

use crate::{LabError, Result};
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use stook_report::statistics::{deviation, mean};
use stook_report::{Report, ReportTable, Section};

/// Max bytes of a line.
const MAX_LINE: usize = 1 << 20;

/// Lines of the original system (`examples/sentinel`): `... INFO ... ProductConsolidatorEngine: 12 created, 3 updated, ... in 1.234s`.
const ORIGINAL: &str = r"INFO\b.*?\b([A-Za-z_]\w*)[^A-Za-z0-9]*?\b(\d+) created, (\d+) updated\b.*? in (\d+(?:\.\d+)?) ?s";

/// The calls of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskCalls {
    /// Seconds of each.
    pub durations: Vec<f64>,
    /// Documents of each.
    pub documents: Vec<u64>,
}

/// The tasks in a log.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LogTasks {
    /// The log's name.
    pub name: String,
    /// Calls by name of the task.
    pub stages: BTreeMap<String, TaskCalls>,
}

/// Returns smallest, mean, largest, and population standard deviation.
fn summary(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64, f64, f64)> {
    let count = values.clone().count() as f64;
    let mean = mean(values.clone());
    let min = values.clone().fold(f64::INFINITY, f64::min);
    let max = values.clone().fold(f64::NEG_INFINITY, f64::max);
    (count > 0.0).then_some((min, mean, max, deviation(values)))
}

impl TaskCalls {
    /// Iterates over the documents per second of each call; a call whose duration is zero has none.
    fn rates(&self) -> impl Iterator<Item = f64> + Clone + '_ {
        self.durations.iter().zip(&self.documents).filter(|(seconds, _)| **seconds > 0.0).map(|(seconds, documents)| *documents as f64 / seconds)
    }

    fn total_seconds(&self) -> f64 {
        self.durations.iter().sum()
    }
}

impl LogTasks {
    /// Reads a log: JSON lines of Stook, and lines of the original system. Other lines are skipped.
    ///
    /// # Errors
    /// When the file cannot be read, or has no such line.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        let failed = |error| LabError::File(shown.clone(), error);
        let original = Regex::new(ORIGINAL).map_err(|error| LabError::Plan(error.to_string()))?;
        let mut lines = BufReader::new(std::fs::File::open(path).map_err(failed)?);
        let mut stages = LogTasks { name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), stages: BTreeMap::new() };
        let mut line = Vec::new();
        while {
            line.clear();
            lines.read_until(b'\n', &mut line).map_err(failed)? > 0
        } {
            if line.len() <= MAX_LINE {
                stages.add(&String::from_utf8_lossy(&line), &original);
            }
        }
        if stages.stages.is_empty() {
            let reason = "no line is a stage's: `{\"event\":\"stage\",...}`, or `... INFO ... NAME: 1 created, 2 updated, ... in 0.123s`";
            return Err(LabError::Plan(format!("{shown}: {reason}")));
        }
        Ok(stages)
    }

    fn add(&mut self, line: &str, original: &Regex) {
        let found = if line.trim_start().starts_with('{') { call_of_json_line(line) } else { call_of_original_line(line, original) };
        if let Some((name, documents, seconds)) = found {
            let calls = self.stages.entry(name).or_default();
            calls.durations.push(seconds);
            calls.documents.push(documents);
        }
    }

    fn total(&self) -> f64 {
        self.stages.values().map(TaskCalls::total_seconds).sum()
    }

    fn calls(&self) -> usize {
        self.stages.values().map(|calls| calls.durations.len()).sum()
    }

    /// Returns the table of durations, with the columns and order of the original system.
    pub fn durations(&self) -> ReportTable {
        let mut table = ReportTable::new(1, &["Engine", "Calls", "Min", "Mean", "Max", "Std", "Cum", "%"]);
        let total = self.total();
        let mut sorted: Vec<(&String, &TaskCalls)> = self.stages.iter().collect();
        sorted.sort_by(|a, b| b.1.total_seconds().total_cmp(&a.1.total_seconds()));
        for (name, calls) in sorted {
            let Some((min, mean, max, deviation)) = summary(calls.durations.iter().copied()) else { continue };
            let sum = calls.total_seconds();
            let numbers = [min, mean, max, deviation, sum].map(|number| format!("{number:.3}"));
            let share = if total > 0.0 { format!("{:.2}", sum * 100.0 / total) } else { String::new() };
            table.rows.push([name.clone(), calls.durations.len().to_string()].into_iter().chain(numbers).chain([share]).collect());
        }
        let empty = || std::iter::repeat_n(String::new(), 4);
        table
            .rows
            .push(["Total".to_owned(), self.calls().to_string()].into_iter().chain(empty()).chain([format!("{total:.3}"), String::new()]).collect());
        table
    }

    /// Returns the table of documents per second, with the columns and order of the original system.
    pub fn rates(&self) -> ReportTable {
        let mut table = ReportTable::new(1, &["Engine", "Calls", "Min", "Mean", "Max", "Std"]);
        let rated = self.stages.iter().filter_map(|(name, calls)| Some((summary(calls.rates())?, name, calls)));
        let mut sorted: Vec<_> = rated.collect();
        sorted.sort_by(|a, b| b.0.1.total_cmp(&a.0.1));
        for ((min, mean, max, deviation), name, calls) in sorted {
            let numbers = [min, mean, max, deviation].map(|number| format!("{number:.3}"));
            table.rows.push([name.clone(), calls.durations.len().to_string()].into_iter().chain(numbers).collect());
        }
        table.rows.push(["Total".to_owned(), self.calls().to_string()].into_iter().chain(std::iter::repeat_n(String::new(), 4)).collect());
        table
    }
}

/// Reports the tables of each log; for several logs, also how means changed from one to the next.
pub fn report(logs: &[LogTasks]) -> Report {
    let mut report = Report { title: "Stages".into(), sections: Vec::new() };
    for log in logs {
        let title = |what: &str| if logs.len() > 1 { format!("{}: {what}", log.name) } else { what.to_owned() };
        let calls_without_duration: usize = log.stages.values().map(|calls| calls.durations.iter().filter(|seconds| **seconds <= 0.0).count()).sum();
        let words = if calls_without_duration > 0 {
            vec![format!("{calls_without_duration} calls were shorter than the log's resolution and have no rate")]
        } else {
            Vec::new()
        };
        let table = Some(log.durations());
        report.sections.push(Section { title: title("Duration summary in seconds"), table, ..Section::default() });
        report.sections.push(Section {
            title: title("Performance summary in document per second"),
            table: Some(log.rates()),
            words,
            ..Section::default()
        });
    }
    if logs.len() > 1 {
        let mean = |calls: &TaskCalls| summary(calls.durations.iter().copied()).map(|(_, mean, ..)| mean);
        let rate = |calls: &TaskCalls| summary(calls.rates()).map(|(_, mean, ..)| mean);
        report.sections.push(evolution(logs, "Mean duration, from log to log", "first / last", &mean, true));
        report.sections.push(evolution(logs, "Mean documents per second, from log to log", "last / first", &rate, false));
    }
    report
}

fn evolution(logs: &[LogTasks], title: &str, ratio: &str, value: &dyn Fn(&TaskCalls) -> Option<f64>, less_is_better: bool) -> Section {
    let names: std::collections::BTreeSet<&String> = logs.iter().flat_map(|log| log.stages.keys()).collect();
    let mut headings = vec!["Engine"];
    headings.extend(logs.iter().map(|log| log.name.as_str()));
    headings.push(ratio);
    let mut table = ReportTable::new(1, &headings);
    for name in names {
        let values: Vec<Option<f64>> = logs.iter().map(|log| value(log.stages.get(name)?)).collect();
        let present: Vec<f64> = values.iter().copied().flatten().collect();
        let (Some(first), Some(last)) = (present.first(), present.last()) else { continue };
        let ratio = if less_is_better { first / last } else { last / first };
        let shown = values.iter().map(|value| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}")));
        let ratio = if present.len() > 1 && ratio.is_finite() { format!("{ratio:.2}") } else { "-".into() };
        table.rows.push([name.clone()].into_iter().chain(shown).chain([ratio]).collect());
    }
    Section { title: title.into(), table: Some(table), ..Section::default() }
}

fn call_of_json_line(line: &str) -> Option<(String, u64, f64)> {
    let json: serde_json::Value = serde_json::from_str(line).ok()?;
    (json["event"] == "stage").then_some(())?;
    let number = |name: &str| json[name].as_u64().unwrap_or(0);
    // a settle pass writes rows without documents
    let documents = if json["created"].is_null() { number("rows") } else { number("created") + number("updated") };
    Some((json["stage"].as_str()?.to_owned(), documents, json["seconds"].as_f64()?))
}

fn call_of_original_line(line: &str, original: &Regex) -> Option<(String, u64, f64)> {
    let found = original.captures(line)?;
    Some((found[1].to_owned(), found[2].parse::<u64>().ok()? + found[3].parse::<u64>().ok()?, found[4].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_those_of_the_original() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("day.log");
        let text = "\
2023-03-01 10:00:00,123 INFO maas_cds.engines ProductConsolidatorEngine - 10 created, 5 updated, 0 deleted, 0 errors, 0 conflicts in 1.500s
2023-03-01 10:00:02,123 INFO maas_cds.engines ProductConsolidatorEngine - 1 created, 1 updated, 0 deleted, 0 errors, 1 conflicts in 0.500s
2023-03-01 10:00:02,200 DEBUG x ProductConsolidatorEngine - 9 created, 9 updated in 9.000s
2023-03-01 10:00:03,123 INFO maas_cds.engines ComputeCompletenessEngine - 0 created, 2 updated, 0 deleted, 0 errors, 0 conflicts in 20.000s
2023-03-01 10:00:04,123 INFO maas_cds.engines ComputeCompletenessEngine - 0 created, 2 updated, 0 deleted, 0 errors, 0 conflicts in 0.000s
{\"event\":\"stage\",\"stage\":\"chunk\",\"created\":90,\"updated\":10,\"seconds\":0.25}
{\"event\":\"stage\",\"stage\":\"pass\",\"rows\":7,\"seconds\":0.5}
{\"event\":\"request\",\"seconds\":3.0}
nothing of interest
";
        std::fs::write(&path, text).expect("written");
        let stages = LogTasks::read(&path).expect("stages");
        let rows = |table: ReportTable| table.rows.iter().map(|row| row.join(" ").trim_end().to_owned()).collect::<Vec<_>>();
        assert_eq!(
            rows(stages.durations()),
            [
                "ComputeCompletenessEngine 2 0.000 10.000 20.000 10.000 20.000 87.91",
                "ProductConsolidatorEngine 2 0.500 1.000 1.500 0.500 2.000 8.79",
                "pass 1 0.500 0.500 0.500 0.000 0.500 2.20",
                "chunk 1 0.250 0.250 0.250 0.000 0.250 1.10",
                "Total 6     22.750",
            ]
        );
        // a call without duration has no rate; the mean is that of the others' rates
        assert_eq!(
            rows(stages.rates()),
            [
                "chunk 1 400.000 400.000 400.000 0.000",
                "pass 1 14.000 14.000 14.000 0.000",
                "ProductConsolidatorEngine 2 4.000 7.000 10.000 3.000",
                "ComputeCompletenessEngine 2 0.100 0.100 0.100 0.000",
                "Total 6",
            ]
        );
        let shown = report(&[stages.clone(), stages]).text();
        assert!(shown.contains("Mean duration, from log to log") && shown.contains("1 calls were shorter than the log's resolution"), "{shown}");
    }
}
