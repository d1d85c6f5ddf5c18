//! Describes how the database executes a plan.

use super::super::error::store_error;
use super::select::rows_statement;
use crate::Result;
use crate::plan::QueryPlan;
use rusqlite::Connection;
use stook_catalogue::definition::Catalogue;

pub fn explain(connection: &Connection, catalogue: &Catalogue, plan: &QueryPlan) -> Result<Vec<String>> {
    let (statement, access) = rows_statement(connection, catalogue, 1, plan)?;
    let mut lines = vec![access];
    let mut prepared = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", statement.sql)).map_err(store_error)?;
    let mut rows = prepared.query(statement.bound_parameters().as_slice()).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        lines.push(row.get::<_, String>(3).map_err(store_error)?.to_lowercase());
    }
    lines.push(statement.sql);
    Ok(lines)
}
