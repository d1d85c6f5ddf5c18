//! MARC 21 records: ISO 2709 bytes to fields and back.
//!
//! A record is its leader and its fields. Field data is kept as in ISO 2709, without terminators: a control field is its
//! text; a data field is two indicators and then `0x1f`, code, value for each subfield. Every syntax is brought into this
//! one form, so that paths and writers exist once.

use crate::charset::Charset;
use crate::repair::{Encoding, ReadOptions, Repairs};
use crate::{marc8, mend};
use memchr::{memchr, memchr2};
use std::borrow::Cow;

/// Ends a record.
pub const RECORD_END: u8 = 0x1d;
/// Ends a field.
pub const FIELD_END: u8 = 0x1e;
/// Starts a subfield.
pub const SUBFIELD: u8 = 0x1f;
/// Longest record ISO 2709 can express.
pub const MAX_RECORD: usize = 99_999;
pub(crate) const LEADER: usize = 24;

/// A MARC record in UTF-8.
#[derive(Debug, Clone, PartialEq)]
pub struct MarcRecord<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) leader: [u8; LEADER],
    pub(crate) fields: Vec<FieldEntry>,
    /// Bytes of MARC-8 that are no character; each became U+FFFD.
    pub unknown_characters: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FieldEntry {
    pub(crate) tag: [u8; 3],
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// A field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarcField<'r> {
    /// Three characters.
    pub tag: [u8; 3],
    /// Data without terminator.
    pub data: &'r str,
}

