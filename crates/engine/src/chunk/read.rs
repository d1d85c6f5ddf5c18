//! A chunk's bytes.

use crate::{EngineError, Result};
use bytes::Bytes;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use stook_store::queue::Slice;

/// The bytes of a chunk, from the chunk itself or from its file.
///
/// # Errors
/// When the file cannot be read.
pub fn bytes(slice: &Slice, path: &Path) -> Result<Bytes> {
    let failed = |error| EngineError::File { path: path.display().to_string(), error };
    if let Some(payload) = &slice.payload {
        return Ok(zstd::stream::decode_all(payload.as_slice()).map_err(failed)?.into());
    }
    let mut file = File::open(path).map_err(failed)?;
    file.seek(SeekFrom::Start(slice.offset)).map_err(failed)?;
    let mut bytes = vec![0; slice.length as usize];
    file.read_exact(&mut bytes).map_err(failed)?;
    Ok(bytes.into())
}
