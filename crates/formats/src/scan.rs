//! Where documents begin and end: one scanner per syntax, over bytes that arrive in pieces.
//!
//! A scanner never decodes. It finds the next document's bytes, or a stretch that cannot be one and where reading resumes,
//! or asks for more. The same scanner cuts a file into chunks and a chunk into documents: [`Scanner::head`] is what a chunk
//! needs to know of the bytes before it (a CSV header, the namespaces of the enclosing elements, being inside an array).

use memchr::{memchr, memchr2, memmem};
use std::ops::Range;

use crate::Syntax;

/// What a scanner found at the front of the bytes it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A document; reading goes on at `next`.
    Document {
        /// Its bytes.
        bytes: Range<usize>,
        /// Where the scanner goes on.
        next: usize,
    },
    /// Bytes that are no document.
    Problem {
        /// The bytes.
        bytes: Range<usize>,
        /// Where reading resumes.
        next: usize,
        /// What is wrong.
        reason: String,
    },
    /// Bytes between documents.
    Skip(usize),
    /// More bytes are needed.
    More,
    /// Nothing follows.
    End,
}

/// Cuts bytes of one syntax into documents.
#[derive(Debug, Clone)]
pub enum Scanner {
    /// ISO 2709.
    Marc(MarcScanner),
    /// JSON.
    Json(JsonScanner),
    /// XML.
    Xml(XmlScanner),
    /// CSV.
    Csv(CsvScanner),
}

impl Scanner {
    /// A scanner at the beginning of a file. `records` is the definition's choice of element or member.
    pub fn new(syntax: Syntax, records: Option<&str>) -> Self {
        match syntax {
            Syntax::Marc => Scanner::Marc(MarcScanner::default()),
            Syntax::Json | Syntax::MarcJson => Scanner::Json(JsonScanner::new(records)),
            Syntax::Xml => Scanner::Xml(XmlScanner::new(records)),
            Syntax::MarcXml => Scanner::Xml(XmlScanner::new(Some("record"))),
            Syntax::Csv => Scanner::Csv(CsvScanner::default()),
        }
    }

    /// A scanner at the beginning of a chunk, with the head the cutting scanner had there.
    pub fn resume(syntax: Syntax, records: Option<&str>, head: &[u8]) -> Self {
        let mut scanner = Self::new(syntax, records);
        match &mut scanner {
            Scanner::Marc(_) => {}
            Scanner::Json(json) => (json.mode, json.in_array) = json_head(head),
            Scanner::Xml(xml) => (xml.level, xml.declarations) = xml_head(head),
            Scanner::Csv(csv) if head.is_empty() => csv.header = None,
            Scanner::Csv(csv) => csv.begin(head.to_vec()),
        }
        scanner
    }

    /// What a chunk that starts here needs to know. It is empty at the beginning of a file.
    pub fn head(&self) -> Vec<u8> {
        match self {
            Scanner::Marc(_) => Vec::new(),
            Scanner::Json(json) => json.head().to_vec(),
            Scanner::Xml(xml) => xml.head().into_bytes(),
            Scanner::Csv(csv) => csv.header.clone().unwrap_or_default(),
        }
    }

    /// Another number whenever what documents need for parsing, the columns or the namespaces, may have changed.
    pub(crate) fn head_version(&self) -> u64 {
        match self {
            Scanner::Marc(_) | Scanner::Json(_) => 0,
            Scanner::Xml(xml) => xml.head_version,
            Scanner::Csv(csv) => u64::from(csv.header.is_some()),
        }
    }

    /// Longest document of this syntax, in bytes.
    pub fn limit(&self) -> usize {
        match self {
            Scanner::Marc(_) => 1 << 20,
            Scanner::Csv(_) => CSV_LIMIT,
            Scanner::Json(_) | Scanner::Xml(_) => TREE_LIMIT,
        }
    }

