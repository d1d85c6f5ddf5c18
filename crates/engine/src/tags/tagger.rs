//! Evaluates the tags of some records before these are written, and again if definitions change meanwhile.

use super::document::{self, DocumentChanges, RecordDocuments, TagDefinitions};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::record::Contribution;
use stook_store::tag::{CollectionTags, TagWrites, TreeWrite};
use stook_store::{PackedTrees, Result, Store, Tenant};

/// A record whose documents change.
pub struct ChangedDocuments {
    /// Its key.
    pub key: Key,
    /// The changes.
    pub changes: DocumentChanges,
    /// Whether the record is new, so that no trees are stored for it.
    pub is_new: bool,
    /// Whether the record is deleted, so that it has no tags.
    pub is_deleted: bool,
}

/// A record that does not get a tag because the tag's XPath exceeded its steps.
pub struct FailedEvaluation<'p> {
    /// Its collection.
    pub collection: CollectionId,
    /// Its key.
    pub key: &'p Key,
    /// Which tags, and why.
    pub reason: String,
}

/// A record whose tags are to be evaluated.
#[derive(Debug)]
struct PendingEvaluation {
    collection: CollectionId,
    key: Key,
    /// Changes of its documents.
    changes: DocumentChanges,
    /// Its documents after these changes; `None` for a record that is deleted.
    documents: Option<RecordDocuments>,
    carried: Vec<u32>,
    failed: Vec<u32>,
}

/// Evaluates the tags of records, by the definitions of one revision.
#[derive(Debug)]
pub struct TagEvaluator {
    catalogue: Arc<Catalogue>,
    /// The revision of the tags.
    pub revision: i64,
    definitions: BTreeMap<CollectionId, TagDefinitions>,
    /// The only tags that are evaluated, if not all are.
    only: Option<Vec<String>>,
    pending: Vec<PendingEvaluation>,
}

impl TagEvaluator {
    /// Evaluates `tags`, given by collection, or `only` some of them.
    pub fn new(catalogue: &Arc<Catalogue>, tags: &[(CollectionId, CollectionTags)], only: Option<Vec<String>>) -> Self {
        let mut tagger = Self { catalogue: catalogue.clone(), revision: 0, definitions: BTreeMap::new(), only, pending: Vec::new() };
        tagger.set_definitions(tags);
        tagger
    }

    /// Evaluates all tags of a tenant, as they are now.
    pub fn read(catalogue: &Arc<Catalogue>, store: &dyn Store, tenant: &Tenant) -> Result<Self> {
        let tags = catalogue.with_tags().map(|(own, _)| Ok((own, store.tags(tenant, own)?)));
        Ok(Self::new(catalogue, &tags.collect::<Result<Vec<_>>>()?, None))
    }

    fn set_definitions(&mut self, tags: &[(CollectionId, CollectionTags)]) {
        // if the tags of collections were read at different revisions, the oldest makes the store pass newer ones
        self.revision = tags.iter().map(|(_, tags)| tags.revision).min().unwrap_or(0);
        let definitions_of = |(collection, tags): &(CollectionId, CollectionTags)| {
            (*collection, TagDefinitions::from_tags(&self.catalogue.collections[*collection], tags, self.only.as_deref()))
        };
        self.definitions = tags.iter().map(definitions_of).collect();
    }

    /// Adds a record with changes of its documents, and all of its documents after these; `None` for a record that is deleted.
    pub fn add(&mut self, collection: CollectionId, key: Key, changes: DocumentChanges, documents: Option<RecordDocuments>) {
        let mut pending = PendingEvaluation { collection, key, changes, documents, carried: Vec::new(), failed: Vec::new() };
        self.evaluate(&mut pending);
        self.pending.push(pending);
    }

