//! Slow, silent, greedy and too many peers: their effect is limited.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

use axum::Router;
use axum::routing::get;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stook_catalogue::parse::parse;
use stook_server::admission::{ClassLimits, RequestClass};
use stook_server::{App, RequestLogLevel, ServerOptions, guarded, serve, serve_routes};
use stook_store::sqlite::{self, SqliteStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const CATALOGUE: &str = "catalogue: things\nsources:\n  files: { format: json, into: thing, as_of: meta.received }\ncollections:\n  thing: { key: code, fields: { code: text, text: text } }\n";

struct Running {
    app: Arc<App>,
    address: SocketAddr,
    _folder: TempDir,
}

async fn start(options: ServerOptions, routes: impl FnOnce(&Arc<App>) -> Option<Router>) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = Arc::new(parse(CATALOGUE).unwrap());
    let store = SqliteStore::open(&folder.path().join("s.sqlite"), catalogue.clone(), sqlite::SqliteOptions::default()).unwrap();
    let app = App::new(catalogue, Arc::new(store), ServerOptions { log: RequestLogLevel::None, ..options }).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app_clone = app.clone();
    let never = std::future::pending::<()>();
    match routes(&app) {
        Some(routes) => tokio::spawn(async move { serve_routes(app_clone, routes, listener, never).await }),
        None => tokio::spawn(async move { serve(app_clone, listener, never).await }),
    };
    Running { app, address, _folder: folder }
}

fn impatient() -> ServerOptions {
    let stall = Duration::from_millis(400);
    ServerOptions { stall, request_time: Duration::from_millis(800), ..ServerOptions::default() }
}

/// Reads until the server closes the connection, which it must do soon.
async fn until_closed(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
    let _ = read.expect("the connection is closed");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Makes a request on a new connection. Returns status, head, and duration.
async fn request(address: SocketAddr, path: &str) -> Option<(u16, String, Duration)> {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes()).await.ok()?;
    let answer = until_closed(&mut stream).await;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer.to_lowercase(), began.elapsed()))
}

#[tokio::test]
async fn peers_that_send_slowly_are_disconnected() {
    let running = start(impatient(), |_| None).await;
    // a head that never ends, a byte now and then
    let mut slow = TcpStream::connect(running.address).await.unwrap();
    let began = Instant::now();
    for byte in b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ".iter().chain(std::iter::repeat(&b'a')) {
        if slow.write_all(&[*byte]).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(began.elapsed() < Duration::from_secs(5), "it listens for ever");
    }
    // no request, and no second request after a response
    let mut silent = TcpStream::connect(running.address).await.unwrap();
    assert_eq!(until_closed(&mut silent).await, "");
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(until_closed(&mut idle).await.starts_with("HTTP/1.1 200"));
    // a body that never arrives: of an edit, of an upload, of forms
    for path in ["/v1/main/thing", "/v1/main/import?source=files", "/sign-in", "/t/main/transition", "/t/main/upload"] {
        let mut body = TcpStream::connect(running.address).await.unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{");
        body.write_all(head.as_bytes()).await.unwrap();
        let answer = until_closed(&mut body).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{path}: {answer}");
    }
    assert_eq!(request(running.address, "/healthz").await.unwrap().0, 200);
}

/// Sends a byte of a body now and then until the connection is closed; returns how long that took.
async fn trickle(address: SocketAddr, path: &str) -> Duration {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let began = Instant::now();
    while stream.write_all(b" ").await.is_ok() && began.elapsed() < Duration::from_secs(8) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    began.elapsed()
}

