//! How a field gets its value from other fields, of the same record or of others.

use crate::eval::Expression;
use crate::model::ids::{FieldId, LinkId};
use crate::model::key::Template;
use regex::Regex;

/// The rule by which a field's value is derived.
#[derive(Debug, Clone)]
pub enum Derivation {
    /// From golden values of the same record.
    SameRecord(Expression),
    /// The key of a link's target, or the keys, from golden values of the same record: link, condition, key.
    TargetKey(LinkId, Option<Expression>, Template),
    /// A member of the structs in a list of the same record, one value for each struct that has one: the list, and the member's position.
    Member(FieldId, usize),
    /// The names of the sources that contribute to the record; for a source of a service, the service's name.
    Sources,
    /// Settled, by a link or a rollup that has not been parsed yet. No field of a parsed definition has it.
    Pending,
    /// Settled: the key of the target of the link, or the keys.
    LinkKeys(LinkId),
    /// Settled: from golden values, some of which are settled or belong to linked records.
    ThroughLinks(Expression),
    /// Settled: an aggregate of the record's children.
    Rollup(Rollup),
}

impl Derivation {
    /// Whether settling computes the value, not the record's own contributions alone.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Derivation::SameRecord(_) | Derivation::TargetKey(..) | Derivation::Member(..) | Derivation::Sources)
    }

    /// Returns the expression, if there is one.
    pub fn expression(&self) -> Option<&Expression> {
        match self {
            Derivation::SameRecord(expression) | Derivation::ThroughLinks(expression) => Some(expression),
            _ => None,
        }
    }
}

/// An aggregate of a record's children.
#[derive(Debug, Clone)]
pub struct Rollup {
    /// The link.
    pub link: LinkId,
    /// Only children whose group matches.
    pub groups: Option<Regex>,
    /// Only children that satisfy the link's condition at this position.
    pub condition: usize,
    /// The function.
    pub function: RollupFunction,
    /// The position of its field among those that edges carry; `None` for `count`.
    pub edge_field: Option<usize>,
}

/// Functions over children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollupFunction {
    /// Their number.
    Count,
    /// Sum.
    Sum,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// Number of different values; the elements of lists count individually.
    Distinct,
}
