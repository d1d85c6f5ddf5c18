//! Reads the documents of a chunk, in memory that is bounded whatever a file contains.

use super::mapped::ChunkInput;
use crate::job::file::check_unchanged;
use crate::{EngineError, Result};
use bytes::Bytes;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use stook_catalogue::definition::Source;
use stook_formats::read::{DocumentRange, DocumentReader, ScannedDocument, each, open};
use stook_formats::scan::Scanner;
use stook_formats::{ParseContext, Syntax};
use stook_store::queue::{ChunkSlice, JobFile};

/// The maximum length of a chunk that is read at once, in bytes. Only a chunk with a document beyond its syntax's limit is longer; it is read piece
/// by piece, and the document is discarded as it is read.
pub const WHOLE: u64 = 64 << 20;

/// A chunk's bytes.
enum ChunkBytes {
    Whole(Bytes),
    Stream(Box<dyn Read + Send>),
}

fn input(slice: &ChunkSlice, file: &JobFile, at_hand: Option<&Bytes>) -> Result<ChunkBytes> {
    if let Some(bytes) = at_hand {
        return Ok(ChunkBytes::Whole(bytes.clone()));
    }
    if slice.is_given_up() {
        return Err(EngineError::Wrong("the chunk is one document that is too long; nothing of it is kept".into()));
    }
    let failed = |error| EngineError::File { path: file.path.clone(), error };
    if let Some(payload) = &slice.payload {
        let bytes = zstd::bulk::decompress(payload, slice.length.min(WHOLE) as usize).map_err(failed)?;
        return Ok(ChunkBytes::Whole(bytes.into()));
    }
    check_unchanged(file)?;
    let path = Path::new(&file.path);
    if file.compressed {
        let mut bytes = open(path).map_err(failed)?.bytes;
        io::copy(&mut bytes.by_ref().take(slice.offset), &mut io::sink()).map_err(failed)?;
        return Ok(ChunkBytes::Stream(Box::new(bytes.take(slice.length))));
    }
    let mut bytes = File::open(path).map_err(failed)?;
    bytes.seek(SeekFrom::Start(slice.offset)).map_err(failed)?;
    if slice.length > WHOLE {
        return Ok(ChunkBytes::Stream(Box::new(bytes.take(slice.length))));
    }
    let mut whole = vec![0; slice.length as usize];
    bytes.read_exact(&mut whole).map_err(failed)?;
    Ok(ChunkBytes::Whole(whole.into()))
}

/// Reads the bytes of a chunk.
///
/// # Errors
/// When the file cannot be read, or the chunk is longer than [`WHOLE`].
pub fn bytes(slice: &ChunkSlice, file: &JobFile) -> Result<Bytes> {
    match input(slice, file, None)? {
        ChunkBytes::Whole(bytes) => Ok(bytes),
        ChunkBytes::Stream(_) => {
            Err(EngineError::Wrong(format!("the chunk has {} bytes, most of them in a document that is too long", slice.length)))
        }
    }
}

/// The range of a file's documents that a chunk has; its end is open if they have not been counted.
pub fn range(slice: &ChunkSlice) -> DocumentRange {
    let last = if slice.documents == 0 { u64::MAX } else { slice.file_documents + u64::from(slice.documents) };
    DocumentRange { before: slice.file_documents, offset: slice.offset, last }
}

/// The bytes of a document, which share those of its chunk where that is possible.
pub struct DocumentBytes {
    /// As they are in the file.
    pub own: Bytes,
    /// In a form that can be parsed without the rest of the file.
    pub complete: Bytes,
}

impl DocumentBytes {
    fn new(found: &ScannedDocument, own: Bytes) -> Self {
        let complete = match found.head.complete(&own) {
            Cow::Borrowed(part) => own.slice_ref(part),
            Cow::Owned(complete) => complete.into(),
        };
        Self { own, complete }
    }
}

/// Calls `visit` with every document of a chunk.
///
/// # Errors
/// When the file cannot be read, or `visit` fails.
pub fn documents(
    chunk: &ChunkInput<'_>,
    syntax: Syntax,
    source: &Source,
    mut visit: impl FnMut(ScannedDocument, DocumentBytes) -> Result<()>,
) -> Result<()> {
    let (slice, file) = (chunk.slice, chunk.file);
    let scanner = Scanner::resume(syntax, source, &slice.head);
    if slice.is_given_up() {
        let (number, problem, head) = (slice.file_documents + 1, Some(scanner.too_long()), Arc::new(ParseContext::new(syntax, &slice.head)));
        return visit(ScannedDocument { number, offset: slice.offset, problem, head }, DocumentBytes { own: Bytes::new(), complete: Bytes::new() });
    }
    match input(slice, file, chunk.bytes.as_ref())? {
        ChunkBytes::Whole(bytes) => each(&bytes, scanner, range(slice), |found, own| {
            let document = DocumentBytes::new(&found, bytes.slice_ref(own));
            visit(found, document)
        }),
        ChunkBytes::Stream(stream) => {
            let failed = |error| EngineError::File { path: file.path.clone(), error };
            let mut documents = DocumentReader::with_scanner(stream, scanner, range(slice));
            while let Some((found, own)) = documents.next().map_err(failed)? {
                let document = DocumentBytes::new(&found, Bytes::copy_from_slice(own));
                visit(found, document)?;
            }
            Ok(())
        }
    }
}
