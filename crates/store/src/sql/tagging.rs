//! Which records gain or lose tags by a unit.

use crate::tag::TagWrites;
use crate::{Result, StoreError};
use std::collections::HashMap;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

/// Returns the number of a collection's tags in a store.
pub fn id_of(catalogue: &Catalogue, collection: CollectionId) -> Result<u32> {
    let rules = catalogue.collections.get(collection).and_then(|collection| collection.tags.as_ref());
    rules.map(|rules| rules.id).ok_or_else(|| StoreError::Wrong("the records of this collection carry no tags".into()))
}

/// Records with the names of tags.
type KeyAndTag<'t> = Vec<(&'t Key, &'t str)>;

/// Returns which assignments of tags to add to those in `current`, and which to remove.
pub fn differences<'t>(tagging: &'t TagWrites, current: &[(&str, &str)]) -> (KeyAndTag<'t>, KeyAndTag<'t>) {
    let mut tags_by_key: HashMap<&str, Vec<&str>> = HashMap::new();
    for (key, tag) in current {
        tags_by_key.entry(key).or_default().push(tag);
    }
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    for (key, wanted) in &tagging.assignments {
        let current_tags = tags_by_key.get(key.as_str()).map(Vec::as_slice).unwrap_or_default();
        for (position, tag) in tagging.tags.iter().enumerate() {
            match (wanted.binary_search(&(position as u32)).is_ok(), current_tags.contains(&tag.as_str())) {
                (true, false) => added.push((key, tag.as_str())),
                (false, true) => removed.push((key, tag.as_str())),
                _ => {}
            }
        }
    }
    (added, removed)
}
