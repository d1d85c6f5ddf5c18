//! Removes contributions from records, those that count and former ones, as a unit of work: for withdrawals, and when a job is undone. With new rules,
//! nothing is removed, and what remains is consolidated all the same.

use crate::Result;
use crate::content::history::golden_change;
use crate::job::{ImportPolicy, NO_JOB};
use crate::merge::RecordMerger;
use crate::merge::former::{ContributionSets, Remaining};
use crate::relations::{Propagation, SettleRules};
use crate::tags::{TagEvaluator, document};
use crate::undo::UndoneRange;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex};
use stook_catalogue::definition::{Collection, OnMatched, OnUnmatched};
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::record::{Contribution, pack, pack_raw};
use stook_catalogue::survivorship::Consolidator;
use stook_store::damage::ForRecord;
use stook_store::erasure::NewErasure;
use stook_store::former::{FormerChange, FormerContribution, FormerWrite};
use stook_store::journal::{ChunkJournal, Outcome};
use stook_store::queue::JobId;
use stook_store::tag::{CollectionTags, TagWrites};
use stook_store::{
    LeaseToken, NewChangeLogEntry, ReadDetail, RecordChange, RecordWrite, RefusedWrite, Result as StoreResult, SettlingChanges, Store, StoredRecord,
    Tenant, Unit, WriteConflict,
};

/// Removes contributions of a record, given all of them: those that count and former ones.
pub(crate) type RemoveContributions = Arc<dyn Fn(&mut Vec<Contribution>) + Send + Sync>;

/// What is removed from records, and for whom.
#[derive(Clone)]
pub(crate) struct Removal {
    /// The tenant of the records.
    pub(crate) tenant: Tenant,
    /// Removes contributions from those of a record.
    pub(crate) removes: RemoveContributions,
    /// The caller, for change logs.
    pub(crate) caller: String,
    /// Why.
    pub(crate) purpose: Purpose,
    /// The job that removes, for marks; [`NO_JOB`] for none.
    pub(crate) job: JobId,
}

/// Why contributions are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A source withdraws them.
    Withdrawal,
    /// The job that made them is undone.
    Undo(JobId),
    /// They are former contributions that no job needs any more.
    Expiry,
    /// Nothing is removed: values are chosen from the same contributions by other rules.
    NewRules,
    /// The record is erased: nothing of it stays, its state neither.
    Erasure,
}

/// What the removal did to a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemovedRecord {
    /// What became of it: created if it exists again, withdrawn if nothing remains, unchanged if other contributions counted already.
    pub(crate) outcome: Outcome,
    /// Whether it is kept without any contribution, because transitions have set its state.
    pub(crate) is_kept_for_state: bool,
    /// Expressions that fail for it.
    pub(crate) failures: Vec<String>,
}

/// What a removal did.
#[derive(Debug, Clone, Default)]
pub(crate) struct RemovalResults {
    /// By record; only those from which something was removed.
    pub(crate) records: BTreeMap<(CollectionId, Key), RemovedRecord>,
    /// Records that keep their contributions, because without them they would get a unique value that another record has.
    pub(crate) unique_conflicts: Vec<RefusedWrite>,
    /// Records that keep their contributions, because not all of the others are known, and the reasons.
    pub(crate) incomplete: BTreeMap<(CollectionId, Key), String>,
}

impl RemovalResults {
    fn refused_records(&self) -> BTreeSet<(CollectionId, Key)> {
        self.unique_conflicts.iter().map(|refused| (refused.collection, refused.key.clone())).collect()
    }

    /// The results, without records that could not be written.
    pub(crate) fn written(&self) -> Self {
        let (mut written, refused) = (self.clone(), self.refused_records());
        written.records.retain(|id, _| !refused.contains(id));
        written
    }
}