    /// Looks at the front of `bytes`, which are the bytes at the scanner's position; `at_end` says that nothing follows them.
    pub fn step(&mut self, bytes: &[u8], at_end: bool) -> Step {
        let step = match self {
            Scanner::Marc(scanner) => scanner.step(bytes, at_end),
            Scanner::Json(scanner) => scanner.step(bytes, at_end),
            Scanner::Xml(scanner) => scanner.step(bytes, at_end),
            Scanner::Csv(scanner) => scanner.step(bytes, at_end),
        };
        match step {
            // whether a document is too long must not depend on how much of the file happens to be buffered
            Step::Document { bytes: document, next } if document.len() > self.limit() => {
                let next = if let Scanner::Csv(_) = self { line_end(bytes).unwrap_or(next) } else { next };
                Step::Problem { bytes: document.start..document.start, next, reason: self.too_long() }
            }
            other => other,
        }
    }

    /// What is wrong with a document beyond the limit.
    pub(crate) fn too_long(&self) -> String {
        format!("the document is longer than {} bytes", self.limit())
    }

    /// The document at hand is longer than [`Scanner::limit`]: how many of `bytes` to give up, and whether reading resumes
    /// behind them. If not, the scanner wants to see what follows them.
    pub fn resynchronise(&mut self, bytes: &[u8]) -> (usize, bool) {
        let found = match self {
            Scanner::Json(scanner) if scanner.mode != JsonMode::Lines => return scanner.resynchronise(bytes),
            Scanner::Xml(scanner) => return scanner.resynchronise(bytes),
            Scanner::Marc(scanner) => {
                scanner.scanned = 0;
                memchr(crate::marc::RECORD_END, bytes).map(|at| at + 1)
            }
            Scanner::Json(scanner) => {
                scanner.state = JsonState::default();
                memchr(b'\n', bytes).map(|at| at + 1)
            }
            Scanner::Csv(scanner) => {
                scanner.reset();
                line_end(bytes)
            }
        };
        found.map_or((bytes.len(), false), |end| (end, true))
    }
}

/// Longest JSON value or XML element.
const TREE_LIMIT: usize = 32 << 20;
/// Longest CSV row.
const CSV_LIMIT: usize = 4 << 20;

/// The position behind the first line end.
fn line_end(bytes: &[u8]) -> Option<usize> {
    memchr2(b'\n', b'\r', bytes).map(|at| at + 1)
}

fn blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

// --- MARC ---------------------------------------------------------------------------------------------------------------

/// Records end at their terminator; the length in the leader is checked when the record is parsed.
#[derive(Debug, Clone, Default)]
pub struct MarcScanner {
    scanned: usize,
}

impl MarcScanner {
    fn step(&mut self, bytes: &[u8], at_end: bool) -> Step {
        if self.scanned == 0 {
            // line ends between records, and the control-Z some systems write at the end
            let between = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n' | 0x1a)).count();
            if between > 0 {
                return Step::Skip(between);
            }
        }
        if let Some(found) = memchr(crate::marc::RECORD_END, &bytes[self.scanned..]) {
            let end = self.scanned + found + 1;
            self.scanned = 0;
            return Step::Document { bytes: 0..end, next: end };
        }
        if !at_end {
            self.scanned = bytes.len();
            return Step::More;
        }
        self.scanned = 0;
        if bytes.is_empty() {
            return Step::End;
        }
        let reason = "the file ends inside a record: there is no record terminator".to_owned();
        Step::Problem { bytes: 0..bytes.len(), next: bytes.len(), reason }
    }
}

// --- JSON ---------------------------------------------------------------------------------------------------------------

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonMode {
    /// Nothing was read yet.
    Start,
    /// One value per line.
    Lines,
    /// Values one after the other, or the elements of an array.
    Elements,
    /// Behind the end of the member's array.
    Done,
}

#[derive(Debug, Clone, Copy, Default)]
struct JsonState {
    scanned: usize,
    /// Whether the value's first byte was seen.
    begun: bool,
    depth: u32,
    in_string: bool,
    escaped: bool,
}

