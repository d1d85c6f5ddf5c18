//! Answers of services that are right, and of services that are not, against a model of what is known: an answer that is not whole
//! retires nothing and is never called complete, whatever went wrong on whichever of its pages.
//!
//! A run is a seed. `STOOK_TEST_ANSWERS=N` runs N of them, `STOOK_TEST_ANSWERS=N..M` those. Seeds that fail are appended to
//! `answers.seeds`, which is run first from then on.

use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stook_sample::random::Random;
use stook_tests::http::{Served, url_decoded, url_encoded};
use stook_tests::{Sandbox, repository};

/// Runs of `cargo test`.
const SEEDS: u64 = 12;
/// Questions of a run.
const STEPS: usize = 30;
/// Most documents of a page, whatever is asked for.
const PAGE: usize = 4;
/// Who is slower has not answered.
const TIMEOUT: Duration = Duration::from_secs(3);

/// How pages follow, and in which format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// JSON with a list in it, all at once.
    Whole,
    /// The same in pages by offset.
    Offset,
    /// The same, each page with the address of the next.
    Next,
    /// A JSON list in pages by offset.
    Bare,
    /// XML with the list's element around the documents, all at once.
    Xml,
    /// XML with tokens of the next page.
    Token,
}

const KINDS: [Kind; 6] = [Kind::Whole, Kind::Offset, Kind::Next, Kind::Bare, Kind::Xml, Kind::Token];

impl Kind {
    fn is_xml(self) -> bool {
        matches!(self, Kind::Xml | Kind::Token)
    }

    fn definition(self, url: &str) -> String {
        let (format, records, call) = match self {
            Kind::Whole => ("json", "$.rows[*]", ""),
            Kind::Offset => ("json", "$.rows[*]", ", page: { offset: offset, limit: limit, size: 100 }"),
            Kind::Next => ("json", "$.rows[*]", ", page: { next: next }"),
            Kind::Bare => ("json", "$[*]", ", page: { offset: offset, limit: limit, size: 100 }"),
            Kind::Xml => ("xml", "list/item", ""),
            Kind::Token => ("xml", "list/item", ", page: { token: resumptionToken }"),
        };
        let (id, group, size) = if self.is_xml() { ("'@id'", "'@group'", "'@size'") } else { ("$.id", "$.group", "$.size") };
        format!(
            "catalogue: things\nservices:\n  shop: {{ url: '{url}', attempts: 1, ttl_failed: 1ms, timeout: {}ms, deadline: 20s }}\nsources:\n  shop:\n    \
             format: {format}\n    records: '{records}'\n    as_of: meta.received\n    into: thing\n    asks: {{ service: shop, calls: {{ \
             all: {{ get: /all, args: {{ group: group }}{call} }} }} }}\ncollections:\n  thing:\n    key: id\n    fields:\n      id: {{ type: text, path: {id} }}\n      \
             group: {{ type: text, path: {group}, index: equal }}\n      size: {{ type: integer, path: {size} }}\n",
            TIMEOUT.as_millis()
        )
    }
}

/// What a service does on a page instead of answering as it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The body ends somewhere, as if that were its end.
    Cut,
    /// The connection ends somewhere.
    Broken,
    Slow,
    /// Another status than 200.
    Status,
    /// What is no list, with status 200.
    Error,
    /// A document that says of nothing what it is.
    Nameless,
    /// Values that are no numbers. The answer is whole.
    WrongTypes,
    /// The pages from here on begin one document earlier. Nothing is missing.
    Overlap,
    /// The first page again and again.
    IgnoresOffset,
    /// Pages from here on are larger. Nothing is missing.
    Grows,
}

const FAULTS: [Fault; 11] = [
    Fault::None,
    Fault::Cut,
    Fault::Broken,
    Fault::Slow,
    Fault::Status,
    Fault::Error,
    Fault::Nameless,
    Fault::WrongTypes,
    Fault::Overlap,
    Fault::IgnoresOffset,
    Fault::Grows,
];

const ERRORS: [&str; 10] = [
    "{\"error\": \"out of order\"}",
    "{\"error\": {\"code\": 500, \"rows\": []}}",
    "{\"rows\": null}",
    "<error/>",
    "<error><code>7</code></error>",
    "<html><body><h1>502 Bad Gateway</h1></body></html>",
    "<!DOCTYPE html>\n<html><head/><body>item</body></html>",
    "",
    " \n\n ",
    "Service unavailable",
];

