//! Combines several trees into one.

use super::NodeKind;
use super::xml_tree::{DeclaredNamespace, NodeName, TextSpan, XmlNode, XmlTree};
use crate::name::name_hash;
use std::borrow::Cow;

impl XmlTree<'_> {
    /// Combines several documents: the first tree as it is, with copies of the other trees' outermost elements appended to its outermost element.
    /// Elements of the copies that are in no namespace are put into the one given with their tree. The memory of `nodes` is reused.
    pub fn compose(first: &XmlTree<'_>, parts: &[(&str, &XmlTree<'_>)], mut nodes: Vec<XmlNode>) -> XmlTree<'static> {
        let inside = |tree: &XmlTree<'_>| tree.element()..tree.nodes[tree.element()].end as usize;
        let element = first.element();
        let end = inside(first).end;
        nodes.clear();
        nodes.reserve(first.nodes.len() + parts.iter().map(|(_, part)| inside(part).len()).sum::<usize>());
        nodes.extend_from_slice(&first.nodes[..end]);
        let mut whole = XmlTree {
            nodes,
            names: first.names.clone(),
            canonical: first.canonical.clone(),
            hashes: first.hashes.clone(),
            declared: first.declared.clone(),
            text: Cow::Owned(first.text.clone().into_owned()),
        };
        for (uri, part) in parts {
            let shared = std::ptr::eq(*part, first);
            whole.append(part, inside(part), element as u32, uri, shared);
        }
        let grown = (whole.nodes.len() - end) as u32;
        let mut above = element as u32;
        loop {
            whole.nodes[above as usize].end += grown;
            if above == 0 {
                break;
            }
            above = whole.nodes[above as usize].parent;
        }
        // nodes after the element are in the document
        whole.nodes.extend(first.nodes[end..].iter().map(|node| XmlNode { end: node.end + grown, ..*node }));
        whole
    }

    /// Appends nodes of another tree, or of the first one (then their texts are `shared`), below `parent`. Elements in no namespace are put into
    /// `uri`.
    fn append(&mut self, other: &XmlTree<'_>, range: std::ops::Range<usize>, parent: u32, uri: &str, shared: bool) {
        let at = self.nodes.len();
        let offset = (at as u32).wrapping_sub(range.start as u32);
        let texts = if shared { 0 } else { self.text.len() as u32 };
        if !shared {
            self.text.to_mut().push_str(&other.text);
        }
        let prefix = self.add_text(uri);
        // new names by old name: [of elements, of everything else]
        let mut names = vec![[u32::MAX; 2]; other.names.len()];
        for node in &other.nodes[range.clone()] {
            let takes = node.kind == NodeKind::Element;
            let mut name = names[node.name as usize][usize::from(!takes)];
            if name == u32::MAX {
                let own = &other.names[node.name as usize];
                let moves = takes && own.uri.0 == own.uri.1;
                let (own_uri, own_prefix) = if moves { (uri, uri) } else { (other.slice(own.uri), other.slice(own.prefix)) };
                name = self.add_name(own_uri, own_prefix, other.slice(own.local));
                names[node.name as usize][usize::from(!takes)] = name;
            }
            let moved = |place: u32| place.wrapping_add(offset);
            self.nodes.push(XmlNode {
                name,
                parent: moved(node.parent),
                end: moved(node.end),
                from: node.from + texts,
                to: node.to + texts,
                ..*node
            });
        }
        if let Some(first) = self.nodes.get_mut(at) {
            first.parent = parent;
        }
        self.declared.push(DeclaredNamespace { element: at as u32, prefix, uri: prefix });
        let shift = |span: TextSpan| TextSpan(span.0 + texts, span.1 + texts);
        for own in other.declared.iter().filter(|own| range.contains(&(own.element as usize))) {
            let (element, prefix, uri) = (own.element.wrapping_add(offset), shift(own.prefix), shift(own.uri));
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
        let same = self.find_name(hash, uri, local);
        if let Some(first) = same {
            let is = |place: &usize| self.canonical[*place] == first && self.slice(self.names[*place].prefix) == prefix;
            if let Some(place) = (first as usize..self.names.len()).find(is) {
                return place as u32;
            }
        }
        let (uri, prefix, local) = (self.add_text(uri), self.add_text(prefix), self.add_text(local));
        self.names.push(NodeName { uri, prefix, local });
        self.hashes.push(hash);
        let place = self.names.len() as u32 - 1;
        self.canonical.push(same.unwrap_or(place));
        place
    }
}
