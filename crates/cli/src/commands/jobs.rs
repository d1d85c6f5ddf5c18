//! `jobs`, `cancel`, and reports of jobs.

use super::changes;
use crate::open::{self, CatalogueLocation};
use crate::output::{bytes, count, number, seconds, table};
use crate::{CommandError, CommandResult};
use serde_json::{Value as Json, json};
use std::time::Duration;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::show_timestamp;
use stook_engine::chunk::changes::ChangeSummary;
use stook_engine::import::UPLOADED;
use stook_engine::settle::complete_delivery::{self, RetirementReport};
use stook_store::Store;
use stook_store::journal::{OUTCOMES, Outcome as Became, OutcomeCounts};
use stook_store::queue::{Job, JobFile, JobState};

/// Failures shown after an import; the journal has all.
const MAX_SHOWN_ISSUES: usize = 5;

/// Returns a job as JSON: as it is stored, with the number of processed and of known documents.
pub fn to_json(job: &Job) -> Result<Json, CommandError> {
    let mut json = serde_json::to_value(job)?;
    (json["documents"], json["planned"]) = (json!(job.documents_done()), json!(job.documents_found()));
    for (name, other) in [("undoes", job.undoes()), ("undone_by", job.undone_by())] {
        if let Some(other) = other {
            json[name] = json!(other);
        }
    }
    Ok(json)
}

/// Formats the number of processed documents, and of how many if that differs.
fn done_of(job: &Job) -> String {
    let (done, planned) = (job.documents_done(), job.documents_found());
    match job.progress.complete {
        _ if matches!(job.state, JobState::Completed | JobState::CompletedWithErrors) => number(done),
        true if done == planned => number(done),
        true => format!("{} of {}", number(done), number(planned)),
        false => format!("{} of at least {}", number(done), number(planned)),
    }
}

/// Returns the name of a job's file without its folder, and of how many others.
fn file_names(job: &Job) -> String {
    let more = job.files.len().saturating_sub(1);
    let first = job.files.first().map(|file| file_name(&file.path).to_owned()).unwrap_or_default();
    if more > 0 { format!("{first} and {} more", number(more as u64)) } else { first }
}

/// Returns the name of a file of a job without its folder.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path).trim_start_matches(UPLOADED)
}

/// Returns the exit code for a job that has ended.
pub fn exit_code(state: JobState) -> u8 {
    match state {
        JobState::Completed => 0,
        JobState::CompletedWithErrors => 2,
        _ => 1,
    }
}

/// Returns the state of a job in words.
pub fn words(state: JobState) -> String {
    match state {
        JobState::CompletedWithErrors => "completed with errors".to_owned(),
        other => other.name().to_owned(),
    }
}

/// The same for a job that may be running without workers.
fn shown_state(job: &Job) -> String {
    if job.state == JobState::Running && job.chunks_working == 0 { "running (no worker is processing it now)".to_owned() } else { words(job.state) }
}

/// A run of a job that has ended.
pub struct EndedRun<'r> {
    /// The job.
    pub job: &'r Job,
    /// How many documents were processed before the run.
    pub documents_before: i64,
    /// How long it took.
    pub elapsed: Duration,
    /// What it changed; `None` if that was not noted.
    pub changes: Option<&'r ChangeSummary>,
}

/// Prints the result of a job.
pub fn report((catalogue, store): (&Catalogue, &dyn Store), run: &EndedRun<'_>, as_json: bool) -> Result<(), CommandError> {
    let EndedRun { job, documents_before, elapsed, changes } = *run;
    let replaced = complete_delivery::retirement_report(store, catalogue, job)?;
    if as_json {
        let mut json = to_json(job)?;
        json["seconds"] = json!(elapsed.as_secs_f64());
        if let Some(replaced) = replaced {
            json["replaced"] = json!(replaced);
        }
        if let Some(changes) = changes {
            json["changes"] = changes::to_json(catalogue, changes);
        }
        say!("{json}");
        return Ok(());
    }
    let documents = (job.counts.documents - documents_before).max(0) as u64;
    let rate = documents as f64 / elapsed.as_secs_f64().max(1e-9);
    let tenant_suffix = if job.tenant == stook_store::DEFAULT_TENANT { String::new() } else { format!(" ({})", job.tenant) };
    say!("job {}{tenant_suffix}: {}, {} in {} ({}/s)", job.id, words(job.state), count(documents, "document"), seconds(elapsed), number(rate as u64));
    show_counts(&job.counts);
    if job.state.is_final() && job.documents_found() > job.documents_done() {
        say!("  {} of {} were not processed", number(job.documents_found() - job.documents_done()), count(job.documents_found(), "document"));
    }
    if let Some(reason) = &job.reason {
        say!("  {reason}");
    }
    show_expectations(&job.files);
    changes.iter().for_each(|changes| changes::show_changes(catalogue, changes));
    show_replaced(replaced.as_ref());
    let troubles = job.counts.of(Became::Failed) + job.counts.warnings;
    if troubles > 0 {
        let others = if changes.is_some_and(|changes| changes::show_issues(job, changes, troubles)) {
            Vec::new()
        } else {
            store.journal(job.id, 0, MAX_SHOWN_ISSUES, true)?
        };
        for entry in others {
            let kind = if entry.outcome == Became::Failed { "failed" } else { "warning" };
            let file = file_name(&entry.file);
            let key = entry.key.map(|key| format!(" ({key})")).unwrap_or_default();
            say!("  {kind}: {file} record {} at byte {}{key}: {}", entry.record, entry.offset, entry.reasons.join("; "));
        }
        say!("  for all issues: stook journal {} --errors", job.id);
        if job.counts.of(Became::Failed) > 0 && job.undoes().is_none() {
            say!("  the failed documents as a file: stook journal {} --failed -o FILE", job.id);
        }
    }
    Ok(())
}

