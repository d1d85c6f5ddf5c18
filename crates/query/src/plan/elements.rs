//! Aggregates over members of structs: a condition on elements of a list holds for what is aggregated of them, too. `block site=T1_X | sum(replica.size)` is
//! the size of the copies at that site, not of all copies of the blocks that have one there.

use super::compile::CompiledQuery;
use crate::language::{FieldPath, Stage};
use stook_catalogue::definition::Collection;
use stook_catalogue::diagnostic::Diagnostic;
use stook_catalogue::ids::FieldId;
use stook_catalogue::links::Derivation;
use stook_catalogue::value::Value;
use stook_store::plan::{Aggregate, AggregatedRows, Condition, GroupColumn, Grouping, Groups, PlanColumn, QueryPlan};
use stook_store::{Store, StoreError};

/// A member of the structs in a list on which a query has conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementMember {
    field: FieldId,
    list: FieldId,
    position: usize,
}

/// The members of the lists of structs on which a plan of records has conditions.
pub fn conditioned_members(collection: &Collection, plan: &QueryPlan) -> Vec<ElementMember> {
    if plan.each.is_some() || plan.distinct {
        return Vec::new();
    }
    let members = || {
        collection.fields.enumerate().filter_map(|(field, own)| match own.derive {
            Some(Derivation::Member(list, position)) => Some(ElementMember { field, list, position }),
            _ => None,
        })
    };
    let is_conditioned = |list: FieldId| {
        let of_list = |condition: &Condition| members().any(|own| own.list == list && condition.column == PlanColumn::Field(own.field));
        plan.conditions.iter().any(of_list)
    };
    members().filter(|own| is_conditioned(own.list)).collect()
}

/// Refuses groups of aggregates over elements together with others, which need other rows.
pub fn check_groups(compiled: &CompiledQuery, stages: &[Stage]) -> Result<(), Diagnostic> {
    let lists: Vec<Option<FieldId>> = compiled.aggregates.iter().map(|aggregate| compiled.list_of(aggregate.column)).collect();
    let Some(other) = lists.iter().position(|list| *list != lists[0]).filter(|_| compiled.grouping.is_some()) else { return Ok(()) };
    let paths = stages.iter().flat_map(|stage| if let Stage::Aggregates(wanted, _) = stage { wanted.as_slice() } else { &[] });
    let paths: Vec<&FieldPath> = paths.map(|(_, path)| path).collect();
    let (first, second) = (paths[0], paths[other]);
    let message = format!(
        "`{}` and `{}` are aggregated over different rows: a condition on elements holds for what is aggregated of them",
        first.text, second.text
    );
    Err(Diagnostic::new(second.span.clone(), message).help("ask for their groups one after the other"))
}

impl CompiledQuery {
    /// The list on whose elements there are conditions, if the column is one of their members.
    fn list_of(&self, column: PlanColumn) -> Option<FieldId> {
        self.members.iter().find(|own| column == PlanColumn::Field(own.field)).map(|own| own.list)
    }

    /// A column of the rows that are elements of a list.
    fn of_element(&self, list: FieldId, column: PlanColumn) -> PlanColumn {
        let member = self.members.iter().find(|own| own.list == list && column == PlanColumn::Field(own.field));
        member.map_or(column, |own| PlanColumn::Element(own.position))
    }

    /// The plan whose rows are the elements that satisfy the conditions on them.
    fn plan_of_elements(&self, list: FieldId) -> QueryPlan {
        let own = |condition: &Condition| Condition { column: self.of_element(list, condition.column), test: condition.test.clone() };
        let of_elements = self.plan.conditions.iter().map(own).filter(|condition| matches!(condition.column, PlanColumn::Element(_)));
        let conditions = self.plan.conditions.iter().cloned().chain(of_elements).collect();
        QueryPlan { each: Some(list), conditions, ..self.plan.clone() }
    }

    /// The aggregates over all rows.
    ///
    /// # Errors
    /// When the store fails, or a sum does not fit.
    pub fn aggregate(&self, store: &dyn Store) -> Result<Vec<Value>, StoreError> {
        let lists: Vec<Option<FieldId>> = self.aggregates.iter().map(|aggregate| self.list_of(aggregate.column)).collect();
        if lists.iter().all(Option::is_none) {
            return store.aggregate(&self.plan, &self.aggregates);
        }
        let plan_and_aggregate = |(aggregate, list): (&Aggregate, &Option<FieldId>)| match list {
            Some(list) => (self.plan_of_elements(*list), [Aggregate { column: self.of_element(*list, aggregate.column), ..*aggregate }]),
            None => (self.plan.clone(), [*aggregate]),
        };
        let all: Vec<(QueryPlan, [Aggregate; 1])> = self.aggregates.iter().zip(&lists).map(plan_and_aggregate).collect();
        let wanted: Vec<AggregatedRows<'_>> = all.iter().map(|(plan, aggregates)| AggregatedRows { plan, aggregates }).collect();
        Ok(store.aggregate_together(&wanted)?.into_iter().map(|values| values.into_iter().next().unwrap_or_default()).collect())
    }

    /// The groups of all rows; the page of the plan is one of groups.
    ///
    /// # Errors
    /// As for [`Self::aggregate`], and when there are more groups than may be.
    pub fn group(&self, store: &dyn Store, grouping: &Grouping) -> Result<Groups, StoreError> {
        let Some(list) = self.aggregates.first().and_then(|aggregate| self.list_of(aggregate.column)) else {
            return store.group(&self.plan, &self.aggregates, grouping);
        };
        let aggregates: Vec<Aggregate> =
            self.aggregates.iter().map(|aggregate| Aggregate { column: self.of_element(list, aggregate.column), ..*aggregate }).collect();
        let by = grouping.by.iter().map(|group| GroupColumn { column: self.of_element(list, group.column), ..*group }).collect();
        store.group(&self.plan_of_elements(list), &aggregates, &Grouping { by, sort: grouping.sort.clone() })
    }
}
