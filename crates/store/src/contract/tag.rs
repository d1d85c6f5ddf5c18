//! Tags, the records that carry them, and the trees of documents on which their XPaths are evaluated.

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
    /// A comment for people.
    pub comment: String,
    /// Further attributes.
    pub attributes: Map<String, Json>,
    /// When it was created, in microseconds.
    pub created: i64,
    /// When any part of it last changed.
    pub changed: i64,
    /// When its definition last changed: no two definitions have the same value.
    pub generation: i64,
    /// The last job that evaluated it for all records; 0 for none.
    pub job: u64,
}

/// Which records carry a tag.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TagDefinition {
    /// Those that a caller gave it to.
    Manual,
    /// Those on whose document this XPath is true.
    XPath(String),
    /// Those that satisfy these conditions of the query language.
    Query(String),
}

/// Maximum length of a tag's name in bytes.
pub const MAX_TAG_NAME: usize = 256;

/// Returns the tags of a collection.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CollectionTags {
    /// A number that grows whenever a tag of the tenant changes.
    pub revision: i64,
    /// The tags, ordered by name.
    pub tags: Vec<Tag>,
}

/// A change of the tree of a record's document.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeWrite {
    /// The record's key.
    pub key: Key,
    /// Name of the document's source.
    pub source: Arc<str>,
    /// The packed tree; `None` if it is removed.
    pub tree: Option<Bytes>,
}

/// Changes of trees and tags of some records of a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct TagWrites {
    /// The collection.
    pub collection: CollectionId,
    /// Trees of documents, by record and source.
    pub trees: Vec<TreeWrite>,
    /// Names of the tags that were evaluated.
    pub tags: Vec<String>,
    /// Records, each with the tags it carries, as ascending positions in [`TagWrites::tags`].
    pub assignments: Vec<(Key, Vec<u32>)>,
}

/// Records that gained or lost tags; one that gained several is listed several times.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TagChanges {
    /// Records that gained a tag.
    pub added: Vec<Key>,
    /// Records that lost a tag.
    pub removed: Vec<Key>,
}

impl TagChanges {
    pub(crate) fn from_pairs(added: &[(&Key, &str)], removed: &[(&Key, &str)]) -> Self {
        let keys = |assignments: &[(&Key, &str)]| assignments.iter().map(|(key, _)| (*key).clone()).collect();
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

    /// Reads what [`TagDefinition::parts`] returns.
    pub(crate) fn from_parts(tag: &str, kind: &str, text: String) -> Result<Self> {
        Ok(match kind {
            "xpath" => TagDefinition::XPath(text),
            "query" => TagDefinition::Query(text),
            "manual" => TagDefinition::Manual,
            _ => return Err(StoreError::Damaged(Damage::of_row(format!("tag `{tag}`"), format!("{kind:?} is no kind of a tag")))),
        })
    }
}

/// A new name of a tag.
#[derive(Debug, Clone)]
pub struct TagRename {
    /// The former name.
    pub from: String,
    /// The tag with its new name.
    pub tag: Tag,
    /// The revision at which the tags were read.
    pub revision: i64,
}

/// Tags, and the trees on which they are evaluated. Records gain and lose tags by units: [`TagWrites`].
pub trait Tags {
    /// Returns the tags of a collection.
    ///
    /// # Errors
    /// When the collection has no tags in the definition, or the database fails.
    fn tags(&self, tenant: &Tenant, collection: CollectionId) -> Result<CollectionTags>;

    /// Writes tags: only new ones if `must_be_new`, otherwise replacing those with the same names. Their times are the caller's.
    ///
    /// # Errors
    /// When `must_be_new` and a tag exists, or the database fails.
    fn put_tags(&self, tenant: &Tenant, collection: CollectionId, tags: Vec<Tag>, must_be_new: bool) -> Result<()>;

    /// Removes a tag from the collection and from all records; returns false if there is none.
    ///
    /// # Errors
    /// When the database fails.
    fn delete_tag(&self, tenant: &Tenant, collection: CollectionId, name: &str) -> Result<bool>;

    /// Gives a tag another name, which records carry instead of the former one; returns false if there is no tag with the former name. Its other
    /// properties become those of [`TagRename::tag`].
    ///
    /// # Errors
    /// [`StoreError::Outdated`] when tags have changed since they were read, `Wrong` when there is a tag with the new name, or when the database fails.
    fn rename_tag(&self, tenant: &Tenant, collection: CollectionId, rename: TagRename) -> Result<bool>;

    /// Returns the names of the tags that records carry, in the order of `keys`, without those that stand for queries.
    ///
    /// # Errors
    /// When the database fails.
    fn tags_of_records(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<Vec<String>>>;

    /// Returns the trees of records' documents, in the order of `keys`.
    ///
    /// # Errors
    /// When the database fails.
    fn trees(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<PackedTrees>>;
}

/// Packed trees of a record, each with the name of its source.
pub type PackedTrees = Vec<(String, Vec<u8>)>;
