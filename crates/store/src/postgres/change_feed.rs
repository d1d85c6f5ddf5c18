//! The change feed: its table, and how batches are written, read and removed.
//!
//! The table `changes` is created when the first collection of the definition says `changes:`. Its ids are the positions; transactions become visible in
//! another order than they get them. So a transaction first locks, in shared mode, the last id that was given before its own ([`RESERVE`]), until it
//! ends. Who reads takes the last id that was given, and then the lowest one that is locked: all batches up to the lesser of both have been committed,
//! because a transaction that locks later gets later ids. No clock, role or snapshot is involved, and nobody waits. Batches of one record have
//! growing ids, because they are numbered while its row is locked.

use super::records;
use super::rows::UnitWriter;
use super::session::{DbResult, Session};
use super::store::PostgresStore;
use super::tables::{StoreTables, TenantTables, meta, put_meta};
use super::values::RowExt;
use crate::change_feed::{ChangeBatch, ChangeFeed, ChangeSelection, FoundChanges};
use crate::sql::change_feed::{
    ChangeRecorder, EPOCHS, EXPIRED_BATCHES, collection_of, followed, has_changes, is_shown_otherwise, kept_after_name, parse_epochs, parse_position,
    unpack_batch, with_epoch,
};
use crate::sql::row::version_of;
use crate::store_schema::StoreSchema;
use crate::{NewChangeLogEntry, ReadDetail, RecordChange, RecordWrite, Result, Store, StoredRecord};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

const TABLE: &str = "
CREATE TABLE IF NOT EXISTS changes(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant bigint NOT NULL, collection text NOT NULL,
  at bigint NOT NULL, entries bytea NOT NULL);
ALTER TABLE changes ALTER COLUMN entries SET STORAGE EXTERNAL;
CREATE INDEX IF NOT EXISTS changes_tenant ON changes(tenant, id);
CREATE INDEX IF NOT EXISTS changes_age ON changes(collection, at);
";

/// The last id that was given, of a row of the sequence.
const LAST: &str = "CASE WHEN is_called THEN last_value ELSE 0 END";

/// Locks the last id that was given, by its lowest 32 bits.
const RESERVE: &str = "SELECT pg_advisory_xact_lock_shared(hashtext('stook changes ' || current_schema()), \
    ((CASE WHEN is_called THEN last_value ELSE 0 END + 2147483648) % 4294967296 - 2147483648)::int) FROM changes_id_seq";

/// The ids that are locked, by their lowest 32 bits.
const RESERVED: &str = "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 \
    AND classid::bigint = hashtext('stook changes ' || current_schema())::bigint & 4294967295 \
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

fn last_position(session: &mut Session) -> DbResult<i64> {
    session.query_one(&format!("SELECT {LAST} FROM changes_id_seq"), &[])?.at(0)
}

/// The position up to which all batches have been committed. Must not be called inside a snapshot. It may be before what it was: between reading the
/// last id and locking it, a transaction may have been overtaken by others. What a caller has `seen` was committed then.
pub fn committed_position(session: &mut Session, seen: i64) -> DbResult<i64> {
    let last = last_position(session)?;
    let mut until = last;
    for row in session.query(RESERVED, &[])? {
        // the difference has 32 bits: so many batches are not written while a transaction lasts
        let distance = last.wrapping_sub(row.at::<i64>(0)?) as i32;
        until = until.min(last - i64::from(distance));
    }
    Ok(until.max(seen.min(last)))
}

