//! `stook collect` of files: those of folders, web servers and buckets that are new or have changed are imported, each once, whatever happens.

use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, create_dir, remove_file, rename, write};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};
use stook_tests::http::url_decoded;
use stook_tests::{Answer, Sandbox};

/// A definition whose source is collected from a location.
fn places(location: &str, more: &str) -> String {
    format!(
        "\
catalogue: places
sources:
  list:
    format: csv
    as_of: meta.received
    into: place
    collect:
      files: {{ north: \"{location}\" }}
      {more}
collections:
  place:
    key: id
    fields: {{ id: text, name: text }}
"
    )
}

fn collect_with(sandbox: &Sandbox, variables: &[(&str, &str)], arguments: &[&str]) -> Answer {
    sandbox.run_json("collect", variables, arguments)
}

/// The numbers of files that were imported and of those that have not changed.
#[track_caller]
fn collected(answer: Answer) -> (u64, u64) {
    let line = &answer.exits(0).lines()[0];
    (line["pages"].as_u64().unwrap(), line["unchanged_files"].as_u64().unwrap())
}

fn name_of(sandbox: &Sandbox, key: &str) -> Json {
    sandbox.get("place", key)["name"].clone()
}

fn jobs_of(sandbox: &Sandbox) -> usize {
    sandbox.run(&["jobs", "--json", "--limit", "1000"]).exits(0).json().as_array().unwrap().len()
}

fn row(key: &str, name: &str) -> String {
    format!("id,name\n{key},{name}\n")
}

/// Gives a file a time, in seconds.
fn at(path: &std::path::Path, seconds: u64) {
    File::options().write(true).open(path).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

#[test]
fn files_of_a_folder_are_collected_when_they_are_new_or_have_changed() {
    for sandbox in Sandbox::on_each_store(&places("inbox/*.csv", "")) {
        let inbox = sandbox.folder().join("inbox");
        collect_with(&sandbox, &[], &[]).exits(1).stderr_contains(&["north", "is not a folder"]);
        create_dir(&inbox).unwrap();
        assert_eq!(collected(collect_with(&sandbox, &[], &[])), (0, 0), "an empty folder");
        for (name, content, time) in [("b.csv", row("1", "Old"), 1_000), ("a.csv", row("1", "New"), 2_000), ("c.csv.gz", String::new(), 3_000)] {
            write(inbox.join(name), content).unwrap();
            at(&inbox.join(name), time);
        }
        let mut packed = flate2::write::GzEncoder::new(File::create(inbox.join("c.csv.gz")).unwrap(), flate2::Compression::fast());
        packed.write_all(row("2", "Packed").as_bytes()).unwrap();
        packed.finish().unwrap();
        // these are not files of the location, or are not complete yet
        for name in ["d.csv.part", ".e.csv", "f.txt"] {
            write(inbox.join(name), row("9", "never")).unwrap();
        }
        create_dir(inbox.join("sub")).unwrap();
        write(inbox.join("sub").join("g.csv"), row("9", "never")).unwrap();
        assert_eq!(collected(collect_with(&sandbox, &[], &[])), (3, 0));
        assert_eq!((name_of(&sandbox, "1"), name_of(&sandbox, "2")), (json!("New"), json!("Packed")), "the newer file counts");
        assert_eq!(collected(collect_with(&sandbox, &[], &[])), (0, 3));
        // a file that arrives, one that changes, one that goes and comes back
        rename(inbox.join("d.csv.part"), inbox.join("d.csv")).unwrap();
        write(inbox.join("a.csv"), row("1", "Newest")).unwrap();
        remove_file(inbox.join("b.csv")).unwrap();
        assert_eq!(collected(collect_with(&sandbox, &[], &[])), (2, 1));
        assert_eq!((name_of(&sandbox, "1"), name_of(&sandbox, "9")), (json!("Newest"), json!("never")));
        write(inbox.join("b.csv"), row("1", "Old")).unwrap();
        at(&inbox.join("b.csv"), 1_000);
        assert_eq!(collected(collect_with(&sandbox, &[], &[])), (1, 3));
        assert_eq!(name_of(&sandbox, "1"), json!("Newest"), "an old file that comes back does not win");
        let all = collected(collect_with(&sandbox, &[], &["--since", "1970-01-01T00:40:00Z"]));
        assert_eq!(all, (3, 0), "files since a time are collected again, but not the two of before");
        let until = sandbox.run(&["collect", "--status", "--json"]).exits(0).lines()[0]["until"].clone();
        assert!(until.as_str().is_some_and(|until| until > "2026-01-01"), "{until}");
        sandbox.assert_sound();
    }
}

#[test]
fn a_file_that_fails_is_collected_again_and_keeps_none_of_the_others_back() {
    let expects = "expect: [ { documents: { at_least: 1 }, do: stop } ]";
    let sandbox = Sandbox::new(&places("inbox/", "").replace("    into: place\n", &format!("    into: place\n    {expects}\n")));
    let inbox = sandbox.folder().join("inbox");
    create_dir(&inbox).unwrap();
    write(inbox.join("a.csv"), "id,name\n").unwrap();
    write(inbox.join("b.csv"), row("1", "One")).unwrap();
    write(inbox.join("c.csv"), b"\x1f\x8b\x08\x00 this is not gzip").unwrap();
    collect_with(&sandbox, &[], &[]).exits(1).stderr_contains(&["a.csv", "c.csv"]);
    assert_eq!(name_of(&sandbox, "1"), json!("One"));
    let before = jobs_of(&sandbox);
    // what was refused would be refused again; what could not be read is read again
    collect_with(&sandbox, &[], &[]).exits(1).stderr_contains(&["c.csv"]);
    assert!(jobs_of(&sandbox) <= before + 1, "{} jobs after {before}", jobs_of(&sandbox));
    write(inbox.join("c.csv"), row("3", "Three")).unwrap();
    write(inbox.join("a.csv"), row("2", "Two")).unwrap();
    assert_eq!(collected(collect_with(&sandbox, &[], &[])), (2, 1));
    assert_eq!((name_of(&sandbox, "2"), name_of(&sandbox, "3")), (json!("Two"), json!("Three")));
}

/// A file of a web server or bucket.
#[derive(Clone, Default)]
struct Kept {
    body: Vec<u8>,
    etag: Option<String>,
    last_modified: Option<String>,
}

/// What a server does once instead of answering.
#[derive(Clone)]
enum Trouble {
    Busy,
    Cut,
    Elsewhere(String),
    Endless,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Kept>,
    trouble: VecDeque<Trouble>,
    /// Request lines with the conditions and credentials of each.
    requests: Vec<(String, Vec<String>)>,
}

/// A web server, which is also a bucket `b` by the protocol of S3.
struct FileServer {
    url: String,
    state: Arc<Mutex<State>>,
}

impl FileServer {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { url: format!("http://{}", listener.local_addr().unwrap()), state: Arc::default() };
        let state = server.state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = state.clone();
                std::thread::spawn(move || answer(stream, &state));
            }
        });
        server
    }

    fn put(&self, path: &str, body: impl Into<Vec<u8>>, etag: Option<&str>, last_modified: Option<&str>) {
        let file = Kept { body: body.into(), etag: etag.map(str::to_owned), last_modified: last_modified.map(str::to_owned) };
        self.state.lock().unwrap().files.insert(path.to_owned(), file);
    }

    fn fail_with(&self, trouble: &[Trouble]) {
        self.state.lock().unwrap().trouble.extend(trouble.iter().cloned());
    }

    fn requests(&self) -> Vec<(String, Vec<String>)> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }
}

