//! Threads that take units and commit them. Each process has its own.
//!
//! One thread writes bulk units in their order, each in a transaction of its own; units that a caller waits for have other threads. Those of one
//! tenant that wait together are written in one transaction, if their records are not locked; if they would have to wait for other transactions, or
//! one of them fails, they move to a queue whose threads write each alone. A unit is written again after a conflict with another transaction, or if
//! the connection was lost before COMMIT. If it is not known whether COMMIT was done, the lease decides: if the lease of a unit no longer exists, the
//! unit was committed, by this worker or by another.

use super::clock::{ServerClock, begin};
use super::jobs;
use super::session::{DatabaseError, DbResult, Pool, Session};
use super::tables::StoreTables;
use super::tenants::TenantIds;
use super::unit;
use super::values::RowExt;
use crate::queue::JobId;
use crate::vitals::CommitCounters;
use crate::{
    CommitReceipt, CommitReply, NewChangeLogEntry, PendingCommit, Priority, RecordWrite, SettlingChanges, StoreError, Tenant, UniqueConflict, Unit,
    WriteConflict,
};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

struct QueuedUnit {
    since: Instant,
    unit: Box<dyn Unit>,
    answer: CommitReply,
}

impl QueuedUnit {
    /// Whether it may be written together with `others`.
    fn joins(&self, others: &[QueuedUnit]) -> bool {
        let places = |request: &QueuedUnit| request.unit.writes().iter().map(|write| (write.collection, write.key.clone())).collect::<Vec<_>>();
        let own = places(self);
        others.iter().all(|other| other.unit.tenant() == self.unit.tenant() && !places(other).iter().any(|place| own.contains(place)))
    }
}

#[derive(Default)]
struct WriteQueues {
    /// In the order of [`WriteQueue`].
    waiting: [VecDeque<QueuedUnit>; 3],
    closed: [bool; 3],
    /// Number of threads that are writing units together.
    writing: usize,
    /// When units were last written together, and how many, including those that waited then.
    last: Option<(Instant, usize)>,
}

/// The queue in which a unit waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteQueue {
    /// Bulk units.
    Bulk,
    /// Units that a caller waits for, to be written together.
    Grouped,
    /// Units that may have to wait for other transactions.
    Solo,
}

#[derive(Default)]
struct WriterState {
    lines: Mutex<WriteQueues>,
    arrived: [Condvar; 3],
}

/// The queues, each with its number of threads.
const THREADS: [(WriteQueue, usize); 3] = [(WriteQueue::Bulk, 1), (WriteQueue::Grouped, 3), (WriteQueue::Solo, 4)];
/// How long units that arrive while others are written together collect before another thread begins to write them.
const PATIENCE: Duration = Duration::from_millis(3);
/// How long to wait for as many units as the last time: callers that were just answered soon send more.
const RETURNING: Duration = Duration::from_micros(500);
/// Maximum number of units that are written together.
const TOGETHER: usize = 16;

/// The writing threads; dropping it finishes the waiting units.
pub struct PostgresWriter {
    shared: Arc<WriterState>,
    threads: Vec<(WriteQueue, JoinHandle<()>)>,
}

/// A receipt, and how many rows of which collections were written.
type WriteResult = (CommitReceipt, Vec<(CollectionId, u64)>);

/// What every writing transaction needs.
#[derive(Clone)]
pub struct WriteContext {
    pub pool: Arc<Pool>,
    pub tables: Arc<StoreTables>,
    pub clock: Arc<ServerClock>,
    pub tenants: Arc<TenantIds>,
    pub written: Arc<CommitCounters>,
    pub growth: Arc<Mutex<TableGrowth>>,
}