/// What the service knows, and what goes wrong with the question at hand.
struct Shop {
    kind: Kind,
    /// Sizes by name; the group is in the name.
    truth: BTreeMap<String, i64>,
    fault: Fault,
    /// On which page, from 0.
    faulty_page: usize,
    random: Random,
    /// Whether everything that was sent was right.
    is_whole: bool,
    /// Documents with a value that is none, by name.
    unreadable: Vec<String>,
}

fn group_of(id: &str) -> &str {
    &id[..1]
}

impl Shop {
    fn fitting(&self, group: Option<&str>) -> Vec<(String, i64)> {
        let fits = |id: &str| group.is_none_or(|group| group_of(id) == group);
        self.truth.iter().filter(|(id, _)| fits(id)).map(|(id, size)| (id.clone(), *size)).collect()
    }

    /// The answer to a request: status, media type, body, and how much of it is sent.
    fn answer(&mut self, parameters: &BTreeMap<String, String>) -> (u16, &'static str, String, Option<usize>) {
        let number = |name: &str| parameters.get(name).and_then(|text| text.parse::<usize>().ok());
        let requested_offset = number("offset").or(number("from")).or(number("resumptionToken").map(|token| token % 1_000)).unwrap_or(0);
        // a token stands alone: the group is in it
        let group = match number("resumptionToken") {
            Some(token) => [None, Some("a"), Some("b")][token / 1_000],
            None => parameters.get("group").map(String::as_str),
        };
        let all = self.fitting(group);
        let is_paged = !matches!(self.kind, Kind::Whole | Kind::Xml);
        let fault = if requested_offset >= self.faulty_page * PAGE || !is_paged { self.fault } else { Fault::None };
        let (mut start, mut page_size) = (requested_offset, if is_paged { PAGE } else { usize::MAX });
        match fault {
            Fault::Overlap if start > 0 => start -= 1,
            Fault::Grows => page_size = page_size.saturating_mul(3),
            Fault::IgnoresOffset if start > 0 => {
                start = 0;
                self.is_whole = false;
            }
            _ => {}
        }
        let page: Vec<(String, i64)> = all.iter().skip(start).take(page_size).cloned().collect();
        let next = (start + page.len() < all.len()).then_some(start + page.len());
        let mut rows: Vec<Json> = Vec::new();
        for (id, size) in page {
            let mut row = json!({ "id": id, "group": group_of(&id), "size": size });
            if fault == Fault::WrongTypes && self.random.per_mille(400) {
                row["size"] = json!(*self.random.one(&["many", "1.5.2", "0x1f"]));
                self.unreadable.push(id.clone());
            }
            rows.push(row);
        }
        if fault == Fault::Nameless {
            rows.push(json!({ "group": "a", "size": 1 }));
            self.is_whole = false;
        }
        let (media, body, end) = self.written(&rows, next, group);
        match fault {
            Fault::Cut => {
                self.is_whole = false;
                let cut = self.random.below(end as u64) as usize;
                (200, media, body[..cut].to_owned(), None)
            }
            Fault::Broken => {
                self.is_whole = false;
                let cut = self.random.below(body.len() as u64) as usize;
                (200, media, body, Some(cut))
            }
            Fault::Slow => {
                self.is_whole = false;
                (200, media, body, None)
            }
            Fault::Status => {
                self.is_whole = false;
                (*self.random.one(&[404, 500, 503]), media, body, None)
            }
            Fault::Error => {
                self.is_whole = false;
                let error = *self.random.one(&ERRORS);
                (200, media, error.to_owned(), None)
            }
            _ => (200, media, body, None),
        }
    }

