//! The only connection that writes, and its thread.
//!
//! Requests wait in two queues, interactive and bulk. A transaction takes bulk requests until it has enough rows, units or time, a caller waits for
//! one of them, or an interactive request waits; interactive requests that wait together share a transaction. While interactive requests keep coming,
//! each bulk request has a transaction of its own.
//!
//! A request that fails does not affect others: the transaction is started again without it. Units of chunks are returned as soon as they are
//! written, so that many fit into a transaction; if it is rolled back, their submitters build them again. Bulk requests are answered after COMMIT,
//! interactive ones once the WAL is synced as well.

use super::connection::SqliteOptions;
use super::disk_space::DiskSpace;
use super::error::{failure, is_busy};
use super::store::LOOK_EVERY;
use super::tables::{self, StoreTables};
use super::unit;
use super::wal::{Checkpointer, CommitSyncer, OnDurable};
use crate::vitals::{CommitCounters, StoreStats};
use crate::wanted::CancelToken;
use crate::{
    ChangedRecord, CommitObserver, CommitReceipt, CommitReply, PendingCommit, Priority, RecordChange, RecordWrite, Result, StoreError, Unit, WakeFn,
};
use rusqlite::Connection;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Work inside a transaction.
pub enum WriterCommand {
    /// A unit of work.
    Unit(Box<dyn Unit>),
    /// Any small write.
    Function(WriteFn),
    /// A settle pass, and the records it has changed.
    Pass(WriteFn, Arc<Mutex<Vec<ChangedRecord>>>),
    /// A unit that was written and returned: its submitter builds it again if the transaction is rolled back.
    Returned,
}

impl WriterCommand {
    /// The unit, to be returned to its submitter.
    fn unit(self) -> Option<Box<dyn Unit>> {
        match self {
            WriterCommand::Unit(unit) => Some(unit),
            WriterCommand::Function(_) | WriterCommand::Pass(..) | WriterCommand::Returned => None,
        }
    }

    /// The records that the command may have changed.
    fn changes(&self) -> Vec<ChangedRecord> {
        let unit = match self {
            WriterCommand::Unit(unit) => unit,
            WriterCommand::Pass(_, changed) => return changed.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            WriterCommand::Function(_) | WriterCommand::Returned => return Vec::new(),
        };
        let changed = |write: &RecordWrite| ChangedRecord {
            tenant: unit.tenant().clone(),
            collection: write.collection,
            key: write.key.clone(),
            content_changed: !matches!(write.change, RecordChange::Touch { .. }),
        };
        unit.writes().iter().map(changed).collect()
    }
}

/// A function of the connection and the commit time. It is called again if its transaction is started again.
pub type WriteFn = Box<dyn FnMut(&Connection, i64) -> Result<CommitReceipt> + Send>;

/// Maximum time in which a group of bulk requests collects.
const GROUP_TIME: Duration = Duration::from_millis(1000);
/// Maximum number of bulk requests in a group.
const GROUP_UNITS: usize = 100;
/// If there was an interactive request within this time, the next one is expected soon: bulk groups are kept short.
const RECENTLY: Duration = Duration::from_millis(50);
/// Maximum number of interactive groups that overtake a bulk request.
const MOST_OVERTAKEN: u32 = 8;
/// Maximum time that a group of interactive requests waits for the sync in progress.
const MOST_SYNC: Duration = Duration::from_millis(20);

struct QueuedWrite {
    work: WriterCommand,
    answer: CommitReply,
}

#[derive(Default)]
struct WriterQueues {
    interactive: VecDeque<QueuedWrite>,
    bulk: VecDeque<QueuedWrite>,
    closed: bool,
}

struct WriterShared {
    lines: Mutex<WriterQueues>,
    arrived: Condvar,
    clock: AtomicI64,
    watch: OnceLock<Arc<dyn CommitObserver>>,
    written: CommitCounters,
}

/// A handle to the writer's thread; dropping it finishes the waiting requests.
pub struct SqliteWriter {
    shared: Arc<WriterShared>,
    wake: WakeFn,
    thread: Option<JoinHandle<()>>,
}