fn answer(mut stream: TcpStream, state: &Mutex<State>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).map(|line| line.to_ascii_lowercase()).collect();
    let told = |name: &str| headers.iter().find_map(|line| line.strip_prefix(&format!("{name}: ")).map(str::to_owned));
    let conditions = ["if-none-match", "if-modified-since", "authorization"].iter().filter_map(|name| Some(format!("{name}: {}", told(name)?)));
    let target = first.split(' ').nth(1).unwrap().to_owned();
    let (path, question) = target.split_once('?').unwrap_or((&target, ""));
    let path = url_decoded(path);
    let (file, trouble, listed) = {
        let mut state = state.lock().unwrap();
        state.requests.push((target.clone(), conditions.collect()));
        let listed = question.contains("list-type=2").then(|| list_of(&state.files, question));
        (state.files.get(&path).cloned(), state.trouble.pop_front(), listed)
    };
    let mut write = |status: &str, headers: &str, body: &[u8], cut: bool| {
        let _ = write!(stream, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
        let _ = stream.write_all(if cut { &body[..body.len() / 2] } else { body });
    };
    match (trouble, listed, file) {
        (Some(Trouble::Busy), ..) => write("503 Service Unavailable", "retry-after: 0\r\n", b"", false),
        (Some(Trouble::Elsewhere(url)), ..) => write("302 Found", &format!("location: {url}\r\n"), b"", false),
        (Some(Trouble::Endless), ..) => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nid,name\n");
            while stream.write_all(b"1,x\n").is_ok() {}
        }
        (trouble, Some(list), _) => write("200 OK", "content-type: application/xml\r\n", list.as_bytes(), matches!(trouble, Some(Trouble::Cut))),
        (_, None, None) => write("404 Not Found", "", b"there is no such file", false),
        (trouble, None, Some(file)) => {
            let same_tag = file.etag.is_some() && told("if-none-match") == file.etag.as_ref().map(|tag| tag.to_ascii_lowercase());
            let same_time =
                file.last_modified.is_some() && told("if-modified-since") == file.last_modified.as_ref().map(|time| time.to_ascii_lowercase());
            let header = |name: &str, value: &Option<String>| value.as_ref().map_or(String::new(), |value| format!("{name}: {value}\r\n"));
            let headers = header("etag", &file.etag) + &header("last-modified", &file.last_modified);
            match same_tag || same_time {
                true => write("304 Not Modified", &headers, b"", false),
                false => write("200 OK", &headers, &file.body, matches!(trouble, Some(Trouble::Cut))),
            }
        }
    }
}

