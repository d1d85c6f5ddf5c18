//! What comes in from files and services is whole, or said not to be: pages of errors, answers without documents, white space, and
//! documents that are too long.

use serde_json::{Value as Json, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use stook_tests::http::Served;
use stook_tests::{Sandbox, counts, gzip, zstandard};

const PAGE: &str = "<html><head><title>502 Bad Gateway</title></head></html>\n";

/// A catalogue of things from files of a format.
fn definition(format: &str, more: &str) -> String {
    let paths = match format {
        "marc" => ["001", "100$a"],
        "xml" => ["'@id'", "'@name'"],
        "json" => ["$.id", "$.name"],
        _ => ["id", "name"],
    };
    format!(
        "catalogue: things\nsources:\n  list: {{ format: {format}{more}, as_of: meta.received, into: thing }}\ncollections:\n  thing:\n    key: id\n    \
         fields:\n      id: {{ type: text, path: {} }}\n      name: {{ type: text, path: {} }}\n",
        paths[0], paths[1]
    )
}

/// A MARC record with a number and a name.
fn marc_record(number: &str, name: &str) -> Vec<u8> {
    let fields = [("001", format!("{number}\u{1e}")), ("100", format!("1 \u{1f}a{name}\u{1e}"))];
    let (mut directory, mut data) = (String::new(), String::new());
    for (tag, field) in &fields {
        directory += &format!("{tag}{:04}{:05}", field.len(), data.len());
        data += field;
    }
    let base = 24 + directory.len() + 1;
    format!("{:05}nam a22{base:05}   4500{directory}\u{1e}{data}\u{1d}", base + data.len() + 1).into_bytes()
}

#[test]
fn a_file_that_is_no_list_of_documents_is_refused_and_shown() {
    let html = "no document; it looks like HTML; it begins with: <html><head><title>502 Bad Gateway</title></head></html>";
    for (format, more, name, bytes, expected_message) in [
        ("marc", "", "page.mrc", PAGE, html),
        ("xml", ", records: record", "page.xml", PAGE, html),
        ("xml", "", "page.xml", PAGE, html),
        ("json", "", "page.json", PAGE, html),
        ("csv", "", "page.csv", PAGE, html),
        ("marc", "", "page.mrc", "<error>out of\norder</error>", "no document; there is no record in it, and its outermost element `error`"),
        ("marc", "", "page.mrc", "Service\u{7} unavailable", "csv, which no source of this catalogue reads; it begins with: Service unavailable"),
        (
            "xml",
            ", records: list/item",
            "page.xml",
            "<error>out of\n order</error>",
            "no element `list` in it, its outermost one is `error`; it begins with: <error>out of order</error>",
        ),
        ("xml", ", records: item", "page.xml", "<error/>", "`records: error/item` or `empty:`"),
        ("xml", ", records: item", "page.xml", "", "no document; it is empty"),
        (
            "json",
            ", records: '$.rows[*]'",
            "page.json",
            "{\"error\": \"out of order\"}",
            "no list `rows` in its top object; it begins with: {\"error\": \"out of order\"}",
        ),
        ("json", ", records: '$.rows[*]'", "page.json", "{\"rows\": null}", "no list `rows`"),
        ("json", ", records: '$.rows[*]'", "page.json", "[]", "no list `rows`"),
        ("json", ", records: '$.rows[*]'", "page.json", " \n", "no document; it is empty"),
    ] {
        let sandbox = Sandbox::new(&definition(format, more));
        sandbox.ok(&["prepare"]);
        for (name, bytes) in [(name.to_owned(), bytes.as_bytes().to_vec()), (format!("{name}.gz"), gzip(bytes.as_bytes()))] {
            let file = sandbox.write_file(&name, bytes);
            let answer = sandbox.run(&["import", &file]).exits(1);
            let output_text = answer.text() + &answer.err;
            assert!(
                output_text.contains(expected_message) && output_text.contains(&name) && !output_text.contains("--resume"),
                "{format}{more}: {output_text}"
            );
            sandbox.run(&["import", &file, "--detach"]).exits(1).stderr_contains(&[expected_message]);
            sandbox.run(&["import", &file, "--dry-run"]).exits(1).stderr_contains(&[expected_message]);
            let jobs = sandbox.json(&["jobs", "--json"]);
            assert!(
                jobs.as_array().unwrap().iter().all(|job| job["state"] == "failed" && job["reason"].as_str().unwrap().contains(expected_message)),
                "{jobs}"
            );
        }
        assert_eq!(sandbox.records("thing"), Vec::<Json>::new());
    }
}

#[test]
fn a_list_of_nothing_is_a_job_without_documents() {
    for (format, more, bytes) in [
        ("marc", "", ""),
        ("marc", "", "<collection xmlns='http://www.loc.gov/MARC21/slim'/>"),
        ("marc", "", "<OAI-PMH><error code='noRecordsMatch'/></OAI-PMH>"),
        ("json", "", ""),
        ("json", "", "[]"),
        ("json", "", "\n"),
        ("json", ", records: '$.rows[*]'", "{\"rows\": []}"),
        ("json", ", records: '$.rows[*]', empty: '\"status\": *404'", "{\"status\": 404}"),
        ("csv", "", ""),
        ("csv", "", "id,name\n"),
        ("xml", ", records: item", "<items/>"),
        ("xml", ", records: list/item", "<list></list>"),
        ("xml", ", records: item, empty: '^<none'", "<none/>"),
        // what says that nothing found may be of another format
        ("csv", ", empty: '^<none'", "<none/>"),
        ("marc", ", empty: 'no records'", "no records match"),
        ("json", ", records: '$.rows[*]', empty: '<p>nothing'", "<html><p>nothing</p></html>"),
        ("xml", ", records: 'list/*'", "<list/>"),
    ] {
        let sandbox = Sandbox::new(&definition(format, more));
        let job = sandbox.import(&[&sandbox.write_file("list", bytes), "--source", "list"]);
        assert_eq!((&job["state"], &job["counts"]["documents"]), (&json!("completed"), &json!(0)), "{format}{more}: {bytes}");
    }
}

#[test]
fn an_upload_without_a_document_is_refused() {
    let sandbox = Sandbox::new(&definition("json", ", records: '$.rows[*]'"));
    let stook = Served::new(&sandbox, &["--workers", "1", "--files", sandbox.folder().to_str().unwrap()]);
    std::fs::create_dir(sandbox.path("main")).unwrap();
    sandbox.write_file("main/page.json", "{\"error\": 1}");
    for (body, expected_message) in [("{\"error\": 1}", "there is no list `rows`"), (PAGE, "it looks like HTML"), ("", "it is empty")] {
        let reply = stook.send("POST", "/v1/main/import?source=list", &[], body.as_bytes());
        assert!(reply.status == 422 && reply.text().contains(expected_message), "{body}: {reply:?}");
        let reply = stook.send("POST", "/v1/main/deliver?source=list", &[], body.as_bytes());
        assert!(reply.status == 422, "{body}: {reply:?}");
    }
    let reply = stook.send("POST", "/v1/main/import?source=list&path=page.json", &[], b"");
    assert!(reply.status == 422 && reply.text().contains("there is no list `rows`"), "{reply:?}");
    let jobs = stook.get("/v1/main/jobs").expect_json(200);
    assert!(jobs["jobs"].as_array().unwrap().iter().all(|job| job["state"] == "failed"), "{jobs}");
    stook.send("POST", "/v1/main/deliver?source=list", &[], b"{\"rows\": []}").expect_json(200);
}

/// Files that begin with more white space than is looked at to recognise a format.
#[test]
fn a_document_after_much_white_space_is_imported() {
    let white_space = "\n".repeat(70_000);
    let marcxml = "<collection><record><leader>00000nam a2200000   4500</leader><controlfield tag='001'>a</controlfield></record></collection>";
    for (format, more, bytes) in [
        ("marc", "", marc_record("a", "one")),
        ("marc", "", marcxml.into()),
        ("xml", ", records: 'all/*'", b"<all><t id='a'/></all>".to_vec()),
        ("json", "", b"{\"id\": \"a\"}".to_vec()),
        ("json", "", b"[{\"id\": \"a\"}]".to_vec()),
        ("json", ", records: '$.rows[*]'", b"{\"rows\": [{\"id\": \"a\"}]}".to_vec()),
        ("csv", "", b"id,name\na,one\n".to_vec()),
    ] {
        let sandbox = Sandbox::new(&definition(format, more));
        let padded = [white_space.as_bytes(), &bytes, white_space.as_bytes(), &bytes[..0]].concat();
        for (name, bytes) in [("list", padded.clone()), ("list.gz", gzip(&padded)), ("list.zst", zstandard(&padded))] {
            let job = sandbox.import(&[&sandbox.write_file(name, bytes)]);
            assert_eq!(job["counts"]["documents"], 1, "{format}{more}, {name}: {job}");
        }
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let job = stook.send("POST", "/v1/main/import?source=list", &[], &padded).expect_json(202);
        assert_eq!(stook.wait_for_job("main", &job)["counts"]["documents"], 1, "{format}{more}");
        assert_eq!(stook.send("POST", "/v1/main/deliver?source=list", &[], &padded).expect_json(200)["counts"]["documents"], 1, "{format}{more}");
    }
}

/// Of a compressed file as of a plain one, a document that is too long costs itself only.
#[test]
fn only_a_document_that_is_too_long_fails_in_plain_and_compressed_files() {
    let json = |id: &str, length: usize| format!("{{\"id\": \"{id}\", \"name\": \"{}\"}}", "x".repeat(length));
    let long = 70 << 20;
    for (format, more, bytes) in [
        ("json", "", [json("a", 1), "\n".into(), json("b", long), "\n".into(), json("c", 1), "\n".into()].concat().into_bytes()),
        ("json", ", records: '$.rows[*]'", format!("{{\"rows\": [{},{},{}]}}", json("a", 1), json("b", long), json("c", 1)).into_bytes()),
        ("xml", ", records: 'all/*'", format!("<all><t id='a'/><t id='b'>{}</t><t id='c'/></all>", "x".repeat(long)).into_bytes()),
        ("csv", "", format!("id,name\na,one\nb,{}\nc,three\n", "x".repeat(long)).into_bytes()),
        ("marc", "", [marc_record("a", "one"), marc_record("b", &"x".repeat(long)), marc_record("c", "three")].concat()),
        // the first document of a chunk, the last of a file, longer than all that is kept
        ("json", "", [json("b", long), "\n".into(), json("a", 1), "\n".into(), json("c", 1), "\n".into(), json("d", 97 << 20)].concat().into_bytes()),
    ] {
        let failed = if bytes.len() > 2 * long { 2 } else { 1 };
        let expected = format!("created 2, failed {failed}");
        let mut troubles_by_form = Vec::new();
        for (name, bytes) in [("list", bytes.clone()), ("list.gz", gzip(&bytes)), ("list.zst", zstandard(&bytes))] {
            let sandbox = Sandbox::new(&definition(format, more));
            let file = sandbox.write_file(name, bytes);
            assert_eq!(counts(&sandbox.dry_run(&[&file])), expected, "{format}{more}, {name}");
            let job = sandbox.run(&["import", "--json", &file]).exits(2).json();
            assert_eq!(counts(&job), expected, "{format}{more}, {name}: {job}");
            let troubles =
                sandbox.troubles(1).into_iter().map(|trouble| (trouble["record"].clone(), trouble["offset"].clone(), trouble["reasons"].clone()));
            troubles_by_form.push(troubles.collect::<Vec<_>>());
        }
        assert!(troubles_by_form[0].iter().all(|(.., reasons)| reasons[0].as_str().unwrap().contains("longer than")), "{troubles_by_form:?}");
        assert!(troubles_by_form.iter().all(|trouble| *trouble == troubles_by_form[0]), "{format}{more}: {troubles_by_form:?}");
        let sandbox = Sandbox::new(&definition(format, more));
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let job = stook.send("POST", "/v1/main/import?source=list", &[], &gzip(&bytes)).expect_json(202);
        let job = stook.wait_for_job("main", &job);
        assert_eq!((&job["state"], counts(&job)), (&json!("completed_with_errors"), expected), "{format}{more}: {job}");
    }
}

/// A service that answers everything with the same bytes, until it is told others.
struct Service {
    url: String,
    respond_with: Arc<Mutex<(&'static str, String)>>,
}

impl Service {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = Self { url: format!("http://{}", listener.local_addr().unwrap()), respond_with: Arc::default() };
        let respond_with = service.respond_with.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                lines.take_while(|line| !line.is_empty()).for_each(drop);
                let (kind, body) = respond_with.lock().unwrap().clone();
                let _ =
                    write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
            }
        });
        service
    }

    fn respond_with(&self, kind: &'static str, body: &str) {
        *self.respond_with.lock().unwrap() = (kind, body.to_owned());
    }
}

