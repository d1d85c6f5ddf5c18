//! Which commands change a store, and which definitions they accept: every command, on both stores, with a store of an older definition
//! and with one of a newer release.

use serde_json::json;
use std::collections::BTreeSet;
use stook_testkit::postgres::TestServer;
use stook_tests::http::Served;
use stook_tests::{Answer, LIBRARY, Sandbox, authorities};

/// What a command does with a store of another definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Makes it fit; on a server only `prepare` does.
    Prepares,
    /// Refuses it, because records are read or written by the definition.
    Refuses,
    /// Works as ever: what it tells or changes does not depend on the definition.
    Works,
    /// Has nothing to do with what is in a store.
    Nothing,
}
use Does::{Nothing, Prepares, Refuses, Works};

/// Every command with arguments that come as far as the store, and its exit code where the definition is no matter.
const COMMANDS: &[(&[&str], Does, i32)] = &[
    (&["init", "new"], Nothing, 0),
    (&["check"], Nothing, 0),
    (&["check", "--deep"], Refuses, 0),
    // what does not fit is a finding of its report: `followed.rs`
    (&["doctor", "--help"], Nothing, 0),
    (&["schema"], Nothing, 0),
    (&["profile", "names.mrc"], Nothing, 0),
    (&["prepare"], Prepares, 0),
    (&["prepare", "--dry-run"], Works, 0),
    // it copies a file whatever is in it, but not over another one
    (&["backup", "stook.sqlite"], Nothing, 1),
    (&["backup", "names.mrc"], Refuses, 1),
    (&["backup", "--verify", "names.mrc"], Nothing, 1),
    (&["restore", "names.mrc"], Nothing, 1),
    (&["import", "names.mrc"], Prepares, 0),
    (&["import", "names.mrc", "--detach"], Prepares, 0),
    (&["import", "names.mrc", "--dry-run"], Refuses, 0),
    // of a time without any length nothing is asked
    (&["collect", "prip", "--since", "2026-01-01T00:00:00Z", "--until", "2026-01-01T00:00:00Z"], Prepares, 0),
    (&["collect", "--status"], Refuses, 0),
    (&["work", "--drain"], Prepares, 0),
    (&["serve", "--listen", "256.0.0.1:1"], Nothing, 64),
    // its input is at its end at once
    (&["mcp"], Refuses, 0),
    (&["mcp", "--allow-writes"], Refuses, 0),
    (&["tag", "create", "big"], Refuses, 0),
    (&["tag", "set", "old", "--comment", "none"], Refuses, 0),
    (&["tag", "delete", "old"], Refuses, 0),
    (&["tag", "rebuild"], Refuses, 0),
    (&["tag", "rename", "old", "older"], Refuses, 0),
    (&["tag", "rename", "older", "old"], Refuses, 0),
    (&["tag", "ls"], Refuses, 0),
    (&["tag", "show", "old"], Refuses, 0),
    (&["tag", "add", "old", "n  00000042 "], Refuses, 0),
    (&["tag", "remove", "old", "n  00000042 "], Refuses, 0),
    (&["token", "create", "--role", "read"], Works, 0),
    (&["token", "ls"], Works, 0),
    (&["token", "revoke", "77"], Works, 1),
    (&["token", "rotate", "77"], Works, 1),
    (&["token", "change", "77", "--name", "none"], Works, 1),
    (&["audit"], Works, 0),
    (&["lab", "schema"], Nothing, 0),
    (&["jobs"], Works, 0),
    (&["jobs", "--json"], Works, 0),
    (&["cancel", "1"], Works, 1),
    (&["undo", "1"], Refuses, 1),
    (&["journal", "1"], Works, 0),
    (&["queue", "ls"], Works, 0),
    (&["queue", "retry", "1"], Works, 0),
    (&["queue", "rechunk", "1.1"], Refuses, 1),
    (&["queue", "dump", "1"], Works, 0),
    (&["queue", "load", "nothing.ndjson"], Works, 0),
    (&["get", "authority", "n  00000042 "], Refuses, 0),
    (&["get", "authority", "n  00000042 ", "--explain"], Refuses, 0),
    (&["query", "authority"], Refuses, 0),
    (&["query", "authority", "--explain"], Refuses, 0),
    (&["sql", "SELECT 1"], Refuses, 0),
    (&["suggest", "personal"], Refuses, 0),
    (&["settle"], Refuses, 0),
    (&["withdraw", "holdings"], Refuses, 0),
    (&["erase", "authority", "n  00000042 "], Refuses, 0),
    (&["erase", "--list"], Refuses, 0),
    (&["export", "authority", "--format", "marc"], Refuses, 0),
    // no collection keeps its changes
    (&["changes"], Refuses, 1),
    (&["sample", "authorities", "--records", "1"], Nothing, 0),
    (&["completions", "bash"], Nothing, 0),
];

