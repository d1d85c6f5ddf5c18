//! Combines several trees into one.

use super::NodeKind;
use super::xml_tree::{DeclaredNamespace, NodeName, TextSpan, XmlNode, XmlTree};
use crate::name::name_hash;
use std::borrow::Cow;

impl XmlTree<'_> {
    /// Combines several documents: the first tree as it is, with copies of the other trees' outermost elements appended to its outermost element.
    /// Elements of the copies that are in no namespace are put into the one given with their tree. The memory of `nodes` is reused.
    pub fn compose(first: &XmlTree<'_>, parts: &[(&str, &XmlTree<'_>)], mut nodes: Vec<XmlNode>) -> XmlTree<'static> {
        let content = |tree: &XmlTree<'_>| tree.element()..tree.nodes[tree.element()].end as usize;
        let element = first.element();
        let end = content(first).end;
        nodes.clear();
        nodes.reserve(first.nodes.len() + parts.iter().map(|(_, part)| content(part).len()).sum::<usize>());
        nodes.extend_from_slice(&first.nodes[..end]);
        let mut composed = XmlTree {
            nodes,
            names: first.names.clone(),
            canonical: first.canonical.clone(),
            hashes: first.hashes.clone(),
            declared: first.declared.clone(),
            text: Cow::Owned(first.text.clone().into_owned()),
        };
        for (uri, part) in parts {
            let shared = std::ptr::eq(*part, first);
            composed.append(part, content(part), element as u32, uri, shared);
        }
        let grown = (composed.nodes.len() - end) as u32;
        let mut ancestor = element as u32;
        loop {
            composed.nodes[ancestor as usize].end += grown;
            if ancestor == 0 {
                break;
            }
            ancestor = composed.nodes[ancestor as usize].parent;
        }
        // nodes after the element are in the document
        composed.nodes.extend(first.nodes[end..].iter().map(|node| XmlNode { end: node.end + grown, ..*node }));
        composed
    }

    /// Appends nodes of another tree, or of the first one (then their texts are `shared`), below `parent`. Elements in no namespace are put into
    /// `uri`.
    fn append(&mut self, other: &XmlTree<'_>, range: std::ops::Range<usize>, parent: u32, uri: &str, shared: bool) {
        let first_index = self.nodes.len();
        let offset = (first_index as u32).wrapping_sub(range.start as u32);
        let texts = if shared { 0 } else { self.text.len() as u32 };
        if !shared {
            self.text.to_mut().push_str(&other.text);
        }
        let prefix = self.add_text(uri);
        // new names by old name: [of elements, of everything else]
        let mut names = vec![[u32::MAX; 2]; other.names.len()];
        for node in &other.nodes[range.clone()] {
            let is_element = node.kind == NodeKind::Element;
            let mut name = names[node.name as usize][usize::from(!is_element)];
            if name == u32::MAX {
                let part = &other.names[node.name as usize];
                let has_no_namespace = is_element && part.uri.0 == part.uri.1;
                let (new_uri, new_prefix) = if has_no_namespace { (uri, uri) } else { (other.slice(part.uri), other.slice(part.prefix)) };
                name = self.add_name(new_uri, new_prefix, other.slice(part.local));
                names[node.name as usize][usize::from(!is_element)] = name;
            }
            let shifted = |index: u32| index.wrapping_add(offset);
            self.nodes.push(XmlNode {
                name,
                parent: shifted(node.parent),
                end: shifted(node.end),
                from: node.from + texts,
                to: node.to + texts,
                ..*node
            });
        }
        if let Some(first) = self.nodes.get_mut(first_index) {
            first.parent = parent;
        }
        self.declared.push(DeclaredNamespace { element: first_index as u32, prefix, uri: prefix });
        let shift = |span: TextSpan| TextSpan(span.0 + texts, span.1 + texts);
        for namespace in other.declared.iter().filter(|namespace| range.contains(&(namespace.element as usize))) {
            let (element, prefix, uri) = (namespace.element.wrapping_add(offset), shift(namespace.prefix), shift(namespace.uri));
            self.declared.push(DeclaredNamespace { element, prefix, uri });
        }
    }

    fn add_text(&mut self, text: &str) -> TextSpan {
        let from = self.text.len() as u32;
        self.text.to_mut().push_str(text);
        TextSpan(from, from + text.len() as u32)
    }

    fn add_name(&mut self, uri: &str, prefix: &str, local: &str) -> u32 {
        let hash = name_hash(uri, local);
        let same_name = self.find_name(hash, uri, local);
        if let Some(first) = same_name {
            let has_prefix = |index: &usize| self.canonical[*index] == first && self.slice(self.names[*index].prefix) == prefix;
            if let Some(index) = (first as usize..self.names.len()).find(has_prefix) {
                return index as u32;
            }
        }
        let (uri, prefix, local) = (self.add_text(uri), self.add_text(prefix), self.add_text(local));
        self.names.push(NodeName { uri, prefix, local });
        self.hashes.push(hash);
        let index = self.names.len() as u32 - 1;
        self.canonical.push(same_name.unwrap_or(index));
        index
    }
}
