//! Records are recognised by their names: as OpenRefine asks, with the same answers from both stores, and by a public client.

use serde_json::{Value as Json, json};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use stook_tests::http::{Reply, Served, url_encoded};
use stook_tests::{Sandbox, repository};

const LIBRARY: &str = "
catalogue: library
serve: { origins: ['http://127.0.0.1:3333'] }
sources:
  authors: { format: csv, into: author, as_of: meta.received }
  books: { format: csv, into: book, as_of: meta.received }
  shelves: { format: csv, into: shelf, as_of: meta.received }
collections:
  author:
    key: id
    fields: { id: text, name: { type: text, index: words }, born: date }
  book:
    key: id
    fields:
      id: text
      title: { type: text, index: words }
      summary: { type: text, index: words }
      year: { type: integer, index: equal }
      author_id: text
      isbn: { type: text, index: equal }
      price: float
    links: { written_by: { to: author, same: { author_id: id } } }
  shelf:
    key: id
    fields: { id: text, place: text }
";

const AUTHORS: &str = "id,name,born\na1,Herman Melville,1819-08-01\na2,Jane Austen,1775-12-16\n";
const BOOKS: &str = "id,title,summary,year,author_id,isbn,price\n\
    b1,\"Moby-Dick; or, The Whale\",a voyage after a white whale,1851,a1,111,9.5\n\
    b2,Pride and Prejudice,Elizabeth Bennet,1813,a2,222,8\n\
    b3,Pride & Prejudice,another edition,1894,a2,333,\n\
    b4,Emma,a novel about youthful hubris,1815,a2,444,\n\
    b5,Les Misérables,,1862,,555,\n\
    x/6 é,<Sea> of stories,the sea,1990,a9,666,\n";

fn library(sandbox: &Sandbox) -> Served {
    sandbox.import(&[&sandbox.write_file("authors.csv", AUTHORS), "--source", "authors"]);
    sandbox.import(&[&sandbox.write_file("books.csv", BOOKS), "--source", "books"]);
    sandbox.ok(&["settle"]);
    Served::new(sandbox, &["--workers", "1"])
}

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const SERVICE: &str = "/v1/main/reconcile/book";

/// What OpenRefine sends: a form with one field.
fn post(stook: &Served, field: &str, sent: &Json) -> Reply {
    stook.send("POST", SERVICE, &[FORM], format!("{field}={}", url_encoded(&sent.to_string())).as_bytes())
}

/// The candidates of one query: key, score, whether it matches.
fn candidates(stook: &Served, query: &Json) -> Vec<(String, f64, bool)> {
    let answer = post(stook, "queries", &json!({ "q0": query })).expect_json(200);
    let shown = |candidate: &Json| {
        (candidate["id"].as_str().unwrap().to_owned(), candidate["score"].as_f64().unwrap(), candidate["match"].as_bool().unwrap())
    };
    answer["q0"]["result"].as_array().unwrap().iter().map(shown).collect()
}

fn best(stook: &Served, query: &Json) -> Option<(String, bool)> {
    candidates(stook, query).into_iter().next().map(|(key, _, is_match)| (key, is_match))
}

