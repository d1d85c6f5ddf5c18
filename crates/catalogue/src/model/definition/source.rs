//! Sources and their feeds: where documents come from, and to which collections they contribute.

use super::file_pattern::FilePattern;
use super::rule::ValueRule;
use super::service::{Collect, ServiceBinding};
use crate::eval::Expression;
use crate::model::ids::{CollectionId, FieldId, SourceId};
use crate::model::key::Template;
use crate::model::path::{Path, PathLanguage};
use regex::Regex;

/// Families of formats that share a path language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatFamily {
    /// ISO 2709, MARCXML, MARC-in-JSON.
    Marc,
    /// XML split at an element.
    Xml,
    /// JSON array, single value, NDJSON.
    Json,
    /// CSV with a header.
    Csv,
}

impl FormatFamily {
    /// Its path language.
    pub fn language(self) -> PathLanguage {
        match self {
            FormatFamily::Marc => PathLanguage::Marc,
            FormatFamily::Xml => PathLanguage::Xml,
            FormatFamily::Json => PathLanguage::Json,
            FormatFamily::Csv => PathLanguage::Csv,
        }
    }

    /// Its name in definitions.
    pub fn name(self) -> &'static str {
        match self {
            FormatFamily::Marc => "marc",
            FormatFamily::Xml => "xml",
            FormatFamily::Json => "json",
            FormatFamily::Csv => "csv",
        }
    }
}

/// How the bytes of documents are read, where their format leaves a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentOptions {
    /// How records of MARC are read.
    pub marc: stook_marc::ReadOptions,
    /// Whether rows of csv that are shorter than the header have absent values at their end; else they fail.
    pub short_rows: bool,
}

impl DocumentOptions {
    /// MARC is repaired, and short rows fail.
    pub const DEFAULT: Self = Self::of_marc(stook_marc::ReadOptions::REPAIR);

    /// Records of MARC are read so.
    pub const fn of_marc(marc: stook_marc::ReadOptions) -> Self {
        Self { marc, short_rows: false }
    }
}

/// Where documents come from.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its format.
    pub family: FormatFamily,
    /// The element (xml; after the one around it) or member (json) that holds the documents.
    pub records: Option<String>,
    /// How the bytes of its documents are read.
    pub reading: DocumentOptions,
    /// What says that a file without documents is empty.
    pub empty: Option<Regex>,
    /// Names of the files that are its own; none where names say nothing.
    pub files: Vec<FilePattern>,
    /// What the first document of a file that is its own has.
    pub has: Option<Path>,
    /// Prefixes used in XPath.
    pub namespaces: Vec<(String, String)>,
    /// Values computed once per document, in order.
    pub lets: Vec<LetValue>,
    /// Conditions a document must meet.
    pub accept: Vec<AcceptRule>,
    /// True for a document that deletes.
    pub gone: Option<Expression>,
    /// When the document was true, and the order of documents of one time.
    pub as_of: DocumentOrder,
    /// What a whole file of it takes the place of.
    pub replaces: Option<CompleteDelivery>,
    /// Services that are asked for documents.
    pub collect: Option<Collect>,
    /// How a service is asked for documents that a query needs.
    pub asks: Option<ServiceBinding>,
    /// Collections fed.
    pub feeds: Vec<Feed>,
    /// Documents of other sources inside its own.
    pub embeds: Vec<EmbeddedDocument>,
}

/// A document inside a document.
#[derive(Debug, Clone)]
pub struct EmbeddedDocument {
    /// The source whose document it is.
    pub source: SourceId,
    /// Where it stands, as text.
    pub path: Path,
    /// What its file would be called, a template over `let` values.
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
    /// Skip instead of fail.
    pub skip: bool,
    /// What the journal says.
    pub reason: Option<Expression>,
}

/// `as_of:`. In which order documents replace each other.
#[derive(Debug, Clone)]
pub struct DocumentOrder {
    /// Where a document may say when it was true: the first that does, else the delivery's time.
    pub times: Vec<AsOfRule>,
    /// Whether documents of one time are ordered by their reception, as a list says. Else their content decides.
    pub by_reception: bool,
}

impl DocumentOrder {
    /// Whether the delivery's time counts, whatever documents say.
    pub fn is_received(&self) -> bool {
        matches!(self.times[..], [AsOfRule::Received])
    }
}

/// When a document was true.
#[derive(Debug, Clone)]
pub enum AsOfRule {
    /// When it was received: the delivery's time.
    Received,
    /// The `let` with this index.
    Let(usize),
    /// The field with this index of the only feed.
    Field(FieldId),
    /// CEL giving a timestamp.
    Expression(Expression),
}

/// One collection a document contributes to.
#[derive(Debug, Clone)]
pub struct Feed {
    /// The collection's index.
    pub collection: CollectionId,
    /// Only documents for which this holds.
    pub when: Option<Expression>,
    /// Names the part of the source that contributes.
    pub contributor: Option<Template>,
    /// How fields get their values: rules on paths first, then expressions in the order written.
    pub map: Vec<FieldMapping>,
    /// Hash of everything that decides what a document becomes here.
    pub generation: [u8; 16],
}

/// How one field gets its value.
#[derive(Debug, Clone)]
pub struct FieldMapping {
    /// The field's index.
    pub field: FieldId,
    /// The rule.
    pub rule: ValueRule,
}

/// `replaces:`. A complete delivery without failed documents retires older contributions of its source in the same scope, from its first
/// time in the scope on, unless too many keys are missing.
#[derive(Debug, Clone)]
pub struct CompleteDelivery {
    /// Its number in a store; the last two bits are free.
    pub id: u32,
    /// The scope a document is in.
    pub scope: Expression,
    /// Where a document stands in it, a time; without one a file takes the place of all.
    pub at: Option<Expression>,
    /// Of the keys of the whole file before it, the largest share that a file may lack and still retire them, in percent.
    pub max_missing: f64,
}

/// The share of keys that a file may lack where the definition does not say one, in percent.
pub const MOST_LACKING: f64 = 20.0;

impl CompleteDelivery {
    /// The link of the ledger's edges: scope, from when on, and how old the delivery is.
    pub fn ledger(&self) -> u32 {
        self.id
    }

    /// The link of edges from a file to its chunks that are done.
    pub fn parts(&self) -> u32 {
        self.id | 1
    }

    /// The link of edges from a scope to what was said in it.
    pub fn statements(&self) -> u32 {
        self.id | 2
    }

    /// The link of edges that say what became of files, and what was retired.
    pub fn history(&self) -> u32 {
        self.id | 3
    }

    /// The links of all its edges.
    pub fn links(&self) -> [u32; 4] {
        [self.ledger(), self.parts(), self.statements(), self.history()]
    }
}
