//! Rows: reading records in bulk, and writing a unit of work.
//!
//! A unit locks the rows it is about in the order of their keys, compares versions, merges what has changed, and writes with one
//! statement per kind of change, which are waited for together; more than a few new rows are copied. All transactions lock in the
//! same order: rows that exist, reservations of unique values, new rows. So they wait for each other, but never in a circle.

use super::session::{DatabaseError, DbResult, Session, SqlParameter};
use super::tables::{CollectionTables, StoreTables};
use super::values::{self, BoundValue, RowExt, RowLocation, column_type};
use super::work;
use crate::damage::{Damage, DamagedPart, RecordPart};
use crate::row::{conflicts_of, read_json, unpack_state};
use crate::{
    CALL_KEPT, ChangeLogEntry, CommitReceipt, EdgeChange, NewChangeLogEntry, ReadDetail, RecordChange, RecordContent, RecordWrite, SettlingChanges,
    StaleMark, StoreError, StoredRecord, Tenant, UniqueConflict, Unit, Version, WriteConflict, lane_of,
};
use ::tokio_postgres::Row;
use ::tokio_postgres::types::Type;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::RwLock;
use stook_catalogue::definition::Collection;
use stook_catalogue::fold::fold;
use stook_catalogue::key::Key;
use stook_catalogue::record::put_value;
use stook_catalogue::value::{FieldType, SmolStr, Value};

// --- reading ------------------------------------------------------------------------------------------------------------

/// The row of a record whose key is `u.own`: a range of one key in the order of keys, because
/// of a table that it believes to be small the planner would as well take any other index and read all rows of the tenant.
const ONE: &str = "BETWEEN u.own AND u.own ORDER BY key LIMIT 1";

/// Rows of records by key (`$2`) of a tenant (`$1`), one by one.
pub fn by_key(tables: &StoreTables, table: &str, columns: &str) -> String {
    match tables.distributed() {
        true => format!("SELECT {columns} FROM {table} WHERE tenant = $1 AND key = ANY($2)"),
        false => format!(
            "SELECT r.* FROM unnest($2::text[]) AS u(own) CROSS JOIN LATERAL \
             (SELECT {columns} FROM {table} WHERE tenant = $1 AND key {ONE}) AS r"
        ),
    }
}

/// The same, locked in the order of keys, which are parameter `keys`. Rows that are spread are not locked one by one.
pub fn by_key_locked(tables: &StoreTables, table: &str, columns: &str, keys: usize, lock: &str) -> String {
    match tables.distributed() {
        true => format!("SELECT {columns} FROM {table} WHERE tenant = $1 AND key = ANY(${keys})"),
        false => format!(
            "SELECT r.* FROM (SELECT own FROM unnest(${keys}::text[]) AS u(own) ORDER BY own COLLATE \"C\") AS u CROSS JOIN LATERAL \
             (SELECT {columns} FROM {table} WHERE tenant = $1 AND key {ONE} {lock}) AS r"
        ),
    }
}

/// Reads records by key, in the order of `keys`, with one statement.
pub fn read(
    session: &mut Session,
    tables: &StoreTables,
    tenant: i64,
    collection: usize,
    keys: &[Key],
    detail: ReadDetail,
) -> DbResult<Vec<Option<StoredRecord>>> {
    let found = read_damaged(session, tables, tenant, collection, keys, detail)?;
    let name = &tables.catalogue().collections[collection].name;
    found.into_iter().map(|record| Ok(record.map(|record| record.sound(name)).transpose()?)).collect()
}

/// The same, with records that are damaged.
pub fn read_damaged(
    session: &mut Session,
    tables: &StoreTables,
    tenant: i64,
    collection: usize,
    keys: &[Key],
    detail: ReadDetail,
) -> DbResult<Vec<Option<StoredRecord>>> {
    let own = tables.collections.get(collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))?;
    let definition = &tables.catalogue().collections[collection];
    let columns = &own.read[detail as usize];
    let sql = by_key(tables, &own.table, columns);
    let wanted: Vec<&str> = keys.iter().map(Key::as_str).collect();
    let mut found: Vec<Option<StoredRecord>> = vec![None; keys.len()];
    // of a key that is asked for twice the last place
    let places: HashMap<&str, usize> = wanted.iter().enumerate().map(|(place, key)| (*key, place)).collect();
    session.visit(&sql, &[&tenant, &wanted], |row| {
        let record = read_row(row, definition, detail)?;
        if let Some(place) = places.get(record.key.as_str()) {
            found[*place] = Some(record);
        }
        Ok(())
    })?;
    for (place, key) in wanted.iter().enumerate().filter(|(place, key)| places[*key] != *place) {
        found[place] = found[places[key]].clone();
    }
    Ok(found)
}

