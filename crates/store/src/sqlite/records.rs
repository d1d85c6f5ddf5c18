//! Rows: reading records in bulk, and writing a unit of work.

use super::failure;
use super::packed;
use super::tables::{AT_VERSION, BY_KEY, CollectionTables, StoreTables};
use super::work;
use crate::damage::{DamagedPart, RecordPart};
use crate::row::{conflicts_of, pack_state, read_json, reserved_value, unpack_state, with_members};
use crate::{
    CALL_KEPT, ChangeLogEntry, CommitReceipt, EdgeChange, ReadDetail, RecordChange, RecordContent, RecordWrite, Result, SettlingChanges, StaleMark,
    StoreError, StoredRecord, Tenant, UniqueConflict, Unit, Version, WriteConflict,
};
use rusqlite::types::{ToSqlOutput, Value as Sql, ValueRef};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, Statement, ToSql, params};
use std::rc::Rc;
use std::sync::Arc;
use stook_catalogue::definition::Collection;
use stook_catalogue::fold::fold;
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, SmolStr, Value, canonical_json};

// --- values -------------------------------------------------------------------------------------------------------------

/// A value as it is bound, borrowing text where possible.
pub fn bind(value: &Value) -> ToSqlOutput<'_> {
    match value {
        Value::Null | Value::Cleared => ToSqlOutput::Owned(Sql::Null),
        Value::Bool(value) => ToSqlOutput::Owned(Sql::Integer(i64::from(*value))),
        Value::Int(number) => ToSqlOutput::Owned(Sql::Integer(*number)),
        Value::Float(number) => ToSqlOutput::Owned(Sql::Real(*number)),
        Value::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        Value::Uuid(id) => ToSqlOutput::Owned(Sql::Blob(id.to_be_bytes().to_vec())),
        Value::Json(json) => ToSqlOutput::Owned(Sql::Text(canonical_json(json))),
        Value::List(items) => ToSqlOutput::Owned(Sql::Text(list_text(items))),
    }
}

/// The JSON text of a stored list: raw numbers and text; UUIDs as 32 hexadecimal digits.
fn list_text(items: &[Value]) -> String {
    let mut out = Vec::with_capacity(64 * items.len() + 2);
    for (index, item) in items.iter().enumerate() {
        out.push(if index == 0 { b'[' } else { b',' });
        // writing into memory does not fail
        let _ = match item {
            Value::Bool(value) => serde_json::to_writer(&mut out, &i64::from(*value)),
            Value::Int(number) => serde_json::to_writer(&mut out, number),
            Value::Float(number) => serde_json::to_writer(&mut out, number),
            Value::Text(text) if is_plain(text) => {
                out.push(b'"');
                out.extend_from_slice(text.as_bytes());
                out.push(b'"');
                Ok(())
            }
            Value::Text(text) => serde_json::to_writer(&mut out, &**text),
            Value::Uuid(id) => serde_json::to_writer(&mut out, &format!("{id:032x}")),
            // structs stand in the list as they are, other JSON as text
            Value::Json(json) if json.is_object() => {
                out.extend_from_slice(canonical_json(json).as_bytes());
                Ok(())
            }
            Value::Json(json) => serde_json::to_writer(&mut out, &canonical_json(json)),
            Value::Null | Value::Cleared | Value::List(_) => serde_json::to_writer(&mut out, &()),
        };
    }
    out.extend_from_slice(if items.is_empty() { b"[]" } else { b"]" });
    String::from_utf8(out).unwrap_or_default()
}

/// Whether JSON writes a text as it is. All bytes are looked at, which the compiler makes faster than stopping early.
fn is_plain(text: &str) -> bool {
    text.bytes().fold(true, |plain, byte| plain & (byte >= b' ') & (byte != b'"') & (byte != b'\\'))
}

/// An element of a list as it stands in JSON and in side tables.
pub fn bind_element(value: &Value) -> ToSqlOutput<'_> {
    match value {
        Value::Uuid(id) => ToSqlOutput::Owned(Sql::Text(format!("{id:032x}"))),
        other => bind(other),
    }
}

/// What is found where a value of a type should be, and is none.
type TypeMismatch = &'static str;

/// A column's value by its type, as [`bind`] has written it.
pub fn unbind_stored(value: ValueRef<'_>, ty: &FieldType) -> std::result::Result<Value, TypeMismatch> {
    use FieldType as Ty;
    let fits = match value {
        ValueRef::Null => true,
        ValueRef::Integer(number) => match ty {
            Ty::Boolean => number == 0 || number == 1,
            Ty::Integer | Ty::Size | Ty::Timestamp | Ty::Date | Ty::Duration | Ty::Float => true,
            _ => false,
        },
        ValueRef::Real(_) => *ty == Ty::Float,
        ValueRef::Blob(_) => *ty == Ty::Uuid,
        ValueRef::Text(_) => matches!(ty, Ty::Text | Ty::Json | Ty::Ranges | Ty::Struct(_) | Ty::List(_)),
    };
    if fits { unbind(value, ty) } else { Err("it is of another type") }
}

