//! How a field gets its value from other fields, of the same record or of others.

use crate::eval::Expression;
use crate::model::ids::{FieldId, LinkId};
use crate::model::key::Template;
use regex::Regex;

/// How a field gets its value from other fields.
#[derive(Debug, Clone)]
pub enum Derivation {
    /// From golden values of the same record.
    SameRecord(Expression),
    /// The key of a link's target, or keys, from golden values of the same record: index of the link, condition, key.
    TargetKey(LinkId, Option<Expression>, Template),
    /// A member of the structs in a list of the same record, one value for each that has one: indexes of the field and of the member.
    Member(FieldId, usize),
    /// The names of the sources that say something of the record: of one that is asked, its service's.
    Sources,
    /// Settled, by a link or a rollup that has not been read yet. No field of a definition has it.
    Pending,
    /// Settled: the key of the target of the link with this index, or the keys.
    LinkKeys(LinkId),
    /// Settled: from golden values, some of them settled or of linked records.
    ThroughLinks(Expression),
    /// Settled: from the record's children.
    Rollup(Rollup),
}

impl Derivation {
    /// Whether the settle machine gives the value, not the record's own contributions.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Derivation::SameRecord(_) | Derivation::TargetKey(..) | Derivation::Member(..) | Derivation::Sources)
    }

    /// The expression, where there is one.
    pub fn expression(&self) -> Option<&Expression> {
        match self {
            Derivation::SameRecord(expression) | Derivation::ThroughLinks(expression) => Some(expression),
            _ => None,
        }
    }
}

/// A number about a record's children.
#[derive(Debug, Clone)]
pub struct Rollup {
    /// The link, by index.
    pub link: LinkId,
    /// Only children of these groups.
    pub groups: Option<Regex>,
    /// Only children that meet the link's condition with this number.
    pub condition: usize,
    /// How.
    pub function: RollupFunction,
    /// Of which of the fields that edges carry; nothing for `count`.
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
    /// Number of different values; elements of lists one by one.
    Distinct,
}
