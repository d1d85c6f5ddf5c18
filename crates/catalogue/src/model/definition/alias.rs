//! Aliases: words that queries may use for fields of several collections.

use crate::model::ids::CollectionId;
use regex::Regex;

/// An alias: the collection it selects, and the fields a condition on it tests.
#[derive(Debug, Clone)]
pub struct QueryAlias {
    /// The word.
    pub name: String,
    /// The collection it selects.
    pub select: Option<CollectionId>,
    /// The word without whose value a value of this one says nothing, as a page without its volume: it is shown and counted with it.
    pub within: Option<String>,
    /// What a condition on it tests: the first target that accepts the value.
    pub tests: Vec<AliasTarget>,
}

/// Fields that an alias tests.
#[derive(Debug, Clone)]
pub struct AliasTarget {
    /// The regular expression that a value must match.
    pub matches: Option<Regex>,
    /// The value that a query asks for that has no condition on the alias.
    pub default: Option<String>,
    /// The fields, by collection; `key` is the record's key.
    pub fields: Vec<(CollectionId, String)>,
}
