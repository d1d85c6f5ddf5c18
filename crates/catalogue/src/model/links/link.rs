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
    /// The name edges have in a store; the three numbers after it are the link's, too.
    pub id: u32,
    /// The child's collection.
    pub child_collection: CollectionId,
    /// The target's collection.
    pub target_collection: CollectionId,
    /// The child's field that holds the target's key, or the keys of all targets.
    pub field: FieldId,
    /// Whether a child has all records as targets that the rule finds; else one.
    pub many: bool,
    /// Only children for which this holds have a target.
    pub when: Option<Expression>,
    /// Which record is the target.
    pub target_rule: TargetRule,
    /// A target exists because a child names it.
    pub create: bool,
    /// Groups a target's children.
    pub group: Option<Expression>,
    /// The child's interval: fields of type timestamp.
    pub span: Option<(FieldId, FieldId)>,
    /// Conditions on children that the target's rules ask about, in the order of their bits in edges.
    pub conditions: Vec<Expression>,
    /// The child's fields that edges carry.
    pub edge_fields: Vec<FieldId>,
    /// The target's fields that the child's fields read.
    pub read_fields: Vec<FieldId>,
    /// Whether the child's fields read if the target exists.
    pub reads_existence: bool,
}

impl Link {
    /// The name under which edges to targets are stored, by target, group and start.
    pub fn edges(&self) -> u32 {
        self.id
    }

    /// The name under which children wait for targets, by what must be equal, and start.
    pub fn children(&self) -> u32 {
        self.id | 1
    }

    /// The name under which targets can be found, by what must be equal, and start.
    pub fn targets(&self) -> u32 {
        self.id | 2
    }

    /// Whether the target has rules about its children.
    pub fn is_measured(&self) -> bool {
        self.create || !self.conditions.is_empty()
    }

    /// Whether children read anything of the target.
    pub fn is_read(&self) -> bool {
        self.reads_existence || !self.read_fields.is_empty()
    }

    /// Whether children read the target, which asks nothing of them: then edges would say no more than the children's field, which
    /// is indexed instead.
    pub fn is_only_read(&self) -> bool {
        !self.is_measured() && self.is_read()
    }

    /// The keys of a child's targets.
    pub fn leads_to<'v>(&self, values: &'v [Value]) -> impl Iterator<Item = &'v SmolStr> {
        values[self.field].elements().iter().filter_map(|value| match value {
            Value::Text(key) => Some(key),
            _ => None,
        })
    }
}

/// Which record is the target.
#[derive(Debug, Clone)]
pub enum TargetRule {
    /// The one with this key.
    Key(Template),
    /// One with equal fields.
    Same {
        /// The child's and the target's fields; of a list any element.
        fields: Vec<(FieldId, FieldId)>,
        /// Intervals that must overlap.
        overlap: Option<IntervalOverlap>,
    },
}

/// Intervals of child and target that must overlap. Of several targets the nearest to the middle of the child's interval is
/// chosen, then the earliest, then the one with the smallest key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntervalOverlap {
    /// The child's fields: from, to.
    pub mine: (FieldId, FieldId),
    /// The target's fields: from, to.
    pub theirs: (FieldId, FieldId),
    /// How far apart they may be, in microseconds.
    pub tolerance: i64,
    /// The usual length of an interval, in microseconds: longer ones cost a row for each.
    pub reach: i64,
}

/// The members of links that an expression reads.
pub fn members_of<'e>(expression: &'e Expression, name: &'e str) -> impl Iterator<Item = &'e MemberReference> {
    expression.members().iter().filter(move |member| member.of == name)
}

/// The number of a name in a store: it must not change when others are added beside it. The last two bits are free.
pub fn id_of(name: &str) -> u32 {
    let hash = blake3::hash(name.as_bytes());
    let mut first = [0; 4];
    first.copy_from_slice(&hash.as_bytes()[..4]);
    // a store may keep it as a signed number
    (u32::from_le_bytes(first) >> 1) & !3
}
