//! Converts bytes to documents and back: MARC 21 (ISO 2709, MARCXML, MARC-in-JSON, line mode), XML, JSON, CSV, the sheets of spreadsheets, and the rows
//! of Parquet and Arrow IPC.
//!
//! * [`scan`] finds where documents begin and end, in constant memory, whatever the input.
//! * [`strange`] describes bytes that contain no document.
//! * [`read`] opens files, also compressed ones, and returns documents with their numbers and offsets.
//! * [`Document::parse`] parses the bytes of one document; [`select()`] evaluates paths on it.
//! * [`write`](mod@write) writes MARC, [`spreadsheet`] writes rows as XLSX, [`columnar`] reads and writes them as Parquet and
//!   Arrow IPC, [`typed`] writes them as any of these.
//! * [`frame`] writes documents of any syntax as files that their source reads again.
//!
//! Two crates do not depend on catalogues and can be used without this one: [`marc`] is `stook-marc`, [`xpath`] is `stook-xpath`.

pub mod columnar;
pub mod frame;
pub mod read;
pub mod scan;
mod select;
mod sheet_text;
pub mod spreadsheet;
pub mod strange;
pub mod typed;
mod workbook;
pub mod write;
pub mod xml;

pub use stook_marc as marc;
pub use stook_marc::{marc8, marcxml};
pub use stook_xpath as xpath;
pub use stook_xpath::tree;

pub use scan::csv_delimiter;
pub use select::{ContextNode, SelectedValue, find_context_nodes, find_nodes_from, select, select_from, unreadable};

use marc::xmltext::{EXPANSION_LIMIT, Entities, XmlEncoding};
use marc::{MarcError, MarcRecord, RepairKind, Repairs};
use scan::Scanner;
use std::borrow::Cow;
use std::sync::Arc;
use stook_catalogue::definition::{DocumentOptions, FormatFamily};
use stook_catalogue::value::{FieldType, JsonDocument};

/// A column of a table that is written.
#[derive(Debug, Clone)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub ty: FieldType,
}

/// A concrete syntax of documents. Its number is stored with kept documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Syntax {
    /// ISO 2709.
    Marc = 1,
    /// MARCXML.
    MarcXml = 2,
    /// MARC-in-JSON.
    MarcJson = 3,
    /// XML.
    Xml = 4,
    /// JSON, one value or many.
    Json = 5,
    /// CSV.
    Csv = 6,
    /// MARC in line mode, as MarcEdit writes it.
    MarcLine = 7,
}

/// Every syntax with its name.
pub const SYNTAXES: [(Syntax, &str); 7] = [
    (Syntax::Marc, "marc"),
    (Syntax::MarcXml, "marcxml"),
    (Syntax::MarcJson, "marcjson"),
    (Syntax::Xml, "xml"),
    (Syntax::Json, "json"),
    (Syntax::Csv, "csv"),
    (Syntax::MarcLine, "marcline"),
];

impl Syntax {
    /// The syntax's name.
    pub fn name(self) -> &'static str {
        SYNTAXES.iter().find(|(syntax, _)| *syntax == self).map_or("?", |(_, name)| name)
    }

    /// The syntax with this stored number.
    pub fn from_number(number: u8) -> Option<Self> {
        SYNTAXES.iter().map(|(syntax, _)| *syntax).find(|syntax| *syntax as u8 == number)
    }

    /// The syntax with this name.
    pub fn named(name: &str) -> Option<Self> {
        SYNTAXES.iter().find(|(_, known)| *known == name).map(|(syntax, _)| *syntax)
    }

    /// The format, which determines the path language.
    pub fn family(self) -> FormatFamily {
        match self {
            Syntax::Marc | Syntax::MarcXml | Syntax::MarcJson | Syntax::MarcLine => FormatFamily::Marc,
            Syntax::Xml => FormatFamily::Xml,
            Syntax::Json => FormatFamily::Json,
            Syntax::Csv => FormatFamily::Csv,
        }
    }

    /// The syntax to use for a source of `family`: plain JSON and XML contain MARC records for a MARC source, and MARC-in-JSON and MARCXML are plain
    /// JSON and XML for others. `None` if the two do not fit.
    pub fn as_family(self, family: FormatFamily) -> Option<Self> {
        match (self, family) {
            (same, family) if same.family() == family => Some(same),
            (Syntax::Json, FormatFamily::Marc) => Some(Syntax::MarcJson),
            (Syntax::Xml, FormatFamily::Marc) => Some(Syntax::MarcXml),
            (Syntax::MarcJson, FormatFamily::Json) => Some(Syntax::Json),
            (Syntax::MarcXml, FormatFamily::Xml) => Some(Syntax::Xml),
            _ => None,
        }
    }
}

