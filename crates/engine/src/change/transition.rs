//! Transitions: named, conditional changes of a record's state.
//!
//! A transition is decided on the record as it was read, and again inside the store's transaction if another transaction has changed the record
//! meanwhile, so transitions of one record happen one after the other. The entry in its change log, and the answer kept for an idempotency key, are
//! written in the same commit.

use crate::Result;
use crate::content::allowed::check;
pub use crate::content::allowed::strict_from_json;
use crate::content::state::effective_state;
use serde_json::{Map, Value as Json, json};
use std::sync::{Arc, Mutex, PoisonError};
use stook_catalogue::definition::{Catalogue, Collection, Refusal, Transition, TransitionArgument};
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::eval::{Evaluator, Expression, from_cel, json_to_cel, text_to_cel, to_cel};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, Value, from_json};
use stook_store::{
    CommitReceipt, FilteredRecord, IdempotentCall, NewChangeLogEntry, PendingCommit, Priority, ReadDetail, RecordChange, RecordFilter, RecordWrite,
    RefusedWrite, Store, StoreError, StoredRecord, Tenant, Unit, WriteConflict,
};

/// A request for a transition.
#[derive(Debug, Clone)]
pub struct TransitionRequest {
    /// The tenant of the record.
    pub tenant: Tenant,
    /// The collection's index.
    pub collection: CollectionId,
    /// The transition's index.
    pub transition: usize,
    /// Arguments, checked by [`arguments`].
    pub args: TransitionArguments,
    /// The caller.
    pub caller: String,
    /// The caller's role.
    pub role: &'static str,
    /// The idempotency key, if there is one.
    pub call: Option<IdempotentCall>,
    /// The records that the caller may change; `None` for all. Both the record as it is and as it would be are among them.
    pub part: Option<Arc<RecordFilter>>,
}

/// The arguments of a transition, each of its type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TransitionArguments(Map<String, Json>);

/// Why a transition was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalReason {
    /// HTTP status.
    pub code: u16,
    /// The reason for the caller.
    pub text: String,
}

/// The result of a transition.
#[derive(Debug, Clone, PartialEq)]
pub enum TransitionResult {
    /// It was performed; the answer has the key, the transition and the state of the record.
    Done(Json),
    /// It was refused, for these reasons.
    Refused(Vec<RefusalReason>),
    /// The record does not exist.
    Missing,
    /// Another transaction has changed the record since it was chosen.
    Conflict,
    /// The idempotency key was used before.
    Replayed {
        /// Whether the request is the same.
        same: bool,
        /// The answer that was kept.
        answer: Json,
    },
}

/// Checks the arguments of a request and converts them to their types.
///
/// # Errors
/// Returns everything that is wrong, in sentences.
pub fn arguments(
    evaluator: &Evaluator,
    wanted: &[TransitionArgument],
    given: &Map<String, Json>,
    caller: &str,
    now: i64,
) -> std::result::Result<TransitionArguments, Vec<String>> {
    let mut problems = Vec::new();
    let mut args = Map::new();
    for name in given.keys().filter(|name| !wanted.iter().any(|argument| argument.name == **name)) {
        let known = wanted.iter().map(|argument| argument.name.as_str());
        problems.push(format!("there is no argument `{name}`; {}", known_instead(name, known)));
    }
    for argument in wanted {
        match argument_value(evaluator, argument, given.get(&argument.name), caller, now) {
            Ok(value) => {
                args.insert(argument.name.clone(), value.to_json(&argument.ty));
            }
            Err(reason) => problems.push(format!("{}: {reason}", argument.name)),
        }
    }
    if problems.is_empty() { Ok(TransitionArguments(args)) } else { Err(problems) }
}

fn argument_value(
    evaluator: &Evaluator,
    argument: &TransitionArgument,
    given: Option<&Json>,
    caller: &str,
    now: i64,
) -> std::result::Result<Value, String> {
    let mut value = match given {
        Some(json) => strict_from_json(json, &argument.ty)?,
        None => Value::Null,
    };
    if let (Value::Null, Some(default)) = (&value, &argument.default) {
        let scope = |name: &str| match name {
            "now" => to_cel(&Value::Int(now), &FieldType::Timestamp),
            "caller" => text_to_cel(caller),
            _ => cel::Value::Null,
        };
        value = evaluator.value(default, &argument.ty, &scope)?;
    }
    if value.is_null() {
        return if argument.required { Err("is required".into()) } else { Ok(value) };
    }
    let value = check(value, &argument.ty, &argument.one_of)?;
    for element in value.elements() {
        let number = match element {
            Value::Int(number) => *number as f64,
            Value::Float(number) => *number,
            _ => continue,
        };
        if argument.min.is_some_and(|min| number < min) || argument.max.is_some_and(|max| number > max) {
            let bound = |bound: Option<f64>| bound.map_or_else(|| "…".to_owned(), |bound| bound.to_string());
            return Err(format!("{number} is not from {} to {}", bound(argument.min), bound(argument.max)));
        }
    }
    Ok(value)
}

