//! `undo`: takes out of the records what a job has contributed.

use super::jobs::{EndedRun, exit_code, report, to_json};
use super::settle;
use crate::open::CatalogueLocation;
use crate::output::{count, number};
use crate::process::{stop_signal, threads};
use crate::{CommandError, CommandResult};
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Instant;
use stook_engine::undo;
use stook_engine::work::JobRun;
use stook_store::journal::Outcome;
use stook_store::queue::JobId;

pub fn undo(location: &CatalogueLocation, job: JobId, detach: bool, as_json: bool) -> CommandResult {
    let (catalogue, store) = location.written_existing()?;
    let began = Instant::now();
    let id = undo::start(&catalogue, &*store, job)?;
    let started = store.job(id)?;
    if detach {
        if as_json {
            say!("{}", to_json(&started)?);
        } else {
            say!("job {id}: {} queued to undo job {job}; run `stook work` to process them", count(started.progress.documents, "document"));
        }
        return Ok(0);
    }
    let bar = ProgressBar::new(started.progress.documents.max(1));
    if let Ok(style) = ProgressStyle::with_template("undoing {bar:30} {pos}/{len} documents {per_sec}") {
        bar.set_style(style);
    }
    let stop = stop_signal()?;
    let run = JobRun { job: id, workers: threads(None), settles: true, stop: &stop };
    let ended = undo::run(&catalogue, &*store, &run, &|documents| bar.set_position(documents));
    bar.finish_and_clear();
    let ended = ended.map_err(|error| CommandError::new(format!("job {id}: {error}\ncontinue it: stook undo {job}")))?;
    let shown = EndedRun { job: &ended, documents_before: started.counts.documents, elapsed: began.elapsed(), changes: None };
    report((&catalogue, &*store), &shown, as_json)?;
    let kept = ended.counts.of(Outcome::Failed).max(0) as u64;
    if kept > 0 {
        eprintln!("{} keep what job {job} contributed; when that is mended, run `stook undo {job}` again", count(kept, "record"));
    }
    if !ended.state.is_final() {
        let left = number(ended.documents_found() - ended.documents_done());
        return Err(CommandError::new(format!(
            "job {id} was interrupted: {left} documents of job {job} are not undone yet\n  workers will process them (`stook work`, or a running `stook serve`), or run: stook undo {job}"
        )));
    }
    if !store.is_settled(id)? {
        return Err(CommandError::new(format!("job {job} is undone, but {}", settle::INTERRUPTED)));
    }
    Ok(exit_code(ended.state))
}
