//! The audit log.

use super::session::{DbResult, Session, SqlParameter};
use super::store::PostgresStore;
use super::values::RowExt;
use crate::audit::{AuditEntry, AuditLog, AuditQuery, AuditScope, AuditedOperation, DONE};
use crate::sql::audit::{AuditRow, Bound, CLEANED_EVERY, clean, select};
use crate::{Result, Tenant};
use ::tokio_postgres::Row;
use stook_catalogue::key::Key;

/// An operation, and the records that a unit of it writes, by the names of their collections.
pub struct AuditedRecords {
    pub scope: AuditScope,
    pub records: Vec<(String, Key)>,
}

impl AuditLog for PostgresStore {
    fn audit(&self, wanted: &AuditQuery) -> Result<Vec<AuditEntry>> {
        let (sql, values) = select(wanted, |number| format!("${number}"));
        self.with_reader(|session| {
            let parameters: Vec<SqlParameter<'_>> = values
                .iter()
                .map(|value| match value {
                    Bound::Int(number) => number as SqlParameter<'_>,
                    Bound::Text(text) => text as SqlParameter<'_>,
                })
                .collect();
            session.query(&sql, &parameters)?.iter().map(|row| Ok(audit_row(row)?.into_entry()?)).collect()
        })
    }

    fn add_refusal(&self, operation: &AuditedOperation, outcome: &str) -> Result<()> {
        self.write(|session, commit_time| insert(session, operation, None, (outcome, commit_time)))
    }
}

/// Writes the entries of a change in its transaction.
pub fn write(session: &mut Session, scope: &AuditScope, records: &[(String, Key)], commit_time: i64) -> DbResult<()> {
    if records.is_empty() {
        return insert(session, scope.operation(), None, (DONE, commit_time));
    }
    records.iter().try_for_each(|(collection, key)| insert(session, scope.operation(), Some((collection, key.as_str())), (DONE, commit_time)))
}

fn insert(session: &mut Session, operation: &AuditedOperation, record: Option<(&str, &str)>, (outcome, at): (&str, i64)) -> DbResult<()> {
    let AuditedOperation { tenant, token, caller, address, .. } = operation;
    let (tenant, token) = (tenant.as_ref().map(Tenant::as_str), token.map(|token| token as i64));
    let (collection, key) = (record.map(|(collection, _)| collection), record.map(|(_, key)| key));
    let sql =
        "INSERT INTO audit(at, tenant, token, caller, address, operation, collection, key, outcome) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    session.defer(sql, &[&at, &tenant, &token, caller, address, &operation.operation(), &collection, &key, &outcome])?;
    // about as often as on a file, where the number of the entry decides
    if at.unsigned_abs() % CLEANED_EVERY == 0 {
        let newest: Option<i64> = session.query_one("SELECT max(id) FROM audit", &[])?.at(0)?;
        session.defer_batch(clean(newest.unwrap_or(0), at));
    }
    Ok(())
}

fn audit_row(row: &Row) -> DbResult<AuditRow> {
    Ok(AuditRow {
        id: row.at(0)?,
        at: row.at(1)?,
        tenant: row.at(2)?,
        token: row.at(3)?,
        caller: row.at(4)?,
        address: row.at(5)?,
        operation: row.at(6)?,
        collection: row.at(7)?,
        key: row.at(8)?,
        outcome: row.at(9)?,
    })
}
