//! Reads records in bulk, and their change logs.

use super::session::{DatabaseError, DbResult, Session};
use super::tables::{StoreTables, TenantTables};
use super::values::{self, RowExt};
use crate::changes::{ChangeRange, RevisedRecord};
use crate::damage::{Damage, DamagedPart, RecordPart};
use crate::sql::row::{conflicts_of, read_json, unpack_state};
use crate::{ChangeLogEntry, ReadDetail, StoreError, StoredRecord, Version};
use ::tokio_postgres::Row;
use std::collections::HashMap;
use stook_catalogue::definition::Collection;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, SmolStr, Value};

/// Finds the row of the record whose key is `u.own`, as a range of one key in the order of keys: for a table that it believes to be small, the
/// planner might otherwise use any other index and read all rows of the tenant.
pub const ONE_KEY_RANGE: &str = "BETWEEN u.own AND u.own ORDER BY key LIMIT 1";

/// The query for rows of records by key (`$2`) of a tenant (`$1`), one by one.
pub fn by_key_sql(tables: &StoreTables, table: &str, columns: &str) -> String {
    match tables.is_distributed() {
        true => format!("SELECT {columns} FROM {table} WHERE tenant = $1 AND key = ANY($2)"),
        false => format!(
            "SELECT r.* FROM unnest($2::text[]) AS u(own) CROSS JOIN LATERAL \
             (SELECT {columns} FROM {table} WHERE tenant = $1 AND key {ONE_KEY_RANGE}) AS r"
        ),
    }
}

/// Like [`by_key_sql`], but locks the rows in the order of keys, which are parameter number `keys`. Rows on a cluster are not locked individually.
pub fn by_key_locked_sql(tables: &StoreTables, table: &str, columns: &str, keys: usize, lock: &str) -> String {
    match tables.is_distributed() {
        true => format!("SELECT {columns} FROM {table} WHERE tenant = $1 AND key = ANY(${keys})"),
        false => format!(
            "SELECT r.* FROM (SELECT own FROM unnest(${keys}::text[]) AS u(own) ORDER BY own COLLATE \"C\") AS u CROSS JOIN LATERAL \
             (SELECT {columns} FROM {table} WHERE tenant = $1 AND key {ONE_KEY_RANGE} {lock}) AS r"
        ),
    }
}

/// Reads records by key, in the order of `keys`, with one statement.
pub fn read(tenant_tables: TenantTables<'_>, collection: CollectionId, keys: &[Key], detail: ReadDetail) -> DbResult<Vec<Option<StoredRecord>>> {
    let tables = tenant_tables.tables;
    let found = read_damaged(tenant_tables, collection, keys, detail)?;
    let name = &tables.catalogue().collections[collection].name;
    found.into_iter().map(|record| Ok(record.map(|record| record.sound(name)).transpose()?)).collect()
}

/// Like [`read`], but also returns damaged records.
pub fn read_damaged(
    tenant_tables: TenantTables<'_>,
    collection: CollectionId,
    keys: &[Key],
    detail: ReadDetail,
) -> DbResult<Vec<Option<StoredRecord>>> {
    let TenantTables { session, tables, tenant } = tenant_tables;
    let collection_tables = tables.collections.get(collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))?;
    let definition = &tables.catalogue().collections[collection];
    let columns = &collection_tables.read_columns[detail as usize];
    let sql = by_key_sql(tables, &collection_tables.table, columns);
    let wanted: Vec<&str> = keys.iter().map(Key::as_str).collect();
    let mut found: Vec<Option<StoredRecord>> = vec![None; keys.len()];
    // for a repeated key, the last position
    let index_by_key: HashMap<&str, usize> = wanted.iter().enumerate().map(|(index, key)| (*key, index)).collect();
    session.visit(&sql, &[&tenant, &wanted], |row| {
        let record = read_row(row, definition, detail)?;
        if let Some(index) = index_by_key.get(record.key.as_str()) {
            found[*index] = Some(record);
        }
        Ok(())
    })?;
    for (index, key) in wanted.iter().enumerate().filter(|(index, key)| index_by_key[*key] != *index) {
        found[index] = found[index_by_key[key]].clone();
    }
    Ok(found)
}

