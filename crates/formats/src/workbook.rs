//! Reads a sheet of a spreadsheet (XLSX, XLSM, ODS) as CSV text, so that everything after it sees a CSV file.
//!
//! A workbook cannot be read from the middle, and its texts are stored apart from its cells: it is held in memory, within stated limits.

use crate::sheet_text::{CellPosition, SheetText, damaged, refused};
use calamine::{DataRef, ExcelDateTime, Reader as _, Xlsx};
use quick_xml::events::{BytesStart, Event};
use std::collections::HashMap;
use std::io::{self, BufReader, Cursor, Read};
use std::sync::Arc;
use stook_catalogue::definition::CsvOptions;
use zip::ZipArchive;

/// Maximum length of a spreadsheet's file, in bytes.
const MAX_FILE: u64 = 128 << 20;
/// Maximum length of all parts of a spreadsheet together, unpacked, in bytes.
const MAX_UNPACKED: u64 = 1 << 30;
/// Maximum number of merged cells of a sheet, where their ends matter.
const MAX_MERGED: usize = 1 << 20;

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

    /// The names of the sheets, in order.
    ///
    /// # Errors
    /// When the spreadsheet is damaged.
    pub fn sheets(&self) -> io::Result<Vec<String>> {
        if self.is_ods {
            return ods_sheets(&self.bytes);
        }
        let workbook: Xlsx<_> = Xlsx::new(Cursor::new(self.bytes.clone())).map_err(damaged)?;
        Ok(workbook.sheet_names())
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
    let sheet = chosen(&names, sheet)?;
    let mut ends: HashMap<CellPosition, CellPosition> = HashMap::new();
    if table.repeats_merged_cells() {
        let merged = workbook.merge_cells_by_sheet_name(sheet).map_err(damaged)?;
        if merged.len() > MAX_MERGED {
            return Err(refused(format!("a sheet with more than {MAX_MERGED} merged cells; save it as CSV, or read it without `merged: every`")));
        }
        let position = |(row, column): (u32, u32)| CellPosition { row, column };
        ends.extend(merged.iter().map(|cell| (position(cell.start), position(cell.end))));
    }
    let mut cells = workbook.worksheet_cells_reader(sheet).map_err(damaged)?;
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
        let at = CellPosition { row, column };
        table.add_merged(at, ends.get(&at).copied().unwrap_or(at), text)?;
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
    column: u32,
    repeats: u32,
    /// How many rows and columns it has, if it is merged with others.
    rows: u32,
    columns: u32,
    /// The value as the document states it, apart from how it is shown.
    value: Option<String>,
    /// What is shown.
    shown: String,
    paragraphs: u32,
}

impl OdsCell {
    /// Adds it to a row of the table, as often as it is repeated.
    fn add_to(&self, table: &mut SheetText, row: u32) -> io::Result<()> {
        let Some(text) = &self.value else { return Ok(()) };
        (self.column..self.column.saturating_add(self.repeats)).try_for_each(|column| {
            let last = CellPosition { row: row.saturating_add(self.rows.max(1) - 1), column: column.saturating_add(self.columns.max(1) - 1) };
            table.add_merged(CellPosition { row, column }, last, text.clone())
        })
    }
}

fn read_ods(bytes: &Arc<[u8]>, sheet: Option<&str>, table: &mut SheetText) -> io::Result<()> {
    let names = ods_sheets(bytes)?;
    let wanted = chosen(&names, sheet)?;
    let mut archive = ZipArchive::new(Cursor::new(bytes.clone())).map_err(damaged)?;
    let mut xml = quick_xml::Reader::from_reader(BufReader::new(archive.by_name(ODS_PART).map_err(damaged)?));
    xml.config_mut().expand_empty_elements = true;
    let (mut buffer, mut is_inside) = (Vec::new(), false);
    let (mut row, mut row_repeats, mut column) = (0_u32, 1_u32, 0_u32);
    let mut cells: Vec<OdsCell> = Vec::new();
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
                    cell = Some(OdsCell {
                        column,
                        repeats: repeats(&tag, "table:number-columns-repeated")?,
                        rows: repeats(&tag, "table:number-rows-spanned")?,
                        columns: repeats(&tag, "table:number-columns-spanned")?,
                        value,
                        ..OdsCell::default()
                    });
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
                    if let Some(mut cell) = cell.take() {
                        column = column.saturating_add(cell.repeats);
                        let text = cell.value.unwrap_or(cell.shown);
                        if !text.is_empty() {
                            (cell.value, cell.shown) = (Some(text), String::new());
                            cells.push(cell);
                        }
                    }
                }
                "table:table-row" if is_inside => {
                    // empty rows are repeated to the end of the sheet
                    if !cells.is_empty() {
                        for row in row..row.saturating_add(row_repeats) {
                            cells.iter().try_for_each(|cell| cell.add_to(table, row))?;
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
