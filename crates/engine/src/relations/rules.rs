//! What a catalogue says of the relations between its collections, made once and used by all that change or settle records.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use stook_catalogue::definition::{Catalogue, Collection, CompleteDelivery};
use stook_catalogue::eval::Expression;
use stook_catalogue::ids::{CollectionId, FieldId, IdVec, LinkId};
use stook_catalogue::links::{Derivation, TargetRule, id_of};
use stook_catalogue::value::Value;

/// What a catalogue says of one collection's relations.
#[derive(Debug, Default)]
pub(crate) struct CollectionRelations {
    /// Its number in marks.
    pub id: u32,
    /// Links of its records.
    pub from: Vec<LinkId>,
    /// Links to its records.
    pub to: Vec<LinkId>,
    /// Coverages of its records.
    pub coverages: Vec<usize>,
    /// Fields that are rolled up.
    pub rollups: Vec<FieldId>,
    /// Settled fields with expressions, each after those it reads.
    pub link_expressions: Vec<FieldId>,
    /// Links whose targets are looked for.
    pub lookup_links: Vec<LinkId>,
    /// Unique fields whose values records may wait for that settling brings into being.
    pub awaited: Vec<FieldId>,
    /// The number of marks of its records that may have given up such values, and the link of edges from them to what waits.
    pub waiting: u32,
    /// Fields from which the settled values of a child follow, and those values: where they stay, it stays settled.
    pub settling: Vec<FieldId>,
    /// How many collections must be settled before it: its records read what is settled of theirs.
    pub order: u32,
}

impl CollectionRelations {
    /// Whether anything follows from a change of its records.
    pub fn any(&self) -> bool {
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

    /// Whether its records find their targets or read of them.
    pub fn is_child(&self) -> bool {
        !(self.lookup_links.is_empty() && self.link_expressions.is_empty())
    }
}

/// What a catalogue says of relations: the answer to marks. Made once, used by everybody.
#[derive(Debug)]
pub struct SettleRules {
    /// The definition.
    pub catalogue: Arc<Catalogue>,
    pub(crate) relations: IdVec<CollectionId, CollectionRelations>,
    pub(crate) links: HashMap<u32, LinkId>,
    pub(crate) collections: HashMap<u32, CollectionId>,
    /// Collections whose records wait for unique values, by the number of such marks.
    pub(crate) waiting: HashMap<u32, CollectionId>,
}

impl SettleRules {
    /// The rules of a catalogue.
    pub fn new(catalogue: &Arc<Catalogue>) -> Self {
        let mut relations: IdVec<CollectionId, CollectionRelations> = IdVec::new();
        for (index, collection) in catalogue.collections.enumerate() {
            let (id, waiting) = (id_of(&collection.name), id_of(&format!("{} waits for unique values", collection.name)));
            let mut own = CollectionRelations { id, waiting, awaited: awaited(catalogue, index), ..CollectionRelations::default() };
            for (number, link) in catalogue.links.enumerate() {
                if link.child_collection == index {
                    own.from.push(number);
                    if matches!(link.target_rule, TargetRule::Same { .. }) {
                        own.lookup_links.push(number);
                    }
                }
                if link.target_collection == index {
                    own.to.push(number);
                }
            }
            own.coverages = (0..catalogue.coverages.len()).filter(|coverage| catalogue.coverages[*coverage].parent == index).collect();
            let mut waiting = Vec::new();
            for (place, field) in collection.fields.enumerate() {
                match &field.derive {
                    Some(Derivation::Rollup(_)) => own.rollups.push(place),
                    Some(Derivation::ThroughLinks(expression)) => waiting.push((place, expression)),
                    _ => {}
                }
            }
            // parsing refused circles, so every round places at least one
            while !waiting.is_empty() {
                let names: Vec<String> = waiting.iter().map(|(place, _)| collection.fields[*place].name.clone()).collect();
                let (ready, rest): (Vec<_>, Vec<_>) =
                    waiting.into_iter().partition(|(_, expression)| !expression.variables().iter().any(|name| names.contains(name)));
                own.link_expressions.extend(ready.iter().map(|(place, _)| *place));
                if ready.is_empty() {
                    break;
                }
                waiting = rest;
            }
            own.settling = settling(catalogue, collection, &own);
            relations.push(own);
        }
        // a collection is after those of which it reads what is settled; where they read each other it does not matter
        for _ in 0..relations.len() {
            for link in catalogue.links.iter().filter(|link| link.child_collection != link.target_collection) {
                let target = &catalogue.collections[link.target_collection];
                let waits = link.read_fields.iter().any(|field| target.fields[*field].is_settled());
                let least = relations[link.target_collection].order + 1;
                if waits && relations[link.child_collection].order < least && least as usize <= relations.len() {
                    relations[link.child_collection].order = least;
                }
            }
        }
        let links = catalogue.links.enumerate().map(|(number, link)| (link.id, number)).collect();
        let collections = relations.enumerate().map(|(number, own)| (own.id, number)).collect();
        let waiting = relations.enumerate().filter(|(_, own)| !own.awaited.is_empty()).map(|(number, own)| (own.waiting, number)).collect();
        Self { catalogue: catalogue.clone(), relations, links, collections, waiting }
    }

