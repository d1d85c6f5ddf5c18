//! One XML element as a tree, inside the namespaces of the elements that enclosed it in its file.

use crate::DocumentError;
use roxmltree::{Document, ParsingOptions};
use std::borrow::Cow;

/// The element with the namespace declarations of its former ancestors, so that it can stand alone.
pub fn self_contained<'a>(element: &'a [u8], declarations: &str) -> Cow<'a, [u8]> {
    let name_end = element.iter().position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/')).unwrap_or(element.len());
    let tag_end = element.iter().position(|byte| *byte == b'>').unwrap_or(element.len());
    let own = String::from_utf8_lossy(&element[name_end.min(tag_end)..tag_end]);
    // inner declarations come last and hide outer ones of the same prefix
    let mut missing: Vec<&str> = Vec::new();
    for declaration in declarations.split_inclusive(['"', '\'']).collect::<Vec<_>>().chunks(2).rev() {
        let Some(first) = declaration.first() else { continue };
        let Some(name) = first.split('=').next().map(str::trim) else { continue };
        let declared = |text: &str| text.contains(&format!("{name}=")) || text.contains(&format!("{name} ="));
        if declaration.len() == 2 && !declared(&own) && !missing.iter().any(|text| declared(text)) {
            let start = first.as_ptr() as usize - declarations.as_ptr() as usize;
            missing.push(&declarations[start..start + first.len() + declaration[1].len()]);
        }
    }
    if missing.is_empty() {
        return Cow::Borrowed(element);
    }
    let mut whole = element[..name_end].to_vec();
    missing.iter().rev().for_each(|text| whole.extend_from_slice(text.as_bytes()));
    whole.extend_from_slice(&element[name_end..]);
    Cow::Owned(whole)
}

/// Parses an element. Document type declarations are refused, so no entity can expand.
///
/// # Errors
/// When it is not well-formed UTF-8 XML.
pub fn parse(bytes: &[u8]) -> Result<Document<'_>, DocumentError> {
    let text = std::str::from_utf8(bytes).map_err(|error| DocumentError::Xml(format!("byte {} is not UTF-8", error.valid_up_to())))?;
    let options = ParsingOptions { nodes_limit: 4_000_000, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(|error| DocumentError::Xml(error.to_string()))
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
