//! How a query can be narrowed or widened: the values of fields among the records it finds, and the query without each of its conditions.

use crate::language::{QueryCondition, Selection, as_value, parse};
use crate::plan::CompiledQuery;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::value::{FieldType, Value};
use stook_store::plan::{PlanColumn, QueryPlan};
use stook_store::{Result, Store};

/// The maximum number of records whose values are counted.
pub const COUNTED: u64 = 5_000;
/// The maximum number of fields that are shown.
const MAX_FACETS: usize = 8;
/// The maximum number of values that are shown for a field.
const MAX_FACET_VALUES: usize = 8;
/// A field with more values than this identifies records rather than kinds of records.
const MAX_DISTINCT_VALUES: usize = 500;
/// The values of indexed fields among the records a query finds, with the number of records that have each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facets {
    /// Number of records whose values were counted: the first [`COUNTED`] that were found, or all.
    pub counted: u64,
    /// Whether these are all records that the query finds.
    pub is_complete: bool,
    /// By field, in the order of the definition.
    pub facets: Vec<Facet>,
    /// The conditions of the query, each with the query without it.
    pub conditions: Vec<(String, String)>,
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq)]
pub struct FacetValue {
    /// The value as text.
    pub value: String,
    /// Number of records that have it.
    pub records: u64,
    /// The query that finds only these.
    pub query: String,
}

/// Values of a field.
#[derive(Debug, Clone, PartialEq)]
pub struct Facet {
    /// The field.
    pub field: String,
    /// The most frequent values.
    pub values: Vec<FacetValue>,
    /// Number of values that are not shown.
    pub others: usize,
}

impl Facets {
    /// The JSON form.
    pub fn to_json(&self) -> Json {
        let value = |item: &FacetValue| json!({ "value": item.value, "records": item.records, "query": item.query });
        let facet = |item: &Facet| json!({ "field": item.field, "values": item.values.iter().map(value).collect::<Vec<_>>(), "others": item.others });
        let condition = |(condition, without): &(String, String)| json!({ "condition": condition, "without": without });
        let facets: Vec<Json> = self.facets.iter().map(facet).collect();
        let conditions: Vec<Json> = self.conditions.iter().map(condition).collect();
        json!({ "counted": self.counted, "whole": self.is_complete, "facets": facets, "conditions": conditions })
    }
}

/// Counts values among the records that `text`, resolved to `compiled`, finds. Rows that are not records have no facets.
///
/// # Errors
/// When the store fails.
///
/// Cost: reads at most [`COUNTED`] records once.
pub fn facets(text: &str, compiled: &CompiledQuery, catalogue: &Catalogue, store: &dyn Store) -> Result<Facets> {
    let plan = &compiled.plan;
    let collection = &catalogue.collections[plan.collection];
    let Ok(lookup) = parse(text).map(|query| query.lookup) else { return Ok(Facets::default()) };
    let conditions = conditions(text, &lookup);
    if plan.distinct || plan.each.is_some() || !compiled.aggregates.is_empty() {
        return Ok(Facets { conditions, ..Facets::default() });
    }
    // what follows alternatives without parentheses belongs to the last of them
    let narrowed = match lookup.open_alternatives {
        Some(start) if start < lookup.collection.span.end => return Ok(Facets { conditions, ..Facets::default() }),
        Some(start) => format!("{}({})", &text[..start], &text[start..lookup.end]),
        None => text[..lookup.end].to_owned(),
    };
    let candidates = facet_columns(collection);
    let columns = candidates.iter().map(|(_, column, _)| *column).collect();
    let read = QueryPlan { columns, sort: Vec::new(), any_order: true, offset: 0, limit: Some(COUNTED + 1), ..plan.clone() };
    let (mut counted, mut is_complete) = (0, true);
    // `None` for a field with too many values
    let mut counts: Vec<Option<HashMap<String, u64>>> = vec![Some(HashMap::new()); candidates.len()];
    store.visit(&read, &mut |row| {
        if counted == COUNTED {
            is_complete = false;
            return Ok(());
        }
        counted += 1;
        for ((value, (_, _, ty)), counts) in row.iter().zip(&candidates).zip(&mut counts) {
            let Some(seen) = counts else { continue };
            match value {
                Value::Null => {}
                Value::List(elements) => {
                    let is_first = |(position, element): &(usize, &Value)| !elements[..*position].contains(element);
                    elements.iter().enumerate().filter(is_first).for_each(|(_, element)| count(seen, element, ty.element()));
                }
                value => count(seen, value, ty),
            }
            if seen.len() > MAX_DISTINCT_VALUES {
                *counts = None;
            }
        }
        Ok(())
    })?;
    let mut facets = Vec::new();
    for ((name, ..), counts) in candidates.into_iter().zip(counts) {
        let Some(counts) = counts else { continue };
        let mut all: Vec<(String, u64)> = counts.into_iter().collect();
        all.sort_by(|(a, more), (b, less)| less.cmp(more).then_with(|| a.cmp(b)));
        // one value that all records have narrows nothing; values that are all different only repeat the rows
        let narrows = all.len() > 1 || all.first().is_some_and(|(_, number)| *number < counted);
        let repeats = all.first().is_some_and(|(_, number)| *number > 1);
        if !narrows || !repeats || facets.len() >= MAX_FACETS {
            continue;
        }
        let others = all.len().saturating_sub(MAX_FACET_VALUES);
        let value = |(value, records): (String, u64)| {
            let query = format!("{narrowed} {}={}{}", path(catalogue, collection, &name), as_value(&value), &text[lookup.end..]);
            FacetValue { value, records, query }
        };
        let values = all.into_iter().take(MAX_FACET_VALUES).map(value).collect();
        facets.push(Facet { field: name, values, others });
    }
    Ok(Facets { counted, is_complete, facets, conditions })
}

