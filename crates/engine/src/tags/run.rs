//! Runs the job that evaluates tags for all records to its end, with workers of its own.

use crate::Result;
use crate::work::{self, JobRun};
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_store::Store;
use stook_store::queue::Job;

/// Runs a job that evaluates tags until it has ended or is stopped, without settling. Takes over chunks that another process has leased.
///
/// # Errors
/// When the store fails.
pub fn run(catalogue: &Arc<Catalogue>, store: &dyn Store, run: &JobRun<'_>, show: &(dyn Fn(u64) + Sync)) -> Result<Job> {
    let JobRun { job, stop, .. } = *run;
    let report = |event| {
        if let work::WorkerEvent::Committed(documents) = event {
            show(documents);
        }
    };
    store.take_over(job)?;
    let options = work::WorkerOptions { settles: false, ..run.options() };
    let pool = work::WorkerPool::new(catalogue, store, &options, stop, &report);
    pool.work(|| {
        let job = store.job(job)?;
        Ok(job.chunks_left == 0 || job.state.is_final())
    })?;
    store.sync()?;
    Ok(store.job(job)?)
}
