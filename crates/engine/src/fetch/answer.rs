//! Answers of services, as they are stored: one edge for each, found by the path that was requested.

use super::bind::{BoundArguments, QueryConditions, pieces, type_of};
use super::url::path;
use crate::relations::SettlingUnit;
use crate::{EngineError, Result};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value as Json, json};
use stook_catalogue::definition::{Collection, ServiceBinding, ServiceCall};
use stook_catalogue::value::{FieldType, SmolStr, Value, from_json};
use stook_store::plan::Comparison;
use stook_store::queue::JobId;
use stook_store::{Edge, EdgeChange, SettlingChanges, StartRange, Store, Tenant};

/// How far an answer is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerState {
    /// It is being fetched.
    Running,
    /// All of it was fetched.
    Complete,
    /// Some of it was fetched.
    Partial,
    /// None of it was fetched.
    Failed,
}

impl AnswerState {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            AnswerState::Running => "running",
            AnswerState::Complete => "complete",
            AnswerState::Partial => "partial",
            AnswerState::Failed => "failed",
        }
    }
}

/// A condition that was passed to a service, as it is stored: an array of its three members.
#[derive(Debug, Clone, Deserialize)]
pub struct NotedCondition {
    /// The call's argument.
    pub argument: String,
    /// How its field is compared: `is`, `in`, `from`, `to` or `like`.
    pub kind: String,
    /// What it is compared with.
    pub values: Json,
}

impl Serialize for NotedCondition {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        (&self.argument, &self.kind, &self.values).serialize(serializer)
    }
}

/// An answer of a service. Times are in microseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServiceAnswer {
    /// The requested path with its arguments, after the service's URL.
    #[serde(rename = "asked")]
    pub request: String,
    /// The call's name.
    pub call: String,
    /// The conditions that were passed.
    #[serde(rename = "told")]
    pub conditions: Vec<NotedCondition>,
    /// When fetching started.
    #[serde(rename = "begun")]
    pub started: i64,
    /// When fetching ended.
    pub ended: i64,
    /// The time until which it is fresh.
    pub expires: i64,
    /// How far it is complete.
    pub state: AnswerState,
    /// Number of documents.
    pub documents: u64,
    /// Number of documents that could not be read.
    pub failed: u64,
    /// Number of warnings, such as about values that were left out because they cannot be converted to their field's type.
    #[serde(default)]
    pub unreadable: u64,
    /// The first of these warnings.
    #[serde(default)]
    pub example: Option<String>,
    /// Number of records to which the source had contributed, but which this answer does not contain.
    pub retired: u64,
    /// The jobs that imported it.
    pub jobs: Vec<JobId>,
    /// Why it is not complete.
    pub reason: Option<String>,
}

impl ServiceAnswer {
    /// An answer that failed.
    pub fn failed(request: &str, now: i64, reason: String) -> Self {
        Self { reason: Some(reason), state: AnswerState::Failed, ended: now, ..Self::running(request, "", Vec::new(), now, now) }
    }

    pub(super) fn running(request: &str, call: &str, conditions: Vec<NotedCondition>, now: i64, expires: i64) -> Self {
        let (request, call) = (request.to_owned(), call.to_owned());
        Self {
            request,
            call,
            conditions,
            started: now,
            ended: now,
            expires,
            state: AnswerState::Running,
            documents: 0,
            failed: 0,
            unreadable: 0,
            example: None,
            retired: 0,
            jobs: Vec::new(),
            reason: None,
        }
    }
}

/// The maximum length of a request under which an answer is stored as it is; a longer one is replaced by its hash.
const MAX_NAME_BYTES: usize = 300;
/// The target of edges to answers with conditions other than equalities.
const WIDE: &str = "*";
/// The target of the edge that has the name of a source's only request, or [`WIDE`] if there were several.
const ANY: &str = "?";
/// The child of the edge to the last attempt since the last complete answer.
const TRIED: &str = "tried";
/// The target of edges to complete answers, ordered by the time they were requested.
const RECENT: &str = "!";
/// How long an answer with conditions other than equalities is kept after it has expired, in microseconds.
const KEPT_AFTER_EXPIRY: i64 = 24 * 3600 * 1_000_000;
/// The maximum number of equalities of which every subset is looked for.
const MAX_EQUALITIES: usize = 4;

fn name(request: &str) -> String {
    if request.len() <= MAX_NAME_BYTES && !request.contains('\0') {
        request.to_owned()
    } else {
        blake3::hash(request.as_bytes()).to_hex().to_string()
    }
}

