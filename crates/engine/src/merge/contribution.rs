//! A contribution that a document makes, before it is known whether it is stored.

use bytes::Bytes;
use stook_catalogue::ids::{CollectionId, FieldId, SourceId};
use stook_catalogue::key::Key;
use stook_catalogue::record::{
    Contribution, ContributionAge, ContributionContent, ContributionOrigin, Hash, KeptDocument, PreviousContribution, Reception, Retirement,
    UnreadableField,
};
use stook_catalogue::value::SmolStr;
use stook_store::queue::JobId;

/// What a document says in one collection.
#[derive(Debug, Clone)]
pub struct NewContribution {
    /// The collection's index.
    pub collection: CollectionId,
    /// The index of the source whose document it is.
    pub source: SourceId,
    /// The feed's index in that source.
    pub feed: usize,
    /// Whether the document stood inside another one.
    pub embedded: bool,
    /// The record spoken of.
    pub key: Key,
    /// Who speaks.
    pub contributor: SmolStr,
    /// When it was true.
    pub as_of: i64,
    /// Hash of the content.
    pub hash: Hash,
    /// What is said.
    pub content: ContributionContent,
    /// Fields, by index and in their order, whose values could not be read.
    pub unreadable: Vec<FieldId>,
    /// The document, if the collection keeps it.
    pub raw: Option<KeptDocument>,
    /// The document as a packed tree, if tags are asked of it.
    pub tree: Option<Bytes>,
    /// Which scope it was said in, where files take the place of others.
    pub scope: Option<Box<ScopePosition>>,
    /// The time of the newer complete delivery that has retired it before it came.
    pub replaced_by: Option<i64>,
}

impl NewContribution {
    /// Whether a newer complete delivery has retired it before it came.
    pub fn is_retired(&self) -> bool {
        self.replaced_by.is_some()
    }
}

/// Where a statement stands among those that a file takes the place of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopePosition {
    /// The scope.
    pub scope: String,
    /// A time in it, in microseconds.
    pub at: i64,
}

/// A statement with its document's number and the number of the map that made it.
#[derive(Debug, Clone)]
pub struct NumberedContribution {
    /// Number of the document inside the job.
    pub document: u64,
    /// When it was received, where its source orders documents of one time by that.
    pub received: Option<Reception>,
    /// The store's number for the map.
    pub generation: u32,
    /// What it says.
    pub contribution: NewContribution,
}

impl NumberedContribution {
    /// By which of two contributions of one contributor the newer one is found.
    pub fn age(&self) -> ContributionAge {
        ContributionAge { as_of: self.contribution.as_of, received: self.received, hash: self.contribution.hash }
    }

    /// Whether a statement counts beside what was said before the job: newer, or of the same moment and read by another map. What
    /// two maps made of documents has no order by hash, the map at hand wins.
    pub(super) fn is_beyond(&self, before: &PreviousContribution) -> bool {
        let (own, other) = (self.age(), before.age());
        own > other || (own.moment() == other.moment() && self.generation != before.generation)
    }

    /// As it is stored, with what its contributor had said before the job.
    pub(super) fn stored(&self, before: Option<PreviousContribution>, job: JobId) -> Contribution {
        let statement = &self.contribution;
        Contribution {
            contributor: statement.contributor.clone(),
            as_of: statement.as_of,
            received: self.received.map(|received| received.at),
            hash: statement.hash,
            generation: self.generation,
            origin: ContributionOrigin { job, document: self.document },
            before,
            retired: if statement.is_retired() { Retirement::OnArrival } else { Retirement::Live },
            content: statement.content.clone(),
            raw: statement.raw.clone(),
            unreadable: statement.unreadable.iter().copied().map(UnreadableField::new).collect(),
        }
    }
}