    /// A page as it is sent, and after which byte it may end without anything missing.
    fn written(&self, rows: &[Json], next: Option<usize>, group: Option<&str>) -> (&'static str, String, usize) {
        if self.kind.is_xml() {
            let mut body = String::from("<?xml version='1.0'?>\n<answer><list>");
            for row in rows {
                let text = |name: &str| row[name].as_str().map_or_else(|| row[name].to_string(), str::to_owned);
                let id = if row["id"].is_null() { String::new() } else { format!("id='{}' ", text("id")) };
                write!(body, "<item {id}group='{}' size='{}'/>", text("group"), text("size")).unwrap();
            }
            body.push_str("</list>");
            if self.kind == Kind::Token {
                let group_offset = group.map_or(0, |group| if group == "a" { 1_000 } else { 2_000 });
                let token = next.map_or(String::new(), |next| (group_offset + next).to_string());
                write!(body, "<resumptionToken>{token}</resumptionToken>").unwrap();
            }
            body.push_str("</answer>");
            let complete_length = body.len();
            return ("application/xml", body, complete_length);
        }
        let list = json!(rows).to_string();
        let body = match self.kind {
            Kind::Bare => list,
            Kind::Next => {
                let next = next.map_or(Json::Null, |next| {
                    json!(format!("/all?from={next}{}", group.map(|group| format!("&group={group}")).unwrap_or_default()))
                });
                format!("{{\"rows\": {list}, \"next\": {next}}}")
            }
            _ => format!("{{\"more\": {{\"rows\": 1}}, \"rows\": {list}}}"),
        };
        let complete_length = if self.kind == Kind::Next { body.len() } else { body.rfind(']').unwrap() };
        ("application/json", body, complete_length)
    }
}

/// Serves a shop on a port of its own.
fn serve(shop: &Arc<Mutex<Shop>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shop = shop.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shop = shop.clone();
            std::thread::spawn(move || reply(stream, &shop));
        }
    });
    url
}

fn reply(mut stream: TcpStream, shop: &Mutex<Shop>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(request_line) = lines.next() else { return };
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let target = request_line.split(' ').nth(1).unwrap();
    let parameters = target.split_once('?').map_or("", |(_, parameters)| parameters);
    let parameters =
        parameters.split('&').filter_map(|pair| pair.split_once('=')).map(|(name, value)| (url_decoded(name), url_decoded(value))).collect();
    let (status, media, body, sent, is_slow) = {
        let mut shop = shop.lock().unwrap();
        let (status, media, body, sent) = shop.answer(&parameters);
        (status, media, body, sent, shop.fault == Fault::Slow && !shop.is_whole)
    };
    if is_slow {
        std::thread::sleep(TIMEOUT + TIMEOUT / 2);
    }
    let sent = sent.unwrap_or(body.len());
    let _ = write!(
        stream,
        "HTTP/1.1 {status} So\r\ncontent-type: {media}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{}",
        body.len(),
        &body[..sent]
    );
}

/// What is known of things: their sizes by name.
type KnownSizes = BTreeMap<String, Option<i64>>;

fn stored_sizes(stook: &Served) -> KnownSizes {
    let answer = stook.get("/v1/main/query?q=thing&limit=1000&ask=never").expect_json(200);
    let row = |row: &Json| (row["id"].as_str().unwrap().to_owned(), row["size"].as_i64());
    answer["rows"].as_array().unwrap().iter().map(row).collect()
}

