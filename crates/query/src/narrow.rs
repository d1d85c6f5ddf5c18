//! How a query may be narrowed: values of fields among what it finds, and how a text that is being typed goes on.

use crate::CompiledQuery;
use crate::parse::{QueryCondition, Selection, ends_bare, parse};
use serde_json::{Value as Json, json};
use std::collections::{HashMap, HashSet};
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::fold::fold;
use stook_catalogue::links::Link;
use stook_catalogue::value::{FieldType, Value};
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan, SortKey};
use stook_store::{Result, Store, Tenant};

/// Records whose values are counted.
pub const COUNTED: u64 = 5_000;
/// Fields of which values are shown.
const FACETS: usize = 8;
/// Values that are shown of a field.
const VALUES: usize = 8;
/// A field with more values than this tells records apart rather than kinds of them.
const MOST_VALUES: usize = 500;
/// Words a text may go on with.
const COMPLETIONS: usize = 12;

/// Values of the indexed fields of what a query finds, with how many records have them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facets {
    /// Records whose values were counted: [`COUNTED`] of them, as they are found, or all.
    pub counted: u64,
    /// Whether that is all of them.
    pub is_complete: bool,
    /// By field, in the order of the definition.
    pub facets: Vec<Facet>,
    /// Conditions of the query, each with the query that goes without it.
    pub conditions: Vec<(String, String)>,
}

/// Values of a field.
#[derive(Debug, Clone, PartialEq)]
pub struct Facet {
    /// The field.
    pub field: String,
    /// The most frequent values: as text, records that have it, and the query that asks for those alone.
    pub values: Vec<(String, u64, String)>,
    /// How many other values there are.
    pub others: usize,
}

impl Facets {
    /// As it is shown.
    pub fn to_json(&self) -> Json {
        let value = |(value, records, query): &(String, u64, String)| json!({ "value": value, "records": records, "query": query });
        let facet = |own: &Facet| json!({ "field": own.field, "values": own.values.iter().map(value).collect::<Vec<_>>(), "others": own.others });
        let condition = |(condition, without): &(String, String)| json!({ "condition": condition, "without": without });
        let facets: Vec<Json> = self.facets.iter().map(facet).collect();
        let conditions: Vec<Json> = self.conditions.iter().map(condition).collect();
        json!({ "counted": self.counted, "whole": self.is_complete, "facets": facets, "conditions": conditions })
    }
}

/// Counts values among what `text`, which was resolved to `compiled`, finds. Rows that are not records have none.
///
/// # Errors
/// When the store fails.
///
/// Cost: reads at most [`COUNTED`] records, once.
pub fn facets(text: &str, compiled: &CompiledQuery, catalogue: &Catalogue, store: &dyn Store) -> Result<Facets> {
    let plan = &compiled.plan;
    let collection = &catalogue.collections[plan.collection];
    let Ok(lookup) = parse(text).map(|query| query.lookup) else { return Ok(Facets::default()) };
    let conditions = conditions(text, &lookup);
    if plan.distinct || plan.each.is_some() || !compiled.aggregates.is_empty() {
        return Ok(Facets { conditions, ..Facets::default() });
    }
    let kinds = kinds(collection);
    let columns = kinds.iter().map(|(_, column, _)| *column).collect();
    let read = QueryPlan { columns, sort: Vec::new(), any_order: true, offset: 0, limit: Some(COUNTED + 1), ..plan.clone() };
    let (mut counted, mut whole) = (0, true);
    // nothing for a field with too many values
    let mut counts: Vec<Option<HashMap<String, u64>>> = vec![Some(HashMap::new()); kinds.len()];
    store.visit(&read, &mut |row| {
        if counted == COUNTED {
            whole = false;
            return Ok(());
        }
        counted += 1;
        for ((value, (_, _, ty)), counts) in row.iter().zip(&kinds).zip(&mut counts) {
            let Some(known) = counts else { continue };
            match value {
                Value::Null => {}
                Value::List(elements) => {
                    let is_first = |(place, element): &(usize, &Value)| !elements[..*place].contains(element);
                    elements.iter().enumerate().filter(is_first).for_each(|(_, element)| count(known, element, ty.element()));
                }
                value => count(known, value, ty),
            }
            if known.len() > MOST_VALUES {
                *counts = None;
            }
        }
        Ok(())
    })?;
    let mut facets = Vec::new();
    for ((name, ..), counts) in kinds.into_iter().zip(counts) {
        let Some(counts) = counts else { continue };
        let mut all: Vec<(String, u64)> = counts.into_iter().collect();
        all.sort_by(|(a, more), (b, less)| less.cmp(more).then_with(|| a.cmp(b)));
        // one value for all narrows nothing; one for each says what rows say
        let narrows = all.len() > 1 || all.first().is_some_and(|(_, number)| *number < counted);
        let repeats = all.first().is_some_and(|(_, number)| *number > 1);
        if !narrows || !repeats || facets.len() >= FACETS {
            continue;
        }
        let others = all.len().saturating_sub(VALUES);
        let value = |(shown, number): (String, u64)| {
            let query = format!("{} {}={}{}", &text[..lookup.end], path(catalogue, collection, &name), as_value(&shown), &text[lookup.end..]);
            (shown, number, query)
        };
        let values = all.into_iter().take(VALUES).map(value).collect();
        facets.push(Facet { field: name, values, others });
    }
    Ok(Facets { counted, is_complete: whole, facets, conditions })
}