/// Reads a row. Parts that cannot be read are noted as damage.
pub fn read_row(row: &Row, collection: &Collection, detail: ReadDetail) -> DbResult<StoredRecord> {
    let mut damage: Vec<DamagedPart> = Vec::new();
    let reason = |error: DatabaseError| StoreError::from(error).to_string();
    let key: &str = row.at(0)?;
    let mut record = StoredRecord {
        key: Key::new(key).map_err(|error| StoreError::Damaged(Damage::of_record(&collection.name, key, error.to_string())))?,
        version: Version::default(),
        created_job: 0,
        exists: true,
        contributions: Vec::new(),
        state_set: Vec::new(),
        golden: Vec::new(),
        state: Vec::new(),
        conflicts: Vec::new(),
        raw: None,
        damage: Vec::new(),
    };
    let head = || -> DbResult<_> { Ok((Version::new(row.at(1)?, row.at(2)?), row.at::<i64>(3)? as u64, row.at(4)?)) };
    match head() {
        Ok((version, created_job, alive)) => (record.version, record.created_job, record.exists) = (version, created_job, alive),
        Err(error) => damage.push(DamagedPart { part: RecordPart::Row, reason: reason(error) }),
    }
    let state_damage = |error| DamagedPart { part: RecordPart::State, reason: reason(error) };
    match row.at(5).map_err(state_damage).and_then(|text| unpack_state(text, collection)) {
        Ok(state_set) => record.state_set = state_set,
        Err(unreadable) => damage.push(unreadable),
    }
    if detail != ReadDetail::Values {
        match row.at(6) {
            Ok(contributions) => record.contributions = contributions,
            Err(error) => damage.push(DamagedPart { part: RecordPart::Contributions, reason: reason(error) }),
        }
    }
    if detail != ReadDetail::Head {
        let first_field = if detail == ReadDetail::Values { 6 } else { 7 };
        let fields = collection.stored_fields();
        let first_state = first_field + fields.len();
        let conflicts_column = first_state + collection.states.len();
        let mut read_value = |column: usize, ty: &FieldType, part: RecordPart, name: &str| {
            values::decode_column(row, column, ty).unwrap_or_else(|unfit| {
                damage.push(DamagedPart { part, reason: format!("`{name}`: {unfit}") });
                Value::Null
            })
        };
        let golden = fields.map(|(id, field)| read_value(first_field + id.index(), field.golden_type(), RecordPart::Golden(id), &field.name));
        let golden = golden.collect();
        record.golden = crate::sql::row::with_members(collection, golden);
        record.state = collection
            .states
            .iter()
            .enumerate()
            .map(|(index, state)| read_value(first_state + index, &state.ty, RecordPart::Other, &state.name))
            .collect();
        let conflicts_damage = |error| DamagedPart { part: RecordPart::Other, reason: reason(error) };
        let names = row.at::<Option<Vec<&str>>>(conflicts_column).map_err(conflicts_damage);
        match names.and_then(|names| conflicts_of(names.unwrap_or_default().into_iter(), collection)) {
            Ok(conflicts) => record.conflicts = conflicts,
            Err(unreadable) => damage.push(unreadable),
        }
        if detail == ReadDetail::Full {
            match row.at(conflicts_column + 1) {
                Ok(raw) => record.raw = raw,
                Err(error) => damage.push(DamagedPart { part: RecordPart::Contributions, reason: reason(error) }),
            }
        }
    }
    record.damage = damage;
    Ok(record)
}

/// Reads the text of a column.
pub fn text(row: &Row, column: usize) -> DbResult<SmolStr> {
    Ok(row.at::<&str>(column)?.into())
}

