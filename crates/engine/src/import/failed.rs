//! The documents of a job that failed: as files that can be mended and imported again, and imported again as they are.

use super::queued;
use crate::job::context::no_source;
use crate::job::file::{UPLOADED, is_complete, syntax};
use crate::{EngineError, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use stook_catalogue::definition::Catalogue;
use stook_formats::frame::Framer;
use stook_formats::read::open;
use stook_store::admin::AdminStore;
use stook_store::journal::{JournalEntry, Outcome};
use stook_store::queue::{Job, JobFile, JobId, NewJob};
use stook_store::{Store, Tenant};

/// Entries of a journal that are read at one time.
const PAGE: usize = 1_000;

/// Where jobs and their failed documents are read.
pub trait FailedSource {
    /// As [`stook_store::Queue::journal`], failures and warnings only.
    ///
    /// # Errors
    /// When the store fails.
    fn issues(&self, job: JobId, after: u64, limit: usize) -> Result<Vec<JournalEntry>>;

    /// As [`stook_store::Queue::failed_document`].
    ///
    /// # Errors
    /// When the store fails.
    fn failed_document(&self, job: JobId, document: u64) -> Result<Option<Vec<u8>>>;
}

impl FailedSource for dyn Store + '_ {
    fn issues(&self, job: JobId, after: u64, limit: usize) -> Result<Vec<JournalEntry>> {
        Ok(self.journal(job, after, limit, true)?)
    }

    fn failed_document(&self, job: JobId, document: u64) -> Result<Option<Vec<u8>>> {
        Ok(stook_store::Queue::failed_document(self, job, document)?)
    }
}

impl FailedSource for AdminStore {
    fn issues(&self, job: JobId, after: u64, limit: usize) -> Result<Vec<JournalEntry>> {
        Ok(self.journal(job, after, limit, true)?)
    }

    fn failed_document(&self, job: JobId, document: u64) -> Result<Option<Vec<u8>>> {
        Ok(AdminStore::failed_document(self, job, document)?)
    }
}

/// Where the files with failed documents are written.
pub trait FailedFiles {
    /// Begins the next file, with documents of `file`; what is written from now on belongs to it.
    ///
    /// # Errors
    /// When it cannot be written.
    fn begin(&mut self, file: &JobFile) -> Result<()>;

    /// The file that was begun last.
    fn out(&mut self) -> &mut dyn Write;
}

/// Which documents may be in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Together {
    /// Those of all files of the job.
    AllFiles,
    /// Those that were in one file.
    ByFile,
}

/// What was written.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct FailedReport {
    /// The number of documents in each file.
    pub files: Vec<u64>,
    /// The numbers of failed documents that are not kept.
    pub not_kept: Vec<u64>,
}

impl FailedReport {
    /// The number of documents that were written.
    pub fn documents(&self) -> u64 {
        self.files.iter().sum()
    }

    /// Says of documents that are not kept that they are missing.
    pub fn sentence(&self) -> Option<String> {
        let all = self.not_kept.len();
        let first: Vec<String> = self.not_kept.iter().take(MAX_NAMED).map(u64::to_string).collect();
        let more = if all > MAX_NAMED { format!(" and {} more", all - MAX_NAMED) } else { String::new() };
        let noun = if all == 1 { "document" } else { "documents" };
        let reason = "of a chunk, failed documents are kept up to 1 MiB, each up to 256 KiB; take them from the original file";
        (all > 0).then(|| format!("{noun} {}{more} failed, too, but nothing of them is kept: {reason}", first.join(", ")))
    }
}

/// The maximum number of documents that a message names.
const MAX_NAMED: usize = 10;

