//! What a query is resolved in: a definition, the records of a tenant, and the collections that the caller may read.

use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_store::{Store, Tenant};

/// What a query is resolved in.
#[derive(Clone, Copy)]
pub struct QueryScope<'s> {
    /// The definition.
    pub catalogue: &'s Catalogue,
    /// The records.
    pub store: &'s dyn Store,
    /// Whose records.
    pub tenant: &'s Tenant,
    /// Whether the caller may read a collection.
    pub visible: &'s dyn Fn(CollectionId) -> bool,
}

impl<'s> QueryScope<'s> {
    /// For a caller who may read all collections.
    pub fn all(catalogue: &'s Catalogue, store: &'s dyn Store, tenant: &'s Tenant) -> Self {
        Self { catalogue, store, tenant, visible: &|_| true }
    }
}