/// Reads the versions of records, in the order of `keys`.
pub fn versions(session: &mut Session, tables: &StoreTables, tenant: i64, collection: CollectionId, keys: &[Key]) -> DbResult<Vec<Option<Version>>> {
    let collection_tables = tables.collections.get(collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))?;
    let sql = by_key_sql(tables, &collection_tables.table, "key, revision, touch");
    let wanted: Vec<&str> = keys.iter().map(Key::as_str).collect();
    let rows = session.query(&sql, &[&tenant, &wanted])?;
    let version = |row: &Row| Ok((row.at::<String>(0)?, Version::new(row.at(1)?, row.at(2)?)));
    let found: HashMap<String, Version> = rows.iter().map(version).collect::<DbResult<_>>()?;
    Ok(keys.iter().map(|key| found.get(key.as_str()).copied()).collect())
}

pub fn log(tenant_tables: TenantTables<'_>, collection: CollectionId, key: &Key, before: Option<i64>, limit: usize) -> DbResult<Vec<ChangeLogEntry>> {
    let TenantTables { session, tables, tenant } = tenant_tables;
    let sql = "SELECT id, at, transition, caller, change FROM record_log WHERE tenant = $1 AND collection = $2 AND key = $3 AND id < $4 ORDER BY id DESC LIMIT $5";
    let name = &tables.catalogue().collections[collection].name;
    let entry = |row: Row| -> DbResult<ChangeLogEntry> {
        let id: i64 = row.at(0)?;
        let change = read_json(row.at(4)?, || format!("entry {id} of the log of record {:?}", key.as_str()))?;
        Ok(ChangeLogEntry { id, at: row.at(1)?, transition: row.at(2)?, caller: row.at(3)?, change })
    };
    let rows = session.query(sql, &[&tenant, name, &key.as_str(), &before.unwrap_or(i64::MAX), &(limit as i64)])?;
    rows.into_iter().map(entry).collect()
}

pub fn keys_of(rows: &[Row]) -> DbResult<Vec<Key>> {
    let key = |row: &Row| Key::new(row.at::<&str>(0)?).map_err(|error| StoreError::Damaged(Damage::of_row("a record", error.to_string())).into());
    rows.iter().map(key).collect()
}

/// Reads keys of a collection after one.
pub fn keys_after(tenant_tables: TenantTables<'_>, collection: CollectionId, key: &str, limit: usize) -> DbResult<Vec<Key>> {
    let TenantTables { session, tables, tenant } = tenant_tables;
    let sql = format!("SELECT key FROM {} WHERE tenant = $1 AND key > $2 ORDER BY key LIMIT $3", tables.collections[collection].table);
    keys_of(&session.query(&sql, &[&tenant, &key, &(limit as i64)])?)
}

/// Reads records of a published collection in the order in which they changed.
pub fn changed(tenant_tables: TenantTables<'_>, collection: CollectionId, range: &ChangeRange, limit: usize) -> DbResult<Vec<RevisedRecord>> {
    let TenantTables { session, tables, tenant } = tenant_tables;
    let collection_tables = tables.collections.get(collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))?;
    let sql = format!(
        "SELECT key, revision, alive FROM {} WHERE tenant = $1 AND (revision, key) > ($2, $3) AND revision < $4 ORDER BY revision, key LIMIT $5",
        collection_tables.table
    );
    let rows = session.query(&sql, &[&tenant, &range.after.revision, &range.after.key, &range.until, &(limit as i64)])?;
    let keys = keys_of(&rows)?;
    rows.iter().zip(keys).map(|(row, key)| Ok(RevisedRecord { revision: row.at(1)?, key, exists: row.at(2)? })).collect()
}

/// How far the oldest transaction that writes may be before the server's clock, in microseconds, when it is not yet seen to write: its commit time is
/// read immediately before its number is assigned.
const CLOCK_MARGIN: i64 = 2_000_000;

/// Everything before the beginning of the oldest transaction that is being written has been committed. Transactions of another role may not be visible.
pub fn committed_until(session: &mut Session) -> DbResult<i64> {
    let sql = "SELECT least((extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1::bigint,
        (SELECT min((extract(epoch FROM xact_start) * 1000000)::bigint) FROM pg_stat_activity
         WHERE datname = current_database() AND backend_xid IS NOT NULL AND pid <> pg_backend_pid()))";
    session.query_one(sql, &[&CLOCK_MARGIN])?.at(0)
}
