//! Reads files as documents: opens them (gzip and zstd transparently), recognises the syntax, and reads in constant memory.

use crate::columnar::{self, TableFormat};
use crate::marc::xmltext::{XmlDecoder, XmlEncoding};
use crate::scan::{ScanOptions, ScanStep, Scanner};
use crate::workbook::{self, Workbook};
use crate::{Document, ParseContext, Syntax, detect, select};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;
use std::sync::Arc;
use stook_catalogue::definition::{CsvOptions, Source};

/// The compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// None.
    None,
    /// gzip, also with several members.
    Gzip,
    /// Zstandard, also with several frames.
    Zstd,
}

/// Number of bytes from which the syntax is recognised.
const LOOK_AHEAD: usize = 1 << 16;

/// The UTF-8 byte order mark, which some systems write.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// An opened file: its uncompressed bytes, and what its beginning shows.
pub struct OpenedInput {
    /// The bytes, from the beginning.
    pub bytes: Box<dyn Read + Send>,
    /// How it is compressed.
    pub compression: Compression,
    /// Whether the bytes are not those of the file: it was UTF-16 and became UTF-8, a spreadsheet and became CSV, or a table of columns and became JSON.
    pub converted: bool,
    /// The recognised syntax; `None` for an empty file.
    pub syntax: Option<Syntax>,
    /// The first bytes after blank lines, as many as the syntax is recognised from.
    pub beginning: Vec<u8>,
    /// The spreadsheet whose sheet the bytes are, and the options by which the sheet was chosen.
    workbook: Option<(Workbook, CsvOptions)>,
}

impl OpenedInput {
    /// Whether the bytes are those of the file, so that offsets are offsets in it.
    pub fn is_plain(&self) -> bool {
        self.compression == Compression::None && !self.converted
    }

    /// The names of the sheets of a spreadsheet; none for other files.
    ///
    /// # Errors
    /// When the spreadsheet is damaged.
    pub fn sheets(&self) -> io::Result<Vec<String>> {
        self.workbook.as_ref().map(|(workbook, _)| workbook.sheets()).transpose().map(Option::unwrap_or_default)
    }

    /// Lets the bytes of a spreadsheet be those of the sheet that the options name. Other files stay as they are.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when there is no such sheet; another error when it cannot be read.
    pub fn choose_sheet(&mut self, options: &CsvOptions) -> io::Result<()> {
        let Some((workbook, chosen)) = &mut self.workbook else { return Ok(()) };
        if chosen == options {
            return Ok(());
        }
        let text = workbook.sheet(options)?;
        options.clone_into(chosen);
        self.set_text(text);
        Ok(())
    }

    /// Lets the bytes be the text of a sheet.
    fn set_text(&mut self, text: Vec<u8>) {
        let is_empty = text.iter().skip(BYTE_ORDER_MARK.len()).all(u8::is_ascii_whitespace);
        self.syntax = (!is_empty).then_some(Syntax::Csv);
        self.beginning = text.iter().skip(BYTE_ORDER_MARK.len()).skip_while(|byte| byte.is_ascii_whitespace()).take(LOOK_AHEAD).copied().collect();
        self.bytes = Box::new(io::Cursor::new(text));
    }
}

/// Converts UTF-16 to UTF-8 while reading.
struct Utf16Reader<R> {
    input: R,
    decoder: XmlDecoder,
    text: String,
    /// How many bytes of `text` were returned.
    at: usize,
    at_end: bool,
}

