//! Packs trees as bytes, and unpacks them.
//!
//! ```text
//! packed = version, text length, text, names, name (uri, prefix, local)*, declarations, (node, prefix, uri)*, nodes, node*
//! node   = kind | fresh << 3 | name << 4, then for text, attributes, comments, instructions: [from,] length
//! ```
//! Numbers are LEB128. Text is stored once: `fresh` means that a node's text begins where the last fresh one ended. The token 7 between nodes ends
//! the innermost open element; elements that are open after the last node end there.

use super::NodeKind;
use super::xml_tree::{DeclaredNamespace, NodeName, TextSpan, XmlNode, XmlTree};
use std::borrow::Cow;

const VERSION: u8 = 1;
/// The token that ends an element.
const END: u8 = 7;

impl<'t> XmlTree<'t> {
    /// Packs the tree.
    pub fn pack(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        write_leb128(&mut out, self.text.len() as u64);
        out.extend_from_slice(self.text.as_bytes());
        write_leb128(&mut out, self.names.len() as u64);
        let span = |out: &mut Vec<u8>, span: TextSpan| {
            write_leb128(out, u64::from(span.0));
            write_leb128(out, u64::from(span.1 - span.0));
        };
        for name in &self.names {
            [name.uri, name.prefix, name.local].into_iter().for_each(|part| span(&mut out, part));
        }
        write_leb128(&mut out, self.declared.len() as u64);
        for declaration in &self.declared {
            write_leb128(&mut out, u64::from(declaration.element));
            [declaration.prefix, declaration.uri].into_iter().for_each(|part| span(&mut out, part));
        }
        write_leb128(&mut out, self.nodes.len() as u64);
        let mut fresh = 0;
        let mut open: Vec<u32> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            while open.last().is_some_and(|end| *end as usize <= index) {
                open.pop();
                out.push(END);
            }
            let is_fresh = node.from == fresh && node.to > node.from;
            write_leb128(&mut out, u64::from(node.kind as u8) | u64::from(is_fresh) << 3 | u64::from(node.name) << 4);
            match node.kind {
                NodeKind::Root | NodeKind::Element => open.push(node.end),
                _ => {
                    if is_fresh {
                        fresh = node.to;
                    } else {
                        write_leb128(&mut out, u64::from(node.from));
                    }
                    write_leb128(&mut out, u64::from(node.to - node.from));
                }
            }
        }
        out
    }

    /// Unpacks a tree; `None` if the bytes are not one.
    pub fn unpack(bytes: &'t [u8]) -> Option<XmlTree<'t>> {
        Self::unpack_into(bytes, Vec::new())
    }

    /// Like [`XmlTree::unpack`], but reuses the memory of `nodes`.
    pub fn unpack_into(bytes: &'t [u8], mut nodes: Vec<XmlNode>) -> Option<XmlTree<'t>> {
        nodes.clear();
        let (version, mut rest) = bytes.split_first()?;
        if *version != VERSION {
            return None;
        }
        let length = usize::try_from(read_leb128(&mut rest)?).ok()?;
        let (text, remaining) = rest.split_at_checked(length)?;
        rest = remaining;
        let text = simdutf8::basic::from_utf8(text).ok()?;
        let span = |rest: &mut &[u8]| {
            let from = read_leb128(rest)?;
            let to = from.checked_add(read_leb128(rest)?).filter(|to| *to <= length as u64)?;
            Some(TextSpan(u32::try_from(from).ok()?, u32::try_from(to).ok()?))
        };
        let count = read_count(&mut rest)?;
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
        for _ in 0..read_count(&mut rest)? {
            let element = u32::try_from(read_leb128(&mut rest)?).ok()?;
            tree.declared.push(DeclaredNamespace { element, prefix: span(&mut rest)?, uri: span(&mut rest)? });
        }
        let count = read_count(&mut rest)?;
        tree.nodes.reserve_exact(count);
        let (mut fresh, mut parent) = (0_u32, 0_u32);
        while tree.nodes.len() < count {
            let token = read_leb128(&mut rest)?;
            let index = tree.nodes.len() as u32;
            let kind = match token as u8 & 7 {
                0 => NodeKind::Root,
                1 => NodeKind::Element,
                2 => NodeKind::Attribute,
                3 => NodeKind::Text,
                4 => NodeKind::Comment,
                5 => NodeKind::Instruction,
                _ => {
                    let open = tree.nodes.get_mut(parent as usize)?;
                    open.end = index;
                    parent = open.parent;
                    continue;
                }
            };
            if (kind == NodeKind::Root) != (index == 0) {
                return None;
            }
            let name = u32::try_from(token >> 4).ok().filter(|name| (*name as usize) < tree.names.len())?;
            let mut node = XmlNode { kind, attributes: 0, name, parent, end: index + 1, from: 0, to: 0 };
            if matches!(kind, NodeKind::Root | NodeKind::Element) {
                parent = index;
            } else {
                node.from = if token & 8 != 0 { fresh } else { u32::try_from(read_leb128(&mut rest)?).ok()? };
                node.to = node.from.checked_add(u32::try_from(read_leb128(&mut rest)?).ok()?).filter(|to| *to as usize <= length)?;
                fresh = if token & 8 != 0 { node.to } else { fresh };
                if kind == NodeKind::Attribute {
                    tree.nodes.get_mut(parent as usize)?.attributes += 1;
                }
            }
            tree.nodes.push(node);
        }
        // elements that are still open end after the last node
        while let Some(open) = tree.nodes.get_mut(parent as usize) {
            open.end = count as u32;
            if parent == 0 {
                break;
            }
            parent = open.parent;
        }
        tree.index_names();
        (!tree.nodes.is_empty()).then_some(tree)
    }
}

fn write_leb128(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[inline]
fn read_leb128(rest: &mut &[u8]) -> Option<u64> {
    let (first, tail) = rest.split_first()?;
    *rest = tail;
    if *first < 0x80 { Some(u64::from(*first)) } else { read_leb128_rest(rest, *first) }
}

fn read_leb128_rest(rest: &mut &[u8], first: u8) -> Option<u64> {
    let mut number = u64::from(first & 0x7f);
    for shift in (7..64).step_by(7) {
        let (next, tail) = rest.split_first()?;
        *rest = tail;
        number |= u64::from(next & 0x7f) << shift;
        if *next < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Reads the number of the items that follow, each at least a byte.
fn read_count(rest: &mut &[u8]) -> Option<usize> {
    let count = usize::try_from(read_leb128(rest)?).ok()?;
    (count <= rest.len()).then_some(count)
}
