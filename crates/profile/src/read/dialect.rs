//! How a table is written: its encoding, the character between values, the lines before the header, and whether there is one.

use crate::column::NULL_TOKENS;
use crate::kind::{Kind, KindCounts};
use std::collections::{BTreeMap, HashSet};
use std::io::{Cursor, Read};
use stook_catalogue::definition::{CsvEncoding, CsvOptions};
use stook_formats::marc::xmltext::XmlEncoding;
use stook_formats::read::DocumentReader;
use stook_formats::scan::ScanOptions;
use stook_formats::{Syntax, csv_delimiter, csv_fields};

/// Rows from which the way a table is written is recognised.
const ROWS: usize = 200;
/// Lines before a header.
const MAX_SKIPPED: usize = 50;
/// Delimiters that are found by themselves.
const USUAL_DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Delimiters that are only taken if none of the usual ones splits most rows in the same way: times have colons, too.
const RARE_DELIMITERS: [u8; 4] = [b':', b'^', b'~', 0x1f];
/// The quality of rows of two values of which nine in ten have that many.
const GOOD: f64 = 0.55;
/// The quality of rows of three values, nearly all of which have that many: one blank stands in many texts, and two numbers may be one with
/// separated thousands.
const GOOD_WITH_BLANKS: f64 = 1.05;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How a table is written.
pub(super) struct Dialect {
    /// The options that name every column, whatever the file's header is.
    pub options: CsvOptions,
    /// The options that take the names from the file's header, if that names every column once.
    pub own_header: Option<CsvOptions>,
    pub delimiter: u8,
    pub notes: Vec<String>,
}

struct Row {
    offset: usize,
    values: Vec<String>,
}

/// The first rows of a text, by one character between values.
struct Split {
    delimiter: u8,
    rows: Vec<Row>,
    /// Where rows begin that cannot be read. They say nothing about the table, and are rows of it.
    broken: Vec<usize>,
}

