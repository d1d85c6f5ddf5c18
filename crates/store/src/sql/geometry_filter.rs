//! Conditions on the relation of geometries. Databases can only compare bounding boxes. So the candidates that these find are read and compared here,
//! and the conditions are replaced by one on the keys of the records that satisfy them; the rest of the plan is executed as without geometries.

use crate::plan::{CombinedCondition, Comparison, Condition, GeometryRelation, PlanColumn, QueryPlan};
use crate::{Result, StoreError};
use std::borrow::Cow;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::{Geometry, Value};

/// A function that reads the rows of a plan.
pub type ReadRows<'r, E> = dyn FnMut(&QueryPlan, &mut dyn FnMut(Vec<Value>) -> Result<()>) -> std::result::Result<(), E> + 'r;

/// Whether a plan has conditions on the relation of geometries.
pub fn applies_to(plan: &QueryPlan) -> bool {
    let combined = plan.combined.iter().flat_map(CombinedCondition::conditions);
    plan.conditions.iter().chain(combined).any(is_geometric)
}

fn is_geometric(condition: &Condition) -> bool {
    matches!(condition.test, Comparison::Related(..))
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
    let (geometric, mut conditions): (Vec<Condition>, Vec<Condition>) = plan.conditions.iter().cloned().partition(is_geometric);
    if !geometric.is_empty() {
        conditions.push(found_among(catalogue, plan, (&conditions, &geometric), read)?);
    }
    let combined = plan.combined.iter().map(|combined| resolve_combined(catalogue, plan, (&conditions, combined), read));
    let combined = combined.collect::<std::result::Result<_, E>>()?;
    Ok(Cow::Owned(QueryPlan { conditions, combined, ..plan.clone() }))
}

/// Combined conditions with the geometric ones replaced, as far as they concern records that satisfy `others`.
fn resolve_combined<E: From<StoreError>>(
    catalogue: &Catalogue,
    plan: &QueryPlan,
    (others, combined): (&[Condition], &CombinedCondition),
    read: &mut ReadRows<'_, E>,
) -> std::result::Result<CombinedCondition, E> {
    let mut found = |condition: &Condition| match is_geometric(condition) {
        true => found_among(catalogue, plan, (others, std::slice::from_ref(condition)), read),
        false => Ok(condition.clone()),
    };
    Ok(match combined {
        CombinedCondition::Is(condition) => CombinedCondition::Is(found(condition)?),
        CombinedCondition::IsNot(condition) => CombinedCondition::IsNot(found(condition)?),
        CombinedCondition::All(inner) | CombinedCondition::Any(inner) => {
            let inner = inner.iter().map(|inner| resolve_combined(catalogue, plan, (others, inner), read));
            let inner = inner.collect::<std::result::Result<_, E>>()?;
            if matches!(combined, CombinedCondition::All(_)) { CombinedCondition::All(inner) } else { CombinedCondition::Any(inner) }
        }
    })
}

/// The condition on keys of the records that satisfy all of `geometric`, among those that satisfy `others`.
fn found_among<E: From<StoreError>>(
    catalogue: &Catalogue,
    plan: &QueryPlan,
    (others, geometric): (&[Condition], &[Condition]),
    read: &mut ReadRows<'_, E>,
) -> std::result::Result<Condition, E> {
    let columns = std::iter::once(PlanColumn::Key).chain(geometric.iter().map(|condition| condition.column)).collect();
    // conditions on elements apply to rows, of which a record has several; they are checked by the plan itself
    let of_records = others.iter().chain(geometric).filter(|condition| !matches!(condition.column, PlanColumn::Element(_)));
    let candidates =
        QueryPlan { conditions: of_records.cloned().collect(), columns, any_order: true, ..QueryPlan::all(plan.tenant.clone(), plan.collection) };
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
    Ok(Condition { column: PlanColumn::Key, test: Comparison::In(keys) })
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
