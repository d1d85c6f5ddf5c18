//! Splits files into chunks at document boundaries, without loading them.
//!
//! A chunk of a plain file refers to a range of it; chunks of compressed files carry their bytes, compressed again, because such a file
//! cannot be read from the middle.

use crate::job::file::{check_list, open_file};
pub use crate::job::file::{check_unchanged, inspect, syntax};
pub use crate::job::sizes::{CHUNK_BYTES, CHUNK_DOCUMENTS, SHARED_CHUNK, SHORT_CHUNK};
use crate::{EngineError, Result};
use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use stook_catalogue::definition::Source;
use stook_formats::read::{DocumentReader, OpenedInput};
use stook_store::queue::{ChunkSlice, JobFile, NewChunk, SplitProgress};

/// Splits the files of a job into chunks of up to `max_documents` documents, starting at `progress`, and passes them to `add` in batches together
/// with the new progress. `add` may stop the splitting by returning false.
///
/// # Errors
/// When a file cannot be read, or `add` fails.
pub fn split(
    files: &[JobFile],
    source: &Source,
    max_documents: u32,
    progress: SplitProgress,
    add: impl FnMut(Vec<NewChunk>, SplitProgress) -> Result<bool>,
) -> Result<()> {
    split_streams((files, progress), (source, max_documents), |file| open_file(file, source), add)
}

/// Splits streams of bytes, as [`split`] does with files, each opened by `open_file` when its turn comes; chunks of a file that is compressed carry
/// their bytes.
///
/// # Errors
/// When a stream cannot be opened or read, or `add` fails.
pub fn split_streams(
    (files, mut progress): (&[JobFile], SplitProgress),
    (source, max_documents): (&Source, u32),
    mut open_file: impl FnMut(&JobFile) -> Result<OpenedInput>,
    mut add: impl FnMut(Vec<NewChunk>, SplitProgress) -> Result<bool>,
) -> Result<()> {
    let mut batch = Vec::new();
    while let Some(file) = files.get(progress.file) {
        if syntax(file).is_some() && !split_file(open_file(file)?, (file, source, max_documents), &mut progress, &mut batch, &mut add)? {
            return Ok(());
        }
        progress = SplitProgress { file: progress.file + 1, offset: 0, file_documents: 0, ..progress };
    }
    progress.complete = true;
    add(batch, progress)?;
    Ok(())
}

/// Splits one file; returns false if `add` has stopped the splitting.
fn split_file(
    opened: OpenedInput,
    (file, source, max_documents): (&JobFile, &Source, u32),
    progress: &mut SplitProgress,
    batch: &mut Vec<NewChunk>,
    add: &mut impl FnMut(Vec<NewChunk>, SplitProgress) -> Result<bool>,
) -> Result<bool> {
    let Some(syntax) = syntax(file) else { return Ok(true) };
    let failed = |error| EngineError::File { path: file.path.clone(), error };
    let replay = file.compressed.then(Arc::<Mutex<ReplayBuffer>>::default);
    let input = Tee { inner: opened.bytes, replay: replay.clone() };
    let replay = || replay.as_ref().map(|replay| replay.lock().unwrap_or_else(PoisonError::into_inner));
    let mut documents = DocumentReader::new(input, syntax, source);
    let mut chunk = ChunkBuilder::default();
    while let Some((found, _)) = documents.next().map_err(failed)? {
        let end = documents.offset();
        // skip documents that were in chunks before an interruption
        if found.number <= progress.file_documents {
            if let Some(mut replay) = replay() {
                replay.discard_before(end);
            }
            continue;
        }
        // nothing is kept of a document that is too long: it becomes a chunk of its own
        let is_given_up = file.compressed && documents.gave_up(&found);
        if chunk.is_full(max_documents, found.offset) || chunk.documents > 0 && (is_given_up || chunk.is_oversized) {
            // only the next document shows that a chunk is not the last one
            let done = std::mem::take(&mut chunk);
            batch.push(done.finish(false, progress, file.compressed).map_err(failed)?);
            let carried: usize = batch.iter().filter_map(|chunk| chunk.slice.payload.as_ref()).map(Vec::len).sum();
            // small batches first, because workers are waiting for them
            let is_full = batch.len() >= (progress.chunks as usize / 2).clamp(2, 64);
            if (is_full || carried > 4 << 20) && !add(std::mem::take(batch), *progress)? {
                return Ok(false);
            }
        }
        let is_first = chunk.documents == 0;
        if is_first {
            chunk =
                ChunkBuilder { offset: found.offset, end: found.offset, number: found.number, is_oversized: is_given_up, ..ChunkBuilder::default() };
        }
        if let Some(mut replay) = replay() {
            if is_given_up {
                replay.discard_before(end);
            } else {
                replay.take(chunk.end, end, &mut chunk.bytes).map_err(failed)?;
            }
        }
        chunk.documents += 1;
        chunk.end = end;
        if is_first {
            // after the first document, the scanner knows everything that precedes it
            chunk.head = documents.head();
        }
    }
    if check_list(documents.missing(), source, &file.path, &opened.beginning)? && chunk.documents > 0 {
        batch.push(chunk.finish(true, progress, file.compressed).map_err(failed)?);
    }
    Ok(true)
}

