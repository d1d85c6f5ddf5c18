//! `stook collect`: what services publish is in the catalogue, whatever happens to them and to who asks.

use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stook_sample::sentinel::{self, Sentinel};
use stook_tests::http::url_decoded;
use stook_tests::{Answer, Sandbox};

const SATELLITES: &str = include_str!("../../../examples/sentinel/catalogue.yaml");

const THINGS: &str = "\
catalogue: things
sources:
  shop:
    format: json
    records: $.value[*]
    as_of: published
    into: thing
    collect:
      odata: { north: \"${SHOP_URL}/north\", south: \"${SHOP_URL}/south?expand=all\" }
      window: Published
      page: 10
      lag: 15m
      since: 2024-01-01T00:00:00Z
      CREDENTIALS
collections:
  thing:
    key: id
    fields:
      id: { path: $.Id, type: text }
      name: { path: $.Name, type: text }
      published: { path: $.Published, type: timestamp }
";

/// What a service does instead of answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Nothing,
    Busy,
    /// Too many requests.
    TooMany,
    Cut,
    Moved,
    Words,
    /// JSON without its list.
    Error,
    Endless,
    Everything,
    Slow,
    Forbidden,
    /// A page without documents, and where to go on.
    EmptyPage,
}

#[derive(Default)]
struct State {
    /// Documents by service, in the order of their publication.
    documents: BTreeMap<String, Vec<Json>>,
    trouble: VecDeque<Trouble>,
    /// Requests that came: path, question, who asks.
    requests: Vec<(String, String, Option<String>)>,
}

/// OData services on a port of their own.
struct Services {
    url: String,
    window: &'static str,
    state: Arc<Mutex<State>>,
}

impl Services {
    fn new(window: &'static str, documents: impl IntoIterator<Item = (String, Vec<Json>)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(State::default()));
        let services = Self { url, window, state: state.clone() };
        documents.into_iter().for_each(|(name, documents)| services.publish(&name, documents));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = state.clone();
                std::thread::spawn(move || answer(stream, window, &state));
            }
        });
        services
    }

    fn publish(&self, name: &str, documents: Vec<Json>) {
        let mut state = self.state.lock().expect("not poisoned");
        let published = state.documents.entry(name.to_owned()).or_default();
        published.extend(documents);
        published.sort_by_key(|document| comparable(document[self.window].as_str().unwrap_or_default()));
    }

    fn fail_with(&self, trouble: &[Trouble]) {
        self.state.lock().expect("not poisoned").trouble.extend(trouble);
    }

    /// The requests since this was asked last.
    fn requests(&self) -> Vec<(String, String, Option<String>)> {
        std::mem::take(&mut self.state.lock().expect("not poisoned").requests)
    }
}

/// A time whose texts are in its order.
fn comparable(time: &str) -> String {
    let (seconds, fraction) = time.trim_end_matches('Z').split_once('.').unwrap_or((time.trim_end_matches('Z'), ""));
    format!("{seconds}.{fraction:0<9}")
}

