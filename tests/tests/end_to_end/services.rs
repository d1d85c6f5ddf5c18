//! Services of other habits than those of the sample: what they are told, how their pages follow, how much they bear, and records that
//! change under them.

use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stook_sample::random::Random;
use stook_tests::Sandbox;
use stook_tests::http::{Served, url_encoded};
use stook_tests::service::{Service, ServiceRequest};

const KIND: &str = "application/json";

/// A catalogue of things that one service knows.
fn definition(url: &str, service: &str, calls: &str) -> String {
    format!(
        "catalogue: things\nservices:\n  shop: {{ url: '{url}', ttl: 1h, {service} }}\nsources:\n  shop:\n    format: json\n    records: $.rows[*]\n    \
         as_of: meta.received\n    into: thing\n    asks: {{ service: shop, calls: {calls} }}\ncollections:\n  thing:\n    key: id\n    fields:\n      id: text\n      \
         kind: {{ type: text, index: equal }}\n      status: {{ type: text, index: equal }}\n      size: {{ type: integer, index: equal }}\n"
    )
}

fn thing(number: usize) -> Json {
    let (kind, status) = (["even", "odd"][number % 2], ["VALID", "GONE"][number / 10 % 2]);
    json!({ "id": format!("t{number:02}"), "kind": kind, "status": status, "size": number })
}

/// Things that satisfy what was said of them.
fn fitting(request: &ServiceRequest<'_>, all: &[Json]) -> Vec<Json> {
    let fits = |thing: &&Json| {
        ["id", "kind", "status"].iter().all(|name| request.all(name).is_empty() || request.all(name).iter().any(|value| thing[*name] == *value))
    };
    all.iter().filter(fits).cloned().collect()
}

fn things(number: usize) -> Vec<Json> {
    (0..number).map(thing).collect()
}

/// Keys that are found, and what the service had to say.
#[track_caller]
fn query_keys(stook: &Served, query: &str, more: &str) -> (Vec<String>, Json) {
    let answer = stook.get(&format!("/v1/main/query?q={}&limit=1000{more}", url_encoded(query))).expect_json(200);
    let keys = answer["rows"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned());
    (keys.collect(), answer["services"][0].clone())
}

#[test]
fn a_service_is_sent_the_arguments_that_its_calls_take() {
    let service = Service::new(|request| {
        let mut found = fitting(request, &things(25));
        if let Some(id) = request.path.strip_prefix("/one/") {
            found.retain(|thing| thing["id"] == id);
        }
        (KIND, json!({ "rows": found }).to_string())
    });
    let calls = "{ several: { get: /several, args: { id: { field: id, takes: list, required: true } }, cost: 1 }, \
                 one: { get: '/one/{id}', args: { id: { field: id, required: true } } }, \
                 named: { get: '/named?full=yes', args: { kind: { field: kind, shape: '^[a-z]+$', required: true }, status: { field: status, default: VALID } } } }";
    let sandbox = Sandbox::new(&definition(&service.url, "attempts: 1", calls));
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    // one value stands in the path, several are repeated
    assert_eq!((query_keys(&stook, "thing id=t03", "").0, service.take_targets()), (vec!["t03".into()], vec!["/one/t03".to_owned()]));
    let (found, service_state) = query_keys(&stook, "thing id in [t04,t05,t99]", "");
    assert_eq!((found, service.take_targets()), (vec!["t04".into(), "t05".into()], vec!["/several?id=t04&id=t05&id=t99".to_owned()]));
    assert!(service_state["by_default"].is_null(), "{service_state}");
    // fewer of them were answered before
    assert_eq!((query_keys(&stook, "thing id in [t05,t99]", "").0, service.take_targets()), (vec!["t05".into()], vec![]));
    // what is told without being asked for is said
    let (found, service_state) = query_keys(&stook, "thing kind=odd", "");
    assert_eq!(service.take_targets(), ["/named?full=yes&kind=odd&status=VALID"]);
    assert!(found.contains(&"t01".to_owned()) && !found.contains(&"t11".to_owned()), "{found:?}");
    assert_eq!(service_state["by_default"], "status=VALID", "{service_state}");
    let (_, service_state) = query_keys(&stook, "thing kind=odd", "");
    assert_eq!((&service_state["cached"], &service_state["by_default"]), (&json!(true), &json!("status=VALID")));
    let (found, service_state) = query_keys(&stook, "thing kind=odd status=GONE", "");
    assert_eq!((found.len(), service.take_targets()), (5, vec!["/named?full=yes&kind=odd&status=GONE".to_owned()]));
    assert!(service_state["by_default"].is_null(), "{service_state}");
    let service_state = sandbox.run(&["query", "thing kind=even", "--ask", "always"]).exits(0).err;
    assert!(service_state.contains("of status=VALID, as the query says nothing else"), "{service_state}");
    service.take_targets();
    // what it cannot be told is said
    for (query, reason) in [
        ("thing size=3", "it requires a condition on id or kind"),
        ("thing id=t*", "it requires a condition on kind, or values of id, or one value of id"),
        ("thing kind=Odd1", "it requires a condition on id, or one value of its form of kind"),
    ] {
        let (_, service_state) = query_keys(&stook, query, "");
        assert_eq!((&service_state["state"], &service_state["reason"]), (&json!("unasked"), &json!(reason)), "{query}");
    }
    assert_eq!(service.take_targets(), Vec::<String>::new());
    // what stands in a path is one path
    query_keys(&stook, "thing id='../a b?c'", "");
    assert_eq!(service.take_targets(), ["/one/..%2Fa%20b%3Fc"]);
    for (calls, message) in [
        ("{ c: { get: '/{nobody}' } }", "`{nobody}` is no argument of this call"),
        ("{ c: { get: '/{id', args: { id: { field: id, required: true } } } }", "a `{` without a `}`"),
        ("{ c: { get: '/{id}', args: { id: id } } }", "`id` is part of the path"),
        ("{ c: { get: '/{id}', args: { id: { field: id, takes: list, required: true } } } }", "`id` is part of the path"),
    ] {
        sandbox.write_definition(&definition(&service.url, "attempts: 1", calls));
        sandbox.run(&["check"]).exits(1).stderr_contains(&[message]);
    }
}

