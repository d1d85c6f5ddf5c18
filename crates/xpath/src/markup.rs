//! Finds tags and other markup in bytes, without a parser.

use memchr::{memchr, memmem};

/// Markup, as it is written.
pub enum XmlTag<'a> {
    /// A start tag.
    Open {
        /// The element's name, including its prefix.
        name: &'a [u8],
        /// Whether the element ends here, too: `<a/>`.
        empty: bool,
        /// The text after the name, for [`attributes`].
        attributes: &'a [u8],
    },
    /// An end tag.
    Close {
        /// The element's name, including its prefix.
        name: &'a [u8],
    },
    /// A comment, a processing instruction, a CDATA section or a declaration.
    Other,
}

/// A name without its prefix.
pub fn local(name: &[u8]) -> &[u8] {
    name.rsplit(|byte| *byte == b':').next().unwrap_or(name)
}

const OPAQUE: [(&[u8], &[u8]); 3] = [(b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>")];

/// Returns what begins and ends the markup at the front of `bytes`, which starts with `<`.
pub fn delimiters(bytes: &[u8]) -> (&'static [u8], &'static [u8]) {
    OPAQUE.into_iter().find(|(start, _)| bytes.starts_with(start)).unwrap_or((b"<", b">"))
}

/// Returns the markup at the front of `bytes`, which starts with `<`, and its length; `None` if its end is not in the bytes. `at_end` means that
/// nothing follows `bytes`: then a tag that is not closed ends where the next one could begin.
pub fn tag_at(bytes: &[u8], at_end: bool) -> Option<(usize, XmlTag<'_>)> {
    if OPAQUE.iter().any(|(start, _)| bytes.len() < start.len() && start.starts_with(bytes)) {
        return None;
    }
    let (start, end) = delimiters(bytes);
    if start.len() > 1 {
        let found = memmem::find(&bytes[start.len()..], end)?;
        return Some((start.len() + found + end.len(), XmlTag::Other));
    }
    if bytes.starts_with(b"<!") {
        return Some((declaration_end(bytes)?, XmlTag::Other));
    }
    let mut quote = None;
    for (at, &byte) in bytes.iter().enumerate().skip(1) {
        match (quote, byte) {
            (_, b'<') => return Some(damaged_tag(&bytes[..at])),
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'>') => return Some((at + 1, classify(&bytes[1..at]))),
            _ => {}
        }
    }
    (at_end && bytes.contains(&b'>')).then(|| damaged_tag(bytes))
}

/// Reads a tag with a `<` inside: a quote or the tag itself is not closed, and the damage must not spread.
fn damaged_tag(bytes: &[u8]) -> (usize, XmlTag<'_>) {
    let end = memchr(b'>', bytes).unwrap_or(bytes.len());
    (bytes.len().min(end + 1), classify(&bytes[1..end]))
}

/// The end of a document type declaration, which may contain markup in brackets.
fn declaration_end(bytes: &[u8]) -> Option<usize> {
    let mut quote = None;
    let mut brackets = 0;
    let mut at = 2;
    while let Some(&byte) = bytes.get(at) {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'<') if bytes[at..].starts_with(b"<!--") => at += memmem::find(&bytes[at..], b"-->")?,
            (None, b'<') if b"<!--".starts_with(&bytes[at..]) => return None,
            (None, b'[') => brackets += 1,
            (None, b']') => brackets -= 1,
            (None, b'>') if brackets <= 0 => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
    None
}

fn classify(inner: &[u8]) -> XmlTag<'_> {
    if let Some(name) = inner.strip_prefix(b"/") {
        return XmlTag::Close { name: name.trim_ascii_end() };
    }
    let empty = inner.ends_with(b"/");
    let inner = inner.strip_suffix(b"/").unwrap_or(inner);
    let end = inner.iter().position(u8::is_ascii_whitespace).unwrap_or(inner.len());
    match end {
        0 => XmlTag::Other,
        _ => XmlTag::Open { name: &inner[..end], empty, attributes: &inner[end..] },
    }
}

/// Iterates over the attributes in `text`, the inside of a tag after its name: the name, and the complete attribute as written.
pub fn attributes(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        let equals = memchr(b'=', rest)?;
        let value = equals + 1 + rest[equals + 1..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let quote = *rest.get(value).filter(|byte| matches!(byte, b'"' | b'\''))?;
        let end = value + 1 + memchr(quote, &rest[value + 1..])? + 1;
        let (attribute, following) = rest.split_at(end);
        rest = following;
        Some((attribute[..equals].trim_ascii_end(), attribute))
    })
}

/// The `xmlns` attributes among [`attributes`].
pub fn namespace_declarations(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    attributes(text).filter(|(name, _)| *name == b"xmlns" || name.starts_with(b"xmlns:"))
}
