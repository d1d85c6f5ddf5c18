//! Computes the tags of a chunk's records after its changes.

use super::unit::ChunkUnit;
use crate::tags::{ChangedDocuments, TagEvaluator};
use std::collections::BTreeMap;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::record::unpack;
use stook_store::damage::ForRecord;
use stook_store::{RecordChange, Store, StoreError};

impl ChunkUnit {
    /// Computes the changes of tags of the records that change.
    pub(super) fn tag(&mut self, store: &dyn Store) -> std::result::Result<(), StoreError> {
        let (catalogue, tenant) = (self.context.rules.catalogue.clone(), self.context.tenant.clone());
        let mut changed: BTreeMap<CollectionId, Vec<ChangedDocuments>> = BTreeMap::new();
        let mut any = false;
        for ((collection, key), decision) in &mut self.decisions {
            any |= catalogue.collections[*collection].tags.is_some();
            if let (true, Some((expect, change))) = (decision.reevaluates_tags, &decision.write) {
                let (changes, is_new, is_deleted) = (std::mem::take(&mut decision.documents), expect.is_none(), *change == RecordChange::Delete);
                changed.entry(*collection).or_default().push(ChangedDocuments { key: key.clone(), changes, is_new, is_deleted });
            }
        }
        self.tagger = None;
        if !any {
            return Ok(());
        }
        let mut tagger = TagEvaluator::read(&catalogue, store, &tenant)?;
        for (collection, records) in changed {
            tagger.change(store, &tenant, collection, records)?;
        }
        self.tagger = Some(tagger);
        Ok(())
    }

    /// Computes them again for records that were merged again inside the store's transaction, from all documents that these now have.
    pub(super) fn tag_again<'p>(&mut self, remerged: impl Iterator<Item = &'p (CollectionId, Key)>) -> std::result::Result<(), StoreError> {
        let Some(tagger) = &mut self.tagger else { return Ok(()) };
        let catalogue = &self.context.rules.catalogue;
        for record_id in remerged {
            tagger.forget(record_id.0, &record_id.1);
            let definition = &catalogue.collections[record_id.0];
            let Some(decision) = self.decisions.get(record_id).filter(|decision| decision.reevaluates_tags) else { continue };
            match &decision.write {
                Some((_, RecordChange::Put(content))) => {
                    let read = unpack(&content.contributions, definition, &content.golden, content.raw.as_deref());
                    tagger.add_whole(record_id.0, record_id.1.clone(), Some(&read.for_record(&definition.name, &record_id.1)?));
                }
                Some((_, RecordChange::Delete)) => tagger.add_whole(record_id.0, record_id.1.clone(), None),
                // the documents are the same as before
                _ => {}
            }
        }
        Ok(())
    }
}
