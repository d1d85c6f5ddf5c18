//! Describes how the database executes a plan.

use super::super::error::failure;
use super::select::rows_statement;
use crate::Result;
use crate::plan::QueryPlan;
use rusqlite::Connection;
use stook_catalogue::definition::Catalogue;

pub fn explain(connection: &Connection, catalogue: &Catalogue, plan: &QueryPlan) -> Result<Vec<String>> {
    let (statement, access) = rows_statement(connection, catalogue, 1, plan)?;
    let mut lines = vec![access];
    let mut prepared = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", statement.sql)).map_err(failure)?;
    let mut rows = prepared.query(statement.bound().as_slice()).map_err(failure)?;
    while let Some(row) = rows.next().map_err(failure)? {
        lines.push(row.get::<_, String>(3).map_err(failure)?.to_lowercase());
    }
    lines.push(statement.sql);
    Ok(lines)
}
