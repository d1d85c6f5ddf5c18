//! Look-ups of declared routes where most records have one value, and one parent nearly all children: what a rare value finds does not
//! depend on what a frequent one does, and totals count what there is.

use serde_json::{Value as Json, json};
use stook_tests::Sandbox;
use stook_tests::http::Served;

const SKEWED: &str = "
catalogue: skewed
sources:
  files: { format: json, into: item, as_of: meta.received }
collections:
  item:
    key: id
    fields:
      id:     text
      kind:   { type: text, index: equal, fold: true }
      labels: { type: [text], index: equal }
      rank:   integer
      owner:  { type: text, index: equal }
routes:
  - get: /items
    params: { kind: { type: [text] }, label: { type: [text] }, page: { type: integer, default: 1, min: 1, max: 100000 }, size: { type: integer, default: 3, min: 1, max: 100 } }
    list: item
    where: { kind: params.kind, labels: params.label }
    sort: [rank-]
    page: { number: params.page, size: params.size }
    answer: { rows: rows, total: total }
    fields: { id: id }
  - get: /labelled
    params: { label: { type: [text] }, kind: { type: [text] } }
    list: item
    where: { labels: params.label, kind: params.kind }
    fields: { id: id }
  - get: /owned
    params: { kind: text, most: { type: integer, default: 10, min: 1, max: 1000000 } }
    list: item
    where: { kind: params.kind }
    include: { of: { one: item, where: { key: owner }, required: true } }
    page: { number: params.most, size: params.most, most: params.most }
    answer: { rows: rows, total: total }
    fields: { id: id }
  - get: /plain
    params: { kind: text }
    list: item
    where: { kind: params.kind }
    include: { of: { one: item, where: { key: owner }, required: true } }
    fields: { id: id }
  - get: /owners/{id}
    params: { id: text }
    one: item
    where: { key: params.id }
    include:
      newest: { one: item, where: { owner: id }, sort: [rank-] }
      all: { list: item, where: { owner: id }, fields: { id: id } }
    fields: { newest: newest.id, all: all }
";

/// So many records are in one list, and so many no look-up lists.
const FREQUENT: usize = 30_000;
const TOO_FREQUENT: usize = 50_001;

fn item(id: &str, kind: &str, rank: usize, labels: &[&str], owner: &str) -> String {
    json!({ "id": id, "kind": kind, "rank": rank, "labels": labels, "owner": owner }).to_string() + "\n"
}

fn ids_and_total(stook: &Served, query: &str) -> (Vec<String>, u64) {
    let answer = stook.get(&format!("/items?{query}")).expect_json(200);
    (ids(&answer["rows"]), answer["total"].as_u64().unwrap())
}

