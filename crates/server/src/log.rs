//! The log: one JSON object a line on standard error.

use serde_json::{Map, Value as Json};
use std::io::Write;
use stook_engine::work::WorkerEvent;
use stook_store::journal::Outcome;

/// What is logged of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestLogLevel {
    /// Nothing.
    None,
    /// Those that failed on this side, or took longer than a second.
    Problems,
    /// All.
    All,
}

/// Writes what workers report: a line for each chunk and pass that ended, each job, and trouble.
pub fn worked(event: &WorkerEvent) {
    match event {
        WorkerEvent::Committed(_) => {}
        WorkerEvent::TaskDone(stage) => {
            let count = |outcome| (stage.job.is_some()).then(|| stage.counts.of(outcome)).into();
            write(
                "stage",
                [
                    ("stage", stage.name.into()),
                    ("tenant", stage.tenant.as_str().into()),
                    ("job", stage.job.into()),
                    ("created", count(Outcome::Created)),
                    ("updated", count(Outcome::Updated)),
                    ("unchanged", count(Outcome::Unchanged)),
                    ("answered", (stage.job.is_none()).then_some(stage.marks_cleared).into()),
                    ("rows", stage.rows.into()),
                    ("failing", (stage.failures.count > 0).then_some(stage.failures.count).into()),
                    ("fails", if stage.failures.first.is_empty() { Json::Null } else { stage.failures.first.clone().into() }),
                    ("damaged", if stage.damaged.is_empty() { Json::Null } else { stage.damaged.clone().into() }),
                    ("seconds", ((stage.took.as_secs_f64() * 1e6).round() / 1e6).into()),
                ],
            );
        }
        WorkerEvent::Ended(job) => write(
            "job",
            [
                ("id", job.id.into()),
                ("tenant", job.tenant.as_str().into()),
                ("state", job.state.name().into()),
                ("reason", job.reason.as_deref().into()),
            ],
        ),
        WorkerEvent::StoreUnavailable(error) => write("work", [("error", error.to_string().into())]),
    }
}

/// Writes a line with the time and these members.
pub fn write(event: &str, members: impl IntoIterator<Item = (&'static str, Json)>) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
    let mut line = Map::new();
    line.insert("time".into(), stook_catalogue::value::show_timestamp(now).into());
    line.insert("event".into(), event.into());
    line.extend(members.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.to_owned(), value)));
    let line = format!("{}\n", Json::Object(line));
    // a log that cannot be written must not stop the service
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}