/// The change that a transition makes, or the reason why it makes none.
pub(crate) enum TransitionDecision {
    Refused(Vec<RefusalReason>),
    Missing,
    Change(Box<StateChange>),
}

pub(crate) struct StateChange {
    pub(crate) write: RecordWrite,
    pub(crate) logged: NewChangeLogEntry,
    answer: Json,
}

impl TransitionRequest {
    /// Decides about a record in its present state.
    pub(crate) fn decide(
        &self,
        catalogue: &Catalogue,
        evaluator: &Evaluator,
        key: &Key,
        record: Option<&StoredRecord>,
        now: i64,
    ) -> TransitionDecision {
        let Some(record) = record.filter(|record| record.exists) else { return TransitionDecision::Missing };
        let collection = &catalogue.collections[self.collection];
        if let Some(part) = self.part.as_ref().filter(|part| !part.admits(collection, record.values())) {
            return if part.hides { TransitionDecision::Missing } else { TransitionDecision::Refused(vec![out_of_reach(collection, part, false)]) };
        }
        let transition = &collection.transitions[self.transition];
        let scope = TransitionScope { request: self, collection, record, key, now };
        match scope.refusals(evaluator, &transition.refuse) {
            Err(reason) => return TransitionDecision::Refused(vec![RefusalReason { code: 422, text: reason }]),
            Ok(reasons) if !reasons.is_empty() => return TransitionDecision::Refused(reasons),
            Ok(_) => {}
        }
        match scope.change(evaluator, transition) {
            Err(reason) => TransitionDecision::Refused(vec![RefusalReason { code: 422, text: reason }]),
            Ok(changed) => match self.part.as_ref().filter(|part| !part.admits(collection, changed.values(record))) {
                Some(part) => TransitionDecision::Refused(vec![out_of_reach(collection, part, true)]),
                None => TransitionDecision::Change(Box::new(changed)),
            },
        }
    }
}

fn out_of_reach(collection: &Collection, part: &RecordFilter, by_change: bool) -> RefusalReason {
    RefusalReason { code: 403, text: part.refusal(&collection.name, by_change) }
}

impl StateChange {
    /// What a filter looks at after the change of a record.
    fn values<'r>(&'r self, record: &'r StoredRecord) -> FilteredRecord<'r> {
        let state = if let RecordChange::State { state, .. } = &self.write.change { state } else { &record.state };
        FilteredRecord { state, ..record.values() }
    }
}

/// The variables of a transition's expressions.
struct TransitionScope<'s> {
    request: &'s TransitionRequest,
    collection: &'s Collection,
    record: &'s StoredRecord,
    key: &'s Key,
    now: i64,
}

