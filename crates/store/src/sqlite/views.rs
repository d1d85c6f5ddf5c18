//! The views of golden records in a file, see [`crate::sql::views`].
//!
//! | type | column |
//! |---|---|
//! | text, integer, float, size | as it is |
//! | boolean | 1 or 0 |
//! | timestamp | `2026-01-31 08:00:00.000000`, in UTC, as the functions of SQLite read it |
//! | date | `2026-01-31` |
//! | partial date | `2026-01-01/2026-01-31`: the first and the last day that it may be; `..` if there is none |
//! | duration | seconds, a float |
//! | UUID | with hyphens |
//! | JSON, ranges, lists | JSON, with elements as above |
//!
//! Times before the year 0, which SQLite has not, are `-infinity`.

use super::error::store_error;
use super::tables::{meta, put_meta};
use crate::Result;
use crate::sql::views::{STAMP, shown_columns, stamp, view_name};
use rusqlite::Connection;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::value::{FieldType, PartialDate, StructMember};

/// The first second and the first day that SQLite writes, counted from 1970-01-01.
const FIRST_SECOND: i64 = -62_167_219_200;
const FIRST_DAY: i64 = FIRST_SECOND / 86_400;

/// The statements that create the views.
fn statements(catalogue: &Catalogue) -> Vec<String> {
    catalogue.collections.iter().map(create_view).collect()
}

fn create_view(collection: &Collection) -> String {
    let values: String = shown_columns(collection)
        .map(|column| format!("{} AS \"{}\", ", shown(&format!("r.\"{}_{}\"", column.prefix, column.name), column.ty), column.name))
        .collect();
    format!(
        "CREATE VIEW \"{}\" AS SELECT t.name AS _tenant, r.key AS key, {values}\
         r.conflict AS _conflict, {} AS _changed, r.created_job AS _job FROM \"r_{}\" r JOIN tenants t ON t.id = r.tenant WHERE r.alive = 1",
        view_name(collection),
        shown("r.revision", &FieldType::Timestamp),
        collection.name
    )
}

/// The expression that shows a stored value of a type.
fn shown(value: &str, ty: &FieldType) -> String {
    match ty {
        FieldType::Text
        | FieldType::Integer
        | FieldType::Size
        | FieldType::Float
        | FieldType::Boolean
        | FieldType::Json
        | FieldType::Ranges
        | FieldType::Struct(_)
        | FieldType::Geometry => value.to_owned(),
        FieldType::Timestamp => {
            let micros = format!("({value} % 1000000 + 1000000) % 1000000");
            let seconds = format!("({value} - {micros}) / 1000000");
            format!(
                "CASE WHEN {value} < {FIRST_SECOND}000000 THEN '-infinity' \
                 ELSE strftime('%Y-%m-%d %H:%M:%S', {seconds}, 'unixepoch') || printf('.%06d', {micros}) END"
            )
        }
        FieldType::Date => shown_day(value),
        FieldType::PartialDate => {
            let (first, last) = (first_day(value), last_day(value));
            let (earliest, latest) = PartialDate::LIMITS;
            format!(
                "CASE WHEN {first} <= {earliest} THEN '..' ELSE {} END || '/' || CASE WHEN {last} >= {latest} THEN '..' ELSE {} END",
                shown_day(&first),
                shown_day(&last)
            )
        }
        FieldType::Duration => format!("{value} / 1000000.0"),
        FieldType::Uuid => hyphenated(&format!("lower(hex({value}))")),
        FieldType::List(element) => shown_list(value, element),
    }
}

fn shown_day(day: &str) -> String {
    format!("CASE WHEN {day} < {FIRST_DAY} THEN '-infinity' ELSE date(({day}) * 86400, 'unixepoch') END")
}

/// The first day of a stored partial date.
fn first_day(stored: &str) -> String {
    format!("(({stored} >> {}) - {})", PartialDate::LAST_BITS, PartialDate::SHIFT)
}

/// Its last day.
fn last_day(stored: &str) -> String {
    let mask = PartialDate::LAST_MASK;
    format!("({mask} - ({stored} & {mask}) - {})", PartialDate::SHIFT)
}

/// A UUID of 32 hexadecimal digits, as it is usually written. Null stays null.
fn hyphenated(digits: &str) -> String {
    let part = |from: usize, length: usize| format!("substr({digits}, {from}, {length})");
    let parts = [part(1, 8), part(9, 4), part(13, 4), part(17, 4), part(21, 12)].join(" || '-' || ");
    format!("nullif({parts}, '----')")
}

fn shown_list(value: &str, element: &FieldType) -> String {
    let item = match element {
        // as they are stored
        FieldType::Text | FieldType::Integer | FieldType::Size | FieldType::Float => return value.to_owned(),
        // members without a value are left out
        FieldType::Struct(members) => {
            let shown: Vec<String> = members.iter().map(|member| format!("'{}', {}", member.name, shown_member(member))).collect();
            format!("json_patch('{{}}', json_object({}))", shown.join(", "))
        }
        FieldType::Boolean => "json(CASE e.value WHEN 1 THEN 'true' WHEN 0 THEN 'false' END)".to_owned(),
        FieldType::Json | FieldType::Ranges => "json(e.value)".to_owned(),
        FieldType::Uuid => hyphenated("e.value"),
        other => shown("e.value", other),
    };
    format!("CASE WHEN {value} IS NOT NULL THEN (SELECT json_group_array({item}) FROM json_each({value}) e) END")
}

/// A member of the struct in `e.value`.
fn shown_member(member: &StructMember) -> String {
    let path = format!("'$.\"{}\"'", member.name);
    match &member.ty {
        FieldType::Uuid => hyphenated(&format!("(e.value ->> {path})")),
        ty @ (FieldType::Timestamp | FieldType::Date | FieldType::PartialDate | FieldType::Duration) => shown(&format!("(e.value ->> {path})"), ty),
        _ => format!("json(e.value -> {path})"),
    }
}

/// Whether the store has the views of a definition.
pub fn are_current(connection: &Connection, catalogue: &Catalogue) -> Result<bool> {
    Ok(meta(connection, STAMP)?.as_deref() == Some(stamp(catalogue, &statements(catalogue)).as_str()))
}

/// Drops all views if they are not those of the definition.
pub fn drop_former(connection: &Connection, catalogue: &Catalogue) -> Result<()> {
    if are_current(connection, catalogue)? {
        return Ok(());
    }
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'view' AND name GLOB 'golden_*'";
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let names = statement.query_map([], |row| row.get(0)).map_err(store_error)?.collect::<rusqlite::Result<Vec<String>>>().map_err(store_error)?;
    names.iter().try_for_each(|name| connection.execute_batch(&format!("DROP VIEW \"{name}\"")).map_err(store_error))
}

/// Creates the views of the definition, unless they are there.
pub fn create(connection: &Connection, catalogue: &Catalogue) -> Result<()> {
    if are_current(connection, catalogue)? {
        return Ok(());
    }
    let statements = statements(catalogue);
    statements.iter().try_for_each(|statement| connection.execute_batch(statement).map_err(store_error))?;
    put_meta(connection, STAMP, &stamp(catalogue, &statements))
}
