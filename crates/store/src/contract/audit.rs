//! The audit log: who changed what, when and from where.
//!
//! Code that works for a caller does so inside [`AuditScope::during`]. The store looks at the thread's scope when a change is submitted, and writes an
//! entry in the transaction of the change: both are there, or neither. Entries are only ever added; what is older than [`RETENTION`], or more than
//! [`MAX_ENTRIES`], is removed as others are added.

use super::error::Result;
use super::tenant::Tenant;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stook_catalogue::key::Key;

/// How long entries are kept, in microseconds: 400 days.
pub const RETENTION: i64 = 400 * 86_400 * 1_000_000;
/// Maximum number of entries.
pub const MAX_ENTRIES: i64 = 2_000_000;
/// Maximum number of records of one change that have an entry each; a change of more has one entry without a record.
pub const MAX_RECORDS: usize = 20;
/// Maximum number of characters of an operation.
const MAX_OPERATION: usize = 500;

/// The outcome of a change that was committed.
pub const DONE: &str = "done";

/// Who does what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedOperation {
    /// The tenant, if it is known.
    pub tenant: Option<Tenant>,
    /// The number of the caller's token.
    pub token: Option<u64>,
    /// The caller's name.
    pub caller: String,
    /// The address from which the caller calls.
    pub address: Option<String>,
    /// What is done: a command, or a method and path.
    pub operation: String,
}

impl AuditedOperation {
    /// An operation of nobody in particular.
    pub fn new(operation: &str) -> Self {
        let operation = operation.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(MAX_OPERATION).collect();
        Self { tenant: None, token: None, caller: String::new(), address: None, operation }
    }

    /// What is done.
    pub fn operation(&self) -> &str {
        &self.operation
    }
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its number.
    pub id: u64,
    /// When it was written, in microseconds.
    pub at: i64,
    /// Who did what.
    pub by: AuditedOperation,
    /// The collection and key of the record that was changed.
    pub record: Option<(String, String)>,
    /// [`DONE`], or the status of a refusal.
    pub outcome: String,
}

/// Which entries are wanted, newest first.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Those of a tenant.
    pub tenant: Option<Tenant>,
    /// Those since a time, in microseconds.
    pub since: Option<i64>,
    /// Those of a token.
    pub token: Option<u64>,
    /// Those of a record: its collection and key.
    pub record: Option<(String, Key)>,
    /// Those before an entry, by its number.
    pub before: Option<u64>,
    /// At most so many.
    pub limit: usize,
}

/// An operation whose changes are audited, shared by the code that does it and the store that writes its entry.
#[derive(Debug, Clone)]
pub struct AuditScope(Arc<ScopeState>);

#[derive(Debug)]
struct ScopeState {
    operation: AuditedOperation,
    is_written: AtomicBool,
}

thread_local! {
    /// The operation for which this thread works now.
    static CURRENT: RefCell<Option<AuditScope>> = const { RefCell::new(None) };
}

/// Restores the previous scope of the thread.
struct Restored(Option<AuditScope>);

impl Drop for Restored {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| *current = self.0.take());
    }
}

impl AuditScope {
    /// A scope of which nothing is written yet.
    pub fn new(operation: AuditedOperation) -> Self {
        Self(Arc::new(ScopeState { operation, is_written: AtomicBool::new(false) }))
    }

    /// Does `work` on this thread for this operation.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let _restored = Restored(CURRENT.with_borrow_mut(|current| current.replace(self.clone())));
        work()
    }

    /// Does `work` on this thread for no operation.
    pub fn outside<T>(work: impl FnOnce() -> T) -> T {
        let _restored = Restored(CURRENT.with_borrow_mut(Option::take));
        work()
    }

    /// The operation for which this thread works, if there is one.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Who does what.
    pub fn operation(&self) -> &AuditedOperation {
        &self.0.operation
    }

    /// Whether a change of it, with its entry, was committed. Later changes of the same operation have no entry of their own.
    pub fn is_written(&self) -> bool {
        self.0.is_written.load(Ordering::SeqCst)
    }

    /// Notes that a change was committed with its entry.
    pub fn note_written(&self) {
        self.0.is_written.store(true, Ordering::SeqCst);
    }
}

/// The audit log of a store.
pub trait AuditLog {
    /// Returns entries, newest first.
    ///
    /// # Errors
    /// When the database fails.
    fn audit(&self, wanted: &AuditQuery) -> Result<Vec<AuditEntry>>;

    /// Adds an entry for an operation that changed nothing, with the reason.
    ///
    /// # Errors
    /// When the database fails.
    fn add_refusal(&self, operation: &AuditedOperation, outcome: &str) -> Result<()>;
}