/// Creates the table if a collection says `changes:`, and notes from where on its changes are kept.
pub fn prepare(session: &mut Session, catalogue: &Catalogue, before: &StoreSchema, after: &StoreSchema) -> DbResult<()> {
    for row in session.query("SELECT name FROM meta WHERE name LIKE 'changes of %'", &[])? {
        let Some(collection) = collection_of(row.at(0)?) else { continue };
        if !followed(catalogue).any(|(own, _)| own.name == collection) {
            session.execute("DELETE FROM meta WHERE name = $1", &[&kept_after_name(collection)])?;
            session.execute("DELETE FROM changes WHERE collection = $1", &[&collection])?;
        }
    }
    if !has_changes(catalogue) {
        return Ok(());
    }
    session.batch(TABLE)?;
    let last = last_position(session)?;
    if meta(session, EPOCHS)?.is_none() {
        begin_epoch(session, last)?;
    }
    for (collection, _) in followed(catalogue) {
        let name = kept_after_name(&collection.name);
        let is_kept = meta(session, &name)?.is_some();
        if is_kept && is_shown_otherwise(&collection.name, before, after) {
            put_meta(session, &name, &last.to_string())?;
        } else if !is_kept {
            let table = super::tables::quoted_name(&["r", &collection.name]);
            let has_records: bool = session.query_one(&format!("SELECT EXISTS(SELECT 1 FROM {table})"), &[])?.at(0)?;
            put_meta(session, &name, &if has_records { last } else { 0 }.to_string())?;
        }
    }
    Ok(())
}

/// Gives positions another name from after one on.
pub fn begin_epoch(session: &mut Session, begins_after: i64) -> DbResult<()> {
    let name: String = session.query_one("SELECT left(replace(gen_random_uuid()::text, '-', ''), 8)", &[])?.at(0)?;
    let epochs = meta(session, EPOCHS)?;
    put_meta(session, EPOCHS, &with_epoch(epochs.as_deref(), &name, begins_after)?)
}

/// Finds what writes change of records with changes that are kept. Their rows are locked, and not written yet.
pub fn record(writer: &mut UnitWriter<'_>, writes: &[Cow<'_, RecordWrite>]) -> DbResult<ChangeRecorder> {
    let mut recorded = ChangeRecorder::default();
    let (tables, tenant) = (writer.tables, writer.tenant);
    let mut by_collection: BTreeMap<CollectionId, Vec<&RecordWrite>> = BTreeMap::new();
    let is_followed = |write: &&RecordWrite| tables.catalogue().collections[write.collection].changes.is_some();
    for write in writes.iter().map(|write| &**write).filter(is_followed).filter(|write| !matches!(write.change, RecordChange::Touch { .. })) {
        by_collection.entry(write.collection).or_default().push(write);
    }
    for (collection, mut writes) in by_collection {
        writes.sort_by(|a, b| a.key.cmp(&b.key));
        let keys: Vec<Key> = writes.iter().filter(|write| write.expect.is_some()).map(|write| write.key.clone()).collect();
        let mut before: HashMap<Key, StoredRecord> = HashMap::with_capacity(keys.len());
        if !keys.is_empty() {
            let found = records::read_damaged(TenantTables { session: writer.session, tables, tenant }, collection, &keys, ReadDetail::Content)?;
            before.extend(keys.into_iter().zip(found).filter_map(|(key, record)| Some((key, record?))));
        }
        let definition = &tables.catalogue().collections[collection];
        for write in writes {
            recorded.note(definition, write, before.get(&write.key), version_of(write, writer.commit_time).revision);
        }
    }
    Ok(recorded)
}

/// Writes what a unit has changed.
pub fn write(
    (session, tables): (&mut Session, &StoreTables),
    tenant: i64,
    recorded: ChangeRecorder,
    log: &[NewChangeLogEntry],
    commit_time: i64,
) -> DbResult<()> {
    if recorded.is_empty() {
        return Ok(());
    }
    session.defer(RESERVE, &[])?;
    for batch in recorded.into_batches(log)? {
        let collection = &tables.catalogue().collections[batch.collection].name;
        let sql = "INSERT INTO changes(tenant, collection, at, entries) VALUES ($1, $2, $3, $4)";
        session.defer(sql, &[&tenant, collection, &commit_time, &batch.bytes])?;
    }
    Ok(())
}

