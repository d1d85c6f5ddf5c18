//! Gives everything that the schema holds, for a backup, and fills a new schema from one.

use super::rows::UnitWriter;
use super::session::{DatabaseError, DbResult, Session, SqlParameter};
use super::store::PostgresStore;
use super::tables::{self, StoreTables};
use super::values::{BoundValue, RowExt};
use super::{record_counts, records};
use crate::backup::{BackupItem, Backups, Cell};
use crate::sql::backed_up::{self, ColumnKind, FillTables, FixedTable, Numbering, RestoredRecord};
use crate::sql::change_feed;
use crate::sql::record_counts::RecordCountChanges;
use crate::{ReadDetail, Result, StoreError, lock_partition_of};
use ::tokio_postgres::Row;
use ::tokio_postgres::types::Type;
use std::collections::{BTreeMap, HashMap};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::Value;

impl Backups for PostgresStore {
    fn dump(&self, take: &mut dyn FnMut(BackupItem) -> Result<()>) -> Result<()> {
        let mut session = self.context.pool.get().map_err(StoreError::from)?;
        if change_feed::has_changes(self.context.tables.catalogue()) {
            // read before the snapshot, which then has all batches up to there
            let until = super::change_feed::committed_position(&mut session, 0).map_err(StoreError::from)?;
            take(BackupItem::Setting(change_feed::UNTIL.to_owned(), until.to_string()))?;
        }
        session.begin_snapshot();
        let dumped = tables::check_definition(&mut session, &self.context.tables).and_then(|()| dump(&mut session, &self.context.tables, take));
        let ended = session.batch("ROLLBACK");
        dumped?;
        Ok(ended?)
    }

    fn fill(&self, items: &mut dyn Iterator<Item = Result<BackupItem>>) -> Result<()> {
        // items can be read once, so a connection that is lost ends it
        let mut session = self.context.pool.get().map_err(StoreError::from)?;
        let tables = &self.context.tables;
        session.begin(true);
        let filled = check_empty(&mut session, tables).and_then(|()| {
            session.batch("DELETE FROM tenants; DELETE FROM generations")?;
            let settings = backed_up::fill(tables.catalogue(), items, &mut Filling { session: &mut session, tables })?;
            finish(&mut session, tables.catalogue(), &settings)
        });
        match filled {
            Ok(()) => Ok(session.commit()?),
            Err(error) => {
                let _ = session.roll_back();
                Err(match error {
                    DatabaseError::Retry(reason) => StoreError::Wrong(format!("a row of the backup does not fit: {reason}")),
                    other => other.into(),
                })
            }
        }
    }
}

/// The name of the sequence that numbers a table's rows.
fn sequence(table: &FixedTable) -> String {
    format!("{}_id_seq", table.name)
}

fn dump(session: &mut Session, tables: &StoreTables, take: &mut dyn FnMut(BackupItem) -> Result<()>) -> DbResult<()> {
    // a snapshot begins with its first statement; sequences have no snapshot, and are at least as far when they are read after it
    session.batch("SET LOCAL enable_seqscan = on")?;
    let clock: i64 = session.query_one("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM clock", &[])?.at(0)?;
    let mut setting = |name: &str, value: String| take(BackupItem::Setting(name.to_owned(), value));
    setting(backed_up::DEFINITION, tables.catalogue().hash.clone())?;
    setting(backed_up::CLOCK, clock.to_string())?;
    for name in backed_up::kept_settings(tables.catalogue()) {
        if let Some(value) = tables::meta(session, &name)? {
            setting(&name, value)?;
        }
    }
    for table in backed_up::fixed_tables(tables.catalogue()).filter(|table| table.numbering == Numbering::Sequence) {
        let last: i64 = session.query_one(&format!("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {}", sequence(table)), &[])?.at(0)?;
        setting(&table.sequence_setting(), last.to_string())?;
    }
    for table in backed_up::fixed_tables(tables.catalogue()) {
        session.visit(&format!("SELECT {} FROM {}", table.column_names(), table.name), &[], |row| {
            let cells = table.columns.iter().enumerate().map(|(column, (_, kind))| cell_of(row, column, *kind)).collect::<DbResult<_>>()?;
            Ok(take(BackupItem::Row(table.name.to_owned(), cells))?)
        })?;
    }
    for (id, collection) in tables.catalogue().collections.enumerate() {
        let collection_tables = &tables.collections[id];
        let sql = format!("SELECT {}, tenant FROM {}", collection_tables.read_columns[ReadDetail::Full as usize], collection_tables.table);
        session.visit(&sql, &[], |row| {
            let record = records::read_row(row, collection, ReadDetail::Full)?;
            Ok(take(backed_up::item_of(record, row.at("tenant")?, collection))?)
        })?;
    }
    Ok(())
}

fn cell_of(row: &Row, column: usize, kind: ColumnKind) -> DbResult<Cell> {
    Ok(match kind {
        ColumnKind::Int => Cell::Value(row.at::<Option<i64>>(column)?.map_or(Value::Null, Value::Int)),
        ColumnKind::Bool => Cell::Value(row.at::<Option<bool>>(column)?.map_or(Value::Null, Value::Bool)),
        ColumnKind::Text => Cell::Value(row.at::<Option<&str>>(column)?.map_or(Value::Null, Value::text)),
        ColumnKind::Bytes => row.at::<Option<Vec<u8>>>(column)?.map_or(Cell::Value(Value::Null), Cell::Bytes),
    })
}

