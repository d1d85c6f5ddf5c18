//! Tags, the records that carry them, and the trees of XML documents that their definitions are asked of.

use super::damage::Damage;
use super::error::{Result, StoreError};
use super::tenant::Tenant;
use bytes::Bytes;
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

/// A tag of a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct Tag {
    /// Its name.
    pub name: String,
    /// Which records carry it.
    pub definition: TagDefinition,
    /// What it is for.
    pub comment: String,
    /// What else is said of it.
    pub attributes: Map<String, Json>,
    /// When it was made, in microseconds.
    pub created: i64,
    /// When anything of it changed last.
    pub changed: i64,
    /// When its definition changed last: no two definitions have the same.
    pub generation: i64,
    /// The job that evaluates it for all records, the last there was; 0 for none.
    pub job: u64,
}

/// Which records carry a tag.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TagDefinition {
    /// Those that somebody gave it.
    Manual,
    /// Those of whose document this XPath holds.
    XPath(String),
    /// Those that satisfy these conditions of the query language.
    Query(String),
}

/// Most bytes of a tag's name.
pub const MOST_NAME: usize = 256;

/// The tags of a collection.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CollectionTags {
    /// A number that grows whenever a tag of the tenant changes.
    pub revision: i64,
    /// By name.
    pub tags: Vec<Tag>,
}

/// What becomes of a document of a record as a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeWrite {
    /// The record's key.
    pub key: Key,
    /// Name of the document's source.
    pub source: Arc<str>,
    /// The tree, or nothing where there is none any more.
    pub tree: Option<Bytes>,
}

/// What a unit has found out about the documents and tags of some records of a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct TagWrites {
    /// The collection's index.
    pub collection: CollectionId,
    /// Documents of records, each of a source.
    pub trees: Vec<TreeWrite>,
    /// The tags that were evaluated, by name.
    pub tags: Vec<String>,
    /// Records, each with those of [`TagWrites::tags`] that it carries, by their places.
    pub assignments: Vec<(Key, Vec<u32>)>,
}

/// Records that tags were given to and taken from; one that got several stands there several times.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TagChanges {
    /// Given.
    pub added: Vec<Key>,
    /// Taken.
    pub removed: Vec<Key>,
}

impl TagChanges {
    pub(crate) fn of(added: &[(&Key, &str)], removed: &[(&Key, &str)]) -> Self {
        let keys = |named: &[(&Key, &str)]| named.iter().map(|(key, _)| (*key).clone()).collect();
        Self { added: keys(added), removed: keys(removed) }
    }
}

impl std::ops::AddAssign for TagChanges {
    fn add_assign(&mut self, other: Self) {
        self.added.extend(other.added);
        self.removed.extend(other.removed);
    }
}

impl TagDefinition {
    /// Kind and text, as they are stored.
    pub(crate) fn parts(&self) -> (&'static str, &str) {
        match self {
            TagDefinition::Manual => ("manual", ""),
            TagDefinition::XPath(text) => ("xpath", text),
            TagDefinition::Query(text) => ("query", text),
        }
    }

    /// From kind and text.
    pub(crate) fn from_parts(tag: &str, kind: &str, text: String) -> Result<Self> {
        Ok(match kind {
            "xpath" => TagDefinition::XPath(text),
            "query" => TagDefinition::Query(text),
            "manual" => TagDefinition::Manual,
            _ => return Err(StoreError::Damaged(Damage::of_row(format!("tag `{tag}`"), format!("{kind:?} is no kind of a tag")))),
        })
    }
}

/// Tags, and the trees that their definitions are asked of. Records get and lose tags by units: [`TagWrites`].
pub trait Tags {
    /// The tags of a collection.
    ///
    /// # Errors
    /// When its records carry none, or the database fails.
    fn tags(&self, tenant: &Tenant, collection: CollectionId) -> Result<CollectionTags>;

    /// Writes tags: new ones, where `new` says so, and else in the place of those with the same names. A tag's
    /// times are the caller's.
    ///
    /// # Errors
    /// When one that must be new is not, or the database fails.
    fn put_tags(&self, tenant: &Tenant, collection: CollectionId, tags: Vec<Tag>, new: bool) -> Result<()>;

    /// Removes a tag from the collection and from all records; false when there is none.
    ///
    /// # Errors
    /// When the database fails.
    fn delete_tag(&self, tenant: &Tenant, collection: CollectionId, name: &str) -> Result<bool>;

    /// Names of the tags that records were given, in the order of `keys`; those of queries are not among them.
    ///
    /// # Errors
    /// When the database fails.
    fn tagged(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<Vec<String>>>;

    /// Documents of records as trees, each of a source by name, in the order of `keys`.
    ///
    /// # Errors
    /// When the database fails.
    fn trees(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<PackedTrees>>;
}

/// Packed trees of a record, each of a source by name.
pub type PackedTrees = Vec<(String, Vec<u8>)>;
