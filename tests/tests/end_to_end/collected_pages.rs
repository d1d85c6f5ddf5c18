//! `stook collect` of lists that web services send in pages: nothing is lost between them, whatever way a service says where the next one is.

use serde_json::{Value as Json, json};
use std::sync::{Arc, Mutex};
use stook_tests::service::{BUSY, Service, ServiceRequest};
use stook_tests::{Answer, Sandbox};

/// The documents of a service, each with a number, and the second in which it was changed last.
type Works = Arc<Mutex<Vec<(usize, u64)>>>;

fn works(numbers: std::ops::Range<usize>) -> Works {
    Arc::new(Mutex::new(numbers.map(|number| (number, 1_000)).collect()))
}

fn document(work: &(usize, u64)) -> Json {
    json!({ "id": format!("w{:03}", work.0), "title": format!("Work {} of {}", work.0, work.1) })
}

/// A definition with one source, which collects from `/works`.
fn definition(records: &str, collect: &str) -> String {
    format!(
        "\
catalogue: works
sources:
  works:
    format: json
    records: {records}
    as_of: meta.received
    into: work
    collect:
      pages: {{ north: \"${{SERVICE}}/works?state=all\" }}
      {collect}
collections:
  work:
    key: id
    fields: {{ id: text, title: text }}
"
    )
}

fn collect_from(sandbox: &Sandbox, service: &Service, arguments: &[&str]) -> Answer {
    sandbox.run_json("collect", &[("SERVICE", &service.url)], arguments)
}

/// Numbers of pages and documents.
#[track_caller]
fn collected(answer: Answer) -> (u64, u64) {
    let line = &answer.exits(0).lines()[0];
    assert_eq!(line["unchanged_files"], Json::Null);
    (line["pages"].as_u64().unwrap(), line["documents"].as_u64().unwrap())
}

/// The works of a request: those changed since a time, `size` from `skip` on.
fn part_of(works: &Works, request: &ServiceRequest<'_>, skip: usize, size: usize) -> (Vec<Json>, bool) {
    assert_eq!((request.path, request.all("state")), ("/works", vec!["all"]));
    let works = works.lock().unwrap();
    let since = request.number("since") as u64;
    let changed: Vec<&(usize, u64)> = works.iter().filter(|(_, changed)| *changed >= since).collect();
    (changed.iter().skip(skip).take(size).map(|work| document(work)).collect(), changed.len() > skip + size)
}

#[test]
fn every_way_to_say_where_the_next_page_is_leads_to_all_documents() {
    let all = works(0..25);
    let by_offset = {
        let all = all.clone();
        Service::new(move |request| {
            let (page, _) = part_of(&all, request, request.number("skip"), request.number("take"));
            ("application/json", json!({ "rows": page }).to_string())
        })
    };
    let by_number = {
        let all = all.clone();
        Service::new(move |request| {
            let size = request.number("per_page");
            let (page, _) = part_of(&all, request, (request.number("page") - 1) * size, size);
            ("application/json", json!({ "rows": page }).to_string())
        })
    };
    let by_member = {
        let all = all.clone();
        Service::new(move |request| {
            let (page, goes_on) = part_of(&all, request, request.number("from"), 10);
            let next = goes_on.then(|| format!("/works?state=all&from={}", request.number("from") + 10));
            ("application/json", json!({ "rows": page, "links": { "next": next } }).to_string())
        })
    };
    let by_header = {
        let all = all.clone();
        Service::new(move |request| {
            let (page, goes_on) = part_of(&all, request, request.number("from"), 10);
            let header = format!("application/json\r\nlink: </works?state=all&from={}>; rel=\"next\"", request.number("from") + 10);
            (if goes_on { Box::leak(header.into_boxed_str()) } else { "application/json" }, json!({ "rows": page }).to_string())
        })
    };
    let by_token = {
        let all = all.clone();
        Service::new(move |request| {
            let (page, goes_on) = part_of(&all, request, request.number("cursor"), 10);
            let next = goes_on.then(|| request.number("cursor") + 10);
            ("application/json", json!({ "rows": page, "meta": { "next_cursor": next } }).to_string())
        })
    };
    let ways = [
        (by_offset, "page: { offset: skip, limit: take, size: 10 }", 3),
        (by_number, "page: { number: page, limit: per_page, size: 10 }", 3),
        (by_member, "page: { next: links.next }", 3),
        (by_header, "page: { link: true }", 3),
        (by_token, "page: { token: meta.next_cursor, argument: cursor }", 3),
    ];
    for (service, page, pages) in ways {
        let sandbox = Sandbox::new(&definition("$.rows[*]", page));
        assert_eq!(collected(collect_from(&sandbox, &service, &[])), (pages, 25), "{page}");
        assert_eq!(sandbox.records("work").len(), 25, "{page}");
        // without an argument for changes everything is asked for again
        assert_eq!(collected(collect_from(&sandbox, &service, &[])), (pages, 25), "{page}");
    }
}

#[test]
fn only_what_has_changed_is_asked_for() {
    let all = works(0..25);
    let service = {
        let all = all.clone();
        Service::new(move |request| {
            let (page, goes_on) = part_of(&all, request, request.number("from"), 10);
            let since = request.all("since").first().map(|since| format!("&since={since}")).unwrap_or_default();
            let next = goes_on.then(|| format!("/works?state=all{since}&from={}", request.number("from") + 10));
            // the service's clock is that of its answers
            ("application/json\r\ndate: Thu, 01 Jan 1970 00:50:00 GMT", json!({ "rows": page, "next": next }).to_string())
        })
    };
    for sandbox in Sandbox::on_each_store(&definition("$.rows[*]", "page: { next: next }\n      changed: since\n      as: epoch\n      lag: 10s")) {
        *all.lock().unwrap() = (0..25).map(|number| (number, 1_000)).collect();
        service.take_targets();
        assert_eq!(collected(collect_from(&sandbox, &service, &[])), (3, 25));
        assert!(service.take_targets().iter().all(|target| !target.contains("since=")));
        all.lock().unwrap()[7].1 = 2_995;
        assert_eq!(collected(collect_from(&sandbox, &service, &[])), (1, 1), "changed after 50 minutes less 10 seconds");
        assert!(service.take_targets().iter().all(|target| target.contains("since=2990")));
        assert_eq!(sandbox.get("work", "w007")["title"], json!("Work 7 of 2995"));
        assert_eq!(collected(collect_from(&sandbox, &service, &["--since", "1970-01-01T00:00:00Z"])), (3, 25), "a time again");
        sandbox.assert_sound();
    }
}

#[test]
fn what_a_service_does_wrong_is_said() {
    let all = works(0..25);
    let busy = Arc::new(Mutex::new(1));
    let ignores = {
        let (all, busy) = (all.clone(), busy.clone());
        Service::new(move |request| {
            let mut busy = busy.lock().unwrap();
            if *busy > 0 {
                *busy -= 1;
                return (BUSY, String::new());
            }
            let (page, _) = part_of(&all, request, 0, 10);
            ("application/json", json!({ "rows": page }).to_string())
        })
    };
    let sandbox = Sandbox::new(&definition("$.rows[*]", "page: { number: page, limit: per_page, size: 10 }"));
    collect_from(&sandbox, &ignores, &[]).exits(1).stderr_contains(&["north", "ignores `page`"]);
    assert_eq!((sandbox.records("work").len(), *busy.lock().unwrap()), (10, 0), "the first page stays");
    let status = sandbox.run(&["collect", "--status", "--json"]).exits(0).lines();
    assert_eq!(status[0]["until"], Json::Null, "it is begun again");
    let offset = Sandbox::new(&definition("$.rows[*]", "page: { offset: start, limit: rows, size: 10 }"));
    collect_from(&offset, &ignores, &[]).exits(1).stderr_contains(&["north", "from start=10 on: it ignores `start`"]);
    assert_eq!(offset.records("work").len(), 10, "the second page is not imported");
    let elsewhere = Service::new(|_| ("application/json", json!({ "rows": [], "next": "http://127.0.0.1:1/works" }).to_string()));
    sandbox.write_definition(&definition("$.rows[*]", "page: { next: next }"));
    collect_from(&sandbox, &elsewhere, &[]).exits(1).stderr_contains(&["another host"]);
    let html = Service::new(|_| ("text/html", "<html>sign in</html>".into()));
    collect_from(&sandbox, &html, &[]).exits(1).stderr_contains(&["north"]);
    for (collect, reason) in [
        ("page: { next: next, limit: x }", "a page has"),
        ("page: { token: meta.next }", "which argument takes the token"),
        ("lag: 10s", "say in `changed`"),
        ("window: Published", "`window` is for OData"),
    ] {
        sandbox.write_definition(&definition("$.rows[*]", collect));
        sandbox.run(&["check"]).exits(1).stderr_contains(&[reason]);
    }
}

#[test]
fn a_definition_is_written_for_a_list_of_a_service() {
    let all = works(0..25);
    let service = {
        let all = all.clone();
        Service::new(move |request| {
            let (page, goes_on) = part_of(&all, request, request.number("from"), 10);
            let next = goes_on.then(|| format!("/works?state=all&from={}", request.number("from") + 10));
            ("application/json", json!({ "count": 25, "items": page, "links": { "next": next } }).to_string())
        })
    };
    let sandbox = Sandbox::new("");
    let url = format!("{}/works?state=all", service.url);
    let said = sandbox.ok(&["init", "--force", "--from", &url]);
    assert!(said.contains("key id") && said.contains("stook collect") && !said.contains("stook import"), "{said}");
    let written = std::fs::read_to_string(sandbox.path("catalogue.yaml")).unwrap();
    assert!(written.contains("next: links.next") && written.contains(&url), "{written}");
    sandbox.ok(&["check"]);
    assert_eq!(collected(collect_from(&sandbox, &service, &[])), (3, 25));
    assert!(sandbox.ok(&["profile", &url]).contains(&url));
    let page = Service::new(|_| ("text/html", "<html>sign in</html>".into()));
    let url = format!("{}/login.html", page.url);
    for command in [vec!["profile", &url], vec!["init", "--force", "--from", &url]] {
        sandbox.run(&command).exits(1).stderr_contains(&[&url, "looks like HTML"]);
    }
    // a file of a web server
    let list = Service::new(|_| ("text/csv", "iata,name\nAMS,Schiphol\nLIS,Lisboa\n".into()));
    let sandbox = Sandbox::new("");
    sandbox.ok(&["init", "--force", "--from", &format!("{}/data/airports.csv", list.url)]);
    let written = std::fs::read_to_string(sandbox.path("catalogue.yaml")).unwrap();
    assert!(written.contains("files: { airports: "), "{written}");
    assert_eq!(collect_from(&sandbox, &list, &[]).exits(0).lines()[0]["documents"], json!(2));
}
