//! The text of XML files as they come: declared encodings, UTF-16, and document types with entities of their own. What comes out is UTF-8
//! without a document type, which every reader of XML takes.
//!
//! Entities are expanded to a limit on the size of the result. Nothing outside of the file is ever read: external entities, parameter
//! entities and external subsets are refused where they are used.

use crate::charset::windows_1252;
use crate::record::MarcError;
use std::borrow::Cow;
use std::collections::HashMap;

/// Most bytes that the expansion of entities may add to a text, where nothing else is said.
pub const EXPANSION_LIMIT: usize = 1 << 20;
/// Deepest nesting of entities.
const MAX_DEPTH: usize = 16;
/// Most entities that a document type may declare.
const MAX_ENTITIES: usize = 10_000;

/// How the bytes of an XML file are characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XmlEncoding {
    /// UTF-8, which is what there is without a mark and a declaration.
    Utf8,
    /// UTF-16, the lower byte first.
    Utf16Le,
    /// UTF-16, the higher byte first.
    Utf16Be,
    /// ISO 8859-1.
    Latin1,
    /// Windows-1252.
    Cp1252,
}

impl XmlEncoding {
    /// The encoding of a file by its first bytes (100 are enough), and how many of them are a byte order mark.
    ///
    /// # Errors
    /// When the declaration names an encoding that is not known here.
    pub fn detect(beginning: &[u8]) -> Result<(Self, usize), MarcError> {
        match beginning {
            [0xef, 0xbb, 0xbf, ..] => return Ok((Self::Utf8, 3)),
            [0xff, 0xfe, ..] => return Ok((Self::Utf16Le, 2)),
            [0xfe, 0xff, ..] => return Ok((Self::Utf16Be, 2)),
            [b'<', 0, _, 0, ..] => return Ok((Self::Utf16Le, 0)),
            [0, b'<', 0, _, ..] => return Ok((Self::Utf16Be, 0)),
            _ => {}
        }
        let Some(name) = declared(beginning) else { return Ok((Self::Utf8, 0)) };
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        match name.as_str() {
            // what says UTF-16 in single bytes has been converted before
            "utf-8" | "utf8" | "us-ascii" | "ascii" | "utf-16" => Ok((Self::Utf8, 0)),
            "iso-8859-1" | "iso8859-1" | "iso_8859-1" | "latin1" | "latin-1" | "l1" => Ok((Self::Latin1, 0)),
            "windows-1252" | "cp1252" | "cp-1252" => Ok((Self::Cp1252, 0)),
            _ => Err(MarcError::Shape(format!("the XML is in the encoding `{}`, which is not known here", name.escape_debug()))),
        }
    }
}

/// The encoding that a declaration names.
fn declared(beginning: &[u8]) -> Option<&[u8]> {
    let declaration = beginning.strip_prefix(b"<?xml")?;
    let declaration = &declaration[..memchr::memmem::find(declaration, b"?>")?];
    let at = memchr::memmem::find(declaration, b"encoding")? + "encoding".len();
    let value = declaration[at..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let (quote, value) = value.split_first().filter(|(quote, _)| matches!(quote, b'"' | b'\''))?;
    Some(&value[..memchr::memchr(*quote, value)?])
}

/// Makes UTF-8 of the bytes of a file as they arrive.
#[derive(Debug, Clone)]
pub struct XmlDecoder {
    encoding: XmlEncoding,
    /// The beginning of a character whose end has not arrived.
    rest: Vec<u8>,
}

impl XmlDecoder {
    /// For bytes after the byte order mark.
    pub fn new(encoding: XmlEncoding) -> Self {
        Self { encoding, rest: Vec::new() }
    }

    /// Adds the text of `bytes` to `out`; returns how many characters were none and became U+FFFD. `at_end` says that nothing follows.
    pub fn decode(&mut self, bytes: &[u8], at_end: bool, out: &mut String) -> usize {
        let mut replaced = 0;
        let mut push = |character: Option<char>, out: &mut String| {
            replaced += usize::from(character.is_none());
            out.push(character.unwrap_or('\u{fffd}'));
        };
        let bytes = match self.rest.as_slice() {
            [] => Cow::Borrowed(bytes),
            rest => Cow::Owned([rest, bytes].concat()),
        };
        self.rest.clear();
        match self.encoding {
            XmlEncoding::Latin1 => bytes.iter().for_each(|byte| out.push(char::from(*byte))),
            XmlEncoding::Cp1252 => bytes.iter().for_each(|byte| push(windows_1252(*byte), out)),
            XmlEncoding::Utf8 => {
                let mut at = 0;
                for chunk in bytes.utf8_chunks() {
                    at += chunk.valid().len() + chunk.invalid().len();
                    out.push_str(chunk.valid());
                    let unfinished =
                        at == bytes.len() && !at_end && std::str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none());
                    if unfinished {
                        self.rest = chunk.invalid().to_vec();
                    } else if !chunk.invalid().is_empty() {
                        push(None, out);
                    }
                }
            }
            XmlEncoding::Utf16Le | XmlEncoding::Utf16Be => {
                let is_high = |unit: u16| (0xd800..0xdc00).contains(&unit);
                let unit = |pair: &[u8; 2]| if self.encoding == XmlEncoding::Utf16Le { u16::from_le_bytes(*pair) } else { u16::from_be_bytes(*pair) };
                let (pairs, odd) = bytes.as_chunks::<2>();
                let unfinished = !at_end && pairs.last().is_some_and(|pair| is_high(unit(pair)));
                let expanded = &pairs[..pairs.len() - usize::from(unfinished)];
                char::decode_utf16(expanded.iter().map(unit)).for_each(|found| push(found.ok(), out));
                if at_end {
                    odd.iter().for_each(|_| push(None, out));
                } else {
                    self.rest = bytes[2 * expanded.len()..].to_vec();
                }
            }
        }
        replaced
    }
}

