//! Edits of single records: contributions of the contributor `api`.
//!
//! An edit replaces what `api` contributes to a record; golden fields follow by survivorship as for any other contribution. Its as-of time is the
//! store's time, but always later than that of the edit before it, so that edits of a record cannot change places. A deletion is a
//! contribution, too, and competes by as-of time.

use super::corrections::{CORRECTS, NewCorrections, REASON, hash_of, read_corrections};
use super::edit_answer::EditAnswer;
use crate::Result;
use crate::content::allowed::check;
use crate::content::allowed::strict_from_json;
use crate::content::history::golden_change;
use crate::content::key::key_of;
use crate::content::settled::carry_settled;
use crate::job::{ImportPolicy, NO_JOB};
use crate::merge::{RecordMerger, existence_reason};
use crate::records::record::rule_name;
use crate::relations::{Propagation, SettleRules};
use crate::tags::TagEvaluator;
use serde_json::{Map, Value as Json};
use std::sync::{Arc, Mutex, PoisonError};
use stook_catalogue::definition::{API_NAME, Collection, Field, KeyDefinition, OnMatched, OnUnmatched, SourceRef};
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::{CollectionId, FieldId, IdVec};
use stook_catalogue::key::Key;
use stook_catalogue::record::{Contribution, ContributionContent, ContributionOrigin, Correction, Retirement, keep_newest, pack};
use stook_catalogue::survivorship::{Consolidator, GoldenRecord};
use stook_catalogue::value::{SmolStr, Value};
use stook_store::tag::{CollectionTags, TagWrites};
use stook_store::{
    IdempotentCall, NewChangeLogEntry, ReadDetail, RecordChange, RecordContent, RecordFilter, RecordWrite, RefusalReason, RefusedWrite,
    SettlingChanges, Store, StoreError, StoredRecord, Tenant, Unit, WriteConflict,
};

/// How an edit changes the contribution of `api` to a record.
#[derive(Debug, Clone, PartialEq)]
pub enum EditAction {
    /// Contributes these fields to a record that must not exist.
    Create(EditFields),
    /// Replaces the former contribution; the record may be new.
    Put(EditFields),
    /// Merges these fields into the former contribution (RFC 7396): null removes a field from it.
    Patch(EditFields),
    /// Contributes a deletion.
    Delete,
}

impl EditAction {
    /// The name of the action.
    pub fn name(&self) -> &'static str {
        match self {
            EditAction::Create(_) => "create",
            EditAction::Put(_) => "put",
            EditAction::Patch(_) => "patch",
            EditAction::Delete => "delete",
        }
    }
}

/// The fields of an edit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EditFields {
    /// Values by name.
    pub values: Map<String, Json>,
    /// Fields that are cleared: they have no value, whatever other contributors state.
    pub clear: Vec<String>,
    /// By field, the values of other contributors that the edit corrects, as [`CORRECTS`] says; null for none.
    pub corrects: Json,
    /// Why the fields are edited, as [`REASON`] says; null for no reason.
    pub reason: Json,
    /// Who made the edit before, and when; `None` for an edit that the caller makes now.
    pub made: Option<EditMaker>,
}

/// Who made an edit that was exported, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditMaker {
    /// Who.
    pub caller: SmolStr,
    /// When, in microseconds, if that is known.
    pub at: Option<i64>,
}

impl EditFields {
    /// Takes the members that say what is corrected, and why, out of the members of a request.
    pub fn from_members(mut values: Map<String, Json>, clear: Vec<String>) -> Self {
        let (corrects, reason) = (values.remove(CORRECTS).unwrap_or_default(), values.remove(REASON).unwrap_or_default());
        Self { values, clear, corrects, reason, made: None }
    }
}

/// Conditions on the record that must hold for the edit to be done: on its revision (HTTP: If-Match, If-None-Match), and those of the caller's rights.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Preconditions {
    /// The record has one of these revisions; an empty list means that it exists.
    pub is: Option<Vec<i64>>,
    /// The record has none of these revisions; an empty list means that it does not exist.
    pub is_not: Option<Vec<i64>>,
    /// The records that the caller may change; `None` for all. Both the record as it is and as it would be are among them.
    pub part: Option<Arc<RecordFilter>>,
}