/// Recognises how a table is written from its first bytes; `rest` are those that follow, of which only the encoding matters.
pub(super) fn recognise(beginning: &[u8], is_whole: bool, rest: impl Read, is_sheet: bool) -> Result<Dialect, String> {
    let encoding = if is_sheet { CsvEncoding::Utf8 } else { encoding(beginning, rest).map_err(|error| error.to_string())? };
    let text = match encoding {
        CsvEncoding::Utf8 => String::from_utf8_lossy(beginning).into_owned(),
        CsvEncoding::Latin1 | CsvEncoding::Cp1252 => {
            let mut text = String::new();
            stook_formats::xml::decode(beginning, Some(XmlEncoding::Cp1252), &mut text);
            text
        }
    };
    let best_of = |candidates: &[u8]| {
        let split = candidates.iter().rev().map(|delimiter| split(&text, *delimiter, is_whole));
        split.max_by(|one, other| quality(&one.rows).total_cmp(&quality(&other.rows)))
    };
    let usual = best_of(if is_sheet { b"," } else { &USUAL_DELIMITERS });
    let rare = if is_sheet || usual.as_ref().is_some_and(|usual| quality(&usual.rows) >= GOOD) { None } else { best_of(&RARE_DELIMITERS) };
    let rare = rare.filter(|rare| quality(&rare.rows) >= 2.0 * GOOD);
    let blank = if is_sheet || rare.is_some() || usual.as_ref().is_some_and(|usual| quality(&usual.rows) > 0.0) { None } else { best_of(b" ") };
    let blank = blank.filter(|blank| quality(&blank.rows) >= GOOD_WITH_BLANKS && are_numbers(&blank.rows));
    let best = blank.or(rare).or(usual);
    let Split { delimiter, rows, broken } = best.filter(|best| !best.rows.is_empty()).ok_or_else(|| "it has no rows".to_owned())?;
    let width = usual_width(&rows);
    let begins = |at: usize| begins_table(&rows[at], width) || lacks_first_name(&rows[at..], width);
    let first = (0..rows.len().min(MAX_SKIPPED)).find(|at| begins(*at)).unwrap_or(0);
    let rows = &rows[first..];
    let lacks_first_name = lacks_first_name(rows, width);
    let (has_header, is_clear) = has_header(rows, lacks_first_name);
    let mut names: Vec<String> = if has_header { rows[0].values.clone() } else { Vec::new() };
    if has_header && lacks_first_name {
        names.insert(0, String::new());
    }
    let is_named = has_header
        && !lacks_first_name
        && names.iter().all(|name| !name.trim().is_empty())
        && names.iter().collect::<HashSet<_>>().len() == names.len();
    names.resize(width.max(names.len()), String::new());
    name_columns(&mut names);
    let lines_before = |row: usize| {
        let after_header = row.checked_sub(1).and_then(|header| broken.iter().find(|place| **place > rows[header].offset));
        let begins = rows.get(row).map(|row| row.offset).into_iter().chain(after_header.copied()).min();
        lines(&text[..begins.unwrap_or(text.len())], is_sheet)
    };
    let data = usize::from(has_header);
    let said = |row: usize| {
        let usual = rows.get(row).is_none_or(|row| csv_delimiter(raw_row(&text, row)) == delimiter) || is_sheet;
        if usual { None } else { Some(delimiter) }
    };
    let base = CsvOptions { encoding, ..CsvOptions::DEFAULT };
    let skip_of = |row: usize| {
        lines_before(row).saturating_sub(usize::from(text.trim_start_matches('\u{feff}').starts_with("sep=") && row == 0 && first == 0)) as u32
    };
    let own_header = is_named.then(|| CsvOptions { skip: if first == 0 { 0 } else { skip_of(0) }, delimiter: said(0), ..base.clone() });
    let skip = if !has_header && first == 0 { 0 } else { skip_of(data) };
    let options = CsvOptions { header: names, skip, delimiter: said(data), ..base };
    let mut notes = Vec::new();
    if first > 0 {
        notes.push(if first == 1 { "one row before the table is skipped".to_owned() } else { format!("{first} rows before the table are skipped") });
    }
    if !has_header {
        let advice = "if the first row has names after all, remove `header` and use those names in `map`";
        notes.push(format!("no row names the columns, so `header` does: give the columns better names there and in `map` ({advice})"));
    } else if !is_clear {
        notes.push("the first row is taken for the names of the columns; if it is a record, say `header: [...]` with names".to_owned());
    }
    Ok(Dialect { options, own_header, delimiter, notes })
}

/// Gives every column a name of its own.
fn name_columns(names: &mut [String]) {
    let mut seen = HashSet::new();
    for (index, name) in names.iter_mut().enumerate() {
        if name.trim().is_empty() {
            *name = format!("column_{}", index + 1);
        }
        let base = name.clone();
        let mut number = 2;
        while !seen.insert(name.clone()) {
            *name = format!("{base}_{number}");
            number += 1;
        }
    }
}

/// The encoding of a file.
fn encoding(beginning: &[u8], rest: impl Read) -> std::io::Result<CsvEncoding> {
    if beginning.starts_with(BYTE_ORDER_MARK) {
        return Ok(CsvEncoding::Utf8);
    }
    let mut input = beginning.chain(rest);
    let (mut buffer, mut kept) = (vec![0; 1 << 16], 0);
    let (mut is_utf8, mut has_controls) = (true, false);
    loop {
        let count = input.read(&mut buffer[kept..])?;
        let bytes = &buffer[..kept + count];
        has_controls |= bytes[kept..].iter().any(|byte| (0x80..=0x9f).contains(byte));
        let left = match std::str::from_utf8(bytes) {
            Ok(_) => 0,
            Err(error) if error.error_len().is_none() && count > 0 => bytes.len() - error.valid_up_to(),
            Err(_) => {
                is_utf8 = false;
                0
            }
        };
        if count == 0 || !is_utf8 && has_controls {
            break;
        }
        let end = bytes.len();
        buffer.copy_within(end - left..end, 0);
        kept = left;
    }
    Ok(match (is_utf8, has_controls) {
        (true, _) => CsvEncoding::Utf8,
        // the characters of Windows-1252 that Latin-1 lacks: quotation marks, dashes, the euro
        (false, true) => CsvEncoding::Cp1252,
        (false, false) => CsvEncoding::Latin1,
    })
}