impl TransitionScope<'_> {
    fn variable(&self, name: &str) -> cel::Value {
        match name {
            "now" => return to_cel(&Value::Int(self.now), &FieldType::Timestamp),
            "caller" => return text_to_cel(&self.request.caller),
            "role" => return text_to_cel(self.request.role),
            "key" => return text_to_cel(self.key.as_str()),
            "args" => return self.args(),
            _ => {}
        }
        if let Some((index, state)) = self.collection.state(name) {
            return to_cel(&self.record.state[index], &state.ty);
        }
        self.collection.field(name).map_or(cel::Value::Null, |(index, field)| to_cel(&self.record.golden[index], field.golden_type()))
    }

    /// The arguments by name, each of its own type.
    fn args(&self) -> cel::Value {
        let transition = &self.collection.transitions[self.request.transition];
        let typed = transition.args.iter().map(|argument| {
            let json = self.request.args.0.get(&argument.name).unwrap_or(&Json::Null);
            let value = from_json(json, &argument.ty, None).unwrap_or_default();
            let value = if argument.ty == FieldType::Json { json_to_cel(json) } else { to_cel(&value, &argument.ty) };
            (cel::objects::Key::String(Arc::new(argument.name.clone())), value)
        });
        cel::Value::Map(cel::objects::Map { map: Arc::new(typed.collect()) })
    }

    fn refusals<'r>(&self, evaluator: &Evaluator, refuse: impl IntoIterator<Item = &'r Refusal>) -> std::result::Result<Vec<RefusalReason>, String> {
        let mut reasons = Vec::new();
        for refusal in refuse {
            if !evaluator.holds(&refusal.when, &|name: &str| self.variable(name)).map_err(|error| self.trouble("refuse", &refusal.when, &error))? {
                continue;
            }
            let message = evaluator.value(&refusal.reason, &FieldType::Text, &|name: &str| self.variable(name));
            let message = message.ok().and_then(|message| message.as_text().map(str::to_owned));
            let text = message.unwrap_or_else(|| format!("refused: `{}`", refusal.when.source()));
            reasons.push(RefusalReason { code: refusal.code, text });
        }
        Ok(reasons)
    }

    fn trouble(&self, keyword: &str, expression: &Expression, error: &str) -> String {
        format!("`{keyword}` of the transition fails on this record: `{}`: {error}", expression.source())
    }

    fn change(&self, evaluator: &Evaluator, transition: &Transition) -> std::result::Result<StateChange, String> {
        let mut state_set = self.record.state_set.clone();
        let (mut before, mut after) = (Map::new(), Map::new());
        for (index, expression) in &transition.set {
            let field = &self.collection.states[*index];
            let value = match expression {
                None => Value::Null,
                Some(expression) => {
                    let scope = |name: &str| self.variable(name);
                    let found =
                        evaluator.eval(expression, &scope, |plain| plain.into_value(&field.ty).map(Ok), |found| Ok(from_cel(&found, &field.ty)));
                    let found = found.map_err(|error| self.trouble("set", expression, &error))?;
                    let value = found.map_err(|error| format!("{}: {error}", field.name))?;
                    check(value, &field.ty, &field.one_of).map_err(|error| format!("{}: {error}", field.name))?
                }
            };
            before.insert(field.name.clone(), self.record.state[*index].to_json(&field.ty));
            after.insert(field.name.clone(), value.to_json(&field.ty));
            state_set.retain(|(known, _)| known != index);
            state_set.push((*index, value));
        }
        state_set.sort_by_key(|(index, _)| *index);
        let state = effective_state(self.collection, evaluator, &self.record.golden, &state_set);
        let shown: Map<String, Json> =
            self.collection.states.iter().zip(&state).map(|(field, value)| (field.name.clone(), value.to_json(&field.ty))).collect();
        let (collection, key) = (self.request.collection, self.key.clone());
        let answer = json!({ "key": key.as_str(), "transition": transition.name, "state": shown });
        let change = json!({ "args": self.request.args.0, "before": before, "after": after });
        let logged = NewChangeLogEntry {
            collection,
            key: key.clone(),
            transition: Some(transition.name.clone()),
            caller: self.request.caller.clone(),
            change,
        };
        let write = RecordWrite { collection, key, expect: Some(self.record.version), change: RecordChange::State { state, state_set } };
        Ok(StateChange { write, logged, answer })
    }
}

/// The transitions that a record refuses now whatever their arguments are, by name, with all reasons; those without a reason are allowed.
pub fn refused_now(
    request: &TransitionRequest,
    collection: &Collection,
    evaluator: &Evaluator,
    record: &StoredRecord,
    now: i64,
) -> Vec<(String, Vec<String>)> {
    let scope = TransitionScope { request, collection, record, key: &record.key, now };
    let of = |transition: &Transition| {
        let own = transition.refuse.iter().filter(|refusal| !refusal.when.variables().iter().any(|name| name == "args"));
        // a refusal that fails to evaluate is omitted here; performing the transition reports it
        let reasons = scope.refusals(evaluator, own).unwrap_or_default();
        (transition.name.clone(), reasons.into_iter().map(|reason| reason.text).collect())
    };
    collection.transitions.iter().map(of).collect()
}

/// A transition as a unit of work.
struct TransitionUnit {
    catalogue: Arc<Catalogue>,
    request: Arc<TransitionRequest>,
    key: Key,
    now: i64,
    /// Whether to decide again if the record has changed since it was read, instead of ending with a conflict.
    waits_for_lock: bool,
    writes: Vec<RecordWrite>,
    /// The result if no other transaction changes the record first.
    planned: LoggedTransition,
    outcome: Arc<Mutex<LoggedTransition>>,
}

/// The result of a transition, and its change log entry.
#[derive(Debug, Clone)]
struct LoggedTransition {
    result: TransitionResult,
    logged: Option<NewChangeLogEntry>,
}

impl From<TransitionResult> for LoggedTransition {
    fn from(result: TransitionResult) -> Self {
        Self { result, logged: None }
    }
}

