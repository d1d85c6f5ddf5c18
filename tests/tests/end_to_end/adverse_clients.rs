//! Clients and administrators that mean no good, or know no better: pages of other sites in a browser that knows a token, invented tenants, ambiguous
//! heads, files that are removed under a server.

use base64::Engine;
use std::io::{Read, Write};
use std::net::TcpStream;
use stook_tests::Sandbox;
use stook_tests::http::Served;

const THINGS: &str = "\
catalogue: things
sources:
  list: { format: csv, as_of: meta.received, into: thing }
collections:
  thing: { key: code, fields: { code: text, title: text } }
profiles:
  load: { source: list, matched: update, unmatched: create }
serve: { origins: [ 'https://friend.example' ] }
routes:
  - put: /things/{code}
    params: { code: text }
    write: [ { put: thing, fields: { code: params.code } } ]
    answer: { code: params.code }
";

const ROWS: &[u8] = b"code,title\na,A\n";

fn token(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let made: serde_json::Value = serde_json::from_str(&sandbox.ok(&[&["token", "create", "--json"], arguments].concat())).unwrap();
    made["token"].as_str().unwrap().to_owned()
}

/// Sends bytes as they are; returns what comes back, up to the end of the connection.
fn send_raw(stook: &Served, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(stook.address()).unwrap();
    // a server that refuses a head may close before it has read all of it
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn pages_of_other_sites_change_nothing_with_credentials_that_a_browser_adds() {
    let sandbox = Sandbox::new(THINGS);
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    let secret = token(&sandbox, &["--role", "admin"]);
    let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("me:{secret}")));
    let bearer = format!("Bearer {secret}");
    let own = format!("http://{}", stook.address());
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    for credentials in [&basic, &bearer] {
        let send = |method: &str, path: &str, origin: Option<&str>| {
            let mut headers = vec![("authorization", credentials.as_str()), ("content-type", "text/plain")];
            headers.extend(origin.map(|origin| ("origin", origin)));
            stook.send(method, path, &headers, ROWS).status
        };
        for (method, path) in [("POST", "/v1/main/deliver?source=list"), ("POST", "/v1/main/import?source=list"), ("DELETE", "/v1/main/thing/none")] {
            for origin in ["http://evil.example", "null", "https://friend.example", "http://127.0.0.1:1"] {
                assert_eq!(send(method, path, Some(origin)), 403, "{method} {path} from {origin}");
            }
            for origin in [None, Some(own.as_str())] {
                assert_ne!(send(method, path, origin), 403, "{method} {path} from {origin:?}");
            }
        }
        // routes that the definition declares are for the pages that it names
        assert_eq!(send("PUT", "/things/b", Some("https://friend.example")), 200);
        assert_eq!(send("PUT", "/things/b", Some("http://evil.example")), 403);
        // what changes nothing is not readable for the page: the answer has no permission for it
        assert_eq!(send("GET", "/v1/main/query?q=thing", Some("http://evil.example")), 200);
    }
}

#[test]
fn invented_tenants_are_counted_together() {
    let sandbox = Sandbox::new(THINGS);
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    let admin = stook.client(Some(&token(&sandbox, &["--role", "admin", "--tenant", "*"])));
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert_eq!(admin.send("POST", "/v1/real/deliver?source=list", &[], ROWS).status, 200);
    admin.get("/v1/real/query?q=thing").expect_json(200);
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    for number in 0..50 {
        admin.get(&format!("/v1/invented{number}/query?q=thing")).expect_json(200);
    }
    admin.get("/v1/real/query?q=thing").expect_json(200);
    let metrics = admin.get("/metrics").text();
    assert!(!metrics.contains("invented"), "{metrics}");
    assert!(
        metrics.contains("route=\"/v1/{tenant}/query\",tenant=\"real\"") && metrics.contains("route=\"/v1/{tenant}/query\",tenant=\"-\""),
        "{metrics}"
    );
}

#[test]
fn ambiguous_and_large_heads_are_refused() {
    let sandbox = Sandbox::new(THINGS);
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    let status = |head: &str| {
        let answer = send_raw(&stook, format!("{head}Connection: close\r\n\r\n").as_bytes());
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let long = |bytes: usize| format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n", "a".repeat(bytes));
    for (head, expected) in [
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\n", "200"),
        ("GET /healthz HTTP/1.0\r\n", "200"),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n", "400"),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", "400"),
        ("GET /healthz HTTP/1.1\r\n", "400"),
        (&long(60_000), "200"),
        (&long(66_000), "431"),
        (&long(100_000), "431"),
        (&long(1_000_000), "431"),
    ] {
        assert_eq!(status(head), expected, "{}", &head[..head.len().min(90)]);
    }
    // a NUL character is UTF-8, and still no part of a parameter
    let refused = stook.get("/v1/main/query?q=%00");
    assert!(refused.status == 400 && refused.text().contains("NUL character"), "{refused:?}");
}

#[test]
fn a_server_whose_files_were_removed_writes_nothing_more_and_says_so() {
    for removed in [&["stook.sqlite"][..], &["stook.sqlite-wal"], &["stook.sqlite", "stook.sqlite-wal"]] {
        let sandbox = Sandbox::new(THINGS);
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        assert_eq!(stook.send("POST", "/v1/main/deliver?source=list", &[], ROWS).status, 200);
        assert_eq!(stook.get("/readyz").status, 200);
        for name in removed {
            std::fs::remove_file(sandbox.path(name)).unwrap();
        }
        let refused = stook.send("POST", "/v1/main/deliver?source=list", &[], b"code,title\nb,B\n");
        assert!(refused.status == 503 && refused.text().contains("removed or replaced"), "{removed:?}: {refused:?}");
        assert_eq!(stook.get("/readyz").status, 503, "{removed:?}");
        // another file under the same name is not the store that was opened
        std::fs::write(sandbox.path(removed[0]), b"").unwrap();
        assert_eq!(stook.send("POST", "/v1/main/deliver?source=list", &[], ROWS).status, 503, "{removed:?}");
    }
}

