//! The parts of a parsed query: [`Query`] and its parts, each with its position in the text.

use std::ops::Range;
use stook_catalogue::diagnostic::Diagnostic;
use stook_store::plan::{AggregateFunction, Period};

/// A parsed query.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// What the query finds.
    pub lookup: Selection,
    /// What the result looks like.
    pub stages: Vec<Stage>,
}

/// The part before the first `|`.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// The collection.
    pub collection: FieldPath,
    /// Other names without a comparison, which aliases may make columns; each with the error if they do not.
    pub extra_names: Vec<(FieldPath, Box<Diagnostic>)>,
    /// All must hold.
    pub conditions: Vec<QueryCondition>,
    /// Combined conditions, all of which must hold, too.
    pub combined: Vec<ConditionTree>,
    /// Words with the values that they have if the query has no condition on them; a word that means nothing for the collection is ignored.
    pub given: Vec<(String, String)>,
    /// If the conditions are alternatives that no parentheses enclose, where they begin in the text.
    pub open_alternatives: Option<usize>,
    /// Its end in the text.
    pub end: usize,
}

impl Selection {
    /// All conditions, those that are combined last.
    pub fn all_conditions(&self) -> impl Iterator<Item = &QueryCondition> {
        self.conditions.iter().chain(self.combined.iter().flat_map(ConditionTree::conditions))
    }
}

/// Conditions combined by `and`, `or` and `not`.
#[derive(Debug, Clone, PartialEq)]
pub enum ConditionTree {
    /// A condition.
    One(QueryCondition),
    /// What must not hold.
    Not(Box<ConditionTree>),
    /// All must hold.
    All(Vec<ConditionTree>),
    /// One must hold.
    Any(Vec<ConditionTree>),
}

impl ConditionTree {
    /// The conditions in it, in the order of the text.
    pub fn conditions(&self) -> Vec<&QueryCondition> {
        match self {
            Self::One(condition) => vec![condition],
            Self::Not(inner) => inner.conditions(),
            Self::All(inner) | Self::Any(inner) => inner.iter().flat_map(Self::conditions).collect(),
        }
    }

    /// Changes each condition in it.
    ///
    /// # Errors
    /// The first one of `change`.
    pub fn change(&mut self, change: &mut dyn FnMut(&mut QueryCondition) -> Result<(), Diagnostic>) -> Result<(), Diagnostic> {
        match self {
            Self::One(condition) => change(condition),
            Self::Not(inner) => inner.change(change),
            Self::All(inner) | Self::Any(inner) => inner.iter_mut().try_for_each(|inner| inner.change(change)),
        }
    }
}

/// A name with its position. The text of `a.b` is `a.b`.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldPath {
    /// As written.
    pub text: String,
    /// Its byte range in the query.
    pub span: Range<usize>,
}

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryCondition {
    /// The field.
    pub path: FieldPath,
    /// The comparison.
    pub operator: ComparisonOperator,
    /// The values that the field is compared with.
    pub values: Vec<ValueLiteral>,
    /// The byte range of the entire condition.
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
    /// `~` words
    Words,
}

/// A value as written.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueLiteral {
    /// The text between wildcards: `a*b` is `["a", "b"]`.
    pub pieces: Vec<String>,
    /// Its byte range in the query.
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

    /// Whether a text consists of these pieces, with anything between them.
    pub fn covers(&self, text: &str) -> bool {
        consists_of(text, &self.pieces)
    }
}

/// A part between two `|`.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// Conditions and columns.
    Grep(Vec<GrepItem>),
    /// Order.
    Sort(Vec<SortItem>),
    /// One row for each struct of a list.
    Each(FieldPath),
    /// Each of several equal rows once.
    Unique,
    /// At most so many rows.
    Limit(u64),
    /// Functions over all rows, or over those of each group.
    Aggregates(Vec<(AggregateFunction, FieldPath)>, Vec<GroupItem>),
}

/// An item of `sort`.
#[derive(Debug, Clone, PartialEq)]
pub struct SortItem {
    /// The function of the field, if it is a column of groups.
    pub function: Option<GroupFunction>,
    /// The field.
    pub path: FieldPath,
    /// Whether the largest value comes first.
    pub descending: bool,
}

/// What a column of groups makes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupFunction {
    /// An aggregate.
    Aggregate(AggregateFunction),
    /// The period of a time.
    Period(Period),
}

/// An item of `by`.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupItem {
    /// The period, if rows are grouped by periods of times.
    pub period: Option<Period>,
    /// The field.
    pub path: FieldPath,
}

/// An item of `grep`.
#[derive(Debug, Clone, PartialEq)]
pub enum GrepItem {
    /// A column to show.
    Column(FieldPath),
    /// A condition.
    Condition(QueryCondition),
    /// Combined conditions.
    Combined(ConditionTree),
}

/// Whether a text consists of these pieces in this order, with anything between two of them.
pub fn consists_of(text: &str, pieces: &[impl AsRef<str>]) -> bool {
    let [first, between @ .., last] = pieces else { return pieces.first().is_some_and(|only| only.as_ref() == text) };
    let Some(mut rest) = text.strip_prefix(first.as_ref()) else { return false };
    // the first place of each piece leaves most for those after it
    for piece in between {
        let Some((_, after)) = rest.split_once(piece.as_ref()) else { return false };
        rest = after;
    }
    rest.ends_with(last.as_ref())
}

#[cfg(test)]
mod tests {
    use super::consists_of;

    #[test]
    fn patterns_match_from_beginning_to_end() {
        let matches = |text: &str, pattern: &str| consists_of(text, &pattern.split('*').collect::<Vec<_>>());
        for (text, pattern) in [("andrew", "an*ew*"), ("andrew", "*"), ("", "*"), ("a*b", "a*b"), ("abcabc", "a*bc"), ("aaa", "a*a*a"), ("x", "x")] {
            assert!(matches(text, pattern), "{text} {pattern}");
        }
        for (text, pattern) in [("andrew", "rew*"), ("a", "a*a"), ("ab", "b*"), ("abc", "a*b"), ("aa", "a*a*a"), ("xy", "x"), ("", "a*")] {
            assert!(!matches(text, pattern), "{text} {pattern}");
        }
    }
}
