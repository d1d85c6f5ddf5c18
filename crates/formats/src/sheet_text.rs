//! A sheet of a spreadsheet as CSV text, made while its cells arrive.

use crate::scan::csv_row;
use std::io;
use std::ops::RangeInclusive;
use stook_catalogue::definition::{CsvOptions, MergedCells};

/// Maximum length of a sheet as text, in bytes.
const MAX_TEXT: usize = 512 << 20;
/// Maximum number of cells that get the value of a merged one.
const MAX_FILLED: usize = 1 << 24;
/// Maximum number of rows and columns of a sheet, as spreadsheet programs have it.
const MAX_ROWS: u32 = 1 << 20;
const MAX_COLUMNS: u32 = 1 << 14;

/// The position of a cell, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CellPosition {
    pub(crate) row: u32,
    pub(crate) column: u32,
}

/// A sheet as CSV text while its cells arrive, row by row.
pub(crate) struct SheetText {
    /// The rows without line ends, one after the other.
    text: Vec<u8>,
    rows: Vec<RowEnd>,
    values: Vec<String>,
    row: u32,
    /// The number of columns of the longest row.
    width: usize,
    delimiter: u8,
    skip: u32,
    /// Whether the options name the columns, so that rows end with their last value.
    has_header: bool,
    merged: MergedCells,
    /// Merged cells to which the current row, or one after it, belongs.
    open: Vec<OpenCell>,
    /// The number of cells that got the value of a merged one.
    filled: usize,
}

/// Where a row ends in the text, and how many columns it has.
struct RowEnd {
    row: u32,
    end: usize,
    columns: usize,
}

/// A merged cell whose first row has been read.
struct OpenCell {
    last_row: u32,
    columns: RangeInclusive<usize>,
    text: String,
}

impl SheetText {
    pub(crate) fn new(options: &CsvOptions) -> Self {
        Self {
            text: Vec::new(),
            rows: Vec::new(),
            values: Vec::new(),
            row: 0,
            width: options.header.len(),
            delimiter: options.delimiter.unwrap_or(b','),
            skip: options.skip,
            has_header: !options.header.is_empty(),
            merged: options.merged,
            open: Vec::new(),
            filled: 0,
        }
    }

    /// Whether it must be told where merged cells end.
    pub(crate) fn repeats_merged_cells(&self) -> bool {
        self.merged == MergedCells::Every
    }

    /// Adds a cell that is not before the last one's row.
    pub(crate) fn add(&mut self, at: CellPosition, text: String) -> io::Result<()> {
        let CellPosition { row, column } = at;
        if row >= MAX_ROWS || column >= MAX_COLUMNS || row < self.row {
            return Err(damaged(format!("there is a cell in row {}, column {}", u64::from(row) + 1, u64::from(column) + 1)));
        }
        while self.row < row {
            self.end_row()?;
            // rows without a cell of their own may have the value of a merged one
            self.row = if self.open.is_empty() { row } else { self.row + 1 };
        }
        if row >= self.skip && !text.is_empty() {
            let index = column as usize;
            if self.values.len() <= index {
                self.values.resize(index + 1, String::new());
            }
            self.values[index] = text;
        }
        Ok(())
    }

    /// Adds a cell that is merged with all cells up to the last one.
    pub(crate) fn add_merged(&mut self, first: CellPosition, last: CellPosition, text: String) -> io::Result<()> {
        if !self.repeats_merged_cells() || text.is_empty() || last == first {
            return self.add(first, text);
        }
        self.add(first, text.clone())?;
        let columns = first.column as usize..=last.column.min(MAX_COLUMNS - 1) as usize;
        self.open.push(OpenCell { last_row: last.row.min(MAX_ROWS - 1), columns, text });
        Ok(())
    }

    /// Gives the cells of the current row the values of the merged cells that they belong to.
    fn fill(&mut self) -> io::Result<()> {
        let mut length = 0;
        for OpenCell { columns, text, .. } in &self.open {
            let cells = columns.clone().count();
            self.filled += cells;
            length += cells * (text.len() + 1);
            if self.filled > MAX_FILLED {
                return Err(refused(format!(
                    "merged cells of more than {MAX_FILLED} cells; save the sheet as CSV, or read it without `merged: every`"
                )));
            }
            check_length(self.text.len() + length)?;
            if self.values.len() <= *columns.end() {
                self.values.resize(columns.end() + 1, String::new());
            }
            self.values[columns.clone()].fill(text.clone());
        }
        Ok(())
    }

    fn end_row(&mut self) -> io::Result<()> {
        if self.row >= self.skip {
            self.fill()?;
        }
        self.open.retain(|cell| cell.last_row > self.row);
        if self.values.is_empty() {
            return Ok(());
        }
        let row = csv_row(self.values.iter().map(String::as_str), self.delimiter);
        self.text.extend_from_slice(&row);
        let columns = self.values.len();
        if !self.has_header {
            self.width = self.width.max(columns);
        }
        self.rows.push(RowEnd { row: self.row, end: self.text.len(), columns });
        self.values.clear();
        check_length(self.text.len() + self.rows.len() * self.width)
    }

    /// The text, with all rows as long as the longest one, which is how spreadsheet programs write CSV.
    pub(crate) fn finish(mut self) -> io::Result<Vec<u8>> {
        self.end_row()?;
        while !self.open.is_empty() {
            self.row += 1;
            self.end_row()?;
        }
        let mut whole = b"\xef\xbb\xbf".to_vec();
        whole.reserve(self.text.len() + self.rows.len() * (self.width + 1));
        let (mut start, mut line) = (0, 0);
        for RowEnd { row, end, columns } in self.rows {
            whole.extend(std::iter::repeat_n(b'\n', (row - line) as usize));
            whole.extend_from_slice(&self.text[start..end]);
            whole.extend(std::iter::repeat_n(self.delimiter, self.width.saturating_sub(columns)));
            whole.push(b'\n');
            (start, line) = (end, row + 1);
        }
        Ok(whole)
    }
}

fn check_length(length: usize) -> io::Result<()> {
    if length > MAX_TEXT {
        return Err(refused(format!("a sheet of more than {} MiB as text; save it as CSV", MAX_TEXT >> 20)));
    }
    Ok(())
}

pub(crate) fn refused(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

pub(crate) fn damaged(error: impl std::fmt::Display) -> io::Error {
    refused(format!("a damaged spreadsheet: {error}"))
}
