//! XML as the nodes of XPath's data model, in document order, in a few arrays.
//!
//! A tree is built once from a document ([`XmlTree::parse`]) and can be stored ([`XmlTree::pack`]): unpacking takes a fraction of the time of
//! parsing. Trees can be combined ([`XmlTree::compose`]).

use super::{NodeKind, QualifiedName, Tree, TreeNode};
use crate::name::{ExpandedName, name_hash};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// A node. Its position in [`XmlTree::nodes`] is its position in document order.
#[derive(Debug, Clone, Copy)]
pub struct XmlNode {
    /// Its kind.
    pub kind: NodeKind,
    /// How many attributes follow it.
    pub attributes: u16,
    /// Its name, as a position among the names of the tree; 0 for none.
    pub name: u32,
    /// The node that contains it.
    pub parent: u32,
    /// The position after everything in it.
    pub end: u32,
    /// Where its text begins.
    pub(super) from: u32,
    /// Where its text ends.
    pub(super) to: u32,
}

/// A part of a tree's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TextSpan(pub(super) u32, pub(super) u32);

/// A name.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeName {
    pub(super) uri: TextSpan,
    pub(super) prefix: TextSpan,
    pub(super) local: TextSpan,
}

/// A namespace that an element declares.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeclaredNamespace {
    pub(super) element: u32,
    pub(super) prefix: TextSpan,
    pub(super) uri: TextSpan,
}

/// Up to this many names, a linear search is faster than a hash table.
const FEW_NAMES: usize = 256;

/// A document's nodes.
#[derive(Debug, Clone)]
pub struct XmlTree<'t> {
    /// All nodes except namespaces; the first is the root.
    pub nodes: Vec<XmlNode>,
    pub(super) names: Vec<NodeName>,
    /// For each name, the first name with the same namespace and local part.
    pub(super) canonical: Vec<u32>,
    /// For each name, a hash of its namespace and local part.
    pub(super) hashes: Vec<u32>,
    /// Declared namespaces, in document order of their elements.
    pub(super) declared: Vec<DeclaredNamespace>,
    pub(super) text: Cow<'t, str>,
}

impl XmlTree<'_> {
    /// The outermost element.
    pub fn element(&self) -> usize {
        Tree::element(self)
    }

    /// The children of a node.
    pub fn children(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let parent = self.nodes[node];
        let mut next = node + 1 + usize::from(parent.attributes);
        std::iter::from_fn(move || {
            let child = next;
            (child < parent.end as usize).then(|| {
                next = self.nodes[child].end as usize;
                child
            })
        })
    }

    /// The position of the first name with this namespace and local part, if there is one.
    pub(super) fn find_name(&self, hash: u32, uri: &str, local: &str) -> Option<u32> {
        let has_name = |name: &NodeName| self.slice(name.local) == local && self.slice(name.uri) == uri;
        let mut index = 0;
        loop {
            index += self.hashes[index..].iter().position(|known| *known == hash)?;
            if has_name(&self.names[index]) {
                return Some(index as u32);
            }
            index += 1;
        }
    }

    pub(super) fn slice(&self, span: TextSpan) -> &str {
        self.text.get(span.0 as usize..span.1 as usize).unwrap_or_default()
    }

    /// A node's own text: an attribute's value, text, a comment, an instruction.
    pub fn own_text(&self, node: usize) -> &str {
        let node = &self.nodes[node];
        self.slice(TextSpan(node.from, node.to))
    }

    /// A node's name.
    pub fn name(&self, node: usize) -> QualifiedName<'_> {
        let name = &self.names[self.nodes[node].name as usize];
        QualifiedName { uri: self.slice(name.uri), prefix: self.slice(name.prefix), local: self.slice(name.local) }
    }

    /// Namespaces in scope of an element: prefixes and URIs, in a fixed order.
    pub fn namespaces(&self, element: usize) -> Vec<(&str, &str)> {
        let mut found = vec![("xml", "http://www.w3.org/XML/1998/namespace")];
        let mut hidden = HashSet::from(["xml"]);
        let mut ancestor = element;
        while self.nodes[ancestor].kind == NodeKind::Element {
            let first_declaration = self.declared.partition_point(|declaration| (declaration.element as usize) < ancestor);
            for declaration in self.declared[first_declaration..].iter().take_while(|declaration| declaration.element as usize == ancestor) {
                let (prefix, uri) = (self.slice(declaration.prefix), self.slice(declaration.uri));
                if hidden.insert(prefix) {
                    // xmlns="" removes the namespace
                    found.extend((!uri.is_empty()).then_some((prefix, uri)));
                }
            }
            ancestor = self.nodes[ancestor].parent as usize;
        }
        found
    }

    /// Computes the hashes of names, and which names are equal except for their prefixes.
    pub(super) fn index_names(&mut self) {
        self.hashes = self.names.iter().map(|name| name_hash(self.slice(name.uri), self.slice(name.local))).collect();
        let parts = |name: &NodeName| (self.slice(name.uri), self.slice(name.local));
        let mut canonical = Vec::with_capacity(self.names.len());
        if self.names.len() <= FEW_NAMES {
            let find = |(index, name): (usize, &NodeName)| self.find_name(self.hashes[index], parts(name).0, parts(name).1).unwrap_or(index as u32);
            canonical.extend(self.names.iter().enumerate().map(find));
        } else {
            let mut first: HashMap<(&str, &str), u32> = HashMap::with_capacity(self.names.len());
            canonical.extend(self.names.iter().enumerate().map(|(index, name)| *first.entry(parts(name)).or_insert(index as u32)));
        }
        self.canonical = canonical;
    }
}

impl Tree for XmlTree<'_> {
    #[inline]
    fn size(&self) -> usize {
        self.nodes.len()
    }

    #[inline]
    fn node(&self, node: usize) -> TreeNode {
        let node = &self.nodes[node];
        TreeNode { kind: node.kind, attributes: node.attributes.into(), parent: node.parent as usize, end: node.end as usize }
    }

    fn number_of(&self, name: &ExpandedName) -> Option<u32> {
        self.find_name(name.hash, &name.uri, &name.local)
    }

    #[inline]
    fn name_number(&self, node: usize) -> u32 {
        self.canonical[self.nodes[node].name as usize]
    }

    #[inline]
    fn name(&self, node: usize) -> QualifiedName<'_> {
        self.name(node)
    }

    #[inline]
    fn own_text(&self, node: usize) -> &str {
        self.own_text(node)
    }

    fn namespaces(&self, element: usize) -> Vec<(&str, &str)> {
        self.namespaces(element)
    }

    #[inline]
    fn next_element(&self, name: u32, range: Range<usize>) -> Option<usize> {
        let is = |node: &XmlNode| node.kind == NodeKind::Element && self.canonical[node.name as usize] == name;
        Some(range.start + self.nodes[range].iter().position(is)?)
    }
}
