//! Units on their way: threads that take one after the other and commit it in a transaction of its own. More processes are
//! more such threads.
//!
//! One thread writes bulk units, which keep their order; units somebody waits for have threads of their own, so that they wait
//! neither for bulk work nor for each other's commits. A unit whose transaction was in another's way, or
//! whose connection went before COMMIT, is done again; where it is not known whether COMMIT was done, the lease tells: a unit
//! that hands back a lease that is gone was committed by somebody, itself included.

use super::records;
use super::session::{Attempt, Pool, Session, Trouble};
use super::tables::Tables;
use super::{Clock, begin, work};
use crate::queue::JobId;
use crate::{Answered, Pending, Receipt, StoreError, Unit, Urgency};
use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

struct Request {
    unit: Box<dyn Unit>,
    answer: Sender<Answered>,
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
                while let Some(Request { mut unit, answer }) = waiting.next(urgency) {
                    let (result, sizes) = match bench.write(&mut *unit) {
                        Ok((receipt, sizes)) => (Ok(receipt), sizes),
                        Err(trouble) => (Err(StoreError::from(trouble)), Vec::new()),
                    };
                    waiting.count(&bench, sizes);
                    let _ = answer.send((result, Some(unit)));
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

    fn next(&self, urgency: Urgency) -> Option<Request> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(request) = lines.of(urgency).pop_front() {
                return Some(request);
            }
            if lines.closed {
                return None;
            }
            lines = self.arrived(urgency).wait(lines).unwrap_or_else(PoisonError::into_inner);
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
