//! The outcome of every document of a job.
//!
//! A chunk's journal is one row: counts, and the packed outcomes. These are, compressed with zstd, their number; for each outcome the difference of
//! its document's number and offset from those before, the outcome's byte, the collection's number, and the key with its length; then the reasons, if
//! any. Numbers are varints. At most 512 bytes are stored uncompressed after a zero byte. Failures and warnings are separate rows, because they
//! carry text.
//!
//! An outcome may be corrected later: of two documents of one job for one record the older becomes `superseded`, whichever was committed first. Such
//! corrections are also rows, and rare. The reason for a correction is stored as an issue at the position [`CORRECTION_OFFSET`], so that existing
//! stores need no new table or column.

use serde::{Serialize, Serializer};
use std::borrow::Cow;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::record::{DecodeError, Decoder, put_bytes, put_varint};
use stook_catalogue::value::SmolStr;

/// What became of a document in one collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Outcome {
    /// Its record did not exist before the job.
    Created = 0,
    /// Its record existed and its contribution is new.
    Updated = 1,
    /// Its contributor had already made the same contribution.
    Unchanged = 2,
    /// A newer contribution of the same contributor wins.
    Superseded = 3,
    /// Excluded by the profile or an `accept` rule.
    Skipped = 4,
    /// Its contributor's contribution was withdrawn.
    Withdrawn = 5,
    /// It could not be imported.
    Failed = 6,
    /// It says that its record was deleted, which its contributor had not said before.
    Deleted = 7,
}

/// All outcomes with their names, in the order in which they are listed.
pub const OUTCOMES: [(Outcome, &str); 8] = [
    (Outcome::Created, "created"),
    (Outcome::Updated, "updated"),
    (Outcome::Unchanged, "unchanged"),
    (Outcome::Deleted, "deleted"),
    (Outcome::Superseded, "superseded"),
    (Outcome::Skipped, "skipped"),
    (Outcome::Withdrawn, "withdrawn"),
    (Outcome::Failed, "failed"),
];

impl Outcome {
    /// The outcome's name.
    pub fn name(self) -> &'static str {
        OUTCOMES.iter().find(|(outcome, _)| *outcome == self).map_or("?", |(_, name)| name)
    }

    /// The outcome with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        OUTCOMES.iter().map(|(outcome, _)| *outcome).find(|outcome| *outcome as u8 == number)
    }
}

/// The number of documents by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutcomeCounts {
    /// By [`Outcome`] number. A chunk's own counts may be negative if it corrects an earlier chunk.
    pub outcomes: [i64; OUTCOMES.len()],
    /// Documents read.
    pub documents: i64,
    /// Warnings.
    pub warnings: i64,
}

impl OutcomeCounts {
    /// The number of documents with one outcome.
    pub fn of(&self, outcome: Outcome) -> i64 {
        self.outcomes[outcome as usize]
    }

    /// Adds `count`, which may be negative, to the count of one outcome.
    pub fn add(&mut self, outcome: Outcome, count: i64) {
        self.outcomes[outcome as usize] += count;
    }

    /// Adds another chunk's counts.
    pub fn include(&mut self, other: &OutcomeCounts) {
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(sum, count)| *sum += count);
        self.documents += other.documents;
        self.warnings += other.warnings;
    }
}

impl Serialize for OutcomeCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = OUTCOMES.iter().map(|(outcome, name)| (*name, self.of(*outcome)));
        serializer.collect_map([("documents", self.documents)].into_iter().chain(named).chain([("warnings", self.warnings)]))
    }
}

/// The outcome of one document in one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentOutcome {
    /// Number of the document inside the job, from 1.
    pub document: u64,
    /// Position in its file.
    pub offset: u64,
    /// The collection; `None` for a document that reached none of several.
    pub collection: Option<CollectionId>,
    /// The outcome.
    pub outcome: Outcome,
    /// The record's key; empty if it had none.
    pub key: SmolStr,
    /// Why it was skipped, or which contribution counts instead, in words.
    pub reason: Option<SmolStr>,
}

/// A failure or warning, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Number of the document inside the job, from 1.
    pub document: u64,
    /// The file, from 0.
    pub file: usize,
    /// Number of the document inside its file, from 1.
    pub record: u64,
    /// Position in its file.
    pub offset: u64,
    /// The record's key, if it is known.
    pub key: Option<String>,
    /// True if the document failed; false if only part of it was left out.
    pub failed: bool,
    /// Why.
    pub reason: String,
}

/// A change of an outcome that another chunk has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeCorrection {
    /// The document, by its number inside the job.
    pub document: u64,
    /// The collection.
    pub collection: CollectionId,
    /// The new outcome.
    pub outcome: Outcome,
    /// Why, in words.
    pub reason: String,
}