/// An edit of one record.
#[derive(Debug, Clone)]
pub struct Edit {
    /// Its tenant.
    pub tenant: Tenant,
    /// Its collection.
    pub collection: CollectionId,
    /// Its key; for [`EditAction::Create`] it follows from the fields.
    pub key: Option<Key>,
    /// How the contribution changes.
    pub action: EditAction,
    /// The conditions.
    pub conditions: Preconditions,
    /// The caller, for the change log.
    pub caller: String,
    /// The idempotency key, if there is one.
    pub call: Option<IdempotentCall>,
}

/// A field of an edit that has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverruledField {
    /// The field's name.
    pub field: String,
    /// The contributors whose values count instead, and by which rule.
    pub reason: String,
}

/// The result of an edit.
#[derive(Debug, Clone, PartialEq)]
pub enum EditResult {
    /// It was done.
    Done {
        /// Whether the record did not exist before.
        created: bool,
        /// Whether its content has changed.
        changed: bool,
        /// The record.
        record: Box<StoredRecord>,
        /// Fields of the edit that have another value, because other contributors come first.
        overruled: Vec<OverruledField>,
        /// What else the caller should know, in sentences: expressions that failed for the record, so that their values are null, and what a record that
        /// was to be deleted remains for.
        failures: Vec<String>,
    },
    /// The fields are wrong, for these reasons.
    Invalid(Vec<String>),
    /// The fields do not fit the record, for these reasons.
    KeyMismatch(Vec<String>),
    /// The record does not exist.
    Missing,
    /// The record exists already.
    Exists(Key),
    /// The record stays deleted: a deletion is newer than the edit. The reason says which.
    StaysDeleted(String),
    /// A precondition is not met.
    PreconditionFailed,
    /// The record was erased, and must not exist again.
    Erased,
    /// The caller's rights are not for this record.
    OutOfReach {
        /// The records that the rights are for.
        part: Arc<RecordFilter>,
        /// Whether it is the edit that would make the record one of the others.
        by_edit: bool,
    },
    /// Another record has the value of a unique field.
    UniqueConflict {
        /// The field's name.
        field: String,
        /// The key of the other record.
        holder: String,
    },
    /// The idempotency key was used before.
    Replayed {
        /// Whether for the same request.
        same: bool,
        /// The answer given then; `None` if it can no longer be read.
        answer: Option<Box<EditAnswer>>,
    },
}

impl EditResult {
    /// The result of an edit of a record of a collection that cannot be written.
    pub(crate) fn refused(collection: &Collection, reason: RefusalReason) -> Self {
        match reason {
            RefusalReason::Taken { field, holder } => EditResult::UniqueConflict { field: collection.fields[field].name.clone(), holder },
            RefusalReason::Erased => EditResult::Erased,
        }
    }
}

/// Performs an edit.
///
/// # Errors
/// When the store fails.
pub fn run(rules: &Arc<SettleRules>, store: &dyn Store, evaluator: &Evaluator, edit: Edit) -> Result<EditResult> {
    let context = match EditContext::new(rules, evaluator, edit, store.clock()) {
        Ok(context) => context,
        Err(edited) => return Ok(edited),
    };
    // a new record is not read first: the store reports if it exists
    let stored = match context.edit.action {
        EditAction::Create(_) if context.edit.conditions == Preconditions::default() => None,
        _ => context.stored(store)?,
    };
    let result = Arc::new(Mutex::new(LoggedEdit::default()));
    let (writes, planned) = match context.decide(evaluator, stored)? {
        Ok(PlannedEdit { write, logged, propagation, edited }) => {
            let is_new = write.expect.is_none();
            (vec![write], LoggedEdit { edited, logged, propagation, is_new })
        }
        // a request with a known idempotency key gets its former answer, even if it would be refused now
        Err(edited) if context.edit.call.is_some() => (Vec::new(), LoggedEdit { edited, ..LoggedEdit::default() }),
        Err(edited) => return Ok(edited),
    };
    let unit = EditUnit { context, writes, planned, result: result.clone(), tagger: None };
    let committed_at = store.commit(Box::new(unit))?.committed_at;
    let mut edited = result.lock().unwrap_or_else(PoisonError::into_inner).edited.clone();
    edited.committed(committed_at);
    Ok(edited)
}

