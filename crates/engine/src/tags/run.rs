//! Runs the job that evaluates tags for all records to its end, with workers of its own.

use crate::Result;
use crate::work;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stook_catalogue::definition::Catalogue;
use stook_store::Store;
use stook_store::queue::{Job, JobId};

/// Works on a job that evaluates tags until it has ended, or `stop` says otherwise. What another process had begun it does again.
///
/// # Errors
/// When the store fails.
pub fn run(catalogue: &Arc<Catalogue>, store: &dyn Store, job: JobId, workers: usize, stop: &AtomicBool, show: &(dyn Fn(u64) + Sync)) -> Result<Job> {
    let tell = |event| {
        if let work::WorkerEvent::Committed(documents) = event {
            show(documents);
        }
    };
    store.take_over(job)?;
    let options = work::WorkerOptions { workers, lease_seconds: work::LEASE_SECONDS, drain: false, settles: false };
    let pool = work::WorkerPool::new(catalogue, store, Some(job), &options, stop, &tell);
    pool.work(|| {
        let job = store.job(job)?;
        Ok(job.chunks_left == 0 || job.state.is_final())
    })?;
    store.sync()?;
    Ok(store.job(job)?)
}
