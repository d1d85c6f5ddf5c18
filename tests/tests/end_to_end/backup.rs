//! Backups of stores in use, restored into stores of both kinds, and compared row by row.

use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use stook_store::backup_file::BackupReader;
use stook_testkit::postgres::TestServer;
use stook_tests::{Sandbox, repository, stook, touch};

/// Contributions of two sources, kept documents, state, unique values, lists, links and rollups.
const LOANS: &str = "
catalogue: loans
sources:
  shelf: { format: csv, as_of: meta.received, into: book }
  prices: { format: csv, as_of: meta.received, feeds: [ { into: book, map: { id: id, price: price } } ] }
  rooms: { format: csv, as_of: meta.received, into: room }
collections:
  room:
    key: id
    fields:
      id: { type: text, path: id }
      books: { type: integer, rollup: { over: book.room, count: true } }
  book:
    key: id
    raw: keep
    history: 5
    fields:
      id: { type: text, path: id }
      title: { type: text, path: title, index: [equal, contains], fold: true }
      shelfmark: { type: text, path: mark, unique: true, index: equal }
      tagged: { type: text, path: words }
      words: { type: [text], derive: \"split(tagged, ' ')\", index: equal }
      price: { type: integer, index: equal }
      room_id: { type: text, path: room }
    links: { room: { to: room, key: room_id } }
    state:
      status: { type: text, seed: \"'free'\", index: equal }
    transitions:
      lend: { refuse: [ { when: \"status != 'free'\", reason: \"'lent'\" } ], set: { status: \"'lent'\" } }
";

fn books(first: u32, count: u32) -> String {
    let mut csv = "id,title,mark,words,room\n".to_owned();
    (first..first + count).for_each(|row| csv += &format!("b{row:06},Title {},m{row},w{} all,r{}\n", row % 97, row % 13, row % 5));
    csv
}

/// All items of a backup but the store's clock, which goes on.
fn items(file: &Path) -> Vec<String> {
    let mut input = std::fs::File::open(file).expect("a file");
    let items = BackupReader::new(&mut input).expect("a backup").map(|item| format!("{:?}", item.expect("an item")));
    let mut items: Vec<String> = items.filter(|item| !item.starts_with("Setting(\"clock\"")).collect();
    items.sort();
    items
}

/// A new store of the catalogue of `sandbox`, a file or on the server; and a way to run commands with it.
fn new_store(sandbox: &Sandbox, name: &str, on_server: bool) -> String {
    match (on_server, TestServer::shared()) {
        (true, Some(server)) => format!("{}?schema=restored_{name}", server.url("postgres")),
        _ => sandbox.path(&format!("{name}.sqlite")).display().to_string(),
    }
}

#[test]
fn a_store_in_use_is_backed_up_and_restored_into_either_kind_of_store() {
    for sandbox in Sandbox::on_each_store(LOANS) {
        let kind = if sandbox.server_url().is_some() { "server" } else { "file" };
        sandbox.import(&[&sandbox.write_file("rooms.csv", "id\nr0\nr1\nr2\n"), "--source", "rooms"]);
        sandbox.import(&[&sandbox.write_file("first.csv", books(0, 3_000)), "--source", "shelf"]);
        // one document fails, and one has a value that another record has
        let prices = sandbox.write_file("prices.csv", "id,price\nb000001,7\nb000002,8\n");
        sandbox.import(&[&prices, "--source", "prices"]);
        let twice = sandbox.write_file("twice.csv", "id,title,mark,words,room\nx1,Same mark,m1,all,r0\n");
        sandbox.run(&["import", &twice, "--source", "shelf"]).exits(2);
        sandbox.ok(&["token", "create", "--role", "read", "--name", "reports"]);
        sandbox.ok(&["token", "create", "--role", "write", "--name", "robot"]);
        sandbox.ok(&["token", "revoke", "2"]);
        sandbox.run(&["import", &sandbox.write_file("waiting.csv", books(3_000, 1_500)), "--source", "shelf", "--detach"]).exits(0);
        {
            let server = stook_tests::http::Served::new(&sandbox, &["--workers", "0"]);
            let token = sandbox.ok(&["token", "create", "--role", "write", "--name", "desk"]);
            std::thread::sleep(Duration::from_millis(1_300));
            let server = server.with_token(token.trim());
            server.call("POST", "/v1/main/book/b000003/lend", &json!({})).expect_json(200);
        }

        // backed up while an import writes
        let more = sandbox.write_file("more.csv", books(10_000, 30_000));
        let mut import =
            sandbox.command(&["import", &more, "--source", "shelf"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let count = |sandbox: &Sandbox| sandbox.json(&["query", "book | count(id)", "--format", "json"])[0]["count(id)"].as_i64().expect("a number");
        while count(&sandbox) <= 3_000 {
            std::thread::sleep(Duration::from_millis(20));
        }
        let file = sandbox.path("under-load.stook");
        let file_name = file.to_str().expect("UTF-8");
        let backup = sandbox.json(&["backup", file_name, "--json"]);
        assert!(backup["records"].as_u64().expect("a number") < 30_000, "the import was over before the backup was made");
        assert_eq!(backup["bytes"], file.metadata().expect("a file").len());
        let verified = sandbox.json(&["backup", "--verify", file_name, "--json"]);
        assert_eq!((&verified["rows"], &verified["damaged"]), (&backup["rows"], &json!(0)));
        assert!(backup["records"].as_u64().expect("a number") >= 3_003, "{backup}");
        assert_eq!(backup["rows"]["api_tokens"], 3, "{backup}");
        assert!(backup["rows"]["record_log"].as_u64() >= Some(1) && backup["rows"]["edges"].as_u64() >= Some(1), "{backup}");
        assert!(backup["rows"]["chunks"].as_u64().expect("a number") >= 2, "{backup}");
        sandbox.run(&["backup", file_name]).exits(1).stderr_contains(&["exists"]);

        // everything is the same in both kinds of store, and again in what is made of those
        for on_server in [false, true] {
            if on_server && TestServer::shared().is_none() {
                continue;
            }
            let name = format!("{kind}_{}", if on_server { "server" } else { "file" });
            let store = new_store(&sandbox, &name, on_server);
            let restored = sandbox.json(&["--store", &store, "restore", file_name, "--json"]);
            assert_eq!(restored["rows"], backup["rows"]);
            let again = sandbox.path(&format!("{name}.stook"));
            sandbox.ok(&["--store", &store, "backup", again.to_str().expect("UTF-8")]);
            assert_eq!(items(&again), items(&file), "{name}");
            sandbox.run(&["--store", &store, "restore", file_name]).exits(1).stderr_contains(&["not empty", "--store"]);
            if on_server == sandbox.server_url().is_some() {
                continue;
            }
            // what was under way goes on
            sandbox.ok(&["--store", &store, "work", "--drain"]);
            sandbox.ok(&["--store", &store, "check", "--deep"]);
            let found = sandbox.json(&["--store", &store, "query", "book status=lent | grep id, price", "--format", "json"]);
            assert_eq!(found[0]["id"], "b000003");
            let waiting = sandbox.json(&["--store", &store, "query", "book shelfmark=m4499 | count(id)", "--format", "json"]);
            assert_eq!(waiting[0]["count(id)"], 1, "the detached job was done");
            let tokens = sandbox.json(&["--store", &store, "token", "ls", "--json"]);
            assert_eq!(tokens.as_array().expect("a list").iter().map(|token| &token["name"]).collect::<Vec<_>>(), ["reports", "desk"]);
        }
        assert!(import.wait().expect("a state").success());
    }
}

#[test]
fn what_is_no_sound_backup_of_this_definition_is_not_restored() {
    let sandbox = Sandbox::new(LOANS);
    sandbox.import(&[&sandbox.write_file("first.csv", books(0, 300)), "--source", "shelf"]);
    let file = sandbox.path("all.stook");
    // through a pipe
    let out = sandbox.command(&["backup", "-"]).output().expect("it runs");
    assert!(out.status.success() && String::from_utf8_lossy(&out.stderr).contains("300 records"));
    std::fs::write(&file, &out.stdout).expect("a file");
    sandbox.ok(&["backup", "--verify", file.to_str().expect("UTF-8")]);
    let new_store = sandbox.path("new.sqlite");
    let refused = |bytes: &[u8], words: &[&str]| {
        let damaged = sandbox.write_file("damaged.stook", bytes);
        sandbox.run(&["backup", "--verify", &damaged]).exits(1).stderr_contains(words);
        sandbox.run(&["--store", "new.sqlite", "restore", &damaged]).exits(1).stderr_contains(words);
        assert!(!new_store.exists(), "nothing is left of it");
    };
    let mut changed = out.stdout.clone();
    changed[200] ^= 1;
    refused(&changed, &["damaged.stook", "damaged in block 1 at byte 17", "checksum"]);
    refused(&out.stdout[..out.stdout.len() - 1], &["incomplete", "block 1 at byte 17"]);
    refused(b"", &["not a backup"]);
    refused(&std::fs::read(sandbox.store()).expect("the store"), &["a store's file, not a backup", "--store"]);
    // another definition
    sandbox.write_definition(&LOANS.replace("      price:", "      more: { type: text }\n      price:"));
    sandbox.run(&["--store", "new.sqlite", "restore", file.to_str().expect("UTF-8")]).exits(1).stderr_contains(&["another catalogue.yaml"]);
    sandbox.write_definition(LOANS);
    let mut restore = Command::new(stook());
    restore.arg("-C").arg(sandbox.folder()).args(["--store", new_store.to_str().expect("UTF-8"), "restore", "-"]);
    let restored = restore.stdin(std::fs::File::open(&file).expect("a file")).output().expect("it runs");
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    assert_eq!(sandbox.json(&["--store", new_store.to_str().expect("UTF-8"), "query", "book | count(id)", "--format", "json"])[0]["count(id)"], 300);
}

#[test]
fn a_damaged_record_is_named_and_the_others_are_backed_up() {
    for sandbox in Sandbox::on_each_store(LOANS) {
        sandbox.import(&[&sandbox.write_file("first.csv", books(0, 30)), "--source", "shelf"]);
        sandbox.sql(&format!(
            "UPDATE r_book SET conflict = {} WHERE key = 'b000002'",
            if sandbox.server_url().is_some() { "ARRAY['no field']" } else { "'no list'" }
        ));
        let file = sandbox.path("most.stook");
        let answer = sandbox.run(&["backup", file.to_str().expect("UTF-8"), "--json"]).exits(2).stderr_contains(&["b000002", "not in the backup"]);
        assert_eq!((&answer.json()["damaged"], &answer.json()["rows"]["records of book"]), (&json!(1), &json!(29)));
        sandbox.run(&["backup", "--verify", file.to_str().expect("UTF-8")]).exits(2).stderr_contains(&["b000002"]);
    }
}

/// The lines of the nightly backup's service that are run, as systemd gives them to the system, with the folders of a test.
fn nightly_commands(sandbox: &Sandbox, backups: &Path) -> Vec<String> {
    let unit = std::fs::read_to_string(repository().join("packaging/debian/stook-backup@.service")).expect("the unit");
    let shown = |path: &Path| path.display().to_string();
    let commands = unit.lines().filter(|line| line.starts_with("Exec")).filter_map(|line| Some(line.split_once('=')?.1));
    commands
        .map(|command| {
            let command = command.replace("/etc/stook/%i", &shown(sandbox.folder())).replace("%i", "library").replace("%%", "%");
            command.replace("/usr/bin/stook", &shown(stook())).replace("/var/backups/stook", &shown(backups))
        })
        .collect()
}

/// What docs/howto/install.md promises: a backup each night, of which those of two weeks are kept, and each of them can be restored.
#[test]
fn the_nightly_backup_keeps_two_weeks_and_is_restored() {
    const DAY: u64 = 86_400;
    for sandbox in Sandbox::on_each_store(LOANS) {
        let folder = sandbox.path("backups");
        std::fs::create_dir(&folder).expect("a folder");
        let commands = nightly_commands(&sandbox, &folder);
        assert_eq!(commands.len(), 2, "a backup, and the removal of old ones: {commands:?}");
        let night = || {
            for command in &commands {
                let output = Command::new("sh").args(["-c", command]).env("STOOK_STORE", sandbox.address()).output().expect("a shell");
                assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
            }
        };
        let names = || -> Vec<String> {
            let entries = std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
            let mut names: Vec<String> = entries.map(|name| name.into_string().expect("UTF-8")).collect();
            names.sort();
            names
        };
        sandbox.import(&[&sandbox.write_file("first.csv", books(0, 40)), "--source", "shelf"]);
        night();
        let made = names();
        assert!(matches!(&made[..], [name] if name.starts_with("library-") && name.ends_with(".backup")), "{made:?}");
        // it was made thirteen days ago, another one sixteen, and a third was interrupted
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs();
        for (name, days) in [("library-20000101.backup", 16), ("library-20000104.backup", 13)] {
            std::fs::copy(folder.join(&made[0]), folder.join(name)).expect("a copy");
            touch(folder.join(name), now - days * DAY);
        }
        std::fs::write(folder.join("library.new"), "cut off").expect("a file");
        sandbox.import(&[&sandbox.write_file("more.csv", books(40, 10)), "--source", "shelf"]);
        night();
        assert_eq!(names(), ["library-20000104.backup", names().last().expect("one of tonight")]);

        for (name, records) in [(&names()[0], 40), (&names()[1], 50)] {
            let store = sandbox.path(&format!("from-{name}.sqlite")).display().to_string();
            let backup = folder.join(name);
            sandbox.ok(&["--store", &store, "restore", backup.to_str().expect("UTF-8")]);
            assert_eq!(sandbox.json(&["--store", &store, "query", "book | count(id)", "--format", "json"])[0]["count(id)"], records, "{name}");
            sandbox.ok(&["--store", &store, "check", "--deep"]);
        }
    }
}