/// A catalogue of things that a service knows.
fn definition_with_service(url: &str, format: &str, more: &str) -> String {
    let service = format!("services:\n  shop: {{ url: '{url}', attempts: 1, ttl_failed: 1ms }}\nsources:\n");
    definition(format, &format!("{more}, asks: {{ service: shop, calls: {{ all: {{ get: /all }} }} }}")).replace("sources:\n", &service)
}

#[test]
fn an_answer_without_its_list_fails_and_retires_nothing() {
    const JSON: &str = "application/json";
    const XML: &str = "application/xml";
    let errors_of_json = [
        ("{\"error\": \"out of\\u0007 order\"}", "{\"error\""),
        ("{\"rows\": \"none\"}", "{\"rows\": \"none\"}"),
        ("[]", "no list `rows`"),
        ("", "empty response"),
        (" \n\t ", "contains no document, only white space"),
        (PAGE, "it looks like HTML; it begins with: <html><head><title>502 Bad Gateway"),
        ("Service\u{1b} unavailable", "it begins with: Service unavailable"),
        ("null", "null"),
    ];
    let errors_of_xml = [
        ("<error/>", "it begins with: <error/>"),
        ("<error code='7'>out of\n order</error>", "it begins with: <error code='7'>out of order</error>"),
        ("", "empty response"),
        (" \n ", "contains no document, only white space"),
        (PAGE, "it looks like HTML; it begins with: <html><head><title>502 Bad Gateway"),
        ("{\"error\": 1}", "it begins with: {\"error\": 1}"),
    ];
    let rows = "{\"rows\": [{\"id\": \"a\", \"name\": \"one\"}, {\"id\": \"b\", \"name\": \"two\"}]}";
    let list = "<rows><row id='a' name='one'/><row id='b' name='two'/></rows>";
    for (format, more, kind, complete_answer, empty_answer, errors) in [
        ("json", ", records: '$.rows[*]'", JSON, rows, "{\"rows\": []}", &errors_of_json[..]),
        ("xml", ", records: rows/row", XML, list, "<rows/>", &errors_of_xml[..]),
        ("xml", ", records: row", XML, list, "<rows/>", &errors_of_xml[..]),
    ] {
        let service = Service::new();
        for sandbox in Sandbox::on_each_store(&definition_with_service(&service.url, format, more)) {
            let query_service = || sandbox.run(&["query", "thing", "--ask", "always", "--format", "json"]);
            let keys =
                || sandbox.run(&["query", "thing | count(key)", "--ask", "never", "--format", "json"]).exits(0).json()[0]["count(key)"].clone();
            service.respond_with(kind, complete_answer);
            query_service().exits(0);
            for (error, expected_reason) in errors {
                service.respond_with(kind, error);
                let output = query_service();
                let status = output.err.lines().find_map(|line| serde_json::from_str::<Json>(line).ok().filter(|status| status["service"] == "shop"));
                let status = status.unwrap_or_else(|| panic!("{}", output.err));
                assert_eq!(status["state"], "failed", "{format}{more} {error:?}: {status}");
                let reason = status["reason"].as_str().unwrap();
                assert!(
                    reason.contains(expected_reason) && !reason.contains("/tmp") && !reason.contains("stook-asked"),
                    "{format}{more} {error:?}: {reason}"
                );
                assert!(output.code != 0 && keys() == 2, "{format}{more} {error:?}");
            }
            service.respond_with(kind, empty_answer);
            query_service().exits(0);
            assert_eq!(keys(), 0, "a list of nothing is an answer");
        }
    }
}