/// A value that a statement gives, by its type.
pub fn unbind(value: ValueRef<'_>, ty: &FieldType) -> std::result::Result<Value, TypeMismatch> {
    const NO_JSON: TypeMismatch = "it is not JSON";
    Ok(match (value, ty) {
        (ValueRef::Null, _) => Value::Null,
        (ValueRef::Integer(number), FieldType::Boolean) => Value::Bool(number != 0),
        (ValueRef::Integer(number), FieldType::Float) => Value::Float(number as f64),
        (ValueRef::Integer(number), _) => Value::Int(number),
        (ValueRef::Real(number), _) => Value::Float(number),
        (ValueRef::Blob(bytes), _) => Value::Uuid(u128::from_be_bytes(bytes.try_into().map_err(|_| "it has not the length of a UUID")?)),
        (ValueRef::Text(text), FieldType::Json | FieldType::Ranges) => Value::Json(Arc::new(serde_json::from_slice(text).map_err(|_| NO_JSON)?)),
        (ValueRef::Text(text), FieldType::List(element)) => {
            if **element == FieldType::Text {
                let items: Vec<SmolStr> = serde_json::from_slice(text).map_err(|_| "it is not a list of texts")?;
                return Ok(Value::List(items.into_iter().map(Value::Text).collect()));
            }
            let items: Vec<serde_json::Value> = serde_json::from_slice(text).map_err(|_| "it is not a list")?;
            Value::List(items.iter().map(|item| unbind_element(item, element)).collect::<std::result::Result<_, TypeMismatch>>()?)
        }
        (ValueRef::Text(text), _) => Value::text(std::str::from_utf8(text).map_err(|_| "it is not UTF-8")?),
    })
}

fn unbind_element(item: &serde_json::Value, ty: &FieldType) -> std::result::Result<Value, TypeMismatch> {
    const UNFIT: TypeMismatch = "an element is of another type";
    Ok(match (item, ty) {
        (serde_json::Value::Number(number), FieldType::Boolean) => Value::Bool(number.as_i64().ok_or(UNFIT)? != 0),
        (serde_json::Value::Number(number), FieldType::Float) => Value::Float(number.as_f64().ok_or(UNFIT)?),
        (serde_json::Value::Number(number), _) => Value::Int(number.as_i64().ok_or(UNFIT)?),
        (serde_json::Value::String(text), FieldType::Uuid) => Value::Uuid(u128::from_str_radix(text, 16).map_err(|_| UNFIT)?),
        (serde_json::Value::Object(_), _) => Value::Json(Arc::new(item.clone())),
        (serde_json::Value::String(text), FieldType::Json | FieldType::Struct(_)) => {
            Value::Json(Arc::new(serde_json::from_str(text).map_err(|_| "an element is not JSON")?))
        }
        (serde_json::Value::String(text), FieldType::Text) => Value::text(text.as_str()),
        (serde_json::Value::Null, _) => Value::Null,
        _ => return Err(UNFIT),
    })
}

fn pack_conflicts(conflicts: &[usize], collection: &Collection) -> Option<String> {
    let names: Vec<&str> = conflicts.iter().map(|index| collection.fields[*index].name.as_str()).collect();
    (!names.is_empty()).then(|| serde_json::Value::from(names).to_string())
}

// --- reading ------------------------------------------------------------------------------------------------------------

/// Reads records by key, in the order of `keys`, with one statement.
pub fn read(
    connection: &Connection,
    tables: &StoreTables,
    tenant: i64,
    collection: usize,
    keys: &[Key],
    detail: ReadDetail,
) -> Result<Vec<Option<StoredRecord>>> {
    let name = &tables.names[collection.min(tables.names.len().saturating_sub(1))];
    let found = read_damaged(connection, tables, tenant, collection, keys, detail)?;
    found.into_iter().map(|record| record.map(|record| record.sound(name)).transpose()).collect()
}

