//! Runs the job of an import to its end, with workers of its own.

use super::request::{ImportEvent, ImportProgress};
use super::split;
use crate::change_feed;
use crate::job::context::no_source;
use crate::job::sizes::CHUNK_DOCUMENTS;
use crate::relations::SettleRules;
use crate::settle;
use crate::tags;
use crate::undo;
use crate::work::{JobRun, WorkerEvent, WorkerPool};
use crate::{EngineError, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use stook_catalogue::definition::Catalogue;
use stook_store::queue::{Job, JobId, JobState};
use stook_store::{SettlePass, Store};

/// Runs a job to its end, or until it is stopped, calling `show` now and then. A job that was interrupted is resumed: splitting continues after the
/// last chunk, and the remaining chunks are processed. A run that does not settle leaves the marks to other processes.
///
/// # Errors
/// When a file cannot be read or the store fails as a whole; the job can be resumed.
pub fn run(catalogue: &Arc<Catalogue>, store: &dyn Store, run: &JobRun<'_>, show: &(dyn Fn(ImportEvent) + Sync)) -> Result<Job> {
    let JobRun { job, settles, stop, .. } = *run;
    let start = store.job(job)?;
    if start.is_refused() {
        return Ok(start);
    }
    if start.state.is_final() && start.state != JobState::Failed {
        if settles && !store.is_settled(job)? {
            let rules: Arc<dyn SettlePass> = Arc::new(SettleRules::new(catalogue));
            settle::drain(store, &rules, stop)?;
        }
        return Ok(start);
    }
    if tags::is_rebuild(&start.source).is_some() {
        return tags::run(catalogue, store, run, &|records| show(ImportEvent::Progress(ImportProgress::new(&start.files, start.progress, records))));
    }
    if start.undoes().is_some() {
        return undo::run(catalogue, store, run, &|done| show(ImportEvent::Progress(ImportProgress::new(&start.files, start.progress, done))));
    }
    let (_, source) = catalogue.source(&start.source).ok_or_else(|| no_source(&start.source))?;
    store.take_over(job)?;
    let progress = Mutex::new(start.progress);
    let now = || progress.lock().map(|progress| *progress).unwrap_or_default();
    let before = start.counts.documents.max(0) as u64;
    let report = |event| match event {
        WorkerEvent::Committed(documents) => show(ImportEvent::Progress(ImportProgress::new(&start.files, now(), before + documents))),
        // failures of chunks are in the journal
        WorkerEvent::TaskDone(task) if task.job.is_none() => show(ImportEvent::Settled(task)),
        WorkerEvent::TaskDone(task) => show(ImportEvent::Changed(*task.changes)),
        WorkerEvent::Ended(_) | WorkerEvent::StoreUnavailable(_) => {}
    };
    let options = run.options();
    let pool = WorkerPool::new(catalogue, store, &options, stop, &report);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if !start.progress.complete {
            let (pool, progress, start, ended) = (&pool, &progress, &start, &ended);
            scope.spawn(move || {
                let split_result = split::split(&start.files, source, CHUNK_DOCUMENTS, start.progress, |chunks, new_progress| {
                    store.add_chunks(job, chunks, new_progress)?;
                    if let Ok(mut progress) = progress.lock() {
                        *progress = new_progress;
                    }
                    Ok(!pool.is_stopping())
                });
                pool.record_failure(end_without_documents(store, job, split_result).map(|has_ended| ended.store(has_ended, Ordering::SeqCst)));
            });
        }
        pool.work(|| {
            let was_split = now().complete;
            if ended.load(Ordering::SeqCst) {
                return Ok(true);
            }
            let job = store.job(job)?;
            Ok(was_split && (job.chunks_left == 0 || job.state.is_final()))
        })
    })?;
    undo::expire(catalogue, store, source, stop)?;
    change_feed::expire(store, stop)?;
    store.sync()?;
    Ok(store.job(job)?)
}

/// Ends a job of which a file has no document, since it would find no other; returns true then.
fn end_without_documents(store: &dyn Store, job: JobId, split_result: Result<()>) -> Result<bool> {
    match split_result {
        Ok(()) => Ok(false),
        Err(error @ EngineError::NoDocument { .. }) => {
            store.end_job(job, JobState::Failed, &error.to_string())?;
            Ok(true)
        }
        Err(error) => Err(error),
    }
}
