//! The write-ahead log: made durable and kept short while the writer goes on.
//!
//! The database itself does not wait for the disk when it commits. What somebody waits for is answered by a thread that first
//! syncs the log; one sync is for all that has been committed before it.
//!
//! Another thread copies the log into the file, again and again until little is left. Then bulk work pauses until that is copied
//! too, and the log begins anew. Without the pause a log that is written to all the time would never end.

use super::{Options, failure};
use crate::{Result, StoreError};
use rusqlite::Connection;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

/// Pages of the log from which on it is copied.
const LONG: u64 = 8_192;
/// Pages that are left when bulk work pauses.
const LITTLE: u64 = 1_024;
/// How often is copied what was written during the copying, before bulk work pauses however much is left.
const PASSES: u32 = 2;

#[derive(Default)]
struct Shared {
    /// Pages in the log after the last commit.
    pages: AtomicU64,
    /// Whether bulk work pauses.
    pausing: AtomicBool,
    closing: AtomicBool,
}

/// Keeps the log of one writing connection short; dropping it ends its thread.
pub struct Checkpoints {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Watches the commits of `writer`.
    ///
    /// `go_on` wakes the writer after a pause.
    pub fn start(writer: &mut Connection, path: &Path, options: &Options, go_on: impl Fn() + Send + 'static) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let told = shared.clone();
        // this takes the place of the database's own checkpoints, which stop the writer
        let hook = move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            told.pages.store(u64::from(pages.unsigned_abs()), Ordering::SeqCst);
            Ok(())
        };
        writer.wal_hook(Some(hook)).map_err(failure)?;
        let connection = super::connect(path, &Options { writer_cache: 1 << 20, ..options.clone() })?;
        let own = shared.clone();
        let work = move || {
            while !own.closing.load(Ordering::SeqCst) {
                std::thread::park();
                own.copy(&connection);
                if own.pausing.swap(false, Ordering::SeqCst) {
                    go_on();
                }
            }
        };
        let thread = std::thread::Builder::new().name("store-checkpoint".into()).spawn(work);
        Ok(Self { shared, thread: Some(thread.map_err(|error| StoreError::Other(error.to_string()))?) })
    }

    /// To be called after a commit.
    pub fn committed(&self) {
        if self.shared.pages.load(Ordering::SeqCst) > LONG
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }

    /// Whether bulk work is to wait.
    pub fn pausing(&self) -> bool {
        self.shared.pausing.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn copy(&self, connection: &Connection) {
        for pass in 1..=PASSES + 4 {
            if self.pages.load(Ordering::SeqCst) <= LONG || self.closing.load(Ordering::SeqCst) {
                return;
            }
            let copied = copy(connection);
            let left = self.pages.load(Ordering::SeqCst).saturating_sub(copied);
            if left == 0 {
                return;
            }
            self.pausing.fetch_or(left <= LITTLE || pass >= PASSES, Ordering::SeqCst);
        }
    }
}

/// Answers commits when they are on the disk; dropping it answers all that were given to it.
pub struct Durable {
    answers: Option<Sender<Vec<Answering>>>,
    thread: Option<JoinHandle<()>>,
}

/// An answer that waits; it is told whether the commit is durable.
pub type Answering = Box<dyn FnOnce(std::io::Result<()>) + Send>;

impl Durable {
    /// A thread that syncs the log of the store at `path`.
    pub fn start(path: &Path) -> Result<Self> {
        let (answers, waiting) = mpsc::channel::<Vec<Answering>>();
        let log = log_of(path);
        let work = move || {
            let mut opened: Option<File> = None;
            while let Ok(mut group) = waiting.recv() {
                group.extend(waiting.try_iter().flatten());
                // the file is there from the first commit on, and stays while the store is open
                let synced = match &opened {
                    Some(file) => file.sync_data(),
                    None => File::open(&log).and_then(|file| file.sync_data().map(|()| opened = Some(file))),
                };
                for answer in group {
                    answer(synced.as_ref().copied().map_err(|error| std::io::Error::new(error.kind(), error.to_string())));
                }
            }
        };
        let thread = std::thread::Builder::new().name("store-sync".into()).spawn(work);
        Ok(Self { answers: Some(answers), thread: Some(thread.map_err(|error| StoreError::Other(error.to_string()))?) })
    }

    /// Answers when all that is committed now is on the disk.
    pub fn answer(&self, group: Vec<Answering>) {
        if let Some(answers) = &self.answers {
            let _ = answers.send(group);
        }
    }
}

impl Drop for Durable {
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

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