/// That nobody has answered is said in every format, and is no answer without rows.
#[test]
fn a_missing_answer_is_not_reported_as_an_empty_one() {
    const JSON: &str = "application/json";
    let service = Service::new();
    for sandbox in Sandbox::on_each_store(&definition_with_service(&service.url, "json", ", records: '$.rows[*]'")) {
        let query_as = |query: &str, format: &str| sandbox.run(&["query", query, "--ask", "always", "--format", format]);
        service.respond_with(JSON, "{\"error\": \"out of order\"}");
        for query in ["thing", "thing | count(key)", "thing | grep name | unique"] {
            for format in ["table", "csv", "json", "ndjson"] {
                let answer = query_as(query, format).exits(1).stderr_contains(&["out of order", "no result: no service has answered"]);
                if matches!(format, "json" | "ndjson") {
                    let problem = answer.json();
                    assert!(problem["error"].as_str().unwrap().contains("out of order"), "{query}: {problem}");
                    assert_eq!(problem["services"][0]["state"], "failed", "{query}: {problem}");
                } else {
                    assert_eq!(answer.text(), "", "{query} {format}");
                }
            }
        }
        // an empty list is an answer
        service.respond_with(JSON, "{\"rows\": []}");
        assert_eq!(query_as("thing", "json").exits(0).json(), json!([]));
        // what is known stays known, and it is said that nobody has answered
        service.respond_with(JSON, "{\"rows\": [{\"id\": \"a\"}, {\"id\": \"b\", \"name\": \"two\"}]}");
        query_as("thing", "json").exits(0);
        service.respond_with(JSON, "{\"error\": \"out of order\"}");
        assert_eq!(query_as("thing | grep id", "json").exits(2).stderr_contains(&["out of order"]).json(), json!([{ "id": "a" }, { "id": "b" }]));
        assert_eq!(query_as("thing | count(key)", "ndjson").exits(2).json(), json!({ "count(key)": 2 }));
    }
}

