//! Rights per collection and operation: whatever is asked with a token for some collections, nothing of the others is in any answer.

use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};
use stook_tests::Sandbox;
use stook_tests::http::{Client, Served, url_encoded};
use stook_tests::operations::{Sent, send_all};

/// Two collections with all that shows records: links between them, tags, words, coverage, feeds, declared routes.
const DEFINITION: &str = "
catalogue: library
serve:
  repository: { name: Library, email: a@library.example }
sources:
  books: { format: csv, into: book, as_of: meta.received }
  loans: { format: csv, into: loan, as_of: meta.received }
  rows:  { format: json, into: loan, as_of: meta.received }
words:
  lent: { select: loan, tests: { loan: book, book: id } }
collections:
  book:
    key: id
    publish: { dc: { title: title } }
    tags: {}
    fields:
      id: text
      title: { type: text, index: [equal, contains, words] }
    state:
      status: { type: text, seed: \"'free'\" }
    transitions:
      take: { set: { status: \"'taken'\" } }
  loan:
    key: number
    raw: keep
    publish: { dc: { title: reader } }
    tags: {}
    history: 10
    fields:
      number: text
      book: { type: text, index: equal }
      reader: { type: text, index: [equal, contains, words], required: true }
      note: text
    state:
      status: { type: text, seed: \"'out'\", index: equal }
    transitions:
      give_back: { set: { status: \"'back'\" } }
routes:
  - get: /book-of/{id}
    params: { id: text }
    one: book
    where: { key: params.id }
  - get: /loans-of/{id}
    params: { id: text }
    one: book
    where: { key: params.id }
    include:
      loans: { list: loan, where: { book: id } }
";

/// A word that is only in records of `loan`: in fields, keys, tags, documents and failures.
const SECRET: &str = "Zuckerkandl";

fn filled(sandbox: &Sandbox) {
    let books = sandbox.write_file("books.csv", "id,title\nb1,The Sea\nb2,The Wood\n");
    let loans = format!("number,book,reader,note\n{SECRET}-1,b1,Ann {SECRET},{SECRET}\nl2,b2,Ben {SECRET},x\nl3,b2,,{SECRET}\n");
    let loans = sandbox.write_file("loans.csv", loans);
    sandbox.ok(&["import", &books, "--source", "books"]);
    let imported = sandbox.run(&["import", &loans, "--source", "loans"]);
    assert_eq!(imported.code, 2, "one document fails, and is kept: {}", imported.text());
    sandbox.ok(&["tag", "create", &format!("{SECRET}-tag"), "--of", "loan", "--comment", "for nobody else"]);
}

fn token(sandbox: &Sandbox, may: &str) -> String {
    sandbox.ok(&["token", "create", "--may", may, "--name", may]).trim().to_owned()
}

/// Values of parameters: those of the secret records, where there are any.
fn fill(path: &str, name: &str) -> String {
    match name {
        "tenant" => "main".into(),
        "key" if path.contains("/loan") => format!("{SECRET}-1"),
        "key" => "b1".into(),
        "id" => "b1".into(),
        "tag" => format!("{SECRET}-tag"),
        "job" => "2".into(),
        "document" => "3".into(),
        "chunk" | "token" => "1".into(),
        "q" => "loan".into(),
        "text" => "zuckerkandl".into(),
        "verb" => "Identify".into(),
        "query" => SECRET.into(),
        _ => "x".into(),
    }
}

/// Sends every operation of the document; returns each with its status and answer.
fn walk(client: &Client, document: &Json) -> Vec<(String, u16, String)> {
    let body = |operation: &str| match operation {
        "query_long" => Some(json!({"q": "loan"})),
        "lookup" => Some(json!({"collection": "loan", "keys": [format!("{SECRET}-1")]})),
        "pick" => Some(json!({"query": "loan", "transition": "give_back"})),
        "create_token" => Some(json!({"role": "admin", "name": "x"})),
        _ => None,
    };
    send_all(client, document, &Sent { parameter: &fill, body: &body, headers: &[] })
}

#[test]
fn no_route_shows_or_changes_anything_of_a_collection_that_a_token_is_not_for() {
    for sandbox in Sandbox::on_each_store(DEFINITION) {
        filled(&sandbox);
        let (admin, reader, writer) = (token(&sandbox, "admin"), token(&sandbox, "read:book"), token(&sandbox, "write:book"));
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let all = stook.client(Some(&admin));
        let state = || {
            ["/v1/main/export/loan", "/v1/main/export/book", "/v1/main/tags/loan", "/v1/main/tokens"].map(|path| {
                let text = all.get(path).text();
                // when a token was used is no change
                text.split("\"used\"").next().unwrap().to_owned()
            })
        };
        let (before, document) = (state(), all.get("/openapi.json").expect_json(200));
        assert!(before[0].contains(SECRET) && before[2].contains(SECRET), "{before:?}");
        for token in [&reader, &writer] {
            let client = stook.client(Some(token));
            let answers = walk(&client, &document);
            assert!(answers.len() > 50, "{}", answers.len());
            for (operation, status, answer) in &answers {
                assert!(!answer.contains(SECRET) || answer.contains("\"status\":404"), "{operation}: {status} {answer}");
                assert!(*status < 500, "{operation}: {status} {answer}");
                let is_of_loan = ["/loan", "loans-of"].iter().any(|part| operation.contains(part));
                assert!(!is_of_loan || matches!(status, 403 | 404 | 422), "{operation}: {status} {answer}");
            }
            // what the document does not require: other parameters, and what people see
            let query = |text: &str| format!("q={}", url_encoded(text));
            let mut paths = vec![
                format!("/v1/main/query?{}", query(SECRET)),
                format!("/v1/main/query?{}", query("records")),
                format!("/v1/main/query?{}", query("lent")),
                format!("/v1/main/query?{}&explain=true", query("loan")),
                format!("/v1/main/query?{}&format=csv", query("loan | grep reader, note")),
                format!("/v1/main/query?{}", query("loan | count(key) by reader")),
                format!("/v1/main/query?{}", query(&format!("loan tag={SECRET}x"))),
                format!("/v1/main/query/facets?{}", query("loan")),
                format!("/v1/main/query/completions?{}", query("loan reader=Ann")),
                format!("/v1/main/query/completions?{}", query("loan tag=")),
                format!("/v1/main/suggest?text={SECRET}"),
                "/v1/main/suggest?text=zuckerkandel".into(),
                format!("/v1/main/export?{}", query("loan")),
                format!("/v1/main/export?{}", query("records")),
                "/v1/main?counts=true".into(),
                "/v1/main/jobs?troubled=true".into(),
                "/v1/main/oai?verb=ListRecords&metadataPrefix=oai_dc&set=loan".into(),
                "/v1/main/oai?verb=ListRecords&metadataPrefix=oai_dc".into(),
                format!("/v1/main/sru/loan?version=1.2&operation=searchRetrieve&query={SECRET}"),
            ];
            for page in ["home", "search?q=loan", "search?q=records", "facets?q=loan", "tags", "import", "job?id=2", "metrics", "tokens", "coverage"]
            {
                paths.push(format!("/t/main/{page}"));
            }
            paths.push(format!("/t/main/record?collection=loan&key={SECRET}-1"));
            paths.push("/t/main/record?collection=book&key=b1".into());
            for path in &paths {
                let answer = client.get(path);
                let repeated = answer.text().replace(&url_encoded(SECRET), "").replace(&format!("key={SECRET}-1"), "");
                assert!(answer.status < 500, "{path}: {}", answer.text());
                let shown = repeated.matches(SECRET).count();
                // what was asked is repeated in errors and forms
                assert!(shown == 0 || path.contains(SECRET) && !answer.text().contains("Ann "), "{path}: {}", answer.text());
                assert!(!answer.text().contains("Ann Z"), "{path}: {}", answer.text());
            }
        }
        assert_eq!(before, {
            // what the token for books has changed there is not what this is about
            let mut after = state();
            after[1].clone_from(&before[1]);
            after
        });
    }
}

#[test]
fn rights_allow_what_they_name_and_take_effect_in_a_running_server() {
    for sandbox in Sandbox::on_each_store(DEFINITION) {
        filled(&sandbox);
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let (reader, importer) = (token(&sandbox, "read:book"), token(&sandbox, "import:loan,read:book"));
        let (writer, both) = (token(&sandbox, "write:book"), token(&sandbox, "read,write:loan"));
        std::thread::sleep(Duration::from_millis(1_500));
        let status = |token: &str, method: &str, path: &str, body: &Json| stook.client(Some(token)).call(method, path, body).status;
        let get = |token: &str, path: &str| stook.client(Some(token)).get(path);
        let query = |text: &str| format!("/v1/main/query?q={}", url_encoded(text));
        // reading: records, queries, words, exports, feeds, routes
        for path in ["/v1/main/book/b1", "/v1/main/export/book", "/book-of/b1", "/v1/main/tags/book", "/v1/main/book/b1/explain"] {
            assert_eq!(get(&reader, path).status, 200, "{path}");
        }
        assert_eq!(get(&reader, &query("book | count(key)")).expect_json(200)["rows"][0]["count(key)"], 2);
        assert_eq!(get(&reader, &query("sea")).expect_json(200)["rows"][0]["key"], "b1", "words alone are searched for in what is readable");
        assert_eq!(get(&reader, &query("records")).expect_json(200)["rows"].as_array().unwrap().len(), 2);
        assert_eq!(get(&both, &query("records")).expect_json(200)["rows"].as_array().unwrap().len(), 4);
        assert_eq!(get(&reader, "/v1/main/suggest?text=wood").expect_json(200)["suggestions"][0]["query"], "book title=*Wood*");
        let search = "/v1/main/sru/book?version=1.2&operation=searchRetrieve&query=dc.title%20%3D%20%22*Sea*%22";
        assert!(get(&reader, search).text().contains("The Sea"), "{}", get(&reader, search).text());
        let overview = get(&reader, "/v1/main?counts=true").expect_json(200);
        assert_eq!(overview["collections"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect::<Vec<_>>(), [json!("book")]);
        assert_eq!((&overview["collections"][0]["records"], &overview["sources"]), (&json!(2), &json!(["books"])));
        let sources = get(&reader, "/v1/main/sources").expect_json(200);
        assert!(sources["sources"][0]["source"] == "books" && sources["sources"].as_array().unwrap().len() == 1, "{sources}");
        assert_eq!(get(&reader, "/v1/main/jobs").expect_json(200)["jobs"].as_array().unwrap().len(), 1);
        // what was committed last is published when the second is over
        let harvest = || get(&both, "/v1/main/oai?verb=ListRecords&metadataPrefix=oai_dc").text();
        let until = Instant::now() + Duration::from_secs(20);
        while harvest().matches("<record>").count() != 4 {
            assert!(Instant::now() < until, "{}", harvest());
            std::thread::sleep(Duration::from_millis(200));
        }
        // writing: edits, transitions, tags
        let book = json!({"id": "b3", "title": "The Hill"});
        assert_eq!(status(&reader, "POST", "/v1/main/book", &book), 403);
        assert_eq!(status(&importer, "POST", "/v1/main/book", &book), 403);
        assert_eq!(status(&writer, "POST", "/v1/main/book", &book), 201);
        assert_eq!(status(&reader, "POST", "/v1/main/book/b1/take", &json!({})), 403);
        assert_eq!(status(&writer, "POST", "/v1/main/book/b1/take", &json!({})), 200);
        assert_eq!(status(&writer, "POST", "/v1/main/pick", &json!({"query": "loan", "transition": "give_back"})), 403);
        assert_eq!(status(&both, "POST", "/v1/main/pick", &json!({"query": "loan", "transition": "give_back"})), 200);
        assert_eq!(status(&both, "PATCH", "/v1/main/book/b1", &json!({"title": "x"})), 403, "it reads everything, and writes loans");
        assert_eq!(status(&writer, "POST", "/v1/main/tags/book", &json!({"name": "new"})), 403, "tags are defined by admins");
        // importing, without reading what comes of it
        let send = |token: &str, path: &str, body: &str| stook.client(Some(token)).send("POST", path, &[], body.as_bytes());
        let rows = r#"{"number":"l9","book":"b1","reader":"Eve"}"#;
        assert_eq!(send(&importer, "/v1/main/deliver", rows).status, 422, "it must name the source");
        assert_eq!(send(&importer, "/v1/main/deliver?source=books", "id,title\nb9,X\n").status, 403);
        send(&importer, "/v1/main/deliver?source=rows", rows).expect_json(200);
        assert_eq!((get(&importer, "/v1/main/loan/l9").status, get(&both, "/v1/main/loan/l9").status), (403, 200));
        let job = send(&importer, "/v1/main/import?source=rows", &rows.replace("l9", "l8")).expect_json(202);
        let journal = get(&importer, &format!("/v1/main/jobs/{}/journal", job["id"]));
        assert_eq!(journal.status, 200, "whoever imports sees the journal: {}", journal.text());
        assert_eq!(get(&reader, &format!("/v1/main/jobs/{}", job["id"])).status, 404);
        assert_eq!(send(&writer, &format!("/v1/main/jobs/{}/cancel", job["id"]), "").status, 404);
        // other rights take effect within a second
        sandbox.ok(&["token", "change", "1", "--may", "read:loan"]);
        std::thread::sleep(Duration::from_millis(1_500));
        assert_eq!((get(&reader, "/v1/main/book/b1").status, get(&reader, "/v1/main/loan/l9").status), (403, 200));
        // what cannot be granted
        for (wrong, said) in
            [("read:bok", "did you mean `book`?"), ("reed:book", "a right is"), ("admin:book", "not for one collection"), ("", "a right is")]
        {
            sandbox.run(&["token", "create", "--may", wrong]).exits(64).stderr_contains(&[said]);
        }
        let listed = sandbox.ok(&["token", "ls"]);
        assert!(listed.contains("import:loan") && listed.contains("read,write:loan"), "{listed}");
    }
}

#[test]
fn no_collection_has_the_name_of_a_path() {
    let sandbox = Sandbox::new(DEFINITION);
    let document = Served::new(&sandbox, &["--workers", "0"]).get("/openapi.json").expect_json(200);
    let paths = document["paths"].as_object().unwrap().keys();
    let words: std::collections::BTreeSet<&str> =
        paths.filter_map(|path| path.strip_prefix("/v1/{tenant}/")?.split('/').next()).filter(|word| !["book", "loan"].contains(word)).collect();
    assert!(words.len() > 15, "{words:?}");
    for word in words {
        let definition =
            format!("catalogue: x\nsources:\n  s: {{ format: csv, into: {word} }}\ncollections:\n  {word}: {{ key: id, fields: {{ id: text }} }}\n");
        sandbox.write_file("catalogue.yaml", definition);
        sandbox.run(&["check"]).exits(1).stderr_contains(&[&format!("`{word}` is reserved by the HTTP API")]);
    }
}
