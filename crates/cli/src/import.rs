//! `import`, `jobs`, `cancel`, `journal`.

use crate::arguments::{ImportArgs, WaitFor};
use crate::open::{self, CatalogueLocation};
use crate::output::{bytes, count, number, seconds, stream, table};
use crate::work::{stop_signal, threads};
use crate::{CommandError, CommandResult};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value as Json, json};
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::expr::ExpressionFailures;
use stook_catalogue::value::{FieldType, Value, from_text, show_timestamp};
use stook_engine::import::{self, DryRunLimits, DryRunReport, ImportEvent, ImportProgress, ImportRequest};
use stook_engine::settle::snapshot::{self, RetirementReport};
use stook_store::Store;
use stook_store::journal::{OUTCOMES, Outcome as Became, OutcomeCounts};
use stook_store::queue::{Job, JobState};

/// Failures shown after an import; the journal has all.
const SHOWN_TROUBLES: usize = 5;

pub fn import(place: &CatalogueLocation, arguments: &ImportArgs) -> CommandResult {
    let request = ImportRequest {
        files: arguments.files.clone(),
        profile: arguments.profile.clone(),
        source: arguments.source.clone(),
        tenant: open::tenant(&arguments.tenant)?,
        as_of: arguments.as_of.as_deref().map(|text| time("--as-of", text)).transpose()?,
        part: None,
        retires_all: arguments.retire_all,
    };
    if arguments.dry_run {
        // of what is not there yet an empty store says the same
        let empty = (!place.exists()?).then(tempfile::tempdir).transpose()?;
        let (catalogue, store) = match &empty {
            Some(empty) => {
                CatalogueLocation { folder: place.folder.clone(), store: Some(format!("sqlite:{}", empty.path().join("empty.sqlite").display())) }
                    .written()?
            }
            None => place.read()?,
        };
        let preview = import::dry_run(&catalogue, &*store, &request, DryRunLimits { documents: i64::MAX as u64, troubles: 1_000 })?;
        show_preview(&preview, arguments.json);
        return Ok(if preview.counts.of(Became::Failed) > 0 { 2 } else { 0 });
    }
    let catalogue = place.catalogue()?;
    let store = place.prepared(&catalogue, false)?;
    let id = match arguments.resume {
        Some(job) => job,
        None => import::create(&catalogue, &*store, &request)?,
    };
    let start = store.job(id)?;
    if arguments.resume.is_some() && start.state.is_final() && start.state != JobState::Failed && !arguments.json {
        say!("job {id} is already {}; nothing to do", words(start.state));
        return Ok(0);
    }
    let stop = stop_signal()?;
    let began = Instant::now();
    let documents_before = start.counts.documents;
    let bar = progress_bar(&start);
    if arguments.detach {
        let cut = import::cut(&catalogue, &*store, id, &stop, &|moment| bar.set_position(moment.bytes));
        bar.finish_and_clear();
        let job = ended(&*store, id, cut)?;
        if !job.progress.complete {
            return Err(CommandError::new(left(&job)));
        }
        if arguments.json {
            say!("{}", to_json(&job)?);
        } else {
            say!(
                "job {id}: {} queued in {}; run `stook work` to process them",
                count(job.progress.documents, "document"),
                count(job.chunks_left, "chunk")
            );
        }
        return Ok(0);
    }
    let workers = threads(arguments.workers);
    let failures = Mutex::new(ExpressionFailures::default());
    let tell = |news| match news {
        ImportEvent::Progress(moment) => show(&bar, moment),
        ImportEvent::Settled(stage) => {
            bar.suspend(|| stage.damaged.iter().for_each(|reason| eprintln!("warning: not settled: {reason}")));
            if let Ok(mut failures) = failures.lock() {
                failures.include(stage.failures);
            }
        }
    };
    let run = import::run(&catalogue, &*store, id, (workers, arguments.wait == WaitFor::Settled), &stop, &tell);
    bar.finish_and_clear();
    crate::settle::warn(&failures.into_inner().unwrap_or_default());
    let job = ended(&*store, id, run)?;
    report((&catalogue, &*store), &job, documents_before, began.elapsed(), arguments.json)?;
    if !job.state.is_final() {
        return Err(CommandError::new(left(&job)));
    }
    Ok(exit_code(job.state))
}

/// A job that was worked on, however that ended: somebody else may have cancelled it. A failure says what is left of it.
fn ended(store: &dyn Store, id: u64, worked: stook_engine::Result<Job>) -> Result<Job, CommandError> {
    worked.or_else(|error| match store.job(id) {
        Ok(job) if job.state == JobState::Cancelled => Ok(job),
        Ok(job) if !job.state.is_final() => Err(CommandError::new(format!("{error}\n{}", left(&job)))),
        Ok(_) => Err(CommandError::new(format!("job {id}: {error}"))),
        Err(_) => Err(CommandError::new(format!("{error}\nresume job {id}: stook import --resume {id}; cancel it: stook cancel {id}"))),
    })
}

/// What is left of a job that was interrupted, who goes on with it, and how to end it.
fn left(job: &Job) -> String {
    let (id, done) = (job.id, number(job.done()));
    let planned = number(job.planned());
    let (stands, goes_on) = if job.progress.complete {
        let stands = format!("{done} of {planned} documents are committed; the rest are queued");
        let goes_on = format!("workers will process them (`stook work`, or a running `stook serve`), or run: stook import --resume {id}");
        (stands, goes_on)
    } else {
        let stands = format!("{done} of the {planned} documents read so far are committed");
        let goes_on = match job.chunks_left {
            0 => format!("to read the rest of the files: stook import --resume {id}"),
            _ => format!(
                "workers do what was read (`stook work`, or a running `stook serve`); to read the rest of the files: stook import --resume {id}"
            ),
        };
        (stands, goes_on)
    };
    format!("job {id} was interrupted: {stands}\n  {goes_on}\n  or cancel it: stook cancel {id}")
}

