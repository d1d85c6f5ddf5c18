//! What a query is resolved in: a definition, the records of a tenant, and those of them that the caller may read.

use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_store::{Store, Tenant, Visibility};

/// What a query is resolved in.
#[derive(Clone, Copy)]
pub struct QueryScope<'s> {
    /// The definition.
    pub catalogue: &'s Catalogue,
    /// The records.
    pub store: &'s dyn Store,
    /// Whose records.
    pub tenant: &'s Tenant,
    /// Which records of a collection the caller may read.
    pub visible: &'s dyn Fn(CollectionId) -> Visibility,
}

impl<'s> QueryScope<'s> {
    /// For a caller who may read all collections.
    pub fn all(catalogue: &'s Catalogue, store: &'s dyn Store, tenant: &'s Tenant) -> Self {
        Self { catalogue, store, tenant, visible: &|_| Visibility::Everything }
    }

    /// Whether the caller may read all records of a collection.
    pub fn sees_all(&self, collection: CollectionId) -> bool {
        (self.visible)(collection) == Visibility::Everything
    }
}