#[tokio::test]
async fn slow_senders_do_not_delay_other_requests() {
    let limits = ClassLimits { max_requests: 2, wait: Duration::from_millis(100) };
    let running = start(ServerOptions { interactive: limits, bulk: limits, ..impatient() }, |_| None).await;
    let address = running.address;
    let slow: Vec<_> = (0..8).map(|_| tokio::spawn(trickle(address, "/v1/main/lookup"))).collect();
    let uploads: Vec<_> = (0..2).map(|_| tokio::spawn(trickle(address, "/v1/main/import?source=files"))).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    // while their bodies arrive, they hold no permits
    for _ in 0..20 {
        assert_eq!(request(address, "/v1/main/query?q=thing").await.unwrap().0, 200);
    }
    // uploads hold permits, which are free again soon
    for task in slow.into_iter().chain(uploads) {
        let took = task.await.unwrap();
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    assert_eq!(request(address, "/v1/main/export/thing").await.unwrap().0, 200);
}

#[tokio::test]
async fn peers_that_do_not_read_are_disconnected_and_hold_no_permits() {
    let running = start(impatient(), |_| None).await;
    // more than socket buffers hold
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let line = format!("{{\"code\":\"K\",\"text\":\"{}\"}}\n", "x".repeat(2_000));
    let lines: String = (0..15_000).map(|number| line.replace('K', &number.to_string())).collect();
    let head =
        format!("POST /v1/main/import?source=files HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", lines.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(lines.as_bytes()).await.unwrap();
    assert!(until_closed(&mut stream).await.starts_with("HTTP/1.1 202"));
    let app = running.app.clone();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let options = stook_engine::work::WorkerOptions { workers: 2, lease_seconds: 60, drain: true, settles: true, only: None };
    tokio::task::spawn_blocking(move || stook_server::work(&app, &options, &stop)).await.unwrap().unwrap();
    let mut greedy = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(b"GET /v1/main/export/thing HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        greedy.push(stream);
    }
    // all permits of exports are held by peers that do not read, until they are cut off
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let (status, answer, _) = request(running.address, "/v1/main/export/thing").await.unwrap();
        if status == 200 {
            assert!(answer.len() > lines.len(), "a whole one");
            break;
        }
        assert_eq!(status, 503);
        assert!(Instant::now() < deadline, "their places are theirs for ever");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // meanwhile an interactive request is answered
    assert_eq!(request(running.address, "/v1/main/thing/7").await.unwrap().0, 200);
}

/// Requests with changed, missing and added bytes: the server responds sensibly or closes the connection, and keeps running.
#[tokio::test]
async fn mangled_requests_never_cause_internal_errors() {
    let running = start(impatient(), |_| None).await;
    let body = r#"{"code":"a","text":"b","n":[1,{"x":null}]}"#;
    let requests = [
        format!("POST /v1/main/thing HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()),
        "GET /v1/main/query?q=thing%20code=a*%20|%20sort%20text-&limit=5&idx=0&total=true HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_owned(),
        "GET /v1/main/thing/a%2Fb?deleted=true HTTP/1.1\r\nhost: localhost\r\nif-none-match: \"1\", W/\"2\"\r\nauthorization: Basic YTpi\r\nconnection: close\r\n\r\n".to_owned(),
        "POST /v1/main/import?source=files&as_of=2020-01-01T00:00:00Z HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n5\r\n{\"cod\r\n0\r\n\r\n".to_owned(),
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random_below = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    for round in 0..1_500 {
        let mut bytes = requests[round % requests.len()].clone().into_bytes();
        for _ in 0..=random_below(6) {
            if bytes.is_empty() {
                bytes.push(b'G');
            }
            let position = random_below(bytes.len());
            match random_below(4) {
                0 => bytes[position] = random_below(256) as u8,
                1 => drop(bytes.remove(position)),
                2 => bytes.insert(position, b"\r\n%/?&=:\0\xff{}[]\"0"[random_below(15)]),
                _ => bytes.truncate(position),
            }
        }
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
        let answer = until_closed(&mut stream).await;
        assert!(!answer.starts_with("HTTP/1.1 500"), "{:?}: {answer}", String::from_utf8_lossy(&bytes));
    }
    assert_eq!(request(running.address, "/readyz").await.unwrap().0, 200);
}

#[tokio::test]
async fn connections_beyond_the_limit_are_refused_with_503() {
    let wait_routes = |app: &Arc<App>| {
        let wait = || async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            "waited"
        };
        Some(guarded(app, RequestClass::Interactive, Router::new().route("/wait", get(wait))).with_state(app.clone()))
    };
    let running = start(ServerOptions { connections: 5, ..ServerOptions::default() }, wait_routes).await;
    let busy: Vec<_> = (0..5).map(|_| tokio::spawn(request(running.address, "/wait"))).collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (status, answer, _) = request(running.address, "/wait").await.unwrap();
    assert!(status == 503 && answer.contains("retry-after"), "{answer}");
    for answered in busy {
        assert_eq!(answered.await.unwrap().unwrap().0, 200, "requests in progress keep their places");
    }
    assert_eq!(request(running.address, "/wait").await.unwrap().0, 200);
}

#[tokio::test]
async fn connections_without_a_request_keep_nobody_out() {
    let running = start(ServerOptions { connections: 5, ..ServerOptions::default() }, |_| None).await;
    let mut open_connections = Vec::new();
    for number in 0..40 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        match number % 4 {
            // silent; a part of a head; a request before
            0 | 1 => {}
            2 => stream.write_all(b"GET /healthz HTT").await.unwrap(),
            _ => {
                stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
                let mut answer = [0; 12];
                stream.read_exact(&mut answer).await.unwrap();
                assert_eq!(&answer, b"HTTP/1.1 200");
            }
        }
        open_connections.push(stream);
        let (status, _, took) = request(running.address, "/healthz").await.unwrap();
        assert!(status == 200 && took < Duration::from_secs(2), "{number}: {status} after {took:?}");
    }
    // those that were closed are the oldest
    assert_eq!(until_closed(&mut open_connections.remove(0)).await, "");
    let last = open_connections.last_mut().unwrap();
    last.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(until_closed(last).await.contains("HTTP/1.1 200"), "the youngest is served");
}

/// Ten times the capacity: every request gets a response, and those that are refused contain when to try again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overload_is_answered_with_503_and_retry_after() {
    let limits = ClassLimits { max_requests: 8, wait: Duration::from_millis(15) };
    let hold_routes = |app: &Arc<App>| {
        let hold_routes = || async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            "held"
        };
        Some(guarded(app, RequestClass::Interactive, Router::new().route("/hold", get(hold_routes))).with_state(app.clone()))
    };
    let running = start(ServerOptions { interactive: limits, ..ServerOptions::default() }, hold_routes).await;
    let address = running.address;
    let mut clients = Vec::new();
    let until = Instant::now() + Duration::from_secs(4);
    for _ in 0..80 {
        clients.push(tokio::spawn(async move {
            let mut seen: BTreeMap<u16, u64> = BTreeMap::new();
            while Instant::now() < until {
                let (status, answer, _) = request(address, "/hold").await.expect("every request is answered");
                assert!(status == 200 || answer.contains("retry-after: 1"), "{answer}");
                *seen.entry(status).or_default() += 1;
            }
            seen
        }));
    }
    let mut seen: BTreeMap<u16, u64> = BTreeMap::new();
    for client in clients {
        for (status, count) in client.await.unwrap() {
            *seen.entry(status).or_default() += count;
        }
    }
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [200, 503], "{seen:?}");
    assert!(seen[&200] > 200, "work goes on: {seen:?}");
    for _ in 0..20 {
        assert_eq!(request(address, "/hold").await.unwrap().0, 200, "afterwards all is as before");
    }
}
