//! A chunk as a unit of work of the store: its writes, and how records that others have changed meanwhile are merged again.

use super::unit::ChunkUnit;
use crate::merge::MergeResult;
use crate::relations::Propagation;
use crate::settle::refusal;
use crate::tags::TagEvaluator;
use std::collections::BTreeMap;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_store::former::{FormerChange, FormerWrite};
use stook_store::journal::{ChunkJournal, Outcome};
use stook_store::tag::{CollectionTags, TagWrites};
use stook_store::{
    LeaseToken, NewChangeLogEntry, ReadSet, RecordRead, RecordWrite, RefusalReason, RefusedWrite, SettlingChanges, StoreError, Tenant, Unit,
    WriteConflict,
};

impl Unit for ChunkUnit {
    fn tenant(&self) -> &Tenant {
        &self.context.tenant
    }

    fn lease_token(&self) -> Option<LeaseToken> {
        self.lease_token
    }

    fn writes(&self) -> &[RecordWrite] {
        &self.writes
    }

    fn resolve(&mut self, conflicts: Vec<WriteConflict>) -> std::result::Result<Vec<RecordWrite>, StoreError> {
        self.journal = None;
        let mut remerged = BTreeMap::new();
        for conflict in conflicts {
            self.context.match_ratio.note(conflict.collection, 0, usize::from(conflict.record.is_some()));
            let record_id = (conflict.collection, conflict.key.clone());
            let expected_values = self.decisions.get(&record_id).and_then(|decision| decision.after.clone());
            remerged.insert(record_id, expected_values);
            self.decide(conflict.collection, std::iter::once((conflict.key, conflict.record)));
        }
        self.follow_remerged(&remerged);
        self.tag_again(remerged.keys())?;
        Ok(self.take_writes(|record_id| remerged.contains_key(record_id)))
    }

    fn refused(&mut self, refused: RefusedWrite) {
        let RefusedWrite { collection, key, reason } = refused;
        self.journal = None;
        let is_erased = reason == RefusalReason::Erased;
        let outcome = if is_erased { Outcome::Skipped } else { Outcome::Failed };
        let reason = refusal(&self.context.rules.catalogue.collections[collection], &reason);
        let record_id = (collection, key);
        let mut expected_values = None;
        if let Some(decision) = self.decisions.get_mut(&record_id) {
            expected_values = decision.after.take();
            decision.outcomes.iter_mut().for_each(|own| *own = (outcome, Some(reason.clone())));
            decision.is_erased = is_erased;
            decision.instead.clear();
            decision.corrections.clear();
            decision.repaired = None;
            decision.logged = None;
            decision.former.clear();
            decision.stored.clear();
            decision.before = None;
            decision.difference = None;
        }
        if let Some(tagger) = &mut self.tagger {
            tagger.forget(collection, &record_id.1);
        }
        self.follow_remerged(&BTreeMap::from([(record_id, expected_values)]));
    }

    fn read_set(&self) -> Option<&ReadSet> {
        Some(&self.read_set)
    }

    fn read_set_changed(&mut self, records: &[usize], ranges: &[usize]) -> Vec<(CollectionId, Key)> {
        let mut affected: Vec<(CollectionId, Key)> = ranges.iter().flat_map(|range| self.search_ranges[*range].clone()).collect();
        for record in records {
            let RecordRead { collection, key, .. } = self.read_set.records[*record].clone();
            affected.extend(self.settled_by_target.get(&(collection, key)).into_iter().flatten().cloned());
        }
        self.mark_children(&affected);
        Vec::new()
    }

    fn settling(&mut self) -> SettlingChanges {
        let mut all = Propagation::default();
        for decision in self.decisions.values().filter(|decision| !decision.propagation.is_empty()) {
            all.extend(&decision.propagation);
        }
        self.follow_scopes(&mut all);
        all.settling()
    }

    fn tag_revision(&self) -> Option<i64> {
        self.tagger.as_ref().map(|tagger| tagger.revision)
    }

    fn retag(&mut self, tags: Vec<(CollectionId, CollectionTags)>) {
        self.journal = None;
        if let Some(tagger) = &mut self.tagger {
            tagger.retag(&tags);
        }
    }

    fn tagging(&mut self) -> Vec<TagWrites> {
        self.tagger.as_ref().map(TagEvaluator::tagging).unwrap_or_default()
    }

    fn former(&mut self) -> Vec<FormerWrite> {
        let writes = |((collection, key), decision): (&(CollectionId, Key), &MergeResult)| {
            let write = |change: &FormerChange| FormerWrite { collection: *collection, key: key.clone(), change: change.clone() };
            decision.former.iter().map(write).collect::<Vec<_>>()
        };
        self.decisions.iter().flat_map(writes).collect()
    }

    fn log(&mut self) -> Vec<NewChangeLogEntry> {
        let entry = |((collection, key), decision): (&(CollectionId, Key), &MergeResult)| {
            let change = decision.logged.clone()?;
            Some(NewChangeLogEntry { collection: *collection, key: key.clone(), transition: None, caller: self.caller.clone(), change })
        };
        self.decisions.iter().filter_map(entry).collect()
    }

    fn journal(&mut self) -> Option<&ChunkJournal> {
        self.current_journal()
    }

    fn is_rebuilt_if_undone(&self) -> bool {
        self.lease_token.is_some()
    }
}
