//! Several edits and transitions in one transaction, which was decided by what was read before: a declared route that writes.
//!
//! All of them are written, or none. They are not decided again inside the transaction: if anything they were decided by has changed, nothing is
//! written and the caller starts from its first read.

use super::edit::{Edit, EditAction, EditContext, EditResult, PlannedEdit};
use super::transition::{RefusalReason, StateChange, TransitionDecision, TransitionRequest};
use crate::Result;
use crate::relations::{Propagation, SettleRules};
use crate::tags::TagEvaluator;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use stook_catalogue::eval::{Evaluator, ExpressionFailures};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_store::tag::{CollectionTags, TagWrites};
use stook_store::{
    IdempotentCall, NewChangeLogEntry, Premises, ReadDetail, RecordWrite, RefusedWrite, SettlingChanges, Store, StoreError, Tenant, Unit,
    WriteConflict,
};

/// A change of one record.
#[derive(Debug, Clone)]
pub enum Change {
    /// An edit; deleting a record that does not exist changes nothing.
    Edit(Box<Edit>),
    /// A transition.
    Transition {
        /// Which, with its arguments.
        request: Arc<TransitionRequest>,
        /// The record.
        key: Key,
    },
}

/// Changes that are written together.
#[derive(Debug, Clone)]
pub struct ChangeSet {
    /// The tenant of the records.
    pub tenant: Tenant,
    /// The changes, each of another record; an edit may be repeated.
    pub changes: Vec<Change>,
    /// What they were decided by.
    pub premises: Premises,
    /// The idempotency key, if there is one.
    pub call: Option<IdempotentCall>,
    /// The answer that is kept for the idempotency key.
    pub answer: KeptAnswer,
}

/// What is kept for an idempotency key.
#[derive(Debug, Clone)]
pub enum KeptAnswer {
    /// The complete answer.
    Answer(Vec<u8>),
    /// The keys of the records, as `{"keys": [..]}`: the answer is made after the write.
    Keys,
}

/// Why a change cannot be made.
#[derive(Debug, Clone, PartialEq)]
pub enum RefusedChange {
    /// The edit is not done, for this reason.
    Edit(EditResult),
    /// The transition is refused.
    Transition(Vec<RefusalReason>),
    /// The record of the transition does not exist.
    Missing,
    /// An earlier change of the same set is of this record.
    Twice(Key),
}

/// What several changes have written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WrittenRecords {
    /// The keys of the records, in the order of the changes.
    pub keys: Vec<Key>,
    /// What the caller should know of them.
    pub warnings: ExpressionFailures,
}

/// The result of several changes.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangeSetResult {
    /// All were written.
    Done(WrittenRecords),
    /// None was written: the change at this position cannot be made.
    Refused(usize, RefusedChange),
    /// None was written: what they were decided by has changed.
    Outdated,
    /// The idempotency key was used before.
    Replayed {
        /// Whether for the same request.
        same: bool,
        /// The answer that was kept.
        answer: Vec<u8>,
    },
}

