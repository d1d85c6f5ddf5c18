//! What is older than a deletion: it stays deleted on every surface, and each says so. What is deleted while another contributor keeps it remains, and
//! each says that, too.

use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};
use stook_catalogue::value::show_timestamp;
use stook_tests::http::{Reply, Served};
use stook_tests::{Sandbox, counts};

const THINGS: &str = "\
catalogue: things
sources:
  list: { format: csv, into: thing, as_of: changed, gone: \"name == 'gone'\", undo: 30d }
collections:
  thing:
    key: id
    fields: { id: text, name: { type: text, index: equal }, changed: timestamp }
    state: { status: { type: text, seed: \"'free'\" } }
    transitions: { take: { set: { status: \"'taken'\" } } }
routes:
  - { put: '/things/{id}', params: { id: text, name: text }, write: [{ put: thing, key: params.id, fields: { name: params.name } }], answer: { key: written.key } }
  - { post: /things, params: { id: text, name: text }, write: [{ create: thing, fields: { id: params.id, name: params.name } }], answer: { key: written.key } }
  - { delete: '/things/{id}', params: { id: text }, write: [{ delete: thing, key: params.id }], answer: { done: 'true' } }
  - { post: '/things/{id}/take', params: { id: text }, write: [{ transition: take, of: thing, key: params.id }], answer: { key: written.key } }
";

/// The time in so many hours.
fn in_hours(hours: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
    show_timestamp(now + hours * 3_600_000_000)
}

fn row(name: &str, changed: &str) -> String {
    format!("id,name,changed\na,{name},{changed}\n")
}

/// The status and what is said.
fn said(reply: &Reply) -> (u16, String) {
    (reply.status, reply.json()["detail"].as_str().unwrap_or_default().to_owned())
}

/// Clocks differ, so a deletion may have a time that is still to come here: what is done meanwhile is older.
#[test]
fn what_is_older_than_a_deletion_stays_deleted_and_every_surface_says_so() {
    for sandbox in Sandbox::on_each_store(THINGS) {
        let deletion = in_hours(12);
        let import = |name: &str, changed: &str| sandbox.import(&[&sandbox.write_file("rows.csv", row(name, changed))]);
        assert_eq!(counts(&import("one", "2024-01-01T00:00:00Z")), "created 1");
        assert_eq!(counts(&import("gone", &deletion)), "deleted 1");
        // a file
        assert_eq!(counts(&import("late", "2024-02-01T00:00:00Z")), "superseded 1");
        let reason = format!("document 1 of job 2 counts instead, as of {deletion}");
        assert_eq!(sandbox.journal(3)[0]["reasons"], json!([reason]));
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let delivered = stook.send("POST", "/v1/main/deliver?source=list", &[], row("late", "2024-03-01T00:00:00Z").as_bytes()).expect_json(200);
        assert!(delivered.to_string().contains("superseded") && delivered.to_string().contains(&reason), "{delivered}");
        let preview = stook.send("POST", "/v1/main/import?source=list&dry_run=true", &[], row("late", "2024-03-01T00:00:00Z").as_bytes());
        assert_eq!(preview.expect_json(200)["counts"]["superseded"], 1);
        // edits and declared routes
        let reason = format!("the thing stays deleted: the deletion by `list` (document 1 of job 2) counts instead, as of {deletion}");
        let named = json!({"name": "edited"});
        let whole = json!({"id": "a", "name": "edited"});
        let refused =
            [("PUT", "/v1/main/thing/a", &named), ("POST", "/v1/main/thing", &whole), ("PUT", "/things/a", &named), ("POST", "/things", &whole)];
        for (method, path, body) in refused {
            assert_eq!(said(&stook.call(method, path, body)), (409, reason.clone()), "{method} {path}");
        }
        // what needs a record finds none
        let missing = [("PATCH", "/v1/main/thing/a"), ("POST", "/v1/main/thing/a/take"), ("POST", "/things/a/take"), ("DELETE", "/v1/main/thing/a")];
        for (method, path) in missing {
            let reply = if method == "DELETE" { stook.send(method, path, &[], b"") } else { stook.call(method, path, &json!({})) };
            assert_eq!(reply.status, 404, "{method} {path}: {}", reply.text());
        }
        assert_eq!(stook.get("/v1/main/thing/a").status, 404);
        assert_eq!(stook.get("/v1/main/query?q=thing").expect_json(200)["rows"], json!([]));
        drop(stook);
        // without the deletion it is there again, and can be edited
        sandbox.ok(&["undo", "2"]);
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        assert_eq!(stook.get("/v1/main/thing/a").expect_json(200)["name"], "late");
        assert_eq!(stook.call("PUT", "/v1/main/thing/a", &named).expect_json(200)["name"], "edited");
        drop(stook);
        // what is newer than a deletion makes it again
        assert_eq!(counts(&import("gone", &in_hours(12))), "deleted 1");
        assert_eq!(counts(&import("back", &in_hours(13))), "created 1");
        assert_eq!(sandbox.records("thing").len(), 1);
        sandbox.assert_sound();
    }
}

const KEPT: &str = "\
catalogue: things
sources:
  staff: { format: csv, into: thing, as_of: meta.received }
collections:
  thing: { key: id, exists: any, fields: { id: text, name: text } }
routes:
  - { delete: '/things/{id}', params: { id: text }, write: [{ delete: thing, key: params.id }], answer: { done: 'true' } }
";

#[test]
fn a_record_that_another_contributor_keeps_says_so_when_it_is_deleted() {
    for sandbox in Sandbox::on_each_store(KEPT) {
        sandbox.import(&[&sandbox.write_file("rows.csv", "id,name\na,one\n"), "--as-of", "2024-01-01"]);
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let reason = "the record remains, because of what `staff` (document 1 of job 1) says as of 2024-01-01T00:00:00Z";
        let deleted = stook.send("DELETE", "/v1/main/thing/a", &[], b"").expect_json(200);
        assert_eq!((&deleted["name"], &deleted["$warnings"]), (&json!("one"), &json!([reason])), "{deleted}");
        let deleted = stook.send("DELETE", "/things/a", &[], b"");
        assert_eq!((deleted.status, deleted.header("stook-warning")), (200, Some(format!("thing a: {reason}").as_str())));
        assert_eq!(stook.get("/v1/main/thing/a").expect_json(200)["name"], "one");
        // nobody else has this one
        stook.call("POST", "/v1/main/thing", &json!({"id": "b", "name": "two"})).expect_json(201);
        let deleted = stook.send("DELETE", "/v1/main/thing/b", &[], b"");
        assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    }
}
