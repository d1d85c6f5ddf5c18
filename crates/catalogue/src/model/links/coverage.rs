//! Coverages: how much of what is expected of a record its children provide.

use crate::eval::Expression;
use crate::model::ids::{CollectionId, LinkId};
use crate::value::FieldType;
use regex::Regex;

/// A coverage: how much of what is expected of a record its children provide.
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
    /// Runs of values: a row for each run.
    Runs {
        /// The link.
        link: LinkId,
        /// Only children that satisfy the link's condition at this position.
        condition: usize,
        /// The position of the field among those that edges carry.
        edge_field: usize,
        /// Max gap within a run, in microseconds.
        max_gap: i64,
    },
    /// Sums over the rows of another coverage.
    Total(CoverageTotal),
}

/// Children measured by group.
#[derive(Debug, Clone)]
pub struct GroupedChildren {
    /// The link.
    pub link: LinkId,
    /// Only children that satisfy the link's condition at this position.
    pub condition: usize,
    /// Groups that have a row even without children: a list of texts. Other groups then have no expected value.
    pub groups: Option<Expression>,
    /// Measures by group; the first that matches applies.
    pub cases: Vec<MeasureCase>,
}

impl GroupedChildren {
    /// Whether rows have the fields of overlaps.
    pub fn measures_overlaps(&self) -> bool {
        self.cases.iter().any(|case| case.overlaps.is_some())
    }
}

/// How children of some groups are measured.
#[derive(Debug, Clone)]
pub struct MeasureCase {
    /// Matches the beginning of the group; `None` for all groups.
    pub pattern: Option<Regex>,
    /// The measure.
    pub measure: Measure,
    /// The adjusted measure: CEL over `value`, `group` and the parent's fields.
    pub value: Option<Expression>,
    /// The expected value: CEL over `group` and the parent's fields.
    pub expected: Option<Expression>,
    /// How gaps are measured.
    pub gaps: Option<GapRule>,
    /// Which overlaps are measured.
    pub overlaps: Option<OverlapRule>,
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
        /// Positions of the fields among those that edges carry.
        edge_fields: Vec<usize>,
        /// Starts within this time of each other count as one, in microseconds; `None` if starts do not matter.
        tolerance: Option<i64>,
    },
}

impl Measure {
    /// Returns the type of the measure.
    pub fn ty(&self) -> FieldType {
        if *self == Measure::Union { FieldType::Duration } else { FieldType::Integer }
    }
}

/// Intervals that no child covers.
#[derive(Debug, Clone)]
pub struct GapRule {
    /// The interval to cover: CEL over `group` and the parent's fields.
    pub within: (Expression, Expression),
    /// If there are children, the interval ends here instead.
    pub until: Option<Expression>,
    /// A first child that starts at most this long after the beginning of the interval, or before it, leaves no gap and moves the end by the same
    /// time.
    pub start_tolerance: Option<i64>,
}

/// Intervals that more than one child covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverlapRule {
    /// Only longer ones count, in microseconds.
    pub longer: i64,
}

/// Sums over the rows of another coverage that have an expected value.
#[derive(Debug, Clone)]
pub struct CoverageTotal {
    /// The position of the other coverage of the same parent.
    pub of: usize,
    /// The group a row is summed into: CEL over `group`.
    pub by: Expression,
    /// The summed value of a row: CEL over `group`, `by`, `value`, `expected`, `adjusted` and `rows` by group; default `adjusted`.
    pub value: Option<Expression>,
    /// The summed expected value of a row; default `expected`.
    pub expected: Option<Expression>,
}

/// The fields of every coverage, in their order after the parent's key.
pub const COVERAGE_FIELDS: [&str; 7] = ["group", "value", "expected", "adjusted", "percentage", "status", "gaps"];

/// The fields that follow those of every coverage if one of its cases measures overlaps.
pub const OVERLAP_FIELDS: [&str; 2] = ["overlap", "overlaps"];

/// The fields of runs, in their order after the parent's key.
pub const RUN_FIELDS: [&str; 4] = ["value", "start", "stop", "duration"];
