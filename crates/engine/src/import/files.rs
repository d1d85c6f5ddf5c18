//! Files and folders that are imported together: which files there are, and which source reads each.

use super::request::ImportRequest;
use crate::job::source::{Claim, claim, claimed_by, guess_source, named_source};
use crate::{EngineError, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::SourceId;
use stook_formats::read::open;

/// The maximum number of files that an error message names.
pub const MAX_NAMED_FILES: usize = 10;
/// How the names of files end that are still being written.
const UNFINISHED: [&str; 2] = [".part", ".tmp"];

/// Files, sorted by the source that reads them.
#[derive(Debug)]
pub struct SortedFiles {
    /// One import for each source, in the order of the definition.
    pub imports: Vec<ImportRequest>,
    /// Files that no source claims, in the order in which they were found.
    pub unclaimed: Vec<PathBuf>,
    /// Whether a folder or several files were given, so that files that no source claims are ignored.
    pub is_many: bool,
}

/// Finds the files of a request, including those of its folders in the byte order of their paths, and the source of each; if the request names a
/// source or a profile, it reads them all. A single file that no source claims is an error.
///
/// # Errors
/// When a folder has no files, a file cannot be read, or several sources claim one.
pub fn sort_files(catalogue: &Catalogue, request: &ImportRequest) -> Result<SortedFiles> {
    if request.files.is_empty() {
        return Err(EngineError::Wrong("no file was given".into()));
    }
    let is_many = request.files.len() > 1 || request.files[0].is_dir();
    let files = found(&request.files)?;
    let of = |source: SourceId, files: Vec<PathBuf>| ImportRequest { files, source: Some(catalogue.sources[source].name.clone()), ..request.clone() };
    if let Some(source) = named_source(catalogue, request.source.as_deref(), request.profile.as_deref())? {
        return Ok(SortedFiles { imports: vec![of(source, files)], unclaimed: Vec::new(), is_many });
    }
    let (mut by_source, mut unclaimed, mut contested) = (BTreeMap::<SourceId, Vec<PathBuf>>::new(), Vec::new(), Vec::new());
    for file in files {
        let name = file.display().to_string();
        let mut opened = open(&file).map_err(|error| EngineError::File { path: name.clone(), error })?;
        if !is_many {
            let source = guess_source(catalogue, &mut opened, &name)?;
            return Ok(SortedFiles { imports: vec![of(source, vec![file])], unclaimed, is_many });
        }
        match claim(catalogue, &mut opened, &name)? {
            Claim::Source(source) => by_source.entry(source).or_default().push(file),
            Claim::Nobody => unclaimed.push(file),
            Claim::Several(several) => contested.push(claimed_by(catalogue, &opened, &name, &several)),
        }
    }
    if !contested.is_empty() {
        let remaining = contested.len().saturating_sub(MAX_NAMED_FILES);
        contested.truncate(MAX_NAMED_FILES);
        if remaining > 0 {
            contested.push(format!("and {remaining} more files are of several sources"));
        }
        return Err(EngineError::Wrong(contested.join("\n")));
    }
    let imports = by_source.into_iter().map(|(source, files)| of(source, files)).collect();
    Ok(SortedFiles { imports, unclaimed, is_many })
}

/// The given files and the files of the given folders, each once.
fn found(given: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut seen = BTreeSet::new();
    let mut files = Vec::new();
    for path in given {
        let paths = if path.is_dir() { below(path)? } else { vec![path.clone()] };
        if paths.is_empty() {
            return Err(EngineError::Wrong(format!("{} has no files", path.display())));
        }
        for file in paths {
            // opening it will report if it does not exist
            if seen.insert(file.canonicalize().unwrap_or_else(|_| file.clone())) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

/// The files of a folder and its subfolders, in the byte order of their paths. Symbolic links are not followed; files that are hidden or still being
/// written are left out.
pub(crate) fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let failed = |error| EngineError::File { path: folder.display().to_string(), error };
        for entry in folder.read_dir().map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
            let name = entry.file_name();
            let bytes = name.as_encoded_bytes();
            if bytes.starts_with(b".") || UNFINISHED.iter().any(|end| bytes.ends_with(end.as_bytes())) {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && path.to_str().is_some() {
                files.push(path);
            } else if kind.is_file() {
                return Err(EngineError::Wrong(format!("{}: the name is not UTF-8; rename the file", path.display())));
            }
        }
    }
    files.sort_by(|one, other| one.as_os_str().as_encoded_bytes().cmp(other.as_os_str().as_encoded_bytes()));
    Ok(files)
}