impl<R: Read> Read for Utf16Reader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.text.len() && !self.at_end {
            let mut bytes = vec![0; 1 << 14];
            let count = self.input.read(&mut bytes)?;
            self.at_end = count == 0;
            (self.at, self.text) = (0, String::with_capacity(2 * count));
            self.decoder.decode(&bytes[..count], self.at_end, &mut self.text);
        }
        let count = out.len().min(self.text.len() - self.at);
        out[..count].copy_from_slice(&self.text.as_bytes()[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Converts the input to UTF-8 if it begins like UTF-16; also returns whether it did.
fn converted(mut input: Box<dyn Read + Send>) -> io::Result<(Box<dyn Read + Send>, bool)> {
    let front = take(&mut input, 4)?;
    match XmlEncoding::detect(&front) {
        Ok((encoding @ (XmlEncoding::Utf16Le | XmlEncoding::Utf16Be), mark)) => {
            let input = io::Cursor::new(front[mark..].to_vec()).chain(input);
            Ok((Box::new(Utf16Reader { input, decoder: XmlDecoder::new(encoding), text: "\u{feff}".to_owned(), at: 0, at_end: false }), true))
        }
        _ => Ok((Box::new(io::Cursor::new(front).chain(input)), false)),
    }
}

/// The result of searching the first document of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstDocument {
    /// The path finds something.
    Has,
    /// The path finds nothing, or the document cannot be read.
    Lacks,
    /// There is no document; for CSV, no header.
    None,
}

impl OpenedInput {
    /// Checks whether `path` finds something in the first document; for CSV, whether the header has the column. The bytes can be read from the
    /// beginning afterwards.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn first_document(&mut self, syntax: Syntax, source: &Source, path: &stook_catalogue::path::Path) -> io::Result<FirstDocument> {
        match self.choose_sheet(&source.reading.csv) {
            // a spreadsheet without the source's sheet may be another source's
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FirstDocument::Lacks),
            chosen => chosen?,
        }
        let bytes = std::mem::replace(&mut self.bytes, Box::new(io::empty()));
        let mut seen = Recorder { bytes, read: Vec::new() };
        let found = first_document(&mut seen, syntax, source, path);
        self.bytes = Box::new(io::Cursor::new(seen.read).chain(seen.bytes));
        found
    }
}

/// Maximum number of headers without a record that are read in search of the first record.
const MAX_HEADERS: usize = 1_000;

fn first_document(input: impl Read, syntax: Syntax, source: &Source, path: &stook_catalogue::path::Path) -> io::Result<FirstDocument> {
    let mut documents = DocumentReader::new(input, syntax, source);
    let as_result = |is_found: bool| if is_found { FirstDocument::Has } else { FirstDocument::Lacks };
    let mut has_value = None;
    // headers of deleted records do not show what the records are
    for _ in 0..MAX_HEADERS {
        let Some((found, bytes)) = documents.next()? else { break };
        let bytes = found.head.complete(bytes);
        let document = if found.problem.is_none() { Document::parse(&bytes, syntax, &found.head).ok() } else { None };
        if document.as_ref().is_some_and(Document::is_empty_envelope) {
            continue;
        }
        has_value = Some(document.is_some_and(|document| {
            let mut values = Vec::new();
            select(&document, path, &mut values);
            !values.is_empty()
        }));
        break;
    }
    if let stook_catalogue::path::Path::Column(name) = path {
        let header = ParseContext::of(&documents.scanner);
        return Ok(if header.columns().is_empty() { FirstDocument::None } else { as_result(header.columns().contains(name)) });
    }
    Ok(has_value.map_or(FirstDocument::None, as_result))
}

/// A reader that keeps what was read.
struct Recorder {
    bytes: Box<dyn Read + Send>,
    read: Vec<u8>,
}

