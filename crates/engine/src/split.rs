//! Files to chunks, at document boundaries, without loading a file.
//!
//! A chunk of a plain file points into it; chunks of compressed files carry their bytes, compressed again, because such a
//! file cannot be read from the middle.

use crate::{EngineError, Result};
use std::path::Path;
use std::time::UNIX_EPOCH;
use stook_catalogue::definition::Source;
use stook_formats::Syntax;
use stook_formats::read::{Compression, Documents, open};
use stook_formats::scan::Scanner;
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
            let mut documents = Documents::with_scanner(opened.bytes, Scanner::new(syntax, source.records.as_deref()), 0, 0);
            let mut chunk = OpenChunk::default();
            loop {
                let head = if chunk.documents == 0 { Some(documents.head()) } else { None };
                let next = documents.next().map_err(failed)?;
                let Some((found, bytes)) = next else { break };
                // what was cut before an interruption is read past
                if found.number <= progress.file_documents {
                    continue;
                }
                if let Some(head) = head {
                    // the head before the first document of a file may not be known yet
                    chunk.begin(found.offset, found.number - 1, head);
                }
                chunk.documents += 1;
                if file.compressed {
                    chunk.pad_to(found.offset);
                    chunk.bytes.extend_from_slice(bytes);
                }
                let end = documents.offset();
                chunk.end = end;
                if chunk.number == 1 {
                    chunk.head = documents.head();
                }
                if chunk.documents >= CHUNK_DOCUMENTS || chunk.end - chunk.offset >= CHUNK_BYTES {
                    let done = std::mem::take(&mut chunk);
                    batch.push(done.finish(&mut progress, file.compressed).map_err(failed)?);
                    let carried: usize = batch.iter().filter_map(|chunk| chunk.slice.payload.as_ref()).map(Vec::len).sum();
                    if (batch.len() >= 64 || carried > 4 << 20) && !add(std::mem::take(&mut batch), progress)? {
                        return Ok(());
                    }
                }
            }
            if chunk.documents > 0 {
                batch.push(chunk.finish(&mut progress, file.compressed).map_err(failed)?);
            }
        }
        progress = Progress { file: progress.file + 1, offset: 0, file_documents: 0, ..progress };
    }
    progress.complete = true;
    add(batch, progress)?;
    Ok(())
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
    bytes: Vec<u8>,
}

impl OpenChunk {
    fn begin(&mut self, offset: u64, before: u64, head: Vec<u8>) {
        self.offset = offset;
        self.end = offset;
        self.number = before + 1;
        self.head = head;
    }

    /// Fills the gap between documents with blanks, so that positions inside the payload stay those of the file. A gap in
    /// front of a line's document is a line end.
    fn pad_to(&mut self, offset: u64) {
        let gap = (offset - self.offset) as usize - self.bytes.len();
        self.bytes.extend(std::iter::repeat_n(b'\n', gap));
    }

    fn finish(self, progress: &mut Progress, compressed: bool) -> std::io::Result<NewChunk> {
        let payload = if compressed { Some(zstd::bulk::compress(&self.bytes, 1)?) } else { None };
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
