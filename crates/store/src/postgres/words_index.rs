//! The index of words of a field: the words of each value in the form of [`stook_catalogue::words`] in a column of the record, and a GIN index over the
//! vector of these words, which finds records.
//!
//! The words are cut by the process that writes them; the server's configurations of text search play no part. The vector has no positions: whether
//! words follow each other, and how often they occur, is decided by the column.

use super::session::{DbResult, Session};
use super::tables::quoted_name;
use super::values::{RowExt, column_type, decode_column};
use crate::sql::store_schema::IndexChange;
use stook_catalogue::definition::{Collection, Field};
use stook_catalogue::value::{FieldType, Value};
use stook_catalogue::words::{WordSearch, kept_words};

/// Number of records whose words are computed at a time for a new index.
const RECORDS_PER_PAGE: usize = 10_000;

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
            fill_column(session, (&table, &column), field)?;
            let index = quoted_name(&["w", &collection.name, &field.name]);
            session.batch(&format!("CREATE INDEX {index} ON {table} USING gin ({})", words_vector(&column)))
        }
        IndexChange::Drop => session.batch(&format!("ALTER TABLE {table} DROP COLUMN {column}")),
        IndexChange::Nothing => Ok(()),
    }
}

/// Computes the words of all records.
fn fill_column(session: &mut Session, (table, column): (&str, &str), field: &Field) -> DbResult<()> {
    let value = quoted_name(&["f", &field.name]);
    let page_sql = format!(
        "SELECT {value}, tenant, key FROM {table} WHERE {value} IS NOT NULL AND (tenant, key) > ($1::bigint, $2::text) \
         ORDER BY tenant, key LIMIT {RECORDS_PER_PAGE}"
    );
    let fill_sql = format!(
        "UPDATE {table} AS r SET {column} = u.words FROM unnest($1::bigint[], $2::text[], $3::text[]) AS u(tenant, key, words) \
         WHERE r.tenant = u.tenant AND r.key = u.key"
    );
    let mut after = (i64::MIN, String::new());
    loop {
        let rows = session.query(&page_sql, &[&after.0, &after.1])?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = (last.at(1)?, last.at(2)?);
        let (mut tenants, mut keys, mut words) = (Vec::<i64>::new(), Vec::<&str>::new(), Vec::<Option<String>>::new());
        for row in &rows {
            // damaged values are reported when they are read
            let value = decode_column(row, 0, field.golden_type()).unwrap_or(Value::Null);
            tenants.push(row.at(1)?);
            keys.push(row.at(2)?);
            words.push(kept_words(&value));
        }
        session.execute(&fill_sql, &[&tenants, &keys, &words])?;
    }
}
