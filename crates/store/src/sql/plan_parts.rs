//! Plans on their way to SQL: their parts by the definition, and what is made of sums.

use crate::damage::Damage;
use crate::plan::{AggregateFunction, PlanColumn, QueryPlan, mean_of};
use crate::{Result, StoreError};
use stook_catalogue::definition::{Catalogue, Collection, Field};
use stook_catalogue::ids::{FieldId, LinkId};
use stook_catalogue::links::Link;
use stook_catalogue::value::{FieldType, StructMember, Value};

/// The link of a collection with this index, if it is one of its own.
pub fn link_of<'c>(catalogue: &'c Catalogue, collection: &Collection, index: LinkId) -> Result<&'c Link> {
    let own = catalogue.links.get(index).filter(|link| catalogue.collections[link.child_collection].name == collection.name);
    own.ok_or_else(|| StoreError::Wrong("there is no such link".into()))
}

/// The list of structs that rows are of: [`QueryPlan::each`].
pub fn structs(collection: &Collection, each: Option<FieldId>) -> Result<Option<&Field>> {
    let Some(index) = each else { return Ok(None) };
    let list = collection.fields.get(index).filter(|field| !field.golden_type().members().is_empty());
    list.map(Some).ok_or_else(|| StoreError::Wrong("there is no such list of structs".into()))
}

/// A member of them.
pub fn member(collection: &Collection, each: Option<FieldId>, index: usize) -> Result<&StructMember> {
    let list = structs(collection, each)?;
    let member = list.and_then(|field| field.ty.members().get(index));
    member.ok_or_else(|| StoreError::Wrong("there is no such member".into()))
}

/// Says that a record that was found has no readable value in a column.
pub fn unreadable(collection: &Collection, column: &str, unfit: &str) -> StoreError {
    let row = format!("a record of `{}` that the query finds", collection.name);
    StoreError::Damaged(Damage::of_row(row, format!("`{column}`: {unfit} (`stook check --deep` names the record)")))
}

/// A plan without its order and page.
pub fn all_rows(plan: &QueryPlan) -> QueryPlan {
    QueryPlan { sort: Vec::new(), offset: 0, limit: None, ..plan.clone() }
}

/// The statement that gives what is aggregated as `v`, a row for each row of the plan. `name` is the column's, `sql_of` says what a column
/// is in SQL, `from` where the rows are.
pub fn aggregated<E: From<StoreError>>(
    plan: &QueryPlan,
    column: PlanColumn,
    name: &str,
    from: &str,
    sql_of: impl Fn(PlanColumn) -> std::result::Result<String, E>,
) -> std::result::Result<String, E> {
    if !plan.distinct {
        return Ok(format!("SELECT {} AS v FROM {from}", sql_of(column)?));
    }
    let Some(wanted) = plan.columns.iter().position(|other| *other == column) else {
        return Err(StoreError::Wrong(format!("unique rows have no `{name}`")).into());
    };
    let mut selected = Vec::with_capacity(plan.columns.len());
    for (index, column) in plan.columns.iter().enumerate() {
        let name = if index == wanted { "v".to_owned() } else { format!("c{index}") };
        selected.push(format!("{} AS {name}", sql_of(*column)?));
    }
    Ok(format!("SELECT DISTINCT {} FROM {from}", selected.join(", ")))
}

/// The sum or the mean of floats, of which there is one at least.
pub fn of_floats(function: AggregateFunction, count: i64, sum: Option<f64>) -> Result<Value> {
    let sum = sum.filter(|sum| sum.is_finite()).ok_or_else(|| StoreError::Wrong("the sum is too large for a float".into()))?;
    Ok(Value::Float(if function == AggregateFunction::Avg { sum / count as f64 } else { sum }))
}

/// The sum or the mean of whole numbers, of which there is one at least.
pub fn of_whole_numbers(function: AggregateFunction, count: i64, sum: i128, ty: &FieldType) -> Result<Value> {
    if function == AggregateFunction::Avg {
        return Ok(mean_of(sum, i128::from(count), ty));
    }
    i64::try_from(sum).map(Value::Int).map_err(|_| StoreError::Wrong("the sum does not fit 64 bits".into()))
}
