//! `work`.

use super::jobs::{EndedRun, exit_code, report, words};
use super::settle;
use crate::arguments::import::WorkArgs;
use crate::open::CatalogueLocation;
use crate::output::{count, failure, number};
use crate::process::{stop_signal, threads};
use crate::{CommandError, CommandResult};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stook_engine::work::{self, WorkerEvent, WorkerOptions};

pub fn work(location: &CatalogueLocation, arguments: &WorkArgs) -> CommandResult {
    let stop = stop_signal()?;
    let catalogue = location.catalogue()?;
    let store = location.prepared(&catalogue, false)?;
    let options = WorkerOptions {
        workers: threads(arguments.workers),
        lease_seconds: arguments.lease.max(1),
        drain: arguments.drain,
        settles: true,
        only: None,
    };
    // drawn only on a terminal
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(200));
    if !arguments.json && !arguments.drain {
        bar.suspend(|| eprintln!("{} processing the queue; Ctrl-C stops after the current chunks", count(options.workers as u64, "worker")));
    }
    let worst_severity = std::sync::atomic::AtomicU8::new(0);
    let report_event = |event| match event {
        WorkerEvent::Committed(documents) => {
            let rate = documents as f64 / bar.elapsed().as_secs_f64().max(0.001);
            let suffix = if stop.load(Ordering::SeqCst) { ", ending" } else { "" };
            bar.set_message(format!("{} documents  {}/s{suffix}", number(documents), number(rate as u64)));
        }
        // if standard error is not a terminal, tasks are logged as by the server
        WorkerEvent::TaskDone(_) if !std::io::stderr().is_terminal() => stook_server::worked(&event),
        WorkerEvent::TaskDone(stage) => bar.suspend(|| {
            stage.damaged.iter().for_each(|reason| eprintln!("warning: not settled: {reason}"));
            settle::warn(&stage.failures);
        }),
        WorkerEvent::Ended(job) => bar.suspend(|| {
            worst_severity.fetch_max(severity(exit_code(job.state)), Ordering::SeqCst);
            let took = Duration::from_micros((job.finished.unwrap_or(job.created) - job.created).max(0) as u64);
            let ended = EndedRun { job: &job, documents_before: 0, elapsed: took, changes: None };
            if report((&catalogue, &*store), &ended, arguments.json).is_err() {
                say!("job {}: {}", job.id, words(job.state));
            }
        }),
        WorkerEvent::StoreUnavailable(error) => bar.suspend(|| eprintln!("{}", failure(&format!("{error}; retrying")))),
    };
    let ended = work::run(&catalogue, &*store, &options, &stop, &report_event);
    bar.finish_and_clear();
    ended?;
    match settle::interruption(&catalogue, &*store, &stop)? {
        // with --drain, work is complete only when everything is settled
        Some(message) if arguments.drain => return Err(CommandError::new(message)),
        Some(message) => eprintln!("note: {message}"),
        None if arguments.drain && stop.load(Ordering::SeqCst) && !store.is_idle()? => {
            return Err(CommandError::new("work was interrupted: the queue still has chunks; run `stook work --drain` again"));
        }
        None => {}
    }
    // with --drain, the exit code is the worst result of a job
    Ok(if arguments.drain { severity(worst_severity.into_inner()) } else { 0 })
}

/// Maps exit codes to their severity, and back: 0, 2 (some documents failed), 1.
fn severity(code: u8) -> u8 {
    match code {
        1 => 2,
        2 => 1,
        other => other,
    }
}
