//! Decodes payloads of stored edges; what cannot be decoded is damaged.

use stook_store::damage::Damage;
use stook_store::{Edge, Result, StoreError};

/// The number in an edge's payload.
pub(crate) fn number(edge: &Edge) -> Result<i64> {
    edge.payload.as_slice().try_into().map(i64::from_le_bytes).map_err(|_| damaged_edge(edge, "it carries no number"))
}

/// The error for an edge that cannot be decoded.
pub(crate) fn damaged_edge(edge: &Edge, reason: &str) -> StoreError {
    StoreError::Damaged(Damage::of_row(format!("the edge from {:?} to {:?}", edge.child.as_str(), edge.target.as_str()), reason))
}

/// Converts a decoding error of a payload to the store's error.
pub(crate) fn damaged(error: stook_catalogue::record::DecodeError) -> StoreError {
    error.into()
}

/// The interval in the edge that registers a target.
pub(crate) fn interval_of(payload: &[u8]) -> Option<(i64, i64)> {
    let (start, stop) = payload.split_first_chunk::<8>()?;
    Some((i64::from_le_bytes(*start), i64::from_le_bytes(stop.try_into().ok()?)))
}