fn answer(mut stream: TcpStream, window: &str, state: &Mutex<State>) {
    let mut lines = BufReader::new(stream.try_clone().expect("a stream"));
    loop {
        let mut first = String::new();
        if lines.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        let mut authorization = None;
        loop {
            let mut header_line = String::new();
            if lines.read_line(&mut header_line).unwrap_or(0) <= 2 {
                break;
            }
            if let Some(value) = header_line.to_ascii_lowercase().strip_prefix("authorization:") {
                authorization = Some(header_line[header_line.len() - value.len()..].trim().to_owned());
            }
        }
        let target = first.split(' ').nth(1).expect("a target").to_owned();
        let target = target.strip_suffix("&again=yes").unwrap_or(&target).to_owned();
        let (path, question) = target.split_once('?').unwrap_or((&target, ""));
        let question = url_decoded(question);
        let part = |name: &str| question.split('&').find_map(|part| part.strip_prefix(&format!("${name}=")).map(str::to_owned));
        let (documents, trouble) = {
            let mut state = state.lock().expect("not poisoned");
            state.requests.push((path.to_owned(), question.clone(), authorization));
            (state.documents.get(path.trim_start_matches('/')).cloned(), state.trouble.pop_front())
        };
        let filter = part("filter").expect("a filter");
        assert_eq!(part("orderby"), Some(format!("{window} asc")));
        let bound = |word: &str| comparable(filter.split(&format!("{window} {word} ")).nth(1).expect("a bound").split(' ').next().expect("a time"));
        let (from, until) = (bound("ge"), bound("lt"));
        let everything = trouble == Some(Trouble::Everything);
        let is_in_window = |document: &&Json| {
            let time = comparable(document[window].as_str().unwrap_or_default());
            everything || (from <= time && time < until)
        };
        // the measures of channels come only if they are asked for
        let expanded = part("expand");
        let shown = |document: &Json| {
            let mut document = document.clone();
            document.as_object_mut().expect("a document").retain(|name, _| name != "QualityInfo" || expanded.as_deref() == Some("QualityInfo"));
            document
        };
        let number = |name: &str| part(name).expect("a number").parse::<usize>().expect("a number");
        let page: Option<Vec<Json>> =
            documents.map(|all| all.iter().filter(is_in_window).skip(number("skip")).take(number("top")).map(shown).collect());
        let body = json!({ "@odata.context": "$metadata", "value": page }).to_string();
        let reply = |status: &str, headers: &str, body: &str| {
            format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
        };
        let text = match trouble {
            Some(Trouble::Busy) => reply("503 Service Unavailable", "retry-after: 0\r\n", "{}"),
            Some(Trouble::TooMany) => reply("429 Too Many Requests", "retry-after: 1\r\n", "not so fast"),
            Some(Trouble::Moved) => reply("302 Found", "location: http://127.0.0.1:1/elsewhere\r\n", ""),
            Some(Trouble::Error) => reply("200 OK", "", "{\"error\": {\"code\": \"7\"}}"),
            Some(Trouble::Words) => reply("200 OK", "", "<html>no data today</html>"),
            Some(Trouble::EmptyPage) => reply("200 OK", "", &json!({ "value": [], "@odata.nextLink": format!("{target}&again=yes") }).to_string()),
            Some(Trouble::Forbidden) => reply("403 Forbidden", "", "who are you?"),
            Some(Trouble::Cut) => {
                let whole = reply("200 OK", "", &body);
                let _ = stream.write_all(&whole.as_bytes()[..whole.len() / 2]);
                return;
            }
            Some(Trouble::Endless) => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"value\":[");
                while stream.write_all(&[b' '; 65_536]).is_ok() {}
                return;
            }
            Some(Trouble::Slow) => {
                std::thread::sleep(Duration::from_secs(60));
                return;
            }
            _ if page.is_none() => reply("404 Not Found", "", "there is no such service"),
            Some(Trouble::Everything | Trouble::Nothing) | None => reply("200 OK", "", &body),
        };
        if stream.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

fn thing(number: usize, time: &str) -> Json {
    json!({ "Id": format!("i{number}"), "Name": format!("thing {number}"), "Published": time })
}

/// Things published a minute apart.
fn things(numbers: std::ops::Range<usize>) -> Vec<Json> {
    numbers.map(|number| thing(number, &format!("2024-03-{:02}T{:02}:{:02}:00.5Z", 1 + number / 1_440, number / 60 % 24, number % 60))).collect()
}

fn shop() -> Sandbox {
    Sandbox::new(&THINGS.replace("CREDENTIALS", ""))
}

fn collect(sandbox: &Sandbox, services: &Services, arguments: &[&str]) -> Answer {
    sandbox.run_json("collect", &[("SHOP_URL", &services.url)], arguments)
}

/// Keys of what is known.
fn record_count(sandbox: &Sandbox) -> usize {
    sandbox.run(&["query", "thing", "--format", "ndjson", "--limit", "100000"]).exits(0).lines().len()
}

/// Until when a service was collected.
fn watermark(sandbox: &Sandbox, service: &str) -> Json {
    sandbox.run(&["collect", "--status", "--json", "--service", service]).exits(0).lines()[0]["until"].clone()
}

