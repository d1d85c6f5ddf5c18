//! Compiles a parsed query to a plan of the store: its stages become columns, order and aggregates.

use super::columns::{Resolver, ResultColumn};
use crate::language::{FieldPath, GrepItem, Query, Stage};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::{Diagnostic, did_you_mean};
use stook_catalogue::value::FieldType;
use stook_store::Tenant;
use stook_store::plan::{Aggregate, AggregateFunction, PlanColumn, QueryPlan, SortKey};

/// A query that is ready to be executed.
#[derive(Debug, Clone, PartialEq)]
pub struct CompiledQuery {
    /// The plan for the store.
    pub plan: QueryPlan,
    /// The name and type of each column, or of each aggregate.
    pub columns: Vec<ResultColumn>,
    /// Aggregates, instead of rows, if there are any.
    pub aggregates: Vec<Aggregate>,
}

/// Compiles a query. `now` is the time from which `last` counts back, in microseconds.
///
/// # Errors
/// The first name or value that does not fit the definition, with its position.
pub fn compile(query: &Query, catalogue: &Catalogue, tenant: &Tenant, now: i64) -> Result<CompiledQuery, Diagnostic> {
    let name = &query.lookup.collection;
    let Some((index, collection)) = catalogue.collection(&name.text) else {
        let problem = Diagnostic::new(name.span.clone(), format!("there is no collection `{}`", name.text));
        let known = || catalogue.collections.iter().map(|collection| collection.name.as_str());
        if let Some((first, field)) = name.text.split_once('.').filter(|(first, _)| known().any(|known| known == *first)) {
            return Err(problem.help(format!("write the collection first, then its fields: {first} {field}=value")));
        }
        return Err(match did_you_mean(&name.text, known()) {
            Some(suggestion) => problem.help(format!("did you mean `{suggestion}`?")),
            None => problem.help(format!("collections are {}", known().collect::<Vec<_>>().join(", "))),
        });
    };
    if let Some((_, problem)) = query.lookup.extra_names.first() {
        return Err((**problem).clone());
    }
    let mut resolver = Resolver { catalogue, collection, each: None, now };
    let mut plan = QueryPlan::all(tenant.clone(), index);
    plan.columns.clear();
    let mut columns = Vec::new();
    let mut results = Vec::new();
    let mut aggregates = Vec::new();
    // columns that are needed among those of unique rows
    let mut needed: Vec<(&FieldPath, PlanColumn, &str)> = Vec::new();
    for condition in &query.lookup.conditions {
        resolver.condition(condition, &mut plan.conditions)?;
    }
    for stage in &query.stages {
        match stage {
            Stage::Grep(items) => {
                for item in items {
                    match item {
                        GrepItem::Condition(condition) => resolver.condition(condition, &mut plan.conditions)?,
                        GrepItem::Column(path) => {
                            let (column, ty) = resolver.resolve(path)?;
                            if !plan.columns.contains(&column) {
                                plan.columns.push(column);
                                columns.push(ResultColumn { name: resolver.name_in_collection(path).to_owned(), ty });
                            }
                        }
                    }
                }
            }
            Stage::Sort(order) => {
                for (path, descending) in order {
                    let (column, ty) = resolver.resolve(path)?;
                    if !ty.is_ordered() {
                        let message = format!("`{}` is of type {ty}, which has no order", path.text);
                        return Err(Diagnostic::new(path.span.clone(), message).help("sort by a field with one value, or by `key`"));
                    }
                    plan.sort.push(SortKey { column, descending: *descending });
                    needed.push((path, column, "unique rows can only be sorted by a column they have"));
                }
            }
            Stage::Each(path) => {
                let list = resolver.structs(path)?;
                if plan.each.is_some() {
                    return Err(Diagnostic::new(path.span.clone(), "rows are of one list").help("ask twice, once for each list"));
                }
                (plan.each, resolver.each) = (Some(list), Some(list));
            }
            Stage::Unique => plan.distinct = true,
            Stage::Aggregates(wanted) => {
                for (function, path) in wanted {
                    let (column, ty) = resolver.resolve(path)?;
                    if let (PlanColumn::Field(field), Some(list)) = (column, plan.each)
                        && field == list
                    {
                        let name = resolver.name_in_collection(path);
                        let problem = Diagnostic::new(path.span.clone(), format!("a row is one element of `{name}` here, not the list"));
                        return Err(problem.help(format!("count(key) counts the rows, count({name}.MEMBER) those that have a value")));
                    }
                    aggregates.push(Aggregate { function: *function, column });
                    let name = function.name();
                    let ty = aggregate_type(*function, path, ty)?;
                    results.push(ResultColumn { name: format!("{name}({})", resolver.name_in_collection(path)), ty });
                    needed.push((path, column, "an aggregate of unique rows needs a column they have"));
                }
            }
        }
    }
    if plan.columns.is_empty() {
        (plan.columns, columns) = resolver.all_columns();
    }
    if plan.distinct && plan.columns.contains(&PlanColumn::Tag) {
        let span = query.lookup.collection.span.clone();
        return Err(Diagnostic::new(span, "tags cannot be columns of unique rows").help("count(tag) counts them"));
    }
    if plan.distinct
        && let Some((path, _, message)) = needed.iter().find(|(_, column, _)| !plan.columns.contains(column))
    {
        let problem = Diagnostic::new(path.span.clone(), *message);
        return Err(problem.help(format!("add it to the columns: grep {}", resolver.name_in_collection(path))));
    }
    let headings = if aggregates.is_empty() { columns } else { results };
    Ok(CompiledQuery { plan, columns: headings, aggregates })
}

/// The type of an aggregate.
fn aggregate_type(function: AggregateFunction, path: &FieldPath, ty: FieldType) -> Result<FieldType, Diagnostic> {
    let element = ty.element().clone();
    let numeric = matches!(element, FieldType::Integer | FieldType::Float | FieldType::Size | FieldType::Duration);
    let (ranges, ordered) = (element == FieldType::Ranges, element.is_ordered());
    let wrong = |reason: &str| {
        let problem = Diagnostic::new(path.span.clone(), format!("`{}` is of type {ty}, {reason}", path.text));
        Err(problem.help(format!("count({}) takes values of any type", path.text)))
    };
    match function {
        AggregateFunction::Count => Ok(FieldType::Integer),
        AggregateFunction::Min | AggregateFunction::Max if ranges => Ok(FieldType::Integer),
        AggregateFunction::Min | AggregateFunction::Max if ordered => Ok(element),
        AggregateFunction::Min | AggregateFunction::Max => wrong("which has no order"),
        AggregateFunction::Sum | AggregateFunction::Avg | AggregateFunction::Median if !numeric => wrong("not a number"),
        // a median is a value; the mean of two values may have a fraction whatever the type
        AggregateFunction::Sum | AggregateFunction::Median => Ok(element),
        // a mean of integers may have a fraction
        AggregateFunction::Avg => Ok(if element == FieldType::Duration { element } else { FieldType::Float }),
    }
}
