//! Pages: as a browser sees them, where there is one, and as anybody may send requests to them.

use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use stook_catalogue::value::{FieldType, from_text};
use stook_formats::marc::MarcBuilder;
use stook_sample::random::Random;
use stook_tests::http::{Client, Reply, Served, url_encoded};
use stook_tests::{LIBRARY, Sandbox, authorities, program_with_lab, repository};

/// A sandbox as its example has it, on both stores.
fn sandboxes(example: &str) -> Vec<Sandbox> {
    Sandbox::on_each_store(&std::fs::read_to_string(repository().join(format!("examples/{example}/catalogue.yaml"))).unwrap())
}

fn token(sandbox: &Sandbox, role: &str) -> String {
    sandbox.ok(&["token", "create", "--role", role]).trim().to_owned()
}

fn sample(words: &[&str]) {
    assert!(Command::new(program_with_lab()).arg("sample").args(words).output().unwrap().status.success(), "{words:?}");
}

/// Where the packages of the browser tests are, and the browser.
fn browser() -> Option<(PathBuf, PathBuf)> {
    let of_home = || Some(Path::new(&std::env::var_os("HOME")?).join(".cache/stook/browser"));
    let packages = std::env::var_os("STOOK_TEST_BROWSER").map(PathBuf::from).or_else(of_home)?;
    let chromium =
        ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].map(PathBuf::from).into_iter().find(|path| path.exists());
    match chromium.filter(|_| packages.join("node_modules/playwright-core").exists() && packages.join("node_modules/axe-core").exists()) {
        Some(chromium) => Some((packages, chromium)),
        None => {
            stook_testkit::skip::missing(&format!("there is no chromium, or no playwright-core and axe-core in {}", packages.display()));
            None
        }
    }
}

/// Goes through the steps of a script.
fn run_browser_script(script: &str, stook: &Served, arguments: &[&str]) {
    let Some((packages, chromium)) = browser() else { return };
    let url = format!("http://{}", stook.address());
    let output = Command::new("timeout")
        .args(["300", "node"])
        .arg(repository().join("tests/browser").join(script))
        .arg(url)
        .args(arguments)
        .env("STOOK_TEST_BROWSER", packages)
        .env("STOOK_TEST_CHROMIUM", chromium)
        .output();
    let Ok(output) = output else { return stook_testkit::skip::missing("node is not installed") };
    let output_text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output_text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(output_text.contains("ok signs in"), "{output_text}");
}

#[test]
fn a_librarian_imports_finds_explains_and_lends() {
    for sandbox in sandboxes("authorities") {
        let names = sandbox.write_file("names.mrc", authorities(400, 1, 1));
        let items = sandbox.write_file("items.csv", "barcode,lccn\nb1,x\nb2,y\n");
        let mut nameless = MarcBuilder::new("00000nz  a2200000n  4500").unwrap();
        nameless.data("100", "1", " ").unwrap();
        nameless.subfield("a", "No Number Given").unwrap();
        let broken = sandbox.write_file("broken.mrc", nameless.finish().to_iso2709().unwrap());
        let (all, reader) = (token(&sandbox, "admin"), token(&sandbox, "read"));
        let long = sandbox.write_file("long.mrc", authorities(200_000, 2, 1));
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        run_browser_script("library.mjs", &stook, &[&all, &names, &items, &reader, &broken, &long]);
    }
}

#[test]
fn a_data_centre_tags_machines() {
    for sandbox in sandboxes("machines") {
        let data = sandbox.path("data").display().to_string();
        sample(&["machines", "--records", "60", "-o", &data]);
        sandbox.import(&[&format!("{data}/machines.ndjson"), "--source", "enlist"]);
        let (all, runs) = (token(&sandbox, "admin"), sandbox.path("runs").display().to_string());
        std::fs::create_dir(&runs).unwrap();
        let stook = Served::new(&sandbox, &["--workers", "1", "--runs", &runs]);
        for run in ["before", "after"] {
            let file = format!("{runs}/{run}.json");
            sandbox
                .run(&["lab", "sweep", &format!("http://{}/healthz", stook.address()), "--clients", "1,2", "--for", "200ms", "-o", &file])
                .exits(0);
        }
        std::fs::write(format!("{runs}/broken.json"), "{}").unwrap();
        let client = stook.client(Some(&all));
        assert_eq!((client.get("/v1/main/lab/broken").status, client.get("/v1/main/lab/%2e%2e%2fcatalogue").status), (500, 404));
        run_browser_script("machines.mjs", &stook, &[&all]);
    }
}

const BOOKS: &str = "catalogue: books\nsources:\n  library: { format: csv, as_of: meta.received, undo: 30d, into: book }\n  shop: { format: json, as_of: meta.received, into: book }\n\
                     collections:\n  book:\n    key: isbn\n    title: title\n    fields:\n      isbn: text\n      title: { type: text, compare: folded }\n      \
                     pages: { type: integer, compare: { within: 1 } }\n      published: partial_date\n      bound: { type: text, one_of: [paper, cloth] }\n      \
                     notes: [text]\n";

