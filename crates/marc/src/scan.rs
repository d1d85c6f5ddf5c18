//! Where records begin and end in a stream of ISO 2709, however its bytes arrive. The caller holds the bytes, a scanner only a position.

use crate::record::{FIELD_END, LEADER, MAX_RECORD, MarcError, MarcRecord, RECORD_END, number};
use crate::repair::{ReadOptions, Repairs, Tolerance};
use memchr::{memchr, memmem};

/// Digits of the length that a record begins with.
const LENGTH_DIGITS: usize = 5;
const ENTRY: usize = 12;
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
/// How far a scanner that repairs looks for a record terminator before it looks for another leader.
const SEARCH_LIMIT: usize = 3 * MAX_RECORD;
/// Bytes that may stand between the last field of a record and whatever follows where its terminator should be.
const MAX_STRAY_BYTES: usize = 16;

/// What a scanner found at the front of the bytes it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarcStep {
    /// A record of so many bytes, its terminator included.
    Record(usize),
    /// So many bytes that are the beginning of a record without an end.
    Unterminated(usize),
    /// So many bytes that are no record and no padding; found by a scanner that repairs.
    Foreign(usize),
    /// So many bytes between records.
    Skip(usize),
    /// More bytes are needed.
    NeedMore,
    /// Nothing follows.
    End,
}

/// Finds records. One that is strict takes every stretch up to a record terminator for a record; the length in the leader is checked
/// when the record is parsed. One that repairs also knows records by their leaders: it finds those after a record without an end, keeps
/// together what a record terminator inside of a field would divide, and skips padding.
#[derive(Debug, Clone, Default)]
pub struct MarcScanner {
    scanned: usize,
    tolerance: Tolerance,
}

impl MarcScanner {
    /// A scanner that repairs, or is strict as the default is.
    pub fn new(tolerance: Tolerance) -> Self {
        Self { scanned: 0, tolerance }
    }

    /// Looks at the front of `bytes`, which are the bytes at the scanner's position; `at_end` says that nothing follows them. After
    /// [`MarcStep::NeedMore`] they must begin with the same bytes.
    pub fn step(&mut self, bytes: &[u8], at_end: bool) -> MarcStep {
        if self.scanned == 0 {
            let blank = match self.tolerance {
                // white space between records, and the control-Z some systems write at the end
                Tolerance::Strict => bytes.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x1a).count(),
                Tolerance::Repair if bytes.first().is_some_and(u8::is_ascii_digit) => 0,
                Tolerance::Repair => padding(bytes),
            };
            let is_before_leader = bytes.get(blank).map_or(!at_end, |byte| !byte.is_ascii_digit());
            // a leader may begin with blanks where its length should be
            let leader_blanks =
                if is_before_leader { bytes[..blank].iter().rev().take(LENGTH_DIGITS).take_while(|byte| **byte == b' ').count() } else { 0 };
            if blank > leader_blanks {
                return MarcStep::Skip(blank - leader_blanks);
            }
            let unread = &bytes[blank..];
            let may_be_mark = self.tolerance == Tolerance::Repair && unread.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(unread);
            if (unread.is_empty() || may_be_mark) && !at_end {
                return MarcStep::NeedMore;
            }
        }
        let search_end = if self.tolerance == Tolerance::Repair { bytes.len().min(SEARCH_LIMIT) } else { bytes.len() };
        let mut found = memchr(RECORD_END, &bytes[self.scanned.min(search_end)..search_end]).map(|at| self.scanned + at);
        if found.is_none() && search_end < bytes.len() {
            // terminators may be missing altogether; what is before this leader cannot be another whose directory ends beyond
            if let Some(leader) = next_leader(&bytes[..search_end]).filter(|leader| leader + MAX_RECORD < search_end) {
                self.scanned = 0;
                return classify_stretch(&bytes[..leader]);
            }
            let from = self.scanned.max(search_end);
            found = memchr(RECORD_END, &bytes[from..]).map(|at| from + at);
        }
        if let Some(found) = found {
            let end = found + 1;
            self.scanned = 0;
            if self.tolerance == Tolerance::Strict || announced(bytes) == Some(end) {
                return MarcStep::Record(end);
            }
            return self.step_over_damage(bytes, end, at_end);
        }
        if !at_end {
            self.scanned = bytes.len();
            return MarcStep::NeedMore;
        }
        self.scanned = 0;
        match self.tolerance {
            _ if bytes.is_empty() => MarcStep::End,
            Tolerance::Strict => MarcStep::Unterminated(bytes.len()),
            Tolerance::Repair => classify_stretch(&bytes[..next_leader(bytes).unwrap_or(bytes.len())]),
        }
    }

    /// A stretch of so many bytes, up to a terminator, which is not as long as its leader says.
    fn step_over_damage(&mut self, bytes: &[u8], end: usize, at_end: bool) -> MarcStep {
        let announced_length = announced(bytes).filter(|announced_length| (end + 1..=MAX_RECORD).contains(announced_length));
        // a record terminator inside of a field: the directory says that the record goes on
        if let Some(announced_length) =
            announced_length.filter(|announced_length| extent(&bytes[..end]).is_some_and(|extent| extent + 1 == *announced_length))
        {
            if bytes.len() < announced_length && !at_end {
                self.scanned = end - 1;
                return MarcStep::NeedMore;
            }
            if bytes.get(announced_length - 1) == Some(&RECORD_END) {
                return MarcStep::Record(announced_length);
            }
        }
        next_leader(&bytes[..end]).map_or(MarcStep::Record(end), |leader| classify_stretch(&bytes[..leader]))
    }

    /// Gives up the record at hand, for one that is too long: how many of `bytes` belong to it, or nothing where it does not end there.
    pub fn give_up(&mut self, bytes: &[u8]) -> Option<usize> {
        self.scanned = 0;
        let end = memchr(RECORD_END, bytes).map(|at| at + 1);
        match self.tolerance {
            Tolerance::Strict => end,
            Tolerance::Repair => next_leader(&bytes[..end.unwrap_or(bytes.len())]).or(end),
        }
    }
}

