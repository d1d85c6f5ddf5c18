//! Makes one XML element independent of the elements around it, and decodes its text.

use std::borrow::Cow;
use stook_xpath::markup::{XmlTag, namespace_declarations, tag_at};
pub use stook_xpath::xml::{parse, parse_text, text};

use stook_marc::xmltext::{XmlDecoder, XmlEncoding};

/// Appends the decoded text of an element to `out`, as UTF-8 if no encoding is given; returns how many invalid characters became U+FFFD.
pub fn decode(element: &[u8], encoding: Option<XmlEncoding>, out: &mut String) -> usize {
    XmlDecoder::new(encoding.unwrap_or(XmlEncoding::Utf8)).decode(element, true, out)
}

/// Adds the namespace declarations of an element's former ancestors, so that it can be parsed on its own.
pub fn self_contained<'a>(element: &'a [u8], declarations: &str) -> Cow<'a, [u8]> {
    let Some((_, XmlTag::Open { name, attributes, .. })) = tag_at(element, true) else { return Cow::Borrowed(element) };
    let mut declared: Vec<&[u8]> = namespace_declarations(attributes).map(|(name, _)| name).collect();
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
    let mut with_declarations = before.to_vec();
    for declaration in missing.iter().rev() {
        with_declarations.push(b' ');
        with_declarations.extend_from_slice(declaration);
    }
    with_declarations.extend_from_slice(after);
    Cow::Owned(with_declarations)
}

/// Escapes a text for an element or an attribute. Characters that XML cannot hold become U+FFFD.
pub fn escaped(text: &str) -> String {
    let is_illegal = |character: char| (character < ' ' && !matches!(character, '\t' | '\n' | '\r')) || matches!(character, '\u{fffe}' | '\u{ffff}');
    let legal = if text.contains(is_illegal) { Cow::Owned(text.replace(is_illegal, "\u{fffd}")) } else { Cow::Borrowed(text) };
    quick_xml::escape::escape(&*legal).replace('\r', "&#13;")
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
}
