//! Commits: units are submitted, and their callers wait for the results.

use super::audit::AuditScope;
use super::error::{Result, StoreError};
use super::unit::Unit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::oneshot::{self, Receiver, Sender};

/// How urgent a unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// A caller waits for the result: overtakes bulk work at the next boundary between units.
    Interactive,
    /// Shares a transaction with other bulk work. Once committed, it survives a crash of the process at once, and a crash of the machine from the
    /// next interactive commit or [`Units::sync`] on. What is lost before that is lost together with the removal of its chunk from the queue, so the
    /// chunk is processed again.
    Bulk,
}

/// The result of a committed unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommitReceipt {
    /// The store's clock when the unit was written, in microseconds; units that share a transaction may have the same time.
    pub committed_at: i64,
    /// Number of records written.
    pub rows: u64,
}

/// A submitted unit. [`PendingCommit::wait`] blocks until it is committed, [`PendingCommit::committed`] is the asynchronous form. The unit itself is
/// sent back, with the result or earlier, so that the writer does not have to free its memory.
pub struct PendingCommit {
    written: Option<Receiver<Box<dyn Unit>>>,
    result: Receiver<CommitResult>,
    waiter: Option<Arc<WaiterFlag>>,
}

/// The result of a unit, and the unit itself if it was written and not returned earlier.
pub type CommitResult = (Result<CommitReceipt>, Option<Box<dyn Unit>>);

/// The store's end of a [`PendingCommit`].
pub struct CommitReply {
    written: Option<Sender<Box<dyn Unit>>>,
    result: Sender<CommitResult>,
    waiter: Option<Arc<WaiterFlag>>,
    /// The operation that submitted the unit, if it is audited.
    audit: Option<AuditScope>,
}

/// Whether a caller waits for the result.
struct WaiterFlag {
    is_waiting: AtomicBool,
    /// Called when a caller begins to wait.
    wake: WakeFn,
}

/// Wakes a thread, which then checks its state again.
pub type WakeFn = Arc<dyn Fn() + Send + Sync>;

impl CommitReply {
    /// The two ends for one unit; `wake`, if given, is called when a caller begins to wait for the result.
    pub fn new(wake: Option<WakeFn>) -> (Self, PendingCommit) {
        let ((written, written_receiver), (result, result_receiver)) = (oneshot::channel(), oneshot::channel());
        let waiter = wake.map(|wake| Arc::new(WaiterFlag { is_waiting: AtomicBool::new(false), wake }));
        let pending = PendingCommit { written: Some(written_receiver), result: result_receiver, waiter: waiter.clone() };
        (Self { written: Some(written), result, waiter, audit: AuditScope::current() }, pending)
    }

    /// The operation that submitted the unit, unless an entry of it was written before.
    pub fn audit(&self) -> Option<&AuditScope> {
        self.audit.as_ref().filter(|scope| !scope.is_written())
    }

    /// Whether a caller is known to wait for the result; always false without a `wake` function.
    pub fn is_awaited(&self) -> bool {
        self.waiter.as_ref().is_some_and(|waiter| waiter.is_waiting.load(Ordering::SeqCst))
    }

    /// Returns a unit that is written but not yet committed.
    pub fn return_unit(&mut self, unit: Box<dyn Unit>) {
        if let Some(written) = self.written.take() {
            let _ = written.send(unit);
        }
    }

    /// Sends the result; it is dropped if the caller no longer waits.
    pub fn send(self, result: Result<CommitReceipt>, unit: Option<Box<dyn Unit>>) {
        if let (Some(scope), Ok(_)) = (&self.audit, &result) {
            scope.note_written();
        }
        let _ = self.result.send((result, unit));
    }
}

impl PendingCommit {
    /// Waits until the unit is committed.
    ///
    /// # Errors
    /// When it was not written.
    pub fn wait(self) -> Result<CommitReceipt> {
        self.note_waiting();
        self.result.blocking_recv().map_err(|_| closed_error())?.0
    }

    /// Resolves when the unit is committed; returns its result and the unit.
    ///
    /// # Errors
    /// When it was not written.
    pub async fn committed(self) -> Result<(CommitReceipt, Box<dyn Unit>)> {
        self.note_waiting();
        let (result, unit) = self.result.await.map_err(|_| closed_error())?;
        Ok((result?, unit.ok_or_else(closed_error)?))
    }

    /// Notes that a caller waits from now on, unless the result is already there.
    fn note_waiting(&self) {
        if let Some(waiter) = self.waiter.as_ref().filter(|_| !self.is_answered()) {
            waiter.is_waiting.store(true, Ordering::SeqCst);
            (waiter.wake)();
        }
    }

    /// Whether [`PendingCommit::wait`] would not block.
    pub fn is_answered(&self) -> bool {
        !self.result.is_empty()
    }

    /// Returns whether the unit is written; if so, frees its memory.
    pub fn is_written(&mut self) -> bool {
        let is_unwritten = self.written.as_mut().is_some_and(|written| matches!(written.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
        if !is_unwritten {
            self.written = None;
        }
        !is_unwritten
    }

    /// Blocks until the unit is written, and frees its memory.
    pub fn wait_until_written(&mut self) {
        if let Some(written) = self.written.take() {
            let _ = written.blocking_recv();
        }
    }
}

fn closed_error() -> StoreError {
    StoreError::Other("the store was closed".into())
}

/// Writes units of work.
pub trait Units {
    /// Submits a unit of work; its result comes through the [`PendingCommit`].
    fn submit(&self, unit: Box<dyn Unit>, priority: Priority) -> PendingCommit;

    /// Submits a unit as interactive and waits for its result.
    ///
    /// # Errors
    /// When it was not written.
    fn commit(&self, unit: Box<dyn Unit>) -> Result<CommitReceipt> {
        self.submit(unit, Priority::Interactive).wait()
    }

    /// Returns once everything committed so far is durable.
    ///
    /// # Errors
    /// When the database fails.
    fn sync(&self) -> Result<()>;
}
