//! Packs the contributions of a record into a column of its row, and unpacks them.
//!
//! A packed list of contributions is: version byte, count, then for each contribution in the order of its contributor:
//!
//! ```text
//! flags        u8      1 tombstone, 2 values are the record's golden values, 4 has raw, 8 has `before`,
//!                      16 retired, 32 retired on arrival, 64 `before` was retired,
//!                      128 values are the golden ones but for those that follow
//! more         u8      1 has `received`, 2 has the `origin` of `before`, 4 `before` has `received`,
//!                      8 `before` was a deletion
//! contributor  text    source, or source ":" part
//! as_of        i64 LE  microseconds, i64::MIN when the document did not say
//! hash         16      of the content
//! generation   varint  of the map that made it
//! job          varint  0 for edits
//! document     varint  number inside the job's files, from 1
//! received     i64 LE  microseconds, if 1 of `more`
//! before       i64 LE, 16, varint   as_of, hash and generation before the job, if flag 8;
//!                      varint, varint   its job and document, if 2 of `more`; i64 LE   when it was received, if 4 of `more`
//! raw          u8 format, varint length, u32 LE sum, if flag 4; the bytes follow each other in the row's raw column
//! values       varint count, then name and value pairs, unless flag 1 or 2
//! unread       varint count, then name, as_of i64 LE, hash 16, a byte, and if it is 1 received i64 LE, job varint, document varint; value
//! corrections  varint count, then name, caller, at i64 LE, a byte, and if it is 1 the reason; varint, which is one more than the number of contributors
//!              and values that follow, or 0
//! sum          u32 LE  of the contribution so far
//! ```
//!
//! and at the end:
//!
//! ```text
//! fields       u32 LE  sum of the names of the fields whose golden values are summed
//! golden       u32 LE  sum of the golden values that documents give
//! ```
//! Texts are a varint length and bytes. Names are used instead of positions, so that fields can be added without changing rows. Contributions mostly
//! agree with the golden values, which the row also has, so only differences are written. Sums are CRC-32: they detect bytes that differ from what
//! was written. If the definition's fields have changed since, golden values are not compared.
//!
//! Versions 1 to 5 can still be read: they have no `corrections`; 1 to 4 have neither `more` nor the parts it announces, nor the byte in `unread`; 1 to 3 have no sums, 1 and 2
//! have no `unread`, and 1 has no flag 128.

use super::correction::{corrections, put_corrections};
use super::{
    Contribution, ContributionContent, ContributionOrigin, KeptDocument, MAX_CONTRIBUTORS, PreviousContribution, Reception, Retirement,
    UnreadableField,
};
use crate::model::definition::{Collection, Field};
use crate::model::ids::FieldId;
use crate::value::{Geometry, Value};
use bytes::Bytes;
use std::sync::Arc;

