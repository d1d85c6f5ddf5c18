//! Units on their way: threads that each take a unit and commit it in a transaction of its own.
//!
//! Units somebody waits for overtake bulk ones. A unit whose transaction was in another's way, or whose connection went before
//! COMMIT, is done again; where it is not known whether COMMIT was done, the lease tells: a unit that hands back a lease that
//! is gone was committed by somebody, itself included.

use super::records;
use super::session::{Attempt, Pool, Session, Trouble};
use super::tables::Tables;
use super::{Clock, begin, work};
use crate::{Answered, Pending, Receipt, StoreError, Unit, Urgency};
use std::collections::VecDeque;
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

#[derive(Default)]
struct Shared {
    lines: Mutex<Lines>,
    arrived: Condvar,
}

/// The threads; dropping it finishes what waits.
pub struct Writers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What every writing transaction needs.
#[derive(Clone)]
pub struct Bench {
    pub pool: Arc<Pool>,
    pub tables: Arc<Tables>,
    pub clock: Arc<Clock>,
}

impl Writers {
    pub fn start(bench: &Bench, threads: usize) -> crate::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut started = Vec::new();
        for number in 0..threads.max(1) {
            let (bench, shared) = (bench.clone(), shared.clone());
            let thread = std::thread::Builder::new().name(format!("store-writer-{number}")).spawn(move || {
                while let Some(Request { mut unit, answer }) = shared.next() {
                    let result = bench.write(&mut *unit).map_err(StoreError::from);
                    let _ = answer.send((result, Some(unit)));
                }
            });
            started.push(thread.map_err(|error| StoreError::Other(error.to_string()))?);
        }
        Ok(Self { shared, threads: started })
    }

    /// Puts a unit in line.
    pub fn run(&self, unit: Box<dyn Unit>, urgency: Urgency) -> Pending {
        let (answer, pending) = mpsc::channel();
        let mut lines = self.shared.lines.lock().unwrap_or_else(PoisonError::into_inner);
        match urgency {
            Urgency::Interactive => lines.interactive.push_back(Request { unit, answer }),
            Urgency::Bulk => lines.bulk.push_back(Request { unit, answer }),
        }
        drop(lines);
        self.shared.arrived.notify_one();
        Pending(pending)
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.shared.lines.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.arrived.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn next(&self) -> Option<Request> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(request) = lines.interactive.pop_front() {
                return Some(request);
            }
            if let Some(request) = lines.bulk.pop_front() {
                return Some(request);
            }
            if lines.closed {
                return None;
            }
            lines = self.arrived.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Bench {
    /// Writes a unit in a transaction of its own.
    fn write(&self, unit: &mut dyn Unit) -> Attempt<Receipt> {
        let receipt = self.pool.run(|session| self.attempt(session, unit))?;
        if let Some(fence) = unit.fence() {
            self.transaction(|session, stamp| work::finish_job(session, fence.chunk.job, stamp))?;
        }
        Ok(receipt)
    }

    fn attempt(&self, session: &mut Session, unit: &mut dyn Unit) -> Attempt<Receipt> {
        let stamp = begin(session, &self.tables, &self.clock)?;
        let write = AssertUnwindSafe(|| records::write(session, &self.tables, unit, stamp));
        let written = std::panic::catch_unwind(write);
        let receipt = written.unwrap_or_else(|_| Err(StoreError::Other("a unit of work panicked".into()).into()))?;
        match session.commit() {
            // the lease decides when it is done again
            Err(Trouble::Unknown(reason)) if unit.fence().is_some() => Err(Trouble::Lost(reason)),
            ended => ended.map(|()| receipt),
        }
    }

    /// Does small work in a transaction of its own.
    pub fn transaction<T>(&self, mut work: impl FnMut(&mut Session, i64) -> Attempt<T>) -> Attempt<T> {
        self.pool.run(|session| {
            let stamp = begin(session, &self.tables, &self.clock)?;
            let value = work(session, stamp)?;
            session.commit()?;
            Ok(value)
        })
    }
}
