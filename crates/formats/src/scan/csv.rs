//! Finds where CSV rows begin and end.

use super::step::{ScanStep, line_end};
use memchr::{memchr, memchr2, memchr3};

/// Maximum length of a CSV row, in bytes.
pub(super) const CSV_LIMIT: usize = 4 << 20;

/// Finds the rows after a header; a quoted value may contain line ends.
#[derive(Debug, Clone, Default)]
pub struct CsvScanner {
    pub(super) header: Option<Vec<u8>>,
    /// Set once the header is read.
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

/// The delimiter that a header has most often outside quotes; if several are equally frequent, the first of [`CSV_DELIMITERS`].
pub(crate) fn csv_delimiter(header: &[u8]) -> u8 {
    let unquoted = || header.split(|byte| *byte == b'"').step_by(2).flatten();
    let count = |delimiter: u8| unquoted().filter(|byte| **byte == delimiter).count();
    CSV_DELIMITERS.into_iter().rev().max_by_key(|delimiter| count(*delimiter)).unwrap_or(b',')
}

impl CsvScanner {
    pub(super) fn begin(&mut self, header: Vec<u8>) {
        self.delimiter = Some(csv_delimiter(&header));
        self.header = Some(header);
    }

    pub(super) fn reset(&mut self) {
        self.scanned = 0;
        self.quoted_from = None;
    }

    pub(super) fn step(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        if self.scanned == 0 {
            match self.blank_lines(bytes, at_end) {
                Some(0) => {}
                Some(blank) => return ScanStep::Skip(blank),
                None => return ScanStep::NeedMore,
            }
            if bytes.is_empty() {
                return if at_end { ScanStep::End } else { ScanStep::NeedMore };
            }
        }
        let length = match self.row(bytes, at_end) {
            CsvRowScan::Whole(length) => length,
            CsvRowScan::Partial if !at_end => return ScanStep::NeedMore,
            CsvRowScan::Partial | CsvRowScan::BrokenQuote => return self.give_up_line(bytes),
        };
        self.reset();
        let next = bytes.len().min(length + 1);
        if self.header.is_none() {
            self.begin(bytes[..length].to_vec());
            return ScanStep::Skip(next);
        }
        ScanStep::Document { bytes: 0..length, next }
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
        if self.header.is_none() {
            self.begin(bytes[..length].to_vec());
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
