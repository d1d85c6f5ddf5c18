//! Writes likenesses as files, with the habits of those who write such files.

use crate::init::likeness::{Cell, Column};
use rust_xlsxwriter::{ExcelDateTime, Format, Workbook};
use serde_json::{Map, Value as Json, json};
use std::fmt::Write as _;
use std::path::Path;

/// How a table is written.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    pub delimiter: char,
    pub encoding: Encoding,
    pub has_header: bool,
    /// Lines before the header.
    pub title: &'static str,
    pub null: &'static str,
    pub date: DateStyle,
    pub has_decimal_comma: bool,
    /// What separates thousands.
    pub thousands: &'static str,
    pub truth: (&'static str, &'static str),
    pub list: &'static str,
    pub line_end: &'static str,
    pub quotes_all: bool,
    /// Whether decimals are written with all digits that they have, as `1.510000000000000000e+02`.
    pub has_all_digits: bool,
    /// Whether the header begins with the name of the second column.
    pub leaves_out_first_name: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Encoding {
    Utf8,
    Marked,
    Latin1,
    Utf16,
}

#[derive(Debug, Clone, Copy)]
pub enum DateStyle {
    Iso,
    German,
    British,
    American,
    Packed,
}

/// Commas, UTF-8, a header.
pub const PLAIN: Habits = Habits {
    delimiter: ',',
    encoding: Encoding::Utf8,
    has_header: true,
    title: "",
    null: "",
    date: DateStyle::Iso,
    has_decimal_comma: false,
    thousands: "",
    truth: ("true", "false"),
    list: ";",
    line_end: "\n",
    quotes_all: false,
    has_all_digits: false,
    leaves_out_first_name: false,
};

/// Semicolons, decimal commas, days first: as spreadsheet programs write in German.
pub const GERMAN: Habits =
    Habits { delimiter: ';', date: DateStyle::German, has_decimal_comma: true, truth: ("ja", "nein"), list: "|", line_end: "\r\n", ..PLAIN };

fn text(cell: &Cell, habits: &Habits) -> String {
    match cell {
        Cell::Absent => habits.null.to_owned(),
        Cell::Text(text) => text.clone(),
        // nobody separates the thousands of a year
        Cell::Integer(number @ 1_900..2_100) => number.to_string(),
        Cell::Integer(number) => grouped(*number, habits.thousands),
        Cell::Float(number) if habits.has_all_digits => {
            let written = format!("{number:.18e}");
            let (mantissa, exponent) = written.split_once('e').unwrap();
            format!("{mantissa}e{:+03}", exponent.parse::<i32>().unwrap())
        }
        Cell::Float(number) => {
            let plain = format!("{number:?}");
            let (whole, decimals) = plain.split_once('.').unwrap_or((&plain, "0"));
            let whole = if habits.thousands.is_empty() { whole.to_owned() } else { grouped(whole.parse().unwrap(), habits.thousands) };
            format!("{whole}{}{decimals}", if habits.has_decimal_comma { "," } else { "." })
        }
        Cell::Boolean(value) => if *value { habits.truth.0 } else { habits.truth.1 }.to_owned(),
        Cell::Date(year, month, day) => date(*year, *month, *day, habits.date),
        Cell::Time(year, month, day, [hour, minute, second]) => match habits.date {
            DateStyle::Iso | DateStyle::Packed => format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"),
            other => format!("{} {hour:02}:{minute:02}:{second:02}", date(*year, *month, *day, other)),
        },
        Cell::List(items) => items.join(habits.list),
    }
}

fn date(year: i64, month: i64, day: i64, style: DateStyle) -> String {
    match style {
        DateStyle::Iso => format!("{year:04}-{month:02}-{day:02}"),
        DateStyle::German => format!("{day:02}.{month:02}.{year:04}"),
        DateStyle::British => format!("{day:02}/{month:02}/{year:04}"),
        DateStyle::American => format!("{month}/{day}/{year:04}"),
        DateStyle::Packed => format!("{year:04}{month:02}{day:02}"),
    }
}

fn grouped(number: i64, separator: &str) -> String {
    let digits = number.abs().to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push_str(separator);
        }
        out.push(digit);
    }
    if number < 0 { format!("-{out}") } else { out }
}

