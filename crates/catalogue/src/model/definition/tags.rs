//! How records carry tags, and the document that XPath tags are evaluated on.

use crate::model::ids::SourceId;
use crate::value::FieldType;

/// How records carry tags.
#[derive(Debug, Clone)]
pub struct TagSettings {
    /// The number of the collection's tags in a store.
    pub id: u32,
    /// The document of XPath tags; without it tags are manual or queries.
    pub document: Option<TagDocument>,
    /// Max steps of an XPath on one document.
    pub steps: u64,
    /// Attributes of tags, in addition to a definition and a comment.
    pub attributes: Vec<TagAttribute>,
}

/// An attribute of tags.
#[derive(Debug, Clone)]
pub struct TagAttribute {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub ty: FieldType,
    /// How the values of a record's tags are joined, if they are.
    pub joined: Option<JoinedAttribute>,
}

/// How the values of an attribute are joined to one text for each record: in the order of the names of its tags.
#[derive(Debug, Clone)]
pub struct JoinedAttribute {
    /// What stands between them.
    pub separator: String,
    /// The text that stands before them, for every record.
    pub first: Option<String>,
}

/// The document of a record: that of one source, and inside its element those of other sources, each in a namespace named like its prefix.
#[derive(Debug, Clone)]
pub struct TagDocument {
    /// The source of the outer document.
    pub root: SourceId,
    /// The name of the empty element that is used if that source has no document.
    pub placeholder: String,
    /// Prefixes with the source whose document is in that namespace, in the order of prefixes.
    pub embedded: Vec<(String, SourceId)>,
    /// Namespaces of prefixes in XPath expressions.
    pub namespaces: Vec<(String, String)>,
}

impl TagDocument {
    /// Returns the sources it is made of, each once.
    pub fn sources(&self) -> Vec<SourceId> {
        let mut sources: Vec<SourceId> = self.embedded.iter().map(|(_, source)| *source).chain([self.root]).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    }
}