/// Writes several changes.
///
/// # Errors
/// When the store fails; then nothing was written.
pub fn run(rules: &Arc<SettleRules>, store: &dyn Store, evaluator: &Evaluator, set: ChangeSet) -> Result<ChangeSetResult> {
    let ChangeSet { tenant, changes, mut premises, call, answer } = set;
    let mut planned = BTreeMap::new();
    let mut refusal = None;
    let mut warnings = ExpressionFailures::default();
    let mut repeatable: HashMap<(CollectionId, Key), EditAction> = HashMap::new();
    for (position, change) in changes.into_iter().enumerate() {
        let action = match &change {
            Change::Edit(edit) if !matches!(edit.action, EditAction::Create(_)) => Some(edit.action.clone()),
            _ => None,
        };
        let decided = decide(rules, store, evaluator, change)?;
        match decided {
            Ok(None) => {}
            Ok(Some(mut change)) => {
                warnings.add(
                    &rules.catalogue.collections[change.write.collection].name,
                    change.write.key.as_str(),
                    std::mem::take(&mut change.warnings),
                );
                let record = (change.write.collection, change.write.key.clone());
                let twice = RefusedChange::Twice(record.1.clone());
                // the same edit again changes nothing
                if action.is_some() && repeatable.get(&record) == action.as_ref() {
                    continue;
                }
                repeatable.extend(action.map(|action| (record.clone(), action)));
                if planned.insert(record, PlannedChange { position, ..change }).is_some() {
                    refusal = Some((position, twice));
                    break;
                }
            }
            Err(reason) => {
                refusal = Some((position, reason));
                break;
            }
        }
    }
    if let Some((position, reason)) = refusal {
        let refused = ChangeSetResult::Refused(position, reason);
        return Ok(former_answer(store, &tenant, call.as_ref())?.unwrap_or(refused));
    }
    let revision_of = |record: &(CollectionId, Key)| planned.get(record).map(|change| change.write.expect.map(|version| version.revision));
    let mut is_outdated = false;
    // the version that a write is based on is checked anyway
    premises.records.retain(|read| match revision_of(&(read.collection, read.key.clone())) {
        None => true,
        Some(revision) => {
            is_outdated |= revision != Some(read.revision);
            false
        }
    });
    premises.records.sort();
    premises.records.dedup();
    if is_outdated {
        return Ok(former_answer(store, &tenant, call.as_ref())?.unwrap_or(ChangeSetResult::Outdated));
    }
    let mut keys: Vec<(usize, Key)> = planned.values().map(|change| (change.position, change.write.key.clone())).collect();
    keys.sort();
    let keys: Vec<Key> = keys.into_iter().map(|(_, key)| key).collect();
    let answer = match answer {
        KeptAnswer::Answer(answer) => answer,
        KeptAnswer::Keys => {
            let texts: Vec<&str> = keys.iter().map(Key::as_str).collect();
            serde_json::json!({ "keys": texts }).to_string().into_bytes()
        }
    };
    let writes = planned.values().map(|change| change.write.clone()).collect();
    let result = Arc::new(Mutex::new(None));
    let unit = SeveralUnit { rules: rules.clone(), tenant, planned, writes, premises, call, answer, tagger: None, result: result.clone() };
    let committed = store.commit(Box::new(unit));
    let result = result.lock().unwrap_or_else(PoisonError::into_inner).take();
    match committed {
        Ok(_) => Ok(result.unwrap_or(ChangeSetResult::Done(WrittenRecords { keys, warnings }))),
        Err(StoreError::Outdated) => Ok(result.unwrap_or(ChangeSetResult::Outdated)),
        Err(error) => Err(error.into()),
    }
}

/// Returns the answer that is kept for an idempotency key: it is repeated even if the request would be refused now.
///
/// # Errors
/// When the store fails.
pub fn former_answer(store: &dyn Store, tenant: &Tenant, call: Option<&IdempotentCall>) -> Result<Option<ChangeSetResult>> {
    let Some(call) = call else { return Ok(None) };
    let result = Arc::new(Mutex::new(None));
    store.commit(Box::new(FormerAnswer { tenant: tenant.clone(), call: call.clone(), result: result.clone() }))?;
    let mut result = result.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(result.take())
}

/// A change that can be made.
struct PlannedChange {
    /// Its position in the set.
    position: usize,
    write: RecordWrite,
    logged: Option<NewChangeLogEntry>,
    /// The edges and marks that follow from it.
    propagation: Propagation,
    /// What the caller should know of it.
    warnings: Vec<String>,
}

/// Decides about one change; `None` if there is nothing to change.
fn decide(
    rules: &Arc<SettleRules>,
    store: &dyn Store,
    evaluator: &Evaluator,
    change: Change,
) -> Result<std::result::Result<Option<PlannedChange>, RefusedChange>> {
    let now = store.clock();
    match change {
        Change::Edit(edit) => {
            let is_deletion = edit.action == EditAction::Delete;
            let context = match EditContext::new(rules, evaluator, *edit, now) {
                Ok(context) => context,
                Err(edited) => return Ok(Err(RefusedChange::Edit(edited))),
            };
            let stored = context.stored(store)?;
            Ok(match context.decide(evaluator, stored)? {
                Ok(planned) => {
                    let warnings = planned.warnings().to_vec();
                    let PlannedEdit { write, logged, propagation, .. } = planned;
                    Ok(Some(PlannedChange { position: 0, write, logged, propagation, warnings }))
                }
                Err(EditResult::Missing) if is_deletion => Ok(None),
                Err(edited) => Err(RefusedChange::Edit(edited)),
            })
        }
        Change::Transition { request, key } => {
            let record = store.read(&request.tenant, request.collection, std::slice::from_ref(&key), ReadDetail::Values)?.pop().flatten();
            Ok(match request.decide(&rules.catalogue, evaluator, &key, record.as_ref(), now) {
                TransitionDecision::Missing => Err(RefusedChange::Missing),
                TransitionDecision::Refused(reasons) => Err(RefusedChange::Transition(reasons)),
                TransitionDecision::Change(changed) => {
                    let StateChange { write, logged, .. } = *changed;
                    Ok(Some(PlannedChange { position: 0, write, logged: Some(logged), propagation: Propagation::default(), warnings: Vec::new() }))
                }
            })
        }
    }
}

