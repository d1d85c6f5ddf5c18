//! Stale marks: reads them, and finds tenants and jobs that have some.

use super::records::text;
use super::session::{DbResult, Session};
use super::tables::StoreTables;
use super::values::RowExt;
use crate::{StaleMark, Tenant};
use ::tokio_postgres::Row;

/// Reads marks of some lock partitions.
pub fn marks(session: &mut Session, tables: &StoreTables, tenant: i64, partitions: &[i64], limit: usize) -> DbResult<Vec<StaleMark>> {
    let columns = "SELECT id, stratum, rule, target, part, job FROM marks WHERE tenant = $1";
    let order = "ORDER BY stratum, rule, id LIMIT $3";
    let sql = match tables.is_distributed() {
        true => format!("{columns} AND lane = ANY($2) {order}"),
        // each partition in the order of the index, so that no more are read than are wanted
        false => format!("SELECT m.* FROM unnest($2::bigint[]) AS u(lane) CROSS JOIN LATERAL ({columns} AND lane = u.lane {order}) AS m {order}"),
    };
    let mark = |row: Row| -> DbResult<StaleMark> {
        let number = |column: usize| row.at::<i64>(column);
        let (stratum, rule, job) = (number(1)? as u32, number(2)? as u32, number(5)? as u64);
        Ok(StaleMark { id: row.at(0)?, pass_order: stratum, rule, target: text(&row, 3)?, part: text(&row, 4)?, job })
    };
    session.query(&sql, &[&tenant, &partitions, &(limit as i64)])?.into_iter().map(mark).collect()
}

/// Returns the tenants that have marks.
pub fn tenants_with_marks(session: &mut Session, tables: &StoreTables) -> DbResult<Vec<Tenant>> {
    let sql = match tables.is_distributed() {
        true => "SELECT name FROM tenants WHERE id = ANY(ARRAY(SELECT tenant FROM marks GROUP BY tenant))",
        // one index probe per tenant, however many marks it has
        false => "SELECT name FROM tenants t CROSS JOIN LATERAL (SELECT 1 FROM marks WHERE tenant = t.id LIMIT 1) AS m",
    };
    let rows = session.query(sql, &[])?;
    rows.iter().map(|row| Ok(Tenant::new(row.at(0)?)?)).collect()
}

/// Whether a job has marks.
pub fn has_marks(session: &mut Session, tenant: i64, job: u64) -> DbResult<bool> {
    let sql = "SELECT EXISTS(SELECT 1 FROM marks WHERE tenant = $1 AND job = $2)";
    session.query_one(sql, &[&tenant, &(job as i64)])?.at(0)
}

/// Returns the jobs that have marks.
pub fn jobs_with_marks(session: &mut Session, tenant: i64) -> DbResult<Vec<u64>> {
    let rows = session.query("SELECT DISTINCT job FROM marks WHERE tenant = $1", &[&tenant])?;
    rows.iter().map(|row| Ok(row.at::<i64>(0)? as u64)).collect()
}

/// Whether a job has no marks.
pub fn is_settled(session: &mut Session, job: u64) -> DbResult<bool> {
    let sql = "SELECT NOT EXISTS(SELECT 1 FROM marks WHERE tenant = (SELECT tenant FROM jobs WHERE id = $1) AND job = $1)";
    session.query_one(sql, &[&(job as i64)])?.at(0)
}