/// A definition in which everything can be asked for.
fn older() -> String {
    let collected = "  prip: { format: json, records: \"$.value[*]\", into: product, as_of: meta.received, collect: { odata: { PRIP: \"http://127.0.0.1:9/\" }, window: at, since: 2026-01-01T00:00:00Z } }\n";
    let product = "  product:\n    key: id\n    fields: { id: text, at: timestamp }\n";
    LIBRARY
        .replace("\nsources:\n", &format!("\nsources:\n{collected}"))
        .replace("  authority:\n    key:", "  authority:\n    tags: {}\n    key:")
        .replace("\nprofiles:", &format!("\n{product}\nprofiles:"))
}

/// The same with a field, an index and a collection more.
fn newer() -> String {
    older()
        .replace("  holdings: {", "  loans: { format: csv, into: loan, as_of: meta.received }\n  holdings: {")
        .replace("status:         { path: LDR/05, type: text }", "status:         { path: LDR/05, type: text, index: equal }")
        .replace(
            "    fields: { id: text, at: timestamp }\n",
            "    fields: { id: text, at: timestamp, more: text }\n  loan:\n    key: number\n    fields: { number: text }\n",
        )
}

/// A store of the older definition with some records, a tag and a finished job, on each kind of store.
fn sandboxes() -> Vec<Sandbox> {
    let sandboxes = Sandbox::on_each_store(&older());
    for sandbox in &sandboxes {
        sandbox.write_file("names.mrc", authorities(60, 1, 1));
        sandbox.write_file("nothing.ndjson", "");
        sandbox.ok(&["import", "names.mrc", "--profile", "upsert"]);
        sandbox.ok(&["tag", "create", "old"]);
        // so it is noted by which rules records were settled
        sandbox.ok(&["check", "--deep"]);
    }
    sandboxes
}

/// The definition, the release and the tables of a store.
fn store_schema(sandbox: &Sandbox) -> String {
    let Some(schema) = sandbox.schema() else {
        let connection = rusqlite::Connection::open_with_flags(sandbox.store(), rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let sql = "SELECT group_concat(said, char(10)) FROM (SELECT name || coalesce(sql, '') AS said FROM sqlite_schema
                   UNION ALL SELECT name || ' ' || value FROM meta WHERE name <> 'clock' ORDER BY 1)";
        return connection.query_row(sql, [], |row| row.get(0)).unwrap();
    };
    let sql = format!(
        "SELECT table_name || ' ' || column_name || ' ' || data_type FROM information_schema.columns WHERE table_schema = '{schema}'
         UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = '{schema}'
         UNION ALL SELECT name || ' ' || value FROM \"{schema}\".meta ORDER BY 1"
    );
    TestServer::shared().unwrap().sql(&sql).unwrap()
}

/// A copy of a file's store that a command may change.
fn copied(sandbox: &Sandbox) -> Sandbox {
    let copy = Sandbox::new(&std::fs::read_to_string(sandbox.path("catalogue.yaml")).unwrap());
    for name in ["stook.sqlite", "names.mrc", "nothing.ndjson"] {
        std::fs::copy(sandbox.path(name), copy.path(name)).unwrap();
    }
    copy
}