/// An array's elements, one value per line, values one after the other, or the elements of one member of the top object.
#[derive(Debug, Clone)]
pub struct JsonScanner {
    member: Option<String>,
    mode: JsonMode,
    in_array: bool,
    state: JsonState,
}

/// How far a file is looked at to tell one value per line from values of any layout.
const JSON_WINDOW: usize = 1 << 16;
/// How far into a file the member that holds the documents may begin.
const MEMBER_LIMIT: usize = 16 << 20;
/// Longest stretch of bytes that begin no value and are reported as one problem.
const GARBAGE_LIMIT: usize = 4096;

fn json_head(head: &[u8]) -> (JsonMode, bool) {
    match head {
        b"lines" => (JsonMode::Lines, false),
        b"array" => (JsonMode::Elements, true),
        b"values" => (JsonMode::Elements, false),
        b"done" => (JsonMode::Done, false),
        _ => (JsonMode::Start, false),
    }
}

impl JsonScanner {
    fn head(&self) -> &'static [u8] {
        match (self.mode, self.in_array) {
            (JsonMode::Start, _) => b"",
            (JsonMode::Lines, _) => b"lines",
            (JsonMode::Elements, true) => b"array",
            (JsonMode::Elements, false) => b"values",
            (JsonMode::Done, _) => b"done",
        }
    }

    fn resynchronise(&mut self, bytes: &[u8]) -> (usize, bool) {
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

    fn new(member: Option<&str>) -> Self {
        Self { member: member.map(str::to_owned), mode: JsonMode::Start, in_array: false, state: JsonState::default() }
    }

    fn step(&mut self, bytes: &[u8], at_end: bool) -> Step {
        if self.state.scanned == 0 {
            let blank = blanks(bytes);
            if blank > 0 {
                return Step::Skip(blank);
            }
            if bytes.is_empty() {
                return if at_end { Step::End } else { Step::More };
            }
        }
        match self.mode {
            JsonMode::Start => self.start(bytes, at_end),
            JsonMode::Lines => self.line(bytes, at_end),
            JsonMode::Elements => self.element(bytes, at_end),
            JsonMode::Done => Step::Skip(bytes.len()),
        }
    }

    fn start(&mut self, bytes: &[u8], at_end: bool) -> Step {
        if let Some(member) = self.member.clone() {
            return self.find_member(&member, bytes, at_end);
        }
        if bytes[0] == b'[' {
            self.mode = JsonMode::Elements;
            self.in_array = true;
            return Step::Skip(1);
        }
        if !at_end && bytes.len() < JSON_WINDOW {
            return Step::More;
        }
        self.mode = if one_value_per_line(&bytes[..bytes.len().min(JSON_WINDOW)]) { JsonMode::Lines } else { JsonMode::Elements };
        Step::Skip(0)
    }

    /// Skips to the array of the member called `member` of the top object.
    fn find_member(&mut self, member: &str, bytes: &[u8], at_end: bool) -> Step {
        let window = &bytes[..bytes.len().min(MEMBER_LIMIT)];
        if let Some(at) = member_array(member, window) {
            self.mode = JsonMode::Elements;
            self.in_array = true;
            return Step::Skip(at);
        }
        if !at_end && window.len() < MEMBER_LIMIT {
            return Step::More;
        }
        self.mode = JsonMode::Done;
        let reason = format!("the top value is not an object with a list \"{member}\"");
        Step::Problem { bytes: 0..bytes.len().min(80), next: bytes.len(), reason }
    }

    fn line(&mut self, bytes: &[u8], at_end: bool) -> Step {
        let (end, next) = match memchr(b'\n', &bytes[self.state.scanned..]) {
            Some(found) => (self.state.scanned + found, self.state.scanned + found + 1),
            None if at_end => (bytes.len(), bytes.len()),
            None => {
                self.state.scanned = bytes.len();
                return Step::More;
            }
        };
        self.state.scanned = 0;
        Step::Document { bytes: 0..bytes[..end].trim_ascii_end().len(), next }
    }

    fn element(&mut self, bytes: &[u8], at_end: bool) -> Step {
        if self.state.scanned == 0 {
            let separators = bytes.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
            if separators > 0 {
                return Step::Skip(separators);
            }
            if bytes[0] == b']' && self.in_array {
                // what follows is read like another file, except in an object, whose other members follow
                self.mode = if self.member.is_some() { JsonMode::Done } else { JsonMode::Start };
                self.in_array = false;
                return Step::Skip(1);
            }
        }
        match value_end(bytes, &mut self.state) {
            Some(0) => {
                self.state = JsonState::default();
                if !at_end && bytes.len() < GARBAGE_LIMIT {
                    return Step::More;
                }
                let window = &bytes[..bytes.len().min(GARBAGE_LIMIT)];
                let end = memchr2(b'\n', b',', &window[1..]).map_or(window.len(), |at| at + 1);
                Step::Problem { bytes: 0..end, next: end, reason: "expected a JSON value".into() }
            }
            // a scalar at the very end of what is there may go on
            Some(end) if end == bytes.len() && !at_end && !closes(bytes, end) => Step::More,
            Some(end) => {
                self.state = JsonState::default();
                Step::Document { bytes: 0..end, next: end }
            }
            None if !at_end => Step::More,
            None => {
                self.state = JsonState::default();
                Step::Problem { bytes: 0..bytes.len(), next: bytes.len(), reason: "the file ends inside a JSON value".into() }
            }
        }
    }
}

