//! `stook mcp`, called by the official client of the Model Context Protocol and line by line.

use serde_json::{Value as Json, json};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use stook_tests::{Sandbox, repository, stook};

const LIBRARY: &str = "
catalogue: library
sources:
  shop: { format: csv, into: book, as_of: meta.received }
  list: { format: json, into: book, as_of: meta.received }
collections:
  book:
    key: id
    changes: 30d
    tags: { attributes: {} }
    fields:
      id: text
      title: { type: text, index: words, survivorship: { prefer: [list] } }
      year: { type: integer, index: equal }
      about: text
";

fn library(sandbox: &Sandbox) {
    let long = "word ".repeat(2_000);
    let rows: String =
        (0..120).map(|number| format!("b{number:03},Title {number},{},{}\n", 1900 + number, if number == 7 { &long } else { "" })).collect();
    sandbox.import(&[&sandbox.write_file("shop.csv", format!("id,title,year,about\n{rows}")), "--source", "shop"]);
    sandbox.import(&[&sandbox.write_file("list.json", r#"[{"id":"b001","title":"The deep sea"}]"#), "--source", "list"]);
    sandbox.ok(&["tag", "create", "shelf"]);
}

fn python() -> Option<PathBuf> {
    let named = std::env::var_os("STOOK_TEST_PYTHON").map(PathBuf::from);
    let of_home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/stook/venv/bin/python"));
    let is_usable = |python: &PathBuf| Command::new(python).args(["-c", "import mcp"]).output().is_ok_and(|output| output.status.success());
    let found = named.into_iter().chain(of_home).find(is_usable);
    if found.is_none() {
        stook_testkit::skip::missing("there is no Python with mcp (STOOK_TEST_PYTHON)");
    }
    found
}

/// What the official client prints about the server, and about each call.
fn called(python: &PathBuf, mode: &str, sandbox: &Sandbox, arguments: &[&str], calls: &[(&str, Json)]) -> (Json, Vec<Json>) {
    let mut client = Command::new(python)
        .arg(repository().join("tests/reference/mcp_client.py"))
        .args([mode, stook().to_str().unwrap(), "mcp", "-C", sandbox.folder().to_str().unwrap(), "--store", &sandbox.address()])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = calls.iter().map(|(tool, arguments)| format!("{}\n", json!({ "tool": tool, "arguments": arguments }))).collect();
    client.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut printed: Vec<Json> = String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let about = printed.remove(0);
    assert_eq!(printed.len(), calls.len());
    (about, printed)
}

#[test]
fn the_official_client_reads_and_may_change_nothing() {
    let Some(python) = python() else { return };
    for sandbox in Sandbox::on_each_store(LIBRARY) {
        library(&sandbox);
        for (mode, revision) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
            let calls = [
                ("describe_catalogue", json!({})),
                ("describe_catalogue", json!({ "collection": "book" })),
                ("query", json!({ "query": "book year>=1990 | grep title | sort year-", "limit": 2 })),
                ("query", json!({ "query": "book year>=1990 | grep title | sort year-", "limit": 2, "offset": 28 })),
                ("query", json!({ "query": "deep" })),
                ("query", json!({ "query": "book | count(key), max(year)" })),
                ("query", json!({ "query": "book yaer>1990" })),
                ("get_record", json!({ "collection": "book", "key": "b001" })),
                ("explain_record", json!({ "collection": "book", "key": "b001", "fields": ["title"] })),
                ("get_record", json!({ "collection": "bok", "key": "b001" })),
                ("get_record", json!({ "collection": "book", "key": "b001", "field": ["title"] })),
                ("changes_since", json!({ "limit": 3 })),
                ("correct_record", json!({ "collection": "book", "key": "b001", "fields": { "year": 1 } })),
                ("qury", json!({})),
            ];
            let (about, results) = called(&python, mode, &sandbox, &[], &calls);
            assert_eq!((&about["revision"], &about["instructions"]), (&json!(revision), &json!(true)));
            let tools = about["tools"].as_array().unwrap();
            assert!(tools.len() == 5 && tools.iter().all(|tool| tool["read_only"] == true && tool["schema"]["type"] == "object"), "{tools:?}");
            let result = |number: usize| &results[number]["result"];
            assert_eq!((&result(0)["collections"][0]["name"], &result(0)["may_write"]), (&json!("book"), &json!(false)));
            let title = result(1)["fields"]["title"].as_str().unwrap();
            assert!(
                title.starts_with("text; chosen from what sources say: prefer list") && title.contains("its words can be searched for"),
                "{title}"
            );
            assert_eq!(result(1)["tags"][0]["name"], "shelf");
            assert_eq!((&result(2)["rows"][0]["title"], &result(2)["next"]), (&json!("Title 119"), &json!({ "offset": 2 })));
            assert_eq!((result(3)["rows"].as_array().map(Vec::len), result(3).get("next")), (Some(2), None));
            assert_eq!(result(4)["rows"][0]["key"], "b001");
            assert_eq!(result(5)["rows"], json!([{ "count(key)": 120, "max(year)": 2019 }]));
            let mistake = results[6]["error"].as_str().unwrap();
            assert!(mistake.contains("did you mean `year`?") && mistake.contains("^^^^"), "{mistake}");
            assert_eq!((&result(7)["title"], &result(7)["year"]), (&json!("The deep sea"), &json!(1901)));
            let explained = &result(8)["fields"];
            assert_eq!((&explained["title"]["lost"][0]["contributor"], explained.get("year")), (&json!("shop"), None));
            assert!(results[9]["error"].as_str().unwrap().contains("did you mean `book`?"));
            assert!(results[10]["error"].as_str().unwrap().contains("there is no argument \"field\"; did you mean `fields`?"));
            assert_eq!(result(11)["changes"].as_array().map(Vec::len), Some(3));
            assert_eq!(result(11)["next"]["cursor"], result(11)["cursor"]);
            assert!(results[12]["refused"].as_str().unwrap().contains("--allow-writes"));
            assert!(results[13]["refused"].as_str().unwrap().contains("did you mean `query`?"));
        }
    }
}

#[test]
fn the_official_client_changes_what_it_may() {
    let Some(python) = python() else { return };
    for sandbox in Sandbox::on_each_store(LIBRARY) {
        library(&sandbox);
        sandbox.write_file("new.json", r#"[{"id":"n1","title":"New","year":2020},{"title":"no key"}]"#);
        let outside = tempfile::NamedTempFile::with_suffix(".json").unwrap();
        let calls = [
            ("correct_record", json!({ "collection": "book", "key": "b002", "fields": { "year": 1800, "title": "Second" } })),
            ("correct_record", json!({ "collection": "book", "key": "none", "fields": { "year": 1800 } })),
            ("correct_record", json!({ "collection": "book", "key": "b002", "fields": { "year": "x" } })),
            ("tag_records", json!({ "collection": "book", "tag": "shelf", "add": ["b003", "b004", "none"] })),
            ("tag_records", json!({ "collection": "book", "tag": "shelv", "add": ["b003"] })),
            ("import_file", json!({ "file": "new.json", "source": "list", "dry_run": true })),
            ("query", json!({ "query": "book=n1" })),
            ("import_file", json!({ "file": "new.json", "source": "list" })),
            ("query", json!({ "query": "book=n1" })),
            ("import_file", json!({ "file": outside.path().to_str().unwrap(), "source": "list" })),
            ("import_file", json!({ "file": "../x.json", "source": "list" })),
        ];
        let (about, results) = called(&python, "auto", &sandbox, &["--allow-writes"], &calls);
        assert_eq!(about["tools"].as_array().map(Vec::len), Some(8));
        let error = |number: usize| results[number]["error"].as_str().unwrap_or_else(|| panic!("{number}: {}", results[number])).to_owned();
        assert_eq!((&results[0]["result"]["record"]["year"], &results[0]["result"]["record"]["title"]), (&json!(1800), &json!("Second")));
        assert!(error(1).contains("there is no book \"none\""));
        assert!(error(2).contains("year"));
        assert_eq!(results[3]["result"], json!({ "added": 2, "removed": 0, "unknown": ["none"] }));
        assert!(error(4).contains("shelf"), "{}", error(4));
        assert_eq!((&results[5]["result"]["dry_run"], &results[6]["result"]["rows"]), (&json!(true), &json!([])));
        let job = &results[7]["result"]["jobs"][0];
        assert_eq!((&job["state"], &job["issues"][0]["outcome"]), (&json!("completed_with_errors"), &json!("failed")), "{job}");
        assert_eq!(results[8]["result"]["rows"][0]["title"], "New");
        assert!(error(9).contains("only files below the catalogue's folder"), "{}", error(9));
        assert!(!error(10).is_empty());
        let audit = sandbox.ok(&["audit"]);
        assert!(audit.contains("mcp correct_record") && audit.contains("mcp tag_records") && audit.contains("mcp import_file"), "{audit}");
        assert_eq!(sandbox.get("book", "b002")["year"], 1800);
    }
}

/// A server to which lines are written.
struct Lines {
    child: std::process::Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Lines {
    fn new(sandbox: &Sandbox) -> Self {
        let mut child = sandbox.command(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn receive(&mut self) -> Json {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn ask(&mut self, line: &str) -> Json {
        self.send(line);
        self.receive()
    }
}

#[test]
fn wrong_messages_are_answered_and_end_nothing() {
    let sandbox = Sandbox::new(LIBRARY);
    library(&sandbox);
    let mut server = Lines::new(&sandbox);
    for (line, code) in [
        ("{", -32_700),
        ("[]", -32_600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32_600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32_600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, -32_600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#, -32_601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"query","arguments":[]}}"#, -32_602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2030-01-01"}}}"#, -32_022),
    ] {
        assert_eq!(server.ask(line)["error"]["code"], code, "{line}");
    }
    assert_eq!(server.ask(&format!("\"{}\"", "x".repeat(5 << 20)))["error"]["code"], -32_700);
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    server.send("");
    assert_eq!(server.ask(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#), json!({ "jsonrpc": "2.0", "id": "a", "result": {} }));
    let old = server.ask(r#"{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}"#);
    assert_eq!(old["result"]["protocolVersion"], "2024-11-05");
    let unknown = server.ask(r#"{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2030-01-01"}}"#);
    assert_eq!(unknown["result"]["protocolVersion"], "2025-11-25");
    // a long text is shortened in rows, and complete in its record
    let row = server.ask(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"query","arguments":{"query":"book=b007"}}}"#);
    let row = &row["result"]["structuredContent"];
    assert!(row["rows"][0]["about"].as_str().unwrap().ends_with("more characters)") && row["note"].is_string(), "{row}");
    let record =
        server.ask(r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"get_record","arguments":{"collection":"book","key":"b007"}}}"#);
    assert!(record["result"]["structuredContent"]["about"].as_str().is_some_and(|text| text.len() > 9_990), "{record}");
    drop(server.input.take());
    assert!(server.child.wait().unwrap().success());
}
