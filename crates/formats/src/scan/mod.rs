//! Finds where documents begin and end: one scanner per syntax, over bytes that arrive in pieces.
//!
//! A scanner never decodes. It finds the next document's bytes, or bytes that cannot be one and where reading resumes, or requests more bytes. The
//! same scanner splits a file into chunks and a chunk into documents: [`Scanner::head`] is what a chunk must know of the bytes before it (a CSV
//! header, the namespaces of the enclosing elements, being inside an array).

mod csv;
mod envelope;
mod json;
mod prologue;
mod step;
mod xml;

pub(crate) use csv::{CsvHeader, csv_head_alone, csv_row, csv_split};
pub use csv::{CsvScanner, csv_delimiter};
pub(crate) use envelope::{Envelope, header_alone};
pub use json::JsonScanner;
pub(crate) use json::inner_value;
pub(crate) use prologue::XmlPrologue;
pub use step::ScanStep;
pub use stook_marc::line::LineScanner;
pub use stook_marc::scan::MarcScanner;
pub(crate) use xml::XmlHead;
pub use xml::XmlScanner;

use crate::Syntax;
use crate::marc::{ReadOptions, Tolerance};
use csv::CSV_LIMIT;
use json::{JsonMode, JsonState, json_mode};
use memchr::memchr;
use step::{MARC_LIMIT, TREE_LIMIT, line_end};
use stook_catalogue::definition::{CsvOptions, Source};
use stook_marc::scan::MarcStep;

/// How a source's files are split into documents.
#[derive(Debug, Clone, Copy)]
pub struct ScanOptions<'s> {
    /// The element that is a document; or the member whose elements are, and after `[*].` the members in which the documents are.
    pub records: Option<&'s str>,
    /// Whether MARC records are found in damaged files.
    pub tolerance: Tolerance,
    /// How tables are read.
    pub csv: &'s CsvOptions,
}

impl<'s> From<Option<&'s str>> for ScanOptions<'s> {
    fn from(records: Option<&'s str>) -> Self {
        Self { records, tolerance: ReadOptions::REPAIR.tolerance, csv: CsvOptions::standard() }
    }
}

impl<'s> From<&'s Source> for ScanOptions<'s> {
    fn from(source: &'s Source) -> Self {
        Self { records: source.records.as_deref(), tolerance: source.reading.marc.tolerance, csv: &source.reading.csv }
    }
}

/// Splits bytes of one syntax into documents.
#[derive(Debug, Clone)]
pub enum Scanner {
    /// ISO 2709.
    Marc(MarcScanner),
    /// MARC in line mode.
    Line(LineScanner),
    /// JSON.
    Json(JsonScanner),
    /// XML.
    Xml(XmlScanner),
    /// CSV.
    Csv(CsvScanner),
}

