//! Makes a consistent copy of a store's file while it is read and written.
//!
//! The file is copied block by block. Meanwhile an open transaction, which reads from the file alone, prevents every process from checkpointing, so
//! the file stays as it was at one moment, and any program may read it. The WAL grows during that time. When it has grown by a limit, the transaction
//! ends, the WAL is checkpointed and starts again from its beginning, and the next transaction continues after the last block. Pages that were copied
//! and have changed since are those whose numbers are in the WAL; they are copied again first. When the last block is copied, the copy is the file as
//! it was when the last transaction began.
//!
//! Writers wait only between two transactions: while the rest of the WAL is checkpointed and its page numbers are read.

use super::connection::{SqliteOptions, connect, use_wal};
use super::error::store_error;
use crate::{Result, StoreError};
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes that are copied at once.
const BLOCK_BYTES: usize = 1 << 20;
/// Bytes by which the WAL may grow during one transaction.
const MAX_WAL_GROWTH: u64 = 32 << 20;
/// How long to wait for readers and writers before a checkpoint is complete.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long to wait between two attempts to lock out writers: an import writes one transaction after the other, almost without a pause.
const LOCK_RETRY_PAUSE: Duration = Duration::from_micros(200);

/// The result of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackupReport {
    /// Size of the copy.
    pub bytes: u64,
    /// Bytes that were copied again because they changed meanwhile.
    pub recopied: u64,
}