/// The same, with records that are damaged.
pub fn read_damaged(
    connection: &Connection,
    tables: &StoreTables,
    tenant: i64,
    collection: usize,
    keys: &[Key],
    detail: ReadDetail,
) -> Result<Vec<Option<StoredRecord>>> {
    let own = tables.collections.get(collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))?;
    let definition = &tables.catalogue().collections[collection];
    let which = detail as usize;
    if let [key] = keys {
        let mut statement = connection.prepare_cached(&own.read_one[which]).map_err(failure)?;
        let mut rows = statement.query(params![tenant, key.as_str()]).map_err(failure)?;
        let row = rows.next().map_err(failure)?;
        return Ok(vec![row.map(|row| read_row(row, key, definition, detail)).transpose()?]);
    }
    let mut statement = connection.prepare_cached(&own.read_many[which]).map_err(failure)?;
    let place = statement.column_count() - 1;
    let wanted: Rc<Vec<Sql>> = Rc::new(keys.iter().map(|key| Sql::Text(key.as_str().to_owned())).collect());
    let mut rows = statement.query(params![wanted, tenant]).map_err(failure)?;
    let mut found: Vec<Option<StoredRecord>> = Vec::with_capacity(keys.len());
    while let Some(row) = rows.next().map_err(failure)? {
        let wanted = row.get_ref(place).map_err(failure)?.as_bytes().map_err(|error| StoreError::Other(error.to_string()))?;
        // rows come in the order of the keys
        let missing = keys[found.len()..].iter().position(|key| key.as_str().as_bytes() == wanted);
        let missing = missing.ok_or_else(|| StoreError::Other("a record is not the next one that was asked for".into()))?;
        found.resize_with(found.len() + missing, || None);
        found.push(Some(read_row(row, &keys[found.len()], definition, detail)?));
    }
    drop(rows);
    super::settle::searched(&statement);
    found.resize_with(keys.len(), || None);
    Ok(found)
}

/// Reads a row that was found by a key. What of it cannot be read is noted.
fn read_row(row: &Row<'_>, key: &Key, collection: &Collection, detail: ReadDetail) -> Result<StoredRecord> {
    let mut damage: Vec<DamagedPart> = Vec::new();
    let mut record = StoredRecord {
        key: key.clone(),
        version: Version::default(),
        created_job: 0,
        alive: true,
        contributions: Vec::new(),
        state_set: Vec::new(),
        golden: Vec::new(),
        state: Vec::new(),
        conflicts: Vec::new(),
        raw: None,
        damage: Vec::new(),
    };
    let head = || -> rusqlite::Result<_> {
        let version = Version { revision: row.get(2)?, minor: row.get(3)?, location: crate::RowHint(Some(row.get(0)?)) };
        Ok((version, row.get::<_, i64>(4)? as u64, row.get(5)?))
    };
    match head() {
        Ok((version, created_job, alive)) => (record.version, record.created_job, record.alive) = (version, created_job, alive),
        Err(error) => damage.push(DamagedPart { part: RecordPart::Row, reason: format!("what tells its versions apart: {error}") }),
    }
    if row.get_ref(1).map_err(failure)?.as_bytes().ok() != Some(key.as_str().as_bytes()) {
        damage.push(DamagedPart { part: RecordPart::Row, reason: "its key is not the one by which it was found".into() });
    }
    let state = |_| DamagedPart { part: RecordPart::State, reason: "what transitions have set is not text".into() };
    match row.get_ref(6).map_err(failure)?.as_str_or_null().map_err(state).and_then(|text| unpack_state(text, collection)) {
        Ok(set) => record.state_set = set,
        Err(unreadable) => damage.push(unreadable),
    }
    let mut bytes = |column: usize, may_be_null: bool, what: &str| match row.get_ref(column).map_err(failure)? {
        ValueRef::Blob(bytes) => Ok(Some(bytes.to_vec())),
        ValueRef::Null if may_be_null => Ok(None),
        _ => {
            damage.push(DamagedPart { part: RecordPart::Contributions, reason: format!("{what} are not bytes") });
            Ok::<_, StoreError>(None)
        }
    };
    if detail != ReadDetail::Values {
        record.contributions = bytes(7, false, "its contributions")?.unwrap_or_default();
    }
    if detail != ReadDetail::Head {
        let first = if detail == ReadDetail::Full { 8 } else { 7 };
        let fields = collection.stored_fields();
        let states = first + fields.len();
        let conflicts = states + collection.states.len();
        if detail == ReadDetail::Full {
            record.raw = bytes(conflicts + 1, true, "its documents")?;
        }
        let mut value = |column: usize, ty: &FieldType, part: RecordPart, what: &dyn Fn() -> String| -> Result<Value> {
            Ok(unbind_stored(row.get_ref(column).map_err(failure)?, ty).unwrap_or_else(|unfit| {
                damage.push(DamagedPart { part, reason: format!("{}: {unfit}", what()) });
                Value::Null
            }))
        };
        let mut golden = Vec::with_capacity(collection.fields.len());
        for (index, field) in fields.iter().enumerate() {
            golden.push(value(first + index, field.golden_type(), RecordPart::Golden(index), &|| format!("`{}`", field.name))?);
        }
        record.golden = with_members(collection, golden);
        for (index, state) in collection.states.iter().enumerate() {
            record.state.push(value(states + index, &state.ty, RecordPart::Other, &|| format!("state `{}`", state.name))?);
        }
        let names = value(conflicts, &FieldType::List(Box::new(FieldType::Text)), RecordPart::Other, &|| "its conflicts".to_owned())?;
        match conflicts_of(names.elements().iter().filter_map(Value::as_text), collection) {
            Ok(conflicts) => record.conflicts = conflicts,
            Err(unreadable) => damage.push(unreadable),
        }
    }
    record.damage = damage;
    Ok(record)
}

