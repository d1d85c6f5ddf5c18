//! The rows of a table, and what all of them together show: absent values, and rows of other lengths.

use super::Columns;
use crate::column::{ColumnProfile, Native};
use crate::kind::Kind;
use crate::table::TableProfile;
use std::collections::BTreeSet;
use stook_formats::csv_fields;

pub(super) fn add_row(bytes: &[u8], delimiter: u8, columns: &mut Columns) -> Result<(), String> {
    let values = csv_fields(bytes, delimiter).map_err(|error| error.to_string())?;
    let (fewest, most) = columns.widths.unwrap_or((values.len(), values.len()));
    columns.widths = Some((fewest.min(values.len()), most.max(values.len())));
    while columns.columns.len() < values.len() {
        let name = format!("column_{}", columns.columns.len() + 1);
        columns.columns.push(ColumnProfile::new(name));
    }
    for (position, value) in values.iter().enumerate().filter(|(_, value)| !value.is_empty()) {
        columns.add_at(position, value, Native::Text);
    }
    Ok(())
}

pub(super) fn finish(columns: &mut Columns, profile: &mut TableProfile) {
    let (fewest, most) = columns.widths.unwrap_or_default();
    let named = profile.reading.csv.header.len();
    if most > named {
        profile
            .notes
            .push(format!("some rows have {most} values, the header has {named}; the others are in {}", profile.column_names(named, columns)));
        profile.own_header = None;
        profile.reading.csv.header = columns.columns.iter().map(|column| column.path.clone()).collect();
    }
    if fewest < named.max(most) {
        profile.notes.push(format!("some rows have only {fewest} values; the others are absent"));
        profile.reading.csv.short_rows = true;
    }
    decide_nulls(columns, profile);
    if let Some(own) = profile.own_header.take() {
        profile.reading.csv = stook_catalogue::definition::CsvOptions {
            null: std::mem::take(&mut profile.reading.csv.null),
            short_rows: profile.reading.csv.short_rows,
            ..own
        };
    }
}

impl TableProfile {
    fn column_names(&self, from: usize, columns: &Columns) -> String {
        let names = columns.columns[from..].iter().map(|column| format!("`{}`", column.path));
        names.collect::<Vec<_>>().join(", ")
    }
}

/// Texts that stand for an absent value wherever they are.
const ALWAYS: [&str; 8] = ["\\N", "NULL", "(null)", "#N/A", "N/A", "n/a", "<NA>", "#NULL!"];

/// Decides which texts stand for an absent value: those that always do, and those without which a column has numbers, dates or other typed values. Where
/// such a text is a value of another column (NA is Namibia's code), it stays set apart in the typed columns only.
fn decide_nulls(columns: &mut Columns, profile: &mut TableProfile) {
    let tokens: BTreeSet<String> = columns.columns.iter().flat_map(|column| column.tokens.keys().cloned()).collect();
    let (mut null, mut by_column) = (Vec::new(), BTreeSet::new());
    for token in tokens {
        let has_token = |column: &&ColumnProfile| column.tokens.contains_key(&token);
        let is_typed = columns.columns.iter().filter(has_token).any(is_typed);
        let is_code = columns.columns.iter().filter(has_token).any(|column| has_codes_like(column, &token));
        match () {
            () if ALWAYS.contains(&token.as_str()) || token.trim().is_empty() => null.push(token),
            () if is_typed && is_code => {
                by_column.insert(token);
            }
            () if is_typed => null.push(token),
            () => {}
        }
    }
    for column in &mut columns.columns {
        let stays_apart = is_typed(column);
        column.tokens.retain(|token, _| !null.contains(token));
        column.take_tokens(|token| !(stays_apart && by_column.contains(token)));
    }
    profile.reading.csv.null = null;
}

/// Whether a column's values, without what was set apart, are of a type; also if it has no others.
fn is_typed(column: &ColumnProfile) -> bool {
    let is_type = |kind: Kind| match kind {
        Kind::Boolean(_) => column.distinct.count() >= 2,
        _ => true,
    };
    column.values == 0 || column.kinds.common().any(is_type)
}

/// Whether a text looks like the values of a column of codes: letters only, and as long as all others.
fn has_codes_like(column: &ColumnProfile, token: &str) -> bool {
    let length = token.chars().count() as u64;
    let is_code = token.chars().all(char::is_alphabetic) && column.values > 0;
    is_code && (column.shortest, column.longest) == (length, length) && !is_typed(column)
}
