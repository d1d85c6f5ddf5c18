//! What comes before the elements of an XML file and affects them: the declared encoding, and a document type with entities.

use crate::marc::xmltext::{Entities, XmlEncoding};

/// Maximum length in bytes of a document type whose entities are read.
const DOCUMENT_TYPE_LIMIT: usize = 1 << 16;
/// The first byte of a head with a prologue; a head without one begins with `<`.
const MARK: u8 = b'!';

/// The encoding and the document type of an XML file, as read so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct XmlPrologue {
    /// `None` for UTF-8.
    encoding: Option<XmlEncoding>,
    /// Whether the declared encoding is unknown.
    is_unknown: bool,
    document_type: String,
}

impl XmlPrologue {
    /// Reads markup before the outermost element; returns whether it affects the elements.
    pub(super) fn read(&mut self, markup: &[u8]) -> bool {
        if markup.starts_with(b"<?xml") {
            let found = XmlEncoding::detect(markup);
            self.is_unknown = found.is_err();
            self.encoding = found.ok().map(|(encoding, _)| encoding).filter(|found| *found != XmlEncoding::Utf8);
            return self.is_unknown || self.encoding.is_some();
        }
        if markup.starts_with(b"<!DOCTYPE") && markup.len() <= DOCUMENT_TYPE_LIMIT {
            let text = self.decode(markup);
            if Entities::find(&text).is_ok_and(|found| found.is_some_and(|(_, entities)| !entities.is_empty())) {
                self.document_type = text;
                return true;
            }
        }
        false
    }

    fn decode(&self, bytes: &[u8]) -> String {
        let mut text = String::new();
        crate::xml::decode(bytes, self.encoding, &mut text);
        text
    }

    /// The encoding, unless it is UTF-8.
    pub(crate) fn encoding(&self) -> Option<XmlEncoding> {
        self.encoding
    }

    /// Whether the encoding is unknown.
    pub(crate) fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    /// The declared entities.
    pub(crate) fn entities(&self) -> Entities {
        Entities::find(&self.document_type).ok().flatten().map(|(_, entities)| entities).unwrap_or_default()
    }

    /// Writes the front of a head: `!`, the letter of the encoding, the length of the document type, `:` and the document type.
    pub(super) fn to_head(&self) -> String {
        if *self == Self::default() {
            return String::new();
        }
        let letter = match self.encoding {
            Some(XmlEncoding::Latin1) => 'l',
            Some(XmlEncoding::Cp1252) => 'w',
            _ if self.is_unknown => 'x',
            _ => 'u',
        };
        format!("{}{letter}{}:{}", char::from(MARK), self.document_type.len(), self.document_type)
    }

    /// Reads what [`XmlPrologue::to_head`] wrote at the front of a head; also returns the rest of the head.
    pub(crate) fn of_head(head: &[u8]) -> (Self, &[u8]) {
        let read = || {
            let (letter, rest) = head.strip_prefix(&[MARK])?.split_first()?;
            let colon = memchr::memchr(b':', rest)?;
            let length: usize = std::str::from_utf8(&rest[..colon]).ok()?.parse().ok()?;
            let (document_type, rest) = rest[colon + 1..].split_at_checked(length)?;
            let encoding = match letter {
                b'l' => Some(XmlEncoding::Latin1),
                b'w' => Some(XmlEncoding::Cp1252),
                _ => None,
            };
            Some((Self { encoding, is_unknown: *letter == b'x', document_type: String::from_utf8_lossy(document_type).into_owned() }, rest))
        };
        read().unwrap_or_else(|| (Self::default(), head))
    }
}
