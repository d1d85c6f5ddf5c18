//! Makes a consistent copy of a store's file while it is read and written.
//!
//! The file is copied block by block. Meanwhile an open transaction, which reads from the file alone, prevents every process from checkpointing, so
//! the file stays as it was at one moment, and any program may read it. The WAL grows during that time. When it has grown by a limit, the transaction
//! ends, the WAL is checkpointed and starts again from its beginning, and the next transaction continues after the last block. Pages that were copied
//! and have changed since are those whose numbers are in the WAL; they are copied again first. When the last block is copied, the copy is the file as
//! it was when the last transaction began.
//!
//! Writers wait only between two transactions: while the rest of the WAL is checkpointed and its page numbers are read.

use super::connection::{SqliteOptions, connect, use_log};
use super::error::failure;
use crate::{Result, StoreError};
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes that are copied at once.
const BLOCK: usize = 1 << 20;
/// Bytes by which the WAL may grow during one transaction.
const LONG: u64 = 32 << 20;
/// How long to wait for readers and writers before a checkpoint is complete.
const WAIT: Duration = Duration::from_secs(60);

/// How long to wait between two attempts to lock out writers: an import writes one transaction after the other, almost without a pause.
const MOMENT: Duration = Duration::from_micros(200);

/// The result of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackupReport {
    /// Size of the copy.
    pub bytes: u64,
    /// Bytes that were copied again because they changed meanwhile.
    pub recopied: u64,
}

/// Copies the store at `path` to `target`, which must not exist. Calls `tell` with the number of bytes copied so far and the total. The process must
/// not have the store open otherwise: when it closes a file, the operating system drops all its locks on that file.
///
/// # Errors
/// When one of the files cannot be used, or other processes keep the store busy. Then no target is left.
pub fn backup(path: &Path, target: &Path, tell: &mut dyn FnMut(u64, u64)) -> Result<BackupReport> {
    if !path.exists() {
        return Err(StoreError::Wrong(format!("there is no store at {}", path.display())));
    }
    for taken in [target.to_owned(), with_end(target, "-wal")] {
        if taken.exists() {
            return Err(StoreError::Wrong(format!("{} exists; a backup is written to a new file", taken.display())));
        }
    }
    let part = with_end(target, ".part");
    let made = OpenOptions::new().write(true).create_new(true).open(&part).map_err(|error| unusable(&part, &error))?;
    let copied = copy(path, &made, tell).and_then(|copied| {
        made.sync_all().and_then(|()| std::fs::rename(&part, target)).map_err(|error| unusable(target, &error))?;
        // make the name durable, too
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(copied)
    });
    if copied.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    copied
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn unusable(path: &Path, error: &std::io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::StorageFull => StoreError::Other(format!("{}: the disk is full", path.display())),
        ErrorKind::AlreadyExists => StoreError::Wrong(format!(
            "{} exists: another backup is running or was interrupted; if it was interrupted, remove the file",
            path.display()
        )),
        _ => StoreError::Other(format!("{}: {error}", path.display())),
    }
}

fn copy(path: &Path, out: &File, tell: &mut dyn FnMut(u64, u64)) -> Result<BackupReport> {
    let mut source = BackupSource::open(path)?;
    let mut copied = BackupReport::default();
    let mut changed = BTreeSet::new();
    let mut next = 0;
    source.turn(&mut changed)?;
    changed.clear();
    loop {
        for page in std::mem::take(&mut changed) {
            let start = u64::from(page).saturating_sub(1) * source.page;
            if start < next {
                copied.recopied += source.copy(start, source.page as usize, out)?;
            }
        }
        let end = source.size()?;
        while next < end && !source.log_is_long()? {
            next += source.copy(next, BLOCK, out)?;
            tell(next.min(end), end);
        }
        if next >= end {
            out.set_len(end).map_err(|error| StoreError::Other(format!("the copy: {error}")))?;
            copied.bytes = end;
            return Ok(copied);
        }
        source.turn(&mut changed)?;
        // copy at least one block each time, so that the backup ends however much is written
        next += source.copy(next, BLOCK, out)?;
    }
}

/// The connections and files by which a store is copied.
struct BackupSource {
    /// Its read transaction keeps the file as it is.
    reader: Connection,
    /// Its read transaction keeps the WAL from being overwritten while `reader` has none.
    wal_pin: Connection,
    /// Locks out writers for a moment.
    lock: Connection,
    /// Runs checkpoints.
    checkpointer: Connection,
    log: PathBuf,
    path: PathBuf,
    /// Bytes of a page.
    page: u64,
    /// The salt of the WAL, and its number of frames, when the transaction began.
    began: (WalSalt, u64),
    /// Last, so that it is closed after the connections.
    file: File,
}

/// The salt by which the frames of a WAL differ from older ones that it overwrites.
type WalSalt = [u8; 8];

const LOG_HEAD: u64 = 32;
const FRAME_HEAD: u64 = 24;