/// Why bytes are not a MARC record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarcError {
    /// Shorter than a leader and a directory.
    #[error("the record has {0} bytes, a leader alone has 24")]
    TooShort(usize),
    /// Leader bytes that must be digits are not.
    #[error("leader position {0} must be a number of five digits")]
    NotANumber(&'static str),
    /// The length announced is not the length found.
    #[error("the leader says {announced} bytes, the record terminator is at byte {found}")]
    WrongLength {
        /// By the leader.
        announced: usize,
        /// Until the terminator.
        found: usize,
    },
    /// The directory does not end where the data begin.
    #[error("the directory does not end at the base address {0}")]
    BadDirectory(usize),
    /// The leader is not ASCII.
    #[error("leader position {0} is not an ASCII character")]
    BadLeader(usize),
    /// A directory entry is not twelve digits after a tag.
    #[error("directory entry {0} is not a tag, a length and a position")]
    BadEntry(usize),
    /// A field lies outside the record.
    #[error("field {tag} (directory entry {entry}) ends at byte {end}, past the end of the record")]
    PastTheEnd {
        /// Its tag.
        tag: String,
        /// Its number in the directory, from 1.
        entry: usize,
        /// Where it would end.
        end: usize,
    },
    /// A field is not terminated where the directory says.
    #[error("field {tag} (directory entry {entry}) does not end with a field terminator")]
    Unterminated {
        /// Its tag.
        tag: String,
        /// Its number in the directory, from 1.
        entry: usize,
    },
    /// Bytes that are not the UTF-8 the leader promises.
    #[error("byte {0} of the record is not UTF-8, though leader position 9 says so")]
    NotUtf8(usize),
    /// A character that structures records inside a value.
    #[error("field {0} contains a MARC control character")]
    ControlCharacter(String),
    /// Too long for ISO 2709.
    #[error("{what} is too long for ISO 2709 ({length} bytes)")]
    TooLong {
        /// The record or a field.
        what: String,
        /// Its length.
        length: usize,
    },
    /// Bytes that are no record at all.
    #[error("there is no record here, this looks like {0}")]
    NoRecord(&'static str),
    /// Not the JSON or XML form of MARC.
    #[error("{0}")]
    Shape(String),
}

impl<'a> MarcRecord<'a> {
    /// Parses one ISO 2709 record, its terminator included. UTF-8 records are not copied.
    ///
    /// # Errors
    /// The first thing that is wrong; nothing is repaired.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MarcError> {
        Self::read(bytes, &ReadOptions::STRICT, &mut Repairs::default())
    }

    /// Reads one ISO 2709 record as the options say, and adds what was repaired to `repairs`. A record that needs no repair is read
    /// as by [`MarcRecord::parse`].
    ///
    /// # Errors
    /// What is wrong, if nothing may be repaired; else only when no field of a record can be found.
    pub fn read(bytes: &'a [u8], options: &ReadOptions, repairs: &mut Repairs) -> Result<Self, MarcError> {
        if options.repairs() {
            let found = structure::<true>(bytes);
            return match found {
                Ok(Structure { leader, fields, in_form: true }) => match plain_text(bytes, &leader, options.encoding) {
                    Some(text) => Ok(Self { text: Cow::Borrowed(text), leader, fields, unknown_characters: 0 }),
                    None => mend::read(bytes, Ok(Structure { leader, fields, in_form: true }), options, repairs),
                },
                other => mend::read(bytes, other, options, repairs),
            };
        }
        let Structure { leader, fields, .. } = structure::<false>(bytes)?;
        if leader[9] == b'a' || options.encoding == Encoding::Utf8 {
            let text = simdutf8::compat::from_utf8(bytes).map_err(|error| MarcError::NotUtf8(error.valid_up_to()))?;
            return Self { text: Cow::Borrowed(text), leader, fields, unknown_characters: 0 }.checked();
        }
        if let Some(text) = plain_text(bytes, &leader, Encoding::Auto) {
            return Ok(Self { text: Cow::Borrowed(text), leader, fields, unknown_characters: 0 });
        }
        let encoding = if options.encoding == Encoding::Auto { Encoding::Marc8 } else { options.encoding };
        Ok(Self::decoded(bytes, leader, &fields, Charset::choose(false, &[], encoding, repairs)))
    }

    /// Positions are bytes, so they could fall inside a character where the directory is wrong by a few bytes.
    fn checked(self) -> Result<Self, MarcError> {
        for (index, field) in self.fields.iter().enumerate() {
            if !self.text.is_char_boundary(field.start as usize) {
                return Err(MarcError::BadEntry(index + 1));
            }
        }
        Ok(self)
    }

    fn decoded(bytes: &[u8], mut leader: [u8; LEADER], entries: &[FieldEntry], charset: Charset) -> Self {
        let mut text = String::with_capacity(bytes.len() + bytes.len() / 8);
        let mut fields = Vec::with_capacity(entries.len());
        let mut unknown_characters = 0;
        for entry in entries {
            let start = text.len() as u32;
            let data = &bytes[entry.start as usize..entry.end as usize];
            unknown_characters += charset.decode(data, entry.tag, 0, &mut text, &mut Repairs::default());
            fields.push(FieldEntry { tag: entry.tag, start, end: text.len() as u32 });
        }
        leader[9] = b'a';
        Self { text: Cow::Owned(text), leader, fields, unknown_characters }
    }

    /// The 24 characters of the leader.
    pub fn leader(&self) -> &str {
        std::str::from_utf8(&self.leader).unwrap_or_default()
    }

    /// The fields in the order of the directory.
    pub fn fields(&self) -> impl Iterator<Item = MarcField<'_>> {
        self.fields.iter().map(|entry| self.field(entry))
    }

    /// The field with this number, from 0.
    pub fn field_at(&self, number: u32) -> Option<MarcField<'_>> {
        self.fields.get(number as usize).map(|entry| self.field(entry))
    }

    fn field(&self, entry: &FieldEntry) -> MarcField<'_> {
        MarcField { tag: entry.tag, data: &self.text[entry.start as usize..entry.end as usize] }
    }

    /// The fields whose tag `wanted` chooses, each with its number, from 0.
    pub fn tagged(&self, wanted: impl Fn(&[u8; 3]) -> bool) -> impl Iterator<Item = (usize, MarcField<'_>)> {
        let chosen = self.fields.iter().enumerate().filter(move |(_, entry)| wanted(&entry.tag));
        chosen.map(|(number, entry)| (number, self.field(entry)))
    }

    /// The record in ISO 2709 as it is nearest to it: what data fields cannot hold is brought into another form, which is added to
    /// `repairs`.
    ///
    /// # Errors
    /// When a field or the record is too long for the format.
    pub fn to_nearest_iso2709(&self, repairs: &mut Repairs) -> Result<Vec<u8>, MarcError> {
        self.tidied(repairs).to_iso2709()
    }

    /// The record in ISO 2709, UTF-8. Length and base address are computed, and position 9 says UTF-8 where MARC-8 would be
    /// read differently; the rest of the leader is kept.
    ///
    /// # Errors
    /// When a field or the record is too long for the format, or a value contains a character that structures records.
    pub fn to_iso2709(&self) -> Result<Vec<u8>, MarcError> {
        let base = LEADER + 12 * self.fields.len() + 1;
        let mut directory = Vec::with_capacity(base);
        let mut data = Vec::with_capacity(self.text.len());
        for field in self.fields() {
            let length = field.data.len() + 1;
            if data.len() > MAX_RECORD {
                let length = base + self.fields().map(|field| field.data.len() + 1).sum::<usize>() + 1;
                return Err(MarcError::TooLong { what: "the record".into(), length });
            }
            if length > 9_999 {
                return Err(MarcError::TooLong { what: format!("field {}", show_tag(field.tag)), length });
            }
            if field.data.bytes().any(|byte| matches!(byte, FIELD_END | RECORD_END)) {
                return Err(MarcError::ControlCharacter(show_tag(field.tag)));
            }
            directory.extend_from_slice(&field.tag);
            directory.extend_from_slice(format!("{length:04}{:05}", data.len()).as_bytes());
            data.extend_from_slice(field.data.as_bytes());
            data.push(FIELD_END);
        }
        let length = base + data.len() + 1;
        if length > MAX_RECORD {
            return Err(MarcError::TooLong { what: "the record".into(), length });
        }
        let mut leader = self.leader;
        if !data.is_ascii() || memchr(0x1b, &data).is_some() || marc8::has_references(&data) {
            leader[9] = b'a';
        }
        leader[0..5].copy_from_slice(format!("{length:05}").as_bytes());
        leader[12..17].copy_from_slice(format!("{base:05}").as_bytes());
        let mut out = Vec::with_capacity(length);
        out.extend_from_slice(&leader);
        out.extend_from_slice(&directory);
        out.push(FIELD_END);
        out.extend_from_slice(&data);
        out.push(RECORD_END);
        Ok(out)
    }
}

