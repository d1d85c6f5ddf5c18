//! The parts of a parsed query: [`Query`] and what it is made of, each with its place in the text.

use std::ops::Range;
use stook_catalogue::diagnostic::Diagnostic;
use stook_store::plan::AggregateFunction;

/// A parsed query.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// What is asked.
    pub lookup: Selection,
    /// How the answer is shaped.
    pub stages: Vec<Stage>,
}

/// The part before the first `|`.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// The collection.
    pub collection: FieldPath,
    /// Other names that stand alone, which words of a definition may make columns of; and what is wrong with them otherwise.
    pub extra_names: Vec<(FieldPath, Box<Diagnostic>)>,
    /// All must hold.
    pub conditions: Vec<QueryCondition>,
    /// Where it ends in the text.
    pub end: usize,
}

/// A name with its place. Of `a.b` the text is `a.b`.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldPath {
    /// As written.
    pub text: String,
    /// Bytes of the query.
    pub span: Range<usize>,
}

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryCondition {
    /// What is compared.
    pub path: FieldPath,
    /// How.
    pub operator: ComparisonOperator,
    /// With what.
    pub values: Vec<ValueLiteral>,
    /// Where the whole condition stands.
    pub span: Range<usize>,
}

/// Operators of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonOperator {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `in [..]`
    In,
    /// `between [a, b]`
    Between,
    /// `last DURATION`
    Last,
    /// `intersects` a box, which is four values, or a geometry
    Intersects,
    /// `within` a box, which is four values, or a geometry
    Within,
}

/// A value as written.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueLiteral {
    /// The text between wildcards: `a*b` is `["a", "b"]`.
    pub pieces: Vec<String>,
    /// Bytes of the query.
    pub span: Range<usize>,
}

impl ValueLiteral {
    /// The text, if there is no wildcard in it.
    pub fn literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Whether a text is the pieces, with anything at the wildcards between them.
    pub fn covers(&self, text: &str) -> bool {
        let [first, between @ .., last] = self.pieces.as_slice() else { return self.literal() == Some(text) };
        let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
        for piece in between {
            let Some((_, behind)) = rest.split_once(piece.as_str()) else { return false };
            rest = behind;
        }
        rest.ends_with(last.as_str())
    }
}

/// A part between two `|`.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// Conditions and columns.
    Grep(Vec<GrepItem>),
    /// Order: path and whether the largest comes first.
    Sort(Vec<(FieldPath, bool)>),
    /// A row for each struct of a list.
    Each(FieldPath),
    /// Equal rows once.
    Unique,
    /// Functions over all rows.
    Aggregates(Vec<(AggregateFunction, FieldPath)>),
}

/// An item of `grep`.
#[derive(Debug, Clone, PartialEq)]
pub enum GrepItem {
    /// A column to show.
    Column(FieldPath),
    /// A condition.
    Condition(QueryCondition),
}
