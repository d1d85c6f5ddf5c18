//! People whom a proxy identifies: what they may do, where their names are, and that nobody else can claim to be one.

use serde_json::json;
use std::time::Duration;
use stook_tests::Sandbox;
use stook_tests::http::{Client, Reply, Served};

const THINGS: &str = "
catalogue: things
sources:
  files: { format: json, into: thing, as_of: meta.received }
collections:
  thing: { key: code, fields: { code: text, title: { type: text, index: equal } } }
";

const SECRET: &str = "a-secret-of-the-proxy-0123";

/// Serves with a proxy at a network.
fn served(sandbox: &Sandbox, network: &str) -> Served {
    let secret = sandbox.write_file("proxy.secret", format!("{SECRET}\n"));
    let arguments = ["--workers", "0", "--trust-proxy", network, "--proxy-secret-file", &secret];
    Served::new(sandbox, &[&arguments[..], &["--proxy-rights", "staff=write", "--proxy-rights", "ops=admin"]].concat())
}

/// The headers of a person as oauth2-proxy sends them.
fn person<'a>(name: &'a str, groups: &'a str) -> [(&'a str, &'a str); 4] {
    [("x-proxy-secret", SECRET), ("x-forwarded-user", name), ("x-forwarded-email", name), ("x-forwarded-groups", groups)]
}

fn put(client: &Client, headers: &[(&str, &str)]) -> Reply {
    let headers = [headers, &[("content-type", "application/json")]].concat();
    client.send("PUT", "/v1/main/thing/a", &headers, json!({"code": "a", "title": "A"}).to_string().as_bytes())
}

#[test]
fn people_are_named_in_pages_and_in_the_audit_log_and_may_what_their_groups_may() {
    let sandbox = Sandbox::new(THINGS);
    let stook = served(&sandbox, "127.0.0.0/8");
    let proxy = stook.client(None);
    assert_eq!(put(&proxy, &person("ann@a.example", "staff,readers")).status / 100, 2);
    assert_eq!(put(&proxy, &person("eve@a.example", "readers")).status, 403, "in no group with rights");
    assert_eq!(proxy.send("GET", "/v1/main/audit", &person("ann@a.example", "staff"), b"").status, 403);
    let other_page = [&person("ann@a.example", "staff")[..], &[("origin", "https://evil.example")]].concat();
    assert_eq!(put(&proxy, &other_page).status, 403, "a page of another site");
    std::thread::sleep(Duration::from_millis(300));
    let ops = person("bob@a.example", "ops");
    let log = proxy.send("GET", "/v1/main/audit", &ops, b"").expect_json(200);
    let entries: Vec<_> = log["entries"].as_array().unwrap().iter().map(|entry| (entry["caller"].clone(), entry["outcome"].clone())).collect();
    assert!(entries.contains(&(json!("ann@a.example"), json!("done"))), "{log}");
    let page = proxy.send("GET", "/t/main/audit", &ops, b"");
    assert!(page.status == 200 && page.text().contains("bob@a.example") && page.text().contains("ann@a.example"), "{}", page.text());
    assert!(!page.text().contains("action=\"/sign-out\""), "the proxy signs out");
    assert_eq!(proxy.send("GET", "/", &ops, b"").header("location"), Some("/t/main/home"));
    assert_eq!(proxy.send("GET", "/t/main/home", &person("eve@a.example", "readers"), b"").status, 403, "she is told, and not asked for a token");
    // forms of one person are not those of another
    let csrf_of = |name: &str| {
        let page = proxy.send("GET", "/t/main/tokens", &person(name, "ops"), b"").text();
        page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    assert_ne!(csrf_of("bob@a.example"), csrf_of("cy@a.example"));
    // metrics, and the description of the API, know the person too
    assert_eq!(proxy.send("GET", "/metrics", &ops, b"").status, 200);
    assert_eq!(proxy.send("GET", "/metrics", &person("ann@a.example", "staff"), b"").status, 403);
}

#[test]
fn nobody_else_can_say_who_somebody_is() {
    let sandbox = Sandbox::new(THINGS);
    let [_, user, email, groups] = person("root@a.example", "ops");
    let basic = |password: &str| {
        use base64::Engine;
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("root:{password}")))
    };
    let (right, wrong) = (basic(SECRET), basic("a-secret-of-the-proxy-0124"));
    {
        let stook = served(&sandbox, "127.0.0.1");
        let client = stook.client(None);
        for claimed in [
            vec![],
            vec![user, email, groups],
            vec![("x-proxy-secret", ""), user, email, groups],
            vec![("x-proxy-secret", "a-secret-of-the-proxy-0124"), user, email, groups],
            vec![("authorization", &*wrong), user, email, groups],
            vec![("x-proxy-secret", SECRET)],
            vec![("x-proxy-secret", SECRET), groups],
            vec![("authorization", &*right)],
            // a client's header beside the proxy's
            vec![("x-proxy-secret", SECRET), ("x-forwarded-user", "ann"), user, ("x-forwarded-groups", "readers")],
            vec![("x-proxy-secret", SECRET), ("x-forwarded-user", "ann"), ("x-forwarded-groups", "readers"), groups],
        ] {
            assert_eq!(put(&client, &claimed).status, 401, "{claimed:?}");
            assert_eq!(client.send("GET", "/metrics", &claimed, b"").status, 401, "{claimed:?}");
            let page = client.send("GET", "/t/main/home", &claimed, b"").status;
            assert!([303, 401].contains(&page), "{claimed:?}: {page}");
        }
        let as_oauth2_proxy = [("authorization", &*right), user, email, groups];
        assert_eq!(put(&client, &as_oauth2_proxy).status / 100, 2);
    }
    // the secret alone is not enough: this server trusts another address
    let stook = served(&sandbox, "10.9.9.0/24");
    assert_eq!(put(&stook.client(None), &[("x-proxy-secret", SECRET), user, email, groups]).status, 401);
    drop(stook);
    // without a trusted proxy, the headers say nothing
    let token = sandbox.ok(&["token", "create", "--role", "read", "--name", "reader"]).trim().to_owned();
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    assert_eq!(put(&stook.client(Some(&token)), &[("x-proxy-secret", SECRET), user, email, groups]).status, 403);
    assert_eq!(put(&stook.client(None), &[("x-proxy-secret", SECRET), user, email, groups]).status, 401);
}

#[test]
fn what_cannot_be_meant_is_refused_when_the_server_starts() {
    let sandbox = Sandbox::new(THINGS);
    let (good, short) = (sandbox.write_file("good", SECRET), sandbox.write_file("short", "secret"));
    let serve = |more: &[&str]| sandbox.run(&[&["serve", "--listen", "127.0.0.1:0"], more].concat());
    serve(&["--trust-proxy", "127.0.0.1"]).exits(64).stderr_contains(&["--proxy-secret-file"]);
    serve(&["--trust-proxy", "0.0.0.0/0", "--proxy-secret-file", &good, "--proxy-rights", "*=read"]).exits(64).stderr_contains(&["10.0.0.0/24"]);
    serve(&["--trust-proxy", "127.0.0.1", "--proxy-secret-file", &short, "--proxy-rights", "*=read"]).exits(1).stderr_contains(&["openssl rand"]);
    serve(&["--trust-proxy", "127.0.0.1", "--proxy-secret-file", &good, "--proxy-rights", "*=read:thin"]).exits(64).stderr_contains(&["thing"]);
    serve(&["--trust-proxy", "127.0.0.1", "--proxy-secret-file", "/nowhere", "--proxy-rights", "*=read"]).exits(1).stderr_contains(&["/nowhere"]);
}
