//! Rights for some records of a collection, `read:machine[pool=a]`: what such a caller is answered is what a caller with all rights would be over a catalogue
//! of the visible records alone.

use serde_json::{Value as Json, json};
use std::time::Duration;
use stook_tests::http::{Client, Served, url_encoded};
use stook_tests::operations::{Sent, send_all};
use stook_tests::{Dice, Sandbox};

/// A collection with all that shows records, and one that links to it.
const DEFINITION: &str = "
catalogue: machines
serve:
  repository: { name: Machines, email: a@machines.example }
sources:
  machines: { format: csv, into: machine, as_of: meta.received }
  runs:     { format: csv, into: run, as_of: meta.received }
words:
  host: { select: machine, tests: { machine: id } }
collections:
  machine:
    key: id
    raw: keep
    publish: { dc: { title: name } }
    tags: {}
    history: 10
    changes: 7d
    fields:
      id: text
      pool: { type: text, index: equal }
      name: { type: text, index: [equal, contains, words], required: true }
      label: { type: text, fold: true, index: equal }
      size: { type: integer, index: equal }
      serial: { type: text, unique: true, index: equal }
      nets: text
      networks: { type: [text], derive: \"split(nets, ' ')\", index: equal }
      runs: { type: integer, rollup: { over: run.ran_on, count: true } }
    state:
      status: { type: text, seed: \"'free'\", index: equal }
    transitions:
      take: { set: { status: \"'taken'\" } }
      free: { set: { status: \"'free'\" } }
  run:
    key: number
    fields:
      number: text
      machine: { type: text, index: equal }
    links:
      ran_on: { to: machine, key: \"{machine}\" }
routes:
  - get: /machine/{id}
    params: { id: text }
    one: machine
    where: { key: params.id }
";

/// A word that is only in records outside of the pool `a`.
const SECRET: &str = "Zuckerkandl";

fn token(sandbox: &Sandbox, may: &str, tenant: &str) -> String {
    sandbox.ok(&["token", "create", "--may", may, "--name", "test", "--tenant", tenant]).trim().to_owned()
}

fn filled(sandbox: &Sandbox) {
    let machines = format!(
        "id,pool,name,label,size,serial,nets\nm1,a,Ann,north,1,s1,x y\nm2,a,Ben,south,2,s2,x\n{SECRET}-1,b,Ann {SECRET},{SECRET},3,{SECRET}9,{SECRET}\nm4,,{SECRET},,4,,\nbad,b,,{SECRET},,,\n"
    );
    let machines = sandbox.write_file("machines.csv", machines);
    assert_eq!(sandbox.run(&["import", &machines, "--source", "machines"]).code, 2, "one document fails, and is kept");
    let runs = sandbox.write_file("runs.csv", "number,machine\nr1,m1\nr2,m1\n");
    sandbox.ok(&["import", &runs, "--source", "runs"]);
    sandbox.ok(&["tag", "create", "hot", "--of", "machine"]);
}

fn parameter(path: &str, name: &str) -> String {
    match name {
        "tenant" => "main".into(),
        "key" if path.contains("/run") => "r1".into(),
        "key" | "id" => format!("{SECRET}-1"),
        "tag" => "hot".into(),
        "job" => "1".into(),
        "document" => "5".into(),
        "chunk" | "token" => "1".into(),
        "q" => "machine".into(),
        "text" => "zuckerkandl".into(),
        "verb" => "Identify".into(),
        "query" => SECRET.into(),
        _ => "x".into(),
    }
}

fn body(operation: &str) -> Option<Json> {
    match operation {
        "query_long" => Some(json!({"q": "machine"})),
        "lookup" => Some(json!({"collection": "machine", "keys": [format!("{SECRET}-1")]})),
        "pick" => Some(json!({"query": "machine size>2", "transition": "take"})),
        "create_token" => Some(json!({"role": "admin", "name": "x"})),
        _ => None,
    }
}

#[test]
fn no_route_shows_or_changes_records_that_a_token_is_not_for() {
    for sandbox in Sandbox::on_each_store(DEFINITION) {
        filled(&sandbox);
        let all = token(&sandbox, "admin", "main");
        let tokens = ["read:machine[pool=a],read:run", "write:machine[pool=a]", "read:machine[pool=a],write:machine[pool=a and size<9]"];
        let tokens = tokens.map(|may| token(&sandbox, may, "main"));
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let all = stook.client(Some(&all));
        let query = |text: &str| format!("/v1/main/query?q={}", url_encoded(text));
        let state = || {
            ["machine pool!=a", "machine tag=hot", "machine pool!=a | grep status"].map(|text| all.get(&query(text)).expect_json(200)["rows"].clone())
        };
        let (before, document) = (state(), all.get("/openapi.json").expect_json(200));
        assert!(before[0].to_string().contains(SECRET), "{before:?}");
        for token in &tokens {
            let client = stook.client(Some(token));
            let answers = send_all(&client, &document, &Sent { parameter: &parameter, body: &body, headers: &[] });
            assert!(answers.len() > 50, "{}", answers.len());
            for (operation, status, answer) in &answers {
                assert!(!answer.contains(SECRET) || answer.contains("\"status\":404"), "{operation}: {status} {answer}");
                assert!(*status < 500, "{operation}: {status} {answer}");
            }
            let mut paths: Vec<String> = [
                "machine",
                "machine | grep key, name, label, serial, networks",
                "machine | count(key) by name",
                "machine | grep name | unique",
                "machine | sort size- | limit 1",
                "machine | max(name), max(size)",
                "machine pool=b or pool=a",
                "not pool=a machine",
                "records",
                "host=Z*",
                "Ann",
                SECRET,
                "run ran_on.name=Ann*",
                "run | grep number, ran_on.name",
                "machine run.ran_on.number=r1",
                "machine tag=hot",
            ]
            .iter()
            .flat_map(|text| [query(text), format!("{}&total=true", query(text)), format!("/v1/main/export?q={}", url_encoded(text))])
            .collect();
            paths.extend(["machine", "machine size>0"].map(|text| format!("/v1/main/query/facets?q={}", url_encoded(text))));
            paths.extend(
                ["machine name=", "machine name=Z", "machine id=", "machine serial="]
                    .map(|text| format!("/v1/main/query/completions?q={}", url_encoded(text))),
            );
            paths.extend([
                "/v1/main?counts=true".into(),
                format!("{}&explain=true", query("machine")),
                format!("{}&by_source=true", query("machine | count(key), max(name)")),
                format!("/v1/main/suggest?text={SECRET}"),
                "/v1/main/jobs?troubled=true".into(),
                "/v1/main/export/machine".into(),
                "/v1/main/changes/machine".into(),
                "/v1/main/oai?verb=ListRecords&metadataPrefix=oai_dc&set=machine".into(),
                format!("/v1/main/sru/machine?version=1.2&operation=searchRetrieve&query={SECRET}"),
                format!("/v1/main/machine/{SECRET}-1?deleted=true"),
                format!("/v1/main/machine/{SECRET}-1/log"),
            ]);
            paths.extend(
                ["home", "search?q=machine", "search?q=records", "facets?q=machine", "tags", "import", "job?id=1"]
                    .map(|page| format!("/t/main/{page}")),
            );
            paths.extend([format!("/t/main/record?collection=machine&key={SECRET}-1"), "/t/main/record?collection=machine&key=m1".into()]);
            for path in &paths {
                let answer = client.get(path);
                assert!(answer.status < 500, "{path}: {}", answer.text());
                // what was asked is repeated in errors and forms
                assert!(!answer.text().contains("Ann Z"), "{path}: {}", answer.text());
                assert!(path.contains(SECRET) || !answer.text().contains(SECRET), "{path}: {}", answer.text());
            }
            for path in ["/v1/main/machine/m1", "/t/main/record?collection=machine&key=m1", "/t/main/search?q=machine"] {
                assert_eq!(client.get(path).status, 200, "{path}");
            }
        }
        assert_eq!(before, state());
        for (wrong, said) in [
            ("read:machine[pol=a]", "did you mean `pool`?"),
            ("read:machine[size=x]", "integer"),
            ("read:machine[runs>1]", "settled from other records"),
            ("read:machine[name ~ ann]", "do not search for words"),
            ("read:machine[pool=a | sort size]", "only conditions"),
            ("read:machine[pool=a) or (pool=b]", ""),
            ("read:machine[tag=hot]", "on the key, the fields and the state"),
            ("read:machine[]", "conditions are missing"),
            ("read[pool=a]", "records of one collection"),
            ("import:machine[pool=a]", "only read and write have conditions"),
        ] {
            sandbox.run(&["token", "create", "--may", wrong]).exits(64).stderr_contains(&["--may", said]);
        }
    }
}

#[test]
fn records_are_changed_only_within_the_part_that_a_token_is_for() {
    for sandbox in Sandbox::on_each_store(DEFINITION) {
        filled(&sandbox);
        let admin = token(&sandbox, "admin", "main");
        let (writer, both) = (token(&sandbox, "write:machine[pool=a]", "main"), token(&sandbox, "read,write:machine[status=free]", "main"));
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let (all, writer, both) = (stook.client(Some(&admin)), stook.client(Some(&writer)), stook.client(Some(&both)));
        let refused = |client: &Client, method: &str, path: &str, body: Json, status: u16, said: &str| {
            let answer = client.call(method, path, &body);
            assert_eq!((answer.status, answer.text().contains(said)), (status, true), "{method} {path}: {}", answer.text());
        };
        let hidden = format!("/v1/main/machine/{SECRET}-1");
        for method in ["PATCH", "DELETE"] {
            // the same as for a record that there is not
            for path in [hidden.as_str(), "/v1/main/machine/nothing"] {
                refused(&writer, method, path, json!({}), 404, "there is no such machine");
                let matched = writer.send(method, path, &[("if-match", "*"), ("content-type", "application/json")], b"{}");
                assert_eq!(matched.status, 412, "{method} {path}: {}", matched.text());
            }
        }
        refused(&writer, "POST", &format!("{hidden}/take"), json!({}), 404, "there is no machine");
        refused(&writer, "PUT", &hidden, json!({"pool": "a", "name": "x"}), 409, "that you may not see");
        refused(&writer, "POST", "/v1/main/machine", json!({"id": format!("{SECRET}-1"), "pool": "a", "name": "x"}), 409, "that you may not see");
        refused(&writer, "POST", "/v1/main/machine", json!({"id": "n1", "pool": "b", "name": "x"}), 403, "keep the values");
        refused(
            &writer,
            "POST",
            "/v1/main/machine",
            json!({"id": "n1", "pool": "a", "name": "x", "serial": format!("{SECRET}9")}),
            409,
            "another record",
        );
        refused(&writer, "PATCH", "/v1/main/machine/m1", json!({"pool": "b"}), 403, "keep the values");
        refused(&writer, "PATCH", "/v1/main/machine/m1", json!({"pool": null}), 200, "m1");
        writer.call("POST", "/v1/main/machine", &json!({"id": "n1", "pool": "a", "name": "x"})).expect_json(201);
        writer.call("PATCH", "/v1/main/machine/n1", &json!({"size": 7})).expect_json(200);
        writer.call("POST", "/v1/main/machine/n1/take", &json!({})).expect_json(200);
        assert_eq!(writer.call("DELETE", "/v1/main/machine/n1", &Json::Null).status, 204);
        refused(&writer, "DELETE", "/v1/main/machine/m2?erase=true", Json::Null, 403, "admin");
        // whoever reads all is told why
        all.call("POST", &format!("{hidden}/take"), &json!({})).expect_json(200);
        refused(&both, "PATCH", &hidden, json!({"size": 9}), 403, "only records of `machine` with status=free");
        refused(&both, "POST", &format!("{hidden}/free"), json!({}), 403, "and this is none");
        refused(&both, "POST", "/v1/main/machine/m2/take", json!({}), 403, "would be none");
        // one of those that the query finds, and no other
        let picked = writer.call("POST", "/v1/main/pick", &json!({"query": "machine size>=2", "transition": "take"})).expect_json(200);
        assert_eq!(picked["key"], "m2");
        refused(&writer, "POST", "/v1/main/pick", json!({"query": "machine size>2", "transition": "take"}), 409, "no record matches");
        let tagged =
            writer.call("POST", "/v1/main/tags/machine/hot/records", &json!({"add": ["m2", format!("{SECRET}-1"), "nothing"]})).expect_json(200);
        assert_eq!((&tagged["added"], &tagged["unknown"]), (&json!(1), &json!([format!("{SECRET}-1"), "nothing"])));
        all.call("POST", "/v1/main/tags/machine/hot/records", &json!({"add": [format!("{SECRET}-1")]})).expect_json(200);
        let tagged = writer.call("POST", "/v1/main/tags/machine/hot/records", &json!({"remove": ["m2", format!("{SECRET}-1")]})).expect_json(200);
        assert_eq!((&tagged["removed"], &tagged["unknown"]), (&json!(1), &json!([format!("{SECRET}-1")])));
        refused(&writer, "POST", "/v1/main/deliver?source=machines", Json::Null, 403, "may import only those with pool=a");
        // an answer is not given again when the caller may see other records
        let repeat =
            || writer.send("PATCH", "/v1/main/machine/m2", &[("idempotency-key", "k"), ("content-type", "application/json")], br#"{"size":5}"#);
        assert_eq!((repeat().status, repeat().status), (200, 200));
        sandbox.ok(&["token", "change", "2", "--may", "write:machine[pool=b]"]);
        std::thread::sleep(Duration::from_millis(1_500));
        assert_eq!(repeat().status, 422);
        assert_eq!((writer.get("/v1/main/machine/m2").status, writer.get(&hidden).status), (404, 200));
        // conditions that do not fit the definition any more show nothing
        drop((all, writer, both));
        stook.terminate();
        sandbox.write_definition(&DEFINITION.replace("      pool: {", "      extra: text\n      pool: {"));
        let former = token(&sandbox, "read:machine[extra=x]", "main");
        sandbox.write_definition(DEFINITION);
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let listed = ["/v1/main/machine/m2", "/v1/main/query?q=machine"].map(|path| {
            let answer = stook.client(Some(&former)).get(path);
            assert!(answer.text().contains("do not fit the definition any more"), "{}", answer.text());
            answer.status
        });
        assert_eq!(listed, [403, 403]);
    }
}

/// Conditions of rights: on texts, folded texts, numbers, lists, state and keys, combined and negated.
const FILTERS: [&str; 12] = [
    "pool=a",
    "pool!=b",
    "pool in [a, c]",
    "size>2",
    "not size>2",
    "(size between [1, 3] or name=B*) and pool!=c",
    "label='NORTH '",
    "label=*o*h",
    "networks=x",
    "networks!=x",
    "status=free",
    "key>m3 or id=m1",
];

/// Parts of queries.
const CONDITIONS: [&str; 14] = [
    "",
    "pool=a",
    "pool=b",
    "pool!=a",
    "size>1",
    "not size>3",
    "name=*n*",
    "name ~ ann",
    "label=north",
    "networks=x",
    "networks!=y",
    "status=free",
    "tag=hot",
    "(size<2 or pool=b)",
];
const STAGES: [&str; 12] = [
    "",
    "",
    "| grep name, size",
    "| sort size-",
    "| sort name | limit 3",
    "| count(key)",
    "| sum(size), max(name)",
    "| count(key) by pool",
    "| count(key), avg(size) by networks",
    "| grep pool | unique",
    "| grep networks | unique",
    "| median(size) by label",
];

/// A query, mostly of one collection.
fn random_query(random: &mut Dice) -> String {
    let mut choose = |choices: &[&'static str]| choices[random.below(choices.len() as u64) as usize];
    match choose(&["machine", "machine", "machine", "machine", "records", "Ann"]) {
        "Ann" => "Ann".into(),
        "records" => format!("records {}", choose(&["", "size>1", "name=A*"])),
        _ => format!("machine {} {} {}", choose(&CONDITIONS), choose(&CONDITIONS), choose(&STAGES)),
    }
}

#[test]
fn a_caller_for_some_records_is_answered_as_if_there_were_no_others() {
    for sandbox in Sandbox::on_each_store(DEFINITION) {
        let mut random = Dice::new(7);
        let mut choose = |choices: &[&'static str]| choices[random.below(choices.len() as u64) as usize];
        let rows: Vec<String> = (0..40)
            .map(|number| {
                let (pool, name, label) =
                    (choose(&["a", "b", "c", ""]), choose(&["Ann", "Ben", "Anna Bo", "Ö"]), choose(&["North", "south", "nörth", ""]));
                let (size, networks) = (choose(&["0", "1", "2", "3", "4", "5", ""]), choose(&["x", "y", "x y", "", "z"]));
                format!("m{number},{pool},{name} {number},{label},{size},s{number},{networks}\n")
            })
            .collect();
        let import = |tenant: &str, rows: &[&String]| {
            let text = rows.iter().fold("id,pool,name,label,size,serial,nets\n".to_owned(), |text, row| text + row);
            let file = sandbox.write_file(&format!("{tenant}.csv"), text);
            sandbox.ok(&["import", &file, "--source", "machines", "--tenant", tenant]);
            sandbox.ok(&["tag", "create", "hot", "--of", "machine", "--tenant", tenant]);
        };
        import("main", &rows.iter().collect::<Vec<_>>());
        let stook_token = token(&sandbox, "admin", "*");
        let tokens = FILTERS.map(|filter| token(&sandbox, &format!("read:machine[{filter}]"), "main"));
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let all = stook.client(Some(&stook_token));
        let change = |tenant: &str, keys: &[String]| {
            for key in keys.iter().filter(|key| key.ends_with(['1', '5', '7'])) {
                all.call("POST", &format!("/v1/{tenant}/machine/{key}/take"), &json!({})).expect_json(200);
            }
            let hot: Vec<&String> = keys.iter().filter(|key| key.ends_with(['2', '5', '6'])).collect();
            all.call("POST", &format!("/v1/{tenant}/tags/machine/hot/records"), &json!({ "add": hot })).expect_json(200);
        };
        let keys: Vec<String> = (0..40).map(|number| format!("m{number}")).collect();
        change("main", &keys);
        for (number, (filter, token)) in FILTERS.iter().zip(&tokens).enumerate() {
            let some = stook.client(Some(token));
            let found = all.get(&format!("/v1/main/query?limit=100&q={}", url_encoded(&format!("machine {filter} | grep key")))).expect_json(200);
            let visible: Vec<String> = found["rows"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect();
            assert!(!visible.is_empty() && visible.len() < 40, "{filter}: {visible:?}");
            let tenant = format!("only{number}");
            let is_visible = |row: &&String| visible.iter().any(|key| row.starts_with(&format!("{key},")));
            import(&tenant, &rows.iter().filter(is_visible).collect::<Vec<_>>());
            change(&tenant, &visible);
            // by key, which is decided without the database
            for key in &keys {
                let expected = if visible.contains(key) { 200 } else { 404 };
                for path in ["", "/explain", "/log"] {
                    assert_eq!(some.get(&format!("/v1/main/machine/{key}{path}")).status, expected, "{filter}: {key}{path}");
                }
            }
            let same = |path: &str| {
                let (one, other) = (some.get(&format!("/v1/main{path}")), all.get(&format!("/v1/{tenant}{path}")));
                assert_eq!((one.status, one.text()), (other.status, other.text()), "{filter}: {path}");
            };
            let looked_up = |client: &Client, tenant: &str| {
                client.call("POST", &format!("/v1/{tenant}/lookup"), &json!({"collection": "machine", "keys": keys})).text()
            };
            assert_eq!(looked_up(&some, "main"), looked_up(&all, &tenant), "{filter}");
            for _ in 0..40 {
                let query = url_encoded(&random_query(&mut random));
                same(&format!("/query?q={query}&total=true"));
                same(&format!("/query?q={query}&idx=2&limit=3"));
                same(&format!("/export?q={query}&format=csv"));
                same(&format!("/query/facets?q={query}"));
            }
            same("/query?q=machine&after=m2&limit=5");
            ["pool=", "name=A", "id=m", "networks=", "label=N"]
                .iter()
                .for_each(|typed| same(&format!("/query/completions?q=machine%20{}", url_encoded(typed))));
            let counted = |client: &Client, tenant: &str| {
                client.get(&format!("/v1/{tenant}?counts=true")).expect_json(200)["collections"][0]["records"].clone()
            };
            assert_eq!(counted(&some, "main"), counted(&all, &tenant), "{filter}");
        }
    }
}