/// Conditions of a query as they are written, each with the text without it; one that selects the collection, too, is not left out.
fn conditions(text: &str, lookup: &Selection) -> Vec<(String, String)> {
    let selects = |own: &&QueryCondition| own.span.contains(&lookup.collection.span.start);
    let without = |own: &QueryCondition| {
        let (before, after) = (text[..own.span.start].trim_end_matches([' ', ',', '\t', '\n']), &text[own.span.end..]);
        (text[own.span.clone()].to_owned(), format!("{before}{after}"))
    };
    let parses = |(_, without): &(String, String)| parse(without).is_ok();
    lookup.conditions.iter().filter(|own| !selects(own)).map(without).filter(parses).collect()
}

/// Counts a value by its text.
fn count(known: &mut HashMap<String, u64>, value: &Value, ty: &FieldType) {
    if let Value::Text(text) = value
        && let Some(number) = known.get_mut(&**text)
    {
        *number += 1;
        return;
    }
    *known.entry(value.show(ty)).or_default() += 1;
}

/// Fields that an index finds and that may tell kinds of records from each other.
fn kinds(collection: &Collection) -> Vec<(String, PlanColumn, FieldType)> {
    let is_kind = |ty: &FieldType| matches!(ty.element(), FieldType::Text | FieldType::Boolean | FieldType::Integer);
    let key = collection.key_field();
    let fields = collection.fields.iter().enumerate();
    let fields = fields.filter(|(index, field)| field.index.ordered && !field.is_member() && Some(*index) != key && is_kind(field.golden_type()));
    let states = collection.states.iter().enumerate().filter(|(_, state)| is_kind(&state.ty));
    let tags = collection.tags.as_ref().map(|_| ("tag".to_owned(), PlanColumn::Tag, FieldType::List(Box::new(FieldType::Text))));
    states
        .map(|(index, state)| (state.name.clone(), PlanColumn::State(index), state.ty.clone()))
        .chain(tags)
        .chain(fields.map(|(index, field)| (field.name.clone(), PlanColumn::Field(index), field.golden_type().clone())))
        .collect()
}

/// The name of a field in a query, where a word may mean something else.
fn path(catalogue: &Catalogue, collection: &Collection, field: &str) -> String {
    let is_word = catalogue.words.iter().any(|word| word.name == field);
    if is_word { format!("{}.{field}", collection.name) } else { field.to_owned() }
}

/// A text as a query takes it for a value: in quotes where it needs some.
pub fn as_value(text: &str) -> String {
    let is_plain = |character: char| !ends_bare(character) && !matches!(character, '*' | '\\');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for character in text.chars() {
        if matches!(character, '"' | '\\' | '*') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
    out
}

/// A word that a text may go on with.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// The word.
    pub word: String,
    /// The text with it.
    pub query: String,
}

impl Completion {
    /// As it is shown.
    pub fn to_json(&self) -> Json {
        json!({ "word": self.word, "query": self.query })
    }
}

/// What the last word of a text could become: collections and words of the definition first, then fields, then values of an indexed field.
///
/// # Errors
/// When the store fails.
///
/// Cost: one look-up in an index for each value.
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
            let values = if begun.contains(['*', '"']) { Vec::new() } else { values(catalogue, index, name, begun, store, tenant)? };
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

/// Where the last word of a text begins; what stands in quotes is one.
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

/// Values of a field that begin so.
fn values(catalogue: &Catalogue, index: usize, name: &str, begun: &str, store: &dyn Store, tenant: &Tenant) -> Result<Vec<String>> {
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

/// Values in the order of an index: each is looked for behind the last one, however many records have that.
fn indexed_values(plan: QueryPlan, column: PlanColumn, (begun, folds): (&str, bool), store: &dyn Store) -> Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let begins = |text: &str| if folds { fold(text).starts_with(&fold(begun)) } else { text.starts_with(begun) };
    let plan = QueryPlan { sort: vec![SortKey { column, descending: false }], any_order: true, limit: Some(1), ..plan };
    while found.len() < COMPLETIONS {
        // one bound, so that the index is entered at it
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

    #[test]
    fn values_are_quoted_where_they_need_it() {
        for (text, value) in [("a/b:c", "a/b:c"), ("", "\"\""), ("a b", "\"a b\""), ("a*", "\"a\\*\""), ("a\"b", "\"a\\\"b\""), ("x=1", "\"x=1\"")] {
            assert_eq!(as_value(text), value);
            let query = parse(&format!("c f={value}")).expect("valid");
            assert_eq!(query.lookup.conditions[0].values[0].literal(), Some(text));
        }
    }
}
