//! Jobs whose chunks are left in the queue for workers of any process.

use super::expect::{FileExpectations, refusal};
use super::request::{ImportProgress, UploadRequest};
use super::split;
use crate::job::context::no_source;
use crate::job::file::fitting;
use crate::job::sizes::queued_chunk;
use crate::job::source::{guess_source, named_source};
use crate::{EngineError, Result};
use std::io::{Read, Seek, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use stook_catalogue::definition::{Catalogue, Source};
use stook_formats::read::OpenedInput;
use stook_store::Store;
use stook_store::queue::{Job, JobFile, JobId, JobState, NewJob, SplitProgress};

/// Writes a job for a stream of bytes and splits it into chunks, which workers may start at once. Calls `created` with the job's number. If the
/// stream ends with an error, the job fails; what was committed stays.
///
/// # Errors
/// When the upload does not fit the definition, the bytes cannot be read, or the store fails.
pub fn upload(
    catalogue: &Catalogue,
    store: &dyn Store,
    upload: &UploadRequest,
    bytes: Box<dyn Read + Send>,
    created: &mut dyn FnMut(JobId),
) -> Result<Job> {
    let failed = |error| EngineError::File { path: upload.name.clone(), error };
    let named = named_source(catalogue, upload.source.as_deref(), upload.profile.as_deref())?;
    let mut opened = stook_formats::read::open_bytes(bytes).map_err(failed)?;
    let source = match named {
        Some(source) => source,
        None => guess_source(catalogue, &mut opened, &upload.name)?,
    };
    let source_id = source;
    let source = &catalogue.sources[source];
    opened.choose_sheet(&source.reading.csv).map_err(failed)?;
    let syntax = fitting(&opened, source, &upload.name)?;
    // the chunks carry their bytes, whether the stream was compressed or not, because there is no file to read them from
    let mut file = JobFile {
        path: upload.name.clone(),
        size: upload.size.unwrap_or(0),
        modified: store.clock(),
        syntax: syntax.map(|syntax| syntax.name().to_owned()),
        compressed: true,
        retires_all: upload.retires_all,
        ..JobFile::default()
    };
    let received = upload.as_of.unwrap_or(file.modified);
    let expectations = FileExpectations { catalogue, store, tenant: &upload.tenant, source: source_id, received, accepts_all: upload.unexpected };
    if expectations.is_some() {
        // the bytes can be read only once, and must be read completely before any of them is imported
        let bytes = std::mem::replace(&mut opened.bytes, Box::new(std::io::empty()));
        let (first, again) = kept(bytes).map_err(failed)?;
        file.checks = Some(expectations.check(&file, syntax.is_some().then_some(first), &[])?);
        opened.bytes = again;
    }
    let job = store.create_job(NewJob {
        tenant: upload.tenant.clone(),
        profile: upload.profile.clone(),
        source: source.name.clone(),
        as_of: upload.as_of,
        files: vec![file.clone()],
    })?;
    created(job);
    if let Some(reason) = refusal(std::slice::from_ref(&file)) {
        store.end_job(job, JobState::Failed, &reason)?;
        return Ok(store.job(job)?);
    }
    let mut opened = Some(opened);
    let open = |file: &JobFile| opened.take().ok_or_else(|| EngineError::Wrong(format!("{} was read already", file.path)));
    queue((store, job), &[file], source, open)
}

/// Copies bytes to a temporary file, from which they can be read twice.
fn kept(mut bytes: Box<dyn Read + Send>) -> std::io::Result<(Box<dyn Read + Send>, Box<dyn Read + Send>)> {
    let mut file = tempfile::NamedTempFile::new()?;
    std::io::copy(&mut bytes, &mut file)?;
    file.flush()?;
    let again = file.reopen()?;
    file.rewind()?;
    Ok((Box::new(file), Box::new(again)))
}

/// Splits streams into chunks of a job, which carry their bytes. If one cannot be read, the job fails.
pub(super) fn queue(
    (store, job): (&dyn Store, JobId),
    files: &[JobFile],
    source: &Source,
    open: impl FnMut(&JobFile) -> Result<OpenedInput>,
) -> Result<Job> {
    let split_result = split::split_streams((files, SplitProgress::default()), (source, queued_chunk(store)), open, |chunks, progress| {
        store.add_chunks(job, chunks, progress)?;
        Ok(!store.job_state(job)?.is_final())
    });
    if let Err(error) = &split_result {
        store.end_job(job, JobState::Failed, &error.to_string())?;
    }
    split_result?;
    store.sync()?;
    Ok(store.job(job)?)
}

/// Splits a job's files into chunks, continuing after an interruption, and leaves these to workers. Calls `show` after each batch.
///
/// # Errors
/// When a file cannot be read or the store fails; the job can be resumed.
pub fn split_files(catalogue: &Catalogue, store: &dyn Store, job: JobId, stop: &AtomicBool, show: &(dyn Fn(ImportProgress) + Sync)) -> Result<Job> {
    let start = store.job(job)?;
    if !start.progress.complete && !start.is_refused() {
        let (_, source) = catalogue.source(&start.source).ok_or_else(|| no_source(&start.source))?;
        let split_result = split::split(&start.files, source, queued_chunk(store), start.progress, |chunks, progress| {
            store.add_chunks(job, chunks, progress)?;
            show(ImportProgress::new(&start.files, progress, 0));
            Ok(!stop.load(Ordering::SeqCst))
        });
        match &split_result {
            Ok(()) if store.job(job)?.progress.complete => {}
            Ok(()) => store.interrupt_job(job)?,
            Err(error @ EngineError::NoDocument { .. }) => store.end_job(job, JobState::Failed, &error.to_string())?,
            // report the first error even if this fails, too
            Err(_) => drop(store.interrupt_job(job)),
        }
        split_result?;
    }
    store.sync()?;
    Ok(store.job(job)?)
}
