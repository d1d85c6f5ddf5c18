//! The write-ahead log: made durable and kept short while the writer goes on.
//!
//! The database itself does not wait for the disk when it commits. What somebody waits for is answered by a thread that first
//! syncs the log; one sync is for all that has been committed before it.
//!
//! Another thread copies the log into the file while it grows. When it is too long, it is copied until little is left; for the last of it
//! bulk work pauses. Then the writer copies what came meanwhile, its last group at most, waits a moment for those who have begun to read
//! before, and the log begins anew. Without that a log that is written to all the time would never end; if the writer did all of it, everybody
//! would wait for as long as it takes. When no more bulk work comes it copies once while there is time: what is left when the store is closed is
//! little then. When nobody has written for a while, the log's bytes are given back.

use super::connection::SqliteOptions;
use super::error::failure;
use crate::{Result, StoreError, WakeFn};
use rusqlite::Connection;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pages of the log from which on it is copied, and again when half as many have come.
const LONG: u64 = 8_192;
/// Pages of the log from which on it is to begin anew, for which bulk work pauses.
const TOO_LONG: u64 = 2 * LONG;
/// Pages that are left when bulk work pauses, and that are not copied when no more of it comes.
const LITTLE: u64 = 1_024;
/// How often is copied what was written during the copying, before bulk work pauses however much is left.
const PASSES: u32 = 2;
/// How often then: the first of these syncs the file.
const LAST_PASSES: u32 = 2;
/// Pages of the log from which on bulk work waits for those who read.
const FAR_TOO_LONG: u64 = 3 * LONG;
/// How long those who read are waited for at once, while nobody writes: they come and go, and who comes then reads from the file alone.
const FOR_READERS: Duration = Duration::from_millis(50);
/// How long bulk work waits for those who read. Behind that the log may grow to twice its length before it waits again.
const MOST_HELD: Duration = Duration::from_secs(30);
/// How long nobody has written when the log is given back.
const REST: Duration = Duration::from_secs(1);
/// Bytes of the log that are not given back.
const KEPT: u64 = 4 << 20;

/// Nobody waits for the log.
const GO: u8 = 0;
/// Bulk work waits.
const BULK_WAITS: u8 = 1;
/// The writer is to copy the rest.
const FINISH: u8 = 2;

#[derive(Default)]
struct CheckpointState {
    /// Pages in the log after the last commit.
    pages: AtomicU64,
    /// Pages in the log from which on it is copied: more where somebody who reads has kept it from beginning anew.
    threshold: AtomicU64,
    /// Pages of the log that were copied when no more bulk work came.
    copied: AtomicU64,
    /// Whether no more bulk work comes.
    bulk_is_idle: AtomicBool,
    /// What it comes to.
    stage: AtomicU8,
    /// Commits so far.
    commits: AtomicU64,
    /// Whether anything was written since the log was given back.
    is_written: AtomicBool,
    /// Whether the log is being copied because it is too long.
    is_copying: AtomicBool,
    closing: AtomicBool,
}

/// Keeps the log of one writing connection short; dropping it empties the log and ends its thread.
pub struct Checkpointer {
    shared: Arc<CheckpointState>,
    thread: Option<JoinHandle<()>>,
    /// How long the writer waits for others in general.
    wait: Duration,
    /// Since when bulk work waits for those who read.
    bulk_paused_since: Option<Instant>,
}