/// The error for a packed list that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a stored record is damaged: {0}")]
pub struct DecodeError(pub &'static str);

/// The version that is written.
const VERSION: u8 = 6;
/// The first version with unreadable fields.
const WITH_UNREAD: u8 = 3;
/// The first version with sums.
const WITH_SUMS: u8 = 4;
/// The first version with times of reception.
const WITH_RECEPTION: u8 = 5;
/// The first version with corrections.
const WITH_CORRECTIONS: u8 = 6;
/// Bytes of the sums at the end of a list.
const SUMS: usize = 8;

/// Packs contributions. Values equal to the record's `golden` values are not written again.
pub fn pack(contributions: &[Contribution], collection: &Collection, golden: &[Value]) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 * contributions.len() + 2);
    out.push(VERSION);
    put_varint(&mut out, contributions.len() as u64);
    for contribution in contributions {
        let start = out.len();
        let (is_tombstone, written) = match &contribution.content {
            ContributionContent::Tombstone => (true, EncodedValues::SameAsGolden),
            ContributionContent::Values(values) => (false, EncodedValues::choose(values, golden, collection)),
        };
        let before_retired = contribution.before.is_some_and(|before| before.retired);
        let flags = u8::from(is_tombstone)
            | u8::from(written == EncodedValues::SameAsGolden && !is_tombstone) << 1
            | u8::from(contribution.raw.is_some()) << 2
            | u8::from(contribution.before.is_some()) << 3
            | u8::from(!contribution.counts()) << 4
            | u8::from(contribution.retired == Retirement::OnArrival) << 5
            | u8::from(before_retired) << 6
            | u8::from(matches!(written, EncodedValues::Differences(_))) << 7;
        out.push(flags);
        let before_received = contribution.before.and_then(|before| before.received);
        let before_origin = contribution.before.and_then(|before| before.origin);
        let before_deletes = contribution.before.is_some_and(|before| before.deletes);
        out.push(
            u8::from(contribution.received.is_some())
                | u8::from(before_origin.is_some()) << 1
                | u8::from(before_received.is_some()) << 2
                | u8::from(before_deletes) << 3,
        );
        put_bytes(&mut out, contribution.contributor.as_bytes());
        out.extend_from_slice(&contribution.as_of.to_le_bytes());
        out.extend_from_slice(&contribution.hash);
        put_varint(&mut out, u64::from(contribution.generation));
        put_origin(&mut out, contribution.origin);
        put_time(&mut out, contribution.received);
        if let Some(before) = contribution.before {
            out.extend_from_slice(&before.as_of.to_le_bytes());
            out.extend_from_slice(&before.hash);
            put_varint(&mut out, u64::from(before.generation));
            before_origin.into_iter().for_each(|origin| put_origin(&mut out, origin));
            put_time(&mut out, before_received);
        }
        if let Some(raw) = &contribution.raw {
            out.push(raw.syntax);
            put_varint(&mut out, raw.bytes.len() as u64);
            put_sum(&mut out, crc32fast::hash(&raw.bytes));
        }
        if let ContributionContent::Values(values) = &contribution.content {
            put_values(&mut out, values, &written, collection, golden);
        }
        put_varint(&mut out, contribution.unreadable.len() as u64);
        for unread in &contribution.unreadable {
            put_bytes(&mut out, collection.fields[unread.field].name.as_bytes());
            out.extend_from_slice(&unread.as_of.to_le_bytes());
            out.extend_from_slice(&unread.hash);
            out.push(u8::from(unread.received.is_some()));
            if let Some(received) = unread.received {
                put_time(&mut out, Some(received.at));
                put_origin(&mut out, received.origin);
            }
            put_value(&mut out, &unread.value);
        }
        put_corrections(&mut out, &contribution.corrections, collection);
        let sum = crc32fast::hash(&out[start..]);
        put_sum(&mut out, sum);
    }
    out.extend_from_slice(&golden_sums(collection, golden));
    out
}

fn put_origin(out: &mut Vec<u8>, origin: ContributionOrigin) {
    put_varint(out, origin.job);
    put_varint(out, origin.document);
}

fn put_time(out: &mut Vec<u8>, time: Option<i64>) {
    out.extend(time.into_iter().flat_map(i64::to_le_bytes));
}

