//! Imports a page of documents that a service has sent, as a file that the service had delivered.

use super::collect::CollectRequest;
use crate::import::{self, UploadRequest};
use crate::work::JobRun;
use crate::{EngineError, Result};
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::show_timestamp;
use stook_store::Store;
use stook_store::journal::OutcomeCounts;
use stook_store::queue::JobState;

/// A page that is to be imported.
pub(super) struct DeliveredPage {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// What a collection of one service works with.
pub(super) struct PageImport<'p> {
    pub(super) catalogue: &'p Arc<Catalogue>,
    pub(super) store: &'p dyn Store,
    pub(super) request: &'p CollectRequest,
    pub(super) stop: &'p AtomicBool,
}

impl PageImport<'_> {
    /// Imports a page; `again` says where the next collection begins if that fails.
    pub(super) fn import(&self, page: DeliveredPage, again: Option<i64>) -> Result<OutcomeCounts> {
        let (tenant, size) = (self.request.tenant.clone(), Some(page.bytes.len() as u64));
        let source = Some(self.catalogue.sources[self.request.source].name.clone());
        let upload = UploadRequest { name: page.name, size, profile: None, source, tenant, as_of: None, retires_all: false, unexpected: true };
        let job = import::upload(self.catalogue, self.store, &upload, Box::new(Cursor::new(page.bytes)), &mut |_| ())?;
        let run = JobRun { job: job.id, workers: self.request.workers, settles: true, stop: self.stop };
        let job = import::run(self.catalogue, self.store, &run, &|_| ())?;
        match job.state {
            JobState::Completed | JobState::CompletedWithErrors => Ok(job.counts),
            state => {
                let again = again.map_or_else(|| "the beginning".to_owned(), show_timestamp);
                Err(EngineError::Wrong(format!("job {} is {}; the next harvest starts again at {again}", job.id, state.name())))
            }
        }
    }
}

/// A time in the name of a page.
pub(super) fn time_in_name(micros: i64) -> String {
    show_timestamp(micros).chars().take(19).filter(|c| !matches!(c, '-' | ':')).collect()
}