impl Checkpointer {
    /// Watches the commits of `writer`.
    ///
    /// `wake` wakes the writer.
    pub fn start(writer: &mut Connection, path: &Path, options: &SqliteOptions, wake: WakeFn) -> Result<Self> {
        let shared = Arc::new(CheckpointState::default());
        let told = shared.clone();
        // this takes the place of the database's own checkpoints, which stop the writer
        let hook = move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            let pages = u64::from(pages.unsigned_abs());
            if pages < told.pages.swap(pages, Ordering::SeqCst) {
                // it has begun anew
                told.copied.store(0, Ordering::SeqCst);
            }
            if pages < LONG {
                told.threshold.store(LONG, Ordering::SeqCst);
            }
            Ok(())
        };
        writer.wal_hook(Some(hook)).map_err(failure)?;
        let connection = super::connection::connect(path, &SqliteOptions { writer_cache: 1 << 20, ..options.clone() }, None)?;
        let (own, log, wait) = (shared.clone(), log_of(path), Duration::from_secs(options.wait));
        let work = move || {
            while !own.closing.load(Ordering::SeqCst) {
                let commits = own.commits.load(Ordering::SeqCst);
                if own.is_written.load(Ordering::SeqCst) {
                    std::thread::park_timeout(REST);
                } else {
                    std::thread::park();
                }
                own.truncate(&connection, &log, commits);
                if own.copy(&connection) {
                    own.stage.store(FINISH, Ordering::SeqCst);
                    own.is_copying.store(false, Ordering::SeqCst);
                    wake();
                }
            }
            let _ = connection.busy_timeout(wait);
            // leave one file behind: without this the log stays beside it. What a table is like now is not noted: of a small one every
            // row would be read for each key, also when it has grown
            let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        };
        let thread = std::thread::Builder::new().name("store-checkpoint".into()).spawn(work);
        let thread = thread.map_err(|error| StoreError::Other(error.to_string()))?;
        Ok(Self { shared, thread: Some(thread), wait: Duration::from_secs(options.wait), bulk_paused_since: None })
    }

    /// To be called by the writer after a commit; `rests` when somebody waits for all bulk work there is.
    pub fn committed(&self, rests: bool) {
        if rests {
            self.shared.bulk_is_idle.store(true, Ordering::SeqCst);
        }
        self.shared.commits.fetch_add(1, Ordering::SeqCst);
        let is_first = !self.shared.is_written.swap(true, Ordering::SeqCst);
        if (rests || is_first || self.shared.is_due())
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }

    /// Empties the log for good while the writer closes its connection; to be called when it has committed for the last time.
    pub fn close(&self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Pages in the log after the last commit.
    pub fn pages(&self) -> u64 {
        self.shared.pages.load(Ordering::SeqCst)
    }

    /// Whether bulk work is to wait.
    pub fn holds_bulk(&self) -> bool {
        // while it is copied it does not grow without end, however slow that is
        let is_behind = || self.shared.is_copying.load(Ordering::SeqCst) && self.shared.pages.load(Ordering::SeqCst) > TOO_LONG + LITTLE;
        self.shared.stage.load(Ordering::SeqCst) != GO || is_behind()
    }

    /// Whether the writer is to call [`Checkpointer::finish`].
    pub fn is_nearly_done(&self) -> bool {
        self.shared.stage.load(Ordering::SeqCst) == FINISH
    }

    /// Copies the rest, so that the next transaction begins the log anew; says whether bulk work may go on. Who has begun to read before keeps the
    /// log: they are waited for a moment, and of a log that is far too long bulk work waits, too, so that it does not grow.
    pub fn finish(&mut self, writer: &Connection) -> bool {
        let pages = self.shared.pages.load(Ordering::SeqCst);
        let due = if self.begin_anew(writer, "RESTART", FOR_READERS) {
            LONG
        } else if pages < FAR_TOO_LONG {
            pages + LONG / 4
        } else if self.bulk_paused_since.get_or_insert_with(Instant::now).elapsed() < MOST_HELD {
            return false;
        } else {
            2 * pages
        };
        self.bulk_paused_since = None;
        self.shared.threshold.store(due, Ordering::SeqCst);
        self.shared.stage.store(GO, Ordering::SeqCst);
        true
    }

    /// Gives back what the log takes of a disk that is full.
    pub fn make_room(&self, writer: &Connection) {
        self.begin_anew(writer, "TRUNCATE", 20 * FOR_READERS);
    }

    /// Whether all of the log is in the file, and nobody reads from the log.
    fn begin_anew(&self, writer: &Connection, how: &str, wait: Duration) -> bool {
        let done = writer.busy_timeout(wait).is_ok() && checkpoint(writer, how);
        let _ = writer.busy_timeout(self.wait);
        if done {
            self.shared.pages.store(0, Ordering::SeqCst);
            self.shared.copied.store(0, Ordering::SeqCst);
        }
        done
    }
}

impl CheckpointState {
    fn is_due(&self) -> bool {
        self.pages.load(Ordering::SeqCst) > self.threshold.load(Ordering::SeqCst).max(LONG)
    }