/// A CSV file.
pub fn csv(columns: &[Column], rows: &[Vec<Cell>], habits: &Habits) -> Vec<u8> {
    let mut out = habits.title.to_owned();
    let mut line = |cells: Vec<String>| {
        let quoted = |cell: &String| {
            let must = habits.quotes_all || cell.contains([habits.delimiter, '"', '\n']);
            if must { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.clone() }
        };
        let cells: Vec<String> = cells.iter().map(quoted).collect();
        write!(out, "{}{}", cells.join(&habits.delimiter.to_string()), habits.line_end).unwrap();
    };
    if habits.has_header {
        line(columns.iter().skip(usize::from(habits.leaves_out_first_name)).map(|column| column.name.to_owned()).collect());
    }
    rows.iter().for_each(|row| line(row.iter().map(|cell| text(cell, habits)).collect()));
    match habits.encoding {
        Encoding::Utf8 => out.into_bytes(),
        Encoding::Marked => format!("\u{feff}{out}").into_bytes(),
        // what Latin-1 lacks is left out of such files
        Encoding::Latin1 => out.chars().map(|character| u8::try_from(u32::from(character)).unwrap_or(b'r')).collect(),
        Encoding::Utf16 => format!("\u{feff}{out}").encode_utf16().flat_map(u16::to_le_bytes).collect(),
    }
}

/// An XLSX file.
pub fn xlsx(columns: &[Column], rows: &[Vec<Cell>], habits: &Habits, path: &Path) {
    let mut workbook = Workbook::new();
    let sheet = workbook.add_worksheet();
    let (day, moment) = (Format::new().set_num_format("dd.mm.yyyy"), Format::new().set_num_format("dd.mm.yyyy hh:mm:ss"));
    let above = habits.title.lines().count() as u32;
    habits.title.lines().enumerate().for_each(|(row, line)| {
        sheet.write_string(row as u32, 0, line).unwrap();
    });
    for (index, column) in columns.iter().enumerate() {
        sheet.write_string(above, index as u16, column.name).unwrap();
        for (row, cells) in rows.iter().enumerate() {
            let (row, index) = (above + 1 + row as u32, index as u16);
            let moment_of = |year: i64, month: i64, day: i64| ExcelDateTime::from_ymd(year as u16, month as u8, day as u8).unwrap();
            match &cells[index as usize] {
                Cell::Absent => {}
                Cell::Integer(number) => drop(sheet.write_number(row, index, *number as f64).unwrap()),
                Cell::Float(number) => drop(sheet.write_number(row, index, *number).unwrap()),
                Cell::Boolean(value) => drop(sheet.write_boolean(row, index, *value).unwrap()),
                Cell::Date(year, month, date) => drop(sheet.write_datetime_with_format(row, index, moment_of(*year, *month, *date), &day).unwrap()),
                Cell::Time(year, month, date, [hour, minute, second]) => {
                    let time = moment_of(*year, *month, *date).and_hms(*hour as u16, *minute as u8, *second as f64).unwrap();
                    sheet.write_datetime_with_format(row, index, time, &moment).unwrap();
                }
                other => drop(sheet.write_string(row, index, text(other, habits)).unwrap()),
            }
        }
    }
    workbook.save(path).unwrap();
}

/// A row as a JSON object, with lists as lists.
pub fn object(columns: &[Column], row: &[Cell]) -> Json {
    let members: Map<String, Json> =
        columns.iter().zip(row).filter(|(_, cell)| **cell != Cell::Absent).map(|(column, cell)| (column.name.to_owned(), cell.expected())).collect();
    Json::Object(members)
}

/// A JSON list, one object a line, or a list in an envelope.
pub fn json(columns: &[Column], rows: &[Vec<Cell>], shape: &str) -> Vec<u8> {
    let objects: Vec<Json> = rows.iter().map(|row| object(columns, row)).collect();
    match shape {
        "lines" => objects.iter().map(|object| format!("{object}\n")).collect::<String>().into_bytes(),
        "envelope" => {
            json!({"status": "ok", "message": {"total": rows.len(), "links": [{"rel": "self"}], "items": objects}}).to_string().into_bytes()
        }
        _ => serde_json::to_vec_pretty(&objects).unwrap(),
    }
}

/// XML with an element for each row: the first column is an attribute, the others are elements, those of lists repeated.
pub fn xml(columns: &[Column], rows: &[Vec<Cell>], namespace: bool) -> Vec<u8> {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let mut out = format!("<?xml version=\"1.0\"?>\n<list{}>\n<made>2024-01-01</made>\n", if namespace { " xmlns=\"urn:example\"" } else { "" });
    for row in rows {
        write!(out, "<item {}=\"{}\">", columns[0].name, escaped(&text(&row[0], &PLAIN))).unwrap();
        for (column, cell) in columns.iter().zip(row).skip(1) {
            let values = match cell {
                Cell::Absent => Vec::new(),
                Cell::List(items) => items.clone(),
                other => vec![text(other, &PLAIN)],
            };
            values.iter().for_each(|value| write!(out, "<{0}>{1}</{0}>", column.name, escaped(value)).unwrap());
        }
        out.push_str("</item>\n");
    }
    out.push_str("</list>\n");
    out.into_bytes()
}
