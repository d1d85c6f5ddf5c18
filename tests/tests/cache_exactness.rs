//! The cache is exact: a read returns what was committed last before it began, or something later, whoever wrote it. Random
//! reads, edits, transitions and imports of several clients and processes, checked against what each of them was answered.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stook_testkit::postgres::TestServer;
use stook_tests::http::{Client, Served};
use stook_tests::{Dice, Place};

const COUNTERS: &str = "
catalogue: counters
sources:
  files: { format: json, into: counter, as_of: meta.received }
collections:
  counter:
    key: code
    fields:
      code:   text
      edited: integer
      filed:  integer
      group:  { type: text, index: equal }
    state:
      moved: { type: integer, seed: \"0\" }
    transitions:
      move: { args: { to: { type: integer, required: true } }, set: { moved: args.to } }
routes:
  - get: /counters
    params: { group: { type: text, required: true } }
    list: counter
    where: { group: params.group }
    fields: { code: code, edited: edited }
";

const KEYS: usize = 12;
/// Records that come and go.
const MORTALS: usize = 4;
const RUN: Duration = Duration::from_secs(8);

/// What is known of one number that only grows: it was begun to be written up to `begun`, and is at least `floor`.
#[derive(Default)]
struct Known {
    begun: AtomicI64,
    floor: AtomicI64,
}

#[derive(Default)]
struct Counter {
    edited: Known,
    moved: Known,
    filed: Known,
    /// Whoever writes it, one at a time, so that its numbers grow.
    writer: Mutex<()>,
}

impl Known {
    fn write(&self, write: impl FnOnce(i64)) {
        let next = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        write(next);
        self.floor.fetch_max(next, Ordering::SeqCst);
    }

    /// Checks what was read against what was known when the read began.
    #[track_caller]
    fn saw(&self, floor: i64, value: &Json, what: &str) {
        let value = value.as_i64().unwrap_or(0);
        let most = self.begun.load(Ordering::SeqCst);
        assert!((floor..=most).contains(&value), "{what}: {value} was read, it was at least {floor} before and at most {most}");
        // a later read must not see less
        self.floor.fetch_max(value, Ordering::SeqCst);
    }
}

/// A record that comes and goes: with odd numbers it is there and has them, with even ones it is deleted.
#[derive(Default)]
struct Mortal {
    life: Known,
    writer: Mutex<()>,
}

impl Mortal {
    fn saw(&self, floor: i64, record: &Json, what: &str) {
        if let Some(number) = record["edited"].as_i64() {
            assert!(number % 2 == 1, "{what}: {record}");
            return self.life.saw(floor, &record["edited"], what);
        }
        // the first time it was gone since then
        self.life.saw(floor, &json!(floor + floor % 2), what);
    }
}

/// Who imports files meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Imports {
    Nobody,
    AnotherProcess,
    Uploads,
}