fn ids(rows: &Json) -> Vec<String> {
    rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_rare_value_is_found_along_with_a_frequent_one_and_totals_are_exact() {
    for sandbox in Sandbox::on_each_store(SKEWED) {
        let frequent = (0..FREQUENT).map(|number| item(&format!("a{number:05}"), "A", number, &[], "o1"));
        let rare = (0..5).map(|number| item(&format!("b{number}"), "B", number, &["x", "y"], "o2"));
        let owners = ["o1", "o2"].map(|number| item(number, "owner", 0, &[], ""));
        let file = sandbox.write_file("items.ndjson", frequent.chain(rare).chain(owners).collect::<String>());
        sandbox.ok(&["import", &file, "--source", "files"]);
        for cache in ["64", "0"] {
            let stook = Served::new(&sandbox, &["--workers", "0", "--cache", cache]);
            let newest = |count: usize| (FREQUENT - count..FREQUENT).rev().map(|number| format!("a{number:05}")).collect::<Vec<_>>();
            let rare = || vec!["b4".to_owned(), "b3".to_owned(), "b2".to_owned()];
            for _ in 0..2 {
                assert_eq!(ids_and_total(&stook, "kind=A&kind=B"), (newest(3), FREQUENT as u64 + 5));
                assert_eq!(ids_and_total(&stook, "kind=B"), (rare(), 5));
                assert_eq!(ids_and_total(&stook, "kind=A"), (newest(3), FREQUENT as u64));
                assert_eq!(ids_and_total(&stook, "kind=B&kind=A&kind=b&page=2&size=1").1, FREQUENT as u64 + 5, "two spellings of one value");
            }
            // together
            std::thread::scope(|scope| {
                for number in 0..12 {
                    let (stook, query) = (&stook, ["kind=A", "kind=B", "kind=A&kind=B"][number % 3]);
                    let total = [FREQUENT as u64, 5, FREQUENT as u64 + 5][number % 3];
                    scope.spawn(move || assert_eq!(ids_and_total(stook, query).1, total, "{query}"));
                }
            });
            assert_eq!(ids(&stook.get("/labelled?label=x&label=y").expect_json(200)).len(), 5, "who has both is one record");
            let owner = stook.get("/owners/o1").expect_json(200);
            assert_eq!((&owner["newest"], owner["all"].as_array().unwrap().len()), (&json!(newest(1)[0]), FREQUENT));
            let owner = stook.get("/owners/o2").expect_json(200);
            assert_eq!((&owner["newest"], owner["all"].as_array().unwrap().len()), (&json!("b4"), 5));
        }
    }
}

/// Questions that look-ups of lists have asked the store.
fn lookup_statements(stook: &Served) -> u64 {
    stook.metric_sum("stook_store_calls_total", "what=\"find\"")
}

/// A record that goes from one value to another while they are looked up one by one is found by neither, or by both: no random request is
/// likely to meet that moment.
#[test]
fn all_values_of_a_condition_are_looked_up_by_one_statement() {
    for sandbox in Sandbox::on_each_store(SKEWED) {
        let items = [item("a", "A", 1, &["x"], "o1"), item("b", "B", 2, &["x", "y"], "o2"), item("c", "C", 3, &["y"], "o2")];
        sandbox.ok(&["import", &sandbox.write_file("items.ndjson", items.concat()), "--source", "files"]);
        for cache in ["64", "0"] {
            let stook = Served::new(&sandbox, &["--workers", "0", "--cache", cache]);
            // one of the lists is known already where there is a cache
            for (known, query) in [("label=x", "label=x&label=y"), ("kind=A", "kind=A&kind=B&kind=C")] {
                stook.get(&format!("/labelled?{known}")).expect_json(200);
                let before = lookup_statements(&stook);
                stook.get(&format!("/labelled?{query}")).expect_json(200);
                assert_eq!(lookup_statements(&stook) - before, 1, "{query} with a cache of {cache} MiB\n{}", stook.get("/metrics").text());
            }
        }
    }
}

#[test]
fn more_records_than_an_answer_is_made_of_are_counted_paged_or_refused() {
    for sandbox in Sandbox::on_each_store(SKEWED) {
        let frequent = (0..TOO_FREQUENT).map(|number| item(&format!("a{number:05}"), "A", number, &["all"], "o1"));
        let rare = (0..5).map(|number| item(&format!("b{number}"), "B", number, &[], "o2"));
        let owners = ["o1", "o2"].map(|number| item(number, "owner", 0, &[], ""));
        let file = sandbox.write_file("items.ndjson", frequent.chain(rare).chain(owners).collect::<String>());
        sandbox.ok(&["import", &file, "--source", "files"]);
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        for _ in 0..2 {
            assert_eq!(ids_and_total(&stook, "kind=A&kind=B&page=3&size=1"), (vec![format!("a{:05}", TOO_FREQUENT - 3)], TOO_FREQUENT as u64 + 5));
            assert_eq!(ids_and_total(&stook, "kind=B").1, 5);
            assert_eq!(ids_and_total(&stook, "").1, TOO_FREQUENT as u64 + 7, "without a condition");
            assert_eq!(ids_and_total(&stook, "label=all&page=16668"), (Vec::new(), TOO_FREQUENT as u64));
        }
        // others who ask at the same time have their own answers
        std::thread::scope(|scope| {
            for number in 0..12 {
                let (stook, query) = (&stook, ["kind=A", "kind=B", "kind=A&kind=B"][number % 3]);
                let total = [TOO_FREQUENT as u64, 5, TOO_FREQUENT as u64 + 5][number % 3];
                scope.spawn(move || assert_eq!(ids_and_total(stook, query).1, total, "{query}"));
            }
        });
        let counted = stook.get("/owned?kind=A").expect_json(200);
        assert_eq!(counted, json!({ "rows": [], "total": TOO_FREQUENT }));
        for refused in ["/plain?kind=A", "/labelled?label=all", "/owned?kind=A&most=100000", "/owners/o1"] {
            let refused = stook.get(refused).expect_json(400);
            assert!(refused["detail"].as_str().unwrap().contains("more than 50000 records"), "{refused}");
        }
        assert_eq!(stook.get("/plain?kind=B").expect_json(200).as_array().unwrap().len(), 5);
        assert_eq!(stook.get("/owners/o2").expect_json(200)["newest"], "b4");
    }
}
