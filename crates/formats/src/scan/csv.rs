//! Finds where CSV rows begin and end.

use super::step::{ScanStep, line_end};
use crate::marc::xmltext::{XmlDecoder, XmlEncoding};
use memchr::{memchr, memchr2, memchr3};
use std::borrow::Cow;
use stook_catalogue::definition::{CsvEncoding, CsvOptions};

/// Maximum length of a CSV row, in bytes.
pub(super) const CSV_LIMIT: usize = 4 << 20;

/// Finds the rows after a header; a quoted value may contain line ends.
#[derive(Debug, Clone)]
pub struct CsvScanner {
    /// What a chunk must know, see [`CsvHeader`]; `None` before the header.
    head: Option<Vec<u8>>,
    options: CsvOptions,
    /// Whether the file began with the byte order mark of UTF-8.
    is_utf8: bool,
    /// Number of lines before the header that are not skipped yet.
    skip: u32,
    /// Given by the options, by a line `sep=;` or, once it is read, by the header.
    delimiter: Option<u8>,
    scanned: usize,
    /// Where the current quoted value begins.
    quoted_from: Option<usize>,
}

enum CsvRowScan {
    /// The row's length without its line end.
    Whole(usize),
    /// The row's end is not in the bytes.
    Partial,
    /// The quoted value extends over line ends into the middle of another value.
    BrokenQuote,
}

const CSV_DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// The line before a header that says which delimiter the file has, as spreadsheet programs write it.
const SEPARATOR_LINE: &[u8] = b"sep=";
/// Follows the delimiter in that line of a head if the file is UTF-8 although the options name another encoding.
const UTF8_SIGN: u8 = b'8';

/// The header of a CSV file as chunks carry it: a line `sep=` with the delimiter where the header itself does not show it, then the names of the
/// columns as a row in UTF-8.
pub(crate) struct CsvHeader<'h> {
    /// What separates values.
    pub delimiter: u8,
    /// Whether the file is UTF-8 although the options name another encoding.
    is_utf8: bool,
    /// The row with the names.
    pub row: &'h [u8],
}

impl<'h> CsvHeader<'h> {
    /// Reads what [`CsvHeader::write`] wrote.
    pub fn of_head(head: &'h [u8]) -> Self {
        match separator_line(head) {
            Some(SeparatorLine { delimiter, is_utf8, length }) => Self { delimiter, is_utf8, row: &head[length..] },
            None => Self { delimiter: csv_delimiter(head), is_utf8: false, row: head },
        }
    }

    fn write(&self) -> Vec<u8> {
        if csv_delimiter(self.row) == self.delimiter && !self.is_utf8 && separator_line(self.row).is_none() {
            return self.row.to_vec();
        }
        [SEPARATOR_LINE, &[self.delimiter], if self.is_utf8 { &[UTF8_SIGN] } else { &[] }, b"\n", self.row].concat()
    }
}

/// The head of a chunk as the front of a table of its own, without its last line end; rows that follow it are UTF-8, or in the encoding of the source.
pub(crate) fn csv_head_alone(head: &[u8]) -> Vec<u8> {
    CsvHeader { is_utf8: false, ..CsvHeader::of_head(head) }.write()
}

/// Splits a table that begins with [`csv_head_alone`] in front of its first row.
pub(crate) fn csv_split(table: &[u8]) -> (&[u8], &[u8]) {
    let mut scanner = CsvScanner::new(CsvOptions::standard());
    let mut at = 0;
    while scanner.head.is_none() {
        match scanner.step(&table[at..], true) {
            ScanStep::Skip(length) if length > 0 => at += length,
            _ => break,
        }
    }
    table.split_at(at)
}

/// What a line `sep=;` at the front says.
struct SeparatorLine {
    delimiter: u8,
    is_utf8: bool,
    /// The length of the line with its end.
    length: usize,
}

fn separator_line(bytes: &[u8]) -> Option<SeparatorLine> {
    let [delimiter, rest @ ..] = bytes.strip_prefix(SEPARATOR_LINE)? else { return None };
    let (end, is_utf8) = match rest {
        [b'\r', b'\n', ..] => (2, false),
        [b'\n' | b'\r', ..] => (1, false),
        [UTF8_SIGN, b'\n', ..] => (2, true),
        _ => return None,
    };
    Some(SeparatorLine { delimiter: *delimiter, is_utf8, length: SEPARATOR_LINE.len() + 1 + end })
}