#[test]
fn everything_is_collected_page_by_page_and_only_once() {
    let sandbox = shop();
    let services = Services::new("Published", [("north".to_owned(), things(0..95)), ("south".to_owned(), things(90..120))]);
    let statuses = collect(&sandbox, &services, &[]).exits(0).lines();
    assert_eq!(statuses.iter().map(|status| status["documents"].as_i64().unwrap()).collect::<Vec<_>>(), [95, 30]);
    assert_eq!(statuses[1]["counts"]["created"], 25);
    assert_eq!(record_count(&sandbox), 120);
    // the question that a URL has already stays
    assert!(services.requests().iter().filter(|(path, ..)| path == "/south").all(|(_, question, _)| question.starts_with("expand=all&$filter=")));
    // what is new since then, also of the time of the last
    services.publish("north", vec![thing(200, "2024-03-01T01:34:00.5Z"), thing(201, "2031-01-01T00:00:00Z")]);
    let statuses = collect(&sandbox, &services, &["--service", "north", "--since", "2024-03-01T01:34:00Z"]).exits(0).lines();
    assert_eq!((&statuses[0]["documents"], &statuses[0]["counts"]["unchanged"]), (&json!(2), &json!(1)));
    assert_eq!(record_count(&sandbox), 121);
    let statuses = collect(&sandbox, &services, &["--service", "north"]).exits(0).lines();
    assert_eq!((&statuses[0]["pages"], &statuses[0]["documents"]), (&json!(0), &json!(0)));
    // what was published in the last quarter of an hour is not asked for
    let (_, question, _) = services.requests().pop().expect("a request");
    let last_until = question.split("lt ").nth(1).expect("an end")[..19].to_owned();
    assert!(watermark(&sandbox, "north").as_str().expect("a time").starts_with(&last_until), "{last_until}");
    assert!(sandbox.ok(&["jobs", "--limit", "1"]).contains("completed"));
}

#[test]
fn documents_of_one_time_are_not_lost_between_pages() {
    let sandbox = shop();
    let mut all: Vec<Json> = (0..25).map(|number| thing(number, "2024-03-01T00:00:00Z")).collect();
    all.extend((25..30).map(|number| thing(number, "2024-03-01T00:00:00.000001Z")));
    let services = Services::new("Published", [("north".to_owned(), all), ("south".to_owned(), Vec::new())]);
    let statuses = collect(&sandbox, &services, &[]).exits(0).lines();
    assert_eq!((&statuses[0]["documents"], &statuses[0]["pages"]), (&json!(30), &json!(3)));
    assert_eq!(record_count(&sandbox), 30);
}

#[test]
fn a_page_without_documents_is_not_the_end_where_another_follows() {
    let sandbox = shop();
    let services = Services::new("Published", [("north".to_owned(), things(0..25)), ("south".to_owned(), Vec::new())]);
    services.fail_with(&[Trouble::EmptyPage, Trouble::EmptyPage, Trouble::Nothing, Trouble::EmptyPage]);
    let statuses = collect(&sandbox, &services, &["--service", "north", "--until", "2024-03-02T00:00:00Z"]).exits(0).lines();
    assert_eq!((&statuses[0]["counts"]["created"], record_count(&sandbox)), (&json!(25), 25));
    let jobs = sandbox.json(&["jobs", "--json"]);
    let names: Vec<&str> = jobs.as_array().unwrap().iter().map(|job| job["files"][0]["path"].as_str().unwrap_or_default()).collect();
    assert!(names.iter().any(|name| name.ends_with("north_20240101T000000_20240302T000000_10_P000000.json")), "{names:?} {jobs}");
}

#[test]
fn a_failing_service_is_called_again() {
    let sandbox = shop();
    let services = Services::new("Published", [("north".to_owned(), things(0..40)), ("south".to_owned(), Vec::new())]);
    services.fail_with(&[Trouble::Busy, Trouble::Busy, Trouble::Cut]);
    collect(&sandbox, &services, &[]).exits(0);
    assert_eq!(record_count(&sandbox), 40);
}

