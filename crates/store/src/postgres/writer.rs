//! Units on their way: threads that take them and commit them. More processes are more such threads.
//!
//! One thread writes bulk units, which keep their order, each in a transaction of its own; units somebody waits for have threads
//! of their own, so that they wait neither for bulk work nor for each other's commits. Those of one tenant that wait in line
//! together are written as one, if nobody holds their records; when that fails each is written alone. A unit whose transaction was in another's way, or
//! whose connection went before COMMIT, is done again; where it is not known whether COMMIT was done, the lease tells: a unit
//! that hands back a lease that is gone was committed by somebody, itself included.

use super::records;
use super::session::{Attempt, Pool, Session, Trouble};
use super::tables::Tables;
use super::{Clock, begin, work};
use crate::queue::JobId;
use crate::{Answered, Conflict, Logged, Pending, Receipt, RecordWrite, Settling, StoreError, Tenant, Unit, Urgency};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use stook_catalogue::key::Key;

struct Request {
    unit: Box<dyn Unit>,
    answer: Sender<Answered>,
}

impl Request {
    /// Whether it may be written together with others.
    fn joins(&self, others: &[Request]) -> bool {
        let places = |request: &Request| request.unit.writes().iter().map(|write| (write.collection, write.key.clone())).collect::<Vec<_>>();
        if self.unit.fence().is_some() || self.unit.call().is_some() {
            return false;
        }
        let own = places(self);
        others.iter().all(|other| other.unit.tenant() == self.unit.tenant() && !places(other).iter().any(|place| own.contains(place)))
    }
}

#[derive(Default)]
struct Lines {
    interactive: VecDeque<Request>,
    bulk: VecDeque<Request>,
    closed: bool,
}

impl Lines {
    fn of(&mut self, urgency: Urgency) -> &mut VecDeque<Request> {
        match urgency {
            Urgency::Interactive => &mut self.interactive,
            Urgency::Bulk => &mut self.bulk,
        }
    }
}

#[derive(Default)]
struct Shared {
    lines: Mutex<Lines>,
    bulk: Condvar,
    interactive: Condvar,
    written: Mutex<Written>,
}

/// Threads for units that somebody waits for.
const INTERACTIVE: usize = 4;
/// Units that are written together.
const TOGETHER: usize = 16;

/// The threads; dropping it finishes what waits.
pub struct Writer {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// A receipt, and how many rows of which collections were written.
type Done = (Receipt, Vec<(usize, u64)>);

/// What every writing transaction needs.
#[derive(Clone)]
pub struct Bench {
    pub pool: Arc<Pool>,
    pub tables: Arc<Tables>,
    pub clock: Arc<Clock>,
}

impl Writer {
    pub fn start(bench: Bench) -> crate::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut threads = Vec::new();
        for thread in 0..=INTERACTIVE {
            let urgency = if thread == 0 { Urgency::Bulk } else { Urgency::Interactive };
            let (waiting, bench) = (shared.clone(), bench.clone());
            let work = move || {
                while let Some(mut requests) = waiting.next(urgency) {
                    if requests.len() > 1 {
                        requests = waiting.write_together(&bench, requests);
                    }
                    for Request { mut unit, answer } in requests {
                        let (result, sizes) = match bench.write(&mut *unit) {
                            Ok((receipt, sizes)) => (Ok(receipt), sizes),
                            Err(trouble) => (Err(StoreError::from(trouble)), Vec::new()),
                        };
                        waiting.count(&bench, sizes);
                        let _ = answer.send((result, Some(unit)));
                    }
                }
            };
            let started = std::thread::Builder::new().name("store-writer".into()).spawn(work);
            threads.push(started.map_err(|error| StoreError::Other(error.to_string()))?);
        }
        Ok(Self { shared, threads })
    }

