//! Withdrawals: removing what a source has contributed, as if it had never been contributed.

use crate::content::collection::find_collection;
use crate::content::history::golden_change;
use crate::job::sizes::PAGE;
use crate::job::{ImportPolicy, NO_JOB};
use crate::merge::RecordMerger;
use crate::relations::{Propagation, SettleRules, SettlingUnit};
use crate::settle;
use crate::tags::{TagEvaluator, document};
use crate::{EngineError, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use stook_catalogue::definition::{Catalogue, OnMatched, OnUnmatched};
use stook_catalogue::eval::{Evaluator, ExpressionFailures};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::record::Contribution;
use stook_catalogue::survivorship::Consolidator;
use stook_store::tag::{CollectionTags, TagWrites};
use stook_store::{
    NewChangeLogEntry, ReadDetail, RecordChange, RecordWrite, Result as StoreResult, SettlingChanges, Store, StoredRecord, Tenant, UniqueConflict,
    Unit, WriteConflict,
};

/// The result of a withdrawal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WithdrawalReport {
    /// Records that lost a contribution.
    pub records: u64,
    /// Those of them that no longer exist.
    pub deleted: u64,
    /// Those of them that are kept without any contribution, because transitions have set their state.
    pub kept_for_state: u64,
    /// Expressions that fail for these records without it.
    pub failures: ExpressionFailures,
    /// Records that keep the contribution, because without it they would get a unique value that another record has; a sentence for each.
    pub unique_conflicts: Vec<String>,
}

impl WithdrawalReport {
    fn add(&mut self, other: Self) {
        self.records += other.records;
        self.deleted += other.deleted;
        self.kept_for_state += other.kept_for_state;
        self.failures.include(other.failures);
        self.unique_conflicts.extend(other.unique_conflicts);
    }
}

/// What is to be withdrawn.
#[derive(Debug, Clone, Copy)]
pub struct WithdrawalRequest<'r> {
    /// The tenant of the records.
    pub tenant: &'r Tenant,
    /// A source, or `source:part`.
    pub contributor: &'r str,
    /// Only from this collection; if `None`, from all collections that the contributor feeds.
    pub collection: Option<&'r str>,
    /// Only from the record with this key.
    pub key: Option<&'r str>,
}

/// Withdraws all contributions of a contributor from one collection or all it feeds, or from one record; values that they overruled count again.
/// `show` is called with the number of records that have lost a contribution so far.
///
/// # Errors
/// When the names are not known, or the store fails; what was withdrawn until then stays withdrawn.
pub fn withdraw(catalogue: &Arc<Catalogue>, store: &dyn Store, request: &WithdrawalRequest<'_>, show: &dyn Fn(u64)) -> Result<WithdrawalReport> {
    let WithdrawalRequest { tenant, contributor, collection, key } = *request;
    let source = contributor.split(':').next().unwrap_or(contributor);
    let source_definition = catalogue.source(source).map(|(_, source)| source);
    if source_definition.is_none() && source != "api" {
        return Err(EngineError::Wrong(format!("there is no source `{source}`")));
    }
    let collections: Vec<CollectionId> = match (collection, source_definition) {
        (Some(name), _) => vec![find_collection(catalogue, name)?.0],
        (None, Some(source)) => source.feeds.iter().map(|feed| feed.collection).collect(),
        (None, None) => catalogue.collections.ids().collect(),
    };
    if key.is_some() && collections.len() != 1 {
        return Err(EngineError::Wrong("--key requires --collection".into()));
    }
    let collection_is_all = collection.is_none();
    let rules = Arc::new(SettleRules::new(catalogue));
    let withdrawn = contributor.to_owned();
    let removes: RemoveContributions = Arc::new(move |contributions| {
        contributions.retain(|contribution| *contribution.contributor != *withdrawn && contribution.source() != withdrawn);
    });
    let removal = Removal { tenant, removes: &removes, caller: &format!("withdrawal of {contributor}") };
    let mut total = WithdrawalReport::default();
    for collection in collections {
        if let Some(key) = key {
            let key = Key::new(key).map_err(|error| EngineError::Wrong(error.to_string()))?;
            total.add(page(&rules, store, &removal, collection, &[key])?);
            continue;
        }
        let mut after = String::new();
        loop {
            let keys = store.keys_after(tenant, collection, &after, PAGE)?;
            let Some(last) = keys.last() else { break };
            last.as_str().clone_into(&mut after);
            total.add(page(&rules, store, &removal, collection, &keys)?);
            show(total.records);
        }
    }
    if let Some(replaces) = source_definition.and_then(|source| source.replaces.as_ref()).filter(|_| contributor == source && collection_is_all) {
        // without its ledger, what the source delivers again is not retired on arrival
        let forget = replaces.links().to_vec();
        store.commit(Box::new(SettlingUnit {
            tenant: tenant.clone(),
            settling: SettlingChanges { cleared_links: forget, ..SettlingChanges::default() },
        }))?;
    }
    Ok(total)
}

/// Removes contributions of a record that are to be withdrawn.
pub(crate) type RemoveContributions = Arc<dyn Fn(&mut Vec<Contribution>) + Send + Sync>;

/// What is removed from records.
pub(crate) struct Removal<'r> {
    /// The tenant of the records.
    pub(crate) tenant: &'r Tenant,
    /// Removes contributions from those of a record.
    pub(crate) removes: &'r RemoveContributions,
    /// The caller, for change logs.
    pub(crate) caller: &'r str,
}

