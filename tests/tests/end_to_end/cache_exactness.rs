//! The cache is exact: a read returns what was committed last before it began, or something later, whoever wrote it. Random
//! reads, edits, transitions and imports of several clients and processes, checked against what each of them was answered.

use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stook_testkit::postgres::TestServer;
use stook_tests::http::{Client, Served};
use stook_tests::{Dice, Sandbox};

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
struct MonotonicValue {
    started: AtomicI64,
    floor: AtomicI64,
}

#[derive(Default)]
struct Counter {
    edited: MonotonicValue,
    moved: MonotonicValue,
    filed: MonotonicValue,
    /// Whoever writes it, one at a time, so that its numbers grow.
    writer: Mutex<()>,
}

impl MonotonicValue {
    fn write(&self, write: impl FnOnce(i64)) {
        let next = self.started.fetch_add(1, Ordering::SeqCst) + 1;
        write(next);
        self.floor.fetch_max(next, Ordering::SeqCst);
    }

    /// Checks what was read against what was known when the read began.
    #[track_caller]
    fn assert_read(&self, floor: i64, value: &Json, context: &str) {
        let value = value.as_i64().unwrap_or(0);
        let max = self.started.load(Ordering::SeqCst);
        assert!((floor..=max).contains(&value), "{context}: {value} was read, it was at least {floor} before and at most {max}");
        // a later read must not see less
        self.floor.fetch_max(value, Ordering::SeqCst);
    }
}

/// A record that comes and goes: with odd numbers it is there and has them, with even ones it is deleted.
#[derive(Default)]
struct Mortal {
    life: MonotonicValue,
    writer: Mutex<()>,
}

impl Mortal {
    fn assert_read(&self, floor: i64, record: &Json, context: &str) {
        if let Some(number) = record["edited"].as_i64() {
            assert!(number % 2 == 1, "{context}: {record}");
            return self.life.assert_read(floor, &record["edited"], context);
        }
        // the first time it was gone since then
        self.life.assert_read(floor, &json!(floor + floor % 2), context);
    }
}

/// Who imports files meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Imports {
    Nobody,
    AnotherProcess,
    Uploads,
}