/// Reads a row. What of it cannot be read is noted.
fn read_row(row: &Row, collection: &Collection, detail: ReadDetail) -> DbResult<StoredRecord> {
    let mut damage: Vec<DamagedPart> = Vec::new();
    let reason = |trouble: DatabaseError| StoreError::from(trouble).to_string();
    let key: &str = row.at(0)?;
    let mut record = StoredRecord {
        key: Key::new(key).map_err(|error| StoreError::Damaged(Damage::of_record(&collection.name, key, error.to_string())))?,
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
    let head = || -> DbResult<_> { Ok((Version::new(row.at(1)?, row.at(2)?), row.at::<i64>(3)? as u64, row.at(4)?)) };
    match head() {
        Ok((version, created_job, alive)) => (record.version, record.created_job, record.alive) = (version, created_job, alive),
        Err(trouble) => damage.push(DamagedPart { part: RecordPart::Row, reason: reason(trouble) }),
    }
    let state = |trouble| DamagedPart { part: RecordPart::State, reason: reason(trouble) };
    match row.at(5).map_err(state).and_then(|text| unpack_state(text, collection)) {
        Ok(set) => record.state_set = set,
        Err(unreadable) => damage.push(unreadable),
    }
    if detail != ReadDetail::Values {
        match row.at(6) {
            Ok(contributions) => record.contributions = contributions,
            Err(trouble) => damage.push(DamagedPart { part: RecordPart::Contributions, reason: reason(trouble) }),
        }
    }
    if detail != ReadDetail::Head {
        let first = if detail == ReadDetail::Full { 7 } else { 6 };
        let fields = collection.stored_fields();
        let states = first + fields.len();
        let conflicts = states + collection.states.len();
        let mut value = |column: usize, ty: &FieldType, part: RecordPart, name: &str| {
            values::read(row, column, ty).unwrap_or_else(|unfit| {
                damage.push(DamagedPart { part, reason: format!("`{name}`: {unfit}") });
                Value::Null
            })
        };
        let golden =
            fields.iter().enumerate().map(|(index, field)| value(first + index, field.golden_type(), RecordPart::Golden(index), &field.name));
        let golden = golden.collect();
        record.golden = crate::row::with_members(collection, golden);
        record.state =
            collection.states.iter().enumerate().map(|(index, state)| value(states + index, &state.ty, RecordPart::Other, &state.name)).collect();
        let rest = |trouble| DamagedPart { part: RecordPart::Other, reason: reason(trouble) };
        let names = row.at::<Option<Vec<&str>>>(conflicts).map_err(rest);
        match names.and_then(|names| conflicts_of(names.unwrap_or_default().into_iter(), collection)) {
            Ok(conflicts) => record.conflicts = conflicts,
            Err(unreadable) => damage.push(unreadable),
        }
        if detail == ReadDetail::Full {
            match row.at(conflicts + 1) {
                Ok(raw) => record.raw = raw,
                Err(trouble) => damage.push(DamagedPart { part: RecordPart::Contributions, reason: reason(trouble) }),
            }
        }
    }
    record.damage = damage;
    Ok(record)
}

/// The text of a column.
pub fn text(row: &Row, column: usize) -> DbResult<SmolStr> {
    Ok(row.at::<&str>(column)?.into())
}

/// Marks of some lanes.
pub fn marks(session: &mut Session, tables: &StoreTables, tenant: i64, lanes: &[i64], limit: usize) -> DbResult<Vec<StaleMark>> {
    let columns = "SELECT id, stratum, rule, target, part, job FROM marks WHERE tenant = $1";
    let order = "ORDER BY stratum, rule, id LIMIT $3";
    let sql = match tables.distributed() {
        true => format!("{columns} AND lane = ANY($2) {order}"),
        // each in the order of the index, so that no more are read than are wanted
        false => format!("SELECT m.* FROM unnest($2::bigint[]) AS u(lane) CROSS JOIN LATERAL ({columns} AND lane = u.lane {order}) AS m {order}"),
    };
    let mark = |row: Row| -> DbResult<StaleMark> {
        let number = |column: usize| row.at::<i64>(column);
        let (stratum, rule, job) = (number(1)? as u32, number(2)? as u32, number(5)? as u64);
        Ok(StaleMark { id: row.at(0)?, phase: stratum, rule, target: text(&row, 3)?, group: text(&row, 4)?, job })
    };
    session.query(&sql, &[&tenant, &lanes, &(limit as i64)])?.into_iter().map(mark).collect()
}

/// The versions of records, in the order of `keys`.
pub fn versions(session: &mut Session, tables: &StoreTables, tenant: i64, collection: usize, keys: &[Key]) -> DbResult<Vec<Option<Version>>> {
    let own = tables.collections.get(collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))?;
    let sql = by_key(tables, &own.table, "key, revision, touch");
    let wanted: Vec<&str> = keys.iter().map(Key::as_str).collect();
    let rows = session.query(&sql, &[&tenant, &wanted])?;
    let version = |row: &Row| Ok((row.at::<String>(0)?, Version::new(row.at(1)?, row.at(2)?)));
    let found: HashMap<String, Version> = rows.iter().map(version).collect::<DbResult<_>>()?;
    Ok(keys.iter().map(|key| found.get(key.as_str()).copied()).collect())
}

