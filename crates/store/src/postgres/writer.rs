//! Units on their way: threads that take them and commit them. More processes are more such threads.
//!
//! One thread writes bulk units, which keep their order, each in a transaction of its own; units somebody waits for have threads
//! of their own. Those of one tenant that wait in line together are written as one, if nobody holds their records; what would
//! have to wait for others' transactions, or fails, steps aside into a line whose threads write each alone. A unit whose transaction was in another's way, or
//! whose connection went before COMMIT, is done again; where it is not known whether COMMIT was done, the lease tells: a unit
//! that hands back a lease that is gone was committed by somebody, itself included.

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
    /// Whether it may be written together with others.
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
    /// Threads that write units together.
    writing: usize,
    /// When units were written together the last time, and how many with those that waited then.
    last: Option<(Instant, usize)>,
}

/// Where a unit waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteQueue {
    /// Bulk units.
    Bulk,
    /// Units that somebody waits for, to be written together.
    Grouped,
    /// Those that may have to wait for others' transactions.
    Solo,
}

#[derive(Default)]
struct WriterState {
    lines: Mutex<WriteQueues>,
    arrived: [Condvar; 3],
}

/// The lines, each with its threads.
const THREADS: [(WriteQueue, usize); 3] = [(WriteQueue::Bulk, 1), (WriteQueue::Grouped, 3), (WriteQueue::Solo, 4)];
/// What comes while units are written together gathers for so long before another thread begins to write it.
const PATIENCE: Duration = Duration::from_millis(3);
/// As many as there were the last time are waited for so long: those who have been answered come again.
const RETURNING: Duration = Duration::from_micros(500);
/// Units that are written together.
const TOGETHER: usize = 16;

/// The threads; dropping it finishes what waits.
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

    /// How many units wait.
    pub fn waiting(&self) -> u64 {
        self.shared.lines.lock().unwrap_or_else(PoisonError::into_inner).waiting.iter().map(VecDeque::len).sum::<usize>() as u64
    }

    /// Puts a unit in line.
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
        // in this order: what steps aside finds its line open
        for (line, _) in THREADS {
            self.shared.lines.lock().unwrap_or_else(PoisonError::into_inner).closed[line as usize] = true;
            self.shared.arrived[line as usize].notify_all();
            for (_, thread) in self.threads.extract_if(.., |(own, _)| *own == line) {
                let _ = thread.join();
            }
        }
    }
}

/// Whether a unit asks more of its transaction than one for several can answer.
fn is_on_its_own(unit: &dyn Unit) -> bool {
    let relies = unit.read_set().is_some_and(|reliance| !reliance.records.is_empty() || !reliance.ranges.is_empty());
    relies || unit.lease_token().is_some() || unit.call().is_some() || unit.tag_revision().is_some()
}

/// Rows of a table of which nothing need be known.
const SMALL: u64 = 25;

/// Rows written by this process, by collection: the server's planner is told of a table that has grown to the fourfold. It
/// would find out by itself, a minute late and a bulk load too late. A small sample does; the server takes a larger one in
/// time.
#[derive(Default)]
pub struct TableGrowth(HashMap<CollectionId, (u64, u64)>);

impl TableGrowth {
    /// How many rows of a collection were written, if that is the fourfold of what it was.
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

    /// What is written next: one request, and those after it that may join it.
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

    /// Writes requests in one transaction that waits for nobody; where that fails they step aside.
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
            // they may have been written
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
    /// Tells the server's planner of tables that have grown.
    pub fn count(&self, sizes: Vec<(CollectionId, u64)>) {
        for (collection, rows) in sizes {
            let grown = self.growth.lock().unwrap_or_else(PoisonError::into_inner).has_grown(collection, rows);
            if let Some(rows_written) = grown {
                let own = &self.tables.collections[collection];
                let sides: String = own.lists.iter().map(|(_, side)| format!(", {side}")).collect();
                let sql = format!("BEGIN; SET LOCAL default_statistics_target = 10; ANALYZE (SKIP_LOCKED) {}{sides}; COMMIT", own.table);
                // it is an advice: where it fails, work goes on
                let _ = self.pool.run(|session| {
                    let known = session.one("SELECT reltuples FROM pg_class WHERE oid = to_regclass($1)", &[&own.table])?;
                    // somebody has told it before
                    if f64::from(known.at::<f32>(0)?) >= rows_written as f64 { Ok(()) } else { session.batch(&sql) }
                });
            }
        }
    }

    /// Writes a unit in a transaction of its own.
    fn write(&self, unit: &mut dyn Unit) -> DbResult<WriteResult> {
        let done = self.pool.run(|session| self.attempt(session, unit))?;
        if let Some(lease) = unit.lease_token() {
            self.finish_job(lease.chunk.job)?;
        }
        Ok(done)
    }

    /// Ends a job if nothing of it is left to do.
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
            // the lease, or the answer that was kept, decides when it is done again
            Err(DatabaseError::CommitUnknown(reason)) if unit.lease_token().is_some() || unit.call().is_some() => {
                Err(DatabaseError::ConnectionLost(reason))
            }
            ended => ended.map(|()| {
                self.written.add(done.0.rows, began);
                done
            }),
        }
    }

    /// Does small work in a transaction of its own. It is done again when it is not known whether it was done, so twice must be
    /// the same as once.
    pub fn transaction<T>(&self, mut work: impl FnMut(&mut Session, i64) -> DbResult<T>) -> DbResult<T> {
        self.pool.run(|session| {
            self.once(session, &mut work).map_err(|trouble| match trouble {
                DatabaseError::CommitUnknown(reason) => DatabaseError::ConnectionLost(reason),
                other => other,
            })
        })
    }

    /// The same for work that must not be done twice.
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

/// Units of one tenant about different records, as one.
struct UnitGroup<'u> {
    units: Vec<&'u mut dyn Unit>,
    writes: Vec<RecordWrite>,
    /// Whose record it is.
    owners: HashMap<(CollectionId, Key), usize>,
    /// Rows written for each.
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
        // each is told that it begins, or begins again
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
