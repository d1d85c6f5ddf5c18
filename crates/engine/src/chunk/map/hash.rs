//! The hash of what a document contributes: two documents with the same hash contribute the same.

use crate::merge::ScopePosition;
use stook_catalogue::definition::{Collection, Feed};
use stook_catalogue::ids::FieldId;
use stook_catalogue::record::{ContributionContent, Hash, put_bytes, put_value};

/// The hash of a contribution: of the document's bytes if they are kept or the contribution is a deletion, else of its values, except those that
/// come from the envelope; and of its position in a scope.
pub(super) fn content_hash(
    content: &ContributionContent,
    unread: &[FieldId],
    (collection, feed): (&Collection, &Feed),
    bytes: &[u8],
    scope: Option<&ScopePosition>,
) -> Hash {
    let mut packed = Vec::new();
    let hashed = match content {
        ContributionContent::Values(values) if !collection.keep_raw => {
            // an unreadable value differs from an absent one
            let is_given = |field: FieldId| !values[field].is_null() || unread.contains(&field);
            for entry in feed.map.iter().filter(|entry| !entry.rule.reads_meta && is_given(entry.field)) {
                put_bytes(&mut packed, collection.fields[entry.field].name.as_bytes());
                put_value(&mut packed, &values[entry.field]);
            }
            packed.as_slice()
        }
        _ => bytes,
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(hashed);
    if let Some(ScopePosition { scope, at }) = scope {
        hasher.update(scope.as_bytes()).update(&at.to_le_bytes());
    }
    let mut hash = [0; 16];
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    hash
}
