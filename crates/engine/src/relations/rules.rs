//! The relations between a catalogue's collections, computed once and used by everything that changes or settles records.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use stook_catalogue::definition::{Catalogue, Collection, CompleteDelivery};
use stook_catalogue::eval::Expression;
use stook_catalogue::ids::{CollectionId, FieldId, IdVec, LinkId};
use stook_catalogue::links::{Derivation, id_of};
use stook_catalogue::value::Value;

/// The relations of one collection.
#[derive(Debug, Default)]
pub(crate) struct CollectionRelations {
    /// Its id in marks.
    pub id: u32,
    /// Links from its records.
    pub from: Vec<LinkId>,
    /// Links to its records.
    pub to: Vec<LinkId>,
    /// Coverages of its records.
    pub coverages: Vec<usize>,
    /// Fields that are rollups.
    pub rollups: Vec<FieldId>,
    /// Settled fields with expressions, each after those it reads.
    pub link_expressions: Vec<FieldId>,
    /// Links whose targets are found by equal fields.
    pub lookup_links: Vec<LinkId>,
    /// Unique fields with values that records written by settling may have to wait for.
    pub awaited: Vec<FieldId>,
    /// The rule of marks of its records that may have given up such values, and the link of edges from these records to those that wait.
    pub waiting: u32,
    /// Fields from which a child's settled values are computed, and these values themselves: if none of them changes, the child stays settled.
    pub settling: Vec<FieldId>,
    /// How many steps of settling come before it: one more than the most of any collection whose settled values its records read.
    pub depth: u32,
}

impl CollectionRelations {
    /// Whether a change of its records can have consequences.
    pub fn has_consequences(&self) -> bool {
        !(self.from.is_empty()
            && self.to.is_empty()
            && self.coverages.is_empty()
            && self.rollups.is_empty()
            && self.link_expressions.is_empty()
            && self.awaited.is_empty())
    }

    /// Whether its records have rollups or coverage.
    pub fn is_parent(&self) -> bool {
        !(self.coverages.is_empty() && self.rollups.is_empty())
    }

    /// Whether its records find targets by equal fields, or have fields through links.
    pub fn is_child(&self) -> bool {
        !(self.lookup_links.is_empty() && self.link_expressions.is_empty())
    }
}

/// The rules by which marks are processed: the relations of a catalogue.
#[derive(Debug)]
pub struct SettleRules {
    /// The definition.
    pub catalogue: Arc<Catalogue>,
    pub(crate) relations: IdVec<CollectionId, CollectionRelations>,
    pub(crate) links: HashMap<u32, LinkId>,
    pub(crate) collections: HashMap<u32, CollectionId>,
    /// Collections whose records wait for unique values, by the rule of their marks.
    pub(crate) waiting: HashMap<u32, CollectionId>,
}

impl SettleRules {
    /// The rules of a catalogue.
    pub fn new(catalogue: &Arc<Catalogue>) -> Self {
        let mut by_collection: IdVec<CollectionId, CollectionRelations> = IdVec::new();
        for (index, collection) in catalogue.collections.enumerate() {
            let (id, waiting) = (id_of(&collection.name), id_of(&format!("{} waits for unique values", collection.name)));
            let mut relations = CollectionRelations { id, waiting, awaited: awaited(catalogue, index), ..CollectionRelations::default() };
            for (number, link) in catalogue.links.enumerate() {
                if link.child_collection == index {
                    relations.from.push(number);
                    if link.target_rule.is_searched() {
                        relations.lookup_links.push(number);
                    }
                }
                if link.target_collection == index {
                    relations.to.push(number);
                }
            }
            relations.coverages = (0..catalogue.coverages.len()).filter(|coverage| catalogue.coverages[*coverage].parent == index).collect();
            let mut unordered = Vec::new();
            for (field_id, field) in collection.fields.enumerate() {
                match &field.derive {
                    Some(Derivation::Rollup(_)) => relations.rollups.push(field_id),
                    Some(Derivation::ThroughLinks(expression)) => unordered.push((field_id, expression)),
                    _ => {}
                }
            }
            // the parser has refused circles, so every round finds at least one
            while !unordered.is_empty() {
                let names: Vec<String> = unordered.iter().map(|(field_id, _)| collection.fields[*field_id].name.clone()).collect();
                let (ready, blocked): (Vec<_>, Vec<_>) =
                    unordered.into_iter().partition(|(_, expression)| !expression.variables().iter().any(|name| names.contains(name)));
                relations.link_expressions.extend(ready.iter().map(|(field_id, _)| *field_id));
                if ready.is_empty() {
                    break;
                }
                unordered = blocked;
            }
            relations.settling = settling(catalogue, collection, &relations);
            by_collection.push(relations);
        }
        // a collection comes after those of which it reads settled values; if two read each other, their order does not matter
        for _ in 0..by_collection.len() {
            for link in catalogue.links.iter().filter(|link| link.child_collection != link.target_collection) {
                let target = &catalogue.collections[link.target_collection];
                let waits = link.read_fields.iter().any(|field| target.fields[*field].is_settled());
                let min_depth = by_collection[link.target_collection].depth + 1;
                if waits && by_collection[link.child_collection].depth < min_depth && min_depth as usize <= by_collection.len() {
                    by_collection[link.child_collection].depth = min_depth;
                }
            }
        }
        let links = catalogue.links.enumerate().map(|(number, link)| (link.id, number)).collect();
        let collections = by_collection.enumerate().map(|(number, relations)| (relations.id, number)).collect();
        let waiting = by_collection
            .enumerate()
            .filter(|(_, relations)| !relations.awaited.is_empty())
            .map(|(number, relations)| (relations.waiting, number))
            .collect();
        Self { catalogue: catalogue.clone(), relations: by_collection, links, collections, waiting }
    }