/// Prints what files were expected to be and are not.
pub fn show_expectations(files: &[JobFile]) {
    for file in files {
        let outcomes = || file.checks.iter().flat_map(|checks| &checks.expectations);
        let (held, all) = (outcomes().filter(|own| own.holds).count(), outcomes().count());
        if all > 0 {
            say!("  {}: {held} of {} hold", file.short_name(), count(all as u64, "expectation"));
        }
        // of a file that was stopped, the job's reason says why
        for own in outcomes().filter(|own| !own.holds && !own.stops) {
            say!("  warning: {}: expected that {}, found {}", file.short_name(), own.expected, own.found);
        }
    }
}

/// Prints what complete deliveries have retired, or why they have not.
pub fn show_replaced(replaced: Option<&RetirementReport>) {
    for sentence in replaced.map(RetirementReport::sentences).unwrap_or_default() {
        say!("  {sentence}");
    }
}

/// Formats the number of documents by outcome, without outcomes that did not occur.
pub fn outcomes(counts: &OutcomeCounts) -> String {
    let parts: Vec<String> = OUTCOMES
        .iter()
        .filter(|(outcome, _)| counts.of(*outcome) != 0)
        .map(|(outcome, name)| format!("{} {name}", number(counts.of(*outcome).max(0) as u64)))
        .collect();
    parts.join(", ")
}

/// Prints the number of documents by outcome.
pub fn show_counts(counts: &OutcomeCounts) {
    let parts = outcomes(counts);
    let warnings = if counts.warnings > 0 { format!(", {}", count(counts.warnings as u64, "warning")) } else { String::new() };
    say!("  {}{warnings}", if parts.is_empty() { "no documents" } else { &parts });
}

pub fn jobs(location: &CatalogueLocation, tenant: Option<&str>, limit: usize, as_json: bool) -> CommandResult {
    let store = location.admin_store(true)?;
    let tenant = tenant.map(open::tenant).transpose()?;
    let jobs = store.jobs(tenant.as_ref(), limit)?;
    if as_json {
        say!("{}", Json::Array(jobs.iter().map(to_json).collect::<Result<_, _>>()?));
        return Ok(0);
    }
    // outcomes that always have a column, and others that occur
    let always = [Became::Created, Became::Updated, Became::Unchanged, Became::Failed];
    let occurs = |outcome: Became| jobs.iter().any(|job| job.counts.of(outcome) != 0);
    let shown: Vec<(Became, &str)> = OUTCOMES.into_iter().filter(|(outcome, _)| always.contains(outcome) || occurs(*outcome)).collect();
    let row = |job: &Job| {
        let size: u64 = job.files.iter().map(|file| file.size).sum();
        let profile = job.profile.clone().unwrap_or_else(|| job.source.clone());
        let first = [job.id.to_string(), shown_state(job), job.tenant.clone(), profile, file_names(job), bytes(size), done_of(job)];
        let counts = shown.iter().map(|(outcome, _)| number(job.counts.of(*outcome).max(0) as u64));
        let started = show_timestamp(job.created).chars().take(19).collect();
        let took = job.finished.map(|finished| seconds(Duration::from_micros((finished - job.created).max(0) as u64)));
        first.into_iter().chain(counts).chain([started, took.unwrap_or_default()]).collect()
    };
    let rows: Vec<Vec<String>> = jobs.iter().map(row).collect();
    let first = [("job", true), ("state", false), ("tenant", false), ("profile", false), ("file", false), ("size", true), ("documents", true)];
    let counts = shown.iter().map(|(_, name)| (*name, true));
    let (headings, right): (Vec<&str>, Vec<bool>) = first.into_iter().chain(counts).chain([("started", false), ("took", true)]).unzip();
    say!("{}", table(&headings, &rows, &right));
    Ok(0)
}

pub fn cancel(location: &CatalogueLocation, job: u64, as_json: bool) -> CommandResult {
    let store = location.admin_store(false)?;
    let has_ended = |state: JobState| CommandError::new(format!("job {job} has already ended: {}", words(state)));
    let state = store.job(job)?.state;
    if state.is_final() {
        return Err(has_ended(state));
    }
    store.end_job(job, JobState::Cancelled, "cancelled by `stook cancel`")?;
    let job = store.job(job)?;
    // another process may have ended it first
    if job.state != JobState::Cancelled {
        return Err(has_ended(job.state));
    }
    if as_json {
        say!("{}", to_json(&job)?);
    } else {
        say!("job {} cancelled; {} of its documents are committed and remain", job.id, done_of(&job));
    }
    Ok(0)
}