impl TransitionDecision {
    /// Submits what was decided to the store.
    pub(crate) fn begin(
        self,
        catalogue: &Arc<Catalogue>,
        store: &dyn Store,
        request: &Arc<TransitionRequest>,
        (key, now): (&Key, i64),
        waits_for_lock: bool,
    ) -> PendingTransition {
        let (writes, planned) = self.outcome();
        let outcome = Arc::new(Mutex::new(planned.clone()));
        // a request with a known idempotency key gets its former answer, even if it would be refused now
        let needed = !writes.is_empty() || request.call.is_some();
        let (catalogue, request, key) = (catalogue.clone(), request.clone(), key.clone());
        let unit = TransitionUnit { catalogue, request, key, now, waits_for_lock, writes, planned, outcome: outcome.clone() };
        let pending = needed.then(|| store.submit(Box::new(unit), Priority::Interactive));
        PendingTransition { pending, outcome }
    }

    fn outcome(self) -> (Vec<RecordWrite>, LoggedTransition) {
        match self {
            TransitionDecision::Missing => (Vec::new(), TransitionResult::Missing.into()),
            TransitionDecision::Refused(reasons) => (Vec::new(), TransitionResult::Refused(reasons).into()),
            TransitionDecision::Change(changed) => {
                let StateChange { write, logged, answer } = *changed;
                (vec![write], LoggedTransition { result: TransitionResult::Done(answer), logged: Some(logged) })
            }
        }
    }
}

impl TransitionUnit {
    fn end(&self, outcome: impl Into<LoggedTransition>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = outcome.into();
    }
}

impl Unit for TransitionUnit {
    fn tenant(&self) -> &Tenant {
        &self.request.tenant
    }

    fn call(&self) -> Option<&IdempotentCall> {
        self.request.call.as_ref()
    }

    fn repeated(&mut self, same: bool, answer: Vec<u8>) {
        self.end(TransitionResult::Replayed { same, answer: serde_json::from_slice(&answer).unwrap_or_default() });
    }

    fn waits_for_locks(&self) -> bool {
        self.waits_for_lock
    }

    fn writes(&self) -> &[RecordWrite] {
        // the store may run the transaction again; then only the last result counts
        self.end(self.planned.clone());
        &self.writes
    }

    fn resolve(&mut self, conflicts: Vec<WriteConflict>) -> std::result::Result<Vec<RecordWrite>, StoreError> {
        if !self.waits_for_lock {
            self.end(TransitionResult::Conflict);
            return Ok(Vec::new());
        }
        let record = conflicts.into_iter().next().and_then(|conflict| conflict.record);
        let name = &self.catalogue.collections[self.request.collection].name;
        let record = record.map(|record| record.sound(name)).transpose()?;
        let evaluator = Evaluator::new(self.catalogue.tables.clone());
        let decision = self.request.decide(&self.catalogue, &evaluator, &self.key, record.as_ref(), self.now);
        let (writes, outcome) = decision.outcome();
        self.end(outcome);
        Ok(writes)
    }

    fn refused(&mut self, _refused: RefusedWrite) {}

    fn log(&mut self) -> Vec<NewChangeLogEntry> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).logged.iter().cloned().collect()
    }

    fn response_to_keep(&mut self, _committed_at: i64) -> Option<Vec<u8>> {
        match &self.outcome.lock().unwrap_or_else(PoisonError::into_inner).result {
            TransitionResult::Done(answer) => Some(answer.to_string().into_bytes()),
            _ => None,
        }
    }
}

/// A transition that was decided and, if it changes anything, submitted.
pub struct PendingTransition {
    pending: Option<PendingCommit>,
    outcome: Arc<Mutex<LoggedTransition>>,
}

impl PendingTransition {
    /// Waits for the commit.
    ///
    /// # Errors
    /// When the store fails; then nothing was changed.
    pub fn wait(self) -> Result<TransitionResult> {
        let written = self.pending.map_or(Ok(CommitReceipt::default()), PendingCommit::wait);
        match written {
            Err(StoreError::Held) => return Ok(TransitionResult::Conflict),
            other => other?,
        };
        Ok(self.outcome.lock().unwrap_or_else(PoisonError::into_inner).result.clone())
    }
}

/// Performs a transition on one record. If the record changes after it was read, the transition is decided again inside the store's transaction.
///
/// # Errors
/// When the store fails.
pub fn run(
    catalogue: &Arc<Catalogue>,
    store: &dyn Store,
    evaluator: &Evaluator,
    request: &Arc<TransitionRequest>,
    key: &Key,
) -> Result<TransitionResult> {
    let record = store.read(&request.tenant, request.collection, std::slice::from_ref(key), ReadDetail::Values)?.pop().flatten();
    let now = store.clock();
    request.decide(catalogue, evaluator, key, record.as_ref(), now).begin(catalogue, store, request, (key, now), true).wait()
}
