//! Expressions from the command line: what the check refuses, what fails on a document all the same, what `help` shows.

use serde_json::{Value as Json, json};
use stook_tests::Sandbox;
use stook_tests::http::Served;

const TRIAL: &str = "
catalogue: trial
lookups: { lengths: { a: 90s, b: soon } }
sources:
  feed: { format: csv, into: item, as_of: meta.received }
  more: { format: csv, into: item, as_of: meta.received }
  boxes: { format: csv, into: box, as_of: meta.received }
collections:
  item:
    key: id
    fields:
      id:    text
      box:   { type: text, index: equal }
      whole: integer
      part:  integer
      mode:  text
      ratio: { type: integer, derive: 'whole / part' }
      shown: { type: text, derive: \"mode + ' ' + string(whole)\" }
      share: { type: integer, derive: 'whole / in_box.size' }
    state:
      level: { type: integer, seed: 'int(mode)' }
    transitions:
      reset: { set: { level: '0' } }
    links:
      in_box: { to: box, key: box, when: '100 / part > 0', group: mode }
  box:
    key: id
    fields:
      id:    text
      size:  integer
      count: { type: integer, rollup: { over: item.in_box, count: true } }
    coverage:
      all: { over: item.in_box, measure: count, expected: \"duration(lookup('lengths', group)).getSeconds()\" }
routes:
  - { get: '/items', params: { box: text }, list: item, where: { box: params.box }, fields: { id: id, half: '100 / part', mode: int(mode) } }
";

fn reasons(sandbox: &Sandbox, job: u64) -> Vec<(String, String)> {
    let all = sandbox.troubles(job);
    assert!(all.iter().all(|trouble| trouble["outcome"] != "failed"), "{all:?}");
    let texts =
        |trouble: &Json| -> Vec<String> { trouble["reasons"].as_array().unwrap().iter().map(|reason| reason.as_str().unwrap().to_owned()).collect() };
    let of = |trouble: &Json| {
        let key = trouble["key"].as_str().unwrap_or_default().to_owned();
        texts(trouble).into_iter().map(move |reason| (key.clone(), reason)).collect::<Vec<_>>()
    };
    let mut warnings: Vec<(String, String)> = all.iter().flat_map(of).collect();
    warnings.sort();
    warnings
}

#[test]
fn a_failed_expression_is_a_warning_that_names_field_and_expression() {
    for sandbox in Sandbox::on_each_store(TRIAL) {
        sandbox.import(&[&sandbox.write_file("boxes.csv", "id,size\nx,2\nnone,0\n"), "--source", "boxes"]);
        sandbox.import(&[
            &sandbox.write_file("items.csv", "id,box,whole,part,mode\nfine,x,6,3,12\nbare,,,,\nzero,x,6,0,1\nword,none,8,4,two\n"),
            "--source",
            "feed",
        ]);
        let warnings = reasons(&sandbox, 2);
        let has_warning = |key: &str, part: &str| warnings.iter().any(|(warning_key, reason)| warning_key == key && reason.contains(part));
        assert!(has_warning("zero", "field `ratio`: `whole / part`: a division by zero; the value is missing"), "{warnings:?}");
        assert!(has_warning("zero", "link `in_box`: `100 / part > 0`: a division by zero"), "{warnings:?}");
        assert!(has_warning("word", "state field `level`: `int(mode)`: \"two\" is not an integer"), "{warnings:?}");
        assert!(has_warning("word", "field `share`: `whole / in_box.size`: a division by zero"), "{warnings:?}");
        assert!(warnings.iter().all(|(key, _)| key == "zero" || key == "word"), "{warnings:?}");
        assert_eq!(sandbox.job(2)["counts"]["warnings"], warnings.len(), "{warnings:?}");
        // what is absent is no trouble
        let bare = sandbox.get("item", "bare");
        assert_eq!(bare, json!({ "key": "bare", "id": "bare" }));
        assert_eq!(sandbox.get("item", "fine")["share"], 3);
        let explained = |key: &str| -> Json { sandbox.json(&["get", "item", key, "--explain", "--format", "json"]) };
        assert_eq!(explained("word")["fields"]["share"]["failed"], "a division by zero");
        assert_eq!(explained("zero")["fields"]["ratio"]["failed"], "a division by zero");
        // what follows is told by the check
        sandbox.run(&["settle"]).exits(0);
        let checked = sandbox.run(&["check", "--deep", "--json"]).json();
        let fails = checked["fails"].to_string();
        assert!(fails.contains("whole / in_box.size"), "{checked}");
        assert!(checked["failing"].as_u64().is_some_and(|failing| failing >= 1), "{checked}");
    }
}

#[test]
fn failed_expressions_are_reported_by_queries_edits_withdrawals_and_settling() {
    for sandbox in Sandbox::on_each_store(TRIAL) {
        sandbox.import(&[&sandbox.write_file("boxes.csv", "id,size\nx,2\n"), "--source", "boxes"]);
        sandbox.import(&[&sandbox.write_file("items.csv", "id,box,whole,part,mode\nfine,x,6,3,12\nzero,x,6,0,1\n"), "--source", "feed"]);
        sandbox.import(&[&sandbox.write_file("more.csv", "id,part\nzero,3\n"), "--source", "more"]);
        let token = sandbox.ok(&["token", "create", "--role", "write"]).trim().to_owned();
        let served = Served::new(&sandbox, &["--workers", "0"]).with_token(&token);
        // an edit
        let edited = served.call("PUT", "/v1/main/item/new", &json!({ "whole": 6, "part": 0, "box": "x", "mode": "1" })).expect_json(201);
        let division = "field `ratio`: `whole / part`: a division by zero; the value is missing";
        assert!(edited["$warnings"].as_array().unwrap().contains(&json!(division)), "{edited}");
        let edited = served.call("PUT", "/v1/main/item/new", &json!({ "whole": 6, "part": 2, "mode": "1", "box": "x" })).expect_json(200);
        assert_eq!((&edited["$warnings"], &edited["ratio"]), (&Json::Null, &json!(3)));
        served.call("PUT", "/v1/main/item/odd", &json!({ "part": 0, "mode": "ä", "box": "x" })).expect_json(201);
        // a declared route: its body has the form that is declared
        let reply = served.get("/items?box=x");
        assert_eq!(reply.json()[2], json!({ "id": "odd", "half": null, "mode": null }));
        let warnings: Vec<&str> = reply.headers.iter().filter(|(name, _)| name == "stook-warning").map(|(_, value)| value.as_str()).collect();
        assert_eq!(
            warnings,
            [
                "item odd: `half`: `100 / part`: a division by zero; the value is missing",
                r#"item odd: `mode`: `int(mode)`: \"\u{e4}\" is not an integer; the value is missing"#,
            ]
        );
        assert_eq!(served.get("/items?box=none").header("stook-warning"), None);
        drop(served);
        // what a withdrawal brings back
        let withdrawn = sandbox.json(&["withdraw", "more", "--json"]);
        assert_eq!((&withdrawn["records"], &withdrawn["more_fail"]), (&json!(1), &json!(false)), "{withdrawn}");
        assert!(withdrawn["fails"].as_array().unwrap().contains(&json!(format!("item zero: {division}"))), "{withdrawn}");
        // what follows for others
        sandbox.run(&["import", &sandbox.write_file("again.csv", "id,size\nx,0\n"), "--source", "boxes", "--detach"]).exits(0);
        let worked = sandbox.run(&["work", "--drain"]).exits(0);
        assert!(worked.err.contains("item fine: field `share`: `whole / in_box.size`: a division by zero"), "{}", worked.err);
        sandbox.import(&[&sandbox.write_file("mended.csv", "id,size\nx,3\n"), "--source", "boxes"]);
        let imported = sandbox.run(&["import", &sandbox.write_file("zero.csv", "id,size\nx,0\n"), "--source", "boxes"]).exits(0);
        assert!(imported.err.contains("item fine: field `share`: `whole / in_box.size`: a division by zero"), "{}", imported.err);
    }
}

#[test]
fn a_definition_that_needs_a_new_store_is_reported_before_anything_is_written() {
    for sandbox in Sandbox::on_each_store(TRIAL) {
        sandbox.import(&[&sandbox.write_file("boxes.csv", "id,size\nx,2\n"), "--source", "boxes"]);
        let address = sandbox.address();
        let check = |code: i32| sandbox.run(&["check", "--json", "--store", &address]).exits(code).json();
        assert_eq!(check(0)["store"], json!({ "there": true, "fits": true, "needs_a_new_store": [] }));
        sandbox.write_definition(&TRIAL.replace("      size:  integer\n", "      size:  integer\n      wide:  text\n"));
        assert_eq!(check(0)["store"]["fits"], true);
        sandbox.write_definition(
            &TRIAL
                .replace("      size:  integer\n", "      size:  { type: float, path: size }\n")
                .replace("  box:\n    key: id", "  box:\n    key: '{id}'")
                .replace("'whole / in_box.size'", "'int(whole / in_box.size)'"),
        );
        let report = check(1);
        assert_eq!((&report["sound"], &report["store"]["fits"]), (&json!(true), &json!(false)));
        assert_eq!(
            report["store"]["needs_a_new_store"],
            json!(["the key of `box` was `id` and is now `{id}`", "field `box.size` was of type integer and is now float"])
        );
        sandbox.write_definition(TRIAL);
        assert_eq!(sandbox.get("box", "x")["size"], 2);
    }
    let sandbox = Sandbox::new(TRIAL);
    let absent = sandbox.path("absent.sqlite").display().to_string();
    assert_eq!(sandbox.json(&["check", "--json", "--store", &absent])["store"], json!({ "there": false, "fits": true, "needs_a_new_store": [] }));
    assert!(!sandbox.path("absent.sqlite").exists());
}

#[test]
fn help_shows_expressions_and_commands() {
    let sandbox = Sandbox::new(TRIAL);
    let shown = sandbox.ok(&["help", "expressions"]);
    assert!(shown.contains("coalesce(any, ...) -> any?") && shown.contains("An absent value stays absent"), "{shown}");
    let help = sandbox.json(&["help", "expressions", "--json"]);
    let functions = help["functions"].as_array().unwrap();
    assert!(functions.iter().any(|function| function["name"] == "substring" && function["value"] == "S1A"), "{help}");
    assert!(sandbox.ok(&["help", "import"]).contains("Usage: stook import"));
    assert!(sandbox.ok(&["help"]).contains("Exit codes"));
    sandbox.run(&["help", "nothing"]).exits(64).stderr_contains(&["there is no command or topic `nothing`"]);
}

const WHOLE: &str = "\
catalogue: whole
patterns: { two: ['^(?P<a>[A-Z]+)_(?P<b>[A-Z]+)$'] }
sources:
  s:
    format: json
    as_of: meta.received
    let:
      where: { path: $.where, type: text }
      m: { match: two, of: where }
      doc: { path: $.doc, type: json }
    into: c
collections:
  c:
    key: id
    fields:
      id: text
      list: { type: [text], expr: \"m != null ? [m.a] : ['none']\" }
      size: { type: integer, expr: \"size(m == null ? ['x', 'y', 'z'] : [m.a])\" }
      has: { type: boolean, expr: \"has(m.a) || size([m.b]) > 1\" }
      all: { type: json, expr: \"doc.a == null ? null : [doc]\" }
";

#[test]
fn a_value_whose_members_are_read_is_complete_where_all_of_it_is_read() {
    for sandbox in Sandbox::on_each_store(WHOLE) {
        let lines = "{\"id\":\"yes\",\"where\":\"ABC_DEF\",\"doc\":{\"a\":1,\"b\":2}}\n{\"id\":\"no\",\"where\":\"other\",\"doc\":{\"b\":2}}\n";
        sandbox.import(&[&sandbox.write_file("some.ndjson", lines), "--source", "s"]);
        assert_eq!(
            sandbox.get("c", "yes"),
            json!({ "key": "yes", "id": "yes", "list": ["ABC"], "size": 1, "has": true, "all": [{ "a": 1, "b": 2 }] })
        );
        assert_eq!(sandbox.get("c", "no"), json!({ "key": "no", "id": "no", "list": ["none"], "size": 3, "has": false }));
    }
}