impl BackupSource {
    fn open(path: &Path) -> Result<Self> {
        let options = SqliteOptions { writer_cache: 1 << 20, prepare: false, ..SqliteOptions::default() };
        let open = || connect(path, &options, None);
        let lock = open()?;
        use_log(&lock, Duration::from_secs(options.wait))?;
        lock.busy_timeout(Duration::ZERO).map_err(failure)?;
        let page: i64 = lock.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(failure)?;
        let file = File::open(path).map_err(|error| unusable(path, &error))?;
        let page = page.unsigned_abs();
        let (reader, later, copier) = (open()?, open()?, open()?);
        Ok(Self {
            reader,
            wal_pin: later,
            lock,
            checkpointer: copier,
            log: with_end(path, "-wal"),
            path: path.to_owned(),
            page,
            began: (WalSalt::default(), 0),
            file,
        })
    }

    /// Ends the transaction and begins the next; adds the numbers of pages that were changed between them.
    fn turn(&mut self, changed: &mut BTreeSet<u32>) -> Result<()> {
        let deadline = Instant::now() + WAIT;
        // most of the WAL is copied while writers go on
        begin(&self.wal_pin)?;
        end(&self.reader)?;
        copy_log(&self.checkpointer)?;
        loop {
            match self.lock.execute_batch("BEGIN IMMEDIATE").map_err(failure) {
                Ok(()) => {
                    let turned = self.turn_locked(changed);
                    end(&self.lock)?;
                    if turned? {
                        return Ok(());
                    }
                }
                Err(StoreError::Busy(_)) => {}
                Err(error) => return Err(error),
            }
            if Instant::now() > deadline {
                return Err(StoreError::Busy(WAIT.as_secs()));
            }
            std::thread::sleep(MOMENT);
        }
    }

    /// The part of [`BackupSource::turn`] during which no other process writes; returns whether the WAL was copied completely, so that the
    /// transaction reads from the file alone.
    fn turn_locked(&mut self, changed: &mut BTreeSet<u32>) -> Result<bool> {
        self.began = self.frames(changed).map_err(|error| unusable(&self.log, &error))?;
        end(&self.wal_pin)?;
        let whole = copy_log(&self.checkpointer)?;
        begin(if whole { &self.reader } else { &self.wal_pin })?;
        Ok(whole)
    }

    /// Adds the numbers of the pages in the WAL; returns its salt and number of frames.
    fn frames(&self, changed: &mut BTreeSet<u32>) -> std::io::Result<(WalSalt, u64)> {
        let Some((log, salt)) = self.open_log()? else { return Ok((WalSalt::default(), 0)) };
        let mut frames = 0;
        while let Some(page) = self.frame(&log, salt, frames)? {
            changed.insert(page);
            frames += 1;
        }
        Ok((salt, frames))
    }

    fn open_log(&self) -> std::io::Result<Option<(File, WalSalt)>> {
        let log = match File::open(&self.log) {
            Ok(log) => log,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut salt = WalSalt::default();
        match log.read_exact_at(&mut salt, 16) {
            Ok(()) => Ok(Some((log, salt))),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the page number in a frame of the WAL, if this frame exists.
    fn frame(&self, log: &File, salt: WalSalt, frame: u64) -> std::io::Result<Option<u32>> {
        let mut head = [0; 16];
        match log.read_exact_at(&mut head, LOG_HEAD + frame * (FRAME_HEAD + self.page)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let [a, b, c, d, ..] = head;
        Ok((head[8..] == salt).then(|| u32::from_be_bytes([a, b, c, d])))
    }

    /// Whether the WAL has grown by [`LONG`] since the transaction began.
    fn log_is_long(&self) -> Result<bool> {
        let look = || -> std::io::Result<bool> {
            let Some((log, salt)) = self.open_log()? else { return Ok(false) };
            let before = if salt == self.began.0 { self.began.1 } else { 0 };
            Ok(self.frame(&log, salt, before + LONG / (FRAME_HEAD + self.page))?.is_some())
        };
        look().map_err(|error| unusable(&self.log, &error))
    }

    /// Size of the file in bytes.
    fn size(&self) -> Result<u64> {
        self.file.metadata().map(|file| file.len()).map_err(|error| unusable(&self.path, &error))
    }

    /// Copies up to `most` bytes; returns `most`.
    fn copy(&self, start: u64, most: usize, out: &File) -> Result<u64> {
        let mut block = vec![0; most];
        let mut length = 0;
        while length < most {
            match self.file.read_at(&mut block[length..], start + length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(unusable(&self.path, &error)),
            }
        }
        out.write_all_at(&block[..length], start).map_err(|error| match error.kind() {
            ErrorKind::StorageFull => StoreError::Other("the copy: the disk is full".into()),
            _ => StoreError::Other(format!("the copy: {error}")),
        })?;
        Ok(most as u64)
    }
}

/// Begins a read transaction on the current state.
fn begin(connection: &Connection) -> Result<()> {
    connection.execute_batch("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1").map_err(failure)
}

fn end(connection: &Connection) -> Result<()> {
    if connection.is_autocommit() { Ok(()) } else { connection.execute_batch("ROLLBACK").map_err(failure) }
}

/// Checkpoints as much as possible; returns whether that was all.
fn copy_log(connection: &Connection) -> Result<bool> {
    let told =
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)));
    let (busy, pages, copied) = told.map_err(failure)?;
    Ok(busy == 0 && pages == copied)
}
