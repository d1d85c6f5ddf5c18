//! Finds where JSON values begin and end: in a list, one per line, or one after the other.

use super::step::{ScanStep, blanks};
use memchr::{memchr, memchr2};
use std::ops::Range;
use std::sync::Arc;
use stook_catalogue::records_path::RecordsPath;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonMode {
    /// Nothing was read yet.
    Start,
    /// The values read so far may be one per line or of any layout.
    Undecided,
    /// One value per line.
    Lines,
    /// Values one after the other.
    Values,
    /// The elements of an array.
    Elements,
    /// After the end of an array: another array's elements are documents, too, as if another file followed.
    AfterArray,
    /// After the end of the member's array.
    Done,
    /// The member's array was not found.
    Missing,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JsonState {
    scanned: usize,
    /// Whether the value's first byte was read.
    started: bool,
    depth: u32,
    in_string: bool,
    escaped: bool,
}

/// Finds the elements of an array, one value per line, values one after the other, or the elements of a list inside the top object.
#[derive(Debug, Clone)]
pub struct JsonScanner {
    /// The member names, from outside to inside, that lead to the list; empty if no member is one.
    list: Vec<String>,
    /// The member names, from outside to inside, that lead to the document in an element of the list.
    inner: Arc<[String]>,
    pub(super) mode: JsonMode,
    pub(super) state: JsonState,
    /// Whether the file has ended inside a value.
    pub(super) ended: bool,
}

/// Number of bytes from which one value per line is distinguished from values of any layout.
const JSON_WINDOW: usize = 1 << 16;
/// How far into a file the list of documents may begin.
const MEMBER_LIMIT: usize = 16 << 20;
/// Maximum length of bytes that begin no value and are reported as one problem.
const GARBAGE_LIMIT: usize = 4096;

const JSON_HEADS: [(JsonMode, &[u8]); 8] = [
    (JsonMode::Start, b""),
    (JsonMode::Undecided, b"undecided"),
    (JsonMode::Lines, b"lines"),
    (JsonMode::Values, b"values"),
    (JsonMode::Elements, b"elements"),
    (JsonMode::AfterArray, b"behind array"),
    (JsonMode::Done, b"done"),
    (JsonMode::Missing, b"missing"),
];

pub(super) fn json_mode(head: &[u8]) -> JsonMode {
    JSON_HEADS.into_iter().find(|(_, name)| *name == head).map_or(JsonMode::Start, |(mode, _)| mode)
}

impl JsonScanner {
    /// The members that lead to the document inside an element of the list.
    pub(crate) fn inner(&self) -> Arc<[String]> {
        self.inner.clone()
    }

    pub(super) fn head(&self) -> &'static [u8] {
        JSON_HEADS.into_iter().find(|(mode, _)| *mode == self.mode).map_or(b"", |(_, head)| head)
    }

    pub(super) fn resynchronise(&mut self, bytes: &[u8]) -> (usize, bool) {
        match value_end(bytes, &mut self.state) {
            Some(end) if end < bytes.len() || closes(bytes, end) => {
                self.state = JsonState::default();
                (end, true)
            }
            _ => {
                self.state.scanned = 0;
                (bytes.len(), false)
            }
        }
    }

    /// After the end of a file in which `found` documents and problems were found: says that its list is missing, if it is.
    pub(super) fn missing(&self, found: u64) -> Option<String> {
        let is_missing = self.mode == JsonMode::Missing || found == 0 && self.mode == JsonMode::Start;
        (is_missing && !self.list.is_empty()).then(|| format!("there is no list `{}` in its top object", self.list.join(".")))
    }

    pub(super) fn new(records: Option<&str>) -> Self {
        let RecordsPath { list, inner } = records.and_then(RecordsPath::parse).unwrap_or_default();
        Self { list, inner: inner.into(), mode: JsonMode::Start, state: JsonState::default(), ended: false }
    }

    pub(super) fn step(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        if self.state.scanned == 0 {
            let blank = blanks(bytes);
            if blank > 0 {
                return ScanStep::Skip(blank);
            }
            if bytes.is_empty() {
                return if at_end { ScanStep::End } else { ScanStep::NeedMore };
            }
        }
        match self.mode {
            JsonMode::Start => self.start(bytes, at_end),
            JsonMode::Undecided => self.decide(bytes, at_end),
            JsonMode::Lines => self.line(bytes, at_end),
            JsonMode::Values | JsonMode::Elements | JsonMode::AfterArray => self.element(bytes, at_end),
            JsonMode::Done | JsonMode::Missing => ScanStep::Skip(bytes.len()),
        }
    }

    fn start(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        if !self.list.is_empty() {
            return self.find_list(bytes, at_end);
        }
        if bytes[0] == b'[' {
            self.mode = JsonMode::Elements;
            return ScanStep::Skip(1);
        }
        self.mode = JsonMode::Undecided;
        ScanStep::Skip(0)
    }

    /// Distinguishes one value per line from values of any layout.
    fn decide(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        if !at_end && bytes.len() < JSON_WINDOW {
            return ScanStep::NeedMore;
        }
        let window = &bytes[..bytes.len().min(JSON_WINDOW)];
        if window.len() == JSON_WINDOW
            && let Some(line) = only_line(window)
        {
            // the bytes after the following blanks decide
            return ScanStep::Document { bytes: 0..line, next: line };
        }
        self.mode = if has_one_value_per_line(window) { JsonMode::Lines } else { JsonMode::Values };
        ScanStep::Skip(0)
    }

    /// Skips to the list in the top object, or in objects in it.
    fn find_list(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        let window = &bytes[..bytes.len().min(MEMBER_LIMIT)];
        if let Some(at) = array_at(&self.list, window) {
            self.mode = JsonMode::Elements;
            return ScanStep::Skip(at);
        }
        if !at_end && window.len() < MEMBER_LIMIT {
            return ScanStep::NeedMore;
        }
        self.mode = JsonMode::Missing;
        let reason = format!("the top value is not an object with a list \"{}\"", self.list.join("."));
        ScanStep::Problem { bytes: 0..bytes.len().min(80), next: bytes.len(), reason }
    }

    fn line(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        let (end, next) = match memchr(b'\n', &bytes[self.state.scanned..]) {
            Some(found) => (self.state.scanned + found, self.state.scanned + found + 1),
            None if at_end => (bytes.len(), bytes.len()),
            None => {
                self.state.scanned = bytes.len();
                return ScanStep::NeedMore;
            }
        };
        self.state.scanned = 0;
        ScanStep::Document { bytes: 0..bytes[..end].trim_ascii_end().len(), next }
    }

    fn element(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        if self.state.scanned == 0 {
            let separators = bytes.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
            if separators > 0 {
                return ScanStep::Skip(separators);
            }
            let mode = match (self.mode, bytes[0]) {
                (JsonMode::Elements, b']') if !self.list.is_empty() => JsonMode::Done,
                (JsonMode::Elements, b']') => JsonMode::AfterArray,
                (JsonMode::AfterArray, b'[') => JsonMode::Elements,
                (mode, _) => mode,
            };
            if mode != self.mode {
                self.mode = mode;
                return ScanStep::Skip(1);
            }
        }
        match value_end(bytes, &mut self.state) {
            Some(0) => {
                self.state = JsonState::default();
                if !at_end && bytes.len() < GARBAGE_LIMIT {
                    return ScanStep::NeedMore;
                }
                let window = &bytes[..bytes.len().min(GARBAGE_LIMIT)];
                let end = memchr2(b'\n', b',', &window[1..]).map_or(window.len(), |at| at + 1);
                ScanStep::Problem { bytes: 0..end, next: end, reason: "expected a JSON value".into() }
            }
            // a scalar at the end of the available bytes may go on
            Some(end) if end == bytes.len() && !at_end && !closes(bytes, end) => ScanStep::NeedMore,
            Some(end) => {
                self.state = JsonState::default();
                ScanStep::Document { bytes: 0..end, next: end }
            }
            None if !at_end => ScanStep::NeedMore,
            None => {
                self.state = JsonState::default();
                self.ended = true;
                ScanStep::Problem { bytes: 0..bytes.len(), next: bytes.len(), reason: "the file ends inside a JSON value".into() }
            }
        }
    }
}