/// The journal of one chunk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChunkJournal {
    /// The file its documents are in, from 0.
    pub file: usize,
    /// Documents of the job before that file.
    pub file_start: u64,
    /// The counts, including corrections.
    pub counts: OutcomeCounts,
    /// The number of its first document.
    pub first: u64,
    /// Outcomes in the order of the documents, at least one for each, packed by [`pack`]; empty for none.
    pub packed_outcomes: Vec<u8>,
    /// Issues in the order of the documents.
    pub troubles: Vec<Issue>,
    /// Bytes of the failed documents that are kept, by document number.
    pub failed_documents: Vec<(u64, Vec<u8>)>,
    /// Corrections of outcomes in other chunks.
    pub corrections: Vec<OutcomeCorrection>,
}

/// An entry of a journal as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JournalEntry {
    /// Number of the document inside the job, from 1.
    pub document: u64,
    /// The file.
    pub file: String,
    /// Number of the document inside its file, from 1.
    pub record: u64,
    /// Position in its file.
    pub offset: u64,
    /// The collection, if the document reached one.
    pub collection: Option<String>,
    /// The record's key, if known.
    pub key: Option<String>,
    /// The outcome.
    pub outcome: Outcome,
    /// Why it failed or was skipped, which contribution counts instead, or what was left out.
    pub reasons: Vec<String>,
}

/// The position that marks an issue row as the reason of a correction; its key column has the collection's name.
pub(crate) const CORRECTION_OFFSET: u64 = u64::MAX;

/// Up to this many bytes, compressing is not worthwhile.
const MAX_UNCOMPRESSED: usize = 512;

/// Stored instead of a collection's number for an outcome without one.
const NO_COLLECTION: u64 = u32::MAX as u64;

/// Packs the outcomes of a chunk.
pub fn pack(outcomes: &[DocumentOutcome]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(1 + outcomes.len() * 24);
    plain.push(0);
    put_varint(&mut plain, outcomes.len() as u64);
    let (mut document, mut offset) = (0, 0);
    for outcome in outcomes {
        put_varint(&mut plain, outcome.document.wrapping_sub(document));
        put_varint(&mut plain, outcome.offset.wrapping_sub(offset));
        plain.push(outcome.outcome as u8);
        put_varint(&mut plain, outcome.collection.map_or(NO_COLLECTION, |collection| collection.index() as u64));
        put_bytes(&mut plain, outcome.key.as_bytes());
        (document, offset) = (outcome.document, outcome.offset);
    }
    // reasons follow all outcomes, if there are any; journals of older versions end here
    let mut previous = 0;
    for (position, reason) in outcomes.iter().enumerate().filter_map(|(position, outcome)| Some((position, outcome.reason.as_ref()?))) {
        put_varint(&mut plain, (position - previous) as u64);
        put_bytes(&mut plain, reason.as_bytes());
        previous = position;
    }
    if plain.len() <= MAX_UNCOMPRESSED {
        return plain;
    }
    // compressing memory into memory does not fail
    zstd::bulk::compress(&plain[1..], 1).unwrap_or_default()
}

/// Reads the outcomes of a chunk.
///
/// # Errors
/// When the bytes are damaged.
pub fn unpack(packed: &[u8]) -> Result<Vec<DocumentOutcome>, DecodeError> {
    if packed.is_empty() {
        return Ok(Vec::new());
    }
    let plain = match packed {
        [0, plain @ ..] => Cow::Borrowed(plain),
        _ => Cow::Owned(zstd::stream::decode_all(packed).map_err(|_| DecodeError("a journal is not zstd"))?),
    };
    let mut input = Decoder { bytes: &plain };
    let count = input.varint()?;
    let (mut document, mut offset) = (0_u64, 0_u64);
    let mut outcomes = Vec::new();
    for _ in 0..count {
        document = document.wrapping_add(input.varint()?);
        offset = offset.wrapping_add(input.varint()?);
        let outcome = Outcome::from_number(input.byte()?).ok_or(DecodeError("unknown outcome"))?;
        let collection = Some(input.varint()?).filter(|number| *number != NO_COLLECTION).map(|number| CollectionId::from(number as usize));
        let key = input.text()?.into();
        outcomes.push(DocumentOutcome { document, offset, collection, outcome, key, reason: None });
    }
    let mut position = 0_usize;
    while !input.bytes.is_empty() {
        position = position.saturating_add(input.varint()? as usize);
        let outcome = outcomes.get_mut(position).ok_or(DecodeError("a reason of no line"))?;
        outcome.reason = Some(input.text()?.into());
    }
    Ok(outcomes)
}