/// A job for programs: as it is stored, with the documents that are done and those that are planned.
fn to_json(job: &Job) -> Result<Json, CommandError> {
    let mut whole = serde_json::to_value(job)?;
    (whole["documents"], whole["planned"]) = (json!(job.done()), json!(job.planned()));
    Ok(whole)
}

/// Documents that are done, and of how many where those are more.
fn done_of(job: &Job) -> String {
    let (done, planned) = (job.done(), job.planned());
    match job.progress.complete {
        _ if matches!(job.state, JobState::Completed | JobState::CompletedWithErrors) => number(done),
        true if done == planned => number(done),
        true => format!("{} of {}", number(done), number(planned)),
        false => format!("{} of at least {}", number(done), number(planned)),
    }
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
pub fn time(option: &str, text: &str) -> Result<i64, CommandError> {
    match from_text(text, &FieldType::Timestamp, None) {
        Ok(Value::Int(micros)) => Ok(micros),
        Ok(_) => Err(CommandError::usage(format!("{option}: {text} is not a time"))),
        Err(error) => Err(CommandError::usage(format!("{option}: {error}"))),
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

fn show(bar: &ProgressBar, moment: ImportProgress) {
    // documents that are committed, as a share of the bytes that have been cut
    let share = if moment.split == 0 { 0.0 } else { moment.documents as f64 / moment.split as f64 };
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

/// The same of a job that goes on: nobody may work on it now.
fn standing(job: &Job) -> String {
    if job.state == JobState::Running && job.chunks_working == 0 { "running (no worker is processing it now)".to_owned() } else { words(job.state) }
}

pub fn report(
    (catalogue, store): (&Catalogue, &dyn Store),
    job: &Job,
    documents_before: i64,
    elapsed: Duration,
    as_json: bool,
) -> Result<(), CommandError> {
    let replaced = snapshot::of_job(store, catalogue, job)?;
    if as_json {
        let mut whole = to_json(job)?;
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
    if job.state.is_final() && job.planned() > job.done() {
        say!("  {} of {} were not processed", number(job.planned() - job.done()), count(job.planned(), "document"));
    }
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
        say!("  for all issues: stook journal {} --errors", job.id);
    }
    Ok(())
}

/// What files have retired, and why they have not.
fn show_replaced(replaced: Option<&RetirementReport>) {
    for sentence in replaced.map(RetirementReport::sentences).unwrap_or_default() {
        say!("  {sentence}");
    }
}

/// How many documents had which outcome, in words; nothing where there were none.
pub fn outcomes(counts: &OutcomeCounts) -> String {
    let parts: Vec<String> = OUTCOMES
        .iter()
        .filter(|(outcome, _)| counts.of(*outcome) != 0)
        .map(|(outcome, name)| format!("{} {name}", number(counts.of(*outcome).max(0) as u64)))
        .collect();
    parts.join(", ")
}

fn show_counts(counts: &OutcomeCounts) {
    let parts = outcomes(counts);
    let warnings = if counts.warnings > 0 { format!(", {}", crate::output::count(counts.warnings as u64, "warning")) } else { String::new() };
    say!("  {}{warnings}", if parts.is_empty() { "no documents" } else { &parts });
}

fn show_preview(preview: &DryRunReport, as_json: bool) {
    if as_json {
        say!("{}", preview.to_json());
        return;
    }
    say!("dry run: {} read, nothing changed; an import would yield", count(preview.counts.documents.max(0) as u64, "document"));
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

pub fn jobs(place: &CatalogueLocation, tenant: Option<&str>, limit: usize, as_json: bool) -> CommandResult {
    let store = place.ledger(true)?;
    let tenant = tenant.map(open::tenant).transpose()?;
    let jobs = store.jobs(tenant.as_ref(), limit)?;
    if as_json {
        say!("{}", Json::Array(jobs.iter().map(to_json).collect::<Result<_, _>>()?));
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
                standing(job),
                job.tenant.clone(),
                job.profile.clone().unwrap_or_else(|| job.source.clone()),
                bytes(size),
                done_of(job),
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

pub fn cancel(place: &CatalogueLocation, job: u64, as_json: bool) -> CommandResult {
    let store = place.ledger(false)?;
    let has_ended = |state: JobState| CommandError::new(format!("job {job} has already ended: {}", words(state)));
    let state = store.job(job)?.state;
    if state.is_final() {
        return Err(has_ended(state));
    }
    store.end_job(job, JobState::Cancelled, "cancelled by `stook cancel`")?;
    let job = store.job(job)?;
    // somebody may have been faster
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

pub fn journal(place: &CatalogueLocation, job: u64, errors: bool, limit: Option<usize>, as_json: bool) -> CommandResult {
    let store = place.ledger(true)?;
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
    // what came of whole files is known by the definition alone
    match place.read() {
        Ok((catalogue, store)) => {
            let replaced = snapshot::of_job(&*store, &catalogue, &store.job(job)?)?;
            if let (Some(replaced), true) = (&replaced, as_json) {
                writeln!(out, "{}", json!({ "replaced": replaced }))?;
            }
            for sentence in replaced.iter().flat_map(RetirementReport::sentences).filter(|_| !as_json) {
                writeln!(out, "{sentence}")?;
            }
        }
        Err(failure) => {
            let reason = failure.message.lines().next().unwrap_or_default().to_owned();
            eprintln!("note: whether older deliveries were retired could not be determined: {reason}");
        }
    }
    out.flush()?;
    Ok(0)
}
