//! Plans that read linked records: parts of them as columns, and conditions on them.

use super::plan::{CombinedCondition, Comparison, PlanColumn, QueryPlan};
use std::collections::BTreeSet;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::{CollectionId, FieldId, LinkId};

/// The maximum number of links that a query follows one after the other.
pub const MAX_LINKS: usize = 3;

/// A part of the records that links lead to. If all links are of one record, its value is that of the linked record, or none if there is no such record.
/// Otherwise it is the list of the values of all of them: one after the other in the order of the keys, without absent ones, and lists are concatenated, as
/// in fields that are derived through links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkedColumn {
    /// The links, each of the collection that the one before leads to.
    pub links: [Option<LinkId>; MAX_LINKS],
    /// What is read of the last records.
    pub part: LinkedPart,
}

impl LinkedColumn {
    /// Whether each record has one value at most.
    pub fn is_single(&self, catalogue: &Catalogue) -> bool {
        let links = || self.links.iter().flatten().map(|link| &catalogue.links[*link]);
        let Some(target) = links().next_back().map(|link| &catalogue.collections[link.target_collection]) else { return false };
        let is_list = match self.part {
            LinkedPart::Key => false,
            LinkedPart::Field(field) => target.fields[field].golden_type().is_list(),
            LinkedPart::State(state) => target.states[state].ty.is_list(),
        };
        !is_list && links().all(|link| !link.many)
    }
}

/// Part of a linked record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkedPart {
    /// Its key.
    Key,
    /// A golden field.
    Field(FieldId),
    /// A state field, by position.
    State(usize),
}

impl From<LinkedPart> for PlanColumn {
    fn from(part: LinkedPart) -> Self {
        match part {
            LinkedPart::Key => PlanColumn::Key,
            LinkedPart::Field(field) => PlanColumn::Field(field),
            LinkedPart::State(state) => PlanColumn::State(state),
        }
    }
}

impl QueryPlan {
    /// Adds the collections whose records its conditions read: its own, and those of linked records.
    pub fn add_collections(&self, collections: &mut BTreeSet<CollectionId>) {
        collections.insert(self.collection);
        for condition in self.conditions.iter().chain(self.combined.iter().flat_map(CombinedCondition::conditions)) {
            if let Comparison::Among(rows) | Comparison::NotAmong(rows) = &condition.test {
                rows.add_collections(collections);
            }
        }
    }

    /// Whether a condition is on linked records.
    pub(crate) fn has_linked_conditions(&self) -> bool {
        self.conditions.iter().chain(self.combined.iter().flat_map(CombinedCondition::conditions)).any(|condition| condition.test.is_of_linked())
    }
}

impl Comparison {
    /// Whether it compares with values of linked records.
    pub fn is_of_linked(&self) -> bool {
        matches!(self, Comparison::Among(_) | Comparison::NotAmong(_))
    }
}
