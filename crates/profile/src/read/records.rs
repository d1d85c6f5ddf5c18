//! Where the documents of JSON and XML are: a list in an envelope, or elements of one name.

use quick_xml::events::Event;
use std::collections::BTreeMap;
use stook_catalogue::records_path::RecordsPath;

/// How deep in an envelope lists are searched.
const MAX_LEVELS: usize = 4;

/// Members of an object around a list for each element of the list; what has more is a document with a list, and no envelope of it.
const MEMBERS_FOR_ELEMENT: usize = 6;

/// Where the documents of a file are.
#[derive(Default)]
pub(super) struct FoundRecords {
    /// In the words of a definition; none where documents follow one another, or the file is one.
    pub records: Option<String>,
    /// Whether the documents are the members of one object.
    pub is_map: bool,
    /// What was guessed.
    pub note: Option<String>,
}

/// A place in JSON text.
struct Place {
    is_list: bool,
    /// The name of the member that is read.
    name: Option<String>,
    /// The members and elements so far, and those of them that are objects.
    members: usize,
    objects: usize,
    /// How many lists were found before it.
    lists_before: usize,
}

/// A list of objects in an envelope.
struct FoundList {
    path: String,
    length: usize,
    /// The most members of an object around it.
    around: usize,
    is_open: bool,
}

/// Finds the list of documents in the first bytes of JSON.
pub(super) fn of_json(beginning: &[u8]) -> FoundRecords {
    let mut reader = JsonReader { bytes: beginning, at: 0, places: Vec::new(), lists: Vec::new(), top_objects: 0, top_members: 0, values: 0 };
    reader.read();
    // one document per line, or a list of documents
    if reader.values > 1 || reader.lists.is_empty() && !reader.is_map() {
        return FoundRecords::default();
    }
    if reader.is_map() && reader.lists.iter().all(|list| list.length < reader.top_objects) {
        return FoundRecords { is_map: true, ..FoundRecords::default() };
    }
    let longest = reader.lists.iter().max_by_key(|list| (list.is_open, list.length));
    match longest {
        // what has many members of its own is no envelope
        Some(list) if !list.is_open && list.length * MEMBERS_FOR_ELEMENT < list.around => FoundRecords {
            note: Some(format!("the file is taken to be one document; if its documents are the elements of `{}`, say so in `records`", list.path)),
            ..FoundRecords::default()
        },
        Some(list) => FoundRecords {
            records: Some(list.path.clone()),
            note: Some(format!("the documents are taken to be the elements of `{}`; without `records`, the file is one document", list.path)),
            is_map: false,
        },
        None => FoundRecords::default(),
    }
}

struct JsonReader<'b> {
    bytes: &'b [u8],
    at: usize,
    places: Vec<Place>,
    lists: Vec<FoundList>,
    /// Members of the top object, and those that are objects.
    top_members: usize,
    top_objects: usize,
    /// Values on the top level.
    values: usize,
}

