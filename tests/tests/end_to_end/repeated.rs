//! Requests that are sent again because their response was lost, and previews while others write; on both stores.

use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stook_tests::http::{Client, Reply, Served};
use stook_tests::operations::{Sent, send_all};
use stook_tests::{Dice, Sandbox};

const ORDERS: &str = "\
catalogue: orders
sources:
  list: { format: json, into: thing, as_of: meta.received }
  orders: { format: json, into: order, as_of: meta.received }
collections:
  thing: { key: id, fields: { id: text, name: { type: text, index: equal } } }
  order: { key: number, fields: { number: uuid, wanted: { type: text, index: equal } } }
routes:
  - post: /orders
    params: { wanted: { type: text, required: true }, number: { type: uuid, in: nowhere, generate: uuid } }
    write: [{ create: order, fields: { number: params.number, wanted: params.wanted } }]
    code: 201
    answer: { number: params.number }
";

/// Two ways to create: a record whose key the caller knows, and one whose key the server makes.
const CREATIONS: [&str; 2] = ["/v1/main/thing", "/orders"];

fn body(path: &str, name: &str) -> String {
    if path == "/orders" { json!({"wanted": name}) } else { json!({"id": name, "name": name}) }.to_string()
}

fn create(client: &Client, path: &str, name: &str) -> Option<Reply> {
    let headers = [("content-type", "application/json"), ("idempotency-key", name)];
    client.try_send("POST", path, &headers, body(path, name).as_bytes()).ok()
}

fn count(stook: &Served, collection: &str) -> u64 {
    stook.get(&format!("/v1/main/query?q={collection}&total=true&limit=1")).expect_json(200)["total"].as_u64().unwrap()
}

fn number_of(stook: &Served, name: &str) -> Json {
    stook.get(&format!("/v1/main/query?q=order%20wanted={name}")).expect_json(200)["rows"].clone()
}

/// The caller is gone before the response is sent, or even before the request is complete.
#[test]
fn a_creation_whose_connection_was_lost_is_done_once_by_its_idempotency_key() {
    let mut dice = Dice::new(11);
    for sandbox in Sandbox::on_each_store(ORDERS) {
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let client = stook.client(None);
        let mut answered = 0;
        for number in 0..30 {
            for path in CREATIONS {
                let name = format!("lost{number}");
                let body = body(path, &name);
                let request = format!(
                    "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nidempotency-key: {name}\r\ncontent-length: {}\r\n\r\n{body}",
                    stook.address(),
                    body.len()
                );
                let mut connection = TcpStream::connect(stook.address()).unwrap();
                let sent = if dice.below(4) == 0 { request.len() - 1 } else { request.len() };
                connection.write_all(&request.as_bytes()[..sent]).unwrap();
                std::thread::sleep(Duration::from_micros(dice.below(4_000)));
                drop(connection);
                let replies: Vec<Reply> = (0..3).map(|_| create(&client, path, &name).unwrap()).collect();
                assert!(replies.iter().all(|reply| reply.status == 201 && reply.body == replies[0].body), "{}", replies[0].text());
                answered += 1;
            }
        }
        assert_eq!((count(&stook, "thing") + count(&stook, "order"), answered), (60, 60));
        // the key alone protects a record whose key the caller knows; the response says which record there is
        let again = stook.call("POST", "/v1/main/thing", &json!({"id": "lost0", "name": "lost0"}));
        assert_eq!((again.status, again.header("location")), (409, Some("/v1/main/thing/lost0")), "{}", again.text());
        sandbox.assert_sound();
    }
}