fn put_sum(out: &mut Vec<u8>, sum: u32) {
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Returns the sums at the end of a list.
fn golden_sums(collection: &Collection, golden: &[Value]) -> [u8; SUMS] {
    let mut fields = crc32fast::Hasher::new();
    let mut values = Vec::with_capacity(256);
    // values settled from other records are written without the list
    let contributed = collection.stored_fields().map(|(_, field)| field).zip(golden).filter(|(field, _)| !field.is_settled() && !field.is_link());
    for (field, value) in contributed {
        fields.update(field.name.as_bytes());
        fields.update(b" ");
        // how a list of structs is read depends on its members
        if !field.golden_type().members().is_empty() {
            fields.update(field.golden_type().to_string().as_bytes());
        }
        match value {
            // databases do not distinguish -0 from 0
            Value::Float(0.0) => put_value(&mut values, &Value::Float(0.0)),
            other => put_value(&mut values, other),
        }
    }
    let mut sums = [0; SUMS];
    sums[..4].copy_from_slice(&fields.finalize().to_le_bytes());
    sums[4..].copy_from_slice(&crc32fast::hash(&values).to_le_bytes());
    sums
}

fn put_values(out: &mut Vec<u8>, values: &[Value], written: &EncodedValues, collection: &Collection, golden: &[Value]) {
    let (count, only_different) = match written {
        EncodedValues::SameAsGolden => return,
        EncodedValues::Differences(count) => (*count, true),
        EncodedValues::All(count) => (*count, false),
    };
    put_varint(out, count);
    for (index, (value, field)) in values.iter().zip(&collection.fields).enumerate() {
        let is_written = if only_different { !is_golden(value, &golden[index], field) } else { !value.is_null() };
        if is_written {
            put_bytes(out, field.name.as_bytes());
            put_value(out, value);
        }
    }
}

/// How the values of a contribution are written.
#[derive(PartialEq)]
enum EncodedValues {
    /// None: all are equal to the golden values.
    SameAsGolden,
    /// This many, which differ from the golden values.
    Differences(u64),
    /// This many: all.
    All(u64),
}

impl EncodedValues {
    fn choose(values: &[Value], golden: &[Value], collection: &Collection) -> Self {
        if std::ptr::eq(values, golden) {
            return EncodedValues::SameAsGolden;
        }
        let present_count = || values.iter().filter(|value| !value.is_null()).count() as u64;
        if values.len() != golden.len() {
            return EncodedValues::All(present_count());
        }
        let fields = values.iter().zip(golden).zip(&collection.fields);
        let different = fields.filter(|((value, golden), field)| !is_golden(value, golden, field)).count() as u64;
        match different {
            0 => EncodedValues::SameAsGolden,
            different if different < present_count() => EncodedValues::Differences(different),
            _ => EncodedValues::All(present_count()),
        }
    }
}

/// Whether a contributed value equals the golden value; for a derived field, whether there is none.
fn is_golden(value: &Value, golden: &Value, field: &Field) -> bool {
    match field.derive {
        Some(_) => value.is_null(),
        None => value == golden,
    }
}

/// Returns the raw column of a row: the documents of `contributions`, concatenated.
pub fn pack_raw(contributions: &[Contribution]) -> Option<Bytes> {
    let mut documents = contributions.iter().filter_map(|contribution| contribution.raw.as_ref());
    let first = documents.next()?;
    let Some(second) = documents.next() else { return Some(first.bytes.clone()) };
    let mut all = [&first.bytes[..], &second.bytes[..]].concat();
    documents.for_each(|raw| all.extend_from_slice(&raw.bytes));
    Some(all.into())
}

/// A packed list that may be damaged.
#[derive(Debug, Default)]
pub struct UnpackedContributions {
    /// The contributions.
    pub contributions: Vec<Contribution>,
    /// Positions of contributions that fail their checksum, or whose documents do.
    pub damaged: Vec<usize>,
    /// Whether the golden values of the row fail their checksum.
    pub golden_is_damaged: bool,
}

/// Unpacks the list of a row and verifies the checksums. Values that equal golden ones are taken from `golden`; without `raw`, documents are left
/// empty.
///
/// # Errors
/// When the bytes are not a packed list, or a checksum is wrong.
pub fn unpack(packed: &[u8], collection: &Collection, golden: &[Value], raw: Option<&[u8]>) -> Result<Vec<Contribution>, DecodeError> {
    let found = unpack_reporting_damage(packed, collection, golden, raw)?;
    match (found.damaged.is_empty(), found.golden_is_damaged) {
        (false, _) => Err(DecodeError("a contribution fails its checksum")),
        (_, true) => Err(DecodeError("its golden values fail their checksum")),
        _ => Ok(found.contributions),
    }
}

/// The same as [`unpack`], but reports wrong checksums in the result.
///
/// # Errors
/// When the bytes are not a packed list.
pub fn unpack_reporting_damage(
    packed: &[u8],
    collection: &Collection,
    golden: &[Value],
    raw: Option<&[u8]>,
) -> Result<UnpackedContributions, DecodeError> {
    let mut input = Decoder { bytes: packed };
    let version = input.byte()?;
    if !matches!(version, 1..=VERSION) {
        return Err(DecodeError("unknown version of contributions"));
    }
    let has_sums = version >= WITH_SUMS;
    let mut found = UnpackedContributions::default();
    let count = input.varint()? as usize;
    if count > MAX_CONTRIBUTORS {
        return Err(DecodeError("too many contributors"));
    }
    let mut remaining_raw = raw;
    // a contribution has at least 30 bytes
    found.contributions.reserve(count.min(packed.len() / 30 + 1));
    for position in 0..count {
        let start = input.bytes;
        let mut is_sound = true;
        let flags = input.byte()?;
        let more_flags = if version >= WITH_RECEPTION { input.byte()? } else { 0 };
        let contributor = input.text()?.into();
        let as_of = input.time()?;
        let hash = input.array()?;
        let generation = input.varint()? as u32;
        let origin = input.origin()?;
        let received = if more_flags & 1 != 0 { Some(input.time()?) } else { None };
        let before = if flags & 8 != 0 {
            let (as_of, hash, generation) = (input.time()?, input.array()?, input.varint()? as u32);
            let origin = if more_flags & 2 != 0 { Some(input.origin()?) } else { None };
            let received = if more_flags & 4 != 0 { Some(input.time()?) } else { None };
            let (retired, deletes) = (flags & 64 != 0, more_flags & 8 != 0);
            Some(PreviousContribution { as_of, received, hash, generation, retired, deletes, origin })
        } else {
            None
        };
        let raw = if flags & 4 != 0 {
            let format = input.byte()?;
            let length = input.varint()? as usize;
            let sum = if has_sums { Some(input.sum()?) } else { None };
            let bytes = match remaining_raw {
                None => Bytes::new(),
                Some(column) => {
                    let (document, remaining) = column.split_at_checked(length).ok_or(DecodeError("raw documents are shorter than announced"))?;
                    remaining_raw = Some(remaining);
                    is_sound &= sum.is_none_or(|sum| sum == crc32fast::hash(document));
                    Bytes::copy_from_slice(document)
                }
            };
            Some(KeptDocument { syntax: format, bytes })
        } else {
            None
        };
        let content = if flags & 1 != 0 {
            ContributionContent::Tombstone
        } else {
            let golden = if flags & (2 | 128) == 0 { &[] } else { golden };
            let golden_value =
                |(index, field): (FieldId, &Field)| golden.get(index.index()).filter(|_| field.derive.is_none()).cloned().unwrap_or_default();
            let mut values: Arc<[Value]> = collection.fields.enumerate().map(golden_value).collect();
            let value_count = if flags & 2 == 0 { input.varint()? } else { 0 };
            let mut next = 0;
            for _ in 0..value_count {
                let name = input.text()?;
                let value = input.value(0)?;
                // fields are in order, so the next one usually matches; a field that the definition no longer has is ignored
                let found = (next..values.len()).chain(0..next).find(|index| collection.fields[FieldId::from(*index)].name == name);
                if let Some(index) = found {
                    Arc::make_mut(&mut values)[index] = value;
                    next = index + 1;
                }
            }
            ContributionContent::Values(values)
        };
        let retired = match flags & 48 {
            0 => Retirement::None,
            16 => Retirement::ByLaterDelivery,
            _ => Retirement::OnArrival,
        };
        let unread = if version >= WITH_UNREAD { unread(&mut input, collection, version >= WITH_RECEPTION)? } else { Vec::new() };
        let corrections = if version >= WITH_CORRECTIONS { corrections(&mut input, collection)? } else { Vec::new() };
        if has_sums {
            let contribution_bytes = &start[..start.len() - input.bytes.len()];
            is_sound &= input.sum()? == crc32fast::hash(contribution_bytes);
        }
        if !is_sound {
            found.damaged.push(position);
        }
        found.contributions.push(Contribution {
            contributor,
            as_of,
            received,
            hash,
            generation,
            origin,
            before,
            retired,
            content,
            raw,
            unreadable: unread,
            corrections,
        });
    }
    if has_sums {
        let written: [u8; SUMS] = input.array()?;
        let current_sums = golden_sums(collection, golden);
        // values of a record without contributions all follow from other records, and are compared with those
        let is_comparable = count > 0 && golden.len() == collection.fields.len() && current_sums[..4] == written[..4];
        found.golden_is_damaged = is_comparable && current_sums != written;
        if !input.bytes.is_empty() || remaining_raw.is_some_and(|remaining_raw| !remaining_raw.is_empty()) {
            return Err(DecodeError("there are bytes after its end"));
        }
    }
    Ok(found)
}

fn unread(input: &mut Decoder<'_>, collection: &Collection, with_reception: bool) -> Result<Vec<UnreadableField>, DecodeError> {
    let mut all = Vec::new();
    for _ in 0..input.varint()? {
        let name = input.text()?;
        let (as_of, hash) = (input.time()?, input.array()?);
        let has_reception = with_reception && input.byte()? != 0;
        let received = if has_reception { Some(Reception { at: input.time()?, origin: input.origin()? }) } else { None };
        let value = input.value(0)?;
        // a field that the definition no longer has is ignored
        all.extend(collection.field(name).map(|(field, _)| UnreadableField { field, as_of, received, hash, value }));
    }
    Ok(all)
}

// --- primitives ---------------------------------------------------------------------------------------------------------

/// Appends an unsigned integer, seven bits per byte, lowest first.
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
        Value::Geometry(geometry) => {
            out.push(9);
            put_bytes(out, &geometry.to_bytes());
        }
    }
}

