//! The log: one JSON object a line on standard error.

use serde_json::{Map, Value as Json};
use std::io::Write;

/// What is logged of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logged {
    /// Nothing.
    Nothing,
    /// Those that failed on this side, or took longer than a second.
    Troubles,
    /// All.
    All,
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
