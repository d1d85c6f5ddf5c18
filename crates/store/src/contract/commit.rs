//! Commits: units are submitted, and whoever waits learns what became of them.

use super::error::{Result, StoreError};
use super::unit::Unit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::oneshot::{self, Receiver, Sender};

/// How urgent a unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Somebody waits for the answer: overtakes bulk work at the next unit's boundary.
    Interactive,
    /// Shares a transaction with other bulk work. It survives the end of the process at once, and that of the machine from
    /// the next interactive commit or [`Units::sync`] on: what is lost then is lost together with the removal of its chunk
    /// from the queue, so the chunk is done again.
    Bulk,
}

/// What became of a unit; given when it is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommitReceipt {
    /// The store's clock when it was written, in microseconds; units that share a transaction may have the same.
    pub committed_at: i64,
    /// Rows written.
    pub rows: u64,
}

/// A unit on its way; [`PendingCommit::wait`] blocks until it is committed, [`PendingCommit::committed`] does not block. The unit itself comes
/// back, with the answer or before, so that giving back its memory is not the writer's work.
pub struct PendingCommit {
    written: Option<Receiver<Box<dyn Unit>>>,
    answer: Receiver<CommitResult>,
    awaited: Option<Arc<WaiterFlag>>,
}

/// The answer to a unit, and the unit if it came so far and was not given back before.
pub type CommitResult = (Result<CommitReceipt>, Option<Box<dyn Unit>>);

/// Where the store answers a unit.
pub struct CommitReply {
    written: Option<Sender<Box<dyn Unit>>>,
    answer: Sender<CommitResult>,
    awaited: Option<Arc<WaiterFlag>>,
}

/// Whether somebody waits for an answer.
struct WaiterFlag {
    is_so: AtomicBool,
    /// Wakes who is to know.
    wake: WakeFn,
}

/// Wakes a thread that looks again.
pub type WakeFn = Arc<dyn Fn() + Send + Sync>;

impl CommitReply {
    /// For one unit; `wake` is called when somebody begins to wait for the answer, where that is to be known.
    pub fn new(wake: Option<WakeFn>) -> (Self, PendingCommit) {
        let ((written, is_written), (answer, answered)) = (oneshot::channel(), oneshot::channel());
        let awaited = wake.map(|wake| Arc::new(WaiterFlag { is_so: AtomicBool::new(false), wake }));
        let pending = PendingCommit { written: Some(is_written), answer: answered, awaited: awaited.clone() };
        (Self { written: Some(written), answer, awaited }, pending)
    }

    /// Whether it is known that somebody waits for it.
    pub fn is_awaited(&self) -> bool {
        self.awaited.as_ref().is_some_and(|awaited| awaited.is_so.load(Ordering::SeqCst))
    }

    /// Gives a unit back that is written but not committed.
    pub fn return_unit(&mut self, unit: Box<dyn Unit>) {
        if let Some(written) = self.written.take() {
            let _ = written.send(unit);
        }
    }

    /// What came of it; it does not matter whether somebody is still waiting.
    pub fn send(self, result: Result<CommitReceipt>, unit: Option<Box<dyn Unit>>) {
        let _ = self.answer.send((result, unit));
    }
}

impl PendingCommit {
    /// Waits until the unit is committed.
    ///
    /// # Errors
    /// When it was not written.
    pub fn wait(self) -> Result<CommitReceipt> {
        self.awaits();
        self.answer.blocking_recv().map_err(|_| closed())?.0
    }

    /// Ends when the unit is committed; it tells what became of it.
    ///
    /// # Errors
    /// When it was not written.
    pub async fn committed(self) -> Result<(CommitReceipt, Box<dyn Unit>)> {
        self.awaits();
        let (result, unit) = self.answer.await.map_err(|_| closed())?;
        Ok((result?, unit.ok_or_else(closed)?))
    }

    /// From now on somebody waits for the answer.
    fn awaits(&self) {
        if let Some(awaited) = self.awaited.as_ref().filter(|_| !self.is_answered()) {
            awaited.is_so.store(true, Ordering::SeqCst);
            (awaited.wake)();
        }
    }

    /// Whether [`PendingCommit::wait`] would not block.
    pub fn is_answered(&self) -> bool {
        !self.answer.is_empty()
    }

    /// Gives back the memory of a unit that is written, and says whether it is.
    pub fn is_written(&mut self) -> bool {
        let waits = self.written.as_mut().is_some_and(|written| matches!(written.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
        if !waits {
            self.written = None;
        }
        !waits
    }

    /// The same, when it is.
    pub fn wait_until_written(&mut self) {
        if let Some(written) = self.written.take() {
            let _ = written.blocking_recv();
        }
    }
}

fn closed() -> StoreError {
    StoreError::Other("the store was closed".into())
}

/// Writes units of work.
pub trait Units {
    /// Starts a unit of work; the answer is in [`PendingCommit`].
    fn submit(&self, unit: Box<dyn Unit>, priority: Priority) -> PendingCommit;

    /// Submits a unit somebody waits for, and waits.
    ///
    /// # Errors
    /// When it was not written.
    fn commit(&self, unit: Box<dyn Unit>) -> Result<CommitReceipt> {
        self.submit(unit, Priority::Interactive).wait()
    }

    /// Returns when everything committed so far survives the end of the machine.
    ///
    /// # Errors
    /// When the database fails.
    fn sync(&self) -> Result<()>;
}
