//! `sql`.

use super::query::{csv_head, csv_line};
use crate::arguments::records::{SqlArgs, SqlFormat};
use crate::open::CatalogueLocation;
use crate::output::{clean, count, number, stream, table_of_clean};
use crate::{CommandError, CommandResult};
use serde_json::{Map, Value as Json};
use std::io::Write;
use stook_catalogue::definition::Catalogue;
use stook_store::StoreError;
use stook_store::sql_queries::{SqlRows, view_name};

/// Rows that a table on the screen has at most: its columns are as wide as the widest of their values, so that it is kept until it is complete.
const MAX_TABLE_ROWS: usize = 1_000;

pub fn sql(location: &CatalogueLocation, arguments: &SqlArgs) -> CommandResult {
    let (catalogue, store) = location.read()?;
    let mut out = stream();
    match arguments.format {
        SqlFormat::Table => {
            let mut table = TableRows::default();
            store.select(&arguments.statement, &mut table).map_err(|error| explained(&catalogue, error))?;
            table.show();
        }
        format => {
            let mut written = WrittenRows { out: &mut out, format, names: Vec::new(), rows: 0 };
            store.select(&arguments.statement, &mut written).map_err(|error| explained(&catalogue, error))?;
            written.finish()?;
        }
    }
    out.flush()?;
    Ok(0)
}

/// A mistake in a statement, with what there is.
fn explained(catalogue: &Catalogue, error: StoreError) -> CommandError {
    match error {
        StoreError::Wrong(reason) => {
            let quoted = |name: String| if name.contains('.') { format!("\"{name}\"") } else { name };
            let views: Vec<String> = catalogue.collections.iter().map(|collection| quoted(view_name(collection))).collect();
            CommandError::usage(format!("the statement cannot be executed: {reason}; there are the views {}", views.join(", ")))
        }
        other => other.into(),
    }
}

/// Text of a value: texts without quotes.
fn text(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Rows that are shown as a table.
#[derive(Default)]
struct TableRows {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
    right_aligned: Vec<bool>,
    left_out: u64,
}

impl SqlRows for TableRows {
    fn columns(&mut self, names: Vec<String>) -> Result<(), StoreError> {
        self.right_aligned = vec![true; names.len()];
        self.names = names;
        Ok(())
    }

    fn row(&mut self, values: Vec<Json>) -> Result<(), StoreError> {
        if self.rows.len() == MAX_TABLE_ROWS {
            self.left_out += 1;
            return Ok(());
        }
        for (right, value) in self.right_aligned.iter_mut().zip(&values) {
            *right &= matches!(value, Json::Null | Json::Number(_));
        }
        self.rows.push(values.iter().map(|value| clean(&text(value))).collect());
        Ok(())
    }
}

impl TableRows {
    fn show(&self) {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        if !self.rows.is_empty() {
            say!("{}", table_of_clean(&names, &self.rows, &self.right_aligned));
        }
        match self.left_out {
            0 => eprintln!("{}", count(self.rows.len() as u64, "row")),
            more => eprintln!("{} shown; {} more: use LIMIT, or --format csv", count(self.rows.len() as u64, "row"), number(more)),
        }
    }
}

/// Rows that are written as they come.
struct WrittenRows<'o> {
    out: &'o mut dyn Write,
    format: SqlFormat,
    names: Vec<String>,
    rows: u64,
}

impl SqlRows for WrittenRows<'_> {
    fn columns(&mut self, names: Vec<String>) -> Result<(), StoreError> {
        if matches!(self.format, SqlFormat::Csv | SqlFormat::CsvBom) {
            csv_head(self.out, self.format == SqlFormat::CsvBom, names.iter().cloned()).map_err(not_written)?;
        } else if let Some(twice) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
            return Err(StoreError::Wrong(format!("two columns are named `{}`; name one of them with AS", twice.1)));
        }
        self.names = names;
        Ok(())
    }

    fn row(&mut self, values: Vec<Json>) -> Result<(), StoreError> {
        self.rows += 1;
        if matches!(self.format, SqlFormat::Csv | SqlFormat::CsvBom) {
            return csv_line(self.out, values.iter().map(text)).map_err(not_written);
        }
        let row: Map<String, Json> = self.names.iter().cloned().zip(values).collect();
        let before = match (self.format, self.rows) {
            (SqlFormat::Json, 1) => "[\n",
            (SqlFormat::Json, _) => ",\n",
            _ => "",
        };
        let after = if self.format == SqlFormat::Json { "" } else { "\n" };
        write!(self.out, "{before}{}{after}", Json::Object(row)).map_err(not_written)
    }
}

impl WrittenRows<'_> {
    fn finish(&mut self) -> std::io::Result<()> {
        match (self.format, self.rows) {
            (SqlFormat::Json, 0) => writeln!(self.out, "[]"),
            (SqlFormat::Json, _) => writeln!(self.out, "\n]"),
            _ => Ok(()),
        }
    }
}

fn not_written(error: std::io::Error) -> StoreError {
    StoreError::Other(format!("cannot write output: {error}"))
}