impl ChangeFeed for PostgresStore {
    fn read_changes(&self, selection: ChangeSelection<'_>) -> Result<FoundChanges> {
        // read before the snapshot, which then has all batches up to there
        let until = self.with_reader(|session| committed_position(session, selection.seen))?;
        let tables = &self.context.tables;
        self.with_snapshot(|session| {
            let mut found = FoundChanges { batches: Vec::new(), epochs: Vec::new(), kept_after: 0, until };
            for collection in selection.collections {
                let name = kept_after_name(&tables.catalogue().collections[*collection].name);
                found.kept_after = found.kept_after.max(parse_position(&name, meta(session, &name)?)?);
            }
            found.epochs = parse_epochs(meta(session, EPOCHS)?.as_deref())?;
            if let Some(tenant) = self.tenant_id(session, selection.tenant)?.filter(|_| selection.max_batches > 0) {
                found.batches = batches(session, tables, (tenant, until), selection)?;
            }
            Ok(found)
        })
    }

    fn expire_changes(&self) -> Result<bool> {
        let now = self.clock();
        let limits: Vec<(&str, i64)> =
            followed(self.context.tables.catalogue()).map(|(collection, kept)| (collection.name.as_str(), now.saturating_sub(kept))).collect();
        let mut has_more = false;
        for (collection, limit) in limits {
            let expired = "SELECT EXISTS(SELECT 1 FROM changes WHERE collection = $1 AND at < $2)";
            if self.with_reader(|session| session.query_one(expired, &[&collection, &limit])?.at::<bool>(0))? {
                has_more |= self.write(|session, _| remove_expired(session, collection, limit))?;
            }
        }
        Ok(has_more)
    }
}

fn batches(session: &mut Session, tables: &StoreTables, (tenant, until): (i64, i64), selection: ChangeSelection<'_>) -> DbResult<Vec<ChangeBatch>> {
    let names: Vec<&str> = selection.collections.iter().map(|collection| tables.catalogue().collections[*collection].name.as_str()).collect();
    let sql =
        "SELECT id, collection, at, entries FROM changes WHERE tenant = $1 AND id >= $2 AND id <= $3 AND collection = ANY($4) ORDER BY id LIMIT $5";
    let rows = session.query(sql, &[&tenant, &selection.from, &until, &names, &(selection.max_batches as i64)])?;
    let mut batches = Vec::with_capacity(rows.len());
    for row in &rows {
        let (position, name): (i64, &str) = (row.at(0)?, row.at(1)?);
        let collection = selection.collections.iter().zip(&names).find(|(_, own)| **own == name).map(|(collection, _)| *collection);
        let Some(collection) = collection else { continue };
        batches.push(ChangeBatch { position, at: row.at(2)?, collection, entries: unpack_batch(position, row.at(3)?)? });
    }
    Ok(batches)
}

/// Removes the oldest batches of a collection from before a time; returns whether there may be more.
fn remove_expired(session: &mut Session, collection: &str, limit: i64) -> DbResult<bool> {
    // whoever else removes batches waits here
    let name = kept_after_name(collection);
    session.execute("SELECT 1 FROM meta WHERE name = $1 FOR UPDATE", &[&name])?;
    let sql = "SELECT count(*), max(id) FROM (SELECT id FROM changes WHERE collection = $1 AND at < $2 ORDER BY at, id LIMIT $3) AS oldest";
    let row = session.query_one(sql, &[&collection, &limit, &(EXPIRED_BATCHES as i64)])?;
    let Some(last) = row.at::<Option<i64>>(1)? else { return Ok(false) };
    session.execute("DELETE FROM changes WHERE collection = $1 AND at < $2 AND id <= $3", &[&collection, &limit, &last])?;
    let kept_after = parse_position(&name, meta(session, &name)?)?.max(last);
    put_meta(session, &name, &kept_after.to_string())?;
    Ok(row.at::<i64>(0)? == EXPIRED_BATCHES as i64)
}
