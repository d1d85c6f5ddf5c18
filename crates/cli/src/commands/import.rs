//! `import`.

use super::jobs::{EndedRun, exit_code, report, show_counts, show_expectations, show_replaced, to_json, words};
use super::settle;
use crate::arguments::import::{ImportArgs, WaitFor};
use crate::open::{self, CatalogueLocation, time};
use crate::output::{count, number, table};
use crate::process::{stop_signal, threads};
use crate::{CommandError, CommandResult};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::ExpressionFailures;
use stook_engine::EngineError;
use stook_engine::chunk::changes::ChangeSummary;
use stook_engine::import::files::MAX_NAMED_FILES;
use stook_engine::import::{self, DryRunLimits, DryRunReport, ImportEvent, ImportProgress, ImportRequest, SortedFiles, UploadRequest};
use stook_engine::service::files::{self, FetchedFile};
use stook_engine::work::JobRun;
use stook_store::Store;
use stook_store::journal::Outcome as Became;
use stook_store::queue::{Job, JobId, JobState};

pub fn import(location: &CatalogueLocation, arguments: &ImportArgs) -> CommandResult {
    if let Some(collection) = &arguments.corrections {
        return super::corrections::import(location, arguments, collection);
    }
    let (remote, files): (Vec<&PathBuf>, Vec<&PathBuf>) = arguments.files.iter().partition(|file| file.to_str().is_some_and(files::is_remote));
    let request = ImportRequest {
        files: files.into_iter().cloned().collect(),
        profile: arguments.profile.clone(),
        source: arguments.source.clone(),
        tenant: open::tenant(&arguments.tenant)?,
        as_of: arguments.as_of.as_deref().map(|text| time("--as-of", text)).transpose()?,
        part: None,
        arguments: Default::default(),
        retires_all: arguments.retire_all,
        unexpected: arguments.accept_unexpected,
    };
    if arguments.dry_run {
        if let Some(remote) = remote.first() {
            return Err(CommandError::usage(format!("{}: --dry-run is for files of this machine; download it first", remote.display())));
        }
        return dry_run(location, &request, arguments.json);
    }
    let catalogue = location.catalogue()?;
    if let Some(job) = arguments.resume {
        let store = location.prepared(&catalogue, false)?;
        return run_job(&Import { catalogue, store, arguments, stop: stop_signal()? }, job);
    }
    if let Some(job) = arguments.retry {
        let store = location.prepared(&catalogue, false)?;
        return retry(&Import { catalogue, store, arguments, stop: stop_signal()? }, job);
    }
    let stop = stop_signal()?;
    let fetched = remote.iter().map(|location| files::fetch_file(&location.to_string_lossy(), &stop)).collect::<Result<Vec<_>, _>>()?;
    let sorted = match request.files.as_slice() {
        [] => SortedFiles { imports: Vec::new(), unclaimed: Vec::new(), is_many: false },
        _ => import::sort_files(&catalogue, &request)?,
    };
    let store = location.prepared(&catalogue, false)?;
    // all jobs are created before the first one starts: if one is interrupted, the others can be resumed
    let mut jobs = fetched.into_iter().map(|file| queue_fetched(&catalogue, &*store, &request, file)).collect::<Result<Vec<JobId>, _>>()?;
    jobs.extend(import::create_all(&catalogue, &*store, &sorted.imports)?);
    let import = Import { catalogue, store, arguments, stop };
    let mut code = 0;
    for (index, job) in jobs.iter().enumerate() {
        let result = run_job(&import, *job);
        let is_stopped = import.stop.load(Ordering::SeqCst);
        match result {
            Ok(job_code) => code = worse(code, job_code),
            Err(failure) if jobs.len() == 1 => return Err(failure),
            Err(failure) => {
                eprintln!("{}", crate::output::failure(&failure.message));
                code = worse(code, failure.code);
            }
        }
        if let ([next, ..], true) = (&jobs[index + 1..], is_stopped) {
            let waiting = &jobs[index + 1..];
            waiting.iter().try_for_each(|job| import.store.interrupt_job(*job))?;
            let all: Vec<String> = waiting.iter().map(JobId::to_string).collect();
            let reason = format!("not begun: {} {}; run: stook import --resume {next}", noun(all.len()), all.join(", "));
            return Err(CommandError::new(reason));
        }
    }
    Ok(worse(code, show_unclaimed(&sorted, arguments.json)))
}

/// What the jobs of one command share.
struct Import<'i> {
    catalogue: Arc<Catalogue>,
    store: Arc<dyn Store>,
    arguments: &'i ImportArgs,
    stop: Arc<AtomicBool>,
}

