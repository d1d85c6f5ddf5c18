//! Expectations of a source's files: what must be true of a file before any of its documents is imported.

use crate::model::ids::{CollectionId, FieldId};
use regex::Regex;

/// `expect:`. One expectation of each file of a source.
#[derive(Debug, Clone)]
pub struct Expectation {
    /// What is expected.
    pub test: ExpectationTest,
    /// Whether a file that does not fulfil it is stopped before anything is written; otherwise there is a warning.
    pub stops: bool,
    /// What is expected, as it is written.
    pub text: String,
}

/// What is expected of a file.
#[derive(Debug, Clone)]
pub enum ExpectationTest {
    /// Of the values of a field.
    Field(FieldExpectation),
    /// Of the number of its documents.
    Documents(DocumentsExpectation),
    /// That its newest document is at most this old when it is received, in microseconds.
    Fresh(i64),
}

/// What is expected of the values that a field has in the documents of a file.
#[derive(Debug, Clone)]
pub struct FieldExpectation {
    /// The field.
    pub field: (CollectionId, FieldId),
    /// What is expected of each.
    pub values: ValueExpectation,
    /// The share for which it must hold, in percent.
    pub at_least: f64,
}

/// What is expected of a value.
#[derive(Debug, Clone)]
pub enum ValueExpectation {
    /// It is there: of all documents that feed the collection.
    Present,
    /// It, as text, is found by a regular expression.
    Matches(Regex),
    /// No other document of the file has it.
    Unique,
}

/// How many documents a file must have.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DocumentsExpectation {
    /// The least number.
    pub at_least: Option<u64>,
    /// The greatest number.
    pub at_most: Option<u64>,
    /// By which share of its documents, in percent, it may have fewer than the file before it.
    pub fewer: Option<f64>,
    /// By which share of the documents of the file before it, in percent, it may have more.
    pub more: Option<f64>,
}
