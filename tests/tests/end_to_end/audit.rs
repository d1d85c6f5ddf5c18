//! The audit log through the binary: who changed what, over HTTP and on the command line, and that it is written with the change.

use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;
use stook_tests::Sandbox;
use stook_tests::http::{Served, url_encoded};

const THINGS: &str = "
catalogue: things
sources:
  files: { format: json, into: thing, as_of: meta.received, undo: 30d }
collections:
  thing:
    key: code
    tags: {}
    fields: { code: text, title: { type: text, index: equal } }
    state: { status: { type: text, seed: \"'free'\" } }
    transitions: { take: { refuse: [ { when: \"status != 'free'\", reason: \"'taken'\" } ], set: { status: \"'taken'\" } } }
";

fn shown(entry: &Json) -> String {
    let record = entry["key"].as_str().map(|key| format!(" {}/{key}", entry["collection"].as_str().unwrap())).unwrap_or_default();
    format!("{}: {}{record} {}", entry["caller"].as_str().unwrap(), entry["operation"].as_str().unwrap(), entry["outcome"].as_str().unwrap())
}

#[test]
fn the_log_has_who_changed_what_from_where_and_what_was_refused() {
    for sandbox in Sandbox::on_each_store(THINGS) {
        sandbox.command(&["token", "create", "--role", "admin", "--name", "ann"]).env("USER", "root").output().unwrap();
        let admin = sandbox.ok(&["token", "create", "--role", "admin", "--name", "bob"]).trim().to_owned();
        let reader = sandbox.ok(&["token", "create", "--role", "read", "--name", "eve"]).trim().to_owned();
        let served = Served::new(&sandbox, &["--workers", "1"]);
        let (bob, eve) = (served.client(Some(&admin)), served.client(Some(&reader)));
        bob.call("POST", "/v1/main/thing", &json!({"code": "a b", "title": "A"})).expect_json(201);
        bob.call("PATCH", "/v1/main/thing/a%20b", &json!({"title": "B"})).expect_json(200);
        bob.call("POST", "/v1/main/thing/a%20b/take", &json!({})).expect_json(200);
        assert_eq!(bob.call("POST", "/v1/main/thing/a%20b/take", &json!({})).status, 409);
        assert_eq!(eve.call("PATCH", "/v1/main/thing/a%20b", &json!({"title": "E"})).status, 403);
        bob.call("POST", "/v1/main/tags/thing", &json!({"name": "old"})).expect_json(201);
        bob.call("POST", "/v1/main/tags/thing/old/records", &json!({"add": ["a b"]})).expect_json(200);
        let deliver = bob.send("POST", "/v1/main/deliver?source=files", &[], br#"{"code":"c","title":"C"}"#);
        assert_eq!(deliver.status, 200);
        let job = bob.send("POST", "/v1/main/import?source=files", &[], br#"{"code":"d","title":"D"}"#).expect_json(202);
        served.client(Some(&admin)).get("/v1/main/jobs");
        let served = served.with_token(&admin);
        served.wait_for_job("main", &job);
        assert_eq!(bob.send("POST", &format!("/v1/main/jobs/{}/undo", job["id"]), &[], b"").status, 202);
        bob.call("POST", "/v1/main/tokens/3/rotate", &json!({})).expect_json(200);
        assert_eq!(bob.send("DELETE", "/v1/main/tokens/3", &[], b"").status, 204);
        // what only reads is not there
        bob.call("POST", "/v1/main/query", &json!({"q": "thing"})).expect_json(200);
        bob.get("/v1/main/thing/c").expect_json(200);
        // refusals are written after the answer
        std::thread::sleep(Duration::from_millis(500));
        let log = bob.get("/v1/main/audit?limit=1000").expect_json(200);
        let mut lines: Vec<String> = log["entries"].as_array().unwrap().iter().map(shown).collect();
        lines.reverse();
        let refusals: Vec<String> = lines.extract_if(.., |line| line.contains("refused")).collect();
        let patch = "eve: PATCH /v1/main/thing/a%20b refused: 403";
        assert_eq!(BTreeSet::from_iter(refusals), BTreeSet::from(["bob: POST /v1/main/thing/a%20b/take refused: 409".to_owned(), patch.to_owned()]));
        let undo = format!("bob: POST /v1/main/jobs/{}/undo done", job["id"]);
        let expected = [
            "bob: POST /v1/main/thing thing/a b done",
            "bob: PATCH /v1/main/thing/a%20b thing/a b done",
            "bob: POST /v1/main/thing/a%20b/take thing/a b done",
            "bob: POST /v1/main/tags/thing done",
            "bob: POST /v1/main/tags/thing/old/records done",
            "bob: POST /v1/main/deliver thing/c done",
            "bob: POST /v1/main/import done",
            undo.as_str(),
            "bob: POST /v1/main/tokens/3/rotate done",
            "bob: DELETE /v1/main/tokens/3 done",
        ];
        assert_eq!(lines, expected);
        assert!(log["entries"].as_array().unwrap().iter().all(|entry| entry["address"] == "127.0.0.1"), "{log}");
        // the command line sees all tenants, and itself
        let all: Vec<Json> = sandbox.ok(&["audit", "--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let first = all.iter().rfind(|entry| entry["operation"] == "stook token create").unwrap();
        assert_eq!(first["caller"], "root (command line)");
        let by_record = sandbox.ok(&["audit", "--record", "thing/a b", "--since", "1h"]);
        assert!(by_record.lines().count() == 5 && by_record.contains("take"), "{by_record}");
        let path = format!("/v1/main/audit?record={}&token=2&limit=1", url_encoded("thing/a b"));
        let page = bob.get(&path).expect_json(200);
        assert_eq!((page["entries"].as_array().unwrap().len(), page["next"].is_number()), (1, true));
        assert_eq!(bob.get("/v1/main/audit?record=thing").status, 400);
        assert_eq!(eve.get("/v1/main/audit").status, 401, "revoked");
        sandbox.run(&["audit", "--since", "yesterday"]).exits(64);
        // a backup has it
        let backup = sandbox.path("store.backup").display().to_string();
        sandbox.ok(&["backup", &backup]);
        let restored = sandbox.path("restored.sqlite").display().to_string();
        sandbox.ok(&["restore", &backup, "--store", &restored]);
        assert_eq!(sandbox.ok(&["audit", "--json", "--limit", "1000", "--store", &restored]).lines().count(), all.len());
    }
}

/// Whenever the process is killed: each record that is there has its entry, and no other has one.
#[test]
fn a_change_and_its_entry_survive_a_kill_together() {
    for sandbox in Sandbox::on_each_store(THINGS) {
        let admin = sandbox.ok(&["token", "create", "--role", "admin"]).trim().to_owned();
        for round in 0..4 {
            let served = Served::new(&sandbox, &["--workers", "0"]);
            let pid = served.pid().to_string();
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let client = served.client(Some(&admin));
                    scope.spawn(move || {
                        for number in 0..10_000 {
                            let code = format!("r{round}-{thread}-{number}");
                            let sent = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                                client.call("POST", "/v1/main/thing", &json!({"code": code, "title": "T"})).status
                            }));
                            if sent.is_err() {
                                return;
                            }
                        }
                    });
                }
                std::thread::sleep(Duration::from_millis(700 + 150 * round));
                let _ = Command::new("kill").args(["-9", &pid]).status();
            });
        }
        let records: BTreeSet<String> = sandbox.records("thing").iter().map(|record| record["code"].as_str().unwrap().to_owned()).collect();
        let entries: Vec<String> = sandbox
            .ok(&["audit", "--json", "--limit", "1000000"])
            .lines()
            .filter_map(|line| serde_json::from_str::<Json>(line).unwrap()["key"].as_str().map(str::to_owned))
            .collect();
        assert!(records.len() > 10, "{}", records.len());
        assert_eq!(entries.len(), records.len(), "each once");
        assert_eq!(BTreeSet::from_iter(entries), records);
    }
}

/// Entries that are too old, or too many, are removed, and no others; old ones are looked for now and then, on a server at random.
#[test]
fn old_entries_are_removed_and_no_newer_ones() {
    const DAY: u64 = 86_400_000_000;
    const MAX_ENTRIES: u64 = 2_000_000;
    for sandbox in Sandbox::on_each_store(THINGS) {
        let admin = sandbox.ok(&["token", "create", "--role", "admin", "--name", "ann"]).trim().to_owned();
        let served = Served::new(&sandbox, &["--workers", "0"]).with_token(&admin);
        let put = |code: &str, title: u32| served.call("PUT", &format!("/v1/main/thing/{code}"), &json!({"code": code, "title": title.to_string()}));
        let numbers = || -> BTreeSet<u64> {
            let (mut all, mut before) = (BTreeSet::new(), 1 << 52);
            loop {
                let log = served.get(&format!("/v1/main/audit?limit=1000&before={before}")).expect_json(200);
                let page: Vec<u64> = log["entries"].as_array().unwrap().iter().map(|entry| entry["id"].as_u64().unwrap()).collect();
                let Some(last) = page.last() else { return all };
                before = *last;
                all.extend(page);
            }
        };
        (0..20).for_each(|number| assert_eq!(put("a", number).status / 100, 2));
        let first = *numbers().first().unwrap();
        // the first ten are 401 days old, the next five 399 days
        sandbox.sql(&format!("UPDATE audit SET at = at - {} WHERE id < {}", 401 * DAY, first + 10));
        sandbox.sql(&format!("UPDATE audit SET at = at - {} WHERE id >= {} AND id < {}", 399 * DAY, first + 10, first + 15));
        let until_gone = |gone: u64, is_kept: &dyn Fn(u64, u64) -> bool| {
            for number in 0..100 {
                let before = numbers();
                (0..64).for_each(|put_number| assert_eq!(put("b", number * 64 + put_number).status / 100, 2));
                let after = numbers();
                let newest = *after.last().unwrap();
                let lost: Vec<&u64> = before.difference(&after).filter(|id| is_kept(**id, newest)).collect();
                assert!(lost.is_empty(), "{lost:?} of {before:?}");
                if !after.contains(&gone) {
                    return;
                }
            }
            panic!("entry {gone} is never removed");
        };
        until_gone(first, &|id, _| id >= first + 10);
        let kept = numbers();
        assert_eq!((kept.first(), kept.len() as u64), (Some(&(first + 10)), kept.last().unwrap() - first - 9), "those of the last 400 days");
        // two million entries later
        let next = MAX_ENTRIES + first + 11;
        match sandbox.server_url() {
            None => sandbox.sql(&format!("UPDATE sqlite_sequence SET seq = {} WHERE name = 'audit'", next - 1)),
            Some(_) => sandbox.sql(&format!("ALTER TABLE audit ALTER COLUMN id RESTART WITH {next}")),
        }
        until_gone(first + 10, &|id, newest| id > newest - MAX_ENTRIES);
    }
}
