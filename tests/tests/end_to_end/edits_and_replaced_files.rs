//! What contributors say and what becomes of it, through the program: edits that others overrule, and files that take the place of older ones.

use serde_json::{Value as Json, json};
use std::time::Duration;
use stook_tests::Sandbox;
use stook_tests::http::Served;

/// What has not ended by then never ends.
const PATIENCE: Duration = Duration::from_secs(120);

const PREFERRED: &str = "\
catalogue: register
sources:
  list: { format: json, into: company, as_of: meta.received }
collections:
  company:
    key: id
    survivorship: { prefer: [api] }
    fields:
      id: text
      name: text
      city: { type: text, from: [api, list], survivorship: { prefer: [list, api] } }
      staff: { type: integer, from: [list] }
";

#[test]
fn the_api_can_be_preferred_and_an_overruled_edit_is_reported() {
    for sandbox in Sandbox::on_each_store(PREFERRED) {
        sandbox.ok(&["check"]);
        let file = sandbox.write_file("list.ndjson", "{\"id\":\"a\",\"name\":\"Old\",\"city\":\"Delft\",\"staff\":5}\n");
        sandbox.import(&[&file, "--source", "list"]);
        let served = Served::new(&sandbox, &[]);
        let edit = json!({ "name": "New", "city": "Gouda", "staff": 9 });
        let answer = served.call("PATCH", "/v1/main/company/a", &edit).expect_json(200);
        assert_eq!((&answer["name"], &answer["city"], &answer["staff"]), (&json!("New"), &json!("Delft"), &json!(5)), "{answer}");
        let overruled = answer["$overruled"].as_object().expect("what had no effect is named");
        assert_eq!(overruled.keys().collect::<Vec<_>>(), ["city", "staff"], "{answer}");
        assert!(overruled["city"].as_str().is_some_and(|reason| reason.contains("list")), "{answer}");
        drop(served);
        // a newer list changes neither what the API is preferred for, nor what it has no say in
        let file = sandbox.write_file("newer.ndjson", "{\"id\":\"a\",\"name\":\"Newest\",\"city\":\"Leiden\",\"staff\":6}\n");
        sandbox.import(&[&file, "--source", "list"]);
        let record = sandbox.get("company", "a");
        assert_eq!((&record["name"], &record["city"], &record["staff"]), (&json!("New"), &json!("Leiden"), &json!(6)), "{record}");
    }
}

