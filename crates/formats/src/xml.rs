//! One XML element as a tree, inside the namespaces of the elements that enclosed it in its file.

use crate::DocumentError;
use crate::scan::{XmlTag, attributes, namespace_declarations, tag_at};
use memchr::{memchr, memmem};
use roxmltree::{Document, ParsingOptions};
use std::borrow::Cow;
use std::collections::HashSet;

/// Deepest nesting of elements that is read, the same as for JSON.
const MAX_DEPTH: usize = 128;
/// Most attributes one element may have: the parser compares each with all others.
const MAX_ATTRIBUTES: usize = 1_000;
/// Most namespaces in scope, summed over all elements that declare some: the parser copies them.
const MAX_SCOPES: usize = 16_000_000;

/// The element with the namespace declarations of its former ancestors, so that it can stand alone.
pub fn self_contained<'a>(element: &'a [u8], declarations: &str) -> Cow<'a, [u8]> {
    let Some((_, XmlTag::Open { name, attributes: own, .. })) = tag_at(element, true) else { return Cow::Borrowed(element) };
    let mut declared: Vec<&[u8]> = namespace_declarations(own).map(|(name, _)| name).collect();
    let outer: Vec<_> = namespace_declarations(declarations.as_bytes()).collect();
    let mut missing = Vec::new();
    // inner declarations come last and hide outer ones of the same prefix
    for (name, declaration) in outer.into_iter().rev() {
        if !declared.contains(&name) {
            declared.push(name);
            missing.push(declaration);
        }
    }
    if missing.is_empty() {
        return Cow::Borrowed(element);
    }
    let (before, after) = element.split_at(1 + name.len());
    let mut whole = before.to_vec();
    for declaration in missing.iter().rev() {
        whole.push(b' ');
        whole.extend_from_slice(declaration);
    }
    whole.extend_from_slice(after);
    Cow::Owned(whole)
}

/// Parses an element. Document type declarations are refused, so no entity can expand.
///
/// # Errors
/// When it is not well-formed UTF-8 XML, or made to exhaust the parser.
pub fn parse(bytes: &[u8]) -> Result<Document<'_>, DocumentError> {
    let text = std::str::from_utf8(bytes).map_err(|error| DocumentError::Xml(format!("byte {} is not UTF-8", error.valid_up_to())))?;
    check_cost(bytes).map_err(DocumentError::Xml)?;
    let options = ParsingOptions { nodes_limit: 4_000_000, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(|error| DocumentError::Xml(error.to_string()))
}

/// Refuses what would take the parser, or a path, more time or memory than the document's length suggests.
fn check_cost(bytes: &[u8]) -> Result<(), String> {
    let mut depth = 0_usize;
    let mut declaring = 0;
    let mut prefixes = HashSet::new();
    // most documents declare none
    let may_declare = memmem::find(bytes, b"xmlns").is_some();
    let mut at = 0;
    while let Some(found) = memchr(b'<', &bytes[at..]) {
        at += found;
        let Some((length, tag)) = tag_at(&bytes[at..], true) else { break };
        at += length;
        match tag {
            XmlTag::Open { empty, attributes: own, .. } => {
                depth += usize::from(!empty);
                if depth > MAX_DEPTH {
                    return Err(format!("elements are nested deeper than {MAX_DEPTH} levels"));
                }
                if own.len() > MAX_ATTRIBUTES && attributes(own).count() > MAX_ATTRIBUTES {
                    return Err(format!("an element has more than {MAX_ATTRIBUTES} attributes"));
                }
                if !may_declare {
                    continue;
                }
                let mut declares = false;
                for (name, _) in namespace_declarations(own) {
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
    fn outer_namespaces_are_added_once() {
        let outer = " xmlns=\"a\" xmlns:m='b' xmlns:m=\"c\"";
        assert_eq!(&*self_contained(b"<m:x/>", outer), b"<m:x xmlns=\"a\" xmlns:m=\"c\"/>");
        assert_eq!(&*self_contained(b"<x xmlns=\"z\">", outer), b"<x xmlns:m=\"c\" xmlns=\"z\">");
        assert_eq!(&*self_contained(b"<x>", ""), b"<x>");
    }

    #[test]
    fn entities_cannot_expand() {
        assert!(parse(b"<!DOCTYPE x [<!ENTITY a \"b\">]><x>&a;</x>").is_err());
        assert!(parse(b"<x>&a;</x>").is_err());
    }
}
