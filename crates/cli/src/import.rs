//! `import`, `jobs`, `journal`.

use crate::arguments::{Import, Wait};
use crate::open::{self, Place};
use crate::output::{bytes, count, number, seconds, stream, table};
use crate::work::{stop_signal, threads};
use crate::{Failure, Outcome};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::io::Write;
use std::time::{Duration, Instant};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::{FieldType, Value, from_text, show_timestamp};
use stook_engine::EngineError;
use stook_engine::import::{self, Moment, Preview, Request, Wanted};
use stook_engine::settle::snapshot::{self, Replacement};
use stook_store::Store;
use stook_store::journal::{Counts, OUTCOMES, Outcome as Became};
use stook_store::queue::{Job, JobState};

/// Failures shown after an import; the journal has all.
const SHOWN_TROUBLES: usize = 5;

pub fn import(place: &Place, arguments: &Import) -> Outcome {
    let (catalogue, store) = place.open()?;
    let request = Request {
        files: arguments.files.clone(),
        profile: arguments.profile.clone(),
        source: arguments.source.clone(),
        tenant: open::tenant(&arguments.tenant)?,
        as_of: arguments.as_of.as_deref().map(|text| time("--as-of", text)).transpose()?,
        part: None,
        retires_all: arguments.retire_all,
    };
    if arguments.dry_run {
        let preview = import::dry_run(&catalogue, &*store, &request, Wanted { documents: i64::MAX as u64, troubles: 1_000 })?;
        show_preview(&preview, arguments.json);
        return Ok(if preview.counts.of(Became::Failed) > 0 { 2 } else { 0 });
    }
    let id = match arguments.resume {
        Some(job) => job,
        None => import::create(&catalogue, &*store, &request)?,
    };
    let start = store.job(id)?;
    if arguments.resume.is_some() && start.state.is_final() && start.state != JobState::Failed && !arguments.json {
        say!("job {id} is {} already; nothing is left to do", words(start.state));
        return Ok(0);
    }
    let can_go_on = |reason: &str| Failure::new(format!("{reason}\njob {id} can go on: stook import --resume {id}"));
    let stop = stop_signal()?;
    let began = Instant::now();
    let documents_before = start.counts.documents;
    let bar = progress_bar(&start);
    if arguments.detach {
        let cut = import::cut(&catalogue, &*store, id, &stop, &|moment| bar.set_position(moment.bytes));
        bar.finish_and_clear();
        let job = cut.map_err(|error| match error {
            EngineError::NoDocument { .. } => Failure::new(format!("job {id}: {error}")),
            other => can_go_on(&other.to_string()),
        })?;
        if !job.progress.complete {
            return Err(can_go_on("stopped"));
        }
        if arguments.json {
            say!("{}", serde_json::to_string(&job)?);
        } else {
            say!("job {id}: {} in {}, for `stook work` to do", count(job.progress.documents, "document"), count(job.chunks_left, "chunk"));
        }
        return Ok(0);
    }
    let workers = threads(arguments.workers);
    let shown = import::run(&catalogue, &*store, id, (workers, arguments.wait == Wait::Settled), &stop, &|moment| show(&bar, moment));
    bar.finish_and_clear();
    let job = shown.map_err(|error| can_go_on(&error.to_string()))?;
    report((&catalogue, &*store), &job, documents_before, began.elapsed(), arguments.json)?;
    if !job.state.is_final() {
        return Err(can_go_on("stopped"));
    }
    Ok(exit_code(job.state))
}

/// The exit code for a job that has ended.
pub fn exit_code(state: JobState) -> u8 {
    match state {
        JobState::Completed => 0,
        JobState::CompletedWithErrors => 2,
        _ => 1,
    }
}

/// A time that an option says.
pub fn time(option: &str, text: &str) -> Result<i64, Failure> {
    match from_text(text, &FieldType::Timestamp, None) {
        Ok(Value::Int(micros)) => Ok(micros),
        Ok(_) => Err(Failure::usage(format!("{option}: {text} is not a time"))),
        Err(error) => Err(Failure::usage(format!("{option}: {error}"))),
    }
}

