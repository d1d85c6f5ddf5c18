//! What the evaluator asks of a tree ([`Tree`]), and a tree of XML that answers it ([`XmlTree`]).

mod build;
mod compose;
mod pack;
mod xml_tree;

pub use xml_tree::{XmlNode, XmlTree};

use crate::name::ExpandedName;
use std::ops::Range;

/// Kinds of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum NodeKind {
    /// The document.
    Root,
    /// An element; its attributes follow it, then what is in it.
    Element,
    /// An attribute.
    Attribute,
    /// Text, longest pieces.
    Text,
    /// A comment.
    Comment,
    /// A processing instruction.
    Instruction,
}

/// Where a node stands: what it is, and which nodes are around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeNode {
    /// What it is.
    pub kind: NodeKind,
    /// How many attributes it has: the nodes that follow it directly.
    pub attributes: usize,
    /// The node it is in, or of. The root's is 0, too.
    pub parent: usize,
    /// The number of the first node after it that is not in it.
    pub end: usize,
}

/// The name of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QualifiedName<'t> {
    /// Its namespace; empty for none.
    pub uri: &'t str,
    /// Its prefix; empty for none.
    pub prefix: &'t str,
    /// Its local part.
    pub local: &'t str,
}

/// A document on which expressions are evaluated.
///
/// Its nodes are numbered in document order: 0 is the root, the document itself; an element is followed by its attributes, then by
/// what is in it. Namespaces are no nodes of their own. Pieces of text that follow each other are one node, as the standard has it.
/// Names are compared by number: names with the same namespace and local part have the same number, whatever their prefixes.
///
/// Methods are called with numbers of nodes below [`Tree::size`] only.
pub trait Tree {
    /// How many nodes there are, at least the root.
    fn size(&self) -> usize;

    /// Where a node stands.
    fn node(&self, node: usize) -> TreeNode;

    /// The number of a name; nothing where no node has it.
    fn number_of(&self, name: &ExpandedName) -> Option<u32>;

    /// The number of the name of an element or an attribute.
    fn name_number(&self, node: usize) -> u32;

    /// The name of an element or an attribute; of a processing instruction its target, as the local part.
    fn name(&self, node: usize) -> QualifiedName<'_>;

    /// The value of an attribute, or what a text, a comment or a processing instruction says.
    fn own_text(&self, node: usize) -> &str;

    /// Namespaces in scope of an element, `xml` included: prefixes and what they stand for, always in the same order. A document
    /// without namespaces has none.
    fn namespaces(&self, element: usize) -> Vec<(&str, &str)> {
        let _ = element;
        Vec::new()
    }

    /// The first element with a name among nodes that follow each other.
    fn next_element(&self, name: u32, range: Range<usize>) -> Option<usize> {
        let mut range = range;
        range.find(|node| self.node(*node).kind == NodeKind::Element && self.name_number(*node) == name)
    }

    /// The element in which everything is; the root where there is none.
    fn element(&self) -> usize {
        let root = self.node(0);
        let mut child = 1 + root.attributes;
        while child < root.end {
            let own = self.node(child);
            if own.kind == NodeKind::Element {
                return child;
            }
            child = own.end;
        }
        0
    }
}
