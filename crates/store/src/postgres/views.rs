//! The views of golden records on a server, see [`crate::sql::views`].
//!
//! | type | column |
//! |---|---|
//! | text, boolean, UUID | `text`, `boolean`, `uuid` |
//! | integer, size | `bigint` |
//! | float | `double precision` |
//! | timestamp | `timestamptz` |
//! | date | `date` |
//! | partial date | `daterange` of the days that it may be |
//! | duration | `interval` of seconds |
//! | JSON, ranges, lists of JSON or structs | `json` |
//! | other lists | arrays |
//!
//! Times before the year 4714 BC, which PostgreSQL has not, are `-infinity`. Who was granted `SELECT` on a view may still read it after it was made
//! again.

use super::session::{DbResult, Session};
use super::tables::{meta, put_meta, quoted_name};
use super::values::RowExt;
use crate::sql::views::{STAMP, shown_columns, stamp, view_name};
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::value::{FieldType, PartialDate, StructMember};

/// The first second and the first day that PostgreSQL knows, counted from 1970-01-01.
const FIRST_SECOND: i64 = -210_866_803_200;
const FIRST_DAY: i64 = FIRST_SECOND / 86_400;

/// The statements that create the views.
fn statements(catalogue: &Catalogue) -> Vec<String> {
    catalogue.collections.iter().map(create_view).collect()
}

fn create_view(collection: &Collection) -> String {
    let values: String = shown_columns(collection)
        .map(|column| {
            let stored = format!("r.{}", quoted_name(&[column.prefix, column.name]));
            format!("{} AS {}, ", shown(&stored, column.ty), quoted_name(&[column.name]))
        })
        .collect();
    format!(
        "CREATE VIEW {} AS SELECT t.name AS _tenant, r.key AS key, {values}r.conflict AS _conflict, {} AS _changed, r.created_job AS _job \
         FROM {} r JOIN tenants t ON t.id = r.tenant WHERE r.alive",
        quoted_name(&[&view_name(collection)]),
        shown("r.revision", &FieldType::Timestamp),
        quoted_name(&["r", &collection.name])
    )
}

/// The expression that shows a stored value of a type.
fn shown(value: &str, ty: &FieldType) -> String {
    match ty {
        FieldType::Text | FieldType::Integer | FieldType::Size | FieldType::Float | FieldType::Boolean | FieldType::Uuid | FieldType::Geometry => {
            value.to_owned()
        }
        FieldType::Json | FieldType::Ranges | FieldType::Struct(_) => format!("{value}::json"),
        FieldType::Timestamp => format!(
            "CASE WHEN {value} < {FIRST_SECOND}000000 THEN '-infinity'::timestamptz ELSE timestamptz '1970-01-01 00:00:00+00' + {} END",
            interval(value)
        ),
        FieldType::Date => shown_day(value),
        FieldType::PartialDate => {
            let (shift, bits, mask) = (PartialDate::SHIFT, PartialDate::LAST_BITS, PartialDate::LAST_MASK);
            let (earliest, latest) = PartialDate::LIMITS;
            let first = format!("(({value} >> {bits}) - {shift})");
            let last = format!("({mask} - ({value} & {mask}) - {shift})");
            format!(
                "CASE WHEN {value} IS NOT NULL THEN daterange(CASE WHEN {first} > {earliest} THEN {} END, CASE WHEN {last} < {latest} THEN {} END, '[]') END",
                shown_day(&first),
                shown_day(&last)
            )
        }
        FieldType::Duration => interval(value),
        FieldType::List(element) => shown_list(value, element),
    }
}

/// Microseconds as an interval. Factors of an interval are floats, which have all whole seconds of 20 000 years, but not all of their microseconds.
fn interval(micros: &str) -> String {
    format!("({micros} / 1000000) * interval '1 second' + ({micros} % 1000000) * interval '1 microsecond'")
}

fn shown_day(day: &str) -> String {
    format!("CASE WHEN {day} < {FIRST_DAY} THEN '-infinity'::date ELSE date '1970-01-01' + ({day})::integer END")
}

fn shown_list(value: &str, element: &FieldType) -> String {
    let aggregate = match element {
        FieldType::Text | FieldType::Integer | FieldType::Size | FieldType::Float | FieldType::Boolean | FieldType::Uuid => {
            return value.to_owned();
        }
        // members without a value are left out
        FieldType::Struct(members) => {
            let shown: Vec<String> = members.iter().map(|member| format!("'{}', {}", member.name, shown_member(member))).collect();
            format!("coalesce(json_agg(json_strip_nulls(json_build_object({})) ORDER BY e.place), '[]')", shown.join(", "))
        }
        FieldType::Json | FieldType::Ranges => "coalesce(json_agg(e.value::json ORDER BY e.place), '[]')".to_owned(),
        other => format!("coalesce(array_agg({} ORDER BY e.place), '{{}}')", shown("e.value", other)),
    };
    format!("CASE WHEN {value} IS NOT NULL THEN (SELECT {aggregate} FROM unnest({value}) WITH ORDINALITY AS e(value, place)) END")
}

/// A member of the struct in `e.value`.
fn shown_member(member: &StructMember) -> String {
    let text = format!("(e.value::json ->> '{}')", member.name);
    match &member.ty {
        FieldType::Uuid => format!("{text}::uuid"),
        ty @ (FieldType::Timestamp | FieldType::Date | FieldType::PartialDate | FieldType::Duration) => shown(&format!("{text}::bigint"), ty),
        _ => format!("(e.value::json -> '{}')", member.name),
    }
}

/// Whether the store has the views of a definition.
pub fn are_current(session: &mut Session, catalogue: &Catalogue) -> DbResult<bool> {
    Ok(meta(session, STAMP)?.as_deref() == Some(stamp(catalogue, &statements(catalogue)).as_str()))
}

/// The views are dropped before tables change, as they would keep columns from changing their types.
pub struct FormerViews {
    /// The statements that grant again what was granted on them.
    grants: Vec<String>,
}

/// Drops all views if they are not those of the definition.
pub fn drop_former(session: &mut Session, catalogue: &Catalogue) -> DbResult<Option<FormerViews>> {
    if are_current(session, catalogue)? {
        return Ok(None);
    }
    const IN_SCHEMA: &str = "c.relnamespace = current_schema()::regnamespace AND c.relkind = 'v' AND c.relname LIKE 'golden\\_%'";
    let grants = format!(
        "SELECT format('GRANT SELECT ON %I TO %s', c.relname, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END), c.relname::text \
         FROM pg_class c, aclexplode(c.relacl) a WHERE {IN_SCHEMA} AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner"
    );
    let kept: Vec<String> = catalogue.collections.iter().map(|collection| quoted_name(&[&view_name(collection)]).replace('"', "")).collect();
    let rows = session.query(&grants, &[])?;
    let mut granted = Vec::new();
    for row in &rows {
        if kept.iter().any(|name| row.at::<&str>(1).is_ok_and(|view| view == name)) {
            granted.push(row.at(0)?);
        }
    }
    for row in session.query(&format!("SELECT format('DROP VIEW %I', c.relname) FROM pg_class c WHERE {IN_SCHEMA}"), &[])? {
        session.batch(row.at(0)?)?;
    }
    Ok(Some(FormerViews { grants: granted }))
}

impl FormerViews {
    /// Creates the views of the definition.
    pub fn replace(self, session: &mut Session, catalogue: &Catalogue) -> DbResult<()> {
        let statements = statements(catalogue);
        statements.iter().chain(&self.grants).try_for_each(|statement| session.batch(statement))?;
        put_meta(session, STAMP, &stamp(catalogue, &statements))
    }
}