/// Copies the store at `path` to `target`, which must not exist. Calls `report_progress` with the number of bytes copied so far and the
/// total. The process must not have the store open otherwise: when it closes a file, the operating system drops all its locks on that file.
///
/// # Errors
/// When one of the files cannot be used, or other processes keep the store busy. Then no target is left.
pub fn backup(path: &Path, target: &Path, report_progress: &mut dyn FnMut(u64, u64)) -> Result<BackupReport> {
    if !path.exists() {
        return Err(StoreError::Wrong(format!("there is no store at {}", path.display())));
    }
    for existing in [target.to_owned(), with_suffix(target, "-wal")] {
        if existing.exists() {
            return Err(StoreError::Wrong(format!("{} exists; a backup is written to a new file", existing.display())));
        }
    }
    let part_path = with_suffix(target, ".part");
    let part_file = OpenOptions::new().write(true).create_new(true).open(&part_path).map_err(|error| unusable(&part_path, &error))?;
    let copied = copy(path, &part_file, report_progress).and_then(|copied| {
        part_file.sync_all().and_then(|()| std::fs::rename(&part_path, target)).map_err(|error| unusable(target, &error))?;
        // make the name durable, too
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(copied)
    });
    if copied.is_err() {
        let _ = std::fs::remove_file(&part_path);
    }
    copied
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
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

fn copy(path: &Path, out: &File, report_progress: &mut dyn FnMut(u64, u64)) -> Result<BackupReport> {
    let mut source = BackupSource::open(path)?;
    let mut report = BackupReport::default();
    let mut changed_pages = BTreeSet::new();
    let mut offset = 0;
    source.renew_transaction(&mut changed_pages)?;
    changed_pages.clear();
    loop {
        for page in std::mem::take(&mut changed_pages) {
            let start = u64::from(page).saturating_sub(1) * source.page_size;
            if start < offset {
                report.recopied += source.copy_block(start, source.page_size as usize, out)?;
            }
        }
        let end = source.size()?;
        while offset < end && !source.has_wal_grown()? {
            offset += source.copy_block(offset, BLOCK_BYTES, out)?;
            report_progress(offset.min(end), end);
        }
        if offset >= end {
            out.set_len(end).map_err(|error| StoreError::Other(format!("the copy: {error}")))?;
            report.bytes = end;
            return Ok(report);
        }
        source.renew_transaction(&mut changed_pages)?;
        // copy at least one block each time, so that the backup ends however much is written
        offset += source.copy_block(offset, BLOCK_BYTES, out)?;
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
    wal_path: PathBuf,
    path: PathBuf,
    /// Bytes of a page.
    page_size: u64,
    /// The salt of the WAL, and its number of frames, when the transaction began.
    wal_at_start: (WalSalt, u64),
    /// Last, so that it is closed after the connections.
    file: File,
}

/// The salt by which the frames of a WAL differ from older ones that it overwrites.
type WalSalt = [u8; 8];

const WAL_HEADER_BYTES: u64 = 32;
const FRAME_HEADER_BYTES: u64 = 24;

impl BackupSource {
    fn open(path: &Path) -> Result<Self> {
        let options = SqliteOptions { writer_cache: 1 << 20, prepare: false, ..SqliteOptions::default() };
        let open = || connect(path, &options, None);
        let lock = open()?;
        use_wal(&lock, Duration::from_secs(options.wait))?;
        lock.busy_timeout(Duration::ZERO).map_err(store_error)?;
        let page_size: i64 = lock.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(store_error)?;
        let file = File::open(path).map_err(|error| unusable(path, &error))?;
        let page_size = page_size.unsigned_abs();
        let (reader, wal_pin, checkpointer) = (open()?, open()?, open()?);
        Ok(Self {
            reader,
            wal_pin,
            lock,
            checkpointer,
            wal_path: with_suffix(path, "-wal"),
            path: path.to_owned(),
            page_size,
            wal_at_start: (WalSalt::default(), 0),
            file,
        })
    }

    /// Ends the transaction and begins the next; adds the numbers of pages that were changed between them.
    fn renew_transaction(&mut self, changed: &mut BTreeSet<u32>) -> Result<()> {
        let deadline = Instant::now() + CHECKPOINT_TIMEOUT;
        // most of the WAL is copied while writers go on
        begin(&self.wal_pin)?;
        end(&self.reader)?;
        checkpoint(&self.checkpointer)?;
        loop {
            match self.lock.execute_batch("BEGIN IMMEDIATE").map_err(store_error) {
                Ok(()) => {
                    let renewed = self.renew_transaction_locked(changed);
                    end(&self.lock)?;
                    if renewed? {
                        return Ok(());
                    }
                }
                Err(StoreError::Busy(_)) => {}
                Err(error) => return Err(error),
            }
            if Instant::now() > deadline {
                return Err(StoreError::Busy(CHECKPOINT_TIMEOUT.as_secs()));
            }
            std::thread::sleep(LOCK_RETRY_PAUSE);
        }
    }

    /// The part of [`BackupSource::renew_transaction`] during which no other process writes; returns whether the WAL was copied completely, so
    /// that the transaction reads from the file alone.
    fn renew_transaction_locked(&mut self, changed: &mut BTreeSet<u32>) -> Result<bool> {
        self.wal_at_start = self.read_changed_pages(changed).map_err(|error| unusable(&self.wal_path, &error))?;
        end(&self.wal_pin)?;
        let complete = checkpoint(&self.checkpointer)?;
        begin(if complete { &self.reader } else { &self.wal_pin })?;
        Ok(complete)
    }

    /// Adds the numbers of the pages in the WAL; returns its salt and number of frames.
    fn read_changed_pages(&self, changed: &mut BTreeSet<u32>) -> std::io::Result<(WalSalt, u64)> {
        let Some((wal, salt)) = self.open_wal()? else { return Ok((WalSalt::default(), 0)) };
        let mut frames = 0;
        while let Some(page) = self.read_page_number(&wal, salt, frames)? {
            changed.insert(page);
            frames += 1;
        }
        Ok((salt, frames))
    }

    fn open_wal(&self) -> std::io::Result<Option<(File, WalSalt)>> {
        let wal = match File::open(&self.wal_path) {
            Ok(wal) => wal,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut salt = WalSalt::default();
        match wal.read_exact_at(&mut salt, 16) {
            Ok(()) => Ok(Some((wal, salt))),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the page number in a frame of the WAL, if this frame exists.
    fn read_page_number(&self, wal: &File, salt: WalSalt, frame: u64) -> std::io::Result<Option<u32>> {
        let mut header = [0; 16];
        match wal.read_exact_at(&mut header, WAL_HEADER_BYTES + frame * (FRAME_HEADER_BYTES + self.page_size)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let [a, b, c, d, ..] = header;
        Ok((header[8..] == salt).then(|| u32::from_be_bytes([a, b, c, d])))
    }

    /// Whether the WAL has grown by [`MAX_WAL_GROWTH`] since the transaction began.
    fn has_wal_grown(&self) -> Result<bool> {
        let check = || -> std::io::Result<bool> {
            let Some((wal, salt)) = self.open_wal()? else { return Ok(false) };
            let frames_at_start = if salt == self.wal_at_start.0 { self.wal_at_start.1 } else { 0 };
            Ok(self.read_page_number(&wal, salt, frames_at_start + MAX_WAL_GROWTH / (FRAME_HEADER_BYTES + self.page_size))?.is_some())
        };
        check().map_err(|error| unusable(&self.wal_path, &error))
    }

    /// Size of the file in bytes.
    fn size(&self) -> Result<u64> {
        self.file.metadata().map(|file| file.len()).map_err(|error| unusable(&self.path, &error))
    }

    /// Copies up to `max_bytes` bytes; returns `max_bytes`.
    fn copy_block(&self, start: u64, max_bytes: usize, out: &File) -> Result<u64> {
        let mut block = vec![0; max_bytes];
        let mut length = 0;
        while length < max_bytes {
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
        Ok(max_bytes as u64)
    }
}

/// Begins a read transaction on the current state.
fn begin(connection: &Connection) -> Result<()> {
    connection.execute_batch("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1").map_err(store_error)
}

fn end(connection: &Connection) -> Result<()> {
    if connection.is_autocommit() { Ok(()) } else { connection.execute_batch("ROLLBACK").map_err(store_error) }
}

/// Checkpoints as much as possible; returns whether that was all.
fn checkpoint(connection: &Connection) -> Result<bool> {
    let result =
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)));
    let (busy, pages, copied) = result.map_err(store_error)?;
    Ok(busy == 0 && pages == copied)
}