/// However many are refused, the log has one line a second, which counts them.
#[test]
fn refusals_are_one_line_a_second_that_counts_them() {
    let sandbox = Sandbox::new(THINGS);
    let stook = Served::new(&sandbox, &["--workers", "0", "--max-requests", "1", "--wait", "0"]);
    let started = std::time::Instant::now();
    let refused: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|_| {
                let client = stook.client(None);
                scope.spawn(move || {
                    let mut refused = 0;
                    while started.elapsed().as_millis() < 2_500 {
                        let reply = client.get("/v1/main/query?q=thing&total=true");
                        assert!(matches!(reply.status, 200 | 503), "{}", reply.text());
                        refused += u64::from(reply.status == 503);
                    }
                    refused
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let seconds = started.elapsed().as_secs() as usize + 1;
    // the last line is written at the end of its second
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let lines: Vec<serde_json::Value> = stook.log_text().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let counted: Vec<u64> = lines.iter().filter(|line| line["event"] == "refused").map(|line| line["requests"].as_u64().unwrap()).collect();
    assert!(refused > 0 && counted.len() <= seconds + 1, "{} lines for {refused} refusals in {seconds} s", counted.len());
    assert_eq!(counted.iter().sum::<u64>(), refused);
    assert!(!lines.iter().any(|line| line["event"] == "request" && line["status"] == 503), "none has a line of its own");
}

/// Whatever has a wrong name, the nearest right one is said.
#[test]
fn names_that_do_not_exist_are_answered_with_the_nearest() {
    let sandbox = Sandbox::new(THINGS);
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    stook.send("POST", "/v1/main/deliver?source=list", &[], ROWS).expect_json(200);
    let json = [("content-type", "application/json")];
    let cases: [(&str, &str, &str, u16, &str); 18] = [
        ("GET", "/v1/main/thing/a?delted=true", "", 400, "there is no parameter \"delted\" here; did you mean `deleted`?"),
        ("GET", "/v1/main/jobs?limits=3", "", 400, "did you mean `limit`?"),
        ("GET", "/v1/main/export/thing?formt=csv", "", 400, "did you mean `format`?"),
        ("GET", "/v1/main/thin/a", "", 404, "did you mean thing?"),
        ("GET", "/v1/main/query?q=thin", "", 400, "did you mean `thing`?"),
        ("GET", "/v1/main/query?q=thing%20titel=a", "", 400, "did you mean `title`?"),
        ("GET", "/v1/main/coverage?collection=thing.whole", "", 404, "there is no coverage \"thing.whole\"; there are none"),
        ("POST", "/v1/main/thing", r#"{"code":"b","titel":"B"}"#, 422, "there is no field `titel`; did you mean `title`?"),
        ("PUT", "/v1/main/thing/a?clear=titel", "{}", 422, "there is no field `titel`; did you mean `title`?"),
        ("PUT", "/v1/main/thing/a", r#"{"colour":"B"}"#, 422, "there is no field `colour`; there are code, title"),
        ("POST", "/v1/main/thing/a/lend", "{}", 404, "no such path"),
        ("POST", "/v1/main/lookup", r#"{"collection":"thin","keys":[]}"#, 422, "there is no collection \"thin\"; did you mean `thing`?"),
        ("POST", "/v1/main/lookup", r#"{"collection":"thing","keys":[],"key":1}"#, 422, "there is no member \"key\" here; did you mean `keys`?"),
        ("POST", "/v1/main/tokens", r#"{"role":"read","name":"x","expire":"1d"}"#, 422, "did you mean `expires`?"),
        ("POST", "/v1/main/import?source=lits", "code\nb\n", 422, "there is no source `lits`; did you mean `list`?"),
        ("POST", "/v1/main/import?profile=laod", "code\nb\n", 422, "there is no profile `laod`; did you mean `load`?"),
        ("POST", "/v1/main/deliver?source=lits", "code\nb\n", 422, "there is no source `lits`; did you mean `list`?"),
        ("PUT", "/things/b?cod=1", "", 400, "there is no parameter \"cod\" here; there are none"),
    ];
    for (method, path, body, status, words) in cases {
        let reply = stook.send(method, path, if body.starts_with('{') { &json } else { &[] }, body.as_bytes());
        let text = reply.text().replace("\\\"", "\"");
        assert!(reply.status == status && text.contains(words), "{method} {path} {body}: {} {text}", reply.status);
    }
    assert_eq!(stook.get("/v1/main/query?q=thing&total=true").expect_json(200)["total"], 1);
}

#[test]
fn parameters_that_a_route_ignores_are_named_in_a_header() {
    let definition = THINGS.replace("serve: { origins:", "serve: { unknown: ignore, origins:")
        + "  - get: /things/{code}\n    params: { code: text, title: text }\n    one: thing\n    where: { key: params.code, title: params.title }\n";
    let sandbox = Sandbox::new(&definition);
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    stook.send("POST", "/v1/main/deliver?source=list", &[], ROWS).expect_json(200);
    let found = stook.get("/things/a?titel=none");
    let warning = "there is no parameter \\\"titel\\\" here; did you mean `title`?; it was ignored";
    assert_eq!((found.status, found.header("stook-warning")), (200, Some(warning)), "{}", found.text());
    assert_eq!(stook.get("/things/a?title=none").status, 404);
    assert_eq!(stook.get("/things/a?title=A").header("stook-warning"), None);
}