/// Guesses the syntax of a file from its first bytes; `None` if they are all white space.
pub fn detect(beginning: &[u8]) -> Option<Syntax> {
    let bytes = beginning.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(beginning).trim_ascii_start();
    let first = *bytes.first()?;
    if first == b'<' {
        let marc = memchr::memmem::find(bytes, marcxml::NAMESPACE.as_bytes()).is_some()
            || (memchr::memmem::find(bytes, b"<leader>").is_some() && memchr::memmem::find(bytes, b"<record").is_some());
        return Some(if marc { Syntax::MarcXml } else { Syntax::Xml });
    }
    if matches!(first, b'{' | b'[') {
        let has = |key: &str| memchr::memmem::find(bytes, key.as_bytes()).is_some();
        return Some(if has("\"leader\"") && has("\"fields\"") { Syntax::MarcJson } else { Syntax::Json });
    }
    if bytes.starts_with(b"=LDR") {
        return Some(Syntax::MarcLine);
    }
    let leader = bytes.len() >= 24
        && bytes[..5].iter().all(u8::is_ascii_digit)
        && bytes[12..17].iter().all(u8::is_ascii_digit)
        && (bytes[20..24] == *b"4500" || bytes[10..12] == *b"22");
    Some(if leader || bytes.contains(&marc::RECORD_END) { Syntax::Marc } else { Syntax::Csv })
}

/// One parsed document.
pub enum Document<'d> {
    /// A MARC record in any of its syntaxes.
    Marc(MarcRecord<'d>),
    /// A MARC record in an XML element that says something about it.
    Enveloped(Box<EnvelopedRecord<'d>>),
    /// A JSON value.
    Json(JsonDocument),
    /// An XML tree.
    Xml(tree::XmlTree<'static>),
    /// A CSV row with its header.
    Csv(CsvRow),
}

/// A MARC record with what the XML element around it says, such as the header of OAI-PMH.
pub struct EnvelopedRecord<'d> {
    /// The record; `None` if the element has none, as that of a deleted record of OAI-PMH.
    pub record: Option<MarcRecord<'d>>,
    /// The element around it, up to the record, without namespaces.
    pub around: tree::XmlTree<'static>,
}

/// The reason why bytes are not a document of their syntax.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// Not a MARC record.
    #[error(transparent)]
    Marc(#[from] MarcError),
    /// Not JSON, or nested too deep.
    #[error("not JSON: {0}")]
    Json(String),
    /// Not well-formed XML, or with entities that are not expanded.
    #[error("not XML: {0}")]
    Xml(String),
    /// Not a row of the header's width, or not readable.
    #[error("{0}")]
    Csv(String),
}

impl From<stook_xpath::xml::XmlError> for DocumentError {
    fn from(error: stook_xpath::xml::XmlError) -> Self {
        Self::Xml(error.0)
    }
}

/// What parsing needs in addition to the document's bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParseContext {
    /// Namespace declarations of the enclosing elements.
    declarations: String,
    /// What the element around a MARC record says before the record.
    envelope: Option<scan::Envelope>,
    /// The encoding of the XML around the document or of the CSV file, unless it is UTF-8.
    encoding: Option<XmlEncoding>,
    /// Whether an unknown encoding is declared.
    is_unknown: bool,
    /// Entities that the document type declares.
    entities: Entities,
    /// The member names that lead to the document inside the JSON value that a scanner finds.
    inner: Arc<[String]>,
    /// Column names and their delimiter.
    columns: Arc<[String]>,
    delimiter: u8,
    /// Texts that stand for absent values of a row.
    null: Arc<[String]>,
}

impl ParseContext {
    /// Prepares a scanner's head for parsing.
    pub fn new(syntax: Syntax, head: &[u8]) -> Self {
        match syntax {
            Syntax::Xml | Syntax::MarcXml => {
                let (prologue, around) = (scan::XmlPrologue::of_head(head).0, scan::XmlHead::new(head));
                Self {
                    declarations: around.declarations(),
                    envelope: around.envelope,
                    encoding: prologue.encoding(),
                    is_unknown: prologue.is_unknown(),
                    entities: prologue.entities(),
                    ..Self::default()
                }
            }
            Syntax::Csv => {
                let scan::CsvHeader { delimiter, row, .. } = scan::CsvHeader::of_head(head);
                // a header in another encoding still shows how many columns there are
                let header = String::from_utf8_lossy(row);
                let columns = csv_fields(header.as_bytes(), delimiter).unwrap_or_default().into();
                Self { columns, delimiter, ..Self::default() }
            }
            Syntax::Marc | Syntax::MarcJson | Syntax::MarcLine | Syntax::Json => Self::default(),
        }
    }