/// Removes contributions from some records.
pub(crate) struct RemovalUnit {
    rules: Arc<SettleRules>,
    removal: Removal,
    /// Generations of the mappings of the present definition.
    present: HashSet<u32>,
    writes: Vec<RecordWrite>,
    former: BTreeMap<(CollectionId, Key), Vec<FormerChange>>,
    results: Arc<Mutex<RemovalResults>>,
    logged: BTreeMap<(CollectionId, Key), NewChangeLogEntry>,
    propagations: BTreeMap<(CollectionId, Key), Propagation>,
    /// The tags of the changed records, if tags are computed from documents.
    tagger: Option<TagEvaluator>,
    /// The records that it erases.
    erased: Vec<NewErasure>,
    /// The lease of the chunk, and the part of the undone job's journal that it is.
    chunk: Option<(LeaseToken, UndoneRange)>,
    journal: ChunkJournal,
}

impl RemovalUnit {
    /// Reads the records with these keys and removes contributions from them.
    pub(crate) fn new(
        rules: &Arc<SettleRules>,
        store: &dyn Store,
        removal: &Removal,
        keys: &BTreeMap<CollectionId, Vec<Key>>,
        chunk: Option<(LeaseToken, UndoneRange)>,
    ) -> Result<Self> {
        let catalogue = &rules.catalogue;
        let has_documents = keys.keys().any(|collection| catalogue.collections[*collection].tag_document().is_some());
        let feeds = catalogue.sources.ids().flat_map(|source| (0..catalogue.sources[source].feeds.len()).map(move |feed| (source, feed)));
        let mut unit = Self {
            tagger: if has_documents { Some(TagEvaluator::read(catalogue, store, &removal.tenant)?) } else { None },
            rules: rules.clone(),
            removal: removal.clone(),
            present: feeds.map(|(source, feed)| store.generation(source, feed)).collect(),
            writes: Vec::new(),
            former: BTreeMap::new(),
            results: Arc::default(),
            logged: BTreeMap::new(),
            propagations: BTreeMap::new(),
            erased: Vec::new(),
            chunk,
            journal: ChunkJournal::default(),
        };
        for (collection, keys) in keys {
            let stored = store.read(&removal.tenant, *collection, keys, ReadDetail::Full)?;
            // after the records: whoever changes former contributions of a record also writes the record, which is noticed
            let former = store.former(&removal.tenant, *collection, keys)?;
            for (record, former) in stored.into_iter().zip(former).filter_map(|(record, former)| Some((record?, former))) {
                let write = unit.write(*collection, record, &former)?;
                unit.writes.extend(write);
            }
        }
        Ok(unit)
    }

    /// Erases the records from which it removes everything.
    pub(crate) fn erasing(mut self, erased: Vec<NewErasure>) -> Self {
        self.erased = erased;
        self
    }

    /// Whether nothing is removed from any record.
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// What it does; complete when it is committed.
    pub(crate) fn results(&self) -> Arc<Mutex<RemovalResults>> {
        self.results.clone()
    }

