//! Upgrades stores of earlier formats in place, when they are opened with `prepare`.
//!
//! | from | what changes |
//! |---|---|
//! | 10 | index entries of keys and links are in columns, so that every program can check and copy the file |
//! | 10, 11 | tokens expire, are rotated, and say when they were used; the audit log |
//! | 10 to 12 | the numbers of records are kept, and which records were erased |
//!
//! Columns of records are added first. Then rows are rewritten a few thousand at a time, so that the WAL stays short and an interrupted upgrade continues
//! where it stopped. The indexes are changed in one transaction at the end, which also rewrites rows that a process of the earlier version has
//! written meanwhile.

use super::error::store_error;
use super::tables::{FORMAT, columns_of, conflict_index, create_linked_index, meta, put_meta};
use crate::Result;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

const INDEXES_WITH_FUNCTIONS: &str = "10";
const TOKENS_WITHOUT_EXPIRY: &str = "11";
const WITHOUT_RECORD_COUNTS: &str = "12";
/// Formats that can be upgraded.
pub const UPGRADABLE_FORMATS: &[&str] = &[INDEXES_WITH_FUNCTIONS, TOKENS_WITHOUT_EXPIRY, WITHOUT_RECORD_COUNTS];
/// What formats before 12 have not.
const TOKENS_AND_AUDIT: &str = "
ALTER TABLE api_tokens ADD COLUMN expires INTEGER;
ALTER TABLE api_tokens ADD COLUMN used INTEGER;
ALTER TABLE api_tokens ADD COLUMN former_digest BLOB;
ALTER TABLE api_tokens ADD COLUMN former_until INTEGER;
CREATE TABLE audit(id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, tenant TEXT, token INTEGER, caller TEXT NOT NULL, address TEXT,
  operation TEXT NOT NULL, collection TEXT, key TEXT, outcome TEXT NOT NULL);