fn split(text: &str, delimiter: u8, is_whole: bool) -> Split {
    let options = CsvOptions { header: vec!["row".to_owned()], delimiter: Some(delimiter), ..CsvOptions::DEFAULT };
    let scan = ScanOptions { csv: &options, ..ScanOptions::from(None) };
    let mut documents = DocumentReader::new(Cursor::new(text.as_bytes()), Syntax::Csv, scan);
    let (mut rows, mut broken, mut is_complete) = (Vec::new(), Vec::new(), false);
    while rows.len() < ROWS {
        let Ok(Some((found, bytes))) = documents.next() else {
            is_complete = true;
            break;
        };
        let values = csv_fields(bytes, delimiter).unwrap_or_default();
        match found.problem {
            None => rows.push(Row { offset: found.offset as usize, values }),
            Some(_) => broken.push(found.offset as usize),
        }
    }
    // the last row of a part of a file is not whole
    if is_complete && !is_whole && rows.len() > 1 {
        rows.pop();
    }
    Split { delimiter, rows, broken }
}

fn raw_row<'t>(text: &'t str, row: &Row) -> &'t [u8] {
    let rest = &text.as_bytes()[row.offset..];
    &rest[..rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())]
}

/// How well rows were split: how many of them have the usual number of values, and how many values that are.
fn quality(rows: &[Row]) -> f64 {
    let width = usual_width(rows);
    if width < 2 {
        return 0.0;
    }
    let usual = rows.iter().filter(|row| row.values.len() == width).count() as f64 / rows.len() as f64;
    usual * usual * (width as f64).ln()
}

/// Whether most values below the first row are numbers.
fn are_numbers(rows: &[Row]) -> bool {
    let values = || rows.iter().skip(1).flat_map(|row| &row.values);
    values().filter(|value| Kind::Float.fits(value)).count() * 2 > values().count()
}

fn usual_width(rows: &[Row]) -> usize {
    let mut widths: BTreeMap<usize, usize> = BTreeMap::new();
    rows.iter().for_each(|row| *widths.entry(row.values.len()).or_default() += 1);
    widths.into_iter().max_by_key(|(width, count)| (*count, *width)).map_or(0, |(width, _)| width)
}

/// Whether a row names all columns but the first, which has the names of the rows: so do programs for statistics write tables.
fn names_others(row: &Row) -> bool {
    let Some((first, others)) = row.values.split_first() else { return false };
    let mut seen = HashSet::new();
    first.trim().is_empty() && !others.is_empty() && others.iter().all(|value| !value.trim().is_empty() && seen.insert(value))
}

/// Whether the first row is a header that leaves the first column out, which has the names of the rows and is in all rows below.
fn lacks_first_name(rows: &[Row], width: usize) -> bool {
    let Some((first, rest)) = rows.split_first() else { return false };
    let mut seen = HashSet::new();
    let has_name = |row: &Row| row.values.len() == width && row.values.first().is_some_and(|name| !name.is_empty() && seen.insert(name.clone()));
    // a title above two columns has one value, too
    width > 2
        && first.values.len() + 1 == width
        && rest.len() > 1
        && first.values.iter().all(|name| !name.trim().is_empty())
        && rest.iter().all(has_name)
}

