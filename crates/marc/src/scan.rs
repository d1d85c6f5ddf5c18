//! Where records begin and end in a stream of ISO 2709, however its bytes arrive. The caller holds the bytes, a scanner only a position.

use crate::record::{MarcError, MarcRecord, RECORD_END};
use memchr::memchr;

/// Digits of the length that a record begins with.
const LENGTH_DIGITS: usize = 5;

/// What a scanner found at the front of the bytes it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarcStep {
    /// A record of so many bytes, its terminator included.
    Record(usize),
    /// So many bytes that are the beginning of a record without an end.
    Unterminated(usize),
    /// So many bytes between records.
    Skip(usize),
    /// More bytes are needed.
    NeedMore,
    /// Nothing follows.
    End,
}

/// Records end at their terminator; the length in the leader is checked when the record is parsed.
#[derive(Debug, Clone, Default)]
pub struct MarcScanner {
    scanned: usize,
}

impl MarcScanner {
    /// Looks at the front of `bytes`, which are the bytes at the scanner's position; `at_end` says that nothing follows them. After
    /// [`MarcStep::NeedMore`] they must begin with the same bytes.
    pub fn step(&mut self, bytes: &[u8], at_end: bool) -> MarcStep {
        if self.scanned == 0 {
            // white space between records, and the control-Z some systems write at the end
            let blank = bytes.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x1a).count();
            let goes_on = bytes.get(blank).map_or(!at_end, |byte| !byte.is_ascii_digit());
            // a leader may begin with blanks where its length should be
            let own = if goes_on { bytes[..blank].iter().rev().take(LENGTH_DIGITS).take_while(|byte| **byte == b' ').count() } else { 0 };
            if blank > own {
                return MarcStep::Skip(blank - own);
            }
            if blank == bytes.len() && !at_end {
                return MarcStep::NeedMore;
            }
        }
        if let Some(found) = memchr(RECORD_END, &bytes[self.scanned..]) {
            let end = self.scanned + found + 1;
            self.scanned = 0;
            return MarcStep::Record(end);
        }
        if !at_end {
            self.scanned = bytes.len();
            return MarcStep::NeedMore;
        }
        self.scanned = 0;
        if bytes.is_empty() { MarcStep::End } else { MarcStep::Unterminated(bytes.len()) }
    }

    /// Gives up the record at hand, for one that is too long: how many of `bytes` belong to it, or nothing where it does not end there.
    pub fn give_up(&mut self, bytes: &[u8]) -> Option<usize> {
        self.scanned = 0;
        memchr(RECORD_END, bytes).map(|at| at + 1)
    }
}

/// The records of a file that is in memory. Each that is damaged is an error of its own; those after it are found.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Result<MarcRecord<'_>, MarcError>> {
    let mut scanner = MarcScanner::default();
    let mut rest = bytes;
    std::iter::from_fn(move || {
        loop {
            match scanner.step(rest, true) {
                MarcStep::Skip(length) => rest = &rest[length..],
                MarcStep::Record(length) => {
                    let (record, following) = rest.split_at(length);
                    rest = following;
                    return Some(MarcRecord::parse(record));
                }
                MarcStep::Unterminated(_) => {
                    rest = &[];
                    return Some(Err(MarcError::Shape("the file ends inside a record: there is no record terminator".into())));
                }
                MarcStep::NeedMore | MarcStep::End => return None,
            }
        }
    })
}