/// The values of an edit by field: `None` if the edit does not have the field, null if it removes the field, or cleared.
fn read_fields(collection: &Collection, fields: &EditFields) -> std::result::Result<IdVec<FieldId, Option<Value>>, Vec<String>> {
    let mut edited_values: IdVec<FieldId, Option<Value>> = vec![None; collection.fields.len()].into();
    let mut problems = Vec::new();
    let mut find = |name: &str| match collection.field(name) {
        Some((_, field)) if field.derive.is_some() => {
            problems.push(format!("{name}: it is derived from other fields"));
            None
        }
        None if collection.state(name).is_some() => {
            problems.push(format!("{name}: only transitions write it"));
            None
        }
        None => {
            let editable = collection.fields.iter().filter(|field| field.derive.is_none()).map(|field| field.name.as_str());
            problems.push(format!("there is no field `{name}`; {}", known_instead(name, editable)));
            None
        }
        Some((index, _)) => Some(index),
    };
    let named: Vec<(FieldId, &str, &Json)> = fields.values.iter().filter_map(|(name, json)| Some((find(name)?, name.as_str(), json))).collect();
    let cleared: Vec<FieldId> = fields.clear.iter().filter_map(|name| find(name)).collect();
    for (index, name, json) in named {
        let field = &collection.fields[index];
        match strict_from_json(json, &field.ty).and_then(|value| check(value, &field.ty, &field.one_of)) {
            // blank text counts as absent, as in documents
            Ok(Value::Text(text)) if text.is_empty() => edited_values[index] = Some(Value::Null),
            Ok(value) => edited_values[index] = Some(value),
            Err(reason) => problems.push(format!("{name}: {reason}")),
        }
    }
    cleared.into_iter().for_each(|index| edited_values[index] = Some(Value::Cleared));
    if problems.is_empty() { Ok(edited_values) } else { Err(problems) }
}

/// The maximum size of a patched object, in bytes as JSON.
const MAX_PATCHED: usize = 16 << 20;

/// Everything apart from the record that decides about an edit.
pub(super) struct EditContext {
    rules: Arc<SettleRules>,
    edit: Edit,
    edited_values: IdVec<FieldId, Option<Value>>,
    corrections: NewCorrections,
    key: Key,
    now: i64,
}

/// An edit that can be done.
pub(super) struct PlannedEdit {
    pub(super) write: RecordWrite,
    pub(super) logged: Option<NewChangeLogEntry>,
    /// The edges and marks that follow from it.
    pub(super) propagation: Propagation,
    edited: EditResult,
}

impl PlannedEdit {
    /// What the caller should know of it.
    pub(super) fn warnings(&self) -> &[String] {
        if let EditResult::Done { failures, .. } = &self.edited { failures } else { &[] }
    }
}

pub(super) type EditDecision = std::result::Result<PlannedEdit, EditResult>;