/// Whether a row is the header or a row of values, and not a title or a remark above them.
fn begins_table(row: &Row, width: usize) -> bool {
    let filled = row.values.iter().filter(|value| !value.trim().is_empty()).count();
    let has_width = row.values.len() >= width || width > 4 && row.values.len() + 1 >= width;
    let is_remark = row.values.first().is_some_and(|first| first.starts_with('#') && first.contains(' ')) && filled < 3;
    (width < 2
        || row.values.len() == width && names_others(row)
        || has_width && filled * 2 > width.min(row.values.len()) && (filled > 1 || width < 3))
        && !is_remark
}

/// The number of line ends; in the text of a sheet, of those between rows.
fn lines(text: &str, is_sheet: bool) -> usize {
    let (mut count, mut is_quoted, mut last) = (0, false, 0);
    for byte in text.bytes() {
        match byte {
            b'"' if is_sheet => is_quoted = !is_quoted,
            b'\n' if last == b'\r' => {}
            b'\n' | b'\r' if !is_quoted => count += 1,
            _ => {}
        }
        last = byte;
    }
    count
}

/// Whether the first row has the names of the columns, and whether that is clear.
fn has_header(rows: &[Row], lacks_first_name: bool) -> (bool, bool) {
    let Some((first, rest)) = rows.split_first() else { return (true, true) };
    // below a corner without a name, all rows have one
    let is_below_corner = |row: &Row| row.values.first().is_some_and(|name| !name.trim().is_empty());
    if names_others(first) && rest.len() > 1 && rest.iter().all(is_below_corner) {
        return (true, true);
    }
    let shift = usize::from(lacks_first_name);
    let votes: Vec<f64> = first.values.iter().enumerate().map(|(index, name)| vote(name.trim(), index + shift, rest)).collect();
    let score: f64 = votes.iter().sum();
    let has_header = score > -0.4;
    let is_contested = has_header && votes.iter().any(|vote| *vote <= -1.0);
    (has_header, !(-0.4..0.9).contains(&score) && !is_contested)
}

/// Words that name columns in many tables.
const COLUMN_WORDS: [&str; 16] =
    ["id", "name", "code", "date", "type", "title", "key", "number", "nr", "no", "year", "email", "city", "country", "status", "value"];

/// How much a value of the first row speaks for names (above zero) or for values (below).
fn vote(name: &str, index: usize, rest: &[Row]) -> f64 {
    if NULL_TOKENS.contains(&name) {
        return -2.0;
    }
    let mut kinds = KindCounts::default();
    let values: Vec<&str> = rest.iter().filter_map(|row| row.values.get(index)).map(|value| value.trim()).collect();
    let values: Vec<&str> = values.into_iter().filter(|value| !value.is_empty() && !NULL_TOKENS.contains(value)).collect();
    values.iter().for_each(|value| kinds.add(value));
    let is_value = |kind: Kind| !matches!(kind, Kind::Json | Kind::Geometry | Kind::Boolean(_));
    let common: Vec<Kind> = kinds.common().filter(|kind| is_value(*kind)).collect();
    let is_number = Kind::Float.fits(name) && !(name.len() == 4 && Kind::Integer.fits(name));
    match () {
        () if name.is_empty() => 0.0,
        () if !common.is_empty() && common.iter().any(|kind| kind.fits(name)) => -1.0,
        () if is_number || Kind::Date(None).fits(name) || Kind::Timestamp(None).fits(name) => -1.0,
        () if !common.is_empty() => 1.5,
        () if values.contains(&name) => -1.0,
        () if COLUMN_WORDS.iter().any(|word| name.to_lowercase().split(['_', ' ', '-']).any(|part| part == *word)) => 1.0,
        () => match values.split_first() {
            Some((one, others)) if others.len() > 1 && others.iter().all(|other| other.len() == one.len()) && one.len() <= 12 => {
                if name.len() == one.len() { -0.5 } else { 1.0 }
            }
            Some(_) if name.len() <= 40 && !name.contains(['.', ',', ';']) => 0.1,
            _ => 0.0,
        },
    }
}