/// The maximum number of bytes of a compressed file that are kept: a document and what is read ahead.
const MAX_REPLAY_BYTES: usize = 96 << 20;

/// Bytes of a compressed file from a position on, kept until a chunk takes them.
#[derive(Default)]
struct ReplayBuffer {
    bytes: VecDeque<u8>,
    /// Position of the first byte in the file.
    start: u64,
}

impl ReplayBuffer {
    /// Moves the bytes from `start` to `end` into `into` and discards those before.
    fn take(&mut self, start: u64, end: u64, into: &mut Vec<u8>) -> std::io::Result<()> {
        self.discard_before(start);
        let length = end.saturating_sub(start) as usize;
        if self.start != start || self.bytes.len() < length {
            return Err(std::io::Error::other(format!("bytes {start} to {end} were not kept")));
        }
        into.extend(self.bytes.drain(..length));
        self.start = end;
        Ok(())
    }

    /// Discards the bytes before `position`.
    fn discard_before(&mut self, position: u64) {
        let length = self.bytes.len().min(position.saturating_sub(self.start) as usize);
        self.bytes.drain(..length);
        self.start += length as u64;
    }

    /// Adds bytes that were read. While the end of a document that is too long, or of a long gap, is looked for, only the last bytes are kept.
    fn add(&mut self, bytes: &[u8]) {
        let more = (self.bytes.len() + bytes.len()).saturating_sub(MAX_REPLAY_BYTES);
        self.discard_before(self.start + more as u64);
        self.bytes.extend(bytes);
    }
}

/// Reads a file and keeps a copy of what was read.
struct Tee {
    inner: Box<dyn Read + Send>,
    replay: Option<Arc<Mutex<ReplayBuffer>>>,
}

impl Read for Tee {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if let Some(replay) = &self.replay {
            replay.lock().unwrap_or_else(PoisonError::into_inner).add(&buffer[..count]);
        }
        Ok(count)
    }
}

/// A chunk that is being filled.
#[derive(Default)]
struct ChunkBuilder {
    offset: u64,
    end: u64,
    /// Number of its first document inside the file.
    number: u64,
    documents: u32,
    head: Vec<u8>,
    /// Its bytes, if the chunk carries them.
    bytes: Vec<u8>,
    /// Whether it is a document that is too long, of which no bytes are kept.
    is_oversized: bool,
}

impl ChunkBuilder {
    /// Whether the document at `next` belongs to the next chunk.
    fn is_full(&self, max_documents: u32, next: u64) -> bool {
        self.documents >= max_documents || self.documents > 0 && next.max(self.end) - self.offset >= CHUNK_BYTES
    }

    fn finish(self, is_last: bool, progress: &mut SplitProgress, is_carried: bool) -> std::io::Result<NewChunk> {
        let payload = match (is_carried, self.is_oversized) {
            (false, _) => None,
            (true, true) => Some(Vec::new()),
            (true, false) => Some(zstd::bulk::compress(&self.bytes, 1)?),
        };
        let slice = ChunkSlice {
            file: progress.file,
            offset: self.offset,
            length: self.end - self.offset,
            file_documents: self.number - 1,
            documents_before: progress.documents,
            documents: self.documents,
            is_last,
            head: self.head,
            payload,
        };
        progress.chunks += 1;
        progress.offset = self.end;
        progress.file_documents += u64::from(self.documents);
        progress.documents += u64::from(self.documents);
        Ok(NewChunk { ordinal: progress.chunks, slice })
    }
}
