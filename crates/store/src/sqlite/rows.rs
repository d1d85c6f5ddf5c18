//! Writes rows of records, each only at the version that was read, and the side tables of indexed fields.

use super::error::store_error;
use super::sql::execute;
use super::tables::{AT_VERSION, CollectionTables, StoreTables, TenantTables, put_box};
use super::values::{bind, bind_element};
use super::words_index::words_column;
use super::{change_feed, packed, records};
use crate::sql::change_feed::ChangeRecorder;
use crate::sql::record_counts::RecordCountChanges;
use crate::sql::row::{pack_state, version_of};
use crate::{FoundRow, RecordChange, RecordContent, RecordWrite, Result, Version};
use rusqlite::{CachedStatement, Connection, Statement, ToSql, params};
use stook_catalogue::definition::Collection;
use stook_catalogue::fold::fold;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;
use stook_catalogue::words::kept_words;

/// A row that there is not.
const NO_ROW: FoundRow = FoundRow { id: -1, exists: false };

fn pack_conflicts(conflicts: &[FieldId], collection: &Collection) -> Option<String> {
    let names: Vec<&str> = conflicts.iter().map(|index| collection.fields[*index].name.as_str()).collect();
    (!names.is_empty()).then(|| serde_json::Value::from(names).to_string())
}

pub enum RowWriteResult {
    Done,
    /// The record no longer has the version that was read.
    Changed,
}

