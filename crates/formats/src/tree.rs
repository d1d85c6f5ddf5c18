//! XML as the nodes of XPath's data model, in document order, in a few arrays.
//!
//! A tree is made once of a document ([`XmlTree::parse`]) and can be kept ([`XmlTree::pack`]): unpacking takes a fraction of what
//! parsing does. Trees can be put together ([`XmlTree::compose`]).
//!
//! ```text
//! packed = version, text length, text, names, name (uri, prefix, local)*, declarations, (node, prefix, uri)*, nodes, node*
//! node   = kind | fresh << 3 | name << 4, then for text, attributes, comments, instructions: [from,] length
//! ```
//! Numbers are LEB128. Text is kept once: `fresh` says that a node's text begins where the last fresh one ended.

use crate::DocumentError;
use crate::xml;
use std::borrow::Cow;
use std::collections::HashMap;
use stook_catalogue::xpath::name_hash;

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

/// A node. Its place in [`XmlTree::nodes`] is its place in document order.
#[derive(Debug, Clone, Copy)]
pub struct XmlNode {
    /// What it is.
    pub kind: NodeKind,
    /// How many attributes follow it.
    pub attributes: u16,
    /// Its name, a place in [`XmlTree::names`]; 0 for none.
    pub name: u32,
    /// The node it is in, or of.
    pub parent: u32,
    /// Behind everything that is in it.
    pub end: u32,
    /// Where its text begins.
    from: u32,
    /// Where its text ends.
    to: u32,
}

/// A stretch of a tree's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct TextSpan(u32, u32);

/// A name.
#[derive(Debug, Clone, Copy)]
struct NodeName {
    uri: TextSpan,
    prefix: TextSpan,
    local: TextSpan,
}

/// A document's nodes.
#[derive(Debug, Clone)]
pub struct XmlTree<'t> {
    /// All nodes but those of namespaces; the first is the root.
    pub nodes: Vec<XmlNode>,
    names: Vec<NodeName>,
    /// By name: the first name with the same namespace and local part.
    canonical: Vec<u32>,
    /// By name: a hash of namespace and local part.
    hashes: Vec<u32>,
    /// Elements that declare a prefix, in document order, with prefix and namespace.
    declared: Vec<(u32, TextSpan, TextSpan)>,
    text: Cow<'t, str>,
}

/// Whether short texts are equal; a call of a general comparison costs more than they are worth.
fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let (left, right) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest = left.remainder().iter().zip(right.remainder()).all(|(a, b)| a == b);
    rest && left.zip(right).all(|(a, b)| a == b)
}

/// A place for a text among as many as `places`, a power of two: by its ends, which are read faster than all of it.
fn slot_of(text: &str, places: usize) -> usize {
    let bytes = text.as_bytes();
    let short = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let (first, last) = match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (short(bytes), 0),
    };
    let mixed = (first ^ last.rotate_left(23) ^ bytes.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize & (places - 1)
}

