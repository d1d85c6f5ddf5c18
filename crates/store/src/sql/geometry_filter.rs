//! Conditions on the relation of geometries. Databases can only compare bounding boxes. So the candidates that these find are read and compared here,
//! and the conditions are replaced by one on the keys of the records that satisfy them; the rest of the plan is executed as without geometries.

use crate::plan::{Comparison, Condition, GeometryRelation, PlanColumn, QueryPlan};
use crate::{Result, StoreError};
use std::borrow::Cow;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::{Geometry, Value};

/// A function that reads the rows of a plan.
pub type ReadRows<'r, E> = dyn FnMut(&QueryPlan, &mut dyn FnMut(Vec<Value>) -> Result<()>) -> std::result::Result<(), E> + 'r;

/// Whether a plan has conditions on the relation of geometries.
pub fn applies_to(plan: &QueryPlan) -> bool {
    plan.conditions.iter().any(|condition| matches!(condition.test, Comparison::Related(..)))
}

/// Returns the plan with its geometric conditions replaced by the keys of the records that satisfy them; the same plan if it has none. `read` reads
/// the candidates found by their boxes, in the snapshot in which the plan is executed.
///
/// # Errors
/// What `read` returns, or when two geometries would take too long to compare.
pub fn resolve<'p, E: From<StoreError>>(
    catalogue: &Catalogue,
    plan: &'p QueryPlan,
    read: &mut ReadRows<'_, E>,
) -> std::result::Result<Cow<'p, QueryPlan>, E> {
    if !applies_to(plan) {
        return Ok(Cow::Borrowed(plan));
    }
    let (geometric, plain): (Vec<Condition>, Vec<Condition>) =
        plan.conditions.iter().cloned().partition(|condition| matches!(condition.test, Comparison::Related(..)));
    let columns = std::iter::once(PlanColumn::Key).chain(geometric.iter().map(|condition| condition.column)).collect();
    // conditions on elements apply to rows, of which a record has several; they are checked by the plan itself
    let record_conditions = plan.conditions.iter().filter(|condition| !matches!(condition.column, PlanColumn::Element(_))).cloned().collect();
    let candidates = QueryPlan { conditions: record_conditions, columns, any_order: true, ..QueryPlan::all(plan.tenant.clone(), plan.collection) };
    let mut keys = Vec::new();
    read(&candidates, &mut |row| {
        let Some((key, values)) = row.split_first() else { return Ok(()) };
        for (condition, value) in geometric.iter().zip(values) {
            let Comparison::Related(relation, wanted) = &condition.test else { continue };
            let Value::Geometry(geometry) = value else { return Ok(()) };
            let is_related = is_related(geometry, *relation, wanted).map_err(|error| {
                let (field, key) = (column_name(catalogue, plan, condition.column), key.as_text().unwrap_or_default());
                StoreError::Wrong(format!("`{field}` of {key:?} cannot be compared: {error}"))
            })?;
            if !is_related {
                return Ok(());
            }
        }
        keys.push(key.clone());
        Ok(())
    })?;
    let found = Condition { column: PlanColumn::Key, test: Comparison::In(keys) };
    Ok(Cow::Owned(QueryPlan { conditions: plain.into_iter().chain([found]).collect(), ..plan.clone() }))
}

fn is_related(geometry: &Geometry, relation: GeometryRelation, wanted: &Geometry) -> std::result::Result<bool, String> {
    match relation {
        GeometryRelation::Intersects => geometry.intersects(wanted),
        GeometryRelation::Within => geometry.is_within(wanted),
    }
    .map_err(|error| error.to_string())
}

fn column_name<'c>(catalogue: &'c Catalogue, plan: &QueryPlan, column: PlanColumn) -> &'c str {
    let collection = catalogue.collections.get(plan.collection);
    let name = collection.and_then(|collection| match column {
        PlanColumn::Field(field) => collection.fields.get(field).map(|field| field.name.as_str()),
        PlanColumn::State(state) => collection.states.get(state).map(|state| state.name.as_str()),
        _ => None,
    });
    name.unwrap_or("?")
}