fn refusal(answer: &Answer) {
    for words in [
        "this catalogue.yaml is not the one the store was prepared for",
        "collection `loan` is new",
        "index on `authority.status` is new",
        "field `product.more` is new",
        "`stook prepare` applies it",
    ] {
        assert!(answer.err.contains(words), "{words:?} is missing in {}", answer.err);
    }
}

#[test]
fn every_command_is_in_the_table() {
    let sandbox = Sandbox::library();
    let listed = |of: &[&str]| -> BTreeSet<String> {
        let help = sandbox.ok(&[of, &["--help"]].concat());
        let commands = help.split("Commands:").nth(1).unwrap_or_default().lines().skip(1).take_while(|line| !line.is_empty());
        // descriptions go on in lines that begin further to the right
        let names = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
        names.filter(|name| *name != "help").map(str::to_owned).collect()
    };
    let tried = |of: &[&str]| -> BTreeSet<String> {
        let matching = COMMANDS.iter().filter(|(arguments, ..)| arguments.starts_with(of));
        matching.filter_map(|(arguments, ..)| arguments.get(of.len())).map(|name| (*name).to_owned()).collect()
    };
    assert_eq!(listed(&[]), tried(&[]));
    for of in ["tag", "token", "queue"] {
        assert_eq!(listed(&[of]), tried(&[of]), "{of}");
    }
}

#[test]
fn commands_work_with_the_definition_of_the_store() {
    for sandbox in sandboxes() {
        let before = store_schema(&sandbox);
        for (arguments, _, code) in COMMANDS {
            // the tag that others are tried with stays
            if arguments[..] != ["tag", "delete", "old"] {
                assert_eq!(sandbox.run(arguments).code, *code, "{arguments:?}: {}", sandbox.run(arguments).err);
            }
            assert_eq!(store_schema(&sandbox), before, "{arguments:?}");
        }
    }
}

#[test]
fn only_documented_commands_change_a_store_of_an_older_definition() {
    for sandbox in sandboxes() {
        let before = store_schema(&sandbox);
        sandbox.write_definition(&newer());
        for (arguments, does, code) in COMMANDS {
            match does {
                Prepares if sandbox.schema().is_none() => {
                    let copy = copied(&sandbox);
                    let answer = copy.run(arguments);
                    assert_eq!(answer.code, *code, "{arguments:?}: {}", answer.err);
                    assert_ne!(store_schema(&copy), before, "{arguments:?}");
                    answer.stderr_contains(&[
                        "note: collection `loan` is new",
                        "note: index on `authority.status` is new",
                        "restart servers and workers",
                    ]);
                }
                // on a server that is a step of its own
                Prepares if arguments[0] == "prepare" => {}
                Prepares | Refuses => refusal(&sandbox.run(arguments).exits(1)),
                Works | Nothing => {
                    let answer = sandbox.run(arguments);
                    assert_eq!(answer.code, *code, "{arguments:?}: {}", answer.err);
                }
            }
            assert_eq!(store_schema(&sandbox), before, "{arguments:?}");
        }
        // the journal still calls collections as the store does
        assert!(sandbox.journal(1).iter().all(|entry| entry["collection"] == "authority"));
        // and the way back is the file that was there
        sandbox.write_definition(&older());
        assert_eq!(sandbox.records("authority").len(), 60);
        sandbox.write_definition(&newer());
        let plan = sandbox.json(&["prepare", "--dry-run", "--json"]);
        let planned: Vec<String> = plan["changes"].as_array().unwrap().iter().map(|change| format!("note: {}", change.as_str().unwrap())).collect();
        assert!(planned.contains(&"note: collection `loan` is new".to_owned()) && plan["needs_a_new_store"] == json!([]), "{plan}");
        let prepared = sandbox.run(&["prepare"]).exits(0);
        prepared.stderr_contains(&planned.iter().map(String::as_str).collect::<Vec<_>>()).stderr_contains(&["restart servers and workers"]);
        assert_eq!(sandbox.json(&["prepare", "--dry-run", "--json"])["changes"], json!([]));
        assert_ne!(store_schema(&sandbox), before);
        sandbox.ok(&["query", "authority status=n"]);
    }
}