/// The internal entities of a document type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entities {
    values: HashMap<String, String>,
}

impl Entities {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Finds the document type before the first element of `text`: where it is, and the entities that it declares.
    ///
    /// # Errors
    /// When it does not end, or declares too many.
    pub fn find(text: &str) -> Result<Option<(std::ops::Range<usize>, Self)>, MarcError> {
        let mut at = 0;
        let never = |what: &str| MarcError::Shape(format!("{what} of the XML is never closed"));
        while let Some(found) = text[at..].find('<') {
            let start = at + found;
            let rest = &text[start..];
            if rest.starts_with("<!--") {
                at = start + rest.find("-->").ok_or_else(|| never("a comment"))? + 3;
            } else if rest.starts_with("<?") {
                at = start + rest.find("?>").ok_or_else(|| never("a processing instruction"))? + 2;
            } else if rest.starts_with("<!DOCTYPE") {
                let mut entities = Self::default();
                let length = entities.read(rest).ok_or_else(|| never("the document type"))?;
                if entities.values.len() > MAX_ENTITIES {
                    return Err(MarcError::Shape(format!("the document type declares more than {MAX_ENTITIES} entities")));
                }
                return Ok(Some((start..start + length, entities)));
            } else {
                break;
            }
        }
        Ok(None)
    }

    /// Reads a document type; its length.
    fn read(&mut self, text: &str) -> Option<usize> {
        let mut at = "<!DOCTYPE".len();
        let mut is_in_subset = false;
        loop {
            let rest = &text[at..];
            let next = rest.chars().next()?;
            match next {
                '"' | '\'' => at += 1 + rest[1..].find(next)? + 1,
                '[' => (is_in_subset, at) = (true, at + 1),
                ']' => (is_in_subset, at) = (false, at + 1),
                '>' if !is_in_subset => return Some(at + 1),
                '<' if rest.starts_with("<!--") => at += rest.find("-->")? + 3,
                '<' if rest.starts_with("<?") => at += rest.find("?>")? + 2,
                '<' if rest.starts_with("<!ENTITY") => at += self.declaration(rest)?,
                next => at += next.len_utf8(),
            }
        }
    }

