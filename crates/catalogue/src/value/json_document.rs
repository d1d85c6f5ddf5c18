//! JSON documents as systems deliver them: nested more deeply than serde_json reads, and with texts that cannot be read.
//!
//! One bad byte need not make the rest of a document useless: a text that is not UTF-8, or has an invalid escape, is recorded as unreadable, and only
//! paths that find it fail. Nothing here is recursive, so that deep documents do not overflow the stack.

use super::json;
use serde_json::{Map, Value as Json};

/// Max levels of lists and objects in a document.
pub const MAX_DOCUMENT_DEPTH: usize = 4_096;

/// Max levels of a value that is taken from a document as a whole.
const MAX_VALUE_DEPTH: usize = super::MAX_JSON_DEPTH;

/// A JSON value with its unreadable texts.
#[derive(Debug, Default, PartialEq)]
pub struct JsonDocument {
    value: Json,
    /// Unreadable texts; the value has them with replacement characters.
    unreadable: Vec<UnreadableText>,
    /// Whether it has too many levels for recursive functions.
    is_deep: bool,
}

/// An unreadable text or member name.
#[derive(Debug, Clone, PartialEq)]
struct UnreadableText {
    path: Vec<Step>,
    reason: String,
}

/// A step of a path to a value.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Member(String),
    Element(usize),
}

impl JsonDocument {
    /// Parses a document.
    ///
    /// # Errors
    /// When it is not JSON, or has more than [`MAX_DOCUMENT_DEPTH`] levels.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        match json::parse(bytes) {
            Ok(value) => Ok(value.into()),
            // serde_json fails at the first unreadable text, and at its limit of levels
            Err(error) => Reader::new(bytes).read().map_err(|problem| problem.unwrap_or_else(|| error.to_string())),
        }
    }

    /// Returns the value; unreadable texts have replacement characters.
    pub fn value(&self) -> &Json {
        &self.value
    }

    /// Whether the value has too many levels for recursive functions.
    pub fn is_deep(&self) -> bool {
        self.is_deep
    }

    /// Returns why a value found in this document cannot be taken; `None` if it can.
    pub fn problem(&self, found: &Json) -> Option<String> {
        let has = |text: &&UnreadableText| self.leads_through(&text.path, found);
        if let Some(text) = self.unreadable.iter().find(has) {
            return Some(text.reason.clone());
        }
        let too_deep = self.is_deep && depth(found) > MAX_VALUE_DEPTH;
        too_deep.then(|| format!("it is nested deeper than {MAX_VALUE_DEPTH} levels; name what is wanted of it by a longer path"))
    }

    /// Whether a value is on the way to a position.
    fn leads_through(&self, path: &[Step], found: &Json) -> bool {
        let mut current = Some(&self.value);
        let mut steps = path.iter();
        while let Some(value) = current {
            // the same value in memory, not an equal one
            if std::ptr::eq(value, found) {
                return true;
            }
            current = match steps.next() {
                Some(Step::Member(name)) => value.get(name),
                Some(Step::Element(index)) => value.get(index),
                None => None,
            };
        }
        false
    }
}

impl From<Json> for JsonDocument {
    fn from(value: Json) -> Self {
        Self { value, unreadable: Vec::new(), is_deep: false }
    }
}

impl Drop for JsonDocument {
    fn drop(&mut self) {
        if self.is_deep {
            dismantle(std::mem::take(&mut self.value));
        }
    }
}

/// Returns the number of levels of lists and objects.
fn depth(value: &Json) -> usize {
    let (mut deepest, mut waiting) = (0, vec![(value, 0)]);
    while let Some((value, depth)) = waiting.pop() {
        deepest = deepest.max(depth);
        match value {
            Json::Array(items) => waiting.extend(items.iter().map(|item| (item, depth + 1))),
            Json::Object(members) => waiting.extend(members.values().map(|member| (member, depth + 1))),
            _ => {}
        }
        if matches!(value, Json::Array(_) | Json::Object(_)) {
            deepest = deepest.max(depth + 1);
        }
    }
    deepest
}

/// Drops a value level by level, because the default drop is recursive.
fn dismantle(value: Json) {
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Json::Array(items) => waiting.extend(items),
            Json::Object(members) => waiting.extend(members.into_iter().map(|(_, member)| member)),
            _ => {}
        }
    }
}

/// A list or an object whose end has not been read.
enum Open {
    List(Vec<Json>),
    /// Members, and the name of the next value.
    Object(Map<String, Json>, String),
}

/// Parses one value. An error is a message, or `None` if serde_json's own message is better.
struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    open: Vec<Open>,
    unreadable: Vec<UnreadableText>,
    deepest: usize,
}

type Read<T> = Result<T, Option<String>>;