#[test]
fn a_store_of_a_newer_release_is_never_touched() {
    for sandbox in sandboxes() {
        sandbox.sql("UPDATE meta SET value = '99' WHERE name = 'format'");
        let (before, bytes) = (store_schema(&sandbox), sandbox.schema().is_none().then(|| std::fs::read(sandbox.store()).unwrap()));
        for (arguments, does, _) in COMMANDS.iter().filter(|(_, does, _)| *does != Nothing) {
            sandbox
                .run(arguments)
                .exits(1)
                .stderr_contains(&["the store has format 99, this program writes format", "use the program that wrote it"]);
            assert_eq!(store_schema(&sandbox), before, "{arguments:?} {does:?}");
        }
        let answer = sandbox.run(&["serve", "--listen", "127.0.0.1:0"]);
        answer.exits(1).stderr_contains(&["the store has format 99"]);
        assert!(bytes.is_none_or(|bytes| std::fs::read(sandbox.store()).unwrap() == bytes));
    }
}

#[test]
fn a_definition_by_which_rows_look_alike_is_enough_to_read() {
    for sandbox in sandboxes() {
        let before = store_schema(&sandbox);
        let compatible = older().replace("  holdings: {", "  more: { format: csv, into: product, as_of: meta.received }\n  holdings: {");
        assert_ne!(compatible, older());
        sandbox.write_definition(&compatible);
        for reader in
            [&["query", "authority"][..], &["get", "authority", "n  00000042 "], &["export", "authority", "--format", "marc"], &["tag", "ls"]]
        {
            sandbox.run(reader).exits(0);
        }
        // who writes by the definition is told
        sandbox.run(&["settle"]).exits(1).stderr_contains(&["is not the one the store was prepared for", "mappings, rules, links, routes, services"]);
        assert_eq!(store_schema(&sandbox), before);
    }
}

#[test]
fn a_listing_by_a_newer_definition_leaves_a_running_server_alone() {
    for sandbox in sandboxes() {
        let served = Served::new(&sandbox, &[]);
        let newer_sandbox = Sandbox::new(&newer());
        let store = sandbox.schema().map_or_else(|| sandbox.store().to_str().unwrap().to_owned(), |_| sandbox.server_url().unwrap().to_owned());
        for command in [&["jobs"][..], &["journal", "1"], &["token", "ls"], &["queue", "ls"]] {
            newer_sandbox.run(&[command, &["--store", &store]].concat()).exits(0);
        }
        newer_sandbox.run(&["query", "authority", "--store", &store]).exits(1);
        assert_eq!(served.get("/readyz").status, 200);
        served.call("POST", "/v1/main/product", &json!({ "id": "p" })).expect_json(201);
        assert_eq!(served.get("/v1/main/product/p").expect_json(200)["id"], "p");
    }
}

#[test]
fn reading_creates_no_store() {
    let sandbox = Sandbox::new(&older());
    sandbox.write_file("names.mrc", authorities(60, 1, 1));
    sandbox.write_file("nothing.ndjson", "");
    for (arguments, does, _) in COMMANDS.iter().filter(|(_, does, _)| matches!(does, Refuses | Works)) {
        let answer = sandbox.run(arguments);
        // an empty store says what a dry run would find, and preparing it would create it, services were never collected, tags and tokens may come first
        let may = matches!(
            arguments,
            ["prepare", ..]
                | ["import", ..]
                | ["collect", ..]
                | ["tag", "create" | "set" | "delete" | "rebuild" | "add" | "remove", ..]
                | ["token", "create", ..]
        );
        if !may {
            answer.exits(1).stderr_contains(&["does not exist yet"]);
        }
        if sandbox.store().exists() {
            assert!(matches!(arguments[0], "tag" | "token"), "{arguments:?} {does:?}");
            std::fs::remove_file(sandbox.store()).unwrap();
        }
    }
}