/// A row with these values.
pub(crate) fn csv_row<'v>(values: impl IntoIterator<Item = &'v str>, delimiter: u8) -> Vec<u8> {
    let mut row = Vec::new();
    for (index, value) in values.into_iter().enumerate() {
        if index > 0 {
            row.push(delimiter);
        }
        let is_plain = value.bytes().all(|byte| byte != delimiter && !matches!(byte, b'"' | b'\n' | b'\r')) && value.trim_ascii() == value;
        if is_plain {
            row.extend_from_slice(value.as_bytes());
        } else {
            row.extend_from_slice(format!("\"{}\"", value.replace('"', "\"\"")).as_bytes());
        }
    }
    row
}

/// The delimiter that a header has most often outside quotes, of `,` `;` tab and `|`; if several are equally frequent, the first of these.
pub fn csv_delimiter(header: &[u8]) -> u8 {
    let unquoted = || header.split(|byte| *byte == b'"').step_by(2).flatten();
    let count = |delimiter: u8| unquoted().filter(|byte| **byte == delimiter).count();
    CSV_DELIMITERS.into_iter().rev().max_by_key(|delimiter| count(*delimiter)).unwrap_or(b',')
}

impl CsvScanner {
    pub(super) fn new(options: &CsvOptions) -> Self {
        Self { head: None, options: options.clone(), is_utf8: false, skip: options.skip, delimiter: options.delimiter, scanned: 0, quoted_from: None }
    }

    /// Continues in a chunk, with the head that the splitting scanner had there; an empty one is that of the beginning of a file.
    pub(super) fn resume(&mut self, head: &[u8]) {
        if !head.is_empty() {
            let CsvHeader { delimiter, is_utf8, .. } = CsvHeader::of_head(head);
            (self.skip, self.delimiter, self.is_utf8) = (0, Some(delimiter), is_utf8);
            self.head = Some(head.to_vec());
        }
    }

    pub(super) fn head(&self) -> Option<&[u8]> {
        self.head.as_deref()
    }

    pub(crate) fn options(&self) -> &CsvOptions {
        &self.options
    }

    pub(super) fn mark_as_utf8(&mut self) {
        self.is_utf8 = true;
    }

    /// The encoding from which rows must be converted; `None` if they are UTF-8.
    pub(crate) fn encoding(&self) -> Option<XmlEncoding> {
        match self.options.encoding {
            _ if self.is_utf8 => None,
            CsvEncoding::Utf8 => None,
            CsvEncoding::Latin1 => Some(XmlEncoding::Latin1),
            CsvEncoding::Cp1252 => Some(XmlEncoding::Cp1252),
        }
    }

    /// Notes the header, or the first row of a file whose columns the options name.
    fn begin(&mut self, row: &[u8]) {
        let delimiter = self.delimiter.unwrap_or_else(|| csv_delimiter(row));
        let row = match self.encoding() {
            _ if !self.options.header.is_empty() => csv_row(self.options.header.iter().map(String::as_str), delimiter).into(),
            Some(encoding) => {
                let mut text = String::new();
                XmlDecoder::new(encoding).decode(row, true, &mut text);
                text.into_bytes().into()
            }
            None => Cow::Borrowed(row),
        };
        self.delimiter = Some(delimiter);
        let is_utf8 = self.is_utf8 && self.options.encoding != CsvEncoding::Utf8;
        self.head = Some(CsvHeader { delimiter, is_utf8, row: &row }.write());
    }

    /// Whether the next row is a document.
    fn has_columns(&self) -> bool {
        self.head.is_some() || !self.options.header.is_empty()
    }

    pub(super) fn reset(&mut self) {
        self.scanned = 0;
        self.quoted_from = None;
    }

