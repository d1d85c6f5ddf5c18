//! The record model: contributions, their age and order.

mod correction;
mod packed;

pub use correction::{Correction, MAX_REASON};
pub use packed::{DecodeError, Decoder, UnpackedContributions, pack, pack_raw, put_bytes, put_value, put_varint, unpack, unpack_reporting_damage};

use crate::model::ids::FieldId;
use crate::value::{SmolStr, Value};
use bytes::Bytes;
use std::sync::Arc;

/// A 128-bit content hash.
pub type Hash = [u8; 16];

/// The `as_of` of a document without a time of its own: older than all others.
pub const UNKNOWN_TIME: i64 = i64::MIN;

/// Max contributors of a record; if there are more, those with the newest contributions are kept, see [`keep_newest`].
pub const MAX_CONTRIBUTORS: usize = 10_000;

/// When a document was received, relative to all documents of its store: the time at which its delivery was accepted, and its position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reception {
    /// When its job was created, or the request that contained it was accepted, in microseconds by the store's clock.
    pub at: i64,
    /// The job and the document's number in it, which order documents accepted at the same time.
    pub origin: ContributionOrigin,
}

/// The age of a contribution: of two contributions of one contributor to one record, the one with the greater age counts. A contribution stored
/// without a reception is older than one received at the same as-of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContributionAge {
    /// The as-of time.
    pub as_of: i64,
    /// The reception, if its source orders documents with the same as-of time by that.
    pub received: Option<Reception>,
    /// Hash of the content; breaks ties.
    pub hash: Hash,
}

impl ContributionAge {
    /// Returns the age without the hash. Contributions with equal moments are ordered only by their content.
    pub fn moment(&self) -> (i64, Option<Reception>) {
        (self.as_of, self.received)
    }
}

/// What one contributor contributes to one record.
#[derive(Debug, Clone, PartialEq)]
pub struct Contribution {
    /// A source, or `source:part`.
    pub contributor: SmolStr,
    /// The as-of time, in microseconds, or [`UNKNOWN_TIME`].
    pub as_of: i64,
    /// When its delivery was accepted, in microseconds, if its source orders documents with the same as-of time by that; see [`Reception`].
    pub received: Option<i64>,
    /// Hash of the content; breaks ties.
    pub hash: Hash,
    /// The store's number of the mapping's generation.
    pub generation: u32,
    /// The job and document it was read from.
    pub origin: ContributionOrigin,
    /// What is remembered of the contributor's contribution before the job of `origin`.
    pub before: Option<PreviousContribution>,
    /// Whether it was retired by a complete delivery that does not repeat it.
    pub retired: Retirement,
    /// The content.
    pub content: ContributionContent,
    /// The document, if the collection keeps it.
    pub raw: Option<KeptDocument>,
    /// Fields with an unreadable value in this contribution, in the order of fields, each with its last readable value.
    pub unreadable: Vec<UnreadableField>,
    /// What is known of edits of its fields, in the order of fields; only in the contribution of the API.
    pub corrections: Vec<Correction>,
}

/// A field whose value in a contributor's newest contribution is unreadable. It keeps the value of the newest contribution of the contributor in
/// which it could be read: an unreadable value withdraws nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct UnreadableField {
    /// The field.
    pub field: FieldId,
    /// The as-of time of the kept value; [`UNKNOWN_TIME`] if there is none.
    pub as_of: i64,
    /// When the document with the kept value was received, if known.
    pub received: Option<Reception>,
    /// Hash of the content with the kept value.
    pub hash: Hash,
    /// The kept value; null if no contribution is known in which the field could be read, or if that contribution had no value for it.
    pub value: Value,
}

impl UnreadableField {
    /// Creates an entry without a kept value.
    pub fn new(field: FieldId) -> Self {
        Self { field, as_of: UNKNOWN_TIME, received: None, hash: Hash::default(), value: Value::Null }
    }

    fn age(&self) -> ContributionAge {
        ContributionAge { as_of: self.as_of, received: self.received, hash: self.hash }
    }
}

/// Reduces the contributions of a record to [`MAX_CONTRIBUTORS`]: those with the latest as-of times, then the greatest contributor names. The result
/// does not depend on the order of arrival, because contributors only get newer.
///
/// Removed contributions also lose the values they contributed before, so a full record keeps no such values: its unreadable fields have no value.
/// Returns the removed contributions.
pub fn keep_newest(contributions: &mut Vec<Contribution>) -> Vec<Contribution> {
    if contributions.len() < MAX_CONTRIBUTORS {
        return Vec::new();
    }
    contributions.sort_by(|a, b| (b.as_of, &b.contributor).cmp(&(a.as_of, &a.contributor)));
    for unreadable in contributions.iter_mut().flat_map(|contribution| &mut contribution.unreadable) {
        *unreadable = UnreadableField::new(unreadable.field);
    }
    contributions.split_off(MAX_CONTRIBUTORS)
}

