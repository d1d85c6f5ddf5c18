//! The record model: contributions and how they are packed into a record's row.
//!
//! A packed list of contributions is: version byte 2, count, then for each contribution in the order of its contributor:
//!
//! ```text
//! flags        u8      1 tombstone, 2 values are the record's golden values, 4 has raw, 8 has `before`,
//!                      16 retired, 32 retired on arrival, 64 `before` was retired,
//!                      128 values are the golden ones but for those that follow
//! contributor  text    source, or source ":" part
//! as_of        i64 LE  microseconds, i64::MIN when the document did not say
//! hash         16      of the content
//! generation   varint  of the map that made it
//! job          varint  0 for edits
//! document     varint  number inside the job's files, from 1
//! before       i64 LE, 16, varint   as_of, hash and generation before the job, if flag 8
//! raw          u8 format, varint length, if flag 4; the bytes follow each other in the row's raw column
//! values       varint count, then name and value pairs, unless flag 1 or 2
//! ```
//! Texts are a varint length and bytes. Names instead of positions let fields be added without touching a row. Contributors
//! mostly say the same, so of the golden values, which stand beside the list, only differences are written. Version 1, which is
//! still read, is the same without flag 128.

use crate::definition::{Collection, Field};
use crate::value::{SmolStr, Value};
use bytes::Bytes;
use std::sync::Arc;

/// A 128-bit content hash.
pub type Hash = [u8; 16];

/// The `as_of` of a document that does not say when it was true: older than everything.
pub const UNKNOWN_TIME: i64 = i64::MIN;

/// Most contributors a record may have.
pub const MAX_CONTRIBUTORS: usize = 64;

/// What one contributor says of one record.
#[derive(Debug, Clone, PartialEq)]
pub struct Contribution {
    /// A source, or `source:part`.
    pub contributor: SmolStr,
    /// When it was true, in microseconds, or [`UNKNOWN_TIME`].
    pub as_of: i64,
    /// Hash of the content; breaks ties.
    pub hash: Hash,
    /// The store's number for the map that made the values.
    pub generation: u32,
    /// Where it was read.
    pub origin: Origin,
    /// What the contributor had said before the job of `origin`.
    pub before: Option<Before>,
    /// Whether a newer delivery has taken its place without naming the record.
    pub retired: Retired,
    /// The content.
    pub said: Said,
    /// The document, if the collection keeps it.
    pub raw: Option<Raw>,
}

impl Contribution {
    /// The source part of the contributor.
    pub fn source(&self) -> &str {
        self.contributor.split(':').next().unwrap_or(&self.contributor)
    }

    /// Whether it counts.
    pub fn is_heard(&self) -> bool {
        self.retired == Retired::No
    }

    /// The order in which a contributor's statements replace each other.
    pub fn age(&self) -> (i64, Hash) {
        (self.as_of, self.hash)
    }
}

/// Whether a complete delivery has taken the place of a contribution: then it is kept, and not heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Retired {
    /// It is heard.
    #[default]
    No,
    /// By one that came later.
    Later,
    /// By one that had come before.
    OnArrival,
}

/// What a contributor had said before a job, as far as outcomes need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    /// When it was true.
    pub as_of: i64,
    /// Hash of the content.
    pub hash: Hash,
    /// The store's number for the map that made it.
    pub generation: u32,
    /// Whether it was retired.
    pub retired: bool,
}

/// Where a contribution was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origin {
    /// The import job; 0 for edits.
    pub job: u64,
    /// Number of the document inside the job, from 1.
    pub document: u64,
}

/// The content of a contribution.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// A value per field of the collection; shared with the golden values where both are the same.
    Values(Arc<[Value]>),
    /// The record was deleted.
    Gone,
}

/// A kept document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    /// The format's number, as `formats` gives it.
    pub format: u8,
    /// The bytes, often shared with the chunk they were read in.
    pub bytes: Bytes,
}

