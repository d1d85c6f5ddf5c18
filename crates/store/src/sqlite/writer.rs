//! The one connection that writes, and its thread.
//!
//! Requests wait in two lines, interactive and bulk. A transaction takes bulk requests until it holds enough rows, the line
//! is empty, or an interactive request waits; interactive requests that wait together share a transaction. Each request
//! runs in a savepoint of its own, so one that fails takes nothing with it. Answers are given after COMMIT.

use super::tables::{self, Tables};
use super::{Options, failure, is_busy};
use crate::{Pending, Receipt, Result, StoreError, Unit, Urgency};
use super::records;
use rusqlite::Connection;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Work inside a transaction.
pub enum Work {
    /// A unit.
    Unit(Box<dyn Unit>),
    /// Anything small; it is given the connection and the store's clock.
    Small(Box<dyn FnOnce(&Connection, i64) -> Result<Receipt> + Send>),
}

type Answer = Sender<(Result<Receipt>, Option<Box<dyn Unit>>)>;

/// Longest time a group of bulk requests collects.
const GROUP_TIME: Duration = Duration::from_millis(250);

struct Request {
    work: Work,
    answer: Answer,
}

#[derive(Default)]
struct Lines {
    interactive: VecDeque<Request>,
    bulk: VecDeque<Request>,
    closed: bool,
}

struct Shared {
    lines: Mutex<Lines>,
    arrived: Condvar,
    clock: AtomicI64,
}

/// A handle on the writer's thread; dropping it finishes what waits.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Microseconds since 1970 by the machine's clock.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

impl Writer {
    pub fn start(connection: Connection, tables: Arc<Tables>, options: &Options) -> Result<Self> {
        connection.execute_batch("PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 67108864;").map_err(failure)?;
        let shared = Arc::new(Shared { lines: Mutex::default(), arrived: Condvar::new(), clock: AtomicI64::new(now()) });
        let worker = Worker { connection, tables, shared: shared.clone(), wait: options.wait, group_rows: options.group_rows };
        let thread = std::thread::Builder::new().name("store-writer".into()).spawn(move || worker.run());
        let thread = thread.map_err(|error| StoreError::Other(error.to_string()))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Puts work in line.
    pub fn run(&self, work: Work, urgency: Urgency) -> Pending {
        let (answer, pending) = mpsc::channel();
        let request = Request { work, answer };
        if let Ok(mut lines) = self.shared.lines.lock() {
            match urgency {
                Urgency::Interactive => lines.interactive.push_back(request),
                Urgency::Bulk => lines.bulk.push_back(request),
            }
        }
        self.shared.arrived.notify_one();
        Pending(pending)
    }

    /// A time later than any given before.
    pub fn clock(&self) -> i64 {
        tick(&self.shared.clock)
    }
}

fn tick(clock: &AtomicI64) -> i64 {
    let now = now();
    let advance = |last: i64| Some(now.max(last + 1));
    clock.fetch_update(Ordering::SeqCst, Ordering::SeqCst, advance).map_or(now, |last| now.max(last + 1))
}

impl Drop for Writer {
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

struct Worker {
    connection: Connection,
    tables: Arc<Tables>,
    shared: Arc<Shared>,
    wait: u64,
    group_rows: u64,
}

impl Worker {
    fn run(mut self) {
        while let Some((first, interactive)) = self.first() {
            self.group(first, interactive);
        }
        // leave one file behind: without this the log stays beside it
        let _ = self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA optimize;");
    }

    /// Waits for the first request of a group.
    fn first(&self) -> Option<(Request, bool)> {
        let mut lines = self.shared.lines.lock().ok()?;
        loop {
            if let Some(request) = lines.interactive.pop_front() {
                return Some((request, true));
            }
            if let Some(request) = lines.bulk.pop_front() {
                return Some((request, false));
            }
            if lines.closed {
                return None;
            }
            lines = self.shared.arrived.wait(lines).ok()?;
        }
    }

    /// The next request that may join the group at hand.
    fn next(&self, interactive: bool) -> Option<Request> {
        let mut lines = self.shared.lines.lock().ok()?;
        if interactive {
            return lines.interactive.pop_front();
        }
        if lines.interactive.is_empty() { lines.bulk.pop_front() } else { None }
    }

    fn group(&mut self, first: Request, interactive: bool) {
        if let Err(error) = self.begin() {
            let _ = first.answer.send((Err(error), None));
            return;
        }
        let started = Instant::now();
        let mut rows = 0;
        let mut answers = Vec::new();
        let mut request = Some(first);
        while let Some(Request { work, answer }) = request {
            let (result, unit) = self.savepoint(work);
            match result {
                Ok(receipt) => {
                    rows += receipt.rows;
                    answers.push((answer, receipt, unit));
                }
                Err(error) => {
                    let _ = answer.send((Err(error), unit));
                }
            }
            // some errors (a full disk) end the whole transaction
            if self.connection.is_autocommit() {
                break;
            }
            let full = rows >= self.group_rows || started.elapsed() >= GROUP_TIME;
            request = if full { None } else { self.next(interactive) };
        }
        let outcome = if self.connection.is_autocommit() { Err(StoreError::Full) } else { self.end() };
        for (answer, receipt, unit) in answers {
            let result = match &outcome {
                Ok(()) => Ok(receipt),
                Err(error) => Err(again(error)),
            };
            let _ = answer.send((result, unit));
        }
    }

    fn begin(&mut self) -> Result<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(|error| if is_busy(&error) { StoreError::Busy(self.wait) } else { failure(error) })?;
        let checked = tables::check(&self.connection, &self.tables).and_then(|()| tables::read_clock(&self.connection));
        match checked {
            Ok(stored) => {
                self.shared.clock.fetch_max(stored, Ordering::SeqCst);
                Ok(())
            }
            Err(error) => {
                let _ = self.connection.execute_batch("ROLLBACK");
                Err(error)
            }
        }
    }

    fn savepoint(&self, work: Work) -> (Result<Receipt>, Option<Box<dyn Unit>>) {
        let stamp = tick(&self.shared.clock);
        if let Err(error) = self.connection.execute_batch("SAVEPOINT unit") {
            return (Err(failure(error)), None);
        }
        let (result, unit) = match work {
            Work::Unit(mut unit) => (records::write(&self.connection, &self.tables, &mut *unit, stamp), Some(unit)),
            Work::Small(work) => (work(&self.connection, stamp), None),
        };
        if self.connection.is_autocommit() {
            return (result.and(Err(StoreError::Full)), unit);
        }
        let end = if result.is_ok() { "RELEASE unit" } else { "ROLLBACK TO unit; RELEASE unit" };
        let ended = self.connection.execute_batch(end).map_err(failure);
        (ended.and(result), unit)
    }

    fn end(&self) -> Result<()> {
        let clock = self.shared.clock.load(Ordering::SeqCst);
        let ended = tables::write_clock(&self.connection, clock).and_then(|()| self.connection.execute_batch("COMMIT").map_err(failure));
        if ended.is_err() && !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        ended
    }
}

/// The same error for every request of a group.
fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Full => StoreError::Full,
        StoreError::ReadOnly(reason) => StoreError::ReadOnly(reason.clone()),
        other => StoreError::Other(other.to_string()),
    }
}
