//! Edges: what children pass to the targets of their links.

use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::SmolStr;

/// What a child passes to a target of its link. Edges are ordered by group, start and child.
///
/// Edges of links that are [only read](stook_catalogue::links::Link::is_only_read) carry no information and are not stored: the store finds the
/// children by their link field, in an order of its own, and returns them with an empty group, start 0 and an empty payload.
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
    /// The field values that rollups and coverage need, encoded by the engine.
    pub payload: Vec<u8>,
}

/// A limit as the signed number that databases expect; the largest one for none.
pub(crate) fn limit_in_sql(limit: Option<usize>) -> i64 {
    limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX)
}

/// A change of an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EdgeChange {
    /// Adds the edge, or replaces the payload of an edge with the same identity.
    Put(Edge),
    /// Removes the edge with the same link, target, group, start and child.
    Delete(Edge),
}

impl EdgeChange {
    /// Whether the edge is stored; children of links that are only read are found by their field instead.
    pub(crate) fn is_stored(&self, catalogue: &Catalogue) -> bool {
        let (EdgeChange::Put(edge) | EdgeChange::Delete(edge)) = self;
        catalogue.link_by_field(edge.link).is_none()
    }
}

/// Bounds for the starts of a target's edges, both included.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartRange {
    /// The target.
    pub target: SmolStr,
    /// The lowest start.
    pub low: i64,
    /// The highest start.
    pub high: i64,
}

/// The edge of a target after which reading continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeCursor<'e> {
    /// Its group.
    pub group: &'e str,
    /// Its start.
    pub start: i64,
    /// Its child.
    pub child: &'e str,
}

/// A range of edges that was read, with its result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EdgeRange {
    /// The link.
    pub link: u32,
    /// The targets with their bounds.
    pub ranges: Vec<StartRange>,
    /// The edges that were found.
    pub edges: Vec<Edge>,
}
