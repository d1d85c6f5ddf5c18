//! A transition of one record that satisfies conditions: two callers never get the same one, and none waits for a record another is
//! changing.
//!
//! Callers of a process that ask for the same at the same time do not meet: one looks for all of them, after what was dealt before,
//! and each is dealt records of its own, never what was found before it asked. Who can do nothing with them looks through all records.

use super::transition::{TransitionDecision, TransitionRequest, TransitionResult};
use crate::{EngineError, Result};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::{IdempotentCall, ReadDetail, RecordWrite, Store, StoreError, StoredRecord, Tenant, UniqueConflict, Unit, WriteConflict};

/// Records that are looked at together.
const LOOKED_AT: usize = 4;
/// Records that are found at once: first few, because mostly one of them will do, then more.
const PAGES: [u64; 3] = [16, 64, 256];
/// How often all records are looked through while others hold some that would do.
const PASSES: u32 = 10;
/// Time until that is done again, at first; then twice as long each time, a second in all.
const PAUSE: Duration = Duration::from_millis(1);
/// Callers that one looks for.
const MOST_CALLERS: usize = 64;
/// Questions of which it is known where the last records were found.
const MOST_ASKED: usize = 64;

/// What callers of one process ask of one store.
#[derive(Default)]
pub struct PickGroups(Mutex<HashMap<blake3::Hash, Arc<PickGroup>>>);

/// Those that ask for the same.
#[derive(Default)]
struct PickGroup {
    dealing: Mutex<GroupState>,
    dealt: Condvar,
}

#[derive(Default)]
struct GroupState {
    /// Whether one looks now.
    looking: bool,
    /// Callers so far.
    callers: u64,
    /// Those that wait for the next look.
    waiting: Vec<u64>,
    assigned: HashMap<u64, Vec<StoredRecord>>,
    /// The last record that was dealt.
    last: Option<Key>,
}

/// One that looks; others go on also when it fails.
struct SearchGuard<'t>(&'t PickGroup);

impl Drop for SearchGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().looking = false;
        self.0.dealt.notify_all();
    }
}

impl PickGroups {
    fn table(&self, plan: &QueryPlan) -> Arc<PickGroup> {
        let question = blake3::hash(format!("{:?} {} {:?}", plan.tenant, plan.collection, plan.conditions).as_bytes());
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tables.len() >= MOST_ASKED && !tables.contains_key(&question) {
            tables.clear();
        }
        tables.entry(question).or_default().clone()
    }
}

impl PickGroup {
    fn lock(&self) -> MutexGuard<'_, GroupState> {
        self.dealing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records for one caller. `look` finds them for so many callers, after a record.
    fn hand(&self, look: impl Fn(usize, Option<&Key>) -> Result<Vec<StoredRecord>>) -> Result<Vec<StoredRecord>> {
        let mut dealing = self.lock();
        dealing.callers += 1;
        let own = dealing.callers;
        dealing.waiting.push(own);
        loop {
            if let Some(hand) = dealing.assigned.remove(&own) {
                return Ok(hand);
            }
            if dealing.looking {
                dealing = self.dealt.wait(dealing).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            // also when who looked for this one has failed
            dealing.waiting.retain(|caller| *caller != own);
            let most = dealing.waiting.len().min(MOST_CALLERS - 1);
            let mut callers = vec![own];
            callers.extend(dealing.waiting.drain(..most));
            let last = dealing.last.clone();
            dealing.looking = true;
            drop(dealing);
            let looking = SearchGuard(self);
            let found = look(callers.len(), last.as_ref())?;
            dealing = self.lock();
            dealing.last = found.last().map(|record| record.key.clone());
            let mut hands: Vec<Vec<StoredRecord>> = callers.iter().map(|_| Vec::new()).collect();
            for (place, record) in found.into_iter().enumerate() {
                hands[place % callers.len()].push(record);
            }
            dealing.assigned.extend(callers.into_iter().zip(hands));
            drop(dealing);
            drop(looking);
            dealing = self.lock();
        }
    }
}

/// One caller.
pub struct PickCall<'c> {
    /// The definition.
    pub catalogue: &'c Arc<Catalogue>,
    /// Where the records are.
    pub store: &'c dyn Store,
    /// Evaluates the transition's expressions.
    pub evaluator: &'c Evaluator,
    /// The transition.
    pub ask: &'c Arc<TransitionRequest>,
    /// What the record must satisfy.
    pub plan: &'c QueryPlan,
    /// Spreads callers of several processes over the records.
    pub turn: u64,
}