impl Read for Recorder {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(buffer)?;
        self.read.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

/// Opens a file.
///
/// # Errors
/// When it cannot be read, or its compression is damaged at the very beginning.
pub fn open(path: &Path) -> io::Result<OpenedInput> {
    let mut file = File::open(path)?;
    let front = take(&mut file, columnar::FRONT)?;
    file.rewind()?;
    if let Some(format) = TableFormat::recognise(&front) {
        return open_table(file, format, Compression::None);
    }
    let opened = open_bytes(Box::new(file))?;
    match TableFormat::of_name(path).filter(|_| opened.is_plain() && opened.syntax.is_some()) {
        None => Ok(opened),
        // by its content it would be read as something else, such as a table of one column
        Some(format) => {
            let reason =
                format!("a damaged file of {0}, by its name: it does not begin as such files do; name it otherwise if it is none", format.name());
            Err(io::Error::new(io::ErrorKind::InvalidData, reason))
        }
    }
}

/// Opens a file of columns, whose rows are lines of JSON.
fn open_table(file: File, format: TableFormat, compression: Compression) -> io::Result<OpenedInput> {
    let mut lines = columnar::lines(file, format)?;
    let beginning = take(&mut lines, LOOK_AHEAD)?;
    let syntax = (!beginning.is_empty()).then_some(Syntax::Json);
    let bytes = Box::new(io::Cursor::new(beginning.clone()).chain(lines));
    Ok(OpenedInput { bytes, compression, converted: true, syntax, beginning, workbook: None })
}

/// Opens any stream of bytes as [`open`] does.
///
/// # Errors
/// As [`open`].
pub fn open_bytes(mut input: Box<dyn Read + Send>) -> io::Result<OpenedInput> {
    let magic = take(&mut input, 4)?;
    let rewound = io::Cursor::new(magic.clone()).chain(input);
    let (compression, plain): (Compression, Box<dyn Read + Send>) = match magic.as_slice() {
        [0x1f, 0x8b, ..] => (Compression::Gzip, Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(rewound)))),
        [0x28, 0xb5, 0x2f, 0xfd] => (Compression::Zstd, Box::new(zstd::stream::read::Decoder::new(rewound)?)),
        _ => (Compression::None, Box::new(rewound)),
    };
    let (front, plain) = peek(plain, columnar::FRONT)?;
    if let Some(format) = TableFormat::recognise(&front) {
        return open_table(columnar::spooled(plain)?, format, compression);
    }
    let (mut plain, is_archive) = detect_archive(plain)?;
    if is_archive {
        let workbook = Workbook::read(plain)?;
        let text = workbook.sheet(CsvOptions::standard())?;
        let (bytes, beginning, workbook) = (Box::new(io::empty()), Vec::new(), Some((workbook, CsvOptions::DEFAULT)));
        let mut opened = OpenedInput { bytes, compression, converted: true, syntax: None, beginning, workbook };
        opened.set_text(text);
        return Ok(opened);
    }
    let (converted_bytes, converted) = converted(plain)?;
    plain = converted_bytes;
    let (blank, beginning) = skip_blanks(&mut plain)?;
    let syntax = detect(&beginning);
    // one line end replaces each skipped byte, so that offsets in the file stay right
    let (mark, text) = beginning.split_at(if beginning.starts_with(&BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 });
    let front = io::Cursor::new(mark.to_vec()).chain(io::repeat(b'\n').take(blank));
    let bytes = front.chain(io::Cursor::new(text.to_vec())).chain(plain);
    Ok(OpenedInput { bytes: Box::new(bytes), compression, converted, syntax, beginning: text.to_vec(), workbook: None })
}

/// Whether the input begins like an archive.
///
/// # Errors
/// When it begins like a spreadsheet that cannot be read here, or cannot be read at all.
fn detect_archive(input: Box<dyn Read + Send>) -> io::Result<(Box<dyn Read + Send>, bool)> {
    let (front, input) = peek(input, 4)?;
    if workbook::is_old(&front) {
        return Err(workbook::old());
    }
    Ok((input, workbook::is_archive(&front)))
}

/// The first bytes of an input, and the input from its beginning.
fn peek(mut input: Box<dyn Read + Send>, length: usize) -> io::Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let front = take(&mut input, length)?;
    Ok((front.clone(), Box::new(io::Cursor::new(front).chain(input))))
}

