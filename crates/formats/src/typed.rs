//! Files whose values have types, written row by row: spreadsheets, Parquet and Arrow IPC.

use crate::TableColumn;
use crate::columnar::{TableFormat, TableWriter};
use crate::spreadsheet::SheetWriter;
use std::io::{self, Write};
use stook_catalogue::value::Value;

/// A format of such files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypedFormat {
    /// A spreadsheet (XLSX), which cuts long texts.
    Xlsx,
    /// Apache Parquet.
    Parquet,
    /// Apache Arrow IPC, as a file.
    Arrow,
}

/// All of them.
pub const TYPED_FORMATS: [TypedFormat; 3] = [TypedFormat::Xlsx, TypedFormat::Parquet, TypedFormat::Arrow];

impl TypedFormat {
    /// The format of this name.
    pub fn named(name: &str) -> Option<Self> {
        TYPED_FORMATS.into_iter().find(|format| format.name() == name)
    }

    /// Its name in options and addresses.
    pub fn name(self) -> &'static str {
        match self {
            TypedFormat::Xlsx => "xlsx",
            TypedFormat::Parquet => "parquet",
            TypedFormat::Arrow => "arrow",
        }
    }

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            TypedFormat::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            TypedFormat::Parquet => "application/vnd.apache.parquet",
            TypedFormat::Arrow => "application/vnd.apache.arrow.file",
        }
    }
}

/// Writes rows in one of these formats.
pub enum TypedWriter {
    /// As a spreadsheet, which is written at the end.
    Sheet(Box<SheetWriter>),
    /// As columns.
    Table(Box<TableWriter>),
}

impl TypedWriter {
    /// Begins a file with these columns; `name` is that of its rows.
    ///
    /// # Errors
    /// When it cannot have such columns.
    pub fn new(format: TypedFormat, name: &str, columns: Vec<TableColumn>) -> io::Result<Self> {
        let format = match format {
            TypedFormat::Xlsx => return SheetWriter::new(name, columns).map(|writer| Self::Sheet(Box::new(writer))),
            TypedFormat::Parquet => TableFormat::Parquet,
            TypedFormat::Arrow => TableFormat::ArrowFile,
        };
        TableWriter::new(format, columns).map(|writer| Self::Table(Box::new(writer)))
    }

    /// Adds a row, with a value for each column. `cut` is called with the name of each column whose text is too long and was cut.
    ///
    /// # Errors
    /// When `out`, or a temporary file, fails.
    pub fn row(&mut self, values: Vec<Value>, out: &mut dyn Write, cut: &mut dyn FnMut(&str)) -> io::Result<()> {
        match self {
            TypedWriter::Sheet(sheet) => sheet.row(&values, cut),
            TypedWriter::Table(table) => table.row(values, out),
        }
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// When `out`, or a temporary file, fails.
    pub fn finish(self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            TypedWriter::Sheet(sheet) => sheet.finish(out),
            TypedWriter::Table(table) => table.finish(out),
        }
    }
}
