//! What can be asked next of a record: the queries of other collections that have a meaning with it, such as the files of a dataset.

use crate::language::{as_value, identity, parse};
use crate::plan::compile;
use stook_catalogue::definition::{Catalogue, QueryAlias};
use stook_catalogue::ids::CollectionId;
use stook_store::{DEFAULT_TENANT, Tenant};

/// The queries that words make with a record, such as `file dataset=D` of the dataset D. `value_of` returns the text of a field of the record, or of its key.
pub fn questions(catalogue: &Catalogue, collection: CollectionId, value_of: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let selecting = || catalogue.aliases.iter().filter(|alias| alias.select.is_some());
    let Some(own) = selecting().find(|alias| alias.select == Some(collection)) else { return Vec::new() };
    let Some(value) = identity(catalogue, collection).and_then(value_of) else { return Vec::new() };
    // what the record has instead of the value that a query without this word asks for
    let own_field = |alias: &QueryAlias| {
        let test = alias.tests.iter().find(|test| test.fields.iter().any(|(of, _)| *of == collection))?;
        let (_, field) = test.fields.iter().find(|(of, _)| *of == collection)?;
        let value = value_of(field).filter(|value| test.default.as_ref().is_some_and(|default| default != value))?;
        Some(format!(" {}={}", alias.name, as_value(&value)))
    };
    let more: String = catalogue.aliases.iter().filter_map(own_field).collect();
    let condition = format!("{}={}", own.name, as_value(&value));
    let others = selecting().filter(|alias| alias.select != Some(collection));
    let query = |alias: &QueryAlias| {
        let wanted = [format!("{} {condition}{more}", alias.name), format!("{} {condition}", alias.name)];
        wanted.into_iter().find(|query| finds_another(catalogue, collection, query))
    };
    others.filter_map(query).collect()
}

/// Whether a query has a meaning, and finds records of another collection.
fn finds_another(catalogue: &Catalogue, collection: CollectionId, query: &str) -> bool {
    let (Ok(mut parsed), Ok(tenant)) = (parse(query), Tenant::new(DEFAULT_TENANT)) else { return false };
    parsed.apply_aliases(catalogue).is_ok() && compile(&parsed, catalogue, &tenant, 0).is_ok_and(|compiled| compiled.plan.collection != collection)
}