/// Reads the primitives above.
#[derive(Debug, Clone, Copy)]
pub struct Decoder<'a> {
    /// The bytes that are left.
    pub bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Reads a byte.
    ///
    /// # Errors
    /// At the end.
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.bytes.split_first().ok_or(DecodeError("it ends too early"))?;
        self.bytes = rest;
        Ok(*first)
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (first, rest) = self.bytes.split_first_chunk::<N>().ok_or(DecodeError("it ends too early"))?;
        self.bytes = rest;
        Ok(*first)
    }

    /// Reads a sum.
    fn sum(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads a time, in microseconds.
    fn time(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Reads a job and a document.
    fn origin(&mut self) -> Result<ContributionOrigin, DecodeError> {
        Ok(ContributionOrigin { job: self.varint()?, document: self.varint()? })
    }

    /// Reads an unsigned integer.
    ///
    /// # Errors
    /// At the end, or when it has more than 64 bits.
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(DecodeError("a number has too many bytes"))
    }

    /// Reads a length and that many bytes.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn slice(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.varint()? as usize;
        let (slice, rest) = self.bytes.split_at_checked(length).ok_or(DecodeError("it ends too early"))?;
        self.bytes = rest;
        Ok(slice)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// When it is incomplete or not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.slice()?).map_err(|_| DecodeError("a text is not UTF-8"))
    }

    /// Reads a value. Lists must not be nested: `depth` is 0 outside of one.
    ///
    /// # Errors
    /// When the bytes are not a value.
    pub fn value(&mut self, depth: u8) -> Result<Value, DecodeError> {
        Ok(match self.byte()? {
            0 => Value::Null,
            1 => Value::Bool(self.byte()? != 0),
            2 => Value::Int(i64::from_le_bytes(self.array()?)),
            3 => Value::Float(f64::from_bits(u64::from_le_bytes(self.array()?))),
            4 => Value::text(self.text()?),
            5 => Value::Uuid(u128::from_be_bytes(self.array()?)),
            6 => {
                let json = serde_json::from_slice(self.slice()?).map_err(|_| DecodeError("a value is not JSON"))?;
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
            9 => {
                let geometry = Geometry::from_bytes(self.slice()?).map_err(|_| DecodeError("a value is not a geometry"))?;
                Value::Geometry(Arc::new(geometry))
            }
            _ => return Err(DecodeError("unknown kind of value")),
        })
    }
}