/// The text of a column.
pub fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<SmolStr> {
    Ok(row.get_ref(column)?.as_str()?.into())
}

pub fn marks(connection: &Connection, tenant: i64, limit: usize) -> Result<Vec<StaleMark>> {
    let sql = "SELECT id, stratum, rule, target, part, job FROM marks WHERE tenant = ? ORDER BY stratum, rule, id LIMIT ?";
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let mark = |row: &Row<'_>| {
        let job = row.get::<_, i64>(5)? as u64;
        Ok(StaleMark { id: row.get(0)?, phase: row.get(1)?, rule: row.get(2)?, target: text(row, 3)?, group: text(row, 4)?, job })
    };
    let rows = statement.query_map(params![tenant, limit as i64], mark).map_err(failure)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failure)
}

pub fn log(
    connection: &Connection,
    tables: &StoreTables,
    tenant: i64,
    collection: usize,
    key: &Key,
    before: Option<i64>,
    limit: usize,
) -> Result<Vec<ChangeLogEntry>> {
    let sql = "SELECT id, at, transition, caller, change FROM record_log WHERE tenant = ? AND collection = ? AND key = ? AND id < ? ORDER BY id DESC LIMIT ?";
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let arguments = params![tenant, tables.names[collection], key.as_str(), before.unwrap_or(i64::MAX), limit as i64];
    let mut rows = statement.query(arguments).map_err(failure)?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next().map_err(failure)? {
        let get = || -> rusqlite::Result<_> { Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get::<_, String>(4)?)) };
        let (id, at, transition, caller, change) = get().map_err(failure)?;
        let change = read_json(&change, || format!("entry {id} of the log of record {:?}", key.as_str()))?;
        entries.push(ChangeLogEntry { id, at, transition, caller, change });
    }
    Ok(entries)
}

// --- writing ------------------------------------------------------------------------------------------------------------

/// The id of a tenant, created if it is new.
pub fn tenant_id(connection: &Connection, tenant: &Tenant) -> Result<i64> {
    let mut find = connection.prepare_cached("SELECT id FROM tenants WHERE name = ?").map_err(failure)?;
    if let Some(id) = find.query_row([tenant.as_str()], |row| row.get(0)).optional().map_err(failure)? {
        return Ok(id);
    }
    connection.execute("INSERT INTO tenants(name) VALUES (?)", [tenant.as_str()]).map_err(failure)?;
    Ok(connection.last_insert_rowid())
}

