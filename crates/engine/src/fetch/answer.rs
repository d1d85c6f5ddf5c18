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
    pub asked: String,
    /// The call's name.
    pub call: String,
    /// The conditions that were passed.
    pub told: Vec<NotedCondition>,
    /// When fetching started.
    pub begun: i64,
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
    pub fn failed(asked: &str, now: i64, reason: String) -> Self {
        Self { reason: Some(reason), state: AnswerState::Failed, ended: now, ..Self::begun(asked, "", Vec::new(), now, now) }
    }

    pub(super) fn begun(asked: &str, call: &str, told: Vec<NotedCondition>, now: i64, expires: i64) -> Self {
        let (asked, call) = (asked.to_owned(), call.to_owned());
        Self {
            asked,
            call,
            told,
            begun: now,
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
const LONGEST: usize = 300;
/// The target of edges to answers with conditions other than equalities.
const WIDE: &str = "*";
/// The target of the edge that has the name of a source's only request, or [`WIDE`] if there were several.
const ANY: &str = "?";
/// The child of the edge to the last attempt since the last complete answer.
const TRIED: &str = "tried";
/// The target of edges to complete answers, ordered by the time they were requested.
const RECENT: &str = "!";
/// How long an answer with conditions other than equalities is kept after it has expired, in microseconds.
const LISTED: i64 = 24 * 3600 * 1_000_000;
/// The maximum number of equalities of which every subset is looked for.
const MOST_EQUALITIES: usize = 4;

fn name(asked: &str) -> String {
    if asked.len() <= LONGEST && !asked.contains('\0') { asked.to_owned() } else { blake3::hash(asked.as_bytes()).to_hex().to_string() }
}

/// The stored answers of a source.
pub struct AnswerStore<'k> {
    pub store: &'k dyn Store,
    pub tenant: &'k Tenant,
    pub collection: &'k Collection,
    pub asks: &'k ServiceBinding,
}

impl AnswerStore<'_> {
    fn at(&self, target: &str) -> Result<Vec<ServiceAnswer>> {
        let edges = self.store.edges(self.tenant, self.asks.id, target)?;
        Ok(edges.iter().filter_map(|edge| serde_json::from_slice(&edge.payload).ok()).collect())
    }

    /// The answers to exactly this request: the last complete one, and the last attempt since.
    pub fn of(&self, asked: &str) -> Result<Vec<ServiceAnswer>> {
        self.at(&name(asked))
    }

    /// Whether the source was ever sent another request.
    pub fn has_others(&self, asked: &str) -> Result<bool> {
        let own = name(asked);
        Ok(self.store.edges(self.tenant, self.asks.id, ANY)?.iter().any(|edge| edge.payload != own.as_bytes()))
    }

    /// A complete answer that has all that a query needs; of several, the one that is fresh for longest.
    pub fn covering(&self, conditions: &QueryConditions<'_>, now: i64) -> Result<Option<ServiceAnswer>> {
        let mut best: Option<ServiceAnswer> = None;
        let mut consider = |answers: Vec<ServiceAnswer>| {
            for answer in answers {
                let told = if answer.state == AnswerState::Complete { self.told(&answer) } else { None };
                let fits = told.is_some_and(|(call, told)| conditions.are_covered(self.collection, &self.asks.calls[call], &told));
                if fits && best.as_ref().is_none_or(|best| answer.expires > best.expires) {
                    best = Some(answer);
                }
            }
            best.as_ref().is_some_and(|best| best.expires > now)
        };
        for asked in self.exact(conditions) {
            if consider(self.at(&name(&asked))?) {
                return Ok(best);
            }
        }
        consider(self.at(WIDE)?);
        Ok(best)
    }

    /// The requests that would result from every subset of a query's equalities.
    fn exact(&self, conditions: &QueryConditions<'_>) -> Vec<String> {
        let mut asked = Vec::new();
        for call in &self.asks.calls {
            let Ok(all) = conditions.bind(self.collection, call, |_| true) else { continue };
            let equal: Vec<usize> =
                all.iter().filter(|(_, test)| matches!(test, Comparison::Equal(_))).map(|(place, _)| *place).take(MOST_EQUALITIES).collect();
            for selection in 0_u32..1 << equal.len() {
                let wanted = |place: usize| equal.iter().position(|own| *own == place).is_some_and(|bit| selection & (1 << bit) != 0);
                if let Ok(told) = conditions.bind(self.collection, call, wanted)
                    && !is_wide(&told)
                {
                    asked.push(path(self.collection, call, &told, "*"));
                }
            }
        }
        asked.dedup();
        asked
    }

    /// The call and the conditions of an answer, if the definition still has them.
    pub fn told(&self, answer: &ServiceAnswer) -> Option<(usize, BoundArguments)> {
        let (index, call) = self.asks.calls.iter().enumerate().find(|(_, call)| call.name == answer.call)?;
        let mut told = BoundArguments::new();
        for noted in &answer.told {
            let place = call.args.iter().position(|own| own.name == noted.argument)?;
            told.push((place, test_of(&noted.kind, &noted.values, type_of(self.collection, &call.args[place]))?));
        }
        Some((index, told))
    }

    /// Stores an answer.
    pub fn note(&self, answer: &ServiceAnswer, is_wide: bool) -> Result<()> {
        let edge = |target: &str, start: i64, child: &str, payload: Vec<u8>| {
            EdgeChange::Put(Edge { link: self.asks.id, target: target.into(), group: SmolStr::default(), start, child: child.into(), payload })
        };
        let payload = serde_json::to_vec(answer).map_err(|error| EngineError::Wrong(error.to_string()))?;
        let own = name(&answer.asked);
        let first = self.store.edges(self.tenant, self.asks.id, ANY)?.pop();
        let any = if first.is_none_or(|first| first.payload == own.as_bytes()) { own.clone() } else { WIDE.to_owned() };
        let whole = answer.state == AnswerState::Complete;
        // an incomplete attempt does not replace the last complete answer
        let mut edges = vec![edge(ANY, 0, "", any.into_bytes()), edge(&own, 0, if whole { "" } else { TRIED }, payload.clone())];
        if whole {
            let tried = Edge {
                link: self.asks.id,
                target: own.as_str().into(),
                group: SmolStr::default(),
                start: 0,
                child: TRIED.into(),
                payload: Vec::new(),
            };
            edges.push(EdgeChange::Delete(tried));
            edges.push(edge(RECENT, answer.begun, &own, payload.clone()));
            let range = StartRange { target: RECENT.into(), low: i64::MIN, high: answer.begun - LISTED };
            let old = self.store.edges_starting_between(self.tenant, self.asks.id, &[range])?;
            edges.extend(old.into_iter().map(EdgeChange::Delete));
        }
        if is_wide && whole {
            edges.push(edge(WIDE, 0, &own, payload));
            let old = self.store.edges(self.tenant, self.asks.id, WIDE)?.into_iter().filter(|old| old.child != own);
            let is_old =
                |old: &Edge| serde_json::from_slice::<ServiceAnswer>(&old.payload).is_ok_and(|old| old.expires.saturating_add(LISTED) < answer.begun);
            edges.extend(old.filter(is_old).map(EdgeChange::Delete));
        }
        let settling = SettlingChanges { edges, ..SettlingChanges::default() };
        self.store.commit(Box::new(SettlingUnit { tenant: self.tenant.clone(), settling }))?;
        Ok(())
    }

    /// Marks a complete answer as expired, if it is still the newest one to its request.
    pub fn expire(&self, answer: &ServiceAnswer, now: i64) -> Result<()> {
        let is_newest = self.of(&answer.asked)?.iter().any(|own| own.begun == answer.begun && own.state == AnswerState::Complete);
        match self.told(answer).filter(|_| is_newest) {
            Some((_, told)) => self.note(&ServiceAnswer { expires: now, ..answer.clone() }, is_wide(&told)),
            None => Ok(()),
        }
    }

    /// The complete answers that were requested after a time.
    pub fn newer(&self, than: i64) -> Result<Vec<ServiceAnswer>> {
        let range = StartRange { target: RECENT.into(), low: than + 1, high: i64::MAX };
        let edges = self.store.edges_starting_between(self.tenant, self.asks.id, &[range])?;
        Ok(edges.iter().filter_map(|edge| serde_json::from_slice(&edge.payload).ok()).collect())
    }
}

/// Converts conditions to their stored form.
pub fn noted(collection: &Collection, call: &ServiceCall, told: &BoundArguments) -> Vec<NotedCondition> {
    let one = |(place, test): &(usize, Comparison)| {
        let arg = &call.args[*place];
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
    told.iter().map(one).collect()
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
pub fn is_wide(told: &BoundArguments) -> bool {
    told.is_empty() || told.iter().any(|(_, test)| !matches!(test, Comparison::Equal(_)))
}
