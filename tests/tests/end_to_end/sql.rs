//! Golden records as views: what `stook sql` and other programs read is what is exported, for every type, on both stores.

use serde_json::{Value as Json, json};
use std::process::Command;
use stook_testkit::postgres::TestServer;
use stook_testkit::skip;
use stook_tests::{Sandbox, repository};

/// A catalogue with a field of each type.
const ALL_TYPES: &str = "catalogue: c
sources:
  file: { format: json, as_of: meta.received, into: thing }
  again: { format: json, as_of: meta.received, into: thing }
collections:
  thing:
    key: id
    fields:
      id: text
      name: { type: text, compare: true }
      whole: integer
      ratio: float
      done: boolean
      at: timestamp
      day: date
      vague: partial_date
      took: duration
      bytes: size
      uid: uuid
      anything: json
      numbers: ranges
      place: geometry
      texts: [text]
      wholes: [integer]
      flags: [boolean]
      times: [timestamp]
      days: [date]
      vagues: [partial_date]
      spans: [duration]
      uids: [uuid]
      anythings: [json]
      parts:
        type: [{ code: text, since: timestamp, until: date, took: duration, uid: uuid, good: boolean, share: float, numbers: ranges }]
        by: code
";

fn documents() -> Vec<Json> {
    let full = json!({
        "id": "full", "name": "O'Hara \"quoted\", ü", "whole": -9_007_199_254_740_993_i64, "ratio": 0.1, "done": true, "at": "2026-02-28T23:59:59.000001Z",
        "day": "2024-02-29", "vague": "1998-05", "took": "1h30m", "bytes": 1_u64 << 62, "uid": "0123456789abcdef0123456789abcdef",
        "anything": { "b": [1, null, "x"], "a": 1.5 }, "numbers": [[1, 5], 8], "place": { "type": "Point", "coordinates": [14.5, 50.0] },
        "texts": ["a", "with, comma", "\"q\""], "wholes": [3, -1], "flags": [true, false], "times": ["1969-12-31T23:59:59.999999Z"], "days": ["1582-10-15"],
        "vagues": ["1998", "../2001"], "spans": ["1s", "-2ms"], "uids": ["0123456789abcdef0123456789abcdef"], "anythings": [1, "two", { "three": [3] }],
        "parts": [{ "code": "x", "since": "2026-01-01T00:00:00Z", "until": "2026-02-01", "took": "1m", "uid": "0123456789abcdef0123456789abcdef", "good": true, "share": 0.5, "numbers": [[1, 3]] }, { "code": "y" }]
    });
    let empty = json!({ "id": "empty", "texts": [], "times": [], "anythings": [], "parts": [] });
    // the limits of times, and before what databases can count
    let early = json!({ "id": "early", "at": "-009999-01-01T00:00:00Z", "day": "-009999-01-01", "vague": "../1998", "times": ["9999-12-31T23:59:59.999999Z"] });
    let late = json!({ "id": "late", "at": "9999-12-31T23:59:59.999999Z", "day": "9999-12-31", "vague": "1998-05/..", "took": "-1us" });
    vec![full, empty, early, late]
}

fn filled() -> Vec<Sandbox> {
    let sandboxes = Sandbox::on_each_store(ALL_TYPES);
    for sandbox in &sandboxes {
        let text: String = documents().iter().map(|document| format!("{document}\n")).collect();
        let file = sandbox.write_file("things.ndjson", text);
        sandbox.import(&[&file, "--source", "file"]);
        let other = sandbox.write_file("other.ndjson", "{\"id\":\"late\",\"name\":\"one\"}\n{\"id\":\"full\",\"name\":\"another\"}\n");
        sandbox.import(&[&other, "--source", "again"]);
    }
    sandboxes
}

fn select(sandbox: &Sandbox, statement: &str) -> Json {
    sandbox.json(&["sql", statement, "--format", "json"])
}

/// How a golden value is shown in a view of this kind of store; `None` if it has no column.
fn shown(field: &str, value: &Json, on_server: bool) -> Option<Json> {
    let time = |text: &str| match (text, on_server) {
        (text, _) if text.starts_with('-') => "-infinity".to_owned(),
        (text, true) => text.replace(".000000", "").replace('Z', "+00:00"),
        (text, false) => {
            let text = text.trim_end_matches('Z').replace('T', " ");
            if text.contains('.') { text } else { format!("{text}.000000") }
        }
    };
    let day = |text: &str| if text.starts_with('-') { "-infinity".to_owned() } else { text.to_owned() };
    Some(match (field, value) {
        ("place", _) => return None,
        ("at", Json::String(text)) => time(text).into(),
        ("day", Json::String(text)) => day(text).into(),
        ("times", Json::Array(items)) => items.iter().map(|item| time(item.as_str().unwrap())).collect::<Vec<_>>().into(),
        ("done", Json::Bool(value)) if !on_server => i64::from(*value).into(),
        _ => value.clone(),
    })
}