    /// Puts a unit in line.
    pub fn run(&self, unit: Box<dyn Unit>, urgency: Urgency) -> Pending {
        let (answer, pending) = mpsc::channel();
        let mut lines = self.shared.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.of(urgency).push_back(Request { unit, answer });
        drop(lines);
        self.shared.arrived(urgency).notify_one();
        Pending(pending)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.lines.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        [&self.shared.bulk, &self.shared.interactive].into_iter().for_each(Condvar::notify_all);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Rows of a table of which nothing need be known.
const SMALL: u64 = 1_000;

/// Rows written by this process, by collection: the server's planner is told of a table that has grown to the fourfold. It
/// would find out by itself, a minute late and a bulk load too late. A small sample does; the server takes a larger one in
/// time.
#[derive(Default)]
struct Written(HashMap<usize, (u64, u64)>);

impl Written {
    /// Whether a collection has grown to the fourfold.
    fn has_grown(&mut self, collection: usize, rows: u64) -> bool {
        let (written, analysed) = self.0.entry(collection).or_insert((0, SMALL));
        *written += rows;
        let grown = *written >= 4 * *analysed;
        if grown {
            *analysed = *written;
        }
        grown
    }
}

impl Shared {
    fn arrived(&self, urgency: Urgency) -> &Condvar {
        match urgency {
            Urgency::Interactive => &self.interactive,
            Urgency::Bulk => &self.bulk,
        }
    }

    /// What is written next: one request, and those behind it that may join it.
    fn next(&self, urgency: Urgency) -> Option<Vec<Request>> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let line = lines.of(urgency);
            if let Some(first) = line.pop_front() {
                let mut requests = vec![first];
                let alone = urgency == Urgency::Bulk || !requests[0].joins(&[]);
                while !alone && requests.len() < TOGETHER && line.front().is_some_and(|next| next.joins(&requests)) {
                    requests.extend(line.pop_front());
                }
                return Some(requests);
            }
            if lines.closed {
                return None;
            }
            lines = self.arrived(urgency).wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Writes requests in one transaction; returns those that have to be written alone.
    fn write_together(&self, bench: &Bench, mut requests: Vec<Request>) -> Vec<Request> {
        let mut together = Together::new(&mut requests);
        let written = bench.write(&mut together);
        let rows = std::mem::take(&mut together.rows);
        match written {
            Ok((receipt, sizes)) => {
                self.count(bench, sizes);
                for (Request { unit, answer }, rows) in requests.into_iter().zip(rows) {
                    let _ = answer.send((Ok(Receipt { rows: rows.get(), ..receipt }), Some(unit)));
                }
                Vec::new()
            }
            // they may have been written
            Err(Trouble::Unknown(reason)) => {
                for Request { unit, answer } in requests {
                    let _ = answer.send((Err(Trouble::Unknown(reason.clone()).into()), Some(unit)));
                }
                Vec::new()
            }
            Err(_) => requests,
        }
    }

    fn count(&self, bench: &Bench, sizes: Vec<(usize, u64)>) {
        for (collection, rows) in sizes {
            if self.written.lock().unwrap_or_else(PoisonError::into_inner).has_grown(collection, rows) {
                let own = &bench.tables.collections[collection];
                let sides: String = own.lists.iter().map(|(_, side)| format!(", {side}")).collect();
                let sql = format!("BEGIN; SET LOCAL default_statistics_target = 10; ANALYZE (SKIP_LOCKED) {}{sides}; COMMIT", own.table);
                // it is an advice: where it fails, work goes on
                let _ = bench.pool.run(|session| session.batch(&sql));
            }
        }
    }
}

impl Bench {
    /// Writes a unit in a transaction of its own.
    fn write(&self, unit: &mut dyn Unit) -> Attempt<Done> {
        let done = self.pool.run(|session| self.attempt(session, unit))?;
        if let Some(fence) = unit.fence() {
            self.finish_job(fence.chunk.job)?;
        }
        Ok(done)
    }

    /// Ends a job if nothing of it is left to do.
    pub fn finish_job(&self, job: JobId) -> Attempt<()> {
        if self.pool.run(|session| work::has_work(session, job))? {
            return Ok(());
        }
        self.transaction(|session, stamp| work::finish_job(session, job, stamp))
    }

    fn attempt(&self, session: &mut Session, unit: &mut dyn Unit) -> Attempt<Done> {
        let stamp = begin(session, &self.tables, &self.clock)?;
        let write = AssertUnwindSafe(|| records::write(session, &self.tables, unit, stamp));
        let written = std::panic::catch_unwind(write);
        let done = written.unwrap_or_else(|_| Err(StoreError::Other("a unit of work panicked".into()).into()))?;
        match session.commit() {
            // the lease, or the answer that was kept, decides when it is done again
            Err(Trouble::Unknown(reason)) if unit.fence().is_some() || unit.call().is_some() => Err(Trouble::Lost(reason)),
            ended => ended.map(|()| done),
        }
    }

    /// Does small work in a transaction of its own. It is done again when it is not known whether it was done, so twice must be
    /// the same as once.
    pub fn transaction<T>(&self, mut work: impl FnMut(&mut Session, i64) -> Attempt<T>) -> Attempt<T> {
        self.pool.run(|session| {
            self.once(session, &mut work).map_err(|trouble| match trouble {
                Trouble::Unknown(reason) => Trouble::Lost(reason),
                other => other,
            })
        })
    }

    /// The same for work that must not be done twice.
    pub fn transaction_once<T>(&self, mut work: impl FnMut(&mut Session, i64) -> Attempt<T>) -> Attempt<T> {
        self.pool.run(|session| self.once(session, &mut work))
    }

    fn once<T>(&self, session: &mut Session, work: &mut impl FnMut(&mut Session, i64) -> Attempt<T>) -> Attempt<T> {
        let stamp = begin(session, &self.tables, &self.clock)?;
        let value = work(session, stamp)?;
        session.commit()?;
        Ok(value)
    }
}

/// Units of one tenant about different records, as one.
struct Together<'u> {
    units: Vec<&'u mut dyn Unit>,
    writes: Vec<RecordWrite>,
    /// Whose record it is.
    owners: HashMap<(usize, Key), usize>,
    /// Rows written for each.
    rows: Vec<Cell<u64>>,
}

impl<'u> Together<'u> {
    fn new(requests: &'u mut [Request]) -> Self {
        let units: Vec<&mut dyn Unit> = requests.iter_mut().map(|request| &mut *request.unit as &mut dyn Unit).collect();
        let (mut writes, mut owners) = (Vec::new(), HashMap::new());
        for (place, unit) in units.iter().enumerate() {
            writes.extend_from_slice(unit.writes());
            owners.extend(unit.writes().iter().map(|write| ((write.collection, write.key.clone()), place)));
        }
        writes.sort_by(|a, b| (a.collection, &a.key).cmp(&(b.collection, &b.key)));
        let rows = vec![Cell::new(0); units.len()];
        Self { units, writes, owners, rows }
    }
}

impl Unit for Together<'_> {
    fn tenant(&self) -> &Tenant {
        self.units[0].tenant()
    }