    /// Prepares what a scanner knows for parsing the documents that it finds.
    fn of(scanner: &Scanner) -> Self {
        let context = Self::new(scanner.syntax(), &scanner.head());
        match scanner {
            Scanner::Json(json) => Self { inner: json.inner(), ..context },
            Scanner::Csv(csv) => Self { encoding: csv.encoding(), null: csv.options().null.clone().into(), ..context },
            Scanner::Marc(_) | Scanner::Line(_) | Scanner::Xml(_) => context,
        }
    }

    /// Completes the bytes of a document so that it can be parsed without its file: XML elements and CSV rows are converted to UTF-8, entities of XML
    /// are expanded, and its elements get the namespace declarations of the elements around them; of JSON, the value inside
    /// [`ScanOptions::records`](scan::ScanOptions::records) is taken; everything else stays as it is.
    pub fn complete<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        if !self.inner.is_empty() {
            // if the value is missing, the complete one is parsed instead
            return Cow::Borrowed(scan::inner_value(&self.inner, bytes).unwrap_or(bytes));
        }
        let mut completed = Cow::Borrowed(bytes);
        if self.encoding.is_some() && !bytes.is_ascii() {
            let mut text = String::with_capacity(bytes.len() + bytes.len() / 8);
            xml::decode(bytes, self.encoding, &mut text);
            completed = Cow::Owned(text.into_bytes());
        }
        // entities that cannot be expanded stay, and are refused when the document is parsed
        let expanded = || match self.entities.expand(std::str::from_utf8(&completed).ok()?, expansion_limit(completed.len())) {
            Ok(Cow::Owned(text)) => Some(text.into_bytes()),
            _ => None,
        };
        if !self.entities.is_empty()
            && let Some(text) = expanded()
        {
            completed = Cow::Owned(text);
        }
        match completed {
            completed if self.declarations.is_empty() => completed,
            Cow::Borrowed(bytes) => xml::self_contained(bytes, &self.declarations),
            Cow::Owned(bytes) => Cow::Owned(xml::self_contained(&bytes, &self.declarations).into_owned()),
        }
    }

    /// Refuses a document in an unknown encoding, and one whose entities could not be expanded.
    fn check_text(&self, bytes: &[u8]) -> Result<(), DocumentError> {
        if !self.is_unknown && self.entities.is_empty() {
            return Ok(());
        }
        match std::str::from_utf8(bytes) {
            // text that is ASCII, or UTF-8 in spite of the declaration, is taken as such
            Ok(text) => Ok(self.entities.expand(text, expansion_limit(text.len())).map(|_| ())?),
            Err(_) if self.is_unknown => Err(DocumentError::Xml("the file declares an encoding that is not known here; convert it to UTF-8".into())),
            Err(_) => Ok(()),
        }
    }

    /// The columns of a CSV file.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }
}

/// Prepares a document that is a text inside another document, so that it can be kept and parsed: XML loses its document type, and its entities are
/// expanded. The text is already decoded, so it does not matter which encoding it declares.
///
/// # Errors
/// When its document type cannot be read, or its entities expand to too much text.
pub fn embedded(text: &str, syntax: Syntax) -> Result<Cow<'_, str>, DocumentError> {
    let whole = if syntax == Syntax::Xml { marc::xmltext::expanded(text, expansion_limit(text.len()))? } else { None };
    Ok(whole.map_or(Cow::Borrowed(text), Cow::Owned))
}

/// The number of bytes that entities may add to a document of this length: many small documents must not expand to an unlimited text.
fn expansion_limit(length: usize) -> usize {
    (16 * 1024 + 16 * length).min(EXPANSION_LIMIT)
}

/// A row of CSV, by column name.
pub struct CsvRow {
    columns: Arc<[String]>,
    values: Vec<String>,
    null: Arc<[String]>,
}

impl CsvRow {
    /// Returns the value of a column; `None` if it is empty, stands for an absent value, or there is no such column.
    pub fn get(&self, column: &str) -> Option<&str> {
        let index = self.columns.iter().position(|name| name == column)?;
        self.values.get(index).map(String::as_str).filter(|value| !value.is_empty() && !self.null.iter().any(|null| null == value))
    }
}

