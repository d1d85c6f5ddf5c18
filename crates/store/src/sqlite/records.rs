//! Reads records in bulk, and their change logs.

use super::error::store_error;
use super::sql::assert_no_full_scan;
use super::tables::{AT_VERSION, BY_KEY, StoreTables, TenantTables, change_index};
use super::values::unbind_stored;
use crate::changes::{ChangeRange, RevisedRecord};
use crate::damage::{DamagedPart, RecordPart};
use crate::queue::JobRef;
use crate::sql::row::{conflicts_of, read_json, unpack_state, with_members};
use crate::{ChangeLogEntry, FoundRow, ReadDetail, Result, StoreError, StoredRecord, Version};
use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use std::rc::Rc;
use stook_catalogue::definition::Collection;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, Value};

/// Reads records by key, in the order of `keys`, with one statement.
pub fn read(tenant_tables: TenantTables<'_>, collection: CollectionId, keys: &[Key], detail: ReadDetail) -> Result<Vec<Option<StoredRecord>>> {
    let found = read_damaged(tenant_tables, collection, keys, detail)?;
    found.into_iter().map(|record| record.map(|record| record.sound(&tenant_tables.tables.names[collection])).transpose()).collect()
}

/// Like [`read`], but also returns damaged records.
pub fn read_damaged(
    tenant_tables: TenantTables<'_>,
    collection: CollectionId,
    keys: &[Key],
    detail: ReadDetail,
) -> Result<Vec<Option<StoredRecord>>> {
    let TenantTables { connection, tables, tenant } = tenant_tables;
    let collection_tables = tables.collections.get(collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))?;
    let definition = &tables.catalogue().collections[collection];
    let detail_index = detail as usize;
    if let [key] = keys {
        let mut statement = connection.prepare_cached(&collection_tables.read_one[detail_index]).map_err(store_error)?;
        let mut rows = statement.query(params![tenant, key.as_str()]).map_err(store_error)?;
        let row = rows.next().map_err(store_error)?;
        return Ok(vec![row.map(|row| read_row(row, key, definition, detail)).transpose()?]);
    }
    let mut statement = connection.prepare_cached(&collection_tables.read_many[detail_index]).map_err(store_error)?;
    let key_column = statement.column_count() - 1;
    let key_array: Rc<Vec<Sql>> = Rc::new(keys.iter().map(|key| Sql::Text(key.as_str().to_owned())).collect());
    let mut rows = statement.query(params![key_array, tenant]).map_err(store_error)?;
    let mut found: Vec<Option<StoredRecord>> = Vec::with_capacity(keys.len());
    while let Some(row) = rows.next().map_err(store_error)? {
        let found_key = row.get_ref(key_column).map_err(store_error)?.as_bytes().map_err(|error| StoreError::Other(error.to_string()))?;
        // rows come in the order of the keys
        let missing = keys[found.len()..].iter().position(|key| key.as_str().as_bytes() == found_key);
        let missing = missing.ok_or_else(|| StoreError::Other("a record is not the next one that was asked for".into()))?;
        found.resize_with(found.len() + missing, || None);
        found.push(Some(read_row(row, &keys[found.len()], definition, detail)?));
    }
    drop(rows);
    assert_no_full_scan(&statement);
    found.resize_with(keys.len(), || None);
    Ok(found)
}

