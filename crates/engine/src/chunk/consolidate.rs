//! Consolidates a mapped chunk with what is stored, and prepares it to be submitted.

use super::unit::ChunkUnit;
use std::collections::BTreeMap;
use stook_catalogue::definition::OnUnmatched;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_store::journal::ChunkJournal;
use stook_store::{ReadDetail, Store, StoreError, StoredRecord, Tenant};

impl ChunkUnit {
    /// Consolidates with what is stored now: one bulk read per collection.
    ///
    /// # Errors
    /// When the store fails.
    pub fn consolidate(&mut self, store: &dyn Store) -> std::result::Result<(), StoreError> {
        let (met, may_go_unread) = (self.context.match_ratio.clone(), self.goes_unread());
        self.consolidate_with(Some(store), |tenant, collection, keys| {
            if may_go_unread && met.is_seldom(collection) {
                met.note(collection, keys.len(), 0);
                return Ok(vec![None; keys.len()]);
            }
            let found = store.read_damaged(tenant, collection, keys, ReadDetail::Full)?;
            met.note(collection, keys.len(), found.iter().flatten().count());
            Ok(found)
        })
    }

    /// Whether [`ChunkUnit::consolidate_unread`] may be used: only if the profile creates missing records. Otherwise nothing would be written
    /// for them, the store would compare no version, and existing records would be missed.
    pub fn goes_unread(&self) -> bool {
        self.context.policy.unmatched == OnUnmatched::Create
    }

    /// Consolidates as if none of its records existed. Where one exists, the store finds that when it writes, locks it, and lets the unit resolve it.
    ///
    /// # Errors
    /// When the store fails.
    pub fn consolidate_unread(&mut self, store: &dyn Store) -> std::result::Result<(), StoreError> {
        self.consolidate_with(Some(store), |_, _, keys| Ok(vec![None; keys.len()]))
    }

    /// As [`ChunkUnit::consolidate`], reading through `read`. `store` can tell whether what was read of others
    /// is still so when the chunk is written.
    ///
    /// # Errors
    /// What `read` says.
    pub fn consolidate_with(
        &mut self,
        store: Option<&dyn Store>,
        read: impl Fn(&Tenant, CollectionId, &[Key]) -> std::result::Result<Vec<Option<StoredRecord>>, StoreError>,
    ) -> std::result::Result<(), StoreError> {
        let mut by_collection: BTreeMap<CollectionId, Vec<Key>> = BTreeMap::new();
        for (collection, key) in self.mapped.records.keys() {
            by_collection.entry(*collection).or_default().push(key.clone());
        }
        for (collection, keys) in by_collection {
            // whole, though few documents change much: what is not as it was written must not be taken for what was said
            let stored = read(&self.context.tenant, collection, &keys)?;
            self.decide(collection, keys.into_iter().zip(stored));
        }
        self.follow(store)?;
        if let Some(store) = store {
            self.tag(store)?;
        }
        Ok(())
    }

    /// Makes everything ready that the store will ask for, so that the writer has nothing to compute.
    pub fn prepare(&mut self) {
        // what records were has been told
        self.decisions.values_mut().for_each(|decision| decision.before = None);
        self.writes = self.take_writes(|_| true);
        self.journal = Some(self.build_journal());
    }

    /// What the chunk would journal as things stand; for a dry run.
    pub fn preview(&mut self) -> ChunkJournal {
        self.build_journal()
    }
}