impl<'r> MarcField<'r> {
    /// Whether this is a control field: 001 to 009, and local fields whose tags are not numbers if they have no subfields, as
    /// in `FMT` with the text `BK`.
    pub fn is_control(&self) -> bool {
        match self.tag {
            [b'0', b'0', last] if last.is_ascii_digit() => true,
            tag => !tag.iter().all(u8::is_ascii_digit) && memchr(SUBFIELD, self.data.as_bytes()).is_none(),
        }
    }

    /// Both indicators; a missing one is a blank.
    pub fn indicators(&self) -> [&'r str; 2] {
        let head = memchr(SUBFIELD, self.data.as_bytes()).map_or(self.data, |at| &self.data[..at]);
        let mut ends = head.char_indices().map(|(at, character)| at..at + character.len_utf8());
        let mut next = || ends.next().map_or(" ", |range| &head[range]);
        [next(), next()]
    }

    /// Codes and values in their order. A delimiter without a code is left out.
    #[inline]
    pub fn subfields(&self) -> impl Iterator<Item = (&'r str, &'r str)> + use<'r> {
        // the first delimiter nearly always stands after two indicators
        let data = self.data.as_bytes();
        let first = if data.get(2) == Some(&SUBFIELD) && data[0] != SUBFIELD && data[1] != SUBFIELD { Some(2) } else { memchr(SUBFIELD, data) };
        let mut rest = first.map(|at| &self.data[at + 1..]);
        std::iter::from_fn(move || {
            loop {
                let current = rest?;
                let (subfield, following) = match memchr(SUBFIELD, current.as_bytes()) {
                    Some(end) => (&current[..end], Some(&current[end + 1..])),
                    None => (current, None),
                };
                rest = following;
                if let Some(code) = subfield.chars().next() {
                    return Some(subfield.split_at(code.len_utf8()));
                }
            }
        })
    }
}

