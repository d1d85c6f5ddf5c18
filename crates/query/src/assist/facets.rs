//! How a query may be narrowed: the values of fields among the records it finds, and the query without each of its conditions.

use crate::language::{QueryCondition, Selection, as_value, parse};
use crate::plan::CompiledQuery;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::value::{FieldType, Value};
use stook_store::plan::{PlanColumn, QueryPlan};
use stook_store::{Result, Store};

/// Records whose values are counted.
pub const COUNTED: u64 = 5_000;
/// Fields of which values are shown.
const FACETS: usize = 8;
/// Values that are shown of a field.
const VALUES: usize = 8;
/// A field with more values than this tells records apart rather than kinds of them.
const MAX_VALUES: usize = 500;
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

/// A value of a field.
#[derive(Debug, Clone, PartialEq)]
pub struct FacetValue {
    /// As text.
    pub value: String,
    /// How many records have it.
    pub records: u64,
    /// The query that finds those alone.
    pub query: String,
}

/// Values of a field.
#[derive(Debug, Clone, PartialEq)]
pub struct Facet {
    /// The field.
    pub field: String,
    /// The most frequent values.
    pub values: Vec<FacetValue>,
    /// How many other values there are.
    pub others: usize,
}

impl Facets {
    /// As it is shown.
    pub fn to_json(&self) -> Json {
        let value = |own: &FacetValue| json!({ "value": own.value, "records": own.records, "query": own.query });
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
            if known.len() > MAX_VALUES {
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
        let value = |(value, records): (String, u64)| {
            let query = format!("{} {}={}{}", &text[..lookup.end], path(catalogue, collection, &name), as_value(&value), &text[lookup.end..]);
            FacetValue { value, records, query }
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
    let fields = collection.fields.enumerate();
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
