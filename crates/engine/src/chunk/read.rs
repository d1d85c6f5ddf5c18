//! A chunk's bytes to documents.

use crate::{EngineError, Result};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use stook_formats::read::Documents;
use stook_formats::scan::Scanner;
use stook_formats::{Head, Syntax};
use stook_store::queue::Slice;

/// The bytes of a chunk, from the chunk itself or from its file.
///
/// # Errors
/// When the file cannot be read.
pub fn bytes(slice: &Slice, path: &Path) -> Result<Vec<u8>> {
    let failed = |error| EngineError::File { path: path.display().to_string(), error };
    if let Some(payload) = &slice.payload {
        return zstd::stream::decode_all(payload.as_slice()).map_err(failed);
    }
    let mut file = File::open(path).map_err(failed)?;
    file.seek(SeekFrom::Start(slice.offset)).map_err(failed)?;
    let mut bytes = vec![0; slice.length as usize];
    file.read_exact(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// A document of a chunk, or what stands in its place.
pub struct Piece<'b> {
    /// Number inside the file, from 1.
    pub record: u64,
    /// Position in the file.
    pub offset: u64,
    /// Its bytes.
    pub bytes: &'b [u8],
    /// What is wrong with them.
    pub problem: Option<String>,
}

/// Calls `visit` with every document of a chunk, and with what parsing them needs.
///
/// # Errors
/// What `visit` says.
pub fn documents(
    bytes: &[u8],
    slice: &Slice,
    syntax: Syntax,
    records: Option<&str>,
    mut visit: impl FnMut(Piece<'_>, &Head) -> Result<()>,
) -> Result<()> {
    let scanner = Scanner::resume(syntax, records, &slice.head);
    let mut documents = Documents::with_scanner(bytes, scanner, slice.file_documents, slice.offset);
    let failed = |error| EngineError::File { path: "a chunk".into(), error };
    while let Some((found, bytes)) = documents.next().map_err(failed)? {
        visit(Piece { record: found.number, offset: found.offset, bytes, problem: found.problem }, &found.head)?;
    }
    Ok(())
}