/// Whether the value that ends at `end` cannot go on.
fn closes(bytes: &[u8], end: usize) -> bool {
    end > 0 && matches!(bytes[end - 1], b'}' | b']' | b'"')
}

/// Whether a file that begins with `window` has one value per line. The first line may be broken; a value that spans lines
/// and is sound as far as it is seen decides against it.
fn one_value_per_line(window: &[u8]) -> bool {
    let mut lines = window.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let whole = |line: &[u8]| {
        let line = line.trim_ascii_end();
        line.starts_with(b"{") && value_end(line, &mut JsonState::default()) == Some(line.len())
    };
    let first = lines.next().unwrap_or_default();
    if whole(first) {
        return lines.next().is_some();
    }
    let sound = match serde_json::Deserializer::from_slice(window).into_iter::<serde::de::IgnoredAny>().next() {
        Some(Err(error)) => error.is_eof(),
        _ => true,
    };
    !sound && lines.any(whole)
}

/// The position behind the `[` of the member called `member` of the top object.
fn member_array(member: &str, bytes: &[u8]) -> Option<usize> {
    let wanted = format!("\"{member}\"");
    let mut at = bytes.starts_with(b"{").then_some(1)?;
    loop {
        at += bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
        let key_end = at + value_end(&bytes[at..], &mut JsonState::default()).filter(|length| *length > 0)?;
        let colon = key_end + blanks(&bytes[key_end..]);
        if bytes.get(colon) != Some(&b':') {
            return None;
        }
        let value = colon + 1 + blanks(&bytes[colon + 1..]);
        if &bytes[at..key_end] == wanted.as_bytes() && bytes.get(value) == Some(&b'[') {
            return Some(value + 1);
        }
        at = value + value_end(&bytes[value..], &mut JsonState::default())?;
    }
}

/// The end of the value at the front of `bytes`, by structure alone. Goes on where `state` left off.
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
        let inside = state.depth > 0 || !state.begun;
        match bytes[at] {
            b'"' if inside => state.in_string = true,
            b'{' | b'[' if inside => state.depth += 1,
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
        state.begun = true;
        at += 1;
    }
    state.scanned = at;
    (state.depth == 0 && !state.in_string && at > 0).then_some(at)
}

// --- XML ----------------------------------------------------------------------------------------------------------------