/// Writes a unit of work inside the writer's transaction.
pub fn write(connection: &Connection, tables: &StoreTables, unit: &mut dyn Unit, stamp: i64) -> Result<CommitReceipt> {
    let fence = unit.fence();
    if let Some(fence) = fence {
        work::hand_back(connection, fence)?;
    }
    let tenant = tenant_id(connection, unit.tenant())?;
    if let Some(call) = unit.call() {
        let mut find = connection.prepare_cached("SELECT request, answer FROM calls WHERE tenant = ? AND id = ?").map_err(failure)?;
        let known: Option<(Vec<u8>, Vec<u8>)> =
            find.query_row(params![tenant, call.id.as_slice()], |row| Ok((row.get(0)?, row.get(1)?))).optional().map_err(failure)?;
        if let Some((request, answer)) = known {
            let same = request == call.request;
            unit.repeated(same, answer);
            return Ok(CommitReceipt { committed_at: stamp, rows: 0 });
        }
    }
    let writes = unit.writes();
    let mut rows = 0;
    let mut lost: Vec<(usize, Vec<Key>)> = Vec::new();
    let mut refused: Vec<UniqueConflict> = Vec::new();
    let mut writer = RowWriter { connection, tables, tenant, commit_time: stamp, statements: [const { None }; 3] };
    for write in writes {
        match writer.apply(write)? {
            RowWriteResult::Done => rows += 1,
            RowWriteResult::Changed => match lost.last_mut() {
                Some((collection, keys)) if *collection == write.collection => keys.push(write.key.clone()),
                _ => lost.push((write.collection, vec![write.key.clone()])),
            },
            RowWriteResult::UniqueTaken { field, holder } => {
                refused.push(UniqueConflict { collection: write.collection, key: write.key.clone(), field, holder })
            }
        }
    }
    if !lost.is_empty() {
        let mut conflicts = Vec::new();
        for (collection, keys) in lost {
            let records = read_damaged(connection, tables, tenant, collection, &keys, ReadDetail::Full)?;
            conflicts.extend(keys.into_iter().zip(records).map(|(key, record)| WriteConflict { collection, key, record }));
        }
        for write in unit.resolve(conflicts)? {
            match writer.apply(&write)? {
                RowWriteResult::Done => rows += 1,
                RowWriteResult::Changed => {
                    return Err(StoreError::Wrong(format!("what was merged for record {:?} is not based on what it is now", write.key.as_str())));
                }
                RowWriteResult::UniqueTaken { field, holder } => {
                    refused.push(UniqueConflict { collection: write.collection, key: write.key, field, holder })
                }
            }
        }
    }
    refused.into_iter().for_each(|refused| unit.refused(refused));
    super::settle::check(connection, tables, tenant, unit)?;
    super::tags::write(connection, tables, tenant, unit)?;
    settle(connection, tables, tenant, unit.settling())?;
    for entry in unit.log() {
        let sql = "INSERT INTO record_log(tenant, collection, key, at, transition, caller, change) VALUES (?, ?, ?, ?, ?, ?, ?)";
        let (collection, key) = (&tables.names[entry.collection], entry.key.as_str());
        execute(connection, sql, params![tenant, collection, key, stamp, entry.transition, entry.caller, entry.change.to_string()])?;
        if let (Some(kept), None) = (tables.catalogue().collections[entry.collection].history, &entry.transition) {
            let sql = "DELETE FROM record_log WHERE tenant = ?1 AND collection = ?2 AND key = ?3 AND transition IS NULL AND id <= \
                       (SELECT id FROM record_log WHERE tenant = ?1 AND collection = ?2 AND key = ?3 AND transition IS NULL \
                        ORDER BY id DESC LIMIT 1 OFFSET ?4)";
            execute(connection, sql, params![tenant, collection, key, kept])?;
        }
    }
    if let Some(answer) = unit.answer()
        && let Some(call) = unit.call()
    {
        // old ones go with new ones
        execute(
            connection,
            "DELETE FROM calls WHERE (tenant, id) IN (SELECT tenant, id FROM calls WHERE made < ? LIMIT 2)",
            params![stamp - CALL_KEPT],
        )?;
        let sql = "INSERT INTO calls(tenant, id, request, answer, made) VALUES (?, ?, ?, ?, ?)";
        execute(connection, sql, params![tenant, call.id.as_slice(), call.request.as_slice(), answer, stamp])?;
    }
    if let (Some(journal), Some(fence)) = (unit.journal(), fence) {
        work::write_journal(connection, tables, fence.chunk, journal)?;
    }
    if let Some(fence) = fence {
        work::finish_chunk(connection, fence.chunk, stamp)?;
    }
    Ok(CommitReceipt { committed_at: stamp, rows })
}

enum RowWriteResult {
    Done,
    /// The record is not what was read.
    Changed,
    /// Another record has the value of a unique field.
    UniqueTaken {
        field: usize,
        holder: String,
    },
}

