//! Consolidates a mapped chunk with the stored records, and prepares it to be submitted.

use super::unit::ChunkUnit;
use std::collections::BTreeMap;
use stook_catalogue::definition::OnUnmatched;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_store::journal::ChunkJournal;
use stook_store::{ReadDetail, Store, StoreError, StoredRecord, Tenant};

impl ChunkUnit {
    /// Merges the chunk's contributions into the stored records, with one bulk read per collection.
    ///
    /// # Errors
    /// When the store fails.
    pub fn consolidate(&mut self, store: &dyn Store) -> std::result::Result<(), StoreError> {
        let (match_ratio, may_skip_read) = (self.context.match_ratio.clone(), self.may_consolidate_unread());
        self.consolidate_with(Some(store), |tenant, collection, keys| {
            if may_skip_read && match_ratio.is_seldom(collection) {
                match_ratio.note(collection, keys.len(), 0);
                return Ok(vec![None; keys.len()]);
            }
            let found = store.read_damaged(tenant, collection, keys, ReadDetail::Full)?;
            match_ratio.note(collection, keys.len(), found.iter().flatten().count());
            Ok(found)
        })
    }

    /// Whether [`ChunkUnit::consolidate_unread`] may be used: only if the profile creates missing records. Otherwise nothing would be written
    /// for them, so the store would compare no version, and existing records would be missed.
    pub fn may_consolidate_unread(&self) -> bool {
        self.context.policy.unmatched == OnUnmatched::Create
    }

    /// Consolidates as if none of its records existed. When the store finds on writing that one exists, it locks the record and has the unit resolve
    /// the conflict. Without a `store` nothing is read, so that it never blocks; only a chunk that is [independent](ChunkUnit::is_independent) can be
    /// consolidated so.
    ///
    /// # Errors
    /// When the store fails.
    pub fn consolidate_unread(&mut self, store: Option<&dyn Store>) -> std::result::Result<(), StoreError> {
        self.consolidate_with(store, |_, _, keys| Ok(vec![None; keys.len()]))
    }

    /// As [`ChunkUnit::consolidate`], but reads the records through `read`. With a `store`, records can also be settled inline by reading others,
    /// which the store checks when the chunk is written, and erased records are left out before the store refuses them.
    ///
    /// # Errors
    /// When `read` or the store fails.
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
            // full records are read, so that damaged values are noticed and not taken for contributed ones
            let stored = read(&self.context.tenant, collection, &keys)?;
            // the store refuses these, which is told before, so that the summary does not count them
            let erased = store.map_or(Ok(Vec::new()), |store| store.erased(&self.context.tenant, collection, &keys))?;
            let erased: Vec<Key> = erased.into_iter().map(|position| keys[position].clone()).collect();
            self.decide(collection, keys.into_iter().zip(stored));
            for key in erased {
                if let Some(decision) = self.decisions.get_mut(&(collection, key)) {
                    decision.difference = None;
                }
            }
        }
        self.follow(store)?;
        if let Some(store) = store {
            self.tag(store)?;
        }
        Ok(())
    }

    /// Computes what the store will take, so that its writing thread need not.
    pub fn prepare(&mut self) {
        // the former values have been used by `follow`
        self.decisions.values_mut().for_each(|decision| decision.before = None);
        self.writes = self.take_writes(|_| true);
        self.journal = Some(self.build_journal());
    }

    /// The journal that the chunk would write; for a dry run.
    pub fn preview(&mut self) -> ChunkJournal {
        self.build_journal()
    }
}
