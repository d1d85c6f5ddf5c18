//! Sources and their feeds: where documents come from, and which collections they contribute to.

use super::expectation::Expectation;
use super::file_pattern::FilePattern;
use super::rule::{ValueOrigin, ValueRule};
use super::service::{Collect, ServiceBinding};
use crate::eval::Expression;
use crate::model::ids::{CollectionId, FieldId, SourceId};
use crate::model::key::Template;
use crate::model::path::{Path, PathLanguage};
use regex::Regex;
use std::time::Duration;

/// Families of formats that share a path language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatFamily {
    /// ISO 2709, MARCXML, MARC-in-JSON.
    Marc,
    /// XML split at an element.
    Xml,
    /// JSON array, single value or NDJSON; also the rows of Parquet and Arrow IPC.
    Json,
    /// Tables: CSV, and the sheets of spreadsheets.
    Csv,
}

impl FormatFamily {
    /// Returns its path language.
    pub fn language(self) -> PathLanguage {
        match self {
            FormatFamily::Marc => PathLanguage::Marc,
            FormatFamily::Xml => PathLanguage::Xml,
            FormatFamily::Json => PathLanguage::Json,
            FormatFamily::Csv => PathLanguage::Csv,
        }
    }

    /// Returns its name in definitions.
    pub fn name(self) -> &'static str {
        match self {
            FormatFamily::Marc => "marc",
            FormatFamily::Xml => "xml",
            FormatFamily::Json => "json",
            FormatFamily::Csv => "csv",
        }
    }
}

/// How documents are parsed, where their format leaves a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentOptions {
    /// How MARC records are read.
    pub marc: stook_marc::ReadOptions,
    /// How tables are read.
    pub csv: CsvOptions,
}

impl DocumentOptions {
    /// Repairs MARC records, and reads tables as [`CsvOptions::DEFAULT`] says.
    pub const DEFAULT: Self = Self::from_marc(stook_marc::ReadOptions::REPAIR);

    /// Sets how MARC records are read.
    pub const fn from_marc(marc: stook_marc::ReadOptions) -> Self {
        Self { marc, csv: CsvOptions::DEFAULT }
    }
}

/// How a table is read: a CSV file, or a sheet of a spreadsheet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvOptions {
    /// The names of the columns, if no row of the file has them; otherwise empty.
    pub header: Vec<String>,
    /// The number of lines before the header, or before the first row if no row is a header.
    pub skip: u32,
    /// Texts that stand for an absent value.
    pub null: Vec<String>,
    /// How the bytes are characters.
    pub encoding: CsvEncoding,
    /// What separates values; if it is not given, the header shows it.
    pub delimiter: Option<u8>,
    /// The name of the sheet; if it is not given, the first.
    pub sheet: Option<String>,
    /// Which of merged cells have their value.
    pub merged: MergedCells,
    /// Whether rows shorter than the header have absent values at their end; otherwise they fail.
    pub short_rows: bool,
}

impl CsvOptions {
    /// A header in the first row, UTF-8, rows as long as the header, and no text for absent values but the empty one.
    pub const DEFAULT: Self = Self {
        header: Vec::new(),
        skip: 0,
        null: Vec::new(),
        encoding: CsvEncoding::Utf8,
        delimiter: None,
        sheet: None,
        merged: MergedCells::First,
        short_rows: false,
    };

    /// [`CsvOptions::DEFAULT`] where a reference is needed.
    pub fn standard() -> &'static Self {
        static STANDARD: CsvOptions = CsvOptions::DEFAULT;
        &STANDARD
    }
}

/// Which of the cells that are merged in a spreadsheet have their value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergedCells {
    /// The first one; the others have none.
    First,
    /// All of them.
    Every,
}

/// How the bytes of a CSV file are characters. UTF-16 with a byte order mark is recognised whatever the definition says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsvEncoding {
    /// UTF-8.
    Utf8,
    /// ISO 8859-1.
    Latin1,
    /// Windows-1252.
    Cp1252,
}

