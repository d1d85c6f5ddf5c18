//! Collects files that are new or have changed: of a folder, of a web server, of a bucket (`bucket.rs`).
//!
//! Each file becomes an import job of its own. Of each, the store keeps what tells whether it has changed: the size and time of a file in a
//! folder, the entity tag of an object, and what a web server says to be asked whether it has. A file whose import fails is collected again the next
//! time, and the other files are collected all the same. Files that are no longer there change nothing in the catalogue.

use super::bucket::S3Bucket;
use super::collect::{ATTEMPTS, CollectReport, FIRST_PAUSE, pause_until};
use super::download::{Download, download};
use super::http::{HttpAttempt, HttpClient, persist};
use super::page::{DeliveredFile, PageImport};
use crate::import::{self, ImportRequest, files::below};
use crate::relations::SettlingUnit;
use crate::{EngineError, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::UNIX_EPOCH;
use stook_catalogue::definition::{Collect, FileLocation, FilesOfFolder};
use stook_catalogue::value::SmolStr;
use stook_store::queue::{Job, JobState};
use stook_store::{Edge, EdgeChange, SettlingChanges};
use tempfile::NamedTempFile;

/// The maximum number of files of a location.
pub(super) const MAX_FILES: usize = 100_000;
/// What stands after a location's name where its versions are kept: apart from its watermark, which is read without them. The line break keeps names apart.
const VERSIONS: &str = "\nfiles";
/// Longer names are kept as hashes, because indexes of databases limit their keys.
const MAX_NAME_BYTES: usize = 500;
/// How many reasons of files that failed are reported.
const MAX_REASONS: usize = 5;

/// A file that was fetched once, to be imported.
#[derive(Debug)]
pub struct FetchedFile {
    /// Where it is from, without secrets.
    pub name: String,
    /// Its bytes, in a temporary file at its beginning.
    pub bytes: NamedTempFile,
    /// Their number.
    pub size: u64,
    /// When it was changed, in microseconds, if that is known.
    pub modified: Option<i64>,
    /// Whether it is a page of a list, and a header (`Link`) says where the next one is.
    pub goes_on: bool,
}

/// Whether a location is not one of this machine.
pub fn is_remote(location: &str) -> bool {
    location.contains("://")
}

/// Fetches one file of a web server or a bucket, with the keys of the environment for the latter.
///
/// # Errors
/// When the location is not that of one such file, or it cannot be fetched.
pub fn fetch_file(location: &str, stop: &AtomicBool) -> Result<FetchedFile> {
    let wrong = |reason: String| EngineError::Wrong(format!("{}: {reason}", shown_url(location)));
    let one_file = "only one file can be imported from elsewhere; `collect: { files: … }` of a source collects the files of a bucket";
    let download = match FileLocation::parse(location).map_err(wrong)? {
        FileLocation::Web(url) => {
            let client = HttpClient::for_files(&url, None)?;
            fetched(|| download(&client, &url, &[], stop), stop)
        }
        FileLocation::Bucket { bucket: name, folder, files: FilesOfFolder::Named(key) } => {
            let bucket = S3Bucket::of_environment(&name, None).map_err(wrong)?;
            fetched(|| download(bucket.client(), &bucket.url(&format!("{folder}{key}")), &[], stop), stop)
        }
        FileLocation::Bucket { .. } | FileLocation::Folder { .. } => Err(one_file.to_owned()),
    };
    let download =
        download.map_err(wrong)?.ok_or_else(|| wrong("the server says that nothing has changed, although it was not asked that".into()))?;
    let (name, modified) = (shown_url(location).to_owned(), download.modified());
    Ok(FetchedFile { name, bytes: download.file, size: download.size, modified, goes_on: download.goes_on })
}

/// Downloads a file, with several attempts; `None` if it has not changed.
fn fetched(attempt: impl FnMut() -> HttpAttempt<Option<Download>>, stop: &AtomicBool) -> std::result::Result<Option<Download>, String> {
    persist(ATTEMPTS, FIRST_PAUSE, &|pause| pause_until(pause, stop), attempt)
}

/// A file of a location.
pub(super) struct ListedFile {
    /// Its name there: a path or a key; the URL of a file of a web server.
    pub(super) name: String,
    /// What is different when the file has changed; a web server has to be asked.
    pub(super) mark: Option<String>,
    /// When it was changed, in microseconds.
    pub(super) modified: Option<i64>,
    /// Its size in bytes.
    pub(super) size: Option<u64>,
}

/// What the store keeps of a file that was collected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct FileVersion {
    /// As in [`ListedFile`], or the entity tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_modified: Option<String>,
    /// The hash of its bytes, if it was downloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
}