    /// Gives the log's bytes back when nobody has written since there were so many commits.
    fn truncate(&self, connection: &Connection, log: &Path, commits: u64) {
        let rests = || self.commits.load(Ordering::SeqCst) == commits && self.stage.load(Ordering::SeqCst) == GO;
        if !self.is_written.load(Ordering::SeqCst) || !rests() || self.closing.load(Ordering::SeqCst) {
            return;
        }
        let is_long = std::fs::metadata(log).is_ok_and(|log| log.len() > KEPT);
        // who writes or reads meanwhile is not waited for
        if !is_long || (connection.busy_timeout(FOR_READERS).is_ok() && checkpoint(connection, "TRUNCATE")) {
            self.is_written.store(false, Ordering::SeqCst);
            if !rests() {
                self.is_written.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Copies what there is, of a log that is too long until next to nothing is left; whether the writer is to end it.
    fn copy(&self, connection: &Connection) -> bool {
        let is_idle = || self.stage.load(Ordering::SeqCst) == GO;
        if !is_idle() || self.closing.load(Ordering::SeqCst) {
            return false;
        }
        let (pages, is_due) = (self.pages.load(Ordering::SeqCst), self.is_due());
        if !is_due || pages < TOO_LONG {
            let left = pages.saturating_sub(self.copied.load(Ordering::SeqCst));
            if is_due || (self.bulk_is_idle.swap(false, Ordering::SeqCst) && left > LITTLE) {
                let copied = copy(connection);
                self.copied.store(copied, Ordering::SeqCst);
                self.threshold.store(copied + LONG / 2, Ordering::SeqCst);
            }
            return false;
        }
        self.is_copying.store(true, Ordering::SeqCst);
        for pass in 1..=PASSES + LAST_PASSES {
            let copied = copy(connection);
            let left = self.pages.load(Ordering::SeqCst).saturating_sub(copied);
            if !is_idle() && left == 0 {
                break;
            }
            if left <= LITTLE || pass >= PASSES {
                self.stage.store(BULK_WAITS, Ordering::SeqCst);
            }
        }
        true
    }
}

/// Answers commits when they are on the disk; dropping it answers all that were given to it.
pub struct CommitSyncer {
    answers: Option<Sender<Vec<OnDurable>>>,
    /// Groups that are not on the disk yet.
    waiting: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// An answer that waits; it is told whether the commit is durable.
pub type OnDurable = Box<dyn FnOnce(std::io::Result<()>) + Send>;

impl CommitSyncer {
    /// A thread that syncs the log of the store at `path`, and wakes the writer after each sync.
    pub fn start(path: &Path, wake: WakeFn) -> Result<Self> {
        let (answers, groups) = mpsc::channel::<Vec<OnDurable>>();
        let log = log_of(path);
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = waiting.clone();
        let work = move || {
            let mut opened: Option<File> = None;
            while let Ok(mut group) = groups.recv() {
                let mut taken = 1;
                for more in groups.try_iter() {
                    group.extend(more);
                    taken += 1;
                }
                // the file is there from the first commit on, and stays while the store is open
                let synced = match &opened {
                    Some(file) => file.sync_data(),
                    None => File::open(&log).and_then(|file| file.sync_data().map(|()| opened = Some(file))),
                };
                left.fetch_sub(taken, Ordering::SeqCst);
                wake();
                for answer in group {
                    answer(synced.as_ref().copied().map_err(|error| std::io::Error::new(error.kind(), error.to_string())));
                }
            }
        };
        let thread = std::thread::Builder::new().name("store-sync".into()).spawn(work);
        let thread = Some(thread.map_err(|error| StoreError::Other(error.to_string()))?);
        Ok(Self { answers: Some(answers), waiting, thread })
    }

    /// Answers when all that is committed now is on the disk.
    pub fn answer(&self, group: Vec<OnDurable>) {
        if let Some(answers) = &self.answers {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let _ = answers.send(group);
        }
    }

    /// Whether something is on its way to the disk: what is committed meanwhile waits for the sync after it.
    pub fn is_busy(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }
}

impl Drop for CommitSyncer {
    fn drop(&mut self) {
        drop(self.answers.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Copies what can be copied now; returns how many pages of the log are in the file. A failure leaves the log as it is.
fn copy(connection: &Connection) -> u64 {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(2)).map_or(0, |pages| pages.max(0).unsigned_abs())
}

/// Copies all of the log as a checkpoint of this kind does; whether that was possible.
fn checkpoint(connection: &Connection, how: &str) -> bool {
    connection.query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |row| row.get::<_, i64>(0)).is_ok_and(|busy| busy == 0)
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
