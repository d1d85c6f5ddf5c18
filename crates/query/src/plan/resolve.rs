//! Parsed queries to plans: first its aliases are replaced, then its tags that are queries, then names and types are resolved.

use super::compile::{CompiledQuery, compile};
use super::tags::known_tags;
use crate::language::Query;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::Diagnostic;
use stook_store::{Store, StoreError, Tenant};

/// What a store is asked for a parsed query. `now` is as for [`compile`].
///
/// # Errors
/// When the store fails; inside, what is wrong with the query.
pub fn resolve_parsed(
    mut query: Query,
    catalogue: &Catalogue,
    store: &dyn Store,
    tenant: &Tenant,
    now: i64,
) -> Result<Result<CompiledQuery, Diagnostic>, StoreError> {
    if let Err(problem) = query.apply_words(catalogue) {
        return Ok(Err(problem));
    }
    let tagged = catalogue.collection(&query.lookup.collection.text).filter(|(_, collection)| collection.tags.is_some() && query.asks_tags());
    if let Some((index, _)) = tagged
        && let Err(problem) = query.expand_tags(&known_tags(store, tenant, index)?)
    {
        return Ok(Err(problem));
    }
    Ok(compile(&query, catalogue, tenant, now))
}