#[test]
fn names_are_recognised_in_the_same_way_on_both_stores() {
    let mut answers: Vec<Vec<Vec<(String, f64, bool)>>> = Vec::new();
    for sandbox in Sandbox::on_each_store(LIBRARY) {
        let stook = library(&sandbox);
        let is = |query: Json, key: &str, is_match: bool| assert_eq!(best(&stook, &query), Some((key.to_owned(), is_match)), "{query}");
        is(json!({ "query": "moby dick or the whale" }), "b1", true);
        is(json!({ "query": "b1" }), "b1", true);
        is(json!({ "query": "moby dick" }), "b1", false);
        is(json!({ "query": "Moby Dik; or, the Whale" }), "b1", false);
        is(json!({ "query": "Mobi Dikc" }), "b1", false);
        is(json!({ "query": "les miserables" }), "b5", true);
        is(json!({ "query": "Misérable" }), "b5", false);
        is(json!({ "query": "voyage white whale" }), "b1", false);
        // two editions have the words of the name; the year decides
        is(json!({ "query": "Pride and Prejudice", "properties": [{ "pid": "year", "v": 1813 }] }), "b2", true);
        is(json!({ "query": "Pride & Prejudice", "properties": [{ "pid": "year", "v": "1894" }] }), "b3", true);
        is(json!({ "query": "Pride & Prejudice", "properties": [{ "pid": "year", "v": ["1813"] }] }), "b2", false);
        is(
            json!({ "query": "Emma", "properties": [{ "pid": "author_id", "v": { "id": "a2", "name": "Jane Austen" } }], "type": "book" }),
            "b4",
            true,
        );
        // an identifier finds what the name does not
        is(json!({ "query": "Pequod", "properties": [{ "pid": "isbn", "v": "111" }], "type": ["book"], "type_strict": "any" }), "b1", false);
        is(json!({ "properties": [{ "pid": "isbn", "v": "111" }] }), "b1", true);
        for nothing in ["", "?!", "zebra", "\"*"] {
            assert_eq!(candidates(&stook, &json!({ "query": nothing })), [], "{nothing:?}");
        }
        let asked = ["pride prejudice", "the", "sea stories", "whale", "Emma novel youthful", "aus", "x/6 é"];
        answers.push(asked.iter().map(|text| candidates(&stook, &json!({ "query": text, "limit": 3 }))).collect());
        let batch = json!({ "q1": { "query": "emma", "limit": 1 }, "q2": { "query": "<sea> of stories" } });
        let found = post(&stook, "queries", &batch).expect_json(200);
        assert_eq!((&found["q1"]["result"][0]["id"], &found["q2"]["result"][0]["id"]), (&json!("b4"), &json!("x/6 é")));
        assert_eq!(found["q1"]["result"][0]["type"], json!([{ "id": "book", "name": "book" }]));
        assert_eq!(found["q1"]["result"][0]["features"], json!([{ "id": "name", "value": 100.0 }]));
        // the same by URL and as JSON
        assert_eq!(stook.get(&format!("{SERVICE}?queries={}", url_encoded(&batch.to_string()))).expect_json(200), found);
        assert_eq!(stook.call("POST", SERVICE, &json!({ "queries": batch })).expect_json(200), found);
    }
    assert!(answers.iter().all(|answer| answer == &answers[0]), "{answers:?}");
}

#[test]
fn values_of_recognised_records_are_given_with_the_names_of_linked_ones() {
    for sandbox in Sandbox::on_each_store(LIBRARY) {
        let stook = library(&sandbox);
        let properties: Vec<Json> = ["title", "year", "price", "written_by"].iter().map(|id| json!({ "id": id })).collect();
        let answer = post(&stook, "extend", &json!({ "ids": ["b1", "x/6 é", "none"], "properties": properties })).expect_json(200);
        assert_eq!(answer["meta"][3], json!({ "id": "written_by", "name": "written_by", "type": { "id": "author", "name": "author" } }));
        let expected = json!({
            "title": [{ "str": "Moby-Dick; or, The Whale" }], "year": [{ "int": 1851 }], "price": [{ "float": 9.5 }],
            "written_by": [{ "id": "a1", "name": "Herman Melville" }],
        });
        assert_eq!(answer["rows"]["b1"], expected);
        assert_eq!(answer["rows"]["x/6 é"]["price"], json!([]));
        assert_eq!(answer["rows"]["none"], json!({ "title": [], "year": [], "price": [], "written_by": [] }));
        let authors = stook.call(
            "POST",
            "/v1/main/reconcile/author",
            &json!({ "extend": { "ids": ["a2"], "properties": [{ "id": "born", "settings": {} }] } }),
        );
        assert_eq!(authors.expect_json(200)["rows"]["a2"]["born"], json!([{ "date": "1775-12-16T00:00:00Z" }]));
        // who may not read authors gets their keys
        let token = sandbox.ok(&["token", "create", "--may", "read:book"]);
        let reader = stook.client(Some(token.trim()));
        std::thread::sleep(std::time::Duration::from_millis(1_500));
        let sent = json!({ "extend": { "ids": ["b1"], "properties": [{ "id": "written_by" }] } });
        let answer = reader.call("POST", SERVICE, &sent).expect_json(200);
        assert_eq!((&answer["rows"]["b1"]["written_by"], answer["meta"][0].get("type")), (&json!([{ "str": "a1" }]), None));
        assert_eq!(reader.get("/v1/main/reconcile/author").status, 403);
        assert_eq!(stook.client(None).get(SERVICE).status, 401);
        let manifest = reader.get(SERVICE).expect_json(200);
        assert_eq!(manifest["authentication"], json!({ "type": "http", "scheme": "basic" }));
    }
}