/// The stored answers of a source.
pub struct AnswerStore<'k> {
    pub store: &'k dyn Store,
    pub tenant: &'k Tenant,
    pub collection: &'k Collection,
    pub binding: &'k ServiceBinding,
}

impl AnswerStore<'_> {
    fn answers_under(&self, target: &str) -> Result<Vec<ServiceAnswer>> {
        let edges = self.store.edges(self.tenant, self.binding.id, target)?;
        Ok(edges.iter().filter_map(|edge| serde_json::from_slice(&edge.payload).ok()).collect())
    }

    /// The answers to exactly this request: the last complete one, and the last attempt since.
    pub fn answers_to(&self, request: &str) -> Result<Vec<ServiceAnswer>> {
        self.answers_under(&name(request))
    }

    /// Whether the source was ever sent another request.
    pub fn has_other_requests(&self, request: &str) -> Result<bool> {
        let own_name = name(request);
        Ok(self.store.edges(self.tenant, self.binding.id, ANY)?.iter().any(|edge| edge.payload != own_name.as_bytes()))
    }

    /// A complete answer that has all that a query needs; of several, the one that is fresh for longest.
    pub fn covering(&self, conditions: &QueryConditions<'_>, now: i64) -> Result<Option<ServiceAnswer>> {
        let mut best: Option<ServiceAnswer> = None;
        let mut consider = |answers: Vec<ServiceAnswer>| {
            for answer in answers {
                let bound_arguments = if answer.state == AnswerState::Complete { self.bound_arguments(&answer) } else { None };
                let fits =
                    bound_arguments.is_some_and(|(call, arguments)| conditions.are_covered(self.collection, &self.binding.calls[call], &arguments));
                if fits && best.as_ref().is_none_or(|best| answer.expires > best.expires) {
                    best = Some(answer);
                }
            }
            best.as_ref().is_some_and(|best| best.expires > now)
        };
        for request in self.requests_by_subset(conditions) {
            if consider(self.answers_under(&name(&request))?) {
                return Ok(best);
            }
        }
        consider(self.answers_under(WIDE)?);
        Ok(best)
    }

    /// The requests that would result from every subset of a query's equalities.
    fn requests_by_subset(&self, conditions: &QueryConditions<'_>) -> Vec<String> {
        let mut requests = Vec::new();
        for call in &self.binding.calls {
            let Ok(all) = conditions.bind(self.collection, call, |_| true) else { continue };
            let equal: Vec<usize> =
                all.iter().filter(|(_, test)| matches!(test, Comparison::Equal(_))).map(|(position, _)| *position).take(MAX_EQUALITIES).collect();
            for selection in 0_u32..1 << equal.len() {
                let wanted = |position: usize| equal.iter().position(|equal| *equal == position).is_some_and(|bit| selection & (1 << bit) != 0);
                if let Ok(arguments) = conditions.bind(self.collection, call, wanted)
                    && !is_wide(&arguments)
                {
                    requests.push(path(self.collection, call, &arguments, "*"));
                }
            }
        }
        requests.dedup();
        requests
    }

    /// The call and the conditions of an answer, if the definition still has them.
    pub fn bound_arguments(&self, answer: &ServiceAnswer) -> Option<(usize, BoundArguments)> {
        let (index, call) = self.binding.calls.iter().enumerate().find(|(_, call)| call.name == answer.call)?;
        let mut arguments = BoundArguments::new();
        for noted in &answer.conditions {
            let position = call.args.iter().position(|own| own.name == noted.argument)?;
            arguments.push((position, test_of(&noted.kind, &noted.values, type_of(self.collection, &call.args[position]))?));
        }
        Some((index, arguments))
    }

    /// Stores an answer.
    pub fn store_answer(&self, answer: &ServiceAnswer, is_wide: bool) -> Result<()> {
        let edge = |target: &str, start: i64, child: &str, payload: Vec<u8>| {
            EdgeChange::Put(Edge { link: self.binding.id, target: target.into(), group: SmolStr::default(), start, child: child.into(), payload })
        };
        let payload = serde_json::to_vec(answer).map_err(|error| EngineError::Wrong(error.to_string()))?;
        let request_name = name(&answer.request);
        let first = self.store.edges(self.tenant, self.binding.id, ANY)?.pop();
        let any = if first.is_none_or(|first| first.payload == request_name.as_bytes()) { request_name.clone() } else { WIDE.to_owned() };
        let is_complete = answer.state == AnswerState::Complete;
        // an incomplete attempt does not replace the last complete answer
        let mut edges = vec![edge(ANY, 0, "", any.into_bytes()), edge(&request_name, 0, if is_complete { "" } else { TRIED }, payload.clone())];
        if is_complete {
            let tried = Edge {
                link: self.binding.id,
                target: request_name.as_str().into(),
                group: SmolStr::default(),
                start: 0,
                child: TRIED.into(),
                payload: Vec::new(),
            };
            edges.push(EdgeChange::Delete(tried));
            edges.push(edge(RECENT, answer.started, &request_name, payload.clone()));
            let range = StartRange { target: RECENT.into(), low: i64::MIN, high: answer.started - KEPT_AFTER_EXPIRY };
            let old = self.store.edges_starting_between(self.tenant, self.binding.id, &[range])?;
            edges.extend(old.into_iter().map(EdgeChange::Delete));
        }
        if is_wide && is_complete {
            edges.push(edge(WIDE, 0, &request_name, payload));
            let old = self.store.edges(self.tenant, self.binding.id, WIDE)?.into_iter().filter(|old| old.child != request_name);
            let is_old = |old: &Edge| {
                serde_json::from_slice::<ServiceAnswer>(&old.payload).is_ok_and(|old| old.expires.saturating_add(KEPT_AFTER_EXPIRY) < answer.started)
            };
            edges.extend(old.filter(is_old).map(EdgeChange::Delete));
        }
        let settling = SettlingChanges { edges, ..SettlingChanges::default() };
        self.store.commit(Box::new(SettlingUnit { tenant: self.tenant.clone(), settling }))?;
        Ok(())
    }

    /// Marks a complete answer as expired, if it is still the newest one to its request.
    pub fn expire(&self, answer: &ServiceAnswer, now: i64) -> Result<()> {
        let is_newest = self.answers_to(&answer.request)?.iter().any(|own| own.started == answer.started && own.state == AnswerState::Complete);
        match self.bound_arguments(answer).filter(|_| is_newest) {
            Some((_, arguments)) => self.store_answer(&ServiceAnswer { expires: now, ..answer.clone() }, is_wide(&arguments)),
            None => Ok(()),
        }
    }

    /// The complete answers that were requested after a time.
    pub fn newer(&self, than: i64) -> Result<Vec<ServiceAnswer>> {
        let range = StartRange { target: RECENT.into(), low: than + 1, high: i64::MAX };
        let edges = self.store.edges_starting_between(self.tenant, self.binding.id, &[range])?;
        Ok(edges.iter().filter_map(|edge| serde_json::from_slice(&edge.payload).ok()).collect())
    }
}

