//! The same catalogue on a server: what comes out is what comes out of a file, whatever happens to processes and server.

use serde_json::Value as Json;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stook_lab::postgres::Server;
use stook_tests::{Dice, LIBRARY, Left, Place, authorities, kill_after, sum_of_outcomes};

const RECORDS: u64 = 12_000;

/// A private server; nothing where PostgreSQL is not installed.
fn server() -> Option<Server> {
    match Server::start(&["deadlock_timeout=200ms"]) {
        Ok(server) => Some(server),
        Err(reason) => {
            println!("skipped: {reason}");
            None
        }
    }
}

fn place(server: &Server) -> Place {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::SeqCst);
    Place::on_server(LIBRARY, format!("{}?schema=place{number}", server.url("postgres")))
}

/// What is left in a file store by the same imports.
fn in_a_file(bytes: &[u8]) -> Left {
    let place = Place::library();
    place.import(&[&place.file("names.mrc", bytes), "--profile", "upsert"]);
    Left::of(&place, 1)
}

#[test]
fn imports_questions_and_exports_are_those_of_a_file() {
    let Some(server) = server() else { return };
    let (first, second) = (authorities(3_000, 1, 1), authorities(3_000, 2, 1_001));
    let broken = [&first[..40_000], b"\x1dgarbage\x1d".as_slice(), &second].concat();
    let places = [Place::library(), place(&server)];
    let seen = places.each_ref().map(|place| {
        let file = place.file("names.mrc", &first);
        place.import(&[&file, "--profile", "upsert"]);
        place.import(&[&place.file("more.mrc", &broken), "--profile", "upsert"]);
        let ask = |query: &str| place.run(&["query", query, "--format", "ndjson", "--limit", "1000000"]).exits(0).out;
        let answers: Vec<Vec<u8>> = [
            "authority heading=Ma* | grep heading, changed | sort changed-, heading",
            "authority kind=personal heading=*an* | sort heading",
            "authority | grep kind | unique",
            "authority changed>=2010-01-01 | count(lccn), min(changed), max(changed)",
            "authority lccn in ['n  00000001 ', 'n  00002500 ']",
        ]
        .map(ask)
        .into();
        let both = [Left::of(place, 1), Left::of(place, 2)];
        place.ok(&["withdraw", "loc", "--collection", "authority", "--key", "n  00000007 "]);
        (answers, both, place.get("authority", "n  00000007 "), place.troubles(2).len())
    });
    let [file, on_server] = seen;
    assert!(file.0 == on_server.0, "questions");
    for (file, on_server) in file.1.iter().zip(&on_server.1) {
        on_server.equals(file);
    }
    assert_eq!((file.2, file.3), (on_server.2, on_server.3));
}

#[test]
fn an_import_killed_anywhere_is_finished_by_resuming_it() {
    let Some(server) = server() else { return };
    let bytes = authorities(RECORDS, 1, 1);
    let wanted = in_a_file(&bytes);
    let mut dice = Dice::new(3);
    let mut killed = 0;
    for _ in 0..30 {
        let place = place(&server);
        let file = place.file("names.mrc", &bytes);
        killed += usize::from(kill_after(place.command(&["import", &file, "--profile", "upsert"]), Duration::from_millis(30 + dice.below(900))));
        if place.json(&["jobs", "--json"]) == Json::Array(Vec::new()) {
            continue;
        }
        killed += usize::from(kill_after(place.command(&["import", "--resume", "1"]), Duration::from_millis(30 + dice.below(500))));
        place.run(&["import", "--resume", "1"]).exits(0);
        assert_eq!(place.job(1)["state"], "completed");
        Left::of(&place, 1).equals(&wanted);
        if killed >= 10 {
            break;
        }
    }
    assert!(killed >= 5, "only {killed} imports were killed at work");
}

#[test]
fn a_server_that_restarts_under_load_loses_nothing() {
    let Some(server) = server() else { return };
    let bytes = authorities(3 * RECORDS, 1, 1);
    let wanted = in_a_file(&bytes);
    for (mode, pause) in [("immediate", 300), ("fast", 500), ("immediate", 800)] {
        let place = place(&server);
        let file = place.file("names.mrc", &bytes);
        let import = place.command(&["import", &file, "--profile", "upsert"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(pause));
        server.stop(mode).unwrap_or_else(|reason| panic!("{reason}\n{}", server.logged()));
        std::thread::sleep(Duration::from_millis(200));
        server.up().unwrap();
        let output = import.wait_with_output().unwrap();
        assert!(output.status.success(), "{mode} after {pause} ms: {}", String::from_utf8_lossy(&output.stderr));
        let job = place.job(1);
        assert_eq!((&job["state"], sum_of_outcomes(&job)), (&"completed".into(), 3 * RECORDS));
        Left::of(&place, 1).equals(&wanted);
    }
}

#[test]
fn processes_that_import_the_same_records_at_once_end_as_one_after_the_other() {
    let Some(server) = server() else { return };
    let place = place(&server);
    // the same keys, other contents: whichever is newer wins
    let files: Vec<String> = (1..=3).map(|seed| place.file(&format!("names{seed}.mrc"), authorities(4_000, seed, 1))).collect();
    let imports: Vec<_> = files.iter().map(|file| place.command(&["import", file, "--profile", "upsert"]).spawn().unwrap()).collect();
    for import in imports {
        let output = import.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let alone = Place::library();
    for file in &files {
        alone.import(&[file, "--profile", "upsert"]);
    }
    assert!(place.export("authority", "marc") == alone.export("authority", "marc"));
    let logged = server.logged();
    for word in ["deadlock", "serialize access"] {
        assert!(!logged.contains(word), "the server logged a {word}");
    }
}

#[test]
fn a_server_that_is_not_prepared_says_so() {
    let Some(server) = server() else { return };
    let url = format!("{}?schema=fresh", server.url("postgres"));
    let place = Place::library();
    let file = place.file("names.mrc", authorities(10, 1, 1));
    let with_store = |arguments: &[&str]| place.run(&[arguments, &["--store", &url]].concat());
    with_store(&["import", &file]).exits(1).complains(&["there is no store in schema `fresh`; `stook prepare` makes it"]);
    with_store(&["prepare"]).exits(0);
    with_store(&["import", &file]).exits(0);
    place.define(&LIBRARY.replace("status:         { path: LDR/05, type: text }", "status:         { path: LDR/05, type: text, index: equal }"));
    with_store(&["jobs"]).exits(1).complains(&["this catalogue.yaml is not the one the store was prepared for; `stook prepare` applies it"]);
    with_store(&["prepare"]).exits(0).complains(&["note: index on `authority.status` is new"]);
    with_store(&["query", "authority status=n"]).exits(0);
}
