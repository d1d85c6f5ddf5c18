//! Finds where the XML elements that are documents begin and end, by tags alone.

use super::envelope::{self, Envelope};
use super::prologue::XmlPrologue;
use super::step::{ScanStep, TREE_LIMIT, blanks};
use memchr::{memchr, memchr2, memmem};
use stook_xpath::markup::{XmlTag, attributes, delimiters, local, namespace_declarations, tag_at};

/// Finds elements of one name, the children of one element, or the root.
#[derive(Debug, Clone)]
pub struct XmlScanner {
    /// The name of a document's element. If `None`, documents are all children of `around`, or without that, the outermost element is the document.
    name: Option<String>,
    /// The name of the element around the documents.
    around: Option<String>,
    /// Whether that element has begun.
    pub(super) is_in_list_element: bool,
    /// Whether an element that contains documents was read, or something stated that there are none.
    is_list: bool,
    /// The name of the outermost element.
    root: Option<String>,
    /// The number of records that the file states, as far as it was read.
    number: Option<String>,
    /// Whether documents are MARCXML records: an unclosed one is noticed when the next begins, and one around another is a wrapper (OAI-PMH).
    marc: bool,
    /// Number of elements entered on the way to the documents.
    pub(super) level: u64,
    /// The namespace declarations of these elements, with their levels.
    pub(super) declarations: Vec<(u64, String)>,
    /// What the element around a MARC record says before the record.
    pub(super) envelope: Option<Envelope>,
    pub(super) head_version: u64,
    /// The name of the document element being scanned.
    open: Option<Vec<u8>>,
    /// Number of open elements of that name, including the document's.
    depth: u32,
    leader_seen: bool,
    scanned: usize,
    /// While an overlong document is skipped: what ends the current overlong markup.
    overlong_until: Option<&'static [u8]>,
    /// Whether the file has ended inside a document or a tag.
    pub(super) ended: bool,
    /// What comes before the elements and affects them.
    pub(super) prologue: XmlPrologue,
}

/// Maximum number of bytes of namespace declarations that are kept.
const DECLARATIONS_LIMIT: usize = 1 << 16;

/// What a chunk must know of the elements around its documents.
#[derive(Debug, Default)]
pub(crate) struct XmlHead {
    pub(super) level: u64,
    /// Namespace declarations with the levels of their elements.
    pub(super) declarations: Vec<(u64, String)>,
    pub(crate) envelope: Option<Envelope>,
}

impl XmlHead {
    /// Reads what [`XmlScanner::head`] writes: `<`, a level and its declarations, for each level that has some; the level and the text of an envelope;
    /// finally the current level, also if it is 0 because the element around the documents has begun and ended.
    pub(crate) fn new(head: &[u8]) -> Self {
        let head = String::from_utf8_lossy(XmlPrologue::of_head(head).1);
        let mut read = Self::default();
        for part in head.split('<').skip(1) {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let level = part[..digits].parse().unwrap_or(read.level);
            match part[digits..].strip_prefix(envelope::MARK) {
                Some(text) => read.envelope = Some(Envelope::of_head(level, text)),
                None if digits < part.len() => read.declarations.push((level, part[digits..].to_owned())),
                None => {}
            }
            read.level = level;
        }
        read
    }

    /// The namespace declarations, outermost first.
    pub(crate) fn declarations(&self) -> String {
        self.declarations.iter().map(|(_, text)| text.as_str()).collect()
    }
}

impl XmlScanner {
    pub(super) fn new(name: Option<&str>, marc: bool) -> Self {
        let (around, name) = match name.and_then(|name| name.rsplit_once('/')) {
            Some((around, name)) => (Some(around), Some(name).filter(|name| *name != "*")),
            None => (None, name),
        };
        Self {
            name: name.map(str::to_owned),
            around: around.map(str::to_owned),
            is_in_list_element: false,
            is_list: false,
            root: None,
            number: None,
            marc,
            level: 0,
            declarations: Vec::new(),
            envelope: None,
            head_version: 0,
            open: None,
            depth: 0,
            leader_seen: false,
            scanned: 0,
            overlong_until: None,
            ended: false,
            prologue: XmlPrologue::default(),
        }
    }

    /// Whether the outermost element is the document.
    pub(super) fn takes_root(&self) -> bool {
        self.name.is_none() && self.around.is_none()
    }

    pub(super) fn head(&self) -> String {
        let prologue = self.prologue.to_head();
        if self.level == 0 && !self.is_in_list_element {
            return prologue;
        }
        let declaring: String = self.declarations.iter().map(|(level, text)| format!("<{level}{text}")).collect();
        let envelope = self.envelope.as_ref().map(Envelope::to_head).unwrap_or_default();
        format!("{prologue}{declaring}{envelope}<{}", self.level)
    }