/// Whether the value that ends at `end` cannot go on.
fn closes(bytes: &[u8], end: usize) -> bool {
    end > 0 && matches!(bytes[end - 1], b'}' | b']' | b'"')
}

/// Whether a line is exactly one object.
fn is_complete_object(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    line.starts_with(b"{") && value_end(line, &mut JsonState::default()) == Some(line.len())
}

/// The length of the only non-blank line of `window`, if it is exactly one object and complete.
fn only_line(window: &[u8]) -> Option<usize> {
    let line = &window[..memchr(b'\n', window)?];
    (window[line.len()..].trim_ascii_start().is_empty() && is_complete_object(line)).then(|| line.trim_ascii_end().len())
}

/// Whether a file that begins with `window` has one value per line. The first line may be broken; a value that spans lines and is valid as far as it
/// is visible decides against it.
fn has_one_value_per_line(window: &[u8]) -> bool {
    let mut lines = window.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let first = lines.next().unwrap_or_default();
    if is_complete_object(first) {
        return lines.next().is_some();
    }
    let is_valid_so_far = match serde_json::Deserializer::from_slice(window).into_iter::<serde_json::Value>().next() {
        Some(Err(error)) => error.is_eof(),
        _ => true,
    };
    !is_valid_so_far && lines.any(is_complete_object)
}