pub fn log(
    session: &mut Session,
    tables: &StoreTables,
    tenant: i64,
    collection: usize,
    key: &Key,
    before: Option<i64>,
    limit: usize,
) -> DbResult<Vec<ChangeLogEntry>> {
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

// --- writing ------------------------------------------------------------------------------------------------------------

/// Ids of tenants that are in the store; they never change, so they are remembered.
#[derive(Default)]
pub struct TenantIds(RwLock<HashMap<Tenant, i64>>);

impl TenantIds {
    /// The id of a tenant, if it has ever written. Not to be asked inside a transaction, which may be taken back.
    pub fn find(&self, session: &mut Session, tenant: &Tenant) -> DbResult<Option<i64>> {
        let known = self.0.read().ok().and_then(|tenants| tenants.get(tenant).copied());
        if known.is_some() {
            return Ok(known);
        }
        let found: Option<i64> = session.first("SELECT id FROM tenants WHERE name = $1", &[&tenant.as_str()])?.map(|row| row.at(0)).transpose()?;
        if let (Some(id), Ok(mut tenants)) = (found, self.0.write()) {
            tenants.insert(tenant.clone(), id);
        }
        Ok(found)
    }
}

/// The id of a tenant, created if it is new.
pub fn tenant_id(session: &mut Session, tenant: &Tenant) -> DbResult<i64> {
    if let Some(row) = session.first("SELECT id FROM tenants WHERE name = $1", &[&tenant.as_str()])? {
        return row.at(0);
    }
    let sql = "INSERT INTO tenants(name) VALUES ($1) ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id";
    session.one(sql, &[&tenant.as_str()])?.at(0)
}

/// Writes a unit of work inside a transaction; returns how many rows it wrote of which collections, too.
pub fn write(
    session: &mut Session,
    tables: &StoreTables,
    tenant: Option<i64>,
    unit: &mut dyn Unit,
    stamp: i64,
) -> DbResult<(CommitReceipt, Vec<(usize, u64)>)> {
    let fence = unit.fence();
    if let Some(fence) = fence {
        work::hand_back(session, fence)?;
    }
    let tenant = match tenant {
        Some(tenant) => tenant,
        None => tenant_id(session, unit.tenant())?,
    };
    if let Some(call) = unit.call() {
        // its place is taken first, so that the same call waits here until this one has ended, and then finds its answer
        let sql = "INSERT INTO calls(tenant, id, request, answer, made) VALUES ($1, $2, $3, '', $4) ON CONFLICT DO NOTHING";
        if session.execute(sql, &[&tenant, &call.id.as_slice(), &call.request.as_slice(), &stamp])? == 0 {
            let known = session.first("SELECT request, answer FROM calls WHERE tenant = $1 AND id = $2", &[&tenant, &call.id.as_slice()])?;
            let row = known.ok_or_else(|| DatabaseError::Retry("an expired idempotency key was removed meanwhile".into()))?;
            let same = row.at::<&[u8]>(0)? == call.request;
            unit.repeated(same, row.at(1)?);
            return Ok((CommitReceipt { committed_at: stamp, rows: 0 }, Vec::new()));
        }
    }
    let mut desk = UnitWriter { session, tables, tenant, stamp, waits_for_locks: unit.waits(), locked: HashMap::new() };
    let writes = unit.writes();
    desk.lock(writes)?;
    if !desk.waits_for_locks && writes.iter().any(|write| write.expect.is_some() && !desk.locked.contains_key(&(write.collection, write.key.clone())))
    {
        return Err(StoreError::Held.into());
    }
    let (current, lost): (Vec<&RecordWrite>, Vec<&RecordWrite>) = writes.iter().partition(|write| desk.is_current(write));
    let mut applied: Vec<Cow<'_, RecordWrite>> = if lost.is_empty() {
        current.into_iter().map(Cow::Borrowed).collect()
    } else {
        let mut keys: BTreeMap<usize, Vec<Key>> = BTreeMap::new();
        lost.iter().for_each(|write| keys.entry(write.collection).or_default().push(write.key.clone()));
        let mut applied: Vec<RecordWrite> = current.into_iter().cloned().collect();
        let mut conflicts = Vec::new();
        for (collection, keys) in keys {
            let records = read_damaged(desk.session, tables, tenant, collection, &keys, ReadDetail::Full)?;
            for (key, record) in keys.into_iter().zip(records) {
                // it came into being behind the lock: begin again, then it is locked in its turn
                let is_known = |record: &StoredRecord| record.damage.iter().all(|damage| damage.part != RecordPart::Row);
                if record.as_ref().filter(|record| is_known(record)).map(|record| record.version)
                    != desk.locked.get(&(collection, key.clone())).map(|held| held.0)
                {
                    return Err(DatabaseError::Retry("a record was created meanwhile".into()));
                }
                conflicts.push(WriteConflict { collection, key, record });
            }
        }
        let resolved = unit.resolve(conflicts)?;
        desk.lock(&resolved)?;
        for write in resolved {
            if !desk.is_current(&write) {
                let reason = format!("what was merged for record {:?} is not based on what it is now", write.key.as_str());
                return Err(StoreError::Wrong(reason).into());
            }
            applied.push(write);
        }
        applied.into_iter().map(Cow::Owned).collect()
    };
    let refused = desk.reserve(&mut applied)?;
    let rows = applied.len() as u64;
    let sizes = desk.apply(applied)?;
    let session = desk.session;
    refused.into_iter().for_each(|refused| unit.refused(refused));
    check(session, tables, tenant, unit)?;
    super::tags::write(session, tables, tenant, unit)?;
    settle(session, tables, tenant, unit.settling())?;
    for entries in unit.log().chunk_by(|a, b| a.collection == b.collection) {
        write_log(session, &tables.catalogue().collections[entries[0].collection], tenant, entries, stamp)?;
    }
    let answer = unit.answer();
    if let Some(call) = unit.call() {
        let (tenant, id): (&i64, &[u8]) = (&tenant, &call.id);
        match answer {
            Some(answer) => {
                session.later("UPDATE calls SET answer = $3 WHERE tenant = $1 AND id = $2", &[tenant, &id, &answer])?;
                // old ones go with new ones
                let old = "DELETE FROM calls WHERE (tenant, id) IN \
                           (SELECT tenant, id FROM calls WHERE made < $1 ORDER BY made LIMIT 2 FOR UPDATE SKIP LOCKED)";
                session.later(old, &[&(stamp - CALL_KEPT)])?;
            }
            None => {
                session.later("DELETE FROM calls WHERE tenant = $1 AND id = $2", &[tenant, &id])?;
            }
        }
    }
    if let (Some(journal), Some(fence)) = (unit.journal(), fence) {
        work::write_journal(session, tables.catalogue(), fence.chunk, journal)?;
    }
    Ok((CommitReceipt { committed_at: stamp, rows }, sizes))
}

/// Logs changes of records of one collection; golden ones beyond what it keeps are forgotten.
fn write_log(session: &mut Session, collection: &Collection, tenant: i64, entries: &[NewChangeLogEntry], stamp: i64) -> DbResult<()> {
    let sql = "INSERT INTO record_log(tenant, collection, at, key, transition, caller, change) \
               SELECT $1, $2, $3, e.* FROM unnest($4::text[], $5::text[], $6::text[], $7::text[]) AS e";
    let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    let transitions: Vec<Option<&str>> = entries.iter().map(|entry| entry.transition.as_deref()).collect();
    let callers: Vec<&str> = entries.iter().map(|entry| entry.caller.as_str()).collect();
    let changes: Vec<String> = entries.iter().map(|entry| entry.change.to_string()).collect();
    session.later(sql, &[&tenant, &collection.name, &stamp, &keys, &transitions, &callers, &changes])?;
    if let (Some(kept), true) = (collection.history, transitions.contains(&None)) {
        let sql = "DELETE FROM record_log l USING unnest($3::text[]) AS u(key) \
                   WHERE l.tenant = $1 AND l.collection = $2 AND l.key = u.key AND l.transition IS NULL AND l.id <= \
                   (SELECT o.id FROM record_log o WHERE o.tenant = $1 AND o.collection = $2 AND o.key = u.key AND o.transition IS NULL \
                    ORDER BY o.id DESC OFFSET $4 LIMIT 1)";
        session.later(sql, &[&tenant, &collection.name, &keys, &i64::from(kept)])?;
    }
    Ok(())
}

/// Rows whose state one statement changes.
const MOST_STATES: usize = 32;

/// A record's new state.
struct StateUpdate<'w> {
    key: &'w str,
    was: Version,
    state: &'w [Value],
    packed: Option<String>,
}

/// One unit's writing.
struct UnitWriter<'d> {
    session: &'d mut Session,
    tables: &'d StoreTables,
    tenant: i64,
    stamp: i64,
    /// Whether it waits for rows that others hold.
    waits_for_locks: bool,
    /// The rows that exist and are locked, and where they stand; which is not known where rows are spread.
    locked: HashMap<(usize, Key), (Version, RowLocation)>,
}