/// Removes contributions from some records.
pub(crate) fn page(
    rules: &Arc<SettleRules>,
    store: &dyn Store,
    removal: &Removal<'_>,
    collection: CollectionId,
    keys: &[Key],
) -> Result<WithdrawalReport> {
    let Removal { tenant, removes, caller } = *removal;
    let stored = store.read(tenant, collection, keys, ReadDetail::Full)?;
    let counted = Arc::new(std::sync::Mutex::new(CountedWithdrawal::default()));
    let definition = &rules.catalogue.collections[collection];
    let tagger = match definition.tag_document() {
        Some(_) => Some(TagEvaluator::new(&rules.catalogue, &[(collection, store.tags(tenant, collection)?)], None)),
        None => None,
    };
    let mut unit = WithdrawUnit {
        tagger,
        rules: rules.clone(),
        tenant: tenant.clone(),
        removes: removes.clone(),
        caller: caller.to_owned(),
        collection,
        writes: Vec::new(),
        counted: counted.clone(),
        logged: BTreeMap::new(),
        propagations: BTreeMap::new(),
    };
    for record in stored.into_iter().flatten() {
        let write = unit.write(record)?;
        unit.writes.extend(write);
    }
    if !unit.writes.is_empty() {
        store.commit(Box::new(unit))?;
    }
    let (mut counted, failures) = counted.lock().map(|counted| counted.clone()).unwrap_or_default();
    failures.into_iter().for_each(|(key, failed)| counted.failures.add(&definition.name, key.as_str(), failed));
    Ok(counted)
}

/// The result, and the expressions that fail for records afterwards.
type CountedWithdrawal = (WithdrawalReport, BTreeMap<Key, Vec<String>>);

struct WithdrawUnit {
    rules: Arc<SettleRules>,
    tenant: Tenant,
    removes: RemoveContributions,
    caller: String,
    collection: CollectionId,
    writes: Vec<RecordWrite>,
    counted: Arc<std::sync::Mutex<CountedWithdrawal>>,
    logged: BTreeMap<Key, NewChangeLogEntry>,
    propagations: BTreeMap<Key, Propagation>,
    /// The tags of the changed records, if tags are computed from documents.
    tagger: Option<TagEvaluator>,
}

impl WithdrawUnit {
    /// The write of a record without these contributions, if it has any.
    fn write(&mut self, record: StoredRecord) -> StoreResult<Option<RecordWrite>> {
        let definition = &self.rules.catalogue.collections[self.collection];
        let mut contributions = record.contributions_of(definition)?;
        let before = contributions.clone();
        (self.removes)(&mut contributions);
        if contributions == before {
            return Ok(None);
        }
        let evaluator = Evaluator::new(self.rules.catalogue.tables.clone());
        let consolidator = Consolidator::new(&self.rules.catalogue, definition, &evaluator);
        let policy = ImportPolicy { job: NO_JOB, matched: OnMatched::Withdraw, unmatched: OnUnmatched::Skip };
        let empty = contributions.is_empty();
        if let (Some(tagger), Some(document)) = (&mut self.tagger, definition.tag_document())
            && (empty || document::documents_differ(&self.rules.catalogue, document, &before, &contributions))
        {
            tagger.add_whole(self.collection, record.key.clone(), (!empty).then_some(&contributions));
        }
        let merger = RecordMerger::new(&self.rules, self.collection, &consolidator, &evaluator, policy);
        let change = merger.without(&record, contributions);
        let propagation = merger.follow(&record.key, Some(&record), &change);
        self.propagations.insert(record.key.clone(), propagation);
        if let Some(logged) = golden_change(definition, Some(&record), &change) {
            let (collection, key, caller) = (self.collection, record.key.clone(), self.caller.clone());
            self.logged.insert(record.key.clone(), NewChangeLogEntry { collection, key, transition: None, caller, change: logged });
        }
        if let Ok(mut counted) = self.counted.lock() {
            let (counted, failures) = &mut *counted;
            counted.records += 1;
            counted.kept_for_state += u64::from(empty && change != RecordChange::Delete);
            counted.deleted += u64::from(empty);
            failures.insert(record.key.clone(), evaluator.failures());
        }
        Ok(Some(RecordWrite { collection: self.collection, key: record.key, expect: Some(record.version), change }))
    }
}

impl Unit for WithdrawUnit {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn writes(&self) -> &[RecordWrite] {
        &self.writes
    }

    fn resolve(&mut self, conflicts: Vec<WriteConflict>) -> StoreResult<Vec<RecordWrite>> {
        if let Ok(mut counted) = self.counted.lock() {
            counted.0.records = counted.0.records.saturating_sub(conflicts.len() as u64);
            conflicts.iter().for_each(|conflict| drop(counted.1.remove(&conflict.key)));
        }
        let mut writes = Vec::new();
        for conflict in conflicts {
            self.logged.remove(&conflict.key);
            self.propagations.remove(&conflict.key);
            if let Some(tagger) = &mut self.tagger {
                tagger.forget(self.collection, &conflict.key);
            }
            if let Some(record) = conflict.record {
                let name = &self.rules.catalogue.collections[self.collection].name;
                writes.extend(self.write(record.sound(name)?)?);
            }
        }
        Ok(writes)
    }

    fn refused(&mut self, refused: UniqueConflict) {
        let key = &refused.key;
        self.logged.remove(key);
        self.propagations.remove(key);
        if let Some(tagger) = &mut self.tagger {
            tagger.forget(refused.collection, key);
        }
        if let Ok(mut counted) = self.counted.lock() {
            let (counted, failures) = &mut *counted;
            counted.records = counted.records.saturating_sub(1);
            failures.remove(key);
            counted.unique_conflicts.push(settle::why_refused(&self.rules.catalogue, &refused));
        }
    }

    fn settling(&mut self) -> SettlingChanges {
        let mut all = Propagation::default();
        self.propagations.values().for_each(|propagation| all.extend(propagation));
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

    fn log(&mut self) -> Vec<NewChangeLogEntry> {
        self.logged.values().cloned().collect()
    }
}
