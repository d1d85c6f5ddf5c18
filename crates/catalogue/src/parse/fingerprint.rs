//! The canonical text of a definition, by which two definitions are compared: equal text, equal meaning.

use super::parser::NamedNode;
use super::yaml::{Node, NodeKind};
use crate::model::definition::Collection;
use crate::model::ids::{CollectionId, IdVec, LinkId};
use crate::model::links::Link;

/// Returns everything that decides how records are settled, as text.
pub(super) fn settling_text(
    root: &Node,
    nodes: &IdVec<CollectionId, NamedNode<'_>>,
    links: &IdVec<LinkId, Link>,
    collections: &IdVec<CollectionId, Collection>,
) -> String {
    let part = |node: Option<&Node>| node.map(|node| canonical(node, &[])).unwrap_or_default();
    let mut text = String::new();
    for NamedNode { name, node, .. } in nodes {
        let Some(Node { kind: NodeKind::Map(fields), .. }) = node.get("fields") else { continue };
        let derived = fields.iter().filter(|(_, field)| field.get("derive").is_some() || field.get("rollup").is_some());
        let derived: Vec<String> = derived.map(|(name, field)| format!("{} {}", part(Some(name)), part(Some(field)))).collect();
        let is_rolled_up = fields.iter().any(|(_, field)| field.get("rollup").is_some());
        if is_rolled_up || node.get("links").is_some() || node.get("coverage").is_some() {
            text.push_str(&format!("{name} {} {} {derived:?}\n", part(node.get("links")), part(node.get("coverage"))));
        }
    }
    // links of lists were settled differently by earlier versions: this makes stores settle them again
    for link in links.iter().filter(|link| link.involves_lists(collections)) {
        text.push_str(&format!("{} {} lists\n", collections[link.child_collection].name, link.name));
    }
    // earlier versions did not make records that links create wait for unique values
    for link in links.iter().filter(|link| link.create) {
        let unique: Vec<&str> = collections[link.target_collection].fields.iter().filter(|field| field.unique).map(|field| &*field.name).collect();
        if !unique.is_empty() {
            text.push_str(&format!("{} {} unique {unique:?}\n", collections[link.child_collection].name, link.name));
        }
    }
    if text.is_empty() { text } else { text + &part(root.get("lookups")) }
}

/// Returns a source's rules for its documents as text, without those for its files, what is expected of them, and its jobs, which do not change what documents become.
pub(super) fn source_fingerprint(node: &Node) -> String {
    let NodeKind::Map(entries) = &node.kind else { return canonical(node, &[]) };
    let affects_documents = |name: &Node| !name.text().is_some_and(|name| ["files", "has", "expect", "undo"].contains(&name));
    let entries = entries.iter().filter(|(name, _)| affects_documents(name)).cloned().collect();
    canonical(&Node { kind: NodeKind::Map(entries), span: node.span.clone() }, &["accept", "was"])
}

/// Returns a node as text without layout, comments and the keys in `without`: equal text, equal meaning.
pub(super) fn canonical(node: &Node, without: &[&str]) -> String {
    match &node.kind {
        NodeKind::Scalar { text, quoted } => format!("{}{text:?}", if *quoted { "'" } else { "" }),
        NodeKind::List(items) => format!("[{}]", items.iter().map(|item| canonical(item, without)).collect::<Vec<_>>().join(",")),
        NodeKind::Map(entries) => {
            let mut lines: Vec<String> = entries
                .iter()
                .filter(|(name, _)| !name.text().is_some_and(|name| without.contains(&name)))
                .map(|(name, value)| format!("{:?}:{}", name.text().unwrap_or_default(), canonical(value, without)))
                .collect();
            lines.sort();
            format!("{{{}}}", lines.join(","))
        }
    }
}
