//! Rows of a result as JSON objects, as lines of JSON and as CSV.

use crate::app::pending::RowFormat;
use axum::http::{HeaderName, header};
use serde_json::{Map, Value as Json};
use stook_catalogue::value::Value;
use stook_query::ResultColumn;

/// Media types of rows.
pub const CSV: &str = "text/csv; charset=utf-8; header=present";
pub const NDJSON: &str = "application/x-ndjson";

/// Expected length of a line of CSV, in bytes.
const LINE: usize = 256;

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
    let head = csv_line(headings.iter().map(|heading| heading.name.clone()));
    rows.iter().fold(head, |text, row| text + &csv_line(row.iter().zip(headings).map(|(value, heading)| value.show(&heading.ty))))
}

pub fn csv_line(cells: impl Iterator<Item = String>) -> String {
    let mut line = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).buffer_capacity(LINE).from_writer(Vec::with_capacity(LINE));
    // memory takes everything, and texts are UTF-8
    let written = line.write_record(cells).ok().and_then(|()| line.into_inner().ok());
    String::from_utf8(written.unwrap_or_default()).unwrap_or_default()
}