/// Converts conditions to their stored form.
pub fn noted(collection: &Collection, call: &ServiceCall, arguments: &BoundArguments) -> Vec<NotedCondition> {
    let noted_condition = |(position, test): &(usize, Comparison)| {
        let arg = &call.args[*position];
        let ty = type_of(collection, arg);
        let (kind, values) = match test {
            Comparison::Equal(value) => ("is", value.to_json(ty)),
            Comparison::In(values) => ("in", values.iter().map(|value| value.to_json(ty)).collect()),
            Comparison::Range { low: Some((low, _)), .. } => ("from", low.to_json(ty)),
            Comparison::Range { high: Some((high, _)), .. } => ("to", high.to_json(ty)),
            other => ("like", json!(pieces(other))),
        };
        NotedCondition { argument: arg.name.clone(), kind: kind.to_owned(), values }
    };
    arguments.iter().map(noted_condition).collect()
}

fn test_of(kind: &str, json: &Json, ty: &FieldType) -> Option<Comparison> {
    let value = |json: &Json| from_json(json, ty, None).ok().filter(|value| *value != Value::Null);
    Some(match kind {
        "is" => Comparison::Equal(value(json)?),
        "in" => Comparison::In(json.as_array()?.iter().map(value).collect::<Option<_>>()?),
        "from" => Comparison::Range { low: Some((value(json)?, true)), high: None },
        "to" => Comparison::Range { low: None, high: Some((value(json)?, true)) },
        "like" => Comparison::Wildcard(json.as_array()?.iter().map(|piece| piece.as_str().map(str::to_owned)).collect::<Option<_>>()?),
        _ => return None,
    })
}

/// Whether there are no conditions, or any that are not equalities.
pub fn is_wide(arguments: &BoundArguments) -> bool {
    arguments.is_empty() || arguments.iter().any(|(_, test)| !matches!(test, Comparison::Equal(_)))
}