    /// Reads the declaration of an entity; its length. Those whose text is not in the file are left out.
    fn declaration(&mut self, text: &str) -> Option<usize> {
        let body = &text["<!ENTITY".len()..];
        let name_start = body.trim_start();
        let name = name_start.split(|character: char| character.is_whitespace()).next()?;
        let value = name_start[name.len()..].trim_start();
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''));
        if let (Some(quote), false) = (quote, name == "%") {
            let value = &value[1..];
            let end = value.find(quote)?;
            let literal = &value[..end];
            // the first declaration counts
            if !literal.contains('%') && self.values.len() <= MAX_ENTITIES {
                self.values.entry(name.to_owned()).or_insert_with(|| unescape_characters(literal));
            }
            let after_literal = text.len() - value.len() + end + 1;
            return Some(after_literal + text[after_literal..].find('>')? + 1);
        }
        // external, or a parameter: up to its end, past quoted text
        let mut at = "<!ENTITY".len();
        loop {
            let rest = &text[at..];
            match rest.chars().next()? {
                quote @ ('"' | '\'') => at += 1 + rest[1..].find(quote)? + 1,
                '>' => return Some(at + 1),
                other => at += other.len_utf8(),
            }
        }
    }

    /// The text with its references to these entities expanded; what is no reference to one of them stays as it is.
    ///
    /// # Errors
    /// When the expanded texts, those of entities inside of entities counted again, have more than `limit` bytes, or entities contain
    /// each other.
    pub fn expand<'t>(&self, text: &'t str, limit: usize) -> Result<Cow<'t, str>, MarcError> {
        if self.values.is_empty() || !text.contains('&') {
            return Ok(Cow::Borrowed(text));
        }
        let (mut out, mut remaining) = (String::with_capacity(text.len()), limit);
        self.expand_into(text, 0, &mut remaining, &mut out)?;
        Ok(Cow::Owned(out))
    }

    /// `remaining` is how many bytes may still be expanded; each entity counts as one more than it has, so that empty ones count, too.
    fn expand_into(&self, text: &str, depth: usize, remaining: &mut usize, out: &mut String) -> Result<(), MarcError> {
        if depth > MAX_DEPTH {
            return Err(MarcError::Shape(format!("entities of the XML are nested deeper than {MAX_DEPTH} levels")));
        }
        let mut rest = text;
        while let Some(at) = rest.find(['&', '<']) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            // nothing is expanded in these
            let literal = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")].iter().find(|(begin, _)| rest.starts_with(begin));
            if let Some((name, value)) = reference(rest).and_then(|name| self.values.get_key_value(name)) {
                *remaining = remaining
                    .checked_sub(value.len() + 1)
                    .ok_or_else(|| MarcError::Shape("the entities of the XML expand to too much text".into()))?;
                self.expand_into(value, depth + 1, remaining, out)?;
                rest = &rest[name.len() + 2..];
                continue;
            }
            let length = literal.map_or(1, |(_, end)| rest.find(end).map_or(rest.len(), |at| at + end.len()));
            out.push_str(&rest[..length]);
            rest = &rest[length..];
        }
        out.push_str(rest);
        Ok(())
    }
}

/// The name of the entity that the text begins with a reference to, if it is none of those that XML itself has.
fn reference(text: &str) -> Option<&str> {
    let name = text.strip_prefix('&')?;
    let end = name.bytes().take(256).position(|byte| byte == b';')?;
    Some(&name[..end]).filter(|name| !matches!(*name, "amp" | "lt" | "gt" | "quot" | "apos"))
}

