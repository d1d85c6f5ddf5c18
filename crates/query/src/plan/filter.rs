//! The filter of a right, `read:book[library=north]`: conditions on the records of its collection.

use super::compile::compile;
use crate::language::parse;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_store::plan::CombinedCondition;
use stook_store::{RecordFilter, Tenant};

/// The filter of the records of a collection that satisfy the conditions of one of several rights. Words that the definition has for fields do not count in
/// them, so that a right means the same whatever they stand for. `hides` says whether the other records are also invisible; `now` is as for [`crate::resolve`].
///
/// # Errors
/// What is wrong with the conditions, in words.
pub fn record_filter(
    catalogue: &Catalogue,
    collection: CollectionId,
    conditions: &[&str],
    hides: bool,
    tenant: &Tenant,
    now: i64,
) -> Result<RecordFilter, String> {
    let definition = &catalogue.collections[collection];
    let mut alternatives = Vec::new();
    for text in conditions {
        alternatives.push(all_of(catalogue, collection, text, tenant, now).map_err(|reason| format!("[{text}]: {reason}"))?);
    }
    let combined = match alternatives.len() {
        1 => alternatives.pop().unwrap_or_default(),
        _ => vec![CombinedCondition::Any(alternatives.into_iter().map(CombinedCondition::All).collect())],
    };
    RecordFilter::new(definition, combined, conditions.join(" or "), hides)
}

/// The conditions of one right, all of which must hold.
fn all_of(catalogue: &Catalogue, collection: CollectionId, text: &str, tenant: &Tenant, now: i64) -> Result<Vec<CombinedCondition>, String> {
    let name = &catalogue.collections[collection].name;
    let in_words = |problem: stook_catalogue::diagnostic::Diagnostic| match problem.help {
        Some(help) => format!("{}; {help}", problem.message),
        None => problem.message,
    };
    let query = parse(&format!("{name} {text}")).map_err(in_words)?;
    let lookup = &query.lookup;
    let has_conditions = !lookup.conditions.is_empty() || !lookup.combined.is_empty();
    if !query.stages.is_empty() || lookup.collection.text != *name || !lookup.extra_names.is_empty() || !has_conditions {
        return Err(format!("a right has only conditions on the records of `{name}`, such as library=north"));
    }
    let plan = compile(&query, catalogue, tenant, now).map_err(in_words)?.plan;
    Ok(plan.conditions.into_iter().map(CombinedCondition::Is).chain(plan.combined).collect())
}