/// Reads a row that was found by a key. Parts that cannot be read are noted as damage.
pub fn read_row(row: &Row<'_>, key: &Key, collection: &Collection, detail: ReadDetail) -> Result<StoredRecord> {
    let mut damage: Vec<DamagedPart> = Vec::new();
    let mut record = StoredRecord {
        key: key.clone(),
        version: Version::default(),
        created_job: JobRef::None.number(),
        exists: true,
        contributions: Vec::new(),
        state_set: Vec::new(),
        golden: Vec::new(),
        state: Vec::new(),
        conflicts: Vec::new(),
        raw: None,
        damage: Vec::new(),
    };
    let head = || -> rusqlite::Result<_> {
        let found = FoundRow { id: row.get(0)?, exists: row.get(5)? };
        let version = Version { revision: row.get(2)?, touches: row.get(3)?, location: crate::RowHint(Some(found)) };
        Ok((version, row.get::<_, i64>(4)? as u64, found.exists))
    };
    match head() {
        Ok((version, created_job, alive)) => (record.version, record.created_job, record.exists) = (version, created_job, alive),
        Err(error) => damage.push(DamagedPart { part: RecordPart::Row, reason: format!("what tells its versions apart: {error}") }),
    }
    if row.get_ref(1).map_err(store_error)?.as_bytes().ok() != Some(key.as_str().as_bytes()) {
        damage.push(DamagedPart { part: RecordPart::Row, reason: "its key is not the one by which it was found".into() });
    }
    let not_text = |_| DamagedPart { part: RecordPart::State, reason: "what transitions have set is not text".into() };
    match row.get_ref(6).map_err(store_error)?.as_str_or_null().map_err(not_text).and_then(|text| unpack_state(text, collection)) {
        Ok(state_set) => record.state_set = state_set,
        Err(unreadable) => damage.push(unreadable),
    }
    let mut read_bytes = |column: usize, may_be_null: bool, part_name: &str| match row.get_ref(column).map_err(store_error)? {
        ValueRef::Blob(bytes) => Ok(Some(bytes.to_vec())),
        ValueRef::Null if may_be_null => Ok(None),
        _ => {
            damage.push(DamagedPart { part: RecordPart::Contributions, reason: format!("{part_name} are not bytes") });
            Ok::<_, StoreError>(None)
        }
    };
    if detail != ReadDetail::Values {
        record.contributions = read_bytes(7, false, "its contributions")?.unwrap_or_default();
    }
    if detail != ReadDetail::Head {
        let first_field = if detail == ReadDetail::Values { 7 } else { 8 };
        let fields = collection.stored_fields();
        let first_state = first_field + fields.len();
        let conflicts_column = first_state + collection.states.len();
        if detail == ReadDetail::Full {
            record.raw = read_bytes(conflicts_column + 1, true, "its documents")?;
        }
        let mut read_value = |column: usize, ty: &FieldType, part: RecordPart, part_name: &dyn Fn() -> String| -> Result<Value> {
            Ok(unbind_stored(row.get_ref(column).map_err(store_error)?, ty).unwrap_or_else(|unfit| {
                damage.push(DamagedPart { part, reason: format!("{}: {unfit}", part_name()) });
                Value::Null
            }))
        };
        let mut golden = Vec::with_capacity(collection.fields.len());
        for (id, field) in fields {
            golden.push(read_value(first_field + id.index(), field.golden_type(), RecordPart::Golden(id), &|| format!("`{}`", field.name))?);
        }
        record.golden = with_members(collection, golden);
        for (index, state) in collection.states.iter().enumerate() {
            record.state.push(read_value(first_state + index, &state.ty, RecordPart::Other, &|| format!("state `{}`", state.name))?);
        }
        let names = read_value(conflicts_column, &FieldType::List(Box::new(FieldType::Text)), RecordPart::Other, &|| "its conflicts".to_owned())?;
        match conflicts_of(names.elements().iter().filter_map(Value::as_text), collection) {
            Ok(conflicts) => record.conflicts = conflicts,
            Err(unreadable) => damage.push(unreadable),
        }
    }
    record.damage = damage;
    Ok(record)
}

