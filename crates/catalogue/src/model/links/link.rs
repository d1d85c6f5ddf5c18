//! A link, and the rule by which its target is found.

use crate::eval::{Expression, MemberReference};
use crate::model::ids::{CollectionId, FieldId};
use crate::model::key::Template;
use crate::value::{SmolStr, Value};

/// A link.
#[derive(Debug, Clone)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The number of its edges in a store; the three numbers after it belong to the link, too.
    pub id: u32,
    /// The child's collection.
    pub child_collection: CollectionId,
    /// The target's collection.
    pub target_collection: CollectionId,
    /// The child's field that holds the target's key, or the keys of all targets.
    pub field: FieldId,
    /// Whether all records that the rule finds are targets; otherwise one is.
    pub many: bool,
    /// Only children for which this holds have a target.
    pub when: Option<Expression>,
    /// The rule by which the target is found.
    pub target_rule: TargetRule,
    /// Whether a target exists as soon as a child names it.
    pub create: bool,
    /// The group of a child.
    pub group: Option<Expression>,
    /// The child's interval: fields of type timestamp.
    pub span: Option<(FieldId, FieldId)>,
    /// Conditions on children that rollups and coverages use, in the order of their bits in edges.
    pub conditions: Vec<Expression>,
    /// The child's fields that edges carry.
    pub edge_fields: Vec<FieldId>,
    /// The target's fields that the child's fields read.
    pub read_fields: Vec<FieldId>,
    /// Whether the child's fields read whether the target exists.
    pub reads_existence: bool,
}

impl Link {
    /// Returns the number of the edges to targets, ordered by target, group and start.
    pub fn edges(&self) -> u32 {
        self.id
    }

    /// Returns the number of the entries under which children wait for targets, by the values that must be equal, and start.
    pub fn children(&self) -> u32 {
        self.id | 1
    }

    /// Returns the number of the entries by which targets are found, by the values that must be equal, and start.
    pub fn targets(&self) -> u32 {
        self.id | 2
    }

    /// Whether the target is created or measured by its children.
    pub fn is_measured(&self) -> bool {
        self.create || !self.conditions.is_empty()
    }

    /// Whether children read the target.
    pub fn is_read(&self) -> bool {
        self.reads_existence || !self.read_fields.is_empty()
    }

    /// Whether children read the target, which does not depend on them: edges would then repeat the children's field, which is indexed instead.
    pub fn is_only_read(&self) -> bool {
        !self.is_measured() && self.is_read()
    }

    /// Returns the keys of a child's targets.
    pub fn target_keys<'v>(&self, values: &'v [Value]) -> impl Iterator<Item = &'v SmolStr> {
        values[self.field].elements().iter().filter_map(|value| match value {
            Value::Text(key) => Some(key),
            _ => None,
        })
    }
}

/// The rule by which the target is found.
#[derive(Debug, Clone)]
pub enum TargetRule {
    /// The record with this key.
    Key(Template),
    /// Records with equal fields.
    Same {
        /// Fields that are equal, by criterion. The first criterion by which any record is found counts.
        criteria: Vec<EqualFields>,
        /// Intervals that must overlap.
        overlap: Option<IntervalOverlap>,
        /// What holds if a criterion finds several records.
        several: SeveralFound,
    },
    /// One record for all records of the child's collection that have equal fields, directly or through others: the one whose key is the smallest of
    /// their keys.
    Merged {
        /// Fields that are equal, by criterion. Each criterion counts.
        criteria: Vec<Vec<FieldId>>,
    },
}

/// Pairs of the child's and the target's field that must all be equal; any element of a list may be.
pub type EqualFields = Vec<(FieldId, FieldId)>;

/// What holds if a criterion finds several records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeveralFound {
    /// None of them is the target, and a warning names them.
    Fail,
    /// The nearest one is, of equals the one with the smallest key.
    Smallest,
    /// All of them are.
    Every,
}

impl TargetRule {
    /// The child's fields by which targets are searched, by criterion.
    pub fn own_criteria(&self) -> Vec<Vec<FieldId>> {
        match self {
            Self::Key(_) => Vec::new(),
            Self::Same { criteria, .. } => criteria.iter().map(|pairs| pairs.iter().map(|(own, _)| *own).collect()).collect(),
            Self::Merged { criteria } => criteria.clone(),
        }
    }

    /// The target's fields by which it is found, by criterion.
    pub fn target_criteria(&self) -> Vec<Vec<FieldId>> {
        match self {
            Self::Key(_) | Self::Merged { .. } => Vec::new(),
            Self::Same { criteria, .. } => criteria.iter().map(|pairs| pairs.iter().map(|(_, other)| *other).collect()).collect(),
        }
    }

    /// Intervals that must overlap.
    pub fn overlap(&self) -> Option<&IntervalOverlap> {
        match self {
            Self::Same { overlap, .. } => overlap.as_ref(),
            Self::Key(_) | Self::Merged { .. } => None,
        }
    }

    /// Whether the target follows from other records, so that the link is settled.
    pub fn is_searched(&self) -> bool {
        !matches!(self, Self::Key(_))
    }

    /// Whether records with equal fields have one target.
    pub fn merges(&self) -> bool {
        matches!(self, Self::Merged { .. })
    }
}

/// Intervals of child and target that must overlap. Of several targets, the one nearest to the middle of the child's interval is chosen, then the
/// earliest, then the one with the smallest key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntervalOverlap {
    /// The child's fields: from, to.
    pub mine: (FieldId, FieldId),
    /// The target's fields: from, to.
    pub theirs: (FieldId, FieldId),
    /// How far apart they may be and still overlap, in microseconds.
    pub tolerance: i64,
    /// The usual length of an interval, in microseconds: a longer one takes a row for each part of this length.
    pub reach: i64,
}

/// Returns the members of a link that an expression reads.
pub fn members_of<'e>(expression: &'e Expression, name: &'e str) -> impl Iterator<Item = &'e MemberReference> {
    expression.members().iter().filter(move |member| member.of == name)
}

/// Returns the number of a name in a store. It depends on nothing else, so it does not change when other names are added. The last two bits are zero.
pub fn id_of(name: &str) -> u32 {
    let hash = blake3::hash(name.as_bytes());
    let mut first = [0; 4];
    first.copy_from_slice(&hash.as_bytes()[..4]);
    // a store may keep it as a signed number
    (u32::from_le_bytes(first) >> 1) & !3
}
