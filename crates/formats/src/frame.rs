//! Writes single documents as files that their source reads again.
//!
//! A document that is kept without its file has the form in which it can be parsed ([`ParseContext::complete`](crate::ParseContext::complete)); a row of
//! CSV follows the header that it needs. [`Framer`] puts around such documents what their source expects of a file: nothing for MARC, the element around
//! the records of XML, the list of JSON, the lines before a table.

use crate::Syntax;
use crate::scan::{ScanStep, Scanner, csv_head_alone, csv_split};
use std::borrow::Cow;
use std::io::{self, Write};
use stook_catalogue::definition::{CsvEncoding, Source};
use stook_catalogue::records_path::RecordsPath;

/// The UTF-8 byte order mark.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What stands before a document of a chunk with this head when it is kept without its file.
pub fn prefix(syntax: Syntax, head: &[u8]) -> Vec<u8> {
    match syntax {
        Syntax::Csv if !head.is_empty() => [csv_head_alone(head).as_slice(), b"\n"].concat(),
        _ => Vec::new(),
    }
}

/// What stands before, between and after the documents of a file.
#[derive(Debug, Default)]
struct Frame {
    before: Cow<'static, str>,
    between: &'static str,
    after: &'static str,
    /// What ends the file, if that depends on the source.
    closing: String,
}

/// Writes kept documents of one source in one syntax as files, as many as are necessary: documents with different headers, or without a list around
/// them, cannot be in one file.
pub struct Framer<'s> {
    syntax: Syntax,
    source: &'s Source,
    /// The file that was begun.
    frame: Option<Frame>,
    /// For CSV: its header.
    header: Vec<u8>,
    /// For CSV in another encoding than UTF-8: whether its rows are UTF-8 nevertheless, because they were converted.
    is_utf8: bool,
    /// For JSON: whether each line is a document.
    has_lines: bool,
    /// Whether its last document is cut off, so that nothing can follow in it.
    is_cut: bool,
}

impl<'s> Framer<'s> {
    /// Writes documents of `source`.
    pub fn new(syntax: Syntax, source: &'s Source) -> Self {
        Self { syntax, source, frame: None, header: Vec::new(), is_utf8: true, has_lines: false, is_cut: false }
    }

    /// Whether a document can be in the same file as those before it. If not, the file must be ended first.
    pub fn fits(&self, document: &[u8]) -> bool {
        if self.frame.is_none() {
            return true;
        }
        let fits_others = match self.syntax {
            Syntax::Csv => csv_split(document).0 == self.header && self.is_utf8 == self.is_converted(document),
            Syntax::Json | Syntax::MarcJson => !self.has_lines || !document.contains(&b'\n'),
            Syntax::Marc | Syntax::MarcXml | Syntax::MarcLine | Syntax::Xml => true,
        };
        !self.is_cut && !self.takes_root() && fits_others
    }

