//! Work ends when its caller has gone, and its place among the requests in work is taken until then.

use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use stook_tests::Sandbox;
use stook_tests::http::{Served, url_encoded};

const THINGS: &str = "
catalogue: things
sources:
  files: { format: json, into: thing, as_of: meta.received }
collections:
  thing:
    key: id
    fields:
      id:     text
      rank:   integer
      kind:   { type: text, index: equal }
      labels: { type: [text] }
routes:
  - get: /things
    params: { kind: text }
    list: thing
    where: { kind: params.kind }
    fields: { id: id }
";

const RECORDS: usize = 6_000;
const LABELS: usize = 200;
/// Requests in work at most.
const MAX_REQUESTS: usize = 12;

/// A query of which each record takes long: there are a thousand times as many comparisons as the time of a test has room for.
fn endless(stages: &str) -> String {
    let conditions: String = (0..190).map(|number| format!(" labels!=z{number}")).collect();
    url_encoded(&format!("thing{conditions}{stages}"))
}

/// Sends a request and does not wait for its answer.
fn send(stook: &Served, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(stook.address()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    stream
}

/// How many there are of something, by its metrics.
fn gauge(stook: &Served, metric: &str) -> u64 {
    stook.metric_sum("stook_state", &format!("what=\"{metric}\""))
}

#[track_caller]
fn wait_until(metric: &str, stook: &Served, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(100);
    while !condition() {
        assert!(Instant::now() < deadline, "{metric}\n{}\n{}", stook.get("/metrics").text(), stook.log_text());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn work_of_a_disconnected_caller_ends_and_keeps_its_permit_until_then() {
    for sandbox in Sandbox::on_each_store(THINGS) {
        let labels: Vec<String> = (0..LABELS).map(|number| format!("l{number}")).collect();
        let record = |number: usize| json!({ "id": format!("t{number:05}"), "rank": number % 97, "kind": "a", "labels": labels }).to_string() + "\n";
        let file = sandbox.write_file("things.ndjson", (0..RECORDS).map(record).collect::<String>());
        sandbox.ok(&["import", &file, "--source", "files"]);
        let stook = Served::new(&sandbox, &["--workers", "0", "--max-requests", &MAX_REQUESTS.to_string()]);
        let mut given_up = 0;
        for (path, requests, class) in [
            (format!("/v1/main/query?q={}&total=true", endless(" | sort rank-, id")), MAX_REQUESTS, "interactive_in_work"),
            (format!("/v1/main/query?q={}", endless(" | sum(rank), median(rank)")), MAX_REQUESTS, "interactive_in_work"),
            (format!("/v1/main/query?q={}", endless(" | count(rank), median(rank) by labels")), MAX_REQUESTS, "interactive_in_work"),
            (format!("/v1/main/query/facets?q={}", endless("")), MAX_REQUESTS, "interactive_in_work"),
            (format!("/v1/main/export?q={}", endless(" | sort rank-, id")), 6, "bulk_in_work"),
            (format!("/v1/main/export?q={}", endless(" | count(rank)")), 6, "bulk_in_work"),
        ] {
            let callers: Vec<TcpStream> = (0..requests).map(|_| send(&stook, &path)).collect();
            wait_until("all are in work", &stook, || {
                gauge(&stook, class) == requests as u64 && gauge(&stook, "store_connections_in_use") == requests as u64
            });
            if class == "interactive_in_work" {
                assert_eq!(stook.get("/v1/main/thing/t00001").status, 503, "no place is left");
            }
            drop(callers);
            given_up += requests as u64;
            wait_until("all were given up", &stook, || stook.metric_sum("stook_given_up", "") == given_up);
            wait_until("their places are free", &stook, || gauge(&stook, class) == 0 && gauge(&stook, "store_connections_in_use") == 0);
            assert_eq!(stook.get("/v1/main/query?q=thing%20kind=a&limit=1&total=true").expect_json(200)["total"], RECORDS);
        }
        assert_eq!(stook.get("/things?kind=a").expect_json(200).as_array().unwrap().len(), RECORDS, "and others are answered");
    }
}
