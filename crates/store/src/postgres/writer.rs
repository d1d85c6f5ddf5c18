//! Threads that take units and commit them. Each process has its own.
//!
//! One thread writes bulk units in their order, each in a transaction of its own; units that a caller waits for have other threads. Those of one
//! tenant that wait together are written in one transaction, if their records are not locked; if they would have to wait for other transactions, or
//! one of them fails, they move to a queue whose threads write each alone. A unit is written again after a conflict with another transaction, or if
//! the connection was lost before COMMIT. If it is not known whether COMMIT was done, the lease decides: if the lease of a unit no longer exists, the
//! unit was committed, by this worker or by another.

use super::audit::{self, AuditedRecords};
use super::clock::{ServerClock, begin};
use super::jobs;
use super::session::{DatabaseError, DbResult, Pool, Session};
use super::tables::StoreTables;
use super::tenants::TenantIds;
use super::unit;
use super::values::RowExt;
use crate::audit::{AuditScope, MAX_RECORDS};
use crate::former::FormerWrite;
use crate::queue::JobId;
use crate::stats::CommitCounters;
use crate::{
    CommitReceipt, CommitReply, NewChangeLogEntry, PendingCommit, Priority, RecordWrite, RefusedWrite, SettlingChanges, StoreError, Tenant, Unit,
    WriteConflict,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

struct QueuedUnit {
    since: Instant,
    unit: Box<dyn Unit>,
    reply: CommitReply,
}

impl QueuedUnit {
    /// Whether it may be written together with `others`.
    fn joins(&self, others: &[QueuedUnit]) -> bool {
        let written_keys = |request: &QueuedUnit| request.unit.writes().iter().map(|write| (write.collection, write.key.clone())).collect::<Vec<_>>();
        let own_keys = written_keys(self);
        others.iter().all(|other| other.unit.tenant() == self.unit.tenant() && !written_keys(other).iter().any(|key| own_keys.contains(key)))
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
    queues: Mutex<WriteQueues>,
    arrived: [Condvar; 3],
}

/// The queues, each with its number of threads.
const THREADS: [(WriteQueue, usize); 3] = [(WriteQueue::Bulk, 1), (WriteQueue::Grouped, 3), (WriteQueue::Solo, 4)];
/// How long units that arrive while others are written together collect before another thread begins to write them.
const GROUP_WAIT: Duration = Duration::from_millis(3);
/// How long to wait for as many units as the last time: callers that were just answered soon send more.
const RETURN_WAIT: Duration = Duration::from_micros(500);
/// Maximum number of units that are written together.
const MAX_GROUP_UNITS: usize = 16;

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
        for queue in THREADS.iter().flat_map(|(queue, threads)| std::iter::repeat_n(*queue, *threads)) {
            let (state, context) = (shared.clone(), context.clone());
            let work = move || {
                while let Some(requests) = state.wait_for_units(queue) {
                    match queue {
                        WriteQueue::Grouped => {
                            let units = requests.len();
                            state.write_together(&context, requests);
                            let mut queues = state.queues.lock().unwrap_or_else(PoisonError::into_inner);
                            queues.writing -= 1;
                            queues.last = Some((Instant::now(), units + queues.waiting[queue as usize].len()));
                            state.arrived[queue as usize].notify_one();
                        }
                        WriteQueue::Bulk | WriteQueue::Solo => requests.into_iter().for_each(|request| state.write(&context, request)),
                    }
                }
            };
            let started = std::thread::Builder::new().name("store-writer".into()).spawn(work);
            threads.push((queue, started.map_err(|error| StoreError::Other(error.to_string()))?));
        }
        Ok(Self { shared, threads })
    }

    /// Returns how many units wait.
    pub fn waiting(&self) -> u64 {
        self.shared.queues.lock().unwrap_or_else(PoisonError::into_inner).waiting.iter().map(VecDeque::len).sum::<usize>() as u64
    }

    /// Queues a unit.
    pub fn run(&self, unit: Box<dyn Unit>, priority: Priority) -> PendingCommit {
        let (reply, pending) = CommitReply::new(None);
        let queue = match priority {
            Priority::Bulk => WriteQueue::Bulk,
            Priority::Interactive if needs_own_transaction(&*unit) => WriteQueue::Solo,
            Priority::Interactive => WriteQueue::Grouped,
        };
        self.shared.enqueue(queue, QueuedUnit { since: Instant::now(), unit, reply });
        pending
    }
}

