//! Whether and how records carry tags, and the document that the XPath of a tag is asked of.

use crate::model::ids::SourceId;
use crate::value::FieldType;

/// How records carry tags.
#[derive(Debug, Clone)]
pub struct TagSettings {
    /// The number of the collection's tags in a store.
    pub id: u32,
    /// What the XPath of a tag is asked of; without it tags are manual or queries.
    pub document: Option<TagDocument>,
    /// Most steps of an XPath on one document.
    pub steps: u64,
    /// What tags have beside a definition and a comment.
    pub attributes: Vec<(String, FieldType)>,
}

/// The document of a record: one source's own, and in its element what other sources say, each in a namespace called as its
/// prefix.
#[derive(Debug, Clone)]
pub struct TagDocument {
    /// The source whose document it is.
    pub root: SourceId,
    /// The name of the empty element where that source says nothing.
    pub placeholder: String,
    /// Prefixes, each with the source whose document is in that namespace, by prefix.
    pub embedded: Vec<(String, SourceId)>,
    /// Prefixes of expressions.
    pub namespaces: Vec<(String, String)>,
}

impl TagDocument {
    /// The sources it is made of, each once.
    pub fn sources(&self) -> Vec<SourceId> {
        let mut sources: Vec<SourceId> = self.embedded.iter().map(|(_, source)| *source).chain([self.root]).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    }
}