/// Drawn on a terminal only.
fn progress_bar(job: &Job) -> ProgressBar {
    let all: u64 = job.files.iter().map(|file| file.size).sum();
    let bar = ProgressBar::new(all.max(1));
    let style = ProgressStyle::with_template("{bar:32.cyan/blue} {percent:>3}%  {msg}  {elapsed_precise} (eta {eta})");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn show(bar: &ProgressBar, moment: Moment) {
    // documents that are committed, as a share of the bytes that have been cut
    let share = if moment.cut == 0 { 0.0 } else { moment.documents as f64 / moment.cut as f64 };
    bar.set_position((moment.bytes as f64 * share.min(1.0)) as u64);
    let rate = moment.documents as f64 / bar.elapsed().as_secs_f64().max(0.001);
    bar.set_message(format!("{} documents  {}/s", number(moment.documents), number(rate as u64)));
}

pub fn words(state: JobState) -> String {
    match state {
        JobState::CompletedWithErrors => "completed with errors".to_owned(),
        other => other.name().to_owned(),
    }
}

pub fn report(
    (catalogue, store): (&Catalogue, &dyn Store),
    job: &Job,
    documents_before: i64,
    elapsed: Duration,
    as_json: bool,
) -> Result<(), Failure> {
    let replaced = snapshot::of_job(store, catalogue, job)?;
    if as_json {
        let mut whole = serde_json::to_value(job)?;
        whole["seconds"] = json!(elapsed.as_secs_f64());
        if let Some(replaced) = replaced {
            whole["replaced"] = json!(replaced);
        }
        say!("{whole}");
        return Ok(());
    }
    let documents = (job.counts.documents - documents_before).max(0) as u64;
    let rate = documents as f64 / elapsed.as_secs_f64().max(1e-9);
    let whose = if job.tenant == stook_store::DEFAULT_TENANT { String::new() } else { format!(" ({})", job.tenant) };
    say!("job {}{whose}: {}, {} in {} ({}/s)", job.id, words(job.state), count(documents, "document"), seconds(elapsed), number(rate as u64));
    show_counts(&job.counts);
    if let Some(reason) = &job.reason {
        say!("  {reason}");
    }
    show_replaced(replaced.as_ref());
    let troubles = job.counts.of(Became::Failed) + job.counts.warnings;
    if troubles > 0 {
        for entry in store.journal(job.id, 0, SHOWN_TROUBLES, true)? {
            let kind = if entry.outcome == Became::Failed { "failed" } else { "warning" };
            let file = entry.file.rsplit('/').next().unwrap_or(&entry.file);
            let key = entry.key.map(|key| format!(" ({key})")).unwrap_or_default();
            say!("  {kind}: {file} record {} at byte {}{key}: {}", entry.record, entry.offset, entry.reasons.join("; "));
        }
        say!("  all of them: stook journal {} --errors", job.id);
    }
    Ok(())
}

/// What files have retired, and why they have not.
fn show_replaced(replaced: Option<&Replacement>) {
    for sentence in replaced.map(Replacement::sentences).unwrap_or_default() {
        say!("  {sentence}");
    }
}

/// How many documents had which outcome, in words; nothing where there were none.
pub fn outcomes(counts: &Counts) -> String {
    let parts: Vec<String> = OUTCOMES
        .iter()
        .filter(|(outcome, _)| counts.of(*outcome) != 0)
        .map(|(outcome, name)| format!("{} {name}", number(counts.of(*outcome).max(0) as u64)))
        .collect();
    parts.join(", ")
}

fn show_counts(counts: &Counts) {
    let parts = outcomes(counts);
    let warnings = if counts.warnings > 0 { format!(", {}", crate::output::count(counts.warnings as u64, "warning")) } else { String::new() };
    say!("  {}{warnings}", if parts.is_empty() { "no documents" } else { &parts });
}

fn show_preview(preview: &Preview, as_json: bool) {
    if as_json {
        say!("{}", preview.to_json());
        return;
    }
    say!("dry run: {} read, nothing was changed; an import would give", count(preview.counts.documents.max(0) as u64, "document"));
    show_counts(&preview.counts);
    show_replaced(preview.replaced.as_ref());
    for trouble in preview.troubles.iter().take(20) {
        let kind = if trouble.failed { "failed" } else { "warning" };
        say!("  {kind}: record {} at byte {}: {}", trouble.record, trouble.offset, trouble.reason);
    }
    if preview.troubles.len() > 20 {
        say!("  and {} more", number(preview.troubles.len() as u64 - 20));
    }
}

pub fn jobs(place: &Place, tenant: Option<&str>, limit: usize, as_json: bool) -> Outcome {
    let (_, store) = place.open_existing()?;
    let tenant = tenant.map(open::tenant).transpose()?;
    let jobs = store.jobs(tenant.as_ref(), limit)?;
    if as_json {
        say!("{}", serde_json::to_string(&jobs)?);
        return Ok(0);
    }
    let rows: Vec<Vec<String>> = jobs
        .iter()
        .map(|job| {
            let of = |outcome: Became| number(job.counts.of(outcome).max(0) as u64);
            let took = job.finished.map(|finished| seconds(Duration::from_micros((finished - job.created).max(0) as u64)));
            let size: u64 = job.files.iter().map(|file| file.size).sum();
            vec![
                job.id.to_string(),
                words(job.state),
                job.tenant.clone(),
                job.profile.clone().unwrap_or_else(|| job.source.clone()),
                bytes(size),
                number(job.counts.documents.max(0) as u64),
                of(Became::Created),
                of(Became::Updated),
                of(Became::Unchanged),
                of(Became::Failed),
                show_timestamp(job.created).chars().take(19).collect(),
                took.unwrap_or_default(),
            ]
        })
        .collect();
    let headings = ["job", "state", "tenant", "profile", "size", "documents", "created", "updated", "unchanged", "failed", "started", "took"];
    let right = [true, false, false, false, true, true, true, true, true, true, false, true];
    say!("{}", table(&headings, &rows, &right));
    Ok(0)
}

pub fn journal(place: &Place, job: u64, errors: bool, limit: Option<usize>, as_json: bool) -> Outcome {
    let (catalogue, store) = place.open_existing()?;
    let mut out = stream();
    let mut after = 0;
    let mut left = limit.unwrap_or(usize::MAX);
    let mut first = true;
    loop {
        let page = store.journal(job, after, left.min(5_000), errors)?;
        let Some(last) = page.last() else { break };
        after = last.document;
        left = left.saturating_sub(page.len());
        for entry in &page {
            if as_json {
                writeln!(out, "{}", serde_json::to_string(entry)?)?;
            } else {
                if first {
                    writeln!(out, "{:>9}  {:>9}  {:>11}  {:<11} {:<14} key / reason", "document", "record", "byte", "outcome", "collection")?;
                }
                let reasons = if entry.reasons.is_empty() { String::new() } else { format!("  {}", entry.reasons.join("; ")) };
                writeln!(
                    out,
                    "{:>9}  {:>9}  {:>11}  {:<11} {:<14} {}{reasons}",
                    entry.document,
                    entry.record,
                    entry.offset,
                    entry.outcome.name(),
                    entry.collection.as_deref().unwrap_or_default(),
                    entry.key.as_deref().unwrap_or_default(),
                )?;
            }
            first = false;
        }
        if left == 0 {
            break;
        }
    }
    if let Some(replaced) = snapshot::of_job(&*store, &catalogue, &store.job(job)?)? {
        if as_json {
            writeln!(out, "{}", json!({ "replaced": replaced }))?;
        }
        for sentence in replaced.sentences().iter().filter(|_| !as_json) {
            writeln!(out, "{sentence}")?;
        }
    }
    out.flush()?;
    Ok(0)
}
