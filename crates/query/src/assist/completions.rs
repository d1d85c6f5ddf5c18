//! Completions of a text being typed: names of the definition, and values that records have.

use crate::language::as_value;
use crate::plan::QueryScope;
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::fold::fold;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::links::Link;
use stook_catalogue::value::{FieldType, Value};
use stook_store::plan::{Comparison, Condition, FUNCTIONS, PERCENTILE, PERIODS, PlanColumn, QueryPlan, SortKey};
use stook_store::{Result, Store, Visibility};

/// The maximum number of completions.
const MAX_COMPLETIONS: usize = 12;

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

/// Completions of the last word of a text: first collections and names of the definition, then fields, then values of an indexed field that the caller may read. After
/// aggregates `by`, and then what rows can be grouped by.
///
/// # Errors
/// When the store fails.
///
/// Cost: one index lookup for each value.
pub fn complete(text: &str, scope: &QueryScope<'_>) -> Result<Vec<Completion>> {
    let QueryScope { catalogue, .. } = *scope;
    let start = last_word(text);
    let (before, last) = text.split_at(start);
    let first = before.split([' ', ',', '\t']).find(|part| !part.is_empty());
    let alias = |name: &str| catalogue.aliases.iter().find(|alias| alias.name == name);
    let index = first.and_then(|name| catalogue.collection(name).map(|(index, _)| index).or_else(|| alias(name)?.select));
    let stage = before.rsplit_once('|').map_or("", |(_, stage)| stage.trim());
    let mut words: Vec<String> = match (index, last.split_once('=')) {
        (Some(index), None) if begins_with_aggregate(stage) => {
            let is_grouped = stage.split_whitespace().any(|word| word == "by");
            match (is_grouped, stage.ends_with(')')) {
                (true, _) => groups(&catalogue.collections[index]),
                (false, true) => vec!["by".into()],
                (false, false) => Vec::new(),
            }
        }
        (None, None) if first.is_none() => {
            let selecting = catalogue.aliases.iter().filter(|alias| alias.select.is_some()).map(|alias| alias.name.clone());
            catalogue.collections.iter().map(|collection| collection.name.clone()).chain(selecting).collect()
        }
        (Some(index), None) => {
            let collection = &catalogue.collections[index];
            let fields = collection.shown_fields().map(|(_, field)| field.name.as_str());
            let states = collection.states.iter().map(|state| state.name.as_str());
            let tag = collection.tags.as_ref().map(|_| "tag");
            let names = fields.chain(states).chain(tag).map(|name| format!("{name}="));
            let links = || catalogue.links.iter().filter(|link| link.child_collection == index);
            let of_records = links().filter(|link| scope.sees_all(link.target_collection)).flat_map(|link| linked_fields(catalogue, link, last));
            names.chain(links().map(|link| format!("{}.exists=", link.name))).chain(of_records).collect()
        }
        (Some(index), Some((name, prefix))) => {
            let prefix = prefix.trim_start_matches('"');
            let values = if prefix.contains(['*', '"']) { Vec::new() } else { values(scope, &BegunCondition { collection: index, name, prefix })? };
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
    words.truncate(MAX_COMPLETIONS);
    Ok(words.into_iter().map(|word| Completion { query: format!("{before}{word}"), word }).collect())
}

/// The fields of the records that a link leads to, if the link has been typed.
fn linked_fields(catalogue: &Catalogue, link: &Link, typed: &str) -> Vec<String> {
    if typed.strip_prefix(link.name.as_str()).is_none_or(|rest| !rest.starts_with('.')) {
        return Vec::new();
    }
    let target = &catalogue.collections[link.target_collection];
    let fields = target.shown_fields().map(|(_, field)| field.name.as_str());
    fields.chain(target.states.iter().map(|state| state.name.as_str())).map(|name| format!("{}.{name}=", link.name)).collect()
}

/// Whether a stage consists of aggregates.
fn begins_with_aggregate(stage: &str) -> bool {
    let name = stage.split_once('(').map_or("", |(name, _)| name.trim_end());
    name == PERCENTILE || FUNCTIONS.iter().any(|(_, known)| *known == name)
}

/// What rows of a collection can be grouped by.
fn groups(collection: &Collection) -> Vec<String> {
    let fields = collection.shown_fields().map(|(_, field)| (field.name.as_str(), field.golden_type()));
    let states = collection.states.iter().map(|state| (state.name.as_str(), &state.ty));
    let mut words = Vec::new();
    for (name, ty) in fields.chain(states).filter(|(_, ty)| ty.element().is_ordered()) {
        words.push(name.to_owned());
        if matches!(ty.element(), FieldType::Timestamp | FieldType::Date | FieldType::PartialDate) {
            words.extend(PERIODS.iter().map(|(_, period)| format!("{period}({name})")));
        }
    }
    words.extend(collection.tags.as_ref().map(|_| "tag".to_owned()));
    words
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
    prefix: &'b str,
}

/// Values of a field with this beginning.
fn values(scope: &QueryScope<'_>, condition: &BegunCondition<'_>) -> Result<Vec<String>> {
    let QueryScope { catalogue, store, tenant, .. } = *scope;
    let BegunCondition { collection: index, name, prefix } = *condition;
    let collection = &catalogue.collections[index];
    let visible = (scope.visible)(index);
    if visible == Visibility::Nothing {
        return Ok(Vec::new());
    }
    if name == "tag" && collection.tags.is_some() {
        return Ok(store.tags(tenant, index)?.tags.into_iter().map(|tag| tag.name).filter(|name| name.starts_with(prefix)).collect());
    }
    let is_link = |link: &Link| link.child_collection == index && name.strip_suffix(".exists") == Some(link.name.as_str());
    if collection.field(name).is_none() && catalogue.links.iter().any(is_link) {
        return Ok(["true", "false"].into_iter().filter(|value| value.starts_with(prefix)).map(str::to_owned).collect());
    }
    let field = collection.field(name).map(|(index, field)| match collection.key_field() == Some(index) {
        true => (PlanColumn::Key, field.golden_type(), &field.one_of, true),
        false => (PlanColumn::Field(index), field.golden_type(), &field.one_of, field.index.ordered),
    });
    let state = || collection.state(name).map(|(index, state)| (PlanColumn::State(index), &state.ty, &state.one_of, false));
    let Some((column, ty, one_of, is_indexed)) = field.or_else(state) else { return Ok(Vec::new()) };
    let shown =
        |values: &[Value]| -> Vec<String> { values.iter().map(|value| value.show(ty.element())).filter(|value| value.starts_with(prefix)).collect() };
    if !one_of.is_empty() {
        return Ok(shown(one_of));
    }
    match ty {
        FieldType::Boolean => Ok(shown(&[Value::Bool(true), Value::Bool(false)])),
        FieldType::Text if is_indexed => {
            let folds = column != PlanColumn::Key && collection.field(name).is_some_and(|(_, field)| field.fold);
            let mut plan = QueryPlan { columns: vec![column], ..QueryPlan::all(tenant.clone(), index) };
            if let Visibility::Part(filter) = visible {
                filter.apply(&mut plan);
            }
            indexed_values(plan, column, (prefix, folds), store)
        }
        _ => Ok(Vec::new()),
    }
}

/// Values in index order: each is looked up after the last one, however many records have that one.
fn indexed_values(plan: QueryPlan, column: PlanColumn, (prefix, folds): (&str, bool), store: &dyn Store) -> Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let begins = |text: &str| if folds { fold(text).starts_with(&fold(prefix)) } else { text.starts_with(prefix) };
    let plan = QueryPlan { sort: vec![SortKey { column, descending: false }], any_order: true, limit: Some(1), ..plan };
    while found.len() < MAX_COMPLETIONS {
        // a lower bound only, so that the index is searched from there
        let low = found.last().map_or((Value::text(prefix), true), |last| (Value::text(last.as_str()), false));
        let mut next = plan.clone();
        next.conditions.push(Condition { column, test: Comparison::Range { low: Some(low), high: None } });
        match store.find(&next)?.rows.pop().and_then(|mut row| row.pop()) {
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
    fn the_last_word_includes_an_open_quote() {
        for (text, last) in [("a b=c", "b=c"), ("a b=\"c d", "b=\"c d"), ("a,b", "b"), ("a ", ""), ("a b=\"c d\" e", "e"), ("", "")] {
            assert_eq!(&text[last_word(text)..], last, "{text}");
        }
    }
}