/// The conditions of a query as they are written, each with the text without it; except one that also names the collection.
fn conditions(text: &str, lookup: &Selection) -> Vec<(String, String)> {
    let selects = |condition: &&QueryCondition| condition.span.contains(&lookup.collection.span.start);
    let without = |condition: &QueryCondition| {
        let (before, after) = (text[..condition.span.start].trim_end_matches([' ', ',', '\t', '\n']), &text[condition.span.end..]);
        (text[condition.span.clone()].to_owned(), format!("{before}{after}"))
    };
    let parses = |(_, without): &(String, String)| parse(without).is_ok();
    lookup.conditions.iter().filter(|condition| !selects(condition)).map(without).filter(parses).collect()
}

/// Counts a value by its text.
fn count(counts: &mut HashMap<String, u64>, value: &Value, ty: &FieldType) {
    if let Value::Text(text) = value
        && let Some(number) = counts.get_mut(&**text)
    {
        *number += 1;
        return;
    }
    *counts.entry(value.show(ty)).or_default() += 1;
}

/// Fields that are indexed and may distinguish kinds of records.
fn facet_columns(collection: &Collection) -> Vec<(String, PlanColumn, FieldType)> {
    let is_countable = |ty: &FieldType| matches!(ty.element(), FieldType::Text | FieldType::Boolean | FieldType::Integer);
    let key = collection.key_field();
    let fields = collection.fields.enumerate();
    let fields =
        fields.filter(|(index, field)| field.index.ordered && !field.is_member() && Some(*index) != key && is_countable(field.golden_type()));
    let states = collection.states.iter().enumerate().filter(|(_, state)| is_countable(&state.ty));
    let tags = collection.tags.as_ref().map(|_| ("tag".to_owned(), PlanColumn::Tag, FieldType::List(Box::new(FieldType::Text))));
    states
        .map(|(index, state)| (state.name.clone(), PlanColumn::State(index), state.ty.clone()))
        .chain(tags)
        .chain(fields.map(|(index, field)| (field.name.clone(), PlanColumn::Field(index), field.golden_type().clone())))
        .collect()
}

/// The name of a field in a query, with its collection's name if an alias has the same name.
fn path(catalogue: &Catalogue, collection: &Collection, field: &str) -> String {
    let is_alias = catalogue.aliases.iter().any(|alias| alias.name == field);
    if is_alias { format!("{}.{field}", collection.name) } else { field.to_owned() }
}