struct SeveralUnit {
    rules: Arc<SettleRules>,
    tenant: Tenant,
    planned: BTreeMap<(CollectionId, Key), PlannedChange>,
    writes: Vec<RecordWrite>,
    premises: Premises,
    call: Option<IdempotentCall>,
    answer: Vec<u8>,
    /// The tags of new records, which have no documents.
    tagger: Option<TagEvaluator>,
    /// The result, if it is another one than that all were written.
    result: Arc<Mutex<Option<ChangeSetResult>>>,
}

impl SeveralUnit {
    fn set_result(&self, result: Option<ChangeSetResult>) {
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = result;
    }

    /// The new records of collections whose tags are computed from documents.
    fn newly_tagged(&self) -> impl Iterator<Item = &(CollectionId, Key)> {
        let is_tagged = |collection: CollectionId| self.rules.catalogue.collections[collection].tag_document().is_some();
        self.planned.iter().filter(move |((collection, _), change)| change.write.expect.is_none() && is_tagged(*collection)).map(|(record, _)| record)
    }
}

impl Unit for SeveralUnit {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn call(&self) -> Option<&IdempotentCall> {
        self.call.as_ref()
    }

    fn repeated(&mut self, same: bool, answer: Vec<u8>) {
        self.set_result(Some(ChangeSetResult::Replayed { same, answer }));
    }

    fn premises(&self) -> Option<&Premises> {
        Some(&self.premises)
    }

    fn writes(&self) -> &[RecordWrite] {
        // the store may run the transaction again; then only the last result counts
        self.set_result(None);
        &self.writes
    }

    fn resolve(&mut self, _conflicts: Vec<WriteConflict>) -> std::result::Result<Vec<RecordWrite>, StoreError> {
        Err(StoreError::Outdated)
    }

    fn refused(&mut self, refused: RefusedWrite) {
        let RefusedWrite { collection, key, reason } = refused;
        let position = self.planned.get(&(collection, key)).map_or(0, |change| change.position);
        let edited = EditResult::refused(&self.rules.catalogue.collections[collection], reason);
        self.set_result(Some(ChangeSetResult::Refused(position, RefusedChange::Edit(edited))));
    }

    fn must_be_undone(&self) -> bool {
        self.result.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn settling(&mut self) -> SettlingChanges {
        let mut all = Propagation::default();
        self.planned.values().for_each(|change| all.extend(&change.propagation));
        all.settling()
    }

    fn tag_revision(&self) -> Option<i64> {
        // no revision is this old, so the store passes the present tags inside the transaction
        self.newly_tagged().next().map(|_| i64::MIN)
    }

    fn retag(&mut self, tags: Vec<(CollectionId, CollectionTags)>) {
        let mut tagger = TagEvaluator::new(&self.rules.catalogue, &tags, None);
        for (collection, key) in self.newly_tagged() {
            tagger.add(*collection, key.clone(), Vec::new(), Some(Vec::new()));
        }
        self.tagger = Some(tagger);
    }

    fn tagging(&mut self) -> Vec<TagWrites> {
        self.tagger.as_ref().map(TagEvaluator::tagging).unwrap_or_default()
    }

    fn log(&mut self) -> Vec<NewChangeLogEntry> {
        self.planned.values().filter_map(|change| change.logged.clone()).collect()
    }

    fn response_to_keep(&mut self, _committed_at: i64) -> Option<Vec<u8>> {
        Some(self.answer.clone())
    }
}

/// Reads the answer of a call; writes nothing.
struct FormerAnswer {
    tenant: Tenant,
    call: IdempotentCall,
    result: Arc<Mutex<Option<ChangeSetResult>>>,
}

impl Unit for FormerAnswer {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn call(&self) -> Option<&IdempotentCall> {
        Some(&self.call)
    }

    fn repeated(&mut self, same: bool, answer: Vec<u8>) {
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(ChangeSetResult::Replayed { same, answer });
    }

    fn refused(&mut self, _refused: RefusedWrite) {}
}
