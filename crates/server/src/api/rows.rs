//! Rows of a result as JSON objects, as lines of JSON and as CSV.

use crate::app::pending::RowFormat;
use axum::http::{HeaderName, header};
use serde_json::{Map, Value as Json};
use stook_catalogue::value::Value;
use stook_query::ResultColumn;
use stook_query::csv::{LineEnd, csv_line};

/// Media types of rows.
pub const CSV: &str = "text/csv; charset=utf-8; header=present";
pub const NDJSON: &str = "application/x-ndjson";

/// Returns a row as an object.
pub fn shown(headings: &[ResultColumn], row: &[Value]) -> Map<String, Json> {
    headings.iter().zip(row).map(|(heading, value)| (heading.name.clone(), value.to_json(&heading.ty))).collect()
}

/// Returns rows as text with its media type; `None` for JSON.
pub fn as_csv_or_ndjson(format: RowFormat, headings: &[ResultColumn], rows: &[Vec<Value>]) -> Option<([(HeaderName, &'static str); 1], String)> {
    let (media, text) = match format {
        RowFormat::Json => return None,
        RowFormat::Csv => (CSV, csv(headings, rows)),
        RowFormat::Ndjson => (NDJSON, rows.iter().map(|row| Json::Object(shown(headings, row)).to_string() + "\n").collect()),
    };
    Some(([(header::CONTENT_TYPE, media)], text))
}

pub fn csv(headings: &[ResultColumn], rows: &[Vec<Value>]) -> String {
    let head = csv_line(headings.iter().map(|heading| heading.name.clone()), LineEnd::CarriageReturnLineFeed);
    rows.iter().fold(head, |text, row| text + &csv_row(headings, row))
}

/// Returns a row as a line of CSV.
pub fn csv_row(headings: &[ResultColumn], row: &[Value]) -> String {
    csv_line(row.iter().zip(headings).map(|(value, heading)| value.show(&heading.ty)), LineEnd::CarriageReturnLineFeed)
}
