//! Files to documents: opening (gzip and zstd transparently), recognising the syntax, and reading in constant memory.

use crate::scan::{Scanner, Step};
use crate::{Syntax, detect};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// What a compressed file is compressed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, also several members one after the other.
    Gzip,
    /// Zstandard, also several frames.
    Zstd,
}

/// How much of a file is looked at to recognise its syntax.
const LOOK_AHEAD: usize = 1 << 16;

/// An opened file: its bytes without compression, and what its beginning says.
pub struct Opened {
    /// The bytes, from the beginning.
    pub bytes: Box<dyn Read + Send>,
    /// How it is compressed.
    pub compression: Compression,
    /// What it seems to hold; nothing for an empty file.
    pub syntax: Option<Syntax>,
}

/// Opens a file.
///
/// # Errors
/// When it cannot be read, or its compression is damaged at the very beginning.
pub fn open(path: &Path) -> io::Result<Opened> {
    open_bytes(Box::new(File::open(path)?))
}

/// Opens any stream of bytes as [`open`] does.
///
/// # Errors
/// As [`open`].
pub fn open_bytes(mut input: Box<dyn Read + Send>) -> io::Result<Opened> {
    let magic = take(&mut input, 4)?;
    let whole = io::Cursor::new(magic.clone()).chain(input);
    let (compression, mut plain): (Compression, Box<dyn Read + Send>) = match magic.as_slice() {
        [0x1f, 0x8b, ..] => (Compression::Gzip, Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(whole)))),
        [0x28, 0xb5, 0x2f, 0xfd] => (Compression::Zstd, Box::new(zstd::stream::read::Decoder::new(whole)?)),
        _ => (Compression::None, Box::new(whole)),
    };
    let beginning = take(&mut plain, LOOK_AHEAD)?;
    let syntax = detect(&beginning);
    Ok(Opened { bytes: Box::new(io::Cursor::new(beginning).chain(plain)), compression, syntax })
}

fn take(input: &mut dyn Read, length: usize) -> io::Result<Vec<u8>> {
    let mut taken = Vec::new();
    input.take(length as u64).read_to_end(&mut taken)?;
    Ok(taken)
}

/// A document, or a stretch that is none, as [`Documents`] finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Number of the document in its file, from 1; problems are counted too.
    pub number: u64,
    /// Position of its first byte in the uncompressed file.
    pub offset: u64,
    /// What is wrong, if it is not a document.
    pub problem: Option<String>,
}

/// Reads a file document by document. Memory: the longest document, at most the syntax's limit.
pub struct Documents<R> {
    input: R,
    scanner: Scanner,
    buffer: Vec<u8>,
    /// The unread part of `buffer`.
    start: usize,
    /// Position of `buffer[start]` in the file.
    offset: u64,
    number: u64,
    at_end: bool,
    /// Set while an overlong document is thrown away: where it began.
    discarding: Option<u64>,
}

impl<R: Read> Documents<R> {
    /// Starts at the beginning of a file.
    pub fn new(input: R, syntax: Syntax, records: Option<&str>) -> Self {
        Self::with_scanner(input, Scanner::new(syntax, records), 0, 0)
    }

    /// Starts in the middle, after `number` documents, at `offset`.
    pub fn with_scanner(input: R, scanner: Scanner, number: u64, offset: u64) -> Self {
        Self { input, scanner, buffer: Vec::new(), start: 0, offset, number, at_end: false, discarding: None }
    }

    /// The scanner's knowledge of what came before.
    pub fn head(&self) -> Vec<u8> {
        self.scanner.head()
    }

    /// Position in the file behind the last document.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next document and its bytes.
    ///
    /// # Errors
    /// When reading fails; a damaged compressed stream is such a failure.
    pub fn next(&mut self) -> io::Result<Option<(Found, &[u8])>> {
        loop {
            if self.discarding.is_some() {
                if let Some(found) = self.discard()? {
                    return Ok(Some((found, &[])));
                }
                continue;
            }
            let first = self.offset == 0 && self.number == 0;
            if first && self.buffer.len() < 3 && !self.at_end {
                self.fill()?;
                continue;
            }
            if first && self.buffer[self.start..].starts_with(&[0xef, 0xbb, 0xbf]) {
                self.consume(3);
            }
            match self.scanner.step(&self.buffer[self.start..], self.at_end) {
                Step::End => return Ok(None),
                Step::Skip(length) => {
                    self.consume(length);
                    if self.at_end && self.start == self.buffer.len() && length == 0 {
                        return Ok(None);
                    }
                }
                Step::More => {
                    if self.buffer.len() - self.start > self.scanner.limit() {
                        self.discarding = Some(self.offset);
                        continue;
                    }
                    self.fill()?;
                }
                Step::Document { bytes, next } => {
                    let found = self.found(bytes.start, None);
                    let range = self.start + bytes.start..self.start + bytes.end;
                    self.consume(next);
                    return Ok(Some((found, &self.buffer[range])));
                }
                Step::Problem { bytes, next, reason } => {
                    let found = self.found(bytes.start, Some(reason));
                    let range = self.start + bytes.start..self.start + bytes.end;
                    self.consume(next);
                    return Ok(Some((found, &self.buffer[range])));
                }
            }
        }
    }

    fn found(&mut self, at: usize, problem: Option<String>) -> Found {
        self.number += 1;
        Found { number: self.number, offset: self.offset + at as u64, problem }
    }

    fn consume(&mut self, length: usize) {
        self.start += length;
        self.offset += length as u64;
    }

    /// Throws away what is buffered until reading can resume.
    fn discard(&mut self) -> io::Result<Option<Found>> {
        let resume = self.scanner.resynchronise(&self.buffer[self.start..]);
        // keep a few bytes: the mark that is looked for may be cut in two
        let keep = if self.at_end { 0 } else { 256.min(self.buffer.len() - self.start) };
        let dropped = resume.unwrap_or(self.buffer.len() - self.start - keep);
        self.consume(dropped);
        if resume.is_none() && !self.at_end {
            self.fill()?;
            return Ok(None);
        }
        self.number += 1;
        let offset = self.discarding.take().unwrap_or(self.offset);
        let problem = format!("the document is longer than {} bytes", self.scanner.limit());
        Ok(Some(Found { number: self.number, offset, problem: Some(problem) }))
    }

    /// Reads more, moving what is unread to the front. The buffer grows by doubling, so a long document is scanned in
    /// linear time.
    fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        let unread = self.buffer.len();
        let wanted = unread.max(1 << 18);
        self.buffer.resize(unread + wanted, 0);
        let mut filled = unread;
        while filled < self.buffer.len() {
            match self.input.read(&mut self.buffer[filled..]) {
                Ok(0) => {
                    self.at_end = true;
                    break;
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.buffer.truncate(filled);
                    return Err(error);
                }
            }
        }
        self.buffer.truncate(filled);
        Ok(())
    }
}