fn check_empty(session: &mut Session, tables: &StoreTables) -> DbResult<()> {
    let fixed = backed_up::fixed_tables(tables.catalogue()).filter(|table| !table.is_filled_when_new()).map(|table| table.name);
    for table in fixed.chain(tables.collections.iter().map(|collection| collection.table.as_str())) {
        if session.query_one(&format!("SELECT EXISTS(SELECT 1 FROM {table})"), &[])?.at(0)? {
            return Err(backed_up::not_empty(table).into());
        }
    }
    Ok(())
}

/// Sets what numbers are given next, and what the store records about itself.
fn finish(session: &mut Session, catalogue: &Catalogue, settings: &HashMap<String, String>) -> DbResult<()> {
    for name in backed_up::kept_settings(catalogue) {
        if let Some(value) = settings.get(&name) {
            tables::put_meta(session, &name, value)?;
        }
    }
    let number = |name: &str| settings.get(name).and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    session.query_one(
        "SELECT setval('clock', greatest(last_value, $1::bigint), is_called OR $1::bigint > 0) FROM clock",
        &[&number(backed_up::CLOCK)],
    )?;
    session.query_one("SELECT setval('tokens', greatest(last_value, (SELECT max(token) FROM chunks), 1)) FROM tokens", &[])?;
    for table in backed_up::fixed_tables(catalogue).filter(|table| table.numbering != Numbering::None) {
        let sql = format!(
            "SELECT setval('{0}', greatest(last, 1), last > 0) FROM (SELECT greatest($1::bigint, (SELECT max(id) FROM {1})) AS last) AS given",
            sequence(table),
            table.name
        );
        session.query_one(&sql, &[&number(&table.sequence_setting())])?;
    }
    if change_feed::has_changes(catalogue) {
        super::change_feed::begin_epoch(session, number(change_feed::UNTIL))?;
    }
    Ok(())
}

struct Filling<'f> {
    session: &'f mut Session,
    tables: &'f StoreTables,
}

impl FillTables for Filling<'_> {
    fn insert_fixed(&mut self, table: &'static FixedTable, rows: &[Vec<Cell>]) -> Result<()> {
        let mut types: Vec<Type> = table.columns.iter().map(|(_, kind)| wire_type(*kind)).collect();
        let mut names = table.column_names();
        // marks are found by the partition of locks that their target belongs to
        let partitioned_by = (table.name == "marks").then(|| table.columns.iter().position(|(name, _)| *name == "target")).flatten();
        if partitioned_by.is_some() {
            names += ", lane";
            types.push(Type::INT8);
        }
        let copy = |session: &mut Session| -> DbResult<()> {
            let mut writer = session.copy_in(&format!("COPY {} ({names}) FROM STDIN BINARY", table.name), &types)?;
            for row in rows {
                let target = partitioned_by.and_then(|column| row.get(column));
                let lane = target.map(|target| if let Cell::Value(Value::Text(text)) = target { i64::from(lock_partition_of(text)) } else { 0 });
                let bound: Vec<BoundCell<'_>> = row.iter().map(BoundCell).collect();
                let mut parameters: Vec<SqlParameter<'_>> = bound.iter().map(|cell| cell as SqlParameter<'_>).collect();
                parameters.extend(lane.as_ref().map(|lane| lane as SqlParameter<'_>));
                writer.write(&parameters)?;
            }
            writer.finish().map(|_| ())
        };
        Ok(copy(self.session)?)
    }

    fn insert_records(&mut self, collection: CollectionId, records: &[RestoredRecord]) -> Result<()> {
        let mut by_tenant: BTreeMap<i64, Vec<&RestoredRecord>> = BTreeMap::new();
        records.iter().for_each(|record| by_tenant.entry(record.tenant).or_default().push(record));
        for (tenant, records) in by_tenant {
            let mut writer = UnitWriter {
                session: &mut *self.session,
                tables: self.tables,
                tenant,
                commit_time: 0,
                waits_for_locks: true,
                locked: HashMap::new(),
            };
            writer.restore(collection, &records)?;
            let mut counted = RecordCountChanges::default();
            records.iter().for_each(|record| counted.add(collection, i64::from(record.content.exists)));
            record_counts::write(self.session, self.tables, tenant, 0, counted)?;
        }
        Ok(())
    }
}

fn wire_type(kind: ColumnKind) -> Type {
    match kind {
        ColumnKind::Int => Type::INT8,
        ColumnKind::Bool => Type::BOOL,
        ColumnKind::Text => Type::TEXT,
        ColumnKind::Bytes => Type::BYTEA,
    }
}

/// A cell as a parameter.
#[derive(Debug)]
struct BoundCell<'c>(&'c Cell);

impl ::tokio_postgres::types::ToSql for BoundCell<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut ::tokio_postgres::types::private::BytesMut,
    ) -> std::result::Result<::tokio_postgres::types::IsNull, Box<dyn std::error::Error + Sync + Send>> {
        // a backup may have been changed by hand: what is not of the column's type is refused here
        let fits = matches!(
            (self.0, ty),
            (Cell::Value(Value::Null), _)
                | (Cell::Value(Value::Int(_)), &Type::INT8)
                | (Cell::Value(Value::Bool(_)), &Type::BOOL)
                | (Cell::Value(Value::Text(_)), &Type::TEXT)
                | (Cell::Bytes(_), &Type::BYTEA)
        );
        match self.0 {
            _ if !fits => Err("a cell of the backup is not of its column's type".into()),
            Cell::Value(value) => BoundValue(value).to_sql(ty, out),
            Cell::Bytes(bytes) => bytes.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    ::tokio_postgres::types::to_sql_checked!();
}