/// Where files come from, ready to be listed and read.
enum OpenLocation {
    Folder { folder: PathBuf, files: FilesOfFolder },
    Web { url: String, client: HttpClient },
    Bucket { name: String, bucket: Box<S3Bucket>, folder: String, files: FilesOfFolder },
}

/// What became of a file.
enum Collected {
    Imported(Box<Job>, FileVersion),
    /// Its bytes are those that were collected before.
    Unchanged(FileVersion),
}

/// Collects the files of one location.
pub(super) struct FileCollection<'f> {
    pages: &'f PageImport<'f>,
    collect: &'f Collect,
    service: &'f str,
    versions: HashMap<SmolStr, FileVersion>,
}

impl<'f> FileCollection<'f> {
    pub(super) fn new(pages: &'f PageImport<'f>, collect: &'f Collect, service: &'f str) -> Result<Self> {
        let versions = pages.store.edges(&pages.request.tenant, collect.id, &format!("{service}{VERSIONS}"))?;
        // a version that cannot be read is that of a file to be collected again
        let versions = versions.into_iter().map(|edge| (edge.child, serde_json::from_slice(&edge.payload).unwrap_or_default())).collect();
        Ok(Self { pages, collect, service, versions })
    }

    /// Imports files that are new or have changed; returns the time at which they were listed, unless it was stopped.
    pub(super) fn collect(&self, location: &str, done: &mut CollectReport, show: &dyn Fn(&CollectReport)) -> Result<Option<i64>> {
        let listed_at = self.pages.store.clock();
        let location = self.open(location).map_err(|reason| self.failed(&reason))?;
        let (mut files, mut failures) = self.list(&location).map_err(|reason| self.failed(&reason))?;
        files.sort_by(|one, other| (one.modified, &one.name).cmp(&(other.modified, &other.name)));
        self.forget_missing(&files)?;
        let request = self.pages.request;
        // a time on the command line asks for files again
        let from = request.since.or(self.collect.since);
        let until = request.until.unwrap_or(listed_at - self.collect.lag);
        for file in &files {
            if self.pages.stop.load(Ordering::SeqCst) {
                return Ok(None);
            }
            if file.modified.is_some_and(|modified| from.is_some_and(|from| modified < from) || modified > until) {
                continue;
            }
            let known = self.versions.get(&stored_name(&file.name)).filter(|_| request.since.is_none());
            if known.is_some_and(|known| file.mark.is_some() && known.mark == file.mark) {
                *done.unchanged_files.get_or_insert(0) += 1;
                continue;
            }
            match self.take(&location, file, known) {
                Ok(None) => return Ok(None),
                Ok(Some(Collected::Unchanged(version))) => {
                    *done.unchanged_files.get_or_insert(0) += 1;
                    self.note(&file.name, &version)?;
                }
                Ok(Some(Collected::Imported(job, version))) => {
                    done.pages += 1;
                    done.counts.include(&job.counts);
                    show(done);
                    match job.state {
                        JobState::Completed | JobState::CompletedWithErrors => self.note(&file.name, &version)?,
                        // until it changes, it would be refused again
                        _ if job.is_refused() => {
                            self.note(&file.name, &version)?;
                            failures.push(format!("{}: job {}: {}", file.name, job.id, job.reason.as_deref().unwrap_or("refused")));
                        }
                        state => {
                            failures.push(format!("{}: job {} is {}; the file is collected again the next time", file.name, job.id, state.name()))
                        }
                    }
                }
                Err(reason) => failures.push(format!("{}: {reason}", file.name)),
            }
        }
        if failures.is_empty() {
            return Ok(Some(listed_at));
        }
        let remaining = failures.len().saturating_sub(MAX_REASONS);
        failures.truncate(MAX_REASONS);
        if remaining > 0 {
            failures.push(format!("and {remaining} more"));
        }
        Err(self.failed(&failures.join("\n  ")))
    }

