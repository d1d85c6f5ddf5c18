//! Keeps the numbers of records: one row for each tenant and collection that has or had records.

use super::error::store_error;
use super::sql::execute;
use super::tables::StoreTables;
use crate::Result;
use crate::sql::record_counts::{RecordCountChanges, wrong_count};
use rusqlite::{Connection, OptionalExtension, params};

/// Adds what a unit changes.
pub fn write(connection: &Connection, tables: &StoreTables, tenant: i64, changes: RecordCountChanges) -> Result<()> {
    let sql =
        "INSERT INTO record_counts(tenant, collection, records) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET records = records + excluded.records";
    changes.changed().try_for_each(|(collection, records)| execute(connection, sql, params![tenant, tables.names[collection], records]))
}

/// Returns the number of records of a collection.
pub fn read(connection: &Connection, tenant: i64, collection: &str) -> Result<u64> {
    let mut statement = connection.prepare_cached("SELECT records FROM record_counts WHERE tenant = ? AND collection = ?").map_err(store_error)?;
    let records: Option<i64> = statement.query_row(params![tenant, collection], |row| row.get(0)).optional().map_err(store_error)?;
    Ok(records.unwrap_or(0).max(0) as u64)
}

/// Counts the records of all collections of a store that has not kept their numbers.
pub fn count_all<'n>(connection: &Connection, collections: impl Iterator<Item = &'n String>) -> Result<()> {
    for name in collections {
        let sql = format!("INSERT INTO record_counts SELECT tenant, ?, count(*) FROM \"r_{name}\" WHERE alive = 1 GROUP BY tenant");
        execute(connection, &sql, params![name])?;
    }
    Ok(())
}

/// Returns a sentence for each kept number that is wrong.
pub fn wrong_counts(connection: &Connection, tables: &StoreTables) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for name in &tables.names {
        let sql = format!(
            "SELECT t.name, coalesce(n.records, 0) AS kept, (SELECT count(*) FROM \"r_{name}\" r WHERE r.tenant = t.id AND r.alive = 1) AS counted \
             FROM tenants t LEFT JOIN record_counts n ON n.tenant = t.id AND n.collection = ? WHERE kept <> counted ORDER BY t.id"
        );
        let mut statement = connection.prepare(&sql).map_err(store_error)?;
        let found = statement.query_map([name], |row| Ok(wrong_count(name, &row.get::<_, String>(0)?, row.get(1)?, row.get(2)?)));
        wrong.extend(found.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>).map_err(store_error)?);
    }
    Ok(wrong)
}

/// Corrects the numbers that are wrong; returns a sentence for each. Nothing else writes meanwhile.
pub fn correct(connection: &Connection, tables: &StoreTables) -> Result<Vec<String>> {
    let wrong = wrong_counts(connection, tables)?;
    if !wrong.is_empty() {
        execute(connection, "DELETE FROM record_counts", params![])?;
        count_all(connection, tables.names.iter())?;
    }
    Ok(wrong)
}
