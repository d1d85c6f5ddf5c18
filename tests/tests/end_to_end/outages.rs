//! A database that cannot be reached, or only through a pooler: what callers are told, how soon, and what happens when it is back.

use serde_json::json;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use stook_testkit::postgres::TestServer;
use stook_tests::http::Served;
use stook_tests::{LIBRARY, Sandbox};

const THINGS: &str = "
catalogue: things
sources:
  files: { format: json, into: thing, as_of: meta.received }
collections:
  thing: { key: code, fields: { code: text, title: { type: text, index: equal } } }
";

/// What a request takes at most once it is known that the database is down: far less than the 30 s for which a pool waits.
const AT_ONCE: Duration = Duration::from_millis(1_000);

#[test]
fn while_the_database_is_down_requests_are_refused_at_once_and_all_recovers_by_itself() {
    let Some(server) = TestServer::for_test(&[]) else { return };
    let sandbox = Sandbox::on_server(THINGS, format!("{}?schema=outage", server.url("postgres")));
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    let thing = |code: &str| json!({ "code": code, "title": "T" });
    assert_eq!(stook.call("POST", "/v1/main/thing", &thing("a")).status, 201);
    for mode in ["immediate", "fast"] {
        server.stop(mode).unwrap();
        // the first requests wait, in case the server only restarts
        let began = Instant::now();
        let first = stook.get("/v1/main/query?q=thing");
        assert_eq!(first.status, 503, "{}", first.text());
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
        std::thread::sleep(Duration::from_secs(3));
        for (method, path, body) in [
            ("GET", "/v1/main/query?q=thing", None),
            ("GET", "/v1/main/thing/b", None),
            ("GET", "/v1/main/jobs", None),
            ("POST", "/v1/main/thing", Some(thing("b"))),
            ("POST", "/v1/main/deliver", Some(thing("c"))),
            ("GET", "/readyz", None),
        ] {
            let began = Instant::now();
            let answer = match &body {
                Some(body) => stook.call(method, path, body),
                None => stook.get(path),
            };
            assert_eq!((answer.status, answer.header("retry-after").is_some()), (503, true), "{method} {path}: {}", answer.text());
            assert!(began.elapsed() < AT_ONCE, "{method} {path} took {:?}", began.elapsed());
        }
        // many at once do not wait for each other
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| assert_eq!(stook.get("/v1/main/query?q=thing").status, 503));
            }
        });
        assert!(began.elapsed() < 3 * AT_ONCE, "{:?}", began.elapsed());
        assert_eq!(stook.get("/healthz").status, 200);
        server.up().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while stook.get("/readyz").status != 200 || stook.get("/v1/main/query?q=thing").status != 200 {
            assert!(Instant::now() < until, "it does not recover: {}", stook.get("/readyz").text());
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(stook.get("/v1/main/thing/a").expect_json(200)["title"], "T");
        assert_eq!(stook.call("PUT", "/v1/main/thing/d", &thing("d")).status / 100, 2);
    }
}

/// A PgBouncer before a server.
struct Pooler {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Pooler {
    fn start(server: &TestServer, mode: &str) -> Option<Self> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].into_iter().find(|path| Path::new(path).exists());
        let Some(program) = program else {
            stook_testkit::skip::missing("PgBouncer is not installed");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
        let text = format!(
            "[databases]\npostgres = host=127.0.0.1 port={} user=stook dbname=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = {mode}\ndefault_pool_size = 20\nignore_startup_parameters = extra_float_digits,options\n{}",
            server.port(),
            // it does not stay root
            if is_root { "user = postgres\n" } else { "" }
        );
        let settings = folder.path().join("pgbouncer.ini");
        std::fs::write(&settings, text).unwrap();
        let child = Command::new(program).arg(&settings).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "PgBouncer does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(Self { child, port, _folder: folder })
    }

    fn url(&self, schema: &str) -> String {
        format!("postgres://stook@127.0.0.1:{}/postgres?schema={schema}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_pooler_that_shares_connections_is_refused_with_what_to_set_and_one_for_sessions_works() {
    let Some(server) = TestServer::for_test(&[]) else { return };
    let Some(pooler) = Pooler::start(&server, "transaction") else { return };
    let refused = Sandbox::library().command(&["prepare", "--store", &pooler.url("shared")]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("pool_mode = session"), "{said}");
    drop(pooler);
    let Some(pooler) = Pooler::start(&server, "session") else { return };
    let sandbox = Sandbox::on_server(LIBRARY, pooler.url("sessions"));
    let names = sandbox.write_file("names.mrc", stook_tests::authorities(300, 1, 1));
    sandbox.import(&[&names, "--profile", "upsert"]);
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    assert_eq!(stook.get("/v1/main/query?q=authority&total=true").expect_json(200)["total"], 300);
}
