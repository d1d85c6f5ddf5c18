//! Edges: what children say to the records that their links lead to.

use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::SmolStr;

/// What a child says to its target. Edges are ordered by group, start and child. Those of links that are
/// [only read](stook_catalogue::links::Link::is_only_read) say nothing: what a unit says of them is not kept, a store finds the children by
/// their field, in an order of its own, without group, start and payload.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge {
    /// The link, by its number in the definition.
    pub link: u32,
    /// Key of the target, or name of a time slot.
    pub target: SmolStr,
    /// Group inside the target.
    pub group: SmolStr,
    /// Where the child's interval starts, in microseconds; 0 without one.
    pub start: i64,
    /// Key of the child.
    pub child: SmolStr,
    /// What rules need of the child.
    pub payload: Vec<u8>,
}

/// A limit as databases take it: a number with a sign.
pub(crate) fn limit_in_sql(limit: Option<usize>) -> i64 {
    limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX)
}

/// A change of an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EdgeChange {
    /// Adds it, or replaces the payload of an equal one.
    Put(Edge),
    /// Removes the one with the same link, target, group, start and child.
    Delete(Edge),
}

impl EdgeChange {
    /// Whether a store keeps what is said: of links that are only read it finds the children by their field.
    pub(crate) fn is_kept(&self, catalogue: &Catalogue) -> bool {
        let (EdgeChange::Put(edge) | EdgeChange::Delete(edge)) = self;
        catalogue.link_by_field(edge.link).is_none()
    }
}

/// Between which bounds edges of a target start, both included.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartRange {
    /// The target.
    pub target: SmolStr,
    /// The first start.
    pub low: i64,
    /// The last start.
    pub high: i64,
}

/// After which edge of a target reading goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeCursor<'e> {
    /// Its group.
    pub group: &'e str,
    /// Its start.
    pub start: i64,
    /// Its child.
    pub child: &'e str,
}

/// Edges of targets that start between bounds: which link, the targets with their bounds, what was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EdgeRange {
    /// The link.
    pub link: u32,
    /// The targets with their bounds.
    pub ranges: Vec<StartRange>,
    /// What there was.
    pub edges: Vec<Edge>,
}
