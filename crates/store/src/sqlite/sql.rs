//! Runs statements and reads parts of their rows.

use super::error::store_error;
use crate::Result;
use rusqlite::{Connection, Row, Statement, StatementStatus, ToSql};
use stook_catalogue::value::SmolStr;

/// Reads the text of a column.
pub fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<SmolStr> {
    Ok(row.get_ref(column)?.as_str()?.into())
}

/// Executes a cached statement.
pub fn execute(connection: &Connection, sql: &str, arguments: &[&dyn ToSql]) -> Result<()> {
    connection.prepare_cached(sql).and_then(|mut statement| statement.execute(arguments)).map(|_| ()).map_err(store_error)
}

/// Asserts in debug builds that a statement has found its rows by an index.
pub fn assert_no_full_scan(statement: &Statement<'_>) {
    let full_scan_steps = || statement.get_status(StatementStatus::FullscanStep);
    debug_assert_eq!(full_scan_steps(), 0, "a whole table is read by {}", statement.expanded_sql().unwrap_or_default());
}