    /// The write of a record without these contributions, if it has any.
    fn write(&mut self, collection: CollectionId, record: StoredRecord, former: &[FormerContribution]) -> StoreResult<Option<RecordWrite>> {
        let id = (collection, record.key.clone());
        let rules = self.rules.clone();
        let definition = &rules.catalogue.collections[collection];
        let before = record.contributions_of(definition)?;
        let sets = ContributionSets::new(definition, before.clone(), former).for_record(&definition.name, &record.key)?;
        let lacks_contributors = matches!(self.removal.purpose, Purpose::Undo(_)) && sets.may_lack_contributors();
        let removed = match self.removal.purpose {
            Purpose::NewRules => Some(Remaining { contributions: before.clone(), former: Vec::new() }),
            // former contributions are removed with the record
            Purpose::Erasure => Some(Remaining { contributions: Vec::new(), former: Vec::new() }),
            _ => sets.without(definition, |all| (self.removal.removes)(all), &self.present),
        };
        let Some(Remaining { contributions, former }) = removed else { return Ok(None) };
        if lacks_contributors {
            let reason = "it has as many contributors as a record can have, and others were left out for them; nothing of it was undone";
            self.with_results(|results| drop(results.incomplete.insert(id, reason.to_owned())));
            return Ok(None);
        }
        let evaluator = Evaluator::new(rules.catalogue.tables.clone());
        let consolidator = Consolidator::new(&rules.catalogue, definition, &evaluator);
        let policy = ImportPolicy { job: self.removal.job, matched: OnMatched::Withdraw, unmatched: OnUnmatched::Skip };
        let empty = contributions.is_empty();
        if let (Some(tagger), Some(document)) = (&mut self.tagger, definition.tag_document())
            && (empty || document::documents_differ(&rules.catalogue, document, &before, &contributions))
        {
            tagger.add_whole(collection, record.key.clone(), (!empty).then_some(&contributions));
        }
        let merger = RecordMerger::new(&rules, collection, &consolidator, &evaluator, policy);
        let change = match (self.removal.purpose, merger.without(&record, contributions.clone())) {
            (Purpose::Erasure, _) => RecordChange::Delete,
            (Purpose::Withdrawal, change) => change,
            (purpose, change) => with_revision(definition, &record, change, &contributions, purpose),
        };
        if self.removal.purpose == Purpose::NewRules && matches!(change, RecordChange::Touch { .. }) {
            return Ok(None);
        }
        self.propagations.insert(id.clone(), merger.follow(&record.key, Some(&record), &change));
        if self.removal.purpose != Purpose::Erasure
            && let Some(logged) = golden_change(definition, Some(&record), &change)
        {
            let (key, caller) = (record.key.clone(), self.removal.caller.clone());
            self.logged.insert(id.clone(), NewChangeLogEntry { collection, key, transition: None, caller, change: logged });
        }
        let is_kept_for_state = empty && change != RecordChange::Delete;
        let removed = RemovedRecord { outcome: outcome(&record, &change, empty), is_kept_for_state, failures: evaluator.failures() };
        self.with_results(|results| drop(results.records.insert(id.clone(), removed)));
        self.former.insert(id, former);
        Ok(Some(RecordWrite { collection, key: record.key, expect: Some(record.version), change }))
    }

    /// Forgets what was computed for a record.
    fn forget(&mut self, id: &(CollectionId, Key)) {
        self.logged.remove(id);
        self.propagations.remove(id);
        self.former.remove(id);
        if let Some(tagger) = &mut self.tagger {
            tagger.forget(id.0, &id.1);
        }
        self.with_results(|results| {
            results.records.remove(id);
            results.incomplete.remove(id);
        });
    }

    /// Records that could not be written in this attempt.
    fn refused_records(&self) -> BTreeSet<(CollectionId, Key)> {
        self.results.lock().map(|results| results.refused_records()).unwrap_or_default()
    }

    fn with_results(&self, work: impl FnOnce(&mut RemovalResults)) {
        if let Ok(mut results) = self.results.lock() {
            work(&mut results);
        }
    }
}

/// The change of a record, which keeps its revision if readers see the same as before. When the job that created it is undone, the oldest job of those
/// that remain has created it.
fn with_revision(
    collection: &Collection,
    record: &StoredRecord,
    change: RecordChange,
    contributions: &[Contribution],
    purpose: Purpose,
) -> RecordChange {
    let RecordChange::Put(mut content) = change else { return change };
    if purpose == Purpose::Undo(content.created_job) {
        let jobs = contributions.iter().map(|contribution| contribution.origin.job).filter(|job| *job != NO_JOB);
        content.created_job = jobs.min().unwrap_or(NO_JOB);
    }
    let is_same = content.exists == record.exists
        && content.golden[..] == record.golden[..]
        && content.state == record.state
        && content.conflicts == record.conflicts
        && content.created_job == record.created_job
        && pack_raw(contributions).as_deref() == record.raw.as_deref();
    if is_same { RecordChange::Touch { contributions: pack(contributions, collection, &record.golden) } } else { RecordChange::Put(content) }
}

