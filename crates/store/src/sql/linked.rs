//! Parts of linked records: which records they are read from, and what type they have.

use super::plan_parts::link_of;
use crate::plan::{LinkedColumn, PlanColumn, QueryPlan};
use crate::{Result, StoreError};
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::links::Link;
use stook_catalogue::value::FieldType;

/// A link on the way, with the collections at its ends.
pub struct LinkedStep<'c> {
    pub child: &'c Collection,
    pub target: &'c Collection,
    pub link: &'c Link,
}

/// The links that lead to a part of linked records.
pub fn linked_steps<'c>(catalogue: &'c Catalogue, collection: &'c Collection, column: &LinkedColumn) -> Result<Vec<LinkedStep<'c>>> {
    let (mut steps, mut child) = (Vec::new(), collection);
    for index in column.links.iter().map_while(|link| *link) {
        let link = link_of(catalogue, child, index)?;
        let target = &catalogue.collections[link.target_collection];
        steps.push(LinkedStep { child, target, link });
        child = target;
    }
    if steps.is_empty() { Err(StoreError::Wrong("no link leads to this column".into())) } else { Ok(steps) }
}

/// The name of a part of linked records, in messages.
pub fn linked_name(steps: &[LinkedStep<'_>], part: &str) -> String {
    steps.iter().map(|step| step.link.name.as_str()).chain([part]).collect::<Vec<_>>().join(".")
}

/// Whether the records that links lead to may be several.
pub fn are_several(steps: &[LinkedStep<'_>]) -> bool {
    steps.iter().any(|step| step.link.many)
}

/// The type of a part of linked records of which one has this type: a list, if there may be several.
///
/// # Errors
/// For types of which there are no lists.
pub fn linked_type(steps: &[LinkedStep<'_>], part: FieldType) -> Result<FieldType> {
    match part {
        part if !are_several(steps) => Ok(part),
        FieldType::List(element) if element.is_ordered() => Ok(FieldType::List(element)),
        part if part.is_ordered() => Ok(FieldType::List(Box::new(part))),
        part => Err(StoreError::Wrong(format!("the values of type {part} of several linked records are no column"))),
    }
}

/// The first column of a plan, whose values a condition on linked records compares with.
pub fn compared_column(plan: &QueryPlan) -> Result<PlanColumn> {
    plan.columns.first().copied().ok_or_else(|| StoreError::Wrong("a plan of linked records has a column".into()))
}

/// The error for a condition on linked records whose values have not been made a statement.
pub fn no_statement(column: &str) -> StoreError {
    StoreError::Wrong(format!("the linked records that `{column}` is compared with are not known"))
}
