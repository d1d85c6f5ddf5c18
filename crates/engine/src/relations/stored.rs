//! What stored edges carry, read; what cannot be read of them is damaged.

use stook_store::damage::Damage;
use stook_store::{Edge, Result, StoreError};

/// The number that is an edge's payload.
pub(crate) fn number(edge: &Edge) -> Result<i64> {
    edge.payload.as_slice().try_into().map(i64::from_le_bytes).map_err(|_| damaged_edge(edge, "it carries no number"))
}

/// Says that an edge cannot be read.
pub(crate) fn damaged_edge(edge: &Edge, reason: &str) -> StoreError {
    StoreError::Damaged(Damage::of_row(format!("the edge from {:?} to {:?}", edge.child.as_str(), edge.target.as_str()), reason))
}

/// A failure of what edges carry, as the store's.
pub(crate) fn damaged(error: stook_catalogue::record::DecodeError) -> StoreError {
    error.into()
}

/// The interval that the registration of a target carries.
pub(crate) fn interval_of(payload: &[u8]) -> Option<(i64, i64)> {
    let (start, stop) = payload.split_first_chunk::<8>()?;
    Some((i64::from_le_bytes(*start), i64::from_le_bytes(stop.try_into().ok()?)))
}