/// A list of objects, two for each page.
fn list_of(files: &BTreeMap<String, Kept>, question: &str) -> String {
    let part = |name: &str| question.split('&').find_map(|part| part.strip_prefix(&format!("{name}=")).map(url_decoded)).unwrap_or_default();
    let (prefix, token) = (part("prefix"), part("continuation-token"));
    let keys: Vec<(&str, &Kept)> = files.iter().filter_map(|(path, file)| Some((path.strip_prefix("/b/")?, file))).collect();
    let keys = keys.into_iter().filter(|(key, _)| key.starts_with(&prefix) && *key > token.as_str()).collect::<Vec<_>>();
    let page: Vec<&(&str, &Kept)> = keys.iter().take(2).collect();
    let contents: String = page
        .iter()
        .map(|(key, file)| {
            let etag = file.etag.clone().unwrap_or_default().replace('"', "&quot;");
            let (time, size) = ("2026-03-01T00:00:00.000Z", file.body.len());
            format!("<Contents><Key>{key}</Key><LastModified>{time}</LastModified><ETag>{etag}</ETag><Size>{size}</Size></Contents>")
        })
        .collect();
    let next = match (keys.len() > 2, page.last()) {
        (true, Some((last, _))) => format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{last}</NextContinuationToken>"),
        _ => "<IsTruncated>false</IsTruncated>".to_owned(),
    };
    format!("<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{next}{contents}</ListBucketResult>")
}

const MARCH: &str = "Sun, 01 Mar 2026 00:00:00 GMT";

