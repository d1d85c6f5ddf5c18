//! Parses bytes as an XML document, within limits that keep hostile input from exhausting the parser.

use crate::markup::{XmlTag, attributes, namespace_declarations, tag_at};
use memchr::{memchr, memmem};
use roxmltree::{Document, ParsingOptions};
use std::borrow::Cow;
use std::collections::HashSet;

/// Maximum nesting of elements.
pub const MAX_DEPTH: usize = 4_096;
/// Maximum number of attributes of an element: the parser compares each with all others.
const MAX_ATTRIBUTES: usize = 1_000;
/// Maximum number of namespaces in scope, summed over all elements that declare some: the parser copies them.
const MAX_SCOPES: usize = 16_000_000;

/// The reason why bytes are not parsed as an XML document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not XML: {0}")]
pub struct XmlError(
    /// What is wrong.
    pub String,
);

/// Returns the bytes of an element as text.
///
/// # Errors
/// When they are not UTF-8.
pub fn text(bytes: &[u8]) -> Result<&str, XmlError> {
    std::str::from_utf8(bytes).map_err(|error| XmlError(format!("byte {} is not UTF-8", error.valid_up_to())))
}

/// Parses an element. Document type declarations are refused, so no entity can expand. Elements are nested at most 4096 deep, an
/// element has at most 1000 attributes, a document at most 4 million nodes.
///
/// # Errors
/// When it is not well-formed UTF-8 XML, or exceeds these limits.
pub fn parse(bytes: &[u8]) -> Result<Document<'_>, XmlError> {
    parse_text(text(bytes)?)
}

/// Replaces each character of a text's document type declaration, if it has one, by a blank, so that lines and columns stay the same. A document that
/// uses none of its entities reads the same without it; one that uses some is then not well-formed.
pub fn without_document_type(text: &str) -> Cow<'_, str> {
    let mut at = 0;
    while let Some(found) = memchr(b'<', &text.as_bytes()[at..]) {
        at += found;
        // it comes before the first element
        let Some((length, XmlTag::Other)) = tag_at(&text.as_bytes()[at..], true) else { break };
        if let (true, Some(tail)) = (text[at..].starts_with("<!DOCTYPE"), text.get(at + length..)) {
            let blank = text[at..at + length].chars().map(|character| if character == '\n' { '\n' } else { ' ' });
            return Cow::Owned(text[..at].chars().chain(blank).chain(tail.chars()).collect());
        }
        at += length;
    }
    Cow::Borrowed(text)
}

/// Parses an element, as [`parse`] does.
///
/// # Errors
/// As [`parse`], except for the encoding.
pub fn parse_text(text: &str) -> Result<Document<'_>, XmlError> {
    check_cost(text.as_bytes()).map_err(XmlError)?;
    let options = ParsingOptions { nodes_limit: 4_000_000, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(|error| XmlError(error.to_string()))
}

/// Refuses documents that would take the parser, or a path, more time or memory than their length suggests.
fn check_cost(bytes: &[u8]) -> Result<(), String> {
    let mut depth = 0_usize;
    let mut declaring = 0;
    let mut prefixes = HashSet::new();
    // most documents declare no namespaces
    let may_declare = memmem::find(bytes, b"xmlns").is_some();
    let mut at = 0;
    while let Some(found) = memchr(b'<', &bytes[at..]) {
        at += found;
        let Some((length, tag)) = tag_at(&bytes[at..], true) else { break };
        at += length;
        match tag {
            XmlTag::Open { empty, attributes: attribute_text, .. } => {
                depth += usize::from(!empty);
                if depth > MAX_DEPTH {
                    return Err(format!("elements are nested deeper than {MAX_DEPTH} levels"));
                }
                if attribute_text.len() > MAX_ATTRIBUTES && attributes(attribute_text).count() > MAX_ATTRIBUTES {
                    return Err(format!("an element has more than {MAX_ATTRIBUTES} attributes"));
                }
                if !may_declare {
                    continue;
                }
                let mut declares = false;
                for (name, _) in namespace_declarations(attribute_text) {
                    prefixes.insert(name);
                    declares = true;
                }
                declaring += usize::from(declares);
                if prefixes.len() * declaring > MAX_SCOPES {
                    return Err("too many namespace declarations".to_owned());
                }
            }
            XmlTag::Close { .. } => depth = depth.saturating_sub(1),
            XmlTag::Other => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_cannot_expand() {
        assert!(parse(b"<!DOCTYPE x [<!ENTITY a \"b\">]><x>&a;</x>").is_err());
        assert!(parse(b"<x>&a;</x>").is_err());
        assert!(parse_text(&without_document_type("<!DOCTYPE x [<!ENTITY a \"b\">]><x>&a;</x>")).is_err());
    }

    #[test]
    fn a_document_type_becomes_blanks_so_that_positions_stay() {
        for (text, expected) in [
            ("<!DOCTYPE x><x/>", "            <x/>"),
            (
                "<?xml version='1.0'?>\n<!-- <!DOCTYPE -->\n<!DOCTYPE x\n [<!ENTITY a \">\"> ]>\n<x/>",
                "<?xml version='1.0'?>\n<!-- <!DOCTYPE -->\n           \n                    \n<x/>",
            ),
            ("<x><![CDATA[<!DOCTYPE x>]]></x>", "<x><![CDATA[<!DOCTYPE x>]]></x>"),
            ("<!DOCTYPE x [", "<!DOCTYPE x ["),
            ("", ""),
        ] {
            assert_eq!(without_document_type(text), expected);
        }
    }
}
