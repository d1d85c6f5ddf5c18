//! A store whose bytes were changed on the disk, and copies of a store that is in use.

use rusqlite::Connection;
use serde_json::json;
use std::process::Stdio;
use std::time::Duration;
use stook_tests::http::Served;
use stook_tests::{Sandbox, counts};

const THINGS: &str = "
catalogue: things
sources:
  list: { format: csv, as_of: meta.received, into: thing }
collections:
  thing:
    key: id
    fields:
      id: { type: text, path: id }
      name: { type: text, path: name, index: [equal] }
      size: { type: integer, path: size }
";

/// Rows of things, from `first` on.
fn rows(first: u32, count: u32) -> String {
    let mut csv = "id,name,size\n".to_owned();
    (first..first + count).for_each(|row| csv += &format!("t{row:06},name {},{row}\n", row % 7));
    csv
}

#[test]
fn a_damaged_record_is_named_everywhere_and_healed_by_its_document() {
    for (sandbox, (damage, path, outcome)) in Sandbox::on_each_store(THINGS).into_iter().zip([
        ("UPDATE r_thing SET f_size = 'x' WHERE key = 't000002'", "/v1/main/thing/t000002", "unchanged 5, warnings 1"),
        // whoever asks for values alone gets them
        (
            "UPDATE r_thing SET contributions = substr(contributions, 1, 5) WHERE key = 't000002'",
            "/v1/main/thing/t000002/explain",
            "updated 1, unchanged 4, warnings 1",
        ),
    ]) {
        let file = sandbox.write_file("list.csv", rows(0, 5));
        sandbox.import(&[&file]);
        sandbox.ok(&["check", "--deep"]);
        sandbox.sql(damage);

        let reported_words = ["t000002", "damaged"];
        sandbox.run(&["check", "--deep"]).exits(1);
        let found = sandbox.run(&["check", "--deep", "--json"]).exits(1).json();
        assert_eq!((&found["damaged"], &found["records"][0]["key"]), (&json!(1), &json!("t000002")), "{found}");
        sandbox.run(&["get", "thing", "t000002", "--format", "json"]).exits(1).stderr_contains(&reported_words);
        sandbox.run(&["export", "thing", "--format", "ndjson"]).exits(1).stderr_contains(&reported_words);
        let server = Served::new(&sandbox, &[]);
        let answer = server.get(path);
        assert_eq!(answer.status, 500, "{}", answer.text());
        assert!(reported_words.iter().all(|word| answer.text().contains(word)), "{}", answer.text());
        server.get("/v1/main/thing/t000001").expect_json(200);
        // an edit would be written over what nobody can read
        let edit = server.call("PATCH", "/v1/main/thing/t000002", &json!({ "name": "other" }));
        assert_eq!(edit.status, 500, "{}", edit.text());
        drop(server);

        let healed = sandbox.import(&[&file]);
        assert_eq!(counts(&healed), outcome, "{healed}");
        let journal = sandbox.journal(healed["id"].as_u64().expect("a number")).iter().map(ToString::to_string).collect::<String>();
        assert!(journal.contains("t000002") && journal.contains("damaged"), "{journal}");
        sandbox.ok(&["check", "--deep"]);
        assert_eq!(sandbox.get("thing", "t000002")["size"], 2);
        assert_eq!(sandbox.records("thing").len(), 5);
    }
}

#[test]
fn a_copy_of_a_store_in_use_is_a_store_that_other_programs_can_read() {
    let sandbox = Sandbox::new(THINGS);
    sandbox.import(&[&sandbox.write_file("first.csv", rows(0, 2000))]);
    let large_file = sandbox.write_file("many.csv", rows(2000, 30_000));
    let mut import = sandbox.command(&["import", &large_file]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut copies = Vec::new();
    while copies.len() < 2 && import.try_wait().expect("a state").is_none() {
        let copy = sandbox.path(&format!("copy{}.sqlite", copies.len()));
        let backup = sandbox.json(&["backup", copy.to_str().expect("UTF-8"), "--json"]);
        assert_eq!(backup["bytes"], copy.metadata().expect("a file").len(), "{backup}");
        copies.push(copy);
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(!copies.is_empty(), "the import was over before a copy was made");
    for copy in copies {
        // as any other program: nothing of Stook is loaded
        let copy_connection = Connection::open(&copy).expect("a database");
        let verdict: String = copy_connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("an answer");
        assert_eq!(verdict, "ok");
        let vacuumed = copy.with_extension("small");
        copy_connection.execute("VACUUM INTO ?1", [vacuumed.to_str()]).expect("it is written");
        let records: i64 = copy_connection.query_row("SELECT count(*) FROM r_thing", [], |row| row.get(0)).expect("a number");
        assert!((2000..=32_000).contains(&records), "{records}");
        drop(copy_connection);
        // and it is a store: what was under way goes on in it
        for file in [copy, vacuumed] {
            let store = file.to_str().expect("UTF-8");
            sandbox.ok(&["--store", store, "work", "--drain"]);
            sandbox.ok(&["--store", store, "check", "--deep"]);
            let counted = sandbox.json(&["--store", store, "query", "thing | count(id)", "--format", "json"]);
            // as much as the import had cut into chunks at that moment
            let counted = counted[0]["count(id)"].as_i64().expect("a number");
            assert!((records..=32_000).contains(&counted), "{counted} of {records}");
        }
    }
    assert!(import.wait().expect("a state").success());
    sandbox.run(&["backup", "stook.sqlite"]).exits(1).stderr_contains(&["exists"]);
}