#[test]
fn a_file_of_a_web_server_is_fetched_when_it_has_changed() {
    let server = FileServer::new();
    let sandbox = Sandbox::new(&places("${SERVER}/list.csv?secret=7", "credentials: SHOP"));
    let variables = [("SERVER", server.url.as_str()), ("SHOP_TOKEN", "t0k")];
    let collect = |arguments: &[&str]| collect_with(&sandbox, &variables, arguments);
    collect(&[]).exits(1).stderr_contains(&["list.csv", "404"]);
    server.put("/list.csv", row("1", "One"), Some("\"v1\""), Some(MARCH));
    server.requests();
    // a server that is busy, one whose answer is cut, and one that has the file elsewhere
    let elsewhere = FileServer::new();
    elsewhere.put("/moved.csv", row("1", "Moved"), None, Some("Sun, 01 Feb 2026 00:00:00 GMT"));
    server.fail_with(&[Trouble::Busy, Trouble::Cut, Trouble::Elsewhere(format!("{}/moved.csv", elsewhere.url))]);
    assert_eq!(collected(collect(&[])), (1, 0));
    assert_eq!(name_of(&sandbox, "1"), json!("Moved"));
    assert_eq!(server.requests().len(), 3);
    assert_eq!(elsewhere.requests()[0].1, [""; 0], "credentials stay with the server that they are for");
    assert_eq!(collected(collect(&[])), (1, 0), "another file");
    assert!(server.requests()[0].1.contains(&"authorization: bearer t0k".to_owned()));
    assert_eq!(collected(collect(&[])), (0, 1));
    assert_eq!(server.requests()[0].1[0], "if-none-match: \"v1\"");
    // the file has its time; its name has no secrets
    let job = &sandbox.run(&["jobs", "--json", "--limit", "1"]).exits(0).lines()[0];
    assert!(job.to_string().contains("/list.csv") && !job.to_string().contains("secret"), "{job}");
    assert_eq!(job[0]["as_of"], json!(1_772_323_200_000_000_u64), "{job}");
    // a new tag of the same bytes, and other bytes
    server.put("/list.csv", row("1", "One"), Some("\"v2\""), Some(MARCH));
    assert_eq!(collected(collect(&[])), (0, 1));
    server.put("/list.csv", row("1", "Two"), None, Some(MARCH));
    assert_eq!(collected(collect(&[])), (1, 0));
    assert_eq!(collected(collect(&[])), (0, 1));
    assert_eq!(server.requests().pop().unwrap().1[0], format!("if-modified-since: {}", MARCH.to_ascii_lowercase()));
    // a server that says nothing of its files
    server.put("/list.csv", row("1", "Three"), None, None);
    assert_eq!((collected(collect(&[])), collected(collect(&[]))), ((1, 0), (0, 1)));
    assert_eq!(name_of(&sandbox, "1"), json!("Three"));
}

#[test]
fn a_collection_that_is_stopped_ends_soon_and_is_begun_again() {
    let server = FileServer::new();
    server.put("/list.csv", row("1", "One"), None, None);
    server.fail_with(&[Trouble::Endless]);
    let sandbox = Sandbox::new(&places("${SERVER}/list.csv", ""));
    let mut child = sandbox.command(&["collect"]).env("SERVER", &server.url).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ended = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        child.try_wait().unwrap().is_some()
    });
    assert!(ended, "it does not end");
    assert_eq!(collected(collect_with(&sandbox, &[("SERVER", &server.url)], &[])), (1, 0));
}