#[test]
fn services_describe_themselves_and_complete_what_is_typed() {
    let sandbox = Sandbox::new(LIBRARY);
    let stook = library(&sandbox);
    let manifest = stook.get(SERVICE).expect_json(200);
    let here = format!("http://{}", stook.address());
    assert_eq!((&manifest["versions"], &manifest["name"]), (&json!(["0.1", "0.2"]), &json!("library: book")));
    assert_eq!(manifest["defaultTypes"], json!([{ "id": "book", "name": "book" }]));
    assert!(manifest["identifierSpace"].as_str().unwrap().starts_with(&here));
    let filled = |template: &Json| template.as_str().unwrap().replace("{{id}}", "x%2F6%20%C3%A9").strip_prefix(&here).unwrap().to_owned();
    let preview = stook.get(&filled(&manifest["preview"]["url"]));
    assert_eq!((preview.status, preview.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(preview.text().contains("&lt;Sea&gt; of stories") && !preview.text().contains("<Sea>"), "{}", preview.text());
    assert!(preview.header("content-security-policy").is_some_and(|policy| policy.contains("default-src 'none'")));
    assert_eq!(stook.get(&filled(&manifest["view"]["url"])).status, 200);
    assert_eq!(stook.get(&format!("{SERVICE}/preview?id=none")).status, 404);
    let suggested = |what: &str, prefix: &str| -> Vec<String> {
        let service = &manifest["suggest"][what];
        let url = format!("{}{}", service["service_url"].as_str().unwrap(), service["service_path"].as_str().unwrap());
        let answer = stook.get(&format!("{}?prefix={}", url.strip_prefix(&here).unwrap(), url_encoded(prefix))).expect_json(200);
        answer["result"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(suggested("entity", "pride pre"), ["b3", "b2"]);
    assert_eq!(suggested("entity", "b4"), ["b4"]);
    assert_eq!(suggested("entity", ""), [] as [&str; 0]);
    assert_eq!(suggested("property", "ye"), ["year"]);
    assert_eq!(suggested("property", "id"), ["id", "author_id"]);
    assert_eq!((suggested("type", "bo"), suggested("type", "author")), (vec!["book".to_owned()], vec![]));
    let next = stook.get(&format!("{SERVICE}/suggest/entity?prefix=pride&cursor=1")).expect_json(200);
    assert_eq!(next["result"].as_array().map(Vec::len), Some(1));
    let proposed = stook.get(&format!("{SERVICE}/properties?type=book&limit=2")).expect_json(200);
    assert_eq!(proposed["properties"], json!([{ "id": "id", "name": "id" }, { "id": "title", "name": "title" }]));
    // without a field with words there are no names
    assert_eq!(stook.get("/v1/main/reconcile/shelf").status, 404);
}

#[test]
fn what_is_wrong_is_said_at_its_place() {
    let sandbox = Sandbox::new(LIBRARY);
    let stook = library(&sandbox);
    let refused = |reply: Reply, words: &str| {
        let problem = reply.expect_json(422);
        assert!(problem["detail"].as_str().unwrap().contains(words), "{words}: {problem}");
    };
    for (query, words) in [
        (
            json!({ "query": "x", "properties": [{ "pid": "yaer", "v": 1 }] }),
            "queries.q0.properties[0].pid: `book` has no property \"yaer\"; did you mean `year`?",
        ),
        (json!({ "query": "x", "properties": [{ "pid": "year" }] }), "queries.q0.properties[0].v: the value is missing"),
        (json!({ "query": "x", "properties": [{ "pid": "year", "v": [null] }] }), "queries.q0.properties[0].v: expected a text"),
        (json!({ "query": 1 }), "queries.q0.query: expected a text"),
        (json!({ "query": "x".repeat(1_001) }), "queries.q0.query: a text has at most 1000 characters"),
        (json!({ "query": "x", "limit": 0 }), "queries.q0.limit"),
        (json!({ "query": "x", "type": "bok" }), "queries.q0.type: there is no type \"bok\" here; this service has `book`"),
        (json!({ "query": "x", "typ": "book" }), "did you mean `type`?"),
        (json!({ "properties": [{ "pid": "price", "v": 1 }] }), "a property whose field has an index"),
        (json!([]), "queries.q0: a query is an object"),
    ] {
        refused(post(&stook, "queries", &json!({ "q0": query })), words);
    }
    let many: serde_json::Map<String, Json> = (0..51).map(|number| (format!("q{number}"), json!({ "query": "x" }))).collect();
    refused(post(&stook, "queries", &many.into()), "at most 50 queries, this one has 51");
    refused(stook.send("POST", SERVICE, &[FORM], b"queries={"), "queries is not JSON");
    refused(stook.send("POST", SERVICE, &[FORM], b"query=x"), "there is no member \"query\" here; there are queries, extend");
    refused(stook.send("POST", SERVICE, &[FORM], b""), "give `queries`");
    refused(
        post(&stook, "extend", &json!({ "ids": ["b1"], "properties": [{ "id": "titel" }] })),
        "extend.properties[0].id: `book` has no property \"titel\"; did you mean `title`?",
    );
    refused(post(&stook, "extend", &json!({ "ids": ["b1", 2], "properties": [] })), "extend.ids[1]: expected a text");
    refused(
        post(&stook, "extend", &json!({ "ids": [], "properties": [{ "id": "year", "settings": { "limit": 1 } }] })),
        "extend.properties[0].settings",
    );
}

#[test]
fn only_pages_that_may_read_responses_get_them() {
    let sandbox = Sandbox::new(LIBRARY);
    let stook = library(&sandbox);
    let openrefine = ("origin", "http://127.0.0.1:3333");
    let allowed = stook.send("GET", SERVICE, &[openrefine], b"");
    assert_eq!((allowed.status, allowed.header("access-control-allow-origin")), (200, Some("http://127.0.0.1:3333")));
    let other = stook.send("GET", SERVICE, &[("origin", "http://127.0.0.1:4444")], b"");
    assert_eq!(other.header("access-control-allow-origin"), None);
    let page = ("referer", "http://127.0.0.1:3333/project");
    let called = stook.send("GET", &format!("{SERVICE}?callback=jQuery_1.f&_=17"), &[page], b"");
    assert_eq!((called.status, called.header("content-type")), (200, Some("text/javascript; charset=utf-8")));
    assert_eq!((called.header("x-content-type-options"), called.text().starts_with("/**/jQuery_1.f({")), (Some("nosniff"), true));
    assert!(called.text().ends_with("});"));
    assert_eq!(stook.send("GET", &format!("{SERVICE}/suggest/type?callback=f&prefix=b"), &[page], b"").status, 200);
    for name in ["alert(1)", "a b", "", "a..b", "1a", "a;b"] {
        assert_eq!(stook.send("GET", &format!("{SERVICE}?callback={}", url_encoded(name)), &[page], b"").status, 422, "{name:?}");
    }
    for headers in [vec![], vec![("referer", "http://evil.example/")], vec![("sec-fetch-site", "cross-site")]] {
        assert_eq!(stook.send("GET", &format!("{SERVICE}?callback=f"), &headers, b"").status, 403, "{headers:?}");
    }
}

fn python() -> Option<PathBuf> {
    let named = std::env::var_os("STOOK_TEST_PYTHON").map(PathBuf::from);
    let of_home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/stook/venv/bin/python"));
    let is_usable = |python: &PathBuf| Command::new(python).args(["-c", "import reconciler"]).output().is_ok_and(|output| output.status.success());
    let found = named.into_iter().chain(of_home).find(is_usable);
    if found.is_none() {
        stook_testkit::skip::missing("there is no Python with reconciler (STOOK_TEST_PYTHON)");
    }
    found
}

#[test]
fn a_public_client_recognises_names() {
    let Some(python) = python() else { return };
    let sandbox = Sandbox::new(LIBRARY);
    let stook = library(&sandbox);
    let rows = [("Pride and Prejudice", "1813", "b2", true), ("Pride & Prejudice", "1894", "b3", true), ("Moby Dick", "1851", "b1", false)];
    let mut client = Command::new(python)
        .arg(repository().join("tests/reference/reconcile.py"))
        .args([&format!("http://{}{SERVICE}", stook.address()), "book", "year"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = rows.iter().map(|(name, year, ..)| format!("{}\n", json!({ "name": name, "value": year }))).collect();
    client.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success());
    let found: Vec<Json> = String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(found.len(), rows.len());
    for ((name, _, key, is_match), found) in rows.iter().zip(&found) {
        assert_eq!((&found["name"], &found["id"], &found["match"], &found["type"]), (&json!(name), &json!(key), &json!(is_match), &json!("book")));
    }
}