    pub(super) fn step(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        if self.open.is_none() { self.outside(bytes, at_end) } else { self.document(bytes, at_end) }
    }

    /// Between documents: finds the next one.
    fn outside(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        if bytes.is_empty() {
            return if at_end { ScanStep::End } else { ScanStep::NeedMore };
        }
        let start = memchr(b'<', bytes);
        let text = start.unwrap_or(bytes.len());
        // text around documents is ignored, text around the root shows that this is not XML
        let between = if self.level > 0 { text } else { blanks(bytes) };
        if between > 0 {
            if let Some(number) = self.number.as_mut().filter(|number| number.len() < MAX_DIGITS) {
                number.push_str(&String::from_utf8_lossy(&bytes[..between.min(MAX_DIGITS)]));
            }
            return ScanStep::Skip(between);
        }
        if start.is_none() && !at_end {
            return ScanStep::NeedMore;
        }
        if text > 0 {
            return ScanStep::Problem { bytes: 0..text, next: text, reason: "expected an XML element".into() };
        }
        let Some((length, tag)) = tag_at(bytes, at_end) else {
            if !at_end {
                return ScanStep::NeedMore;
            }
            self.ended = true;
            return ScanStep::Problem { bytes: 0..bytes.len(), next: bytes.len(), reason: "the file ends inside a tag".into() };
        };
        match tag {
            XmlTag::Open { name, empty, attributes } => {
                let wanted = match (&self.name, &self.around) {
                    (Some(wanted), None) => is_called(name, wanted),
                    (Some(wanted), Some(_)) => self.is_in_list_element && is_called(name, wanted),
                    (None, Some(_)) => self.is_in_list_element,
                    (None, None) => true,
                };
                if !wanted {
                    self.passed(name, attributes);
                }
                if wanted && empty {
                    return ScanStep::Document { bytes: 0..length, next: length };
                }
                if wanted {
                    self.open = Some(name.to_owned());
                    self.depth = 1;
                    self.leader_seen = false;
                    self.scanned = length;
                    return self.document(bytes, at_end);
                }
                if !empty {
                    self.enter(attributes);
                }
            }
            XmlTag::Close { .. } => {
                // SRU: the number of records is 0
                self.is_list |= self.number.take().is_some_and(|number| number.trim() == "0");
                self.leave();
            }
            XmlTag::Other if self.level == 0 && self.prologue.read(&bytes[..length]) => self.head_version += 1,
            XmlTag::Other => {}
        }
        ScanStep::Skip(length)
    }

    /// Reads an element that is not a document, which may show whether there are any.
    fn passed(&mut self, name: &[u8], attributes: &[u8]) {
        let local_name = local(name);
        let is_root = self.level == 0;
        let root = self.root.get_or_insert_with(|| String::from_utf8_lossy(name).into_owned());
        self.is_in_list_element |= self.around.as_ref().is_some_and(|around| is_called(name, around));
        self.is_list |= self.is_in_list_element;
        self.is_list |= match (local(root.as_bytes()), local_name) {
            (b"OAI-PMH", b"error") => self::attributes(attributes).any(|(name, whole)| name == b"code" && is_value(whole, b"noRecordsMatch")),
            (b"OAI-PMH", b"ListRecords" | b"ListIdentifiers" | b"GetRecord") => true,
            (b"searchRetrieveResponse", b"numberOfRecords") => {
                self.number = Some(String::new());
                false
            }
            // a list of `item` elements is called `items`
            _ => match &self.name {
                Some(item) if is_root && self.around.is_none() => {
                    local_name.strip_suffix(b"s") == Some(local(item.as_bytes())) || self.marc && local_name == b"collection"
                }
                _ => false,
            },
        };
    }

    /// Describes what the file should have been a list of, if it is not one.
    pub(super) fn missing(&self) -> Option<String> {
        let item = self.name.as_deref().unwrap_or("*");
        match (&self.root, &self.around) {
            _ if self.is_list => None,
            (None, _) => Some("there is no XML element in it".to_owned()),
            (Some(root), Some(around)) => Some(format!("there is no element `{around}` in it, its outermost one is `{root}`")),
            (Some(root), None) if self.marc => Some(format!("there is no record in it, and its outermost element `{root}` is not a list of them")),
            (Some(root), None) => Some(format!(
                "there is nothing in its outermost element `{root}` that is a document; where that is how it looks when it is empty, the source \
                 should say so, with `records: {root}/{item}` or `empty:`"
            )),
        }
    }

    fn enter(&mut self, attributes: &[u8]) {
        self.level += 1;
        let declared: Vec<u8> = namespace_declarations(attributes).flat_map(|(_, text)| [b" ", text].concat()).collect();
        let declaration_bytes: usize = self.declarations.iter().map(|(_, text)| text.len()).sum();
        if !declared.is_empty() && declaration_bytes + declared.len() <= DECLARATIONS_LIMIT {
            self.declarations.push((self.level, String::from_utf8_lossy(&declared).into_owned()));
            self.head_version += 1;
        }
    }