/// Reads past white space, in constant memory. Returns how many blanks were dropped, and what follows them: a byte order mark, the last blanks, and
/// as many bytes as the syntax is recognised from.
fn skip_blanks(input: &mut dyn Read) -> io::Result<(u64, Vec<u8>)> {
    let mut beginning = take(input, LOOK_AHEAD)?;
    let mark = if beginning.starts_with(&BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let mut given_up = 0;
    loop {
        let blank = beginning[mark..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if mark + blank < beginning.len() {
            beginning.extend(take(input, blank)?);
            return Ok((given_up, beginning));
        }
        // keep the last line: a header may begin with its blanks
        let lines = beginning[mark..].iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
        let lines = if blank - lines > LOOK_AHEAD { blank } else { lines };
        beginning.drain(mark..mark + lines);
        given_up += lines as u64;
        let more = take(input, LOOK_AHEAD)?;
        if more.is_empty() {
            return Ok((given_up, beginning));
        }
        beginning.extend(more);
    }
}

fn take(input: &mut dyn Read, length: usize) -> io::Result<Vec<u8>> {
    let mut taken = Vec::new();
    input.take(length as u64).read_to_end(&mut taken)?;
    Ok(taken)
}

/// A document, or bytes that are none, as [`DocumentReader`] finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScannedDocument {
    /// Number of the document in its file, from 1; problems are counted too.
    pub number: u64,
    /// Position of its first byte in the uncompressed file.
    pub offset: u64,
    /// What is wrong, if it is not a document.
    pub problem: Option<String>,
    /// What parsing needs in addition to the document's bytes. In XML it can differ from document to document, if the elements around them declare
    /// namespaces.
    pub head: Arc<ParseContext>,
}

/// A range of documents in a file.
#[derive(Debug, Clone, Copy)]
pub struct DocumentRange {
    /// Number of documents before the range.
    pub before: u64,
    /// Offset of the first one in the file.
    pub offset: u64,
    /// The number of the last one, if the file goes on after it; a larger number if the range ends with the file.
    pub last: u64,
}

/// A scanner's head prepared for parsing, and prepared again when it changes.
struct PreparedContext {
    version: u64,
    head: Arc<ParseContext>,
}

impl PreparedContext {
    fn new(scanner: &Scanner) -> Self {
        Self { version: scanner.head_version(), head: Arc::new(ParseContext::of(scanner)) }
    }

    fn now(&mut self, scanner: &Scanner) -> Arc<ParseContext> {
        if self.version != scanner.head_version() {
            *self = Self::new(scanner);
        }
        self.head.clone()
    }
}

/// Reads a file document by document. It needs memory for the longest document, at most twice the syntax's limit.
pub struct DocumentReader<R> {
    input: R,
    scanner: Scanner,
    buffer: Vec<u8>,
    /// The unread part of `buffer` is from `start` to `end`; the rest after it is free.
    start: usize,
    end: usize,
    /// Position of `buffer[start]` in the file.
    offset: u64,
    number: u64,
    at_end: bool,
    prepared: PreparedContext,
    /// While an overlong document is discarded: the offset where it began.
    discarding: Option<u64>,
    /// The number of the last document.
    last: u64,
}

/// Calls `visit` with every document of `bytes`, which must be all of the range; otherwise like [`DocumentReader`], but without copying.
///
/// # Errors
/// What `visit` returns.
pub fn each<'b, E>(
    bytes: &'b [u8],
    mut scanner: Scanner,
    DocumentRange { before: mut number, offset, last }: DocumentRange,
    mut visit: impl FnMut(ScannedDocument, &'b [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut prepared = PreparedContext::new(&scanner);
    let mut at = 0;
    if offset == 0 && number == 0 && bytes.starts_with(&BYTE_ORDER_MARK) {
        scanner.mark_as_utf8();
        at = BYTE_ORDER_MARK.len();
    }
    loop {
        let (range, next, problem) = match scanner.step(&bytes[at..], true) {
            ScanStep::Skip(length) if length > 0 || at < bytes.len() => {
                at += length;
                continue;
            }
            ScanStep::End | ScanStep::NeedMore | ScanStep::Skip(_) => match scanner.ends_early().filter(|_| number < last) {
                Some(reason) => (0..0, 0, Some(reason)),
                None => return Ok(()),
            },
            ScanStep::Document { bytes, next } => (bytes, next, None),
            ScanStep::Problem { bytes, next, reason } => (bytes, next, Some(reason)),
        };
        number += 1;
        let found = ScannedDocument { number, offset: offset + (at + range.start) as u64, problem, head: prepared.now(&scanner) };
        visit(found, &bytes[at + range.start..at + range.end])?;
        at += next;
    }
}

impl<R: Read> DocumentReader<R> {
    /// Starts at the beginning of a file.
    pub fn new<'s>(input: R, syntax: Syntax, options: impl Into<ScanOptions<'s>>) -> Self {
        Self::with_scanner(input, Scanner::new(syntax, options), DocumentRange { before: 0, offset: 0, last: u64::MAX })
    }

    /// Starts in the middle of a file. If there are fewer documents than the range says, the file ends with the input.
    pub fn with_scanner(input: R, scanner: Scanner, range: DocumentRange) -> Self {
        let prepared = PreparedContext::new(&scanner);
        let DocumentRange { before: number, offset, last } = range;
        Self { input, scanner, buffer: Vec::new(), start: 0, end: 0, offset, number, at_end: false, prepared, discarding: None, last }
    }

    /// Returns the scanner's state: what [`Scanner::resume`] needs to continue at [`DocumentReader::offset`].
    pub fn head(&self) -> Vec<u8> {
        self.scanner.head()
    }

    /// After the end of the file: describes what should have contained its documents, if that is missing.
    pub fn missing(&self) -> Option<String> {
        self.scanner.missing(self.number)
    }

    /// Whether `found` is a document that was too long and was discarded.
    pub fn gave_up(&self, found: &ScannedDocument) -> bool {
        found.problem.as_ref().is_some_and(|problem| *problem == self.scanner.too_long())
    }

    /// Offset in the file after the last document.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the next document and its bytes.
    ///
    /// # Errors
    /// When reading fails; a damaged compressed stream is such a failure.
    #[allow(clippy::should_implement_trait, reason = "an iterator could not lend its buffer")]
    pub fn next(&mut self) -> io::Result<Option<(ScannedDocument, &[u8])>> {
        loop {
            if self.discarding.is_some() {
                if let Some(found) = self.discard()? {
                    return Ok(Some((found, &[])));
                }
                continue;
            }
            let first = self.offset == 0 && self.number == 0;
            if first && self.end < BYTE_ORDER_MARK.len() && !self.at_end {
                self.fill()?;
                continue;
            }
            if first && self.buffer[self.start..self.end].starts_with(&BYTE_ORDER_MARK) {
                self.scanner.mark_as_utf8();
                self.consume(BYTE_ORDER_MARK.len());
            }
            match self.scanner.step(&self.buffer[self.start..self.end], self.at_end) {
                ScanStep::Skip(length) if length > 0 || !self.at_end || self.start < self.end => self.consume(length),
                ScanStep::End | ScanStep::Skip(_) => {
                    let early = self.scanner.ends_early().filter(|_| self.number < self.last);
                    return Ok(early.map(|reason| (self.scanned_document(0, Some(reason)), &[][..])));
                }
                ScanStep::NeedMore => {
                    if self.end - self.start > self.scanner.limit() {
                        self.discarding = Some(self.offset);
                        continue;
                    }
                    self.fill()?;
                }
                ScanStep::Document { bytes, next } => {
                    let found = self.scanned_document(bytes.start, None);
                    let range = self.start + bytes.start..self.start + bytes.end;
                    self.consume(next);
                    return Ok(Some((found, &self.buffer[range])));
                }
                ScanStep::Problem { bytes, next, reason } => {
                    let found = self.scanned_document(bytes.start, Some(reason));
                    let range = self.start + bytes.start..self.start + bytes.end;
                    self.consume(next);
                    return Ok(Some((found, &self.buffer[range])));
                }
            }
        }
    }

    fn scanned_document(&mut self, at: usize, problem: Option<String>) -> ScannedDocument {
        self.number += 1;
        ScannedDocument { number: self.number, offset: self.offset + at as u64, problem, head: self.prepared.now(&self.scanner) }
    }

    fn consume(&mut self, length: usize) {
        self.start += length;
        self.offset += length as u64;
    }

    /// Discards buffered bytes until reading can resume.
    fn discard(&mut self) -> io::Result<Option<ScannedDocument>> {
        let (given_up, resumes) = self.scanner.resynchronise(&self.buffer[self.start..self.end]);
        if !resumes && !self.at_end {
            self.consume(given_up);
            self.fill()?;
            return Ok(None);
        }
        let offset = self.discarding.take().unwrap_or(self.offset);
        if !resumes {
            self.scanner.end();
        }
        let found = self.scanned_document(0, Some(self.scanner.too_long()));
        self.consume(if resumes { given_up } else { self.end - self.start });
        Ok(Some(ScannedDocument { offset, ..found }))
    }

    /// Reads more, moving unread bytes to the front. The buffer grows by doubling, so a long document is scanned in linear time.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let wanted = self.end + self.end.max(1 << 18);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        while self.end < wanted {
            match self.input.read(&mut self.buffer[self.end..wanted]) {
                Ok(0) => {
                    self.at_end = true;
                    break;
                }
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
