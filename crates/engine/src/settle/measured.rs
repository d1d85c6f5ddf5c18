//! The children that a coverage counts, read from the edges of one parent.

use crate::relations::payload::ChildPayload;
use crate::relations::stored::damaged;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::LinkId;
use stook_catalogue::links::{Coverage, CoverageKind};
use stook_catalogue::value::SmolStr;
use stook_store::{Result, Store, Tenant};

/// A child that a coverage counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoveredChild {
    /// Its group; empty if the coverage measures runs.
    pub group: SmolStr,
    /// Its key.
    pub key: SmolStr,
    /// Its interval, in microseconds, if its link has one and it has both ends.
    pub span: Option<(i64, i64)>,
}

/// The children of a parent that a coverage measures, ordered by group and start, with the id of their link; `None` if it sums up another coverage.
///
/// # Errors
/// When the store fails, or an edge is damaged.
///
/// Cost: one range scan over the edges of the parent's children.
pub fn measured(
    catalogue: &Catalogue,
    store: &dyn Store,
    tenant: &Tenant,
    coverage: &Coverage,
    parent: &str,
) -> Result<Option<(LinkId, Vec<CoveredChild>)>> {
    let condition = match &coverage.kind {
        CoverageKind::Children(children) => children.condition,
        CoverageKind::Runs { condition, .. } => *condition,
        CoverageKind::Total(_) => return Ok(None),
    };
    let Some(link_id) = measured_link(&coverage.kind) else { return Ok(None) };
    let link = &catalogue.links[link_id];
    let mut found = Vec::new();
    for edge in store.edges(tenant, link.edges(), parent)? {
        let child = ChildPayload::unpack(&edge.payload, link).map_err(damaged)?;
        if child.satisfies(condition) {
            found.push(CoveredChild { group: edge.group, key: edge.child, span: child.span });
        }
    }
    Ok(Some((link_id, found)))
}

/// The link whose children a coverage measures, if it measures any.
pub(super) fn measured_link(kind: &CoverageKind) -> Option<LinkId> {
    match kind {
        CoverageKind::Children(children) => Some(children.link),
        CoverageKind::Runs { link, .. } => Some(*link),
        CoverageKind::Total(_) => None,
    }
}
