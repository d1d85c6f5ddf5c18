//! Words that queries may use for fields of several collections.

use crate::model::ids::CollectionId;
use regex::Regex;

/// A word of queries: what it selects, and what a condition on it tests.
#[derive(Debug, Clone)]
pub struct QueryAlias {
    /// The word.
    pub name: String,
    /// The collection that is asked for by it.
    pub select: Option<CollectionId>,
    /// What it tests, by what a value looks like: the first that accepts it.
    pub tests: Vec<AliasTarget>,
}

/// What a word tests.
#[derive(Debug, Clone)]
pub struct AliasTarget {
    /// What a value must look like.
    pub matches: Option<Regex>,
    /// The fields, by collection; `key` is a record's key.
    pub fields: Vec<(CollectionId, String)>,
}
