//! How damaged input is read, and what was repaired in it.

use std::borrow::Cow;
use std::fmt;

/// Most repairs that are kept of one record; what is beyond them is counted.
pub const MAX_REPAIRS: usize = 50;

/// What to do with a record that is damaged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Tolerance {
    /// It is read as far as that is possible, and each repair is told.
    Repair,
    /// It is an error.
    #[default]
    Strict,
}

/// How the bytes of values are read. Bytes that are ASCII are the same in all of these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// As leader position 9 says, unless the bytes say that they are UTF-8.
    #[default]
    Auto,
    /// UTF-8, whatever the leader says.
    Utf8,
    /// MARC-8, but for values under a leader that says UTF-8 which are UTF-8.
    Marc8,
    /// ISO 8859-1, with the same exception.
    Latin1,
    /// Windows-1252, with the same exception.
    Cp1252,
}

/// How records are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ReadOptions {
    /// What to do with damage.
    pub tolerance: Tolerance,
    /// How bytes become characters.
    pub encoding: Encoding,
}

impl ReadOptions {
    /// What is damaged is an error; the default.
    pub const STRICT: Self = Self { tolerance: Tolerance::Strict, encoding: Encoding::Auto };
    /// What is damaged is repaired.
    pub const REPAIR: Self = Self { tolerance: Tolerance::Repair, encoding: Encoding::Auto };

    /// The same with another encoding.
    #[must_use]
    pub const fn with_encoding(self, encoding: Encoding) -> Self {
        Self { encoding, ..self }
    }

    /// Whether damage is repaired.
    pub fn repairs(&self) -> bool {
        self.tolerance == Tolerance::Repair
    }
}

/// What was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RepairKind {
    /// The length of the record.
    RecordLength,
    /// The address at which the data begin.
    BaseAddress,
    /// The directory as a whole.
    Directory,
    /// The length or position of a field in the directory.
    FieldPosition,
    /// An entry of the directory for which there are no data; it was left out.
    NoData,
    /// Data for which there is no entry in the directory; they were left out.
    NoEntry,
    /// A tag that is none; the field was left out.
    Tag,
    /// A tag of more than three characters.
    LongTag,
    /// The terminator of the record or of a field.
    Terminator,
    /// A leader that is missing, too short or too long, or a character of it.
    Leader,
    /// An indicator that is missing, or that is not one ASCII character.
    Indicator,
    /// Text before the first subfield; it was kept in a subfield `a`.
    NoSubfield,
    /// A subfield code that is missing, or that is not one ASCII character.
    SubfieldCode,
    /// Bytes in another encoding than the leader says.
    Encoding,
    /// Bytes or an escape that are no character; each became U+FFFD.
    Character,
    /// A control character, which was left out or became a blank.
    ControlCharacter,
    /// A control field with subfields; it was read as their text.
    ControlField,
    /// A data field that was written as a control field; its text was kept in a subfield `a`.
    DataField,
    /// An element, a member or a line that does not belong into a record; it was left out.
    Foreign,
    /// A value that is not text.
    Value,
}

/// One thing that was repaired. Its `Display` is a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// What was wrong.
    pub kind: RepairKind,
    /// Where the record begins in its file.
    pub record: u64,
    /// Where it is wrong in the record, if that is known.
    pub byte: Option<usize>,
    /// The tag of the field, if it is one of a field.
    pub tag: Option<String>,
    /// How often the same was done to fields of this tag.
    pub count: usize,
    /// What was done.
    pub done: Cow<'static, str>,
}

impl fmt::Display for Repair {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tag) = &self.tag {
            write!(out, "field {tag}: ")?;
        }
        write!(out, "{}", self.done)?;
        if let Some(byte) = self.byte {
            write!(out, " at byte {byte}")?;
        }
        if self.count > 1 {
            write!(out, " (and {} more)", self.count - 1)?;
        }
        Ok(())
    }
}

/// What was repaired in one record. It needs no memory while it is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repairs {
    record: u64,
    list: Vec<Repair>,
    uncounted: usize,
}

impl Repairs {
    /// For a record that begins at this byte of its file.
    pub fn new(record: u64) -> Self {
        Self { record, ..Self::default() }
    }

    /// Forgets what there is and goes on with another record.
    pub fn begin(&mut self, record: u64) {
        self.record = record;
        self.list.clear();
        self.uncounted = 0;
    }

    /// Whether nothing was repaired.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The first [`MAX_REPAIRS`], in the order in which they were made.
    pub fn list(&self) -> &[Repair] {
        &self.list
    }

    /// How many more there were.
    pub fn uncounted(&self) -> usize {
        self.uncounted
    }

    /// Whether one of this kind is among them.
    pub fn has(&self, kind: RepairKind) -> bool {
        self.list.iter().any(|repair| repair.kind == kind)
    }

    /// Adds one, or counts it with another of its kind that said the same of the same tag.
    pub fn add(&mut self, kind: RepairKind, tag: Option<&str>, byte: Option<usize>, done: impl Into<Cow<'static, str>>) {
        let done = done.into();
        let is_same = |repair: &&mut Repair| repair.kind == kind && repair.tag.as_deref() == tag && repair.done == done;
        if let Some(repair) = self.list.iter_mut().find(is_same) {
            repair.count += 1;
        } else if self.list.len() < MAX_REPAIRS {
            self.list.push(Repair { kind, record: self.record, byte, tag: tag.map(str::to_owned), count: 1, done });
        } else {
            self.uncounted += 1;
        }
    }
}

impl<'r> IntoIterator for &'r Repairs {
    type Item = &'r Repair;
    type IntoIter = std::slice::Iter<'r, Repair>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repair_is_a_sentence() {
        let mut repairs = Repairs::new(117);
        let done = "a byte that is not UTF-8 was replaced by U+FFFD";
        for byte in [312, 320, 321] {
            repairs.add(RepairKind::Character, Some("245"), Some(byte), done);
        }
        let sentences: Vec<_> = repairs.into_iter().map(Repair::to_string).collect();
        assert_eq!(sentences, ["field 245: a byte that is not UTF-8 was replaced by U+FFFD at byte 312 (and 2 more)"]);
        (0..100).for_each(|byte| repairs.add(RepairKind::Tag, Some(&byte.to_string()), None, "it was left out"));
        assert_eq!((repairs.list().len(), repairs.uncounted()), (MAX_REPAIRS, 51));
    }
}
