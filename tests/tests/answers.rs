//! Answers of services that are right, and of services that are not, against a model of what is known: an answer that is not whole
//! retires nothing and is never called complete, whatever went wrong on whichever of its pages.
//!
//! A run is a seed. `STOOK_TEST_ANSWERS=N` runs N of them, `STOOK_TEST_ANSWERS=N..M` those. Seeds that fail are appended to
//! `answers.seeds`, which is run first from then on.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

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
use stook_tests::http::{Served, decoded, encoded};
use stook_tests::{Place, repository};

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
    /// The same, each page with the place of the next.
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
    at: usize,
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
    fn answer(&mut self, said: &BTreeMap<String, String>) -> (u16, &'static str, String, Option<usize>) {
        let number = |name: &str| said.get(name).and_then(|text| text.parse::<usize>().ok());
        let asked = number("offset").or(number("from")).or(number("resumptionToken").map(|token| token % 1_000)).unwrap_or(0);
        // a token stands alone: the group is in it
        let group = match number("resumptionToken") {
            Some(token) => [None, Some("a"), Some("b")][token / 1_000],
            None => said.get("group").map(String::as_str),
        };
        let all = self.fitting(group);
        let is_paged = !matches!(self.kind, Kind::Whole | Kind::Xml);
        let fault = if asked >= self.at * PAGE || !is_paged { self.fault } else { Fault::None };
        let (mut from, mut most) = (asked, if is_paged { PAGE } else { usize::MAX });
        match fault {
            Fault::Overlap if from > 0 => from -= 1,
            Fault::Grows => most = most.saturating_mul(3),
            Fault::IgnoresOffset if from > 0 => {
                from = 0;
                self.is_whole = false;
            }
            _ => {}
        }
        let page: Vec<(String, i64)> = all.iter().skip(from).take(most).cloned().collect();
        let next = (from + page.len() < all.len()).then_some(from + page.len());
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
                let of_group = group.map_or(0, |group| if group == "a" { 1_000 } else { 2_000 });
                let token = next.map_or(String::new(), |next| (of_group + next).to_string());
                write!(body, "<resumptionToken>{token}</resumptionToken>").unwrap();
            }
            body.push_str("</answer>");
            let end = body.len();
            return ("application/xml", body, end);
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
        let end = if self.kind == Kind::Next { body.len() } else { body.rfind(']').unwrap() };
        ("application/json", body, end)
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
    let Some(first) = lines.next() else { return };
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let target = first.split(' ').nth(1).unwrap();
    let said = target.split_once('?').map_or("", |(_, said)| said);
    let said = said.split('&').filter_map(|pair| pair.split_once('=')).map(|(name, value)| (decoded(name), decoded(value))).collect();
    let (status, media, body, sent, is_slow) = {
        let mut shop = shop.lock().unwrap();
        let (status, media, body, sent) = shop.answer(&said);
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
type Known = BTreeMap<String, Option<i64>>;

fn known(stook: &Served) -> Known {
    let answer = stook.get("/v1/main/query?q=thing&limit=1000&ask=never").with(200);
    let row = |row: &Json| (row["id"].as_str().unwrap().to_owned(), row["size"].as_i64());
    answer["rows"].as_array().unwrap().iter().map(row).collect()
}

fn run(seed: u64, place: &Place, shop: &Arc<Mutex<Shop>>) {
    let stook = Served::new(place, &["--workers", "1"]);
    let mut random = Random::new(seed);
    let mut model = Known::new();
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
            (shop.fault, shop.at, shop.is_whole) = (fault, random.below(3) as usize, true);
            shop.unreadable.clear();
        }
        let query = group.map_or("thing".to_owned(), |group| format!("thing group={group}"));
        let answer = stook.get(&format!("/v1/main/query?q={}&limit=1000&ask=always&wait=60", encoded(&query))).with(200);
        let said = &answer["services"][0];
        let shop = shop.lock().unwrap();
        let told = format!("seed {seed}, step {step}, {:?}, {query}, {fault:?} on page {}: {said}", shop.kind, shop.at);
        let found = known(&stook);
        let truth: BTreeMap<String, i64> = shop.fitting(group).into_iter().collect();
        let is_of = |id: &str| group.is_none_or(|group| group_of(id) == group);
        if shop.is_whole {
            assert_eq!(said["state"], "complete", "{told}");
            let mut expected: Vec<&String> = model.keys().filter(|id| !is_of(id)).chain(truth.keys()).collect();
            expected.sort_unstable();
            assert_eq!(found.keys().collect::<Vec<_>>(), expected, "{told}");
        } else {
            assert!(matches!(said["state"].as_str(), Some("failed" | "partial")), "{told}");
            assert!(said["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{told}");
            assert!(said["retired"].is_null(), "{told}");
            for id in model.keys() {
                assert!(found.contains_key(id), "{told}: {id} is gone");
            }
            for id in found.keys() {
                assert!(model.contains_key(id) || truth.contains_key(id), "{told}: {id} was never said");
            }
        }
        if shop.is_whole {
            assert_eq!(said["unreadable"].as_u64().unwrap_or(0), shop.unreadable.len() as u64, "{told}");
            assert_eq!(said["example"].is_string(), !shop.unreadable.is_empty(), "{told}");
        }
        for (id, size) in &found {
            let old = model.get(id);
            let is_old = old.is_some_and(|old| old == size);
            let is_new = truth.get(id).is_some_and(|new| Some(*new) == *size);
            let is_left_out = shop.unreadable.contains(id) && size.is_none();
            let may_be_old = !shop.is_whole || !is_of(id) || shop.unreadable.contains(id);
            assert!(is_new || is_left_out || is_old && may_be_old, "{told}: {id} is {size:?}, was {old:?}, said {:?}", truth.get(id));
        }
        drop(shop);
        let whole = stook.get("/v1/main/query?q=thing%20%7C%20sum(size)&ask=never").with(200);
        let (rows, values) = (found.len(), found.values().flatten().count());
        let expected = if values < rows { json!({ "sum(size)": { "values": values, "rows": rows } }) } else { Json::Null };
        assert_eq!(whole["over"], expected, "{told}: {whole}");
        model = found;
    }
}

