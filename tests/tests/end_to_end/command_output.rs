//! What the command says: exit codes, JSON that scripts rely on, help, and errors that show where and what was meant.

use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use stook_tests::{LIBRARY, Sandbox, authorities, counts, gzip, interrupted_import, repository, stook, sum_of_outcomes};

/// The library with this many records.
fn library(records: u64) -> (Sandbox, Vec<u8>) {
    let sandbox = Sandbox::library();
    let bytes = authorities(records, 1, 1);
    sandbox.import(&[&sandbox.write_file("names.mrc", &bytes), "--profile", "upsert"]);
    (sandbox, bytes)
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn keys(json: &Json) -> BTreeSet<String> {
    json.as_object().unwrap_or_else(|| panic!("not an object: {json}")).keys().cloned().collect()
}

/// The names in double quotes of the documentation's row or paragraph that begins so.
fn documented(beginning: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(repository().join("docs/output.md")).unwrap();
    let start = text.find(beginning).unwrap_or_else(|| panic!("{beginning:?} is not documented"));
    let row = &text[start..];
    let end = if beginning.starts_with('|') { row.find('\n') } else { row.find('}') };
    row[..end.unwrap_or(row.len())].split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

// --- exit codes ---------------------------------------------------------------------------------------------------------

#[test]
fn the_exit_code_tells_success_from_failure() {
    let (sandbox, _) = library(20);
    let broken = sandbox.write_file("broken.csv", "barcode,lccn\nb1,n 1\nb2\n");
    let assert_complete: [(i32, &[&str]); 26] = [
        (0, &["check"]),
        (0, &["--help"]),
        (0, &["--version"]),
        (0, &["help", "import"]),
        (0, &["query", "authority heading=NobodyAtAll"]),
        (0, &["import", "--resume", "1"]),
        (1, &["get", "authority", "nobody"]),
        (1, &["get", "nothing", "nobody"]),
        (1, &["query", "authority nothing=1"]),
        (1, &["query", "authority heading="]),
        (1, &["import", "missing.mrc"]),
        (1, &["import", "--resume", "99"]),
        (1, &["journal", "99"]),
        (1, &["queue", "load", "missing.json"]),
        (1, &["queue", "rechunk", "1.1"]),
        (1, &["export", "item", "--format", "marc"]),
        (1, &["withdraw", "nobody"]),
        (2, &["import", &broken, "--profile", "stock"]),
        (2, &["import", "--dry-run", &broken, "--profile", "stock"]),
        (64, &[]),
        (64, &["imprt"]),
        (64, &["import"]),
        (64, &["import", "--resume", "1", "names.mrc"]),
        (64, &["import", "names.mrc", "--as-of", "yesterday"]),
        (64, &["query", "authority", "--store", "mysql://host/db"]),
        (64, &["queue", "rechunk", "1"]),
    ];
    for (code, arguments) in assert_complete {
        let answer = sandbox.run(arguments);
        assert_eq!(answer.code, code, "{arguments:?}\n{}\n{}", answer.text(), answer.err);
        assert!(code == 0 || code == 2 || !answer.err.trim().is_empty(), "{arguments:?} fails without a word");
    }
}

#[test]
fn a_folder_without_a_catalogue_or_store_says_how_to_create_one() {
    let sandbox = Sandbox::library();
    sandbox.run(&["jobs"]).exits(1).stderr_contains(&["stook.sqlite does not exist yet; `stook import FILE` creates it"]);
    assert!(!sandbox.store().exists(), "asking makes no store");
    std::fs::remove_file(sandbox.path("catalogue.yaml")).unwrap();
    sandbox.run(&["check"]).exits(1).stderr_contains(&["catalogue.yaml", "give the catalogue's folder with -C, or create one with `stook init DIR`"]);
}

#[test]
fn a_new_catalogue_is_sound_and_can_be_used_at_once() {
    let sandbox = Sandbox::library();
    let folder = sandbox.path("new");
    let folder = folder.to_str().unwrap();
    let run = |arguments: &[&str]| Command::new(stook()).args(["-C", folder]).args(arguments).output().unwrap();
    assert!(sandbox.ok(&["init", folder]).contains("edit it, then run `stook -C "));
    assert!(run(&["check"]).status.success());
    let file = sandbox.write_file("list.csv", "id,name,size,changed\n1,One,2 GB,2020-01-01\n");
    assert!(run(&["import", &file]).status.success());
    let found = run(&["query", "thing size>1GB", "--format", "ndjson"]).stdout;
    assert_eq!(serde_json::from_slice::<Json>(&found).unwrap()["name"], "One");
    sandbox.run(&["init", folder]).exits(1).stderr_contains(&["catalogue.yaml exists already"]);
}

#[test]
fn the_store_can_be_given_by_option_or_environment() {
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("names.mrc", authorities(3, 1, 1));
    let store = sandbox.path("elsewhere.db");
    let url = format!("sqlite:{}", store.display());
    sandbox.run(&["import", &file, "--store", &url]).exits(0);
    assert!(store.exists() && !sandbox.store().exists());
    let output = sandbox.command(&["query", "authority | count(lccn)", "--format", "ndjson"]).env("STOOK_STORE", store).output().unwrap();
    assert_eq!(serde_json::from_slice::<Json>(&output.stdout).unwrap()["count(lccn)"], 3);
}

// --- JSON for scripts ---------------------------------------------------------------------------------------------------

#[test]
fn json_has_the_documented_keys() {
    let (sandbox, _) = library(20);
    let broken = sandbox.write_file("broken.csv", "barcode,lccn\nb1,n 1\nb2\n");
    let job = documented("A job: `{");
    assert!(job.contains("chunks_dead") && job.len() == 17);

    let listed = sandbox.json(&["jobs", "--json"]);
    assert_eq!(keys(&listed[0]), job);
    let imported = sandbox.run(&["import", "--json", &broken, "--profile", "stock"]).exits(2).json();
    let with_seconds: BTreeSet<String> = job.union(&set(&["changes", "seconds"])).cloned().collect();
    assert_eq!(keys(&imported), with_seconds);
    let outcomes = ["documents", "created", "updated", "unchanged", "deleted", "superseded", "skipped", "withdrawn", "failed", "warnings"];
    assert_eq!(keys(&imported["counts"]), set(&outcomes));
    assert_eq!((&imported["profile"], &imported["source"], &imported["tenant"]), (&json!("stock"), &json!("holdings"), &json!("main")));
    assert!(imported["created"].as_u64() <= imported["finished"].as_u64());

    let preview = sandbox.run(&["import", "--json", "--dry-run", &broken, "--profile", "stock"]).exits(2).json();
    let all: BTreeSet<String> = [&preview, &preview["files"][0], &preview["troubles"][0]].into_iter().flat_map(keys).collect();
    assert_eq!(all, documented("| `import --dry-run --json`"));

    for entry in sandbox.journal(2) {
        assert_eq!(keys(&entry), documented("| `journal --json`"));
    }
    let sound = sandbox.json(&["check", "--json"]);
    assert_eq!((&sound["sound"], &sound["problems"]), (&json!(true), &json!([])));
    assert_eq!(keys(&sandbox.json(&["prepare", "--dry-run", "--json"])), documented("| `prepare --dry-run --json`"));
    let withdrawn = sandbox.json(&["withdraw", "holdings", "--json"]);
    assert_eq!(keys(&withdrawn), documented("| `withdraw --json`"));

    let erased = sandbox.json(&["erase", "authority", "n  00000009 ", "--json"]);
    let mut all: BTreeSet<String> = [&erased, &erased["erased"][0], &erased["erased"][0]["traces"]].into_iter().flat_map(keys).collect();
    all.extend(keys(&sandbox.json(&["erase", "--list", "--json"])[0]));
    all.insert("lifted".into());
    assert_eq!(all, documented("| `erase --json`"));

    let explained = sandbox.json(&["get", "authority", "n  00000007 ", "--explain", "--format", "json"]);
    let mut all = documented("| `get --explain --format json`");
    // authorities have no state
    all.remove("state");
    assert_eq!(keys(&explained), all);

    sandbox.write_definition(&LIBRARY.replace("format: csv,", "format: tsv,"));
    let unsound = sandbox.run(&["check", "--json"]).exits(1).json();
    let mut found: BTreeSet<String> = keys(&unsound).union(&keys(&unsound["problems"][0])).cloned().collect();
    found.extend(["hash", "notes"].map(str::to_owned));
    assert_eq!(found, documented("| `check --json`"), "a definition with problems has no hash and no notes");
    assert_eq!((&unsound["sound"], &unsound["problems"][0]["line"]), (&json!(false), &json!(13)));
}

#[test]
fn the_queue_has_the_documented_keys() {
    let (sandbox, _) = interrupted_import(ROWS, "rows.csv", &rows(40_000), |_| true);
    for chunk in sandbox.queue() {
        assert_eq!(keys(&chunk), documented("| `queue ls --json`"));
        assert!(["waiting", "leased"].contains(&chunk["state"].as_str().unwrap()));
    }
    assert!(sandbox.ok(&["queue", "ls"]).starts_with("chunk"));
}

// --- help ---------------------------------------------------------------------------------------------------------------

#[test]
fn help_has_examples_that_the_command_understands() {
    let sandbox = Sandbox::library();
    let commands = ["init", "schema", "import", "journal", "get", "query", "withdraw", "export", "sample", "completions"];
    for command in commands {
        let help = sandbox.ok(&[command, "--help"]);
        assert!(help.contains("Example"), "{command} has no example:\n{help}");
        for example in help.lines().filter_map(|line| line.strip_prefix("  stook ")) {
            let only_stook = example.split(['|', '>', '&']).next().unwrap();
            let quoted = if example.contains('\'') { example } else { only_stook };
            let arguments = words(quoted);
            // a sandbox without files and a store: whatever fails, it is not the wording
            let answer = sandbox.run(&arguments);
            assert_ne!(answer.code, 64, "{example}\n{}", answer.err);
        }
    }
    let front = sandbox.ok(&["--help"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        front.contains("First steps:")
            && front
                .contains("Exit codes: 0 all well, 1 failed, 2 finished with failed documents or with files that no source claims, 64 wrong usage.")
    );
}

/// The words of a command line up to a pipe, quotes taken off.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '\'' => quoted = !quoted,
            '|' | '>' | '&' if !quoted => break,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().unwrap().push(other),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn completions_are_made_for_the_usual_shells() {
    let sandbox = Sandbox::library();
    for shell in ["bash", "zsh", "fish"] {
        let script = sandbox.ok(&["completions", shell]);
        for word in ["stook", "import", "profile", "marcxml"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
        let check = Command::new(shell).arg("-n").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let Ok(mut check) = check else {
            stook_testkit::skip::missing(&format!("{shell} is not here to read its completions"));
            continue;
        };
        check.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let output = check.wait_with_output().unwrap();
        assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
    }
    sandbox.run(&["completions", "csh"]).exits(64);
}

// --- errors -------------------------------------------------------------------------------------------------------------

#[test]
fn mistakes_in_a_definition_are_shown_at_their_position_with_advice() {
    let sandbox = Sandbox::library();
    sandbox.write_definition(&LIBRARY.replace("survivorship: latest", "survivorship: lates").replace("key: barcode", "key: barcod"));
    let answer = sandbox.run(&["check"]).exits(1);
    let line_number_of = |text: &str| LIBRARY.lines().position(|line_number_of| line_number_of.contains(text)).unwrap() + 1;
    let file = sandbox.path("catalogue.yaml");
    answer.clone().stderr_contains(&[
        &format!("--> {}:{}:19", file.display(), line_number_of("survivorship: latest")),
        &format!("--> {}:{}:10", file.display(), line_number_of("key: barcode")),
        "survivorship: lates\n",
        "^^^^^",
        "did you mean `latest`?",
        "did you mean `barcode`?",
        "2 mistakes",
    ]);
    // the caret stands under the word
    let lines: Vec<&str> = answer.err.lines().collect();
    let shown = lines.iter().position(|line_number_of| line_number_of.contains("key: barcod")).unwrap();
    assert_eq!(lines[shown].find("barcod"), lines[shown + 1].find('^'));
    assert!(!answer.err.contains('\u{1b}'), "no colours where nobody sees them");
    // the same words wherever the definition is read
    sandbox.run(&["import", "x.mrc"]).exits(1).stderr_contains(&["did you mean `latest`?"]);
}

#[test]
fn mistakes_in_a_query_are_shown_at_their_position_with_advice() {
    let (sandbox, _) = library(20);
    let cases = [
        ("authority hedding=x", "query:1:11", "`authority` has no field `hedding`", "did you mean `heading`?"),
        ("autority", "query:1:1", "there is no collection `autority`", "did you mean `authority`?"),
        ("authority | srot changed", "query:1:13", "srot", "did you mean `sort`?"),
        ("authority changed=soon", "query:1:19", "soon", ""),
    ];
    for (query, shown_position, message, advice) in cases {
        let answer = sandbox.run(&["query", query]).exits(1).stderr_contains(&[shown_position, message, advice]);
        let lines: Vec<&str> = answer.err.lines().collect();
        let shown = lines.iter().position(|line| line.contains(&format!("| {query}"))).unwrap_or_else(|| panic!("{}", answer.err));
        assert!(lines[shown + 1].contains('^'), "{}", answer.err);
        assert!(answer.out.is_empty());
    }
}

#[test]
fn unknown_names_are_answered_with_the_known_ones() {
    let (sandbox, _) = library(3);
    let cases: [(&[&str], &str); 8] = [
        (&["import", "x", "--profile", "upsrt"], "there is no profile `upsrt`; did you mean `upsert`?"),
        (&["import", "x", "--source", "lock"], "there is no source `lock`; did you mean `loc`?"),
        (&["import", "x", "--source", "loc", "--profile", "stock"], "profile `stock` is not for source `loc`"),
        (&["get", "autority", "x"], "there is no collection `autority`; did you mean `authority`?"),
        (&["export", "thing", "--format", "csv"], "there is no collection `thing`; there are authority, item"),
        (&["get", "authority", "n00000001"], "there is no authority \"n00000001\" (keys are compared exactly, including spaces)"),
        (&["import", "--resume", "7"], "no job 7; see `stook jobs`"),
        (&["import", "x", "--profil", "upsert"], "a similar argument exists: '--profile'"),
    ];
    for (arguments, words) in cases {
        let answer = sandbox.run(arguments);
        assert!(answer.code == 1 || answer.code == 64);
        answer.stderr_contains(&[words]);
    }
    let file = sandbox.write_file("list.csv", "barcode,lccn\nb1,n 1\n");
    assert_eq!(counts(&sandbox.import(&[&file])), "created 1", "the only source that reads what the file holds needs no name");
}

// --- the queue ----------------------------------------------------------------------------------------------------------

/// Rows so small that a file has many more chunks than one process takes at once.
const ROWS: &str = "\
catalogue: rows
sources: { list: { format: csv, into: row, as_of: meta.received } }
collections: { row: { key: id, fields: { id: text, text: text } } }
";

fn rows(count: u64) -> Vec<u8> {
    let rows: String = (1..=count).map(|number| format!("{number},text of {number}\n")).collect();
    ["id,text\n", &rows].concat().into_bytes()
}

/// Whether all files of the only job have been cut, so that the queue has everything that is left.
fn is_cut(sandbox: &Sandbox) -> bool {
    sandbox.job(1)["progress"]["complete"] == true
}

fn assert_complete(sandbox: &Sandbox, records: u64) {
    let job = sandbox.job(1);
    assert_eq!((&job["state"], counts(&job), sum_of_outcomes(&job)), (&json!("completed"), format!("created {records}"), records));
    let documents: Vec<u64> = sandbox.journal(1).iter().map(|entry| entry["document"].as_u64().unwrap()).collect();
    assert!(documents == (1..=records).collect::<Vec<_>>(), "every document once, in order");
    assert_eq!(sandbox.records("row").len() as u64, records);
    assert!(sandbox.queue().is_empty());
    sandbox.assert_sound();
}

#[test]
fn waiting_chunks_can_be_cut_smaller_and_put_back_and_nothing_is_done_twice() {
    const RECORDS: u64 = 60_000;
    let has_waiting = |sandbox: &Sandbox| is_cut(sandbox) && sandbox.queue().iter().any(|chunk| chunk["state"] == "waiting");
    let (sandbox, _) = interrupted_import(ROWS, "rows.csv", &rows(RECORDS), has_waiting);
    let chunk = sandbox.queue().into_iter().rev().find(|chunk| chunk["state"] == "waiting").unwrap();
    let name = format!("1.{}", chunk["ordinal"]);
    // out and in again: it is the same chunk, now with its bytes
    let dump = sandbox.path("dump.json");
    let dump = dump.to_str().unwrap();
    sandbox.run(&["queue", "dump", &name, "-o", dump]).exits(0).stderr_contains(&["dumped 1 chunk"]);
    let dumped: Json = serde_json::from_slice(&std::fs::read(dump).unwrap()).unwrap();
    assert_eq!((&dumped["documents"], &dumped["ordinal"]), (&chunk["documents"], &chunk["ordinal"]));
    assert_eq!(sandbox.ok(&["queue", "load", dump]), "loaded 1 chunk\n");
    assert_eq!(sandbox.ok(&["queue", "load", dump]), "loaded 1 chunk\n", "it takes its own place");
    let before = sandbox.queue().len();
    let message = sandbox.ok(&["queue", "rechunk", &name, "--documents", "300"]);
    assert_eq!(message, format!("chunk {name} was split into 4 chunks; run stook work or stook import --resume 1\n"));
    let queue = sandbox.queue();
    assert_eq!(queue.len(), before + 3);
    let parts: Vec<u64> = queue[queue.len() - 4..].iter().map(|chunk| chunk["documents"].as_u64().unwrap()).collect();
    assert_eq!(parts, [300, 300, 300, 100]);
    sandbox.run(&["queue", "rechunk", &name]).exits(1).stderr_contains(&[&format!("there is no chunk {name} in the queue")]);
    sandbox.run(&["import", "--resume", "1"]).exits(0);
    assert_complete(&sandbox, RECORDS);
    // what is done is not done again
    sandbox.run(&["queue", "load", dump]).exits(1);
    assert_complete(&sandbox, RECORDS);
}

#[test]
fn dead_chunks_are_listed_with_their_reason_and_can_be_retried() {
    const RECORDS: u64 = 20_000;
    let bytes = rows(RECORDS);
    let (sandbox, file) = interrupted_import(ROWS, "rows.csv", &bytes, is_cut);
    let modified = sandbox.job(1)["files"][0]["modified"].as_u64().unwrap();
    std::fs::write(&file, "id,text\n").unwrap();
    let answer = sandbox.run(&["import", "--resume", "1"]).exits(1).text();
    assert!(answer.contains("job 1: failed") && answer.contains("see `stook queue ls`"), "{answer}");
    let queue = sandbox.queue();
    assert!(
        queue.iter().all(|chunk| chunk["state"] == "dead" && chunk["reason"].as_str().unwrap().contains("has changed since the job was created"))
    );
    assert_eq!((&sandbox.job(1)["state"], &sandbox.job(1)["chunks_dead"]), (&json!("failed"), &json!(queue.len())));
    let shown = sandbox.ok(&["queue", "ls"]);
    assert!(shown.contains("dead") && shown.contains("has changed since the job was created"), "{shown}");
    // the file is back as it was
    std::fs::write(&file, &bytes).unwrap();
    let handle = std::fs::File::options().write(true).open(&file).unwrap();
    handle.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_micros(modified)).unwrap();
    let first = format!("1.{}", queue[0]["ordinal"]);
    assert_eq!(sandbox.ok(&["queue", "retry", &first]), "1 chunk will be retried; run stook work or stook import --resume 1\n");
    sandbox.ok(&["queue", "rechunk", &first, "--documents", "128"]);
    let other_chunks = queue.len() - 1;
    let plural = if other_chunks == 1 { "" } else { "s" };
    assert_eq!(
        sandbox.ok(&["queue", "retry", "1"]),
        format!("{other_chunks} chunk{plural} will be retried; run stook work or stook import --resume 1\n")
    );
    sandbox.run(&["import", "--resume", "1"]).exits(0);
    assert_complete(&sandbox, RECORDS);
}

#[test]
fn dumped_chunks_can_be_processed_after_their_file_is_deleted() {
    const RECORDS: u64 = 20_000;
    let (sandbox, file) = interrupted_import(ROWS, "rows.csv", &rows(RECORDS), is_cut);
    let waiting = sandbox.queue().len();
    let dump = sandbox.path("dump.json");
    let dump = dump.to_str().unwrap();
    sandbox.run(&["queue", "dump", "1", "-o", dump]).exits(0);
    let lines = std::fs::read_to_string(dump).unwrap();
    assert_eq!(lines.lines().count(), waiting);
    std::fs::remove_file(&file).unwrap();
    sandbox.run(&["import", "--resume", "1"]).exits(1);
    assert!(sandbox.queue().iter().all(|chunk| chunk["state"] == "dead" && chunk["reason"].as_str().unwrap().contains("rows.csv")));
    sandbox.ok(&["queue", "load", dump]);
    sandbox.run(&["import", "--resume", "1"]).exits(0);
    assert_complete(&sandbox, RECORDS);
}

// --- records ------------------------------------------------------------------------------------------------------------

#[test]
fn a_record_is_shown_in_every_format() {
    let (sandbox, bytes) = library(50);
    let key = "n  00000007 ";
    let record: Vec<u8> = bytes.split_inclusive(|byte| *byte == 0x1d).nth(6).unwrap().to_vec();
    let get = |format: &str| sandbox.run(&["get", "authority", key, "--format", format]).exits(0);
    assert!(get("marc").out == record, "byte for byte");
    let json = get("json").json();
    assert_eq!((&json["key"], &json["lccn"], &json["control_number"]), (&json!(key), &json!(key), &json!("n00000007")));
    let yaml = get("yaml").text();
    assert!(yaml.starts_with("key: \"n  00000007 \"\n"), "blanks are kept by quotes:\n{yaml}");
    assert!(yaml.contains("\ncontrol_number: n00000007\n"));
    assert_eq!(sandbox.ok(&["get", "authority", key]), yaml, "which is what one gets without asking");
    // MARCXML says the same record: imported elsewhere it gives the same fields
    let elsewhere = Sandbox::library();
    let file = elsewhere.write_file("one.xml", get("marcxml").out);
    elsewhere.import(&[&file, "--profile", "upsert"]);
    assert_eq!(elsewhere.get("authority", key), json);
    assert!(elsewhere.run(&["get", "authority", key, "--format", "marc"]).exits(0).out == record);
}

#[test]
fn exports_have_the_same_content_in_every_format() {
    let (sandbox, bytes) = library(300);
    assert!(sandbox.export("authority", "marc") == bytes);
    let ndjson = sandbox.records("authority");
    assert_eq!(ndjson.len(), 300);
    let csv = String::from_utf8(sandbox.export("authority", "csv")).unwrap();
    assert!(csv.starts_with("key,lccn,lccn_cancelled,"));
    assert_eq!(csv.lines().count(), 301);
    let elsewhere = Sandbox::library();
    elsewhere.import(&[&elsewhere.write_file("all.xml.gz", gzip(&sandbox.export("authority", "marcxml"))), "--profile", "upsert"]);
    assert_eq!(elsewhere.records("authority"), ndjson);
    let output = sandbox.path("all.mrc");
    sandbox.run(&["export", "authority", "--format", "marc", "-o", output.to_str().unwrap()]).exits(0).stderr_contains(&["wrote 300 records to "]);
    assert!(std::fs::read(output).unwrap() == bytes);
    sandbox.run(&["export", "item", "--format", "marc"]).exits(1).stderr_contains(&["`item` does not keep its documents"]);
}

#[test]
fn query_formats_have_the_same_content() {
    let (sandbox, _) = library(300);
    let query = "authority kind=personal | grep lccn, heading, see_from | sort heading-";
    let query_as = |format: &str| sandbox.run(&["query", query, "--format", format, "--limit", "40"]).exits(0);
    let rows = query_as("json").json();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 40);
    assert_eq!(&query_as("ndjson").lines(), rows);
    assert_eq!(keys(&rows[0]), set(&["lccn", "heading", "see_from"]));
    let csv = query_as("csv").text();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!((lines[0], lines.len()), ("lccn,heading,see_from", 41));
    for (line, row) in lines[1..].iter().zip(rows) {
        assert!(line.starts_with(row["lccn"].as_str().unwrap()), "{line}");
    }
    let table = query_as("table");
    let total = sandbox.json(&["query", "authority kind=personal | count(lccn)", "--format", "json"])[0]["count(lccn)"].as_u64().unwrap();
    assert!(table.err.starts_with(&format!("40 of {total} rows in ")), "{}", table.err);
    let text = table.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 42, "headings, a rule, rows");
    assert!(lines[0].starts_with("lccn") && lines[0].contains("heading"));
    for (line, row) in lines[2..].iter().zip(rows) {
        assert!(line.starts_with(row["lccn"].as_str().unwrap()) && line.contains(row["heading"].as_str().unwrap()));
    }
    let headings: Vec<&str> = rows.iter().map(|row| row["heading"].as_str().unwrap()).collect();
    assert!(headings.is_sorted_by(|a, b| a >= b));
}

#[test]
fn an_answer_without_rows_is_empty_in_every_format() {
    let (sandbox, _) = library(3);
    let query_as = |format: &str| sandbox.run(&["query", "authority heading=Nobody | grep lccn", "--format", format]).exits(0);
    assert_eq!(query_as("json").json(), json!([]));
    assert_eq!(query_as("ndjson").text(), "");
    assert_eq!(query_as("csv").text(), "lccn\n");
    assert_eq!((query_as("table").text(), query_as("table").err.starts_with("0 rows in ")), (String::new(), true));
}

#[test]
fn pages_follow_each_other_exactly() {
    let (sandbox, _) = library(137);
    for query in ["authority", "authority | sort kind", "authority | grep kind | unique", "authority status=n | sort changed-"] {
        let query_page = |idx: usize, limit: usize| {
            sandbox.run(&["query", query, "--format", "ndjson", "--idx", &idx.to_string(), "--limit", &limit.to_string()]).exits(0).lines()
        };
        let all = query_page(0, 0);
        assert!(!all.is_empty());
        for limit in [1, 7, 50, 1_000] {
            let pages = if limit == 1 { all.len().min(9) } else { all.len().div_ceil(limit) };
            let mut pieced = Vec::new();
            for page in 0..pages {
                let rows = query_page(page * limit, limit);
                assert_eq!(rows.len(), limit.min(all.len() - page * limit), "{query}, page {page} of {limit}");
                pieced.extend(rows);
            }
            assert_eq!(pieced, all[..pieced.len()], "{query}, pages of {limit}");
        }
        assert_eq!(query_page(all.len(), 5), Vec::<Json>::new(), "behind the last row nothing found");
        assert_eq!(query_page(all.len() - 1, 0), all[all.len() - 1..]);
    }
    let default_page = sandbox.run(&["query", "authority"]).exits(0);
    assert!(default_page.err.starts_with("50 of 137 rows in "), "without asking, fifty: {}", default_page.err);
}

#[test]
fn the_journal_can_be_read_in_part() {
    let (sandbox, _) = library(1_234);
    let lines = |arguments: &[&str]| sandbox.run(&[&["journal", "1", "--json"], arguments].concat()).exits(0).lines();
    assert_eq!(lines(&[]).len(), 1_234);
    assert_eq!(lines(&["--limit", "7"]), lines(&[])[..7]);
    assert_eq!(lines(&["--limit", "0"]), Vec::<Json>::new());
    assert_eq!(lines(&["--errors"]), Vec::<Json>::new());
    let jobs = sandbox.ok(&["jobs"]);
    assert!(jobs.starts_with("job ") && jobs.contains("completed") && jobs.contains("1 234"), "{jobs}");
    assert_eq!(sandbox.json(&["jobs", "--json", "--limit", "0"]), json!([]));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let (sandbox, _) = library(2_000);
    for arguments in [&["journal", "1"][..], &["journal", "1", "--json"], &["query", "authority", "--limit", "0", "--format", "ndjson"]] {
        let mut child = sandbox.command(arguments).spawn().unwrap();
        let mut first = [0; 10];
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut first).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.is_empty(), "{arguments:?}: {} {stderr}", output.status);
    }
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = sandbox.command(arguments).stdout(writer).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !stderr.contains("pipe"), "{arguments:?}: {} {stderr}", output.status);
    }
}

#[test]
fn an_output_that_takes_nothing_is_a_failure() {
    let (sandbox, _) = library(2_000);
    for arguments in PRINTING {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = sandbox.command(arguments).stdout(full).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("stook: ") && stderr.contains("No space left") && !stderr.contains("panicked"), "{arguments:?}: {stderr}");
    }
}

/// Commands that print something, each in its way.
const PRINTING: [&[&str]; 15] = [
    &["journal", "1"],
    &["journal", "1", "--json"],
    &["jobs"],
    &["query", "authority"],
    &["query", "authority", "--format", "csv"],
    &["query", "authority", "--limit", "0", "--format", "ndjson"],
    &["query", "authority", "--limit", "0", "--format", "json"],
    &["export", "authority", "--format", "ndjson"],
    &["export", "authority", "--format", "marc"],
    &["schema"],
    &["check", "--deep", "--json"],
    &["completions", "bash"],
    &["get", "authority", "n  00000007 "],
    &["get", "authority", "n  00000007 ", "--format", "marc"],
    &["get", "authority", "n  00000007 ", "--format", "marcxml"],
];