/// Writes the rows of one unit.
pub struct RowWriter<'c> {
    pub connection: &'c Connection,
    pub tables: &'c StoreTables,
    pub tenant: i64,
    pub commit_time: i64,
    /// The statements that write into the last collection, see [`RowWriter::statement`]: looking them up again for every row, and allocating what is
    /// bound to them, would cost a tenth.
    pub statements: [Option<(CollectionId, CachedStatement<'c>)>; 3],
    /// What it changes of records with changes that are kept.
    pub recorded: ChangeRecorder,
    /// How many records it adds and removes.
    pub counted: RecordCountChanges,
}

impl<'c> RowWriter<'c> {
    pub fn new(connection: &'c Connection, tables: &'c StoreTables, tenant: i64, commit_time: i64) -> Self {
        let (recorded, counted) = (ChangeRecorder::default(), RecordCountChanges::default());
        Self { connection, tables, tenant, commit_time, statements: [const { None }; 3], recorded, counted }
    }

    /// Writes a row, and notes what readers see of it.
    pub fn apply(&mut self, write: &RecordWrite) -> Result<RowWriteResult> {
        let tables = self.tables;
        let definition = &tables.catalogue().collections[write.collection];
        if definition.changes.is_none() {
            return self.write(write);
        }
        let before = change_feed::read_before(TenantTables { connection: self.connection, tables, tenant: self.tenant }, write)?;
        let written = self.write(write)?;
        if matches!(written, RowWriteResult::Done) {
            self.recorded.note(definition, write, before.as_ref(), version_of(write, self.commit_time).revision);
        }
        Ok(written)
    }

    fn write(&mut self, write: &RecordWrite) -> Result<RowWriteResult> {
        let (connection, tenant) = (self.connection, self.tenant);
        let collection_tables = &self.tables.collections[write.collection];
        match &write.change {
            RecordChange::Put(content) => self.put(write, content),
            RecordChange::Touch { contributions } => {
                let Some(version) = write.expect else { return Ok(RowWriteResult::Changed) };
                let FoundRow { id, .. } = self.row(write, version)?;
                let sql = format!("UPDATE {} SET touch = touch + 1, contributions = ? WHERE {AT_VERSION}", collection_tables.table);
                let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
                let arguments = params![contributions, id, tenant, write.key.as_str(), version.revision, version.touches];
                let changed = statement.execute(arguments).map_err(store_error)?;
                Ok(if changed == 1 { RowWriteResult::Done } else { RowWriteResult::Changed })
            }
            RecordChange::Settle(content) => self.settle(write, content),
            RecordChange::State { state, state_set } => {
                let Some(version) = write.expect else { return Ok(RowWriteResult::Changed) };
                let FoundRow { id, .. } = self.row(write, version)?;
                let mut statement = connection.prepare_cached(&collection_tables.update_state).map_err(store_error)?;
                let mut binder = Binder { statement: &mut statement, index: 0 };
                binder.bind(self.commit_time.max(version.revision + 1))?;
                for value in state {
                    binder.bind(bind(value))?;
                }
                binder.bind(pack_state(state_set, &self.tables.catalogue().collections[write.collection]))?;
                binder.bind_row(id, tenant, &write.key, version)?;
                let changed = binder.statement.raw_execute().map_err(store_error)?;
                Ok(if changed == 1 { RowWriteResult::Done } else { RowWriteResult::Changed })
            }
            RecordChange::Delete => {
                let Some(version) = write.expect else {
                    // no record was read: either there is still none, or it was written meanwhile
                    return Ok(if self.is_current(write)? { RowWriteResult::Done } else { RowWriteResult::Changed });
                };
                let FoundRow { id, exists } = self.row(write, version)?;
                let sql = format!("DELETE FROM {} WHERE {AT_VERSION}", collection_tables.table);
                let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
                let arguments = params![id, tenant, write.key.as_str(), version.revision, version.touches];
                if statement.execute(arguments).map_err(store_error)? == 0 {
                    return Ok(RowWriteResult::Changed);
                }
                delete_side_rows(connection, collection_tables, id)?;
                self.counted.note(write, exists);
                Ok(RowWriteResult::Done)
            }
        }
    }

    /// Whether the record still has the version that was read.
    pub fn is_current(&self, write: &RecordWrite) -> Result<bool> {
        records::is_current(self.connection, self.tables, self.tenant, (write.collection, &write.key), write.expect)
    }

    /// The row of the record that was read; [`NO_ROW`] if there is none any more. Whether the record exists is right if the row still has the version.
    fn row(&self, write: &RecordWrite, version: Version) -> Result<FoundRow> {
        match version.location.0 {
            Some(row) => Ok(row),
            None => Ok(records::find_row(self.connection, self.tables, self.tenant, (write.collection, &write.key))?.unwrap_or(NO_ROW)),
        }
    }

    /// Returns a collection's statement, which stays in `cached` until the next one is for another collection.
    fn statement<'s>(
        cached: &'s mut Option<(CollectionId, CachedStatement<'c>)>,
        connection: &'c Connection,
        collection: CollectionId,
        sql: &str,
    ) -> Result<&'s mut Statement<'c>> {
        let entry = match cached.take().filter(|(cached_collection, _)| *cached_collection == collection) {
            Some(cached_entry) => cached_entry,
            None => (collection, connection.prepare_cached(sql).map_err(store_error)?),
        };
        Ok(&mut cached.insert(entry).1)
    }

    fn put(&mut self, write: &RecordWrite, content: &RecordContent) -> Result<RowWriteResult> {
        let Some(version) = write.expect else {
            let inserted = self.insert(write.collection, &write.key, Version::new(self.commit_time, 0), content)?;
            return Ok(if inserted { RowWriteResult::Done } else { RowWriteResult::Changed });
        };
        let (connection, tenant) = (self.connection, self.tenant);
        let collection_tables = &self.tables.collections[write.collection];
        let indexes_unchanged = content.indexes_unchanged;
        let (slot, sql) = match indexes_unchanged {
            false => (1, &collection_tables.update),
            true => (2, &collection_tables.update_unindexed),
        };
        let FoundRow { id, exists } = self.row(write, version)?;
        let statement = Self::statement(&mut self.statements[slot], connection, write.collection, sql)?;
        let mut binder = Binder { statement, index: 0 };
        binder.bind(self.commit_time.max(version.revision + 1))?;
        binder.bind_content(collection_tables, &self.tables.catalogue().collections[write.collection], content, indexes_unchanged)?;
        binder.bind_row(id, tenant, &write.key, version)?;
        if binder.statement.raw_execute().map_err(store_error)? == 0 {
            return Ok(RowWriteResult::Changed);
        }
        self.counted.note(write, exists);
        if !indexes_unchanged && collection_tables.side_tables().next().is_some() {
            delete_side_rows(connection, collection_tables, id)?;
            self.write_side_rows(write.collection, id, content)?;
        }
        Ok(RowWriteResult::Done)
    }

    /// Inserts a new row at a version; returns false if there is one with this key.
    pub fn insert(&mut self, collection: CollectionId, key: &Key, version: Version, content: &RecordContent) -> Result<bool> {
        let (connection, tenant) = (self.connection, self.tenant);
        let collection_tables = &self.tables.collections[collection];
        let statement = Self::statement(&mut self.statements[0], connection, collection, &collection_tables.insert)?;
        let mut binder = Binder { statement, index: 0 };
        binder.bind(tenant)?;
        binder.bind(key.as_str())?;
        binder.bind(packed::pack(key.as_str().as_bytes()))?;
        binder.bind(version.revision)?;
        binder.bind(version.touches)?;
        binder.bind_content(collection_tables, &self.tables.catalogue().collections[collection], content, false)?;
        if binder.statement.raw_execute().map_err(store_error)? == 0 {
            return Ok(false);
        }
        self.counted.add(collection, i64::from(content.exists));
        if collection_tables.side_tables().next().is_some() {
            self.write_side_rows(collection, connection.last_insert_rowid(), content)?;
        }
        Ok(true)
    }

    fn write_side_rows(&self, collection: CollectionId, id: i64, content: &RecordContent) -> Result<()> {
        let (connection, tenant) = (self.connection, self.tenant);
        let collection_tables = &self.tables.collections[collection];
        let collection = &self.tables.catalogue().collections[collection];
        for (field, side) in &collection_tables.lists {
            let definition = &collection.fields[*field];
            for element in content.golden[*field].elements() {
                let folded = if definition.fold { element.as_text().map(|text| Value::text(fold(text))) } else { None };
                let value = bind_element(folded.as_ref().unwrap_or(element));
                execute(connection, &format!("INSERT OR IGNORE INTO {side}(tenant, value, id) VALUES (?, ?, ?)"), params![tenant, value, id])?;
            }
        }
        for (field, side) in &collection_tables.trigrams {
            if let Some(text) = content.golden[*field].as_text() {
                let folded = if collection.fields[*field].fold { fold(text) } else { text.to_owned() };
                execute(connection, &format!("INSERT INTO {side}(rowid, value) VALUES (?, ?)"), params![id, folded])?;
            }
        }
        for (field, side) in &collection_tables.words {
            let (table, column) = (&collection_tables.table, words_column(&collection.fields[*field].name));
            let sql = format!("INSERT INTO {side}(rowid, value) SELECT id, {column} FROM {table} WHERE id = ? AND {column} IS NOT NULL");
            execute(connection, &sql, params![id])?;
        }
        for (field, side) in &collection_tables.boxes {
            put_box(connection, side, id, &content.golden[*field])?;
        }
        Ok(())
    }

    /// Writes only the settled values of a row.
    fn settle(&mut self, write: &RecordWrite, content: &RecordContent) -> Result<RowWriteResult> {
        let Some(version) = write.expect else { return Ok(RowWriteResult::Changed) };
        let FoundRow { id, .. } = self.row(write, version)?;
        let collection_tables = &self.tables.collections[write.collection];
        let mut statement = self.connection.prepare_cached(&collection_tables.update_settled).map_err(store_error)?;
        let mut binder = Binder { statement: &mut statement, index: 0 };
        for index in &collection_tables.settled {
            binder.bind(bind(&content.golden[*index]))?;
        }
        for index in collection_tables.settled.iter().filter(|index| collection_tables.folded.contains(index)) {
            binder.bind(content.golden[*index].as_text().map(fold))?;
        }
        for index in collection_tables.settled.iter().filter(|index| collection_tables.digested.contains(index)) {
            binder.bind(digest_of(&content.golden[*index]))?;
        }
        for index in collection_tables.settled.iter().filter(|settled| collection_tables.words.iter().any(|(index, _)| index == *settled)) {
            binder.bind(kept_words(&content.golden[*index]))?;
        }
        binder.bind_row(id, self.tenant, &write.key, version)?;
        if binder.statement.raw_execute().map_err(store_error)? == 0 {
            return Ok(RowWriteResult::Changed);
        }
        if collection_tables.side_tables().map(|(field, _)| field).any(|field| collection_tables.settled.contains(field)) {
            delete_side_rows(self.connection, collection_tables, id)?;
            self.write_side_rows(write.collection, id, content)?;
        }
        Ok(RowWriteResult::Done)
    }
}