impl PostgresWriter {
    pub fn start(context: WriteContext) -> crate::Result<Self> {
        let shared = Arc::new(WriterState::default());
        let mut threads = Vec::new();
        for line in THREADS.iter().flat_map(|(line, threads)| std::iter::repeat_n(*line, *threads)) {
            let (waiting, context) = (shared.clone(), context.clone());
            let work = move || {
                while let Some(requests) = waiting.next(line) {
                    match line {
                        WriteQueue::Grouped => {
                            let units = requests.len();
                            waiting.write_together(&context, requests);
                            let mut lines = waiting.lines.lock().unwrap_or_else(PoisonError::into_inner);
                            lines.writing -= 1;
                            lines.last = Some((Instant::now(), units + lines.waiting[line as usize].len()));
                            waiting.arrived[line as usize].notify_one();
                        }
                        WriteQueue::Bulk | WriteQueue::Solo => requests.into_iter().for_each(|request| waiting.write(&context, request)),
                    }
                }
            };
            let started = std::thread::Builder::new().name("store-writer".into()).spawn(work);
            threads.push((line, started.map_err(|error| StoreError::Other(error.to_string()))?));
        }
        Ok(Self { shared, threads })
    }

    /// Returns how many units wait.
    pub fn waiting(&self) -> u64 {
        self.shared.lines.lock().unwrap_or_else(PoisonError::into_inner).waiting.iter().map(VecDeque::len).sum::<usize>() as u64
    }

    /// Queues a unit.
    pub fn run(&self, unit: Box<dyn Unit>, urgency: Priority) -> PendingCommit {
        let (answer, pending) = CommitReply::new(None);
        let line = match urgency {
            Priority::Bulk => WriteQueue::Bulk,
            Priority::Interactive if is_on_its_own(&*unit) => WriteQueue::Solo,
            Priority::Interactive => WriteQueue::Grouped,
        };
        self.shared.put(line, QueuedUnit { since: Instant::now(), unit, answer });
        pending
    }
}

impl Drop for PostgresWriter {
    fn drop(&mut self) {
        // in this order: a unit that moves to another queue finds it open
        for (line, _) in THREADS {
            self.shared.lines.lock().unwrap_or_else(PoisonError::into_inner).closed[line as usize] = true;
            self.shared.arrived[line as usize].notify_all();
            for (_, thread) in self.threads.extract_if(.., |(own, _)| *own == line) {
                let _ = thread.join();
            }
        }
    }
}

/// Whether a unit needs more of its transaction than one for several units can provide.
fn is_on_its_own(unit: &dyn Unit) -> bool {
    let relies = unit.read_set().is_some_and(|reliance| !reliance.records.is_empty() || !reliance.ranges.is_empty());
    relies || unit.lease_token().is_some() || unit.call().is_some() || unit.tag_revision().is_some()
}

/// Number of rows below which the planner needs no statistics.
const SMALL: u64 = 25;

/// Counts rows written by this process, by collection, to run ANALYZE on a table that has grown fourfold. The server would do so by itself, but a
/// minute late and too late for a bulk load. A small sample is enough; the server takes a larger one later.
#[derive(Default)]
pub struct TableGrowth(HashMap<CollectionId, (u64, u64)>);

impl TableGrowth {
    /// Counts written rows; returns the total if it is four times what it was at the last ANALYZE.
    fn has_grown(&mut self, collection: CollectionId, rows: u64) -> Option<u64> {
        let (written, analysed) = self.0.entry(collection).or_insert((0, SMALL));
        *written += rows;
        let grown = *written >= 4 * *analysed;
        if grown {
            *analysed = *written;
        }
        grown.then_some(*written)
    }
}

