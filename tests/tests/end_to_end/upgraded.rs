//! Stores that earlier programs wrote (`tests/stores`, made by `make.py` there) are brought up to date, and nothing in them is lost: not when that is
//! interrupted either.

use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};
use stook_testkit::postgres::TestServer;
use stook_tests::http::Served;
use stook_tests::{Dice, Sandbox, kill_after, repository};

const DEFINITION: &str = include_str!("../../stores/catalogue.yaml");
/// The deliveries from which the stores were made, with their sources.
const DELIVERIES: [(&str, &str); 4] = [("rooms", "rooms.csv"), ("shelf", "first.csv"), ("prices", "prices.csv"), ("shelf", "second.csv")];
/// Stores that can be brought up to date: the database, the format, and the format that they have then.
const STORES: [(&str, &str, &str); 2] = [("sqlite", "11", "13"), ("postgres", "10", "12")];

fn folder() -> PathBuf {
    repository().join("tests/stores")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A sandbox with the stored store; `None` where there is no PostgreSQL.
fn stored(database: &str, format: &str, name: &str) -> Option<Sandbox> {
    let sandbox = Sandbox::new(DEFINITION);
    for (_, file) in DELIVERIES.iter().chain(&[("shelf", "waiting.csv")]) {
        sandbox.write_file(file, read(&format!("deliveries/{file}")));
    }
    // files are where the earlier program found them, and as old
    let sql = read(&format!("{database}-{format}.sql")).replace("/deliveries", path_of(&sandbox));
    let (_, rest) = sql.split_once("waiting.csv\",\"size\":155,\"modified\":").expect("a file that waits");
    let micros = rest.split(',').next().and_then(|digits| digits.parse().ok()).expect("a time");
    let waiting = std::fs::File::options().write(true).open(sandbox.path("waiting.csv")).expect("the file");
    waiting.set_modified(UNIX_EPOCH + Duration::from_micros(micros)).expect("a time");
    if database == "sqlite" {
        let connection = rusqlite::Connection::open(sandbox.store()).expect("a file");
        connection.execute_batch(&sql).expect("the store is read");
        return Some(sandbox);
    }
    let server = TestServer::shared()?;
    let schema = format!("stored_{format}_{name}");
    let sql = sql.replace("stored.", &format!("{schema}.")).replace("SCHEMA stored;", &format!("SCHEMA {schema};"));
    server.sql(&sql).expect("the store is read");
    Some(sandbox.with_store(format!("{}?schema={schema}", server.url("postgres"))))
}

fn path_of(sandbox: &Sandbox) -> &str {
    sandbox.folder().to_str().expect("UTF-8")
}

fn expected(database: &str, format: &str) -> Json {
    serde_json::from_str(&read(&format!("{database}-{format}.json"))).expect("JSON")
}

fn lines(text: &str) -> Json {
    text.lines().collect::<Vec<_>>().into()
}

/// Each member of `wanted` is the same in `found`, which may have others.
fn has(found: &Json, wanted: &Json, what: &str) {
    match (found, wanted) {
        (Json::Object(found), Json::Object(wanted)) => wanted.iter().for_each(|(name, wanted)| has(&found[name], wanted, &format!("{what}.{name}"))),
        (Json::Array(found), Json::Array(wanted)) => {
            assert_eq!(found.len(), wanted.len(), "{what}");
            found.iter().zip(wanted).for_each(|(found, wanted)| has(found, wanted, what));
        }
        _ => assert_eq!(found, wanted, "{what}"),
    }
}

/// The store says of itself what the program that wrote it said.
fn assert_as_before(sandbox: &Sandbox, expected: &Json) {
    for (collection, exported) in expected["exports"].as_object().expect("collections") {
        assert_eq!(&lines(&sandbox.ok(&["export", collection, "--format", "ndjson"])), exported, "{collection}");
    }
    for (key, explained) in expected["explained"].as_object().expect("records") {
        assert_eq!(&Json::from(sandbox.ok(&["get", "book", key, "--explain"])), explained, "{key}");
    }
    has(&sandbox.json(&["jobs", "--json"]), &expected["jobs"], "jobs");
    for (job, journal) in expected["journals"].as_object().expect("jobs") {
        let parsed = |lines: &Json| -> Json {
            let entry = |line: &Json| -> Json { serde_json::from_str(line.as_str().expect("text")).expect("JSON") };
            Json::Array(lines.as_array().expect("lines").iter().map(entry).collect())
        };
        has(&parsed(&lines(&sandbox.ok(&["journal", job, "--json"]).replace(path_of(sandbox), "/deliveries"))), &parsed(journal), job);
    }
    has(&sandbox.json(&["token", "ls", "--json"]), &expected["tokens"], "tokens");
    for (query, found) in expected["found"].as_object().expect("queries") {
        let mut rows: Vec<String> = sandbox.ok(&["query", query, "--format", "csv"]).lines().map(str::to_owned).collect();
        rows.sort();
        assert_eq!(&json!(rows), found, "{query}");
    }
}

#[test]
fn a_store_of_an_earlier_format_is_brought_up_to_date() {
    for (database, format, now) in STORES {
        let Some(sandbox) = stored(database, format, "whole") else { continue };
        let expected = expected(database, format);
        // nothing else changes it
        for command in [&["export", "book", "--format", "ndjson"][..], &["jobs"], &["token", "ls"]] {
            let advice = "`stook prepare` brings it up to date";
            sandbox.run(command).exits(1).stderr_contains(&[&format!("the store has format {format}, this program writes format {now}"), advice]);
        }
        let upgrade = format!("the store is upgraded from format {format} to {now}; older versions of this program can no longer open it");
        assert_eq!(sandbox.json(&["prepare", "--dry-run", "--json"]), json!({"there": true, "needs_a_new_store": [], "changes": [upgrade]}));
        let prepared = sandbox.run(&["prepare"]).exits(0);
        let note = format!("the store was upgraded from format {format} to {now}; older versions of this program can no longer open it");
        prepared.stderr_contains(&[&note]);
        assert_as_before(&sandbox, &expected);
        assert_eq!(sandbox.run(&["prepare"]).exits(0).err, "", "there is nothing more to do");
        assert_as_before(&sandbox, &expected);
        sandbox.ok(&["check", "--deep"]);

        // a token works, and what was waiting goes on
        let server = Served::new(&sandbox, &["--workers", "0"]).with_token(expected["secret"].as_str().expect("a token"));
        server.get("/v1/main/book/b01").expect_json(200);
        server.call("POST", "/v1/main/book/b05/lend", &json!({})).expect_json(200);
        server.call("POST", "/v1/main/book/b04/lend", &json!({})).expect_json(409);
        drop(server);
        sandbox.ok(&["work", "--drain"]);
        assert_eq!(sandbox.job(5)["state"], "completed");
        assert_eq!(sandbox.get("book", "c04")["room"], "r1");
        assert_eq!(sandbox.get("room", "r1")["books"], 8);

        // it is the same as if the present program had imported everything
        let fresh = Sandbox::new(DEFINITION);
        for (source, file) in DELIVERIES.iter().chain(&[("shelf", "waiting.csv")]) {
            let file = fresh.write_file(file, read(&format!("deliveries/{file}")));
            fresh.import(&[&file, "--source", source]);
        }
        let records = |sandbox: &Sandbox| -> Vec<Json> {
            let mut records = [sandbox.records("book"), sandbox.records("room")].concat();
            records.iter_mut().for_each(|record| drop(record["status"].take()));
            records
        };
        assert_eq!(records(&sandbox), records(&fresh));
        // a job of the earlier program can be undone
        for sandbox in [&sandbox, &fresh] {
            sandbox.ok(&["undo", "4"]);
        }
        assert_eq!(sandbox.get("book", "b01")["title"], "Title 1 \u{c9}d");
        assert_eq!(records(&sandbox), records(&fresh));
        sandbox.ok(&["check", "--deep"]);
    }
}

#[test]
fn prepare_killed_at_any_time_is_finished_by_the_next_one() {
    let mut dice = Dice::new(5);
    for (database, format, _) in STORES {
        let Some(sandbox) = stored(database, format, "undisturbed") else { continue };
        let began = Instant::now();
        sandbox.ok(&["prepare"]);
        let duration = began.elapsed();
        let mut killed = 0;
        for number in 0..12 {
            let sandbox = stored(database, format, &format!("killed{number}")).expect("a store");
            while kill_after(sandbox.command(&["prepare"]), Duration::from_micros(dice.below(duration.as_micros() as u64))) {
                killed += 1;
            }
            sandbox.ok(&["prepare"]);
            assert_as_before(&sandbox, &expected(database, format));
            if database == "sqlite" {
                sandbox.assert_sound();
            }
        }
        assert!(killed > 0, "{killed} of them were killed");
    }
}

#[test]
fn a_store_of_an_unknown_format_is_refused_and_left_alone() {
    for (database, format, now) in STORES {
        for other in ["7", "99"] {
            let Some(sandbox) = stored(database, format, &format!("format{other}")) else { continue };
            sandbox.sql(&format!("UPDATE meta SET value = '{other}' WHERE name = 'format'"));
            let reason = format!("the store has format {other}, this program writes format {now}; use the program that wrote it");
            for command in [&["prepare"][..], &["query", "book"], &["import", "rooms.csv", "--source", "rooms"], &["jobs"], &["backup", "all.stook"]]
            {
                sandbox.run(command).exits(1).stderr_contains(&[&reason]);
            }
            // the program that wrote it finds it as it was
            sandbox.sql(&format!("UPDATE meta SET value = '{format}' WHERE name = 'format'"));
            sandbox.ok(&["prepare"]);
            assert_as_before(&sandbox, &expected(database, format));
        }
    }
}
