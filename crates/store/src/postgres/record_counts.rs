//! Keeps the numbers of records. Each unit adds a row with the difference that it makes, so that units do not wait for each other; the number is the
//! sum of these rows. Now and then a unit replaces them by their sum.

use super::session::{DbResult, Session};
use super::tables::{StoreTables, quoted_name};
use super::values::RowExt;
use crate::sql::record_counts::{RecordCountChanges, wrong_count};

/// One of so many units, by the time of its commit, sums up the rows of its collections.
const UNITS_BETWEEN_SUMS: i64 = 32;

/// Adds what a unit changes.
pub fn write(session: &mut Session, tables: &StoreTables, tenant: i64, commit_time: i64, changes: RecordCountChanges) -> DbResult<()> {
    for (collection, records) in changes.changed() {
        let collection = &tables.catalogue().collections[collection].name;
        session.defer("INSERT INTO record_counts(tenant, collection, records) VALUES ($1, $2, $3)", &[&tenant, collection, &records])?;
        if commit_time % UNITS_BETWEEN_SUMS == 0 {
            // rows that another unit sums up at the same time are left to it
            let sum_up = "WITH former AS (DELETE FROM record_counts WHERE id IN \
                          (SELECT id FROM record_counts WHERE tenant = $1 AND collection = $2 FOR UPDATE SKIP LOCKED) RETURNING records) \
                          INSERT INTO record_counts(tenant, collection, records) SELECT $1, $2, sum(records) FROM former HAVING count(*) > 0";
            session.defer(sum_up, &[&tenant, collection])?;
        }
    }
    Ok(())
}

/// Returns the number of records of a collection.
pub fn read(session: &mut Session, tenant: i64, collection: &str) -> DbResult<u64> {
    let sql = "SELECT coalesce(sum(records), 0)::bigint FROM record_counts WHERE tenant = $1 AND collection = $2";
    Ok(session.query_one(sql, &[&tenant, &collection])?.at::<i64>(0)?.max(0) as u64)
}

/// Counts the records of all collections of a store that has not kept their numbers. Who writes records waits until the transaction ends.
pub fn count_all<'n>(session: &mut Session, collections: impl Iterator<Item = &'n String>) -> DbResult<()> {
    for name in collections {
        let table = quoted_name(&["r", name]);
        session.batch(&format!("LOCK TABLE {table} IN SHARE MODE"))?;
        let sql =
            format!("INSERT INTO record_counts(tenant, collection, records) SELECT tenant, $1, count(*) FROM {table} WHERE alive GROUP BY tenant");
        session.execute(&sql, &[name])?;
    }
    Ok(())
}

/// The numbers that are wrong, as one statement sees records and numbers: so the difference is right whatever is written meanwhile.
fn wrong_sql(table: &str) -> String {
    format!(
        "WITH counted AS (SELECT tenant, count(*) AS records FROM {table} WHERE alive GROUP BY tenant), \
         kept AS (SELECT tenant, sum(records)::bigint AS records FROM record_counts WHERE collection = $1 GROUP BY tenant), \
         wrong AS (SELECT t.id, t.name, coalesce(k.records, 0) AS kept, coalesce(c.records, 0) AS counted \
           FROM tenants t LEFT JOIN counted c ON c.tenant = t.id LEFT JOIN kept k ON k.tenant = t.id \
           WHERE coalesce(k.records, 0) <> coalesce(c.records, 0))"
    )
}

/// Whether a number is wrong.
pub fn is_any_wrong(session: &mut Session, tables: &StoreTables) -> DbResult<bool> {
    for (id, collection) in tables.catalogue().collections.enumerate() {
        let sql = format!("{} SELECT EXISTS(SELECT 1 FROM wrong)", wrong_sql(&tables.collections[id].table));
        if session.query_one(&sql, &[&collection.name])?.at(0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Corrects the numbers that are wrong; returns a sentence for each.
pub fn correct(session: &mut Session, tables: &StoreTables) -> DbResult<Vec<String>> {
    let mut corrected = Vec::new();
    for (id, collection) in tables.catalogue().collections.enumerate() {
        let sql = format!(
            "{}, corrected AS (INSERT INTO record_counts(tenant, collection, records) SELECT id, $1, counted - kept FROM wrong) \
             SELECT name, kept, counted FROM wrong ORDER BY id",
            wrong_sql(&tables.collections[id].table)
        );
        for row in session.query(&sql, &[&collection.name])? {
            corrected.push(wrong_count(&collection.name, row.at(0)?, row.at(1)?, row.at(2)?));
        }
    }
    Ok(corrected)
}