impl WriterState {
    fn put(&self, line: WriteQueue, request: QueuedUnit) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).waiting[line as usize].push_back(request);
        self.arrived[line as usize].notify_one();
    }

    /// Returns what is written next: one unit, and those after it that may join it. `None` if the queue is closed.
    fn next(&self, line: WriteQueue) -> Option<Vec<QueuedUnit>> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let own = &mut *lines;
            let waiting = &mut own.waiting[line as usize];
            let patience = |first: &QueuedUnit| match own.last {
                _ if own.writing > 0 => PATIENCE.saturating_sub(first.since.elapsed()),
                Some((written, units)) if waiting.len() < units.min(TOGETHER) => RETURNING.saturating_sub(first.since.max(written).elapsed()),
                _ => Duration::ZERO,
            };
            if let Some(first) = waiting.front().filter(|_| line == WriteQueue::Grouped)
                && let left @ 1.. = patience(first).as_nanos() as u64
            {
                lines = self.arrived[line as usize].wait_timeout(lines, Duration::from_nanos(left)).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            if let Some(first) = waiting.pop_front() {
                own.writing += usize::from(line == WriteQueue::Grouped);
                let mut requests = vec![first];
                while line == WriteQueue::Grouped && requests.len() < TOGETHER && waiting.front().is_some_and(|next| next.joins(&requests)) {
                    requests.extend(waiting.pop_front());
                }
                return Some(requests);
            }
            if lines.closed[line as usize] {
                return None;
            }
            lines = self.arrived[line as usize].wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn write(&self, context: &WriteContext, QueuedUnit { mut unit, answer, .. }: QueuedUnit) {
        let (result, sizes) = match context.write(&mut *unit) {
            Ok((receipt, sizes)) => (Ok(receipt), sizes),
            Err(trouble) => (Err(StoreError::from(trouble)), Vec::new()),
        };
        answer.send(result, Some(unit));
        context.count(sizes);
    }

    /// Writes units in one transaction that waits for no locks; if that fails, they move to the queue of single units.
    fn write_together(&self, context: &WriteContext, mut requests: Vec<QueuedUnit>) {
        let mut together = UnitGroup::new(&mut requests);
        let written = context.write(&mut together);
        let rows = std::mem::take(&mut together.rows);
        match written {
            Ok((receipt, sizes)) => {
                for (QueuedUnit { unit, answer, .. }, rows) in requests.into_iter().zip(rows) {
                    answer.send(Ok(CommitReceipt { rows: rows.get(), ..receipt }), Some(unit));
                }
                context.count(sizes);
            }
            // the units may have been written
            Err(DatabaseError::CommitUnknown(reason)) => {
                for QueuedUnit { unit, answer, .. } in requests {
                    answer.send(Err(DatabaseError::CommitUnknown(reason.clone()).into()), Some(unit));
                }
            }
            Err(_) => requests.into_iter().for_each(|request| self.put(WriteQueue::Solo, request)),
        }
    }
}

impl WriteContext {
    /// Updates the planner's statistics of tables that have grown.
    pub fn count(&self, sizes: Vec<(CollectionId, u64)>) {
        for (collection, rows) in sizes {
            let grown = self.growth.lock().unwrap_or_else(PoisonError::into_inner).has_grown(collection, rows);
            if let Some(rows_written) = grown {
                let own = &self.tables.collections[collection];
                let sides: String = own.lists.iter().map(|(_, side)| format!(", {side}")).collect();
                let sql = format!("BEGIN; SET LOCAL default_statistics_target = 10; ANALYZE (SKIP_LOCKED) {}{sides}; COMMIT", own.table);
                // this is an optimisation: if it fails, work goes on
                let _ = self.pool.run(|session| {
                    let known = session.one("SELECT reltuples FROM pg_class WHERE oid = to_regclass($1)", &[&own.table])?;
                    // the statistics are up to date already
                    if f64::from(known.at::<f32>(0)?) >= rows_written as f64 { Ok(()) } else { session.batch(&sql) }
                });
            }
        }
    }

    /// Writes a unit in a transaction.
    fn write(&self, unit: &mut dyn Unit) -> DbResult<WriteResult> {
        let done = self.pool.run(|session| self.attempt(session, unit))?;
        if let Some(lease) = unit.lease_token() {
            self.finish_job(lease.chunk.job)?;
        }
        Ok(done)
    }

    /// Ends a job if none of its chunks waits or is leased.
    pub fn finish_job(&self, job: JobId) -> DbResult<()> {
        if self.pool.run(|session| jobs::has_work(session, job))? {
            return Ok(());
        }
        self.transaction(|session, stamp| jobs::finish_job(session, job, stamp))
    }

    fn attempt(&self, session: &mut Session, unit: &mut dyn Unit) -> DbResult<WriteResult> {
        let tenant = self.tenants.find(session, unit.tenant())?;
        let began = Instant::now();
        let stamp = begin(session, &self.tables, &self.clock, unit.waits())?;
        let write = AssertUnwindSafe(|| unit::write(session, &self.tables, tenant, unit, stamp));
        let written = std::panic::catch_unwind(write);
        let done = written.unwrap_or_else(|_| Err(StoreError::Other("a unit of work panicked".into()).into()))?;
        match session.commit() {
            // the lease, or the kept response, decides when the unit is written again
            Err(DatabaseError::CommitUnknown(reason)) if unit.lease_token().is_some() || unit.call().is_some() => {
                Err(DatabaseError::ConnectionLost(reason))
            }
            ended => ended.map(|()| {
                self.written.add(done.0.rows, began);
                done
            }),
        }
    }

