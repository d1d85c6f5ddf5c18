//! The WAL: synced, and kept short while the writer goes on.
//!
//! The database itself does not wait for the disk when it commits. A thread syncs the WAL before it answers callers who wait; one sync is for
//! everything that was committed before it.
//!
//! Another thread checkpoints the WAL while it grows. If the WAL is too long, that is repeated until little is left; for the last of it bulk work
//! pauses. Then the writer checkpoints what was added meanwhile, its last group at most, waits a moment for readers that began before, and the WAL
//! starts again from its beginning. Otherwise a WAL that is written to all the time would grow without limit; and if the writer did all of the
//! copying, every caller would wait for it. When no more bulk work comes, the thread checkpoints once, so that little is left to do when the store is
//! closed. When nothing has been written for a while, the WAL is truncated.

use super::connection::SqliteOptions;
use super::error::store_error;
use crate::{Result, StoreError, WakeFn};
use rusqlite::Connection;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Length of the WAL in pages from which on it is checkpointed, and again whenever half as many have been added.
const CHECKPOINT_PAGES: u64 = 8_192;
/// Length of the WAL in pages from which on it must start again, for which bulk work pauses.
const RESTART_PAGES: u64 = 2 * CHECKPOINT_PAGES;
/// Number of pages not yet copied at which bulk work pauses; so few are not copied when bulk work ends.
const FEW_PAGES: u64 = 1_024;
/// How often the pages written during a checkpoint are copied before bulk work pauses, however many are left.
const PASSES_BEFORE_PAUSE: u32 = 2;
/// How often they are copied after that: the first of these checkpoints syncs the file.
const PASSES_WHILE_PAUSED: u32 = 2;
/// Length of the WAL in pages from which on bulk work waits for readers.
const WAIT_FOR_READERS_PAGES: u64 = 3 * CHECKPOINT_PAGES;
/// How long to wait for readers at once, while nothing is written: readers come and go, and those that begin then read from the file alone.
const READERS_TIMEOUT: Duration = Duration::from_millis(50);
/// How long bulk work waits for readers. After that the WAL may grow to twice its length before bulk work waits again.
const MAX_BULK_PAUSE: Duration = Duration::from_secs(30);
/// Time without writes after which the WAL is truncated.
const IDLE_TIME: Duration = Duration::from_secs(1);
/// Size in bytes up to which the WAL is not truncated.
const MAX_IDLE_WAL_BYTES: u64 = 4 << 20;

/// Bulk work runs.
const BULK_RUNS: u8 = 0;
/// Bulk work waits for the checkpoint.
const BULK_WAITS: u8 = 1;
/// The writer must copy the rest.
const WRITER_FINISHES: u8 = 2;

#[derive(Default)]
struct CheckpointState {
    /// Pages in the WAL after the last commit.
    pages: AtomicU64,
    /// Length of the WAL in pages from which on it is checkpointed: higher after a reader has kept it from starting again.
    threshold: AtomicU64,
    /// Pages of the WAL that were copied when bulk work ended.
    copied: AtomicU64,
    /// Whether bulk work has ended.
    bulk_is_idle: AtomicBool,
    /// [`BULK_RUNS`], [`BULK_WAITS`] or [`WRITER_FINISHES`].
    bulk_state: AtomicU8,
    /// Number of commits so far.
    commits: AtomicU64,
    /// Whether anything was written since the WAL was truncated.
    is_written: AtomicBool,
    /// Whether the WAL is being checkpointed because it is too long.
    is_copying: AtomicBool,
    closing: AtomicBool,
}

/// Keeps the WAL of a writing connection short; dropping it empties the WAL and ends its thread.
pub struct Checkpointer {
    shared: Arc<CheckpointState>,
    thread: Option<JoinHandle<()>>,
    /// The busy timeout of the writer otherwise.
    wait: Duration,
    /// Since when bulk work has been waiting for readers.
    bulk_paused_since: Option<Instant>,
}

