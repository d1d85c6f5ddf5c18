//! The change feed: its table, and how batches are written, read and removed.
//!
//! The table `changes` is created when the first collection of the definition says `changes:`. Its ids are the positions: the file has one writer, so
//! they are in the order of commits, and an id is never given twice.

use super::error::store_error;
use super::records;
use super::sql::execute;
use super::store::SqliteStore;
use super::tables::{StoreTables, TenantTables, meta, put_meta};
use crate::change_feed::{ChangeBatch, ChangeFeed, ChangeSelection, FoundChanges};
use crate::sql::change_feed::{
    ChangeRecorder, EPOCHS, EXPIRED_BATCHES, collection_of, followed, has_changes, is_shown_otherwise, kept_after_name, parse_epochs, parse_position,
    unpack_batch, with_epoch,
};
use crate::store_schema::StoreSchema;
use crate::{NewChangeLogEntry, ReadDetail, RecordChange, RecordWrite, Result, Store, StoreError, StoredRecord};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;
use stook_catalogue::definition::Catalogue;

const TABLE: &str = "
CREATE TABLE IF NOT EXISTS changes(id INTEGER PRIMARY KEY AUTOINCREMENT, tenant INTEGER NOT NULL, collection TEXT NOT NULL, at INTEGER NOT NULL,
  entries BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS changes_tenant ON changes(tenant, id);
CREATE INDEX IF NOT EXISTS changes_age ON changes(collection, at);
";

/// The last position that was given.
pub fn last_position(connection: &Connection) -> Result<i64> {
    let mut statement = connection.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").map_err(store_error)?;
    Ok(statement.query_row([], |row| row.get(0)).optional().map_err(store_error)?.unwrap_or(0))
}

/// Creates the table if a collection says `changes:`, and notes from where on its changes are kept.
pub fn prepare(connection: &Connection, catalogue: &Catalogue, before: &StoreSchema, after: &StoreSchema) -> Result<()> {
    let mut statement = connection.prepare("SELECT name FROM meta WHERE name LIKE 'changes of %'").map_err(store_error)?;
    let names = statement.query_map([], |row| row.get(0)).and_then(Iterator::collect::<rusqlite::Result<Vec<String>>>).map_err(store_error)?;
    for collection in names.iter().filter_map(|name| collection_of(name)) {
        if !followed(catalogue).any(|(own, _)| own.name == collection) {
            execute(connection, "DELETE FROM meta WHERE name = ?", params![kept_after_name(collection)])?;
            execute(connection, "DELETE FROM changes WHERE collection = ?", params![collection])?;
        }
    }
    if !has_changes(catalogue) {
        return Ok(());
    }
    connection.execute_batch(TABLE).map_err(store_error)?;
    let last = last_position(connection)?;
    if meta(connection, EPOCHS)?.is_none() {
        begin_epoch(connection, last)?;
    }
    for (collection, _) in followed(catalogue) {
        let name = kept_after_name(&collection.name);
        let is_kept = meta(connection, &name)?.is_some();
        let has_records = format!("SELECT EXISTS(SELECT 1 FROM \"r_{}\")", collection.name);
        if is_kept && is_shown_otherwise(&collection.name, before, after) {
            put_meta(connection, &name, &last.to_string())?;
        } else if !is_kept {
            let has_records: bool = connection.query_row(&has_records, [], |row| row.get(0)).map_err(store_error)?;
            put_meta(connection, &name, &if has_records { last } else { 0 }.to_string())?;
        }
    }
    Ok(())
}

/// Gives positions another name from after one on.
pub fn begin_epoch(connection: &Connection, begins_after: i64) -> Result<()> {
    let name: String = connection.query_row("SELECT lower(hex(randomblob(4)))", [], |row| row.get(0)).map_err(store_error)?;
    let epochs = meta(connection, EPOCHS)?;
    put_meta(connection, EPOCHS, &with_epoch(epochs.as_deref(), &name, begins_after)?)
}

/// Reads what a write of a followed record replaces.
pub fn read_before(tenant_tables: TenantTables<'_>, write: &RecordWrite) -> Result<Option<StoredRecord>> {
    if write.expect.is_none() || matches!(write.change, RecordChange::Touch { .. }) {
        return Ok(None);
    }
    let keys = std::slice::from_ref(&write.key);
    Ok(records::read_damaged(tenant_tables, write.collection, keys, ReadDetail::Content)?.pop().flatten())
}

/// Writes what a unit has changed.
pub fn write(
    (connection, tables): (&Connection, &StoreTables),
    tenant: i64,
    recorded: ChangeRecorder,
    log: &[NewChangeLogEntry],
    commit_time: i64,
) -> Result<()> {
    if recorded.is_empty() {
        return Ok(());
    }
    for batch in recorded.into_batches(log)? {
        let sql = "INSERT INTO changes(tenant, collection, at, entries) VALUES (?, ?, ?, ?)";
        execute(connection, sql, params![tenant, tables.names[batch.collection], commit_time, batch.bytes])?;
    }
    Ok(())
}

impl ChangeFeed for SqliteStore {
    fn read_changes(&self, selection: ChangeSelection<'_>) -> Result<FoundChanges> {
        let found = self.with_snapshot(|connection| {
            let mut found = FoundChanges { batches: Vec::new(), epochs: Vec::new(), kept_after: 0, until: 0 };
            for collection in selection.collections {
                let name = kept_after_name(&self.tables.names[*collection]);
                found.kept_after = found.kept_after.max(parse_position(&name, meta(connection, &name)?)?);
            }
            found.epochs = parse_epochs(meta(connection, EPOCHS)?.as_deref())?;
            found.until = last_position(connection)?;
            if let Some(tenant) = self.tenant_id(connection, selection.tenant)? {
                found.batches = batches(connection, &self.tables, tenant, selection)?;
            }
            Ok(found)
        })?;
        if !found.batches.is_empty() {
            sync_wal(&self.path)?;
        }
        Ok(found)
    }

    fn expire_changes(&self) -> Result<bool> {
        let now = self.clock();
        let limits: Vec<(String, i64)> =
            followed(self.tables.catalogue()).map(|(collection, kept)| (collection.name.clone(), now.saturating_sub(kept))).collect();
        let expired = "SELECT EXISTS(SELECT 1 FROM changes WHERE collection = ? AND at < ?)";
        let has_expired = |connection: &Connection| {
            limits.iter().try_fold(false, |any, (collection, limit)| {
                let found = connection.query_row(expired, params![collection, limit], |row| row.get::<_, bool>(0));
                Ok(any || found.map_err(store_error)?)
            })
        };
        if !self.with_reader(has_expired)? {
            return Ok(false);
        }
        self.write(move |connection, _| {
            let mut has_more = false;
            for (collection, limit) in &limits {
                has_more |= remove_expired(connection, collection, *limit)?;
            }
            Ok(has_more)
        })
    }
}

fn batches(connection: &Connection, tables: &StoreTables, tenant: i64, selection: ChangeSelection<'_>) -> Result<Vec<ChangeBatch>> {
    if selection.max_batches == 0 {
        return Ok(Vec::new());
    }
    let sql = "SELECT id, collection, at, entries FROM changes WHERE tenant = ? AND id >= ? ORDER BY id";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params![tenant, selection.from]).map_err(store_error)?;
    let mut batches = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let name = row.get_ref(1).map_err(store_error)?.as_str().map_err(|error| StoreError::Other(error.to_string()))?;
        let Some(collection) = selection.collections.iter().find(|collection| tables.names[**collection] == name) else { continue };
        let (position, at) = (row.get(0).map_err(store_error)?, row.get(2).map_err(store_error)?);
        let bytes = row.get_ref(3).map_err(store_error)?.as_blob().map_err(|error| StoreError::Other(error.to_string()))?;
        batches.push(ChangeBatch { position, at, collection: *collection, entries: unpack_batch(position, bytes)? });
        if batches.len() >= selection.max_batches {
            break;
        }
    }
    Ok(batches)
}