    /// Whether anything is ever to be settled.
    pub fn any(&self) -> bool {
        self.relations.iter().any(CollectionRelations::any) || self.catalogue.sources.iter().any(|source| source.replaces.is_some())
    }

    /// How many collections must be settled before this one.
    pub fn depth(&self, collection: CollectionId) -> u32 {
        self.relations[collection].order
    }

    /// Whether records of a collection find targets, or read of them.
    pub fn is_child(&self, collection: CollectionId) -> bool {
        self.relations[collection].is_child()
    }

    /// Whether records of a collection read those of another one.
    pub fn reads_of(&self, collection: CollectionId, other: CollectionId) -> bool {
        let mut links = self.relations[collection].from.iter().map(|link| &self.catalogue.links[*link]);
        links.any(|link| link.target_collection == other && link.is_read())
    }

    /// Whether a record that changes stays settled as a child.
    pub fn stays_settled(&self, collection: CollectionId, before: &[Value], after: &[Value]) -> bool {
        self.relations[collection].settling.iter().all(|field| before[*field] == after[*field])
    }

    /// Whether children find the same in a record that changes.
    pub fn reads_the_same(&self, collection: CollectionId, before: Option<&[Value]>, after: Option<&[Value]>) -> bool {
        let read = || self.relations[collection].to.iter().flat_map(|link| &self.catalogue.links[*link].read_fields);
        match (before, after) {
            (Some(before), Some(after)) => read().all(|field| before[*field] == after[*field]),
            (before, after) => before.is_some() == after.is_some(),
        }
    }

    /// Whether records of a collection tell others, or are told: then their old values must be known when they change.
    pub fn concern(&self, collection: CollectionId) -> bool {
        self.relations[collection].any()
    }

    /// The source whose files take the place of others, by the number of a mark's rule.
    pub(crate) fn replacing(&self, rule: u32) -> Option<&CompleteDelivery> {
        self.catalogue.sources.iter().filter_map(|source| source.replaces.as_ref()).find(|replaces| replaces.id == rule & !3)
    }
}

/// Unique fields of a collection, if settling may write its records: because links create them, or complete deliveries retire and restore
/// what documents say of them.
fn awaited(catalogue: &Catalogue, collection: CollectionId) -> Vec<FieldId> {
    let creates = catalogue.links.iter().any(|link| link.create && link.target_collection == collection);
    let mut replacing = catalogue.sources.iter().filter(|source| source.replaces.is_some());
    if !creates && !replacing.any(|source| source.feeds.iter().any(|feed| feed.collection == collection)) {
        return Vec::new();
    }
    catalogue.collections[collection].fields.enumerate().filter(|(_, field)| field.unique).map(|(number, _)| number).collect()
}

fn settling(catalogue: &Catalogue, collection: &Collection, own: &CollectionRelations) -> Vec<FieldId> {
    let mut fields: BTreeSet<FieldId> = own.link_expressions.iter().copied().collect();
    let named = |expression: &Expression| expression.variables().iter().filter_map(|name| Some(collection.field(name)?.0)).collect::<Vec<FieldId>>();
    for link in own.from.iter().map(|link| &catalogue.links[*link]) {
        fields.insert(link.field);
        if let TargetRule::Same { fields: same, overlap } = &link.target_rule {
            fields.extend(same.iter().map(|(own, _)| *own));
            fields.extend(overlap.iter().flat_map(|overlap| [overlap.mine.0, overlap.mine.1]));
            fields.extend(link.when.iter().flat_map(named));
        }
    }
    fields.extend(own.link_expressions.iter().filter_map(|field| collection.fields[*field].derive.as_ref()?.expression()).flat_map(named));
    fields.into_iter().collect()
}