fn seeds_file() -> PathBuf {
    repository().join("tests/tests/answers.seeds")
}

/// Seeds that have failed before, then those of this run.
fn seeds() -> (Vec<u64>, Range<u64>) {
    let kept = std::fs::read_to_string(seeds_file()).unwrap_or_default();
    let kept = kept.lines().filter_map(|line| line.split('#').next()?.trim().parse().ok()).collect();
    let wanted = std::env::var("STOOK_TEST_ANSWERS").unwrap_or_default();
    let number = |text: &str| text.trim().parse::<u64>().unwrap_or_else(|_| panic!("STOOK_TEST_ANSWERS is N or N..M, not {wanted}"));
    let range = match wanted.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None if wanted.is_empty() => 0..SEEDS,
        None => 0..number(&wanted),
    };
    (kept, range)
}

#[test]
fn an_answer_that_is_not_whole_retires_nothing_and_is_not_complete() {
    let (kept, range) = seeds();
    println!("seeds {kept:?} and {range:?}");
    for (seed, is_kept) in kept.iter().map(|seed| (*seed, true)).chain(range.map(|seed| (seed, false))) {
        let kind = KINDS[seed as usize % KINDS.len()];
        let shop = Shop {
            kind,
            truth: BTreeMap::new(),
            fault: Fault::None,
            at: 0,
            random: Random::new(seed ^ 0x5eed),
            is_whole: true,
            unreadable: Vec::new(),
        };
        let shop = Arc::new(Mutex::new(shop));
        let url = serve(&shop);
        // some runs on the server, too
        let places = if seed % 5 == 0 { Place::both(&kind.definition(&url)) } else { vec![Place::new(&kind.definition(&url))] };
        for place in places {
            {
                let mut shop = shop.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                (shop.truth, shop.random) = (BTreeMap::new(), Random::new(seed ^ 0x5eed));
            }
            if let Err(failure) = catch_unwind(AssertUnwindSafe(|| run(seed, &place, &shop))) {
                if !is_kept {
                    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(seeds_file()).unwrap();
                    writeln!(file, "{seed}").unwrap();
                }
                println!("seed {seed} has failed: STOOK_TEST_ANSWERS={seed}..{}", seed + 1);
                resume_unwind(failure);
            }
        }
    }
}