/// The same for an element of `parts`.
fn shown_part(part: &Json, on_server: bool) -> Json {
    let shown = |(name, value): (&String, &Json)| {
        let value = match name.as_str() {
            "since" => shown("at", value, on_server).unwrap(),
            "took" if on_server => json!("00:01:00"),
            "took" => json!(60.0),
            _ => value.clone(),
        };
        (name.clone(), value)
    };
    part.as_object().unwrap().iter().map(shown).collect::<serde_json::Map<_, _>>().into()
}

#[test]
fn views_show_what_is_exported() {
    for sandbox in filled() {
        let on_server = sandbox.server_url().is_some();
        let rows = select(&sandbox, "SELECT * FROM golden_thing ORDER BY key");
        let rows = rows.as_array().unwrap();
        let mut exported = sandbox.records("thing");
        exported.sort_by_key(|record| record["id"].as_str().unwrap().to_owned());
        assert_eq!(rows.len(), exported.len());
        // what is not of JSON is compared below
        let compared =
            ["id", "name", "whole", "ratio", "done", "at", "day", "bytes", "uid", "texts", "wholes", "flags", "times", "days", "uids", "place"];
        for (mut row, record) in rows.iter().cloned().zip(&exported) {
            assert_eq!(row["key"], record["id"]);
            assert_eq!(row["_tenant"], "main");
            if !on_server {
                // lists and JSON are JSON in text
                for (name, value) in row.as_object_mut().unwrap() {
                    if let (true, Some(text)) = (name.ends_with('s') && name != "bytes" || name == "anything", value.as_str()) {
                        *value = serde_json::from_str(text).unwrap();
                    }
                }
            }
            for field in compared {
                let value = record.get(field).unwrap_or(&Json::Null);
                match shown(field, value, on_server) {
                    None => assert!(row.get(field).is_none(), "{field} has no column"),
                    Some(expected) => assert_eq!(row[field], expected, "{field} of {}", record["id"]),
                }
            }
            let parts: Vec<Json> = record["parts"].as_array().into_iter().flatten().map(|part| shown_part(part, on_server)).collect();
            assert_eq!(row["parts"].as_array().cloned().unwrap_or_default(), parts);
            for field in ["anything", "numbers", "anythings"] {
                assert_eq!(row[field], *record.get(field).unwrap_or(&Json::Null), "{field} of {}", record["id"]);
            }
        }
        let vague = "SELECT key, vague, took FROM golden_thing WHERE key <> 'empty' ORDER BY key";
        let expected = match on_server {
            false => json!([
                { "key": "early", "vague": "../1998-12-31", "took": null },
                { "key": "full", "vague": "1998-05-01/1998-05-31", "took": 5400.0 },
                { "key": "late", "vague": "1998-05-01/..", "took": -0.000001 },
            ]),
            true => json!([
                { "key": "early", "vague": "(,1999-01-01)", "took": null },
                { "key": "full", "vague": "[1998-05-01,1998-06-01)", "took": "01:30:00" },
                { "key": "late", "vague": "[1998-05-01,)", "took": "-00:00:00.000001" },
            ]),
        };
        assert_eq!(select(&sandbox, vague), expected);
        let conflicts = "SELECT key, _conflict FROM golden_thing WHERE _conflict IS NOT NULL ORDER BY key";
        let names = if on_server { json!(["name"]) } else { json!("[\"name\"]") };
        assert_eq!(select(&sandbox, conflicts), json!([{ "key": "full", "_conflict": names }]));
    }
}

#[test]
fn statements_read_and_cannot_do_anything_else() {
    for sandbox in filled() {
        for statement in [
            "DELETE FROM golden_thing",
            "DELETE FROM r_thing",
            "WITH gone AS (SELECT 1) DELETE FROM r_thing",
            "CREATE TABLE other(x integer)",
            "SELECT 1; DELETE FROM r_thing",
            "PRAGMA journal_mode = DELETE",
            "ATTACH 'other.sqlite' AS other",
            "VACUUM INTO 'other.sqlite'",
            "COPY r_thing TO '/tmp/stolen'",
            "SET search_path TO public",
            "BEGIN",
            "",
            "   ;",
            "/* nothing */",
        ] {
            let answer = sandbox.run(&["sql", statement]);
            assert!(answer.code == 64 || answer.code == 1, "{statement}: {answer:?}");
            assert!(answer.err.contains("statement"), "{statement}: {}", answer.err);
        }
        assert!(!sandbox.path("other.sqlite").exists());
        assert_eq!(select(&sandbox, "SELECT count(*) AS n FROM golden_thing"), json!([{ "n": 4 }]));
        let missing = sandbox.run(&["sql", "SELECT nam FROM golden_thing"]).exits(64);
        missing.stderr_contains(&["nam", "golden_thing"]);
    }
}

