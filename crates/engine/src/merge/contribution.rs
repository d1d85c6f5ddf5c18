//! A contribution that a document makes, before it is known whether it is stored.

use crate::settle::complete_delivery::DeliveryAge;
use bytes::Bytes;
use stook_catalogue::ids::{CollectionId, FieldId, SourceId};
use stook_catalogue::key::Key;
use stook_catalogue::record::{
    Contribution, ContributionAge, ContributionContent, ContributionOrigin, Hash, KeptDocument, PreviousContribution, Reception, Retirement,
    UnreadableField,
};
use stook_catalogue::value::SmolStr;
use stook_store::queue::JobId;

/// What a document contributes to one record.
#[derive(Debug, Clone)]
pub struct NewContribution {
    /// The collection.
    pub collection: CollectionId,
    /// The source whose document it is.
    pub source: SourceId,
    /// The feed's position in that source.
    pub feed: usize,
    /// Whether the document is embedded in another one.
    pub embedded: bool,
    /// The record's key.
    pub key: Key,
    /// The contributor's name.
    pub contributor: SmolStr,
    /// The as-of time.
    pub as_of: i64,
    /// Hash of the content.
    pub hash: Hash,
    /// The values, or a deletion.
    pub content: ContributionContent,
    /// Fields, in their order, whose values could not be read.
    pub unreadable: Vec<FieldId>,
    /// The document, if the collection keeps it.
    pub raw: Option<KeptDocument>,
    /// The document as a packed tree, if tags are computed from it.
    pub tree: Option<Bytes>,
    /// The scope it belongs to and its position there, if the source says `replaces:`.
    pub scope: Option<Box<ScopePosition>>,
    /// A newer complete delivery that retires it on arrival.
    pub replaced_by: Option<DeliveryAge>,
}

impl NewContribution {
    /// Makes a deletion of it: the document says that the record was deleted, whatever it contains. It differs from the same document with its values.
    pub fn delete(&mut self) {
        let hash = blake3::hash(&[b"deleted".as_slice(), &self.hash].concat());
        self.hash.copy_from_slice(&hash.as_bytes()[..16]);
        self.content = ContributionContent::Tombstone;
        self.unreadable.clear();
    }

    /// Whether a newer complete delivery retires it on arrival.
    pub fn is_retired(&self) -> bool {
        self.replaced_by.is_some()
    }
}

/// The position of a contribution in a scope of its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopePosition {
    /// The scope.
    pub scope: String,
    /// The position: a time, in microseconds.
    pub at: i64,
}

/// A contribution with the number of its document and the generation of the mapping that made it.
#[derive(Debug, Clone)]
pub struct NumberedContribution {
    /// Number of the document inside the job.
    pub document: u64,
    /// When the document was received, if its source uses that to order documents of one as-of time.
    pub received: Option<Reception>,
    /// The generation of the feed's mapping.
    pub generation: u32,
    /// The contribution.
    pub contribution: NewContribution,
}

impl NumberedContribution {
    /// The age by which contributions of one contributor are compared.
    pub fn age(&self) -> ContributionAge {
        ContributionAge { as_of: self.contribution.as_of, received: self.received, hash: self.contribution.hash }
    }

    /// Whether it counts instead of what was stored before the job: it is newer, or was read from a document of the same age by another mapping.
    /// Hashes do not order what two mappings made of one document; the present mapping wins.
    pub(super) fn supersedes(&self, before: &PreviousContribution) -> bool {
        let (own, other) = (self.age(), before.age());
        own > other || (own.moment() == other.moment() && self.generation != before.generation)
    }

    /// Converts it to its stored form, with what its contributor had stored before the job.
    pub(super) fn stored(&self, before: Option<PreviousContribution>, job: JobId) -> Contribution {
        let contribution = &self.contribution;
        Contribution {
            contributor: contribution.contributor.clone(),
            as_of: contribution.as_of,
            received: self.received.map(|received| received.at),
            hash: contribution.hash,
            generation: self.generation,
            origin: ContributionOrigin { job, document: self.document },
            before,
            retired: if contribution.is_retired() { Retirement::OnArrival } else { Retirement::None },
            content: contribution.content.clone(),
            raw: contribution.raw.clone(),
            unreadable: contribution.unreadable.iter().copied().map(UnreadableField::new).collect(),
            corrections: Vec::new(),
        }
    }
}
