//! The record model: what contributors say of a record.

mod packed;

pub use packed::{DecodeError, Decoder, UnpackedContributions, find, pack, pack_raw, put_bytes, put_value, put_varint, unpack};

use crate::model::ids::FieldId;
use crate::value::{SmolStr, Value};
use bytes::Bytes;
use std::sync::Arc;

/// A 128-bit content hash.
pub type Hash = [u8; 16];

/// The `as_of` of a document that does not say when it was true: older than everything.
pub const UNKNOWN_TIME: i64 = i64::MIN;

/// Most contributors of a record that are kept: of more, those whose statements are the newest, see [`keep_newest`].
pub const MAX_CONTRIBUTORS: usize = 10_000;

/// When a document was received, among all that its store has received: what its delivery was accepted at, and its place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reception {
    /// When its job was created, or the request that contained it was accepted, in microseconds by the store's clock.
    pub at: i64,
    /// The job and the document's number in it: of what was accepted at one time, the one of the greater number is the later one.
    pub origin: ContributionOrigin,
}

/// How old a contribution is: of two of one contributor about one record the greater one counts. What was stored without a reception is
/// older than what was received at the same as-of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContributionAge {
    /// When it was true.
    pub as_of: i64,
    /// When it was received, where its source orders documents of one time by that.
    pub received: Option<Reception>,
    /// Hash of the content; breaks ties.
    pub hash: Hash,
}

impl ContributionAge {
    /// The age without the content: contributions of one moment are ordered by nothing but what they say.
    pub fn moment(&self) -> (i64, Option<Reception>) {
        (self.as_of, self.received)
    }
}

/// What one contributor says of one record.
#[derive(Debug, Clone, PartialEq)]
pub struct Contribution {
    /// A source, or `source:part`.
    pub contributor: SmolStr,
    /// When it was true, in microseconds, or [`UNKNOWN_TIME`].
    pub as_of: i64,
    /// When its delivery was accepted, in microseconds, where its source orders documents of one time by that; see [`Reception`].
    pub received: Option<i64>,
    /// Hash of the content; breaks ties.
    pub hash: Hash,
    /// The store's number for the map that made the values.
    pub generation: u32,
    /// Where it was read.
    pub origin: ContributionOrigin,
    /// What the contributor had said before the job of `origin`.
    pub before: Option<PreviousContribution>,
    /// Whether a newer delivery has taken its place without naming the record.
    pub retired: Retirement,
    /// The content.
    pub content: ContributionContent,
    /// The document, if the collection keeps it.
    pub raw: Option<KeptDocument>,
    /// Fields whose value in this statement could not be read, in the order of fields, and what was said of them before.
    pub unreadable: Vec<UnreadableField>,
}

/// A field whose value in a contributor's newest statement could not be read. It has the value of the newest statement of the
/// contributor in which it could: what nobody can read takes nothing back.
#[derive(Debug, Clone, PartialEq)]
pub struct UnreadableField {
    /// The field's index.
    pub field: FieldId,
    /// When the value was said; [`UNKNOWN_TIME`] where there is none.
    pub as_of: i64,
    /// When the document that said it was received, where that is known.
    pub received: Option<Reception>,
    /// Hash of the content that said it.
    pub hash: Hash,
    /// The value; null where no statement is known in which the field could be read, or where that did not say anything of it.
    pub value: Value,
}

impl UnreadableField {
    /// A field of which nothing is known yet.
    pub fn new(field: FieldId) -> Self {
        Self { field, as_of: UNKNOWN_TIME, received: None, hash: Hash::default(), value: Value::Null }
    }

    fn age(&self) -> ContributionAge {
        ContributionAge { as_of: self.as_of, received: self.received, hash: self.hash }
    }
}

/// Contributions that a record keeps where it has more than [`MAX_CONTRIBUTORS`]: those that are greatest by time, then by the
/// contributor's name. Which these are does not depend on the order in which they came, as contributors only get newer.
///
/// What is left out takes the values with it that it had said before, so a full record has none of those: an unread field of it has
/// no value. Returns what is left out.
pub fn keep_newest(contributions: &mut Vec<Contribution>) -> Vec<Contribution> {
    if contributions.len() < MAX_CONTRIBUTORS {
        return Vec::new();
    }
    contributions.sort_by(|a, b| (b.as_of, &b.contributor).cmp(&(a.as_of, &a.contributor)));
    for own in contributions.iter_mut().flat_map(|own| &mut own.unreadable) {
        *own = UnreadableField::new(own.field);
    }
    contributions.split_off(MAX_CONTRIBUTORS)
}

