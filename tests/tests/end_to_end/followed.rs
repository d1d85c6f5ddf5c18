//! Changes are followed by command and over HTTP, across backups; a doctor says how a catalogue is doing.

use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use stook_tests::Sandbox;
use stook_tests::http::Served;

const SHOP: &str = "\
catalogue: shop
sources:
  prices: { format: csv, undo: 30d, into: item, as_of: meta.received }
collections:
  item: { key: id, changes: 30d, fields: { id: text, price: { type: integer, index: equal } }, state: { status: { type: text, seed: \"'new'\" } }, transitions: { sell: { set: { status: \"'sold'\" } } } }
";

fn import(sandbox: &Sandbox, lines: &str) -> Json {
    let file = sandbox.write_file("prices.csv", format!("id,price\n{lines}"));
    sandbox.import(&[&file])
}

/// Applies changes to what is known; returns the cursor at their end.
fn apply(known: &mut BTreeMap<String, Json>, lines: &str) -> String {
    let mut cursor = String::new();
    for line in lines.lines().map(|line| serde_json::from_str::<Json>(line).unwrap()) {
        cursor = line["cursor"].as_str().unwrap().to_owned();
        let Some(key) = line["key"].as_str() else { continue };
        match line["change"].as_str().unwrap() {
            "deleted" => drop(known.remove(key)),
            "created" => drop(known.insert(key.to_owned(), line["fields"].clone())),
            _ => {
                for (name, value) in line["fields"].as_object().unwrap() {
                    known.get_mut(key).unwrap()[name] = value.clone();
                }
            }
        }
    }
    cursor
}

fn exported(sandbox: &Sandbox) -> BTreeMap<String, Json> {
    let without_key = |mut record: Json| {
        let key = record.as_object_mut().unwrap().remove("key").unwrap().as_str().unwrap().to_owned();
        (key, record)
    };
    sandbox.records("item").into_iter().map(without_key).collect()
}

#[test]
fn changes_are_followed_by_command_and_cursors_survive_a_backup() {
    for sandbox in Sandbox::on_each_store(SHOP) {
        import(&sandbox, "a,1\nb,2\n");
        let mut known = BTreeMap::new();
        let first = apply(&mut known, &sandbox.ok(&["changes"]));
        assert_eq!(known, exported(&sandbox));
        import(&sandbox, "a,3\nc,4\n");
        let second = apply(&mut known, &sandbox.ok(&["changes", "item", "--since", &first]));
        sandbox.ok(&["undo", "2"]);
        let lines = sandbox.ok(&["changes", "--since", &second]);
        let third = apply(&mut known, &lines);
        assert_eq!(known, exported(&sandbox), "{lines}");
        assert!(lines.contains(r#""removed":true"#), "{lines}");
        assert_eq!(sandbox.ok(&["changes", "--since", &third]).lines().count(), 1);
        assert_eq!(sandbox.ok(&["changes", "--limit", "1"]).lines().count(), 2);
        sandbox.run(&["changes", "--since", "0badcafe-1"]).exits(1).stderr_contains(&["another store", "export the records"]);
        sandbox.run(&["changes", "--since", "then"]).exits(1).stderr_contains(&["is no cursor"]);
        sandbox.run(&["changes", "items"]).exits(1).stderr_contains(&["items"]);
        let export = sandbox.run(&["export", "item", "--format", "ndjson"]).exits(0);
        export.stderr_contains(&["stook changes item --since "]);
        // in a store restored from a backup, cursors from before it lead on, and those from after it do not
        let backup = sandbox.path("saved.stook").display().to_string();
        sandbox.ok(&["backup", &backup]);
        import(&sandbox, "d,5\n");
        let lost = apply(&mut known.clone(), &sandbox.ok(&["changes", "--since", &third]));
        let restored = Sandbox::new(SHOP);
        restored.ok(&["restore", &backup]);
        assert_eq!(restored.ok(&["changes", "--since", &third]).lines().count(), 1);
        import(&restored, "a,9\ne,6\n");
        let last = apply(&mut known, &restored.ok(&["changes", "--since", &third]));
        assert_eq!(known, exported(&restored));
        restored.run(&["changes", "--since", &lost]).exits(1).stderr_contains(&["lost when a backup was restored"]);
        let mut afresh = BTreeMap::new();
        assert_eq!(apply(&mut afresh, &restored.ok(&["changes"])), last);
        assert_eq!(afresh, known);
    }
}

#[test]
fn changes_are_followed_over_http_and_waited_for() {
    for sandbox in Sandbox::on_each_store(SHOP) {
        import(&sandbox, "a,1\nb,2\n");
        let stook = Served::new(&sandbox, &[]);
        let mut known = BTreeMap::new();
        let answer = stook.get("/v1/main/changes");
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")));
        let cursor = apply(&mut known, &answer.text());
        assert_eq!(known, exported(&sandbox));
        // nothing new: it waits as long as it is told, or until there is something
        let began = Instant::now();
        assert_eq!(stook.get(&format!("/v1/main/changes/item?since={cursor}&wait=1")).text().lines().count(), 1);
        assert!(began.elapsed() >= Duration::from_secs(1));
        let text = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| stook.get(&format!("/v1/main/changes?since={cursor}")).text());
            std::thread::sleep(Duration::from_millis(400));
            stook.call("POST", "/v1/main/item/a/sell", &json!({})).expect_json(200);
            waiting.join().unwrap()
        });
        let change: Json = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!((&change["fields"], &change["transition"], &change["settled"]), (&json!({"status": "sold"}), &json!("sell"), &json!(false)));
        let cursor = apply(&mut known, &text);
        assert_eq!(known, exported(&sandbox));
        // a caller who is gone is not waited for
        let mut gone = TcpStream::connect(stook.address()).unwrap();
        write!(gone, "GET /v1/main/changes?since={cursor}&wait=300 HTTP/1.1\r\nhost: {}\r\n\r\n", stook.address()).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let watching = || stook.metric_sum("stook_state", "watching");
        assert_eq!(watching(), 1);
        gone.shutdown(std::net::Shutdown::Both).unwrap();
        let _ = gone.read(&mut [0; 1]);
        drop(gone);
        let deadline = Instant::now() + Duration::from_secs(10);
        while watching() > 0 {
            assert!(Instant::now() < deadline, "somebody still waits");
            std::thread::sleep(Duration::from_millis(50));
        }
        // too old, wrong, or not kept
        let refused = stook.get("/v1/main/changes?since=0badcafe-1");
        assert_eq!(refused.status, 410);
        assert!(refused.text().contains("export the records"), "{}", refused.text());
        for (path, status) in [("changes?since=x", 400), ("changes?since=now&wait=301", 400), ("changes/other", 404), ("changes?from=x", 400)] {
            assert_eq!(stook.get(&format!("/v1/main/{path}")).status, status, "{path}");
        }
        // an export names the cursor from which its changes follow
        let export = stook.get("/v1/main/export/item");
        let named = export.header("stook-changes-cursor").unwrap().to_owned();
        assert_eq!(named, cursor);
        let metrics = stook.get("/metrics").text();
        assert!(metrics.contains("stook_source_failed_documents{source=\"prices\",tenant=\"main\"} 0"), "{metrics}");
        assert!(metrics.contains("stook_source_age_seconds") && metrics.contains("store_size_bytes"), "{metrics}");
    }
}

#[test]
fn a_doctor_says_what_is_well_and_what_to_do() {
    for sandbox in Sandbox::on_each_store(SHOP) {
        import(&sandbox, "a,1\n");
        let found = |code: &[i32]| {
            let answer = sandbox.run(&["doctor", "--json"]);
            assert!(code.contains(&answer.code), "{} {}", answer.text(), answer.err);
            answer.json()
        };
        // the machine of the tests may have little space
        let well = found(&[0, 1, 2]);
        let verdict = |report: &Json, about: &str| {
            let of_this = report["findings"].as_array().unwrap().iter().filter(|finding| finding["about"] == about);
            of_this.map(|finding| finding["verdict"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        for about in ["program", "definition", "store", "rights", "clock", "queue"] {
            assert_eq!(verdict(&well, about), ["ok"], "{about}: {well}");
        }
        assert_eq!((&well["sources"][0]["source"], &well["sources"][0]["failed_documents"]), (&json!("prices"), &json!(0)));
        import(&sandbox, "b,many\n,3\n");
        let failed = found(&[1, 2]);
        assert_eq!(verdict(&failed, "source"), ["warn"], "{failed}");
        assert!(sandbox.run(&["doctor"]).text().contains("`stook journal 2 --errors`"));
        sandbox.write_definition(&SHOP.replace("key: id", "key: idd"));
        assert_eq!(verdict(&found(&[1]), "definition"), ["bad"]);
        sandbox.write_definition(&SHOP.replace("id: text,", "id: integer,"));
        assert_eq!(verdict(&found(&[1]), "store"), ["bad"]);
    }
    let empty = Sandbox::new(SHOP);
    assert!(empty.run(&["doctor"]).exits(2).text().contains("does not exist yet"));
}
