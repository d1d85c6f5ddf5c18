//! Reads a sheet of a spreadsheet (XLSX, XLSM, ODS) as CSV text, so that everything after it sees a CSV file.
//!
//! A workbook cannot be read from the middle, and its texts are stored apart from its cells: it is held in memory, within stated limits.

use crate::scan::csv_row;
use calamine::{DataRef, ExcelDateTime, Reader as _, Xlsx};
use quick_xml::events::{BytesStart, Event};
use std::io::{self, BufReader, Cursor, Read};
use std::sync::Arc;
use stook_catalogue::definition::CsvOptions;
use zip::ZipArchive;

/// Maximum length of a spreadsheet's file, in bytes.
const MAX_FILE: u64 = 128 << 20;
/// Maximum length of all parts of a spreadsheet together, unpacked, in bytes.
const MAX_UNPACKED: u64 = 1 << 30;
/// Maximum length of a sheet as text, in bytes.
const MAX_TEXT: usize = 512 << 20;
/// Maximum number of rows and columns of a sheet, as spreadsheet programs have it.
const MAX_ROWS: u32 = 1 << 20;
const MAX_COLUMNS: u32 = 1 << 14;

/// The file that an XLSX archive has, and the one that an ODS archive has.
const XLSX_PART: &str = "xl/workbook.xml";
const ODS_PART: &str = "content.xml";

/// A spreadsheet in memory.
#[derive(Debug, Clone)]
pub(crate) struct Workbook {
    bytes: Arc<[u8]>,
    is_ods: bool,
}

/// Whether a file begins like a ZIP archive, which is what spreadsheets are.
pub(crate) fn is_archive(beginning: &[u8]) -> bool {
    beginning.starts_with(b"PK\x03\x04")
}

/// Whether a file begins like a spreadsheet of the time before XLSX.
pub(crate) fn is_old(beginning: &[u8]) -> bool {
    beginning.starts_with(&[0xd0, 0xcf, 0x11, 0xe0])
}

/// The error for a spreadsheet of the time before XLSX, or one with a password.
pub(crate) fn old() -> io::Error {
    refused("an XLS file, or a spreadsheet with a password; save it as XLSX without one".to_owned())
}

impl Workbook {
    /// Reads an archive.
    ///
    /// # Errors
    /// When it cannot be read, is no spreadsheet, or exceeds a limit.
    pub fn read(input: impl Read) -> io::Result<Self> {
        let mut bytes = Vec::new();
        input.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(refused(format!("a spreadsheet of more than {} MiB; save the sheet as CSV", MAX_FILE >> 20)));
        }
        let bytes: Arc<[u8]> = bytes.into();
        let mut archive = ZipArchive::new(Cursor::new(bytes.clone())).map_err(|error| refused(format!("a damaged ZIP archive: {error}")))?;
        let has = |name: &str| archive.index_for_name(name).is_some();
        let is_ods = has(ODS_PART) && !has(XLSX_PART);
        if !is_ods && !has(XLSX_PART) {
            return Err(refused("a ZIP archive that is no XLSX or ODS spreadsheet; unpack it and import its files".to_owned()));
        }
        check_unpacked(&mut archive)?;
        Ok(Self { bytes, is_ods })
    }

    /// The sheet that the options name, or the first one, as CSV in UTF-8 with a byte order mark. Every row has a line, also an empty one; rows before
    /// the header are empty lines.
    ///
    /// # Errors
    /// When there is no such sheet, it is damaged, or it exceeds a limit.
    pub fn sheet(&self, options: &CsvOptions) -> io::Result<Vec<u8>> {
        let mut table = SheetText::new(options);
        if self.is_ods {
            read_ods(&self.bytes, options.sheet.as_deref(), &mut table)?
        } else {
            read_xlsx(&self.bytes, options.sheet.as_deref(), &mut table)?
        }
        table.finish()
    }
}

fn refused(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

fn damaged(error: impl std::fmt::Display) -> io::Error {
    refused(format!("a damaged spreadsheet: {error}"))
}

/// Checks that the parts of an archive do not unpack to more than is allowed, whatever the archive says about their lengths.
fn check_unpacked(archive: &mut ZipArchive<Cursor<Arc<[u8]>>>) -> io::Result<()> {
    let mut left = MAX_UNPACKED;
    for index in 0..archive.len() {
        let part = archive.by_index(index).map_err(damaged)?;
        let name = part.name().map_err(damaged)?;
        if !name.ends_with(".xml") && !name.ends_with(".rels") {
            continue;
        }
        drop(name);
        // how a damaged part is damaged is reported where it is read
        left -= io::copy(&mut part.take(left), &mut io::sink()).unwrap_or(0);
        if left == 0 {
            return Err(refused(format!("a spreadsheet of more than {} MiB, unpacked; save the sheet as CSV", MAX_UNPACKED >> 20)));
        }
    }
    Ok(())
}

/// The sheet to read: the one with this name, or the first.
fn chosen<'n>(names: &'n [String], wanted: Option<&str>) -> io::Result<&'n str> {
    let found = match wanted {
        Some(wanted) => names.iter().find(|name| *name == wanted),
        None => names.first(),
    };
    found.map(String::as_str).ok_or_else(|| match wanted {
        Some(wanted) => io::Error::new(io::ErrorKind::NotFound, format!("no sheet `{wanted}`; the spreadsheet has {}", names.join(", "))),
        None => refused("a spreadsheet without a sheet".to_owned()),
    })
}

