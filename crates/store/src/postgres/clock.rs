//! The server's time, and the beginning of writing transactions.

use super::session::{DbResult, Session};
use super::tables::StoreTables;
use super::values::RowExt;
use crate::*;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The server's time, as this process estimates it; strictly increasing.
pub struct ServerClock {
    pub last: AtomicI64,
    /// How far the server's clock is ahead of this machine's, in microseconds.
    pub offset: AtomicI64,
}

impl ServerClock {
    fn now(&self) -> i64 {
        let local_time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
        local_time + self.offset.load(Ordering::Relaxed)
    }

    pub fn tick(&self) -> i64 {
        let now = self.now();
        let advance = |last: i64| Some(now.max(last + 1));
        self.last.fetch_update(Ordering::SeqCst, Ordering::SeqCst, advance).map_or(now, |last| now.max(last + 1))
    }

    pub fn observe(&self, server_time: i64) {
        self.offset.fetch_add(server_time - self.now(), Ordering::Relaxed);
        self.last.fetch_max(server_time, Ordering::SeqCst);
    }
}

/// Begins a writing transaction and returns its commit time; fails if the definition was changed.
pub fn begin(session: &mut Session, tables: &StoreTables, clock: &ServerClock, waits_for_locks: bool) -> DbResult<i64> {
    session.begin(waits_for_locks);
    let sql = "SELECT setval('clock', greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, last_value + 1, $1::bigint + 1)),
        (SELECT value FROM meta WHERE name = 'definition'), EXISTS(SELECT 1 FROM erased) FROM clock";
    let row = session.query_one(sql, &[&clock.last.load(Ordering::SeqCst)])?;
    if !tables.is_expected_definition(row.at::<Option<&str>>(1)?) {
        return Err(StoreError::DefinitionChanged.into());
    }
    session.has_erased = row.at(2)?;
    let commit_time = row.at(0)?;
    clock.observe(commit_time);
    Ok(commit_time)
}