    fn leave(&mut self) {
        if self.declarations.last().is_some_and(|(level, _)| *level == self.level) {
            self.declarations.pop();
            self.head_version += 1;
        }
        if self.envelope.as_ref().is_some_and(|envelope| envelope.level == self.level) {
            self.envelope = None;
            self.head_version += 1;
        }
        self.level = self.level.saturating_sub(1);
    }

    /// Inside a document: finds its end.
    fn document(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        if bytes.is_empty() && at_end {
            // the rest of the document was skipped as overlong
            return ScanStep::End;
        }
        while let Some(found) = memchr(b'<', &bytes[self.scanned..]) {
            let start = self.scanned + found;
            self.scanned = start;
            let Some((length, tag)) = tag_at(&bytes[start..], at_end) else { break };
            if self.marc && self.begins_another(&tag) {
                return self.record_in_record(bytes, start, at_end);
            }
            self.scanned = start + length;
            if self.closes_document(&tag) {
                let end = std::mem::take(&mut self.scanned);
                self.open = None;
                return ScanStep::Document { bytes: 0..end, next: end };
            }
        }
        if !at_end {
            return ScanStep::NeedMore;
        }
        let open = self.open.take().unwrap_or_default();
        (self.scanned, self.ended) = (0, true);
        let reason = format!("the file ends inside element `{}`", String::from_utf8_lossy(&open));
        ScanStep::Problem { bytes: 0..bytes.len(), next: bytes.len(), reason }
    }

    fn closes_document(&mut self, tag: &XmlTag<'_>) -> bool {
        let open = self.open.as_deref().unwrap_or_default();
        match tag {
            XmlTag::Open { name, empty: false, .. } if *name == open => self.depth += 1,
            XmlTag::Close { name } if *name == open => self.depth -= 1,
            _ => {}
        }
        self.depth == 0
    }

    fn begins_another(&mut self, tag: &XmlTag<'_>) -> bool {
        let XmlTag::Open { name, .. } = tag else { return false };
        self.leader_seen |= local(name) == b"leader";
        local(name) == local(self.open.as_deref().unwrap_or_default())
    }

    /// Handles a record inside a MARCXML record: if the outer one has a leader, it was never closed; otherwise it is a wrapper and is entered.
    fn record_in_record(&mut self, bytes: &[u8], start: usize, at_end: bool) -> ScanStep {
        let open = self.open.take().unwrap_or_default();
        self.scanned = 0;
        if self.leader_seen {
            let reason = format!("element `{}` is not closed before the next one begins", String::from_utf8_lossy(&open));
            return ScanStep::Problem { bytes: 0..start, next: start, reason };
        }
        match tag_at(bytes, at_end) {
            Some((length, XmlTag::Open { attributes, .. })) => {
                self.enter(attributes);
                self.envelope = Envelope::new(self.level, &bytes[..start], self.prologue.encoding());
                self.head_version += 1;
                ScanStep::Skip(length)
            }
            _ => ScanStep::Skip(start),
        }
    }

    pub(super) fn resynchronise(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = std::mem::take(&mut self.scanned);
        loop {
            if let Some(end) = self.overlong_until {
                let Some(found) = memmem::find(&bytes[at..], end) else {
                    return (at.max((bytes.len() + 1).saturating_sub(end.len())), false);
                };
                at += found + end.len();
                self.overlong_until = None;
            }
            if self.open.is_none() && at > 0 {
                return (at, true);
            }
            let Some(found) = memchr(b'<', &bytes[at..]) else { return (bytes.len(), false) };
            at += found;
            match tag_at(&bytes[at..], false) {
                Some((length, tag)) => {
                    if self.marc && self.begins_another(&tag) || self.open.is_none() {
                        self.open = None;
                        return (at, true);
                    }
                    at += length;
                    if self.closes_document(&tag) {
                        self.open = None;
                    }
                }
                None if bytes.len() - at <= TREE_LIMIT => return (at, false),
                None => {
                    let (start, end) = delimiters(&bytes[at..]);
                    at += start.len();
                    self.overlong_until = Some(end);
                }
            }
        }
    }
}

/// Maximum number of digits that are read of a number of records.
const MAX_DIGITS: usize = 20;

/// Whether an element has this name, with or without its prefix.
fn is_called(name: &[u8], wanted: &str) -> bool {
    name == wanted.as_bytes() || local(name) == wanted.as_bytes()
}

/// Whether an attribute, as it is written, has this value.
fn is_value(attribute: &[u8], value: &[u8]) -> bool {
    let quoted = memchr2(b'"', b'\'', attribute).map(|at| &attribute[at + 1..attribute.len() - 1]);
    quoted.is_some_and(|text| text.trim_ascii() == value)
}