/// Writes the rows of one unit.
struct RowWriter<'c> {
    connection: &'c Connection,
    tables: &'c StoreTables,
    tenant: i64,
    commit_time: i64,
    /// The statements that write into the collection written last, see [`RowWriter::statement`]: finding them anew for every row, and the
    /// memory for what is bound to them, would cost a tenth.
    statements: [Option<(usize, CachedStatement<'c>)>; 3],
}

impl<'c> RowWriter<'c> {
    fn apply(&mut self, write: &RecordWrite) -> Result<RowWriteResult> {
        let (connection, tenant) = (self.connection, self.tenant);
        let own = &self.tables.collections[write.collection];
        match &write.change {
            RecordChange::Put(content) => self.put(write, content),
            RecordChange::Touch { contributions } => {
                let Some(version) = write.expect else { return Ok(RowWriteResult::Changed) };
                let id = self.id(write, version)?;
                let sql = format!("UPDATE {} SET touch = touch + 1, contributions = ? WHERE {AT_VERSION}", own.table);
                let mut statement = connection.prepare_cached(&sql).map_err(failure)?;
                let arguments = params![contributions, id, tenant, write.key.as_str(), version.revision, version.minor];
                let changed = statement.execute(arguments).map_err(failure)?;
                Ok(if changed == 1 { RowWriteResult::Done } else { RowWriteResult::Changed })
            }
            RecordChange::Settle(content) => self.settle(write, content),
            RecordChange::State { state, state_set } => {
                let Some(version) = write.expect else { return Ok(RowWriteResult::Changed) };
                let id = self.id(write, version)?;
                let mut statement = connection.prepare_cached(&own.set_state).map_err(failure)?;
                let mut binder = Binder { statement: &mut statement, index: 0 };
                binder.bind(self.commit_time.max(version.revision + 1))?;
                for value in state {
                    binder.bind(bind(value))?;
                }
                binder.bind(pack_state(state_set, &self.tables.catalogue().collections[write.collection]))?;
                binder.bind_row(id, tenant, &write.key, version)?;
                let changed = binder.statement.raw_execute().map_err(failure)?;
                Ok(if changed == 1 { RowWriteResult::Done } else { RowWriteResult::Changed })
            }
            RecordChange::Delete => {
                let Some(version) = write.expect else {
                    // nothing was there: that is still so, or somebody has written it meanwhile
                    return Ok(if self.is_current(write)? { RowWriteResult::Done } else { RowWriteResult::Changed });
                };
                let id = self.id(write, version)?;
                let sql = format!("DELETE FROM {} WHERE {AT_VERSION}", own.table);
                let mut statement = connection.prepare_cached(&sql).map_err(failure)?;
                let arguments = params![id, tenant, write.key.as_str(), version.revision, version.minor];
                if statement.execute(arguments).map_err(failure)? == 0 {
                    return Ok(RowWriteResult::Changed);
                }
                forget_side_rows(connection, own, id)?;
                for (_, side) in &own.uniques {
                    execute(connection, &format!("DELETE FROM {side} WHERE tenant = ? AND key = ?"), params![tenant, write.key.as_str()])?;
                }
                Ok(RowWriteResult::Done)
            }
        }
    }

    /// Whether the record is still what was read.
    fn is_current(&self, write: &RecordWrite) -> Result<bool> {
        is_current(self.connection, self.tables, self.tenant, (write.collection, &write.key), write.expect)
    }

    /// The id of the record of which a version was read; one that no record has if it is not there any more.
    fn id(&self, write: &RecordWrite, version: Version) -> Result<i64> {
        match version.location.0 {
            Some(id) => Ok(id),
            None => Ok(find(self.connection, self.tables, self.tenant, (write.collection, &write.key))?.unwrap_or(-1)),
        }
    }

    /// A statement of a collection; it stays in its place until the next one is another collection's.
    fn statement<'s>(
        place: &'s mut Option<(usize, CachedStatement<'c>)>,
        connection: &'c Connection,
        collection: usize,
        sql: &str,
    ) -> Result<&'s mut Statement<'c>> {
        let own = match place.take().filter(|(of, _)| *of == collection) {
            Some(same) => same,
            None => (collection, connection.prepare_cached(sql).map_err(failure)?),
        };
        Ok(&mut place.insert(own).1)
    }

    fn put(&mut self, write: &RecordWrite, content: &RecordContent) -> Result<RowWriteResult> {
        let (connection, tenant, stamp) = (self.connection, self.tenant, self.commit_time);
        let own = &self.tables.collections[write.collection];
        let collection = &self.tables.catalogue().collections[write.collection];
        // a stale write must neither take nor free a value, so its version is looked at first
        let rest = write.expect.is_some() && content.indexes_unchanged;
        if !own.uniques.is_empty() && !rest && !self.is_current(write)? {
            return Ok(RowWriteResult::Changed);
        }
        if !rest && let Some(taken) = reserve(connection, own, collection, tenant, &write.key, content)? {
            return Ok(taken);
        }
        let state = pack_state(&content.state_set, collection);
        let conflicts = pack_conflicts(&content.conflicts, collection);
        let revision = write.expect.map_or(stamp, |version| stamp.max(version.revision + 1));
        let (place, sql) = match (write.expect, rest) {
            (None, _) => (0, &own.insert),
            (Some(_), false) => (1, &own.update),
            (Some(_), true) => (2, &own.update_rest),
        };
        let id = write.expect.map(|version| self.id(write, version)).transpose()?;
        let statement = Self::statement(&mut self.statements[place], connection, write.collection, sql)?;
        let mut binder = Binder { statement, index: 0 };
        if write.expect.is_none() {
            binder.bind(tenant)?;
            binder.bind(write.key.as_str())?;
            binder.bind(packed::pack(write.key.as_str().as_bytes()))?;
            binder.bind(revision)?;
            binder.bind(0)?;
        } else {
            binder.bind(revision)?;
        }
        binder.bind(content.created_job as i64)?;
        binder.bind(content.exists)?;
        let mut stays = own.indexed.iter().map(|indexed| rest && *indexed);
        let mut is_written = || !stays.next().unwrap_or(false);
        for value in content.golden.iter().take(collection.stored_fields().len()) {
            if is_written() {
                binder.bind(bind(value))?;
            }
        }
        for index in &own.folded {
            if is_written() {
                binder.bind(content.golden[*index].as_text().map(fold))?;
            }
        }
        for index in &own.digested {
            if is_written() {
                binder.bind(digest_of(&content.golden[*index]))?;
            }
        }
        for value in &content.state {
            if is_written() {
                binder.bind(bind(value))?;
            }
        }
        binder.bind(conflicts)?;
        binder.bind(state)?;
        binder.bind(&content.contributions)?;
        binder.bind(content.raw.as_deref())?;
        if let (Some(version), Some(id)) = (write.expect, id) {
            binder.bind_row(id, tenant, &write.key, version)?;
        }
        if binder.statement.raw_execute().map_err(failure)? == 0 {
            return Ok(RowWriteResult::Changed);
        }
        if rest || (own.lists.is_empty() && own.trigrams.is_empty()) {
            return Ok(RowWriteResult::Done);
        }
        let id = match id {
            None => connection.last_insert_rowid(),
            Some(id) => {
                forget_side_rows(connection, own, id)?;
                id
            }
        };
        self.write_side_rows(write.collection, id, content)?;
        Ok(RowWriteResult::Done)
    }

    fn write_side_rows(&self, collection: usize, id: i64, content: &RecordContent) -> Result<()> {
        let (connection, tenant) = (self.connection, self.tenant);
        let own = &self.tables.collections[collection];
        let collection = &self.tables.catalogue().collections[collection];
        for (field, side) in &own.lists {
            let definition = &collection.fields[*field];
            for element in content.golden[*field].elements() {
                let folded = if definition.fold { element.as_text().map(|text| Value::text(fold(text))) } else { None };
                let value = bind_element(folded.as_ref().unwrap_or(element));
                execute(connection, &format!("INSERT OR IGNORE INTO {side}(tenant, value, id) VALUES (?, ?, ?)"), params![tenant, value, id])?;
            }
        }
        for (field, side) in &own.trigrams {
            if let Some(text) = content.golden[*field].as_text() {
                let folded = if collection.fields[*field].fold { fold(text) } else { text.to_owned() };
                execute(connection, &format!("INSERT INTO {side}(rowid, value) VALUES (?, ?)"), params![id, folded])?;
            }
        }
        Ok(())
    }

    /// Writes the settled values of a row, and nothing else.
    fn settle(&mut self, write: &RecordWrite, content: &RecordContent) -> Result<RowWriteResult> {
        let Some(version) = write.expect else { return Ok(RowWriteResult::Changed) };
        let id = self.id(write, version)?;
        let own = &self.tables.collections[write.collection];
        let mut statement = self.connection.prepare_cached(&own.settle).map_err(failure)?;
        let mut binder = Binder { statement: &mut statement, index: 0 };
        for index in &own.settled {
            binder.bind(bind(&content.golden[*index]))?;
        }
        for index in own.settled.iter().filter(|index| own.folded.contains(index)) {
            binder.bind(content.golden[*index].as_text().map(fold))?;
        }
        for index in own.settled.iter().filter(|index| own.digested.contains(index)) {
            binder.bind(digest_of(&content.golden[*index]))?;
        }
        binder.bind_row(id, self.tenant, &write.key, version)?;
        if binder.statement.raw_execute().map_err(failure)? == 0 {
            return Ok(RowWriteResult::Changed);
        }
        let sides = own.lists.iter().chain(&own.trigrams);
        if sides.map(|(field, _)| field).any(|field| own.settled.contains(field)) {
            forget_side_rows(self.connection, own, id)?;
            self.write_side_rows(write.collection, id, content)?;
        }
        Ok(RowWriteResult::Done)
    }
}