impl Contribution {
    /// What it says of a field, and when that was said; nothing where it says nothing.
    pub fn value(&self, field: FieldId) -> Option<(&Value, ContributionAge)> {
        let ContributionContent::Values(values) = &self.content else { return None };
        let (value, age) = match self.unreadable.iter().find(|unread| unread.field == field) {
            Some(unread) => (&unread.value, unread.age()),
            None => (values.get(field.index())?, self.age()),
        };
        (!value.is_null()).then_some((value, age))
    }

    /// Takes over, for fields that could not be read, what an older statement of the same contributor says of them, if that is newer than
    /// what is known so far; says whether anything changed.
    pub fn take_over(&mut self, older: &Contribution) -> bool {
        self.take(older, |field| {
            let value = match &older.content {
                ContributionContent::Values(values) => values.get(field.index()).cloned().unwrap_or_default(),
                // it was deleted: of no field is anything left
                ContributionContent::Tombstone => Value::Null,
            };
            let ContributionAge { as_of, received, hash } = older.age();
            Some(UnreadableField { field, as_of, received, hash, value })
        })
    }

    /// The same of a statement whose place this one takes though it is not newer: only what that had taken over itself.
    pub fn take_over_unread(&mut self, replaced: &Contribution) -> bool {
        self.take(replaced, |_| None)
    }

    fn take(&mut self, older: &Contribution, said: impl Fn(FieldId) -> Option<UnreadableField>) -> bool {
        let mut changed = false;
        for unread in &mut self.unreadable {
            let known = older.unreadable.iter().find(|own| own.field == unread.field);
            if let Some(found) = known.cloned().or_else(|| said(unread.field)).filter(|found| found.age() > unread.age()) {
                *unread = found;
                changed = true;
            }
        }
        changed
    }

    /// The source part of the contributor.
    pub fn source(&self) -> &str {
        self.contributor.split(':').next().unwrap_or(&self.contributor)
    }

    /// Whether a link with `create` says that the record exists: it is called COLLECTION.LINK, and no source has a dot in its name.
    pub fn is_of_a_link(&self) -> bool {
        self.source().contains('.')
    }

    /// Whether it counts.
    pub fn counts(&self) -> bool {
        self.retired == Retirement::Live
    }

    /// The order of statements of all contributors by their age.
    pub(crate) fn order(&self) -> (ContributionAge, &str) {
        (self.age(), &self.contributor)
    }

    /// The order in which a contributor's statements replace each other.
    pub fn age(&self) -> ContributionAge {
        let received = self.received.map(|at| Reception { at, origin: self.origin });
        ContributionAge { as_of: self.as_of, received, hash: self.hash }
    }

    /// What is remembered of it when another job replaces it.
    pub fn previous(&self) -> PreviousContribution {
        let Contribution { as_of, received, hash, generation, origin, .. } = *self;
        PreviousContribution { as_of, received, hash, generation, retired: !self.counts(), origin: Some(origin) }
    }
}

/// Whether a complete delivery has taken the place of a contribution: then it is kept, and does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Retirement {
    /// It counts.
    #[default]
    Live,
    /// By one that came later.
    ByLaterDelivery,
    /// By one that had come before.
    OnArrival,
}

/// What a contributor had said before a job, as far as outcomes need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreviousContribution {
    /// When it was true.
    pub as_of: i64,
    /// When its delivery was accepted, where its source orders documents by that.
    pub received: Option<i64>,
    /// Hash of the content.
    pub hash: Hash,
    /// The store's number for the map that made it.
    pub generation: u32,
    /// Whether it was retired.
    pub retired: bool,
    /// Where it was read; unknown where an earlier version wrote it.
    pub origin: Option<ContributionOrigin>,
}

impl PreviousContribution {
    /// The order in which a contributor's statements replace each other.
    pub fn age(&self) -> ContributionAge {
        let received = self.received.map(|at| Reception { at, origin: self.origin.unwrap_or_default() });
        ContributionAge { as_of: self.as_of, received, hash: self.hash }
    }
}

/// Where a contribution was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ContributionOrigin {
    /// The import job; 0 for edits.
    pub job: u64,
    /// Number of the document inside the job, from 1.
    pub document: u64,
}

/// The content of a contribution.
#[derive(Debug, Clone, PartialEq)]
pub enum ContributionContent {
    /// A value per field of the collection; shared with the golden values where both are the same.
    Values(Arc<[Value]>),
    /// The record was deleted.
    Tombstone,
}

/// A kept document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptDocument {
    /// The format's number, as `formats` gives it.
    pub syntax: u8,
    /// The bytes, often shared with the chunk they were read in.
    pub bytes: Bytes,
}
