//! The log, on standard error: one JSON object per line or, if standard error is a terminal, one line of text.

use serde_json::{Map, Value as Json};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::sync::LazyLock;
use stook_engine::work::WorkerEvent;
use stook_store::journal::Outcome;

/// Which requests are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestLogLevel {
    /// Nothing.
    None,
    /// Those that failed with a 5xx status or took longer than a second.
    Problems,
    /// All requests.
    All,
}

/// Writes events of workers: a line for each finished chunk and pass, each ended job, and each failure of the store.
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
                    ("deleted", count(Outcome::Deleted)),
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

static FOR_PEOPLE: LazyLock<bool> = LazyLock::new(|| std::io::stderr().is_terminal());

/// Writes a line with the time, the event and these members; members that are null are left out.
pub fn write(event: &str, members: impl IntoIterator<Item = (&'static str, Json)>) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
    let time = stook_catalogue::value::show_timestamp(now);
    let members = members.into_iter().filter(|(_, value)| !value.is_null());
    let line = if *FOR_PEOPLE { line_of_text(&time, event, members) } else { line_of_json(time, event, members) };
    // a failure to write the log must not stop the server
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

fn line_of_json(time: String, event: &str, members: impl Iterator<Item = (&'static str, Json)>) -> String {
    let mut line = Map::new();
    line.insert("time".into(), time.into());
    line.insert("event".into(), event.into());
    line.extend(members.map(|(name, value)| (name.to_owned(), value)));
    format!("{}\n", Json::Object(line))
}

/// Formats `TIME EVENT name=value ...`. Texts with white space or control characters are quoted, so that they stay on one line.
fn line_of_text(time: &str, event: &str, members: impl Iterator<Item = (&'static str, Json)>) -> String {
    let mut line = format!("{time} {event}");
    for (name, value) in members {
        let shown = match &value {
            Json::String(text) if !text.is_empty() && text.chars().all(|letter| !letter.is_whitespace() && !letter.is_control()) => text.clone(),
            other => other.to_string(),
        };
        let _ = write!(line, " {name}={shown}");
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Vec<(&'static str, Json)> {
        vec![("job", 7.into()), ("tenant", "main".into()), ("reason", "no\nroom".into()), ("seconds", 0.25.into())]
    }

    #[test]
    fn a_line_of_text_is_one_line() {
        let line = line_of_text("2026-01-01T00:00:00Z", "job", members().into_iter());
        assert_eq!(line, "2026-01-01T00:00:00Z job job=7 tenant=main reason=\"no\\nroom\" seconds=0.25\n");
    }

    #[test]
    fn a_line_of_json_has_time_and_event() {
        let line: Json = serde_json::from_str(&line_of_json("t".into(), "job", members().into_iter())).unwrap();
        assert_eq!(line, serde_json::json!({ "time": "t", "event": "job", "job": 7, "tenant": "main", "reason": "no\nroom", "seconds": 0.25 }));
    }
}