impl UnitWriter<'_> {
    /// Locks the rows that writes are about, in the order of collections and keys, and remembers them.
    fn lock(&mut self, writes: &[RecordWrite]) -> DbResult<()> {
        let mut keys: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for write in writes {
            keys.entry(write.collection).or_default().push(write.key.as_str());
        }
        let lock = if self.waits_for_locks { "FOR UPDATE" } else { "FOR UPDATE SKIP LOCKED" };
        let keys: Vec<(usize, Vec<&str>)> = keys.into_iter().collect();
        // one statement for all collections, where it can be
        for some in keys.chunks(if self.tables.distributed() { 1 } else { keys.len().max(1) }) {
            let mut statements: Vec<String> = Vec::with_capacity(some.len());
            let mut parameters: Vec<SqlParameter<'_>> = vec![&self.tenant];
            for (collection, keys) in some {
                let own = self.tables.collections.get(*collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))?;
                if self.tables.distributed() {
                    // no rows of several servers are locked by one statement: one unit after the other writes a tenant's records
                    let whole = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '.' || $1, $2))";
                    self.session.later(whole, &[&own.table, &self.tenant])?;
                }
                parameters.push(keys);
                let place = if self.tables.distributed() { "" } else { ", ctid" };
                let columns = format!("{collection}::bigint, key, revision, touch{place}");
                statements.push(format!("({})", by_key_locked(self.tables, &own.table, &columns, parameters.len(), lock)));
            }
            for row in self.session.query(&statements.join(" UNION ALL "), &parameters)? {
                let key = Key::new(row.at::<&str>(1)?).map_err(|error| StoreError::Other(error.to_string()))?;
                let place = if self.tables.distributed() { RowLocation::default() } else { row.at(4)? };
                self.locked.insert((row.at::<i64>(0)? as usize, key), (Version::new(row.at(2)?, row.at(3)?), place));
            }
        }
        Ok(())
    }

    /// Whether a record is still what was read.
    fn is_current(&self, write: &RecordWrite) -> bool {
        let now = self.locked.get(&(write.collection, write.key.clone())).map(|held| held.0);
        now == write.expect
            && !(now.is_none() && matches!(write.change, RecordChange::Touch { .. } | RecordChange::State { .. } | RecordChange::Settle(_)))
    }

    /// Takes the values of unique fields in the order of the writes, and gives back those that records had. Writes of records
    /// whose values others have are taken out and returned.
    fn reserve(&mut self, writes: &mut Vec<Cow<'_, RecordWrite>>) -> DbResult<Vec<UniqueConflict>> {
        let mut refused = Vec::new();
        let collections: BTreeSet<usize> = writes.iter().map(|write| write.collection).collect();
        for collection in collections {
            let own = &self.tables.collections[collection];
            if own.uniques.is_empty() {
                continue;
            }
            let definition = &self.tables.catalogue().collections[collection];
            let mut sides: Vec<UniqueReservations> = Vec::new();
            for (field, side) in &own.uniques {
                let of_collection = || writes.iter().filter(|write| write.collection == collection);
                // a new record has nothing yet
                let keys: Vec<&str> = of_collection().filter(|write| write.expect.is_some()).map(|write| write.key.as_str()).collect();
                let digests: Vec<Vec<u8>> = of_collection().filter_map(|write| wanted(definition, *field, write)).collect();
                sides.push(UniqueReservations::read(self.session, self.tables, self.tenant, *field, side, &keys, &digests)?);
            }
            let mut kept = Vec::with_capacity(writes.len());
            for write in std::mem::take(writes) {
                if write.collection != collection
                    || matches!(write.change, RecordChange::Touch { .. } | RecordChange::State { .. } | RecordChange::Settle(_))
                {
                    kept.push(write);
                    continue;
                }
                let values: Vec<Option<Vec<u8>>> = sides.iter().map(|side| wanted(definition, side.field, &write)).collect();
                // look at all before taking any, so that a refused record leaves no trace
                let taken = sides.iter().zip(&values).find_map(|(side, value)| {
                    let holder = side.holders.get(value.as_ref()?).filter(|holder| holder.as_str() != write.key.as_str())?;
                    Some((side.field, holder.clone()))
                });
                if let Some((field, holder)) = taken {
                    refused.push(UniqueConflict { collection, key: write.key.clone(), field, holder });
                    continue;
                }
                for (side, value) in sides.iter_mut().zip(values) {
                    side.take(write.key.as_str(), value);
                }
                kept.push(write);
            }
            *writes = kept;
            for side in sides {
                side.write(self.session, self.tenant)?;
            }
        }
        Ok(refused)
    }

    /// Writes rows whose versions are known to be current.
    fn apply(&mut self, mut writes: Vec<Cow<'_, RecordWrite>>) -> DbResult<Vec<(usize, u64)>> {
        writes.sort_by(|a, b| (a.collection, &a.key).cmp(&(b.collection, &b.key)));
        let mut sizes = Vec::new();
        for own in writes.chunk_by(|a, b| a.collection == b.collection) {
            self.apply_to(own[0].collection, own)?;
            sizes.push((own[0].collection, own.len() as u64));
        }
        Ok(sizes)
    }

    /// Where the row stands that a write changes.
    fn place_of(&self, write: &RecordWrite) -> RowLocation {
        self.locked.get(&(write.collection, write.key.clone())).map(|held| held.1).unwrap_or_default()
    }

    fn apply_to(&mut self, collection: usize, writes: &[Cow<'_, RecordWrite>]) -> DbResult<()> {
        let (own, definition) = (&self.tables.collections[collection], &self.tables.catalogue().collections[collection]);
        let (mut new, mut changed, mut states) = (Vec::new(), Vec::new(), Vec::new());
        let (mut touched, mut packed, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for write in writes {
            let write: &RecordWrite = write;
            let key = write.key.as_str();
            match &write.change {
                RecordChange::Put(content) | RecordChange::Settle(content) if write.expect.is_some() => changed.push((write, &**content)),
                RecordChange::Put(content) | RecordChange::Settle(content) => new.push((write, &**content)),
                RecordChange::Touch { contributions } => {
                    touched.push(write);
                    packed.push(contributions.as_slice());
                }
                RecordChange::State { state, state_set } => {
                    let packed = crate::row::pack_state(state_set, definition);
                    states.push(StateUpdate { key, was: write.expect.unwrap_or_default(), state, packed });
                }
                RecordChange::Delete => gone.push(key),
            }
        }
        if !gone.is_empty() {
            let there = writes.iter().filter(|write| matches!(write.change, RecordChange::Delete) && write.expect.is_some()).count();
            let sql = match self.tables.distributed() {
                true => format!("DELETE FROM {} WHERE tenant = $1 AND key = ANY($2)", own.table),
                false => format!("DELETE FROM {} WHERE ctid = ANY(ARRAY({}))", own.table, by_key(self.tables, &own.table, "ctid")),
            };
            self.session.later_of(there, OTHER_VERSION, &sql, &[&self.tenant, &gone])?;
        }
        if !touched.is_empty() {
            let table = &own.table;
            let sql = match self.tables.distributed() {
                true => format!(
                    "UPDATE {table} r SET touch = r.touch + 1, contributions = u.packed FROM unnest($2::text[], $3::bytea[]) AS u(own, packed) \
                     WHERE r.tenant = $1 AND r.key = u.own AND r.key = ANY($2)"
                ),
                false => format!(
                    "UPDATE {table} r SET touch = r.touch + 1, contributions = u.packed FROM unnest($2::tid[], $3::bytea[]) AS u(place, packed) \
                     WHERE r.tenant = $1 AND r.ctid = u.place"
                ),
            };
            let (keys, places): (Vec<&str>, Vec<RowLocation>) = touched.iter().map(|write| (write.key.as_str(), self.place_of(write))).unzip();
            let rows: SqlParameter<'_> = if self.tables.distributed() { &keys } else { &places };
            self.session.later_of(touched.len(), OTHER_VERSION, &sql, &[&self.tenant, rows, &packed])?;
        }
        self.set_states(own, definition, &states)?;
        if !changed.is_empty() {
            let stage = super::tables::name(&["stage", &definition.name]);
            self.session.later_batch(format!(
                "CREATE TEMP TABLE IF NOT EXISTS {stage} (LIKE {}, was_revision bigint, was_touch bigint, place tid) ON COMMIT DELETE ROWS",
                own.table
            ));
            self.copy_rows(&stage, own, definition, &changed, true)?;
            let set: Vec<String> = own
                .columns
                .iter()
                .filter(|(column, _)| column != "tenant" && column != "key")
                .map(|(column, _)| format!("{column} = s.{column}"))
                .collect();
            let (table, set) = (&own.table, set.join(", "));
            let same = "r.revision = s.was_revision AND r.touch = s.was_touch";
            let sql = match self.tables.distributed() {
                true => format!("UPDATE {table} r SET {set} FROM {stage} s WHERE r.tenant = s.tenant AND r.key = s.key AND {same}"),
                false => format!("UPDATE {table} r SET {set} FROM {stage} s WHERE r.ctid = s.place AND {same}"),
            };
            self.session.later_of(changed.len(), OTHER_VERSION, &sql, &[])?;
        }
        match new.len() {
            0 => {}
            1..=FEW => self.insert_rows(own, definition, &new)?,
            _ => self.copy_rows(&own.table, own, definition, &new, false)?,
        }
        for (field, side) in &own.lists {
            let stale: Vec<&str> = changed.iter().map(|(write, _)| write.key.as_str()).chain(gone.iter().copied()).collect();
            if !stale.is_empty() {
                self.session.later(&format!("DELETE FROM {side} WHERE tenant = $1 AND key = ANY($2)"), &[&self.tenant, &stale])?;
            }
            self.copy_elements(side, definition, *field, changed.iter().chain(&new))?;
        }
        Ok(())
    }

    /// Changes states of records, some at once. To a power of two there are rows of no record, so that there are few statements.
    fn set_states(&mut self, own: &CollectionTables, collection: &Collection, changed: &[StateUpdate<'_>]) -> DbResult<()> {
        let table = &own.table;
        let states: Vec<String> = collection.states.iter().map(|state| super::tables::name(&["s", &state.name])).collect();
        let types = collection.states.iter().map(|state| values::bare_type(&state.ty));
        let types: Vec<String> = ["text", "bigint", "bigint", "bigint", "text"].map(str::to_owned).into_iter().chain(types).collect();
        let names: String = states.iter().map(|name| format!(", {name}")).collect();
        let nothing = BoundValue(&Value::Null);
        for some in changed.chunks(if self.tables.distributed() { 1 } else { MOST_STATES }) {
            let rows = some.len().next_power_of_two();
            let new: Vec<i64> = some.iter().map(|new| self.stamp.max(new.was.revision + 1)).collect();
            let values: Vec<Vec<BoundValue<'_>>> = some.iter().map(|new| new.state.iter().map(BoundValue).collect()).collect();
            let mut parameters: Vec<SqlParameter<'_>> = vec![&self.tenant];
            for ((row, revision), values) in some.iter().zip(&new).zip(&values) {
                parameters.extend([&row.key as SqlParameter<'_>, &row.was.revision, &row.was.minor, revision, &row.packed]);
                parameters.extend(values.iter().map(|value| value as SqlParameter<'_>));
            }
            parameters.resize(1 + rows * types.len(), &nothing);
            let sql = match self.tables.distributed() {
                true => {
                    let set: String = states.iter().zip(7..).map(|(name, place)| format!(", {name} = ${place}")).collect();
                    format!(
                        "UPDATE {table} SET revision = $5, touch = 0, state = $6{set} WHERE tenant = $1 AND key = $2 AND revision = $3 AND touch = $4"
                    )
                }
                false => {
                    let set: String = states.iter().map(|name| format!(", {name} = s.{name}")).collect();
                    let row = |row: usize| {
                        let cast = |(place, ty): (usize, &String)| format!("${}::{ty}", 2 + row * types.len() + place);
                        format!("({})", types.iter().enumerate().map(cast).collect::<Vec<_>>().join(", "))
                    };
                    let rows = (0..rows).map(row).collect::<Vec<_>>().join(", ");
                    format!(
                        "UPDATE {table} r SET revision = s.revision, touch = 0, state = s.state{set} FROM (SELECT u.*, o.place \
                         FROM (VALUES {rows}) AS u(own, was_revision, was_touch, revision, state{names}) CROSS JOIN LATERAL \
                         (SELECT ctid AS place FROM {table} WHERE tenant = $1 AND key {ONE}) AS o OFFSET 0) AS s \
                         WHERE r.ctid = s.place AND r.revision = s.was_revision AND r.touch = s.was_touch"
                    )
                }
            };
            self.session.later_of(some.len(), OTHER_VERSION, &sql, &parameters)?;
        }
        Ok(())
    }

    /// Writes whole rows; to be staged, with the versions that they replace.
    fn copy_rows(
        &mut self,
        table: &str,
        own: &CollectionTables,
        collection: &Collection,
        puts: &[(&RecordWrite, &RecordContent)],
        staged: bool,
    ) -> DbResult<()> {
        let mut names: Vec<&str> = own.columns.iter().map(|(name, _)| name.as_str()).collect();
        let mut types: Vec<Type> = own.columns.iter().map(|(_, ty)| wire_type(ty)).collect();
        if staged {
            names.extend(["was_revision", "was_touch", "place"]);
            types.extend([Type::INT8, Type::INT8, Type::TID]);
        }
        let places: Vec<RowLocation> = puts.iter().map(|(write, _)| if staged { self.place_of(write) } else { RowLocation::default() }).collect();
        let mut writer = self.session.copy_in(&format!("COPY {table} ({}) FROM STDIN BINARY", names.join(", ")), &types)?;
        for ((write, content), place) in puts.iter().zip(&places) {
            let row = RowValues::new(self.stamp, own, collection, write, content);
            let mut parameters = vec![&self.tenant as SqlParameter<'_>];
            row.push(&mut parameters);
            let was = write.expect.unwrap_or_default();
            if staged {
                parameters.extend([&was.revision as SqlParameter<'_>, &was.minor, place]);
            }
            writer.write(&parameters)?;
        }
        writer.finish()?;
        Ok(())
    }

    /// Writes a few new rows, some at once: of each collection there are few statements, and none is waited for.
    fn insert_rows(&mut self, own: &CollectionTables, collection: &Collection, puts: &[(&RecordWrite, &RecordContent)]) -> DbResult<()> {
        let names: Vec<&str> = own.columns.iter().map(|(name, _)| name.as_str()).collect();
        let mut left = puts;
        while !left.is_empty() {
            let (some, rest) = left.split_at(1 << left.len().ilog2());
            left = rest;
            let rows: Vec<RowValues<'_>> = some.iter().map(|(write, content)| RowValues::new(self.stamp, own, collection, write, content)).collect();
            let mut parameters: Vec<SqlParameter<'_>> = Vec::with_capacity(rows.len() * names.len());
            for row in &rows {
                parameters.push(&self.tenant);
                row.push(&mut parameters);
            }
            let mut sql = format!("INSERT INTO {} ({}) VALUES ", own.table, names.join(", "));
            for place in 1..=parameters.len() {
                let (before, behind) = (if (place - 1) % names.len() == 0 { "(" } else { "" }, if place % names.len() == 0 { ")" } else { "" });
                let _ = write!(sql, "{}{before}${place}{behind}", if place == 1 { "" } else { ", " });
            }
            self.session.later(&sql, &parameters)?;
        }
        Ok(())
    }

    fn copy_elements<'w>(
        &mut self,
        side: &str,
        collection: &Collection,
        field: usize,
        puts: impl Iterator<Item = &'w (&'w RecordWrite, &'w RecordContent)>,
    ) -> DbResult<()> {
        let definition = &collection.fields[field];
        let element = wire_type(&column_type(definition.golden_type().element()));
        let mut rows: Vec<(&str, Value)> = Vec::new();
        for (write, content) in puts {
            let from = rows.len();
            for element in content.golden[field].elements() {
                let value = match element.as_text() {
                    Some(text) if definition.fold => Value::text(fold(text)),
                    _ => element.clone(),
                };
                if !rows[from..].iter().any(|(_, known)| *known == value) {
                    rows.push((write.key.as_str(), value));
                }
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
        if rows.len() <= FEW {
            let (keys, values): (Vec<&str>, Vec<BoundValue<'_>>) = rows.iter().map(|(key, value)| (*key, BoundValue(value))).unzip();
            let sql = format!(
                "INSERT INTO {side} (tenant, key, value) SELECT $1, u.key, u.value FROM unnest($2::text[], $3::{}[]) AS u(key, value)",
                values::bare_type(definition.golden_type().element())
            );
            return self.session.later(&sql, &[&self.tenant, &keys, &values]);
        }
        let types = [Type::INT8, Type::TEXT, element];
        let mut writer = self.session.copy_in(&format!("COPY {side} (tenant, key, value) FROM STDIN BINARY"), &types)?;
        for (key, value) in &rows {
            writer.write(&[&self.tenant, key, &BoundValue(value)])?;
        }
        writer.finish()?;
        Ok(())
    }
}

/// Rows that are locked are written, all of them. Where records are spread, a server may still be catching up with a commit.
const OTHER_VERSION: &str = "a record was changed meanwhile";
/// New rows of a table that are not copied: a copy takes two round trips of its own.
const FEW: usize = 16;

/// A row's columns behind the tenant, as far as they are not values of the content.
struct RowValues<'w> {
    key: &'w str,
    revision: i64,
    touch: i64,
    created_job: i64,
    golden: Vec<BoundValue<'w>>,
    folded: Vec<Option<String>>,
    state: Vec<BoundValue<'w>>,
    conflicts: Option<Vec<&'w str>>,
    state_set: Option<String>,
    raw: Option<&'w [u8]>,
    content: &'w RecordContent,
}

impl<'w> RowValues<'w> {
    fn new(stamp: i64, own: &CollectionTables, collection: &'w Collection, write: &'w RecordWrite, content: &'w RecordContent) -> Self {
        let (revision, touch) = match (&write.change, write.expect) {
            (RecordChange::Settle(_), Some(version)) => (version.revision, version.minor + 1),
            (_, version) => (version.map_or(stamp, |version| stamp.max(version.revision + 1)), 0),
        };
        let named = || content.conflicts.iter().map(|field| collection.fields[*field].name.as_str()).collect();
        Self {
            key: write.key.as_str(),
            revision,
            touch,
            created_job: content.created_job as i64,
            golden: content.golden.iter().take(collection.stored_fields().len()).map(BoundValue).collect(),
            folded: own.folded.iter().map(|field| content.golden[*field].as_text().map(fold)).collect(),
            state: content.state.iter().map(BoundValue).collect(),
            conflicts: (!content.conflicts.is_empty()).then(named),
            state_set: crate::row::pack_state(&content.state_set, collection),
            raw: content.raw.as_deref(),
            content,
        }
    }

    /// Its parameters in the order of columns.
    fn push<'r>(&'r self, row: &mut Vec<SqlParameter<'r>>) {
        row.extend([&self.key as SqlParameter<'r>, &self.revision, &self.touch, &self.created_job, &self.content.exists]);
        row.extend(self.golden.iter().map(|value| value as SqlParameter<'r>));
        row.extend(self.folded.iter().map(|value| value as SqlParameter<'r>));
        row.extend(self.state.iter().map(|value| value as SqlParameter<'r>));
        row.extend([&self.conflicts as SqlParameter<'r>, &self.state_set, &self.content.contributions, &self.raw]);
    }
}

/// The client's type of a column.
fn wire_type(ty: &str) -> Type {
    match ty.split(" COLLATE").next().unwrap_or(ty) {
        "bigint" => Type::INT8,
        "boolean" => Type::BOOL,
        "double precision" => Type::FLOAT8,
        "uuid" => Type::UUID,
        "bytea" => Type::BYTEA,
        "bigint[]" => Type::INT8_ARRAY,
        "boolean[]" => Type::BOOL_ARRAY,
        "double precision[]" => Type::FLOAT8_ARRAY,
        "uuid[]" => Type::UUID_ARRAY,
        "text[]" => Type::TEXT_ARRAY,
        _ => Type::TEXT,
    }
}

/// The hash of the value a write wants to have in a unique field; a record that does not exist wants none.
fn wanted(collection: &Collection, field: usize, write: &RecordWrite) -> Option<Vec<u8>> {
    let RecordChange::Put(content) = &write.change else { return None };
    let value = crate::row::reserved_value(collection, field, content);
    if value.is_null() {
        return None;
    }
    let mut bytes = Vec::new();
    put_value(&mut bytes, &value);
    Some(blake3::hash(&bytes).as_bytes()[..16].to_vec())
}

/// Reservations of one unique field, as far as a unit needs them.
struct UniqueReservations {
    field: usize,
    table: String,
    holders: HashMap<Vec<u8>, String>,
    held: HashMap<String, Vec<u8>>,
    before: HashMap<Vec<u8>, String>,
}

impl UniqueReservations {
    fn read(
        session: &mut Session,
        tables: &StoreTables,
        tenant: i64,
        field: usize,
        table: &str,
        keys: &[&str],
        digests: &[Vec<u8>],
    ) -> DbResult<Self> {
        let sql = match tables.distributed() {
            // the lock of the collection keeps others away
            true => format!("SELECT digest, key FROM {table} WHERE tenant = $1 AND (digest = ANY($2) OR key = ANY($3))"),
            // one by one, as rows of records are found, and locked in the order of digests
            false => {
                let by = |column: &str| {
                    format!("SELECT digest FROM {table} WHERE tenant = $1 AND {column} BETWEEN u.own AND u.own ORDER BY {column} LIMIT 1")
                };
                format!(
                    "SELECT r.* FROM (SELECT f.digest AS own FROM \
                     (SELECT d.digest FROM unnest($2::bytea[]) AS u(own) CROSS JOIN LATERAL ({}) AS d \
                     UNION SELECT k.digest FROM unnest($3::text[]) AS u(own) CROSS JOIN LATERAL ({}) AS k) AS f ORDER BY f.digest) AS u \
                     CROSS JOIN LATERAL (SELECT digest, key FROM {table} WHERE tenant = $1 AND digest BETWEEN u.own AND u.own \
                     ORDER BY digest LIMIT 1 FOR UPDATE) AS r",
                    by("digest"),
                    by("key")
                )
            }
        };
        let rows = session.query(&sql, &[&tenant, &digests, &keys])?;
        let holders: HashMap<Vec<u8>, String> = rows.iter().map(|row| Ok((row.at(0)?, row.at(1)?))).collect::<DbResult<_>>()?;
        let held = holders.iter().map(|(digest, key)| (key.clone(), digest.clone())).collect();
        Ok(Self { field, table: table.to_owned(), before: holders.clone(), holders, held })
    }

    fn take(&mut self, key: &str, value: Option<Vec<u8>>) {
        if let Some(old) = self.held.remove(key) {
            self.holders.remove(&old);
        }
        if let Some(value) = value {
            self.holders.insert(value.clone(), key.to_owned());
            self.held.insert(key.to_owned(), value);
        }
    }

    fn write(self, session: &mut Session, tenant: i64) -> DbResult<()> {
        let given: Vec<&Vec<u8>> =
            self.before.iter().filter(|(digest, key)| self.holders.get(*digest) != Some(key)).map(|(digest, _)| digest).collect();
        if !given.is_empty() {
            session.later(&format!("DELETE FROM {} WHERE tenant = $1 AND digest = ANY($2)", self.table), &[&tenant, &given])?;
        }
        let mut taken: Vec<(&Vec<u8>, &String)> = self.holders.iter().filter(|(digest, key)| self.before.get(*digest) != Some(key)).collect();
        if taken.is_empty() {
            return Ok(());
        }
        taken.sort();
        let (digests, keys): (Vec<&Vec<u8>>, Vec<&String>) = taken.into_iter().unzip();
        let sql = format!(
            "INSERT INTO {}(tenant, digest, key) SELECT $1, u.digest, u.key FROM unnest($2::bytea[], $3::text[]) AS u(digest, key) ORDER BY u.digest \
             ON CONFLICT DO NOTHING",
            self.table
        );
        session.later_of(keys.len(), "a value was taken meanwhile", &sql, &[&tenant, &digests, &keys])
    }
}

/// Link, target, group, start and child.
type EdgeKey = (i64, SmolStr, SmolStr, i64, SmolStr);

/// Tells a unit which records and ranges of edges it relies on are not any more what was read. Records stay what they are until it has
/// ended; who changes edges meanwhile leaves a mark, whose pass waits for it to end.
fn check(session: &mut Session, tables: &StoreTables, tenant: i64, unit: &mut dyn Unit) -> DbResult<()> {
    let Some(reliance) = unit.relies().filter(|reliance| !(reliance.records.is_empty() && reliance.ranges.is_empty())) else { return Ok(()) };
    let mut keys: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (collection, key, _) in &reliance.records {
        keys.entry(*collection).or_default().push(key.as_str());
    }
    let mut now: HashMap<(usize, String), Version> = HashMap::new();
    for (collection, keys) in keys {
        let sql = by_key_locked(tables, &tables.collections[collection].table, "key, revision, touch", 2, "FOR SHARE");
        for row in session.query(&sql, &[&tenant, &keys])? {
            now.insert((collection, row.at(0)?), Version::new(row.at(1)?, row.at(2)?));
        }
    }
    // behind the last row that others may hold: whoever waits for this one may keep those waiting who have it
    if !reliance.ranges.is_empty() {
        keep_passes_waiting(session, tenant)?;
    }
    let mut ranges = Vec::new();
    for (place, read) in reliance.ranges.iter().enumerate() {
        // what others commit on several servers is not seen at once
        if tables.distributed() || super::settle::between(session, tables, tenant, read.link, &read.ranges, usize::MAX >> 1)? != read.edges {
            ranges.push(place);
        }
    }
    let is_other = |(_, (collection, key, version)): &(usize, &(usize, Key, Option<Version>))| {
        // a record that is not there cannot be kept away
        version.is_none() || now.get(&(*collection, key.as_str().to_owned())) != version.as_ref()
    };
    let records: Vec<usize> = reliance.records.iter().enumerate().filter(is_other).map(|(place, _)| place).collect();
    if records.is_empty() && ranges.is_empty() {
        return Ok(());
    }
    let mut conflicts = Vec::new();
    for wanted in unit.broken(&records, &ranges).chunk_by(|a, b| a.0 == b.0) {
        let (collection, keys) = (wanted[0].0, wanted.iter().map(|(_, key)| key.clone()).collect::<Vec<Key>>());
        let found = read(session, tables, tenant, collection, &keys, ReadDetail::Full)?;
        conflicts.extend(keys.into_iter().zip(found).map(|(key, record)| WriteConflict { collection, key, record }));
    }
    if !conflicts.is_empty() {
        unit.seen(conflicts);
    }
    Ok(())
}

/// Passes that look for what this transaction has not committed yet wait for it to end.
fn keep_passes_waiting(session: &mut Session, tenant: i64) -> DbResult<()> {
    session.later(&format!("SELECT pg_advisory_xact_lock_shared({})", super::settle::NEW_RECORDS), &[&tenant])
}

fn settle(session: &mut Session, tables: &StoreTables, tenant: i64, mut settling: SettlingChanges) -> DbResult<()> {
    let new = std::mem::take(&mut settling.marks_if_linked);
    if tables.distributed() {
        settling.marks.extend(new);
    } else if !new.is_empty() {
        keep_passes_waiting(session, tenant)?;
        let said = settling.named_by_field(tables.catalogue());
        let mut by_link: BTreeMap<u32, Vec<StaleMark>> = BTreeMap::new();
        new.into_iter().for_each(|mark| by_link.entry(mark.rule).or_default().push(mark));
        let mut named = Vec::new();
        for (link, marks) in by_link {
            let own = |mark: &StaleMark| said.get(&(link, mark.target.as_str())).map_or(0, |said| *said as i64);
            let targets: Vec<(&str, i64)> = marks.iter().map(|mark| (mark.target.as_str(), own(mark))).collect();
            let places = super::settle::named(session, tables, tenant, link, &targets)?;
            named.extend(places.into_iter().map(|place| marks[place].clone()));
        }
        settling.marks.extend(named);
    }
    if !settling.cleared_links.is_empty() {
        let links: Vec<i64> = settling.cleared_links.iter().copied().map(i64::from).collect();
        session.later("DELETE FROM edges WHERE tenant = $1 AND link = ANY($2)", &[&tenant, &links])?;
    }
    // of several changes of one edge the last counts
    let mut changes: BTreeMap<EdgeKey, Option<Vec<u8>>> = BTreeMap::new();
    for change in settling.edges.into_iter().filter(|change| change.is_kept(tables.catalogue())) {
        let (edge, kept) = match change {
            EdgeChange::Put(edge) => (edge, true),
            EdgeChange::Delete(edge) => (edge, false),
        };
        changes.insert((i64::from(edge.link), edge.target, edge.group, edge.start, edge.child), kept.then_some(edge.payload));
    }
    for kept in [false, true] {
        let chosen: Vec<_> = changes.iter().filter(|(_, payload)| payload.is_some() == kept).collect();
        if chosen.is_empty() {
            continue;
        }
        let links: Vec<i64> = chosen.iter().map(|((link, ..), _)| *link).collect();
        let targets: Vec<&str> = chosen.iter().map(|((_, target, ..), _)| target.as_str()).collect();
        let groups: Vec<&str> = chosen.iter().map(|((_, _, group, ..), _)| group.as_str()).collect();
        let starts: Vec<i64> = chosen.iter().map(|((_, _, _, start, _), _)| *start).collect();
        let children: Vec<&str> = chosen.iter().map(|((.., child), _)| child.as_str()).collect();
        if kept {
            let payloads: Vec<&[u8]> = chosen.iter().filter_map(|(_, payload)| payload.as_deref()).collect();
            session.later(
                "INSERT INTO edges(tenant, link, target, grp, start, child, payload)
                 SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bytea[])
                 ON CONFLICT (tenant, link, target, grp, start, child) DO UPDATE SET payload = excluded.payload",
                &[&tenant, &links, &targets, &groups, &starts, &children, &payloads],
            )?;
        } else {
            let own = "e.tenant = $1 AND e.link = u.link AND e.target = u.target AND e.grp = u.grp AND e.start = u.start AND e.child = u.child";
            let gone = "unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[]) AS u(link, target, grp, start, child)";
            // one by one through the index: however the planner would join them, it believes that there are few
            let sql = match tables.distributed() {
                true => format!("DELETE FROM edges e USING {gone} WHERE {own}"),
                false => format!(
                    "DELETE FROM edges WHERE ctid = ANY(ARRAY(SELECT e.ctid FROM {gone} CROSS JOIN LATERAL (SELECT ctid FROM edges e WHERE {own} OFFSET 0) AS e))"
                ),
            };
            session.later(&sql, &[&tenant, &links, &targets, &groups, &starts, &children])?;
        }
    }
    if !settling.cleared.is_empty() {
        session.later("DELETE FROM marks WHERE tenant = $1 AND id = ANY($2)", &[&tenant, &settling.cleared])?;
    }
    if !settling.marks.is_empty() {
        let marks = &settling.marks;
        let lanes: Vec<i64> = marks.iter().map(|mark| i64::from(lane_of(&mark.target))).collect();
        let strata: Vec<i64> = marks.iter().map(|mark| i64::from(mark.phase)).collect();
        let rules: Vec<i64> = marks.iter().map(|mark| i64::from(mark.rule)).collect();
        let targets: Vec<&str> = marks.iter().map(|mark| mark.target.as_str()).collect();
        let parts: Vec<&str> = marks.iter().map(|mark| mark.group.as_str()).collect();
        let jobs: Vec<i64> = marks.iter().map(|mark| mark.job as i64).collect();
        session.later(
            "INSERT INTO marks(tenant, lane, stratum, rule, target, part, job)
             SELECT $1, lane, stratum, rule, target, part, job
             FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[])
             WITH ORDINALITY AS u(lane, stratum, rule, target, part, job, place) ORDER BY place",
            &[&tenant, &lanes, &strata, &rules, &targets, &parts, &jobs],
        )?;
    }
    Ok(())
}
