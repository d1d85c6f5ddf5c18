//! The audit log.

use super::error::store_error;
use super::sql::execute;
use super::store::SqliteStore;
use super::writer::AuditedRecords;
use crate::audit::{AuditEntry, AuditLog, AuditQuery, AuditedOperation, DONE};
use crate::sql::audit::{AuditRow, Bound, CLEANED_EVERY, clean, select};
use crate::{Result, Tenant};
use rusqlite::{Connection, Row, params, params_from_iter};

impl AuditLog for SqliteStore {
    fn audit(&self, wanted: &AuditQuery) -> Result<Vec<AuditEntry>> {
        let (sql, values) = select(wanted, |number| format!("?{number}"));
        let values = values.into_iter().map(|value| match value {
            Bound::Int(number) => rusqlite::types::Value::Integer(number),
            Bound::Text(text) => rusqlite::types::Value::Text(text),
        });
        self.with_reader(|connection| {
            let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
            let rows = statement.query_map(params_from_iter(values), audit_row).map_err(store_error)?;
            rows.map(|row| row.map_err(store_error)?.into_entry()).collect()
        })
    }

    fn add_refusal(&self, operation: &AuditedOperation, outcome: &str) -> Result<()> {
        let (operation, outcome) = (operation.clone(), outcome.to_owned());
        self.write(move |connection, commit_time| insert(connection, &operation, None, (&outcome, commit_time)))
    }
}

/// Writes the entries of a change in its transaction.
pub fn write(connection: &Connection, audited: &AuditedRecords, commit_time: i64) -> Result<()> {
    let operation = audited.scope.operation();
    if audited.records.is_empty() {
        return insert(connection, operation, None, (DONE, commit_time));
    }
    audited.records.iter().try_for_each(|(collection, key)| insert(connection, operation, Some((collection, key.as_str())), (DONE, commit_time)))
}

fn insert(connection: &Connection, operation: &AuditedOperation, record: Option<(&str, &str)>, (outcome, at): (&str, i64)) -> Result<()> {
    let AuditedOperation { tenant, token, caller, address, .. } = operation;
    let (tenant, token) = (tenant.as_ref().map(Tenant::as_str), token.map(|token| token as i64));
    let (collection, key) = (record.map(|(collection, _)| collection), record.map(|(_, key)| key));
    let sql = "INSERT INTO audit(at, tenant, token, caller, address, operation, collection, key, outcome) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    execute(connection, sql, params![at, tenant, token, caller, address, operation.operation(), collection, key, outcome])?;
    let id = connection.last_insert_rowid();
    if (id as u64).is_multiple_of(CLEANED_EVERY) { connection.execute_batch(&clean(id, at)).map_err(store_error) } else { Ok(()) }
}

fn audit_row(row: &Row<'_>) -> rusqlite::Result<AuditRow> {
    Ok(AuditRow {
        id: row.get(0)?,
        at: row.get(1)?,
        tenant: row.get(2)?,
        token: row.get(3)?,
        caller: row.get(4)?,
        address: row.get(5)?,
        operation: row.get(6)?,
        collection: row.get(7)?,
        key: row.get(8)?,
        outcome: row.get(9)?,
    })
}