/// Removes the oldest batches of a collection from before a time; returns whether there may be more.
fn remove_expired(connection: &Connection, collection: &str, limit: i64) -> Result<bool> {
    let sql = "SELECT count(*), max(id) FROM (SELECT id FROM changes WHERE collection = ? AND at < ? ORDER BY at, id LIMIT ?)";
    let (removed, last): (i64, Option<i64>) =
        connection.query_row(sql, params![collection, limit, EXPIRED_BATCHES as i64], |row| Ok((row.get(0)?, row.get(1)?))).map_err(store_error)?;
    let Some(last) = last else { return Ok(false) };
    execute(connection, "DELETE FROM changes WHERE collection = ? AND at < ? AND id <= ?", params![collection, limit, last])?;
    let name = kept_after_name(collection);
    let kept_after = parse_position(&name, meta(connection, &name)?)?.max(last);
    put_meta(connection, &name, &kept_after.to_string())?;
    Ok(removed == EXPIRED_BATCHES as i64)
}

/// Makes durable what has been read: bulk commits are only when something else is, and whoever follows must not know what a crash takes back.
fn sync_wal(path: &Path) -> Result<()> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    match std::fs::File::open(&wal).and_then(|file| file.sync_data()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::Other(format!("{} cannot be synced: {error}", Path::new(&wal).display())))
        }
        _ => Ok(()),
    }
}
