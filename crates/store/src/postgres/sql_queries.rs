//! Statements in SQL on a server.

use super::session::{DatabaseError, DbResult, Session};
use super::store::PostgresStore;
use super::values::RowExt;
use super::views;
use crate::sql_queries::{NO_VIEWS, SqlQueries, SqlRows};
use crate::{Result, StoreError};

/// The planner's settings are those of a server again: a statement of somebody may read everything.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL enable_seqscan = on; SET LOCAL enable_mergejoin = on; SET LOCAL enable_hashjoin = on; SET LOCAL random_page_cost TO DEFAULT; \
    SET LOCAL cpu_tuple_cost TO DEFAULT; SET LOCAL cpu_index_tuple_cost TO DEFAULT; SET LOCAL cpu_operator_cost TO DEFAULT";

impl SqlQueries for PostgresStore {
    fn select(&self, statement: &str, rows: &mut dyn SqlRows) -> Result<()> {
        let mut has_begun = false;
        self.with_reader(|session| {
            if has_begun {
                return Err(StoreError::ReadOnly("the connection was lost while rows were read; ask again".into()).into());
            }
            if !views::are_current(session, self.context.tables.catalogue())? {
                return Err(StoreError::Wrong(NO_VIEWS.into()).into());
            }
            session.batch(BEGIN)?;
            let selected = select(session, statement, rows, &mut has_begun);
            match selected {
                Ok(()) => session.batch("COMMIT"),
                Err(error) => {
                    // a connection that was lost needs no end of its transaction
                    let _ = session.roll_back();
                    Err(error)
                }
            }
        })
    }
}

fn select(session: &mut Session, sql: &str, rows: &mut dyn SqlRows, has_begun: &mut bool) -> DbResult<()> {
    // the places of mistakes are those of the statement itself
    let columns: Vec<String> = session.prepare(sql).map_err(wrong)?.columns().iter().map(|column| column.name().to_owned()).collect();
    if columns.is_empty() {
        return Err(StoreError::Wrong("the statement must be SELECT, WITH or VALUES, and write nothing".into()).into());
    }
    *has_begun = true;
    rows.columns(columns)?;
    let inner = sql.trim_end().trim_end_matches(';');
    let as_json = format!("SELECT (SELECT json_agg(e.value) FROM json_each(row_to_json(q)) e)::text FROM (\n{inner}\n) AS q");
    session
        .visit(&as_json, &[], |row| {
            let values = serde_json::from_str(row.at(0)?).map_err(|error| StoreError::Other(format!("the database returned no JSON: {error}")))?;
            Ok(rows.row(values)?)
        })
        .map_err(wrong)
}

/// What the database says against a statement is a mistake in it.
fn wrong(error: DatabaseError) -> DatabaseError {
    match error {
        DatabaseError::Store(StoreError::Other(reason)) => StoreError::Wrong(reason).into(),
        other => other,
    }
}