CREATE INDEX audit_record ON audit(collection, key, id) WHERE key IS NOT NULL;
";
/// What formats before 13 have not.
const ERASED_AND_RECORD_COUNTS: &str = "
CREATE TABLE erased(digest BLOB PRIMARY KEY, tenant TEXT NOT NULL, collection TEXT NOT NULL, at INTEGER NOT NULL, reason TEXT, finished INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE record_counts(tenant INTEGER NOT NULL, collection TEXT NOT NULL, records INTEGER NOT NULL, PRIMARY KEY(tenant, collection)) WITHOUT ROWID;
";
/// Rows that are rewritten in one transaction.
const BATCH_ROWS: i64 = 5_000;

/// Upgrades a store if it has a known earlier format; returns a sentence about it.
pub fn upgrade(connection: &mut Connection) -> Result<Option<String>> {
    let exists = "SELECT EXISTS(SELECT 1 FROM sqlite_schema WHERE name = 'meta')";
    if !connection.query_row(exists, [], |row| row.get::<_, bool>(0)).map_err(store_error)? {
        return Ok(None);
    }
    let from = match meta(connection, "format")?.as_deref() {
        Some(INDEXES_WITH_FUNCTIONS) => {
            add_columns(connection)?;
            INDEXES_WITH_FUNCTIONS
        }
        Some(format) => {
            let Some(from) = UPGRADABLE_FORMATS.iter().find(|from| **from == format) else { return Ok(None) };
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(store_error)?;
            if meta(&transaction, "format")?.as_deref() != Some(from) {
                // another process has already done it
                return Ok(None);
            }
            finish(&transaction, from)?;
            transaction.commit().map_err(store_error)?;
            from
        }
        None => return Ok(None),
    };
    Ok(Some(crate::sql::store_schema::upgraded(from, FORMAT)))
}

/// Adds what an earlier format lacks beside columns of records, and records the present one.
fn finish(connection: &Connection, from: &str) -> Result<()> {
    if from != WITHOUT_RECORD_COUNTS {
        connection.execute_batch(TOKENS_AND_AUDIT).map_err(store_error)?;
    }
    connection.execute_batch(ERASED_AND_RECORD_COUNTS).map_err(store_error)?;
    let schema = crate::sql::store_schema::parse_schema(meta(connection, "shape")?.as_deref())?;
    super::record_counts::count_all(connection, schema.collections.keys())?;
    put_meta(connection, "format", FORMAT)?;
    if let Some(definition) = meta(connection, "definition")? {
        // format 10 recorded the hash alone
        let hash = definition.rsplit(' ').next().unwrap_or_default();
        put_meta(connection, "definition", &super::tables::format_and_hash(hash))?;
    }
    Ok(())
}

/// The columns that a collection's table gets.
struct AddedColumns {
    collection: String,
    /// Fields whose digest has a column.
    linked: Vec<String>,
}

impl AddedColumns {
    fn table(&self) -> String {
        format!("\"r_{}\"", self.collection)
    }

    /// The assignments that fill the columns, and the condition for rows in which they are not filled correctly.
    fn fill_sql(&self) -> (String, String) {
        let pairs = || {
            let digests = self.linked.iter().map(|field| (format!("\"d_{field}\""), format!("digest(\"f_{field}\")")));
            std::iter::once(("packed".to_owned(), "packed(key)".to_owned())).chain(digests)
        };
        let assign = pairs().map(|(column, value)| format!("{column} = {value}")).collect::<Vec<_>>().join(", ");
        let differs = pairs().map(|(column, value)| format!("{column} IS NOT {value}")).collect::<Vec<_>>().join(" OR ");
        (assign, differs)
    }
}

fn add_columns(connection: &mut Connection) -> Result<()> {
    let schema = crate::sql::store_schema::parse_schema(meta(connection, "shape")?.as_deref())?;
    let linked_fields = |schema: &crate::sql::store_schema::CollectionSchema| {
        schema.fields.iter().filter(|(_, field)| field.linked).map(|(name, _)| name.clone()).collect()
    };
    let all_added: Vec<AddedColumns> =
        schema.collections.iter().map(|(name, schema)| AddedColumns { collection: name.clone(), linked: linked_fields(schema) }).collect();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(store_error)?;
    for added in &all_added {
        let existing = columns_of(&transaction, &added.table())?;
        let missing = std::iter::once(("packed".to_owned(), "BLOB")).chain(added.linked.iter().map(|field| (format!("d_{field}"), "INTEGER")));
        for (column, class) in missing.filter(|(column, _)| !existing.contains(column)) {
            transaction.execute_batch(&format!("ALTER TABLE {} ADD COLUMN \"{column}\" {class}", added.table())).map_err(store_error)?;
        }
    }
    transaction.commit().map_err(store_error)?;
    for added in &all_added {
        fill_columns(connection, added)?;
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(store_error)?;
    if meta(&transaction, "format")?.as_deref() != Some(INDEXES_WITH_FUNCTIONS) {
        // another process has already done it
        return Ok(());
    }
    for added in &all_added {
        let (table, name, (assign, differs)) = (added.table(), &added.collection, added.fill_sql());
        let index = conflict_index(name);
        let index_exists = "SELECT 1 FROM sqlite_schema WHERE name = ?";
        let has_conflicts = transaction.query_row(index_exists, [index.trim_matches('"')], |_| Ok(())).optional().map_err(store_error)?.is_some();
        let mut sql = format!(
            "UPDATE {table} SET {assign} WHERE {differs};
             DROP INDEX IF EXISTS \"k_{name}\"; CREATE UNIQUE INDEX \"k_{name}\" ON {table}(tenant, packed);"
        );
        if has_conflicts {
            sql += &format!("DROP INDEX {index}; CREATE INDEX {index} ON {table}(tenant, packed) WHERE conflict IS NOT NULL;");
        }
        for field in &added.linked {
            sql += &format!("DROP INDEX IF EXISTS \"l_{name}_{field}\"; {};", create_linked_index(&table, name, field));
        }
        transaction.execute_batch(&sql).map_err(store_error)?;
    }
    finish(&transaction, INDEXES_WITH_FUNCTIONS)?;
    transaction.commit().map_err(store_error)?;
    // the WAL need not keep what was rewritten; a reader may prevent this
    let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    Ok(())
}

/// Fills the columns of all current rows.
fn fill_columns(connection: &Connection, added: &AddedColumns) -> Result<()> {
    let (table, (assign, differs)) = (added.table(), added.fill_sql());
    let batch_end_sql = format!("SELECT max(id) FROM (SELECT id FROM {table} WHERE id > ? ORDER BY id LIMIT ?)");
    let update = format!("UPDATE {table} SET {assign} WHERE id > ? AND id <= ? AND ({differs})");
    let mut after = i64::MIN;
    loop {
        let last: Option<i64> = connection.query_row(&batch_end_sql, params![after, BATCH_ROWS], |row| row.get(0)).map_err(store_error)?;
        let Some(last) = last else { return Ok(()) };
        connection.execute(&update, params![after, last]).map_err(store_error)?;
        let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        after = last;
    }
}
