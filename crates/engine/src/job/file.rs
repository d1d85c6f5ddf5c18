//! The files of a job: what they contain, and whether they have changed since the job was created.

use crate::{EngineError, Result};
use std::path::Path;
use std::time::UNIX_EPOCH;
use stook_catalogue::definition::{FormatFamily, Source};
use stook_formats::Syntax;
use stook_formats::read::{OpenedInput, open};
use stook_formats::strange::{beginning, is_html};
use stook_store::queue::JobFile;

/// The prefix of the names of uploaded files.
pub const UPLOADED: &str = "upload:";

/// Checks a file before a job is created for it.
///
/// # Errors
/// When it cannot be read, or does not contain what the source reads.
pub fn inspect(path: &Path, source: &Source) -> Result<JobFile> {
    let failed = |error| EngineError::File { path: path.display().to_string(), error };
    let path = path.canonicalize().map_err(failed)?;
    let metadata = path.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(EngineError::Wrong(format!("{} is a folder; give its files", path.display())));
    }
    let mut opened = open(&path).map_err(failed)?;
    opened.choose_sheet(&source.reading.csv).map_err(failed)?;
    let syntax = fitting(&opened, source, &path.display().to_string())?;
    Ok(JobFile {
        path: path.display().to_string(),
        size: metadata.len(),
        modified: modified(&metadata),
        syntax: syntax.map(|syntax| syntax.name().to_owned()),
        compressed: !opened.is_plain(),
        ..JobFile::default()
    })
}

/// Opens a file of a job, if it is as it was when the job was created.
///
/// # Errors
/// When it has changed since, or cannot be read.
pub fn open_file(file: &JobFile, source: &Source) -> Result<OpenedInput> {
    let failed = |error| EngineError::File { path: file.path.clone(), error };
    check_unchanged(file)?;
    let mut opened = open(Path::new(&file.path)).map_err(failed)?;
    opened.choose_sheet(&source.reading.csv).map_err(failed)?;
    Ok(opened)
}

/// The syntax in which a source reads a file; `None` if the file is empty and may be. A file that must contain a list of documents is never
/// completely empty.
pub(crate) fn fitting(opened: &OpenedInput, source: &Source, name: &str) -> Result<Option<Syntax>> {
    let wanted = source.family;
    if opened.syntax.is_none_or(|found| found.as_family(wanted).is_none()) && is_declared_empty(source, &opened.beginning) {
        return Ok(None);
    }
    let Some(found) = opened.syntax else {
        let is_list = wanted == FormatFamily::Xml || source.records.is_some();
        return if is_list { Err(no_document(name, &opened.beginning, "it is empty")) } else { Ok(None) };
    };
    // HTML is XML for a source that names the elements of its documents; for others it is an error page
    if is_html(&opened.beginning) && (wanted != FormatFamily::Xml || source.records.is_none()) {
        return Err(no_document(name, &opened.beginning, "it looks like HTML"));
    }
    let other = || unexpected_content(opened, name, &format!("looks like {}, source `{}` reads {}", found.name(), source.name, wanted.name()));
    found.as_family(wanted).map(Some).ok_or_else(other)
}

/// The error for a file in a format that is not expected.
pub(crate) fn unexpected_content(opened: &OpenedInput, name: &str, what: &str) -> EngineError {
    if is_html(&opened.beginning) {
        return no_document(name, &opened.beginning, what);
    }
    EngineError::NoDocument { name: name.to_owned(), reason: format!("{what}; it begins with: {}", beginning(&opened.beginning)) }
}

/// The error for a file without documents, with what is missing in it.
pub(crate) fn no_document(name: &str, beginning: &[u8], missing: &str) -> EngineError {
    EngineError::NoDocument { name: name.to_owned(), reason: stook_formats::strange::no_document(beginning, missing) }
}

/// Checks that a file that has been read was a list of documents, even if an empty one. Returns false if it was none, but the definition
/// allows this as an empty file. `missing` describes the list that was not found.
///
/// # Errors
/// When the list is missing and the definition does not describe the file as empty.
pub(crate) fn check_list(missing: Option<String>, source: &Source, name: &str, beginning: &[u8]) -> Result<bool> {
    let Some(missing) = missing else { return Ok(true) };
    if is_declared_empty(source, beginning) { Ok(false) } else { Err(no_document(name, beginning, &missing)) }
}

/// Whether a file or an answer is empty in the way that the definition describes.
pub(crate) fn is_declared_empty(source: &Source, beginning: &[u8]) -> bool {
    source.empty.as_ref().is_some_and(|empty| empty.is_match(&String::from_utf8_lossy(beginning)))
}

fn modified(metadata: &std::fs::Metadata) -> i64 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_micros() as i64)
}

/// Checks that a file has not changed since its job was created.
///
/// # Errors
/// When it has changed, or cannot be read.
pub fn check_unchanged(file: &JobFile) -> Result<()> {
    let metadata = Path::new(&file.path).metadata().map_err(|error| EngineError::File { path: file.path.clone(), error })?;
    if metadata.len() != file.size || modified(&metadata) != file.modified {
        return Err(EngineError::Wrong(format!("{} has changed since the job was created; import it again", file.path)));
    }
    Ok(())
}

/// Whether a failed document is kept completely: earlier versions kept the first 64 KiB of longer ones.
pub(crate) fn is_complete(document: &[u8]) -> bool {
    document.len() != 64 << 10
}

/// The syntax of a job's file; `None` if the file is empty.
pub fn syntax(file: &JobFile) -> Option<Syntax> {
    file.syntax.as_deref().and_then(Syntax::named)
}