impl JsonReader<'_> {
    /// Whether the top object only has objects, many of them.
    fn is_map(&self) -> bool {
        self.top_objects >= 3 && self.top_objects == self.top_members
    }

    fn read(&mut self) {
        while let Some(byte) = self.bytes.get(self.at).copied() {
            match byte {
                b'"' => self.text(),
                b'{' | b'[' => self.open(byte == b'['),
                b'}' | b']' => self.close(),
                b',' => self.places.iter_mut().next_back().into_iter().for_each(|place| place.name = None),
                byte if byte.is_ascii_digit() || matches!(byte, b'-' | b't' | b'f' | b'n') => {
                    self.begin_value(false);
                    while self.bytes.get(self.at + 1).is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-')) {
                        self.at += 1;
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
        for place in (0..self.places.len()).rev() {
            self.end(place, true);
        }
    }

    fn begin_value(&mut self, is_object: bool) {
        match self.places.last_mut() {
            Some(place) => {
                place.members += 1;
                place.objects += usize::from(is_object);
                if self.places.len() == 1 && !self.places[0].is_list {
                    self.top_members += 1;
                    self.top_objects += usize::from(is_object);
                }
            }
            None => self.values += 1,
        }
    }

    fn text(&mut self) {
        let start = self.at + 1;
        self.at = start;
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        let text = self.bytes.get(start..self.at.min(self.bytes.len())).unwrap_or_default();
        match self.places.last_mut() {
            Some(place) if !place.is_list && place.name.is_none() => place.name = Some(String::from_utf8_lossy(text).into_owned()),
            _ => self.begin_value(false),
        }
    }

    fn open(&mut self, is_list: bool) {
        self.begin_value(!is_list);
        self.places.push(Place { is_list, name: None, members: 0, objects: 0, lists_before: self.lists.len() });
    }

    fn close(&mut self) {
        if let Some(last) = self.places.len().checked_sub(1) {
            self.end(last, false);
        }
        self.places.pop();
    }

    /// Notes a list of objects that ends, if only objects are around it, or how many members an object around lists has.
    fn end(&mut self, place: usize, is_open: bool) {
        let around = &self.places[..place];
        let list = &self.places[place];
        if !list.is_list {
            self.lists[list.lists_before..].iter_mut().for_each(|found| found.around = found.around.max(list.members));
            return;
        }
        let is_reachable = place > 0 && place <= MAX_LEVELS && around.iter().all(|place| !place.is_list);
        if !is_reachable || list.objects == 0 || list.objects != list.members {
            return;
        }
        let names: Vec<&str> = around.iter().filter_map(|place| place.name.as_deref()).collect();
        if names.iter().all(|name| RecordsPath::can_name(name)) {
            let path = RecordsPath { list: names.into_iter().map(str::to_owned).collect(), inner: Vec::new() };
            self.lists.push(FoundList { path: path.to_string(), length: list.members, around: 0, is_open });
        }
    }
}

/// How often an element of one name is in elements of another one, and whether it is more than a text.
#[derive(Default)]
struct Repeats {
    count: u64,
    is_structured: bool,
}

/// Finds the elements that are documents in the first bytes of XML: those that are repeated nearest to the root.
pub(super) fn of_xml(beginning: &[u8]) -> FoundRecords {
    let text = String::from_utf8_lossy(beginning);
    let mut reader = quick_xml::Reader::from_str(&text);
    reader.config_mut().check_end_names = false;
    let mut open: Vec<String> = Vec::new();
    let mut counts: BTreeMap<(usize, String, String), Repeats> = BTreeMap::new();
    loop {
        let (tag, is_empty) = match reader.read_event() {
            Ok(Event::Start(tag)) => (tag, false),
            Ok(Event::Empty(tag)) => (tag, true),
            Ok(Event::End(_)) => {
                open.pop();
                continue;
            }
            Ok(Event::Eof) | Err(_) => break,
            Ok(_) => continue,
        };
        let name: &str = tag.name().0;
        let has_content = tag.attributes().next().is_some();
        if let Some(parent) = open.last() {
            let repeats = counts.entry((open.len(), parent.clone(), name.to_owned())).or_default();
            repeats.count += 1;
            repeats.is_structured |= has_content;
            // the element around has elements, and is more than a text
            if let Some(around) = open.len().checked_sub(2).and_then(|at| open.get(at)) {
                counts.entry((open.len() - 1, around.clone(), parent.clone())).or_default().is_structured = true;
            }
        }
        if !is_empty {
            open.push(name.to_owned());
        }
        if open.len() > 200 {
            break;
        }
    }
    let repeated = counts.into_iter().filter(|((depth, ..), repeats)| repeats.count > 1 && repeats.is_structured && *depth <= MAX_LEVELS);
    let best = repeated.min_by_key(|((depth, ..), repeats)| (*depth, std::cmp::Reverse(repeats.count)));
    match best {
        Some(((_, parent, name), _)) => FoundRecords {
            note: Some(format!("the documents are taken to be the elements `{name}` in `{parent}`; without `records`, the file is one document")),
            records: Some(format!("{parent}/{name}")),
            is_map: false,
        },
        None => FoundRecords::default(),
    }
}
