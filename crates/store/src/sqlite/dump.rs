//! Gives everything that the file holds, for a backup, and fills a new file from one.

use super::connection::{SqliteOptions, connect};
use super::error::store_error;
use super::rows::RowWriter;
use super::store::SqliteStore;
use super::tables::{self, StoreTables};
use super::values::bind;
use super::{record_counts, records};
use crate::backup::{BackupItem, Backups, Cell};
use crate::sql::backed_up::{self, ColumnKind, FillTables, FixedTable, Numbering, RestoredRecord};
use crate::sql::change_feed;
use crate::sql::row::reserved_value;
use crate::{ReadDetail, Result, StoreError};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params, params_from_iter};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;

impl Backups for SqliteStore {
    fn dump(&self, take: &mut dyn FnMut(BackupItem) -> Result<()>) -> Result<()> {
        // the transaction sees one state; writers go on, and the WAL grows until it ends
        self.with_snapshot(|connection| {
            tables::check_definition(connection, &self.tables)?;
            dump(connection, &self.tables, take)
        })
    }

    fn fill(&self, items: &mut dyn Iterator<Item = Result<BackupItem>>) -> Result<()> {
        let mut connection = connect(&self.path, &SqliteOptions { read_only: false, prepare: false, ..self.options.clone() }, None)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(store_error)?;
        check_empty(&transaction, &self.tables)?;
        transaction.execute_batch("DELETE FROM tenants; DELETE FROM generations").map_err(store_error)?;
        let mut filling = Filling { connection: &transaction, tables: &self.tables };
        let settings = backed_up::fill(self.tables.catalogue(), items, &mut filling)?;
        for name in backed_up::kept_settings(self.tables.catalogue()) {
            if let Some(value) = settings.get(&name) {
                tables::put_meta(&transaction, &name, value)?;
            }
        }
        let number = |name: &str| settings.get(name).and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
        tables::write_clock(&transaction, number(backed_up::CLOCK))?;
        for table in backed_up::fixed_tables(self.tables.catalogue()).filter(|table| table.numbering == Numbering::Sequence) {
            let last = number(&table.sequence_setting());
            let changed = transaction.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", params![last, table.name]);
            if changed.map_err(store_error)? == 0 {
                transaction.execute("INSERT INTO sqlite_sequence(name, seq) VALUES (?, ?)", params![table.name, last]).map_err(store_error)?;
            }
        }
        if change_feed::has_changes(self.tables.catalogue()) {
            super::change_feed::begin_epoch(&transaction, number(change_feed::UNTIL))?;
        }
        transaction.commit().map_err(store_error)?;
        // the file alone is the store then
        let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        Ok(())
    }
}

fn dump(connection: &Connection, tables: &StoreTables, take: &mut dyn FnMut(BackupItem) -> Result<()>) -> Result<()> {
    let mut setting = |name: &str, value: String| take(BackupItem::Setting(name.to_owned(), value));
    setting(backed_up::DEFINITION, tables.catalogue().hash.clone())?;
    setting(backed_up::CLOCK, tables::read_clock(connection)?.to_string())?;
    for name in backed_up::kept_settings(tables.catalogue()) {
        if let Some(value) = tables::meta(connection, &name)? {
            setting(&name, value)?;
        }
    }
    if change_feed::has_changes(tables.catalogue()) {
        setting(change_feed::UNTIL, super::change_feed::last_position(connection)?.to_string())?;
    }
    for table in backed_up::fixed_tables(tables.catalogue()).filter(|table| table.numbering == Numbering::Sequence) {
        let last = connection.query_row("SELECT seq FROM sqlite_sequence WHERE name = ?", [table.name], |row| row.get::<_, i64>(0));
        setting(&table.sequence_setting(), last.optional().map_err(store_error)?.unwrap_or(0).to_string())?;
    }
    for table in backed_up::fixed_tables(tables.catalogue()) {
        let mut statement = connection.prepare(&format!("SELECT {} FROM {}", table.column_names(), table.name)).map_err(store_error)?;
        let mut rows = statement.query([]).map_err(store_error)?;
        while let Some(row) = rows.next().map_err(store_error)? {
            let cell = |(column, (name, kind)): (usize, &(&str, ColumnKind))| {
                cell_of(row.get_ref(column).map_err(store_error)?, *kind)
                    .ok_or_else(|| StoreError::Other(format!("`{}.{name}` is of another type", table.name)))
            };
            take(BackupItem::Row(table.name.to_owned(), table.columns.iter().enumerate().map(cell).collect::<Result<_>>()?))?;
        }
    }
    for (id, collection) in tables.catalogue().collections.enumerate() {
        let mut statement = connection.prepare(&tables.collections[id].read_all).map_err(store_error)?;
        let tenant_column = statement.column_count() - 1;
        let mut rows = statement.query([]).map_err(store_error)?;
        while let Some(row) = rows.next().map_err(store_error)? {
            let key = row
                .get_ref(1)
                .map_err(store_error)?
                .as_str()
                .map_err(|error| error.to_string())
                .and_then(|key| Key::new(key).map_err(|error| error.to_string()));
            let item = match key {
                Ok(key) => {
                    let record = records::read_row(row, &key, collection, ReadDetail::Full)?;
                    backed_up::item_of(record, row.get(tenant_column).map_err(store_error)?, collection)
                }
                Err(reason) => BackupItem::LeftOut(format!("a record of `{}` is damaged: its key: {reason}", collection.name)),
            };
            take(item)?;
        }
    }
    Ok(())
}

