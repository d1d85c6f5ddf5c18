//! How much memory the messages of an Arrow IPC file claim to need. Readers reserve what a message says, so it is compared with the file first.

use arrow_ipc::{Message, RecordBatch as BatchHeader, root_as_message};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// Maximum length of the description of a message.
const MAX_DESCRIPTION: u32 = 64 << 20;
/// Maximum length of the columns of a message after they are unpacked.
const MAX_UNPACKED: u64 = 2 << 30;

/// Checks all messages from the current position on, and returns there.
///
/// # Errors
/// When a message ends after the file does, or would need too much memory.
pub(super) fn check(file: &mut File) -> io::Result<()> {
    let (start, length) = (file.stream_position()?, file.metadata()?.len());
    let mut input = BufReader::new(&mut *file);
    let mut at = start;
    while let Some((description, body)) = description(&mut input, at, length)? {
        let message = root_as_message(&description).map_err(|error| damaged(at, error))?;
        let body_length = u64::try_from(message.bodyLength()).map_err(|error| damaged(at, error))?;
        let end = body.checked_add(body_length).filter(|end| *end <= length);
        let end = end.ok_or_else(|| damaged(at, "the file ends before its columns do"))?;
        if let Some(batch) = batch_of(&message) {
            check_unpacked(&mut input, batch, body..end).map_err(|error| damaged(at, error))?;
        }
        input.seek(SeekFrom::Start(end))?;
        at = end;
    }
    drop(input);
    file.seek(SeekFrom::Start(start))?;
    Ok(())
}

/// Reads the description of the message at a position; also returns where its columns begin. `None` at the end.
fn description(input: &mut impl Read, at: u64, length: u64) -> io::Result<Option<(Vec<u8>, u64)>> {
    let mut word = || -> io::Result<Option<u32>> {
        let mut word = [0; 4];
        match input.read_exact(&mut word) {
            Ok(()) => Ok(Some(u32::from_le_bytes(word))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    };
    let (mut size, mut begins) = (word()?, at + 4);
    if size == Some(u32::MAX) {
        (size, begins) = (word()?, at + 8);
    }
    let Some(size) = size.filter(|size| *size > 0) else { return Ok(None) };
    if size > MAX_DESCRIPTION || begins + u64::from(size) > length {
        return Err(damaged(at, format!("its description would have {size} bytes")));
    }
    let mut description = vec![0; size as usize];
    input.read_exact(&mut description)?;
    Ok(Some((description, begins + u64::from(size))))
}

fn batch_of<'m>(message: &Message<'m>) -> Option<BatchHeader<'m>> {
    message.header_as_record_batch().or_else(|| message.header_as_dictionary_batch()?.data())
}

/// Adds up how long the packed columns of a message say that they are.
fn check_unpacked(input: &mut BufReader<&mut File>, batch: BatchHeader<'_>, body: std::ops::Range<u64>) -> io::Result<()> {
    let (Some(_), Some(buffers)) = (batch.compression(), batch.buffers()) else { return Ok(()) };
    let mut unpacked: u64 = 0;
    for buffer in buffers.iter().filter(|buffer| buffer.length() >= 8) {
        let begins = u64::try_from(buffer.offset()).ok().and_then(|offset| body.start.checked_add(offset)).filter(|begins| *begins < body.end);
        input.seek(SeekFrom::Start(begins.ok_or_else(|| io::Error::other("a column lies outside of it"))?))?;
        let mut length = [0; 8];
        input.read_exact(&mut length)?;
        // a negative length means that the column is not packed
        unpacked = unpacked.saturating_add(u64::try_from(i64::from_le_bytes(length)).unwrap_or(0));
    }
    if unpacked > MAX_UNPACKED {
        return Err(io::Error::other(format!("its columns would need {} MiB; write smaller batches", unpacked >> 20)));
    }
    Ok(())
}

fn damaged(at: u64, reason: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a damaged file of Arrow IPC: the message at byte {at}: {reason}"))
}
