//! Picks: a transition of one record that satisfies a query. Two callers never get the same record, and none waits for a record that another is
//! changing.
//!
//! Callers in one process that pick by the same query at the same time share the search: one of them looks for records for all, after those
//! assigned last, and each gets records of its own, found after it called. A caller that cannot use any of them searches all records.

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
use stook_store::{IdempotentCall, ReadDetail, RecordWrite, RefusedWrite, Store, StoreError, StoredRecord, Tenant, Unit, WriteConflict};

/// The number of records that are read together.
const READ_BATCH: usize = 4;
/// The numbers of records that are found at once: few at first, because one of them will usually do, then more.
const PAGES: [u64; 3] = [16, 64, 256];
/// How often all records are searched while other callers hold some that would do.
const MAX_SEARCHES: u32 = 10;
/// The first pause between these searches; each further one is twice as long, about a second in total.
const PAUSE: Duration = Duration::from_millis(1);
/// The maximum number of callers for which one search finds records.
const MAX_CALLERS_PER_SEARCH: usize = 64;
/// The maximum number of queries for which the position of the last search is kept.
const MAX_GROUPS: usize = 64;

/// The picks of all callers of one process in one store.
#[derive(Default)]
pub struct PickGroups(Mutex<HashMap<blake3::Hash, Arc<PickGroup>>>);

/// The callers that pick by the same query.
#[derive(Default)]
struct PickGroup {
    state: Mutex<GroupState>,
    search_ended: Condvar,
}

#[derive(Default)]
struct GroupState {
    /// Whether a caller is searching.
    is_searching: bool,
    /// The number of callers so far.
    callers: u64,
    /// Callers that wait for the next search.
    waiting: Vec<u64>,
    assigned: HashMap<u64, Vec<StoredRecord>>,
    /// The last record that was assigned.
    last: Option<Key>,
}

/// A search in progress; when it ends, even by a failure, others continue.
struct SearchGuard<'t>(&'t PickGroup);

impl Drop for SearchGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().is_searching = false;
        self.0.search_ended.notify_all();
    }
}

impl PickGroups {
    fn group(&self, plan: &QueryPlan) -> Arc<PickGroup> {
        let query_hash = blake3::hash(format!("{:?} {} {:?} {:?}", plan.tenant, plan.collection, plan.conditions, plan.combined).as_bytes());
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if groups.len() >= MAX_GROUPS && !groups.contains_key(&query_hash) {
            groups.clear();
        }
        groups.entry(query_hash).or_default().clone()
    }
}

impl PickGroup {
    fn lock(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns records for one caller. `search` finds records for a number of callers, after a key.
    fn assigned_records(&self, search: impl Fn(usize, Option<&Key>) -> Result<Vec<StoredRecord>>) -> Result<Vec<StoredRecord>> {
        let mut state = self.lock();
        state.callers += 1;
        let caller = state.callers;
        state.waiting.push(caller);
        loop {
            if let Some(records) = state.assigned.remove(&caller) {
                return Ok(records);
            }
            if state.is_searching {
                state = self.search_ended.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            // this caller is still in the list if another one's search for it has failed
            state.waiting.retain(|waiting| *waiting != caller);
            let others = state.waiting.len().min(MAX_CALLERS_PER_SEARCH - 1);
            let mut callers = vec![caller];
            callers.extend(state.waiting.drain(..others));
            let last = state.last.clone();
            state.is_searching = true;
            drop(state);
            let search_guard = SearchGuard(self);
            let found = search(callers.len(), last.as_ref())?;
            state = self.lock();
            state.last = found.last().map(|record| record.key.clone());
            let mut shares: Vec<Vec<StoredRecord>> = callers.iter().map(|_| Vec::new()).collect();
            for (position, record) in found.into_iter().enumerate() {
                shares[position % callers.len()].push(record);
            }
            state.assigned.extend(callers.into_iter().zip(shares));
            drop(state);
            drop(search_guard);
            state = self.lock();
        }
    }
}

/// A caller that picks a record.
pub struct PickCall<'c> {
    /// The definition.
    pub catalogue: &'c Arc<Catalogue>,
    /// The store of the records.
    pub store: &'c dyn Store,
    /// Evaluates the transition's expressions.
    pub evaluator: &'c Evaluator,
    /// The transition to perform.
    pub request: &'c Arc<TransitionRequest>,
    /// The conditions that the record must satisfy.
    pub plan: &'c QueryPlan,
    /// A number that distributes callers of several processes over the records.
    pub turn: u64,
}

impl PickCall<'_> {
    /// Performs the transition on this record, if it is allowed and no other transaction changes the record first.
    fn attempt(&self, record: &StoredRecord) -> Result<Option<TransitionResult>> {
        let now = self.store.clock();
        let decision = self.request.decide(self.catalogue, self.evaluator, &record.key, Some(record), now);
        if matches!(decision, TransitionDecision::Refused(_) | TransitionDecision::Missing) {
            return Ok(Some(TransitionResult::Missing));
        }
        Ok(match decision.begin(self.catalogue, self.store, self.request, (&record.key, now), false).wait()? {
            TransitionResult::Conflict => None,
            ended => Some(ended),
        })
    }