/// A service that gives at most ten at once, whatever it is asked for, in each of the ways that pages follow.
#[test]
fn pages_follow_each_other_until_the_last() {
    let page_from =
        |request: &ServiceRequest<'_>, from: usize| -> Vec<Json> { fitting(request, &things(25)).into_iter().skip(from).take(10).collect() };
    let service = Service::new(move |request| match request.path {
        "/offset" => (KIND, json!({ "rows": page_from(request, request.number("from")) }).to_string()),
        "/odata" => {
            let from = request.number("$skip");
            let mut page = json!({ "@odata.context": "$metadata", "rows": page_from(request, from) });
            if from + 10 < 25 {
                page["@odata.nextLink"] = json!(format!("/odata?$skip={}", from + 10));
            }
            (KIND, page.to_string())
        }
        _ => {
            // OAI-PMH: nothing stands beside a token but the verb
            let token = request.all("resumptionToken");
            assert!(token.is_empty() || request.parameters.len() == 2, "{:?}", request.parameters);
            assert!(!token.is_empty() || request.all("set") == ["books"], "{:?}", request.parameters);
            let from = token.first().map_or(0, |token| token.trim_start_matches("from ").parse().unwrap());
            let rows: String =
                page_from(request, from).iter().map(|thing| format!("<record><id>{}</id></record>", thing["id"].as_str().unwrap())).collect();
            let next = if from + 10 < 25 { format!("<resumptionToken>from {}</resumptionToken>", from + 10) } else { "<resumptionToken/>".into() };
            ("text/xml; charset=utf-8", format!("<OAI-PMH><ListRecords>{rows}{next}</ListRecords></OAI-PMH>"))
        }
    });
    let offset = "{ all: { get: /offset, args: { kind: kind }, page: { offset: from, limit: most, size: 1000 } } }";
    let odata = "{ all: { get: /odata, page: { next: '@odata.nextLink' } } }";
    let oai = "{ all: { get: '/oai?verb=ListRecords&set=books', page: { token: resumptionToken } } }";
    let xml = |text: String| {
        text.replace("format: json", "format: xml")
            .replace("records: $.rows[*]", "records: record")
            .replace("id: text", "id: { path: id, type: text }")
    };
    for (definition, first, requests) in [
        (definition(&service.url, "attempts: 1", offset), "/offset?from=0&most=1000", 3),
        (definition(&service.url, "attempts: 1", odata), "/odata", 3),
        (xml(definition(&service.url, "attempts: 1", oai)), "/oai?verb=ListRecords&set=books", 3),
    ] {
        let sandbox = Sandbox::new(&definition);
        let found = sandbox.run(&["query", "thing | grep id", "--limit", "0", "--format", "csv"]).exits(0).text();
        assert_eq!(found.lines().count(), 26, "{first}: {found}");
        let targets = service.take_targets();
        assert_eq!((targets[0].as_str(), targets.len()), (first, requests), "{targets:?}");
    }
    // a page that is shorter than it was asked for may not be the last; one that is shorter than the first is
    let sandbox = Sandbox::new(&definition(&service.url, "attempts: 1", offset));
    sandbox.ok(&["query", "thing kind=odd"]);
    assert_eq!(service.take_targets().len(), 2);
}