/// Whether a record is still what was read of it.
pub fn is_current(
    connection: &Connection,
    tables: &StoreTables,
    tenant: i64,
    (collection, key): (usize, &Key),
    expected: Option<Version>,
) -> Result<bool> {
    let known = expected.and_then(|version| version.location.0);
    let id = if known.is_some() { known } else { find(connection, tables, tenant, (collection, key))? };
    let (Some(id), Some(version)) = (id, expected) else { return Ok(id.is_none() && expected.is_none()) };
    let sql = format!("SELECT 1 FROM {} WHERE {AT_VERSION}", tables.collections[collection].table);
    let mut statement = connection.prepare_cached(&sql).map_err(failure)?;
    statement.exists(params![id, tenant, key.as_str(), version.revision, version.minor]).map_err(failure)
}

/// The id of a record, if there is one of this key.
fn find(connection: &Connection, tables: &StoreTables, tenant: i64, (collection, key): (usize, &Key)) -> Result<Option<i64>> {
    let sql = format!("SELECT id FROM {} WHERE {BY_KEY}", tables.collections[collection].table);
    let mut statement = connection.prepare_cached(&sql).map_err(failure)?;
    statement.query_row(params![tenant, key.as_str()], |row| row.get(0)).optional().map_err(failure)
}

/// Takes the values of unique fields for a record, and gives back those it had. A record that does not exist holds none.
fn reserve(
    connection: &Connection,
    own: &CollectionTables,
    collection: &Collection,
    tenant: i64,
    key: &Key,
    content: &RecordContent,
) -> Result<Option<RowWriteResult>> {
    // look at all before taking any, so that a refused record leaves no trace
    for (field, side) in &own.uniques {
        let value = reserved_value(collection, *field, content);
        if value.is_null() {
            continue;
        }
        let mut find = connection.prepare_cached(&format!("SELECT key FROM {side} WHERE tenant = ? AND value = ?")).map_err(failure)?;
        let holder: Option<String> = find.query_row(params![tenant, bind(&value)], |row| row.get(0)).optional().map_err(failure)?;
        if let Some(holder) = holder.filter(|holder| holder != key.as_str()) {
            return Ok(Some(RowWriteResult::UniqueTaken { field: *field, holder }));
        }
    }
    for (field, side) in &own.uniques {
        let value = reserved_value(collection, *field, content);
        execute(
            connection,
            &format!("DELETE FROM {side} WHERE tenant = ? AND key = ? AND value IS NOT ?"),
            params![tenant, key.as_str(), bind(&value)],
        )?;
        if !value.is_null() {
            execute(
                connection,
                &format!("INSERT OR IGNORE INTO {side}(tenant, value, key) VALUES (?, ?, ?)"),
                params![tenant, bind(&value), key.as_str()],
            )?;
        }
    }
    Ok(None)
}