/// A packed list of contributions that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a stored record is damaged: {0}")]
pub struct Damaged(pub &'static str);

/// Packs contributions. `golden` are the record's golden values: what is equal to them is not written twice.
pub fn pack(contributions: &[Contribution], collection: &Collection, golden: &[Value]) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 * contributions.len() + 2);
    out.push(2);
    put_varint(&mut out, contributions.len() as u64);
    for contribution in contributions {
        let (gone, written) = match &contribution.said {
            Said::Gone => (true, Written::Nothing),
            Said::Values(values) => (false, Written::of(values, golden, collection)),
        };
        let before_retired = contribution.before.is_some_and(|before| before.retired);
        let flags = u8::from(gone)
            | u8::from(written == Written::Nothing && !gone) << 1
            | u8::from(contribution.raw.is_some()) << 2
            | u8::from(contribution.before.is_some()) << 3
            | u8::from(!contribution.is_heard()) << 4
            | u8::from(contribution.retired == Retired::OnArrival) << 5
            | u8::from(before_retired) << 6
            | u8::from(matches!(written, Written::Different(_))) << 7;
        out.push(flags);
        put_bytes(&mut out, contribution.contributor.as_bytes());
        out.extend_from_slice(&contribution.as_of.to_le_bytes());
        out.extend_from_slice(&contribution.hash);
        put_varint(&mut out, u64::from(contribution.generation));
        put_varint(&mut out, contribution.origin.job);
        put_varint(&mut out, contribution.origin.document);
        if let Some(before) = contribution.before {
            out.extend_from_slice(&before.as_of.to_le_bytes());
            out.extend_from_slice(&before.hash);
            put_varint(&mut out, u64::from(before.generation));
        }
        if let Some(raw) = &contribution.raw {
            out.push(raw.format);
            put_varint(&mut out, raw.bytes.len() as u64);
        }
        let Said::Values(values) = &contribution.said else { continue };
        let (count, only_different) = match written {
            Written::Nothing => continue,
            Written::Different(count) => (count, true),
            Written::All(count) => (count, false),
        };
        put_varint(&mut out, count);
        for (index, (value, field)) in values.iter().zip(&collection.fields).enumerate() {
            let is_written = if only_different { !is_golden(value, &golden[index], field) } else { !value.is_null() };
            if is_written {
                put_bytes(&mut out, field.name.as_bytes());
                put_value(&mut out, value);
            }
        }
    }
    out
}

/// Which values of a contribution are written.
#[derive(PartialEq)]
enum Written {
    /// All are the golden ones.
    Nothing,
    /// As many as are not the golden ones.
    Different(u64),
    /// As many as there are.
    All(u64),
}

impl Written {
    fn of(values: &[Value], golden: &[Value], collection: &Collection) -> Self {
        if std::ptr::eq(values, golden) {
            return Written::Nothing;
        }
        let said = || values.iter().filter(|value| !value.is_null()).count() as u64;
        if values.len() != golden.len() {
            return Written::All(said());
        }
        let fields = values.iter().zip(golden).zip(&collection.fields);
        let different = fields.filter(|((value, golden), field)| !is_golden(value, golden, field)).count() as u64;
        match different {
            0 => Written::Nothing,
            different if different < said() => Written::Different(different),
            _ => Written::All(said()),
        }
    }
}

/// Whether a contributed value is the golden one; nothing, of a derived field.
fn is_golden(value: &Value, golden: &Value, field: &Field) -> bool {
    match field.derive {
        Some(_) => value.is_null(),
        None => value == golden,
    }
}

/// The raw column of a row: the documents of `contributions`, one after the other.
pub fn pack_raw(contributions: &[Contribution]) -> Option<Bytes> {
    let mut kept = contributions.iter().filter_map(|contribution| contribution.raw.as_ref());
    let first = kept.next()?;
    let Some(second) = kept.next() else { return Some(first.bytes.clone()) };
    let mut all = [&first.bytes[..], &second.bytes[..]].concat();
    kept.for_each(|raw| all.extend_from_slice(&raw.bytes));
    Some(all.into())
}

/// Reads a packed list. Values that equal the golden ones are taken from `golden`; without `raw` documents are left empty.
///
/// # Errors
/// When the bytes are not a packed list.
pub fn unpack(packed: &[u8], collection: &Collection, golden: &[Value], raw: Option<&[u8]>) -> Result<Vec<Contribution>, Damaged> {
    let mut input = Input { bytes: packed };
    if !matches!(input.byte()?, 1 | 2) {
        return Err(Damaged("unknown version of contributions"));
    }
    let count = input.varint()? as usize;
    if count > MAX_CONTRIBUTORS {
        return Err(Damaged("too many contributors"));
    }
    let mut rest = raw;
    let mut contributions = Vec::with_capacity(count);
    for _ in 0..count {
        let flags = input.byte()?;
        let contributor = input.text()?.into();
        let as_of = i64::from_le_bytes(input.array()?);
        let hash = input.array()?;
        let generation = input.varint()? as u32;
        let origin = Origin { job: input.varint()?, document: input.varint()? };
        let before = if flags & 8 != 0 {
            let as_of = i64::from_le_bytes(input.array()?);
            Some(Before { as_of, hash: input.array()?, generation: input.varint()? as u32, retired: flags & 64 != 0 })
        } else {
            None
        };
        let raw = if flags & 4 != 0 {
            let format = input.byte()?;
            let length = input.varint()? as usize;
            let bytes = match rest {
                None => Bytes::new(),
                Some(column) => {
                    let (own, others) = column.split_at_checked(length).ok_or(Damaged("raw documents are shorter than announced"))?;
                    rest = Some(others);
                    Bytes::copy_from_slice(own)
                }
            };
            Some(Raw { format, bytes })
        } else {
            None
        };
        let said = if flags & 1 != 0 {
            Said::Gone
        } else {
            let golden = if flags & (2 | 128) == 0 { &[] } else { golden };
            let own = |(index, field): (usize, &Field)| golden.get(index).filter(|_| field.derive.is_none()).cloned().unwrap_or_default();
            let mut values: Arc<[Value]> = collection.fields.iter().enumerate().map(own).collect();
            let said = if flags & 2 == 0 { input.varint()? } else { 0 };
            let mut next = 0;
            for _ in 0..said {
                let name = input.text()?;
                let value = input.value(0)?;
                // fields come in order, so the next one is usually the right one; a field the definition dropped is ignored
                let found = (next..values.len()).chain(0..next).find(|index| collection.fields[*index].name == name);
                if let Some(index) = found {
                    Arc::make_mut(&mut values)[index] = value;
                    next = index + 1;
                }
            }
            Said::Values(values)
        };
        let retired = match flags & 48 {
            0 => Retired::No,
            16 => Retired::Later,
            _ => Retired::OnArrival,
        };
        contributions.push(Contribution { contributor, as_of, hash, generation, origin, before, retired, said, raw });
    }
    Ok(contributions)
}