impl<'b> Reader<'b> {
    fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0, open: Vec::new(), unreadable: Vec::new(), deepest: 0 }
    }

    fn read(mut self) -> Read<JsonDocument> {
        loop {
            let mut value = match self.next() {
                Some(b'{') => {
                    self.enter(Open::Object(Map::new(), String::new()))?;
                    if self.takes(b'}') {
                        self.leave()?
                    } else {
                        self.name()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.enter(Open::List(Vec::new()))?;
                    if self.takes(b']') {
                        self.leave()?
                    } else {
                        continue;
                    }
                }
                Some(b'"') => Json::String(self.text()?),
                Some(_) => self.scalar()?,
                None => return Err(None),
            };
            // the value is complete, and the values around it may be, too
            loop {
                match self.open.last_mut() {
                    None => return self.end(value),
                    Some(Open::List(items)) => items.push(value),
                    Some(Open::Object(members, name)) => {
                        if let Some(former) = members.insert(std::mem::take(name), value) {
                            dismantle(former);
                        }
                    }
                }
                let is_object = matches!(self.open.last(), Some(Open::Object(..)));
                match self.next() {
                    Some(b',') => {
                        self.at += 1;
                        if is_object {
                            self.name()?;
                        }
                        break;
                    }
                    Some(b'}') if is_object => {}
                    Some(b']') if !is_object => {}
                    _ => return Err(None),
                }
                self.at += 1;
                value = self.leave()?;
            }
        }
    }

    /// Returns the document, if nothing follows its value.
    fn end(mut self, value: Json) -> Read<JsonDocument> {
        let is_deep = self.deepest > MAX_VALUE_DEPTH;
        let document = JsonDocument { value, unreadable: std::mem::take(&mut self.unreadable), is_deep };
        if self.next().is_some() { Err(None) } else { Ok(document) }
    }

    /// Returns the next byte that is not white space.
    fn next(&mut self) -> Option<u8> {
        let rest = self.bytes.get(self.at..)?;
        self.at += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count();
        self.bytes.get(self.at).copied()
    }

    fn takes(&mut self, wanted: u8) -> bool {
        let is_next = self.next() == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    fn enter(&mut self, around: Open) -> Read<()> {
        self.at += 1;
        self.open.push(around);
        self.deepest = self.deepest.max(self.open.len());
        if self.deepest > MAX_DOCUMENT_DEPTH {
            return Err(Some(format!("nested deeper than {MAX_DOCUMENT_DEPTH} levels at byte {}", self.at - 1)));
        }
        Ok(())
    }

    fn leave(&mut self) -> Read<Json> {
        match self.open.pop() {
            Some(Open::List(items)) => Ok(Json::Array(items)),
            Some(Open::Object(members, _)) => Ok(Json::Object(members)),
            None => Err(None),
        }
    }

    /// Reads the name of the next member, and the colon.
    fn name(&mut self) -> Read<()> {
        if self.next() != Some(b'"') {
            return Err(None);
        }
        let (member_name, reason) = self.token()?;
        if let Some(Open::Object(_, name)) = self.open.last_mut() {
            *name = member_name;
        }
        self.unreadable.extend(reason.map(|reason| UnreadableText { path: self.path(), reason }));
        if self.takes(b':') { Ok(()) } else { Err(None) }
    }

    fn text(&mut self) -> Read<String> {
        let (text, reason) = self.token()?;
        self.unreadable.extend(reason.map(|reason| UnreadableText { path: self.path(), reason }));
        Ok(text)
    }

    /// Reads the text that begins here; also returns why it is unreadable, if it is.
    fn token(&mut self) -> Read<(String, Option<String>)> {
        let start = self.at;
        let token = self.bytes.get(start..start + json::string_length(&self.bytes[start..])).ok_or(None)?;
        if token.len() < 2 || !token.ends_with(b"\"") {
            return Err(None);
        }
        self.at += token.len();
        let error = match serde_json::from_slice(token) {
            Ok(text) => return Ok((text, None)),
            Err(error) => error,
        };
        let reason = match std::str::from_utf8(token) {
            Err(error) => format!("byte {} of the document is not UTF-8", start + error.valid_up_to()),
            Ok(_) => {
                let message = error.to_string();
                let description = message.split(" at line ").next().unwrap_or(&message);
                format!("the text at byte {start} of the document has {description}")
            }
        };
        Ok((String::from_utf8_lossy(&token[1..token.len() - 1]).into_owned(), Some(reason)))
    }

    /// Returns the path to the value that is being read.
    fn path(&self) -> Vec<Step> {
        let step = |around: &Open| match around {
            Open::List(items) => Step::Element(items.len()),
            Open::Object(_, name) => Step::Member(name.clone()),
        };
        self.open.iter().map(step).collect()
    }

    /// Reads a number, true, false or null.
    fn scalar(&mut self) -> Read<Json> {
        let rest = &self.bytes[self.at..];
        let is_scalar_byte = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        let token = &rest[..rest.iter().take_while(is_scalar_byte).count()];
        self.at += token.len();
        json::parse(token).map_err(|_| None)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        for around in self.open.drain(..) {
            match around {
                Open::List(items) => items.into_iter().for_each(dismantle),
                Open::Object(members, _) => members.into_iter().for_each(|(_, member)| dismantle(member)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_unreadable_text_is_a_problem_only_of_values_that_contain_it() {
        let mut bytes = br#"{"shelf": "A", "label": "Gr?n", "notes": ["fine", {"b?d": 1, "ok": 2}], "half": "\ud83d!"}"#.to_vec();
        let bad: Vec<usize> = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'?').map(|(at, _)| at).collect();
        bad.iter().for_each(|at| bytes[*at] = 0xfc);
        let document = JsonDocument::read(&bytes).expect("the rest of it is JSON");
        let value = document.value();
        for (readable, found) in [
            (true, &value["shelf"]),
            (true, &value["notes"][0]),
            (true, &value["notes"][1]["ok"]),
            (false, &value["label"]),
            (false, &value["notes"]),
            (false, &value["notes"][1]),
            (false, &value["half"]),
            (false, value),
        ] {
            assert_eq!(document.problem(found).is_none(), readable, "{found}");
        }
        assert_eq!(document.problem(&value["label"]), Some(format!("byte {} of the document is not UTF-8", bad[0])));
        assert!(document.problem(&value["half"]).is_some_and(|reason| reason.contains("surrogate") || reason.contains("escape")));
        // errors outside of texts make the document unreadable
        for broken in [&b"{\"a\": \xfc}"[..], b"{\"a\": 1} \xfc", b"{\"a\": \"\xfc}", b"[\"\xfc\",]", b"[\"\xfc\"", b"\"\xfc\" 1", b"{\"\xfc\" 1}"] {
            assert!(JsonDocument::read(broken).is_err(), "{broken:?}");
        }
    }

    /// Max levels that serde_json reads.
    const LIBRARY_DEPTH: usize = 127;

    #[test]
    fn documents_of_any_depth_up_to_the_limit_need_no_stack() {
        let nested = |open: &str, innermost: &str, close: &str, depth: usize| format!("{}{innermost}{}", open.repeat(depth), close.repeat(depth));
        let on_small_stack = move || {
            for (open, close) in [("[", "]"), ("{\"a\": ", "}"), ("[{\"a\":[1, ", "]}]")] {
                let levels = open.matches(['[', '{']).count();
                let max_repeats = MAX_DOCUMENT_DEPTH / levels;
                for depth in [1, 40, 500, max_repeats] {
                    let text = nested(open, "null", close, depth);
                    let document = JsonDocument::read(text.as_bytes()).expect("within the limit");
                    assert_eq!((document.is_deep(), self::depth(document.value())), (depth * levels > LIBRARY_DEPTH, depth * levels));
                    assert_eq!(document.problem(document.value()).is_some(), document.is_deep());
                }
                let beyond = JsonDocument::read(nested(open, "null", close, max_repeats + 1).as_bytes());
                assert!(beyond.is_err_and(|error| error.contains("nested deeper than 4096 levels")));
                // also if parsing is given up halfway
                assert!(JsonDocument::read(nested(open, "null", close, max_repeats).trim_end_matches(close).as_bytes()).is_err());
                assert!(JsonDocument::read(format!("[{}, ", nested(open, "null", close, max_repeats / 2)).as_bytes()).is_err());
            }
        };
        let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(on_small_stack).expect("a thread");
        assert!(thread.join().is_ok());
    }

    fn json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            (-1e9..1e9_f64).prop_map(Json::from),
            "[a-z\"\\\\/ü\u{1}\n]{0,8}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 30, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
                prop::collection::btree_map("[a-z\"ü]{0,4}", inner, 0..5).prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        /// This reader accepts the same texts as serde_json.
        #[test]
        fn both_readers_give_the_same_value(value in json(), cut in 0..80_usize, pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.expect("JSON");
            let read = Reader::new(text.as_bytes()).read();
            prop_assert_eq!(read.as_ref().map(JsonDocument::value), Ok(&value));
            let damaged: String = text.chars().take(cut).chain("]".chars().filter(|_| cut % 3 == 0)).chain(text.chars().skip(cut + 1)).collect();
            if let Ok(expected) = json::parse(damaged.as_bytes()) {
                prop_assert_eq!(Reader::new(damaged.as_bytes()).read().map(|read| read.value().clone()), Ok(expected));
            } else if let Ok(read) = Reader::new(damaged.as_bytes()).read() {
                prop_assert!(!read.unreadable.is_empty(), "{}", damaged);
            }
        }
    }
}