impl<'d> Document<'d> {
    /// The MARC record, if it is or contains one.
    pub fn marc(&self) -> Option<&MarcRecord<'d>> {
        match self {
            Document::Marc(record) => Some(record),
            Document::Enveloped(enveloped) => enveloped.record.as_ref(),
            Document::Json(_) | Document::Xml(_) | Document::Csv(_) => None,
        }
    }

    /// Whether it says something about a record that it does not contain.
    pub fn is_empty_envelope(&self) -> bool {
        matches!(self, Document::Enveloped(enveloped) if enveloped.record.is_none())
    }

    /// Parses the bytes of one document, completed by [`ParseContext::complete`]. Damaged MARC is repaired without reporting it.
    ///
    /// # Errors
    /// When they are not a document; the message says why, the caller knows where.
    pub fn parse(bytes: &'d [u8], syntax: Syntax, head: &ParseContext) -> Result<Self, DocumentError> {
        Self::read(bytes, syntax, head, &DocumentOptions::DEFAULT, &mut Repairs::default())
    }

    /// Parses the bytes of one document like [`Document::parse`], but with these options; what was repaired is added to `repairs`.
    ///
    /// # Errors
    /// As [`Document::parse`].
    pub fn read(
        bytes: &'d [u8],
        syntax: Syntax,
        head: &ParseContext,
        options: &DocumentOptions,
        repairs: &mut Repairs,
    ) -> Result<Self, DocumentError> {
        let DocumentOptions { marc: options, csv } = options;
        match syntax {
            Syntax::Marc => Ok(Document::Marc(MarcRecord::read(bytes, options, repairs)?)),
            Syntax::MarcLine => Ok(Document::Marc(marc::line::read(bytes, options, repairs)?)),
            Syntax::Json => Ok(Document::Json(JsonDocument::read(bytes).map_err(DocumentError::Json)?)),
            Syntax::MarcJson => Ok(Document::Marc(MarcRecord::read_json(&parse_json(bytes)?, options, repairs)?)),
            Syntax::Xml => {
                head.check_text(bytes)?;
                Ok(Document::Xml(tree::XmlTree::parse(bytes)?))
            }
            Syntax::MarcXml => {
                head.check_text(bytes)?;
                let text = match xml::text(bytes) {
                    Ok(text) => Cow::Borrowed(text),
                    Err(_) if options.repairs() => {
                        let mut text = String::new();
                        let replaced = xml::decode(bytes, None, &mut text);
                        repairs.add(RepairKind::Character, None, None, format!("{replaced} bytes that are not UTF-8 became U+FFFD"));
                        Cow::Owned(text)
                    }
                    Err(error) => return Err(error.into()),
                };
                match marcxml::read_as(xml::parse_text(&text)?.root_element(), options, repairs) {
                    Ok(record) => Ok(match head.envelope.as_ref().and_then(scan::Envelope::tree) {
                        Some(around) => Document::Enveloped(Box::new(EnvelopedRecord { record: Some(record), around })),
                        None => Document::Marc(record),
                    }),
                    Err(error) => match scan::header_alone(&text) {
                        Some(around) => Ok(Document::Enveloped(Box::new(EnvelopedRecord { record: None, around }))),
                        None => Err(error.into()),
                    },
                }
            }
            Syntax::Csv => {
                let values = csv_fields(bytes, head.delimiter)?;
                let is_short = csv.short_rows && values.len() < head.columns.len();
                if values.len() != head.columns.len() && !is_short {
                    let (found, expected) = (values.len(), head.columns.len());
                    return Err(DocumentError::Csv(format!("the row has {found} values, the header has {expected}")));
                }
                Ok(Document::Csv(CsvRow { columns: head.columns.clone(), values, null: head.null.clone() }))
            }
        }
    }
}

fn parse_json(bytes: &[u8]) -> Result<serde_json::Value, DocumentError> {
    stook_catalogue::json::parse(bytes).map_err(|error| DocumentError::Json(error.to_string()))
}

/// Splits a row of CSV into values. Text between a closing quote and the delimiter belongs to the value, as a quote inside one does.
///
/// # Errors
/// When a quote is never closed, there is more than one row, or a value is not UTF-8.
pub fn csv_fields(row: &[u8], delimiter: u8) -> Result<Vec<String>, DocumentError> {
    let mut fields = Vec::new();
    if row.is_empty() {
        return Ok(fields);
    }
    let mut at = 0;
    loop {
        let mut value = Vec::new();
        let mut quoted = row.get(at) == Some(&b'"');
        at += usize::from(quoted);
        while quoted {
            let quote = memchr::memchr(b'"', &row[at..]).ok_or_else(|| DocumentError::Csv("a quote is never closed".into()))?;
            value.extend_from_slice(&row[at..at + quote]);
            at += quote + 1;
            quoted = row.get(at) == Some(&b'"');
            if quoted {
                value.push(b'"');
                at += 1;
            }
        }
        let end = memchr::memchr(delimiter, &row[at..]).map_or(row.len(), |length| at + length);
        if memchr::memchr2(b'\n', b'\r', &row[at..end]).is_some() {
            return Err(DocumentError::Csv("there is more than one row".into()));
        }
        value.extend_from_slice(&row[at..end]);
        let number = fields.len() + 1;
        fields.push(
            String::from_utf8(value).map_err(|_| {
                DocumentError::Csv(format!("value {number} is not UTF-8; say `encoding: cp1252` or `encoding: latin-1` at the source"))
            })?,
        );
        if end == row.len() {
            return Ok(fields);
        }
        at = end + 1;
    }
}
