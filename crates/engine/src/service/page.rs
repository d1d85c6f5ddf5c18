//! Imports what a service has sent: a page of documents, or a file.

use super::collect::CollectRequest;
use crate::import::{self, UploadRequest};
use crate::work::JobRun;
use crate::{EngineError, Result};
use std::io::{Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::show_timestamp;
use stook_store::Store;
use stook_store::journal::OutcomeCounts;
use stook_store::queue::{Job, JobId, JobState};

/// A page that is to be imported.
pub(super) struct DeliveredPage {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// What is known of a file before it is read.
pub(super) struct DeliveredFile {
    pub(super) name: String,
    pub(super) size: u64,
    /// Its time, in microseconds, if it is known.
    pub(super) as_of: Option<i64>,
    /// Whether it is imported even if it is not as its source expects.
    pub(super) accepts_all: bool,
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
        let size = page.bytes.len() as u64;
        let file = DeliveredFile { name: page.name, size, as_of: None, accepts_all: true };
        let job = self.import_bytes(file, Box::new(Cursor::new(page.bytes)))?;
        match job.state {
            JobState::Completed | JobState::CompletedWithErrors => Ok(job.counts),
            state => {
                let again = again.map_or_else(|| "the beginning".to_owned(), show_timestamp);
                Err(EngineError::Wrong(format!("job {} is {}; the next harvest starts again at {again}", job.id, state.name())))
            }
        }
    }

    /// Imports bytes as a file.
    pub(super) fn import_bytes(&self, file: DeliveredFile, bytes: Box<dyn Read + Send>) -> Result<Job> {
        let upload = UploadRequest {
            name: file.name,
            size: Some(file.size),
            profile: None,
            source: Some(self.source_name()),
            tenant: self.request.tenant.clone(),
            as_of: file.as_of,
            retires_all: false,
            unexpected: file.accepts_all,
        };
        let job = import::upload(self.catalogue, self.store, &upload, bytes, &mut |_| ())?;
        self.run(job.id)
    }

    /// Runs a job to its end.
    pub(super) fn run(&self, job: JobId) -> Result<Job> {
        let run = JobRun { job, workers: self.request.workers, settles: true, stop: self.stop };
        import::run(self.catalogue, self.store, &run, &|_| ())
    }

    /// The name of the source whose documents these are.
    pub(super) fn source_name(&self) -> String {
        self.catalogue.sources[self.request.source].name.clone()
    }
}

/// A time in the name of a page.
pub(super) fn time_in_name(micros: i64) -> String {
    show_timestamp(micros).chars().take(19).filter(|c| !matches!(c, '-' | ':')).collect()
}