#[test]
fn rows_are_written_in_each_format() {
    for sandbox in filled() {
        let statement = "SELECT key, name FROM golden_thing WHERE name IS NOT NULL ORDER BY key -- the end";
        assert_eq!(sandbox.ok(&["sql", statement, "--format", "csv"]), "key,name\nfull,another\nlate,one\n");
        assert_eq!(sandbox.run(&["sql", statement, "--format", "ndjson"]).exits(0).lines().len(), 2);
        let table = sandbox.run(&["sql", statement]).exits(0);
        assert!(table.text().contains("another") && table.err.contains("2 rows"), "{table:?}");
        let twice = sandbox.run(&["sql", "SELECT key, key FROM golden_thing", "--format", "json"]).exits(64);
        twice.stderr_contains(&["two columns are named `key`", "AS"]);
        assert_eq!(sandbox.ok(&["sql", "SELECT key, key FROM golden_thing WHERE key = 'late'", "--format", "csv"]), "key,key\nlate,late\n");
        assert_eq!(sandbox.ok(&["sql", "SELECT key FROM golden_thing WHERE key = '?'", "--format", "json"]), "[]\n");
        let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200) SELECT i FROM n";
        sandbox.run(&["sql", many]).exits(0).stderr_contains(&["1 000 rows shown; 200 more", "--format csv"]);
    }
}

#[test]
fn views_follow_the_definition_and_stay_granted() {
    for sandbox in filled() {
        if let (Some(server), Some(schema)) = (TestServer::shared(), sandbox.schema()) {
            let grant = format!(
                "DROP ROLE IF EXISTS reader_{schema}; CREATE ROLE reader_{schema} LOGIN; GRANT USAGE ON SCHEMA {schema} TO reader_{schema}; GRANT SELECT ON {schema}.golden_thing TO reader_{schema}"
            );
            server.sql(&grant).unwrap();
        }
        sandbox.write_definition(&ALL_TYPES.replace("      ratio: float\n", "      ratio: float\n      added: { type: text, path: $.name }\n"));
        sandbox.ok(&["prepare"]);
        assert_eq!(select(&sandbox, "SELECT count(*) AS n, count(added) AS added FROM golden_thing"), json!([{ "n": 4, "added": 0 }]));
        if let (Some(server), Some(schema)) = (TestServer::shared(), sandbox.schema()) {
            let count = server.sql(&format!("SET ROLE reader_{schema}; SELECT count(*) FROM {schema}.golden_thing")).unwrap();
            assert!(count.contains('4'), "{count}");
            let refused = server.sql(&format!("SET ROLE reader_{schema}; SELECT count(*) FROM {schema}.r_thing"));
            assert!(refused.is_err_and(|error| error.contains("permission denied")));
        }
    }
}

#[test]
fn other_programs_read_the_views() {
    let Some(python) = std::env::var_os("STOOK_TEST_PYTHON").filter(|python| {
        Command::new(python)
            .args(["-c", "import duckdb, duckdb_extension_sqlite_scanner, duckdb_extension_postgres_scanner"])
            .output()
            .is_ok_and(|output| output.status.success())
    }) else {
        return skip::missing("there is no Python with DuckDB and its extensions (STOOK_TEST_PYTHON)");
    };
    for sandbox in filled() {
        let script = repository().join("tests/reference/read_views.py");
        let mut command = Command::new(&python);
        command.arg(script).arg(sandbox.server_url().map_or_else(|| sandbox.store().display().to_string(), str::to_owned));
        let output = command.output().expect("Python starts");
        assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let answer: Json = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["keys"], json!(["early", "empty", "full", "late"]));
        assert_eq!(answer["at"], "2026-02-28T23:59:59.000001");
        assert_eq!(answer["texts"], json!(["a", "with, comma", "\"q\""]));
    }
    if let Some(server) = TestServer::shared() {
        // psql is the program behind `sql`
        assert!(server.sql("SELECT count(*) FROM pg_views WHERE viewname = 'golden_thing'").is_ok());
    }
}