    /// Adds records whose documents change; their other documents are read from the store.
    pub fn change(&mut self, store: &dyn Store, tenant: &Tenant, collection: CollectionId, records: Vec<ChangedDocuments>) -> Result<()> {
        let old: Vec<Key> = records.iter().filter(|record| !record.is_new).map(|record| record.key.clone()).collect();
        let stored = if old.is_empty() { Vec::new() } else { store.trees(tenant, collection, &old)? };
        let mut stored: BTreeMap<Key, PackedTrees> = old.into_iter().zip(stored).collect();
        for ChangedDocuments { key, changes, is_deleted, .. } in records {
            let stored_documents = stored.remove(&key).unwrap_or_default().into_iter().map(|(source, tree)| (Arc::from(source), Bytes::from(tree)));
            let mut documents: RecordDocuments = stored_documents.filter(|(source, _)| !changes.iter().any(|(own, _)| own == source)).collect();
            documents.extend(changes.iter().filter_map(|(source, tree)| Some((source.clone(), tree.clone()?))));
            self.add(collection, key, changes, (!is_deleted).then_some(documents));
        }
        Ok(())
    }

    /// Adds a record with all its kept documents, or as one that is deleted. The trees of all these are written, because it is not known which are
    /// stored.
    pub fn add_whole(&mut self, collection: CollectionId, key: Key, contributions: Option<&[Contribution]>) {
        let catalogue = self.catalogue.clone();
        let Some(document) = catalogue.collections[collection].tag_document() else { return };
        let documents = contributions.map(|own| document::documents_of(&catalogue, document, own));
        let tree = |name: &str| documents.iter().flatten().find(|(own, _)| &**own == name).map(|(_, tree)| tree.clone());
        let names = document.sources().into_iter().map(|source| catalogue.sources[source].name.as_str());
        let changes = names.map(|name| (name.into(), tree(name))).collect();
        self.add(collection, key, changes, documents);
    }

    /// Removes a record.
    pub fn forget(&mut self, collection: CollectionId, key: &Key) {
        self.pending.retain(|pending| pending.collection != collection || pending.key != *key);
    }

    fn evaluate(&self, pending: &mut PendingEvaluation) {
        (pending.carried, pending.failed) = (Vec::new(), Vec::new());
        let (Some(definitions), Some(documents)) = (self.definitions.get(&pending.collection), &pending.documents) else { return };
        let collection = &self.catalogue.collections[pending.collection];
        (pending.carried, pending.failed) = definitions.evaluate(&self.catalogue, collection, documents);
    }

    /// Evaluates everything again with other tags.
    pub fn retag(&mut self, tags: &[(CollectionId, CollectionTags)]) {
        self.set_definitions(tags);
        let mut pending = std::mem::take(&mut self.pending);
        pending.iter_mut().for_each(|pending| self.evaluate(pending));
        self.pending = pending;
    }

    /// The results, by collection.
    pub fn tagging(&self) -> Vec<TagWrites> {
        let mut all: BTreeMap<CollectionId, TagWrites> = BTreeMap::new();
        for pending in &self.pending {
            let writes = all.entry(pending.collection).or_insert_with(|| TagWrites {
                collection: pending.collection,
                tags: self.definitions.get(&pending.collection).map(|definitions| definitions.names.clone()).unwrap_or_default(),
                trees: Vec::new(),
                assignments: Vec::new(),
            });
            writes.trees.extend(pending.changes.iter().map(|(source, tree)| TreeWrite {
                key: pending.key.clone(),
                source: source.clone(),
                tree: tree.clone(),
            }));
            writes.assignments.push((pending.key.clone(), pending.carried.clone()));
        }
        all.into_values().collect()
    }

    /// Records for which the XPath of a tag exceeded its steps.
    pub fn failures(&self) -> impl Iterator<Item = FailedEvaluation<'_>> {
        self.pending.iter().filter(|pending| !pending.failed.is_empty()).map(|pending| {
            let names = self.definitions.get(&pending.collection).map(|own| own.names.as_slice()).unwrap_or_default();
            let names: Vec<&str> = pending.failed.iter().filter_map(|position| names.get(*position as usize)).map(String::as_str).collect();
            let collection = &self.catalogue.collections[pending.collection];
            let steps = collection.tags.as_ref().map_or(0, |tags| tags.steps);
            let reason = format!("tag {}: the XPath exceeded {steps} steps; the record does not get the tag", names.join(", "));
            FailedEvaluation { collection: pending.collection, key: &pending.key, reason }
        })
    }
}
