//! `journal`: the outcomes of a job's documents, and the documents that failed.

use super::jobs::file_name;
use crate::arguments::queue::JournalArgs;
use crate::open::CatalogueLocation;
use crate::output::{count, stream};
use crate::output_file::Output;
use crate::{CommandError, CommandResult};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use stook_engine::EngineError;
use stook_engine::import::{self, FailedFiles, Together};
use stook_engine::settle::complete_delivery::{self, RetirementReport};
use stook_store::queue::JobFile;

/// Entries of a journal read at one time.
const PAGE: usize = 5_000;

pub fn journal(location: &CatalogueLocation, arguments: &JournalArgs) -> CommandResult {
    let JournalArgs { job, errors, limit, json: as_json, .. } = *arguments;
    if arguments.failed {
        return failed(location, arguments);
    }
    let store = location.admin_store(true)?;
    let mut out = stream();
    let mut after = 0;
    let mut remaining = limit;
    let mut file = None;
    loop {
        let page = store.journal(job, after, remaining.map_or(PAGE, |remaining| remaining.min(PAGE)), errors)?;
        let Some(last) = page.last() else { break };
        after = last.document;
        remaining = remaining.map(|remaining| remaining.saturating_sub(page.len()));
        for entry in &page {
            if as_json {
                writeln!(out, "{}", serde_json::to_string(entry)?)?;
            } else {
                if file.is_none() {
                    writeln!(out, "{:>9}  {:>9}  {:>11}  {:<11} {:<14} key / reason", "document", "record", "byte", "outcome", "collection")?;
                }
                if file.as_ref() != Some(&entry.file) {
                    writeln!(out, "{}", file_name(&entry.file))?;
                    file = Some(entry.file.clone());
                }
                let reasons = if entry.reasons.is_empty() { String::new() } else { format!("  {}", entry.reasons.join("; ")) };
                writeln!(
                    out,
                    "{:>9}  {:>9}  {:>11}  {:<11} {:<14} {}{reasons}",
                    entry.document,
                    entry.record,
                    entry.offset,
                    entry.outcome.name(),
                    entry.collection.as_deref().unwrap_or_default(),
                    entry.key.as_deref().unwrap_or_default(),
                )?;
            }
        }
        if remaining == Some(0) {
            break;
        }
    }
    // results of complete deliveries need the definition
    match location.read() {
        Ok((catalogue, store)) => {
            let replaced = complete_delivery::retirement_report(&*store, &catalogue, &store.job(job)?)?;
            if let (Some(replaced), true) = (&replaced, as_json) {
                writeln!(out, "{}", json!({ "replaced": replaced }))?;
            }
            for sentence in replaced.iter().flat_map(RetirementReport::sentences).filter(|_| !as_json) {
                writeln!(out, "{sentence}")?;
            }
        }
        Err(failure) => {
            let reason = failure.message.lines().next().unwrap_or_default().to_owned();
            eprintln!("note: whether older deliveries were retired could not be determined: {reason}");
        }
    }
    out.flush()?;
    Ok(0)
}

/// The files with failed documents.
struct FailedOutput<'o> {
    /// As it was given; standard output otherwise.
    path: Option<&'o Path>,
    /// The files that were begun, with what was written to them.
    begun: Vec<(Option<PathBuf>, Output)>,
    nowhere: std::io::Sink,
}

impl FailedFiles for FailedOutput<'_> {
    fn begin(&mut self, _: &JobFile) -> Result<(), EngineError> {
        let path = match (self.path, self.begun.len()) {
            (None, 1..) => {
                return Err(EngineError::Wrong(
                    "these documents cannot be in one file, because their headers or formats differ; give -o FILE".into(),
                ));
            }
            (path, 0) => path.map(Path::to_owned),
            (Some(path), others) => Some(numbered(path, others + 1)),
        };
        let output = Output::new(path.as_deref()).map_err(|failure| EngineError::Wrong(failure.message))?;
        self.begun.push((path, output));
        Ok(())
    }

    fn out(&mut self) -> &mut dyn Write {
        match self.begun.last_mut() {
            Some((_, output)) => output,
            None => &mut self.nowhere,
        }
    }
}

/// Returns the path with a number before its extension.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy())).unwrap_or_default();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}.{number}{extension}"))
}

/// Writes the failed documents of a job. The exit code is 2 if some of them are not kept.
fn failed(location: &CatalogueLocation, arguments: &JournalArgs) -> CommandResult {
    if arguments.json && arguments.output.is_none() {
        return Err(CommandError::usage("--json with --failed needs -o FILE, because the documents go to standard output"));
    }
    let catalogue = location.catalogue()?;
    let store = location.admin_store(true)?;
    let job = store.job(arguments.job)?;
    let mut files = FailedOutput { path: arguments.output.as_deref(), begun: Vec::new(), nowhere: std::io::sink() };
    let report = import::write_failed(&catalogue, &store, &job, Together::AllFiles, &mut files)?;
    let missing = report.sentence();
    if report.files.is_empty() {
        return Err(CommandError::new(missing.unwrap_or_else(|| format!("job {} has no failed documents", job.id))));
    }
    let mut written = Vec::new();
    for ((path, output), documents) in files.begun.into_iter().zip(&report.files) {
        output.finish()?;
        written.extend(path.map(|path| (path.display().to_string(), *documents)));
    }
    if arguments.json {
        let files: Vec<_> = written.iter().map(|(file, documents)| json!({ "file": file, "documents": documents })).collect();
        say!("{}", json!({ "documents": report.documents(), "files": files, "not_kept": report.not_kept }));
    } else {
        written.iter().for_each(|(file, documents)| say!("{file}: {}", count(*documents, "failed document")));
        if let Some(missing) = &missing {
            eprintln!("warning: {missing}");
        }
    }
    Ok(if missing.is_some() { 2 } else { 0 })
}