    /// Writes a document to `out`, and before it what begins the file or separates it from the one before.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn write(&mut self, out: &mut dyn Write, document: &[u8]) -> io::Result<()> {
        let (header, own) = if self.syntax == Syntax::Csv { csv_split(document) } else { (&[][..], document) };
        if let Some(frame) = &self.frame {
            out.write_all(frame.between.as_bytes())?;
        } else {
            // a file of JSON is recognised by its first byte
            self.has_lines = self.members().is_empty() && document.starts_with(b"{") && !document.contains(&b'\n');
            self.is_utf8 = self.is_converted(document);
            header.clone_into(&mut self.header);
            let frame = self.frame_of_file();
            if self.syntax == Syntax::Csv {
                self.begin_table(out)?;
            }
            out.write_all(frame.before.as_bytes())?;
            self.frame = Some(frame);
        }
        self.is_cut = self.swallows(own);
        out.write_all(own)
    }

    /// Ends the file, if one was begun; the next document begins another.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let frame = self.frame.take();
        if let Some(frame) = frame.filter(|_| !self.is_cut) {
            out.write_all(frame.after.as_bytes())?;
            out.write_all(frame.closing.as_bytes())?;
        }
        self.is_cut = false;
        Ok(())
    }

    /// Whether a file of the source is one document.
    fn takes_root(&self) -> bool {
        self.syntax == Syntax::Xml && self.source.records.is_none()
    }

    /// Whether a row of a source in another encoding was converted to UTF-8 when it was kept, so that the file must say that it is UTF-8.
    fn is_converted(&self, document: &[u8]) -> bool {
        self.source.reading.csv.encoding != CsvEncoding::Utf8 && std::str::from_utf8(document).is_ok()
    }

    fn frame_of_file(&self) -> Frame {
        match self.syntax {
            Syntax::Marc => Frame::default(),
            Syntax::MarcLine => Frame { between: "\n\n", after: "\n", ..Frame::default() },
            Syntax::Csv => Frame { between: "\n", after: "\n", ..Frame::default() },
            Syntax::MarcXml => Frame { before: "<collection>\n".into(), between: "\n", after: "\n</collection>\n", ..Frame::default() },
            Syntax::Xml => xml_frame(self.source.records.as_deref()),
            Syntax::Json | Syntax::MarcJson => self.json_frame(),
        }
    }

    /// The members that lead to the list of JSON; empty if the list is the top value.
    fn members(&self) -> Vec<String> {
        self.source.records.as_deref().and_then(RecordsPath::parse).unwrap_or_default().list
    }

    fn json_frame(&self) -> Frame {
        let members = self.members();
        if members.is_empty() && self.has_lines {
            return Frame { between: "\n", after: "\n", ..Frame::default() };
        }
        let before: String = members.iter().map(|member| format!("{{{}: ", serde_json::Value::from(member.as_str()))).collect();
        Frame { before: format!("{before}[\n").into(), between: ",\n", after: "\n]", closing: "}".repeat(members.len()) + "\n" }
    }

    /// Writes what is before the rows of a table: the lines that the source skips, and the header, unless the source has it.
    fn begin_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let options = &self.source.reading.csv;
        if self.is_utf8 {
            out.write_all(BYTE_ORDER_MARK)?;
        }
        (0..options.skip).try_for_each(|_| out.write_all(b"\n"))?;
        if options.header.is_empty() { out.write_all(&self.header) } else { Ok(()) }
    }

    /// Whether a damaged document would take what follows it in a list for a part of itself.
    fn swallows(&self, document: &[u8]) -> bool {
        if !matches!(self.syntax, Syntax::Xml | Syntax::MarcXml | Syntax::Json | Syntax::MarcJson) {
            return false;
        }
        let Some(Frame { before, after, closing, .. }) = self.frame.as_ref().filter(|frame| !frame.before.is_empty()) else { return false };
        let file = [before.as_bytes(), document, after.as_bytes(), closing.as_bytes()].concat();
        let end = before.len() + document.len();
        let mut scanner = Scanner::new(self.syntax, self.source);
        let mut at = 0;
        while at < file.len() {
            let (found, next) = match scanner.step(&file[at..], true) {
                ScanStep::Skip(length) => (0, length),
                ScanStep::Document { bytes, next } | ScanStep::Problem { bytes, next, .. } => (bytes.end, next),
                ScanStep::NeedMore | ScanStep::End => break,
            };
            if found > 0 && at + found > end {
                return true;
            }
            at += next;
        }
        scanner.ends_early().is_some()
    }
}

/// The element around the records of a source, or nothing if a file is one document. Kept elements have the namespaces that they need.
fn xml_frame(records: Option<&str>) -> Frame {
    let Some(records) = records else { return Frame { after: "\n", ..Frame::default() } };
    let around = match records.rsplit_once('/') {
        Some((around, _)) => around.to_owned(),
        // a list of `item` elements is called `items`
        None => format!("{}s", records.rsplit(':').next().unwrap_or(records)),
    };
    let declared = around.split_once(':').map(|(prefix, _)| format!(" xmlns:{prefix}=\"urn:{prefix}\"")).unwrap_or_default();
    Frame { before: format!("<{around}{declared}>\n").into(), between: "\n", after: "\n", closing: format!("</{around}>\n") }
}