/// Microseconds since 1970 by the machine's clock.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

impl SqliteWriter {
    pub fn start(mut connection: Connection, path: &Path, tables: Arc<StoreTables>, options: &SqliteOptions) -> Result<Self> {
        connection.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 268435456").map_err(failure)?;
        // reads of a pass are given up when its caller is gone; nothing else on the writer's thread can be cancelled
        connection.progress_handler(LOOK_EVERY, Some(|| CancelToken::now().is_some_and(|wanted| wanted.is_over()))).map_err(failure)?;
        let stored_clock = now().max(tables::read_clock(&connection)?);
        let shared = Arc::new(WriterShared {
            lines: Mutex::default(),
            arrived: Condvar::new(),
            clock: AtomicI64::new(stored_clock),
            watch: OnceLock::new(),
            written: CommitCounters::default(),
        });
        let waiting = shared.clone();
        let wake: WakeFn = Arc::new(move || {
            // the writer checks its condition under this lock
            drop(waiting.lines.lock());
            waiting.arrived.notify_all();
        });
        let durable = CommitSyncer::start(path, wake.clone())?;
        let checkpoints = Checkpointer::start(&mut connection, path, options, wake.clone())?;
        let (wait, group_rows) = (options.wait, options.group_rows);
        let room = DiskSpace::new(&connection, path)?;
        let worker = WriterThread {
            connection,
            tables,
            shared: shared.clone(),
            overtaken: 0,
            last_waited: None,
            before: 0,
            wait,
            group_rows,
            checkpoints,
            durable,
            room,
            full: false,
        };
        let thread = std::thread::Builder::new().name("store-writer".into()).spawn(move || worker.run());
        let thread = thread.map_err(|error| StoreError::Other(error.to_string()))?;
        Ok(Self { shared, wake, thread: Some(thread) })
    }

    /// Queues work.
    pub fn run(&self, work: WriterCommand, urgency: Priority) -> PendingCommit {
        let gathers = matches!(&work, WriterCommand::Unit(unit) if unit.is_made_again());
        let (answer, pending) = CommitReply::new(gathers.then(|| self.wake.clone()));
        let request = QueuedWrite { work, answer };
        if let Ok(mut lines) = self.shared.lines.lock() {
            match urgency {
                Priority::Interactive => lines.interactive.push_back(request),
                Priority::Bulk => lines.bulk.push_back(request),
            }
        }
        self.shared.arrived.notify_one();
        pending
    }

    /// Notifies an observer of commits from now on. Only the first observer is used.
    pub fn watch(&self, watch: Arc<dyn CommitObserver>) {
        let _ = self.shared.watch.set(watch);
    }

    /// Statistics of what was written and what waits.
    pub fn vitals(&self) -> StoreStats {
        let waiting = self.shared.lines.lock().map_or(0, |lines| lines.interactive.len() + lines.bulk.len()) as u64;
        StoreStats { waiting, ..self.shared.written.vitals() }
    }

    /// Returns a time later than any before.
    pub fn clock(&self) -> i64 {
        tick(&self.shared.clock)
    }
}

pub fn tick(clock: &AtomicI64) -> i64 {
    let now = now();
    let advance = |last: i64| Some(now.max(last + 1));
    clock.fetch_update(Ordering::SeqCst, Ordering::SeqCst, advance).map_or(now, |last| now.max(last + 1))
}

