//! How a store does: what this process has written since it opened it, and what is in use.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Numbers of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Transactions this process has committed.
    pub commits: u64,
    /// Rows of records they have written.
    pub rows: u64,
    /// How long they took, from their beginnings until they were committed; those of several connections overlap.
    pub write_time: Duration,
    /// Units that wait for somebody to write them, and questions that wait for a connection.
    pub waiting: u64,
    /// Connections that are open.
    pub connections: u64,
    /// Those that are used now.
    pub connections_in_use: u64,
    /// What the store takes on the disk, in bytes, its log included where it has one of its own.
    pub bytes: u64,
}

/// Counts what is committed.
#[derive(Default)]
pub(crate) struct CommitCounters {
    commits: AtomicU64,
    rows: AtomicU64,
    micros: AtomicU64,
}

impl CommitCounters {
    /// A transaction is committed.
    pub fn add(&self, rows: u64, began: Instant) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.micros.fetch_add(began.elapsed().as_micros() as u64, Ordering::Relaxed);
    }

    /// What was counted, as part of the numbers.
    pub fn vitals(&self) -> StoreStats {
        let [commits, rows, micros] = [&self.commits, &self.rows, &self.micros].map(|sum| sum.load(Ordering::Relaxed));
        StoreStats { commits, rows, write_time: Duration::from_micros(micros), ..StoreStats::default() }
    }
}
