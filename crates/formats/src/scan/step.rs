//! What scanners find, and what all of them need to look for it.

use memchr::memchr2;
use std::ops::Range;

/// What a scanner found at the front of the bytes it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanStep {
    /// A document; reading goes on at `next`.
    Document {
        /// Its bytes.
        bytes: Range<usize>,
        /// Where the scanner goes on.
        next: usize,
    },
    /// Bytes that are no document.
    Problem {
        /// The bytes.
        bytes: Range<usize>,
        /// Where reading resumes.
        next: usize,
        /// What is wrong.
        reason: String,
    },
    /// Bytes between documents.
    Skip(usize),
    /// More bytes are needed.
    NeedMore,
    /// Nothing follows.
    End,
}

/// Longest JSON value or XML element.
pub(super) const TREE_LIMIT: usize = 32 << 20;

/// The position after the first line end.
pub(super) fn line_end(bytes: &[u8]) -> Option<usize> {
    memchr2(b'\n', b'\r', bytes).map(|at| at + 1)
}

/// How many bytes of white space there are at the front.
pub(super) fn blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}