    /// Does small work in a transaction of its own. It is repeated if it is not known whether it was committed, so doing it twice must have the same
    /// effect as once.
    pub fn transaction<T>(&self, mut work: impl FnMut(&mut Session, i64) -> DbResult<T>) -> DbResult<T> {
        self.pool.run(|session| {
            self.once(session, &mut work).map_err(|trouble| match trouble {
                DatabaseError::CommitUnknown(reason) => DatabaseError::ConnectionLost(reason),
                other => other,
            })
        })
    }

    /// Like [`WriteContext::transaction`], for work that must not be done twice.
    pub fn transaction_once<T>(&self, mut work: impl FnMut(&mut Session, i64) -> DbResult<T>) -> DbResult<T> {
        self.pool.run(|session| self.once(session, &mut work))
    }

    fn once<T>(&self, session: &mut Session, work: &mut impl FnMut(&mut Session, i64) -> DbResult<T>) -> DbResult<T> {
        let began = Instant::now();
        let stamp = begin(session, &self.tables, &self.clock, true)?;
        let value = work(session, stamp)?;
        session.commit()?;
        self.written.add(0, began);
        Ok(value)
    }
}

/// Several units of one tenant that write different records, as one unit.
struct UnitGroup<'u> {
    units: Vec<&'u mut dyn Unit>,
    writes: Vec<RecordWrite>,
    /// The position of the unit that writes a record.
    owners: HashMap<(CollectionId, Key), usize>,
    /// Number of records written by each unit.
    rows: Vec<Cell<u64>>,
}

impl<'u> UnitGroup<'u> {
    fn new(requests: &'u mut [QueuedUnit]) -> Self {
        let units: Vec<&mut dyn Unit> = requests.iter_mut().map(|request| &mut *request.unit as &mut dyn Unit).collect();
        let (mut writes, mut owners) = (Vec::new(), HashMap::new());
        for (place, unit) in units.iter().enumerate() {
            writes.extend_from_slice(unit.writes());
            owners.extend(unit.writes().iter().map(|write| ((write.collection, write.key.clone()), place)));
        }
        let rows = vec![Cell::new(0); units.len()];
        Self { units, writes, owners, rows }
    }
}

impl Unit for UnitGroup<'_> {
    fn tenant(&self) -> &Tenant {
        self.units[0].tenant()
    }

    fn waits(&self) -> bool {
        false
    }

    fn writes(&self) -> &[RecordWrite] {
        // calling `writes` tells each unit that it starts, or starts again
        for (unit, rows) in self.units.iter().zip(&self.rows) {
            rows.set(unit.writes().len() as u64);
        }
        &self.writes
    }

    fn resolve(&mut self, conflicts: Vec<WriteConflict>) -> crate::Result<Vec<RecordWrite>> {
        let mut of_units: BTreeMap<usize, Vec<WriteConflict>> = BTreeMap::new();
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

    fn refused(&mut self, refused: UniqueConflict) {
        if let Some(owner) = self.owners.get(&(refused.collection, refused.key.clone())) {
            self.rows[*owner].update(|rows| rows - 1);
            self.units[*owner].refused(refused);
        }
    }

    fn settling(&mut self) -> SettlingChanges {
        let mut all = SettlingChanges::default();
        for unit in &mut self.units {
            let SettlingChanges { cleared_links: forget, edges, marks, marks_if_linked: new, cleared: answered } = unit.settling();
            all.cleared_links.extend(forget);
            all.edges.extend(edges);
            all.marks.extend(marks);
            all.marks_if_linked.extend(new);
            all.cleared.extend(answered);
        }
        all
    }

    fn log(&mut self) -> Vec<NewChangeLogEntry> {
        self.units.iter_mut().flat_map(|unit| unit.log()).collect()
    }
}