#[test]
fn a_steward_corrects_a_record() {
    for sandbox in Sandbox::on_each_store(BOOKS) {
        let library = sandbox.write_file("books.csv", "isbn,title,pages,published,bound\nb1,The Sea,310,1998,paper\n");
        let shop = sandbox.write_file("shop.json", r#"{"isbn": "b1", "title": "THE  SEA", "pages": 312, "bound": "cloth"}"#);
        sandbox.import(&[&library, "--as-of", "2026-01-01"]);
        sandbox.import(&[&shop, "--as-of", "2026-01-02"]);
        let (write, reader) = (token(&sandbox, "write"), token(&sandbox, "read"));
        let elsewhere = sandbox.ok(&["token", "create", "--may", "read:book"]).trim().to_owned();
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let pictures = std::env::var("STOOK_TEST_PICTURES").unwrap_or_default();
        run_browser_script("corrections.mjs", &stook, &[&write, &reader, &pictures]);
        // a form is for whom it was made, of what it showed, and of fields that can be edited
        let (visitor, other) = (Visitor::new(&stook, &write), Visitor::new(&stook, &elsewhere));
        let form = |field: &str, csrf: &str| format!("collection=book&key=b1&field={field}&do=back&seen=x&csrf={csrf}");
        assert_eq!(visitor.post("/t/main/edit/change", &form("pages", &other.csrf_token())).status, 403);
        assert_eq!(other.post("/t/main/edit/change", &form("pages", &other.csrf_token())).status, 403);
        assert_eq!(visitor.post("/t/main/edit/change", &form("pages", &visitor.csrf_token())).status, 409);
        assert_eq!(visitor.get("/t/main/edit?collection=book&key=b1&field=isbn").status, 404);
        let odd = visitor.get("/t/main/edit?collection=book&key=b1&field=pgaes");
        assert!(odd.status == 404 && odd.text().contains("did you mean `pages`?"), "{}", odd.text());
    }
}

const SUPPLIERS: &str = "catalogue: goods\nsources:\n  good: { format: csv, into: thing, as_of: meta.received }\n  partly: { format: json, into: thing, \
                         as_of: meta.received }\n  never: { format: csv, files: 'never*.csv', into: other, as_of: meta.received }\n  bad:\n    format: csv\n    \
                         files: 'bad*.csv'\n    into: other\n    as_of: meta.received\n    expect: [ { documents: { at_least: 2 }, do: stop } ]\n\
                         collections:\n  thing:\n    key: id\n    fields: { id: text, size: integer }\n  other:\n    key: id\n    fields: { id: text }\n";

#[test]
fn the_home_page_says_how_each_source_is_doing() {
    for sandbox in Sandbox::on_each_store(SUPPLIERS) {
        let good = sandbox.write_file("good.csv", "id,size\na,1\nb,2\n");
        let partly = sandbox.write_file("partly.json", "[{\"id\": \"c\"}, {\"size\": 1}, {}]");
        let bad = sandbox.write_file("bad.csv", "id\nx\n");
        sandbox.import(&[&good, "--source", "good"]);
        assert_eq!(sandbox.run(&["import", &partly, "--source", "partly"]).code, 2, "two documents have no key");
        assert_ne!(sandbox.run(&["import", &bad]).code, 0, "it has too few rows");
        let (reader, things) = (token(&sandbox, "read"), sandbox.ok(&["token", "create", "--may", "read:thing"]).trim().to_owned());
        let metrics = token(&sandbox, "metrics");
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let ask = |token: &str| stook.client(Some(token)).get("/v1/main/sources").expect_json(200);
        let answer = ask(&reader);
        assert_eq!(answer["whole"], true, "{answer}");
        let sources = answer["sources"].as_array().unwrap();
        let shown: Vec<Json> = sources.iter().map(|one| json!([one["source"], one["state"], one["failed_documents"], one["unfinished"]])).collect();
        let expected =
            json!([["good", "completed", 0, 0], ["partly", "completed_with_errors", 2, 0], ["never", null, null, 0], ["bad", "failed", 0, 0]]);
        assert_eq!(json!(shown), expected, "{answer}");
        assert!(sources[0]["age"].as_u64().is_some_and(|seconds| seconds < 600) && sources[0]["bytes"] == 16, "{answer}");
        assert!(sources[3]["failure"].as_str().is_some() && sources[3]["last_success"].is_null(), "{answer}");
        // a source is shown to those who may read all that it feeds
        let names = |answer: &Json| answer["sources"].as_array().unwrap().iter().map(|one| one["source"].clone()).collect::<Vec<_>>();
        assert_eq!(names(&ask(&things)), ["good", "partly"]);
        assert_eq!(stook.client(None).get("/v1/main/sources").status, 401);
        assert_eq!(stook.client(Some(&metrics)).get("/v1/main/sources").status, 403);
        assert_eq!(stook.client(Some(&reader)).get("/v1/main/sources?limit=1").status, 400);
        let home = Visitor::new(&stook, &reader).get("/t/main/home").text();
        for words in ["completed with errors", "nothing was imported yet", "within the last hour", "none known"] {
            assert!(home.contains(words), "{words} in {home}");
        }
        drop(stook);
        // a job that has not ended, and a source that is well again
        let more = sandbox.write_file("bad2.csv", "id\nx\ny\n");
        sandbox.import(&[&more]);
        sandbox.run(&["import", &good, "--source", "good", "--detach"]).exits(0);
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let answer = stook.client(Some(&reader)).get("/v1/main/sources").expect_json(200);
        assert_eq!((&answer["sources"][0]["unfinished"], &answer["sources"][0]["state"]), (&json!(1), &json!("completed")), "{answer}");
        assert_eq!((&answer["sources"][3]["state"], &answer["sources"][3]["failure"]), (&json!("completed"), &Json::Null), "{answer}");
    }
}

#[test]
fn a_cancelled_evaluation_is_shown_as_incomplete() {
    let sandbox = Sandbox::new(&std::fs::read_to_string(repository().join("examples/machines/catalogue.yaml")).unwrap());
    let data = sandbox.path("data").display().to_string();
    sample(&["machines", "--records", "5", "-o", &data]);
    sandbox.import(&[&format!("{data}/machines.ndjson"), "--source", "enlist"]);
    let admin = token(&sandbox, "admin");
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    let (client, visitor) = (stook.client(Some(&admin)), Visitor::new(&stook, &admin));
    let made = client.call("POST", "/v1/main/tags/machine", &json!({ "name": "any", "xpath": "//node" })).expect_json(201);
    let is_incomplete_shown = || visitor.get("/t/main/home").text().contains("Not all of machine was evaluated");
    assert!(!is_incomplete_shown(), "it may still be evaluated");
    let job = &made["job"];
    let shown = visitor.get(&format!("/t/main/job?id={job}")).text();
    assert!(shown.contains(&format!("<h1>Evaluation {job}</h1>")) && shown.contains("yes, cancel"), "{shown}");
    assert_eq!(visitor.post("/t/main/job/change", &format!("id={job}&do=cancel&csrf={}", visitor.csrf_token())).status, 303);
    assert!(is_incomplete_shown());
}

#[test]
fn an_operator_looks_for_gaps() {
    for sandbox in sandboxes("sentinel") {
        let data = sandbox.path("data").display().to_string();
        sample(&["sentinel", "--days", "1", "-o", &data]);
        for source in ["plan_s1", "plan_s2", "prip", "probe"] {
            let mut files: Vec<String> =
                std::fs::read_dir(format!("{data}/{source}")).unwrap().map(|file| file.unwrap().path().display().to_string()).collect();
            files.sort();
            let words: Vec<&str> = files.iter().map(String::as_str).chain(["--source", source]).collect();
            sandbox.import(&words);
        }
        let all = token(&sandbox, "read");
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        assert_counts_cover_measures(&stook.client(Some(&all)));
        run_browser_script("satellites.mjs", &stook, &[&all]);
    }
}

#[test]
fn the_documentation_is_read_and_searched_without_a_token() {
    let sandbox = Sandbox::new(THINGS);
    let admin = token(&sandbox, "admin");
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    assert_eq!(stook.get("/").header("location"), Some("/sign-in"), "there are tokens");
    let start = stook.get("/docs");
    assert_eq!((start.status, start.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(start.header("content-security-policy").is_some() && start.text().contains(env!("CARGO_PKG_VERSION")));
    // whatever a page links to is there, and nothing but pages, pictures and what pages are made of
    let link = regex::Regex::new(r##"(?:href|src)="(/[^"#?]*)"##).unwrap();
    let (mut seen, mut pending) = (std::collections::BTreeSet::from(["/docs".to_owned()]), vec!["/docs".to_owned()]);
    while let Some(path) = pending.pop() {
        let page = stook.get(&path);
        assert_eq!(page.status, 200, "{path}");
        if page.header("content-type") != Some("text/html; charset=utf-8") {
            continue;
        }
        let text = page.text();
        check_complete(&text).unwrap_or_else(|wrong| panic!("{path}: {wrong}"));
        assert_eq!((text.matches("<h1").count(), text.matches("aria-current=\"page\"").count()), (1, usize::from(path != "/docs")), "{path}");
        pending
            .extend(link.captures_iter(&text).map(|found| found[1].to_owned()).filter(|path| path.starts_with("/docs") && seen.insert(path.clone())));
    }
    for path in [
        "/docs/tutorial",
        "/docs/howto/tag-records",
        "/docs/decisions/002-optimistic-writes",
        "/docs/measurements/tags-100k-0.svg",
        "/docs/operations",
    ] {
        assert!(seen.contains(path), "{path} is linked: {seen:?}");
    }
    for (link, path) in [("query.md", "/docs/query"), ("decisions/README.md", "/docs/decisions"), ("", "/docs"), ("tutorial/", "/docs/tutorial")] {
        let led = stook.get(&format!("/docs/{link}"));
        assert_eq!((led.status, led.header("location")), (303, Some(path)));
    }
    let missing = stook.get("/docs/howto/import-big-file");
    assert!(missing.status == 404 && missing.text().contains("Did you mean") && missing.text().contains("href=\"/docs/howto/import-big-files\""));
    let odd = stook.get("/docs/%3Cscript%3E");
    assert!(odd.status == 404 && !odd.text().contains("<script>"), "{}", odd.text());
    let found = stook.get("/docs/search?q=golden+val").text();
    assert!(found.contains("href=\"/docs/glossary#golden-value\"") && found.contains("<mark>golden</mark>"), "{found}");
    let nothing = stook.get("/docs/search?q=%3Cxyzzy%3E").text();
    assert!(nothing.contains("&lt;xyzzy&gt;") && nothing.contains("Try fewer letters"), "{nothing}");
    assert!(stook.get("/docs/search").text().contains("Write words"));
    run_browser_script("documentation.mjs", &stook, &[&admin]);
}

/// What is drawn of a group is what was measured: the union of its records' intervals.
fn assert_counts_cover_measures(client: &Client) {
    let rows = client.get("/v1/main/query?limit=1000&q=datatake.sensing_s1").expect_json(200);
    assert!(!rows["rows"].as_array().unwrap().is_empty(), "{rows}");
    let sums = client.get("/v1/main/coverage/children?collection=datatake.sensing_s1&parent=x");
    assert_eq!((sums.status, client.get("/v1/main/coverage/children?collection=product&parent=x").status), (404, 404));
    let rows = client.get("/v1/main/query?limit=1000&q=datatake.completeness_s1").expect_json(200);
    let micros = |time: &Json| from_text(time.as_str().unwrap(), &FieldType::Timestamp, None).unwrap().as_int().unwrap();
    let mut compared = 0;
    for row in rows["rows"].as_array().unwrap().iter().filter(|row| row["value"] != "PT0S") {
        let group = row["group"].as_str().unwrap();
        // what is shifted or counted otherwise is no plain union
        if !group.ends_with("_RAW__0S") {
            continue;
        }
        let parent = url_encoded(row["datatake"].as_str().unwrap());
        let counted = client.get(&format!("/v1/main/coverage/children?collection=datatake.completeness_s1&parent={parent}")).expect_json(200);
        assert_eq!((counted["collection"].as_str(), counted["whole"].as_bool()), (Some("product"), Some(true)));
        let counted_group = counted["groups"].as_array().unwrap().iter().find(|counted_group| counted_group["group"] == group).unwrap();
        let (mut length, mut covered) = (0, i64::MIN);
        for child in counted_group["children"].as_array().unwrap() {
            let (start, stop) = (micros(&child["start"]), micros(&child["stop"]));
            length += (stop - start.max(covered)).max(0);
            covered = covered.max(stop);
            assert_eq!(client.get(&format!("/v1/main/product?key={}", url_encoded(child["key"].as_str().unwrap()))).status, 200);
        }
        let value = from_text(row["value"].as_str().unwrap(), &FieldType::Duration, None).unwrap().as_int().unwrap();
        assert_eq!(length, value, "{row} {counted_group}");
        compared += 1;
    }
    assert!(compared > 3, "{compared}");
}

/// The name of a server's cookie, which is of its port alone.
fn cookie(stook: &Served) -> String {
    format!("stook-{}", stook.address().rsplit(':').next().unwrap())
}

/// Somebody who has signed in.
struct Visitor {
    client: Client,
    cookie: String,
}

impl Visitor {
    fn new(stook: &Served, token: &str) -> Self {
        let client = stook.client(None);
        let entered = client.send("POST", "/sign-in", &[], format!("token={token}").as_bytes());
        assert_eq!((entered.status, entered.header("location")), (303, Some("/t/main/home")));
        let cookie = entered.header("set-cookie").unwrap();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        assert!(!cookie.contains(token), "a browser does not keep the token: {cookie}");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Self { client, cookie }
    }

    fn get(&self, path: &str) -> Reply {
        self.client.send("GET", path, &[("cookie", &self.cookie)], b"")
    }

    fn post(&self, path: &str, form: &str) -> Reply {
        self.client.send("POST", path, &[("cookie", &self.cookie), ("content-type", "application/x-www-form-urlencoded")], form.as_bytes())
    }

    /// What somebody of another tenant is answered.
    fn status_of(stook: &Served, token: &str) -> u16 {
        let entered = stook.client(None).send("POST", "/sign-in", &[], format!("token={token}").as_bytes());
        let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap();
        stook.client(None).send("GET", "/t/main/home", &[("cookie", cookie)], b"").status
    }

    fn csrf_token(&self) -> String {
        let page = self.get("/t/main/home").text();
        page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    }
}

/// How many records there are.
fn all_records(stook: &Served, token: &str) -> u64 {
    stook.client(Some(token)).get("/v1/main/query?q=records&limit=1&total=true").expect_json(200)["total"].as_u64().unwrap()
}

const THINGS: &str = "catalogue: things\nsources:\n  s: { format: json, into: thing, as_of: meta.received }\ncollections:\n  thing:\n    key: k\n    fields: { k: text, \
                      name: { type: text, index: equal }, more: json, list: [text], size: integer }\n    state: { status: { type: text, seed: \"'free'\" } }\n    \
                      transitions: { take: { set: { status: \"'taken'\" } } }\n    tags: {}\n";

#[test]
fn pages_are_shown_to_authorised_callers_only() {
    for sandbox in Sandbox::on_each_store(THINGS) {
        let (read, write, admin) = (token(&sandbox, "read"), token(&sandbox, "write"), token(&sandbox, "admin"));
        let other_token = sandbox.ok(&["token", "create", "--role", "admin", "--tenant", "other"]).trim().to_owned();
        let everybody = sandbox.ok(&["token", "create", "--role", "admin", "--tenant", "*"]).trim().to_owned();
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        stook.client(Some(&write)).send("POST", "/v1/main/thing", &[("content-type", "application/json")], br#"{"k": "one"}"#).expect_json(201);
        // who is not known signs in, and programs are told so
        let anonymous = stook.client(None);
        for path in ["/", "/t/main/home", "/t/main/search?q=thing", "/t/nobody/home"] {
            let sent = anonymous.get(path);
            assert!(sent.status == 303 && sent.header("location").is_some_and(|sandbox| sandbox.starts_with("/sign-in")), "{path}: {sent:?}");
        }
        assert_eq!((anonymous.get("/t/main/home.json").status, anonymous.send("POST", "/t/main/transition", &[], b"").status), (401, 401));
        let wrong = anonymous.send("POST", "/sign-in", &[], b"token=stook_wrong%0d%0aset-cookie:x");
        assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
        assert_eq!(anonymous.send("GET", "/t/main/home", &[("cookie", &format!("{}=wrong; other=1", cookie(&stook)))], b"").status, 303);
        // where somebody wanted to go, if that is theirs; nobody is signed in by another site
        let enter = |to: &str, site: &str| {
            let form = format!("token={read}&to={to}");
            let sent = anonymous.send("POST", "/sign-in", &[("sec-fetch-site", site)], form.as_bytes());
            (sent.status, sent.header("location").map(str::to_owned))
        };
        assert_eq!(anonymous.get("/t/main/search?q=thing").header("location"), Some("/sign-in?to=%2Ft%2Fmain%2Fsearch%3Fq%3Dthing"));
        assert_eq!(enter("%2Ft%2Fmain%2Fsearch%3Fq%3Dthing", "same-origin"), (303, Some("/t/main/search?q=thing".into())));
        for foreign_transition in ["https:%2F%2Fevil.example", "%2F%2Fevil.example", "%2Ft%2Fother%2Fhome", "%2Ft%2Fmain%2Fa%0d%0ax:y"] {
            assert_eq!(enter(foreign_transition, "none"), (303, Some("/t/main/home".into())), "{foreign_transition}");
        }
        assert_eq!(enter("", "cross-site"), (403, None));
        assert_eq!(Visitor::new(&stook, &admin).get("/t/main/coverage?collection=nope").status, 404);
        // every page says what may be loaded, and gives its answers as JSON
        let visitor = Visitor::new(&stook, &admin);
        let pages = [
            "home",
            "facets?q=thing",
            "search",
            "search?q=thing",
            "record?collection=thing&key=one",
            "coverage",
            "import",
            "tags",
            "metrics",
            "tokens",
        ];
        for page in pages {
            let shown = visitor.get(&format!("/t/main/{page}"));
            assert_eq!(shown.status, 200, "{page}: {}", shown.text());
            let policy = shown.header("content-security-policy").unwrap();
            assert!(policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"), "{policy}");
            assert_eq!(shown.header("cache-control"), Some("no-store"));
            assert!(
                shown.text().starts_with("<!DOCTYPE html><html lang=\"en\">")
                    && !shown.text().contains(" style=")
                    && !shown.text().contains("<script>")
            );
            let (path, query) = page.split_once('?').unwrap_or((page, ""));
            let answers = visitor.get(&format!("/t/main/{path}.json?{query}")).expect_json(200);
            // what a page shows is what the API says
            assert!(!answers.as_object().unwrap().is_empty(), "{page}");
            for (path, answer) in answers.as_object().unwrap() {
                // a point of it may have come between
                if path.starts_with("/metrics") {
                    continue;
                }
                let again: Json = stook.client(Some(&admin)).get(path).expect_json(200);
                assert_eq!(&again, answer, "{path}");
            }
        }
        // what is wrong is said on a page, too, and among its answers
        for (wrong, status, message) in [
            ("nowhere", 404, "page not found"),
            ("search?q=thing%20nmae%3D1", 400, "did you mean"),
            ("search?q=thing&idx=-1", 400, "idx is a number"),
            ("download?q=thing%20nmae%3D1", 400, "did you mean"),
            ("record?collection=thing&key=nobody", 404, "there is no thing"),
        ] {
            let shown = visitor.get(&format!("/t/main/{wrong}"));
            let is_page = shown.text().starts_with("<!DOCTYPE html>") && shown.text().contains("/t/main/search");
            assert!(shown.status == status && shown.text().contains(message) && is_page, "{wrong}: {} {}", shown.status, shown.text());
        }
        let answers = visitor.get("/t/main/search.json?q=thing%20nmae%3D1");
        let problem = &answers.json()["/v1/main/query?q=thing%20nmae%3D1&idx=0&limit=51&wait=5"];
        assert!(answers.status == 400 && problem["status"] == 400, "{}", answers.text());
        // conditions are taken back where they stand
        let narrowed = stook.client(Some(&admin)).get("/v1/main/query/facets?q=thing%20k%3Done%20name%3D%22a%20b%22%20%7C%20sort%20k");
        let without = json!([
            { "condition": "k=one", "without": "thing name=\"a b\" | sort k" },
            { "condition": "name=\"a b\"", "without": "thing k=one | sort k" },
        ]);
        assert_eq!(narrowed.expect_json(200)["conditions"], without);
        assert_eq!(visitor.get("/t/main/record?collection=thing&key=nobody").status, 404);
        assert_eq!(visitor.get("/t/main/record?collection=nobody&key=x").status, 404);
        assert_eq!(visitor.get("/t/main/job?id=99").status, 404);
        assert_eq!(visitor.get("/t/main/job?id=../tokens").status, 400);
        assert_eq!((visitor.get("/t/other/home").status, Visitor::status_of(&stook, &other_token)), (404, 404));
        // who may see everybody's records is shown whose there are
        stook
            .client(Some(&everybody))
            .send("POST", "/v1/other/thing", &[("content-type", "application/json")], br#"{"k": "theirs"}"#)
            .expect_json(201);
        let names = |token: &str| stook.client(Some(token)).get("/v1").expect_json(200)["tenants"].clone();
        assert_eq!((names(&everybody), names(&admin)), (json!([{"name": "main"}, {"name": "other"}]), json!([{"name": "main"}])));
        assert!(Visitor::new(&stook, &everybody).get("/t/main/home").text().contains("href=\"/t/other/home\""));
        assert!(!visitor.get("/t/main/home").text().contains("/t/other"));
        // a form of somebody else's page does nothing
        let take = "collection=thing&key=one&transition=take";
        for form in [take.to_owned(), format!("{take}&csrf=0000"), format!("{take}&csrf={}", Visitor::new(&stook, &read).csrf_token())] {
            assert_eq!(visitor.post("/t/main/transition", &form).status, 403, "{form}");
        }
        assert_eq!(stook.client(Some(&admin)).get("/v1/main/thing/one").expect_json(200)["status"], "free");
        let taken = visitor.post("/t/main/transition", &format!("{take}&csrf={}", visitor.csrf_token()));
        assert_eq!((taken.status, taken.header("location")), (303, Some("/t/main/record?collection=thing&key=one")));
        assert_eq!(stook.client(Some(&admin)).get("/v1/main/thing/one").expect_json(200)["status"], "taken");
        let foreign_transition = format!("collection=thing&key=one&transition=../../tokens&csrf={}", visitor.csrf_token());
        assert_eq!(visitor.post("/t/main/transition", &foreign_transition).status, 404);
        // a reader sees no button, and is refused
        let reader = Visitor::new(&stook, &read);
        assert!(!reader.get("/t/main/record?collection=thing&key=one").text().contains("<button>take"));
        assert_eq!(reader.post("/t/main/transition", &format!("{take}&csrf={}", reader.csrf_token())).status, 403);
        for page in ["metrics", "tokens"] {
            assert_eq!(reader.get(&format!("/t/main/{page}")).status, 403, "{page}");
            assert!(!reader.get("/t/main/home").text().contains(&format!("/t/main/{page}")), "{page}");
        }
        // a file is sent in a form
        let form = |csrf_token: &str| {
            let part = |name: &str, more: &str, text: &str| format!("--x\r\ncontent-disposition: form-data; name=\"{name}\"{more}\r\n\r\n{text}\r\n");
            let file = (0..500).map(|number| format!("{{\"k\":\"f{number}\",\"name\":\"n\"}}\n")).collect::<String>();
            part("csrf", "", csrf_token) + &part("by", "", "source=s") + &part("file", "; filename=\"things.ndjson\"", &file) + "--x--\r\n"
        };
        let media = ("content-type", "multipart/form-data; boundary=x");
        let writer = Visitor::new(&stook, &write);
        let send = |visitor: &Visitor, csrf_token: &str| {
            visitor.client.send("POST", "/t/main/upload", &[("cookie", &visitor.cookie), media], form(csrf_token).as_bytes())
        };
        assert_eq!((send(&writer, "wrong").status, send(&reader, &reader.csrf_token()).status), (403, 403));
        let sent = send(&writer, &writer.csrf_token());
        assert_eq!(sent.status, 303, "{}", sent.text());
        let job = sent.header("location").unwrap().rsplit('=').next().unwrap().parse::<u64>().unwrap();
        let ended = stook.client(Some(&write));
        for _ in 0..200 {
            if !ended.get(&format!("/v1/main/jobs/{job}")).expect_json(200)["finished"].is_null() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let shown = writer.get(&format!("/t/main/job?id={job}")).text();
        assert!(shown.contains("upload:things.ndjson") && shown.contains("state good"), "{shown}");
        assert_eq!(writer.get("/t/main/download?q=thing%20name=n&format=csv").text().lines().count(), 501);
        // a page of long rows has few of them; all that was found can be kept
        let long = "x".repeat(1_000_000);
        let lines: String = (0..45).map(|number| json!({ "k": format!("long{number}"), "name": long }).to_string() + "\n").collect();
        sandbox.import(&[&sandbox.write_file("long.ndjson", lines), "--source", "s"]);
        let shown = writer.get("/t/main/search?q=thing%20k%3Dlong*").text();
        assert!(shown.contains("so only 5 are shown per page") && shown.len() < 2_000_000, "{}", &shown[..shown.len().min(3_000)]);
        let more: String = (0..12_000).map(|number| json!({ "k": format!("more{number}"), "name": "many" }).to_string() + "\n").collect();
        sandbox.import(&[&sandbox.write_file("more.ndjson", more), "--source", "s"]);
        let download = writer.get("/t/main/download?q=thing%20name=many&format=csv").text();
        assert_eq!(download.lines().count(), 12_001);
        // spreadsheets read it as UTF-8
        assert!(download.starts_with("\u{feff}k,") || download.starts_with("\u{feff}key,"), "{}", &download[..20]);
        let download = writer.get("/t/main/download?q=thing%20name=many&format=ndjson").text();
        assert_eq!(download.lines().filter(|line| serde_json::from_str::<Json>(line).is_ok_and(|row| row["name"] == "many")).count(), 12_000);
        // groups are no records, and too many of them are refused before anything is sent
        let groups = "thing%20name=many%20|%20count(key)%20by%20k";
        let shown = writer.get(&format!("/t/main/search?q={groups}")).text();
        assert!(shown.contains("count(key)") && shown.contains("more0") && !shown.contains("/t/main/record?"), "{shown}");
        assert_eq!(writer.get(&format!("/t/main/total?q={groups}")).text(), "12\u{202f}000");
        let refused = writer.get(&format!("/t/main/download?q={groups}&format=csv"));
        assert!(refused.status == 400 && refused.text().contains("there are 12000 groups"), "{}", refused.text());
        let everything = writer.get("/t/main/download?q=records&format=csv").text();
        assert_eq!(everything.lines().count() as u64, 1 + all_records(&stook, &write));
        // where one is, is in all links
        let shown = writer.get("/t/main/search?q=thing%20name=many&idx=50&view=json").text();
        for link in ["idx=100&amp;view=json", "idx=50\"", "idx=50&amp;view=plain"] {
            assert!(shown.contains(link), "{link}: {shown}");
        }
        let part = writer.get("/t/main/suggestions?q=thi").text();
        assert!(part.contains(">thing</bdi></a>") && !part.contains("<html"), "{part}");
        // signing out takes the cookie back, and ends the session of everybody who has it
        let signed_out = writer.post("/sign-out", &format!("csrf={}", writer.csrf_token()));
        assert!(signed_out.header("set-cookie").unwrap().contains("Max-Age=0"));
        assert_eq!((writer.get("/t/main/home").status, writer.post("/sign-out", "").status), (303, 403));
        // neither the token nor a number that was made up is a session, and one ends with its token
        for number in [write.as_str(), "", "0"] {
            let made_up = format!("{}={number}", cookie(&stook));
            assert_eq!(stook.client(None).send("GET", "/t/main/home", &[("cookie", &made_up)], b"").status, 303, "{number}");
        }
        let writer = Visitor::new(&stook, &write);
        assert_eq!(writer.get("/t/main/home").status, 200);
        sandbox.ok(&["token", "revoke", "2"]);
        std::thread::sleep(std::time::Duration::from_millis(2_500));
        assert_eq!(writer.get("/t/main/home").status, 303);
    }
}

/// Values that want to be more than values, and missing ones: nothing of them is markup, nothing fails.
#[test]
fn hostile_values_are_shown_as_text() {
    for sandbox in Sandbox::on_each_store(THINGS) {
        hostile_values_are_shown(&sandbox);
    }
}

fn hostile_values_are_shown(sandbox: &Sandbox) {
    let admin = token(sandbox, "admin");
    let stook = Served::new(sandbox, &["--workers", "1"]);
    let client = stook.client(Some(&admin));
    let nasty = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onmouseover='alert(1)",
        "</pre></details><style>*{display:none}</style>",
        "\u{202e}gnihtyreve\u{2066} \u{200f}",
        "javascript:alert(1)",
        "&lt;b&gt; &amp; ]]> <!-- -->",
        "a\u{1}\u{7f}\u{feff}b",
        "",
    ];
    let long = "x".repeat(900_000);
    let mut random = Random::new(7);
    for number in 0..60_u64 {
        let mut text = || (*random.one(&nasty)).to_owned();
        let (key, name, list) = (format!("{}{number}", text()), text(), vec![text(), text()]);
        let name = if number == 3 { long.clone() } else { name };
        let mut record = json!({ "k": key, "name": name, "list": list, "more": { text(): [text(), { text(): number }] } });
        if number % 3 == 0 {
            record.as_object_mut().unwrap().remove("more");
        }
        let sent = client.call("POST", "/v1/main/thing", &record);
        assert_eq!(sent.status, 201, "{}", sent.text());
    }
    let visitor = Visitor::new(&stook, &admin);
    let keys: Vec<String> = client.get("/v1/main/query?q=thing&limit=100").expect_json(200)["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["key"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(keys.len(), 60);
    let mut pages: Vec<String> = keys.iter().map(|key| format!("record?collection=thing&key={}", url_encoded(key))).collect();
    pages.extend(["search?q=thing".into(), "search?q=thing&view=json".into(), "search?q=thing&all=1".into(), "home".into()]);
    pages.extend(nasty.iter().map(|text| format!("search?q={}", url_encoded(text))));
    pages.extend(nasty.iter().map(|text| format!("suggestions?q={}", url_encoded(text))));
    pages.extend(nasty.iter().map(|text| format!("search?q={}", url_encoded(&format!("thing name=\"{text}\"")))));
    for page in pages {
        let shown = visitor.get(&format!("/t/main/{page}"));
        assert!(shown.status < 500, "{page}: {}", shown.text());
        let text = shown.text();
        for csrf_token in ["<script>", "<img", "<style", " onerror=", " onmouseover=", "href=\"javascript:"] {
            // in text and attributes `<` and `"` are escaped; a word like onerror may stand there, as it is
            let outside =
                text.contains(csrf_token) && (csrf_token.starts_with('<') || csrf_token.starts_with("href") || has_tag_with(&text, csrf_token));
            assert!(!outside, "{page}: {csrf_token}");
        }
        assert!(text.len() < 400_000, "{page} is {} bytes long", text.len());
    }
    run_browser_script("hostile.mjs", &stook, &[&admin]);
}

/// Books and their authors, with words.
const WORDS: &str = "
catalogue: shelf
sources: { list: { format: json, as_of: meta.received, let: { title: $.title, name: $.name }, feeds: [ { into: book, when: title != null }, { into: author, when: name != null } ] } }
collections:
  book: { key: id, fields: { id: text, title: { type: text, index: words }, subjects: { type: [text], index: words } } }
  author: { key: id, fields: { id: text, name: { type: text, index: words } } }
profiles: { load: { source: list, matched: update, unmatched: create } }
";

#[test]
fn words_that_were_searched_for_are_marked() {
    for sandbox in Sandbox::on_each_store(WORDS) {
        let admin = token(&sandbox, "admin");
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let client = stook.client(Some(&admin));
        let items = [
            json!({ "id": "b1", "title": "The Sea at Night", "subjects": ["deep sea", "<i>tides</i>"] }),
            json!({ "id": "b2", "title": "Sèa", "subjects": ["land"] }),
            json!({ "id": "b3", "title": "Notes" }),
        ];
        for item in &items {
            assert_eq!(client.call("POST", "/v1/main/book", item).status, 201);
        }
        assert_eq!(client.call("POST", "/v1/main/author", &json!({ "id": "a1", "name": "Åsa Lind of the sea" })).status, 201);
        let ask = |query: &str| client.get(&format!("/v1/main/query?total=true&q={}", url_encoded(query))).expect_json(200);
        let found = ask("book title ~ sea | grep title, rank");
        assert_eq!(found["rows"], json!([{ "title": "Sèa", "rank": 476_190 }, { "title": "The Sea at Night", "rank": 416_666 }]));
        assert_eq!(found["highlights"], json!([{ "title": ["", "Sèa", ""] }, { "title": ["The ", "Sea", " at Night"] }]));
        assert_eq!(ask("book ~ tides")["highlights"], json!([{ "subjects": [["<i>", "tides", "</i>"]] }]));
        assert_eq!(ask("book | grep title")["highlights"], Json::Null);
        // words alone, in all collections
        let found = ask("sea");
        let keys: Vec<&str> = found["rows"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect();
        assert_eq!((keys, &found["total"], &found["columns"]), (vec!["b1", "b2", "a1"], &json!(3), &json!(["collection", "key", "text"])));
        assert_eq!(found["highlights"][2], json!({ "text": ["Åsa Lind of the ", "sea", ""] }));
        let nothing = ask("boook");
        assert!(nothing["rows"] == json!([]) && nothing["hint"].as_str().unwrap().contains("did you mean the collection `book`?"), "{nothing}");
        assert_eq!(client.get("/v1/main/query?q=sea&explain=true").status, 400);
        assert_eq!(client.get(&format!("/v1/main/query?after=b1&q={}", url_encoded("book title ~ sea"))).status, 400);
        let lines = client.get("/v1/main/export?q=sea&format=csv").text();
        assert_eq!(lines.lines().count(), 4, "{lines}");
        // what is edited and deleted is found as it is
        assert_eq!(client.call("PATCH", "/v1/main/book/b2", &json!({ "title": "Land" })).status, 200);
        assert_eq!(client.send("DELETE", "/v1/main/author/a1", &[], b"").status / 100, 2);
        assert_eq!(ask("sea")["total"], 1);
        assert_eq!(ask("book | limit 2")["total"], 2);
        let visitor = Visitor::new(&stook, &admin);
        let page = visitor.get(&format!("/t/main/search?q={}", url_encoded("book ~ 'sea tides'"))).text();
        assert!(page.contains("The <mark>Sea</mark> at Night") && page.contains("&lt;i&gt;<mark>tides</mark>&lt;/i&gt;"), "{page}");
        let page = visitor.get("/t/main/search?q=night").text();
        assert!(page.contains("The Sea at <mark>Night</mark>") && page.contains("record?collection=book"), "{page}");
    }
}

/// Whether an attribute of some element is called so, outside of all quoted values.
fn has_tag_with(text: &str, marker: &str) -> bool {
    text.split('<').skip(1).any(|rest| {
        let mut quoted = false;
        let bare: String = rest
            .chars()
            .take_while(|c| {
                quoted ^= *c == '"';
                quoted || *c != '>'
            })
            .collect();
        bare.split('"').step_by(2).any(|outside| outside.contains(marker))
    })
}

#[test]
fn a_library_can_be_read_without_a_token_from_the_same_machine_only() {
    let sandbox = Sandbox::new(LIBRARY);
    sandbox.import(&[&sandbox.write_file("names.mrc", authorities(30, 1, 1))]);
    let stook = Served::new(&sandbox, &[]);
    let open = stook.client(None);
    assert_eq!(open.get("/").header("location"), Some("/t/main/home"));
    assert_eq!(open.get("/t/main/home").status, 200);
    // a page of somewhere else sends the browser here under another name
    let elsewhere = open.send("GET", "/t/main/home", &[("host", "evil.example")], b"");
    assert_eq!(elsewhere.status, 303);
    assert_eq!(open.send("POST", "/t/main/tokens/change", &[("origin", "http://evil.example")], b"name=x&role=admin").status, 401);
    assert_eq!(open.send("POST", "/t/main/tokens/change", &[], b"name=x&role=admin").status, 403);
    for asset in ["stook.css", "stook.js", "htmx-2.0.11.min.js"] {
        assert_eq!(open.get(&format!("/assets/{asset}")).status, 200);
    }
    assert_eq!(open.get("/assets/../Cargo.toml").status, 404);
    let first: usize =
        ["/t/main/home", "/assets/stook.css", "/assets/stook.js", "/assets/htmx-2.0.11.min.js"].iter().map(|path| open.get(path).body.len()).sum();
    assert!(first <= 150_000, "the first load is {first} bytes");
}

/// Chunks that are dead: said at home and with their import, made smaller and tried again by an admin, by nobody else.
/// Records of anything: every page of them is a whole document, and no value is more than text in it.
#[test]
fn pages_of_random_records_are_complete() {
    for sandbox in Sandbox::on_each_store(THINGS) {
        let mut random = Random::new(11);
        let lines: String = (0..300).map(|number| format!("{}\n", random_record(&mut random, number))).collect();
        // one of a very long list
        let many_values: Vec<String> = (0..200_000).map(|number| format!("<zz{number}>")).collect();
        let lines = lines + &json!({ "k": "many", "list": many_values, "more": many_values[..50_000] }).to_string() + "\n";
        sandbox.import(&[&sandbox.write_file("random.ndjson", lines), "--source", "s"]);
        let admin = token(&sandbox, "admin");
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let (client, visitor) = (stook.client(Some(&admin)), Visitor::new(&stook, &admin));
        let rows = client.get("/v1/main/query?q=thing%20%7C%20grep%20key&limit=1000").expect_json(200);
        let keys: Vec<&str> = rows["rows"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect();
        assert!(keys.len() > 250, "{}", keys.len());
        let records = keys.iter().map(|key| format!("record?collection=thing&key={}", url_encoded(key)));
        let begun = keys.iter().take(40).map(|key| format!("suggestions?q={}", url_encoded(&format!("thing name={key}"))));
        let views = ["", "&view=json", "&view=plain", "&all=1"];
        let found = (0..7).flat_map(|page| views.map(|view| format!("search?q=thing&idx={}{view}", page * 50)));
        for page in records.chain(begun).chain(found).chain(["facets?q=thing".into(), "home".into()]) {
            let shown = visitor.get(&format!("/t/main/{page}"));
            assert_eq!(shown.status, 200, "{page}: {}", shown.text());
            let text = shown.text();
            assert!(text.len() < 800_000, "{page} is {} bytes long", text.len());
            if let Err(wrong) = check_complete(&text) {
                panic!("{page}: {wrong}");
            }
        }
    }
}

/// A record of random members; every text begins as an element that must not be one.
fn random_record(random: &mut Random, number: u64) -> Json {
    fn text(random: &mut Random) -> String {
        let length = [0, 1, 5, 40, 170, 3_000][random.below(6) as usize];
        let planes = [0x80, 0x800, 0x3000, 0xffff, 0x11_0000];
        let mut character = || {
            let plane = *random.one(&planes);
            char::from_u32(random.below(plane) as u32).filter(|c| *c != '\0').unwrap_or('\u{202e}')
        };
        "<zz \"'>".chars().chain(std::iter::repeat_with(&mut character).take(length)).collect()
    }
    fn value(random: &mut Random, depth: u64) -> Json {
        match random.below(if depth > 6 { 4 } else { 7 }) {
            0 => Json::Null,
            1 => json!(random.number() as i64 % 9_007_199_254_740_991),
            2 => json!(random.below(2) == 0),
            3 => json!(text(random)),
            4 => (0..random.below(5)).map(|_| value(random, depth + 1)).collect(),
            _ => (0..random.below(5)).map(|_| (text(random), value(random, depth + 1))).collect::<serde_json::Map<_, _>>().into(),
        }
    }
    let key: String = text(random).chars().filter(|c| !c.is_control()).take(60).collect();
    let mut record = json!({ "k": format!("{key}{number}") });
    if random.below(4) > 0 {
        record["name"] = json!(text(random));
    }
    if random.below(4) > 0 {
        record["list"] = (0..random.below(6)).map(|_| json!(text(random))).collect();
    }
    if random.below(4) > 0 {
        record["more"] = value(random, 0);
    }
    if random.below(4) > 0 {
        record["size"] = json!(random.below(1 << 50));
    }
    record
}

/// Whether elements end in the order in which they begin, and are none of those that values would make.
fn check_complete(page: &str) -> Result<(), String> {
    const ALONE: [&str; 5] = ["meta", "link", "input", "br", "img"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").unwrap_or(page);
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let name_ends = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '/').ok_or("an element has no end")?;
        let name = &rest[..name_ends];
        // values of attributes stand in quotes, in which there is none
        let mut quoted = false;
        let ends = rest
            .find(|c: char| {
                quoted ^= c == '"';
                c == '>' && !quoted
            })
            .ok_or("an element has no end")?;
        let attributes = &rest[name_ends..ends];
        if name.starts_with("zz") || attributes.contains('<') || attributes.contains(" on") && !attributes.contains('"') {
            return Err(format!("<{name}{attributes}> is made of a value"));
        }
        match name.strip_prefix('/') {
            Some(name) if open.pop() != Some(name) => return Err(format!("</{name}> has no beginning, or others within it")),
            None if !ALONE.contains(&name) => open.push(name),
            _ => {}
        }
        rest = &rest[ends + 1..];
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} have no end")) }
}

#[test]
fn dead_chunks_can_be_cut_smaller_and_retried() {
    let sandbox = Sandbox::new(THINGS);
    let (write, admin) = (token(&sandbox, "write"), token(&sandbox, "admin"));
    let lines: String = (0..300).map(|number| json!({ "k": format!("d{number}"), "name": "n" }).to_string() + "\n").collect();
    let file = sandbox.write_file("things.ndjson", &lines);
    sandbox.ok(&["import", &file, "--source", "s", "--detach"]);
    let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
    // it is another file when it is read
    std::fs::write(&file, "{}\n").unwrap();
    sandbox.run(&["work", "--drain"]);
    assert!(sandbox.queue().iter().all(|chunk| chunk["state"] == "dead"), "{:?}", sandbox.queue());
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    let (writer, visitor) = (Visitor::new(&stook, &write), Visitor::new(&stook, &admin));
    assert!(visitor.get("/t/main/home").text().contains("3 chunks are dead"), "{}", visitor.get("/t/main/home").text());
    let shown = visitor.get("/t/main/job?id=1").text();
    assert!(shown.contains("dead chunk") && shown.contains("has changed since the job was created") && shown.contains("<button>rechunk"), "{shown}");
    assert!(!writer.get("/t/main/job?id=1").text().contains("<button>rechunk"));
    let rechunk = format!("id=1&do=rechunk&chunk={}&documents=50", sandbox.queue()[0]["ordinal"]);
    assert_eq!(visitor.post("/t/main/job/change", &rechunk).status, 403, "not from our page");
    assert_eq!(writer.post("/t/main/job/change", &format!("{rechunk}&csrf={}", writer.csrf_token())).status, 403);
    for wrong in ["id=1&do=rechunk&chunk=0&documents=x", "id=../1&do=retry", "id=1&do=burn"] {
        assert_eq!(visitor.post("/t/main/job/change", &format!("{wrong}&csrf={}", visitor.csrf_token())).status, 400, "{wrong}");
    }
    // the file is back as it was
    std::fs::write(&file, &lines).unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    assert_eq!(visitor.post("/t/main/job/change", &format!("{rechunk}&csrf={}", visitor.csrf_token())).status, 303);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let client = stook.client(Some(&admin));
    loop {
        let job: Json = client.get("/v1/main/jobs/1").expect_json(200);
        if job["chunks_dead"].as_u64() > Some(0) {
            visitor.post("/t/main/job/change", &format!("id=1&do=retry&csrf={}", visitor.csrf_token()));
        }
        if job["state"] == "completed" {
            break;
        }
        assert!(std::time::Instant::now() < until, "{job}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(client.get("/v1/main/query?q=thing%20name=n&total=true&limit=1").expect_json(200)["total"], 300);
    assert!(!visitor.get("/t/main/home").text().contains("chunks are dead"));
}