/// The text of a declared entity: references to characters in it are characters. A quote stays a reference, as it may get into an attribute.
fn unescape_characters(literal: &str) -> String {
    let mut out = String::with_capacity(literal.len());
    let mut rest = literal;
    while let Some(at) = rest.find(['&', '"', '\'']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let quote = |character: char| if character == '"' { "&quot;" } else { "&apos;" };
        let next = rest.chars().next().unwrap_or_default();
        if next != '&' {
            // markup needs its quotes
            if literal.contains('<') {
                out.push(next)
            } else {
                out.push_str(quote(next))
            }
            rest = &rest[1..];
            continue;
        }
        let character = rest.find(';').filter(|end| *end < 12).and_then(|end| {
            let digits = rest[1..end].strip_prefix('#')?;
            let code = match digits.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => digits.parse(),
            };
            Some((end + 1, char::from_u32(code.ok()?)?))
        });
        let (length, character) = character.unwrap_or((1, '&'));
        match character {
            '"' | '\'' => out.push_str(quote(character)),
            character => out.push(character),
        }
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// The text of an XML file in memory: decoded, without its document type, the entities of that expanded by at most `limit` bytes. Says
/// how many characters were replaced by U+FFFD.
///
/// # Errors
/// When the encoding is not known, the document type does not end, or entities expand to too much.
pub fn document(bytes: &[u8], limit: usize) -> Result<(Cow<'_, str>, usize), MarcError> {
    let (encoding, mark) = XmlEncoding::detect(bytes)?;
    let bytes = &bytes[mark..];
    let valid = if encoding == XmlEncoding::Utf8 { simdutf8::basic::from_utf8(bytes).ok() } else { None };
    let (text, replaced) = match valid {
        Some(text) => (Cow::Borrowed(text), 0),
        None => {
            let mut out = String::with_capacity(bytes.len());
            let replaced = XmlDecoder::new(encoding).decode(bytes, true, &mut out);
            (Cow::Owned(out), replaced)
        }
    };
    let Some(expanded) = expanded(&text, limit)? else { return Ok((text, replaced)) };
    Ok((Cow::Owned(expanded), replaced))
}

/// The text of an XML document without its document type, the entities of that expanded by at most `limit` bytes; nothing where it has no
/// document type.
///
/// # Errors
/// When the document type does not end, or entities expand to too much.
pub fn expanded(text: &str, limit: usize) -> Result<Option<String>, MarcError> {
    let Some((declaration_range, entities)) = Entities::find(text)? else { return Ok(None) };
    let mut expanded = text[..declaration_range.start].to_owned();
    expanded.push_str(&entities.expand(&text[declaration_range.end..], limit)?);
    Ok(Some(expanded))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        document(bytes, 1000).expect("text").0.into_owned()
    }

    #[test]
    fn encodings_are_declared_or_marked() {
        assert_eq!(
            text(b"<?xml version=\"1.0\" encoding='ISO-8859-1'?><a>f\xfcr \x80</a>"),
            "<?xml version=\"1.0\" encoding='ISO-8859-1'?><a>für \u{80}</a>"
        );
        assert!(text(b"<?xml version=\"1.0\" encoding=\"Windows-1252\"?><a>\x80</a>").ends_with("<a>€</a>"));
        assert_eq!(text(b"\xef\xbb\xbf<a/>"), "<a/>");
        let units: Vec<u16> = "<a>ü😀</a>".encode_utf16().collect();
        let little: Vec<u8> = [0xfeff].iter().chain(&units).flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        assert_eq!([text(&little), text(&big)], ["<a>ü😀</a>"; 2]);
        assert_eq!(document(b"<a>\xff</a>", 0), Ok((Cow::Owned("<a>\u{fffd}</a>".to_owned()), 1)));
        assert!(document(b"<?xml version=\"1.0\" encoding=\"EBCDIC\"?><a/>", 0).is_err());
    }

    #[test]
    fn characters_may_arrive_in_pieces() {
        let all = "<a>ü😀€</a>";
        let little: Vec<u8> = all.encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (encoding, bytes) in [(XmlEncoding::Utf8, all.as_bytes()), (XmlEncoding::Utf16Le, &little)] {
            for size in 1..5 {
                let (mut decoder, mut out) = (XmlDecoder::new(encoding), String::new());
                let replaced: usize = bytes.chunks(size).map(|piece| decoder.decode(piece, false, &mut out)).sum();
                assert_eq!((decoder.decode(&[], true, &mut out), replaced, out.as_str()), (0, 0, all), "{encoding:?} {size}");
            }
        }
    }

    #[test]
    fn internal_entities_are_expanded() {
        let file = "<?xml version='1.0'?><!-- <!DOCTYPE --><!DOCTYPE c [<!ELEMENT c ANY><!ENTITY auml \"ä\"><!ENTITY two '&auml;&#38;amp;&auml;'>\
            <!ENTITY q '\"'><!ENTITY far SYSTEM \"file:///etc/passwd\"><!ENTITY % p \"x>y\"><!ENTITY amp '&#38;#38;'> ]>\
            <c a=\"&q;\">&auml;&two; &amp; &lt;<![CDATA[&auml;]]><!-- &auml; -->&far; &x</c>";
        let expected = "<?xml version='1.0'?><!-- <!DOCTYPE --><c a=\"&quot;\">ää&amp;ä &amp; &lt;<![CDATA[&auml;]]><!-- &auml; -->&far; &x</c>";
        assert_eq!(text(file.as_bytes()), expected);
    }

    #[test]
    fn expansion_is_bounded() {
        let mut file = "<!DOCTYPE c [<!ENTITY a0 \"0123456789\">".to_owned();
        for level in 1..10 {
            file.push_str(&format!("<!ENTITY a{level} \"{}\">", format!("&a{};", level - 1).repeat(10)));
        }
        file.push_str("]><c>&a9;</c>");
        assert!(document(file.as_bytes(), 1 << 20).is_err());
        assert!(document(b"<!DOCTYPE c [<!ENTITY a \"&b;\"><!ENTITY b \"&a;\">]><c>&a;</c>", 1 << 20).is_err());
        assert!(document(b"<!DOCTYPE c [<!ENTITY a \"\">]><c>&a;", 1).is_ok());
        assert!(document(b"<!DOCTYPE c [", 0).is_err());
    }
}
