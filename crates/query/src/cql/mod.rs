//! Queries in CQL, the language of SRU, for records of a published collection (<https://www.loc.gov/standards/sru/cql/>).
//!
//! `parse.rs` reads the text. `search.rs` evaluates it: conditions that all must hold are one plan of the store. The store has no `or` and no `not`; the
//! keys that one side finds are read, up to [`MAX_KEYS`], and combined here. Errors are diagnostics with the numbers of SRU.

mod parse;
mod search;

pub use parse::{Boolean, Clause, CqlQuery, CqlSort, Relation, parse};
pub use search::{CqlIndexes, MAX_KEYS, ResultPage, search};

/// An error of SRU: its number in `info:srw/diagnostic/1/`, its name there, and what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CqlDiagnostic {
    /// The number.
    pub number: u16,
    /// What is wrong, in the words of the standard.
    pub message: &'static str,
    /// What it is about.
    pub details: String,
}

impl CqlDiagnostic {
    /// A diagnostic with this number; its message is that of the standard.
    pub fn new(number: u16, details: impl Into<String>) -> Self {
        let message = MESSAGES.iter().find(|(own, _)| *own == number).map_or("General system error", |(_, message)| message);
        Self { number, message, details: details.into() }
    }
}

/// The messages of the standard.
const MESSAGES: [(u16, &str); 24] = [
    (4, "Unsupported operation"),
    (5, "Unsupported version"),
    (6, "Unsupported parameter value"),
    (7, "Mandatory parameter not supplied"),
    (8, "Unsupported parameter"),
    (10, "Query syntax error"),
    (15, "Unsupported context set"),
    (16, "Unsupported index"),
    (19, "Unsupported relation"),
    (20, "Unsupported relation modifier"),
    (27, "Empty term unsupported"),
    (28, "Masking character not supported"),
    (31, "Anchoring character not supported"),
    (36, "Term in invalid format for index or relation"),
    (38, "Too many boolean operators in query"),
    (39, "Proximity not supported"),
    (46, "Unsupported boolean modifier"),
    (48, "Query feature unsupported"),
    (60, "Result set not created: too many matching records"),
    (61, "First record position out of range"),
    (66, "Unknown schema for retrieval"),
    (71, "Unsupported record packing"),
    (82, "Unsupported sort path"),
    (83, "Unsupported sort schema"),
];
