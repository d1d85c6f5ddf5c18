//! Resolves parsed queries to plans: aliases are replaced first, then tags that are queries, then names and types are resolved. Of collections that the
//! caller may not read, no tags are read, and no linked records; whoever executes the plan checks its own collection. Of a collection of which the caller may
//! read some records, the plan finds only these, and linked records are not read.

use super::compile::{CompiledQuery, compile};
use super::scope::QueryScope;
use super::tags::known_tags;
use crate::language::Query;
use stook_catalogue::diagnostic::Diagnostic;
use stook_store::{StoreError, Visibility};

/// Resolves a parsed query to a plan. The inner error says what is wrong with the query. `now` is as for [`compile`].
///
/// # Errors
/// When the store fails.
pub fn resolve_parsed(mut query: Query, scope: &QueryScope<'_>, now: i64) -> Result<Result<CompiledQuery, Diagnostic>, StoreError> {
    let QueryScope { catalogue, store, tenant, .. } = *scope;
    if let Err(problem) = query.apply_aliases(catalogue) {
        return Ok(Err(problem));
    }
    let tagged = catalogue.collection(&query.lookup.collection.text).filter(|(_, collection)| collection.tags.is_some() && query.mentions_tags());
    if let Some((index, _)) = tagged.filter(|(index, _)| (scope.visible)(*index) != Visibility::Nothing)
        && let Err(problem) = query.expand_tags(&known_tags(store, tenant, index)?)
    {
        return Ok(Err(problem));
    }
    let compiled = compile(&query, catalogue, tenant, now);
    Ok(compiled.and_then(|mut compiled| match compiled.linked_uses.iter().find(|other| !scope.sees_all(other.collection)) {
        Some(other) => {
            let all = if (scope.visible)(other.collection) == Visibility::Nothing { "" } else { "all of " };
            let message = format!("you may not read {all}`{}`", catalogue.collections[other.collection].name);
            Err(Diagnostic::new(other.span.clone(), message).help("leave out what is read of its records, or ask for the right to read it"))
        }
        None => {
            if let Visibility::Part(filter) = (scope.visible)(compiled.plan.collection) {
                filter.apply(&mut compiled.plan);
            }
            Ok(compiled)
        }
    }))
}
