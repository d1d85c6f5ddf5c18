//! The results of scanners, and functions that all of them need.

use memchr::memchr2;
use std::ops::Range;

/// What a scanner found at the front of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanStep {
    /// A document.
    Document {
        /// Its bytes.
        bytes: Range<usize>,
        /// Where the scanner continues.
        next: usize,
    },
    /// Bytes that are not a document.
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

/// Maximum length of a MARC record in ISO 2709 or line mode. Records of serials with an item for every volume have more than 1 MiB, whatever
/// their leaders say; a damaged record needs many times its length while its fields are looked for.
pub(super) const MARC_LIMIT: usize = 4 << 20;
/// Maximum length of a JSON value or XML element, in bytes.
pub(super) const TREE_LIMIT: usize = 32 << 20;

/// The position after the first line end.
pub(super) fn line_end(bytes: &[u8]) -> Option<usize> {
    memchr2(b'\n', b'\r', bytes).map(|at| at + 1)
}

/// Number of bytes of white space at the front.
pub(super) fn blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}