fn check_seed(seed: u64, sandbox: &Sandbox, shop: &Arc<Mutex<Shop>>) {
    let stook = Served::new(sandbox, &["--workers", "1"]);
    let mut random = Random::new(seed);
    let mut model = KnownSizes::new();
    for step in 0..STEPS {
        let group = *random.one(&[None, Some("a"), Some("b")]);
        // half of all answers are right; who is slow takes its time
        let fault = match *random.one(&FAULTS) {
            Fault::Slow if random.per_mille(700) => Fault::None,
            _ if random.per_mille(400) => Fault::None,
            fault => fault,
        };
        {
            let mut shop = shop.lock().unwrap();
            for number in 0..14 {
                let id = format!("{}{number:02}", ["a", "b"][number % 2]);
                match random.below(12) {
                    0 => drop(shop.truth.remove(&id)),
                    1 => drop(shop.truth.insert(id, random.below(1_000) as i64)),
                    _ => {}
                }
            }
            if random.per_mille(60) {
                shop.truth.clear();
            }
            (shop.fault, shop.faulty_page, shop.is_whole) = (fault, random.below(3) as usize, true);
            shop.unreadable.clear();
        }
        let query = group.map_or("thing".to_owned(), |group| format!("thing group={group}"));
        let answer = stook.get(&format!("/v1/main/query?q={}&limit=1000&ask=always&wait=60", url_encoded(&query))).expect_json(200);
        let service_state = &answer["services"][0];
        let shop = shop.lock().unwrap();
        let context = format!("seed {seed}, step {step}, {:?}, {query}, {fault:?} on page {}: {service_state}", shop.kind, shop.faulty_page);
        let stored = stored_sizes(&stook);
        let truth: BTreeMap<String, i64> = shop.fitting(group).into_iter().collect();
        let is_in_scope = |id: &str| group.is_none_or(|group| group_of(id) == group);
        if shop.is_whole {
            assert_eq!(service_state["state"], "complete", "{context}");
            let mut expected: Vec<&String> = model.keys().filter(|id| !is_in_scope(id)).chain(truth.keys()).collect();
            expected.sort_unstable();
            assert_eq!(stored.keys().collect::<Vec<_>>(), expected, "{context}");
        } else {
            assert!(matches!(service_state["state"].as_str(), Some("failed" | "partial")), "{context}");
            assert!(service_state["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{context}");
            assert!(service_state["retired"].is_null(), "{context}");
            for id in model.keys() {
                assert!(stored.contains_key(id), "{context}: {id} is gone");
            }
            for id in stored.keys() {
                assert!(model.contains_key(id) || truth.contains_key(id), "{context}: {id} was never said");
            }
        }
        if shop.is_whole {
            assert_eq!(service_state["unreadable"].as_u64().unwrap_or(0), shop.unreadable.len() as u64, "{context}");
            assert_eq!(service_state["example"].is_string(), !shop.unreadable.is_empty(), "{context}");
        }
        for (id, size) in &stored {
            let old = model.get(id);
            let is_old = old.is_some_and(|old| old == size);
            let is_new = truth.get(id).is_some_and(|new| Some(*new) == *size);
            let is_unreadable = shop.unreadable.contains(id) && size.is_none();
            let old_is_allowed = !shop.is_whole || !is_in_scope(id) || shop.unreadable.contains(id);
            assert!(is_new || is_unreadable || is_old && old_is_allowed, "{context}: {id} is {size:?}, was {old:?}, said {:?}", truth.get(id));
        }
        drop(shop);
        let summed = stook.get("/v1/main/query?q=thing%20%7C%20sum(size)&ask=never").expect_json(200);
        let (rows, values) = (stored.len(), stored.values().flatten().count());
        let expected = if values < rows { json!({ "sum(size)": { "values": values, "rows": rows } }) } else { Json::Null };
        assert_eq!(summed["over"], expected, "{context}: {summed}");
        model = stored;
    }
}

fn seeds_file() -> PathBuf {
    repository().join("tests/tests/answers.seeds")
}

/// Seeds that have failed before, then those of this run.
fn seeds() -> (Vec<u64>, Range<u64>) {
    let known_seeds = std::fs::read_to_string(seeds_file()).unwrap_or_default();
    let known_seeds = known_seeds.lines().filter_map(|line| line.split('#').next()?.trim().parse().ok()).collect();
    let requested = std::env::var("STOOK_TEST_ANSWERS").unwrap_or_default();
    let number = |text: &str| text.trim().parse::<u64>().unwrap_or_else(|_| panic!("STOOK_TEST_ANSWERS is N or N..M, not {requested}"));
    let range = match requested.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None if requested.is_empty() => 0..SEEDS,
        None => 0..number(&requested),
    };
    (known_seeds, range)
}

#[test]
fn an_incomplete_answer_retires_nothing_and_is_not_reported_as_complete() {
    let (known_seeds, range) = seeds();
    println!("seeds {known_seeds:?} and {range:?}");
    for (seed, is_known) in known_seeds.iter().map(|seed| (*seed, true)).chain(range.map(|seed| (seed, false))) {
        let kind = KINDS[seed as usize % KINDS.len()];
        let shop = Shop {
            kind,
            truth: BTreeMap::new(),
            fault: Fault::None,
            faulty_page: 0,
            random: Random::new(seed ^ 0x5eed),
            is_whole: true,
            unreadable: Vec::new(),
        };
        let shop = Arc::new(Mutex::new(shop));
        let url = serve(&shop);
        // some runs on the server, too
        let sandboxes = if seed % 5 == 0 { Sandbox::on_each_store(&kind.definition(&url)) } else { vec![Sandbox::new(&kind.definition(&url))] };
        for sandbox in sandboxes {
            {
                let mut shop = shop.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                (shop.truth, shop.random) = (BTreeMap::new(), Random::new(seed ^ 0x5eed));
            }
            if let Err(failure) = catch_unwind(AssertUnwindSafe(|| check_seed(seed, &sandbox, &shop))) {
                if !is_known {
                    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(seeds_file()).unwrap();
                    writeln!(file, "{seed}").unwrap();
                }
                println!("seed {seed} has failed: STOOK_TEST_ANSWERS={seed}..{}", seed + 1);
                resume_unwind(failure);
            }
        }
    }
}