/// What the index of a link's children holds of a value.
fn digest_of(value: &Value) -> Option<i32> {
    value.as_text().map(|text| packed::digest(text.as_bytes()))
}

fn forget_side_rows(connection: &Connection, own: &CollectionTables, id: i64) -> Result<()> {
    for (_, side) in &own.lists {
        execute(connection, &format!("DELETE FROM {side} WHERE id = ?"), params![id])?;
    }
    for (_, side) in &own.trigrams {
        execute(connection, &format!("DELETE FROM {side} WHERE rowid = ?"), params![id])?;
    }
    Ok(())
}

fn settle(connection: &Connection, tables: &StoreTables, tenant: i64, mut settling: SettlingChanges) -> Result<()> {
    let new = std::mem::take(&mut settling.marks_if_linked);
    if !new.is_empty() {
        // nobody else writes meanwhile, so what is there beside what this unit says is all there is
        let own = settling.named_by_field(tables.catalogue());
        let mut named = Vec::new();
        for mark in new {
            let own = own.get(&(mark.rule, mark.target.as_str())).copied().unwrap_or(0);
            if super::settle::edges(connection, tables, tenant, mark.rule, (&mark.target, None), own + 1)?.len() > own {
                named.push(mark);
            }
        }
        settling.marks.extend(named);
    }
    for link in &settling.cleared_links {
        execute(connection, "DELETE FROM edges WHERE tenant = ? AND link = ?", params![tenant, link])?;
    }
    let prepare = |sql: &str| connection.prepare_cached(sql).map_err(failure);
    let put = "INSERT OR REPLACE INTO edges(tenant, link, target, grp, start, child, payload) VALUES (?, ?, ?, ?, ?, ?, ?)";
    let delete = "DELETE FROM edges WHERE tenant = ? AND link = ? AND target = ? AND grp = ? AND start = ? AND child = ?";
    let (mut put, mut delete) = (prepare(put)?, prepare(delete)?);
    for change in settling.edges.iter().filter(|change| change.is_kept(tables.catalogue())) {
        let done = match change {
            EdgeChange::Put(edge) => {
                put.execute(params![tenant, edge.link, edge.target.as_str(), edge.group.as_str(), edge.start, edge.child.as_str(), edge.payload])
            }
            EdgeChange::Delete(edge) => {
                delete.execute(params![tenant, edge.link, edge.target.as_str(), edge.group.as_str(), edge.start, edge.child.as_str()])
            }
        };
        done.map_err(failure)?;
    }
    for id in &settling.cleared {
        execute(connection, "DELETE FROM marks WHERE id = ? AND tenant = ?", params![id, tenant])?;
    }
    for mark in &settling.marks {
        execute(
            connection,
            "INSERT INTO marks(tenant, stratum, rule, target, part, job) VALUES (?, ?, ?, ?, ?, ?)",
            params![tenant, mark.phase, mark.rule, mark.target.as_str(), mark.group.as_str(), mark.job as i64],
        )?;
    }
    Ok(())
}

/// Runs a cached statement for its effect.
pub fn execute(connection: &Connection, sql: &str, arguments: &[&dyn ToSql]) -> Result<()> {
    connection.prepare_cached(sql).and_then(|mut statement| statement.execute(arguments)).map(|_| ()).map_err(failure)
}

/// Binds parameters one after the other.
struct Binder<'s, 'c> {
    statement: &'s mut Statement<'c>,
    index: usize,
}

impl Binder<'_, '_> {
    fn bind(&mut self, value: impl ToSql) -> Result<()> {
        self.index += 1;
        self.statement.raw_bind_parameter(self.index, value).map_err(failure)
    }

    /// What finds a record at a version, see [`AT_VERSION`].
    fn bind_row(&mut self, id: i64, tenant: i64, key: &Key, version: Version) -> Result<()> {
        self.bind(id)?;
        self.bind(tenant)?;
        self.bind(key.as_str())?;
        self.bind(version.revision)?;
        self.bind(version.minor)
    }
}