impl Drop for PostgresWriter {
    fn drop(&mut self) {
        // in this order: a unit that moves to another queue finds it open
        for (queue, _) in THREADS {
            self.shared.queues.lock().unwrap_or_else(PoisonError::into_inner).closed[queue as usize] = true;
            self.shared.arrived[queue as usize].notify_all();
            for (_, thread) in self.threads.extract_if(.., |(thread_queue, _)| *thread_queue == queue) {
                let _ = thread.join();
            }
        }
    }
}

/// Whether a unit needs more of its transaction than one for several units can provide.
fn needs_own_transaction(unit: &dyn Unit) -> bool {
    let has_read_set = unit.read_set().is_some_and(|read_set| !read_set.records.is_empty() || !read_set.ranges.is_empty());
    has_read_set
        || !unit.erases().is_empty()
        || unit.premises().is_some()
        || unit.lease_token().is_some()
        || unit.call().is_some()
        || unit.tag_revision().is_some()
}

/// Number of rows below which the planner needs no statistics.
const MIN_ANALYSED_ROWS: u64 = 25;

/// Counts rows written by this process, by collection, to run ANALYZE on a table that has grown fourfold. The server would do so by itself, but a
/// minute late and too late for a bulk load. A small sample is enough; the server takes a larger one later.
#[derive(Default)]
pub struct TableGrowth(HashMap<CollectionId, (u64, u64)>);

impl TableGrowth {
    /// Counts written rows; returns the total if it is four times what it was at the last ANALYZE.
    fn count_rows(&mut self, collection: CollectionId, rows: u64) -> Option<u64> {
        let (written, analysed) = self.0.entry(collection).or_insert((0, MIN_ANALYSED_ROWS));
        *written += rows;
        let grown = *written >= 4 * *analysed;
        if grown {
            *analysed = *written;
        }
        grown.then_some(*written)
    }
}

impl WriterState {
    fn enqueue(&self, queue: WriteQueue, request: QueuedUnit) {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).waiting[queue as usize].push_back(request);
        self.arrived[queue as usize].notify_one();
    }

    /// Returns what is written next: one unit, and those after it that may join it. `None` if the queue is closed.
    fn wait_for_units(&self, queue: WriteQueue) -> Option<Vec<QueuedUnit>> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let locked_queues = &mut *queues;
            let waiting = &mut locked_queues.waiting[queue as usize];
            let wait_for = |first: &QueuedUnit| match locked_queues.last {
                _ if locked_queues.writing > 0 => GROUP_WAIT.saturating_sub(first.since.elapsed()),
                Some((written, units)) if waiting.len() < units.min(MAX_GROUP_UNITS) => {
                    RETURN_WAIT.saturating_sub(first.since.max(written).elapsed())
                }
                _ => Duration::ZERO,
            };
            if let Some(first) = waiting.front().filter(|_| queue == WriteQueue::Grouped)
                && let remaining_nanos @ 1.. = wait_for(first).as_nanos() as u64
            {
                queues = self.arrived[queue as usize]
                    .wait_timeout(queues, Duration::from_nanos(remaining_nanos))
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                continue;
            }
            if let Some(first) = waiting.pop_front() {
                locked_queues.writing += usize::from(queue == WriteQueue::Grouped);
                let mut requests = vec![first];
                while queue == WriteQueue::Grouped && requests.len() < MAX_GROUP_UNITS && waiting.front().is_some_and(|next| next.joins(&requests)) {
                    requests.extend(waiting.pop_front());
                }
                return Some(requests);
            }
            if queues.closed[queue as usize] {
                return None;
            }
            queues = self.arrived[queue as usize].wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn write(&self, context: &WriteContext, QueuedUnit { mut unit, reply, .. }: QueuedUnit) {
        let audited = context.audited(&*unit, &reply);
        let (result, sizes) = match context.write(&mut *unit, &|| audited.iter().collect()) {
            Ok((receipt, sizes)) => (Ok(receipt), sizes),
            Err(error) => (Err(StoreError::from(error)), Vec::new()),
        };
        reply.send(result, Some(unit));
        context.analyse_grown(sizes);
    }

    /// Writes units in one transaction that waits for no locks; if that fails, they move to the queue of single units.
    fn write_together(&self, context: &WriteContext, mut requests: Vec<QueuedUnit>) {
        let audited: Vec<Option<AuditedRecords>> = requests.iter().map(|request| context.audited(&*request.unit, &request.reply)).collect();
        let mut group = UnitGroup::new(&mut requests);
        let rows = group.rows.clone();
        // not those whose records were refused
        let done = || -> Vec<&AuditedRecords> {
            audited.iter().zip(rows.iter()).filter(|(_, rows)| rows.load(Ordering::Relaxed) > 0).filter_map(|(audited, _)| audited.as_ref()).collect()
        };
        let written = context.write(&mut group, &done);
        match written {
            Ok((receipt, sizes)) => {
                for (QueuedUnit { unit, reply, .. }, rows) in requests.into_iter().zip(rows.iter()) {
                    reply.send(Ok(CommitReceipt { rows: rows.load(Ordering::Relaxed), ..receipt }), Some(unit));
                }
                context.analyse_grown(sizes);
            }
            // the units may have been written
            Err(DatabaseError::CommitUnknown(reason)) => {
                for QueuedUnit { unit, reply, .. } in requests {
                    reply.send(Err(DatabaseError::CommitUnknown(reason.clone()).into()), Some(unit));
                }
            }
            Err(_) => requests.into_iter().for_each(|request| self.enqueue(WriteQueue::Solo, request)),
        }
    }
}

