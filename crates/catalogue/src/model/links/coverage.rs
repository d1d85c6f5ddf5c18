//! Coverages: how much of what is expected of a record its children provide.

use crate::eval::Expression;
use crate::model::ids::{CollectionId, LinkId};
use crate::value::FieldType;
use regex::Regex;

/// How much of a record its children cover.
#[derive(Debug, Clone)]
pub struct Coverage {
    /// Its name.
    pub name: String,
    /// The parent's collection.
    pub parent: CollectionId,
    /// The collection of its rows.
    pub rows: CollectionId,
    /// Only parents for which this holds have rows.
    pub when: Option<Expression>,
    /// What is measured.
    pub kind: CoverageKind,
}

/// What a coverage measures.
#[derive(Debug, Clone)]
pub enum CoverageKind {
    /// Children by group.
    Children(GroupedChildren),
    /// Runs of a value: a row for each.
    Runs {
        /// The link, by index.
        link: LinkId,
        /// Only children that meet the link's condition with this number.
        condition: usize,
        /// Which of the fields that edges carry.
        told: usize,
        /// Longest gap inside a run, in microseconds.
        max_gap: i64,
    },
    /// Sums over the rows of another coverage.
    Total(CoverageTotal),
}

/// Children measured by group.
#[derive(Debug, Clone)]
pub struct GroupedChildren {
    /// The link, by index.
    pub link: LinkId,
    /// Only children that meet the link's condition with this number.
    pub condition: usize,
    /// Groups that have a row without children, too: a list of texts. Others have no expected value then.
    pub groups: Option<Expression>,
    /// By group, the first that matches.
    pub cases: Vec<MeasureCase>,
}

/// How children of some groups are measured.
#[derive(Debug, Clone)]
pub struct MeasureCase {
    /// Matches the group's beginning; nothing for all.
    pub pattern: Option<Regex>,
    /// How.
    pub measure: Measure,
    /// What becomes of the measure: CEL over `value`, `group` and the parent's fields.
    pub value: Option<Expression>,
    /// What it should be: CEL over `group` and the parent's fields.
    pub expected: Option<Expression>,
    /// What is missing.
    pub gaps: Option<GapRule>,
}

/// A measure of children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measure {
    /// The length of the union of their intervals, in microseconds.
    Union,
    /// Their number.
    Count,
    /// The number of different values.
    Distinct {
        /// Of which of the fields that edges carry.
        edge_fields: Vec<usize>,
        /// Starts no farther apart than this, in microseconds, count as one; nothing where starts do not matter.
        tolerance: Option<i64>,
    },
}

impl Measure {
    /// The type of values.
    pub fn ty(&self) -> FieldType {
        if *self == Measure::Union { FieldType::Duration } else { FieldType::Integer }
    }
}

/// Intervals that no child covers.
#[derive(Debug, Clone)]
pub struct GapRule {
    /// Inside which interval: CEL over `group` and the parent's fields.
    pub within: (Expression, Expression),
    /// Where there are children the interval ends here instead.
    pub until: Option<Expression>,
    /// A first child that comes no later than this after the beginning, or before it, moves the end along, and leaves no gap.
    pub start_tolerance: Option<i64>,
}

/// Sums over the rows of another coverage that expect something.
#[derive(Debug, Clone)]
pub struct CoverageTotal {
    /// The other coverage of the same parent, by index.
    pub of: usize,
    /// The group a row is summed into: CEL over `group`.
    pub by: Expression,
    /// What of a row is summed: CEL over `group`, `by`, `value`, `expected`, `adjusted` and `rows` by group; default `adjusted`.
    pub value: Option<Expression>,
    /// The same for what is expected; default `expected`.
    pub expected: Option<Expression>,
}

/// The names of fields that every coverage has, in their order after the parent's key.
pub const COVERAGE_FIELDS: [&str; 7] = ["group", "value", "expected", "adjusted", "percentage", "status", "gaps"];

/// The names of fields of runs, in their order after the parent's key.
pub const RUN_FIELDS: [&str; 4] = ["value", "start", "stop", "duration"];
