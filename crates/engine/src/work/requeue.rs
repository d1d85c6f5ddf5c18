//! Repairs the queue: makes chunks smaller, dumps them as text, and loads them again.

use crate::chunk::read;
use crate::job::file::syntax;
use crate::{EngineError, Result};
use serde::{Deserialize, Serialize};
use stook_catalogue::definition::Catalogue;
use stook_formats::read::DocumentReader;
use stook_formats::scan::Scanner;
use stook_store::Store;
use stook_store::admin::AdminStore;
use stook_store::queue::{ChunkId, ChunkSlice, NewChunk};

/// Replaces a chunk by chunks of at most `documents` documents; returns how many there are.
///
/// # Errors
/// When the chunk is leased or no longer in the queue, or its bytes cannot be read.
pub fn rechunk(catalogue: &Catalogue, store: &dyn Store, chunk: ChunkId, documents: u32) -> Result<usize> {
    let slice = store.chunk(chunk)?.slice;
    let job = store.job(chunk.job)?;
    let file = job.files.get(slice.file).ok_or_else(|| EngineError::Wrong(format!("chunk {chunk} has no file")))?;
    let syntax = syntax(file).ok_or_else(|| EngineError::Wrong(format!("the file of chunk {chunk} has no syntax")))?;
    let (_, source) = catalogue.source(&job.source).ok_or_else(|| EngineError::Wrong(format!("there is no source `{}` any more", job.source)))?;
    let bytes = read::bytes(&slice, file)?;
    let scanner = Scanner::resume(syntax, source, &slice.head);
    let mut reader = DocumentReader::with_scanner(&bytes[..], scanner, read::range(&slice));
    let failed = |error| EngineError::File { path: file.path.clone(), error };
    // end, number of documents, and the scanner's state after the first document, which knows everything that precedes it
    let mut cuts: Vec<(u64, u32, Vec<u8>)> = Vec::new();
    let mut counted = 0;
    while reader.next().map_err(failed)?.is_some() {
        if counted == 0 {
            cuts.push((0, 0, reader.head()));
        }
        counted += 1;
        if let Some(cut) = cuts.last_mut() {
            (cut.0, cut.1) = (reader.offset(), counted);
        }
        counted %= documents.max(1);
    }
    let mut parts = Vec::with_capacity(cuts.len());
    let count = cuts.len();
    let (mut start, mut before) = (slice.offset, 0);
    for (end, documents, head) in cuts {
        let range = (start - slice.offset) as usize..(end - slice.offset) as usize;
        let payload = match &slice.payload {
            Some(_) => Some(zstd::bulk::compress(&bytes[range], 1).map_err(failed)?),
            None => None,
        };
        let part = ChunkSlice {
            file: slice.file,
            offset: start,
            length: end - start,
            file_documents: slice.file_documents + before,
            documents_before: slice.documents_before + before,
            documents,
            is_last: slice.is_last && parts.len() + 1 == count,
            head,
            payload,
        };
        parts.push(NewChunk { ordinal: 0, slice: part });
        start = end;
        before += u64::from(documents);
    }
    store.replace_chunk(chunk, parts)?;
    Ok(count)
}

/// A chunk as text, with its bytes: it can be inspected, corrected and loaded again, even if its file no longer exists.
#[derive(Debug, Serialize, Deserialize)]
pub struct ChunkDump {
    /// The job.
    pub job: u64,
    /// Its number inside the job.
    pub ordinal: u32,
    /// The number of its file, from 0.
    pub file: usize,
    /// Position of the first byte in the file.
    pub offset: u64,
    /// Number of documents of the file before it.
    pub file_documents: u64,
    /// Number of documents of the job before it.
    pub documents_before: u64,
    /// Number of its documents.
    pub documents: u32,
    /// Whether it is the last chunk of its file.
    #[serde(default)]
    pub is_last: bool,
    /// The reason of its last failure.
    pub reason: Option<String>,
    /// What a scanner must know of the bytes before it, in base64.
    pub head: String,
    /// The bytes, in base64.
    pub bytes: String,
}

/// Dumps a chunk of the queue.
///
/// # Errors
/// When it is not in the queue, or its bytes cannot be read.
pub fn dump(store: &AdminStore, chunk: ChunkId) -> Result<ChunkDump> {
    use base64::Engine;
    let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let found = store.chunk(chunk)?;
    let job = store.job(chunk.job)?;
    let file = job.files.get(found.slice.file).ok_or_else(|| EngineError::Wrong(format!("chunk {chunk} has no file")))?;
    let bytes = read::bytes(&found.slice, file)?;
    let slice = found.slice;
    Ok(ChunkDump {
        job: chunk.job,
        ordinal: chunk.ordinal,
        file: slice.file,
        offset: slice.offset,
        file_documents: slice.file_documents,
        documents_before: slice.documents_before,
        documents: slice.documents,
        is_last: slice.is_last,
        reason: found.info.reason,
        head: encode(&slice.head),
        bytes: encode(&bytes),
    })
}

/// Loads a dumped chunk into the queue of its job.
///
/// # Errors
/// When the chunk is leased or done already, or the text is damaged.
pub fn load(store: &AdminStore, dump: &ChunkDump) -> Result<()> {
    use base64::Engine;
    let decode = |text: &str| {
        base64::engine::general_purpose::STANDARD.decode(text).map_err(|error| EngineError::Wrong(format!("the dump is damaged: {error}")))
    };
    let bytes = decode(&dump.bytes)?;
    let failed = |error| EngineError::File { path: "the dump".into(), error };
    let slice = ChunkSlice {
        file: dump.file,
        offset: dump.offset,
        length: bytes.len() as u64,
        file_documents: dump.file_documents,
        documents_before: dump.documents_before,
        documents: dump.documents,
        is_last: dump.is_last,
        head: decode(&dump.head)?,
        payload: Some(zstd::bulk::compress(&bytes, 1).map_err(failed)?),
    };
    Ok(store.load_chunk(ChunkId { job: dump.job, ordinal: dump.ordinal }, slice)?)
}