/// A source of documents.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its format.
    pub family: FormatFamily,
    /// Where the documents are: in XML the name of their element, optionally after that of the element around them; in JSON and MARC-in-JSON the
    /// member with their list, optionally with a path into its elements.
    pub records: Option<String>,
    /// How its documents are parsed.
    pub reading: DocumentOptions,
    /// Matches the beginning (64 KiB) of a file or an answer that correctly contains no documents.
    pub empty: Option<Regex>,
    /// Patterns for the names of its files; empty if names do not matter.
    pub files: Vec<FilePattern>,
    /// A path that must find something in the first document of a file of this source.
    pub has: Option<Path>,
    /// Prefixes used in XPath.
    pub namespaces: Vec<(String, String)>,
    /// Values computed once per document, in order.
    pub lets: Vec<LetValue>,
    /// Conditions a document must meet.
    pub accept: Vec<AcceptRule>,
    /// What is expected of each of its files.
    pub expect: Vec<Expectation>,
    /// An expression that is true for a document that deletes.
    pub gone: Option<Expression>,
    /// How as-of times are determined, and documents with the same time are ordered.
    pub as_of: DocumentOrder,
    /// What complete deliveries of it replace.
    pub replaces: Option<CompleteDelivery>,
    /// How long jobs can be undone; what they replace is kept as long. `None` if they cannot be undone.
    pub undo: Option<Duration>,
    /// Services from which documents are collected.
    pub collect: Option<Collect>,
    /// How documents that a query needs are fetched.
    pub asks: Option<ServiceBinding>,
    /// The collections it feeds.
    pub feeds: Vec<Feed>,
    /// Documents of other sources embedded in its own.
    pub embeds: Vec<EmbeddedDocument>,
}

impl Source {
    /// How its files are complete, if they are.
    pub fn complete_files(&self) -> Option<&CompleteFiles> {
        self.replaces.as_ref()?.files.as_ref()
    }

    /// Whether it reads what is around MARC records.
    pub fn reads_envelopes(&self) -> bool {
        let rules = self.lets.iter().map(|own| &own.rule).chain(self.feeds.iter().flat_map(|feed| &feed.map).map(|entry| &entry.rule));
        let is_around = |path: &Path| self.family == FormatFamily::Marc && matches!(path, Path::Xml(_));
        rules.into_iter().any(|rule| matches!(&rule.origin, ValueOrigin::Paths(paths) if paths.iter().any(is_around)))
    }

    /// The columns that its rules read and a table with these columns lacks: for each rule that finds none of its columns, those columns. Of fields
    /// that are read from the column of their name because nothing else is said, only those of collections for which `is_fed_alone` holds.
    pub fn missing_columns(&self, columns: &[String], is_fed_alone: impl Fn(CollectionId) -> bool) -> Vec<Vec<&str>> {
        let entries = self.feeds.iter().flat_map(|feed| feed.map.iter().map(move |entry| (feed.collection, entry)));
        let explicit = entries.filter(|(collection, entry)| !entry.is_default || is_fed_alone(*collection)).map(|(_, entry)| &entry.rule);
        let rules = self.lets.iter().map(|own| &own.rule).chain(explicit);
        let mut missing: Vec<Vec<&str>> = Vec::new();
        for rule in rules {
            let ValueOrigin::Paths(paths) = &rule.origin else { continue };
            let names: Vec<&str> = paths.iter().filter_map(|path| if let Path::Column(name) = path { Some(name.as_str()) } else { None }).collect();
            let is_there = names.iter().any(|name| columns.iter().any(|column| column == name));
            if !names.is_empty() && !is_there && !missing.contains(&names) {
                missing.push(names);
            }
        }
        missing
    }
}

/// An embedded document.
#[derive(Debug, Clone)]
pub struct EmbeddedDocument {
    /// The source of the embedded document.
    pub source: SourceId,
    /// The path of its text.
    pub path: Path,
    /// The file name it is given, a template over `let` values.
    pub name: Template,
}

/// A named value of a document.
#[derive(Debug, Clone)]
pub struct LetValue {
    /// Its name.
    pub name: String,
    /// How it is taken.
    pub rule: ValueRule,
}

/// A condition on documents.
#[derive(Debug, Clone)]
pub struct AcceptRule {
    /// What must hold.
    pub unless: Expression,
    /// Whether other documents are skipped instead of failing.
    pub skip: bool,
    /// The reason in the journal.
    pub reason: Option<Expression>,
}