/// How many bytes at the front are padding: white space, NUL, control-Z, 0xff, byte order marks, and terminators of nothing.
fn padding(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            0 | 0x1a | 0xff | &FIELD_END | &RECORD_END => at += 1,
            byte if byte.is_ascii_whitespace() => at += 1,
            _ if bytes[at..].starts_with(BYTE_ORDER_MARK) => at += BYTE_ORDER_MARK.len(),
            _ => break,
        }
    }
    at
}

/// The length that a leader begins with.
fn announced(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk::<LENGTH_DIGITS>().and_then(number)
}

/// The base address, where the leader says it, and the directory ends there with a terminator.
fn base(bytes: &[u8]) -> Option<usize> {
    let base = bytes.get(12..17)?.first_chunk::<5>().and_then(number)?;
    (base > LEADER && (base - 1 - LEADER).is_multiple_of(ENTRY) && bytes.get(base - 1) == Some(&FIELD_END)).then_some(base)
}

/// Where the last field ends, by a directory that consists of nothing but entries.
fn extent(bytes: &[u8]) -> Option<usize> {
    let base = base(bytes)?;
    let end = |&[_, _, _, l0, l1, l2, l3, p0, p1, p2, p3, p4]: &[u8; ENTRY]| Some(number(&[l0, l1, l2, l3])? + number(&[p0, p1, p2, p3, p4])?);
    let mut ends = bytes[LEADER..base - 1].as_chunks::<ENTRY>().0.iter().map(end);
    ends.try_fold(0, |furthest: usize, end| Some(furthest.max(end?))).map(|furthest| base + furthest)
}

/// Whether these bytes begin with a leader and its directory.
fn is_leader(bytes: &[u8]) -> bool {
    let Some(leader) = bytes.first_chunk::<LEADER>() else { return false };
    let printable = leader.iter().all(|byte| matches!(byte, b' '..=b'~'));
    printable && announced(leader).is_some() && leader[6].is_ascii_alphabetic() && extent(bytes).is_some()
}