/// The value that the index of a link's children has for a key.
fn digest_of(value: &Value) -> Option<i32> {
    value.as_text().map(|text| packed::digest(text.as_bytes()))
}

fn delete_side_rows(connection: &Connection, collection_tables: &CollectionTables, id: i64) -> Result<()> {
    for (_, side) in &collection_tables.lists {
        execute(connection, &format!("DELETE FROM {side} WHERE id = ?"), params![id])?;
    }
    for (_, side) in collection_tables.trigrams.iter().chain(&collection_tables.words) {
        execute(connection, &format!("DELETE FROM {side} WHERE rowid = ?"), params![id])?;
    }
    for (_, side) in &collection_tables.boxes {
        execute(connection, &format!("DELETE FROM {side} WHERE id = ?"), params![id])?;
    }
    Ok(())
}

/// Binds parameters in order.
struct Binder<'s, 'c> {
    statement: &'s mut Statement<'c>,
    index: usize,
}

impl Binder<'_, '_> {
    fn bind(&mut self, value: impl ToSql) -> Result<()> {
        self.index += 1;
        self.statement.raw_bind_parameter(self.index, value).map_err(store_error)
    }

    /// Binds what follows a row's version; without its indexed columns if they have not changed.
    fn bind_content(
        &mut self,
        collection_tables: &CollectionTables,
        collection: &Collection,
        content: &RecordContent,
        indexes_unchanged: bool,
    ) -> Result<()> {
        self.bind(content.created_job as i64)?;
        self.bind(content.exists)?;
        let mut skipped = collection_tables.indexed.iter().map(|indexed| indexes_unchanged && *indexed);
        let mut is_written = || !skipped.next().unwrap_or(false);
        for value in content.golden.iter().take(collection.stored_fields().len()) {
            if is_written() {
                self.bind(bind(value))?;
            }
        }
        for index in &collection_tables.folded {
            if is_written() {
                self.bind(content.golden[*index].as_text().map(fold))?;
            }
        }
        for index in &collection_tables.digested {
            if is_written() {
                self.bind(digest_of(&content.golden[*index]))?;
            }
        }
        for (field, _) in &collection_tables.words {
            if is_written() {
                self.bind(kept_words(&content.golden[*field]))?;
            }
        }
        for value in &content.state {
            if is_written() {
                self.bind(bind(value))?;
            }
        }
        self.bind(pack_conflicts(&content.conflicts, collection))?;
        self.bind(pack_state(&content.state_set, collection))?;
        self.bind(&content.contributions)?;
        self.bind(content.raw.as_deref())
    }

    /// Binds the parameters that find a record at a version, see [`AT_VERSION`].
    fn bind_row(&mut self, id: i64, tenant: i64, key: &Key, version: Version) -> Result<()> {
        self.bind(id)?;
        self.bind(tenant)?;
        self.bind(key.as_str())?;
        self.bind(version.revision)?;
        self.bind(version.touches)
    }
}
