//! In debug builds, appends all statements to the file that `STOOK_STATEMENTS` names, for tests of their execution plans.

use rusqlite::Connection;
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use std::collections::HashSet;
use std::io::Write;

/// Records a connection's statements from now on, each once, on a line of its own.
pub fn record_statements(connection: &mut Connection) -> rusqlite::Result<()> {
    let Some(path) = std::env::var_os("STOOK_STATEMENTS") else { return Ok(()) };
    let mut recorded: HashSet<String> = HashSet::new();
    let record = move |event: TraceEvent<'_>| {
        let TraceEvent::Profile(statement, _) = event else { return };
        let sql = statement.sql().split_whitespace().collect::<Vec<_>>().join(" ") + "\n";
        if !recorded.contains(&sql) {
            let file = std::fs::File::options().append(true).create(true).open(&path);
            // a test that finds no statements there fails
            let _ = file.and_then(|mut file| file.write_all(sql.as_bytes()));
            recorded.insert(sql);
        }
    };
    connection.trace_v2(TraceEventCodes::SQLITE_TRACE_PROFILE, Some(record))
}
