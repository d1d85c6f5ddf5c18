//! Links of lists from end to end: books, their authors and subjects, in whatever order they come; asked, explained, exported, edited,
//! looked at; and a link that becomes one of a list in a store that exists.

use serde_json::{Value as Json, json};
use stook_tests::Sandbox;
use stook_tests::http::{Served, url_encoded};

const BOOKS: &str = "\
catalogue: library
sources:
  books: { format: json, into: book, as_of: meta.received }
  people: { format: json, into: author, as_of: meta.received }
  topics: { format: json, into: subject, as_of: meta.received }
collections:
  book:
    key: isbn
    fields:
      isbn: text
      orcid: text
      orcids: [text]
      subject_codes: [text]
      editor_id: text
      names: { type: [text], derive: authors.name }
      known: { type: boolean, derive: authors.exists }
      labels: { type: [text], derive: subjects.label }
    links:
      authors: { to: author, same: { orcids: orcid } }
      subjects: { to: subject, key: \"subject/{subject_codes}\", create: true }
      editor: { to: author, key: editor_id }
  author:
    key: id
    fields: { id: text, orcid: text, name: text, books: { type: integer, rollup: { over: book.authors, count: true } } }
  subject:
    key: id
    fields: { id: text, label: text, books: { type: integer, rollup: { over: book.subjects, count: true } } }
profiles:
  books: { source: books, matched: update, unmatched: create }
  people: { source: people, matched: update, unmatched: create }
  topics: { source: topics, matched: update, unmatched: create }
";

const DELIVERIES: [(&str, &str); 3] = [
    (
        "books",
        r#"[{"isbn":"1","orcids":["A","B"],"subject_codes":["x","y"],"editor_id":"p1"},
            {"isbn":"2","orcids":["B","A"],"subject_codes":["y"],"editor_id":"p9"},{"isbn":"3","orcids":["C"]}]"#,
    ),
    ("people", r#"[{"id":"p1","orcid":"A","name":"Ann"},{"id":"p2","orcid":"B","name":"Bob"},{"id":"p3","orcid":"A","name":"Ann"}]"#),
    ("topics", r#"[{"id":"subject/x","label":"Xylophones"}]"#),
];

fn deliver(sandbox: &Sandbox, order: [usize; 3]) {
    for (source, documents) in order.map(|which| DELIVERIES[which]) {
        let file = sandbox.write_file(&format!("{source}.json"), documents);
        sandbox.ok(&["import", &file, "--profile", source]);
    }
}

fn query_rows(sandbox: &Sandbox, query: &str) -> Json {
    sandbox.json(&["query", query, "--format", "json"])
}

fn keys(sandbox: &Sandbox, query: &str) -> String {
    query_rows(sandbox, query).as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn books_have_several_authors_whichever_came_first() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        for sandbox in Sandbox::on_each_store(BOOKS) {
            deliver(&sandbox, order);
            assert_eq!(sandbox.get("book", "1")["authors"], json!(["p1", "p2", "p3"]), "two have the same ORCID");
            assert_eq!(sandbox.get("book", "2")["names"], json!(["Ann", "Bob", "Ann"]));
            assert_eq!(sandbox.get("book", "1")["labels"], json!(["Xylophones"]));
            assert_eq!(sandbox.get("book", "1")["subjects"], json!(["subject/x", "subject/y"]));
            let counted: Vec<u64> = ["p1", "p2", "p3"].map(|author| sandbox.get("author", author)["books"].as_u64().unwrap()).to_vec();
            assert_eq!(counted, [2, 2, 2]);
            assert_eq!(["subject/x", "subject/y"].map(|subject| sandbox.get("subject", subject)["books"].clone()), [json!(1), json!(2)]);
            let found =
                ["book authors=p2", "book subjects=subject/x", "book editor.exists=false", "book editor.exists=true", "book authors.exists=true"];
            assert_eq!(found.map(|query| keys(&sandbox, query)), ["1 2", "1", "2", "1", "1 2"]);
            let explained = sandbox.json(&["get", "book", "2", "--explain", "--format", "json"]);
            assert_eq!((&explained["fields"]["editor"]["planned"], &explained["fields"]["authors"]["planned"]), (&json!(["p9"]), &Json::Null));
            let exported = sandbox.records("book");
            assert_eq!(exported[0]["authors"], json!(["p1", "p2", "p3"]));
            sandbox.ok(&["check", "--deep"]);
        }
    }
}

#[test]
fn an_edited_list_links_to_other_targets() {
    for sandbox in Sandbox::on_each_store(BOOKS) {
        deliver(&sandbox, [0, 1, 2]);
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let path = |query: &str| format!("/v1/main/query?q={}", url_encoded(query));
        let wait = |query: &str, wanted: &str| {
            let keys = || {
                stook.get(&path(query)).expect_json(200)["rows"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|row| row["key"].as_str().unwrap().to_owned())
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            for _ in 0..600 {
                if keys() == wanted {
                    return;
                }
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            panic!("{query}: {} instead of {wanted}", keys());
        };
        // added, removed, and one who is planned comes
        stook.call("PATCH", "/v1/main/book/3", &json!({ "orcids": ["C", "B"] })).expect_json(200);
        wait("book authors=p2", "1 2 3");
        wait("author books=3", "p2");
        stook.call("PATCH", "/v1/main/book/1", &json!({ "orcids": ["B"] })).expect_json(200);
        wait("book authors=p1", "2");
        wait("author books=1", "p1 p3");
        stook.call("POST", "/v1/main/author", &json!({ "id": "p9", "orcid": "C", "name": "Cy" })).expect_json(201);
        wait("book authors=p9", "3");
        wait("book editor.exists=false", "");
        assert_eq!(stook.send("DELETE", "/v1/main/author/p9", &[], b"").status, 204);
        wait("book editor.exists=false", "2");
        wait("book authors=p9", "");
        let page = stook.get("/t/main/record?collection=book&key=2").text();
        for author in ["p1", "p2", "p3"] {
            assert!(page.contains(&format!("/t/main/record?collection=author&amp;key={author}")), "{page}");
        }
        assert!(page.contains("not imported yet"), "{page}");
        let page = stook.get(&format!("/t/main/search?q={}", url_encoded("book authors=p2 | grep key, authors"))).text();
        assert!(page.contains("/t/main/record?collection=author&amp;key=p3"), "{page}");
        let overview = stook.get("/v1/main").expect_json(200);
        let book = overview["collections"].as_array().unwrap().iter().find(|collection| collection["name"] == "book").unwrap().clone();
        assert_eq!((&book["fields"]["authors"], &book["links"]["authors"]), (&json!("[text]"), &json!("author")));
    }
}

#[test]
fn a_link_becomes_one_of_a_list_in_a_store_that_exists() {
    let single_link = BOOKS
        .replace("same: { orcids: orcid }", "same: orcid")
        .replace("derive: authors.name", "derive: '[authors.name]'")
        .replace("derive: subjects.label", "derive: '[subjects.label]'")
        .replace("subject/{subject_codes}", "subject/{orcid}");
    for sandbox in Sandbox::on_each_store(&single_link) {
        deliver(&sandbox, [0, 1, 2]);
        assert_eq!(sandbox.get("author", "p1")["books"], 0);
        sandbox.write_definition(BOOKS);
        let prepared = sandbox.run(&["prepare"]).exits(0);
        prepared.stderr_contains(&["`book.authors` is a list of keys now", "is settled again"]);
        sandbox.ok(&["check", "--deep"]);
        assert_eq!(
            (sandbox.get("book", "1")["authors"].clone(), sandbox.get("author", "p1")["books"].clone()),
            (json!(["p1", "p2", "p3"]), json!(2))
        );
        assert_eq!((keys(&sandbox, "book subjects=subject/y"), sandbox.get("subject", "subject/y")["books"].clone()), ("1 2".into(), json!(2)));
        assert_eq!(sandbox.get("book", "1")["orcids"], json!(["A", "B"]), "what was contributed stays");
        sandbox.write_definition(&single_link);
        sandbox.ok(&["prepare"]);
        sandbox.ok(&["check", "--deep"]);
        assert_eq!((sandbox.get("book", "1")["authors"].clone(), sandbox.get("author", "p1")["books"].clone()), (Json::Null, json!(0)));
    }
}