impl<'t> XmlTree<'t> {
    /// Parses a document.
    ///
    /// # Errors
    /// As [`xml::parse`].
    pub fn parse(bytes: &[u8]) -> Result<XmlTree<'static>, DocumentError> {
        let document = xml::parse(bytes)?;
        let mut builder = TreeBuilder::new(bytes.len());
        builder.document(&document);
        Ok(builder.finish())
    }

    /// A document whose element, of this name, is empty.
    pub fn empty(name: &str) -> XmlTree<'static> {
        let mut builder = TreeBuilder::new(0);
        let name = builder.name("", "", name);
        builder.push(NodeKind::Root, 0, 0, TextSpan::default());
        builder.push(NodeKind::Element, name, 0, TextSpan::default());
        builder.nodes[0].end = 2;
        builder.finish()
    }

    /// The root's element.
    pub fn element(&self) -> usize {
        self.children(0).find(|node| self.nodes[*node].kind == NodeKind::Element).unwrap_or(0)
    }

    /// What is directly in a node.
    pub fn children(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let own = self.nodes[node];
        let mut next = node + 1 + usize::from(own.attributes);
        std::iter::from_fn(move || {
            let child = next;
            (child < own.end as usize).then(|| {
                next = self.nodes[child].end as usize;
                child
            })
        })
    }

    /// The place of the name that stands for all with this namespace and local part, if there is one.
    pub(crate) fn find_name(&self, hash: u32, uri: &str, local: &str) -> Option<u32> {
        let is = |name: &NodeName| self.slice(name.local) == local && self.slice(name.uri) == uri;
        let mut at = 0;
        loop {
            at += self.hashes[at..].iter().position(|known| *known == hash)?;
            if is(&self.names[at]) {
                return Some(at as u32);
            }
            at += 1;
        }
    }

    /// The place of the name that stands for all with a node's namespace and local part.
    pub(crate) fn canonical(&self, node: &XmlNode) -> u32 {
        self.canonical[node.name as usize]
    }

    fn slice(&self, span: TextSpan) -> &str {
        self.text.get(span.0 as usize..span.1 as usize).unwrap_or_default()
    }

    /// A node's own text: an attribute's value, text, a comment, an instruction.
    pub fn own_text(&self, node: usize) -> &str {
        let node = &self.nodes[node];
        self.slice(TextSpan(node.from, node.to))
    }

    /// A node's namespace, prefix and local name.
    pub fn name(&self, node: usize) -> (&str, &str, &str) {
        let name = &self.names[self.nodes[node].name as usize];
        (self.slice(name.uri), self.slice(name.prefix), self.slice(name.local))
    }

    /// Namespaces in scope of an element: prefixes and what they stand for, in a fixed order.
    pub(crate) fn namespaces(&self, element: usize) -> Vec<(&str, &str)> {
        let mut found = vec![("xml", "http://www.w3.org/XML/1998/namespace")];
        let mut hidden: Vec<&str> = vec!["xml"];
        let mut at = element;
        while self.nodes[at].kind == NodeKind::Element {
            let first = self.declared.partition_point(|(node, ..)| (*node as usize) < at);
            for (_, prefix, uri) in self.declared[first..].iter().take_while(|(node, ..)| *node as usize == at) {
                let (prefix, uri) = (self.slice(*prefix), self.slice(*uri));
                if !hidden.contains(&prefix) {
                    hidden.push(prefix);
                    // xmlns="" takes the namespace away
                    found.extend((!uri.is_empty()).then_some((prefix, uri)));
                }
            }
            at = self.nodes[at].parent as usize;
        }
        found
    }

    /// One document of several: the first tree as it is, and as the last things in its element copies of the other trees'
    /// elements in namespaces of their own: what has none there is in this one. `nodes` is room that is used again.
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
        // what follows the element is in the document
        whole.nodes.extend(first.nodes[end..].iter().map(|node| XmlNode { end: node.end + grown, ..*node }));
        whole
    }

    /// Appends nodes of another tree, or of the one this began as (then their texts are `shared`), below `parent`. Elements in no
    /// namespace are in `uri` here.
    fn append(&mut self, other: &XmlTree<'_>, range: std::ops::Range<usize>, parent: u32, uri: &str, shared: bool) {
        let at = self.nodes.len();
        let offset = (at as u32).wrapping_sub(range.start as u32);
        let texts = if shared { 0 } else { self.text.len() as u32 };
        if !shared {
            self.text.to_mut().push_str(&other.text);
        }
        let prefix = self.add_text(uri);
        // [of elements, of everything else]
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
        self.declared.push((at as u32, prefix, prefix));
        let shift = |span: TextSpan| TextSpan(span.0 + texts, span.1 + texts);
        let declared: Vec<_> = other.declared.iter().filter(|(node, ..)| range.contains(&(*node as usize))).copied().collect();
        self.declared.extend(declared.into_iter().map(|(node, prefix, uri)| (node.wrapping_add(offset), shift(prefix), shift(uri))));
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

    /// The tree as bytes, to be kept.
    pub fn pack(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put(&mut out, self.text.len() as u64);
        out.extend_from_slice(self.text.as_bytes());
        put(&mut out, self.names.len() as u64);
        let span = |out: &mut Vec<u8>, span: TextSpan| {
            put(out, u64::from(span.0));
            put(out, u64::from(span.1 - span.0));
        };
        for name in &self.names {
            [name.uri, name.prefix, name.local].into_iter().for_each(|part| span(&mut out, part));
        }
        put(&mut out, self.declared.len() as u64);
        for (node, prefix, uri) in &self.declared {
            put(&mut out, u64::from(*node));
            [*prefix, *uri].into_iter().for_each(|part| span(&mut out, part));
        }
        put(&mut out, self.nodes.len() as u64);
        let mut fresh = 0;
        let mut open: Vec<u32> = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            while open.last().is_some_and(|end| *end as usize <= at) {
                open.pop();
                out.push(END);
            }
            let is_fresh = node.from == fresh && node.to > node.from;
            put(&mut out, u64::from(node.kind as u8) | u64::from(is_fresh) << 3 | u64::from(node.name) << 4);
            match node.kind {
                NodeKind::Root | NodeKind::Element => open.push(node.end),
                _ => {
                    if is_fresh {
                        fresh = node.to;
                    } else {
                        put(&mut out, u64::from(node.from));
                    }
                    put(&mut out, u64::from(node.to - node.from));
                }
            }
        }
        out
    }

    /// The tree that was packed; nothing when the bytes are not one.
    pub fn unpack(bytes: &'t [u8]) -> Option<XmlTree<'t>> {
        Self::unpack_into(bytes, Vec::new())
    }

    /// As [`XmlTree::unpack`]; `nodes` is room that is used again.
    pub fn unpack_into(bytes: &'t [u8], mut nodes: Vec<XmlNode>) -> Option<XmlTree<'t>> {
        nodes.clear();
        let (version, mut rest) = bytes.split_first()?;
        if *version != VERSION {
            return None;
        }
        let length = usize::try_from(take(&mut rest)?).ok()?;
        let (text, behind) = rest.split_at_checked(length)?;
        rest = behind;
        let text = simdutf8::basic::from_utf8(text).ok()?;
        let span = |rest: &mut &[u8]| {
            let from = take(rest)?;
            let to = from.checked_add(take(rest)?).filter(|to| *to <= length as u64)?;
            Some(TextSpan(u32::try_from(from).ok()?, u32::try_from(to).ok()?))
        };
        let count = counted(&mut rest)?;
        let mut tree = XmlTree {
            nodes,
            names: Vec::with_capacity(count),
            canonical: Vec::new(),
            hashes: Vec::new(),
            declared: Vec::new(),
            text: Cow::Borrowed(text),
        };
        for _ in 0..count {
            let (uri, prefix, local) = (span(&mut rest)?, span(&mut rest)?, span(&mut rest)?);
            tree.names.push(NodeName { uri, prefix, local });
        }
        for _ in 0..counted(&mut rest)? {
            let node = u32::try_from(take(&mut rest)?).ok()?;
            tree.declared.push((node, span(&mut rest)?, span(&mut rest)?));
        }
        let count = counted(&mut rest)?;
        tree.nodes.reserve_exact(count);
        let (mut fresh, mut parent) = (0_u32, 0_u32);
        while tree.nodes.len() < count {
            let token = take(&mut rest)?;
            let at = tree.nodes.len() as u32;
            let kind = match token as u8 & 7 {
                0 => NodeKind::Root,
                1 => NodeKind::Element,
                2 => NodeKind::Attribute,
                3 => NodeKind::Text,
                4 => NodeKind::Comment,
                5 => NodeKind::Instruction,
                _ => {
                    let open = tree.nodes.get_mut(parent as usize)?;
                    open.end = at;
                    parent = open.parent;
                    continue;
                }
            };
            if (kind == NodeKind::Root) != (at == 0) {
                return None;
            }
            let name = u32::try_from(token >> 4).ok().filter(|name| (*name as usize) < tree.names.len())?;
            let mut node = XmlNode { kind, attributes: 0, name, parent, end: at + 1, from: 0, to: 0 };
            if matches!(kind, NodeKind::Root | NodeKind::Element) {
                parent = at;
            } else {
                node.from = if token & 8 != 0 { fresh } else { u32::try_from(take(&mut rest)?).ok()? };
                node.to = node.from.checked_add(u32::try_from(take(&mut rest)?).ok()?).filter(|to| *to as usize <= length)?;
                fresh = if token & 8 != 0 { node.to } else { fresh };
                if kind == NodeKind::Attribute {
                    tree.nodes.get_mut(parent as usize)?.attributes += 1;
                }
            }
            tree.nodes.push(node);
        }
        // what is still open ends at the end
        while let Some(open) = tree.nodes.get_mut(parent as usize) {
            open.end = count as u32;
            if parent == 0 {
                break;
            }
            parent = open.parent;
        }
        tree.know_names();
        (!tree.nodes.is_empty()).then_some(tree)
    }

    /// Which names are equal but for their prefixes.
    fn know_names(&mut self) {
        self.hashes = self.names.iter().map(|name| name_hash(self.slice(name.uri), self.slice(name.local))).collect();
        let parts = |name: &NodeName| (self.slice(name.uri), self.slice(name.local));
        let mut canonical = Vec::with_capacity(self.names.len());
        if self.names.len() <= FEW_NAMES {
            let find = |(at, name): (usize, &NodeName)| self.find_name(self.hashes[at], parts(name).0, parts(name).1).unwrap_or(at as u32);
            canonical.extend(self.names.iter().enumerate().map(find));
        } else {
            let mut first: HashMap<(&str, &str), u32> = HashMap::with_capacity(self.names.len());
            canonical.extend(self.names.iter().enumerate().map(|(at, name)| *first.entry(parts(name)).or_insert(at as u32)));
        }
        self.canonical = canonical;
    }
}

/// Names that are looked through faster than they are looked up.
const FEW_NAMES: usize = 256;

const VERSION: u8 = 1;
/// The token of an element's end.
const END: u8 = 7;

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[inline]
fn take(rest: &mut &[u8]) -> Option<u64> {
    let (first, behind) = rest.split_first()?;
    *rest = behind;
    if *first < 0x80 { Some(u64::from(*first)) } else { take_more(rest, *first) }
}

fn take_more(rest: &mut &[u8], first: u8) -> Option<u64> {
    let mut number = u64::from(first & 0x7f);
    for shift in (7..64).step_by(7) {
        let (next, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(next & 0x7f) << shift;
        if *next < 0x80 {
            return Some(number);
        }
    }
    None
}

/// A number of things that follow, each at least a byte.
fn counted(rest: &mut &[u8]) -> Option<usize> {
    let count = usize::try_from(take(rest)?).ok()?;
    (count <= rest.len()).then_some(count)
}

/// Texts no longer than this are kept once.
const SHARED: usize = 32;

struct TreeBuilder {
    nodes: Vec<XmlNode>,
    names: Vec<NodeName>,
    known: HashMap<(String, String, String), u32>,
    declared: Vec<(u32, TextSpan, TextSpan)>,
    text: String,
    /// Short texts seen before, by hash.
    shared: Vec<TextSpan>,
    /// Names seen before, by hash.
    near: Vec<u32>,
}

impl TreeBuilder {
    fn new(size: usize) -> Self {
        let mut builder = Self {
            nodes: Vec::with_capacity(size / 10 + 8),
            names: Vec::new(),
            known: HashMap::new(),
            declared: Vec::new(),
            text: String::with_capacity(size / 2),
            shared: vec![TextSpan::default(); 1024],
            near: vec![u32::MAX; 256],
        };
        builder.name("", "", "");
        builder
    }

    fn finish(self) -> XmlTree<'static> {
        let Self { nodes, names, declared, text, .. } = self;
        let mut tree = XmlTree { nodes, names, canonical: Vec::new(), hashes: Vec::new(), declared, text: Cow::Owned(text) };
        tree.know_names();
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
            let known = self.shared[slot];
            if is_same(self.slice(known), text) {
                return known;
            }
            self.shared[slot] = fresh;
        }
        self.text.push_str(text);
        fresh
    }

    fn name(&mut self, uri: &str, prefix: &str, local: &str) -> u32 {
        let slot = slot_of(local, self.near.len());
        if let Some(name) = self.names.get(self.near[slot] as usize)
            && is_same(self.slice(name.local), local)
            && is_same(self.slice(name.prefix), prefix)
            && is_same(self.slice(name.uri), uri)
        {
            return self.near[slot];
        }
        let key = (uri.to_owned(), prefix.to_owned(), local.to_owned());
        let number = match self.known.get(&key) {
            Some(known) => *known,
            None => {
                let name = NodeName { uri: self.span(uri), prefix: self.span(prefix), local: self.span(local) };
                self.names.push(name);
                let number = self.names.len() as u32 - 1;
                self.known.insert(key, number);
                number
            }
        };
        self.near[slot] = number;
        number
    }

    fn push(&mut self, kind: NodeKind, name: u32, parent: u32, text: TextSpan) -> u32 {
        let at = self.nodes.len() as u32;
        self.nodes.push(XmlNode { kind, attributes: 0, name, parent, end: at + 1, from: text.0, to: text.1 });
        at
    }

    fn document(&mut self, document: &roxmltree::Document<'_>) {
        let root = self.push(NodeKind::Root, 0, 0, TextSpan::default());
        self.children(document.root(), root, document.input_text());
        self.nodes[root as usize].end = self.nodes.len() as u32;
    }

    fn children(&mut self, of: roxmltree::Node<'_, '_>, parent: u32, input: &str) {
        for child in of.children() {
            match child.node_type() {
                roxmltree::NodeType::Element => self.element(child, parent, input),
                roxmltree::NodeType::Text => {
                    let text = self.span(child.text().unwrap_or_default());
                    self.push(NodeKind::Text, 0, parent, text);
                }
                roxmltree::NodeType::Comment => {
                    let text = self.span(child.text().unwrap_or_default());
                    self.push(NodeKind::Comment, 0, parent, text);
                }
                roxmltree::NodeType::PI => {
                    let Some(instruction) = child.pi() else { continue };
                    let name = self.name("", "", instruction.target);
                    let text = self.span(instruction.value.unwrap_or_default());
                    self.push(NodeKind::Instruction, name, parent, text);
                }
                roxmltree::NodeType::Root => {}
            }
        }
    }

    fn element(&mut self, element: roxmltree::Node<'_, '_>, parent: u32, input: &str) {
        let tag = element.tag_name();
        let prefix = prefix_of(&input[element.range().start + 1..], tag.name());
        let name = self.name(tag.namespace().unwrap_or_default(), prefix, tag.name());
        let at = self.push(NodeKind::Element, name, parent, TextSpan::default());
        let outer = element.parent().filter(roxmltree::Node::is_element);
        // roxmltree shares the list of namespaces of an element that declares none with its parent's
        for namespace in element.namespaces() {
            let is_outer = |outer: roxmltree::Node<'_, '_>| outer.namespaces().any(|own| own == namespace);
            if namespace.name() != Some("xml") && !outer.is_some_and(is_outer) {
                let (prefix, uri) = (self.span(namespace.name().unwrap_or_default()), self.span(namespace.uri()));
                self.declared.push((at, prefix, uri));
            }
        }
        for attribute in element.attributes() {
            let prefix = prefix_of(&input[attribute.range().start..], attribute.name());
            let name = self.name(attribute.namespace().unwrap_or_default(), prefix, attribute.name());
            let text = self.span(attribute.value());
            self.push(NodeKind::Attribute, name, at, text);
            self.nodes[at as usize].attributes += 1;
        }
        self.children(element, at, input);
        self.nodes[at as usize].end = self.nodes.len() as u32;
    }
}

/// The prefix of a name as written.
fn prefix_of<'i>(written: &'i str, local: &str) -> &'i str {
    if written.starts_with(local) && !written[local.len()..].starts_with(':') {
        return "";
    }
    written.split_once(':').map_or("", |(prefix, _)| prefix)
}