/// Killed in the middle of creations: each is repeated until it is answered, and is there once.
#[test]
fn a_creation_that_is_repeated_after_a_kill_is_done_once() {
    let mut dice = Dice::new(12);
    for sandbox in Sandbox::on_each_store(ORDERS) {
        let mut wanted: Vec<usize> = vec![0; 4];
        for round in 0..5 {
            let stook = Served::new(&sandbox, &["--workers", "0"]);
            let (client, pid) = (stook.client(None), stook.pid());
            wanted = std::thread::scope(|scope| {
                let threads: Vec<_> = wanted
                    .iter()
                    .enumerate()
                    .map(|(thread, done)| {
                        let client = client.clone();
                        scope.spawn(move || {
                            // the first one may have been done by the server before, which was killed
                            let answered = |number: &usize| {
                                let path = CREATIONS[thread % 2];
                                create(&client, path, &format!("k{thread}x{number}")).is_some_and(|reply| reply.status == 201)
                            };
                            done + (*done..).take_while(answered).count()
                        })
                    })
                    .collect();
                std::thread::sleep(Duration::from_millis(60 + dice.below(200)));
                let _ = std::process::Command::new("kill").arg("-KILL").arg(pid.to_string()).status();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            drop(stook);
            assert!(round < 4 || wanted.iter().all(|done| *done > 0), "{wanted:?}");
        }
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let client = stook.client(None);
        for (thread, done) in wanted.iter().enumerate() {
            // the last one may have been done without an answer
            assert_eq!(create(&client, CREATIONS[thread % 2], &format!("k{thread}x{done}")).unwrap().status, 201);
        }
        let of = |parity: usize| wanted.iter().skip(parity).step_by(2).map(|done| *done as u64 + 1).sum::<u64>();
        assert_eq!((count(&stook, "thing"), count(&stook, "order")), (of(0), of(1)), "{wanted:?}");
        let last = number_of(&stook, "k1x0");
        assert_eq!(last.as_array().unwrap().len(), 1, "{last}");
        sandbox.assert_sound();
    }
}

/// A dry run sees what others have committed, whole deliveries only, and leaves nothing.
#[test]
fn previews_among_living_writes_see_whole_deliveries_and_change_nothing() {
    const ROUNDS: usize = 15;
    let documents =
        |round: usize| (0..100).map(|number| json!({"id": format!("r{round}n{number}"), "name": "x"}).to_string() + "\n").collect::<String>();
    for sandbox in Sandbox::on_each_store(ORDERS) {
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let is_over = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let (client, is_over) = (stook.client(None), &is_over);
            let previewing = scope.spawn(move || {
                let mut seen = HashSet::new();
                let mut round = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let path = "/v1/main/import?source=list&dry_run=true&as_of=2024-01-01";
                    let preview = client.send("POST", path, &[], documents(round % ROUNDS).as_bytes()).expect_json(200);
                    let counts = &preview["counts"];
                    let of = |outcome: &str| counts[outcome].as_u64().unwrap_or_default();
                    // where newer ones of the same content are there, these would change nothing
                    seen.insert((of("created"), of("unchanged")));
                    round += 1;
                }
                seen
            });
            let client = stook.client(None);
            for round in 0..ROUNDS {
                client.send("POST", "/v1/main/deliver?source=list", &[], documents(round).as_bytes()).expect_json(200);
            }
            is_over.store(true, Ordering::Relaxed);
            previewing.join().unwrap()
        });
        assert!(!seen.is_empty() && seen.iter().all(|counts| [(100, 0), (0, 100)].contains(counts)), "{seen:?}");
        assert_eq!(count(&stook, "thing"), 100 * ROUNDS as u64);
        assert_eq!(stook.get("/v1/main/jobs").expect_json(200)["jobs"].as_array().map(Vec::len).unwrap_or_default(), 0, "a preview makes no job");
        sandbox.assert_sound();
    }
}

/// Whoever sends a key relies on it: it is never ignored.
#[test]
fn an_idempotency_key_is_used_or_refused_by_everything_that_writes() {
    let sandbox = Sandbox::new(include_str!("../../../examples/machines/catalogue.yaml"));
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    let document = stook.get("/openapi.json").expect_json(200);
    let parameter = |_: &str, name: &str| if name == "tenant" { "main" } else { "1" }.to_owned();
    let sent = Sent { parameter: &parameter, body: &|_| None, headers: &[("idempotency-key", "k")] };
    let takes_key = |operation: &str| {
        let (method, path) = operation.split_once(' ').unwrap();
        let parameters = document["paths"][path][method]["parameters"].as_array().unwrap();
        parameters.iter().any(|parameter| parameter["name"] == "Idempotency-Key")
    };
    // what only reads is the same whether it is sent once or twice
    let reads =
        |operation: &str| operation.starts_with("get ") || ["query", "lookup", "oai"].iter().any(|name| operation.ends_with(&format!("/{name}")));
    let answers = send_all(&stook.client(None), &document, &sent);
    let ignored: Vec<_> = answers
        .iter()
        .filter(|(operation, _, _)| !reads(operation) && !takes_key(operation))
        .filter(|(_, _, answer)| !answer.contains("no answer is kept"))
        .collect();
    assert!(ignored.is_empty(), "{ignored:#?}");
    let refused = answers.iter().filter(|(_, status, answer)| *status == 422 && answer.contains("no answer is kept")).count();
    assert!(refused > 10, "{refused}");
}
