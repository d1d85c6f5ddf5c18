//! The index of words of a field: the words of each value in the form of [`stook_catalogue::words`] in a column of the record, and an FTS5 table that
//! finds records by them.
//!
//! The table only finds candidates, in which all words occur: whether they follow each other, and how often they occur, is decided by the column. So
//! it needs no positions, and its tokenizer has nothing to decide: words are letters and digits, which it separates at spaces.

use super::error::store_error;
use super::tables::{add_column, columns_of};
use super::values::unbind;
use crate::Result;
use crate::sql::store_schema::IndexChange;
use rusqlite::{Connection, params};
use stook_catalogue::definition::Collection;
use stook_catalogue::value::Value;
use stook_catalogue::words::{WordSearch, kept_words};

/// The column with the words of a field, quoted.
pub fn words_column(field: &str) -> String {
    format!("\"w_{field}\"")
}

/// The table of the words of a field, quoted.
pub fn words_table(collection: &str, field: &str) -> String {
    format!("\"w_{collection}_{field}\"")
}

/// The query of the table for the records in which all words occur.
pub fn words_query(search: &WordSearch) -> String {
    let mut tokens: Vec<String> = Vec::new();
    for term in search.terms() {
        let last = term.words().len() - 1;
        for (position, word) in term.words().iter().enumerate() {
            let star = if term.is_prefix() && position == last { " *" } else { "" };
            tokens.push(format!("\"{word}\"{star}"));
        }
    }
    tokens.join(" AND ")
}

/// Creates or drops an index of words; one that is added later starts from what is stored.
pub fn words_index(connection: &Connection, collection: &Collection, field: &str, change: IndexChange) -> Result<()> {
    let (records, column, side) = (format!("\"r_{}\"", collection.name), words_column(field), words_table(&collection.name, field));
    match change {
        IndexChange::Create => {
            if !columns_of(connection, &records)?.contains(&format!("w_{field}")) {
                add_column(connection, &records, &column, "TEXT")?;
            }
            fill_column(connection, collection, field)?;
            let create = format!(
                "CREATE VIRTUAL TABLE {side} USING fts5(value, content='', contentless_delete=1, tokenize='ascii', detail=none);
                 INSERT INTO {side}(rowid, value) SELECT id, {column} FROM {records} WHERE {column} IS NOT NULL;"
            );
            connection.execute_batch(&create).map_err(store_error)
        }
        // the column stays: it is not written any more, and is filled again if it is needed
        IndexChange::Drop => connection.execute_batch(&format!("DROP TABLE {side}")).map_err(store_error),
        IndexChange::Nothing => Ok(()),
    }
}

/// Computes the words of all records.
fn fill_column(connection: &Connection, collection: &Collection, field: &str) -> Result<()> {
    let Some((_, definition)) = collection.field(field) else { return Ok(()) };
    let (records, column) = (format!("\"r_{}\"", collection.name), words_column(field));
    let mut update = connection.prepare(&format!("UPDATE {records} SET {column} = ? WHERE id = ?")).map_err(store_error)?;
    let sql = format!("SELECT id, \"f_{field}\" FROM {records} WHERE \"f_{field}\" IS NOT NULL OR {column} IS NOT NULL");
    let mut statement = connection.prepare(&sql).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        // damaged values are reported when they are read
        let value = unbind(row.get_ref(1).map_err(store_error)?, definition.golden_type()).unwrap_or(Value::Null);
        update.execute(params![kept_words(&value), row.get::<_, i64>(0).map_err(store_error)?]).map_err(store_error)?;
    }
    Ok(())
}
