//! What the evaluator needs of a tree ([`Tree`]), and a tree of XML that implements it ([`XmlTree`]).

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
    /// An element; its attributes follow it, then its content.
    Element,
    /// An attribute.
    Attribute,
    /// Text; adjacent pieces are one node.
    Text,
    /// A comment.
    Comment,
    /// A processing instruction.
    Instruction,
}

/// A node's kind, and its position among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeNode {
    /// Its kind.
    pub kind: NodeKind,
    /// How many attributes it has: the nodes that follow it directly.
    pub attributes: usize,
    /// The node that contains it. The root's is 0, too.
    pub parent: usize,
    /// The number of the first node after it and everything in it.
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
/// Its nodes are numbered in document order: 0 is the root, the document itself; an element is followed by its attributes, then by its content.
/// Namespace nodes have no numbers. Adjacent pieces of text are one node, as the standard requires. Names are compared by number: names with the same
/// namespace and local part have the same number, whatever their prefixes.
///
/// Methods are only called with numbers of nodes below [`Tree::size`].
pub trait Tree {
    /// The number of nodes, at least the root.
    fn size(&self) -> usize;

    /// A node's kind, and its position among the others.
    fn node(&self, node: usize) -> TreeNode;

    /// The number of a name; `None` if no node has it.
    fn number_of(&self, name: &ExpandedName) -> Option<u32>;

    /// The number of the name of an element or an attribute.
    fn name_number(&self, node: usize) -> u32;

    /// The name of an element or an attribute; for a processing instruction, its target as the local part.
    fn name(&self, node: usize) -> QualifiedName<'_>;

    /// The value of an attribute, or the text of a text node, comment or processing instruction.
    fn own_text(&self, node: usize) -> &str;

    /// Namespaces in scope of an element, including `xml`: prefixes and URIs, always in the same order. The default returns none.
    fn namespaces(&self, element: usize) -> Vec<(&str, &str)> {
        let _ = element;
        Vec::new()
    }

    /// The first element with this name in a range of nodes.
    fn next_element(&self, name: u32, range: Range<usize>) -> Option<usize> {
        let mut range = range;
        range.find(|node| self.node(*node).kind == NodeKind::Element && self.name_number(*node) == name)
    }

    /// The outermost element; the root if there is none.
    fn element(&self) -> usize {
        let root = self.node(0);
        let mut child = 1 + root.attributes;
        while child < root.end {
            let child_node = self.node(child);
            if child_node.kind == NodeKind::Element {
                return child;
            }
            child = child_node.end;
        }
        0
    }
}