    /// Whether anything can ever have to be settled.
    pub fn needs_settling(&self) -> bool {
        self.relations.iter().any(CollectionRelations::has_consequences) || self.catalogue.sources.iter().any(|source| source.replaces.is_some())
    }

    /// How many steps of settling come before a collection.
    pub fn depth(&self, collection: CollectionId) -> u32 {
        self.relations[collection].depth
    }

    /// Whether records of a collection find targets by equal fields, or have fields through links.
    pub fn is_child(&self, collection: CollectionId) -> bool {
        self.relations[collection].is_child()
    }

    /// Whether records of a collection read records of another one.
    pub fn reads_records_of(&self, collection: CollectionId, other: CollectionId) -> bool {
        let mut links = self.relations[collection].from.iter().map(|link| &self.catalogue.links[*link]);
        links.any(|link| link.target_collection == other && link.is_read())
    }

    /// Whether records of a collection have one target with others that share values, so that only a pass can settle them.
    pub fn merges(&self, collection: CollectionId) -> bool {
        self.relations[collection].lookup_links.iter().any(|link| self.catalogue.links[*link].target_rule.merges())
    }

    /// Whether the settled values of a child remain correct with a change.
    pub fn stays_settled(&self, collection: CollectionId, before: &[Value], after: &[Value]) -> bool {
        self.relations[collection].settling.iter().all(|field| before[*field] == after[*field])
    }

    /// Whether a change of a record leaves everything that children read of it the same.
    pub fn leaves_read_values_unchanged(&self, collection: CollectionId, before: Option<&[Value]>, after: Option<&[Value]>) -> bool {
        let read = || self.relations[collection].to.iter().flat_map(|link| &self.catalogue.links[*link].read_fields);
        match (before, after) {
            (Some(before), Some(after)) => read().all(|field| before[*field] == after[*field]),
            (before, after) => before.is_some() == after.is_some(),
        }
    }

    /// Whether records of a collection pass anything to others or depend on others, so that a change of them needs their old values.
    pub fn has_consequences(&self, collection: CollectionId) -> bool {
        self.relations[collection].has_consequences()
    }

    /// The complete deliveries that a mark's rule belongs to.
    pub(crate) fn replacing(&self, rule: u32) -> Option<&CompleteDelivery> {
        self.catalogue.sources.iter().filter_map(|source| source.replaces.as_ref()).find(|replaces| replaces.id == rule & !3)
    }
}

/// Unique fields of a collection, if settling may write its records: because links create them, or complete deliveries retire and restore
/// contributions to them.
fn awaited(catalogue: &Catalogue, collection: CollectionId) -> Vec<FieldId> {
    let creates = catalogue.links.iter().any(|link| link.create && link.target_collection == collection);
    let mut replacing = catalogue.sources.iter().filter(|source| source.replaces.is_some());
    if !creates && !replacing.any(|source| source.feeds.iter().any(|feed| feed.collection == collection)) {
        return Vec::new();
    }
    catalogue.collections[collection].fields.enumerate().filter(|(_, field)| field.unique).map(|(number, _)| number).collect()
}

fn settling(catalogue: &Catalogue, collection: &Collection, relations: &CollectionRelations) -> Vec<FieldId> {
    let mut fields: BTreeSet<FieldId> = relations.link_expressions.iter().copied().collect();
    let fields_of =
        |expression: &Expression| expression.variables().iter().filter_map(|name| Some(collection.field(name)?.0)).collect::<Vec<FieldId>>();
    for link in relations.from.iter().map(|link| &catalogue.links[*link]) {
        fields.insert(link.field);
        if link.target_rule.is_searched() {
            fields.extend(link.target_rule.own_criteria().into_iter().flatten());
            fields.extend(link.target_rule.overlap().into_iter().flat_map(|overlap| [overlap.mine.0, overlap.mine.1]));
            fields.extend(link.when.iter().flat_map(fields_of));
        }
    }
    fields.extend(relations.link_expressions.iter().filter_map(|field| collection.fields[*field].derive.as_ref()?.expression()).flat_map(fields_of));
    fields.into_iter().collect()
}
