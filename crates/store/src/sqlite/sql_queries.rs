//! Statements in SQL on a file.

use super::error::store_error;
use super::store::SqliteStore;
use super::views;
use crate::sql_queries::{NO_VIEWS, SqlQueries, SqlRows};
use crate::{Result, StoreError};
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection};
use serde_json::Value as Json;
use std::fmt::Write;

impl SqlQueries for SqliteStore {
    fn select(&self, statement: &str, rows: &mut dyn SqlRows) -> Result<()> {
        self.with_reader(|connection| {
            if !views::are_current(connection, self.tables.catalogue())? {
                return Err(StoreError::Wrong(NO_VIEWS.into()));
            }
            select(connection, statement, rows)
        })
    }
}

fn select(connection: &Connection, sql: &str, rows: &mut dyn SqlRows) -> Result<()> {
    let wrong = |error: rusqlite::Error| match error {
        // what is wrong with the text, not with the file
        rusqlite::Error::SqlInputError { msg, offset, .. } => {
            StoreError::Wrong(place(sql, offset).map_or(msg.clone(), |place| format!("{msg} ({place})")))
        }
        error if error.sqlite_error_code() == Some(rusqlite::ErrorCode::Unknown) => StoreError::Wrong(error.to_string()),
        error => store_error(error),
    };
    let mut batch = Batch::new(connection, sql);
    let Some(mut statement) = batch.next().map_err(wrong)? else { return Err(StoreError::Wrong("there is no statement".into())) };
    if !batch.next().is_ok_and(|next| next.is_none()) {
        return Err(StoreError::Wrong("only one statement can be executed".into()));
    }
    // PRAGMA and ATTACH are "read-only" for the database, and may change the connection
    let word = sql.trim_start_matches(|c: char| c.is_whitespace() || c == '(').split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let reads = ["select", "with", "values", "explain"].iter().any(|known| word.eq_ignore_ascii_case(known));
    if !reads || !statement.readonly() || statement.column_count() == 0 {
        return Err(StoreError::Wrong("the statement must begin with SELECT, WITH, VALUES or EXPLAIN, and write nothing".into()));
    }
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let count = names.len();
    rows.columns(names)?;
    let mut found = statement.query([]).map_err(wrong)?;
    while let Some(row) = found.next().map_err(wrong)? {
        let values = (0..count).map(|index| Ok(shown(row.get_ref(index).map_err(store_error)?))).collect::<Result<_>>()?;
        rows.row(values)?;
    }
    Ok(())
}

/// Line and column of an offset that the database gives, if it knows one.
fn place(sql: &str, offset: i32) -> Option<String> {
    let before = sql.get(..usize::try_from(offset).ok()?)?;
    let (line, last) = (before.matches('\n').count() + 1, before.rsplit('\n').next().unwrap_or_default());
    Some(format!("line {line}, column {}", last.chars().count() + 1))
}

fn shown(value: ValueRef<'_>) -> Json {
    match value {
        ValueRef::Null => Json::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => {
            let mut text = String::with_capacity(2 * bytes.len() + 2);
            text.push_str("\\x");
            for byte in bytes {
                let _ = write!(text, "{byte:02x}");
            }
            text.into()
        }
    }
}