impl Contribution {
    /// Returns its value for a field, with the age of that value; `None` if it has no value.
    pub fn value(&self, field: FieldId) -> Option<(&Value, ContributionAge)> {
        let ContributionContent::Values(values) = &self.content else { return None };
        let (value, age) = match self.unreadable.iter().find(|unread| unread.field == field) {
            Some(unread) => (&unread.value, unread.age()),
            None => (values.get(field.index())?, self.age()),
        };
        (!value.is_null()).then_some((value, age))
    }

    /// The time of its value for a field, or its own if it has none.
    pub fn value_as_of(&self, field: FieldId) -> i64 {
        self.value(field).map_or(self.as_of, |(_, age)| age.as_of)
    }

    /// Takes over, for unreadable fields, the values of an older contribution of the same contributor, if they are newer than those known so far.
    /// Returns whether anything changed.
    pub fn inherit_unreadable(&mut self, older: &Contribution) -> bool {
        self.inherit(older, |field| {
            let value = match &older.content {
                ContributionContent::Values(values) => values.get(field.index()).cloned().unwrap_or_default(),
                // a deletion leaves no value of any field
                ContributionContent::Tombstone => Value::Null,
            };
            let ContributionAge { as_of, received, hash } = older.age();
            Some(UnreadableField { field, as_of, received, hash, value })
        })
    }

    /// The same for a contribution that this one replaces although it is not newer: takes over only the values that it had taken over itself.
    pub fn inherit_unreadable_of_replaced(&mut self, replaced: &Contribution) -> bool {
        self.inherit(replaced, |_| None)
    }

    fn inherit(&mut self, older: &Contribution, fallback: impl Fn(FieldId) -> Option<UnreadableField>) -> bool {
        let mut changed = false;
        for unread in &mut self.unreadable {
            let inherited = older.unreadable.iter().find(|candidate| candidate.field == unread.field);
            if let Some(found) = inherited.cloned().or_else(|| fallback(unread.field)).filter(|found| found.age() > unread.age()) {
                *unread = found;
                changed = true;
            }
        }
        changed
    }

    /// Returns the source part of the contributor.
    pub fn source(&self) -> &str {
        self.contributor.split(':').next().unwrap_or(&self.contributor)
    }

    /// Whether a link with `create` made it: its contributor is COLLECTION.LINK, and names of sources have no dot.
    pub fn is_from_link(&self) -> bool {
        self.source().contains('.')
    }

    /// Whether it counts, because it is not retired.
    pub fn counts(&self) -> bool {
        self.retired == Retirement::None
    }

    /// The order of contributions of all contributors by their age.
    pub(crate) fn order(&self) -> (ContributionAge, &str) {
        (self.age(), &self.contributor)
    }

    /// The age by which contributions of one contributor replace each other.
    pub fn age(&self) -> ContributionAge {
        let received = self.received.map(|at| Reception { at, origin: self.origin });
        ContributionAge { as_of: self.as_of, received, hash: self.hash }
    }

    /// Returns what is remembered of it when another job replaces it.
    pub fn previous(&self) -> PreviousContribution {
        let Contribution { as_of, received, hash, generation, origin, .. } = *self;
        let (retired, deletes) = (!self.counts(), self.content == ContributionContent::Tombstone);
        PreviousContribution { as_of, received, hash, generation, retired, deletes, origin: Some(origin) }
    }
}

/// Whether a complete delivery has retired a contribution: it is then kept, but does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Retirement {
    /// It counts.
    #[default]
    None,
    /// Retired by a newer delivery that arrived after it.
    ByLaterDelivery,
    /// Retired on arrival, by a newer delivery that had arrived before it.
    OnArrival,
}

/// What is remembered of a contribution before a job, as far as outcomes need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreviousContribution {
    /// The as-of time.
    pub as_of: i64,
    /// When its delivery was accepted, if its source orders documents by that.
    pub received: Option<i64>,
    /// Hash of the content.
    pub hash: Hash,
    /// The store's number of the mapping's generation.
    pub generation: u32,
    /// Whether it was retired.
    pub retired: bool,
    /// Whether it said that the record was deleted; false if an earlier version of Stook wrote it.
    pub deletes: bool,
    /// The job and document it was read from; unknown if an earlier version of Stook wrote it.
    pub origin: Option<ContributionOrigin>,
}

impl PreviousContribution {
    /// The age by which contributions of one contributor replace each other.
    pub fn age(&self) -> ContributionAge {
        let received = self.received.map(|at| Reception { at, origin: self.origin.unwrap_or_default() });
        ContributionAge { as_of: self.as_of, received, hash: self.hash }
    }
}

/// The job and document that a contribution was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ContributionOrigin {
    /// The import job; 0 for edits.
    pub job: u64,
    /// The number of the document within the job, from 1.
    pub document: u64,
}

/// The content of a contribution.
#[derive(Debug, Clone, PartialEq)]
pub enum ContributionContent {
    /// A value for each field of the collection; shared with the golden values if both are the same.
    Values(Arc<[Value]>),
    /// The record was deleted.
    Tombstone,
}

/// A kept document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptDocument {
    /// The number of the format, as `formats` assigns it.
    pub syntax: u8,
    /// The bytes, often shared with the chunk they were read in.
    pub bytes: Bytes,
}