    /// Reads records that still have the revision at which they satisfied the conditions.
    fn read(&self, found: &[(Key, i64)]) -> Result<Vec<StoredRecord>> {
        let keys: Vec<Key> = found.iter().map(|(key, _)| key.clone()).collect();
        let records = self.store.read(&self.request.tenant, self.request.collection, &keys, ReadDetail::Values)?;
        let is_same = |(record, (_, revision)): (Option<StoredRecord>, &(Key, i64))| record.filter(|record| record.version.revision == *revision);
        Ok(records.into_iter().zip(found).filter_map(is_same).collect())
    }

    /// Finds records for a number of callers, and some more in case other processes change some first.
    fn search(&self, callers: usize, last: Option<&Key>) -> Result<Vec<StoredRecord>> {
        let wanted = callers + callers.max(READ_BATCH) / 2;
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

    /// Searches all records once, starting after `last`. Returns the result, or whether other callers were changing some of the records.
    fn search_all(&self, last: Option<&Key>) -> Result<std::result::Result<TransitionResult, bool>> {
        let mut contended = false;
        // to the end, and then from the beginning up to `last`
        let ranges = [(last.cloned(), None), (None, last.cloned())];
        for (mut after, until) in ranges.into_iter().take(1 + usize::from(last.is_some())) {
            for pages in 0.. {
                let size = PAGES[pages.min(PAGES.len() - 1)];
                let mut candidates = self.page(after.as_ref(), until.as_ref(), size)?;
                let is_full_page = candidates.len() as u64 == size;
                let Some(last) = candidates.last() else { break };
                after = Some(last.0.clone());
                let start = (self.turn % candidates.len() as u64) as usize;
                candidates.rotate_left(start);
                for group in candidates.chunks(READ_BATCH) {
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
                if !is_full_page {
                    break;
                }
            }
        }
        Ok(Err(contended))
    }
}

/// Performs a transition on one record that satisfies a plan's conditions. Returns `None` if there is none, and [`TransitionResult::Conflict`] if
/// other callers hold all such records for a second.
///
/// # Errors
/// When the store fails.
pub fn pick(picks: &PickGroups, caller: &PickCall<'_>) -> Result<Option<TransitionResult>> {
    let PickCall { store, request, .. } = *caller;
    let group = picks.group(caller.plan);
    for record in group.assigned_records(|callers, last| caller.search(callers, last))? {
        match caller.attempt(&record)? {
            None | Some(TransitionResult::Refused(_) | TransitionResult::Missing) => {}
            ended => return Ok(ended),
        }
    }
    let last = group.lock().last.clone();
    let mut contended = true;
    for pass in 0..MAX_SEARCHES {
        match caller.search_all(last.as_ref())? {
            Ok(ended) => return Ok(Some(ended)),
            Err(is_contended) => contended = is_contended,
        }
        if !contended {
            break;
        }
        std::thread::sleep(PAUSE * 2_u32.pow(pass));
    }
    let nothing = contended.then_some(TransitionResult::Conflict);
    // a repeated request may find nothing because it has already taken the last record
    let Some(call) = request.call.clone() else { return Ok(nothing) };
    let replayed = Arc::new(Mutex::new(None));
    store.commit(Box::new(ReplayCheck { tenant: request.tenant.clone(), call, replayed: replayed.clone() }))?;
    Ok(replayed.lock().unwrap_or_else(PoisonError::into_inner).take().or(nothing))
}

/// Checks whether an idempotency key was used before.
struct ReplayCheck {
    tenant: Tenant,
    call: IdempotentCall,
    replayed: Arc<Mutex<Option<TransitionResult>>>,
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
        *self.replayed.lock().unwrap_or_else(PoisonError::into_inner) = Some(TransitionResult::Replayed { same, answer });
    }

    fn writes(&self) -> &[RecordWrite] {
        &[]
    }

    fn resolve(&mut self, _conflicts: Vec<WriteConflict>) -> std::result::Result<Vec<RecordWrite>, StoreError> {
        Ok(Vec::new())
    }

    fn refused(&mut self, _refused: RefusedWrite) {}
}
