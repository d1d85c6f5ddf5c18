//! Statistics of a store: what this process has written since it opened the store, and what is in use.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Statistics of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Transactions this process has committed.
    pub commits: u64,
    /// Records written by them.
    pub rows: u64,
    /// Total time of these transactions, from begin to commit; those of several connections overlap.
    pub write_time: Duration,
    /// Units that wait to be written, and reads that wait for a connection.
    pub waiting: u64,
    /// Connections that are open.
    pub connections: u64,
    /// Connections in use now.
    pub connections_in_use: u64,
    /// Size on disk in bytes, including the WAL if the store has one of its own.
    pub bytes: u64,
}

/// Counts commits.
#[derive(Default)]
pub(crate) struct CommitCounters {
    commits: AtomicU64,
    rows: AtomicU64,
    micros: AtomicU64,
}

impl CommitCounters {
    /// Counts a committed transaction that started at `started`.
    pub fn add(&self, rows: u64, started: Instant) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.micros.fetch_add(started.elapsed().as_micros() as u64, Ordering::Relaxed);
    }

    /// The counts as statistics; the other fields are zero.
    pub fn stats(&self) -> StoreStats {
        let [commits, rows, micros] = [&self.commits, &self.rows, &self.micros].map(|counter| counter.load(Ordering::Relaxed));
        StoreStats { commits, rows, write_time: Duration::from_micros(micros), ..StoreStats::default() }
    }
}