/// Values that do not fit their type are counted where they are left out, and sums say that they are not of all.
#[test]
fn unreadable_values_are_counted_and_reported() {
    let service = Service::new();
    let definition = definition_with_service(&service.url, "json", ", records: '$.rows[*]'")
        .replace("      name: {", "      size: { type: integer, path: $.size }\n      name: {");
    for sandbox in Sandbox::on_each_store(&definition) {
        service.respond_with(
            "application/json",
            "{\"rows\": [{\"id\": \"a\", \"size\": 5}, {\"id\": \"b\", \"size\": \"many\"}, {\"id\": \"c\", \"size\": {}}, {\"id\": \"d\"}]}",
        );
        let answer = sandbox.run(&["query", "thing | sum(size), max(size), count(size)", "--format", "json"]).exits(0);
        assert_eq!(answer.json(), json!([{ "sum(size)": 5, "max(size)": 5, "count(size)": 1 }]));
        let reports: Vec<Json> = answer.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&reports[0]["state"], &reports[0]["unreadable"]), (&json!("complete"), &json!(2)), "{reports:?}");
        assert!(reports[0]["example"].as_str().unwrap().contains("many"), "{reports:?}");
        let covered = json!({ "values": 1, "rows": 4 });
        assert_eq!(reports[1], json!({ "over": { "sum(size)": covered, "max(size)": covered } }));
        sandbox
            .run(&["query", "thing | sum(size)"])
            .exits(0)
            .stderr_contains(&["2 values could not be read (the first: ", "sum(size) covers 1 of 4 rows"]);
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let answer = stook.get("/v1/main/query?q=thing%20%7C%20sum(size)").expect_json(200);
        assert_eq!((&answer["over"]["sum(size)"], &answer["services"][0]["unreadable"]), (&covered, &json!(2)), "{answer}");
        let answer = stook.get("/v1/main/query?q=thing%20size%3E0%20%7C%20sum(size)").expect_json(200);
        assert!(answer["over"].is_null(), "{answer}");
    }
}
