//! Starts and runs jobs that undo others.

use super::obstacles::undoable;
use super::range;
use crate::Result;
use crate::work::{JobRun, WorkerEvent, WorkerPool};
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_store::queue::{Job, JobFile, JobId, JobState, NewJob, undo_source};
use stook_store::{Store, Tenant};

/// Creates the job that undoes another one, for workers or [`run`]. If such a job has not ended, or has undone everything, returns that one.
///
/// # Errors
/// When the job cannot be undone, or the store fails.
pub fn start(catalogue: &Catalogue, store: &dyn Store, job: JobId) -> Result<JobId> {
    let undone = store.job(job)?;
    if let Some(by) = undone.undone_by() {
        let undo = store.job(by)?;
        if !undo.state.is_final() {
            add_chunks(store, &undone, by)?;
            return Ok(by);
        }
        if undo.state == JobState::Completed {
            return Ok(by);
        }
    }
    undoable(catalogue, store, &undone)?;
    let source = undo_source(job);
    let file = JobFile { path: source.clone(), size: 0, modified: store.clock(), compressed: true, ..JobFile::default() };
    let tenant = Tenant::new(&undone.tenant)?;
    let undo = store.start_undo(job, NewJob { tenant, profile: None, source, as_of: None, files: vec![file] })?;
    add_chunks(store, &undone, undo)?;
    Ok(undo)
}

/// Adds the chunks of a job that undoes another one, if that has not been done.
fn add_chunks(store: &dyn Store, undone: &Job, undo: JobId) -> Result<()> {
    let (chunks, progress) = range::chunks(undone.documents_found())?;
    Ok(store.add_chunks(undo, chunks, progress)?)
}

/// Runs a job that undoes another one until it has ended and what it caused is settled, or it is stopped; `show` gets the number of documents done.
/// Takes over chunks that another process has leased.
///
/// # Errors
/// When the store fails; the job can be resumed.
pub fn run(catalogue: &Arc<Catalogue>, store: &dyn Store, run: &JobRun<'_>, show: &(dyn Fn(u64) + Sync)) -> Result<Job> {
    let job = store.job(run.job)?;
    if let Some(undone) = job.undoes().filter(|_| !job.progress.complete) {
        add_chunks(store, &store.job(undone)?, run.job)?;
    }
    store.take_over(run.job)?;
    let before = job.documents_done();
    let report = |event| {
        if let WorkerEvent::Committed(documents) = event {
            show(before + documents);
        }
    };
    let options = run.options();
    let pool = WorkerPool::new(catalogue, store, &options, run.stop, &report);
    pool.work(|| {
        let job = store.job(run.job)?;
        Ok(job.chunks_left == 0 || job.state.is_final())
    })?;
    store.sync()?;
    Ok(store.job(run.job)?)
}
