//! Writes rows of values as a spreadsheet (XLSX), in memory that does not grow with their number.
//!
//! A cell has a value that a spreadsheet program calculates with where that is exact: numbers of up to 15 digits, dates, times to the
//! millisecond. Everything else is text, never a formula. What was written is read back as the same values.

use crate::TableColumn;
use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};
use std::io::{self, Seek, Write};
use stook_catalogue::value::{FieldType, Value};

/// Number of rows of a sheet, with its header.
const MAX_ROWS: u32 = 1 << 20;
/// Number of columns of a sheet.
const MAX_COLUMNS: usize = 1 << 14;
/// Length of the text of a cell, in UTF-16 code units.
pub const MAX_CELL_TEXT: usize = 32_767;
/// Length of the name of a sheet, in characters, without the number of a further sheet.
const MAX_NAME: usize = 24;
/// Whole numbers below this have at most 15 digits, as many as spreadsheet programs keep.
const MAX_NUMBER: u64 = 1_000_000_000_000_000;

const MICROSECONDS_A_DAY: i64 = 86_400_000_000;
/// Days from the date that has the number 0 to 1970-01-01.
const EPOCH_DAY: i64 = 25_569;
/// The numbers of 1900-03-01 and 9999-12-31. Before the first, programs disagree, because 1900 was no leap year.
const DAYS: std::ops::RangeInclusive<i64> = 61..=2_958_465;

/// Writes rows to sheets of a workbook: when one is full, the next begins with the same header.
pub struct SheetWriter {
    workbook: Workbook,
    name: String,
    columns: Vec<TableColumn>,
    styles: Styles,
    sheets: usize,
    /// Rows of the last sheet.
    rows: u32,
}

struct Styles {
    header: Format,
    date: Format,
    time: Format,
    time_with_milliseconds: Format,
}

/// What a cell contains.
enum Cell<'s> {
    Empty,
    Text(String),
    Boolean(bool),
    Number(f64),
    /// A number that is shown as a date or a time.
    Time(f64, &'s Format),
}