/// Where the next record begins in a stretch, after its first byte.
fn next_leader(stretch: &[u8]) -> Option<usize> {
    let first_leader = |marker: &[u8], offset: usize| {
        let mut starts = memmem::find_iter(stretch, marker).filter_map(|at| at.checked_sub(offset)).filter(|start| *start > 0);
        starts.find(|start| is_leader(&stretch[*start..]))
    };
    let candidates = [first_leader(b"4500", 20), first_leader(b"22", 10)];
    candidates.into_iter().flatten().min()
}

/// What a stretch is that does not end with a record terminator.
fn classify_stretch(stretch: &[u8]) -> MarcStep {
    let is_complete = extent(stretch).is_some_and(|extent| {
        let stray_bytes = stretch.len().checked_sub(extent);
        stray_bytes.is_some_and(|stray_bytes| stray_bytes <= MAX_STRAY_BYTES) && stretch[extent - 1] == FIELD_END
    });
    let begins_record = || stretch.iter().take(LENGTH_DIGITS).all(u8::is_ascii_digit) || memchr(FIELD_END, stretch).is_some();
    match stretch.len() {
        length if is_complete => MarcStep::Record(length),
        length if begins_record() => MarcStep::Unterminated(length),
        length => MarcStep::Foreign(length),
    }
}

/// What a file is that is no file of records, by its first bytes.
pub fn looks_like(beginning: &[u8]) -> &'static str {
    let bytes = beginning.strip_prefix(BYTE_ORDER_MARK).unwrap_or(beginning).trim_ascii_start();
    let begins = |with: &str| bytes.get(..with.len()).is_some_and(|front| front.eq_ignore_ascii_case(with.as_bytes()));
    let head = &bytes[..bytes.len().min(1024)];
    match bytes {
        [0x1f, 0x8b, ..] => "data compressed with gzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "data compressed with zstd",
        [b'B', b'Z', b'h', ..] => "data compressed with bzip2",
        [b'P', b'K', 3 | 5, ..] => "a ZIP archive",
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "text in UTF-16",
        [] => "nothing",
        _ if begins("%PDF") => "a PDF file",
        _ if begins("<!doctype html") || begins("<html") => "a page of HTML",
        [b'<', ..] => "XML",
        [b'{' | b'[', ..] => "JSON",
        _ if begins("=LDR") => "MARC in line mode",
        _ if head.iter().all(|byte| byte.is_ascii_whitespace() || !byte.is_ascii_control()) => "text",
        _ => "binary data",
    }
}

/// A record that was read, and what was repaired in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Repaired<'a> {
    /// The record.
    pub record: MarcRecord<'a>,
    /// Nothing, mostly.
    pub repairs: Repairs,
}

/// The records of a file that is in memory. Each that is damaged is an error of its own; those after it are found.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Result<MarcRecord<'_>, MarcError>> {
    read(bytes, ReadOptions::STRICT).map(|found| found.map(|found| found.record))
}

/// The records of a file that is in memory, read as the options say.
pub fn read(bytes: &[u8], options: ReadOptions) -> impl Iterator<Item = Result<Repaired<'_>, MarcError>> {
    let mut scanner = MarcScanner::new(options.tolerance);
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at;
            match scanner.step(&bytes[at..], true) {
                MarcStep::Skip(length) => at += length,
                MarcStep::Record(length) => {
                    at += length;
                    let mut repairs = Repairs::new(start as u64);
                    let record = MarcRecord::read(&bytes[start..at], &options, &mut repairs);
                    return Some(record.map(|record| Repaired { record, repairs }));
                }
                MarcStep::Unterminated(length) => {
                    at += length;
                    let what = if at == bytes.len() { "the file ends inside a record" } else { "another record begins inside this one" };
                    return Some(Err(MarcError::Shape(format!("{what}: there is no record terminator"))));
                }
                MarcStep::Foreign(length) => {
                    at += length;
                    return Some(Err(MarcError::NoRecord(looks_like(&bytes[start..at]))));
                }
                MarcStep::NeedMore | MarcStep::End => return None,
            }
        }
    })
}
