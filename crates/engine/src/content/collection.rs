//! Finds a collection by name.

use crate::{EngineError, Result};
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::ids::CollectionId;

/// The collection with this name.
///
/// # Errors
/// When there is none.
pub fn find_collection<'c>(catalogue: &'c Catalogue, name: &str) -> Result<(CollectionId, &'c Collection)> {
    catalogue.collection(name).ok_or_else(|| {
        let known = catalogue.collections.iter().map(|collection| collection.name.as_str());
        EngineError::Wrong(format!("there is no collection `{name}`; {}", known_instead(name, known)))
    })
}
