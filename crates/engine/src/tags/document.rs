//! The document of a record on which XPaths of tags are evaluated, composed of the trees of its sources' documents.

use bytes::Bytes;
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use stook_catalogue::definition::{Catalogue, Collection, TagDocument};
use stook_catalogue::ids::SourceId;
use stook_catalogue::record::{Contribution, ContributionContent};
use stook_catalogue::xpath::XPath;
use stook_formats::tree::{XmlNode, XmlTree};
use stook_store::tag::{CollectionTags, TagDefinition};

/// The documents of a record: sources and packed trees.
pub type RecordDocuments = Vec<(Arc<str>, Bytes)>;

/// Changes of a record's documents: sources and packed trees, `None` if the source no longer has a document.
pub type DocumentChanges = Vec<(Arc<str>, Option<Bytes>)>;

/// The newest contribution of a source that counts and is no deletion.
fn newest_of_source<'c>(contributions: &'c [Contribution], source: &str) -> Option<&'c Contribution> {
    let candidates = contributions
        .iter()
        .filter(|candidates| candidates.source() == source && candidates.counts() && candidates.content != ContributionContent::Tombstone);
    candidates.max_by_key(|candidates| candidates.age())
}

fn packed(contribution: &Contribution) -> Option<Bytes> {
    let tree = XmlTree::parse(&contribution.raw.as_ref()?.bytes).ok()?;
    Some(tree.pack().into())
}

/// The sources whose document of a record changes with its contributions, and their new contributions.
fn changed<'c>(
    catalogue: &'c Catalogue,
    document: &TagDocument,
    before: &'c [Contribution],
    after: &'c [Contribution],
) -> impl Iterator<Item = (&'c str, Option<&'c Contribution>)> {
    document.sources().into_iter().filter_map(|source| {
        let name = catalogue.sources[source].name.as_str();
        let (old, new) = (newest_of_source(before, name), newest_of_source(after, name));
        let identity = |own: &Contribution| (own.contributor.clone(), own.hash);
        (old.map(identity) != new.map(identity)).then_some((name, new))
    })
}

/// Whether any document of a record changes with its contributions.
pub fn documents_differ(catalogue: &Catalogue, document: &TagDocument, before: &[Contribution], after: &[Contribution]) -> bool {
    changed(catalogue, document, before, after).next().is_some()
}

/// How the documents of a record change with its contributions. `built_tree` returns trees that have been built already.
pub fn changes(
    catalogue: &Catalogue,
    document: &TagDocument,
    before: &[Contribution],
    after: &[Contribution],
    built_tree: impl Fn(&Contribution) -> Option<Bytes>,
) -> DocumentChanges {
    let tree = |new: &Contribution| built_tree(new).or_else(|| packed(new));
    changed(catalogue, document, before, after).map(|(name, new)| (name.into(), new.and_then(tree))).collect()
}

/// All documents of a record, from its kept documents.
pub fn documents_of(catalogue: &Catalogue, document: &TagDocument, contributions: &[Contribution]) -> RecordDocuments {
    let own = |change: (Arc<str>, Option<Bytes>)| Some((change.0, change.1?));
    changes(catalogue, document, &[], contributions, |_| None).into_iter().filter_map(own).collect()
}

/// The definitions of a collection's tags that are XPaths.
#[derive(Debug, Clone, Default)]
pub struct TagDefinitions {
    /// Names of the tags.
    pub names: Vec<String>,
    xpaths: Vec<CompiledXPath>,
}

/// A definition, and the names of the elements in whose subtrees all lies that it can reach; `None` if it may reach more.
#[derive(Debug, Clone)]
struct CompiledXPath {
    xpath: XPath,
    visible_elements: Option<Vec<Box<str>>>,
}

impl From<XPath> for CompiledXPath {
    fn from(xpath: XPath) -> Self {
        let sees_only = xpath.visible_elements().map(|names| names.into_iter().map(Into::into).collect());
        Self { xpath, visible_elements: sees_only }
    }
}

impl TagDefinitions {
    /// The definitions of a collection's tags, or only of those that `only` names.
    pub fn from_tags(collection: &Collection, tags: &CollectionTags, only: Option<&[String]>) -> Self {
        let mut own = Self::default();
        let Some(document) = collection.tag_document() else { return own };
        for tag in tags.tags.iter().filter(|tag| only.is_none_or(|only| only.contains(&tag.name))) {
            // an XPath that cannot be parsed was not written for this catalogue; records keep such a tag
            if let TagDefinition::XPath(text) = &tag.definition
                && let Ok(xpath) = XPath::parse(text, &document.namespaces)
            {
                own.names.push(tag.name.clone());
                own.xpaths.push(xpath.into());
            }
        }
        own
    }

    /// A definition that does not belong to a tag yet.
    pub fn from_xpath(xpath: XPath) -> Self {
        Self { names: vec![String::new()], xpaths: vec![xpath.into()] }
    }

    /// The positions of the definitions that hold for a record, and of those that exceed their steps, which count as not holding.
    pub fn evaluate(&self, catalogue: &Catalogue, collection: &Collection, parts: &RecordDocuments) -> (Vec<u32>, Vec<u32>) {
        let (mut carried, mut failed) = (Vec::new(), Vec::new());
        let Some(rules) = collection.tags.as_ref().filter(|_| !self.xpaths.is_empty()) else { return (carried, failed) };
        let Some(document) = &rules.document else { return (carried, failed) };
        NODE_BUFFERS.with_borrow_mut(|(first, whole)| {
            let find = |source: SourceId| {
                let name = catalogue.sources[source].name.as_str();
                parts.iter().find(|(own, _)| &**own == name).map(|(_, tree)| &**tree)
            };
            let root = find(document.root).and_then(|tree| XmlTree::unpack_into(tree, std::mem::take(first)));
            let is_root = |source: SourceId| source == document.root && root.is_some();
            let other = |source: SourceId| find(source).filter(|_| !is_root(source)).and_then(XmlTree::unpack);
            let top = root.as_ref().map_or_else(|| Cow::Owned(XmlTree::empty(&document.placeholder)), Cow::Borrowed);
            let element = top.name(top.element()).local;
            let mut composed = None;
            for (position, CompiledXPath { xpath, visible_elements: sees_only }) in self.xpaths.iter().enumerate() {
                // not every definition can reach the embedded documents
                let tree = match sees_only {
                    Some(names) if !names.iter().any(|name| **name == *element) => &*top,
                    _ => composed.get_or_insert_with(|| {
                        let others: Vec<Option<XmlTree<'_>>> = document.embedded.iter().map(|(_, source)| other(*source)).collect();
                        let copies = document.embedded.iter().zip(&others).filter_map(|((prefix, source), tree)| {
                            let tree = tree.as_ref().or_else(|| is_root(*source).then_some(&*top))?;
                            Some((prefix.as_str(), tree))
                        });
                        XmlTree::compose(&top, &copies.collect::<Vec<_>>(), std::mem::take(whole))
                    }),
                };
                match stook_formats::xpath::is_true(xpath, tree, rules.steps) {
                    Ok(true) => carried.push(position as u32),
                    Ok(false) => {}
                    Err(_) => failed.push(position as u32),
                }
            }
            if let Some(composed) = composed {
                *whole = composed.nodes;
            }
            drop(top);
            if let Some(root) = root {
                *first = root.nodes;
            }
        });
        (carried, failed)
    }
}

thread_local! {
    /// Buffers for the nodes of a source's document and of a composed one: each takes about 100 kB, and would otherwise be allocated for each record.
    static NODE_BUFFERS: RefCell<(Vec<XmlNode>, Vec<XmlNode>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}