impl EditContext {
    /// Reads the fields and the key of an edit.
    pub(super) fn new(rules: &Arc<SettleRules>, evaluator: &Evaluator, edit: Edit, now: i64) -> std::result::Result<Self, EditResult> {
        let collection = &rules.catalogue.collections[edit.collection];
        if collection.rows_of.is_some() {
            return Err(EditResult::Invalid(vec![format!("{} consists of derived records and cannot be edited", collection.name)]));
        }
        let fields = match &edit.action {
            EditAction::Create(fields) | EditAction::Put(fields) | EditAction::Patch(fields) => read_fields(collection, fields),
            EditAction::Delete => Ok(vec![None; collection.fields.len()].into()),
        };
        let mut edited_values = fields.map_err(EditResult::Invalid)?;
        let corrections = match &edit.action {
            EditAction::Create(fields) | EditAction::Put(fields) | EditAction::Patch(fields) => {
                read_corrections(collection, fields, &edited_values, &edit.caller).map_err(EditResult::Invalid)?
            }
            EditAction::Delete => NewCorrections::default(),
        };
        let key = match &edit.key {
            Some(key) => key.clone(),
            None => {
                let values: Vec<Value> = edited_values.iter().cloned().map(Option::unwrap_or_default).collect();
                key_of(collection, &values, evaluator).map_err(|reason| EditResult::Invalid(vec![reason]))?
            }
        };
        // if the key is a field, the request need not repeat it
        if let (KeyDefinition::Field(index), false) = (&collection.key, edit.action == EditAction::Delete)
            && edited_values[*index].is_none()
        {
            let value = stook_catalogue::value::from_text(key.as_str(), &collection.fields[*index].ty, None);
            edited_values[*index] = Some(value.map_err(|error| EditResult::KeyMismatch(vec![format!("the key: {error}")]))?);
        }
        Ok(Self { rules: rules.clone(), edit, edited_values, corrections, key, now })
    }

    /// Reads the record from the store.
    pub(super) fn stored(&self, store: &dyn Store) -> Result<Option<StoredRecord>> {
        Ok(store.read(&self.edit.tenant, self.edit.collection, std::slice::from_ref(&self.key), ReadDetail::Full)?.pop().flatten())
    }