impl Checkpointer {
    /// Starts the thread, and watches the commits of `writer`.
    ///
    /// `wake` must wake the writer.
    pub fn start(writer: &mut Connection, path: &Path, options: &SqliteOptions, wake: WakeFn) -> Result<Self> {
        let shared = Arc::new(CheckpointState::default());
        let hook_state = shared.clone();
        // this replaces the database's own checkpoints, which would stop the writer
        let hook = move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            let pages = u64::from(pages.unsigned_abs());
            if pages < hook_state.pages.swap(pages, Ordering::SeqCst) {
                // the WAL has started again
                hook_state.copied.store(0, Ordering::SeqCst);
            }
            if pages < CHECKPOINT_PAGES {
                hook_state.threshold.store(CHECKPOINT_PAGES, Ordering::SeqCst);
            }
            Ok(())
        };
        writer.wal_hook(Some(hook)).map_err(store_error)?;
        let connection = super::connection::connect(path, &SqliteOptions { writer_cache: 1 << 20, ..options.clone() }, None)?;
        let (state, wal, wait) = (shared.clone(), wal_path(path), Duration::from_secs(options.wait));
        let work = move || {
            while !state.closing.load(Ordering::SeqCst) {
                let commits = state.commits.load(Ordering::SeqCst);
                if state.is_written.load(Ordering::SeqCst) {
                    std::thread::park_timeout(IDLE_TIME);
                } else {
                    std::thread::park();
                }
                state.truncate(&connection, &wal, commits);
                if state.checkpoint_when_due(&connection) {
                    state.bulk_state.store(WRITER_FINISHES, Ordering::SeqCst);
                    state.is_copying.store(false, Ordering::SeqCst);
                    wake();
                }
            }
            let _ = connection.busy_timeout(wait);
            // leave only one file: otherwise the WAL would stay next to it. Statistics of tables (ANALYZE) are not collected: with those of a small
            // table, all rows would be read for each key, even after it has grown
            let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        };
        let thread = std::thread::Builder::new().name("store-checkpoint".into()).spawn(work);
        let thread = thread.map_err(|error| StoreError::Other(error.to_string()))?;
        Ok(Self { shared, thread: Some(thread), wait: Duration::from_secs(options.wait), bulk_paused_since: None })
    }

    /// Must be called by the writer after a commit; `bulk_is_idle` if a caller waits for all the bulk work there is.
    pub fn committed(&self, bulk_is_idle: bool) {
        if bulk_is_idle {
            self.shared.bulk_is_idle.store(true, Ordering::SeqCst);
        }
        self.shared.commits.fetch_add(1, Ordering::SeqCst);
        let is_first = !self.shared.is_written.swap(true, Ordering::SeqCst);
        if (bulk_is_idle || is_first || self.shared.is_due())
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }

    /// Empties the WAL while the writer closes its connection; must be called after the last commit.
    pub fn close(&self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Pages in the WAL after the last commit.
    pub fn pages(&self) -> u64 {
        self.shared.pages.load(Ordering::SeqCst)
    }

    /// Whether bulk work must wait.
    pub fn must_bulk_wait(&self) -> bool {
        // during a checkpoint the WAL must not grow without limit, however slow that is
        let has_grown = || self.shared.is_copying.load(Ordering::SeqCst) && self.shared.pages.load(Ordering::SeqCst) > RESTART_PAGES + FEW_PAGES;
        self.shared.bulk_state.load(Ordering::SeqCst) != BULK_RUNS || has_grown()
    }

    /// Whether the writer must call [`Checkpointer::finish`].
    pub fn must_writer_finish(&self) -> bool {
        self.shared.bulk_state.load(Ordering::SeqCst) == WRITER_FINISHES
    }

    /// Copies the rest, so that the next transaction starts the WAL again; returns whether bulk work may go on. Readers that began earlier prevent
    /// that: it waits for them for a moment, and if the WAL is far too long, bulk work waits as well so that it does not grow.
    pub fn finish(&mut self, writer: &Connection) -> bool {
        let pages = self.shared.pages.load(Ordering::SeqCst);
        let next_threshold = if self.restart_wal(writer, "RESTART", READERS_TIMEOUT) {
            CHECKPOINT_PAGES
        } else if pages < WAIT_FOR_READERS_PAGES {
            pages + CHECKPOINT_PAGES / 4
        } else if self.bulk_paused_since.get_or_insert_with(Instant::now).elapsed() < MAX_BULK_PAUSE {
            return false;
        } else {
            2 * pages
        };
        self.bulk_paused_since = None;
        self.shared.threshold.store(next_threshold, Ordering::SeqCst);
        self.shared.bulk_state.store(BULK_RUNS, Ordering::SeqCst);
        true
    }

    /// Truncates the WAL because the disk is full.
    pub fn free_disk_space(&self, writer: &Connection) {
        self.restart_wal(writer, "TRUNCATE", 20 * READERS_TIMEOUT);
    }

    /// Runs a checkpoint of kind `mode`; returns whether the WAL is copied completely and no reader needs it.
    fn restart_wal(&self, writer: &Connection, mode: &str, wait: Duration) -> bool {
        let complete = writer.busy_timeout(wait).is_ok() && checkpoint(writer, mode);
        let _ = writer.busy_timeout(self.wait);
        if complete {
            self.shared.pages.store(0, Ordering::SeqCst);
            self.shared.copied.store(0, Ordering::SeqCst);
        }
        complete
    }
}

impl CheckpointState {
    fn is_due(&self) -> bool {
        self.pages.load(Ordering::SeqCst) > self.threshold.load(Ordering::SeqCst).max(CHECKPOINT_PAGES)
    }