/// Elements of one name, or the children of the root.
#[derive(Debug, Clone)]
pub struct XmlScanner {
    name: Option<String>,
    /// Whether the root was entered.
    inside: bool,
    /// Namespace declarations of the elements entered.
    declarations: String,
    /// The name of the document element being scanned.
    open: Option<String>,
    /// Elements of that name inside it that are open.
    depth: u32,
    scanned: usize,
    seen_any: bool,
}

enum Tag<'a> {
    Open { name: &'a str, empty: bool, attributes: &'a str },
    Close { name: &'a str },
    Other,
}

impl XmlScanner {
    fn new(name: Option<&str>) -> Self {
        Self { name: name.map(str::to_owned), inside: false, declarations: String::new(), open: None, depth: 0, scanned: 0, seen_any: false }
    }

    fn step(&mut self, bytes: &[u8], at_end: bool) -> Step {
        if self.open.is_none() {
            self.outside(bytes, at_end)
        } else {
            self.document(bytes, at_end)
        }
    }

    /// Between documents: looks for the next one.
    fn outside(&mut self, bytes: &[u8], at_end: bool) -> Step {
        let Some(start) = memchr(b'<', bytes) else {
            return match (bytes.iter().all(u8::is_ascii_whitespace), at_end) {
                (true, true) if self.seen_any || bytes.is_empty() => Step::End,
                (true, _) if !bytes.is_empty() => Step::Skip(bytes.len()),
                (_, false) => Step::More,
                _ if self.inside => Step::Skip(bytes.len()),
                _ => Step::Problem { bytes: 0..bytes.len(), next: bytes.len(), reason: "expected an XML element".into() },
            };
        };
        if start > 0 {
            return Step::Skip(start);
        }
        let Some((length, tag)) = tag_at(bytes) else {
            if !at_end {
                return Step::More;
            }
            return Step::Problem { bytes: 0..bytes.len(), next: bytes.len(), reason: "the file ends inside a tag".into() };
        };
        match tag {
            Tag::Open { name, empty, attributes } => {
                let wanted = match &self.name {
                    Some(wanted) => name == wanted || local(name) == wanted.as_str(),
                    None => self.inside,
                };
                if !wanted {
                    self.inside = true;
                    if !empty {
                        self.declarations.push_str(&namespace_declarations(attributes));
                    }
                    return Step::Skip(length);
                }
                self.seen_any = true;
                if empty {
                    return Step::Document { bytes: 0..length, next: length };
                }
                self.open = Some(name.to_owned());
                self.depth = 1;
                self.scanned = length;
                self.document(bytes, at_end)
            }
            Tag::Close { .. } | Tag::Other => {
                self.seen_any = true;
                Step::Skip(length)
            }
        }
    }

    /// Inside a document: looks for its end.
    fn document(&mut self, bytes: &[u8], at_end: bool) -> Step {
        let open = self.open.clone().unwrap_or_default();
        loop {
            let Some(found) = memchr(b'<', &bytes[self.scanned..]) else { break };
            let start = self.scanned + found;
            let Some((length, tag)) = tag_at(&bytes[start..]) else {
                self.scanned = start;
                break;
            };
            match tag {
                Tag::Open { name, empty: false, .. } if name == open => self.depth += 1,
                Tag::Close { name } if name == open => self.depth -= 1,
                _ => {}
            }
            self.scanned = start + length;
            if self.depth == 0 {
                let end = self.scanned;
                self.open = None;
                self.scanned = 0;
                return Step::Document { bytes: 0..end, next: end };
            }
        }
        if !at_end {
            return Step::More;
        }
        self.open = None;
        self.scanned = 0;
        let reason = format!("the file ends inside element `{open}`");
        Step::Problem { bytes: 0..bytes.len(), next: bytes.len(), reason }
    }
}

fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