    pub(super) fn decide(&self, evaluator: &Evaluator, stored: Option<StoredRecord>) -> std::result::Result<EditDecision, StoreError> {
        // discard failures of an earlier decision
        drop(evaluator.failures());
        let collection = &self.rules.catalogue.collections[self.edit.collection];
        let living = stored.as_ref().filter(|record| record.exists);
        let others = self.edit.conditions.part.as_ref().filter(|part| living.is_some_and(|living| !part.admits(collection, living.values())));
        if !self.edit.conditions.are_met(living.filter(|_| others.is_none_or(|part| !part.hides))) {
            return Ok(Err(EditResult::PreconditionFailed));
        }
        if let Some(part) = others {
            let is_missing = part.hides && matches!(self.edit.action, EditAction::Patch(_) | EditAction::Delete);
            return Ok(Err(if is_missing { EditResult::Missing } else { EditResult::OutOfReach { part: part.clone(), by_edit: false } }));
        }
        match (&self.edit.action, living) {
            (EditAction::Create(_), Some(_)) => return Ok(Err(EditResult::Exists(self.key.clone()))),
            (EditAction::Patch(_) | EditAction::Delete, None) => return Ok(Err(EditResult::Missing)),
            _ => {}
        }
        let mut contributions = match &stored {
            Some(record) => record.contributions_of(collection)?,
            None => Vec::new(),
        };
        let own_position = contributions.iter().position(|contribution| &*contribution.contributor == API_NAME);
        let former = own_position.map(|position| contributions.remove(position));
        let as_of = former.as_ref().map_or(self.now, |former| self.now.max(former.as_of.saturating_add(1)));
        let new_content = match self.new_contribution(collection, former.as_ref()) {
            Ok(new_content) => new_content,
            Err(reason) => return Ok(Err(EditResult::KeyMismatch(vec![reason]))),
        };
        let corrections = self.new_corrections(&new_content, former.as_ref(), as_of);
        let hash = hash_of(&new_content, &corrections, collection);
        let origin = ContributionOrigin::default();
        let is_same_content = former.as_ref().is_some_and(|former| former.hash == hash);
        contributions.push(Contribution {
            contributor: API_NAME.into(),
            as_of,
            // edits are ordered by their times alone
            received: None,
            hash,
            generation: 0,
            origin,
            before: None,
            retired: Retirement::None,
            content: new_content,
            raw: None,
            unreadable: Vec::new(),
            corrections,
        });
        keep_newest(&mut contributions);
        contributions.sort_by(|a, b| a.contributor.cmp(&b.contributor));
        let consolidator = Consolidator::new(&self.rules.catalogue, collection, evaluator);
        let mut golden = consolidator.golden_record(&contributions);
        if let Some(stored) = &stored {
            carry_settled(collection, &stored.golden, &mut golden.values);
        }
        if self.edit.action != EditAction::Delete
            && let Some(wrong) = self.wrong(collection, &golden.values, evaluator)
        {
            return Ok(Err(wrong));
        }
        if self.edit.action != EditAction::Delete && !golden.alive {
            return Ok(Err(EditResult::StaysDeleted(existence_reason(&contributions, false))));
        }
        let policy = ImportPolicy { job: NO_JOB, matched: OnMatched::Update, unmatched: OnUnmatched::Create };
        let merger = RecordMerger::new(&self.rules, self.edit.collection, &consolidator, evaluator, policy);
        let created_job = living.map_or(NO_JOB, |record| record.created_job);
        let overruled = self.overruled(collection, &consolidator, &contributions, &golden);
        let stays = is_same_content && stored.as_ref().is_some_and(|stored| stored.exists == golden.alive && stored.golden[..] == golden.values[..]);
        let packed = pack(&contributions, collection, &golden.values);
        let content = merger.content(stored.as_ref(), created_job, golden, &contributions);
        let version = stored.as_ref().map(|record| record.version);
        let record = Box::new(as_record(&self.key, version.unwrap_or_default(), &content));
        if let Some(part) = self.edit.conditions.part.as_ref().filter(|part| record.exists && !part.admits(collection, record.values())) {
            return Ok(Err(EditResult::OutOfReach { part: part.clone(), by_edit: true }));
        }
        let change = if stays { RecordChange::Touch { contributions: packed } } else { RecordChange::Put(Box::new(content)) };
        let reason = self.corrections.reason();
        let logged = golden_change(collection, stored.as_ref(), &change).map(|mut change| {
            reason.into_iter().for_each(|reason| change["reason"] = reason.into());
            let (collection, key, caller) = (self.edit.collection, self.key.clone(), self.edit.caller.clone());
            NewChangeLogEntry { collection, key, transition: None, caller, change }
        });
        let propagation = merger.follow(&self.key, stored.as_ref(), &change);
        let write = RecordWrite { collection: self.edit.collection, key: self.key.clone(), expect: version, change };
        let (created, mut failures) = (living.is_none(), evaluator.failures());
        failures.extend(self.corrections.unknown_contributors(&self.rules.catalogue));
        if self.edit.action == EditAction::Delete && record.exists {
            failures.push(existence_reason(&contributions, true));
        }
        Ok(Ok(PlannedEdit { write, logged, propagation, edited: EditResult::Done { created, changed: !stays, record, overruled, failures } }))
    }

