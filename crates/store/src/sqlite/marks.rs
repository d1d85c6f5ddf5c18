//! Stale marks: reads them, and finds tenants and jobs that have some.

use super::error::store_error;
use super::sql::text;
use crate::{Result, StaleMark, Tenant};
use rusqlite::{Connection, OptionalExtension, Row, params};

pub fn marks(connection: &Connection, tenant: i64, limit: usize) -> Result<Vec<StaleMark>> {
    let sql = "SELECT id, stratum, rule, target, part, job FROM marks WHERE tenant = ? ORDER BY stratum, rule, id LIMIT ?";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mark = |row: &Row<'_>| {
        let job = row.get::<_, i64>(5)? as u64;
        Ok(StaleMark { id: row.get(0)?, pass_order: row.get(1)?, rule: row.get(2)?, target: text(row, 3)?, part: text(row, 4)?, job })
    };
    let rows = statement.query_map(params![tenant, limit as i64], mark).map_err(store_error)?;
    rows.collect::<rusqlite::Result<_>>().map_err(store_error)
}

/// Returns the tenants that have marks.
pub fn tenants_with_marks(connection: &Connection) -> Result<Vec<Tenant>> {
    let sql = "SELECT name FROM tenants WHERE EXISTS(SELECT 1 FROM marks WHERE tenant = tenants.id)";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    let mut tenants = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        tenants.push(Tenant::new(&row.get::<_, String>(0).map_err(store_error)?)?);
    }
    Ok(tenants)
}

/// Whether a job has marks.
pub fn has_marks(connection: &Connection, tenant: i64, job: u64) -> Result<bool> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM marks WHERE tenant = ? AND job = ? LIMIT 1").map_err(store_error)?;
    let found = statement.query_row(params![tenant, job as i64], |_| Ok(()));
    Ok(found.optional().map_err(store_error)?.is_some())
}

/// Returns the jobs that have marks.
pub fn jobs_with_marks(connection: &Connection, tenant: i64) -> Result<Vec<u64>> {
    let mut statement = connection.prepare_cached("SELECT DISTINCT job FROM marks WHERE tenant = ?").map_err(store_error)?;
    let jobs = statement.query_map([tenant], |row| row.get::<_, i64>(0)).map_err(store_error)?;
    jobs.map(|job| Ok(job.map_err(store_error)? as u64)).collect()
}

/// Whether a job has no marks.
pub fn is_settled(connection: &Connection, job: u64) -> Result<bool> {
    let sql = "SELECT 1 FROM marks WHERE tenant = (SELECT tenant FROM jobs WHERE id = ?1) AND job = ?1 LIMIT 1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    Ok(statement.query_row([job as i64], |_| Ok(())).optional().map_err(store_error)?.is_none())
}
