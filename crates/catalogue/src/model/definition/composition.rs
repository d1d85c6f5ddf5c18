//! How the MARC record of a record is composed from the documents of its contributors.

use super::field::Survivorship;
use crate::marcspec::MarcSpec;
use crate::model::ids::{LinkId, SourceId};
use stook_marc::compose::FieldText;

/// `compose:`. Which fields of a record's MARC record are from whose document.
#[derive(Debug, Clone)]
pub struct Composition {
    /// Whose document the record begins as: the latest, the earliest, or by the order of sources.
    pub base: Survivorship,
    /// Links by which other records lead to a record: their documents are composed, too.
    pub with: Vec<LinkId>,
    /// Fields that a source keeps, whoever the others are from, in the order in which they count.
    pub protect: Vec<ProtectedFields>,
    /// Fields of which every document gives its own.
    pub union: Vec<MarcSpec>,
    /// The tag of the field that has the control numbers of the other documents.
    pub other_numbers: Option<[u8; 3]>,
    /// Fields of records that have none of their tag.
    pub defaults: Vec<FieldText>,
}

/// The fields that a source keeps.
#[derive(Debug, Clone)]
pub struct ProtectedFields {
    /// The source.
    pub source: SourceId,
    /// Its fields.
    pub fields: Vec<MarcSpec>,
}