impl Drop for SqliteWriter {
    fn drop(&mut self) {
        if let Ok(mut lines) = self.shared.lines.lock() {
            lines.closed = true;
        }
        self.shared.arrived.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct WriterThread {
    connection: Connection,
    tables: Arc<StoreTables>,
    shared: Arc<WriterShared>,
    /// Interactive groups since the last bulk one, while bulk requests waited.
    overtaken: u32,
    /// When the last interactive group began.
    last_waited: Option<Instant>,
    /// The commit number when the current transaction began.
    before: i64,
    wait: u64,
    group_rows: u64,
    checkpoints: Checkpointer,
    durable: CommitSyncer,
    room: DiskSpace,
    /// Whether the disk was full.
    full: bool,
}

/// How often a checkpoint is tried again while bulk work waits for readers.
const HELD: Duration = Duration::from_millis(10);

impl WriterThread {
    fn run(mut self) {
        while let Some((first, interactive)) = self.first() {
            self.group(first, interactive);
            if std::mem::take(&mut self.full) {
                self.checkpoints.make_room(&self.connection);
            }
        }
        drop(self.durable);
        self.checkpoints.close();
    }

    /// Waits for the first request of a group; returns it and whether it is interactive.
    fn first(&mut self) -> Option<(QueuedWrite, bool)> {
        let shared = self.shared.clone();
        let mut lines = shared.lines.lock().ok()?;
        loop {
            if self.checkpoints.is_nearly_done() {
                drop(lines);
                self.checkpoints.finish(&self.connection);
                lines = shared.lines.lock().ok()?;
            }
            // callers who wait go first, but not for ever
            if (self.overtaken < MOST_OVERTAKEN || lines.bulk.is_empty() || self.checkpoints.holds_bulk())
                && let Some(request) = lines.interactive.pop_front()
            {
                self.overtaken = if lines.bulk.is_empty() { 0 } else { self.overtaken + 1 };
                return Some((request, true));
            }
            let pausing = self.checkpoints.holds_bulk() && !lines.closed;
            if !pausing && let Some(request) = lines.bulk.pop_front() {
                self.overtaken = 0;
                return Some((request, false));
            }
            if lines.closed {
                return None;
            }
            lines = match pausing && self.checkpoints.is_nearly_done() {
                true => shared.arrived.wait_timeout(lines, HELD).ok()?.0,
                false => shared.arrived.wait(lines).ok()?,
            };
        }
    }

    /// Returns the next request that may join the current group, which began at `started`. Units of chunks come in a stream, and each commit writes
    /// every page they touch again: so the group waits for more until a caller waits for one of those that are `done`. Interactive requests would
    /// have to wait in any case for the sync in progress before their own begins: all that come until it ends share one commit and one sync.
    fn next(&self, interactive: bool, started: Instant, done: &[DoneWrite]) -> Option<QueuedWrite> {
        let most = if interactive { MOST_SYNC } else { GROUP_TIME };
        let most = most.saturating_sub(started.elapsed());
        let is_good_for_more = || if interactive { self.durable.is_busy() } else { are_awaited(done) == Some(false) };
        let waits_for_more = |lines: &mut WriterQueues| lines.interactive.is_empty() && lines.bulk.is_empty() && !lines.closed && is_good_for_more();
        let lines = self.shared.lines.lock().ok()?;
        let mut lines = self.shared.arrived.wait_timeout_while(lines, most, waits_for_more).ok()?.0;
        match (interactive, lines.interactive.is_empty()) {
            (true, _) => lines.interactive.pop_front(),
            (false, true) => lines.bulk.pop_front(),
            (false, false) => None,
        }
    }

    fn group(&mut self, first: QueuedWrite, interactive: bool) {
        if let Err(error) = self.begin() {
            self.full |= matches!(error, StoreError::Full);
            first.answer.send(Err(error), first.work.unit());
            return;
        }
        let started = Instant::now();
        if interactive {
            self.last_waited = Some(started);
        }
        let hurries = self.last_waited.is_some_and(|last| last.elapsed() < RECENTLY);
        let mut rows = 0;
        // after one failure, more are likely
        let mut saves = false;
        let mut done: Vec<DoneWrite> = Vec::new();
        let mut changed: Vec<ChangedRecord> = Vec::new();
        let mut request = Some(first);
        while let Some(QueuedWrite { work, answer }) = request {
            let mut work = work;
            // read its changes before it is written: reading them later would start its protocol again
            let watched = self.shared.watch.get().is_some();
            if watched && matches!(work, WriterCommand::Unit(_)) {
                changed.extend(work.changes());
            }
            match self.perform(&mut work, saves) {
                Ok(receipt) => {
                    if watched && matches!(work, WriterCommand::Pass(..)) {
                        changed.extend(work.changes());
                    }
                    rows += receipt.rows;
                    done.push(DoneWrite::new(answer, receipt, work, interactive));
                }
                Err(error) => {
                    self.full |= matches!(error, StoreError::Full);
                    answer.send(Err(error), work.unit());
                    let whole = if saves { self.check_open() } else { self.again_without_failed(&mut done) };
                    if let Err(error) = whole {
                        return refuse_all(done, &error);
                    }
                    saves = interactive;
                }
            }
            let units = if hurries { 1 } else { GROUP_UNITS };
            let full = rows >= self.group_rows || (!interactive && done.len() >= units) || started.elapsed() >= GROUP_TIME;
            request = if full { None } else { self.next(interactive, started, &done) };
        }
        let rests = are_awaited(&done) == Some(true);
        match self.end() {
            Ok(stand) => {
                self.shared.written.add(rows, started);
                if let Some(watch) = self.shared.watch.get() {
                    watch.committed(stand, &changed);
                }
                if interactive {
                    self.durable.answer(done.into_iter().map(DoneWrite::when_durable).collect());
                } else {
                    done.into_iter().for_each(|done| done.when_durable()(Ok(())));
                    if hurries {
                        // so that the next sync has less to write
                        self.durable.answer(Vec::new());
                    }
                }
                self.checkpoints.committed(rests);
            }
            Err(error) => {
                self.full |= matches!(error, StoreError::Full);
                refuse_all(done, &error);
            }
        }
    }

    /// Does work in the open transaction, with a savepoint of its own only if `saves`: saving every page that it touches, and writing out the words
    /// that its full-text tables have collected, costs more than writing its rows.
    fn perform(&self, work: &mut WriterCommand, saves: bool) -> Result<CommitReceipt> {
        if !saves {
            return self.write(work);
        }
        self.connection.execute_batch("SAVEPOINT interactive").map_err(failure)?;
        let result = self.write(work);
        if self.connection.is_autocommit() {
            return result.and(Err(StoreError::Full));
        }
        let end = if result.is_ok() { "RELEASE interactive" } else { "ROLLBACK TO interactive; RELEASE interactive" };
        let ended = self.connection.execute_batch(end).map_err(failure);
        if ended.is_err() {
            // what cannot be rolled back alone is rolled back with the entire transaction
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        ended.and(result)
    }

    /// Does work; a panic makes it fail like any error.
    fn write(&self, work: &mut WriterCommand) -> Result<CommitReceipt> {
        let stamp = tick(&self.shared.clock);
        let write = AssertUnwindSafe(|| match work {
            WriterCommand::Unit(unit) => unit::write(&self.connection, &self.tables, &mut **unit, stamp),
            WriterCommand::Function(work) | WriterCommand::Pass(work, _) => work(&self.connection, stamp),
            WriterCommand::Returned => Err(StoreError::Undone),
        });
        std::panic::catch_unwind(write).unwrap_or_else(|_| Err(StoreError::Other("a unit of work panicked".into())))
    }

    /// Checks that the transaction is still open: some errors, such as a full disk, end it.
    fn check_open(&self) -> Result<()> {
        if self.connection.is_autocommit() { Err(StoreError::Full) } else { Ok(()) }
    }

    /// Starts the transaction again after a failure and repeats what had succeeded in it, except units that were returned, which are answered as
    /// undone. What fails now is answered and left out in turn.
    fn again_without_failed(&mut self, done: &mut Vec<DoneWrite>) -> Result<()> {
        loop {
            if !self.connection.is_autocommit() {
                self.connection.execute_batch("ROLLBACK").map_err(failure)?;
            } else if !done.is_empty() {
                return Err(StoreError::Full);
            }
            for DoneWrite { answer, .. } in done.extract_if(.., |done| done.is_given_back()) {
                answer.send(Err(StoreError::Undone), None);
            }
            self.begin()?;
            let mut failed = None;
            for (place, done) in done.iter_mut().enumerate() {
                match self.write(&mut done.work) {
                    Ok(receipt) => done.receipt = receipt,
                    Err(error) => {
                        failed = Some((place, error));
                        break;
                    }
                }
            }
            let Some((place, error)) = failed else { return Ok(()) };
            let DoneWrite { answer, work, .. } = done.remove(place);
            answer.send(Err(error), work.unit());
        }
    }

    fn begin(&mut self) -> Result<()> {
        self.connection
            .execute_batch("BEGIN IMMEDIATE")
            .map_err(|error| if is_busy(&error) { StoreError::Busy(self.wait) } else { failure(error) })?;
        let checked = self.room.for_a_group(&self.connection).and_then(|()| tables::check(&self.connection, &self.tables));
        match checked.and_then(|()| tables::read_clock(&self.connection)) {
            Ok(stored) => {
                self.before = stored;
                self.shared.clock.fetch_max(stored, Ordering::SeqCst);
                Ok(())
            }
            Err(error) => {
                let _ = self.connection.execute_batch("ROLLBACK");
                Err(error)
            }
        }
    }

    /// Commits; returns the new commit number, which is the clock's time.
    fn end(&mut self) -> Result<i64> {
        let clock = self.shared.clock.load(Ordering::SeqCst);
        if let Some(watch) = self.shared.watch.get() {
            watch.committing(self.before, clock);
        }
        let ended = tables::write_clock(&self.connection, clock).and_then(|()| self.room.for_the_file(&self.connection));
        let before = self.checkpoints.pages();
        let ended = ended.and_then(|()| self.connection.execute_batch("COMMIT").map_err(failure));
        self.room.note(self.checkpoints.pages().saturating_sub(before));
        if ended.is_err() && !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        if let (Err(_), Some(watch)) = (&ended, self.shared.watch.get()) {
            watch.committing(self.before, self.before);
        }
        ended.map(|()| clock)
    }
}

/// Work that has succeeded in a group that is not durable yet.
struct DoneWrite {
    answer: CommitReply,
    receipt: CommitReceipt,
    work: WriterCommand,
}

impl DoneWrite {
    /// Keeps the work, except a unit of a bulk group that can be built again, which is returned: the memory of many units is worth more than what is
    /// saved in the rare case that one fails.
    fn new(mut answer: CommitReply, receipt: CommitReceipt, work: WriterCommand, interactive: bool) -> Self {
        let work = match work {
            WriterCommand::Unit(unit) if !interactive && unit.is_made_again() => {
                answer.return_unit(unit);
                WriterCommand::Returned
            }
            work => work,
        };
        Self { answer, receipt, work }
    }

    /// Whether its unit was returned.
    fn is_given_back(&self) -> bool {
        matches!(self.work, WriterCommand::Returned)
    }

    /// The function that answers once the group is durable, or has failed to be.
    fn when_durable(self) -> OnDurable {
        let DoneWrite { answer, receipt, work } = self;
        Box::new(move |synced| {
            let result = synced.map(|()| receipt).map_err(|error| StoreError::Other(format!("it is not known to be on the disk: {error}")));
            answer.send(result, work.unit());
        })
    }
}

/// Whether a caller waits for one of the returned units; `None` if there are none.
fn are_awaited(done: &[DoneWrite]) -> Option<bool> {
    done.iter().filter(|done| done.is_given_back()).map(|done| done.answer.is_awaited()).reduce(|any, own| any || own)
}

fn refuse_all(done: Vec<DoneWrite>, error: &StoreError) {
    for DoneWrite { answer, work, .. } in done {
        answer.send(Err(again(error)), work.unit());
    }
}

/// Copies an error, for every request of a group.
fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Full => StoreError::Full,
        StoreError::ReadOnly(reason) => StoreError::ReadOnly(reason.clone()),
        StoreError::Busy(waited) => StoreError::Busy(*waited),
        StoreError::DefinitionChanged => StoreError::DefinitionChanged,
        other => StoreError::Other(other.to_string()),
    }
}