    /// Fields of the edit whose golden values come from other contributors.
    fn overruled(
        &self,
        collection: &Collection,
        consolidator: &Consolidator<'_>,
        contributions: &[Contribution],
        golden: &GoldenRecord,
    ) -> Vec<OverruledField> {
        let api_contribution = contributions.iter().find(|api_contribution| &*api_contribution.contributor == API_NAME);
        let Some(ContributionContent::Values(contributed)) = api_contribution.map(|api_contribution| &api_contribution.content) else {
            return Vec::new();
        };
        let lost = |index: FieldId| {
            let is_edited = self.edited_values[index].as_ref().is_some_and(|value| !value.is_null());
            if is_edited && consolidator.contradicted_by(index, contributions).is_some() {
                return true;
            }
            match (&contributed[index], collection.fields[index].survivorship.combines()) {
                (Value::Cleared, _) => is_edited && !golden.values[index].is_null(),
                // combined values include this one
                (_, true) => false,
                (wanted, false) => is_edited && golden.values[index] != *wanted,
            }
        };
        if !collection.fields.ids().any(lost) {
            return Vec::new();
        }
        let explained = consolidator.explain(contributions, golden).into_iter().filter(|api_contribution| lost(api_contribution.field));
        let overruled = explained.map(|api_contribution| {
            let field = &collection.fields[api_contribution.field];
            let first: Vec<&str> = api_contribution.won.iter().map(|(contribution, _)| &*contribution.contributor).collect();
            let contradicted_by = consolidator.contradicted_by(api_contribution.field, contributions);
            let reason = match &field.from {
                Some(from) if !from.contains(&SourceRef::Api) => {
                    let from: Vec<&str> = from.iter().map(|api_contribution| self.rules.catalogue.contributor_name(*api_contribution)).collect();
                    format!("the definition accepts this field only from {}", from.join(", "))
                }
                _ if contradicted_by.is_some() => {
                    format!("{} gives a value that the edit does not correct", contradicted_by.unwrap_or_default())
                }
                _ if field.survivorship.combines() => {
                    format!(
                        "by the rule `{}` values of other contributors are included: {}",
                        rule_name(&self.rules.catalogue, field),
                        first.join(", ")
                    )
                }
                _ => format!("by the rule `{}` the value of {} wins", rule_name(&self.rules.catalogue, field), first.join(", ")),
            };
            OverruledField { field: field.name.clone(), reason }
        });
        overruled.collect()
    }

    /// The new contribution of `api`.
    fn new_contribution(&self, collection: &Collection, former: Option<&Contribution>) -> std::result::Result<ContributionContent, String> {
        let mut values = vec![Value::Null; collection.fields.len()];
        match (&self.edit.action, former.map(|former| &former.content)) {
            (EditAction::Delete, _) => return Ok(ContributionContent::Tombstone),
            (EditAction::Patch(_), Some(ContributionContent::Values(former))) => values.clone_from_slice(former),
            _ => {}
        }
        for ((value, edited), field) in values.iter_mut().zip(&self.edited_values).zip(&collection.fields) {
            if let Some(edited) = edited {
                *value = match self.merged(field, value) {
                    Some(merged) => merged?,
                    None => edited.clone(),
                };
            }
        }
        Ok(ContributionContent::Values(values.into()))
    }

    /// What is noted of the fields of the new contribution of `api`: of this edit, and of former ones that it leaves as they are.
    fn new_corrections(&self, content: &ContributionContent, former: Option<&Contribution>, as_of: i64) -> Vec<Correction> {
        if *content == ContributionContent::Tombstone {
            return Vec::new();
        }
        let stays = |correction: &&Correction| matches!(self.edit.action, EditAction::Patch(_)) && self.edited_values[correction.field].is_none();
        let kept = former.into_iter().flat_map(|former| &former.corrections).filter(stays).cloned();
        let mut all: Vec<Correction> = kept.chain(self.corrections.at(as_of)).collect();
        all.sort_by_key(|correction| correction.field);
        all
    }

    /// The result of merging a patch into an object (RFC 7396); `None` if it is no patch.
    fn merged(&self, field: &Field, former: &Value) -> Option<std::result::Result<Value, String>> {
        let EditAction::Patch(fields) = &self.edit.action else { return None };
        let patch = fields.values.get(&field.name).filter(|patch| patch.is_object() && !fields.clear.contains(&field.name))?;
        let merged = merged(former.to_json(&field.ty), patch);
        // otherwise repeated patches could make it arbitrarily large
        if merged.to_string().len() > MAX_PATCHED {
            return Some(Err(format!("{}: with this patch it has more than {} MiB", field.name, MAX_PATCHED >> 20)));
        }
        let value = strict_from_json(&merged, &field.ty).and_then(|value| check(value, &field.ty, &field.one_of));
        Some(value.map_err(|error| format!("{}: {error}", field.name)))
    }