#[test]
fn a_misbehaving_service_does_not_affect_others() {
    for (trouble, words) in [
        (Trouble::Moved, "302"),
        (Trouble::Words, "the response is not JSON"),
        (Trouble::Words, "it looks like HTML; it begins with: <html>no data today</html>"),
        (Trouble::Error, "no list `value` in its top object; it begins with: {\"error\": {\"code\": \"7\"}}"),
        (Trouble::Forbidden, "who are you?"),
        (Trouble::Endless, "exceeds"),
        (Trouble::Everything, "returned documents outside the requested window"),
    ] {
        let sandbox = shop();
        let services = Services::new("Published", [("north".to_owned(), things(0..40)), ("south".to_owned(), things(50..60))]);
        services.publish("north", vec![thing(99, "2023-01-01T00:00:00Z")]);
        services.fail_with(&[trouble]);
        collect(&sandbox, &services, &[]).exits(1).stderr_contains(&["north", words]);
        assert_eq!((watermark(&sandbox, "north"), record_count(&sandbox)), (Json::Null, 10), "{trouble:?}");
    }
    let sandbox = shop();
    let services = Services::new("Published", [("north".to_owned(), vec![json!({ "Id": "i1" })])]);
    services.fail_with(&[Trouble::Everything]);
    collect(&sandbox, &services, &[]).exits(1).stderr_contains(&["without a time", "404", "there is no such service"]);
}

#[test]
fn a_killed_collection_resumes_after_the_last_page() {
    let sandbox = shop();
    let services = Services::new("Published", [("north".to_owned(), things(0..40)), ("south".to_owned(), Vec::new())]);
    // the fourth page never comes
    services.fail_with(&[Trouble::Nothing, Trouble::Nothing, Trouble::Nothing, Trouble::Slow]);
    let mut child = sandbox.command(&["collect", "--service", "north"]).env("SHOP_URL", &services.url).spawn().expect("stook starts");
    while services.state.lock().expect("not poisoned").requests.len() < 4 {
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
    services.requests();
    let watermark_before = watermark(&sandbox, "north");
    collect(&sandbox, &services, &["--service", "north"]).exits(0);
    let (_, question, _) = services.requests().remove(0);
    assert_eq!(watermark_before, "2024-03-01T00:29:00.5Z");
    assert!(question.contains("Published ge 2024-03-01T00:29:00.5Z"), "{question}");
    assert_eq!(record_count(&sandbox), 40);
}

#[test]
fn credentials_come_from_the_environment() {
    let sandbox = Sandbox::new(&THINGS.replace("CREDENTIALS", "credentials: SHOP"));
    let services = Services::new("Published", [("north".to_owned(), things(0..3)), ("south".to_owned(), Vec::new())]);
    collect(&sandbox, &services, &[]).exits(1).stderr_contains(&["SHOP_TOKEN", "SHOP_USER"]);
    let with = |variables: &[(&str, &str)]| {
        let mut command = sandbox.command(&["collect", "--service", "north"]);
        command.env("SHOP_URL", &services.url).envs(variables.iter().copied());
        assert!(command.output().expect("stook runs").status.success());
        services.requests().pop().expect("a request").2
    };
    assert_eq!(with(&[("SHOP_TOKEN", "abc")]).as_deref(), Some("Bearer abc"));
    assert_eq!(with(&[("SHOP_USER", "ann"), ("SHOP_PASSWORD", "secret")]).as_deref(), Some("Basic YW5uOnNlY3JldA=="));
    let sandbox = shop();
    sandbox.run(&["collect"]).exits(1).stderr_contains(&["SHOP_URL"]);
    sandbox.run(&["collect", "mill"]).exits(64).stderr_contains(&["mill", "shop"]);
    sandbox.run(&["collect", "--service", "west"]).exits(64).stderr_contains(&["north"]);
}

fn documents(folder: &Path) -> BTreeMap<String, Vec<Json>> {
    let mut all: BTreeMap<String, Vec<Json>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let name = entry.file_name().and_then(|name| name.to_str()).expect("a name");
        let interfaces = ["PRIP_S1A", "PRIP_S2A", "PRIP_S3A", "PRIP_S5P", "CADIP_Svalbard", "CADIP_Matera", "CADIP_Maspalomas"];
        let interface = interfaces.iter().find(|interface| name.starts_with(**interface));
        let page: Json = serde_json::from_slice(&std::fs::read(&entry).expect("a file")).expect("JSON");
        all.entry((*interface.expect("an interface")).to_owned()).or_default().extend(page["value"].as_array().expect("a list").iter().cloned());
    }
    all
}

