//! Erased records: nothing that only they have is in the store any more, wherever it was kept, and nothing brings them back.

use serde_json::json;
use stook_tests::http::Served;
use stook_tests::{Sandbox, counts};

const REGISTER: &str = "catalogue: register
sources:
  members:
    format: json
    undo: 30d
    as_of: meta.received
    into: person
  lasting: { format: json, as_of: meta.received, into: person }
  letters: { format: json, as_of: meta.received, into: letter }
collections:
  person:
    key: id
    raw: keep
    history: 10
    changes: 30d
    tags: {}
    fields:
      id: { type: text, index: [equal, prefix, contains] }
      name: { type: text, index: [equal, words, contains], compare: true }
      mail: { type: text, unique: true }
      city: { type: text, fold: true, index: equal }
      places: { type: [text], index: equal }
    state: { status: { type: text, seed: \"'active'\" }, note: text }
    transitions: { remark: { args: { note: text }, set: { note: args.note } } }
  letter:
    key: number
    fields: { number: text, to: text, name: { type: text, derive: receiver.name } }
    links: { receiver: { to: person, key: to, create: true } }
";

/// A text that only the erased person has.
const CANARY: &str = "Zyxwvuquark";
/// Their key.
const KEY: &str = "p-qwjxkeyz";

fn person(key: &str, name: &str) -> String {
    json!({ "id": key, "name": name, "mail": format!("{name}@example.org"), "city": name, "places": [name, "somewhere"] }).to_string() + "\n"
}

/// Where the store has a text, in lower case as well.
fn found(sandbox: &Sandbox, text: &str) -> Vec<String> {
    if sandbox.server_url().is_none() {
        let bytes = |end: &str| std::fs::read(sandbox.store().with_extension(end)).unwrap_or_default();
        let has = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text.as_bytes()));
        return ["sqlite", "sqlite-wal"].into_iter().filter(|end| has(&bytes(end))).map(str::to_owned).collect();
    }
    let select = |statement: &str| sandbox.json(&["sql", statement, "--format", "json"]);
    let of_schema = "SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                     WHERE n.nspname = current_schema() AND c.relkind = 'r'";
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut found = Vec::new();
    for row in select(of_schema).as_array().unwrap() {
        let table = row["name"].as_str().unwrap();
        let sql = format!(
            "SELECT count(*) AS rows FROM \"{table}\" t WHERE position(lower('{text}') IN lower(row_to_json(t)::text)) > 0 \
             OR position('{hex}' IN row_to_json(t)::text) > 0"
        );
        if let rows @ 1.. = select(&sql)[0]["rows"].as_i64().unwrap() {
            found.push(format!("{table}: {rows}"));
        }
    }
    found
}

fn filled(sandbox: &Sandbox) {
    let others: String = (0..40).map(|number| person(&format!("p{number}"), &format!("name{number}"))).collect();
    let first = sandbox.write_file("first.ndjson", others.clone() + &person(KEY, CANARY));
    sandbox.import(&[&first, "--source", "members"]);
    // former contributions, a second contributor, a failure that quotes the name, and a letter
    let second = sandbox.write_file("second.ndjson", others + &person(KEY, &format!("{CANARY} the second")));
    sandbox.import(&[&second, "--source", "members"]);
    let again = sandbox.write_file("again.ndjson", person(KEY, &format!("{CANARY} again")).replace("again@", "other@"));
    sandbox.import(&[&again, "--source", "lasting"]);
    let failing = sandbox.write_file("failing.ndjson", format!("{{\"id\":\"{KEY}\",\"name\":[\"{CANARY}\",\"{CANARY}\"]}}\n"));
    sandbox.run(&["import", &failing, "--source", "lasting"]);
    let letters = sandbox.write_file("letters.ndjson", format!("{{\"number\":\"l1\",\"to\":\"{KEY}\"}}\n{{\"number\":\"l2\",\"to\":\"p1\"}}\n"));
    sandbox.import(&[&letters, "--source", "letters"]);
    // a letter that is not read, which happens to have the same key
    let unread = sandbox.write_file("unread.ndjson", format!("{{\"number\":\"{KEY}\",\"to\":[\"p1\",\"p2\"]}}\n"));
    sandbox.run(&["import", &unread, "--source", "letters"]);
    sandbox.ok(&["tag", "create", "known"]);
    sandbox.ok(&["tag", "add", "known", KEY]);
}