pub fn log(tenant_tables: TenantTables<'_>, collection: CollectionId, key: &Key, before: Option<i64>, limit: usize) -> Result<Vec<ChangeLogEntry>> {
    let TenantTables { connection, tables, tenant } = tenant_tables;
    let sql = "SELECT id, at, transition, caller, change FROM record_log WHERE tenant = ? AND collection = ? AND key = ? AND id < ? ORDER BY id DESC LIMIT ?";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let arguments = params![tenant, tables.names[collection], key.as_str(), before.unwrap_or(i64::MAX), limit as i64];
    let mut rows = statement.query(arguments).map_err(store_error)?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let get = || -> rusqlite::Result<_> { Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get::<_, String>(4)?)) };
        let (id, at, transition, caller, change) = get().map_err(store_error)?;
        let change = read_json(&change, || format!("entry {id} of the log of record {:?}", key.as_str()))?;
        entries.push(ChangeLogEntry { id, at, transition, caller, change });
    }
    Ok(entries)
}

/// Whether a record still has the version that was read.
pub fn is_current(
    connection: &Connection,
    tables: &StoreTables,
    tenant: i64,
    (collection, key): (CollectionId, &Key),
    expected: Option<Version>,
) -> Result<bool> {
    let hinted = expected.and_then(|version| version.location.0);
    let row = if hinted.is_some() { hinted } else { find_row(connection, tables, tenant, (collection, key))? };
    let (Some(FoundRow { id, .. }), Some(version)) = (row, expected) else { return Ok(row.is_none() && expected.is_none()) };
    let sql = format!("SELECT 1 FROM {} WHERE {AT_VERSION}", tables.collections[collection].table);
    let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
    statement.exists(params![id, tenant, key.as_str(), version.revision, version.touches]).map_err(store_error)
}

/// Returns the row of the record with this key, if there is one.
pub fn find_row(connection: &Connection, tables: &StoreTables, tenant: i64, (collection, key): (CollectionId, &Key)) -> Result<Option<FoundRow>> {
    let sql = format!("SELECT id, alive FROM {} WHERE {BY_KEY}", tables.collections[collection].table);
    let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
    statement.query_row(params![tenant, key.as_str()], |row| Ok(FoundRow { id: row.get(0)?, exists: row.get(1)? })).optional().map_err(store_error)
}

pub fn keys_of(connection: &Connection, sql: &str, arguments: &[&dyn ToSql]) -> Result<Vec<Key>> {
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(arguments).map_err(store_error)?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let key: String = row.get(0).map_err(store_error)?;
        keys.push(Key::new(key).map_err(|error| StoreError::Other(error.to_string()))?);
    }
    drop(rows);
    assert_no_full_scan(&statement);
    Ok(keys)
}

/// Reads keys of a collection after one.
pub fn keys_after(tenant_tables: TenantTables<'_>, collection: CollectionId, key: &str, limit: usize) -> Result<Vec<Key>> {
    let TenantTables { connection, tables, tenant } = tenant_tables;
    let sql = format!("SELECT key FROM {} WHERE tenant = ? AND packed > packed(?) ORDER BY packed LIMIT ?", tables.collections[collection].table);
    keys_of(connection, &sql, params![tenant, key, limit as i64])
}

/// Reads records of a published collection in the order in which they changed.
pub fn changed(tenant_tables: TenantTables<'_>, collection: CollectionId, range: &ChangeRange, limit: usize) -> Result<Vec<RevisedRecord>> {
    let TenantTables { connection, tables, tenant } = tenant_tables;
    let collection_tables = tables.collections.get(collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))?;
    let (table, index) = (&collection_tables.table, change_index(&tables.names[collection]));
    let sql = format!(
        "SELECT revision, key, alive FROM {table} INDEXED BY {index} \
         WHERE tenant = ? AND (revision, packed) > (?, packed(?)) AND revision < ? ORDER BY revision, packed LIMIT ?"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
    let arguments = params![tenant, range.after.revision, range.after.key, range.until, limit as i64];
    let mut rows = statement.query(arguments).map_err(store_error)?;
    let mut changed = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let get = || -> rusqlite::Result<_> { Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?)) };
        let (revision, key, exists) = get().map_err(store_error)?;
        changed.push(RevisedRecord { revision, key: Key::new(key).map_err(|error| StoreError::Other(error.to_string()))?, exists });
    }
    drop(rows);
    assert_no_full_scan(&statement);
    Ok(changed)
}