    /// Truncates the WAL if there were no commits since `commits` was read.
    fn truncate(&self, connection: &Connection, wal: &Path, commits: u64) {
        let is_idle = || self.commits.load(Ordering::SeqCst) == commits && self.bulk_state.load(Ordering::SeqCst) == BULK_RUNS;
        if !self.is_written.load(Ordering::SeqCst) || !is_idle() || self.closing.load(Ordering::SeqCst) {
            return;
        }
        let is_long = std::fs::metadata(wal).is_ok_and(|wal| wal.len() > MAX_IDLE_WAL_BYTES);
        // writers and readers are not waited for any longer
        if !is_long || (connection.busy_timeout(READERS_TIMEOUT).is_ok() && checkpoint(connection, "TRUNCATE")) {
            self.is_written.store(false, Ordering::SeqCst);
            if !is_idle() {
                self.is_written.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Checkpoints; if the WAL is too long, repeatedly until almost nothing is left. Returns whether the writer must finish.
    fn checkpoint_when_due(&self, connection: &Connection) -> bool {
        let is_unpaused = || self.bulk_state.load(Ordering::SeqCst) == BULK_RUNS;
        if !is_unpaused() || self.closing.load(Ordering::SeqCst) {
            return false;
        }
        let (pages, is_due) = (self.pages.load(Ordering::SeqCst), self.is_due());
        if !is_due || pages < RESTART_PAGES {
            let remaining = pages.saturating_sub(self.copied.load(Ordering::SeqCst));
            if is_due || (self.bulk_is_idle.swap(false, Ordering::SeqCst) && remaining > FEW_PAGES) {
                let copied = checkpoint_passively(connection);
                self.copied.store(copied, Ordering::SeqCst);
                self.threshold.store(copied + CHECKPOINT_PAGES / 2, Ordering::SeqCst);
            }
            return false;
        }
        self.is_copying.store(true, Ordering::SeqCst);
        for pass in 1..=PASSES_BEFORE_PAUSE + PASSES_WHILE_PAUSED {
            let copied = checkpoint_passively(connection);
            let remaining = self.pages.load(Ordering::SeqCst).saturating_sub(copied);
            if !is_unpaused() && remaining == 0 {
                break;
            }
            if remaining <= FEW_PAGES || pass >= PASSES_BEFORE_PAUSE {
                self.bulk_state.store(BULK_WAITS, Ordering::SeqCst);
            }
        }
        true
    }
}

/// Answers commits when they are durable; dropping it answers all that were given to it.
pub struct CommitSyncer {
    callbacks: Option<Sender<Vec<OnDurable>>>,
    /// Number of groups that are not durable yet.
    unsynced: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// A waiting answer; it is passed whether the commit is durable.
pub type OnDurable = Box<dyn FnOnce(std::io::Result<()>) + Send>;

impl CommitSyncer {
    /// Starts a thread that syncs the WAL of the store at `path`, and wakes the writer after each sync.
    pub fn start(path: &Path, wake: WakeFn) -> Result<Self> {
        let (callbacks, groups) = mpsc::channel::<Vec<OnDurable>>();
        let wal = wal_path(path);
        let unsynced = Arc::new(AtomicUsize::new(0));
        let unsynced_groups = unsynced.clone();
        let work = move || {
            let mut wal_file: Option<File> = None;
            while let Ok(mut group) = groups.recv() {
                let mut group_count = 1;
                for more in groups.try_iter() {
                    group.extend(more);
                    group_count += 1;
                }
                // the file exists from the first commit on, as long as the store is open
                let synced = match &wal_file {
                    Some(file) => file.sync_data(),
                    None => File::open(&wal).and_then(|file| file.sync_data().map(|()| wal_file = Some(file))),
                };
                unsynced_groups.fetch_sub(group_count, Ordering::SeqCst);
                wake();
                for callback in group {
                    callback(synced.as_ref().copied().map_err(|error| std::io::Error::new(error.kind(), error.to_string())));
                }
            }
        };
        let thread = std::thread::Builder::new().name("store-sync".into()).spawn(work);
        let thread = Some(thread.map_err(|error| StoreError::Other(error.to_string()))?);
        Ok(Self { callbacks: Some(callbacks), unsynced, thread })
    }

    /// Calls the answers once everything committed so far is durable.
    pub fn call_after_sync(&self, group: Vec<OnDurable>) {
        if let Some(callbacks) = &self.callbacks {
            self.unsynced.fetch_add(1, Ordering::SeqCst);
            let _ = callbacks.send(group);
        }
    }

    /// Whether a sync is in progress: what is committed meanwhile waits for the next one.
    pub fn is_busy(&self) -> bool {
        self.unsynced.load(Ordering::SeqCst) > 0
    }
}

impl Drop for CommitSyncer {
    fn drop(&mut self) {
        drop(self.callbacks.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(super) fn wal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Checkpoints as much as possible now; returns how many pages of the WAL are in the file. A failure leaves the WAL as it is.
fn checkpoint_passively(connection: &Connection) -> u64 {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(2)).map_or(0, |pages| pages.max(0).unsigned_abs())
}

/// Runs a checkpoint of this kind; returns whether it was complete.
fn checkpoint(connection: &Connection, mode: &str) -> bool {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get::<_, i64>(0)).is_ok_and(|busy| busy == 0)
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