    /// What is wrong with the record that would result.
    fn wrong(&self, collection: &Collection, golden: &[Value], evaluator: &Evaluator) -> Option<EditResult> {
        let is_missing = |index: FieldId| collection.fields[index].required && golden[index].is_null();
        let missing: Vec<FieldId> = collection.fields.ids().filter(|index| is_missing(*index)).collect();
        if !missing.is_empty() {
            let reasons = missing.iter().map(|index| format!("{}: it is required", collection.fields[*index].name)).collect();
            // a missing value is a mistake of the request; one that was removed conflicts with the record
            let is_omitted = !matches!(self.edit.action, EditAction::Patch(_)) && missing.iter().any(|index| self.edited_values[*index].is_none());
            return Some(if is_omitted { EditResult::Invalid(reasons) } else { EditResult::KeyMismatch(reasons) });
        }
        match key_of(collection, golden, evaluator) {
            Ok(key) if key == self.key => None,
            // if documents form the key from values that did not survive, an edit of other fields is not to blame
            Ok(_) if matches!(self.edit.action, EditAction::Patch(_)) && !self.edits_key(collection) => None,
            Ok(key) => Some(EditResult::KeyMismatch(vec![format!("the fields identify record {:?}, not {:?}", key.as_str(), self.key.as_str())])),
            Err(reason) => Some(EditResult::KeyMismatch(vec![reason])),
        }
    }

    fn edits_key(&self, collection: &Collection) -> bool {
        let names: Vec<&str> = match &collection.key {
            KeyDefinition::Field(index) => vec![collection.fields[*index].name.as_str()],
            KeyDefinition::Template(template) => template.names().collect(),
            KeyDefinition::Expression(expression) => expression.variables().iter().map(String::as_str).collect(),
        };
        collection.fields.iter().zip(&self.edited_values).any(|(field, edited)| edited.is_some() && names.contains(&field.name.as_str()))
    }
}

/// JSON Merge Patch (RFC 7396): members of objects are replaced, and null removes one.
fn merged(former: Json, patch: &Json) -> Json {
    let Json::Object(patch) = patch else { return patch.clone() };
    let mut members = if let Json::Object(members) = former { members } else { Map::new() };
    for (name, patch) in patch {
        let former = members.remove(name).unwrap_or_default();
        if !patch.is_null() {
            members.insert(name.clone(), merged(former, patch));
        }
    }
    Json::Object(members)
}

impl Preconditions {
    fn are_met(&self, living: Option<&StoredRecord>) -> bool {
        let among = |revisions: &[i64]| living.is_some_and(|record| revisions.is_empty() || revisions.contains(&record.version.revision));
        self.is.as_deref().is_none_or(among) && !self.is_not.as_deref().is_some_and(among)
    }
}

fn as_record(key: &Key, version: stook_store::Version, content: &RecordContent) -> StoredRecord {
    StoredRecord {
        key: key.clone(),
        version,
        created_job: content.created_job,
        exists: content.exists,
        contributions: Vec::new(),
        state_set: content.state_set.clone(),
        golden: content.golden.to_vec(),
        state: content.state.clone(),
        conflicts: content.conflicts.clone(),
        raw: None,
        damage: Vec::new(),
    }
}

struct EditUnit {
    context: EditContext,
    writes: Vec<RecordWrite>,
    /// The result if no other transaction changes the record first.
    planned: LoggedEdit,
    result: Arc<Mutex<LoggedEdit>>,
    /// The tags of a new record, which has no documents.
    tagger: Option<TagEvaluator>,
}

/// The result of an edit, its change log entry, and the edges and marks that follow.
#[derive(Clone)]
struct LoggedEdit {
    edited: EditResult,
    logged: Option<NewChangeLogEntry>,
    propagation: Propagation,
    /// Whether the record did not exist, not even as a deleted one.
    is_new: bool,
}

impl Default for LoggedEdit {
    fn default() -> Self {
        Self { edited: EditResult::Missing, logged: None, propagation: Propagation::default(), is_new: false }
    }
}

