//! Files to chunks, at document boundaries, without loading a file.
//!
//! A chunk of a plain file points into it; chunks of compressed files carry their bytes, compressed again, because such a
//! file cannot be read from the middle.

use crate::{EngineError, Result};
use std::collections::VecDeque;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::UNIX_EPOCH;
use stook_catalogue::definition::Source;
use stook_formats::Syntax;
use stook_formats::read::{Compression, Documents, open};
use stook_store::queue::{JobFile, NewChunk, Progress, Slice};

/// Documents of a chunk.
pub const CHUNK_DOCUMENTS: u32 = 1_000;
/// Bytes after which a chunk ends though it has fewer documents.
pub const CHUNK_BYTES: u64 = 8 << 20;

/// Looks at a file before a job is made of it.
///
/// # Errors
/// When it cannot be read, or does not hold what the source reads.
pub fn inspect(path: &Path, source: &Source) -> Result<JobFile> {
    let failed = |error| EngineError::File { path: path.display().to_string(), error };
    let path = path.canonicalize().map_err(failed)?;
    let metadata = path.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(EngineError::Wrong(format!("{} is a folder; name its files", path.display())));
    }
    let opened = open(&path).map_err(failed)?;
    let syntax = match opened.syntax {
        None => None,
        Some(found) => {
            let wanted = source.family;
            let syntax = found.as_family(wanted).ok_or_else(|| {
                let reason = format!("{} looks like {}, source `{}` reads {}", path.display(), found.name(), source.name, wanted.name());
                EngineError::Wrong(reason)
            })?;
            Some(syntax)
        }
    };
    Ok(JobFile {
        path: path.display().to_string(),
        size: metadata.len(),
        modified: modified(&metadata),
        syntax: syntax.map(|syntax| syntax.name().to_owned()),
        compressed: opened.compression != Compression::None,
    })
}

fn modified(metadata: &std::fs::Metadata) -> i64 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_micros() as i64)
}

/// Checks that a file is still the one a job was made of.
///
/// # Errors
/// When it is not.
pub fn check_unchanged(file: &JobFile) -> Result<()> {
    let metadata = Path::new(&file.path).metadata().map_err(|error| EngineError::File { path: file.path.clone(), error })?;
    if metadata.len() != file.size || modified(&metadata) != file.modified {
        return Err(EngineError::Wrong(format!("{} has changed since the job was made; import it anew", file.path)));
    }
    Ok(())
}

/// The syntax of a job's file; nothing when it is empty.
pub fn syntax(file: &JobFile) -> Option<Syntax> {
    file.syntax.as_deref().and_then(Syntax::named)
}

/// Cuts the files of a job into chunks from where `progress` stands, and hands them over in batches together with how far
/// they reach. `add` may stop the cutting by returning false.
///
/// # Errors
/// When a file cannot be read, or what `add` says.
pub fn split(files: &[JobFile], source: &Source, mut progress: Progress, mut add: impl FnMut(Vec<NewChunk>, Progress) -> Result<bool>) -> Result<()> {
    let mut batch = Vec::new();
    while let Some(file) = files.get(progress.file) {
        let failed = |error| EngineError::File { path: file.path.clone(), error };
        if let Some(syntax) = syntax(file) {
            check_unchanged(file)?;
            let opened = open(Path::new(&file.path)).map_err(failed)?;
            let read = Arc::new(Mutex::new(Kept::default()));
            let input = Tee { inner: opened.bytes, kept: read.clone(), keeps: file.compressed };
            let mut documents = Documents::new(input, syntax, source.records.as_deref());
            let mut chunk = OpenChunk::default();
            while let Some((found, _)) = documents.next().map_err(failed)? {
                // what was cut before an interruption is read past
                if found.number <= progress.file_documents {
                    if let Ok(mut kept) = read.lock() {
                        kept.give_up(documents.offset());
                    }
                    continue;
                }
                let is_first = chunk.documents == 0;
                if is_first {
                    chunk = OpenChunk { offset: found.offset, number: found.number, ..OpenChunk::default() };
                }
                chunk.documents += 1;
                chunk.end = documents.offset();
                if is_first {
                    // behind the first document the scanner knows all that stands before it
                    chunk.head = documents.head();
                }
                if chunk.documents >= CHUNK_DOCUMENTS || chunk.end - chunk.offset >= CHUNK_BYTES {
                    let done = std::mem::take(&mut chunk);
                    batch.push(done.finish(&mut progress, &read, file.compressed).map_err(failed)?);
                    let carried: usize = batch.iter().filter_map(|chunk| chunk.slice.payload.as_ref()).map(Vec::len).sum();
                    // small batches first: workers wait for them
                    let full = batch.len() >= (progress.chunks as usize / 2).clamp(2, 64);
                    if (full || carried > 4 << 20) && !add(std::mem::take(&mut batch), progress)? {
                        return Ok(());
                    }
                }
            }
            if chunk.documents > 0 {
                batch.push(chunk.finish(&mut progress, &read, file.compressed).map_err(failed)?);
            }
        }
        progress = Progress { file: progress.file + 1, offset: 0, file_documents: 0, ..progress };
    }
    progress.complete = true;
    add(batch, progress)?;
    Ok(())
}

/// Bytes of a compressed file from a position on, until a chunk takes them.
#[derive(Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// Position of the first of them.
    start: u64,
}

impl Kept {
    /// The bytes from `start` to `end`; what lies before `end` is given up.
    fn take(&mut self, start: u64, end: u64) -> Vec<u8> {
        self.give_up(start);
        self.start = end;
        self.bytes.drain(..(end - start) as usize).collect()
    }

    /// Forgets what lies before `position`.
    fn give_up(&mut self, position: u64) {
        let known = self.bytes.len().min((position - self.start) as usize);
        self.bytes.drain(..known);
        self.start = position;
    }
}

/// Reads a file and keeps what was read.
struct Tee {
    inner: Box<dyn Read + Send>,
    kept: Arc<Mutex<Kept>>,
    keeps: bool,
}

impl Read for Tee {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if self.keeps
            && let Ok(mut kept) = self.kept.lock()
        {
            kept.bytes.extend(&buffer[..count]);
        }
        Ok(count)
    }
}

/// A chunk that is being filled.
#[derive(Default)]
struct OpenChunk {
    offset: u64,
    end: u64,
    /// Number of its first document inside the file.
    number: u64,
    documents: u32,
    head: Vec<u8>,
}

impl OpenChunk {
    fn finish(self, progress: &mut Progress, kept: &Mutex<Kept>, compressed: bool) -> std::io::Result<NewChunk> {
        let payload = match kept.lock() {
            Ok(mut kept) if compressed => Some(zstd::bulk::compress(&kept.take(self.offset, self.end), 1)?),
            _ => None,
        };
        let slice = Slice {
            file: progress.file,
            offset: self.offset,
            length: self.end - self.offset,
            file_documents: self.number - 1,
            documents_before: progress.documents,
            documents: self.documents,
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
