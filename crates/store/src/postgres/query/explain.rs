//! Describes how the server executes a plan.

use super::super::session::{DbResult, Session};
use super::super::tables::quoted_name;
use super::super::values::RowExt;
use super::select::{SqlBuilder, rows_statement};
use crate::plan::QueryPlan;
use stook_catalogue::definition::Catalogue;

/// Number of records up to which the server may read them all instead of using an index.
const SMALL_TABLE_ROWS: i64 = 1_000;

pub fn explain(session: &mut Session, catalogue: &Catalogue, plan: &QueryPlan) -> DbResult<Vec<String>> {
    let (sql, parameters) = rows_statement(catalogue, 1, plan)?;
    let mut steps: Vec<String> = Vec::new();
    parameters.with(|parameters| {
        session.visit(&format!("EXPLAIN (COSTS OFF) {sql}"), parameters, |row| {
            steps.push(row.at(0)?);
            Ok(())
        })
    })?;
    let reads_all = steps.iter().any(|step| step.contains("Seq Scan on r_")) || steps.windows(2).any(|pair| reads_a_tenant(&pair[0], &pair[1]));
    let collection = &catalogue.collections[plan.collection];
    let estimate_sql = "SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass($1)";
    let is_small = session.query_one(estimate_sql, &[&quoted_name(&["r", &collection.name])])?.at::<i64>(0)? < SMALL_TABLE_ROWS;
    let mut lines = vec![match (reads_all, SqlBuilder::new(catalogue, 1, plan)?.is_indexed && is_small) {
        (true, true) => "scans all records because there are few; an index is available".to_owned(),
        (true, false) => "reads every record of the collection".to_owned(),
        (false, _) => "uses an index".to_owned(),
    }];
    lines.extend(steps);
    lines.push(sql);
    Ok(lines)
}

/// Whether an index of a record table is only used to find the rows of the tenant.
fn reads_a_tenant(step: &str, condition: &str) -> bool {
    let of_records = step.contains(" on r_") || step.contains("Bitmap Index Scan on ");
    of_records && condition.trim().strip_prefix("Index Cond: (tenant = ").is_some_and(|rest| !rest.contains(" AND "))
}
