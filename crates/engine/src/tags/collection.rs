//! The collection whose records have tags.

use crate::content::collection::find_collection;
use crate::{EngineError, Result};
use stook_catalogue::definition::{Catalogue, TagSettings};
use stook_catalogue::ids::CollectionId;

/// The collection with this name, and the settings of its records' tags.
///
/// # Errors
/// When there is no such collection, or its records have no tags.
pub fn collection<'c>(catalogue: &'c Catalogue, name: &str) -> Result<(CollectionId, &'c TagSettings)> {
    let (index, collection) = find_collection(catalogue, name)?;
    let rules = collection.tags.as_ref();
    let rules = rules.ok_or_else(|| EngineError::Wrong(format!("collection `{name}` has no tags (`tags:`)")))?;
    Ok((index, rules))
}

/// The only collection whose records have tags.
///
/// # Errors
/// When there is none, or several.
pub fn only_collection(catalogue: &Catalogue) -> Result<&str> {
    let with_tags: Vec<&str> = catalogue.with_tags().map(|(_, own)| own.name.as_str()).collect();
    match with_tags.as_slice() {
        [only] => Ok(only),
        [] => Err(EngineError::Wrong("no collection of this catalogue has `tags:`".into())),
        several => Err(EngineError::Wrong(format!("choose the collection: {}", several.join(", ")))),
    }
}