impl SheetWriter {
    /// A workbook with a sheet of this name, as far as a sheet can have it.
    ///
    /// # Errors
    /// When there are more columns than a sheet can have, or no temporary file can be made.
    pub fn new(name: &str, columns: Vec<TableColumn>) -> io::Result<Self> {
        if columns.len() > MAX_COLUMNS {
            let reason = format!("{} columns are more than a sheet can have ({MAX_COLUMNS}); choose columns, or write CSV", columns.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let allowed = |character: &char| !matches!(character, '[' | ']' | ':' | '*' | '?' | '/' | '\\' | '\'');
        let name: String = name.chars().filter(allowed).take(MAX_NAME).collect();
        let styles = Styles {
            header: Format::new().set_bold(),
            date: Format::new().set_num_format("yyyy-mm-dd"),
            time: Format::new().set_num_format("yyyy-mm-dd hh:mm:ss"),
            time_with_milliseconds: Format::new().set_num_format("yyyy-mm-dd hh:mm:ss.000"),
        };
        let name = if name.is_empty() { "rows".to_owned() } else { name };
        let mut writer = Self { workbook: Workbook::new(), name, columns, styles, sheets: 0, rows: 0 };
        writer.begin_sheet()?;
        Ok(writer)
    }

    fn begin_sheet(&mut self) -> io::Result<()> {
        self.sheets += 1;
        self.rows = 1;
        let sheet = self.workbook.add_worksheet_with_constant_memory().map_err(failed)?;
        sheet.set_name(if self.sheets == 1 { self.name.clone() } else { format!("{} {}", self.name, self.sheets) }).map_err(failed)?;
        sheet.set_freeze_panes(1, 0).map_err(failed)?;
        for (position, column) in (0..).zip(&self.columns) {
            let width = match column.ty {
                FieldType::Timestamp => 20.0,
                FieldType::Date | FieldType::Integer | FieldType::Float | FieldType::Size | FieldType::Boolean => 12.0,
                _ => 30.0,
            };
            sheet.set_column_width(position, width).map_err(failed)?;
        }
        for (position, column) in (0..).zip(&self.columns) {
            let header: String = column.name.chars().take(MAX_CELL_TEXT / 2).collect();
            sheet.write_string_with_format(0, position, header, &self.styles.header).map_err(failed)?;
        }
        Ok(())
    }

    /// Writes a row, with a value for each column. `cut` is called with the name of each column whose text is too long for a cell and was cut.
    ///
    /// # Errors
    /// When a temporary file cannot be written.
    pub fn row(&mut self, values: &[Value], cut: &mut dyn FnMut(&str)) -> io::Result<()> {
        if self.rows == MAX_ROWS {
            self.begin_sheet()?;
        }
        let sheet = self.workbook.worksheet_from_index(self.sheets - 1).map_err(failed)?;
        for ((position, column), value) in (0..).zip(&self.columns).zip(values) {
            let cell = match cell(value, &column.ty, &self.styles) {
                Cell::Text(text) => match cut_text(&text) {
                    Some(beginning) => {
                        cut(&column.name);
                        Cell::Text(beginning.to_owned())
                    }
                    None => Cell::Text(text),
                },
                cell => cell,
            };
            write_cell(sheet, (self.rows, position), cell).map_err(failed)?;
        }
        self.rows += 1;
        Ok(())
    }

    /// Writes the workbook.
    ///
    /// # Errors
    /// When a temporary file or the output cannot be written.
    pub fn finish(mut self, out: &mut dyn Write) -> io::Result<()> {
        let mut file = tempfile::tempfile()?;
        self.workbook.save_to_writer(&mut file).map_err(failed)?;
        file.rewind()?;
        io::copy(&mut file, out)?;
        out.flush()
    }
}

/// The cell of a value.
fn cell<'s>(value: &Value, ty: &FieldType, styles: &'s Styles) -> Cell<'s> {
    match (value, ty) {
        (Value::Null | Value::Cleared, _) => Cell::Empty,
        (Value::Bool(value), _) => Cell::Boolean(*value),
        (Value::Float(number), _) => Cell::Number(*number),
        (Value::Int(number), FieldType::Integer | FieldType::Size) if number.unsigned_abs() < MAX_NUMBER => Cell::Number(*number as f64),
        (Value::Int(days), FieldType::Date) if DAYS.contains(&days.saturating_add(EPOCH_DAY)) => Cell::Time((days + EPOCH_DAY) as f64, &styles.date),
        (Value::Int(time), FieldType::Timestamp) => {
            let (day, of_day) = (time.div_euclid(MICROSECONDS_A_DAY) + EPOCH_DAY, time.rem_euclid(MICROSECONDS_A_DAY));
            if of_day % 1_000 != 0 || !DAYS.contains(&day) {
                return Cell::Text(value.show(ty));
            }
            let style = if of_day % 1_000_000 == 0 { &styles.time } else { &styles.time_with_milliseconds };
            Cell::Time(day as f64 + of_day as f64 / MICROSECONDS_A_DAY as f64, style)
        }
        _ => Cell::Text(value.show(ty)),
    }
}

fn write_cell(sheet: &mut Worksheet, (row, column): (u32, u16), cell: Cell<'_>) -> Result<(), XlsxError> {
    match cell {
        Cell::Text(text) if !text.is_empty() => sheet.write_string(row, column, text)?,
        Cell::Empty | Cell::Text(_) => return Ok(()),
        Cell::Boolean(value) => sheet.write_boolean(row, column, value)?,
        Cell::Number(number) => sheet.write_number(row, column, number)?,
        Cell::Time(number, style) => sheet.write_number_with_format(row, column, number, style)?,
    };
    Ok(())
}

/// The beginning of a text that is too long for a cell.
fn cut_text(text: &str) -> Option<&str> {
    // a character has no more UTF-16 code units than bytes
    if text.len() <= MAX_CELL_TEXT {
        return None;
    }
    let mut units = 0;
    let end = text.char_indices().find(|(_, character)| {
        units += character.len_utf16();
        units > MAX_CELL_TEXT
    });
    end.map(|(at, _)| &text[..at])
}

fn failed(error: XlsxError) -> io::Error {
    match error {
        XlsxError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