/// Makes a job of a file that was fetched.
fn queue_fetched(catalogue: &Catalogue, store: &dyn Store, request: &ImportRequest, file: FetchedFile) -> Result<JobId, EngineError> {
    let upload = UploadRequest {
        name: file.name,
        size: Some(file.size),
        profile: request.profile.clone(),
        source: request.source.clone(),
        tenant: request.tenant.clone(),
        as_of: request.as_of.or(file.modified),
        retires_all: request.retires_all,
        unexpected: request.unexpected,
    };
    Ok(import::upload(catalogue, store, &upload, Box::new(file.bytes), &mut |_| ())?.id)
}

/// Imports the failed documents of a job again.
fn retry(import: &Import<'_>, failed: JobId) -> CommandResult {
    let (job, report) = import::retry(&import.catalogue, &*import.store, &import.store.job(failed)?)?;
    if let Some(missing) = report.sentence() {
        eprintln!("warning: {missing}");
    }
    if !import.arguments.json {
        say!("job {}: {} that failed in job {failed}", job.id, count(report.documents(), "document"));
    }
    let code = run_job(import, job.id)?;
    Ok(worse(code, if report.not_kept.is_empty() { 0 } else { 2 }))
}

fn noun(jobs: usize) -> &'static str {
    if jobs == 1 { "job" } else { "jobs" }
}

/// Returns the more severe of two exit codes: 1 before 2 before 0.
fn worse(one: u8, other: u8) -> u8 {
    let rank = |code: u8| match code {
        0 => 0,
        2 => 1,
        _ => 2,
    };
    if rank(other) > rank(one) { other } else { one }
}

/// Prints the files that no source claims, and returns the exit code.
fn show_unclaimed(sorted: &SortedFiles, as_json: bool) -> u8 {
    let names: Vec<String> = sorted.unclaimed.iter().map(|file| file.display().to_string()).collect();
    if names.is_empty() {
        return 0;
    }
    if as_json {
        say!("{}", json!({ "unclaimed": names }));
        return 2;
    }
    say!("{} not imported, as no source claims them by name, first document or format:", count(names.len() as u64, "file"));
    names.iter().take(MAX_NAMED_FILES).for_each(|name| say!("  {name}"));
    if names.len() > MAX_NAMED_FILES {
        say!("  and {} more", number((names.len() - MAX_NAMED_FILES) as u64));
    }
    2
}

/// Shows what each job would do. Each job is tried alone, without the results of the others.
fn dry_run(location: &CatalogueLocation, request: &ImportRequest, as_json: bool) -> CommandResult {
    let sorted = import::sort_files(&*location.catalogue()?, request)?;
    // if there is no store, an empty one gives the same result
    let empty = (!location.exists()?).then(tempfile::tempdir).transpose()?;
    let (catalogue, store) = match &empty {
        Some(empty) => {
            let store = Some(format!("sqlite:{}", empty.path().join("empty.sqlite").display()));
            CatalogueLocation { folder: location.folder.clone(), store }.written()?
        }
        None => location.read()?,
    };
    let mut code = 0;
    for request in &sorted.imports {
        let preview = import::dry_run(&catalogue, &*store, request, DryRunLimits { documents: i64::MAX as u64, troubles: 1_000 })?;
        if sorted.is_many && !as_json {
            let rows = preview.files.iter().zip(&preview.documents).map(|(file, documents)| {
                let name = file.path.clone();
                vec![name, preview.source.clone(), number(*documents)]
            });
            say!("{}", table(&["file", "source", "documents"], &rows.collect::<Vec<_>>(), &[false, false, true]));
        }
        show_preview(&preview, as_json);
        let refused = if preview.refusal.is_some() { 1 } else { 0 };
        code = worse(code, worse(refused, if preview.counts.of(Became::Failed) > 0 { 2 } else { 0 }));
    }
    Ok(worse(code, show_unclaimed(&sorted, as_json)))
}

