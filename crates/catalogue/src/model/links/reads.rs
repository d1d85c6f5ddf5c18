//! Which other records a field reads, and which services these are fetched from.

use super::derivation::Derivation;
use super::link::Link;
use crate::eval::Expression;
use crate::model::definition::{Catalogue, Collection};
use crate::model::ids::{CollectionId, FieldId, LinkId};
use std::collections::HashSet;

/// Which end of a link is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkEnd {
    /// The child reads its targets.
    Targets,
    /// The target is measured or created by its children.
    Children,
}

/// Records at one end of a link that are read, with the fields that are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedRead {
    /// The link.
    pub link: LinkId,
    /// The end that is read.
    pub end: LinkEnd,
    /// The fields of these records; empty if only their keys or their number are read.
    pub fields: Vec<FieldId>,
}

impl LinkedRead {
    /// Returns the collection whose records are read.
    pub fn collection(&self, catalogue: &Catalogue) -> CollectionId {
        let link = &catalogue.links[self.link];
        match self.end {
            LinkEnd::Targets => link.target_collection,
            LinkEnd::Children => link.child_collection,
        }
    }
}

impl Catalogue {
    /// Whether records of a collection are fetched from services.
    pub fn is_fetched(&self, collection: CollectionId) -> bool {
        self.sources.iter().any(|source| source.asks.is_some() && source.feeds.first().is_some_and(|feed| feed.collection == collection))
    }

    /// Returns what a field reads from linked records.
    pub fn linked_reads(&self, collection: CollectionId, field: FieldId) -> Vec<LinkedRead> {
        let mut reads = Vec::new();
        self.collect_reads(collection, field, &mut reads);
        reads
    }

    fn collect_reads(&self, index: CollectionId, field: FieldId, reads: &mut Vec<LinkedRead>) {
        let collection = &self.collections[index];
        match &collection.fields[field].derive {
            Some(Derivation::LinkKeys(link)) => add(reads, *link, LinkEnd::Targets, Vec::new()),
            Some(Derivation::Member(list, _)) => self.collect_reads(index, *list, reads),
            Some(Derivation::Rollup(rollup)) => {
                let link = &self.links[rollup.link];
                let child = &self.collections[link.child_collection];
                let mut fields: Vec<FieldId> = rollup.edge_field.map(|position| link.edge_fields[position]).into_iter().collect();
                let by_group = link.group.as_ref().filter(|_| rollup.groups.is_some());
                fields.extend(link.conditions.get(rollup.condition).into_iter().chain(by_group).flat_map(|rule| read_by(child, rule)));
                add(reads, rollup.link, LinkEnd::Children, fields);
            }
            Some(Derivation::ThroughLinks(expression)) => {
                for variable in expression.variables() {
                    match self.link_of(index, variable) {
                        Some((link, definition)) => {
                            let target = &self.collections[definition.target_collection];
                            let members = expression.members().iter().filter(|member| member.of == *variable);
                            add(reads, link, LinkEnd::Targets, members.filter_map(|member| Some(target.field(&member.name)?.0)).collect());
                        }
                        None => {
                            let read_field = collection.field(variable).filter(|(read_field, _)| *read_field != field);
                            read_field.into_iter().for_each(|(read_field, _)| self.collect_reads(index, read_field, reads));
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the link of a collection with this name.
    pub fn link_of(&self, child: CollectionId, name: &str) -> Option<(LinkId, &Link)> {
        self.links.enumerate().find(|(_, link)| link.child_collection == child && link.name == name)
    }

    /// Iterates over the links that create records of a collection, unless services are fetched for that collection itself.
    pub fn creating_links(&self, collection: CollectionId) -> impl Iterator<Item = LinkId> {
        let is_fetched = self.is_fetched(collection);
        let creates = move |link: &Link| link.create && link.target_collection == collection && !is_fetched;
        self.links.enumerate().filter(move |(_, link)| creates(link)).map(|(index, _)| index)
    }

    /// Whether the records of a linked read, or those that they read in turn, are fetched from services.
    pub fn needs_fetch(&self, read: &LinkedRead) -> bool {
        self.fetches_from_services() && self.leads_to_fetch(read, &mut HashSet::new())
    }

    /// Whether any source fetches from services.
    fn fetches_from_services(&self) -> bool {
        self.sources.iter().any(|source| source.asks.is_some())
    }

    fn leads_to_fetch(&self, read: &LinkedRead, seen: &mut HashSet<(CollectionId, FieldId)>) -> bool {
        let to = read.collection(self);
        if self.is_fetched(to) || self.creating_links(to).any(|link| self.is_fetched(self.links[link].child_collection)) {
            return true;
        }
        // fields may read each other in a cycle: each is visited once
        let mut further =
            |field: FieldId| seen.insert((to, field)) && self.linked_reads(to, field).iter().any(|read| self.leads_to_fetch(read, seen));
        read.fields.iter().any(|field| further(*field))
    }

    /// Whether a field depends on linked records that are fetched from services, other than the children that create its own record.
    pub fn needs_fetch_elsewhere(&self, collection: CollectionId, field: FieldId) -> bool {
        let is_own = |read: &LinkedRead| read.end == LinkEnd::Children && self.creating_links(collection).any(|link| link == read.link);
        self.fetches_from_services() && self.linked_reads(collection, field).iter().any(|read| !is_own(read) && self.needs_fetch(read))
    }

    /// Returns the contributed fields of the same record that a field is derived from.
    pub fn contributed(&self, index: CollectionId, field: FieldId) -> Vec<FieldId> {
        let collection = &self.collections[index];
        match &collection.fields[field].derive {
            None => vec![field],
            Some(Derivation::Member(list, _)) => self.contributed(index, *list),
            Some(Derivation::TargetKey(_, when, key)) => {
                let named = key.names().filter_map(|name| Some(collection.field(name)?.0));
                let named: Vec<FieldId> = named.chain(when.iter().flat_map(|when| read_by(collection, when))).collect();
                named.into_iter().flat_map(|input| self.contributed(index, input)).collect()
            }
            Some(Derivation::LinkKeys(link)) => {
                self.links[*link].target_rule.own_criteria().into_iter().flatten().flat_map(|input| self.contributed(index, input)).collect()
            }
            Some(Derivation::SameRecord(expression) | Derivation::ThroughLinks(expression)) => {
                let read = read_by(collection, expression).into_iter().filter(|input| *input != field);
                read.flat_map(|input| self.contributed(index, input)).collect()
            }
            Some(Derivation::Sources | Derivation::Pending | Derivation::Rollup(_)) => Vec::new(),
        }
    }
}

/// Returns the fields of a collection that an expression reads.
fn read_by(collection: &Collection, expression: &Expression) -> Vec<FieldId> {
    expression.variables().iter().filter_map(|name| Some(collection.field(name)?.0)).collect()
}

fn add(reads: &mut Vec<LinkedRead>, link: LinkId, end: LinkEnd, fields: Vec<FieldId>) {
    let existing = reads.iter().position(|read| read.link == link && read.end == end);
    let position = existing.unwrap_or_else(|| {
        reads.push(LinkedRead { link, end, fields: Vec::new() });
        reads.len() - 1
    });
    for field in fields {
        if !reads[position].fields.contains(&field) {
            reads[position].fields.push(field);
        }
    }
}