#[test]
fn nothing_of_an_erased_record_is_left_and_nothing_brings_it_back() {
    for sandbox in Sandbox::on_each_store(REGISTER) {
        filled(&sandbox);
        let server = Served::new(&sandbox, &[]);
        let headers = [("content-type", "application/json"), ("idempotency-key", "4711")];
        let path = format!("/v1/main/person/{KEY}");
        let body = json!({ "city": format!("{CANARY}ville") }).to_string();
        server.send("PATCH", &path, &headers, body.as_bytes()).expect_json(200);
        server.call("POST", &format!("{path}/remark"), &json!({ "note": format!("{CANARY} was here") })).expect_json(200);
        drop(server);
        sandbox.ok(&["backup", "before.stook"]);
        assert!(!found(&sandbox, CANARY).is_empty() && !found(&sandbox, KEY).is_empty());

        let report = sandbox.json(&["erase", "person", KEY, "--reason", "they asked for it", "--json"]);
        let erased = &report["erased"][0];
        assert_eq!((&erased["existed"], &report["purged"]), (&json!(true), &json!(true)), "{report}");
        assert_eq!(erased["linked"], json!([["letter", "l1"]]), "{report}");
        for trace in ["log_entries", "outcomes", "issues", "changes", "answers", "audit_entries"] {
            assert_ne!(erased["traces"][trace], json!(0), "{trace}: {report}");
        }
        assert_eq!(found(&sandbox, CANARY), Vec::<String>::new());
        assert_eq!((sandbox.troubles(4).len(), sandbox.troubles(6).len()), (0, 1), "what is said of a letter with this key stays");
        sandbox.ok(&["check", "--deep"]);
        assert_eq!(sandbox.records("person").len(), 40);
        assert_eq!(sandbox.get("letter", "l1")["name"], json!(null));

        // later documents, edits, undone jobs and links do not bring it back
        let job = sandbox.import(&[&sandbox.path("second.ndjson").display().to_string(), "--source", "members"]);
        assert!(counts(&job).contains("skipped 1"), "{job}");
        sandbox.ok(&["undo", "2"]);
        let server = Served::new(&sandbox, &[]);
        let refused = server.call("PUT", &path, &json!({ "name": "somebody" })).expect_json(409);
        assert!(refused["detail"].as_str().unwrap().contains("erased"), "{refused}");
        let delivered = server.send("POST", "/v1/main/deliver?source=lasting", &[], person(KEY, CANARY).as_bytes()).expect_json(200);
        assert_eq!((&delivered["counts"]["skipped"], &delivered["records"][0]["outcome"]), (&json!(1), &json!("skipped")), "{delivered}");
        assert_eq!(server.get(&path).status, 404);
        drop(server);
        let letters = sandbox.write_file("more.ndjson", format!("{{\"number\":\"l3\",\"to\":\"{KEY}\"}}\n"));
        sandbox.import(&[&letters, "--source", "letters"]);
        assert_eq!(sandbox.records("person").len(), 40);
        assert_eq!(found(&sandbox, CANARY), Vec::<String>::new());
        sandbox.ok(&["erase", "person", KEY, "--json"]);

        // a backup that was made before is restored, and the erasure made again
        std::fs::write(sandbox.path("erased.json"), sandbox.ok(&["erase", "--list", "--json"])).unwrap();
        let restored = Sandbox::new(REGISTER);
        let (backup, list) = (sandbox.path("before.stook").display().to_string(), sandbox.path("erased.json").display().to_string());
        restored.ok(&["restore", &backup]);
        assert!(!found(&restored, CANARY).is_empty());
        assert_eq!(restored.records("person").len(), 41);
        let report = restored.json(&["erase", "--again", &list, "--json"]);
        assert_eq!(report["erased"][0]["key"], json!(KEY), "{report}");
        assert_eq!(found(&restored, CANARY), Vec::<String>::new());
        restored.ok(&["check", "--deep"]);

        // lifted, it may exist again
        assert_eq!(sandbox.json(&["erase", "person", KEY, "--lift", "--json"]), json!({ "lifted": 1 }));
        sandbox.import(&[&sandbox.path("second.ndjson").display().to_string(), "--source", "members"]);
        assert_eq!(sandbox.records("person").len(), 41);
    }
}

#[test]
fn only_admins_erase_over_http() {
    let sandbox = Sandbox::new(REGISTER);
    filled(&sandbox);
    let token = |role: &str| sandbox.ok(&["token", "create", "--role", role, "--name", role]).trim().to_owned();
    let (admin, writer) = (token("admin"), token("write"));
    let server = Served::new(&sandbox, &[]);
    let path = format!("/v1/main/person/{KEY}?erase=true&reason=asked");
    let send = |token: &str| server.client(Some(token)).send("DELETE", &path, &[], b"");
    assert_eq!(send(&writer).status, 403);
    let report = send(&admin).expect_json(200);
    assert_eq!((&report["existed"], &report["key"]), (&json!(true), &json!(KEY)), "{report}");
    let again = send(&admin).expect_json(200);
    assert_eq!(again["existed"], json!(false), "{again}");
    drop(server);
    // the file has it in unused places until it is rewritten
    sandbox.ok(&["erase", "person", KEY]);
    assert_eq!(found(&sandbox, CANARY), Vec::<String>::new());
}
