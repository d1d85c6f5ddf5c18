//! The only connection that writes, and its thread.
//!
//! Requests wait in two queues, interactive and bulk. A transaction takes bulk requests until it has enough rows, units or time, a caller waits for
//! one of them, or an interactive request waits; interactive requests that wait together share a transaction. While interactive requests keep coming,
//! each bulk request has a transaction of its own.
//!
//! A request that fails does not affect others: the transaction is started again without it. Units of chunks are returned as soon as they are
//! written, so that many fit into a transaction; if it is rolled back, their submitters build them again. Bulk requests are answered after COMMIT,
//! interactive ones once the WAL is synced as well.

use super::audit;
use super::connection::SqliteOptions;
use super::disk_space::DiskSpace;
use super::error::{is_busy, store_error};
use super::files::FilesInUse;
use super::store::CANCEL_CHECK_INTERVAL;
use super::tables::{self, StoreTables};
use super::unit;
use super::wal::{Checkpointer, CommitSyncer, OnDurable};
use crate::audit::{AuditScope, MAX_RECORDS};
use crate::cancel::CancelToken;
use crate::stats::{CommitCounters, StoreStats};
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
use stook_catalogue::key::Key;

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
    fn into_unit(self) -> Option<Box<dyn Unit>> {
        match self {
            WriterCommand::Unit(unit) => Some(unit),
            WriterCommand::Function(_) | WriterCommand::Pass(..) | WriterCommand::Returned => None,
        }
    }

    /// The records that the command may have changed.
    fn changed_records(&self) -> Vec<ChangedRecord> {
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
const RECENT_TIME: Duration = Duration::from_millis(50);
/// Maximum number of interactive groups that overtake a bulk request.
const MAX_OVERTAKEN: u32 = 8;
/// Maximum time that a group of interactive requests waits for the sync in progress.
const MAX_SYNC_WAIT: Duration = Duration::from_millis(20);

struct QueuedWrite {
    work: WriterCommand,
    reply: CommitReply,
}

/// An operation, and the records that its work writes, by the names of their collections.
pub struct AuditedRecords {
    pub scope: AuditScope,
    pub records: Vec<(String, Key)>,
}

#[derive(Default)]
struct WriterQueues {
    interactive: VecDeque<QueuedWrite>,
    bulk: VecDeque<QueuedWrite>,
    closed: bool,
}

struct WriterShared {
    queues: Mutex<WriterQueues>,
    arrived: Condvar,
    clock: AtomicI64,
    observer: OnceLock<Arc<dyn CommitObserver>>,
    written: CommitCounters,
}

/// A handle to the writer's thread; dropping it finishes the waiting requests.
pub struct SqliteWriter {
    shared: Arc<WriterShared>,
    wake: WakeFn,
    files: Arc<FilesInUse>,
    thread: Option<JoinHandle<()>>,
}

/// Microseconds since 1970 by the machine's clock.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

impl SqliteWriter {
    pub fn start(mut connection: Connection, path: &Path, tables: Arc<StoreTables>, options: &SqliteOptions) -> Result<Self> {
        connection.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 268435456").map_err(store_error)?;
        // reads of a pass are given up when its caller is gone; nothing else on the writer's thread can be cancelled
        connection
            .progress_handler(CANCEL_CHECK_INTERVAL, Some(|| CancelToken::current().is_some_and(|cancel_token| cancel_token.is_cancelled())))
            .map_err(store_error)?;
        let stored_clock = now().max(tables::read_clock(&connection)?);
        let shared = Arc::new(WriterShared {
            queues: Mutex::default(),
            arrived: Condvar::new(),
            clock: AtomicI64::new(stored_clock),
            observer: OnceLock::new(),
            written: CommitCounters::default(),
        });
        let wake_state = shared.clone();
        let wake: WakeFn = Arc::new(move || {
            // the writer checks its condition under this lock
            drop(wake_state.queues.lock());
            wake_state.arrived.notify_all();
        });
        let syncer = CommitSyncer::start(path, wake.clone())?;
        let checkpointer = Checkpointer::start(&mut connection, path, options, wake.clone())?;
        let (wait, group_rows) = (options.wait, options.group_rows);
        let (disk_space, files) = (DiskSpace::new(&connection, path)?, Arc::new(FilesInUse::of_store(path)));
        let worker = WriterThread {
            connection,
            tables,
            shared: shared.clone(),
            overtaken: 0,
            last_interactive: None,
            previous_commit_number: 0,
            wait,
            group_rows,
            checkpointer,
            syncer,
            disk_space,
            files: files.clone(),
            disk_was_full: false,
        };
        let thread = std::thread::Builder::new().name("store-writer".into()).spawn(move || worker.run());
        let thread = thread.map_err(|error| StoreError::Other(error.to_string()))?;
        Ok(Self { shared, wake, files, thread: Some(thread) })
    }

    /// Checks that nobody has removed or replaced the files.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`].
    pub fn check_files(&self) -> Result<()> {
        self.files.check()
    }

    /// Queues work.
    pub fn run(&self, work: WriterCommand, priority: Priority) -> PendingCommit {
        let is_rebuilt = matches!(&work, WriterCommand::Unit(unit) if unit.is_rebuilt_if_undone());
        let (reply, pending) = CommitReply::new(is_rebuilt.then(|| self.wake.clone()));
        let request = QueuedWrite { work, reply };
        if let Ok(mut queues) = self.shared.queues.lock() {
            match priority {
                Priority::Interactive => queues.interactive.push_back(request),
                Priority::Bulk => queues.bulk.push_back(request),
            }
        }
        self.shared.arrived.notify_one();
        pending
    }

    /// Notifies an observer of commits from now on. Only the first observer is used.
    pub fn watch(&self, observer: Arc<dyn CommitObserver>) {
        let _ = self.shared.observer.set(observer);
    }

    /// Statistics of what was written and what waits.
    pub fn stats(&self) -> StoreStats {
        let waiting = self.shared.queues.lock().map_or(0, |queues| queues.interactive.len() + queues.bulk.len()) as u64;
        StoreStats { waiting, ..self.shared.written.stats() }
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
        if let Ok(mut queues) = self.shared.queues.lock() {
            queues.closed = true;
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
    last_interactive: Option<Instant>,
    /// The commit number when the current transaction began.
    previous_commit_number: i64,
    wait: u64,
    group_rows: u64,
    checkpointer: Checkpointer,
    syncer: CommitSyncer,
    disk_space: DiskSpace,
    files: Arc<FilesInUse>,
    /// Whether the disk was full.
    disk_was_full: bool,
}

/// How often a checkpoint is tried again while bulk work waits for readers.
const FINISH_RETRY_INTERVAL: Duration = Duration::from_millis(10);

impl WriterThread {
    fn run(mut self) {
        while let Some((first, interactive)) = self.wait_for_first() {
            self.run_group(first, interactive);
            if std::mem::take(&mut self.disk_was_full) {
                self.checkpointer.free_disk_space(&self.connection);
            }
        }
        drop(self.syncer);
        self.checkpointer.close();
    }

    /// Waits for the first request of a group; returns it and whether it is interactive.
    fn wait_for_first(&mut self) -> Option<(QueuedWrite, bool)> {
        let shared = self.shared.clone();
        let mut queues = shared.queues.lock().ok()?;
        loop {
            if self.checkpointer.must_writer_finish() {
                drop(queues);
                self.checkpointer.finish(&self.connection);
                queues = shared.queues.lock().ok()?;
            }
            // callers who wait go first, but not for ever
            if (self.overtaken < MAX_OVERTAKEN || queues.bulk.is_empty() || self.checkpointer.must_bulk_wait())
                && let Some(request) = queues.interactive.pop_front()
            {
                self.overtaken = if queues.bulk.is_empty() { 0 } else { self.overtaken + 1 };
                return Some((request, true));
            }
            let is_bulk_paused = self.checkpointer.must_bulk_wait() && !queues.closed;
            if !is_bulk_paused && let Some(request) = queues.bulk.pop_front() {
                self.overtaken = 0;
                return Some((request, false));
            }
            if queues.closed {
                return None;
            }
            queues = match is_bulk_paused && self.checkpointer.must_writer_finish() {
                true => shared.arrived.wait_timeout(queues, FINISH_RETRY_INTERVAL).ok()?.0,
                false => shared.arrived.wait(queues).ok()?,
            };
        }
    }

    /// Returns the next request that may join the current group, which began at `started`. Units of chunks come in a stream, and each commit writes
    /// every page they touch again: so the group waits for more until a caller waits for one of those that are `done`. Interactive requests would
    /// have to wait in any case for the sync in progress before their own begins: all that come until it ends share one commit and one sync.
    fn wait_for_next(&self, interactive: bool, started: Instant, done: &[DoneWrite]) -> Option<QueuedWrite> {
        let max_wait = if interactive { MAX_SYNC_WAIT } else { GROUP_TIME };
        let max_wait = max_wait.saturating_sub(started.elapsed());
        let may_grow = || if interactive { self.syncer.is_busy() } else { are_awaited(done) == Some(false) };
        let keeps_waiting = |queues: &mut WriterQueues| queues.interactive.is_empty() && queues.bulk.is_empty() && !queues.closed && may_grow();
        let queues = self.shared.queues.lock().ok()?;
        let mut queues = self.shared.arrived.wait_timeout_while(queues, max_wait, keeps_waiting).ok()?.0;
        match (interactive, queues.interactive.is_empty()) {
            (true, _) => queues.interactive.pop_front(),
            (false, true) => queues.bulk.pop_front(),
            (false, false) => None,
        }
    }

    fn run_group(&mut self, first: QueuedWrite, interactive: bool) {
        if let Err(error) = self.begin() {
            self.disk_was_full |= matches!(error, StoreError::Full);
            first.reply.send(Err(error), first.work.into_unit());
            return;
        }
        let started = Instant::now();
        if interactive {
            self.last_interactive = Some(started);
        }
        let is_kept_short = self.last_interactive.is_some_and(|last| last.elapsed() < RECENT_TIME);
        let mut rows = 0;
        // after one failure, more are likely
        let mut uses_savepoint = false;
        let mut done: Vec<DoneWrite> = Vec::new();
        let mut changed: Vec<ChangedRecord> = Vec::new();
        let mut request = Some(first);
        while let Some(QueuedWrite { work, reply }) = request {
            let mut work = work;
            let audited = self.audited(&work, &reply);
            // read its changes before it is written: reading them later would start its protocol again
            let is_observed = self.shared.observer.get().is_some();
            if is_observed && matches!(work, WriterCommand::Unit(_)) {
                changed.extend(work.changed_records());
            }
            match self.perform(&mut work, audited.as_ref(), uses_savepoint) {
                Ok(receipt) => {
                    if is_observed && matches!(work, WriterCommand::Pass(..)) {
                        changed.extend(work.changed_records());
                    }
                    rows += receipt.rows;
                    done.push(DoneWrite { audited, ..DoneWrite::new(reply, receipt, work, interactive) });
                }
                Err(error) => {
                    self.disk_was_full |= matches!(error, StoreError::Full);
                    reply.send(Err(error), work.into_unit());
                    let restarted = if uses_savepoint { self.check_open() } else { self.restart_without_failed(&mut done) };
                    if let Err(error) = restarted {
                        return refuse_all(done, &error);
                    }
                    uses_savepoint = interactive;
                }
            }
            let max_units = if is_kept_short { 1 } else { GROUP_UNITS };
            let is_complete = rows >= self.group_rows || (!interactive && done.len() >= max_units) || started.elapsed() >= GROUP_TIME;
            request = if is_complete { None } else { self.wait_for_next(interactive, started, &done) };
        }
        let bulk_is_idle = are_awaited(&done) == Some(true);
        match self.end() {
            Ok(commit_number) => {
                self.shared.written.add(rows, started);
                if let Some(observer) = self.shared.observer.get() {
                    observer.committed(commit_number, &changed);
                }
                if interactive {
                    self.syncer.call_after_sync(done.into_iter().map(DoneWrite::when_durable).collect());
                } else {
                    done.into_iter().for_each(|done| done.when_durable()(Ok(())));
                    if is_kept_short {
                        // so that the next sync has less to write
                        self.syncer.call_after_sync(Vec::new());
                    }
                }
                self.checkpointer.committed(bulk_is_idle);
            }
            Err(error) => {
                self.disk_was_full |= matches!(error, StoreError::Full);
                refuse_all(done, &error);
            }
        }
    }

    /// Does work in the open transaction, with a savepoint of its own only if `uses_savepoint`: saving every page that it touches, and writing out
    /// the words that its full-text tables have collected, costs more than writing its rows.
    fn perform(&self, work: &mut WriterCommand, audited: Option<&AuditedRecords>, uses_savepoint: bool) -> Result<CommitReceipt> {
        if !uses_savepoint {
            return self.write(work, audited);
        }
        self.connection.execute_batch("SAVEPOINT interactive").map_err(store_error)?;
        let result = self.write(work, audited);
        if self.connection.is_autocommit() {
            return result.and(Err(StoreError::Full));
        }
        let end_sql = if result.is_ok() { "RELEASE interactive" } else { "ROLLBACK TO interactive; RELEASE interactive" };
        let ended = self.connection.execute_batch(end_sql).map_err(store_error);
        if ended.is_err() {
            // what cannot be rolled back alone is rolled back with the entire transaction
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        ended.and(result)
    }

    /// What the audit log says about work. It is read before the work is written: reading it later would start its protocol again.
    fn audited(&self, work: &WriterCommand, reply: &CommitReply) -> Option<AuditedRecords> {
        let scope = reply.audit()?.clone();
        let changed = if matches!(work, WriterCommand::Unit(_)) { work.changed_records() } else { Vec::new() };
        let name = |changed: ChangedRecord| (self.tables.names[changed.collection].clone(), changed.key);
        let records = if changed.len() > MAX_RECORDS { Vec::new() } else { changed.into_iter().map(name).collect() };
        Some(AuditedRecords { scope, records })
    }

    /// Does work, and writes who did it; a panic makes it fail like any error.
    fn write(&self, work: &mut WriterCommand, audited: Option<&AuditedRecords>) -> Result<CommitReceipt> {
        let commit_time = tick(&self.shared.clock);
        let write = AssertUnwindSafe(|| match work {
            WriterCommand::Unit(unit) => unit::write(&self.connection, &self.tables, &mut **unit, commit_time),
            WriterCommand::Function(work) | WriterCommand::Pass(work, _) => work(&self.connection, commit_time),
            WriterCommand::Returned => Err(StoreError::Undone),
        });
        let receipt = std::panic::catch_unwind(write).unwrap_or_else(|_| Err(StoreError::Other("a unit of work panicked".into())))?;
        // a unit whose records were all refused, or whose call was answered before, has changed nothing
        if let Some(audited) = audited.filter(|audited| receipt.rows > 0 || audited.records.is_empty()) {
            audit::write(&self.connection, audited, commit_time)?;
        }
        Ok(receipt)
    }

    /// Checks that the transaction is still open: some errors, such as a full disk, end it.
    fn check_open(&self) -> Result<()> {
        if self.connection.is_autocommit() { Err(StoreError::Full) } else { Ok(()) }
    }

    /// Starts the transaction again after a failure and repeats what had succeeded in it, except units that were returned, which are answered as
    /// undone. What fails now is answered and left out in turn.
    fn restart_without_failed(&mut self, done: &mut Vec<DoneWrite>) -> Result<()> {
        loop {
            if !self.connection.is_autocommit() {
                self.connection.execute_batch("ROLLBACK").map_err(store_error)?;
            } else if !done.is_empty() {
                return Err(StoreError::Full);
            }
            for DoneWrite { reply, .. } in done.extract_if(.., |done| done.is_returned()) {
                reply.send(Err(StoreError::Undone), None);
            }
            self.begin()?;
            let mut failed = None;
            for (index, done) in done.iter_mut().enumerate() {
                match self.write(&mut done.work, done.audited.as_ref()) {
                    Ok(receipt) => done.receipt = receipt,
                    Err(error) => {
                        failed = Some((index, error));
                        break;
                    }
                }
            }
            let Some((index, error)) = failed else { return Ok(()) };
            let DoneWrite { reply, work, .. } = done.remove(index);
            reply.send(Err(error), work.into_unit());
        }
    }

    fn begin(&mut self) -> Result<()> {
        self.connection
            .execute_batch("BEGIN IMMEDIATE")
            .map_err(|error| if is_busy(&error) { StoreError::Busy(self.wait) } else { store_error(error) })?;
        let checks = self
            .files
            .check()
            .and_then(|()| self.disk_space.check_group_fits(&self.connection))
            .and_then(|()| tables::check_definition(&self.connection, &self.tables));
        match checks.and_then(|()| tables::read_clock(&self.connection)) {
            Ok(stored_clock) => {
                self.previous_commit_number = stored_clock;
                self.shared.clock.fetch_max(stored_clock, Ordering::SeqCst);
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
        if let Some(observer) = self.shared.observer.get() {
            observer.committing(self.previous_commit_number, clock);
        }
        let result = tables::write_clock(&self.connection, clock).and_then(|()| self.disk_space.check_file_fits(&self.connection));
        let pages_before = self.checkpointer.pages();
        let result = result.and_then(|()| self.connection.execute_batch("COMMIT").map_err(store_error));
        self.disk_space.record_group(self.checkpointer.pages().saturating_sub(pages_before));
        if result.is_err() && !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        if let (Err(_), Some(observer)) = (&result, self.shared.observer.get()) {
            observer.committing(self.previous_commit_number, self.previous_commit_number);
        }
        result.map(|()| clock)
    }
}

/// Work that has succeeded in a group that is not durable yet.
struct DoneWrite {
    reply: CommitReply,
    receipt: CommitReceipt,
    work: WriterCommand,
    audited: Option<AuditedRecords>,
}

impl DoneWrite {
    /// Keeps the work, except a unit of a bulk group that can be built again, which is returned: the memory of many units is worth more than what is
    /// saved in the rare case that one fails.
    fn new(mut reply: CommitReply, receipt: CommitReceipt, work: WriterCommand, interactive: bool) -> Self {
        let work = match work {
            WriterCommand::Unit(unit) if !interactive && unit.is_rebuilt_if_undone() => {
                reply.return_unit(unit);
                WriterCommand::Returned
            }
            work => work,
        };
        Self { reply, receipt, work, audited: None }
    }

    /// Whether its unit was returned.
    fn is_returned(&self) -> bool {
        matches!(self.work, WriterCommand::Returned)
    }

    /// The function that answers once the group is durable, or has failed to be.
    fn when_durable(self) -> OnDurable {
        let DoneWrite { reply, receipt, work, .. } = self;
        Box::new(move |synced| {
            let result = synced.map(|()| receipt).map_err(|error| StoreError::Other(format!("the commit may not be durable: {error}")));
            reply.send(result, work.into_unit());
        })
    }
}

/// Whether a caller waits for one of the returned units; `None` if there are none.
fn are_awaited(done: &[DoneWrite]) -> Option<bool> {
    done.iter().filter(|done| done.is_returned()).map(|done| done.reply.is_awaited()).reduce(|any, is_awaited| any || is_awaited)
}

fn refuse_all(done: Vec<DoneWrite>, error: &StoreError) {
    for DoneWrite { reply, work, .. } in done {
        reply.send(Err(copy_error(error)), work.into_unit());
    }
}

/// Copies an error, for every request of a group.
fn copy_error(error: &StoreError) -> StoreError {
    match error {
        StoreError::Full => StoreError::Full,
        StoreError::ReadOnly(reason) => StoreError::ReadOnly(reason.clone()),
        StoreError::Busy(waited) => StoreError::Busy(*waited),
        StoreError::DefinitionChanged => StoreError::DefinitionChanged,
        other => StoreError::Other(other.to_string()),
    }
}
