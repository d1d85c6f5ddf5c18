//! The lab, measured itself: targets that misbehave, stalls that must be seen, runs that say all they show.

use serde_json::Value as Json;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;
use stook_report::run::{Durations, Run};
use stook_tests::http::Served;
use stook_tests::{Sandbox, schema_violations};

const CATALOGUE: &str =
    "catalogue: c\nsources:\n  s: { format: json, into: t, as_of: meta.received }\ncollections:\n  t: { key: k, fields: { k: text } }\n";

/// A server that does `answer` with every connection, again and again.
fn serve_connections(answer: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + Sync + Clone + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || while answer(&mut stream).is_ok() {});
        }
    });
    address
}

/// Reads a request without a body.
fn request(stream: &mut TcpStream) -> std::io::Result<()> {
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !seen.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        seen.push(byte[0]);
    }
    Ok(())
}

fn answers_with(text: &'static [u8]) -> impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + Sync + Clone + 'static {
    move |stream| {
        request(stream)?;
        stream.write_all(text)
    }
}

fn answers_and_closes(text: &'static [u8]) -> impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + Sync + Clone + 'static {
    move |stream| {
        request(stream)?;
        stream.write_all(text)?;
        stream.shutdown(Shutdown::Both)?;
        Err(std::io::ErrorKind::Other.into())
    }
}

fn load(sandbox: &Sandbox, url: &str, more: &[&str]) -> Json {
    let mut arguments = vec!["lab", "load", url, "--json", "--no-limits"];
    arguments.extend_from_slice(more);
    let answer = sandbox.run(&arguments).exits(0);
    serde_json::from_str(&answer.text()).unwrap()
}

/// A run's file is as `stook lab schema` says.
fn assert_fits_schema(sandbox: &Sandbox, run: &Path) {
    let schema = sandbox.write_file("run.schema.json", sandbox.ok(&["lab", "schema"]));
    assert_eq!(schema_violations(&schema, run).unwrap_or_default(), "");
}

/// Every outcome, and how often.
fn outcomes(run: &Json) -> Vec<(String, u64)> {
    run["sets"][0]["outcomes"].as_object().unwrap().iter().map(|(name, count)| (name.clone(), count.as_u64().unwrap())).collect()
}

/// The time in seconds that this share of a set's requests did not exceed.
fn quantile(set: &Json, measure: &str, share: f64) -> f64 {
    let times: Durations = serde_json::from_value(set[measure].clone()).unwrap();
    times.quantile(share).unwrap()
}

#[test]
fn every_behaviour_of_a_server_is_reported_and_nothing_hangs() {
    let sandbox = Sandbox::new(CATALOGUE);
    const LONG: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf of it";
    let endless: &'static [u8] = vec![b'x'; 100_000].leak();
    let cases: Vec<(&str, String, &str)> = vec![
        ("whole", serve_connections(answers_with(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")), "200"),
        (
            "chunked",
            serve_connections(answers_with(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n3;x=y\r\nyes\r\n0\r\nt: 1\r\n\r\n")),
            "200",
        ),
        ("until closed", serve_connections(answers_and_closes(b"HTTP/1.0 200 OK\r\n\r\nas much as there is")), "200"),
        (
            "interim",
            serve_connections(answers_with(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")),
            "404",
        ),
        ("no body", serve_connections(answers_with(b"HTTP/1.1 204 No Content\r\n\r\n")), "204"),
        ("said more", serve_connections(answers_with(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok and more")), "200"),
        ("half a body", serve_connections(answers_and_closes(LONG)), "cut"),
        ("half a head", serve_connections(answers_and_closes(b"HTTP/1.1 200 OK\r\ncontent-le")), "cut"),
        ("half a chunk", serve_connections(answers_and_closes(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\nhalf")), "cut"),
        ("nothing", serve_connections(answers_and_closes(b"")), "reset"),
        ("garbage", serve_connections(answers_with(b"\x00\x01\x02 this is no HTTP\r\n\r\n")), "unreadable"),
        ("a wrong chunk", serve_connections(answers_with(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")), "unreadable"),
        ("a wrong length", serve_connections(answers_with(b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n")), "unreadable"),
        ("an endless head", serve_connections(answers_and_closes(endless)), "unreadable"),
        (
            "silence",
            serve_connections(|stream| {
                request(stream)?;
                std::thread::sleep(Duration::from_secs(60));
                Ok(())
            }),
            "timeout",
        ),
        (
            "half, then silence",
            serve_connections(|stream| {
                request(stream)?;
                stream.write_all(LONG)?;
                std::thread::sleep(Duration::from_secs(60));
                Ok(())
            }),
            "timeout",
        ),
    ];
    for (case, url, expected) in cases {
        let run = load(&sandbox, &format!("{url}/x"), &["--requests", "20", "--every", "5ms", "--timeout", "300ms"]);
        assert_eq!(outcomes(&run), [(expected.to_owned(), 20)], "{case}");
        assert_eq!(run["sets"][0]["requests"], 20, "{case}");
    }
    // nobody there is a mistake before the first request, and an outcome in the middle
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    sandbox.run(&["lab", "load", &format!("http://{address}/")]).exits(1).stderr_contains(&["no server at", "refused"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || drop(listener.accept()));
    let run = load(&sandbox, &format!("http://{address}/"), &["--requests", "5", "--every", "50ms", "--timeout", "1s"]);
    assert!(outcomes(&run).iter().all(|(name, _)| name == "refused" || name == "reset"), "{run}");
}

#[test]
fn a_connection_closed_between_requests_is_reopened() {
    let sandbox = Sandbox::new(CATALOGUE);
    // says that it keeps the connection, and closes it after every answer
    let url = serve_connections(answers_and_closes(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"));
    let run = load(&sandbox, &format!("{url}/"), &["--requests", "30", "--every", "10ms"]);
    assert_eq!(outcomes(&run), [("200".to_owned(), 30)]);
}

/// A server that stands still for two seconds under 500 requests a second: who had to wait is counted from when they came.
#[test]
fn a_stall_counts_in_full() {
    let sandbox = Sandbox::new(CATALOGUE);
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    let url = format!("http://{}/healthz", stook.address());
    let pid = stook.pid().to_string();
    let signal = |name: &str| assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(2_000));
            signal("-STOP");
            std::thread::sleep(Duration::from_millis(2_000));
            signal("-CONT");
        });
        load(&sandbox, &url, &["--rate", "500", "--for", "6s", "--connections", "4096"])
    });
    let set = &run["sets"][0];
    assert_eq!(set["requests"], 3_000);
    assert_eq!(outcomes(&run), [("200".to_owned(), 3_000)]);
    // a third of the requests came while it stood still: their latencies go evenly from two seconds to nothing
    assert!((1.7..2.6).contains(&quantile(set, "latency", 0.99)), "p99 {}", quantile(set, "latency", 0.99));
    assert!((0.6..1.6).contains(&quantile(set, "latency", 0.84)), "p84 {}", quantile(set, "latency", 0.84));
    assert!(quantile(set, "latency", 0.5) < 0.2, "p50 {}", quantile(set, "latency", 0.5));
    // and the picture over time has the triangle where it was
    let slowest = |from: f64, to: f64| -> f64 {
        let bins = set["bins"].as_array().unwrap().iter().filter(|bin| (from..to).contains(&bin["at"].as_f64().unwrap()));
        bins.map(|bin| bin["max"].as_f64().unwrap()).fold(0.0, f64::max)
    };
    assert!(slowest(1.0, 3.5) > 1.6 && slowest(3.0, 3.6) < 1.6, "{} {}", slowest(1.0, 3.5), slowest(3.0, 3.6));
}

#[test]
fn a_matrix_of_sets_is_measured_drained_and_shown() {
    let sandbox = Sandbox::new(CATALOGUE);
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    for number in 0..50 {
        stook.send("POST", "/v1/main/t", &[("content-type", "application/json")], format!("{{\"k\":\"k{number}\"}}").as_bytes()).expect_json(201);
    }
    sandbox.write_file("keys.ndjson", (0..60).map(|number| format!("{{\"k\":\"k{number}\"}}\n")).collect::<String>());
    sandbox.write_file(
        "plan.yaml",
        format!(
            "name: hammer\ntarget: http://{}\nparameters: {{ key: keys.ndjson#k }}\nroutes:\n  - {{ name: one, get: '/v1/main/t/{{key}}' }}\n  \
             - {{ name: many, post: /v1/main/lookup, body: '{{\"collection\": \"t\", \"keys\": [\"{{key}}\", \"{{key}}\"]}}' }}\nrequests: [20, 40]\n\
             every: [50ms, 100ms]\nfaster: 20\neach_route: true\nmetrics: /metrics\n",
            stook.address()
        ),
    );
    let (plan, run, page, text) = (sandbox.path("plan.yaml"), sandbox.path("run.json"), sandbox.path("run.html"), sandbox.path("run.md"));
    let name = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let shown = sandbox.run(&["lab", "load", &name(&plan), "-o", &name(&run), "--no-limits"]).exits(0).text();
    for heading in ["Success (200)", "No Response", "By offset", "By route", "Overall", "Outcomes of requests"] {
        assert!(shown.contains(heading), "{heading}: {shown}");
    }
    let seen: Json = serde_json::from_slice(&std::fs::read(&run).unwrap()).unwrap();
    let sets = seen["sets"].as_array().unwrap();
    assert_eq!(
        sets.iter().map(|set| (set["route"].as_str().unwrap(), set["requests"].as_u64().unwrap())).collect::<Vec<_>>(),
        [("one", 20), ("one", 40), ("one", 20), ("one", 40), ("many", 20), ("many", 40), ("many", 20), ("many", 40)]
    );
    // ten keys of sixty are not there, which only one of the routes says
    let of = |set: &Json, status: &str| set["outcomes"][status].as_u64().unwrap_or(0);
    let first_requests: u64 = sets[..4].iter().map(|set| of(set, "200") + of(set, "404")).sum();
    assert_eq!((first_requests, sets[4..].iter().map(|set| of(set, "200")).sum::<u64>()), (120, 120));
    // what was sent was accepted, and ended
    let served = |stage: &str| -> u64 {
        let counters = sets.iter().flat_map(|set| set["served"].as_object().unwrap());
        counters.filter(|(name, _)| name.contains(&format!("\"{stage}\""))).map(|(_, value)| value.as_u64().unwrap()).sum()
    };
    assert_eq!((served("Accepted"), served("Completed")), (240, 240));
    sandbox.run(&["lab", "show", &name(&run), "--html", "-o", &name(&page)]).exits(0);
    sandbox.run(&["lab", "show", &name(&run), "--md", "-o", &name(&text)]).exits(0);
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.matches("<svg").count() >= 10 && !page.contains("NaN"), "{page}");
    let text = std::fs::read_to_string(&text).unwrap();
    let picture = text.split("](").nth(1).unwrap().split(')').next().unwrap();
    assert!(std::fs::read_to_string(run.with_file_name(picture)).unwrap().starts_with("<svg"), "{picture}");
    // equal seeds draw equal values
    let again: Json = serde_json::from_str(&sandbox.run(&["lab", "load", &name(&plan), "--json", "--no-limits"]).exits(0).text()).unwrap();
    assert_eq!(
        again["sets"].as_array().unwrap().iter().map(|set| set["outcomes"].clone()).collect::<Vec<_>>(),
        sets.iter().map(|set| set["outcomes"].clone()).collect::<Vec<_>>()
    );
    // a run of something else is none
    sandbox.run(&["lab", "show", &name(&plan)]).exits(1).stderr_contains(&["it is no run of the lab"]);
}

#[test]
fn waiting_clients_are_counted_and_shown() {
    let sandbox = Sandbox::new(CATALOGUE);
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    let url = format!("http://{}/healthz", stook.address());
    let answer = sandbox.run(&["lab", "sweep", &url, "--clients", "1,4", "--for", "300ms", "--json", "--no-limits"]).exits(0);
    let run: Json = serde_json::from_str(&answer.text()).unwrap();
    let sets = run["sets"].as_array().unwrap();
    assert_eq!(sets.iter().map(|set| set["clients"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 4]);
    for set in sets {
        assert!(set["requests"].as_u64().unwrap() > 50, "{set}");
        assert_eq!(set["outcomes"]["200"], set["requests"]);
    }
}

#[test]
fn mistakes_in_plans_are_reported() {
    let sandbox = Sandbox::new(CATALOGUE);
    let wrong = |text: &str, words: &[&str]| {
        sandbox.write_file("plan.yaml", text);
        sandbox.run(&["lab", "load", sandbox.path("plan.yaml").to_str().unwrap()]).exits(1).stderr_contains(words);
    };
    wrong("target: http://127.0.0.1:1\nroutes:\n  - { get: /a }\n  - { gett: / }", &["plan.yaml:4:7", "unknown field `gett`"]);
    wrong("target: http://127.0.0.1:1\nconnections: many\nroutes: [{ get: / }]", &["plan.yaml:2:14", "string \"many\""]);
    wrong("target: http://127.0.0.1:1\nroutes: [{ get: '/{id}' }]", &["there is no parameter `id`"]);
    wrong("target: http://127.0.0.1:1\nroutes: []", &["a plan has at least one route"]);
    wrong("target: 127.0.0.1:1\nroutes: [{ get: / }]", &["a target begins with http://"]);
    wrong("target: http://127.0.0.1:1\nroutes: [{ get: / }]\nevery: 5", &["plan.yaml"]);
    wrong("target: http://127.0.0.1:1\nroutes: [{ get: / }]\nevery: 5 parsecs", &["is no duration"]);
    wrong(
        "target: http://127.0.0.1:1\nroutes: [{ get: / }]\nheaders: { authorization: 'Bearer ${NOBODY_SAYS_THIS}' }",
        &["the environment has no NOBODY_SAYS_THIS"],
    );
    wrong("a: [", &["plan.yaml"]);
}

#[test]
fn imports_of_tenants_are_measured_while_users_work() {
    for sandbox in Sandbox::on_each_store(stook_tests::LIBRARY) {
        let items: String = (0..500).map(|number| format!("b{number},\n")).collect();
        let items = sandbox.write_file("items.csv", format!("barcode,lccn\n{items}"));
        sandbox.run(&["import", &items, "--profile", "stock", "--tenant", "one"]).exits(0);
        for (name, records, first) in [("small", 200, 1), ("large", 1_000, 5_000)] {
            for tenant in ["one", "two"] {
                sandbox.write_file(&format!("{name}-{tenant}.mrc"), stook_tests::authorities(records, 1, first));
            }
        }
        let token = sandbox.ok(&["token", "create", "--tenant", "*", "--role", "write"]);
        let token = token.trim();
        let stook = Served::new(&sandbox, &["--workers", "2"]);
        let plan = |tenants: &str, pause: &str, profile: &str| {
            format!(
                "name: matrix\ntarget: http://{}\ntenants: [{tenants}]\nheaders: {{ authorization: 'Bearer {token}' }}\nprofile: {profile}\n{pause}programs: [stook]\nreported_by: others\n\
                 files:\n  - {{ file: 'large-{{tenant}}.mrc', name: large, reported: [100, 200], reported_users: {{ in: [2, 4] }} }}\n  \
                 - {{ file: 'small-{{tenant}}.mrc', name: small }}\nusers:\n  number: 2\n  idle: 500ms\n  think: 10ms\n  \
                 parameters: {{ barcode: items.csv#barcode }}\n  routes:\n    \
                 - {{ name: out, post: '/v1/one/item/{{barcode}}/check_out', body: '{{\"patron\": \"p\"}}' }}\n    \
                 - {{ name: in, post: '/v1/one/item/{{barcode}}/check_in' }}\n  reported: {{ in: [1, 2] }}\n",
                stook.address()
            )
        };
        let plan_file = sandbox.write_file("plan.yaml", plan("two, one", "", "upsert"));
        let run = sandbox.path("run.json");
        let shown = sandbox.run(&["lab", "import", &plan_file, "-o", run.to_str().unwrap()]).exits(0).text();
        for part in ["fairness (Jain's index; 1 is even)", "others, two", "p95 delta", "In order of completion", "Resources"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert_fits_schema(&sandbox, &run);
        let seen: Run = serde_json::from_slice(&std::fs::read(&run).unwrap()).unwrap();
        let mut imports: Vec<_> =
            seen.imports.iter().map(|import| (import.tenant.as_str(), import.file.as_str(), import.documents, import.failed)).collect();
        imports.sort_unstable();
        assert_eq!(imports, [("one", "large", 1_000, 0), ("one", "small", 200, 0), ("two", "large", 1_000, 0), ("two", "small", 200, 0)]);
        for import in &seen.imports {
            assert!(import.state == "completed" && import.begun < import.sent && import.sent <= import.ended, "{import:?}");
        }
        // nobody waits for the one before
        assert!(seen.imports[2].begun < seen.imports[0].ended && seen.imports[2].begun < seen.imports[1].ended);
        let phases: Vec<_> = seen.sets.iter().map(|set| (set.series.as_str(), set.route.as_str())).collect();
        assert_eq!(phases, [("idle", "out"), ("idle", "in"), ("import", "out"), ("import", "in")]);
        for set in &seen.sets {
            assert!(
                set.requests > 0 && set.count_of("200") > 0 && set.count_of("200") + set.count_of("409") == set.requests,
                "{} {:?}",
                set.route,
                set.outcomes
            );
        }
        assert!(seen.curves.iter().any(|curve| curve.name == "stook" && curve.points.iter().any(|(_, value)| *value > 0.0)));
        // one after the other: users are told apart by the file
        let plan_file = sandbox.write_file("plan.yaml", plan("one", "pause: 10ms\nrounds: 2\n", "upsert"));
        let text = sandbox.run(&["lab", "import", &plan_file, "--json", "--no-limits"]).exits(0).text();
        let seen: Run = serde_json::from_str(&text).unwrap();
        assert_eq!(
            seen.imports.iter().map(|import| (import.file.as_str(), import.round)).collect::<Vec<_>>(),
            [("large", 1), ("small", 1), ("large", 2), ("small", 2)]
        );
        assert!(seen.imports.windows(2).all(|two| two[0].ended < two[1].begun));
        assert_eq!(seen.sets.iter().map(|set| set.series.as_str()).collect::<Vec<_>>(), ["idle", "idle", "large", "large", "small", "small"]);
        sandbox.write_file("seen.json", &text);
        let page = sandbox.run(&["lab", "show", sandbox.path("seen.json").to_str().unwrap(), "--html"]).exits(0).text();
        assert!(page.contains("<svg") && page.contains("±") && page.contains("+100%") && !page.contains("NaN"), "{page}");
        // what the server refuses, and what is not there, is said
        let plan_file = sandbox.write_file("plan.yaml", plan("one", "", "nobody"));
        sandbox.run(&["lab", "import", &plan_file]).exits(1).stderr_contains(&["/v1/one/import?profile=nobody", "profile"]);
        let plan_file = sandbox.write_file("plan.yaml", plan("three", "", "upsert"));
        sandbox.run(&["lab", "import", &plan_file]).exits(1).stderr_contains(&["large-three.mrc"]);
    }
}

#[test]
fn logs_become_tables_runs_are_compared_and_capacity_is_planned() {
    let sandbox = Sandbox::new(CATALOGUE);
    let log_line = |seconds: f64| {
        format!("2023-03-01 10:00:00 INFO x ProductConsolidatorEngine - 8 created, 2 updated, 0 deleted, 0 errors, 0 conflicts in {seconds:.3}s\n")
    };
    sandbox.write_file("old.log", log_line(2.0) + &log_line(4.0));
    sandbox.write_file("new.log", log_line(0.5) + "noise\n");
    let name = |file: &str| sandbox.path(file).to_str().unwrap().to_owned();
    let shown = sandbox.run(&["lab", "kpi", &name("old.log"), &name("new.log")]).exits(0).text();
    for part in ["Duration summary in seconds", "Performance summary in document per second", "3.000", "6.00", "first / last"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    sandbox.run(&["lab", "kpi", sandbox.path("catalogue.yaml").to_str().unwrap()]).exits(1).stderr_contains(&["no line is a stage's"]);
    // the log of a real import
    sandbox.write_file("t.ndjson", (0..500).map(|number| format!("{{\"k\":\"k{number}\"}}\n")).collect::<String>());
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    let job = stook.send(
        "POST",
        "/v1/main/import?source=s",
        &[("content-type", "application/x-ndjson")],
        &std::fs::read(sandbox.path("t.ndjson")).unwrap(),
    );
    assert!(job.status < 300, "{}", job.text());
    for _ in 0..100 {
        if stook.log_text().contains("\"stage\":\"chunk\"") {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    sandbox.write_file("own.log", stook.log_text());
    let shown = sandbox.run(&["lab", "kpi", &name("own.log"), "--md"]).exits(0).text();
    assert!(shown.contains("| chunk | ") && shown.contains("| Total | "), "{shown}");
    // two sweeps of one plan, and the law behind them
    let url = format!("http://{}/healthz", stook.address());
    for run in ["a.json", "b.json"] {
        sandbox.run(&["lab", "sweep", &url, "--clients", "1,2,4", "--for", "200ms", "-o", &name(run)]).exits(0);
    }
    assert_fits_schema(&sandbox, &sandbox.path("a.json"));
    // what the machine can do is measured with it
    let written_run: Json = serde_json::from_slice(&std::fs::read(sandbox.path("a.json")).unwrap()).unwrap();
    assert!(written_run["limits"].as_array().unwrap().len() >= 7, "{}", written_run["limits"]);
    let shown = sandbox.run(&["lab", "compare", &name("a.json"), &name("b.json")]).exits(0).text();
    assert!(shown.contains("delta %") && shown.contains("4 clients"), "{shown}");
    // half as fast is a regression that is told from noise
    let mut slower: Json = serde_json::from_slice(&std::fs::read(sandbox.path("a.json")).unwrap()).unwrap();
    for set in slower["sets"].as_array_mut().unwrap() {
        for step in set["latency"]["histogram"].as_array_mut().unwrap() {
            step[0] = (step[0].as_u64().unwrap() * 2).into();
        }
        for bin in set["bins"].as_array_mut().unwrap() {
            for time in ["p50", "p90", "p99", "max"] {
                bin[time] = (bin[time].as_f64().unwrap() * 2.0).into();
            }
        }
    }
    sandbox.write_file("slower.json", slower.to_string());
    sandbox
        .run(&["lab", "compare", &name("a.json"), &name("slower.json"), "--fail-on", "regression=5%"])
        .exits(1)
        .stderr_contains(&["regression: p50 of"]);
    sandbox.run(&["lab", "compare", &name("slower.json"), &name("a.json"), "--fail-on", "regression=5%"]).exits(0);
    sandbox.run(&["lab", "compare", &name("a.json"), &name("b.json"), "--fail-on", "5"]).exits(64);
    let shown = sandbox.run(&["lab", "plan", &name("a.json"), "--target", "1000000"]).exits(0).text();
    assert!(shown.contains("X(N) =") && shown.contains("systems"), "{shown}");
    let shipped = stook_tests::repository().join("examples/lab/tags-100k.yaml");
    let shown = sandbox.run(&["lab", "plan", shipped.to_str().unwrap(), "--target", "8333", "--html"]).exits(0).text();
    assert!(shown.contains("<svg") && shown.contains("rebuilds at once"), "{shown}");
    sandbox.run(&["lab", "limits", "--folder", sandbox.folder().to_str().unwrap(), "-o", &name("limits.json")]).exits(0);
    assert_fits_schema(&sandbox, &sandbox.path("limits.json"));
    let limits: Json = serde_json::from_slice(&std::fs::read(sandbox.path("limits.json")).unwrap()).unwrap();
    assert!(
        limits["limits"].as_array().unwrap().len() >= 7
            && limits["limits"].as_array().unwrap().iter().all(|limit| limit["value"].as_f64().unwrap() > 0.0),
        "{limits}"
    );
    let has_leftovers = std::fs::read_dir(sandbox.folder())
        .unwrap()
        .filter_map(Result::ok)
        .any(|file| file.file_name().to_string_lossy().starts_with(".stook-limits"));
    assert!(!has_leftovers, "its files are removed");
}