    fn open(&self, location: &str) -> std::result::Result<OpenLocation, String> {
        let credentials = self.collect.credentials.as_deref();
        Ok(match FileLocation::parse(location)? {
            FileLocation::Folder { folder, files } => {
                let folder = self.pages.request.folder.join(folder);
                if !folder.is_dir() {
                    return Err(format!("{} is not a folder", folder.display()));
                }
                OpenLocation::Folder { folder, files }
            }
            FileLocation::Web(url) => {
                let client = HttpClient::for_files(&url, credentials).map_err(|error| error.to_string())?;
                OpenLocation::Web { url, client }
            }
            FileLocation::Bucket { bucket: name, folder, files } => {
                let bucket = Box::new(S3Bucket::of_environment(&name, credentials)?);
                OpenLocation::Bucket { name, bucket, folder, files }
            }
        })
    }

    /// The files there are, and what is wrong with those that cannot be collected.
    fn list(&self, location: &OpenLocation) -> std::result::Result<(Vec<ListedFile>, Vec<String>), String> {
        match location {
            OpenLocation::Folder { folder, files } => Ok((listed_in_folder(folder, files)?, Vec::new())),
            OpenLocation::Web { url, .. } => {
                Ok((vec![ListedFile { name: shown_url(url).to_owned(), mark: None, modified: None, size: None }], Vec::new()))
            }
            OpenLocation::Bucket { bucket, folder, files, .. } => {
                let (objects, unusable) = bucket.objects(folder, files, self.pages.stop)?;
                Ok((objects, unusable.into_iter().map(|key| format!("{key}: a key with `.` or `..` between slashes cannot be asked for")).collect()))
            }
        }
    }

    /// Imports a file; returns `None` if it was stopped.
    fn take(&self, location: &OpenLocation, file: &ListedFile, known: Option<&FileVersion>) -> std::result::Result<Option<Collected>, String> {
        let (client, name): (_, String) = match location {
            OpenLocation::Folder { folder, .. } => return self.import_from(&folder.join(&file.name), file).map(Some),
            OpenLocation::Web { client, .. } => (client, file.name.clone()),
            OpenLocation::Bucket { name, bucket, .. } => (bucket.client(), format!("s3://{name}/{}", file.name)),
        };
        let attempt = || match location {
            OpenLocation::Bucket { bucket, .. } => download(client, &bucket.url(&file.name), &[], self.pages.stop),
            OpenLocation::Folder { .. } => HttpAttempt::GiveUp("a folder has no downloads".into()),
            OpenLocation::Web { url, .. } => {
                let condition = known.and_then(FileVersion::condition);
                download(client, url, condition.as_slice(), self.pages.stop)
            }
        };
        let downloaded = fetched(attempt, self.pages.stop);
        if self.pages.stop.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let Some(download) = downloaded? else {
            return Ok(Some(Collected::Unchanged(known.cloned().unwrap_or_default())));
        };
        if let Some(size) = file.size.filter(|size| *size != download.size) {
            return Err(format!("it has {} bytes instead of {size}; it is collected again the next time", download.size));
        }
        let version = FileVersion {
            mark: file.mark.clone().or_else(|| download.etag.clone()),
            last_modified: download.last_modified.clone(),
            hash: Some(download.hash.clone()),
        };
        if known.is_some_and(|known| known.hash == version.hash) {
            return Ok(Some(Collected::Unchanged(version)));
        }
        let as_of = file.modified.or_else(|| download.modified());
        let Download { file: bytes, size, .. } = download;
        let delivered = DeliveredFile { name, size, as_of, accepts_all: false };
        let job = self.pages.import_bytes(delivered, Box::new(bytes)).map_err(|error| error.to_string())?;
        Ok(Some(Collected::Imported(Box::new(job), version)))
    }