#[test]
fn a_missing_file_of_areas_is_reported_and_lookups_in_it_are_null() {
    let definition = "catalogue: c\nareas: { regions: maps/regions.geojson }\n\
                      sources:\n  s: { format: json, as_of: meta.received, feeds: [ { into: t, map: { k: $.k, at: $.at } } ] }\n\
                      collections:\n  t:\n    key: k\n    fields: { k: text, at: geometry, regions: { type: [text], derive: \"areas_met('regions', at)\" } }\n";
    let square = |west: f64, name: &str| {
        let ring = [[west, 0.0], [west + 2.0, 0.0], [west + 2.0, 2.0], [west, 2.0], [west, 0.0]];
        json!({ "type": "Feature", "properties": { "name": name }, "geometry": { "type": "Polygon", "coordinates": [ring] } })
    };
    for sandbox in Sandbox::on_each_store(definition) {
        let note = "`maps/regions.geojson` is not there: what expressions ask of the areas `regions` is null";
        assert_eq!(sandbox.json(&["check", "--json"])["notes"], json!([note]));
        let file = sandbox.write_file("t.json", "{\"k\":\"a\",\"at\":\"POINT(1 1)\"}");
        sandbox.run(&["import", &file]).exits(0).stderr_contains(&[note]);
        assert_eq!(sandbox.get("t", "a")["regions"], json!(null));
        std::fs::create_dir(sandbox.path("maps")).unwrap();
        let areas = json!({ "type": "FeatureCollection", "features": [square(0.0, "west"), square(2.0, "east")] });
        sandbox.write_file("maps/regions.geojson", areas.to_string());
        assert_eq!(sandbox.json(&["check", "--json"])["notes"], json!([]));
        // the definition is another one now
        sandbox.ok(&["prepare"]);
        let file = sandbox.write_file("u.json", "{\"k\":\"b\",\"at\":\"POINT(2 1)\"}");
        sandbox.import(&[&file]);
        assert_eq!(sandbox.get("t", "b")["regions"], json!(["east", "west"]));
        sandbox.write_file("maps/regions.geojson", "{}");
        sandbox.run(&["check"]).exits(1).stderr_contains(&["maps/regions.geojson"]);
    }
}

/// What a mapping looks up is a part of it: the same documents are mapped again after a table has changed.
#[test]
fn documents_are_mapped_again_after_a_table_that_they_look_into_has_changed() {
    let definition = "catalogue: c\nlookups: { kinds: { a: one, else: other } }\n\
                      sources:\n  s: { format: json, as_of: changed, let: { changed: { path: $.changed, type: timestamp } }, feeds: [ { into: t, map: { k: $.k, kind: { path: $.kind, lookup: kinds } } } ] }\n\
                      collections:\n  t:\n    key: k\n    fields: { k: text, kind: text, derived: { type: text, derive: \"lookup('kinds', k)\" } }\n";
    for sandbox in Sandbox::on_each_store(definition) {
        let documents: String =
            (0..20).map(|number| format!("{{\"k\":\"k{number}\",\"kind\":\"a\",\"changed\":\"2024-01-01T00:00:00Z\"}}\n")).collect();
        let file = sandbox.write_file("t.ndjson", documents);
        sandbox.import(&[&file]);
        sandbox.write_definition(&definition.replace("a: one", "a: two").replace("else: other", "else: else"));
        sandbox.ok(&["prepare"]);
        sandbox.import(&[&file]);
        for record in sandbox.records("t") {
            assert_eq!((&record["kind"], &record["derived"]), (&json!("two"), &json!("else")), "{record}");
        }
    }
}