fn read_xlsx(bytes: &Arc<[u8]>, sheet: Option<&str>, table: &mut SheetText) -> io::Result<()> {
    let mut workbook: Xlsx<_> = Xlsx::new(Cursor::new(bytes.clone())).map_err(damaged)?;
    let names = workbook.sheet_names();
    let mut cells = workbook.worksheet_cells_reader(chosen(&names, sheet)?).map_err(damaged)?;
    while let Some(cell) = cells.next_cell().map_err(damaged)? {
        let (row, column) = cell.get_position();
        let text = match cell.get_value() {
            DataRef::Empty => continue,
            DataRef::Int(number) => number.to_string(),
            DataRef::Float(number) => number_text(*number),
            DataRef::String(text) | DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => text.clone(),
            DataRef::SharedString(text) => (*text).to_owned(),
            DataRef::Bool(value) => value.to_string(),
            DataRef::DateTime(time) => time_text(*time),
            DataRef::Error(error) => error.to_string(),
        };
        table.add(row, column, text)?;
    }
    Ok(())
}

/// A number without the `.0` of whole ones.
fn number_text(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 { format!("{number:.0}") } else { number.to_string() }
}

/// A date, a time of day, both, or a duration, in ISO 8601.
fn time_text(time: ExcelDateTime) -> String {
    const MILLISECONDS_A_DAY: f64 = 86_400_000.0;
    let fraction = |milliseconds: u64| if milliseconds == 0 { String::new() } else { format!(".{milliseconds:03}") };
    if time.is_duration() {
        let all = (time.as_f64() * MILLISECONDS_A_DAY).round();
        let (sign, all) = (if all < 0.0 { "-" } else { "" }, all.abs() as u64);
        return format!("{sign}PT{}{}S", all / 1000, fraction(all % 1000));
    }
    let (year, month, day, hour, minute, second, milli) = time.to_ymd_hms_milli();
    let date = format!("{year:04}-{month:02}-{day:02}");
    let of_day = format!("{hour:02}:{minute:02}:{second:02}{}", fraction(u64::from(milli)));
    match (time.as_f64(), of_day.as_str()) {
        (..1.0, _) => of_day,
        (_, "00:00:00") => date,
        _ => format!("{date}T{of_day}"),
    }
}

/// A cell of an ODS sheet while it is read.
#[derive(Default)]
struct OdsCell {
    repeats: u32,
    /// The value as the document states it, apart from how it is shown.
    value: Option<String>,
    /// What is shown.
    shown: String,
    paragraphs: u32,
}

fn read_ods(bytes: &Arc<[u8]>, sheet: Option<&str>, table: &mut SheetText) -> io::Result<()> {
    let names = ods_sheets(bytes)?;
    let wanted = chosen(&names, sheet)?;
    let mut archive = ZipArchive::new(Cursor::new(bytes.clone())).map_err(damaged)?;
    let mut xml = quick_xml::Reader::from_reader(BufReader::new(archive.by_name(ODS_PART).map_err(damaged)?));
    xml.config_mut().expand_empty_elements = true;
    let (mut buffer, mut is_inside) = (Vec::new(), false);
    let (mut row, mut row_repeats, mut column) = (0_u32, 1_u32, 0_u32);
    let mut cells: Vec<(u32, u32, String)> = Vec::new();
    let mut cell: Option<OdsCell> = None;
    // text is shown only inside a paragraph; notes have paragraphs, too, which are no part of the value
    let (mut paragraph, mut note) = (false, 0_u32);
    loop {
        match xml.read_event_into(&mut buffer).map_err(damaged)? {
            Event::Start(tag) => match tag.name().as_ref() {
                "table:table" => is_inside = attribute(&tag, "table:name")?.as_deref() == Some(wanted),
                _ if !is_inside => {}
                "table:table-row" => (row_repeats, column) = (repeats(&tag, "table:number-rows-repeated")?, 0),
                "table:table-cell" | "table:covered-table-cell" => {
                    let value = ["office:value", "office:date-value", "office:time-value", "office:boolean-value", "office:string-value"];
                    let value = value.into_iter().find_map(|name| attribute(&tag, name).transpose()).transpose()?;
                    cell = Some(OdsCell { repeats: repeats(&tag, "table:number-columns-repeated")?, value, ..OdsCell::default() });
                }
                "office:annotation" => note += 1,
                "text:p" if note == 0 => {
                    paragraph = true;
                    if let Some(cell) = &mut cell {
                        cell.paragraphs += 1;
                        if cell.paragraphs > 1 {
                            cell.shown.push('\n');
                        }
                    }
                }
                "text:s" if paragraph => {
                    let count = attribute(&tag, "text:c")?.and_then(|count| count.parse().ok()).unwrap_or(1_usize);
                    cell.iter_mut().for_each(|cell| cell.shown.extend(std::iter::repeat_n(' ', count.min(1000))));
                }
                "text:tab" if paragraph => cell.iter_mut().for_each(|cell| cell.shown.push('\t')),
                "text:line-break" if paragraph => cell.iter_mut().for_each(|cell| cell.shown.push('\n')),
                _ => {}
            },
            Event::Text(text) if paragraph => {
                let text = text.xml10_content();
                cell.iter_mut().for_each(|cell| cell.shown.push_str(&text));
            }
            Event::GeneralRef(name) if paragraph => {
                let name: &str = name.as_ref();
                let resolved = match name.strip_prefix('#') {
                    Some(_) => quick_xml::escape::unescape(&format!("&{name};")).map_err(damaged)?.into_owned(),
                    None => quick_xml::escape::resolve_predefined_entity(name).ok_or_else(|| damaged(format!("unknown entity {name}")))?.to_owned(),
                };
                cell.iter_mut().for_each(|cell| cell.shown.push_str(&resolved));
            }
            Event::End(tag) => match tag.name().as_ref() {
                "table:table" if is_inside => return Ok(()),
                "text:p" => paragraph = false,
                "office:annotation" => note = note.saturating_sub(1),
                "table:table-cell" | "table:covered-table-cell" if is_inside => {
                    if let Some(OdsCell { repeats, value, shown, .. }) = cell.take() {
                        let text = value.unwrap_or(shown);
                        if !text.is_empty() {
                            cells.push((column, repeats, text));
                        }
                        column = column.saturating_add(repeats);
                    }
                }
                "table:table-row" if is_inside => {
                    // empty rows are repeated to the end of the sheet
                    if !cells.is_empty() {
                        for row in row..row.saturating_add(row_repeats) {
                            for (first, repeats, text) in &cells {
                                (*first..first.saturating_add(*repeats)).try_for_each(|column| table.add(row, column, text.clone()))?;
                            }
                        }
                        cells.clear();
                    }
                    row = row.saturating_add(row_repeats);
                }
                _ => {}
            },
            Event::Eof => return Err(damaged("it ends inside a sheet")),
            _ => {}
        }
        buffer.clear();
    }
}