    /// Imports a file of a folder, which the job reads itself.
    fn import_from(&self, path: &Path, file: &ListedFile) -> std::result::Result<Collected, String> {
        let PageImport { catalogue, store, request, .. } = *self.pages;
        let request = ImportRequest {
            files: vec![path.to_owned()],
            profile: None,
            source: Some(self.pages.source_name()),
            tenant: request.tenant.clone(),
            as_of: None,
            part: None,
            arguments: Default::default(),
            retires_all: false,
            unexpected: false,
        };
        let run = || self.pages.run(import::create(catalogue, store, &request)?);
        let job = run().map_err(|error| error.to_string())?;
        Ok(Collected::Imported(Box::new(job), FileVersion { mark: file.mark.clone(), ..FileVersion::default() }))
    }

    /// Keeps which version of a file was collected.
    fn note(&self, name: &str, version: &FileVersion) -> Result<()> {
        let payload = serde_json::to_vec(version).map_err(|error| self.failed(&error.to_string()))?;
        self.write(vec![EdgeChange::Put(self.edge(stored_name(name), payload))])
    }

    /// Forgets the versions of files that are no longer there, so that what is kept does not grow for ever.
    fn forget_missing(&self, files: &[ListedFile]) -> Result<()> {
        let present: std::collections::HashSet<SmolStr> = files.iter().map(|file| stored_name(&file.name)).collect();
        let missing = self.versions.keys().filter(|name| !present.contains(*name));
        let changes: Vec<EdgeChange> = missing.map(|name| EdgeChange::Delete(self.edge(name.clone(), Vec::new()))).collect();
        if changes.is_empty() { Ok(()) } else { self.write(changes) }
    }

    fn edge(&self, child: SmolStr, payload: Vec<u8>) -> Edge {
        let target = format!("{}{VERSIONS}", self.service).into();
        Edge { link: self.collect.id, target, group: SmolStr::default(), start: 0, child, payload }
    }

    fn write(&self, edges: Vec<EdgeChange>) -> Result<()> {
        let unit = SettlingUnit { tenant: self.pages.request.tenant.clone(), settling: SettlingChanges { edges, ..SettlingChanges::default() } };
        self.pages.store.commit(Box::new(unit))?;
        Ok(())
    }

    fn failed(&self, reason: &str) -> EngineError {
        EngineError::Wrong(format!("files of `{}`: {reason}", self.service))
    }
}

impl FileVersion {
    /// The header that asks a web server whether the file has changed.
    fn condition(&self) -> Option<(&'static str, &str)> {
        let by_tag = self.mark.as_deref().map(|tag| ("if-none-match", tag));
        by_tag.or_else(|| Some(("if-modified-since", self.last_modified.as_deref()?)))
    }
}

/// The files of a folder, by their paths in it.
fn listed_in_folder(folder: &Path, files: &FilesOfFolder) -> std::result::Result<Vec<ListedFile>, String> {
    let mut listed = Vec::new();
    for path in below(folder).map_err(|error| error.to_string())? {
        let Some(name) = path.strip_prefix(folder).ok().and_then(Path::to_str).filter(|name| files.contain(name)) else { continue };
        // a file that is removed meanwhile is not there
        let Ok(metadata) = path.metadata() else { continue };
        let since_epoch = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = since_epoch.and_then(|time| i64::try_from(time.as_micros()).ok());
        let mark = format!("{} bytes, {}", metadata.len(), since_epoch.map_or(0, |time| time.as_nanos()));
        listed.push(ListedFile { name: name.to_owned(), mark: Some(mark), modified, size: Some(metadata.len()) });
        if listed.len() > MAX_FILES {
            return Err(format!("{} has more than {MAX_FILES} files", folder.display()));
        }
    }
    Ok(listed)
}

/// A URL without its query, which may have secrets in it.
fn shown_url(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

/// The name under which the version of a file is kept.
fn stored_name(name: &str) -> SmolStr {
    if name.len() <= MAX_NAME_BYTES { name.into() } else { blake3::hash(name.as_bytes()).to_hex().as_str().into() }
}
