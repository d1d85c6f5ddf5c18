//! The index of words of a field: the words of each value in the form of [`stook_catalogue::words`] in a column of the record, and a GIN index over the
//! vector of these words, which finds records.
//!
//! The words are cut by the process that writes them; the server's configurations of text search play no part. The vector has no positions: whether
//! words follow each other, and how often they occur, is decided by the column.

use super::computed_column::ComputedColumn;
use super::session::{DbResult, Session};
use super::tables::quoted_name;
use super::values::column_type;
use crate::sql::store_schema::IndexChange;
use stook_catalogue::definition::{Collection, Field};
use stook_catalogue::value::FieldType;
use stook_catalogue::words::{WordSearch, kept_words};

/// The column with the words of a field, quoted.
pub fn words_column(field: &str) -> String {
    quoted_name(&["w", field])
}

/// The expression that the index contains.
pub fn words_vector(column: &str) -> String {
    format!("array_to_tsvector(array_remove(string_to_array(replace({column}, E'\\n', ''), ' '), ''))")
}

/// The query of the index for the records in which all words occur.
pub fn words_query(search: &WordSearch) -> String {
    let mut lexemes: Vec<String> = Vec::new();
    for term in search.terms() {
        let last = term.words().len() - 1;
        for (position, word) in term.words().iter().enumerate() {
            let star = if term.is_prefix() && position == last { ":*" } else { "" };
            lexemes.push(format!("'{word}'{star}"));
        }
    }
    lexemes.join(" & ")
}

/// Creates or drops an index of words; one that is added later starts from what is stored.
pub fn words_index(session: &mut Session, collection: &Collection, field: &Field, change: IndexChange) -> DbResult<()> {
    let (table, column) = (quoted_name(&["r", &collection.name]), words_column(&field.name));
    match change {
        IndexChange::Create => {
            session.batch(&format!("ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column} {}", column_type(&FieldType::Text)))?;
            ComputedColumn { table: &table, column: &column, sql_type: "text" }.fill(session, field, kept_words)?;
            let index = quoted_name(&["w", &collection.name, &field.name]);
            session.batch(&format!("CREATE INDEX {index} ON {table} USING gin ({})", words_vector(&column)))
        }
        IndexChange::Drop => session.batch(&format!("ALTER TABLE {table} DROP COLUMN {column}")),
        IndexChange::Nothing => Ok(()),
    }
}