    pub(super) fn step(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        if self.skip > 0 {
            return self.skip_line(bytes, at_end);
        }
        if self.scanned == 0 {
            match self.blank_lines(bytes, at_end) {
                Some(0) => {}
                Some(blank) => return ScanStep::Skip(blank),
                None => return ScanStep::NeedMore,
            }
            if bytes.is_empty() {
                return if at_end { ScanStep::End } else { ScanStep::NeedMore };
            }
            if self.head.is_none() {
                match separator_line(bytes) {
                    Some(SeparatorLine { delimiter, length, .. }) => {
                        self.delimiter = self.delimiter.or(Some(delimiter));
                        return ScanStep::Skip(length);
                    }
                    None if bytes.len() < SEPARATOR_LINE.len() + 3 && !at_end => return ScanStep::NeedMore,
                    None => {}
                }
            }
        }
        let length = match self.row(bytes, at_end) {
            CsvRowScan::Whole(length) => length,
            CsvRowScan::Partial if !at_end => return ScanStep::NeedMore,
            CsvRowScan::Partial | CsvRowScan::BrokenQuote => return self.give_up_line(bytes),
        };
        self.reset();
        let next = bytes.len().min(length + 1);
        if !self.has_columns() {
            self.begin(&bytes[..length]);
            return ScanStep::Skip(next);
        }
        if self.head.is_none() {
            self.begin(&bytes[..length]);
        }
        ScanStep::Document { bytes: 0..length, next }
    }

    /// Skips the first line of those that the options skip.
    fn skip_line(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        let end = match line_end(bytes) {
            // the two bytes of a line end may arrive apart
            Some(end) if bytes[end - 1] == b'\r' && end == bytes.len() && !at_end => return ScanStep::NeedMore,
            Some(end) if bytes[end - 1] == b'\r' && bytes.get(end) == Some(&b'\n') => end + 1,
            Some(end) => end,
            None if !at_end => return ScanStep::NeedMore,
            None if bytes.is_empty() => return ScanStep::End,
            None => bytes.len(),
        };
        self.skip -= 1;
        ScanStep::Skip(end)
    }

    /// Length of the lines at the front that contain only white space; `None` if more bytes are needed to decide.
    fn blank_lines(&self, bytes: &[u8], at_end: bool) -> Option<usize> {
        let mut end = 0;
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' | b'\r' => end = at + 1,
                // a row of tabs has values, although empty ones; a header has names
                b' ' => {}
                b'\t' if self.delimiter != Some(b'\t') => {}
                _ => return Some(end),
            }
        }
        match end {
            _ if at_end => Some(bytes.len()),
            0 if !bytes.is_empty() => None,
            _ => Some(end),
        }
    }

    /// Skips one line: the other lines that the broken quote included may be sound.
    fn give_up_line(&mut self, bytes: &[u8]) -> ScanStep {
        self.reset();
        let length = memchr2(b'\n', b'\r', bytes).unwrap_or(bytes.len());
        let next = bytes.len().min(length + 1);
        if self.head.is_none() {
            self.begin(&bytes[..length]);
        }
        ScanStep::Problem { bytes: 0..length, next, reason: "a quote in this row is never closed".into() }
    }

    fn row(&mut self, bytes: &[u8], at_end: bool) -> CsvRowScan {
        loop {
            if let Some(begin) = self.quoted_from {
                let Some(found) = memchr(b'"', &bytes[self.scanned..]) else {
                    self.scanned = bytes.len();
                    return CsvRowScan::Partial;
                };
                let quote = self.scanned + found;
                self.scanned = quote + 1;
                match bytes.get(quote + 1) {
                    Some(b'"') => {
                        self.scanned = quote + 2;
                        continue;
                    }
                    Some(b'\n' | b'\r') => {}
                    Some(byte) if self.is_delimiter(*byte) => {}
                    Some(_) if line_end(&bytes[begin..quote]).is_some() => return CsvRowScan::BrokenQuote,
                    None if !at_end => {
                        // the next byte decides whether this quote ends the value
                        self.scanned = quote;
                        return CsvRowScan::Partial;
                    }
                    _ => {}
                }
                self.quoted_from = None;
            }
            let Some(found) = memchr3(b'"', b'\n', b'\r', &bytes[self.scanned..]) else {
                self.scanned = bytes.len();
                return if at_end { CsvRowScan::Whole(bytes.len()) } else { CsvRowScan::Partial };
            };
            let at = self.scanned + found;
            self.scanned = at + 1;
            if bytes[at] != b'"' {
                return CsvRowScan::Whole(at);
            }
            // a quote only opens a quoted value at the value's beginning
            if at == 0 || self.is_delimiter(bytes[at - 1]) {
                self.quoted_from = Some(at);
            }
        }
    }

    fn is_delimiter(&self, byte: u8) -> bool {
        self.delimiter.map_or(CSV_DELIMITERS.contains(&byte), |delimiter| delimiter == byte)
    }
}
