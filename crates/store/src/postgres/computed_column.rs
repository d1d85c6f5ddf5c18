//! Columns that follow from a value of their record, but that no database computes: fills one that is added later from what is stored.

use super::session::{DbResult, Session};
use super::tables::quoted_name;
use super::values::{RowExt, decode_column};
use ::tokio_postgres::types::ToSql;
use stook_catalogue::definition::Field;
use stook_catalogue::value::Value;

/// Number of records that are computed at a time.
const RECORDS_PER_PAGE: usize = 10_000;

/// A column of a table of records; all names are as in SQL.
#[derive(Clone, Copy)]
pub struct ComputedColumn<'c> {
    pub table: &'c str,
    pub column: &'c str,
    pub sql_type: &'c str,
}

impl ComputedColumn<'_> {
    /// Computes the column for all records that have a value of a field.
    pub fn fill<T: ToSql + Sync>(self, session: &mut Session, field: &Field, compute: impl Fn(&Value) -> T) -> DbResult<()> {
        let (Self { table, column, sql_type }, value) = (self, quoted_name(&["f", &field.name]));
        let page_sql = format!(
            "SELECT {value}, tenant, key FROM {table} WHERE {value} IS NOT NULL AND (tenant, key) > ($1::bigint, $2::text) \
             ORDER BY tenant, key LIMIT {RECORDS_PER_PAGE}"
        );
        let fill_sql = format!(
            "UPDATE {table} AS r SET {column} = u.computed FROM unnest($1::bigint[], $2::text[], $3::{sql_type}[]) AS u(tenant, key, computed) \
             WHERE r.tenant = u.tenant AND r.key = u.key"
        );
        let mut after = (i64::MIN, String::new());
        loop {
            let rows = session.query(&page_sql, &[&after.0, &after.1])?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = (last.at(1)?, last.at(2)?);
            let (mut tenants, mut keys, mut computed) = (Vec::<i64>::new(), Vec::<&str>::new(), Vec::new());
            for row in &rows {
                // damaged values are reported when they are read
                if let Ok(value) = decode_column(row, 0, field.golden_type()) {
                    tenants.push(row.at(1)?);
                    keys.push(row.at(2)?);
                    computed.push(compute(&value));
                }
            }
            session.execute(&fill_sql, &[&tenants, &keys, &computed])?;
        }
    }
}