fn check(place: &Place, clients: &[Client], imports: Imports) {
    let counters: Vec<Counter> = (0..KEYS).map(|_| Counter::default()).collect();
    let mortals: Vec<Mortal> = (0..MORTALS).map(|_| Mortal::default()).collect();
    let created: Mutex<Vec<String>> = Mutex::new(Vec::new());
    for key in 0..KEYS {
        let made = clients[0].call("POST", "/v1/main/counter", &json!({"code": format!("k{key}"), "edited": 0, "group": format!("g{}", key % 3)}));
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let over = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    let writes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (counters, mortals, over, writes, created) = (&counters, &mortals, &over, &writes, &created);
            scope.spawn(move || {
                let mut dice = Dice::new(seed);
                while !over.load(Ordering::SeqCst) {
                    let client = &clients[dice.below(clients.len() as u64) as usize];
                    if dice.below(4) == 0 {
                        let key = dice.below(MORTALS as u64) as usize;
                        let path = format!("/v1/main/counter/m{key}");
                        let _alone = mortals[key].writer.lock().unwrap();
                        mortals[key].life.write(|number| match number % 2 {
                            1 => {
                                let sent = client.call("PUT", &path, &json!({"edited": number, "group": "mortal"}));
                                assert!(matches!(sent.status, 200 | 201), "{}", sent.text());
                            }
                            _ => assert_eq!(client.send("DELETE", &path, &[], b"").status, 204),
                        });
                        continue;
                    }
                    let key = dice.below(KEYS as u64) as usize;
                    let counter = &counters[key];
                    let _alone = counter.writer.lock().unwrap();
                    let path = format!("/v1/main/counter/k{key}");
                    match dice.below(10) {
                        0..4 => counter.edited.write(|number| {
                            client.call("PATCH", &path, &json!({"edited": number})).with(200);
                        }),
                        4..8 => counter.moved.write(|number| {
                            client.call("POST", &format!("{path}/move"), &json!({"to": number})).with(200);
                        }),
                        // documents that are written at once, where no file may say something older
                        8 if imports == Imports::Nobody => counter.filed.write(|number| {
                            let document = json!({"code": format!("k{key}"), "filed": number}).to_string();
                            let said = client.send("POST", "/v1/main/deliver?source=files", &[], document.as_bytes()).with(200);
                            assert!(matches!(said["records"][0]["outcome"].as_str(), Some("created" | "updated")), "{said}");
                        }),
                        _ => {
                            let code = format!("new{}", writes.load(Ordering::SeqCst) * 10 + seed);
                            client.call("PUT", &format!("/v1/main/counter/{code}"), &json!({"edited": 1, "group": "g0"})).with(201);
                            created.lock().unwrap().push(code);
                        }
                    }
                    writes.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        if imports != Imports::Nobody {
            let (counters, over) = (&counters, &over);
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    let numbers: Vec<i64> = counters.iter().map(|counter| counter.filed.begun.fetch_add(1, Ordering::SeqCst) + 1).collect();
                    let lines: String = numbers
                        .iter()
                        .enumerate()
                        .map(|(key, number)| json!({"code": format!("k{key}"), "filed": number}).to_string() + "\n")
                        .collect();
                    // each delivery is later than the one before
                    if imports == Imports::AnotherProcess {
                        let file = place.file("filed.ndjson", lines);
                        place.ok(&["import", &file, "--source", "files", "--as-of", &now()]);
                    } else {
                        let path = format!("/v1/main/import?source=files&as_of={}", now());
                        let job = clients[0].send("POST", &path, &[], lines.as_bytes()).with(202);
                        while clients[0].get(&format!("/v1/main/jobs/{}", job["id"])).with(200)["state"] != "completed" {
                            std::thread::sleep(Duration::from_millis(2));
                        }
                    }
                    for (counter, number) in counters.iter().zip(numbers) {
                        counter.filed.floor.fetch_max(number, Ordering::SeqCst);
                    }
                }
            });
        }
        for seed in 0..4 {
            let (counters, mortals, over, reads, created) = (&counters, &mortals, &over, &reads, &created);
            scope.spawn(move || {
                let mut dice = Dice::new(1_000 + seed);
                while !over.load(Ordering::SeqCst) {
                    let client = &clients[dice.below(clients.len() as u64) as usize];
                    if dice.below(4) == 0 {
                        let key = dice.below(MORTALS as u64) as usize;
                        let (mortal, code) = (&mortals[key], format!("m{key}"));
                        let floor = mortal.life.floor.load(Ordering::SeqCst);
                        match dice.below(3) {
                            0 => {
                                let all = client.get("/counters?group=mortal").with(200);
                                let own = all.as_array().unwrap().iter().find(|row| row["code"] == code);
                                mortal.saw(floor, own.unwrap_or(&Json::Null), "a list of what comes and goes");
                            }
                            1 => {
                                let all = client.call("POST", "/v1/main/lookup", &json!({"collection": "counter", "keys": [code]})).with(200);
                                mortal.saw(floor, &all["records"][0], "a look-up of what comes and goes");
                            }
                            _ => {
                                let sent = client.get(&format!("/v1/main/counter/{code}"));
                                assert!(matches!(sent.status, 200 | 404), "{}", sent.text());
                                mortal.saw(floor, &sent.json(), "what comes and goes");
                            }
                        }
                        reads.fetch_add(1, Ordering::SeqCst);
                        continue;
                    }
                    let key = dice.below(KEYS as u64) as usize;
                    let counter = &counters[key];
                    let floors = [&counter.edited, &counter.moved, &counter.filed].map(|known| known.floor.load(Ordering::SeqCst));
                    let record = match dice.below(4) {
                        0 => {
                            // through a list of keys
                            let there: HashSet<String> = created.lock().unwrap().iter().cloned().collect();
                            let group = client.get(&format!("/counters?group=g{}", key % 3)).with(200);
                            let rows = group.as_array().unwrap();
                            if key.is_multiple_of(3) {
                                let codes: HashSet<&str> = rows.iter().map(|row| row["code"].as_str().unwrap()).collect();
                                assert!(there.iter().all(|code| codes.contains(code.as_str())), "a record that was there is not listed");
                            }
                            let own = rows.iter().find(|row| row["code"] == format!("k{key}")).expect("it was always there");
                            counter.edited.saw(floors[0], &own["edited"], "edited in a list");
                            reads.fetch_add(1, Ordering::SeqCst);
                            continue;
                        }
                        1 => {
                            let keys: Vec<String> = (0..KEYS).map(|key| format!("k{key}")).collect();
                            let all = client.call("POST", "/v1/main/lookup", &json!({"collection": "counter", "keys": keys})).with(200);
                            all["records"][key].clone()
                        }
                        _ => client.get(&format!("/v1/main/counter/k{key}")).with(200),
                    };
                    counter.edited.saw(floors[0], &record["edited"], "edited");
                    counter.moved.saw(floors[1], &record["moved"], "moved");
                    counter.filed.saw(floors[2], &record["filed"], "filed");
                    reads.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let until = Instant::now() + RUN;
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        over.store(true, Ordering::SeqCst);
    });
    let (reads, writes) = (reads.into_inner(), writes.into_inner());
    assert!(reads > 500 && writes > 50, "{reads} reads, {writes} writes");
}

fn now() -> String {
    let output = std::process::Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%S.%NZ"]).output().expect("a date");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The cache was used, or the check shows nothing.
fn was_used(stook: &Served) {
    let hits = stook.counted("stook_cache_total", "hit");
    assert!(hits > 100, "{hits} hits");
}

#[test]
fn cached_reads_on_a_file_are_exact_while_another_process_imports() {
    let place = Place::new(COUNTERS);
    let stook = Served::new(&place, &["--workers", "1"]);
    check(&place, &[stook.client(None)], Imports::AnotherProcess);
    was_used(&stook);
    place.assert_sound();
}

#[test]
fn cached_reads_on_a_file_are_exact_while_nobody_else_writes() {
    let place = Place::new(COUNTERS);
    let stook = Served::new(&place, &["--workers", "1"]);
    check(&place, &[stook.client(None)], Imports::Uploads);
    was_used(&stook);
}

#[test]
fn cached_reads_on_a_file_are_exact_with_two_servers() {
    let place = Place::new(COUNTERS);
    let (one, two) = (Served::new(&place, &["--workers", "1"]), Served::new(&place, &["--workers", "1"]));
    check(&place, &[one.client(None), two.client(None)], Imports::Nobody);
    place.assert_sound();
}

#[test]
fn cached_reads_on_postgresql_are_exact_with_several_processes() {
    let Some(server) = TestServer::for_test(&["fsync=off"]) else { return };
    let place = Place::on_server(COUNTERS, format!("{}?schema=exact", server.url("postgres")));
    place.ok(&["prepare"]);
    let (one, two, three) = (Served::new(&place, &[]), Served::new(&place, &["--workers", "1"]), Served::new(&place, &["--cache", "0"]));
    check(&place, &[one.client(None), two.client(None), three.client(None)], Imports::AnotherProcess);
    was_used(&one);
}
