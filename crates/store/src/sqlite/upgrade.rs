//! Upgrades stores of earlier formats in place, when they are opened with `prepare`.
//!
//! | from | what changes |
//! |---|---|
//! | 10 | index entries of keys and links are in columns, so that every program can check and copy the file |
//!
//! The columns are added first. Then rows are rewritten a few thousand at a time, so that the WAL stays short and an interrupted upgrade continues
//! where it stopped. The indexes are changed in one transaction at the end, which also rewrites rows that a process of the earlier version has
//! written meanwhile.

use super::error::failure;
use super::tables::{FORMAT, columns_of, conflict_index, meta, put_meta};
use crate::Result;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

/// The only earlier format that stores may have.
const INDEXES_WITH_FUNCTIONS: &str = "10";
/// Formats that can be upgraded.
pub const FROM: &[&str] = &[INDEXES_WITH_FUNCTIONS];
/// Rows that are rewritten in one transaction.
const ROWS: i64 = 5_000;

/// Upgrades a store if it has a known earlier format; returns a sentence about it.
pub fn upgrade(connection: &mut Connection) -> Result<Option<String>> {
    let exists = "SELECT EXISTS(SELECT 1 FROM sqlite_schema WHERE name = 'meta')";
    if !connection.query_row(exists, [], |row| row.get::<_, bool>(0)).map_err(failure)? {
        return Ok(None);
    }
    match meta(connection, "format")?.as_deref() {
        Some(INDEXES_WITH_FUNCTIONS) => {
            with_columns(connection)?;
            Ok(Some(format!(
                "the store was upgraded from format {INDEXES_WITH_FUNCTIONS} to {FORMAT}; older versions of this program can no longer open it"
            )))
        }
        _ => Ok(None),
    }
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
    fn rule(&self) -> (String, String) {
        let pairs = || {
            let digests = self.linked.iter().map(|field| (format!("\"d_{field}\""), format!("digest(\"f_{field}\")")));
            std::iter::once(("packed".to_owned(), "packed(key)".to_owned())).chain(digests)
        };
        let assign = pairs().map(|(column, value)| format!("{column} = {value}")).collect::<Vec<_>>().join(", ");
        let differs = pairs().map(|(column, value)| format!("{column} IS NOT {value}")).collect::<Vec<_>>().join(" OR ");
        (assign, differs)
    }
}

fn with_columns(connection: &mut Connection) -> Result<()> {
    let shape = crate::sql::shape::stored(meta(connection, "shape")?.as_deref())?;
    let linked =
        |shape: &crate::sql::shape::CollectionSchema| shape.fields.iter().filter(|(_, field)| field.linked).map(|(name, _)| name.clone()).collect();
    let all: Vec<AddedColumns> =
        shape.collections.iter().map(|(name, shape)| AddedColumns { collection: name.clone(), linked: linked(shape) }).collect();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failure)?;
    for own in &all {
        let known = columns_of(&transaction, &own.table())?;
        let wanted = std::iter::once(("packed".to_owned(), "BLOB")).chain(own.linked.iter().map(|field| (format!("d_{field}"), "INTEGER")));
        for (column, class) in wanted.filter(|(column, _)| !known.contains(column)) {
            transaction.execute_batch(&format!("ALTER TABLE {} ADD COLUMN \"{column}\" {class}", own.table())).map_err(failure)?;
        }
    }
    transaction.commit().map_err(failure)?;
    for own in &all {
        fill(connection, own)?;
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failure)?;
    if meta(&transaction, "format")?.as_deref() != Some(INDEXES_WITH_FUNCTIONS) {
        // another process has already done it
        return Ok(());
    }
    for own in &all {
        let (table, name, (assign, differs)) = (own.table(), &own.collection, own.rule());
        let index = conflict_index(name);
        let has_conflicts = "SELECT 1 FROM sqlite_schema WHERE name = ?";
        let has_conflicts = transaction.query_row(has_conflicts, [index.trim_matches('"')], |_| Ok(())).optional().map_err(failure)?.is_some();
        let mut sql = format!(
            "UPDATE {table} SET {assign} WHERE {differs};
             DROP INDEX IF EXISTS \"k_{name}\"; CREATE UNIQUE INDEX \"k_{name}\" ON {table}(tenant, packed);"
        );
        if has_conflicts {
            sql += &format!("DROP INDEX {index}; CREATE INDEX {index} ON {table}(tenant, packed) WHERE conflict IS NOT NULL;");
        }
        for field in &own.linked {
            sql += &format!("DROP INDEX IF EXISTS \"l_{name}_{field}\"; CREATE INDEX \"l_{name}_{field}\" ON {table}(tenant, \"d_{field}\");");
        }
        transaction.execute_batch(&sql).map_err(failure)?;
    }
    put_meta(&transaction, "format", FORMAT)?;
    if let Some(hash) = meta(&transaction, "definition")? {
        put_meta(&transaction, "definition", &super::tables::format_and_hash(&hash))?;
    }
    transaction.commit().map_err(failure)?;
    // the WAL need not keep what was rewritten; a reader may prevent this
    let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    Ok(())
}

/// Fills the columns of all current rows.
fn fill(connection: &Connection, own: &AddedColumns) -> Result<()> {
    let (table, (assign, differs)) = (own.table(), own.rule());
    let next = format!("SELECT max(id) FROM (SELECT id FROM {table} WHERE id > ? ORDER BY id LIMIT ?)");
    let update = format!("UPDATE {table} SET {assign} WHERE id > ? AND id <= ? AND ({differs})");
    let mut after = i64::MIN;
    loop {
        let last: Option<i64> = connection.query_row(&next, params![after, ROWS], |row| row.get(0)).map_err(failure)?;
        let Some(last) = last else { return Ok(()) };
        connection.execute(&update, params![after, last]).map_err(failure)?;
        let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        after = last;
    }
}