/// `as_of:`. The order in which documents replace each other.
#[derive(Debug, Clone)]
pub struct DocumentOrder {
    /// Where a document's as-of time may be: the first that gives one, else the delivery's time.
    pub times: Vec<AsOfRule>,
    /// Whether documents with the same time are ordered by their reception, because `as_of` is a list; otherwise by their content.
    pub by_reception: bool,
}

impl DocumentOrder {
    /// Whether the delivery's time counts, not the documents'.
    pub fn is_received(&self) -> bool {
        matches!(self.times[..], [AsOfRule::Received])
    }
}

/// Where an as-of time comes from.
#[derive(Debug, Clone)]
pub enum AsOfRule {
    /// The time of the delivery.
    Received,
    /// The `let` value at this position.
    Let(usize),
    /// A field of the only feed.
    Field(FieldId),
    /// CEL that gives a timestamp.
    Expression(Expression),
}

/// One collection a document contributes to.
#[derive(Debug, Clone)]
pub struct Feed {
    /// The collection.
    pub collection: CollectionId,
    /// Where in a document the things are that contribute one by one; without it, a document contributes once.
    pub each: Option<FeedEach>,
    /// Only documents for which this holds contribute.
    pub when: Option<Expression>,
    /// The name of the part of the source that contributes.
    pub contributor: Option<Template>,
    /// How fields get their values: rules on paths first, then expressions in the order written.
    pub map: Vec<FieldMapping>,
    /// Hash of everything that decides what a document contributes here.
    pub generation: [u8; 16],
}

/// `each:`. The fields, values or elements of a document that contribute one by one.
#[derive(Debug, Clone)]
pub struct FeedEach {
    /// Where they are.
    pub path: Path,
    /// The `let` value that identifies the document; without it, the key of the source's first feed without `each`.
    pub of: Option<String>,
}

/// How one field gets its value.
#[derive(Debug, Clone)]
pub struct FieldMapping {
    /// The field.
    pub field: FieldId,
    /// The rule.
    pub rule: ValueRule,
    /// Whether the rule follows from the field's name, because nothing is said.
    pub is_default: bool,
}

/// What replaces older contributions of a source: complete files, or the documents of a source with `each:`, which are complete for what they
/// contain. A newer one retires the contributions of older ones in the same scope that it does not repeat.
#[derive(Debug, Clone)]
pub struct CompleteDelivery {
    /// Its number in a store; the last two bits are zero.
    pub id: u32,
    /// How files are complete; `None` if each document is complete, and its identity is the scope.
    pub files: Option<CompleteFiles>,
}

/// `replaces:`. A complete file without failed documents replaces older ones from its earliest `at` on, unless it lacks too many keys.
#[derive(Debug, Clone)]
pub struct CompleteFiles {
    /// The scope a document is in.
    pub scope: Expression,
    /// The time of a document within the scope; without it a file replaces everything in the scope.
    pub at: Option<Expression>,
    /// The max share, in percent, of the previous complete delivery's keys that a file may lack and still retire them.
    pub max_missing: f64,
}

/// The default of that share, in percent.
pub const MAX_MISSING_PERCENT: f64 = 20.0;

impl CompleteDelivery {
    /// The share of keys, in percent, that a file may lack and still replace an older one.
    pub fn max_missing(&self) -> f64 {
        self.files.as_ref().map_or(MAX_MISSING_PERCENT, |files| files.max_missing)
    }

    /// The link number of the ledger's edges, which contain scope, start, and age of the delivery.
    pub fn ledger_link(&self) -> u32 {
        self.id
    }

    /// The link number of edges from a file to its chunks that are done.
    pub fn shares_link(&self) -> u32 {
        self.id | 1
    }

    /// The link number of edges from a scope to the contributions in it.
    pub fn contributions_link(&self) -> u32 {
        self.id | 2
    }

    /// The link number of edges that record what became of files, and what was retired.
    pub fn history_link(&self) -> u32 {
        self.id | 3
    }

    /// All its link numbers.
    pub fn links(&self) -> [u32; 4] {
        [self.ledger_link(), self.shares_link(), self.contributions_link(), self.history_link()]
    }
}