/// Imports the sample's files of a source.
fn import(sandbox: &Sandbox, folder: &Path, source: &str) {
    let files = std::fs::read_dir(folder.join(source)).expect("a folder");
    let files: Vec<String> = files.map(|entry| entry.expect("an entry").path().display().to_string()).collect();
    let words: Vec<&str> = ["import", "--source", source].into_iter().chain(files.iter().map(String::as_str)).collect();
    sandbox.run(&words).exits(0);
}

fn all_rows(sandbox: &Sandbox, question: &str) -> String {
    sandbox.ok(&["query", &format!("{question} | sort key"), "--format", "ndjson", "--limit", "100000"])
}

#[test]
fn collected_sessions_of_ground_stations_equal_imported_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    sentinel::write(&Sentinel { days: 3, seed: 3, first: 0 }, folder.path()).expect("a sample");
    for (imported, collected) in Sandbox::on_each_store(SATELLITES).into_iter().zip(Sandbox::on_each_store(SATELLITES)) {
        import(&imported, folder.path(), "cadip");
        let services = Services::new("PublicationDate", documents(&folder.path().join("cadip")));
        // the service is busy, has a page without sessions before the next one, and loses a connection
        services.fail_with(&[Trouble::TooMany, Trouble::EmptyPage, Trouble::Busy, Trouble::Nothing, Trouble::Cut]);
        let mut counts = Vec::new();
        for station in ["Svalbard", "Matera", "Maspalomas", "Svalbard"] {
            let service = format!("CADIP_{station}_Sessions");
            let mut command = collected.command(&["collect", "cadip", "--json", "--since", "2023-12-01T00:00:00Z", "--service", &service]);
            command.env(format!("CADIP_{}_URL", station.to_uppercase()), format!("{}/CADIP_{station}", services.url));
            let output = command.output().expect("stook runs");
            assert!(output.status.success(), "{station}: {}", String::from_utf8_lossy(&output.stderr));
            let done: Json = serde_json::from_slice(&output.stdout).expect("JSON");
            counts.push(done["counts"]["created"].as_i64().unwrap_or(0));
        }
        assert!(counts[..3].iter().all(|created| *created > 0) && counts[3] == 0, "{counts:?}");
        assert!(services.requests().iter().all(|(_, question, _)| question.starts_with("$expand=QualityInfo&$filter=PublicationDate ge ")));
        // of one transfer and its repetition the repetition counts, and of each session what was measured
        for question in ["cadip_session", "pass", "cadip_session volume>0"] {
            let rows = all_rows(&imported, question);
            assert!(!rows.is_empty(), "{question}");
            assert_eq!(rows, all_rows(&collected, question), "{question}");
        }
    }
}

#[test]
fn collected_satellites_equal_imported_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    sentinel::write(&Sentinel { days: 1, seed: 3, first: 0 }, folder.path()).expect("a sample");
    let (imported, collected) = (Sandbox::new(SATELLITES), Sandbox::new(SATELLITES));
    import(&imported, folder.path(), "prip");
    let services = Services::new("PublicationDate", documents(&folder.path().join("prip")));
    let mut command = collected.command(&["collect", "prip", "--since", "2023-12-01T00:00:00Z"]);
    for name in ["S1A", "S2A", "S3A", "S5P"] {
        command.env(format!("PRIP_{name}_URL"), format!("{}/PRIP_{name}", services.url));
    }
    let output = command.output().expect("stook runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for sandbox in [&imported, &collected] {
        import(sandbox, folder.path(), "plan_s1");
        import(sandbox, folder.path(), "plan_s2");
    }
    for question in
        ["datatake.completeness_s1", "datatake.completeness_s2", "orbit_s3.completeness", "orbit_s5.completeness", "publication", "product"]
    {
        assert_eq!(all_rows(&imported, question), all_rows(&collected, question), "{question}");
    }
}