#[test]
fn a_service_is_called_within_its_limits_and_with_credentials() {
    let service = Service::new(|request| {
        std::thread::sleep(Duration::from_millis(50));
        (KIND, json!({ "rows": fitting(request, &things(25)) }).to_string())
    });
    let calls = "{ all: { get: /all, args: { id: id } } }";
    let sandbox = Sandbox::new(&definition(&service.url, "rate: 10, parallel: 2, credentials: SHOP", calls));
    sandbox.run(&["query", "thing id=t01"]).exits(1).stderr_contains(&["SHOP_TOKEN"]);
    let output = sandbox.command(&["query", "thing id=t01", "--ask", "always"]).env("SHOP_USER", "u").env("SHOP_PASSWORD", "p").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let received = std::mem::take(&mut *service.received.lock().unwrap());
    assert_eq!(received.iter().map(|(_, _, authorization)| authorization.as_deref()).collect::<Vec<_>>(), [Some("Basic dTpw")]);
    let sandbox = Sandbox::new(&definition(&service.url, "rate: 10, parallel: 2", calls));
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let stook = &stook;
            scope.spawn(move || query_keys(stook, &format!("thing id=t{number:02}"), ""));
        }
    });
    let received = service.received.lock().unwrap();
    let times: Vec<Instant> = received.iter().map(|(at, ..)| *at).collect();
    assert_eq!(times.len(), 8);
    let elapsed = times[7].duration_since(times[0]);
    // without the rate it would be 200 ms; a call may take a while to come in
    assert!(elapsed >= Duration::from_millis(400), "ten in a second: {elapsed:?}");
    assert!(service.max_concurrent.load(Ordering::SeqCst) <= 2);
}

/// How long an answer is fresh says the service, else the definition; what is not fresh stays until something newer is here.
#[test]
fn answers_are_fresh_as_long_as_the_service_or_the_definition_says() {
    let service = Service::new(|request| {
        let kind = match request.all("kind")[..] {
            ["odd" | "none"] => KIND,
            ["broken"] => "text/html",
            ["void"] => "application/json\r\ncache-control: max-age=3600",
            _ => "application/json\r\ncache-control: public, max-age=1",
        };
        (kind, json!({ "rows": fitting(request, &things(25)) }).to_string())
    });
    let calls = "{ all: { get: /all, args: { kind: { field: kind, required: true } } } }";
    let sandbox = Sandbox::new(&definition(&service.url, "attempts: 1, ttl_empty: 1s, ttl_failed: 1s", calls));
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    let kinds = ["even", "odd", "none", "broken", "void"];
    let all = || kinds.map(|kind| query_keys(&stook, &format!("thing kind={kind}"), "").0.len());
    assert_eq!(all(), [13, 12, 0, 0, 0]);
    assert_eq!(service.take_targets().len(), kinds.len());
    assert_eq!(all(), [13, 12, 0, 0, 0]);
    assert_eq!(service.take_targets(), Vec::<String>::new());
    std::thread::sleep(Duration::from_millis(1_200));
    // time alone removes nothing
    assert_eq!(query_keys(&stook, "thing kind=even", "&ask=never").0.len(), 13);
    assert_eq!(all(), [13, 12, 0, 0, 0]);
    assert_eq!(service.take_targets(), ["/all?kind=even", "/all?kind=none", "/all?kind=broken"]);
}