#[test]
fn objects_of_a_bucket_are_collected_when_they_are_new_or_have_changed() {
    let server = FileServer::new();
    for (key, name) in [("in/a b+.csv", "A"), ("in/b.csv", "B"), ("in/c.csv", "C"), ("in/sub/d.csv", "D"), ("other/e.csv", "E"), ("in/x.txt", "X")] {
        server.put(&format!("/b/{key}"), row(name, name), Some(&format!("\"{name}1\"")), None);
    }
    let sandbox = Sandbox::new(&places("s3://b/in/*.csv", ""));
    let variables = [("AWS_ENDPOINT_URL", server.url.as_str()), ("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "s3cret")];
    let collect = || collect_with(&sandbox, &variables, &[]);
    server.fail_with(&[Trouble::Busy, Trouble::Cut]);
    assert_eq!(collected(collect()), (3, 0));
    let targets: Vec<String> = server.requests().into_iter().map(|(target, _)| target).collect();
    assert!(targets.iter().all(|target| target.contains("X-Amz-Signature=") && !target.contains("s3cret")), "{targets:?}");
    assert_eq!(sandbox.records("place").len(), 3);
    assert_eq!(collected(collect()), (0, 3));
    assert!(server.requests().iter().all(|(target, _)| target.contains("list-type=2")), "nothing is fetched that has not changed");
    server.put("/b/in/b.csv", row("B", "Bee"), Some("\"B2\""), None);
    server.put("/b/in/../z.csv", row("Z", "Z"), Some("\"Z1\""), None);
    assert_eq!(collected(collect()), (1, 2));
    assert_eq!(name_of(&sandbox, "B"), json!("Bee"));
    // everything below a folder; what cannot be asked for is said
    sandbox.write_definition(&places("s3://b/in/", ""));
    collect().exits(1).stderr_contains(&["in/../z.csv", "cannot be asked for"]);
    assert_eq!(name_of(&sandbox, "D"), json!("D"));
    // nobody's keys, and none for a bucket that wants some
    sandbox.write_definition(&places("s3://b/in/b.csv", "credentials: PARTNER"));
    collect().exits(1).stderr_contains(&["PARTNER_ACCESS_KEY_ID"]);
    sandbox.write_definition(&places("s3://b/in/b.csv", ""));
    server.requests();
    collect_with(&sandbox, &[("AWS_ENDPOINT_URL", server.url.as_str()), ("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", "")], &[]).exits(0);
    assert!(server.requests().iter().all(|(target, _)| !target.contains("X-Amz-Signature")));
}

#[test]
fn definitions_say_where_files_are() {
    let sandbox = Sandbox::new(&places("ftp://host/x.csv", ""));
    sandbox.run(&["check"]).exits(1).stderr_contains(&["not collected by ftp://"]);
    sandbox.write_definition(&places("inbox/", "window: Published"));
    sandbox.run(&["check"]).exits(1).stderr_contains(&["`window` is for OData", "which files are wanted stands in their location"]);
    sandbox.write_definition(&places("in*/x.csv", ""));
    sandbox.run(&["check"]).exits(1).stderr_contains(&["only the name of a file may be a pattern"]);
}

#[test]
fn a_file_from_elsewhere_is_imported_by_its_url() {
    let server = FileServer::new();
    server.put("/lists/places.csv", row("1", "One"), None, Some(MARCH));
    server.put("/b/in/b.csv", row("2", "Two"), None, None);
    let sandbox = Sandbox::new(&places("inbox/", ""));
    let here = sandbox.write_file("here.csv", row("3", "Three"));
    let url = format!("{}/lists/places.csv?secret=7", server.url);
    let import = |arguments: &[&str]| sandbox.run_json("import", &[("AWS_ENDPOINT_URL", &server.url)], arguments);
    let jobs = import(&[&url, "s3://b/in/b.csv", &here]).exits(0).lines();
    assert_eq!((jobs.len(), sandbox.records("place").len()), (3, 3));
    assert_eq!(jobs[0]["files"][0]["path"], json!(format!("{}/lists/places.csv", server.url)));
    import(&["s3://b/in/"]).exits(1).stderr_contains(&["s3://b/in/", "only one file", "collect"]);
    import(&["--dry-run", &url]).exits(64).stderr_contains(&["download it first"]);
    import(&[&format!("{}/none.csv?secret=7", server.url)]).exits(1).stderr_contains(&["/none.csv", "404"]);
    assert_eq!(jobs_of(&sandbox), 3, "nothing is left of what could not be fetched");
}