/// The markup at the front of `bytes`, which starts with `<`, and its length.
fn tag_at(bytes: &[u8]) -> Option<(usize, Tag<'_>)> {
    for (start, end) in [(&b"<!--"[..], &b"-->"[..]), (b"<![CDATA[", b"]]>"), (b"<?", b"?>")] {
        if bytes.starts_with(start) {
            let found = memmem::find(&bytes[start.len()..], end)?;
            return Some((start.len() + found + end.len(), Tag::Other));
        }
    }
    if bytes.len() < 9 && (b"<!--".starts_with(bytes) || b"<![CDATA[".starts_with(bytes)) {
        return None;
    }
    let mut quote = None;
    let mut brackets = 0;
    for (at, &byte) in bytes.iter().enumerate().skip(1) {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'[') if bytes.starts_with(b"<!") => brackets += 1,
            (None, b']') if bytes.starts_with(b"<!") => brackets -= 1,
            (None, b'>') if brackets <= 0 => return Some((at + 1, classify(&bytes[1..at]))),
            _ => {}
        }
    }
    None
}

fn classify(inner: &[u8]) -> Tag<'_> {
    let Ok(inner) = std::str::from_utf8(inner) else { return Tag::Other };
    if let Some(name) = inner.strip_prefix('/') {
        return Tag::Close { name: name.trim_end() };
    }
    if inner.starts_with('!') {
        return Tag::Other;
    }
    let empty = inner.ends_with('/');
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    let end = inner.find(|c: char| c.is_ascii_whitespace()).unwrap_or(inner.len());
    Tag::Open { name: &inner[..end], empty, attributes: &inner[end..] }
}

/// The `xmlns` attributes among `attributes`.
fn namespace_declarations(attributes: &str) -> String {
    let mut found = String::new();
    let mut rest = attributes.trim_start();
    while let Some(equals) = rest.find('=') {
        let name = rest[..equals].trim();
        let value = rest[equals + 1..].trim_start();
        let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) else { break };
        let Some(end) = value[1..].find(quote) else { break };
        if name == "xmlns" || name.starts_with("xmlns:") {
            found.push_str(&format!(" {name}={}", &value[..end + 2]));
        }
        rest = value[end + 2..].trim_start();
    }
    found
}

// --- CSV ----------------------------------------------------------------------------------------------------------------

/// Rows after a header; a quoted value may contain line ends.
#[derive(Debug, Clone, Default)]
pub struct CsvScanner {
    header: Option<Vec<u8>>,
    scanned: usize,
    in_quotes: bool,
}

impl CsvScanner {
    fn reset(&mut self) {
        self.scanned = 0;
        self.in_quotes = false;
    }

    fn step(&mut self, bytes: &[u8], at_end: bool) -> Step {
        if self.scanned == 0 {
            let between = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            if between > 0 {
                return Step::Skip(between);
            }
            if bytes.is_empty() {
                return if at_end { Step::End } else { Step::More };
            }
        }
        let mut end = None;
        while let Some(found) = memchr2(b'"', b'\n', &bytes[self.scanned..]) {
            let at = self.scanned + found;
            self.scanned = at + 1;
            if bytes[at] == b'"' {
                self.in_quotes = !self.in_quotes;
            } else if !self.in_quotes {
                end = Some(at);
                break;
            }
        }
        let (length, next) = match end {
            Some(at) => (at, at + 1),
            None if !at_end => {
                self.scanned = bytes.len();
                return Step::More;
            }
            None if self.in_quotes => {
                // give up this line only: what follows may be sound
                self.reset();
                let next = memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
                return Step::Problem { bytes: 0..next, next, reason: "a quote in this row is never closed".into() };
            }
            None => (bytes.len(), bytes.len()),
        };
        self.reset();
        let length = length - usize::from(bytes[..length].ends_with(b"\r"));
        if self.header.is_none() {
            self.header = Some(bytes[..length].to_vec());
            return Step::Skip(next);
        }
        Step::Document { bytes: 0..length, next }
    }
}