/// The leader of a record and where its fields are.
pub(crate) struct Structure {
    pub(crate) leader: [u8; LEADER],
    pub(crate) fields: Vec<FieldEntry>,
    /// Whether nothing of it needs a closer look.
    pub(crate) in_form: bool,
}

/// Finds the fields by the directory. With `LOOK` it is also seen whether fields follow each other, and data fields begin with two
/// indicators and a subfield.
fn structure<const LOOK: bool>(bytes: &[u8]) -> Result<Structure, MarcError> {
    let (&leader, _) = bytes.split_first_chunk::<LEADER>().ok_or(MarcError::TooShort(bytes.len()))?;
    if let Some(position) = leader.iter().position(|byte| !byte.is_ascii()) {
        return Err(MarcError::BadLeader(position));
    }
    let [l0, l1, l2, l3, l4, .., b0, b1, b2, b3, b4, _, _, _, _, _, _, _] = leader;
    let announced = number(&[l0, l1, l2, l3, l4]).ok_or(MarcError::NotANumber("0-4 (record length)"))?;
    if announced != bytes.len() {
        return Err(MarcError::WrongLength { announced, found: bytes.len() });
    }
    let base = number(&[b0, b1, b2, b3, b4]).ok_or(MarcError::NotANumber("12-16 (base address)"))?;
    if base < LEADER + 1 || base >= bytes.len() || bytes[base - 1] != FIELD_END || !(base - 1 - LEADER).is_multiple_of(12) {
        return Err(MarcError::BadDirectory(base));
    }
    let directory = &bytes[LEADER..base - 1];
    let mut fields = Vec::with_capacity(directory.len() / 12);
    let (mut odd, mut previous) = (false, base);
    for (index, &[a, b, c, thousands, l1, l2, l3, p0, p1, p2, p3, p4]) in directory.as_chunks::<12>().0.iter().enumerate() {
        let tag = [a, b, c];
        let (thousands, digits) = (usize::from(thousands.wrapping_sub(b'0')), eight_digits([l1, l2, l3, p0, p1, p2, p3, p4]));
        let Some(digits) = digits.filter(|_| thousands < 10) else {
            return Err(MarcError::BadEntry(index + 1));
        };
        let (length, position) = (thousands * 1000 + digits / 100_000, digits % 100_000);
        if !tag.iter().all(u8::is_ascii_graphic) {
            return Err(MarcError::BadEntry(index + 1));
        }
        let start = base + position;
        let end = start + length;
        if end > bytes.len() - 1 {
            return Err(MarcError::PastTheEnd { tag: show_tag(tag), entry: index + 1, end });
        }
        if length == 0 || bytes[end - 1] != FIELD_END {
            return Err(MarcError::Unterminated { tag: show_tag(tag), entry: index + 1 });
        }
        if LOOK {
            let head = bytes.get(start..start + 4).and_then(|head| head.try_into().ok()).map_or(0, u32::from_le_bytes);
            let is_data = (a ^ b'0') | (b ^ b'0') != 0;
            // two characters of ASCII and a delimiter
            odd |= (start != previous) | (is_data & (head & 0x00ff_8080 != u32::from(SUBFIELD) << 16));
            previous = end;
        }
        fields.push(FieldEntry { tag, start: start as u32, end: end as u32 - 1 });
    }
    let in_form = LOOK && !odd && is_printable(&leader) && previous + 1 == bytes.len() && memchr2(0, RECORD_END, bytes) == Some(previous);
    Ok(Structure { leader, fields, in_form })
}

/// Whether a leader has no control characters.
pub(crate) fn is_printable(leader: &[u8; LEADER]) -> bool {
    leader.iter().fold(true, |all, byte| all & (b' '..=b'~').contains(byte))
}

/// The bytes of a record as text that needs no conversion. Fields that are in form begin after a terminator, so none begins inside a
/// character.
fn plain_text<'a>(bytes: &'a [u8], leader: &[u8; LEADER], encoding: Encoding) -> Option<&'a str> {
    if leader[9] == b'a' || encoding == Encoding::Utf8 {
        return simdutf8::basic::from_utf8(bytes).ok();
    }
    let plain = bytes.is_ascii() && memchr(0x1b, bytes).is_none() && !marc8::has_references(bytes);
    if plain { std::str::from_utf8(bytes).ok() } else { None }
}