const REPLACED: &str = "\
catalogue: plans
sources:
  plan: { format: csv, into: orbit, as_of: meta.received, replaces: { scope: \"'all'\" } }
collections:
  orbit: { key: id, fields: { id: text, start: text } }
";

fn plan(numbers: impl Iterator<Item = usize>) -> String {
    "id,start\n".to_owned() + &numbers.map(|number| format!("o{number},s{number}\n")).collect::<String>()
}

fn count(sandbox: &Sandbox) -> usize {
    sandbox.records("orbit").len()
}

/// What the import of a file says of older ones, and that its dry run said the same and its journal says it again.
fn replaced(sandbox: &Sandbox, file: &str, more: &[&str]) -> Json {
    let arguments = [&[file, "--source", "plan"], more].concat();
    let foreseen = sandbox.dry_run(&arguments)["replaced"].clone();
    let job = sandbox.import(&arguments);
    let done = job["replaced"].clone();
    assert_eq!((&foreseen["retired"], &foreseen["files"][0]["counts"]), (&done["retired"], &done["files"][0]["counts"]), "{foreseen}\n{done}");
    let journal = sandbox.run(&["journal", &job["id"].to_string()]).exits(0);
    let output_text = format!("{}{}", journal.text(), journal.err);
    let word = if done["files"][0]["counts"] == true { "retired" } else { "--retire-all" };
    assert!(done["retired"] == 0 && done["files"][0]["counts"] == true || output_text.contains(word), "{output_text}");
    done
}

#[test]
fn a_file_with_few_of_the_earlier_documents_retires_nothing_until_allowed() {
    for sandbox in Sandbox::on_each_store(REPLACED) {
        let whole = sandbox.write_file("whole.csv", plan(0..100));
        replaced(&sandbox, &whole, &[]);
        assert_eq!(count(&sandbox), 100);
        let most = sandbox.write_file("most.csv", plan(10..100));
        let done = replaced(&sandbox, &most, &[]);
        assert_eq!((&done["retired"], &done["files"][0]["lacks"]["missing"]), (&json!(10), &json!(10)), "{done}");
        assert_eq!(count(&sandbox), 90);
        // a cut one: its documents count all the same
        let cut = sandbox.write_file("cut.csv", plan((98..100).chain(200..201)));
        let done = replaced(&sandbox, &cut, &[]);
        assert_eq!((&done["retired"], &done["files"][0]["counts"]), (&json!(0), &json!(false)), "{done}");
        assert!(done["files"][0]["reason"].as_str().is_some_and(|reason| reason.contains("88 of 90") && reason.contains("--retire-all")), "{done}");
        assert_eq!(count(&sandbox), 91);
        assert_eq!(sandbox.get("orbit", "o200")["start"], "s200");
        let shown = sandbox.run(&["import", &cut, "--source", "plan"]).exits(0);
        assert!(format!("{}{}", shown.text(), shown.err).contains("--retire-all"), "{}{}", shown.text(), shown.err);
        // allowed, it takes their place, and that is kept
        let done = replaced(&sandbox, &cut, &["--retire-all"]);
        assert_eq!(done["files"][0]["counts"], true, "{done}");
        assert_eq!(count(&sandbox), 3);
        let jobs = sandbox.json(&["jobs", "--json"]);
        assert_eq!(jobs[0]["files"][0]["retires_all"], true, "{jobs}");
        sandbox.ok(&["check", "--deep"]);
    }
}

const TIMES: &str = "\
catalogue: times
sources:
  list:
    format: json
    let: { at: { path: $.at, type: timestamp }, who: { path: $.who, type: text } }
    as_of: at
    contributor: \"{who}\"
    feeds: [{ into: item, map: { id: $.id, n: $.n, colour: $.colour } }]
collections:
  item:
    key: id
    fields:
      id: text
      n: integer
      colour: { type: text, survivorship: by_contributor }
      kind: { type: text, one_of: [few, many], derive: \"n > 100 ? 'many' : n > 9 ? 'some' : 'few'\" }
";

#[test]
fn a_document_without_a_time_has_that_of_its_delivery() {
    for sandbox in Sandbox::on_each_store(TIMES) {
        let deliver = |day: u32, n: u32| {
            let file = sandbox.write_file("list.ndjson", format!("{{\"id\":\"a\",\"who\":\"x\",\"n\":{n},\"colour\":\"c{n}\"}}\n"));
            sandbox.import(&[&file, "--source", "list", "--as-of", &format!("2026-05-{day:02}T00:00:00Z")])
        };
        deliver(2, 2);
        let counts = deliver(4, 4)["counts"].clone();
        assert_eq!(counts["updated"], 1, "{counts}");
        let counts = deliver(3, 3)["counts"].clone();
        assert_eq!(counts["superseded"], 1, "{counts}");
        let record = sandbox.get("item", "a");
        assert_eq!((&record["n"], &record["colour"], &record["kind"]), (&json!(4), &json!({ "x": "c4" }), &json!("few")), "{record}");
        // what is not among the values that are allowed is left out, and said
        let job = deliver(5, 50);
        assert_eq!(sandbox.get("item", "a")["kind"], Json::Null);
        let troubles = sandbox.troubles(job["id"].as_u64().unwrap());
        assert!(troubles[0].to_string().contains("is not one of few, many"), "{troubles:?}");
    }
}

const UNIQUE: &str = "\
catalogue: unique
sources:
  x: { format: json, as_of: meta.received, into: item }
  y: { format: json, as_of: meta.received, into: item }
collections:
  item: { key: id, fields: { id: text, u: { type: text, unique: true } } }
";

#[test]
fn a_withdrawal_names_what_it_leaves_because_another_record_has_the_value() {
    for sandbox in Sandbox::on_each_store(UNIQUE) {
        for (number, (source, document)) in
            [("x", r#"{"id":"b","u":"old"}"#), ("y", r#"{"id":"b","u":"new"}"#), ("x", r#"{"id":"a","u":"old"}"#)].into_iter().enumerate()
        {
            let file = sandbox.write_file("one.ndjson", document);
            sandbox.import(&[&file, "--source", source, "--as-of", &format!("2026-05-0{}T00:00:00Z", number + 1)]);
        }
        let answer = sandbox.run(&["withdraw", "y", "--json"]).exits(2).stderr_contains(&["not withdrawn: item b: `u` must be unique", "\"a\""]);
        let withdrawal = answer.json();
        assert_eq!((&withdrawal["records"], withdrawal["refused"].as_array().map(Vec::len)), (&json!(0), Some(1)), "{withdrawal}");
        assert_eq!(sandbox.get("item", "b")["u"], "new");
    }
}

const SPANS: &str = "\
catalogue: spans
sources: { s: { format: json, as_of: meta.received, feeds: [{ into: item, when: \"k == 'i'\" }, { into: own, when: \"k == 'o'\" }], let: { k: $.k } } }
collections:
  item: { key: id, fields: { id: text, o: text, g: text, a: timestamp, b: timestamp }, links: { link: { to: own, key: o, span: [a, b] } } }
  own:
    key: id
    fields: { id: text, cnt: { type: integer, rollup: { over: item.link, count: true } } }
    coverage: { run: { over: item.link, runs: { value: g, max_gap: 1h } } }
";

#[test]
fn an_interval_that_ends_before_it_begins_is_no_run() {
    for sandbox in Sandbox::on_each_store(SPANS) {
        let item = |id: &str, a: u32, b: u32| {
            format!("{{\"k\":\"i\",\"id\":\"{id}\",\"o\":\"p\",\"a\":\"2020-01-01T0{a}:00:00Z\",\"b\":\"2020-01-01T0{b}:00:00Z\",\"g\":\"x\"}}\n")
        };
        let text = "{\"k\":\"o\",\"id\":\"p\"}\n".to_owned() + &item("i0", 5, 3) + &item("i1", 5, 6);
        sandbox.import(&[&sandbox.write_file("all.ndjson", text), "--source", "s"]);
        assert_eq!(sandbox.get("own", "p")["cnt"], 2);
        assert_eq!(sandbox.json(&["query", "own.run", "--format", "json"]).as_array().map(Vec::len), Some(1));
        sandbox.ok(&["check", "--deep"]);
    }
}

#[test]
fn a_file_of_the_same_time_as_another_reports_what_it_does_not_retire() {
    for sandbox in Sandbox::on_each_store(REPLACED) {
        let (whole, few) = (sandbox.write_file("whole.csv", plan(0..100)), sandbox.write_file("few.csv", plan(0..2)));
        let time = ["--as-of", "2026-05-01T00:00:00Z"];
        replaced(&sandbox, &whole, &time);
        let done = replaced(&sandbox, &few, &time);
        assert_eq!(
            (&done["retired"], &done["files"][0]["counts"], &done["files"][0]["same_time"]["missing"]),
            (&json!(0), &json!(true), &json!(98)),
            "{done}"
        );
        assert!(done["files"][0]["reason"].as_str().is_some_and(|reason| reason.contains("98 of the 100 keys")), "{done}");
        let shown = sandbox.run(&[&["import", few.as_str(), "--source", "plan", "--dry-run"], &time[..]].concat()).exits(0);
        assert!(format!("{}{}", shown.text(), shown.err).contains("98 of the 100 keys"), "{}{}", shown.text(), shown.err);
        assert_eq!(count(&sandbox), 100);
        // the same file again lacks nothing
        let done = replaced(&sandbox, &whole, &time);
        assert_eq!((&done["files"][0]["reason"], &done["files"][0]["same_time"]["missing"]), (&Json::Null, &json!(0)), "{done}");
        // a later one retires what both name
        let done = replaced(&sandbox, &few, &["--as-of", "2026-05-02T00:00:00Z", "--retire-all"]);
        assert_eq!((&done["retired"], count(&sandbox)), (&json!(98), 2), "{done}");
    }
}

const UNIQUE_IN_PLACE: &str = "\
catalogue: unique
sources:
  plan: { format: csv, as_of: meta.received, into: item, replaces: { scope: \"'all'\", most: 100% } }
  y: { format: json, as_of: meta.received, into: item }
collections:
  item: { key: id, survivorship: { prefer: [plan] }, fields: { id: text, u: { type: text, unique: true } } }
";

#[test]
fn a_record_whose_new_value_belongs_to_another_record_stays_and_is_counted() {
    for sandbox in Sandbox::on_each_store(UNIQUE_IN_PLACE) {
        let deliver = |day: u32, source: &str, name: &str, text: &str| {
            let file = sandbox.write_file(name, text);
            sandbox.import(&[&file, "--source", source, "--as-of", &format!("2026-05-0{day}T00:00:00Z")])
        };
        deliver(1, "y", "y.ndjson", r#"{"id":"b","u":"old"}"#);
        deliver(2, "plan", "first.csv", "id,u\nb,new\nc,other\n");
        deliver(3, "y", "y.ndjson", r#"{"id":"a","u":"old"}"#);
        // `b` would be "old" again, which `a` has by now; `c` goes
        let file = sandbox.write_file("second.csv", "id,u\nd,fourth\n");
        let shown = sandbox.run_within(&["import", &file, "--source", "plan", "--as-of", "2026-05-04T00:00:00Z"], PATIENCE);
        let output_text = format!("{}{}", shown.text(), shown.err);
        assert!(output_text.contains("1 record stays as it was") && output_text.contains("1 record was retired because"), "{output_text}");
        let jobs = sandbox.json(&["jobs", "--json"]);
        let replaced = sandbox.run(&["journal", &jobs[0]["id"].to_string()]).exits(0);
        assert!(format!("{}{}", replaced.text(), replaced.err).contains("1 record stays as it was"), "{}", replaced.text());
        let mut found: Vec<String> = sandbox.records("item").iter().map(|record| format!("{} {}", record["id"], record["u"])).collect();
        found.sort();
        assert_eq!(found, ["\"a\" \"old\"", "\"b\" \"new\"", "\"d\" \"fourth\""]);
        sandbox.ok(&["check", "--deep"]);
    }
}

const UNIQUE_BY_LINK: &str = "\
catalogue: named
sources: { s: { format: json, as_of: meta.received, feeds: [{ into: item, when: \"k == 'i'\" }, { into: own, when: \"k == 'o'\" }], let: { k: $.k } } }
collections:
  item: { key: id, fields: { id: text, o: text }, links: { link: { to: own, key: o, create: true } } }
  own:
    key: id
    fields:
      id: text
      name: text
      shown: { type: text, derive: \"coalesce(name, 'none')\", unique: true }
";

#[test]
fn a_record_that_a_link_cannot_create_because_of_a_unique_value_is_named_and_settling_ends() {
    for sandbox in Sandbox::on_each_store(UNIQUE_BY_LINK) {
        let file = sandbox.write_file("items.ndjson", "{\"k\":\"i\",\"id\":\"a\",\"o\":\"o1\"}\n{\"k\":\"i\",\"id\":\"b\",\"o\":\"o2\"}\n");
        let shown = sandbox.run_within(&["import", &file, "--source", "s"], PATIENCE).exits(0);
        shown.stderr_contains(&["not settled: own o2: `shown` must be unique, but record \"o1\" already has this value"]);
        assert_eq!(sandbox.records("own").iter().map(|record| &record["id"]).collect::<Vec<_>>(), ["o1"]);
        sandbox.ok(&["check", "--deep"]);
        // a name of its own makes room for it
        let file = sandbox.write_file("named.ndjson", "{\"k\":\"o\",\"id\":\"o2\",\"name\":\"n\"}\n");
        sandbox.run_within(&["import", &file, "--source", "s"], PATIENCE).exits(0);
        let mut found: Vec<String> = sandbox.records("own").iter().map(|record| format!("{} {}", record["id"], record["shown"])).collect();
        found.sort();
        assert_eq!(found, ["\"o1\" \"none\"", "\"o2\" \"n\""]);
    }
}

const NAMED: &str = "\
catalogue: named
sources:
  x: { format: json, as_of: meta.received, into: item }
  y: { format: json, as_of: meta.received, into: own }
collections:
  item: { key: id, fields: { id: text, o: text }, links: { link: { to: own, key: o, create: true } } }
  own: { key: id, fields: { id: text, name: text } }
";

#[test]
fn records_created_by_a_link_remain_when_their_documents_are_withdrawn() {
    for sandbox in Sandbox::on_each_store(NAMED) {
        let file = |name: &str, document: Json| sandbox.write_file(name, document.to_string());
        // the link comes after the document about the one record, and before that about the other
        sandbox.import(&[&file("own.ndjson", json!({ "id": "late", "name": "n" })), "--source", "y"]);
        sandbox.import(&[&file("late.ndjson", json!({ "id": "a", "o": "late" })), "--source", "x"]);
        sandbox.import(&[&file("early.ndjson", json!({ "id": "b", "o": "early" })), "--source", "x"]);
        sandbox.import(&[&file("own.ndjson", json!({ "id": "early", "name": "n" })), "--source", "y"]);
        sandbox.ok(&["withdraw", "y"]);
        let mut found: Vec<String> = sandbox.records("own").iter().map(|record| format!("{} {}", record["id"], record["name"])).collect();
        found.sort();
        assert_eq!(found, ["\"early\" null", "\"late\" null"]);
        sandbox.ok(&["check", "--deep"]);
    }
}

const READ_BEFORE: &str = "\
catalogue: read
sources:
  x: &source { format: json, as_of: meta.received, into: item }
  y: { <<: *source, into: item }
collections:
  item: { key: id, fields: { id: text, n: integer } }
";

#[test]
fn the_last_readable_value_of_a_contributor_keeps_its_as_of_time() {
    for sandbox in Sandbox::on_each_store(READ_BEFORE) {
        for (day, source, n) in [(1, "x", json!(1)), (2, "y", json!(2)), (3, "x", json!("no number"))] {
            let file = sandbox.write_file("one.ndjson", json!({ "id": "a", "n": n }).to_string());
            sandbox.run(&["import", &file, "--source", source, "--as-of", &format!("2026-05-0{day}T00:00:00Z")]);
        }
        // `x` still says 1, as of the first day
        assert_eq!(sandbox.get("item", "a")["n"], 2);
        sandbox.ok(&["withdraw", "y"]);
        assert_eq!(sandbox.get("item", "a")["n"], 1);
    }
}

const LONG: &str = "\
catalogue: long
sources: { s: { format: json, as_of: meta.received, feeds: [{ into: item, when: \"k == 'i'\" }, { into: own, when: \"k == 'o'\" }], let: { k: $.k } } }
collections:
  item: { key: id, fields: { id: text, o: text, g: text, n: integer, f: float }, links: { link: { to: own, key: o, group: g } } }
  own:
    key: id
    fields:
      id: text
      sum: { type: integer, rollup: { over: item.link, sum: n } }
      exact: { type: float, rollup: { over: item.link, sum: f } }
    coverage: { part: { over: item.link, cases: [{ measure: count }] } }
";

#[test]
fn rows_of_long_groups_are_stored_and_an_overflowing_sum_is_reported() {
    for sandbox in Sandbox::on_each_store(LONG) {
        let (long, group) = ("p".repeat(300), "g".repeat(400));
        let item = |id: &str, group: &str, n: i64, f: f64| json!({ "k": "i", "id": id, "o": long, "g": group, "n": n, "f": f }).to_string() + "\n";
        let text =
            json!({ "k": "o", "id": long }).to_string() + "\n" + &item("a", &group, i64::MAX, 0.1) + &item("b", &(group.clone() + "h"), 0, 1e300);
        let rest = item("c", "short", 0, -1e300) + &item("d", &group, 0, 0.2);
        sandbox.import(&[&sandbox.write_file("all.ndjson", text + &rest), "--source", "s"]);
        let rows = sandbox.json(&["query", "own.part", "--format", "json"]);
        let mut found: Vec<(usize, u64)> =
            rows.as_array().unwrap().iter().map(|row| (row["group"].as_str().unwrap().len(), row["value"].as_u64().unwrap())).collect();
        found.sort_unstable();
        assert_eq!(found, [(5, 1), (400, 2), (401, 1)], "{rows}");
        let record = sandbox.get("own", &long);
        assert_eq!((&record["sum"], &record["exact"]), (&json!(i64::MAX), &json!(0.1 + 0.2)), "{record}");
        // one more does not fit
        let file = sandbox.write_file("more.ndjson", item("e", &group, 1, 0.0));
        let shown = sandbox.run(&["import", &file, "--source", "s"]);
        assert!(format!("{}{}", shown.text(), shown.err).contains("the sum does not fit 64 bits"), "{}{}", shown.text(), shown.err);
        assert_eq!(sandbox.get("own", &long)["sum"], Json::Null);
        sandbox.ok(&["check", "--deep"]);
    }
}

const DIGITS: &str = "\
catalogue: digits
sources: { s: { format: json, as_of: meta.received, into: item } }
collections: { item: { key: id, fields: { id: text, n: integer, at: { type: timestamp, format: epoch_us }, all: json } } }
";

#[test]
fn numbers_and_times_at_the_limits_are_kept_or_named() {
    for sandbox in Sandbox::on_each_store(DIGITS) {
        let text = "{\"id\":12345678901234567890123,\"n\":1,\"at\":253402300799999999}\n{\"id\":12345678901234567890124,\"all\":[1,98765432109876543210]}\n\
                    {\"id\":\"c\",\"n\":9223372036854775808,\"at\":253402300800000000}\n";
        let job = sandbox.import(&[&sandbox.write_file("all.ndjson", text), "--source", "s"]);
        let first = sandbox.get("item", "12345678901234567890123");
        assert_eq!((&first["n"], &first["at"]), (&json!(1), &json!("9999-12-31T23:59:59.999999Z")), "{first}");
        assert_eq!(sandbox.get("item", "12345678901234567890124")["all"], json!([1, "98765432109876543210"]));
        let troubles = sandbox.troubles(job["id"].as_u64().unwrap());
        let trouble_text = troubles.iter().map(Json::to_string).collect::<String>();
        assert!(troubles.len() == 1 && trouble_text.contains("9223372036854775808") && trouble_text.contains("253402300800000000"), "{trouble_text}");
        let served = Served::new(&sandbox, &[]);
        let edited = served.call("PATCH", "/v1/main/item/c", &json!({ "all": 1 })).expect_json(200);
        assert_eq!((&edited["n"], &edited["at"]), (&Json::Null, &Json::Null), "{edited}");
    }
}

const BADGES: &str = "\
catalogue: badges
sources:
  list: { format: csv, as_of: meta.received, into: person }
collections:
  person: { key: id, fields: { id: text, badge: { type: text, unique: true } } }
";

#[test]
fn records_of_one_file_can_swap_and_pass_on_unique_values() {
    for sandbox in Sandbox::on_each_store(BADGES) {
        let import = |day: u32, rows: &str| {
            let file = sandbox.write_file("list.csv", format!("id,badge\n{rows}"));
            sandbox.run(&["import", &file, "--source", "list", "--as-of", &format!("2026-05-{day:02}T00:00:00Z")])
        };
        import(1, "a,1\nb,2\nc,3\n").exits(0);
        // a and b swap; c hands its badge on to d, which comes before and after it
        import(2, "a,2\nb,1\nd,3\nc,4\n").exits(0);
        import(3, "c,3\nd,5\n").exits(0);
        // e wants what a keeps
        import(4, "e,2\n").exits(2);
        let mut found: Vec<String> = sandbox.records("person").iter().map(|record| format!("{} {}", record["id"], record["badge"])).collect();
        found.sort();
        assert_eq!(found, ["\"a\" \"2\"", "\"b\" \"1\"", "\"c\" \"3\"", "\"d\" \"5\""]);
        sandbox.ok(&["check", "--deep"]);
    }
}
