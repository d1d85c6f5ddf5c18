//! Resolves parsed queries to plans: aliases are replaced first, then tags that are queries, then names and types are resolved. Of collections that the
//! caller may not read, no tags are read; whoever executes the plan checks its collection.

use super::compile::{CompiledQuery, compile};
use super::scope::QueryScope;
use super::tags::known_tags;
use crate::language::Query;
use stook_catalogue::diagnostic::Diagnostic;
use stook_store::StoreError;

/// Resolves a parsed query to a plan. The inner error says what is wrong with the query. `now` is as for [`compile`].
///
/// # Errors
/// When the store fails.
pub fn resolve_parsed(mut query: Query, scope: &QueryScope<'_>, now: i64) -> Result<Result<CompiledQuery, Diagnostic>, StoreError> {
    let QueryScope { catalogue, store, tenant, visible } = *scope;
    if let Err(problem) = query.apply_aliases(catalogue) {
        return Ok(Err(problem));
    }
    let tagged = catalogue.collection(&query.lookup.collection.text).filter(|(_, collection)| collection.tags.is_some() && query.mentions_tags());
    if let Some((index, _)) = tagged.filter(|(index, _)| visible(*index))
        && let Err(problem) = query.expand_tags(&known_tags(store, tenant, index)?)
    {
        return Ok(Err(problem));
    }
    Ok(compile(&query, catalogue, tenant, now))
}
