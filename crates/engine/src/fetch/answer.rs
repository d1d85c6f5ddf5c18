//! What a service has answered, as it is noted in the store: as an edge per answer, found by what was asked.

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

/// How far an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerState {
    /// It is on its way.
    Running,
    /// All of it is here.
    Complete,
    /// Some of it is here.
    Partial,
    /// Nothing of it is.
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

/// A condition that a service was told, as it is noted: as an array of three.
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

/// What a service answered. Times are in microseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServiceAnswer {
    /// What it was asked, after its URL.
    pub asked: String,
    /// The call's name.
    pub call: String,
    /// Conditions it was told.
    pub told: Vec<NotedCondition>,
    /// When it was asked.
    pub begun: i64,
    /// When all of it was here.
    pub ended: i64,
    /// Until when it is fresh.
    pub expires: i64,
    /// How far it is.
    pub state: AnswerState,
    /// Documents.
    pub documents: u64,
    /// Those of them that could not be read.
    pub failed: u64,
    /// Values that were left out because they do not fit what they are to be.
    #[serde(default)]
    pub unreadable: u64,
    /// The first of them, and why.
    #[serde(default)]
    pub example: Option<String>,
    /// Records of which the source had said something that this answer does not.
    pub retired: u64,
    /// The jobs that imported it.
    pub jobs: Vec<JobId>,
    /// Why it is not complete.
    pub reason: Option<String>,
}

impl ServiceAnswer {
    /// One that says why there is none.
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

/// Longest name under which an answer is noted as it is; longer ones by their hash.
const LONGEST: usize = 300;
/// Where answers to more than equalities are listed.
const WIDE: &str = "*";
/// Where it is noted what a source was asked: its name, or [`WIDE`] for several.
const ANY: &str = "?";
/// What was tried since the last whole answer.
const TRIED: &str = "tried";
/// Where whole answers are listed by when they were asked for.
const RECENT: &str = "!";
/// How long an answer to more than equalities is listed when it is no longer fresh, in microseconds.
const LISTED: i64 = 24 * 3600 * 1_000_000;
/// Most equalities of which each selection is looked for.
const MOST_EQUALITIES: usize = 4;

fn name(asked: &str) -> String {
    if asked.len() <= LONGEST && !asked.contains('\0') { asked.to_owned() } else { blake3::hash(asked.as_bytes()).to_hex().to_string() }
}

/// Answers of a source.
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

    /// What came of what was asked exactly so: the last whole answer, and what was tried since.
    pub fn of(&self, asked: &str) -> Result<Vec<ServiceAnswer>> {
        self.at(&name(asked))
    }

    /// Whether it was asked anything else before.
    pub fn has_others(&self, asked: &str) -> Result<bool> {
        let own = name(asked);
        Ok(self.store.edges(self.tenant, self.asks.id, ANY)?.iter().any(|edge| edge.payload != own.as_bytes()))
    }

    /// A whole answer that is enough for a query; the one that is fresh for longest.
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

    /// What would have been asked by selections of a query's equalities.
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

    /// The call and conditions of an answer, if the definition still has them.
    pub fn told(&self, answer: &ServiceAnswer) -> Option<(usize, BoundArguments)> {
        let (index, call) = self.asks.calls.iter().enumerate().find(|(_, call)| call.name == answer.call)?;
        let mut told = BoundArguments::new();
        for noted in &answer.told {
            let place = call.args.iter().position(|own| own.name == noted.argument)?;
            told.push((place, test_of(&noted.kind, &noted.values, type_of(self.collection, &call.args[place]))?));
        }
        Some((index, told))
    }

    /// Notes an answer.
    pub fn note(&self, answer: &ServiceAnswer, is_wide: bool) -> Result<()> {
        let edge = |target: &str, start: i64, child: &str, payload: Vec<u8>| {
            EdgeChange::Put(Edge { link: self.asks.id, target: target.into(), group: SmolStr::default(), start, child: child.into(), payload })
        };
        let payload = serde_json::to_vec(answer).map_err(|error| EngineError::Wrong(error.to_string()))?;
        let own = name(&answer.asked);
        let first = self.store.edges(self.tenant, self.asks.id, ANY)?.pop();
        let any = if first.is_none_or(|first| first.payload == own.as_bytes()) { own.clone() } else { WIDE.to_owned() };
        let whole = answer.state == AnswerState::Complete;
        // what is tried leaves the last whole answer as it is
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

    /// A whole answer is not fresh any more, where it is still the newest to what was asked.
    pub fn expire(&self, answer: &ServiceAnswer, now: i64) -> Result<()> {
        let is_newest = self.of(&answer.asked)?.iter().any(|own| own.begun == answer.begun && own.state == AnswerState::Complete);
        match self.told(answer).filter(|_| is_newest) {
            Some((_, told)) => self.note(&ServiceAnswer { expires: now, ..answer.clone() }, is_wide(&told)),
            None => Ok(()),
        }
    }

    /// Whole answers that were asked for after a time.
    pub fn newer(&self, than: i64) -> Result<Vec<ServiceAnswer>> {
        let range = StartRange { target: RECENT.into(), low: than + 1, high: i64::MAX };
        let edges = self.store.edges_starting_between(self.tenant, self.asks.id, &[range])?;
        Ok(edges.iter().filter_map(|edge| serde_json::from_slice(&edge.payload).ok()).collect())
    }
}

/// Conditions as they are noted.
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

/// Whether conditions are more than equalities.
pub fn is_wide(told: &BoundArguments) -> bool {
    told.is_empty() || told.iter().any(|(_, test)| !matches!(test, Comparison::Equal(_)))
}
