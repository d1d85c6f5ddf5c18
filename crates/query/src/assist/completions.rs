//! Completions of a text being typed: names of the definition, and values that records have.

use crate::language::as_value;
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::fold::fold;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::links::Link;
use stook_catalogue::value::{FieldType, Value};
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan, SortKey};
use stook_store::{Result, Store, Tenant};

/// The maximum number of completions.
const COMPLETIONS: usize = 12;

/// A completion of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// The word.
    pub word: String,
    /// The text, completed with this word.
    pub query: String,
}

impl Completion {
    /// The JSON form.
    pub fn to_json(&self) -> Json {
        json!({ "word": self.word, "query": self.query })
    }
}

/// Completions of the last word of a text: first collections and names of the definition, then fields, then values of an indexed field.
///
/// # Errors
/// When the store fails.
///
/// Cost: one index lookup for each value.
pub fn complete(text: &str, catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant) -> Result<Vec<Completion>> {
    let start = last_word(text);
    let (before, last) = text.split_at(start);
    let first = before.split([' ', ',', '\t']).find(|part| !part.is_empty());
    let word = |name: &str| catalogue.words.iter().find(|word| word.name == name);
    let index = first.and_then(|name| catalogue.collection(name).map(|(index, _)| index).or_else(|| word(name)?.select));
    let mut words: Vec<String> = match (index, last.split_once('=')) {
        (None, None) if first.is_none() => {
            let selecting = catalogue.words.iter().filter(|word| word.select.is_some()).map(|word| word.name.clone());
            catalogue.collections.iter().map(|collection| collection.name.clone()).chain(selecting).collect()
        }
        (Some(index), None) => {
            let collection = &catalogue.collections[index];
            let fields = collection.shown_fields().map(|(_, field)| field.name.as_str());
            let states = collection.states.iter().map(|state| state.name.as_str());
            let tag = collection.tags.as_ref().map(|_| "tag");
            let names = fields.chain(states).chain(tag).map(|name| format!("{name}="));
            let links = catalogue.links.iter().filter(|link| link.child_collection == index);
            names.chain(links.map(|link| format!("{}.exists=", link.name))).collect()
        }
        (Some(index), Some((name, begun))) => {
            let begun = begun.trim_start_matches('"');
            let values = if begun.contains(['*', '"']) {
                Vec::new()
            } else {
                values(catalogue, store, tenant, &BegunCondition { collection: index, name, begun })?
            };
            values.iter().map(|value| format!("{name}={}", as_value(value))).collect()
        }
        _ => Vec::new(),
    };
    if !last.contains('=') {
        words.retain(|word| word.starts_with(last));
    }
    words.retain(|word| word != last);
    let mut seen = HashSet::new();
    words.retain(|word| seen.insert(word.clone()));
    words.truncate(COMPLETIONS);
    Ok(words.into_iter().map(|word| Completion { query: format!("{before}{word}"), word }).collect())
}

/// The start of the last word of a text; a quoted text is one word.
fn last_word(text: &str) -> usize {
    let (mut start, mut is_quoted) = (0, false);
    for (at, character) in text.char_indices() {
        match character {
            '"' => is_quoted = !is_quoted,
            ' ' | '\t' | ',' | '|' if !is_quoted => start = at + character.len_utf8(),
            _ => {}
        }
    }
    start
}

/// A condition that is being typed.
struct BegunCondition<'b> {
    collection: CollectionId,
    /// The name of the field.
    name: &'b str,
    /// The beginning of its value.
    begun: &'b str,
}

/// Values of a field with this beginning.
fn values(catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant, condition: &BegunCondition<'_>) -> Result<Vec<String>> {
    let BegunCondition { collection: index, name, begun } = *condition;
    let collection = &catalogue.collections[index];
    if name == "tag" && collection.tags.is_some() {
        return Ok(store.tags(tenant, index)?.tags.into_iter().map(|tag| tag.name).filter(|name| name.starts_with(begun)).collect());
    }
    let is_link = |link: &Link| link.child_collection == index && name.strip_suffix(".exists") == Some(link.name.as_str());
    if collection.field(name).is_none() && catalogue.links.iter().any(is_link) {
        return Ok(["true", "false"].into_iter().filter(|value| value.starts_with(begun)).map(str::to_owned).collect());
    }
    let field = collection.field(name).map(|(place, field)| match collection.key_field() == Some(place) {
        true => (PlanColumn::Key, field.golden_type(), &field.one_of, true),
        false => (PlanColumn::Field(place), field.golden_type(), &field.one_of, field.index.ordered),
    });
    let state = || collection.state(name).map(|(place, state)| (PlanColumn::State(place), &state.ty, &state.one_of, false));
    let Some((column, ty, one_of, is_indexed)) = field.or_else(state) else { return Ok(Vec::new()) };
    let shown =
        |values: &[Value]| -> Vec<String> { values.iter().map(|value| value.show(ty.element())).filter(|value| value.starts_with(begun)).collect() };
    if !one_of.is_empty() {
        return Ok(shown(one_of));
    }
    match ty {
        FieldType::Boolean => Ok(shown(&[Value::Bool(true), Value::Bool(false)])),
        FieldType::Text if is_indexed => {
            let folds = column != PlanColumn::Key && collection.field(name).is_some_and(|(_, field)| field.fold);
            indexed_values(QueryPlan { columns: vec![column], ..QueryPlan::all(tenant.clone(), index) }, column, (begun, folds), store)
        }
        _ => Ok(Vec::new()),
    }
}

/// Values in index order: each is looked up after the last one, however many records have that one.
fn indexed_values(plan: QueryPlan, column: PlanColumn, (begun, folds): (&str, bool), store: &dyn Store) -> Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let begins = |text: &str| if folds { fold(text).starts_with(&fold(begun)) } else { text.starts_with(begun) };
    let plan = QueryPlan { sort: vec![SortKey { column, descending: false }], any_order: true, limit: Some(1), ..plan };
    while found.len() < COMPLETIONS {
        // a lower bound only, so that the index is searched from there
        let low = found.last().map_or((Value::text(begun), true), |last| (Value::text(last.as_str()), false));
        let conditions = vec![Condition { column, test: Comparison::Range { low: Some(low), high: None } }];
        match store.find(&QueryPlan { conditions, ..plan.clone() })?.rows.pop().and_then(|mut row| row.pop()) {
            Some(Value::Text(text)) if begins(&text) => found.push(text.into()),
            _ => break,
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_may_stand_in_quotes() {
        for (text, last) in [("a b=c", "b=c"), ("a b=\"c d", "b=\"c d"), ("a,b", "b"), ("a ", ""), ("a b=\"c d\" e", "e"), ("", "")] {
            assert_eq!(&text[last_word(text)..], last, "{text}");
        }
    }
}