// --- primitives ---------------------------------------------------------------------------------------------------------

/// Appends an unsigned integer, seven bits a byte, lowest first.
pub fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a length and bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a value: a tag byte and its payload. Equal values have equal bytes.
pub fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(0),
        Value::Bool(value) => out.extend_from_slice(&[1, u8::from(*value)]),
        Value::Int(number) => {
            out.push(2);
            out.extend_from_slice(&number.to_le_bytes());
        }
        Value::Float(number) => {
            out.push(3);
            out.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        Value::Text(text) => {
            out.push(4);
            put_bytes(out, text.as_bytes());
        }
        Value::Uuid(id) => {
            out.push(5);
            out.extend_from_slice(&id.to_be_bytes());
        }
        Value::Json(json) => {
            out.push(6);
            put_bytes(out, crate::value::canonical_json(json).as_bytes());
        }
        Value::List(items) => {
            out.push(7);
            put_varint(out, items.len() as u64);
            items.iter().for_each(|item| put_value(out, item));
        }
        Value::Cleared => out.push(8),
    }
}

/// A reader of the primitives above.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// What is left to read.
    pub bytes: &'a [u8],
}

impl<'a> Input<'a> {
    /// The next byte.
    ///
    /// # Errors
    /// At the end.
    pub fn byte(&mut self) -> Result<u8, Damaged> {
        let (first, rest) = self.bytes.split_first().ok_or(Damaged("it ends too early"))?;
        self.bytes = rest;
        Ok(*first)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let (first, rest) = self.bytes.split_first_chunk::<N>().ok_or(Damaged("it ends too early"))?;
        self.bytes = rest;
        Ok(*first)
    }

    /// The next unsigned integer.
    ///
    /// # Errors
    /// At the end, or when it has more than 64 bits.
    pub fn varint(&mut self) -> Result<u64, Damaged> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Damaged("a number has too many bytes"))
    }

    /// The next length and bytes.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn slice(&mut self) -> Result<&'a [u8], Damaged> {
        let length = self.varint()? as usize;
        let (own, rest) = self.bytes.split_at_checked(length).ok_or(Damaged("it ends too early"))?;
        self.bytes = rest;
        Ok(own)
    }

    /// The next text.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Damaged> {
        std::str::from_utf8(self.slice()?).map_err(|_| Damaged("a text is not UTF-8"))
    }

    /// The next value.
    ///
    /// # Errors
    /// When the bytes are not one.
    pub fn value(&mut self, depth: u8) -> Result<Value, Damaged> {
        Ok(match self.byte()? {
            0 => Value::Null,
            1 => Value::Bool(self.byte()? != 0),
            2 => Value::Int(i64::from_le_bytes(self.array()?)),
            3 => Value::Float(f64::from_bits(u64::from_le_bytes(self.array()?))),
            4 => Value::text(self.text()?),
            5 => Value::Uuid(u128::from_be_bytes(self.array()?)),
            6 => {
                let json = serde_json::from_slice(self.slice()?).map_err(|_| Damaged("a value is not JSON"))?;
                Value::Json(Arc::new(json))
            }
            7 if depth == 0 => {
                let count = self.varint()? as usize;
                let mut items = Vec::with_capacity(count.min(1024));
                for _ in 0..count {
                    items.push(self.value(1)?);
                }
                Value::List(items)
            }
            8 => Value::Cleared,
            _ => return Err(Damaged("unknown kind of value")),
        })
    }
}