impl WriteContext {
    /// Updates the planner's statistics of tables that have grown.
    pub fn analyse_grown(&self, sizes: Vec<(CollectionId, u64)>) {
        for (collection, rows) in sizes {
            let grown = self.growth.lock().unwrap_or_else(PoisonError::into_inner).count_rows(collection, rows);
            if let Some(rows_written) = grown {
                let collection_tables = &self.tables.collections[collection];
                let sides: String = collection_tables.lists.iter().map(|(_, side)| format!(", {side}")).collect();
                let sql =
                    format!("BEGIN; SET LOCAL default_statistics_target = 10; ANALYZE (SKIP_LOCKED) {}{sides}; COMMIT", collection_tables.table);
                // this is an optimisation: if it fails, work goes on
                let _ = self.pool.run(|session| {
                    let estimate = session.query_one("SELECT reltuples FROM pg_class WHERE oid = to_regclass($1)", &[&collection_tables.table])?;
                    // the statistics are up to date already
                    if f64::from(estimate.at::<f32>(0)?) >= rows_written as f64 { Ok(()) } else { session.batch(&sql) }
                });
            }
        }
    }

    /// Writes a unit in a transaction.
    /// Writes a unit, and ends the job of its chunk in a second transaction if that was the last. If the process dies between them, the next worker
    /// that finds nothing to lease ends the job (decision 007).
    fn write<'a>(&self, unit: &mut dyn Unit, audited: &dyn Fn() -> Vec<&'a AuditedRecords>) -> DbResult<WriteResult> {
        let done = self.pool.run(|session| self.attempt(session, unit, audited))?;
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
        self.transaction(|session, commit_time| jobs::finish_job(session, job, commit_time))
    }

    /// What the audit log says about a unit. It is read before the unit is written: reading it later would start its protocol again.
    fn audited(&self, unit: &dyn Unit, reply: &CommitReply) -> Option<AuditedRecords> {
        let scope = reply.audit()?.clone();
        let (writes, collections) = (unit.writes(), &self.tables.catalogue().collections);
        let records = if writes.len() > MAX_RECORDS { &[] } else { writes };
        let name = |write: &RecordWrite| (collections[write.collection].name.clone(), write.key.clone());
        Some(AuditedRecords { scope, records: records.iter().map(name).collect() })
    }

    fn attempt<'a>(&self, session: &mut Session, unit: &mut dyn Unit, audited: &dyn Fn() -> Vec<&'a AuditedRecords>) -> DbResult<WriteResult> {
        let tenant = self.tenants.find(session, unit.tenant())?;
        let started = Instant::now();
        let commit_time = begin(session, &self.tables, &self.clock, unit.waits_for_locks())?;
        let write = AssertUnwindSafe(|| unit::write(session, &self.tables, tenant, unit, commit_time));
        let written = std::panic::catch_unwind(write);
        let done = written.unwrap_or_else(|_| Err(StoreError::Other("a unit of work panicked".into()).into()))?;
        // a unit whose records were all refused, or whose call was answered before, has changed nothing
        for AuditedRecords { scope, records } in audited().into_iter().filter(|audited| done.0.rows > 0 || audited.records.is_empty()) {
            audit::write(session, scope, records, commit_time)?;
        }
        match session.commit() {
            // the lease, or the kept response, decides when the unit is written again
            Err(DatabaseError::CommitUnknown(reason)) if unit.lease_token().is_some() || unit.call().is_some() => {
                Err(DatabaseError::ConnectionLost(reason))
            }
            ended => ended.map(|()| {
                self.written.add(done.0.rows, started);
                done
            }),
        }
    }

    /// Does small work in a transaction of its own. It is repeated if it is not known whether it was committed, so doing it twice must have the same
    /// effect as once.
    pub fn transaction<T>(&self, mut work: impl FnMut(&mut Session, i64) -> DbResult<T>) -> DbResult<T> {
        self.pool.run(|session| {
            self.once(session, &mut work).map_err(|error| match error {
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
        let started = Instant::now();
        let commit_time = begin(session, &self.tables, &self.clock, true)?;
        let value = work(session, commit_time)?;
        let scope = AuditScope::current().filter(|scope| !scope.is_written());
        if let Some(scope) = &scope {
            audit::write(session, scope, &[], commit_time)?;
        }
        session.commit()?;
        scope.iter().for_each(AuditScope::note_written);
        self.written.add(0, started);
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
    rows: Arc<[AtomicU64]>,
}

impl<'u> UnitGroup<'u> {
    fn new(requests: &'u mut [QueuedUnit]) -> Self {
        let units: Vec<&mut dyn Unit> = requests.iter_mut().map(|request| &mut *request.unit as &mut dyn Unit).collect();
        let (mut writes, mut owners) = (Vec::new(), HashMap::new());
        for (index, unit) in units.iter().enumerate() {
            writes.extend_from_slice(unit.writes());
            owners.extend(unit.writes().iter().map(|write| ((write.collection, write.key.clone()), index)));
        }
        let rows = units.iter().map(|_| AtomicU64::new(0)).collect();
        Self { units, writes, owners, rows }
    }
}

impl Unit for UnitGroup<'_> {
    fn tenant(&self) -> &Tenant {
        self.units[0].tenant()
    }

    fn waits_for_locks(&self) -> bool {
        false
    }

    fn writes(&self) -> &[RecordWrite] {
        // calling `writes` tells each unit that it starts, or starts again
        for (unit, rows) in self.units.iter().zip(self.rows.iter()) {
            rows.store(unit.writes().len() as u64, Ordering::Relaxed);
        }
        &self.writes
    }

    fn resolve(&mut self, conflicts: Vec<WriteConflict>) -> crate::Result<Vec<RecordWrite>> {
        let mut by_unit: BTreeMap<usize, Vec<WriteConflict>> = BTreeMap::new();
        for conflict in conflicts {
            if let Some(owner) = self.owners.get(&(conflict.collection, conflict.key.clone())) {
                by_unit.entry(*owner).or_default().push(conflict);
            }
        }
        let mut resolved = Vec::new();
        for (owner, conflicts) in by_unit {
            let conflict_count = conflicts.len() as u64;
            let unit_writes = self.units[owner].resolve(conflicts)?;
            self.rows[owner].fetch_sub(conflict_count, Ordering::Relaxed);
            self.rows[owner].fetch_add(unit_writes.len() as u64, Ordering::Relaxed);
            resolved.extend(unit_writes);
        }
        Ok(resolved)
    }

    fn refused(&mut self, refused: RefusedWrite) {
        if let Some(owner) = self.owners.get(&(refused.collection, refused.key.clone())) {
            self.rows[*owner].fetch_sub(1, Ordering::Relaxed);
            self.units[*owner].refused(refused);
        }
    }

    fn settling(&mut self) -> SettlingChanges {
        let mut combined = SettlingChanges::default();
        for unit in &mut self.units {
            let SettlingChanges { cleared_links, edges, marks, marks_if_linked, cleared } = unit.settling();
            combined.cleared_links.extend(cleared_links);
            combined.edges.extend(edges);
            combined.marks.extend(marks);
            combined.marks_if_linked.extend(marks_if_linked);
            combined.cleared.extend(cleared);
        }
        combined
    }

    fn reads_former(&self) -> bool {
        self.units.iter().any(|unit| unit.reads_former())
    }

    fn former(&mut self) -> Vec<FormerWrite> {
        self.units.iter_mut().flat_map(|unit| unit.former()).collect()
    }

    fn log(&mut self) -> Vec<NewChangeLogEntry> {
        self.units.iter_mut().flat_map(|unit| unit.log()).collect()
    }
}
