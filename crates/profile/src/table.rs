//! A profiled file, or several that are read in the same way: how it is read, and its columns.

use crate::column::ColumnProfile;
use std::path::PathBuf;
use stook_catalogue::definition::{CsvOptions, FormatFamily};

/// The number of rows whose hashes are kept.
pub(crate) const KEPT_ROWS: usize = 20_000;

/// Something about a file that a reader of the result should know.
pub type Note = String;

/// How files are read, in the words of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The format.
    pub family: FormatFamily,
    /// How a table is read.
    pub csv: CsvOptions,
    /// Where the documents of JSON and XML are.
    pub records: Option<String>,
    /// Prefixes of XPath.
    pub namespaces: Vec<(String, String)>,
}

/// The profile of files.
#[derive(Debug, Clone)]
pub struct TableProfile {
    /// The files.
    pub files: Vec<PathBuf>,
    /// How they are read.
    pub reading: Reading,
    /// The number of documents that were read.
    pub documents: u64,
    /// Documents that cannot be read, and why the first one cannot.
    pub problems: u64,
    /// The first of them.
    pub problem: Option<String>,
    /// Whether documents follow that were not read.
    pub is_sample: bool,
    /// What else is to be said.
    pub notes: Vec<Note>,
    /// The columns, in the order in which they were found.
    pub columns: Vec<ColumnProfile>,
    /// Hashes of the first documents' values, in the order of the columns; 0 for none.
    pub(crate) rows: Vec<Vec<u64>>,
    /// The options of a table that take the names of the columns from the file, if that is possible.
    pub(crate) own_header: Option<CsvOptions>,
    /// The character between values of a row, for tables.
    pub(crate) delimiter: u8,
}

impl TableProfile {
    /// The share of documents in which a column has a value.
    pub fn filled(&self, column: &ColumnProfile) -> f64 {
        column.documents as f64 / self.documents.max(1) as f64
    }
}
