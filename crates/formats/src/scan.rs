//! Where documents begin and end: one scanner per syntax, over bytes that arrive in pieces.
//!
//! A scanner never decodes. It finds the next document's bytes, or a stretch that cannot be one and where reading resumes,
//! or asks for more. The same scanner cuts a file into chunks and a chunk into documents: [`Scanner::head`] is what a chunk
//! needs to know of the bytes before it (a CSV header, the namespaces of the enclosing elements, being inside an array).

use memchr::{memchr, memchr2, memchr3, memmem};
use std::ops::Range;

use crate::Syntax;
pub use stook_marc::scan::MarcScanner;
use stook_marc::scan::MarcStep;
use stook_xpath::markup::{XmlTag, attributes, delimiters, local, namespace_declarations, tag_at};

/// What a scanner found at the front of the bytes it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanStep {
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
    NeedMore,
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
            Syntax::Xml => Scanner::Xml(XmlScanner::new(records, false)),
            Syntax::MarcXml => Scanner::Xml(XmlScanner::new(Some("record"), true)),
            Syntax::Csv => Scanner::Csv(CsvScanner::default()),
        }
    }

    /// A scanner at the beginning of a chunk, with the head the cutting scanner had there.
    pub fn resume(syntax: Syntax, records: Option<&str>, head: &[u8]) -> Self {
        let mut scanner = Self::new(syntax, records);
        match &mut scanner {
            Scanner::Marc(_) => {}
            Scanner::Json(json) => json.mode = json_mode(head),
            Scanner::Xml(xml) => {
                (xml.level, xml.declarations) = xml_head(head);
                // what is behind the beginning of a file begins with a document
                xml.is_inside = !head.is_empty();
            }
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

    /// The syntax family's representative: it says what a head means.
    pub(crate) fn syntax(&self) -> Syntax {
        match self {
            Scanner::Marc(_) => Syntax::Marc,
            Scanner::Json(_) => Syntax::Json,
            Scanner::Xml(_) => Syntax::Xml,
            Scanner::Csv(_) => Syntax::Csv,
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
    pub fn step(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        let step = match self {
            Scanner::Marc(scanner) => marc_step(scanner.step(bytes, at_end)),
            Scanner::Json(scanner) => scanner.step(bytes, at_end),
            Scanner::Xml(scanner) => scanner.step(bytes, at_end),
            Scanner::Csv(scanner) => scanner.step(bytes, at_end),
        };
        match step {
            // whether a document is too long must not depend on how much of the file happens to be buffered
            ScanStep::Document { bytes: document, next } if document.len() > self.limit() => {
                let next = if let Scanner::Csv(_) = self { line_end(bytes).unwrap_or(next) } else { next };
                ScanStep::Problem { bytes: document.start..document.start, next, reason: self.too_long() }
            }
            other => other,
        }
    }

    /// What is wrong where nothing follows, although something around the documents is still open; told once.
    pub fn ends_early(&mut self) -> Option<String> {
        let reason = match self {
            Scanner::Json(JsonScanner { mode: JsonMode::Elements, ended: false, .. }) => "the file ends inside its list: there is no closing ]",
            Scanner::Xml(XmlScanner { level: 1.., ended: false, .. }) => "the file ends inside its outermost element: it is not closed",
            _ => return None,
        };
        self.end();
        Some(reason.to_owned())
    }

    /// Where a file has ended: what its documents should have stood in, if that was not there. `found` is what was found, problems too.
    pub(crate) fn missing(&self, found: u64) -> Option<String> {
        match self {
            Scanner::Json(JsonScanner { member: Some(member), mode, .. }) if *mode == JsonMode::Missing || found == 0 && *mode == JsonMode::Start => {
                Some(format!("there is no list `{member}` in its top object"))
            }
            Scanner::Xml(xml) if found == 0 => xml.missing(),
            _ => None,
        }
    }

    /// It was told that the file has ended too early.
    pub(crate) fn end(&mut self) {
        match self {
            Scanner::Json(json) => json.ended = true,
            Scanner::Xml(xml) => xml.ended = true,
            Scanner::Marc(_) | Scanner::Csv(_) => {}
        }
    }

    /// What is wrong with a document beyond the limit.
    pub fn too_long(&self) -> String {
        format!("the document is longer than {} bytes", self.limit())
    }

    /// The document at hand is longer than [`Scanner::limit`]: how many of `bytes` to give up, and whether reading resumes
    /// behind them. If not, the scanner wants to see what follows them.
    pub fn resynchronise(&mut self, bytes: &[u8]) -> (usize, bool) {
        let found = match self {
            Scanner::Json(scanner) if scanner.mode != JsonMode::Lines => return scanner.resynchronise(bytes),
            Scanner::Xml(scanner) => return scanner.resynchronise(bytes),
            Scanner::Marc(scanner) => scanner.give_up(bytes),
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

/// A step of the scanner of records as one of documents.
fn marc_step(step: MarcStep) -> ScanStep {
    match step {
        MarcStep::Record(length) => ScanStep::Document { bytes: 0..length, next: length },
        MarcStep::Unterminated(length) => {
            let reason = "the file ends inside a record: there is no record terminator".to_owned();
            ScanStep::Problem { bytes: 0..length, next: length, reason }
        }
        MarcStep::Skip(length) => ScanStep::Skip(length),
        MarcStep::NeedMore => ScanStep::NeedMore,
        MarcStep::End => ScanStep::End,
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

// --- JSON ---------------------------------------------------------------------------------------------------------------

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonMode {
    /// Nothing was read yet.
    Start,
    /// What was read so far may be one value per line or values of any layout.
    Undecided,
    /// One value per line.
    Lines,
    /// Values one after the other.
    Values,
    /// The elements of an array.
    Elements,
    /// Values behind an array's end; another array gives its elements, as if another file followed.
    BehindArray,
    /// Behind the end of the member's array.
    Done,
    /// There is no such array.
    Missing,
}

#[derive(Debug, Clone, Copy, Default)]
struct JsonState {
    scanned: usize,
    /// Whether the value's first byte was seen.
    started: bool,
    depth: u32,
    in_string: bool,
    escaped: bool,
}

/// An array's elements, one value per line, values one after the other, or the elements of one member of the top object.
#[derive(Debug, Clone)]
pub struct JsonScanner {
    member: Option<String>,
    mode: JsonMode,
    state: JsonState,
    /// Whether the file has ended inside a value.
    ended: bool,
}

/// How far a file is looked at to tell one value per line from values of any layout.
const JSON_WINDOW: usize = 1 << 16;
/// How far into a file the member that holds the documents may begin.
const MEMBER_LIMIT: usize = 16 << 20;
/// Longest stretch of bytes that begin no value and are reported as one problem.
const GARBAGE_LIMIT: usize = 4096;

const JSON_HEADS: [(JsonMode, &[u8]); 8] = [
    (JsonMode::Start, b""),
    (JsonMode::Undecided, b"undecided"),
    (JsonMode::Lines, b"lines"),
    (JsonMode::Values, b"values"),
    (JsonMode::Elements, b"elements"),
    (JsonMode::BehindArray, b"behind array"),
    (JsonMode::Done, b"done"),
    (JsonMode::Missing, b"missing"),
];

fn json_mode(head: &[u8]) -> JsonMode {
    JSON_HEADS.into_iter().find(|(_, known)| *known == head).map_or(JsonMode::Start, |(mode, _)| mode)
}

impl JsonScanner {
    fn head(&self) -> &'static [u8] {
        JSON_HEADS.into_iter().find(|(mode, _)| *mode == self.mode).map_or(b"", |(_, head)| head)
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
        Self { member: member.map(str::to_owned), mode: JsonMode::Start, state: JsonState::default(), ended: false }
    }

    fn step(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
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
            JsonMode::Values | JsonMode::Elements | JsonMode::BehindArray => self.element(bytes, at_end),
            JsonMode::Done | JsonMode::Missing => ScanStep::Skip(bytes.len()),
        }
    }

    fn start(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        if let Some(member) = self.member.clone() {
            return self.find_member(&member, bytes, at_end);
        }
        if bytes[0] == b'[' {
            self.mode = JsonMode::Elements;
            return ScanStep::Skip(1);
        }
        self.mode = JsonMode::Undecided;
        ScanStep::Skip(0)
    }

    /// Tells one value per line from values of any layout.
    fn decide(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        if !at_end && bytes.len() < JSON_WINDOW {
            return ScanStep::NeedMore;
        }
        let window = &bytes[..bytes.len().min(JSON_WINDOW)];
        if window.len() == JSON_WINDOW
            && let Some(line) = only_line(window)
        {
            // what follows the blanks behind it decides
            return ScanStep::Document { bytes: 0..line, next: line };
        }
        self.mode = if one_value_per_line(window) { JsonMode::Lines } else { JsonMode::Values };
        ScanStep::Skip(0)
    }

    /// Skips to the array of the member called `member` of the top object.
    fn find_member(&mut self, member: &str, bytes: &[u8], at_end: bool) -> ScanStep {
        let window = &bytes[..bytes.len().min(MEMBER_LIMIT)];
        if let Some(at) = member_array(member, window) {
            self.mode = JsonMode::Elements;
            return ScanStep::Skip(at);
        }
        if !at_end && window.len() < MEMBER_LIMIT {
            return ScanStep::NeedMore;
        }
        self.mode = JsonMode::Missing;
        let reason = format!("the top value is not an object with a list \"{member}\"");
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
                (JsonMode::Elements, b']') if self.member.is_some() => JsonMode::Done,
                (JsonMode::Elements, b']') => JsonMode::BehindArray,
                (JsonMode::BehindArray, b'[') => JsonMode::Elements,
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
            // a scalar at the very end of what is there may go on
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

/// Whether a line is one object, with nothing else in it.
fn is_whole(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    line.starts_with(b"{") && value_end(line, &mut JsonState::default()) == Some(line.len())
}

/// The length of the only line of `window` that is not blank, if it is whole and ends there.
fn only_line(window: &[u8]) -> Option<usize> {
    let line = &window[..memchr(b'\n', window)?];
    (window[line.len()..].trim_ascii_start().is_empty() && is_whole(line)).then(|| line.trim_ascii_end().len())
}

/// Whether a file that begins with `window` has one value per line. The first line may be broken; a value that spans lines
/// and is sound as far as it is seen decides against it.
fn one_value_per_line(window: &[u8]) -> bool {
    let mut lines = window.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let first = lines.next().unwrap_or_default();
    if is_whole(first) {
        return lines.next().is_some();
    }
    let sound = match serde_json::Deserializer::from_slice(window).into_iter::<serde_json::Value>().next() {
        Some(Err(error)) => error.is_eof(),
        _ => true,
    };
    !sound && lines.any(is_whole)
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
        let inside = state.depth > 0 || !state.started;
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
        state.started = true;
        at += 1;
    }
    state.scanned = at;
    (state.depth == 0 && !state.in_string && at > 0).then_some(at)
}

// --- XML ----------------------------------------------------------------------------------------------------------------

/// Elements of one name, or the children of the root.
#[derive(Debug, Clone)]
pub struct XmlScanner {
    /// What a document is called; without it those are all children of the root, or of `around`.
    name: Option<String>,
    /// What the element around the documents is called.
    around: Option<String>,
    /// Whether that element was there.
    is_inside: bool,
    /// Whether an element was there in which documents stand, or something said that there are none.
    is_list: bool,
    /// What the outermost element is called.
    root: Option<String>,
    /// The number of what was found, as far as it was read.
    number: Option<String>,
    /// Whether documents are MARCXML records: an unclosed one shows when the next begins, and one around another is a wrapper
    /// (OAI-PMH).
    marc: bool,
    /// Elements entered on the way to the documents.
    level: u64,
    /// The namespace declarations of those that have some, with their level.
    declarations: Vec<(u64, String)>,
    head_version: u64,
    /// The name of the document element being scanned.
    open: Option<Vec<u8>>,
    /// Elements of that name inside it that are open.
    depth: u32,
    leader_seen: bool,
    scanned: usize,
    /// While an overlong document is given up: what ends the overlong markup at hand.
    overlong_until: Option<&'static [u8]>,
    /// Whether the file has ended inside a document or a tag.
    ended: bool,
}

/// Namespace declarations of the entered elements are kept up to this many bytes.
const DECLARATIONS_LIMIT: usize = 1 << 16;

/// Reads what [`XmlScanner::head`] writes: `<`, a level and its declarations, for each level that has some; at last the
/// level reached.
fn xml_head(head: &[u8]) -> (u64, Vec<(u64, String)>) {
    let head = String::from_utf8_lossy(head);
    let mut level = 0;
    let mut declarations = Vec::new();
    for part in head.split('<').skip(1) {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        level = part[..digits].parse().unwrap_or(level);
        if digits < part.len() {
            declarations.push((level, part[digits..].to_owned()));
        }
    }
    (level, declarations)
}

/// The namespace declarations in a head, outermost first.
pub(crate) fn declarations_of_head(head: &[u8]) -> String {
    xml_head(head).1.into_iter().map(|(_, text)| text).collect()
}

impl XmlScanner {
    fn new(name: Option<&str>, marc: bool) -> Self {
        let (around, name) = match name.and_then(|name| name.rsplit_once('/')) {
            Some((around, name)) => (Some(around), Some(name).filter(|name| *name != "*")),
            None => (None, name),
        };
        Self {
            name: name.map(str::to_owned),
            around: around.map(str::to_owned),
            is_inside: false,
            is_list: false,
            root: None,
            number: None,
            marc,
            level: 0,
            declarations: Vec::new(),
            head_version: 0,
            open: None,
            depth: 0,
            leader_seen: false,
            scanned: 0,
            overlong_until: None,
            ended: false,
        }
    }

    fn head(&self) -> String {
        if self.level == 0 {
            return String::new();
        }
        let declaring: String = self.declarations.iter().map(|(level, text)| format!("<{level}{text}")).collect();
        format!("{declaring}<{}", self.level)
    }

    fn step(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        if self.open.is_none() { self.outside(bytes, at_end) } else { self.document(bytes, at_end) }
    }

    /// Between documents: looks for the next one.
    fn outside(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        if bytes.is_empty() {
            return if at_end { ScanStep::End } else { ScanStep::NeedMore };
        }
        let start = memchr(b'<', bytes);
        let text = start.unwrap_or(bytes.len());
        // text around documents is of no interest, text around the root is a sign of something else than XML
        let between = if self.level > 0 { text } else { blanks(bytes) };
        if between > 0 {
            if let Some(number) = self.number.as_mut().filter(|number| number.len() < MOST_DIGITS) {
                number.push_str(&String::from_utf8_lossy(&bytes[..between.min(MOST_DIGITS)]));
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
                    (Some(wanted), Some(_)) => self.is_inside && is_called(name, wanted),
                    (None, None) => self.level > 0,
                    (None, Some(_)) => self.is_inside,
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
                // SRU: as many as nothing
                self.is_list |= self.number.take().is_some_and(|number| number.trim() == "0");
                self.leave();
            }
            XmlTag::Other => {}
        }
        ScanStep::Skip(length)
    }

    /// An element that is no document: what it says of whether there are any.
    fn passed(&mut self, name: &[u8], attributes: &[u8]) {
        let own = local(name);
        let is_root = self.level == 0;
        let root = self.root.get_or_insert_with(|| String::from_utf8_lossy(name).into_owned());
        self.is_inside |= self.around.as_ref().is_some_and(|around| is_called(name, around));
        self.is_list |= self.is_inside;
        self.is_list |= match (local(root.as_bytes()), own) {
            (b"OAI-PMH", b"error") => self::attributes(attributes).any(|(name, whole)| name == b"code" && is_value(whole, b"noRecordsMatch")),
            (b"OAI-PMH", b"ListRecords" | b"ListIdentifiers" | b"GetRecord") => true,
            (b"searchRetrieveResponse", b"numberOfRecords") => {
                self.number = Some(String::new());
                false
            }
            // a list of items is called items
            _ => match &self.name {
                Some(item) if is_root && self.around.is_none() => {
                    own.strip_suffix(b"s") == Some(local(item.as_bytes())) || self.marc && own == b"collection"
                }
                _ => false,
            },
        };
    }

    /// What the file should have been a list of, if it is not.
    fn missing(&self) -> Option<String> {
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
        let kept: usize = self.declarations.iter().map(|(_, text)| text.len()).sum();
        if !declared.is_empty() && kept + declared.len() <= DECLARATIONS_LIMIT {
            self.declarations.push((self.level, String::from_utf8_lossy(&declared).into_owned()));
            self.head_version += 1;
        }
    }

    fn leave(&mut self) {
        if self.declarations.last().is_some_and(|(level, _)| *level == self.level) {
            self.declarations.pop();
            self.head_version += 1;
        }
        self.level = self.level.saturating_sub(1);
    }

    /// Inside a document: looks for its end.
    fn document(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        if bytes.is_empty() && at_end {
            // what was there of it was given up as overlong
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

    /// A MARCXML record holds no records: one with a leader was never closed, another is a wrapper and is entered.
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
                ScanStep::Skip(length)
            }
            _ => ScanStep::Skip(start),
        }
    }

    fn resynchronise(&mut self, bytes: &[u8]) -> (usize, bool) {
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

/// Digits of a number of records that are looked at.
const MOST_DIGITS: usize = 20;

/// Whether an element is called so, with or without its prefix.
fn is_called(name: &[u8], wanted: &str) -> bool {
    name == wanted.as_bytes() || local(name) == wanted.as_bytes()
}

/// Whether an attribute as it is written has a value.
fn is_value(attribute: &[u8], value: &[u8]) -> bool {
    let quoted = memchr2(b'"', b'\'', attribute).map(|at| &attribute[at + 1..attribute.len() - 1]);
    quoted.is_some_and(|own| own.trim_ascii() == value)
}

// --- CSV ----------------------------------------------------------------------------------------------------------------

/// Rows after a header; a quoted value may contain line ends.
#[derive(Debug, Clone, Default)]
pub struct CsvScanner {
    header: Option<Vec<u8>>,
    /// Known once the header is.
    delimiter: Option<u8>,
    scanned: usize,
    /// Where the quoted value at hand begins.
    quoted_from: Option<usize>,
}

enum CsvRowScan {
    /// Its length without its line end.
    Whole(usize),
    /// Its end is not there.
    Partial,
    /// The value of this quote goes over line ends and into the middle of another value.
    BrokenQuote,
}

const CSV_DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// The delimiter a header uses most outside quotes; the comma when none wins.
pub(crate) fn csv_delimiter(header: &[u8]) -> u8 {
    let unquoted = || header.split(|byte| *byte == b'"').step_by(2).flatten();
    let count = |delimiter: u8| unquoted().filter(|byte| **byte == delimiter).count();
    CSV_DELIMITERS.into_iter().rev().max_by_key(|delimiter| count(*delimiter)).unwrap_or(b',')
}

impl CsvScanner {
    fn begin(&mut self, header: Vec<u8>) {
        self.delimiter = Some(csv_delimiter(&header));
        self.header = Some(header);
    }

    fn reset(&mut self) {
        self.scanned = 0;
        self.quoted_from = None;
    }

    fn step(&mut self, bytes: &[u8], at_end: bool) -> ScanStep {
        if self.scanned == 0 {
            match self.blank_lines(bytes, at_end) {
                Some(0) => {}
                Some(blank) => return ScanStep::Skip(blank),
                None => return ScanStep::NeedMore,
            }
            if bytes.is_empty() {
                return if at_end { ScanStep::End } else { ScanStep::NeedMore };
            }
        }
        let length = match self.row(bytes, at_end) {
            CsvRowScan::Whole(length) => length,
            CsvRowScan::Partial if !at_end => return ScanStep::NeedMore,
            CsvRowScan::Partial | CsvRowScan::BrokenQuote => return self.give_up_line(bytes),
        };
        self.reset();
        let next = bytes.len().min(length + 1);
        if self.header.is_none() {
            self.begin(bytes[..length].to_vec());
            return ScanStep::Skip(next);
        }
        ScanStep::Document { bytes: 0..length, next }
    }

    /// The length of the lines at the front that hold nothing but white space; nothing while that cannot be told.
    fn blank_lines(&self, bytes: &[u8], at_end: bool) -> Option<usize> {
        let mut end = 0;
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' | b'\r' => end = at + 1,
                // a row of tabs has values, if only empty ones; a header has names
                b' ' => {}
                b'\t' if self.delimiter != Some(b'\t') => {}
                _ => return Some(end),
            }
        }
        match end {
            _ if at_end => Some(bytes.len()),
            0 if !bytes.is_empty() => None,
            _ => Some(end),
        }
    }

    /// Gives up one line: the lines the broken quote took in may be sound.
    fn give_up_line(&mut self, bytes: &[u8]) -> ScanStep {
        self.reset();
        let length = memchr2(b'\n', b'\r', bytes).unwrap_or(bytes.len());
        let next = bytes.len().min(length + 1);
        if self.header.is_none() {
            self.begin(bytes[..length].to_vec());
        }
        ScanStep::Problem { bytes: 0..length, next, reason: "a quote in this row is never closed".into() }
    }

    fn row(&mut self, bytes: &[u8], at_end: bool) -> CsvRowScan {
        loop {
            if let Some(begin) = self.quoted_from {
                let Some(found) = memchr(b'"', &bytes[self.scanned..]) else {
                    self.scanned = bytes.len();
                    return CsvRowScan::Partial;
                };
                let quote = self.scanned + found;
                self.scanned = quote + 1;
                match bytes.get(quote + 1) {
                    Some(b'"') => {
                        self.scanned = quote + 2;
                        continue;
                    }
                    Some(b'\n' | b'\r') => {}
                    Some(byte) if self.is_delimiter(*byte) => {}
                    Some(_) if line_end(&bytes[begin..quote]).is_some() => return CsvRowScan::BrokenQuote,
                    None if !at_end => {
                        // the next byte says whether this quote ends the value
                        self.scanned = quote;
                        return CsvRowScan::Partial;
                    }
                    _ => {}
                }
                self.quoted_from = None;
            }
            let Some(found) = memchr3(b'"', b'\n', b'\r', &bytes[self.scanned..]) else {
                self.scanned = bytes.len();
                return if at_end { CsvRowScan::Whole(bytes.len()) } else { CsvRowScan::Partial };
            };
            let at = self.scanned + found;
            self.scanned = at + 1;
            if bytes[at] != b'"' {
                return CsvRowScan::Whole(at);
            }
            // only at the beginning of a value does a quote quote
            if at == 0 || self.is_delimiter(bytes[at - 1]) {
                self.quoted_from = Some(at);
            }
        }
    }

    fn is_delimiter(&self, byte: u8) -> bool {
        self.delimiter.map_or(CSV_DELIMITERS.contains(&byte), |delimiter| delimiter == byte)
    }
}