impl Scanner {
    /// A scanner at the beginning of a file.
    pub fn new<'s>(syntax: Syntax, options: impl Into<ScanOptions<'s>>) -> Self {
        let ScanOptions { records, tolerance, csv } = options.into();
        match syntax {
            Syntax::Marc => Scanner::Marc(MarcScanner::new(tolerance)),
            Syntax::MarcLine => Scanner::Line(LineScanner::default()),
            Syntax::Json | Syntax::MarcJson => Scanner::Json(JsonScanner::new(records)),
            Syntax::Xml => Scanner::Xml(XmlScanner::new(records, false)),
            Syntax::MarcXml => Scanner::Xml(XmlScanner::new(Some("record"), true)),
            Syntax::Csv => Scanner::Csv(CsvScanner::new(csv)),
        }
    }

    /// A scanner at the beginning of a chunk, with the head that the splitting scanner had there.
    pub fn resume<'s>(syntax: Syntax, options: impl Into<ScanOptions<'s>>, head: &[u8]) -> Self {
        let mut scanner = Self::new(syntax, options);
        match &mut scanner {
            Scanner::Marc(_) | Scanner::Line(_) => {}
            Scanner::Json(json) => json.mode = json_mode(head),
            Scanner::Xml(xml) => {
                XmlHead { level: xml.level, declarations: xml.declarations, envelope: xml.envelope } = XmlHead::new(head);
                // a chunk that does not start a file begins with a document, unless the element around the documents has ended before
                xml.is_in_list_element = xml.level > 0 || head.ends_with(b"<0");
                xml.prologue = XmlPrologue::of_head(head).0;
            }
            Scanner::Csv(csv) => csv.resume(head),
        }
        scanner
    }

    /// Returns what a chunk that starts here must know. It is empty at the beginning of a file.
    pub fn head(&self) -> Vec<u8> {
        match self {
            Scanner::Marc(_) | Scanner::Line(_) => Vec::new(),
            Scanner::Json(json) => json.head().to_vec(),
            Scanner::Xml(xml) => xml.head().into_bytes(),
            Scanner::Csv(csv) => csv.head().unwrap_or_default().to_vec(),
        }
    }

    /// A syntax that stands for all with the same kind of head.
    pub(crate) fn syntax(&self) -> Syntax {
        match self {
            Scanner::Marc(_) => Syntax::Marc,
            Scanner::Line(_) => Syntax::MarcLine,
            Scanner::Json(_) => Syntax::Json,
            Scanner::Xml(_) => Syntax::Xml,
            Scanner::Csv(_) => Syntax::Csv,
        }
    }

    /// Notes that the file begins with the byte order mark of UTF-8, so that it has no other encoding.
    pub(crate) fn mark_as_utf8(&mut self) {
        if let Scanner::Csv(csv) = self {
            csv.mark_as_utf8();
        }
    }

    /// A number that changes whenever what documents need for parsing (columns, namespaces) may have changed.
    pub(crate) fn head_version(&self) -> u64 {
        match self {
            Scanner::Marc(_) | Scanner::Line(_) | Scanner::Json(_) => 0,
            Scanner::Xml(xml) => xml.head_version,
            Scanner::Csv(csv) => u64::from(csv.head().is_some()),
        }
    }

    /// Maximum length of a document of this syntax, in bytes.
    pub fn limit(&self) -> usize {
        match self {
            Scanner::Marc(_) | Scanner::Line(_) => MARC_LIMIT,
            Scanner::Csv(_) => CSV_LIMIT,
            Scanner::Json(_) | Scanner::Xml(_) => TREE_LIMIT,
        }
    }

    /// Scans the front of `bytes`, which are the bytes at the scanner's position; `at_end` means that nothing follows them.
    pub fn step(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        let step = match self {
            Scanner::Marc(scanner) => marc_step(scanner.step(bytes, at_end)),
            Scanner::Line(scanner) => marc_step(scanner.step(bytes, at_end)),
            Scanner::Json(scanner) => scanner.step(bytes, at_end),
            Scanner::Xml(scanner) => scanner.step(bytes, at_end),
            Scanner::Csv(scanner) => scanner.step(bytes, at_end),
        };
        match step {
            // whether a document is too long must not depend on how much of the file happens to be buffered
            ScanStep::Document { bytes: document, next } if document.len() > self.limit() => {
                let next = if let Scanner::Csv(_) = self { line_end(bytes).unwrap_or(next) } else { next };
                ScanStep::Problem { bytes: document.start..document.start, next, reason: self.too_long() }
            }
            other => other,
        }
    }

    /// After the end of the bytes: what is wrong if something around the documents is still open; reported once.
    pub fn ends_early(&mut self) -> Option<String> {
        let reason = match self {
            Scanner::Json(JsonScanner { mode: JsonMode::Elements, ended: false, .. }) => "the file ends inside its list: there is no closing ]",
            Scanner::Xml(XmlScanner { level: 1.., ended: false, .. }) => "the file ends inside its outermost element: it is not closed",
            _ => return None,
        };
        self.end();
        Some(reason.to_owned())
    }

    /// After the end of a file: describes what should have contained its documents, if that is missing. `found` is the number of documents and
    /// problems found.
    pub(crate) fn missing(&self, found: u64) -> Option<String> {
        match self {
            Scanner::Json(json) => json.missing(found),
            Scanner::Xml(xml) if found == 0 => xml.missing(),
            _ => None,
        }
    }

    /// Notes that the early end of the file was reported.
    pub(crate) fn end(&mut self) {
        match self {
            Scanner::Json(json) => json.ended = true,
            Scanner::Xml(xml) => xml.ended = true,
            Scanner::Marc(_) | Scanner::Line(_) | Scanner::Csv(_) => {}
        }
    }

    /// The message for a document beyond the limit.
    pub fn too_long(&self) -> String {
        let advice = match self {
            Scanner::Xml(xml) if xml.takes_root() => "; `records` in the definition says which elements of it are documents of their own",
            _ => "",
        };
        format!("the document is longer than {} bytes{advice}", self.limit())
    }

    /// Skips a document longer than [`Scanner::limit`]: returns how many of `bytes` to discard, and whether reading resumes after them. If not, the
    /// scanner needs the bytes that follow.
    pub fn resynchronise(&mut self, bytes: &[u8]) -> (usize, bool) {
        let found = match self {
            Scanner::Json(scanner) if scanner.mode != JsonMode::Lines => return scanner.resynchronise(bytes),
            Scanner::Xml(scanner) => return scanner.resynchronise(bytes),
            Scanner::Marc(scanner) => scanner.give_up(bytes),
            Scanner::Line(scanner) => scanner.give_up(bytes),
            Scanner::Json(scanner) => {
                scanner.state = JsonState::default();
                memchr(b'\n', bytes).map(|at| at + 1)
            }
            Scanner::Csv(scanner) => {
                scanner.reset();
                line_end(bytes)
            }
        };
        found.map_or((bytes.len(), false), |end| (end, true))
    }
}

/// Converts a step of a MARC scanner.
fn marc_step(step: MarcStep) -> ScanStep {
    match step {
        MarcStep::Record(length) => ScanStep::Document { bytes: 0..length, next: length },
        MarcStep::Unterminated(length) => {
            // the message must be the same whether a chunk ends here or the next record is seen
            let reason = "the record is not ended: there is no record terminator before the next record or the end of the file".to_owned();
            ScanStep::Problem { bytes: 0..length, next: length, reason }
        }
        MarcStep::Foreign(length) => ScanStep::Problem { bytes: 0..length, next: length, reason: "there is no record here".to_owned() },
        MarcStep::Skip(length) => ScanStep::Skip(length),
        MarcStep::NeedMore => ScanStep::NeedMore,
        MarcStep::End => ScanStep::End,
    }
}
