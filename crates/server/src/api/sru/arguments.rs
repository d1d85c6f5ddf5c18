//! The arguments of a request.

use stook_engine::publish::PublishedForm;
use stook_query::cql::{self, CqlDiagnostic, CqlQuery, CqlSort};

/// Records of a page if the request does not say.
const DEFAULT_RECORDS: u64 = 10;
/// The maximum number of records of a page; a request for more gets as many.
pub(super) const MAX_RECORDS: u64 = 100;
/// The maximum position of a record.
const MAX_POSITION: u64 = 1_000_000;

/// How a record is written inside a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordPacking {
    Xml,
    String,
}

/// A checked request.
pub(super) enum SruRequest {
    Explain,
    Search(Box<SearchRequest>),
}

/// A search.
pub(super) struct SearchRequest {
    pub(super) query: CqlQuery,
    /// The position of the first record, from 1.
    pub(super) start: u64,
    pub(super) maximum: u64,
    pub(super) form: PublishedForm,
    /// The identifier of the form.
    pub(super) schema: &'static str,
    pub(super) packing: RecordPacking,
}

const KNOWN: [&str; 11] = [
    "operation",
    "version",
    "query",
    "startRecord",
    "maximumRecords",
    "recordPacking",
    "recordSchema",
    "sortKeys",
    "resultSetTTL",
    "stylesheet",
    "recordXPath",
];

impl SruRequest {
    /// The version of the response.
    pub(super) fn version(arguments: &[(String, String)]) -> &'static str {
        if arguments.iter().any(|(name, value)| name == "version" && value == "1.1") { "1.1" } else { "1.2" }
    }

    /// Whether a database is to be described.
    pub(super) fn is_explain(arguments: &[(String, String)]) -> bool {
        let one = |name: &str| arguments.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        one("operation") == Some("explain") || one("operation").is_none() && one("query").is_none()
    }

    /// Checks the arguments of a request.
    pub(super) fn new(arguments: &[(String, String)], forms: &[(&'static str, &'static str, PublishedForm)]) -> Result<Self, CqlDiagnostic> {
        let one = |name: &str| arguments.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        // those that begin with x- are extensions, which may be ignored
        let is_known = |name: &str| name.starts_with("x-") || KNOWN.contains(&name);
        if let Some((name, _)) = arguments.iter().find(|(name, _)| !is_known(name)) {
            return Err(CqlDiagnostic::new(8, name));
        }
        if let Some(version) = one("version").filter(|version| !["1.1", "1.2"].contains(version)) {
            return Err(CqlDiagnostic::new(5, format!("{version}; there are 1.1 and 1.2")));
        }
        let packing = match one("recordPacking") {
            None | Some("xml") => RecordPacking::Xml,
            Some("string") => RecordPacking::String,
            Some(other) => return Err(CqlDiagnostic::new(71, other)),
        };
        if Self::is_explain(arguments) {
            return Ok(Self::Explain);
        }
        if let Some(operation) = one("operation").filter(|operation| *operation != "searchRetrieve") {
            return Err(CqlDiagnostic::new(4, operation));
        }
        let number = |name: &str, default: u64, range: std::ops::RangeInclusive<u64>| match one(name) {
            None | Some("") => Ok(default),
            Some(text) => text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| CqlDiagnostic::new(6, format!("{name}={text}"))),
        };
        let start = number("startRecord", 1, 1..=MAX_POSITION)?;
        let maximum = number("maximumRecords", DEFAULT_RECORDS, 0..=u64::MAX)?.min(MAX_RECORDS);
        if one("recordXPath").is_some_and(|path| !path.is_empty()) {
            return Err(CqlDiagnostic::new(8, "recordXPath"));
        }
        let form = match one("recordSchema").filter(|schema| !schema.is_empty()) {
            None => forms.first(),
            Some(wanted) => forms.iter().find(|(name, schema, _)| *name == wanted || *schema == wanted),
        };
        let (_, schema, form) = form.copied().ok_or_else(|| CqlDiagnostic::new(66, one("recordSchema").unwrap_or_default()))?;
        let text = one("query").ok_or_else(|| CqlDiagnostic::new(7, "query"))?;
        let mut query = cql::parse(text)?;
        if let Some(keys) = one("sortKeys").filter(|keys| !keys.trim().is_empty()) {
            query.sort = keys.split_whitespace().map(sort_key).collect::<Result<_, _>>()?;
        }
        Ok(Self::Search(Box::new(SearchRequest { query, start, maximum, form, schema, packing })))
    }
}

/// A key of `sortKeys`: a path, a schema and whether it is ascending, with commas between them.
fn sort_key(text: &str) -> Result<CqlSort, CqlDiagnostic> {
    let mut parts = text.split(',');
    let (path, schema, ascending) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let index = if schema == "dc" && !path.contains('.') { format!("dc.{path}") } else { path.to_owned() };
    match ascending {
        "" | "1" | "true" => Ok(CqlSort { index, descending: false }),
        "0" | "false" => Ok(CqlSort { index, descending: true }),
        other => Err(CqlDiagnostic::new(6, format!("sortKeys: {other}"))),
    }
}