/// An answer that is needed all the time is asked for once before it is old, not again and again.
#[test]
fn an_answer_is_refreshed_ahead_of_time_only_once() {
    let service = Service::new(|requests| (KIND, json!({ "rows": fitting(requests, &things(25)) }).to_string()));
    let sandbox = Sandbox::new(&definition(&service.url, "ahead: 3s", "{ all: { get: /all } }").replace("ttl: 1h", "ttl: 4s"));
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    let until = Instant::now() + Duration::from_secs(7);
    while Instant::now() < until {
        assert_eq!(query_keys(&stook, "thing kind=odd", "").0.len(), 12);
        std::thread::sleep(Duration::from_millis(20));
    }
    // one to begin with, then one a second at most
    let requests = service.take_targets().len();
    assert!((2..=8).contains(&requests), "{requests}");
}

/// The law where records change: an answer has what the service was last heard to say, and nothing is left out because a narrower
/// question was asked between.
#[test]
fn changes_between_queries_are_not_lost() {
    for seed in 0..4 {
        let all: Arc<Mutex<Vec<Json>>> = Arc::new(Mutex::new(things(12)));
        let known_status = all.clone();
        let service = Service::new(move |request| (KIND, json!({ "rows": fitting(request, &known_status.lock().unwrap()) }).to_string()));
        let sandbox = Sandbox::new(&definition(&service.url, "attempts: 1", "{ all: { get: /all, args: { id: id, kind: kind, status: status } } }"));
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let mut random = Random::new(seed);
        // the status of each as it was heard of last; of those that were not among an answer where they were before, which it is not
        let mut last_known: BTreeMap<String, Result<String, Vec<String>>> = BTreeMap::new();
        let (mut fetched, mut answered_from_store) = (0, 0);
        for step in 0..150 {
            if random.per_mille(250) {
                let index = random.below(12) as usize;
                all.lock().unwrap()[index]["status"] = json!(*random.one(&["VALID", "GONE", "LOST"]));
                continue;
            }
            let status = random.per_mille(500).then(|| *random.one(&["VALID", "GONE", "LOST"]));
            let kind = random.per_mille(500).then(|| *random.one(&["even", "odd"]));
            let id = random.per_mille(200).then(|| format!("t{:02}", random.below(12)));
            let mut query = "thing".to_owned();
            for (name, value) in [("status", status), ("kind", kind), ("id", id.as_deref())] {
                query.extend(value.map(|value| format!(" {name}={value}")));
            }
            let always = random.per_mille(200);
            let (found, service_state) = query_keys(&stook, &query, if always { "&ask=always" } else { "" });
            assert_eq!(service_state["state"], "complete", "{service_state}");
            let has_fetched = !service.take_targets().is_empty();
            (fetched, answered_from_store) = (fetched + u32::from(has_fetched), answered_from_store + u32::from(!has_fetched));
            let mut expected = Vec::new();
            for thing in all.lock().unwrap().iter() {
                let name = thing["id"].as_str().unwrap().to_owned();
                if kind.is_some_and(|kind| thing["kind"] != kind) || id.as_ref().is_some_and(|id| *id != name) {
                    continue;
                }
                let current_status = thing["status"].as_str().unwrap();
                let fits_request = status.is_none_or(|status| status == current_status);
                if has_fetched && fits_request {
                    last_known.insert(name.clone(), Ok(current_status.to_owned()));
                } else if has_fetched && let (Some(status), Some(known_status)) = (status, last_known.get_mut(&name)) {
                    match known_status {
                        Ok(known_status) if known_status != status => {}
                        Ok(_) => *known_status = Err(vec![status.to_owned()]),
                        Err(excluded) => excluded.push(status.to_owned()),
                    }
                }
                match (last_known.get(&name), status) {
                    (Some(Ok(known_status)), wanted_status) if wanted_status.is_none_or(|wanted_status| wanted_status == known_status) => {
                        expected.push(name)
                    }
                    // it is known not to be that; anything else has to be asked
                    (Some(Err(excluded)), wanted_status) if !has_fetched => {
                        assert!(
                            excluded.iter().any(|excluded| wanted_status == Some(excluded)),
                            "seed {seed}, step {step}: {query}, {name} is not {excluded:?}"
                        );
                    }
                    _ => {}
                }
            }
            assert_eq!(found, expected, "seed {seed}, step {step}: {query} {service_state}");
        }
        assert!(fetched > 10 && answered_from_store > 10, "{fetched} {answered_from_store}");
    }
}