/// What became of a record.
fn outcome(record: &StoredRecord, change: &RecordChange, is_empty: bool) -> Outcome {
    match change {
        RecordChange::Touch { .. } => Outcome::Unchanged,
        _ if is_empty => Outcome::Withdrawn,
        RecordChange::Put(content) if content.exists && !record.exists => Outcome::Created,
        RecordChange::Put(content) if !content.exists && record.exists => Outcome::Deleted,
        _ => Outcome::Updated,
    }
}

impl Unit for RemovalUnit {
    fn tenant(&self) -> &Tenant {
        &self.removal.tenant
    }

    fn lease_token(&self) -> Option<LeaseToken> {
        self.chunk.as_ref().map(|(lease, _)| *lease)
    }

    fn erases(&self) -> &[NewErasure] {
        &self.erased
    }

    fn writes(&self) -> &[RecordWrite] {
        self.with_results(|results| results.unique_conflicts.clear());
        &self.writes
    }

    fn reads_former(&self) -> bool {
        true
    }

    fn resolve(&mut self, conflicts: Vec<WriteConflict>) -> StoreResult<Vec<RecordWrite>> {
        let mut writes = Vec::new();
        for WriteConflict { collection, key, record, former } in conflicts {
            self.forget(&(collection, key));
            if let Some(record) = record {
                let name = &self.rules.catalogue.collections[collection].name;
                writes.extend(self.write(collection, record.sound(name)?, &former)?);
            }
        }
        Ok(writes)
    }

    fn refused(&mut self, refused: RefusedWrite) {
        if let Some(tagger) = &mut self.tagger {
            tagger.forget(refused.collection, &refused.key);
        }
        self.with_results(|results| results.unique_conflicts.push(refused));
    }

    fn settling(&mut self) -> SettlingChanges {
        let (mut all, refused) = (Propagation::default(), self.refused_records());
        self.propagations.iter().filter(|(id, _)| !refused.contains(id)).for_each(|(_, propagation)| all.extend(propagation));
        all.settling()
    }

    fn tag_revision(&self) -> Option<i64> {
        self.tagger.as_ref().map(|tagger| tagger.revision)
    }

    fn retag(&mut self, tags: Vec<(CollectionId, CollectionTags)>) {
        if let Some(tagger) = &mut self.tagger {
            tagger.retag(&tags);
        }
    }

    fn tagging(&mut self) -> Vec<TagWrites> {
        self.tagger.as_ref().map(TagEvaluator::tagging).unwrap_or_default()
    }

    fn former(&mut self) -> Vec<FormerWrite> {
        let writes = |((collection, key), changes): (&(CollectionId, Key), &Vec<FormerChange>)| {
            let write = |change: &FormerChange| FormerWrite { collection: *collection, key: key.clone(), change: change.clone() };
            changes.iter().map(write).collect::<Vec<_>>()
        };
        let refused = self.refused_records();
        self.former.iter().filter(|(id, _)| !refused.contains(id)).flat_map(writes).collect()
    }

    fn log(&mut self) -> Vec<NewChangeLogEntry> {
        let refused = self.refused_records();
        self.logged.iter().filter(|(id, _)| !refused.contains(id)).map(|(_, entry)| entry.clone()).collect()
    }

    fn journal(&mut self) -> Option<&ChunkJournal> {
        let (_, range) = self.chunk.as_ref()?;
        let results = self.results.lock().map(|results| results.written()).unwrap_or_default();
        self.journal = range.journal(&self.rules.catalogue, &results);
        Some(&self.journal)
    }

    fn is_rebuilt_if_undone(&self) -> bool {
        self.chunk.is_some()
    }
}
