//! The HTTP API through the binary: records, edits, transitions, jobs, tokens, declared routes; both stores where it matters.

use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use stook_sample::datasets::Datasets;
use stook_tests::http::{Reply, Served, url_encoded};
use stook_tests::{LIBRARY, Sandbox, authorities, repository, zstandard};

/// A sandbox of each kind that there is.
fn sandboxes(definition: &str) -> Vec<Sandbox> {
    Sandbox::on_each_store(definition)
}

const THINGS: &str = "
catalogue: things
sources:
  files: { format: json, into: thing, as_of: meta.received }
collections:
  thing:
    key: code
    fields:
      code:  text
      title: { type: text, required: true, index: equal }
      mail:  { type: text, fold: true, unique: true }
      size:  integer
      notes: [text]
      long:  { type: text, derive: \"title + '!'\" }
    state:
      status: { type: text, seed: \"'free'\", index: equal }
      holder: text
      count:  { type: integer, seed: \"0\" }
    transitions:
      take:
        args: { who: { type: text, required: true }, days: { type: integer, default: \"3\", min: 1, max: 9 } }
        refuse:
          - { when: \"status != 'free'\", reason: \"'it is ' + status\" }
          - { when: \"args.who == 'nobody'\", reason: \"'nobody may not'\", code: 403 }
        set: { status: \"'taken'\", holder: args.who, count: \"count + 1\" }
      give_back: { set: { status: \"'free'\", holder: null } }
";

#[test]
fn a_server_whose_store_was_prepared_for_another_definition_is_not_ready_and_says_why() {
    for sandbox in sandboxes(THINGS) {
        let stook = Served::new(&sandbox, &[]);
        stook.call("POST", "/v1/main/thing", &json!({ "code": "a", "title": "A" })).expect_json(201);
        assert_eq!(stook.get("/readyz").status, 200);
        sandbox.write_definition(&THINGS.replace("      notes: [text]\n", "      notes: [text]\n      more: text\n"));
        sandbox.ok(&["prepare"]);
        let problem = stook.get("/readyz").expect_json(503);
        assert!(problem["detail"].as_str().unwrap().contains("the store now holds another definition"), "{problem}");
        stook.call("POST", "/v1/main/thing", &json!({ "code": "b", "title": "B" })).expect_json(503);
        assert_eq!((stook.get("/readyz").status, stook.get("/healthz").status), (503, 200));
        assert_eq!(stook.terminate(), Some(0));
        // started again it is what the catalogue says now
        let stook = Served::new(&sandbox, &[]);
        assert_eq!(stook.get("/readyz").status, 200);
        stook.call("POST", "/v1/main/thing", &json!({ "code": "b", "title": "B", "more": "m" })).expect_json(201);
    }
}

#[test]
fn a_server_whose_workers_fail_is_not_ready_until_they_work_again() {
    let sandbox = Sandbox::new(THINGS);
    let stook = Served::new(&sandbox, &[]);
    stook.call("POST", "/v1/main/thing", &json!({ "code": "a", "title": "A" })).expect_json(201);
    assert_eq!(stook.get("/readyz").status, 200);
    let rename = |from: &str, to: &str| {
        let database = rusqlite::Connection::open(sandbox.store()).unwrap();
        database.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
        database.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).unwrap();
    };
    let wait = |status: u16, detail: &str| {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            let answer = stook.get("/readyz");
            if answer.status == status && answer.text().contains(detail) {
                return;
            }
            assert!(std::time::Instant::now() < until, "not {status} within a minute: {}", answer.text());
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    rename("chunks", "gone");
    wait(503, "the import workers stopped");
    rename("gone", "chunks");
    wait(200, "ready");
    assert_eq!(stook.terminate(), Some(0));
}

#[test]
fn delivered_documents_are_written_at_once_and_their_outcomes_returned() {
    for sandbox in sandboxes(THINGS) {
        let admin = sandbox.ok(&["token", "create", "--role", "admin", "--name", "ann"]).trim().to_owned();
        let reader = sandbox.ok(&["token", "create", "--role", "read"]).trim().to_owned();
        let served = Served::new(&sandbox, &["--workers", "0"]);
        let stook = served.client(Some(&admin));
        let deliver = |query: &str, body: &[u8]| stook.send("POST", &format!("/v1/main/deliver{query}"), &[], body);
        let outcomes = |reply: Reply| -> Vec<String> {
            let delivery = reply.expect_json(200);
            delivery["records"]
                .as_array()
                .unwrap()
                .iter()
                .map(|record| format!("{} {}", record["key"].as_str().unwrap_or("-"), record["outcome"].as_str().unwrap()))
                .collect()
        };
        assert_eq!(outcomes(deliver("", br#"{"code":"a","title":"A","mail":"a@x"}"#)), ["a created"]);
        assert_eq!(stook.get("/v1/main/thing/a").expect_json(200)["title"], "A", "it is there when it is answered");
        assert_eq!(outcomes(deliver("", br#"{"code":"a","title":"A","mail":"a@x"}"#)), ["a unchanged"]);
        assert_eq!(outcomes(deliver("?as_of=2020-01-01T00:00:00Z", br#"{"code":"a","title":"old"}"#)), ["a superseded"]);
        let late = deliver("?as_of=2020-01-01T00:00:00Z", br#"{"code":"a","title":"old"}"#).expect_json(200);
        let reason = late["records"][0]["reason"].as_str().unwrap();
        assert!(reason.starts_with("a document that was delivered without a job counts instead, as of 20"), "{reason}");
        // several, one of them broken, one that takes what another has
        let several = deliver("?source=files", b"{\"code\":\"a\",\"title\":\"B\"}\n{\"title\":\"no code\"}\n{\"code\":\"c\",\"title\":\"C\"}\n")
            .expect_json(200);
        assert_eq!((&several["counts"]["documents"], &several["counts"]["updated"], &several["counts"]["failed"]), (&json!(3), &json!(1), &json!(1)));
        assert_eq!((&several["troubles"][0]["document"], &several["troubles"][0]["offset"]), (&json!(2), &json!(25)), "{several}");
        assert_eq!(outcomes(deliver("", br#"[{"code":"c","title":"1"},{"code":"c","title":"2"}]"#)).len(), 2);
        // nothing went in
        let none = deliver("", br#"{"title":"no code"}"#).expect_json(422);
        assert!(none["errors"][0].as_str().unwrap().starts_with("document 1 at byte 0"), "{none}");
        // `a` has no address any more
        assert_eq!(outcomes(deliver("", br#"{"code":"d","title":"D","mail":"A@X"}"#)), ["d created"]);
        let taken = deliver("", br#"{"code":"e","title":"E","mail":"a@x"}"#).expect_json(422);
        assert!(taken["errors"][0].as_str().unwrap().contains("`mail` must be unique, but record \"d\" already has this value"), "{taken}");
        assert!(deliver("", b"").expect_json(422)["detail"].as_str().unwrap().contains("there are no documents"));
        let too_many: String = (0..1_001).map(|number| format!("{{\"code\":\"m{number}\",\"title\":\"M\"}}\n")).collect();
        assert!(deliver("", too_many.as_bytes()).expect_json(422)["detail"].as_str().unwrap().contains("more than 1000 documents"));
        assert_eq!(stook.get("/v1/main/thing/m1").status, 404);
        assert_eq!(deliver("", &vec![b' '; 2 << 20]).status, 413);
        // a bomb costs itself only
        let bomb = zstandard(&vec![b' '; 20 << 20]);
        assert!(deliver("", &bomb).status == 422);
        let packed = zstandard(br#"{"code":"z","title":"Z"}"#);
        assert_eq!(outcomes(deliver("", &packed)), ["z created"]);
        assert_eq!(deliver("?source=nothing", b"{}").status, 422);
        assert_eq!(deliver("?colour=red", b"{}").status, 400);
        let read_only = served.client(Some(&reader)).send("POST", "/v1/main/deliver", &[], br#"{"code":"r","title":"R"}"#);
        assert_eq!(read_only.status, 403);
        // many at once about the same records: the newest of each stays, and nothing is lost
        let keys: Vec<String> = (0..5).map(|number| format!("s{number}")).collect();
        std::thread::scope(|scope| {
            for caller in 0..4 {
                let (stook, keys) = (&stook, &keys);
                scope.spawn(move || {
                    for turn in 0..10 {
                        let as_of = format!("2021-01-01T00:{caller:02}:{turn:02}Z");
                        let lines: String =
                            keys.iter().map(|key| json!({"code": key, "title": format!("{caller}.{turn}")}).to_string() + "\n").collect();
                        let delivery = stook.send("POST", &format!("/v1/main/deliver?as_of={as_of}"), &[], lines.as_bytes()).expect_json(200);
                        assert_eq!(delivery["counts"]["failed"], 0, "{delivery}");
                    }
                });
            }
        });
        for key in keys {
            assert_eq!(stook.get(&format!("/v1/main/thing/{key}")).expect_json(200)["title"], "3.9");
        }
        assert!(stook.get("/v1/main/jobs").expect_json(200)["jobs"].as_array().unwrap().is_empty(), "no job was made");
    }
}

#[test]
fn records_are_edited_as_contributions_of_the_api() {
    for sandbox in sandboxes(THINGS) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let made = stook.call("POST", "/v1/main/thing", &json!({"code": "a/b", "title": "One", "size": 3}));
        assert_eq!(made.header("location"), Some("/v1/main/thing/a%2Fb"));
        let first = made.header("etag").unwrap().to_owned();
        assert_eq!(
            made.expect_json(201),
            json!({"key": "a/b", "code": "a/b", "title": "One", "size": 3, "long": "One!", "status": "free", "count": 0})
        );
        assert_eq!(stook.call("POST", "/v1/main/thing", &json!({"code": "a/b", "title": "x"})).status, 409);
        for path in ["/v1/main/thing/a%2Fb", "/v1/main/thing?key=a/b", "/v1/main/thing/-?key=a/b"] {
            assert_eq!(stook.get(path).expect_json(200)["title"], "One");
        }
        // conditions
        let patch = |tag: &str, body: &Json| {
            stook.send("PATCH", "/v1/main/thing/a%2Fb", &[("if-match", tag), ("content-type", "application/json")], body.to_string().as_bytes())
        };
        assert_eq!(patch("\"1\"", &json!({"title": "no"})).status, 412);
        let second = patch(&first, &json!({"title": "Two", "size": null}));
        assert_eq!(second.status, 200, "{}", second.text());
        assert!(second.header("etag") != Some(first.as_str()) && second.json().get("size").is_none());
        assert_eq!(patch(&first, &json!({"title": "late"})).status, 412, "the first revision is gone");
        let tag = second.header("etag").unwrap();
        let unchanged = stook.send("GET", "/v1/main/thing/a%2Fb", &[("if-none-match", tag)], b"");
        assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
        // a file says something else; the newest wins, a cleared field stays clear
        let file = stook
            .send("POST", "/v1/main/import?source=files&as_of=2020-01-01T00:00:00Z", &[], br#"{"code":"a/b","title":"Old","size":7,"notes":["n"]}"#)
            .expect_json(202);
        assert_eq!(stook.wait_for_job("main", &file)["state"], "completed");
        let now = stook.get("/v1/main/thing/a%2Fb").expect_json(200);
        assert_eq!((&now["title"], &now["size"], &now["notes"]), (&json!("Two"), &json!(7), &json!(["n"])), "what the API does not say others do");
        let cleared = stook.call("PATCH", "/v1/main/thing/a%2Fb?clear=size", &json!({})).expect_json(200);
        assert_eq!(cleared.get("size"), None);
        let explained = stook.get("/v1/main/thing/a%2Fb/explain").expect_json(200);
        assert_eq!(explained["fields"]["title"]["from"], json!(["api"]));
        assert_eq!(explained["fields"]["title"]["lost"][0]["contributor"], "files");
        // what clears a field has won, and who said something else has not
        let size = &explained["fields"]["size"];
        assert_eq!((&size["from"], &size["lost"][0]["contributor"]), (&json!(["api"]), &json!("files")), "{size}");
        // mistakes, all at once
        let wrong = stook.call("PATCH", "/v1/main/thing/a%2Fb", &json!({"size": "big", "colour": 1, "long": "x", "status": "free"})).expect_json(422);
        assert_eq!(wrong["errors"].as_array().unwrap().len(), 4, "{wrong}");
        assert_eq!(stook.call("PUT", "/v1/main/thing/other", &json!({"code": "a/b", "title": "x"})).status, 409);
        // one record per value
        stook.call("PATCH", "/v1/main/thing/a%2Fb", &json!({"mail": "Ann@x"})).expect_json(200);
        let taken = stook.call("POST", "/v1/main/thing", &json!({"code": "c", "title": "C", "mail": "ANN@X"})).expect_json(409);
        assert_eq!((&taken["field"], &taken["holder"]), (&json!("mail"), &json!("a/b")));
        // gone, shown on request, and back
        assert_eq!(stook.send("DELETE", "/v1/main/thing/a%2Fb", &[], b"").status, 204);
        assert_eq!(stook.get("/v1/main/thing/a%2Fb").status, 404);
        assert_eq!(stook.get("/v1/main/thing/a%2Fb?deleted=true").status, 200);
        assert_eq!(stook.send("DELETE", "/v1/main/thing/a%2Fb", &[], b"").status, 404);
        let back = stook.call("POST", "/v1/main/thing", &json!({"code": "a/b", "title": "Back"}));
        assert!(back.header("etag").unwrap() > tag, "a revision is never given twice");
        back.expect_json(201);
        // many at once
        let looked_up = stook.call("POST", "/v1/main/lookup", &json!({"collection": "thing", "keys": ["none", "a/b"]})).expect_json(200);
        assert_eq!((&looked_up["records"][0], &looked_up["records"][1]["title"]), (&Json::Null, &json!("Back")));
    }
}

/// Patches go inside of an object, one after the other, up to a limit; what would be too much changes nothing.
#[test]
fn objects_are_patched_member_by_member_and_stay_within_limits() {
    let sandbox = Sandbox::new(
        "catalogue: c\nsources:\n  s: { format: json, into: t, as_of: meta.received }\ncollections:\n  t: { key: k, fields: { k: text, more: json } }\n",
    );
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    let client = stook.client(None);
    client.call("POST", "/v1/main/t", &json!({"k": "one", "more": {"first": {"a": 1}}})).expect_json(201);
    let patched = client.call("PATCH", "/v1/main/t/one", &json!({"more": {"first": {"b": 2}, "second": null}})).expect_json(200);
    assert_eq!(patched["more"], json!({"first": {"a": 1, "b": 2}}));
    let long = "x".repeat(900_000);
    let refused = (0..30).find_map(|number| {
        let sent = client.call("PATCH", "/v1/main/t/one", &json!({"more": {format!("m{number}"): long}}));
        (sent.status != 200).then_some((number, sent))
    });
    let (number, sent) = refused.expect("it becomes too long");
    assert_eq!((sent.status, number), (409, 18), "{}", sent.text());
    assert!(sent.text().contains("more: with this patch it has more than 16 MiB"), "{}", sent.text());
    let record = client.get("/v1/main/t/one").expect_json(200);
    assert_eq!((record["more"].as_object().unwrap().len(), &record["more"]["first"]), (19, &json!({"a": 1, "b": 2})));
}

#[test]
fn edits_are_applied_where_their_preconditions_hold() {
    for sandbox in Sandbox::on_each_store(THINGS) {
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let send = |method: &str, condition: (&str, &str), body: &Json| {
            let body = if method == "DELETE" { String::new() } else { body.to_string() };
            stook.send(method, "/v1/main/thing/a", &[condition, ("content-type", "application/json")], body.as_bytes())
        };
        let titled = |title: &str| json!({"title": title});
        // only where there is none
        let first = send("PUT", ("if-none-match", "*"), &titled("One"));
        assert_eq!(first.status, 201, "{}", first.text());
        assert_eq!(send("PUT", ("if-none-match", "*"), &titled("again")).status, 412);
        // only what was read
        let tag = |reply: &Reply| reply.header("etag").unwrap().to_owned();
        let second = send("PUT", ("if-match", &tag(&first)), &titled("Two"));
        assert_eq!(second.status, 200, "{}", second.text());
        assert_eq!(send("PUT", ("if-match", &tag(&first)), &titled("late")).status, 412);
        assert_eq!(send("PUT", ("if-match", "\"nonsense\""), &titled("x")).status, 412);
        assert_eq!(send("DELETE", ("if-match", &tag(&first)), &Json::Null).status, 412);
        assert_eq!(send("DELETE", ("if-none-match", &tag(&second)), &Json::Null).status, 412);
        assert_eq!(stook.get("/v1/main/thing/a").expect_json(200)["title"], "Two");
        // a transition makes another revision, too
        stook.call("POST", "/v1/main/thing/a/take", &json!({"who": "ann"})).expect_json(200);
        assert_eq!(send("DELETE", ("if-match", &tag(&second)), &Json::Null).status, 412);
        let now = stook.get("/v1/main/thing/a");
        assert_eq!(send("DELETE", ("if-match", &format!("\"1\", {}", tag(&now))), &Json::Null).status, 204, "one of several");
        assert_eq!(send("PUT", ("if-match", "*"), &titled("x")).status, 412, "there is none any more");
        assert_eq!(send("DELETE", ("if-match", "*"), &Json::Null).status, 412);
        assert_eq!(send("PUT", ("if-none-match", "*"), &titled("back")).status, 201);
    }
}

#[test]
fn idempotency_keys_are_forgotten_after_a_day() {
    for sandbox in Sandbox::on_each_store(THINGS) {
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        stook.call("POST", "/v1/main/thing", &json!({"code": "a", "title": "A"})).expect_json(201);
        let call = |transition: &str, key: &str| {
            let headers = [("idempotency-key", key), ("content-type", "application/json")];
            stook.send("POST", &format!("/v1/main/thing/a/{transition}"), &headers, br#"{"who":"ann"}"#).status
        };
        let give_back = |key: &str| {
            let headers = [("idempotency-key", key), ("content-type", "application/json")];
            stook.send("POST", "/v1/main/thing/a/give_back", &headers, b"{}").status
        };
        assert_eq!((call("take", "old"), give_back("g")), (200, 200));
        // what is of yesterday goes with the next calls; what is of an hour ago stays
        let hours = |hours: i64| hours * 3_600_000_000;
        sandbox.sql(&format!("UPDATE calls SET made = made - {}", hours(23)));
        assert_eq!((call("take", "new"), give_back("h")), (200, 200));
        assert_eq!(call("take", "old"), 200);
        assert_eq!(stook.get("/v1/main/thing/a").expect_json(200)["count"], 2, "it was not done again");
        sandbox.sql(&format!("UPDATE calls SET made = made - {}", hours(2)));
        for key in ["i", "j"] {
            assert_eq!(give_back(key), 200);
        }
        assert_eq!(call("take", "old"), 200);
        assert_eq!(stook.get("/v1/main/thing/a").expect_json(200)["count"], 3, "it is another call now");
        assert_eq!((give_back("k"), call("take", "new")), (200, 200));
        assert_eq!(stook.get("/v1/main/thing/a").expect_json(200)["count"], 3, "this one was done two hours ago");
    }
}

/// Killed in the middle of edits, transitions and deliveries: what was answered is there, each once, and what is there is whole.
#[test]
fn acknowledged_writes_survive_a_kill() {
    for sandbox in Sandbox::on_each_store(THINGS) {
        const CLIENTS: usize = 6;
        let mut acknowledged: Vec<(usize, usize, usize)> = vec![(0, 0, 0); CLIENTS];
        for round in 0..4 {
            let stook = Served::new(&sandbox, &["--workers", "1"]);
            if round == 0 {
                for client in 0..CLIENTS {
                    stook.call("POST", "/v1/main/thing", &json!({"code": format!("t{client}"), "title": "T"})).expect_json(201);
                }
            }
            let client = stook.client(None);
            acknowledged = std::thread::scope(|scope| {
                let threads: Vec<_> = acknowledged
                    .into_iter()
                    .enumerate()
                    .map(|(client_number, (mut edits, mut takes, mut deliveries))| {
                        let client = client.clone();
                        scope.spawn(move || {
                            let media = ("content-type", "application/json");
                            for number in 0.. {
                                // each says the number of those before it
                                let edit = json!({"title": format!("{}", edits + 1)}).to_string();
                                let done = client.try_send("PATCH", &format!("/v1/main/thing/t{client_number}"), &[media], edit.as_bytes());
                                match done {
                                    Ok(reply) if reply.status == 200 => edits += 1,
                                    Ok(reply) => panic!("{}", reply.text()),
                                    Err(_) => break,
                                }
                                let key = format!("{round} {client_number} {number}");
                                let take = client.try_send(
                                    "POST",
                                    &format!("/v1/main/thing/t{client_number}/take"),
                                    &[media, ("idempotency-key", &key)],
                                    br#"{"who":"ann"}"#,
                                );
                                match take {
                                    // an unanswered call of the round before may have been done
                                    Ok(reply) if matches!(reply.status, 200 | 409) => takes += usize::from(reply.status == 200),
                                    Ok(reply) => panic!("{}", reply.text()),
                                    Err(_) => break,
                                }
                                if client.try_send("POST", &format!("/v1/main/thing/t{client_number}/give_back"), &[media], b"{}").is_err() {
                                    break;
                                }
                                let documents = format!(
                                    "{{\"code\":\"d{client_number}.{deliveries}a\",\"title\":\"D\"}}\n{{\"code\":\"d{client_number}.{deliveries}b\",\"title\":\"D\"}}\n"
                                );
                                match client.try_send("POST", "/v1/main/deliver?source=files", &[], documents.as_bytes()) {
                                    Ok(reply) if reply.status == 200 => deliveries += 1,
                                    Ok(reply) => panic!("{}", reply.text()),
                                    Err(_) => break,
                                }
                            }
                            (edits, takes, deliveries)
                        })
                    })
                    .collect();
                std::thread::sleep(Duration::from_millis(700 + 150 * round));
                drop(stook);
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            sandbox.assert_sound();
            let restarted = Served::new(&sandbox, &["--workers", "0"]);
            for (client_number, (edits, takes, deliveries)) in acknowledged.iter_mut().enumerate() {
                let thing = restarted.get(&format!("/v1/main/thing/t{client_number}")).expect_json(200);
                let title: usize = if *edits == 0 && thing["title"] == "T" { 0 } else { thing["title"].as_str().unwrap().parse().unwrap() };
                assert!((*edits..=*edits + 1).contains(&title), "{edits} edits were answered: {thing}");
                let count = thing["count"].as_u64().unwrap() as usize;
                assert!((*takes..=*takes + 1).contains(&count), "{takes} transitions were answered: {thing}");
                let (mut logged, mut page) = (0, String::new());
                loop {
                    let log = restarted.get(&format!("/v1/main/thing/t{client_number}/log?limit=1000{page}")).expect_json(200);
                    logged += log["entries"].as_array().unwrap().iter().filter(|entry| entry["transition"] == "take").count();
                    let Some(next) = log["next"].as_i64() else { break };
                    page = format!("&before={next}");
                }
                assert_eq!(logged, count, "each is in the log once");
                // both of a delivery or none
                let delivered = restarted
                    .get(&format!("/v1/main/query?q={}&limit=10000", url_encoded(&format!("thing code=d{client_number}.*"))))
                    .expect_json(200);
                let delivered_count = delivered["rows"].as_array().unwrap().len();
                assert!(
                    delivered_count == 2 * *deliveries || delivered_count == 2 * (*deliveries + 1),
                    "{deliveries} deliveries were answered, {delivered_count} records"
                );
                (*edits, *takes, *deliveries) = (title, count, delivered_count / 2);
            }
        }
        assert!(acknowledged.iter().map(|(edits, takes, deliveries)| edits + takes + deliveries).sum::<usize>() > 60, "{acknowledged:?}");
    }
}

#[test]
fn of_edits_at_once_every_answered_one_is_in_the_history() {
    for sandbox in sandboxes(THINGS) {
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        stook.call("POST", "/v1/main/thing", &json!({"code": "a", "title": "0"})).expect_json(201);
        // compare and set: every success saw the one before
        let wins: usize = std::thread::scope(|scope| {
            let client = stook.client(None);
            let threads: Vec<_> = (0..8)
                .map(|thread| {
                    let client = client.clone();
                    scope.spawn(move || {
                        let mut wins = 0;
                        for round in 0..25 {
                            let seen = client.get("/v1/main/thing/a");
                            let body = json!({"size": seen.json()["size"].as_i64().unwrap_or(0) + 1, "title": format!("{thread}.{round}")});
                            let headers = [("if-match", seen.header("etag").unwrap()), ("content-type", "application/json")];
                            wins += usize::from(client.send("PATCH", "/v1/main/thing/a", &headers, body.to_string().as_bytes()).status == 200);
                        }
                        wins
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(stook.get("/v1/main/thing/a").expect_json(200)["size"], json!(wins));
        assert!(wins >= 25);
    }
}

#[test]
fn transitions_come_one_after_the_other_and_are_logged() {
    for sandbox in sandboxes(THINGS) {
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        stook.call("POST", "/v1/main/thing", &json!({"code": "a", "title": "A"})).expect_json(201);
        let take = |patron: &str| stook.call("POST", "/v1/main/thing/a/take", &json!({"who": patron}));
        let winners: Vec<u16> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..12).map(|winner| scope.spawn(move || take(&format!("w{winner}")).status)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(winners.iter().filter(|status| **status == 200).count(), 1, "{winners:?}");
        assert!(winners.iter().all(|status| matches!(status, 200 | 409)));
        // every reason that holds
        let refused = take("nobody").expect_json(409);
        assert_eq!(refused["errors"], json!(["it is taken", "nobody may not"]));
        assert_eq!(stook.call("POST", "/v1/main/thing/a/give_back", &json!({})).status, 200);
        assert_eq!(take("nobody").status, 403);
        for wrong in [json!({}), json!({"who": 1}), json!({"who": "x", "days": 10}), json!({"who": "x", "why": "y"})] {
            assert_eq!(stook.call("POST", "/v1/main/thing/a/take", &wrong).status, 422, "{wrong}");
        }
        assert_eq!(stook.call("POST", "/v1/main/thing/none/take", &json!({"who": "x"})).status, 404);
        assert_eq!(stook.call("POST", "/v1/main/thing/a/steal", &json!({})).status, 404);
        let log = stook.get("/v1/main/thing/a/log").expect_json(200);
        let done: Vec<&str> = log["entries"].as_array().unwrap().iter().map(|entry| entry["transition"].as_str().unwrap()).collect();
        assert_eq!(done, ["give_back", "take"]);
        assert_eq!(log["entries"][1]["change"]["before"], json!({"status": "free", "holder": null, "count": 0}));
        let (winner, transition_time) = (winners.iter().position(|status| *status == 200).unwrap(), log["entries"][1]["at"].as_str().unwrap());
        assert_eq!(log["entries"][1]["change"]["after"], json!({"status": "taken", "holder": format!("w{winner}"), "count": 1}));
        assert!(log["entries"][1]["caller"] == "anonymous" && transition_time.starts_with("20") && transition_time.ends_with('Z'), "{log}");
        // what may be done now is said with the record
        let explained = stook.get("/v1/main/thing/a/explain").expect_json(200);
        assert_eq!(explained["transitions"]["take"], json!([]), "{explained}");
        // an import does not touch state, nor does a deletion forget it
        stook.call("POST", "/v1/main/thing/a/take", &json!({"who": "ann"})).expect_json(200);
        let explained = stook.get("/v1/main/thing/a/explain").expect_json(200);
        assert_eq!(explained["transitions"]["take"], json!(["it is taken"]), "{explained}");
        stook.call("PATCH", "/v1/main/thing/a", &json!({"title": "B"})).expect_json(200);
        assert_eq!(stook.send("DELETE", "/v1/main/thing/a", &[], b"").status, 204);
        assert_eq!(stook.call("POST", "/v1/main/thing/a/give_back", &json!({})).status, 404);
        let back = stook.call("PUT", "/v1/main/thing/a", &json!({"title": "C"})).expect_json(201);
        assert_eq!((&back["status"], &back["holder"], &back["count"]), (&json!("taken"), &json!("ann"), &json!(2)));
    }
}

#[test]
fn changes_of_golden_values_are_logged_where_the_collection_says_so() {
    for sandbox in sandboxes(&THINGS.replace("    key: code\n", "    key: code\n    history: 3\n")) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let import = |as_of: &str, documents: &str| {
            let job =
                stook.send("POST", &format!("/v1/main/import?source=files&as_of={as_of}T00:00:00Z"), &[], documents.as_bytes()).expect_json(202);
            assert_eq!(stook.wait_for_job("main", &job)["state"], "completed");
        };
        let log = || stook.get("/v1/main/thing/a/log").expect_json(200)["entries"].as_array().unwrap().clone();
        import("2020-01-01", "{\"code\":\"a\",\"title\":\"One\",\"size\":1}\n{\"code\":\"b\",\"title\":\"B\"}");
        assert_eq!(log(), Vec::<Json>::new(), "a record that comes into being has no history");
        // only what changed; an older document and the same content change nothing
        import("2020-01-03", "{\"code\":\"a\",\"title\":\"One\",\"size\":2}\n{\"code\":\"b\",\"title\":\"B\"}");
        import("2020-01-02", "{\"code\":\"a\",\"title\":\"Late\"}");
        let first = log();
        assert_eq!((first.len(), &first[0]["change"]), (1, &json!({"before": {"size": 1}, "after": {"size": 2}})));
        assert_eq!((&first[0]["transition"], &first[0]["caller"]), (&Json::Null, &json!("job 2")));
        assert_eq!(stook.get("/v1/main/thing/b/log").expect_json(200)["entries"], json!([]));
        stook.call("PATCH", "/v1/main/thing/a", &json!({"title": "Two"})).expect_json(200);
        stook.call("POST", "/v1/main/thing/a/take", &json!({"who": "ann"})).expect_json(200);
        assert_eq!(stook.send("DELETE", "/v1/main/thing/a", &[], b"").status, 204);
        sandbox.ok(&["withdraw", "api", "--collection", "thing", "--key", "a"]);
        // the transition is kept for ever, of the others the last three
        let entries = log();
        let seen: Vec<(&Json, &Json)> = entries.iter().map(|entry| (&entry["transition"], &entry["change"])).collect();
        let all = json!({"code": "a", "title": "Two", "size": 2, "long": "Two!"});
        let back = json!({"code": "a", "title": "One", "size": 2, "long": "One!"});
        assert_eq!(entries[0]["caller"], "withdrawal of api");
        assert_eq!(seen[0], (&Json::Null, &json!({"before": null, "after": back})));
        assert_eq!(seen[1], (&Json::Null, &json!({"before": all, "after": null})));
        assert_eq!(seen[2].0, "take");
        assert_eq!(seen[3], (&Json::Null, &json!({"before": {"title": "One", "long": "One!"}, "after": {"title": "Two", "long": "Two!"}})));
        assert_eq!(seen.len(), 4);
        import("2021-01-01", "{\"code\":\"a\",\"title\":\"Three\"}");
        assert_eq!(log().len(), 4);
    }
}

#[test]
fn a_call_with_an_idempotency_key_is_done_once() {
    for sandbox in sandboxes(THINGS) {
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        stook.call("POST", "/v1/main/thing", &json!({"code": "a", "title": "A"})).expect_json(201);
        let take = |key: &str, who: &str| {
            let headers = [("idempotency-key", key), ("content-type", "application/json")];
            stook.send("POST", "/v1/main/thing/a/take", &headers, json!({"who": who}).to_string().as_bytes())
        };
        let together = |call: &(dyn Fn() -> Reply + Sync)| -> HashSet<(u16, String)> {
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(call)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).map(|reply| (reply.status, reply.text())).collect()
            })
        };
        for round in 0..20 {
            let answers = together(&|| take(&format!("round {round}"), "ann"));
            assert_eq!(answers.len(), 1, "all are told the same: {answers:?}");
            stook.call("POST", "/v1/main/thing/a/give_back", &json!({})).expect_json(200);
        }
        assert_eq!(take("k1", "ann").status, 200);
        assert_eq!(take("k1", "ann").status, 200, "also later, when it would be refused");
        assert_eq!(take("k1", "bob").status, 422, "another request");
        assert_eq!(take("k2", "bob").status, 409);
        stook.call("POST", "/v1/main/thing/a/give_back", &json!({})).expect_json(200);
        assert_eq!(take("k2", "bob").status, 200, "a refusal is not kept");
        assert_eq!(stook.get("/v1/main/thing/a").expect_json(200)["count"], 22);
        // a retried pick takes no second record
        for code in ["b", "c"] {
            stook.call("POST", "/v1/main/thing", &json!({"code": code, "title": "free"})).expect_json(201);
        }
        let pick = |key: &str| {
            let body = json!({"query": "thing title=free", "transition": "take", "args": {"who": "eve"}});
            let headers = [("idempotency-key", key), ("content-type", "application/json")];
            stook.send("POST", "/v1/main/pick", &headers, body.to_string().as_bytes())
        };
        // also of the last one
        for (key, free_count) in [("p", 1), ("q", 0)] {
            let answers = together(&|| pick(key));
            assert!(answers.len() == 1 && answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
            let free = stook.get("/v1/main/query?q=thing%20title=free%20status=free").expect_json(200);
            assert_eq!(free["rows"].as_array().unwrap().len(), free_count);
        }
        assert_eq!(pick("r").status, 409);
    }
}

#[test]
fn two_callers_never_pick_the_same_record() {
    for sandbox in sandboxes(THINGS) {
        let things: String = (0..300).map(|number| json!({"code": format!("t{number:03}"), "title": "pool"}).to_string() + "\n").collect();
        sandbox.import(&[&sandbox.write_file("things.ndjson", things)]);
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let body = json!({"query": "thing title=pool status=free", "transition": "take", "args": {"who": "x"}});
        let picked: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..12)
                .map(|_| {
                    let (client, body) = (stook.client(None), &body);
                    scope.spawn(move || {
                        let mut picked = Vec::new();
                        loop {
                            let reply = client.call("POST", "/v1/main/pick", body);
                            if reply.status == 409 {
                                return picked;
                            }
                            picked.push(reply.expect_json(200)["key"].as_str().unwrap().to_owned());
                        }
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let different: HashSet<&String> = picked.iter().collect();
        assert_eq!((picked.len(), different.len()), (300, 300));
    }
}

#[test]
fn queries_are_paged_counted_and_explained() {
    for sandbox in sandboxes(THINGS) {
        let things: String = (0..250)
            .map(|number| json!({"code": format!("t{number:03}"), "title": format!("g{}", number % 5), "size": number}).to_string() + "\n")
            .collect();
        sandbox.import(&[&sandbox.write_file("things.ndjson", things)]);
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let page = stook.get("/v1/main/query?q=thing%20title=g3%20|%20sort%20size-%20|%20grep%20code,size&limit=2&idx=1&total=true").expect_json(200);
        assert_eq!(
            page,
            json!({"collection": "thing", "columns": ["code", "size"], "rows": [{"code": "t243", "size": 243}, {"code": "t238", "size": 238}], "total": 50})
        );
        let posted = stook.call("POST", "/v1/main/query", &json!({"q": "thing title=g3 | sum(size), count(code)"})).expect_json(200);
        assert_eq!(posted["rows"], json!([{"sum(size)": (0..250).filter(|n| n % 5 == 3).sum::<i64>(), "count(code)": 50}]));
        // all records by key, page after page
        let (mut after, mut keys) = (String::new(), Vec::new());
        loop {
            let page = stook.get(&format!("/v1/main/query?q=thing%20|%20grep%20key&limit=100&after={after}")).expect_json(200);
            let page_keys: Vec<String> = page["rows"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect();
            let Some(last) = page_keys.last() else { break };
            after.clone_from(last);
            keys.extend(page_keys);
        }
        assert_eq!(keys, (0..250).map(|number| format!("t{number:03}")).collect::<Vec<_>>());
        let csv = stook.get("/v1/main/query?q=thing%20code=t001%20|%20grep%20code,title&format=csv");
        assert_eq!((csv.text().as_str(), csv.status), ("code,title\r\nt001,g1\r\n", 200));
        let groups = "/v1/main/query?q=thing%20code%3Ct003%20|%20count(key)%20by%20title,code%20|%20sort%20code-&limit=2";
        let found = stook.get(groups).expect_json(200);
        let row = |number: usize| json!({ "title": format!("g{number}"), "code": format!("t00{number}"), "count(key)": 1 });
        let expected = json!({ "columns": ["title", "code", "count(key)"], "grouped": ["title", "code"], "rows": [row(2), row(1)], "total": 3 });
        assert_eq!(found, expected);
        assert_eq!(stook.get(&format!("{groups}&format=csv")).text(), "title,code,count(key)\r\ng2,t002,1\r\ng1,t001,1\r\n");
        assert_eq!(stook.get(&format!("{groups}&format=ndjson&idx=1")).text().lines().count(), 2);
        let exported = stook.get("/v1/main/export?q=thing%20|%20count(key)%20by%20code&format=csv").text();
        assert_eq!(exported.lines().count(), 251);
        let by_source = stook.get(&format!("{groups}&by_source=true")).expect_json(400);
        assert!(by_source["detail"].as_str().unwrap().contains("leave out `by`"), "{by_source}");
        assert_eq!(stook.get("/v1/main/query?q=thing%20code=t001%20|%20count(key)&format=csv").text(), "count(key)\r\n1\r\n");
        assert_eq!(stook.get("/v1/main/export/thing").text().lines().count(), 250);
        assert!(stook.get("/v1/main/query?q=thing%20title=g3&explain=true").expect_json(200)["explain"][0].as_str().unwrap().contains("index"));
        let mistake = stook.get("/v1/main/query?q=thing%20titel=g3").expect_json(400);
        assert!(mistake["detail"].as_str().unwrap().contains("did you mean `title`") && mistake["at"] == json!(6), "{mistake}");
    }
}

const PLACES: &str = "
catalogue: places
sources: { files: { format: json, into: place, as_of: meta.received } }
collections:
  place:
    key: id
    fields: { id: text, area: { type: geometry, index: intersects } }
    state: { now: geometry }
    transitions: { move: { args: { to: { type: geometry, required: true } }, set: { now: args.to } } }
";

/// Golden values have an index of boxes, state has none; both are found exactly.
#[test]
fn geometries_are_found_by_where_they_lie() {
    for sandbox in sandboxes(PLACES) {
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let square = |west: i64, south: i64| {
            let (east, north) = (west + 4, south + 4);
            format!("POLYGON(({west} {south}, {east} {south}, {east} {north}, {west} {north}, {west} {south}))")
        };
        let frame = "POLYGON((-10 -10, 40 -10, 40 40, -10 40, -10 -10), (-9 -9, -9 39, 39 39, 39 -9, -9 -9))";
        for (id, area) in
            [("near", square(0, 0)), ("next", square(4, 0)), ("far", square(20, 20)), ("date line", square(178, 0)), ("frame", frame.into())]
        {
            stook.call("POST", "/v1/main/place", &json!({ "id": id, "area": area })).expect_json(201);
            let path = format!("/v1/main/place/{}/move", url_encoded(id));
            stook.call("POST", &path, &json!({ "to": area })).expect_json(200);
        }
        let found = |question: &str| {
            let path = format!("/v1/main/query?q={}&total=true", url_encoded(&format!("{question} | grep id")));
            let page = stook.get(&path).expect_json(200);
            let ids: Vec<String> = page["rows"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
            assert_eq!(page["total"], ids.len(), "{question}");
            ids.join(", ")
        };
        for (condition, wanted) in [
            // a common boundary is enough; a box around the frame has all of them, the frame has none
            ("intersects bbox(1, 1, 4, 2)", "near, next"),
            ("within bbox(-1, -1, 8, 8)", "near, next"),
            ("intersects bbox(-11, 0, -8, 1)", "frame"),
            ("intersects 'POINT(22 22)'", "far"),
            ("intersects bbox(179, 1, -179, 2)", "date line"),
            ("within bbox(-180, -90, 180, 90)", "date line, far, frame, near, next"),
            ("intersects bbox(100, 50, 101, 51)", ""),
        ] {
            assert_eq!(found(&format!("place area {condition}")), wanted, "{condition}");
            assert_eq!(found(&format!("place now {condition}")), wanted, "{condition}");
        }
        assert_eq!(found("place area intersects bbox(1, 1, 4, 2) now intersects bbox(7, 1, 8, 2)"), "next");
        // what has moved is found where it is, what is deleted nowhere
        stook.call("POST", "/v1/main/place/near/move", &json!({ "to": "POINT(60 60)" })).expect_json(200);
        stook.call("PATCH", "/v1/main/place/next", &json!({ "area": "POINT(60 60)" })).expect_json(200);
        assert_eq!((found("place now intersects bbox(1, 1, 4, 2)"), found("place area intersects bbox(1, 1, 4, 2)")), ("next".into(), "near".into()));
        assert_eq!((found("place now within bbox(59, 59, 61, 61)"), found("place area within bbox(59, 59, 61, 61)")), ("near".into(), "next".into()));
        let question = url_encoded("place area intersects bbox(60, 60, 60, 60) | grep id, area");
        let rows = stook.get(&format!("/v1/main/query?q={question}")).expect_json(200)["rows"].clone();
        assert_eq!(rows, json!([{ "id": "next", "area": { "type": "Point", "coordinates": [60.0, 60.0] } }]));
        assert_eq!(stook.get(&format!("/v1/main/query?q={question}&format=csv")).text(), "id,area\r\nnext,POINT(60 60)\r\n");
        let mistake = stook.get(&format!("/v1/main/query?q={}", url_encoded("place area intersect bbox(1, 1, 2, 2)"))).expect_json(400);
        assert!(mistake["detail"].as_str().unwrap().contains("did you mean `intersects`"), "{mistake}");
        stook.call("POST", "/v1/main/place/near/move", &json!({ "to": "POINT(1 95)" })).expect_json(422);
    }
}

#[test]
fn an_export_as_marc_that_leaves_something_out_is_refused_and_can_list_it() {
    let definition = "catalogue: c\nsources:\n  s: { format: marc, as_of: meta.received, feeds: [ { into: t, map: { k: '001' } } ] }\n\
                      collections:\n  t: { key: k, raw: keep, fields: { k: text } }\n";
    for sandbox in sandboxes(definition) {
        // ISO 2709 has 9 999 bytes for a field, MARCXML has no limit
        let record = |key: &str, title: &str| {
            format!(
                "<record><leader>00000nam a2200000   4500</leader><controlfield tag=\"001\">{key}</controlfield>\
                 <datafield tag=\"245\" ind1=\" \" ind2=\" \"><subfield code=\"a\">{title}</subfield></datafield></record>"
            )
        };
        let records = [record("a", "short"), record("b", &"long ".repeat(30_000)), record("c", "short")].concat();
        let head = "<collection xmlns=\"http://www.loc.gov/MARC21/slim\">";
        sandbox.import(&[&sandbox.write_file("names.xml", format!("{head}{records}</collection>"))]);
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let refused = stook.get("/v1/main/export/t?format=marc").expect_json(409);
        assert!(refused["detail"].as_str().unwrap().contains("0 records are changed and 1 left out"), "{refused}");
        assert!(refused["errors"][0].as_str().unwrap().starts_with("left out: b: field 245 is too long"), "{refused}");
        let rest = stook.get("/v1/main/export/t?format=marc&lossy=true");
        assert_eq!((rest.status, rest.body.iter().filter(|byte| **byte == 0x1d).count()), (200, 2));
        let report: Vec<Json> = stook.get("/v1/main/export/t?format=marc&report=true").text().lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!((&report[0]["key"], &report[0]["outcome"]), (&json!("b"), &json!("left out")), "{report:?}");
        assert!(report[0]["reason"].as_str().unwrap().contains("too long for ISO 2709"), "{report:?}");
        assert_eq!(stook.get("/v1/main/export/t?format=marcxml").text().matches("<record").count(), 3);
        assert_eq!(stook.get("/v1/main/export/t?format=marcxml&report=true").text(), "");
    }
}

#[test]
fn documents_know_the_name_of_what_was_uploaded() {
    let definition = "catalogue: c\nsources:\n  s: { format: csv, as_of: meta.received, feeds: [ { into: t, map: { k: k, of: { expr: meta.name } } } ] }\n\
                      collections:\n  t: { key: k, fields: { k: text, of: text } }\n";
    for sandbox in sandboxes(definition) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let job = stook.send("POST", "/v1/main/import?name=shelf%2Fthird.csv", &[], b"k\na\n").expect_json(202);
        assert_eq!(stook.wait_for_job("main", &job)["files"][0]["name"], "upload:shelf/third.csv");
        assert_eq!(stook.get("/v1/main/t/a").expect_json(200)["of"], "third.csv");
    }
}

#[test]
fn uploads_become_jobs_that_can_be_watched_and_cancelled() {
    for sandbox in sandboxes(LIBRARY) {
        std::fs::create_dir_all(sandbox.path("in/main")).unwrap();
        std::fs::create_dir(sandbox.path("in/other")).unwrap();
        std::fs::write(sandbox.path("in/main/few.mrc"), authorities(20, 3, 900_000)).unwrap();
        std::fs::write(sandbox.path("in/secret.mrc"), authorities(1, 4, 990_000)).unwrap();
        std::fs::write(sandbox.path("in/other/secret.mrc"), authorities(1, 4, 990_000)).unwrap();
        std::os::unix::fs::symlink(sandbox.path("in/secret.mrc"), sandbox.path("in/main/link.mrc")).unwrap();
        let files = sandbox.path("in").display().to_string();
        let stook = Served::new(&sandbox, &["--workers", "1", "--files", &files]);
        // as it comes, and compressed
        for (bytes, first) in [(authorities(3_000, 1, 1), 1), (stook_tests::gzip(&authorities(2_500, 1, 100_001)), 2)] {
            let job = stook.send("POST", "/v1/main/import?name=names&source=loc", &[], &bytes).expect_json(202);
            let ended = stook.wait_for_job("main", &job);
            assert_eq!((&ended["state"], &ended["counts"]["failed"]), (&json!("completed"), &json!(0)), "{first}: {ended}");
        }
        assert_eq!(stook.get("/v1/main/query?q=authority%20|%20count(key)").expect_json(200)["rows"][0]["count(key)"], 5_500);
        // what an import would do of the first thousand, which is nothing here
        let before = stook.get("/v1/main/jobs").expect_json(200);
        let seen = stook.send("POST", "/v1/main/import?source=loc&dry_run=true&name=a%2Fb", &[], &authorities(2_000, 1, 1)).expect_json(200);
        let documents = seen["counts"]["documents"].as_u64().unwrap();
        assert!((1_000..2_000).contains(&documents) && seen["counts"]["unchanged"] == documents, "{seen}");
        let seen = stook.send("POST", "/v1/main/import?source=holdings&dry_run=true", &[], b"barcode,lccn\nb1\nb2,x\n").expect_json(200);
        assert_eq!((&seen["counts"]["failed"], &seen["counts"]["created"]), (&json!(1), &json!(1)), "{seen}");
        assert!(seen["troubles"][0]["reason"].is_string() && stook.get("/v1/main/jobs").expect_json(200) == before, "{seen}");
        assert_eq!(stook.send("POST", "/v1/main/import?path=few.mrc&source=loc&dry_run=true", &[], b"").expect_json(200)["counts"]["created"], 20);
        // the journal in pages
        let (mut after, mut lines) = (0, 0);
        loop {
            let page = stook.get(&format!("/v1/main/jobs/1/journal?limit=700&after={after}")).expect_json(200);
            lines += page["entries"].as_array().unwrap().len();
            let Some(next) = page["next"].as_u64() else { break };
            after = next;
        }
        assert_eq!(lines, 3_000);
        // progress of one that runs, until it has ended
        let job = stook.send("POST", "/v1/main/import?name=more&source=loc", &[], &authorities(20_000, 7, 400_001)).expect_json(202);
        let watched = stook.get(&format!("/v1/main/jobs/{}/events", job["id"])).text();
        let numbers: Vec<u64> = watched
            .split("\n\n")
            .filter_map(|event| event.split_once("data: "))
            .map(|(_, data)| serde_json::from_str::<Json>(data).unwrap()["documents"].as_u64().unwrap())
            .collect();
        assert!(numbers.is_sorted() && numbers.last() == Some(&20_000), "{watched}");
        assert!(watched.contains("event: progress") && watched.trim_end().rsplit("event: ").next().unwrap().starts_with("ended"), "{watched}");
        stook.call("POST", &format!("/v1/main/jobs/{}/cancel", job["id"]), &json!({})).expect_json(409);
        let events = stook.get("/v1/main/jobs/1/events");
        assert!(events.text().starts_with("event: ended\ndata: {") && events.header("content-type") == Some("text/event-stream"));
        // a file of the tenant's folder, and none beside it
        let job = stook.send("POST", "/v1/main/import?path=few.mrc&source=loc", &[], b"").expect_json(202);
        assert_eq!(stook.wait_for_job("main", &job)["counts"]["created"], 20);
        for outside in ["../secret.mrc", "../other/secret.mrc", "other/secret.mrc", "/etc/passwd", "link.mrc", "none.mrc", "%2e%2e/secret.mrc", "."] {
            assert_eq!(stook.send("POST", &format!("/v1/main/import?path={outside}&source=loc"), &[], b"").status, 404, "{outside}");
        }
        // what is no such file, and what ends early
        assert_eq!(stook.send("POST", "/v1/main/import?source=loc", &[], b"barcode,lccn\nb1,x\n").status, 422);
        let mut cut = std::net::TcpStream::connect(stook.address()).unwrap();
        let part = &authorities(3_000, 9, 700_001)[..1_500_000];
        write!(cut, "POST /v1/main/import?source=loc&name=cut HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999999\r\n\r\n").unwrap();
        cut.write_all(part).unwrap();
        cut.flush().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        drop(cut);
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let newest = stook.get("/v1/main/jobs?limit=1").expect_json(200)["jobs"][0].clone();
            if newest["files"][0]["name"] == "upload:cut" && newest["state"] == "failed" {
                break;
            }
            assert!(Instant::now() < deadline, "{newest}");
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(stook);
        // nobody works: a job waits, and goes
        let idle = Served::new(&sandbox, &["--workers", "0"]);
        let job = idle.send("POST", "/v1/main/import?source=loc", &[], &authorities(2_000, 5, 300_001)).expect_json(202);
        let path = format!("/v1/main/jobs/{}", job["id"]);
        let chunks = idle.get(&format!("{path}/chunks")).expect_json(200)["chunks"].as_array().unwrap().clone();
        assert!(chunks.len() > 1 && chunks.iter().all(|chunk| chunk["state"] == "waiting"));
        assert_eq!(chunks.iter().map(|chunk| chunk["documents"].as_u64().unwrap()).sum::<u64>(), 2_000);
        assert_eq!(idle.call("POST", &format!("{path}/cancel"), &json!({})).expect_json(200)["state"], "cancelled");
        assert_eq!(idle.call("POST", &format!("{path}/cancel"), &json!({})).status, 409);
        assert_eq!(idle.get("/v1/main/jobs/999").status, 404);
    }
}

#[test]
fn tokens_say_who_calls_and_what_is_allowed() {
    let sandbox = Sandbox::new(THINGS);
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    stook.call("POST", "/v1/main/thing", &json!({"code": "a", "title": "A"})).expect_json(201);
    // a page of somebody else in a browser on this machine is not this machine
    assert_eq!(stook.send("GET", "/v1/main/thing/a", &[("host", "evil.example")], b"").status, 401);
    assert_eq!(stook.send("GET", "/v1/main/thing/a", &[("origin", "http://evil.example")], b"").status, 401);
    assert_eq!(stook.get("/v1/other/thing/a").status, 404, "without a token there is one tenant");
    let token = |role: &str, tenant: &str| {
        let made: Json =
            serde_json::from_str(&sandbox.ok(&["token", "create", "--role", role, "--tenant", tenant, "--name", role, "--json"])).unwrap();
        made["token"].as_str().unwrap().to_owned()
    };
    let (read, write, admin, every) = (token("read", "main"), token("write", "main"), token("admin", "main"), token("admin", "*"));
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(stook.get("/v1/main/thing/a").status, 401, "now that there are tokens, one is needed");
    assert_eq!(stook.get("/healthz").status, 200);
    let of = |token: &str| stook.client(Some(token));
    assert_eq!(of(&read).get("/v1/main/thing/a").status, 200);
    for (method, path, body) in [
        ("POST", "/v1/main/thing", json!({"code": "b", "title": "B"})),
        ("PATCH", "/v1/main/thing/a", json!({"title": "B"})),
        ("POST", "/v1/main/thing/a/take", json!({"who": "x"})),
        ("POST", "/v1/main/pick", json!({"query": "thing", "transition": "give_back"})),
        ("POST", "/v1/main/import?source=files", json!({})),
        ("POST", "/v1/main/tokens", json!({"role": "admin", "name": "x"})),
    ] {
        assert_eq!(of(&read).call(method, path, &body).status, 403, "{method} {path}");
    }
    assert_eq!(of(&write).call("PATCH", "/v1/main/thing/a", &json!({"title": "B"})).status, 200);
    assert_eq!(of(&write).get("/v1/main/tokens").status, 403);
    assert_eq!(of(&admin).get("/v1/other/thing/a").status, 404);
    assert_eq!(of(&every).call("POST", "/v1/other/thing", &json!({"code": "a", "title": "theirs"})).status, 201);
    // as Basic
    let basic = |secret: &str| {
        let credentials = base64(format!("anybody:{secret}").as_bytes());
        stook.client(None).send("GET", "/v1/main/thing/a", &[("authorization", &format!("Basic {credentials}"))], b"").status
    };
    assert_eq!((basic(&read), basic("wrong")), (200, 401));
    // made and revoked by the API: at once
    let made = of(&admin).call("POST", "/v1/main/tokens", &json!({"role": "read", "name": "short"})).expect_json(201);
    let secret = made["token"].as_str().unwrap();
    assert_eq!(of(secret).get("/v1/main/thing/a").status, 200);
    let listed = of(&admin).get("/v1/main/tokens").text();
    assert!(listed.contains("\"short\"") && !listed.contains(secret));
    assert_eq!(of(&admin).send("DELETE", &format!("/v1/main/tokens/{}", made["id"]), &[], b"").status, 204);
    assert_eq!(of(secret).get("/v1/main/thing/a").status, 401);
    // taking back the last one opens nothing
    for token in sandbox.json(&["token", "ls", "--json"]).as_array().unwrap() {
        sandbox.ok(&["token", "revoke", &token["id"].to_string()]);
    }
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!((of(&admin).get("/v1/main/thing/a").status, stook.client(None).get("/v1/main/thing/a").status), (401, 401));
    let file = std::fs::read(sandbox.store()).unwrap();
    assert!(!file.windows(secret.len()).any(|bytes| bytes == secret.as_bytes()), "the secret is not stored");
}

#[test]
fn tokens_expire_are_rotated_and_changed_in_a_running_server() {
    for sandbox in sandboxes(THINGS) {
        let (admin, timed) = (
            sandbox.ok(&["token", "create", "--role", "admin"]).trim().to_owned(),
            sandbox.ok(&["token", "create", "--role", "read", "--expires", "25s"]).trim().to_owned(),
        );
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let of = |token: &str| stook.client(Some(token));
        let ask = |token: &str| of(token).get("/v1/main/query?q=thing");
        assert_eq!(ask(&timed).status, 200);
        // the command line, in a running server: another role, then another secret with and without an overlap
        let robot = sandbox.ok(&["token", "create", "--role", "read"]).trim().to_owned();
        sandbox.ok(&["token", "change", "3", "--role", "write", "--name", "robot"]);
        let second = sandbox.ok(&["token", "rotate", "3", "--overlap", "1h"]).trim().to_owned();
        std::thread::sleep(Duration::from_millis(1_500));
        assert_eq!((ask(&robot).status, ask(&second).status), (200, 200), "both secrets work");
        assert_eq!(of(&second).call("POST", "/v1/main/thing", &json!({"code": "a", "title": "A"})).status, 201, "the role is another one");
        let third = sandbox.ok(&["token", "rotate", "3", "--expires", "30d"]).trim().to_owned();
        std::thread::sleep(Duration::from_millis(1_500));
        assert_eq!((ask(&robot).status, ask(&third).status), (401, 200));
        let replaced = ask(&second).expect_json(401);
        assert!(replaced["detail"].as_str().unwrap().contains("rotated"), "{replaced}");
        // the same by HTTP, at once
        let rotated = of(&admin).call("POST", "/v1/main/tokens/3/rotate", &json!({"overlap": "1h"})).expect_json(200);
        let fourth = rotated["token"].as_str().unwrap();
        assert_eq!((ask(&third).status, ask(fourth).status), (200, 200));
        assert!(rotated["expires"].is_string() && rotated["replaced_secret_until"].is_string(), "{rotated}");
        let changed = of(&admin).call("PATCH", "/v1/main/tokens/3", &json!({"role": "read", "expires": null})).expect_json(200);
        assert_eq!((&changed["role"], &changed["expires"], &changed["name"]), (&json!("read"), &Json::Null, &json!("robot")));
        assert_eq!(of(fourth).call("POST", "/v1/main/thing", &json!({"code": "b", "title": "B"})).status, 403);
        for (path, body, status) in [
            ("/v1/main/tokens/3", json!({"expires": "yesterday"}), 422),
            ("/v1/main/tokens/3", json!({"expires": 7}), 422),
            ("/v1/main/tokens/3", json!({"secret": "x"}), 422),
            ("/v1/main/tokens/99", json!({"name": "x"}), 404),
            ("/v1/main/tokens/x", json!({"name": "x"}), 404),
        ] {
            assert_eq!(of(&admin).call("PATCH", path, &body).status, status, "{path} {body}");
        }
        assert_eq!(of(&admin).call("POST", "/v1/main/tokens/3/rotate", &json!({"overlap": "31d"})).status, 422);
        assert_eq!(of(fourth).call("POST", "/v1/main/tokens/3/rotate", &json!({})).status, 403, "a token does not rotate itself");
        assert_ne!(sandbox.run(&["token", "rotate", "3", "--overlap", "for a while"]).code, 0);
        // the metrics say when; the first use is stored within a second
        let metrics = of(&admin).get("/metrics").text();
        assert!(metrics.contains("stook_token_expires_timestamp_seconds{token=\"2\",tenant=\"main\"} "), "{metrics}");
        let listed = sandbox.json(&["token", "ls", "--json"]);
        assert!(listed[1]["used"].is_string() && listed[1]["expires"].is_string(), "{listed}");
        // then it expires, and the log has said so before
        let until = Instant::now() + Duration::from_secs(60);
        while ask(&timed).status == 200 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        let expired = ask(&timed).expect_json(401);
        assert!(expired["detail"].as_str().unwrap().starts_with("the token expired at 20"), "{expired}");
        std::thread::sleep(Duration::from_millis(1_500));
        let log = stook.log_text();
        let said = |state: &str| log.lines().filter(|line| line.contains("\"event\":\"token\"") && line.contains(state)).count();
        assert_eq!((said("expires soon"), said("\"expired\"")), (1, 1), "{log}");
        // an expired one is revived by another expiry
        sandbox.ok(&["token", "change", "2", "--expires", "never"]);
        std::thread::sleep(Duration::from_millis(1_500));
        assert_eq!(ask(&timed).status, 200);
    }
}

#[test]
fn a_token_for_metrics_sees_metrics_and_nothing_else_and_the_log_names_tokens_by_number() {
    let sandbox = Sandbox::new(THINGS);
    let token = |role: &str| sandbox.ok(&["token", "create", "--role", role, "--tenant", "*", "--name", "its-name"]).trim().to_owned();
    let (metrics, read, admin) = (token("metrics"), token("read"), token("admin"));
    let stook = Served::new(&sandbox, &["--workers", "0", "--log", "all"]);
    let status = |token: &str, path: &str| stook.client(Some(token)).get(path).status;
    for path in ["/metrics", "/metrics/history"] {
        assert_eq!((status(&metrics, path), status(&read, path), status(&admin, path)), (200, 403, 200), "{path}");
    }
    for path in ["/v1", "/v1/main", "/v1/main/thing/a", "/v1/main/query?q=thing", "/v1/main/jobs", "/v1/main/tokens"] {
        assert_eq!(status(&metrics, path), 403, "{path}");
    }
    assert_eq!(stook.client(Some(&metrics)).call("POST", "/v1/main/thing", &json!({"code": "a"})).status, 403);
    assert_eq!(status(&read, "/v1/main/query?q=thing"), 200);
    let log = stook.log_text();
    assert!(log.lines().any(|line| line.contains("/v1/main/query") && line.contains("\"token\":2")), "{log}");
    assert!([&metrics, &read, &admin].iter().all(|secret| !log.contains(secret.as_str())) && !log.contains("its-name"), "{log}");
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            out.push(if digit <= group.len() { DIGITS[(bits >> (18 - 6 * digit)) as usize & 63] as char } else { '=' });
        }
    }
    out
}

/// Every operation of the document, asked by another tenant's admin: nothing there is found, shown or changed. `fill` gives values of
/// parameters in paths, `watched` are paths of what must stay as it is, `secret` is a word of it.
fn assert_hidden_from_other_tenants(sandbox: &Sandbox, fill: &dyn Fn(&str, &str) -> String, watched: &[&str], secret: &str) -> usize {
    let token = |tenant: &str| sandbox.ok(&["token", "create", "--role", "admin", "--tenant", tenant]).trim().to_owned();
    let (main_token, rival_token) = (token("main"), token("rival"));
    let stook = Served::new(sandbox, &["--workers", "1"]).with_token(&main_token);
    let state = || -> Vec<Json> { watched.iter().map(|path| stook.get(path).expect_json(200)).collect() };
    let before = state();
    assert!(before.iter().any(|answer| answer.to_string().contains(secret)), "{secret}: {before:?}");
    let document = stook.get("/openapi.json").expect_json(200);
    let rival = stook.client(Some(&rival_token));
    let mut operations = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if ["/healthz", "/readyz", "/metrics/history"].contains(&path.as_str()) {
                continue;
            }
            operations += 1;
            let parameters: Vec<&Json> = operation["parameters"].as_array().into_iter().flatten().collect();
            let query: Vec<String> = parameters
                .iter()
                .filter(|parameter| parameter["in"] == "query" && parameter["required"] == true)
                .map(|parameter| parameter["name"].as_str().unwrap())
                .map(|name| format!("{name}={}", fill(path, name)))
                .collect();
            let body = match operation["operationId"].as_str().unwrap() {
                "query_long" => json!({"q": fill(path, "q")}),
                "lookup" => json!({"collection": "item", "keys": ["b1"]}),
                "pick" => json!({"query": "item", "transition": "check_in"}),
                "check_out_item" => json!({"patron": "x"}),
                "create_token" => json!({"role": "read", "name": "x"}),
                "change_token" => json!({"role": "read", "name": "theirs"}),
                _ => json!({}),
            };
            let filled = |tenant: &str| {
                let mut out = path.replace("{tenant}", tenant);
                while let Some((before, rest)) = out.clone().split_once('{') {
                    let (name, after) = rest.split_once('}').unwrap();
                    out = format!("{before}{}{after}", fill(path, name));
                }
                out
            };
            let send = |path: &str| {
                let media = if method == "patch" { "application/merge-patch+json" } else { "application/json" };
                let body = if operation.get("requestBody").is_some() { body.to_string() } else { String::new() };
                rival.send(&method.to_uppercase(), &format!("{path}?{}", query.join("&")), &[("content-type", media)], body.as_bytes())
            };
            if path.contains("{tenant}") {
                assert_eq!(send(&filled("main")).status, 404, "{method} {path}");
            }
            // under its own name it sees nothing of the other
            let answer = send(&filled("rival"));
            assert!(!answer.text().contains(secret), "{method} {path}: {}", answer.text());
            assert!(answer.status < 500, "{method} {path}: {}", answer.text());
        }
    }
    // nor is it told what is counted of others
    let counted = rival.get("/metrics").text();
    assert!(counted.contains("tenant=\"rival\"") && !counted.contains("tenant=\"main\"") && !counted.contains("stook_state{"), "{counted}");
    assert_eq!(rival.get("/metrics/history").status, 403);
    assert_eq!(rival.get("/v1").expect_json(200), json!({"tenants": [{"name": "rival"}]}));
    for page in ["home", "search", "record", "coverage", "import", "job", "document", "tags", "lab", "metrics", "tokens", "facets", "download"] {
        assert_eq!(rival.get(&format!("/t/main/{page}")).status, 404, "{page}");
        assert!(!rival.get(&format!("/t/rival/{page}")).text().contains(secret), "{page}");
    }
    assert_eq!(before, state());
    operations
}

fn example(name: &str) -> String {
    std::fs::read_to_string(repository().join(format!("examples/{name}/catalogue.yaml"))).unwrap()
}

#[test]
fn no_route_shows_or_changes_records_of_another_tenant() {
    let sandbox = Sandbox::new(&example("authorities"));
    sandbox.import(&[&sandbox.write_file("names.mrc", authorities(5, 1, 1))]);
    sandbox.import(&[&sandbox.write_file("items.csv", "barcode,lccn\nb1,x\n"), "--profile", "stock"]);
    let heading = sandbox.json(&["query", "authority | grep heading", "--limit", "1", "--format", "json"])[0]["heading"].as_str().unwrap().to_owned();
    let fill = |path: &str, name: &str| match name {
        "key" if path.contains("/item") => "b1".to_owned(),
        "key" => "n%20%2000000001%20".to_owned(),
        "q" => "authority".to_owned(),
        "job" | "token" | "document" | "chunk" => "1".to_owned(),
        _ => "x".to_owned(),
    };
    let watched = ["/v1/main/item/b1", "/v1/main/query?q=authority", "/v1/main/jobs", "/v1/main/item/b1/log"];
    assert!(assert_hidden_from_other_tenants(&sandbox, &fill, &watched, &heading) > 30);

    let sandbox = Sandbox::new(&example("businesses"));
    sandbox.import_businesses(20);
    let first_row = |query: &str| sandbox.json(&["query", query, "--limit", "1", "--format", "json"])[0].clone();
    let version = first_row("version | grep key, ref, name");
    let (key, number, name) = (version["key"].as_str().unwrap(), version["ref"].as_str().unwrap(), version["name"].as_str().unwrap());
    let id = first_row(&format!("business key={number} | grep id"))["id"].as_str().unwrap().to_owned();
    let fill = |path: &str, name: &str| match name {
        "key" if path.contains("/version") => key.replace('/', "%2F"),
        "key" => number.to_owned(),
        "id" => id.clone(),
        "ref" => number.to_owned(),
        "q" => "version".to_owned(),
        "job" | "token" | "document" | "chunk" => "1".to_owned(),
        _ => "x".to_owned(),
    };
    let watched =
        [format!("/v1/main/business/{number}"), "/v1/main/query?q=version".into(), "/v1/main/jobs".into(), "/v1/main/query?q=enrolment".into()];
    assert!(assert_hidden_from_other_tenants(&sandbox, &fill, &watched.each_ref().map(String::as_str), name) > 40);

    let sandbox = Sandbox::new(&example("machines"));
    let folder = sandbox.path("machines").display().to_string();
    sandbox.ok(&["sample", "machines", "--records", "5", "-o", &folder]);
    sandbox.import(&[&format!("{folder}/machines.ndjson"), "--source", "enlist"]);
    sandbox.ok(&["tag", "create", "secretly", "--comment", "for nobody else"]);
    let key = sandbox.json(&["query", "machine | grep key", "--limit", "1", "--format", "json"])[0]["key"].as_str().unwrap().to_owned();
    let fill = |_: &str, name: &str| match name {
        "key" => key.clone(),
        "tag" => "secretly".to_owned(),
        "q" => "machine".to_owned(),
        "job" | "token" | "document" | "chunk" => "1".to_owned(),
        _ => "x".to_owned(),
    };
    let watched = [format!("/v1/main/machine/{key}"), "/v1/main/tags/machine".into(), "/v1/main/jobs".into()];
    assert!(assert_hidden_from_other_tenants(&sandbox, &fill, &watched.each_ref().map(String::as_str), "for nobody else") > 30);
}

/// The same where records follow from others, and where services are asked, on a server.
#[test]
fn no_route_shows_values_derived_or_fetched_for_another_tenant() {
    let on_a_server = |definition: &str| Sandbox::on_each_store(definition).into_iter().last().unwrap();
    let sandbox = on_a_server(&example("sentinel"));
    let plan = "SatelliteID,DatatakeId,ObservationTimeStart,ObservationDuration [msec],L0SensingTimeStart,L0SensingDuration [msec] ,AbsoluteOrbit,\
                RelativeOrbit,Polarization,InstrumentMode,InstrumentSwath,Timeliness\n\
                S1A,318318,2024-01-01T00:00:00Z,20000,2024-01-01T00:00:00Z,20000,1,1,DV,IW,0,NTC\n";
    sandbox.import(&[&sandbox.write_file("S1A_MP_ACQ__L0__20231201T000000_20240201T000000.csv", plan), "--source", "plan_s1"]);
    let name = "S1A_IW_RAW__0SDV_20240101T000000_20240101T000010_000001_04DB6E_0001";
    let delivery = json!({"value": [{"Id": "1", "Name": name, "PublicationDate": "2024-01-01T03:00:00Z"}]}).to_string();
    sandbox.import(&[&sandbox.write_file("PRIP_S1A_Serco_20240101T030000_20240101T031000_1000_P000000.json", delivery), "--source", "prip"]);
    let key = |collection: &str| sandbox.records(collection)[0]["key"].as_str().unwrap().to_owned();
    let (publication, product) = (key("publication"), key("product"));
    let fill = |path: &str, name: &str| match name {
        "key" if path.contains("/publication") => publication.clone(),
        "key" if path.contains("/product") => product.clone(),
        "key" if path.contains("completeness") => "S1A-318318%23IW_RAW__0S".to_owned(),
        "key" | "parent" => "S1A-318318".to_owned(),
        "coverage" => "datatake.completeness_s1".to_owned(),
        "q" => "datatake.completeness_s1".to_owned(),
        "job" | "token" | "document" | "chunk" => "1".to_owned(),
        _ => "x".to_owned(),
    };
    let watched = ["/v1/main/datatake/S1A-318318", "/v1/main/query?q=datatake.completeness_s1", "/v1/main/query?q=product", "/v1/main/jobs"];
    assert!(assert_hidden_from_other_tenants(&sandbox, &fill, &watched, "4DB6E") > 100);

    let (_, definition) = stook_tests::datasets::services(Datasets { records: 20, seed: 1 });
    let sandbox = on_a_server(&definition);
    // the services tell everybody the same; what somebody has said here is told nobody else
    sandbox.ok(&["query", "block | count(key)"]);
    let block = "prod/global:/Mine/Own-v1/RAW#1";
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    let path = format!("/v1/main/block/{}", url_encoded(block));
    stook
        .call("PUT", &path, &json!({"name": "/Mine/Own-v1/RAW#1", "instance": "prod/global", "origin_site": "only.for.us.example"}))
        .expect_json(201);
    drop(stook);
    let fill = |_: &str, name: &str| match name {
        "key" => url_encoded(block),
        "q" | "input" => "block".to_owned(),
        "job" | "token" | "document" | "chunk" => "1".to_owned(),
        _ => "x".to_owned(),
    };
    let watched = [path, format!("/v1/main/query?q=block%20key=%22{}%22", url_encoded(block))];
    assert!(assert_hidden_from_other_tenants(&sandbox, &fill, &watched.each_ref().map(String::as_str), "only.for.us") > 40);
}

/// Every parameter of every operation, one after the other, says what no parameter should: it is text, or it is refused with a reason.
#[test]
fn hostile_parameters_are_treated_as_text() {
    let evil = ["'; DROP TABLE jobs; --", "\" OR \"\"=\"", "%' OR 1=1) --", "\\'; SELECT pg_sleep(9); --", "{{7*7}}${x}", "\u{202e}\u{1F4A3}"];
    let url_encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    for name in ["authorities", "businesses", "machines"] {
        for sandbox in sandboxes(&example(name)) {
            let stook = Served::new(&sandbox, &["--workers", "1"]);
            let document = stook.get("/openapi.json").expect_json(200);
            let mut sent = 0;
            for (path, methods) in document["paths"].as_object().unwrap().iter().filter(|(path, _)| !path.ends_with("/events")) {
                for (method, operation) in methods.as_object().unwrap() {
                    let all: Vec<(&str, &str, bool)> = operation["parameters"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .map(|parameter| (parameter["name"].as_str().unwrap(), parameter["in"].as_str().unwrap(), parameter["required"] == true))
                        .collect();
                    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
                    let members: Vec<&String> = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
                    let bodies = members.iter().map(|name| (name.as_str(), "body", false));
                    for (number, (chosen, chosen_location, _)) in all.iter().copied().chain(bodies).enumerate() {
                        let text = evil[number % evil.len()];
                        let value_of = |name: &str| {
                            if (name, "body") != (chosen, chosen_location) && name == chosen { url_encoded(text) } else { "x".to_owned() }
                        };
                        let mut target = path.replace("{tenant}", if chosen == "tenant" { "%27" } else { "main" });
                        while let Some((before, rest)) = target.clone().split_once('{') {
                            let (name, after) = rest.split_once('}').unwrap();
                            target = format!("{before}{}{after}", value_of(name));
                        }
                        let sent_parameters = all.iter().filter(|(name, location, required)| *location == "query" && (*required || *name == chosen));
                        let query: Vec<String> = sent_parameters.map(|(name, ..)| format!("{name}={}", value_of(name))).collect();
                        let media = if method == "patch" { "application/merge-patch+json" } else { "application/json" };
                        let mut headers = vec![("content-type", media)];
                        let ascii: String = text.chars().filter(char::is_ascii).collect();
                        if chosen_location == "header" {
                            headers.push((chosen, &ascii));
                        }
                        let body = if chosen_location == "body" { json!({ chosen: text }).to_string() } else { String::new() };
                        let reply =
                            stook.client(None).send(&method.to_uppercase(), &format!("{target}?{}", query.join("&")), &headers, body.as_bytes());
                        sent += 1;
                        assert!(reply.status < 500, "{method} {path}, {chosen}: {} {}", reply.status, reply.text());
                        if reply.status >= 400 && path.starts_with("/v1") {
                            assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{method} {path}, {chosen}");
                        }
                    }
                }
            }
            assert!(sent > 80, "{name}: {sent}");
            assert_eq!(stook.get("/readyz").status, 200);
        }
    }
}

#[test]
fn requests_are_logged_with_their_ids_and_counted_by_stage_reached() {
    for sandbox in sandboxes(THINGS) {
        let stook = Served::new(&sandbox, &["--workers", "0", "--log", "all"]);
        let client = stook.client(None);
        let get_with_id = |path: &str, id: &str| client.send("GET", path, &[("x-request-id", id)], b"");
        assert_eq!(get_with_id("/v1/main/thing/none", "mine-1").header("x-request-id"), Some("mine-1"));
        assert_eq!(get_with_id("/v1/main/thing/none?nonsense=1", "mine-2").status, 400);
        // what is no number is not taken over, and each request has one of its own
        let (refused_id_reply, no_id_reply) = (get_with_id("/v1/main/thing/none", "not \"mine\""), client.get("/v1/main/thing/none"));
        let generated_ids = [&refused_id_reply, &no_id_reply].map(|reply| reply.header("x-request-id").unwrap().to_owned());
        assert!(generated_ids[0] != generated_ids[1] && generated_ids.iter().all(|id| !id.contains('"')), "{generated_ids:?}");
        let until = Instant::now() + Duration::from_secs(20);
        let logged = loop {
            let lines: Vec<Json> = stook.log_text().lines().filter_map(|entry| serde_json::from_str(entry).ok()).collect();
            let requests: Vec<Json> = lines.into_iter().filter(|entry| entry["event"] == "request").collect();
            if requests.len() >= 4 {
                break requests;
            }
            assert!(Instant::now() < until, "{}", stook.log_text());
            std::thread::sleep(Duration::from_millis(20));
        };
        let log_line = |id: &str| logged.iter().find(|entry| entry["id"] == id).unwrap_or_else(|| panic!("{id}: {logged:?}"));
        for (id, status) in [("mine-1", 404), ("mine-2", 400), (&generated_ids[0], 404), (&generated_ids[1], 404)] {
            let entry = log_line(id);
            assert_eq!(
                (entry["status"].as_u64(), entry["method"].as_str(), entry["tenant"].as_str()),
                (Some(status), Some("GET"), Some("main")),
                "{entry}"
            );
            assert_eq!((entry["route"].as_str(), entry["path"].as_str()), (Some("/v1/{tenant}/thing/{key}"), Some("/v1/main/thing/none")));
            assert!(entry["ms"].as_f64().is_some_and(|ms| ms > 0.0) && entry["time"].is_string(), "{entry}");
        }
        for (method, path) in [("GET", "/healthz"), ("GET", "/metrics"), ("GET", "/nowhere"), ("DELETE", "/healthz")] {
            assert!(stook.send(method, path, &[], b"").header("x-request-id").is_some(), "{method} {path}");
        }
        // one was refused before it reached the store
        let requests_at_stage = |stage: &str| {
            let text = stook.get("/metrics").text();
            let generated_ids = |entry: &&str| entry.starts_with("stook_requests_total{") && entry.contains("thing/{key}") && entry.contains(stage);
            text.lines().filter(generated_ids).filter_map(|entry| entry.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
        };
        assert_eq!(["Accepted", "Started", "StoreReached", "Completed"].map(requests_at_stage), [4, 4, 3, 4]);
    }
}

#[test]
fn accepted_requests_are_finished_before_the_server_ends() {
    let sandbox = Sandbox::new(THINGS);
    let things: String = (0..20_000).map(|number| json!({"code": format!("t{number}"), "title": "x"}).to_string() + "\n").collect();
    sandbox.import(&[&sandbox.write_file("things.ndjson", things)]);
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    let address = stook.address().to_owned();
    // asks again and again on one connection, which may be closed between two requests and never inside of one; returns how many
    // were answered
    let request_repeatedly = |request: &dyn Fn(usize) -> String, sender: std::sync::mpsc::Sender<()>| {
        let mut stream = TcpStream::connect(&address).unwrap();
        for number in 0.. {
            let (mut answer, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
            if stream.write_all(request(number).as_bytes()).is_err() {
                return number;
            }
            loop {
                let length = match stream.read(&mut buffer) {
                    Ok(0) | Err(_) if answer.is_empty() => return number,
                    Ok(length @ 1..) => length,
                    ended => panic!("cut inside an answer, after {} bytes: {ended:?}", answer.len()),
                };
                answer.extend_from_slice(&buffer[..length]);
                let Some(end) = answer.windows(4).position(|part| part == b"\r\n\r\n") else { continue };
                let headers = String::from_utf8_lossy(&answer[..end]).to_lowercase();
                assert!(headers.starts_with("http/1.1 20"), "{}", String::from_utf8_lossy(&answer));
                let length =
                    headers.lines().find_map(|line| line.strip_prefix("content-length:")).map(|length| length.trim().parse::<usize>().unwrap());
                if length.map_or(answer.ends_with(b"\r\n0\r\n\r\n"), |length| answer.len() >= end + 4 + length) {
                    break;
                }
            }
            let _ = sender.send(());
        }
        unreachable!("numbers have no end")
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    let (reads, writes, uploaded) = std::thread::scope(|scope| {
        let answered_sender = sender.clone();
        let request_repeatedly = &request_repeatedly;
        let reads = scope.spawn(move || {
            request_repeatedly(&|_| "GET /v1/main/query?q=thing&limit=10000 HTTP/1.1\r\nhost: localhost\r\n\r\n".into(), answered_sender)
        });
        let answered_sender = sender.clone();
        let write = |number: usize| {
            let body = json!({"code": format!("w{number}"), "title": "written"}).to_string();
            format!(
                "POST /v1/main/thing HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        let writes = scope.spawn(move || request_repeatedly(&write, answered_sender));
        drop(sender);
        for _ in 0..10 {
            receiver.recv().expect("somebody still asks");
        }
        // an upload that has been taken is a job that somebody will do
        let upload: String = (0..5_000).map(|number| json!({"code": format!("u{number}"), "title": "x"}).to_string() + "\n").collect();
        let uploaded = stook.send("POST", "/v1/main/import?source=files", &[("content-type", "application/x-ndjson")], upload.as_bytes());
        assert!(uploaded.status < 300, "{}", uploaded.text());
        assert_eq!(stook.terminate(), Some(0));
        (reads.join().unwrap(), writes.join().unwrap(), uploaded.json())
    });
    assert!(reads >= 1 && writes >= 1);
    sandbox.assert_sound();
    sandbox.run(&["work", "--drain"]).exits(0);
    let count = |query: &str| sandbox.json(&["query", query, "--format", "json"])[0]["count(code)"].as_u64().unwrap() as usize;
    // the last one may have been taken and not answered
    assert!((writes..=writes + 1).contains(&count("thing code=w* | count(code)")), "{writes} writes were answered");
    assert_eq!(count("thing code=u* | count(code)"), 5_000, "{uploaded}");
}

#[test]
fn the_register_answers_as_its_callers_expect() {
    let definition = std::fs::read_to_string(repository().join("examples/businesses/catalogue.yaml")).unwrap();
    for sandbox in sandboxes(&definition) {
        let folder = sandbox.import_businesses(60);
        // one business that no exercise uses
        let unlinked = json!({"sampleUnitRef": "11110000001", "sampleUnitType": "B", "sampleSummaryId": "s-new", "runame1": "Quiet", "runame2": "and", "runame3": "Co"});
        sandbox.import(&[&sandbox.write_file("one.json", unlinked.to_string()), "--source", "sample"]);
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let base = "/party-api/v1";
        let by_ref = stook.get(&format!("{base}/businesses/ref/49900000007")).expect_json(200);
        let names: Vec<&str> = by_ref.as_object().unwrap().keys().map(String::as_str).collect();
        for wanted in ["id", "sampleUnitRef", "sampleUnitType", "sampleSummaryId", "name", "trading_as", "associations", "attributes"] {
            assert!(names.contains(&wanted), "{names:?}");
        }
        let id = by_ref["id"].as_str().unwrap();
        let by_id = stook.get(&format!("{base}/businesses/id/{id}")).expect_json(200);
        assert_eq!(by_id.as_object().unwrap().len(), 7);
        assert_eq!((&by_id["sampleUnitRef"], &by_id["name"]), (&by_ref["sampleUnitRef"], &by_ref["name"]));
        // each exercise shows the version of its sample
        let links: Vec<Json> =
            std::fs::read_to_string(format!("{folder}/links.ndjson")).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for link in &links {
            let shown = stook
                .get(&format!("{base}/businesses/id/{id}?collection_exercise_id={}", link["collectionExerciseId"].as_str().unwrap()))
                .expect_json(200);
            assert_eq!(shown["sampleSummaryId"], link["sample"]);
        }
        let error = |path: &str, status: u16| stook.get(&format!("{base}{path}")).expect_json(status)["description"].clone();
        assert_eq!(error("/businesses", 400), "The parameter id is required.");
        assert_eq!(error("/businesses?id=gibberish", 400), "'gibberish' is not a valid UUID format for property 'id'");
        assert_eq!(error("/businesses/id/123", 400), "'123' is not a valid UUID format for property 'id'");
        assert_eq!(error("/businesses/id/67e55044-10b1-426f-9247-bb680e5fe0c8", 404), "Business with party id does not exist");
        assert_eq!(error("/businesses/ref/123", 404), "Business with reference does not exist.");
        assert_eq!(error("/businesses/ref/11110000001", 400), "Business with reference does not have any active attributes.");
        let unknown = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        let other_business = stook.get(&format!("{base}/businesses/ref/49900000008")).expect_json(200);
        let quiet = stook.get("/v1/main/business/11110000001").expect_json(200);
        let several =
            format!("{base}/businesses?id={id}&id={unknown}&id={}&id={}", quiet["id"].as_str().unwrap(), other_business["id"].as_str().unwrap());
        let several = stook.get(&several).expect_json(200);
        let refs: Vec<&Json> = several.as_array().unwrap().iter().map(|business| &business["sampleUnitRef"]).collect();
        assert_eq!(refs, ["49900000007", "49900000008"], "unknown ones and those without active attributes are left out");
        assert_eq!(stook.get(&format!("{base}/businesses?id={unknown}")).expect_json(200), json!([]));
        // search
        let search = |query: &str| stook.get(&format!("{base}/businesses/search?{query}")).expect_json(200);
        let phrase = by_ref["name"].as_str().unwrap().to_uppercase().replace(' ', "%20");
        assert!(search(&format!("query={phrase}"))["businesses"].as_array().unwrap().iter().any(|hit| hit["ruref"] == "49900000007"));
        assert_eq!(search("query=Quiet%20and")["total_business_count"], 0, "not active");
        assert_eq!(search("query=%25")["total_business_count"], 0, "a per cent sign is one");
        let all = search("query=499&limit=1000");
        let total = all["total_business_count"].as_u64().unwrap() as usize;
        assert_eq!(all["businesses"].as_array().unwrap().len(), total);
        let pages: Vec<Json> = (1..=total.div_ceil(50))
            .flat_map(|page| search(&format!("query=499&limit=50&page={page}"))["businesses"].as_array().unwrap().clone())
            .collect();
        assert_eq!(&Json::from(pages), &all["businesses"], "no row twice, none lost");
        assert_eq!(search("query=499&page=1000")["businesses"], json!([]));
        let capped = search("query=499&max_rec=10");
        assert_eq!((&capped["businesses"], &capped["total_business_count"]), (&json!([]), &all["total_business_count"]));
        assert_eq!(search(&format!("query=499&limit=1000&max_rec={total}")), all, "what is one row counts once");
        assert_eq!(stook.get(&format!("{base}/businesses/search?query=a&limit=many")).status, 400);
        // a person, and what changes
        let row = std::fs::read_to_string(format!("{folder}/enrolments.csv")).unwrap();
        let cells: Vec<&str> = row.lines().nth(1).unwrap().split(',').collect();
        let change = json!({"business_id": cells[0], "respondent_id": cells[1], "survey_id": cells[2], "change_flag": "SUSPENDED"});
        stook.call("PUT", &format!("{base}/respondents/change_enrolment_status"), &change).expect_json(200);
        let person = stook.get(&format!("{base}/respondents/id/{}", cells[1])).expect_json(200);
        let shown = person["associations"].as_array().unwrap().iter().flat_map(|association| association["enrolments"].as_array().unwrap().clone());
        assert!(shown.into_iter().any(|enrolment| enrolment == json!({"surveyId": cells[2], "enrolmentStatus": "SUSPENDED"})), "{person}");
        let business = stook.get(&format!("{base}/businesses?id={}", cells[0])).expect_json(200);
        assert!(business[0]["associations"].as_array().unwrap().iter().any(|association| association["partyId"] == cells[1]));
        let mut wrong = change.clone();
        wrong["change_flag"] = json!("GONE");
        assert_eq!(stook.call("PUT", &format!("{base}/respondents/change_enrolment_status"), &wrong).status, 400);
        wrong = change;
        wrong["survey_id"] = json!(unknown);
        assert_eq!(stook.call("PUT", &format!("{base}/respondents/change_enrolment_status"), &wrong).status, 404);
    }
}

/// What a route shows of a record is what the record shows, whatever its type, with the members in their order.
#[test]
fn declared_routes_show_values_of_every_type() {
    let definition = "catalogue: c\nsources:\n  s: { format: json, into: t, as_of: meta.received }\ncollections:\n  t:\n    key: k\n    fields:\n      \
        k: text\n      more: json\n      runs: ranges\n      spots: [{ at: timestamp, id: uuid, seen: ranges }]\n      when: timestamp\n      size: float\nroutes:\n  \
        - get: /things/{k}\n    params: { k: text }\n    one: t\n    where: { key: params.k }\n    \
          fields: { more: more, inside: more.z.a, runs: runs, spots: spots, 'the \"when\"': when, size: size }\n  \
        - { get: /all, params: { k: { type: [text], required: k } }, list: t, where: { key: params.k } }\n";
    for sandbox in sandboxes(definition) {
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let client = stook.client(None);
        let sent = json!({
            "k": "one", "more": { "z": { "a": [1, 2.5, "\u{e4}\"\\"] }, "b": null }, "runs": [[1, 5], 8], "when": "2024-01-02T03:04:05Z", "size": 1.5,
            "spots": [{ "at": "2024-01-02T03:04:05.5Z", "id": "a1b2c3d4-0000-0000-0000-000000000001", "seen": [[3, 4]] }],
        });
        client.call("POST", "/v1/main/t", &sent).expect_json(201);
        client.call("POST", "/v1/main/t", &json!({ "k": "two" })).expect_json(201);
        for key in ["one", "two"] {
            let (record, shown) = (client.get(&format!("/v1/main/t/{key}")).expect_json(200), client.get(&format!("/things/{key}")).expect_json(200));
            let wanted = json!({
                "more": record["more"], "inside": record["more"]["z"]["a"], "runs": record["runs"], "spots": record["spots"],
                "the \"when\"": record["when"], "size": record["size"],
            });
            assert_eq!(shown.to_string(), wanted.to_string());
            let all = client.get(&format!("/all?k={key}")).expect_json(200);
            assert_eq!((all[0]["more"].to_string(), &all[0]["spots"]), (record["more"].to_string(), &record["spots"]));
        }
        assert_eq!(client.get("/things/one").expect_json(200)["spots"][0]["at"], "2024-01-02T03:04:05.5Z");
    }
}

/// An include is looked up once, however many records it is for.
#[test]
fn the_number_of_look_ups_does_not_grow_with_the_number_of_records() {
    let definition = std::fs::read_to_string(repository().join("examples/businesses/catalogue.yaml")).unwrap();
    for sandbox in sandboxes(&definition) {
        sandbox.import_businesses(120);
        let stook = Served::new(&sandbox, &["--workers", "0", "--cache", "0"]);
        let ids: Vec<String> = stook.get("/v1/main/query?q=business%20|%20grep%20id&limit=100").expect_json(200)["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect();
        let cost = |ids: &[String]| {
            let before = stook.metric_sum("stook_store_calls_total", "");
            let found = stook.get(&format!("/party-api/v1/businesses?id={}", ids.join("&id="))).expect_json(200);
            assert_eq!(found.as_array().unwrap().len(), ids.len());
            stook.metric_sum("stook_store_calls_total", "") - before
        };
        let (cost_of_one, cost_of_hundred) = (cost(&ids[..1]), cost(&ids));
        // two questions (keys by value, records by key) for the route and each of its five includes, at most
        assert!(cost_of_hundred <= 12 && cost_of_one <= cost_of_hundred, "{cost_of_one} for one, {cost_of_hundred} for a hundred");
    }
}

#[test]
fn bad_requests_are_answered_with_what_is_wrong() {
    for sandbox in sandboxes(THINGS) {
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        stook.call("POST", "/v1/main/thing", &json!({"code": "a", "title": "A"})).expect_json(201);
        let evil = ["'; DROP TABLE r_thing; --", "\" OR 1=1", "%", "\\", "\u{1F4A3}", "../../etc/passwd", "${jndi:ldap://x}", "\r\nx: y", "{{7*7}}"];
        for text in evil {
            let url_encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            for path in [
                format!("/v1/main/thing/{url_encoded}"),
                format!("/v1/{url_encoded}/thing/a"),
                format!("/v1/main/{url_encoded}/a"),
                format!("/v1/main/thing?key={url_encoded}"),
                format!("/v1/main/query?q=thing%20title='{url_encoded}'"),
                format!("/v1/main/query?q=thing&after={url_encoded}"),
                format!("/v1/main/jobs/{url_encoded}"),
                format!("/v1/main/thing/a/log?before={url_encoded}"),
            ] {
                let reply = stook.get(&path);
                assert!(matches!(reply.status, 200 | 400 | 404), "{path}: {} {}", reply.status, reply.text());
                if reply.status >= 400 {
                    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{path}");
                    assert!(reply.json()["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
                }
            }
            let body = json!({"code": text, "title": text});
            assert_eq!(stook.call("POST", "/v1/main/thing", &body).expect_json(201)["title"], text, "text is text");
        }
        assert_eq!(stook.get("/v1/main/query?q=thing").expect_json(200)["rows"].as_array().unwrap().len(), evil.len() + 1);
        let json_type = [("content-type", "application/json")];
        let deep = format!("{{\"title\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        for (body, status) in [
            (&b"{"[..], 400),
            (b"\xff\xfe", 400),
            (b"[1]", 422),
            (b"null", 422),
            (deep.as_bytes(), 400),
            (br#"{"code":"b","title":"x","size":1e400}"#, 400),
            (br#"{"code":"b","title":"x","size":99999999999999999999}"#, 422),
            (br#"{"code":"b","title":"a\u0000b"}"#, 422),
        ] {
            let reply = stook.send("POST", "/v1/main/thing", &json_type, body);
            assert_eq!(reply.status, status, "{} {}", String::from_utf8_lossy(&body[..body.len().min(60)]), reply.text());
        }
        let large = vec![b' '; 2 << 20];
        assert_eq!(stook.send("POST", "/v1/main/thing", &json_type, &large).status, 413);
        assert_eq!(stook.send("POST", "/v1/main/thing", &[("content-type", "text/xml")], b"<a/>").status, 415);
        for (path, status) in [
            ("/v1/main/thing/%ff", 400),
            ("/v1/main/query?q=%ff", 400),
            ("/v1/main/thing/a%00", 400),
            ("/v1/main/query?limit=-1&q=thing", 400),
            ("/v1/main/query?q=thing&limit=99999", 400),
            ("/nothing", 404),
        ] {
            assert_eq!(stook.get(path).status, status, "{path}");
        }
        // heads that are none
        for head in [
            "GET / HTTP/9.9\r\n\r\n",
            "\0\0\0\0\r\n\r\n",
            "GET /v1/main HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n",
            &format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(200_000)),
        ] {
            let mut stream = std::net::TcpStream::connect(stook.address()).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let _ = stream.write_all(head.as_bytes());
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
        }
        assert_eq!(stook.get("/readyz").status, 200);
    }
}

/// Things, and a route that asks whatever it is given.
const TWO_ROUTES: &str = "\
catalogue: asked
sources: { list: { format: csv, as_of: meta.received, into: thing } }
collections:
  thing: { key: id, fields: { id: text, kind: { type: text, index: equal }, size: integer } }
routes:
  - { get: /plain, params: { input: { type: text, required: true }, idx: integer, limit: { type: integer, default: 10, min: 0 }, pid: text },
      ask: { query: input, offset: idx, limit: limit, ticket: pid }, answer: { status: status, all: total, data: rows, why: reason, query: query } }
  - { get: /sources, params: { input: { type: text, required: true }, idx: integer, limit: { type: integer, default: 10, min: 0 }, pid: text },
      ask: { query: input, offset: idx, limit: limit, ticket: pid, by_source: true }, answer: { data: rows, all: total } }
";

#[test]
fn a_limit_of_zero_sends_all_rows() {
    let rows: String = (0..12_000).map(|number| format!("t{number:05},{},{number}\n", ["a", "b"][number % 2])).collect();
    for sandbox in Sandbox::on_each_store(TWO_ROUTES) {
        sandbox.import(&[&sandbox.write_file("list.csv", format!("id,kind,size\n{rows}"))]);
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let get_answer = |path: &str, query: &str, rest: &str| stook.get(&format!("{path}?input={}&{rest}", url_encoded(query))).expect_json(200);
        for path in ["/plain", "/sources"] {
            let row_size = |row: &Json| if path == "/plain" { row["size"].as_i64() } else { row["thing"][0]["size"].as_i64() };
            let sizes = |answer: &Json| answer["data"].as_array().unwrap().iter().map(|row| row_size(row).unwrap()).collect::<Vec<_>>();
            let all = get_answer(path, "thing | grep id, size", "limit=0");
            assert_eq!((sizes(&all), &all["all"]), ((0..12_000).collect(), &json!(12_000)), "{path}");
            // the same as with a limit, but for the rows
            let (some_rows, no_limit) =
                (get_answer(path, "thing kind=b | grep id, size", "limit=10000"), get_answer(path, "thing kind=b | grep id, size", "limit=0"));
            assert_eq!(some_rows, no_limit, "{path}");
            assert_eq!(sizes(&get_answer(path, "thing | grep id, size | sort size-", "limit=0&idx=11998")), [1, 0]);
            assert_eq!(get_answer(path, "thing kind=z", "limit=0")["data"], json!([]));
            assert_eq!(get_answer(path, "thing | count(id)", "limit=0"), get_answer(path, "thing | count(id)", "limit=5"));
        }
        assert_eq!(get_answer("/plain", "thing kind=z", "limit=0"), json!({ "status": "ok", "all": 0, "data": [], "query": "thing kind=z" }));
        stook.get("/plain?input=thing%20nothing%3D1&limit=0").expect_json(400);
    }
}
