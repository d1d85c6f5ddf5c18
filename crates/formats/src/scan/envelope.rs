//! What an XML file says about a MARC record before it begins, in an element of the same name around it: the header of OAI-PMH, the position of SRU.
//!
//! A path into it names elements without prefixes, as MARCXML is read, so it is rewritten without namespaces.

use crate::tree::XmlTree;
use crate::xml::decode;
use memchr::memchr;
use stook_marc::xmltext::XmlEncoding;
use stook_xpath::markup::{XmlTag, attributes, local, tag_at};

/// Maximum number of bytes that are kept of what an element says before its record begins.
const LIMIT: usize = 1 << 16;
/// Maximum number of elements inside each other.
const MAX_DEPTH: usize = 64;
/// What stands for `<` in a scanner's head, which has `<` between its parts. No XML contains it.
const OPENING: char = '\u{1}';
/// What follows the level of an element in a part of a head that has an envelope.
pub(super) const MARK: char = '\u{2}';

/// The beginning of the element around a record, up to the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The level of the element.
    pub(super) level: u64,
    text: String,
}

impl Envelope {
    /// Reads the bytes before a record; `None` if there are too many.
    pub(super) fn new(level: u64, bytes: &[u8], encoding: Option<XmlEncoding>) -> Option<Self> {
        if bytes.len() > LIMIT {
            return None;
        }
        let mut text = String::new();
        decode(bytes, encoding, &mut text);
        Some(Self { level, text: text.replace([OPENING, MARK], "") })
    }

    /// The part of a head that has it.
    pub(super) fn to_head(&self) -> String {
        format!("<{}{MARK}{}", self.level, self.text.replace('<', &OPENING.to_string()))
    }

    /// Reads the part of a head after the level and the mark.
    pub(super) fn of_head(level: u64, part: &str) -> Self {
        Self { level, text: part.replace(OPENING, "<") }
    }

    /// Its elements, closed where the record would begin.
    pub(crate) fn tree(&self) -> Option<XmlTree<'static>> {
        tree_of(self.text.as_bytes())
    }
}

/// Returns the header of OAI-PMH in an element that has one instead of a record: that of a deleted record, or of one without metadata.
pub(crate) fn header_alone(element: &str) -> Option<XmlTree<'static>> {
    let document = crate::xml::parse_text(element).ok()?;
    let children = || document.root_element().children().filter(|child| child.is_element());
    let has_metadata = children().any(|child| child.tag_name().name() == "metadata" && child.children().any(|inner| inner.is_element()));
    let is_alone = children().any(|child| child.tag_name().name() == "header") && !has_metadata;
    if is_alone && element.len() <= LIMIT { tree_of(element.as_bytes()) } else { None }
}

/// Parses markup whose elements need not be closed, without its prefixes and namespaces.
fn tree_of(markup: &[u8]) -> Option<XmlTree<'static>> {
    let (mut plain, mut open): (Vec<u8>, Vec<&[u8]>) = (Vec::new(), Vec::new());
    let mut rest = markup;
    while let Some(start) = memchr(b'<', rest) {
        // text outside of the outermost element is none of XML
        plain.extend_from_slice(if open.is_empty() { &[] } else { &rest[..start] });
        rest = &rest[start..];
        let (length, tag) = tag_at(rest, true)?;
        match tag {
            XmlTag::Open { name, empty, attributes: written } => {
                plain.push(b'<');
                plain.extend_from_slice(local(name));
                for (_, whole) in attributes(written).filter(|(attribute, _)| !attribute.contains(&b':') && *attribute != b"xmlns") {
                    plain.push(b' ');
                    plain.extend_from_slice(whole);
                }
                plain.extend_from_slice(if empty { b"/>" } else { b">" });
                if !empty {
                    open.push(local(name));
                }
            }
            XmlTag::Close { .. } => close(&mut plain, open.pop()?),
            XmlTag::Other if rest.starts_with(b"<![CDATA[") => plain.extend_from_slice(&rest[..length]),
            XmlTag::Other => {}
        }
        if open.len() > MAX_DEPTH {
            return None;
        }
        rest = &rest[length..];
    }
    while let Some(name) = open.pop() {
        close(&mut plain, name);
    }
    XmlTree::parse(&plain).ok()
}

fn close(plain: &mut Vec<u8>, name: &[u8]) {
    plain.extend_from_slice(b"</");
    plain.extend_from_slice(name);
    plain.push(b'>');
}
