//! Builds trees from parsed documents.

use super::NodeKind;
use super::xml_tree::{DeclaredNamespace, NodeName, TextSpan, XmlNode, XmlTree};
use crate::xml::{self, XmlError};
use std::borrow::Cow;
use std::collections::HashMap;

impl XmlTree<'_> {
    /// Parses a document. A document type declaration is ignored, so a document that uses one of its entities is refused.
    ///
    /// # Errors
    /// As [`xml::parse`], except for the declaration.
    pub fn parse(bytes: &[u8]) -> Result<XmlTree<'static>, XmlError> {
        let text = xml::without_document_type(xml::text(bytes)?);
        let document = xml::parse_text(&text)?;
        let mut builder = TreeBuilder::new(bytes.len());
        builder.document(&document);
        Ok(builder.finish())
    }

    /// A document with only an empty element of this name.
    pub fn empty(name: &str) -> XmlTree<'static> {
        let mut builder = TreeBuilder::new(0);
        let name = builder.name("", "", name);
        builder.push(NodeKind::Root, 0, 0, TextSpan::default());
        builder.push(NodeKind::Element, name, 0, TextSpan::default());
        builder.nodes[0].end = 2;
        builder.finish()
    }
}

/// Whether short texts are equal; a call of the general comparison would cost more than comparing them.
fn is_equal_text(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let (left, right) = (a.chunks_exact(8), b.chunks_exact(8));
    let remainder_is_equal = left.remainder().iter().zip(right.remainder()).all(|(a, b)| a == b);
    remainder_is_equal && left.zip(right).all(|(a, b)| a == b)
}

/// The slot of a text in a table of `slots` slots, a power of two: computed from its ends, which is faster than from all of it.
fn slot_of(text: &str, slots: usize) -> usize {
    let bytes = text.as_bytes();
    let short = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let (first, last) = match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (short(bytes), 0),
    };
    let mixed = (first ^ last.rotate_left(23) ^ bytes.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize & (slots - 1)
}

/// Texts up to this length are stored once.
const SHARED: usize = 32;

struct TreeBuilder {
    nodes: Vec<XmlNode>,
    names: Vec<NodeName>,
    name_numbers: HashMap<(String, String, String), u32>,
    declared: Vec<DeclaredNamespace>,
    text: String,
    /// Short texts seen before, by hash.
    shared: Vec<TextSpan>,
    /// Names seen before, by hash.
    recent_names: Vec<u32>,
}

impl TreeBuilder {
    fn new(size: usize) -> Self {
        let mut builder = Self {
            nodes: Vec::with_capacity(size / 10 + 8),
            names: Vec::new(),
            name_numbers: HashMap::new(),
            declared: Vec::new(),
            text: String::with_capacity(size / 2),
            shared: vec![TextSpan::default(); 1024],
            recent_names: vec![u32::MAX; 256],
        };
        builder.name("", "", "");
        builder
    }