fn cell_of(value: ValueRef<'_>, kind: ColumnKind) -> Option<Cell> {
    Some(match (value, kind) {
        (ValueRef::Null, _) => Cell::Value(Value::Null),
        (ValueRef::Integer(number), ColumnKind::Int) => Cell::Value(Value::Int(number)),
        (ValueRef::Integer(number), ColumnKind::Bool) => Cell::Value(Value::Bool(number != 0)),
        (ValueRef::Text(text), ColumnKind::Text) => Cell::Value(Value::text(std::str::from_utf8(text).ok()?)),
        (ValueRef::Blob(bytes), ColumnKind::Bytes) => Cell::Bytes(bytes.to_vec()),
        _ => return None,
    })
}

fn check_empty(connection: &Connection, tables: &StoreTables) -> Result<()> {
    let fixed = backed_up::fixed_tables(tables.catalogue()).filter(|table| !table.is_filled_when_new()).map(|table| table.name);
    for table in fixed.chain(tables.collections.iter().map(|collection| collection.table.as_str())) {
        let has_rows = connection.query_row(&format!("SELECT EXISTS(SELECT 1 FROM {table})"), [], |row| row.get(0));
        if has_rows.map_err(store_error)? {
            return Err(backed_up::not_empty(table));
        }
    }
    Ok(())
}

struct Filling<'c> {
    connection: &'c Connection,
    tables: &'c StoreTables,
}

impl FillTables for Filling<'_> {
    fn insert_fixed(&mut self, table: &'static FixedTable, rows: &[Vec<Cell>]) -> Result<()> {
        let places = vec!["?"; table.columns.len()].join(", ");
        let sql = format!("INSERT INTO {}({}) VALUES ({places})", table.name, table.column_names());
        let mut statement = self.connection.prepare_cached(&sql).map_err(store_error)?;
        for row in rows {
            let cells = row.iter().map(|cell| match cell {
                Cell::Value(value) => bind(value),
                Cell::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            });
            statement.execute(params_from_iter(cells)).map_err(store_error)?;
        }
        Ok(())
    }

    fn insert_records(&mut self, collection: CollectionId, records: &[RestoredRecord]) -> Result<()> {
        let collection_tables = &self.tables.collections[collection];
        let definition = &self.tables.catalogue().collections[collection];
        for of_tenant in records.chunk_by(|a, b| a.tenant == b.tenant) {
            let tenant = of_tenant[0].tenant;
            let mut writer = RowWriter::new(self.connection, self.tables, tenant, 0);
            for RestoredRecord { key, version, content, .. } in of_tenant {
                writer.insert(collection, key, *version, content)?;
                for (field, side) in &collection_tables.uniques {
                    let value = reserved_value(definition, *field, content);
                    if !value.is_null() {
                        let sql = format!("INSERT INTO {side}(tenant, value, key) VALUES (?, ?, ?)");
                        super::sql::execute(self.connection, &sql, params![tenant, bind(&value), key.as_str()])?;
                    }
                }
            }
            record_counts::write(self.connection, self.tables, tenant, writer.counted)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::backed_up::FIXED_TABLES;

    /// Settings are items of their own, and numbers of records are counted while these are restored.
    const NOT_BACKED_UP: [&str; 2] = ["meta", "record_counts"];

    #[test]
    fn a_backup_has_every_table_and_column() {
        let connection = Connection::open_in_memory().expect("a database");
        connection.execute_batch(tables::FIXED).expect("tables");
        let mut statement = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").expect("SQL");
        let names: Vec<String> = statement.query_map([], |row| row.get(0)).expect("names").map(|name| name.expect("a name")).collect();
        for name in names.iter().filter(|name| !NOT_BACKED_UP.contains(&name.as_str())) {
            let table = FIXED_TABLES.iter().find(|table| table.name == name).unwrap_or_else(|| panic!("`{name}` is not backed up"));
            let mut columns = tables::columns_of(&connection, name).expect("columns");
            // numbers of rows to which nothing refers
            if matches!(table.name, "chunks" | "trees") {
                columns.retain(|column| column != "id");
            }
            assert_eq!(table.columns.iter().map(|(column, _)| *column).collect::<Vec<_>>(), columns, "`{name}`");
        }
        assert_eq!(names.len(), FIXED_TABLES.len() + NOT_BACKED_UP.len());
    }
}