/// Writes the failed documents of a job in the form in which they came, as files that its source reads: usually one, but several if they cannot be in one
/// file.
///
/// # Errors
/// When the definition no longer has the job's source, or reading or writing fails.
pub fn write_failed(
    catalogue: &Catalogue,
    store: &(impl FailedSource + ?Sized),
    job: &Job,
    together: Together,
    files: &mut dyn FailedFiles,
) -> Result<FailedReport> {
    let (_, source) = catalogue.source(&job.source).ok_or_else(|| no_source(&job.source))?;
    let mut report = FailedReport::default();
    let mut framed: Option<(Framer<'_>, &JobFile)> = None;
    let failed = |error| EngineError::File { path: format!("the failed documents of job {}", job.id), error };
    let mut after = 0;
    loop {
        let page = store.issues(job.id, after, PAGE)?;
        let Some(last) = page.last() else { break };
        let mut previous = after;
        for entry in page.iter().filter(|entry| entry.outcome == Outcome::Failed) {
            // a document may have failed in several collections
            if entry.document == std::mem::replace(&mut previous, entry.document) {
                continue;
            }
            let file = job.files.iter().find(|file| file.path == entry.file);
            let kept = store.failed_document(job.id, entry.document)?.filter(|bytes| is_complete(bytes));
            let (Some(file), Some(document)) = (file.and_then(|file| Some((file, syntax(file)?))), kept) else {
                report.not_kept.push(entry.document);
                continue;
            };
            let (file, file_syntax) = file;
            let fits = |(framer, begun): &(Framer<'_>, &JobFile)| {
                framer.fits(&document) && syntax(begun) == Some(file_syntax) && (together == Together::AllFiles || begun.path == file.path)
            };
            if !framed.as_ref().is_some_and(fits) {
                if let Some((mut framer, _)) = framed.take() {
                    framer.finish(files.out()).map_err(failed)?;
                }
                files.begin(file)?;
                report.files.push(0);
                framed = Some((Framer::new(file_syntax, source), file));
            }
            if let (Some((framer, _)), Some(count)) = (&mut framed, report.files.last_mut()) {
                framer.write(files.out(), &document).map_err(failed)?;
                *count += 1;
            }
        }
        after = last.document;
    }
    if let Some((mut framer, _)) = framed {
        framer.finish(files.out()).map_err(failed)?;
    }
    Ok(report)
}

/// Files in a temporary folder, each to become a file of a job.
struct Spool {
    folder: tempfile::TempDir,
    files: Vec<JobFile>,
    paths: Vec<PathBuf>,
    out: BufWriter<Box<dyn Write>>,
}

impl FailedFiles for Spool {
    fn begin(&mut self, file: &JobFile) -> Result<()> {
        let path = self.folder.path().join(self.files.len().to_string());
        let failed = |error| EngineError::File { path: path.display().to_string(), error };
        self.out.flush().map_err(failed)?;
        self.out = BufWriter::new(Box::new(File::create(&path).map_err(failed)?));
        let name = file.path.strip_prefix(UPLOADED).unwrap_or(&file.path);
        let name = Path::new(name).file_name().map_or_else(|| name.to_owned(), |name| name.to_string_lossy().into_owned());
        self.files.push(JobFile { path: format!("{UPLOADED}{name}"), size: 0, compressed: true, ..file.clone() });
        self.paths.push(path);
        Ok(())
    }

    fn out(&mut self) -> &mut dyn Write {
        &mut self.out
    }
}

/// Queues a job that imports the failed documents of another one again, with its source, its profile and the time of its delivery; workers may start it at
/// once. Also returns which documents are missing.
///
/// # Errors
/// When the job has not ended, none of its failed documents is kept, its source has complete deliveries, or the store fails.
pub fn retry(catalogue: &Catalogue, store: &dyn Store, job: &Job) -> Result<(Job, FailedReport)> {
    if !job.state.is_final() {
        return Err(EngineError::Wrong(format!("job {} has not ended; wait for its end, or cancel it", job.id)));
    }
    let (_, source) = catalogue.source(&job.source).ok_or_else(|| no_source(&job.source))?;
    if source.complete_files().is_some() {
        let name = &source.name;
        let advice = "mend them in the complete file, and import that";
        return Err(EngineError::Wrong(format!("source `{name}` has complete deliveries, of which some documents are not one; {advice}")));
    }
    let failed = |error| EngineError::File { path: "the temporary folder".into(), error };
    let folder = tempfile::tempdir().map_err(failed)?;
    let out = BufWriter::new(Box::new(std::io::sink()) as Box<dyn Write>);
    let mut spool = Spool { folder, files: Vec::new(), paths: Vec::new(), out };
    let report = write_failed(catalogue, store, job, Together::ByFile, &mut spool)?;
    spool.out.flush().map_err(failed)?;
    if spool.files.is_empty() {
        return Err(EngineError::Wrong(report.sentence().unwrap_or_else(|| format!("job {} has no failed documents", job.id))));
    }
    for (file, path) in spool.files.iter_mut().zip(&spool.paths) {
        file.size = path.metadata().map_err(failed)?.len();
    }
    // their as-of time stays, unless they have one
    let as_of = job.as_of.or_else(|| job.files.first().map(|file| file.modified));
    let new =
        NewJob { tenant: Tenant::new(&job.tenant)?, profile: job.profile.clone(), source: job.source.clone(), as_of, files: spool.files.clone() };
    let id = store.create_job(new)?;
    let mut paths = spool.paths.iter();
    let open_next = |_: &JobFile| {
        let path = paths.next().ok_or_else(|| EngineError::Wrong("a file of failed documents is missing".into()))?;
        let mut opened = open(path).map_err(failed)?;
        opened.choose_sheet(&source.reading.csv).map_err(failed)?;
        Ok(opened)
    };
    Ok((queued::queue((store, id), &spool.files, source, open_next)?, report))
}
