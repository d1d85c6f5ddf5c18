//! Common parts of turning plans into SQL: definition look-ups, and sums.

use super::grouping::{GroupDialect, GroupedColumn};
use super::united::{united_column, united_rows};
use crate::damage::Damage;
use crate::plan::{AggregateFunction, PlanColumn, QueryPlan, mean_of};
use crate::{Result, StoreError};
use stook_catalogue::definition::{Catalogue, Collection, Field};
use stook_catalogue::ids::{FieldId, LinkId};
use stook_catalogue::links::Link;
use stook_catalogue::value::{FieldType, StructMember, Value};

/// Returns the link with this index, if it belongs to the collection.
pub fn link_of<'c>(catalogue: &'c Catalogue, collection: &Collection, index: LinkId) -> Result<&'c Link> {
    let link = catalogue.links.get(index).filter(|link| catalogue.collections[link.child_collection].name == collection.name);
    link.ok_or_else(|| StoreError::Wrong("there is no such link".into()))
}

/// Returns the list of structs whose elements are the rows: [`QueryPlan::each`].
pub fn struct_list(collection: &Collection, each: Option<FieldId>) -> Result<Option<&Field>> {
    let Some(index) = each else { return Ok(None) };
    let list = collection.fields.get(index).filter(|field| !field.golden_type().members().is_empty());
    list.map(Some).ok_or_else(|| StoreError::Wrong("there is no such list of structs".into()))
}

/// Returns a member of these structs.
pub fn member(collection: &Collection, each: Option<FieldId>, index: usize) -> Result<&StructMember> {
    let list = struct_list(collection, each)?;
    let member = list.and_then(|field| field.ty.members().get(index));
    member.ok_or_else(|| StoreError::Wrong("there is no such member".into()))
}

/// The error for a search for words in a column that has no index of them.
pub fn no_words(column: &str) -> StoreError {
    StoreError::Wrong(format!("`{column}` has no index of words"))
}

/// The error for a record with an unreadable value in a column.
pub fn unreadable(collection: &Collection, column: &str, reason: &str) -> StoreError {
    let row = format!("a record of `{}` that the query finds", collection.name);
    StoreError::Damaged(Damage::of_row(row, format!("`{column}`: {reason} (`stook check --deep` names the record)")))
}

/// The plan without its order and page.
pub fn all_rows(plan: &QueryPlan) -> QueryPlan {
    QueryPlan { sort: Vec::new(), offset: 0, limit: None, ..plan.clone() }
}

/// Returns the statement whose column `v` has the values to aggregate, one per row of the plan. `from` is the FROM clause, `column_of` returns the SQL
/// of a column in it.
pub fn aggregated_values_sql<E: From<StoreError>>(
    dialect: &impl GroupDialect,
    plan: &QueryPlan,
    column: PlanColumn,
    from: &str,
    column_of: impl Fn(PlanColumn) -> std::result::Result<GroupedColumn, E>,
) -> std::result::Result<String, E> {
    if !plan.distinct {
        return Ok(format!("SELECT {} AS v FROM {from}", column_of(column)?.sql));
    }
    let Some(aggregated) = plan.columns.iter().position(|other| *other == column) else {
        return Err(StoreError::Wrong(format!("unique rows have no `{}`", column_of(column)?.name)).into());
    };
    let columns: Vec<GroupedColumn> = plan.columns.iter().map(|column| column_of(*column)).collect::<std::result::Result<_, E>>()?;
    if let Some(ranges) = united_column(columns.iter().map(|column| &column.ty)) {
        let own: Vec<String> = columns.into_iter().map(|column| column.sql).collect();
        return Ok(format!("SELECT u{aggregated} AS v FROM ({}) AS united", united_rows(dialect, &own, &[], ranges, from)));
    }
    let name = |index: usize| if index == aggregated { "v".to_owned() } else { format!("c{index}") };
    let selected: Vec<String> = columns.iter().enumerate().map(|(index, column)| format!("{} AS {}", column.sql, name(index))).collect();
    Ok(format!("SELECT DISTINCT {} FROM {from}", selected.join(", ")))
}

/// The sum or the mean of at least one float.
pub fn float_aggregate(function: AggregateFunction, count: i64, sum: Option<f64>) -> Result<Value> {
    let sum = sum.filter(|sum| sum.is_finite()).ok_or_else(|| StoreError::Wrong("the sum is too large for a float".into()))?;
    Ok(Value::Float(if function == AggregateFunction::Avg { sum / count as f64 } else { sum }))
}

/// The sum or the mean of at least one whole number.
pub fn integer_aggregate(function: AggregateFunction, count: i64, sum: i128, ty: &FieldType) -> Result<Value> {
    if function == AggregateFunction::Avg {
        return Ok(mean_of(sum, i128::from(count), ty));
    }
    i64::try_from(sum).map(Value::Int).map_err(|_| StoreError::Wrong("the sum does not fit 64 bits".into()))
}
