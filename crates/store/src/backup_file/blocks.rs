//! Cuts a sequence of bytes into blocks that are compressed and have checksums, and joins it again.

use crate::{Result, StoreError};
use std::io::{ErrorKind, Read, Write};

/// What a backup begins with.
const MAGIC: &[u8; 13] = b"stook backup\n";
/// The version of the format that is written and read.
const VERSION: u32 = 1;
/// Bytes of content after which a block ends.
const BLOCK_BYTES: usize = 1 << 20;
/// Bytes of content that a block has at most, so that a wrong length does not use up the memory; a row is never as large.
const MAX_BLOCK_BYTES: u32 = 1 << 30;
/// A compromise: twice as fast as a disk, and a fifth of the size.
const COMPRESSION_LEVEL: i32 = 3;
/// Bytes of a checksum.
const CHECKSUM_BYTES: usize = 16;

fn checksum(number: u64, lengths: [u32; 2], content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes());
    for length in lengths {
        hasher.update(&length.to_le_bytes());
    }
    hasher.update(content);
    let mut short = [0; CHECKSUM_BYTES];
    short.copy_from_slice(&hasher.finalize().as_bytes()[..CHECKSUM_BYTES]);
    short
}

/// Writes blocks.
pub struct BlockWriter<'o> {
    out: &'o mut dyn Write,
    content: Vec<u8>,
    number: u64,
    bytes: u64,
}

impl<'o> BlockWriter<'o> {
    pub fn new(out: &'o mut dyn Write) -> Result<Self> {
        let mut writer = Self { out, content: Vec::with_capacity(BLOCK_BYTES), number: 0, bytes: 0 };
        writer.put(MAGIC)?;
        writer.put(&VERSION.to_le_bytes())?;
        Ok(writer)
    }

    /// The content of the current block; whoever has appended an item calls [`BlockWriter::item_ended`].
    pub fn content(&mut self) -> &mut Vec<u8> {
        &mut self.content
    }

    /// Writes the block if it is long enough.
    pub fn item_ended(&mut self) -> Result<()> {
        if self.content.len() < BLOCK_BYTES { Ok(()) } else { self.write_block() }
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes what is left; returns the size of the file.
    pub fn end(mut self) -> Result<u64> {
        if !self.content.is_empty() {
            self.write_block()?;
        }
        self.out.flush().map_err(|error| cannot_write(&error))?;
        Ok(self.bytes)
    }

    fn write_block(&mut self) -> Result<()> {
        let too_long = || StoreError::Other("a row is too large for a backup: more than 1 GiB".into());
        let expanded = u32::try_from(self.content.len()).ok().filter(|length| *length <= MAX_BLOCK_BYTES).ok_or_else(too_long)?;
        let compressed =
            zstd::bulk::compress(&self.content, COMPRESSION_LEVEL).map_err(|error| StoreError::Other(format!("compression: {error}")))?;
        let lengths = [u32::try_from(compressed.len()).map_err(|_| too_long())?, expanded];
        let sum = checksum(self.number, lengths, &compressed);
        lengths.iter().try_for_each(|length| self.put(&length.to_le_bytes()))?;
        self.put(&sum)?;
        self.put(&compressed)?;
        self.number += 1;
        self.content.clear();
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|error| cannot_write(&error))
    }
}

fn cannot_write(error: &std::io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::StorageFull => StoreError::Other("the backup cannot be written: the disk is full".into()),
        _ => StoreError::Other(format!("the backup cannot be written: {error}")),
    }
}

/// Reads blocks.
pub struct BlockReader<'i> {
    input: &'i mut dyn Read,
    number: u64,
    bytes: u64,
}

impl<'i> BlockReader<'i> {
    pub fn new(input: &'i mut dyn Read) -> Result<Self> {
        let mut reader = Self { input, number: 0, bytes: 0 };
        let head = reader.take(MAGIC.len() as u64 + 4)?;
        let version = head.strip_prefix(MAGIC).and_then(|version| <[u8; 4]>::try_from(version).ok());
        match version.map(u32::from_le_bytes) {
            Some(VERSION) => Ok(reader),
            Some(other) => Err(StoreError::Wrong(format!(
                "it is a backup of version {other}, and this program reads version {VERSION}: use the program that wrote it"
            ))),
            None if head.starts_with(b"SQLite format 3") => {
                Err(StoreError::Wrong("it is a store's file, not a backup: use it with --store, or copy it to where the store was".into()))
            }
            None => Err(StoreError::Wrong("it is not a backup".into())),
        }
    }

    /// Where the next block begins.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the content of the next block; `None` at the end of the file.
    pub fn next_block(&mut self) -> Result<Option<Vec<u8>>> {
        let (number, begin) = (self.number, self.bytes);
        let place = || format!("block {} at byte {begin}", number + 1);
        let incomplete = || StoreError::Wrong(format!("the backup is incomplete: it ends within {}", place()));
        let head = self.take(8 + CHECKSUM_BYTES as u64)?;
        if head.is_empty() {
            return Ok(None);
        }
        let (lengths, sum) = head.split_at_checked(8).filter(|(_, sum)| sum.len() == CHECKSUM_BYTES).ok_or_else(incomplete)?;
        let length = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).unwrap_or_default();
        let lengths = [length(&lengths[..4]), length(&lengths[4..])];
        let damaged = |reason: &str| StoreError::Wrong(format!("the backup is damaged in {}: {reason}", place()));
        if lengths.iter().any(|length| *length > MAX_BLOCK_BYTES) {
            return Err(damaged("its length is impossible"));
        }
        let compressed = self.take(u64::from(lengths[0]))?;
        if compressed.len() < lengths[0] as usize {
            return Err(incomplete());
        }
        if checksum(number, lengths, &compressed) != sum {
            return Err(damaged("its checksum is wrong"));
        }
        let mut content = Vec::new();
        let expanded =
            zstd::Decoder::with_buffer(compressed.as_slice()).and_then(|decoder| decoder.take(u64::from(lengths[1]) + 1).read_to_end(&mut content));
        if expanded.is_err() || content.len() != lengths[1] as usize {
            return Err(damaged("its content cannot be decompressed"));
        }
        self.number += 1;
        Ok(Some(content))
    }

    /// Reads so many bytes, or as many as there are. Memory is only used for bytes that are there.
    fn take(&mut self, length: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = Read::take(&mut *self.input, length).read_to_end(&mut bytes);
        read.map_err(|error| StoreError::Other(format!("the backup cannot be read at byte {}: {error}", self.bytes)))?;
        self.bytes += bytes.len() as u64;
        Ok(bytes)
    }
}