    fn waits(&self) -> bool {
        false
    }

    fn writes(&self) -> &[RecordWrite] {
        // each is told that it begins, or begins again
        for (unit, rows) in self.units.iter().zip(&self.rows) {
            rows.set(unit.writes().len() as u64);
        }
        &self.writes
    }

    fn resolve(&mut self, conflicts: Vec<Conflict>) -> crate::Result<Vec<RecordWrite>> {
        let mut of_units: BTreeMap<usize, Vec<Conflict>> = BTreeMap::new();
        for conflict in conflicts {
            if let Some(owner) = self.owners.get(&(conflict.collection, conflict.key.clone())) {
                of_units.entry(*owner).or_default().push(conflict);
            }
        }
        let mut resolved = Vec::new();
        for (owner, conflicts) in of_units {
            let lost = conflicts.len() as u64;
            let own = self.units[owner].resolve(conflicts)?;
            self.rows[owner].update(|rows| rows - lost + own.len() as u64);
            resolved.extend(own);
        }
        Ok(resolved)
    }

    fn refused(&mut self, collection: usize, key: &Key, field: usize, holder: &str) {
        if let Some(owner) = self.owners.get(&(collection, key.clone())) {
            self.rows[*owner].update(|rows| rows - 1);
            self.units[*owner].refused(collection, key, field, holder);
        }
    }

    fn settling(&mut self) -> Settling {
        let mut all = Settling::default();
        for unit in &mut self.units {
            let Settling { edges, marks, answered } = unit.settling();
            all.edges.extend(edges);
            all.marks.extend(marks);
            all.answered.extend(answered);
        }
        all
    }

    fn log(&mut self) -> Vec<Logged> {
        self.units.iter_mut().flat_map(|unit| unit.log()).collect()
    }
}