impl EditUnit {
    fn set_result(&self, result: LoggedEdit) {
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = result;
    }

    fn take(&self, decision: EditDecision) -> Vec<RecordWrite> {
        match decision {
            Ok(PlannedEdit { write, logged, propagation, edited }) => {
                let is_new = write.expect.is_none();
                self.set_result(LoggedEdit { edited, logged, propagation, is_new });
                vec![write]
            }
            Err(edited) => {
                self.set_result(LoggedEdit { edited, ..LoggedEdit::default() });
                Vec::new()
            }
        }
    }
}

impl Unit for EditUnit {
    fn tenant(&self) -> &Tenant {
        &self.context.edit.tenant
    }

    fn call(&self) -> Option<&IdempotentCall> {
        self.context.edit.call.as_ref()
    }

    fn repeated(&mut self, same: bool, answer: Vec<u8>) {
        let answer = serde_json::from_slice(&answer).ok().map(Box::new);
        self.set_result(LoggedEdit { edited: EditResult::Replayed { same, answer }, ..LoggedEdit::default() });
    }

    fn response_to_keep(&mut self, committed_at: i64) -> Option<Vec<u8>> {
        self.call()?;
        let mut edited = self.result.lock().unwrap_or_else(PoisonError::into_inner).edited.clone();
        edited.committed(committed_at);
        let collection = &self.context.rules.catalogue.collections[self.context.edit.collection];
        serde_json::to_vec(&edited.answer(collection)?).ok()
    }

    fn writes(&self) -> &[RecordWrite] {
        // the store may run the transaction again; then only the last result counts
        self.set_result(self.planned.clone());
        &self.writes
    }

    fn resolve(&mut self, conflicts: Vec<WriteConflict>) -> std::result::Result<Vec<RecordWrite>, StoreError> {
        let record = conflicts.into_iter().next().and_then(|conflict| conflict.record);
        let name = &self.context.rules.catalogue.collections[self.context.edit.collection].name;
        let record = record.map(|record| record.sound(name)).transpose()?;
        let evaluator = Evaluator::new(self.context.rules.catalogue.tables.clone());
        let decision = self.context.decide(&evaluator, record)?;
        Ok(self.take(decision))
    }

    fn refused(&mut self, refused: RefusedWrite) {
        let edited = EditResult::refused(&self.context.rules.catalogue.collections[refused.collection], refused.reason);
        self.set_result(LoggedEdit { edited, ..LoggedEdit::default() });
    }

    fn settling(&mut self) -> SettlingChanges {
        self.result.lock().unwrap_or_else(PoisonError::into_inner).propagation.clone().settling()
    }

    fn tag_revision(&self) -> Option<i64> {
        let needs_tags = self.planned.is_new && self.context.rules.catalogue.collections[self.context.edit.collection].tag_document().is_some();
        // no revision is this old, so the store passes the present tags inside the transaction
        needs_tags.then_some(i64::MIN)
    }

    fn retag(&mut self, tags: Vec<(CollectionId, CollectionTags)>) {
        let mut tagger = TagEvaluator::new(&self.context.rules.catalogue, &tags, None);
        tagger.add(self.context.edit.collection, self.context.key.clone(), Vec::new(), Some(Vec::new()));
        self.tagger = Some(tagger);
    }

    fn tagging(&mut self) -> Vec<TagWrites> {
        let is_new = self.result.lock().unwrap_or_else(PoisonError::into_inner).is_new;
        self.tagger.as_ref().filter(|_| is_new).map(TagEvaluator::tagging).unwrap_or_default()
    }

    fn log(&mut self) -> Vec<NewChangeLogEntry> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner).logged.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn a_patch_is_merged_as_in_the_examples_of_rfc_7396() {
        for (former, patch, expected) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a":"b"}), json!(["c"]), json!(["c"])),
            (json!({"a":"foo"}), json!(null), json!(null)),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ] {
            assert_eq!(merged(former.clone(), &patch), expected, "{former} {patch}");
        }
    }
}