fn check(sandbox: &Sandbox, clients: &[Client], imports: Imports) {
    let counters: Vec<Counter> = (0..KEYS).map(|_| Counter::default()).collect();
    let mortals: Vec<Mortal> = (0..MORTALS).map(|_| Mortal::default()).collect();
    let created: Mutex<Vec<String>> = Mutex::new(Vec::new());
    for key in 0..KEYS {
        let made = clients[0].call("POST", "/v1/main/counter", &json!({"code": format!("k{key}"), "edited": 0, "group": format!("g{}", key % 3)}));
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let is_over = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    let writes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (counters, mortals, is_over, writes, created) = (&counters, &mortals, &is_over, &writes, &created);
            scope.spawn(move || {
                let mut dice = Dice::new(seed);
                while !is_over.load(Ordering::SeqCst) {
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
                            client.call("PATCH", &path, &json!({"edited": number})).expect_json(200);
                        }),
                        4..8 => counter.moved.write(|number| {
                            client.call("POST", &format!("{path}/move"), &json!({"to": number})).expect_json(200);
                        }),
                        // documents that are written at once, where no file may say something older
                        8 if imports == Imports::Nobody => counter.filed.write(|number| {
                            let document = json!({"code": format!("k{key}"), "filed": number}).to_string();
                            let delivery = client.send("POST", "/v1/main/deliver?source=files", &[], document.as_bytes()).expect_json(200);
                            assert!(matches!(delivery["records"][0]["outcome"].as_str(), Some("created" | "updated")), "{delivery}");
                        }),
                        _ => {
                            let code = format!("new{}", writes.load(Ordering::SeqCst) * 10 + seed);
                            client.call("PUT", &format!("/v1/main/counter/{code}"), &json!({"edited": 1, "group": "g0"})).expect_json(201);
                            created.lock().unwrap().push(code);
                        }
                    }
                    writes.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        if imports != Imports::Nobody {
            let (counters, is_over) = (&counters, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    let numbers: Vec<i64> = counters.iter().map(|counter| counter.filed.started.fetch_add(1, Ordering::SeqCst) + 1).collect();
                    let lines: String = numbers
                        .iter()
                        .enumerate()
                        .map(|(key, number)| json!({"code": format!("k{key}"), "filed": number}).to_string() + "\n")
                        .collect();
                    // each delivery is later than the one before
                    if imports == Imports::AnotherProcess {
                        let file = sandbox.write_file("filed.ndjson", lines);
                        sandbox.ok(&["import", &file, "--source", "files", "--as-of", &now()]);
                    } else {
                        let path = format!("/v1/main/import?source=files&as_of={}", now());
                        let job = clients[0].send("POST", &path, &[], lines.as_bytes()).expect_json(202);
                        while clients[0].get(&format!("/v1/main/jobs/{}", job["id"])).expect_json(200)["state"] != "completed" {
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
            let (counters, mortals, is_over, reads, created) = (&counters, &mortals, &is_over, &reads, &created);
            scope.spawn(move || {
                let mut dice = Dice::new(1_000 + seed);
                while !is_over.load(Ordering::SeqCst) {
                    let client = &clients[dice.below(clients.len() as u64) as usize];
                    if dice.below(4) == 0 {
                        let key = dice.below(MORTALS as u64) as usize;
                        let (mortal, code) = (&mortals[key], format!("m{key}"));
                        let floor = mortal.life.floor.load(Ordering::SeqCst);
                        match dice.below(3) {
                            0 => {
                                let all = client.get("/counters?group=mortal").expect_json(200);
                                let row = all.as_array().unwrap().iter().find(|row| row["code"] == code);
                                mortal.assert_read(floor, row.unwrap_or(&Json::Null), "a list of what comes and goes");
                            }
                            1 => {
                                let all = client.call("POST", "/v1/main/lookup", &json!({"collection": "counter", "keys": [code]})).expect_json(200);
                                mortal.assert_read(floor, &all["records"][0], "a look-up of what comes and goes");
                            }
                            _ => {
                                let sent = client.get(&format!("/v1/main/counter/{code}"));
                                assert!(matches!(sent.status, 200 | 404), "{}", sent.text());
                                mortal.assert_read(floor, &sent.json(), "what comes and goes");
                            }
                        }
                        reads.fetch_add(1, Ordering::SeqCst);
                        continue;
                    }
                    let key = dice.below(KEYS as u64) as usize;
                    let counter = &counters[key];
                    let floors = [&counter.edited, &counter.moved, &counter.filed].map(|counter_value| counter_value.floor.load(Ordering::SeqCst));
                    let record = match dice.below(4) {
                        0 => {
                            // through a list of keys
                            let created_codes: HashSet<String> = created.lock().unwrap().iter().cloned().collect();
                            let group = client.get(&format!("/counters?group=g{}", key % 3)).expect_json(200);
                            let rows = group.as_array().unwrap();
                            if key.is_multiple_of(3) {
                                let codes: HashSet<&str> = rows.iter().map(|row| row["code"].as_str().unwrap()).collect();
                                assert!(created_codes.iter().all(|code| codes.contains(code.as_str())), "a record that was there is not listed");
                            }
                            let row = rows.iter().find(|row| row["code"] == format!("k{key}")).expect("it was always there");
                            counter.edited.assert_read(floors[0], &row["edited"], "edited in a list");
                            reads.fetch_add(1, Ordering::SeqCst);
                            continue;
                        }
                        1 => {
                            let keys: Vec<String> = (0..KEYS).map(|key| format!("k{key}")).collect();
                            let all = client.call("POST", "/v1/main/lookup", &json!({"collection": "counter", "keys": keys})).expect_json(200);
                            all["records"][key].clone()
                        }
                        _ => client.get(&format!("/v1/main/counter/k{key}")).expect_json(200),
                    };
                    counter.edited.assert_read(floors[0], &record["edited"], "edited");
                    counter.moved.assert_read(floors[1], &record["moved"], "moved");
                    counter.filed.assert_read(floors[2], &record["filed"], "filed");
                    reads.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let until = Instant::now() + RUN;
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        is_over.store(true, Ordering::SeqCst);
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
    let hits = stook.metric_sum("stook_cache_total", "hit");
    assert!(hits > 100, "{hits} hits");
}

#[test]
fn cached_reads_on_a_file_are_exact_while_another_process_imports() {
    let sandbox = Sandbox::new(COUNTERS);
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    check(&sandbox, &[stook.client(None)], Imports::AnotherProcess);
    was_used(&stook);
    sandbox.assert_sound();
}

#[test]
fn cached_reads_on_a_file_are_exact_without_other_writers() {
    let sandbox = Sandbox::new(COUNTERS);
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    check(&sandbox, &[stook.client(None)], Imports::Uploads);
    was_used(&stook);
}

#[test]
fn cached_reads_on_a_file_are_exact_with_two_servers() {
    let sandbox = Sandbox::new(COUNTERS);
    let (first_server, second_server) = (Served::new(&sandbox, &["--workers", "1"]), Served::new(&sandbox, &["--workers", "1"]));
    check(&sandbox, &[first_server.client(None), second_server.client(None)], Imports::Nobody);
    sandbox.assert_sound();
}

#[test]
fn cached_reads_on_postgresql_are_exact_with_several_processes() {
    let Some(server) = TestServer::for_test(&["fsync=off"]) else { return };
    let sandbox = Sandbox::on_server(COUNTERS, format!("{}?schema=exact", server.url("postgres")));
    sandbox.ok(&["prepare"]);
    let (first_server, second_server, third_server) =
        (Served::new(&sandbox, &[]), Served::new(&sandbox, &["--workers", "1"]), Served::new(&sandbox, &["--cache", "0"]));
    check(&sandbox, &[first_server.client(None), second_server.client(None), third_server.client(None)], Imports::AnotherProcess);
    was_used(&first_server);
}