    fn finish(self) -> XmlTree<'static> {
        let Self { nodes, names, declared, text, .. } = self;
        let mut tree = XmlTree { nodes, names, canonical: Vec::new(), hashes: Vec::new(), declared, text: Cow::Owned(text) };
        tree.index_names();
        tree
    }

    fn slice(&self, span: TextSpan) -> &str {
        &self.text[span.0 as usize..span.1 as usize]
    }

    fn span(&mut self, text: &str) -> TextSpan {
        if text.is_empty() {
            return TextSpan::default();
        }
        let from = self.text.len() as u32;
        let fresh = TextSpan(from, from + text.len() as u32);
        if text.len() <= SHARED {
            let slot = slot_of(text, self.shared.len());
            let earlier = self.shared[slot];
            if is_equal_text(self.slice(earlier), text) {
                return earlier;
            }
            self.shared[slot] = fresh;
        }
        self.text.push_str(text);
        fresh
    }

    fn name(&mut self, uri: &str, prefix: &str, local: &str) -> u32 {
        let slot = slot_of(local, self.recent_names.len());
        if let Some(name) = self.names.get(self.recent_names[slot] as usize)
            && is_equal_text(self.slice(name.local), local)
            && is_equal_text(self.slice(name.prefix), prefix)
            && is_equal_text(self.slice(name.uri), uri)
        {
            return self.recent_names[slot];
        }
        let key = (uri.to_owned(), prefix.to_owned(), local.to_owned());
        let number = match self.name_numbers.get(&key) {
            Some(known_number) => *known_number,
            None => {
                let name = NodeName { uri: self.span(uri), prefix: self.span(prefix), local: self.span(local) };
                self.names.push(name);
                let number = self.names.len() as u32 - 1;
                self.name_numbers.insert(key, number);
                number
            }
        };
        self.recent_names[slot] = number;
        number
    }

    fn push(&mut self, kind: NodeKind, name: u32, parent: u32, text: TextSpan) -> u32 {
        let at = self.nodes.len() as u32;
        self.nodes.push(XmlNode { kind, attributes: 0, name, parent, end: at + 1, from: text.0, to: text.1 });
        at
    }

    /// Adds a document, node by node: a recursive function would need a stack as deep as the document.
    fn document(&mut self, document: &roxmltree::Document<'_>) {
        let root = self.push(NodeKind::Root, 0, 0, TextSpan::default());
        let mut open = vec![root];
        let mut next = document.root().first_child();
        while let (Some(node), Some(parent)) = (next, open.last()) {
            if let Some(element) = self.node(node, *parent, document.input_text()) {
                open.push(element);
                next = node.first_child();
                if next.is_some() {
                    continue;
                }
                self.close(&mut open);
            }
            let mut ended = node;
            while ended.next_sibling().is_none() {
                // it was the last child of its parent
                let Some(parent_node) = ended.parent() else { break };
                self.close(&mut open);
                ended = parent_node;
            }
            next = ended.next_sibling();
        }
    }

    /// Ends the innermost open node.
    fn close(&mut self, open: &mut Vec<u32>) {
        if let Some(ended) = open.pop() {
            self.nodes[ended as usize].end = self.nodes.len() as u32;
        }
    }

    /// Adds a node; returns the number of an element, which is then open.
    fn node(&mut self, node: roxmltree::Node<'_, '_>, parent: u32, input: &str) -> Option<u32> {
        match node.node_type() {
            roxmltree::NodeType::Element => return Some(self.element(node, parent, input)),
            roxmltree::NodeType::Text => {
                let text = self.span(node.text().unwrap_or_default());
                self.push(NodeKind::Text, 0, parent, text);
            }
            roxmltree::NodeType::Comment => {
                let text = self.span(node.text().unwrap_or_default());
                self.push(NodeKind::Comment, 0, parent, text);
            }
            roxmltree::NodeType::PI => {
                let instruction = node.pi()?;
                let name = self.name("", "", instruction.target);
                let text = self.span(instruction.value.unwrap_or_default());
                self.push(NodeKind::Instruction, name, parent, text);
            }
            roxmltree::NodeType::Root => {}
        }
        None
    }

    fn element(&mut self, element: roxmltree::Node<'_, '_>, parent: u32, input: &str) -> u32 {
        let tag = element.tag_name();
        let prefix = prefix_of(&input[element.range().start + 1..], tag.name());
        let name = self.name(tag.namespace().unwrap_or_default(), prefix, tag.name());
        let at = self.push(NodeKind::Element, name, parent, TextSpan::default());
        let outer = element.parent().filter(roxmltree::Node::is_element);
        // roxmltree shares an element's list of namespaces with its parent if it declares none
        for namespace in element.namespaces() {
            let is_outer = |outer: roxmltree::Node<'_, '_>| outer.namespaces().any(|outer_namespace| outer_namespace == namespace);
            if namespace.name() != Some("xml") && !outer.is_some_and(is_outer) {
                let (prefix, uri) = (self.span(namespace.name().unwrap_or_default()), self.span(namespace.uri()));
                self.declared.push(DeclaredNamespace { element: at, prefix, uri });
            }
        }
        for attribute in element.attributes() {
            let prefix = prefix_of(&input[attribute.range().start..], attribute.name());
            let name = self.name(attribute.namespace().unwrap_or_default(), prefix, attribute.name());
            let text = self.span(attribute.value());
            self.push(NodeKind::Attribute, name, at, text);
            self.nodes[at as usize].attributes += 1;
        }
        at
    }
}

/// The prefix of a name, as it is written.
fn prefix_of<'i>(written: &'i str, local: &str) -> &'i str {
    if written.starts_with(local) && !written[local.len()..].starts_with(':') {
        return "";
    }
    written.split_once(':').map_or("", |(prefix, _)| prefix)
}