/// A tag for messages.
pub fn show_tag(tag: [u8; 3]) -> String {
    tag.iter().map(|byte| char::from(*byte)).collect()
}

/// Digits to a number; all are looked at, which is faster than to stop at a wrong one.
#[inline]
pub(crate) fn number<const N: usize>(digits: &[u8; N]) -> Option<usize> {
    let (mut number, mut all) = (0, true);
    for digit in digits {
        let value = digit.wrapping_sub(b'0');
        all &= value < 10;
        number = number * 10 + usize::from(value);
    }
    all.then_some(number)
}

/// Eight digits to a number, all at once: neighbours are brought together in pairs, then in fours, then all.
#[inline]
fn eight_digits(digits: [u8; 8]) -> Option<usize> {
    let digits = u64::from_le_bytes(digits);
    // both a digit and six more than it have a 3 in front
    let fronts = |bytes: u64| bytes & 0xf0f0_f0f0_f0f0_f0f0;
    if fronts(digits) != 0x3030_3030_3030_3030 || fronts(digits.wrapping_add(0x0606_0606_0606_0606)) != 0x3030_3030_3030_3030 {
        return None;
    }
    let pairs = (digits & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul((10 << 8) + 1) >> 8;
    let fours = (pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul((100 << 16) + 1) >> 16;
    let all = (fours & 0x0000_ffff_0000_ffff).wrapping_mul((10_000 << 32) + 1) >> 32;
    Some(all as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::MarcBuilder;

    fn record() -> MarcRecord<'static> {
        let mut builder = MarcBuilder::new("00000nz  a2200000n  4500").expect("leader");
        builder.control("001", "n1").expect("control");
        builder.data("100", "1", " ").expect("data");
        builder.subfield("a", "Dvořák, Antonín,").expect("subfield");
        builder.subfield("d", "1841-1904").expect("subfield");
        builder.finish()
    }

    #[test]
    fn eight_digits_are_a_number() {
        for number in [0, 1, 9, 10_203_040, 12_345_678, 99_999_999, 90_000_001] {
            assert_eq!(format!("{number:08}").as_bytes().try_into().ok().and_then(eight_digits), Some(number));
        }
        for at in 0..8 {
            for byte in (0..=255_u8).filter(|byte| !byte.is_ascii_digit()) {
                let mut digits = *b"90817263";
                digits[at] = byte;
                assert_eq!(eight_digits(digits), None, "{byte:#x}");
            }
        }
    }

    #[test]
    fn a_written_record_reads_back_equal() {
        let bytes = record().to_iso2709().expect("short");
        let read = MarcRecord::parse(&bytes).expect("valid");
        assert_eq!(read.to_iso2709().expect("short"), bytes);
        let field = read.fields().nth(1).expect("two fields");
        assert_eq!(field.indicators(), ["1", " "]);
        assert_eq!(field.subfields().collect::<Vec<_>>(), [("a", "Dvořák, Antonín,"), ("d", "1841-1904")]);
        let json: serde_json::Value = serde_json::from_str(&read.to_json()).expect("JSON");
        assert_eq!(MarcRecord::from_json(&json).expect("shape").to_iso2709().expect("short"), bytes);
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let good = record().to_iso2709().expect("short");
        let mut wrong_length = good.clone();
        wrong_length[4] = b'9';
        assert!(matches!(MarcRecord::parse(&wrong_length), Err(MarcError::WrongLength { .. })));
        let mut past = good.clone();
        past[LEADER + 12 + 3..LEADER + 12 + 7].copy_from_slice(b"0999");
        assert!(matches!(MarcRecord::parse(&past), Err(MarcError::PastTheEnd { entry: 2, .. })));
        let mut broken = good.clone();
        let at = broken.iter().position(|byte| *byte == 0xc5).expect("ř");
        broken[at] = 0xff;
        assert_eq!(MarcRecord::parse(&broken), Err(MarcError::NotUtf8(at)));
        assert!(matches!(MarcRecord::parse(b"garbage"), Err(MarcError::TooShort(7))));
    }
}