impl PickCall<'_> {
    /// Does the transition, if it may be done with this record and nobody was faster.
    fn attempt(&self, record: &StoredRecord) -> Result<Option<TransitionResult>> {
        let now = self.store.clock();
        let decision = self.ask.decide(self.catalogue, self.evaluator, &record.key, Some(record), now);
        if matches!(decision, TransitionDecision::Refused(_) | TransitionDecision::Missing) {
            return Ok(Some(TransitionResult::Missing));
        }
        Ok(match decision.begin(self.catalogue, self.store, self.ask, (&record.key, now), false).wait()? {
            TransitionResult::Conflict => None,
            ended => Some(ended),
        })
    }

    /// Records as they were when their conditions were seen to hold.
    fn read(&self, found: &[(Key, i64)]) -> Result<Vec<StoredRecord>> {
        let keys: Vec<Key> = found.iter().map(|(key, _)| key.clone()).collect();
        let records = self.store.read(&self.ask.tenant, self.ask.collection, &keys, ReadDetail::Values)?;
        let is_same = |(record, (_, revision)): (Option<StoredRecord>, &(Key, i64))| record.filter(|record| record.version.revision == *revision);
        Ok(records.into_iter().zip(found).filter_map(is_same).collect())
    }

    /// Records for some callers, with some more because others may be faster.
    fn look(&self, callers: usize, last: Option<&Key>) -> Result<Vec<StoredRecord>> {
        let wanted = callers + callers.max(LOOKED_AT) / 2;
        let mut found = self.page(last, None, wanted as u64)?;
        if let (true, Some(_)) = (found.len() < wanted, last) {
            found.extend(self.page(None, last, (wanted - found.len()) as u64)?);
        }
        self.read(&found)
    }

    fn page(&self, after: Option<&Key>, until: Option<&Key>, size: u64) -> Result<Vec<(Key, i64)>> {
        let columns = vec![PlanColumn::Key, PlanColumn::Revision];
        let mut plan = QueryPlan { columns, sort: Vec::new(), offset: 0, limit: Some(size), distinct: false, ..self.plan.clone() };
        let text = |key: &Key| Value::text(key.as_str());
        let (low, high) = (after.map(|after| (text(after), false)), until.map(|until| (text(until), true)));
        if low.is_some() || high.is_some() {
            plan.conditions.push(Condition { column: PlanColumn::Key, test: Comparison::Range { low, high } });
        }
        let rows = self.store.find(&plan)?.rows;
        let read = |row: &Vec<Value>| {
            let key = row.first().and_then(Value::as_text).and_then(|key| Key::new(key).ok());
            key.zip(row.get(1).and_then(Value::as_int))
        };
        rows.iter().map(|row| read(row).ok_or_else(|| EngineError::Wrong("a row has no key".into()))).collect()
    }

    /// Looks through all records once, those after `last` first. Returns what was done, or whether others were faster somewhere.
    fn look_through(&self, last: Option<&Key>) -> Result<std::result::Result<TransitionResult, bool>> {
        let mut contended = false;
        // to the end, and from the beginning up to there
        let around = [(last.cloned(), None), (None, last.cloned())];
        for (mut after, until) in around.into_iter().take(1 + usize::from(last.is_some())) {
            for pages in 0.. {
                let size = PAGES[pages.min(PAGES.len() - 1)];
                let mut candidates = self.page(after.as_ref(), until.as_ref(), size)?;
                let full = candidates.len() as u64 == size;
                let Some(last) = candidates.last() else { break };
                after = Some(last.0.clone());
                let start = (self.turn % candidates.len() as u64) as usize;
                candidates.rotate_left(start);
                for group in candidates.chunks(LOOKED_AT) {
                    let records = self.read(group)?;
                    contended |= records.len() < group.len();
                    for record in records {
                        match self.attempt(&record)? {
                            None => contended = true,
                            Some(TransitionResult::Refused(_) | TransitionResult::Missing) => {}
                            Some(ended) => return Ok(Ok(ended)),
                        }
                    }
                }
                if !full {
                    break;
                }
            }
        }
        Ok(Err(contended))
    }
}

/// Does a transition of one record that satisfies a plan's conditions; nothing where there is none, [`TransitionResult::Conflict`] where others hold
/// all that there are for a second.
///
/// # Errors
/// When the store fails.
pub fn pick(picks: &PickGroups, caller: &PickCall<'_>) -> Result<Option<TransitionResult>> {
    let PickCall { store, ask, .. } = *caller;
    let table = picks.table(caller.plan);
    for record in table.hand(|callers, last| caller.look(callers, last))? {
        match caller.attempt(&record)? {
            None | Some(TransitionResult::Refused(_) | TransitionResult::Missing) => {}
            ended => return Ok(ended),
        }
    }
    let last = table.lock().last.clone();
    let mut contended = true;
    for pass in 0..PASSES {
        match caller.look_through(last.as_ref())? {
            Ok(ended) => return Ok(Some(ended)),
            Err(others) => contended = others,
        }
        if !contended {
            break;
        }
        std::thread::sleep(PAUSE * 2_u32.pow(pass));
    }
    let nothing = contended.then_some(TransitionResult::Conflict);
    // a retry may find nothing because the call has already taken the last record
    let Some(call) = ask.call.clone() else { return Ok(nothing) };
    let known = Arc::new(Mutex::new(None));
    store.commit(Box::new(ReplayCheck { tenant: ask.tenant.clone(), call, known: known.clone() }))?;
    Ok(known.lock().unwrap_or_else(PoisonError::into_inner).take().or(nothing))
}

/// Asks whether a call was done before.
struct ReplayCheck {
    tenant: Tenant,
    call: IdempotentCall,
    known: Arc<Mutex<Option<TransitionResult>>>,
}

impl Unit for ReplayCheck {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn call(&self) -> Option<&IdempotentCall> {
        Some(&self.call)
    }

    fn repeated(&mut self, same: bool, answer: Vec<u8>) {
        let answer = serde_json::from_slice(&answer).unwrap_or_default();
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(TransitionResult::Replayed { same, answer });
    }

    fn writes(&self) -> &[RecordWrite] {
        &[]
    }

    fn resolve(&mut self, _conflicts: Vec<WriteConflict>) -> std::result::Result<Vec<RecordWrite>, StoreError> {
        Ok(Vec::new())
    }

    fn refused(&mut self, _refused: UniqueConflict) {}
}