/// Runs a job to its end, or leaves it to workers.
fn run_job(import: &Import<'_>, id: JobId) -> CommandResult {
    let Import { catalogue, store, arguments, stop } = import;
    let start = store.job(id)?;
    let has_ended = start.state.is_final() && start.state != JobState::Failed;
    if arguments.resume.is_some() && has_ended && !arguments.json && (arguments.wait != WaitFor::Settled || store.is_settled(id)?) {
        say!("job {id} is already {}; nothing to do", words(start.state));
        return Ok(0);
    }
    let began = Instant::now();
    let documents_before = start.counts.documents;
    let bar = progress_bar(&start);
    if arguments.detach {
        let split_result = import::split_files(catalogue, &**store, id, stop, &|progress| bar.set_position(progress.bytes));
        bar.finish_and_clear();
        let job = job_after_work(&**store, id, split_result)?;
        if !job.progress.complete {
            return Err(CommandError::new(interruption_message(&job)));
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
    let failures = Mutex::new(ExpressionFailures::default());
    let changes = Mutex::new(ChangeSummary::default());
    let report_event = |event| match event {
        ImportEvent::Progress(progress) => show(&bar, progress),
        ImportEvent::Changed(more) => {
            if let Ok(mut changes) = changes.lock() {
                changes.include(more);
            }
        }
        ImportEvent::Settled(stage) => {
            bar.suspend(|| stage.damaged.iter().for_each(|reason| eprintln!("warning: not settled: {reason}")));
            if let Ok(mut failures) = failures.lock() {
                failures.include(stage.failures);
            }
        }
    };
    let run = JobRun { job: id, workers: threads(arguments.workers), settles: arguments.wait == WaitFor::Settled, stop };
    let run_result = import::run(catalogue, &**store, &run, &report_event);
    bar.finish_and_clear();
    settle::warn(&failures.into_inner().unwrap_or_default());
    let job = job_after_work(&**store, id, run_result)?;
    let changes = changes.into_inner().unwrap_or_default();
    let ended = EndedRun { job: &job, documents_before, elapsed: began.elapsed(), changes: Some(&changes) };
    report((catalogue, &**store), &ended, arguments.json)?;
    if !job.state.is_final() {
        return Err(CommandError::new(interruption_message(&job)));
    }
    if arguments.wait == WaitFor::Settled && stop.load(Ordering::SeqCst) && !store.is_settled(id)? {
        return Err(CommandError::new(format!("job {id}: all documents are committed, but {}", settle::INTERRUPTED)));
    }
    Ok(exit_code(job.state))
}

/// Returns a job after work on it has ended, for whatever reason: another process may have cancelled it. An error says what is left of it.
fn job_after_work(store: &dyn Store, id: u64, worked: stook_engine::Result<Job>) -> Result<Job, CommandError> {
    worked.or_else(|error| match store.job(id) {
        Ok(job) if job.state == JobState::Cancelled => Ok(job),
        Ok(job) if !job.state.is_final() => Err(CommandError::new(format!("{error}\n{}", interruption_message(&job)))),
        Ok(_) => Err(CommandError::new(format!("job {id}: {error}"))),
        Err(_) => Err(CommandError::new(format!("{error}\nresume job {id}: stook import --resume {id}; cancel it: stook cancel {id}"))),
    })
}

/// Says what is left of an interrupted job, who continues it, and how to cancel it.
fn interruption_message(job: &Job) -> String {
    let (id, done) = (job.id, number(job.documents_done()));
    let planned = number(job.documents_found());
    let (progress, how_to_continue) = if job.progress.complete {
        let progress = format!("{done} of {planned} documents are committed; the rest are queued");
        let how_to_continue = format!("workers will process them (`stook work`, or a running `stook serve`), or run: stook import --resume {id}");
        (progress, how_to_continue)
    } else {
        let progress = format!("{done} of the {planned} documents read so far are committed");
        let how_to_continue = match job.chunks_left {
            0 => format!("to read the rest of the files: stook import --resume {id}"),
            _ => format!(
                "workers do what was read (`stook work`, or a running `stook serve`); to read the rest of the files: stook import --resume {id}"
            ),
        };
        (progress, how_to_continue)
    };
    format!("job {id} was interrupted: {progress}\n  {how_to_continue}\n  or cancel it: stook cancel {id}")
}

/// Makes a progress bar, which is drawn only on a terminal.
fn progress_bar(job: &Job) -> ProgressBar {
    let all: u64 = job.files.iter().map(|file| file.size).sum();
    let bar = ProgressBar::new(all.max(1));
    let style = ProgressStyle::with_template("{bar:32.cyan/blue} {percent:>3}%  {msg}  {elapsed_precise} (eta {eta})");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn show(bar: &ProgressBar, progress: ImportProgress) {
    // the share of split documents that are committed, applied to the bytes that have been split
    let share = if progress.split == 0 { 0.0 } else { progress.documents as f64 / progress.split as f64 };
    bar.set_position((progress.bytes as f64 * share.min(1.0)) as u64);
    let rate = progress.documents as f64 / bar.elapsed().as_secs_f64().max(0.001);
    bar.set_message(format!("{} documents  {}/s", number(progress.documents), number(rate as u64)));
}

fn show_preview(preview: &DryRunReport, as_json: bool) {
    if as_json {
        say!("{}", preview.to_json());
        return;
    }
    say!("dry run: {} read, nothing changed; an import would yield", count(preview.counts.documents.max(0) as u64, "document"));
    show_expectations(&preview.files);
    preview.refusal.iter().for_each(|reason| say!("  {reason}"));
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