/// The names of the sheets of an ODS file.
fn ods_sheets(bytes: &Arc<[u8]>) -> io::Result<Vec<String>> {
    let mut archive = ZipArchive::new(Cursor::new(bytes.clone())).map_err(damaged)?;
    let mut xml = quick_xml::Reader::from_reader(BufReader::new(archive.by_name(ODS_PART).map_err(damaged)?));
    let (mut buffer, mut names) = (Vec::new(), Vec::new());
    loop {
        match xml.read_event_into(&mut buffer).map_err(damaged)? {
            Event::Start(tag) | Event::Empty(tag) if tag.name().as_ref() == "table:table" => names.extend(attribute(&tag, "table:name")?),
            Event::Eof => return Ok(names),
            _ => {}
        }
        buffer.clear();
    }
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> io::Result<Option<String>> {
    let found = tag.try_get_attribute(name).map_err(damaged)?;
    found.map(|attribute| attribute.normalized_value(quick_xml::XmlVersion::Explicit1_0).map(|value| value.into_owned()).map_err(damaged)).transpose()
}

fn repeats(tag: &BytesStart<'_>, name: &str) -> io::Result<u32> {
    Ok(attribute(tag, name)?.and_then(|count| count.parse().ok()).unwrap_or(1))
}

/// A sheet as CSV text while its cells arrive, row by row.
struct SheetText {
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
}

/// Where a row ends in the text, and how many columns it has.
struct RowEnd {
    row: u32,
    end: usize,
    columns: usize,
}

impl SheetText {
    fn new(options: &CsvOptions) -> Self {
        Self {
            text: Vec::new(),
            rows: Vec::new(),
            values: Vec::new(),
            row: 0,
            width: options.header.len(),
            delimiter: options.delimiter.unwrap_or(b','),
            skip: options.skip,
            has_header: !options.header.is_empty(),
        }
    }

    fn add(&mut self, row: u32, column: u32, text: String) -> io::Result<()> {
        if row >= MAX_ROWS || column >= MAX_COLUMNS || row < self.row {
            return Err(damaged(format!("there is a cell in row {}, column {}", u64::from(row) + 1, u64::from(column) + 1)));
        }
        if row != self.row {
            self.end_row()?;
            self.row = row;
        }
        if self.row >= self.skip && !text.is_empty() {
            let index = column as usize;
            if self.values.len() <= index {
                self.values.resize(index + 1, String::new());
            }
            self.values[index] = text;
        }
        Ok(())
    }

    fn end_row(&mut self) -> io::Result<()> {
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
        if self.text.len() + self.rows.len() * self.width > MAX_TEXT {
            return Err(refused(format!("a sheet of more than {} MiB as text; save it as CSV", MAX_TEXT >> 20)));
        }
        Ok(())
    }

    /// The text, with all rows as long as the longest one, which is how spreadsheet programs write CSV.
    fn finish(mut self) -> io::Result<Vec<u8>> {
        self.end_row()?;
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