/// The position after the `[` of the array to which these members lead from the top object.
fn array_at(names: &[String], bytes: &[u8]) -> Option<usize> {
    let (outer, inner) = names.split_first()?;
    if inner.is_empty() {
        return member_value(outer, bytes, |value| bytes.get(value) == Some(&b'[')).map(|value| value + 1);
    }
    let object = member_value(outer, bytes, |value| bytes.get(value) == Some(&b'{'))?;
    array_at(inner, &bytes[object..]).map(|array| object + array)
}

/// Whether the text of a key, with its quotation marks, is this name.
fn is_name(key: &[u8], name: &str) -> bool {
    if memchr(b'\\', key).is_none() {
        return key.len() == name.len() + 2 && &key[1..key.len() - 1] == name.as_bytes();
    }
    serde_json::from_slice::<String>(key).is_ok_and(|key| key == name)
}

/// Returns the value at the end of these member names, from outside to inside, in the object `bytes`.
pub(crate) fn inner_value<'b>(names: &[String], bytes: &'b [u8]) -> Option<&'b [u8]> {
    names.iter().try_fold(bytes, |bytes, name| {
        let start = member_value(name, bytes, |_| true)?;
        let length = value_end(&bytes[start..], &mut JsonState::default()).unwrap_or(bytes.len() - start);
        let range: Range<usize> = start..start + length;
        bytes.get(range)
    })
}

/// The position of the first value of this member of the object that is wanted.
fn member_value(member: &str, bytes: &[u8], is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
    let mut at = bytes.starts_with(b"{").then_some(1)?;
    loop {
        at += bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
        let key_end = at + value_end(&bytes[at..], &mut JsonState::default()).filter(|length| *length > 0)?;
        let colon = key_end + blanks(&bytes[key_end..]);
        if bytes.get(colon) != Some(&b':') {
            return None;
        }
        let value = colon + 1 + blanks(&bytes[colon + 1..]);
        if is_name(&bytes[at..key_end], member) && is_wanted(value) {
            return Some(value);
        }
        at = value + value_end(&bytes[value..], &mut JsonState::default())?;
    }
}

/// The end of the value at the front of `bytes`, by structure alone. Continues from `state`.
fn value_end(bytes: &[u8], state: &mut JsonState) -> Option<usize> {
    let mut at = state.scanned;
    while at < bytes.len() {
        if state.in_string {
            if state.escaped {
                state.escaped = false;
                at += 1;
                continue;
            }
            let Some(found) = memchr2(b'"', b'\\', &bytes[at..]) else {
                at = bytes.len();
                break;
            };
            at += found;
            if bytes[at] == b'\\' {
                state.escaped = true;
            } else {
                state.in_string = false;
                if state.depth == 0 {
                    state.scanned = 0;
                    return Some(at + 1);
                }
            }
            at += 1;
            continue;
        }
        let is_in_value = state.depth > 0 || !state.started;
        match bytes[at] {
            b'"' if is_in_value => state.in_string = true,
            b'{' | b'[' if is_in_value => state.depth += 1,
            b'}' | b']' if state.depth > 0 => {
                state.depth -= 1;
                if state.depth == 0 {
                    return Some(at + 1);
                }
            }
            byte if state.depth == 0 && (byte.is_ascii_whitespace() || matches!(byte, b',' | b']' | b'}' | b':' | b'"' | b'{' | b'[')) => {
                return Some(at);
            }
            _ => {}
        }
        state.started = true;
        at += 1;
    }
    state.scanned = at;
    (state.depth == 0 && !state.in_string && at > 0).then_some(at)
}
