//! The same catalogue on a server: what comes out is what comes out of a file, whatever happens to processes and server.

use crate::proxy;

use proxy::Proxy;
use serde_json::Value as Json;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stook_testkit::postgres::TestServer;
use stook_tests::{Dice, ImportEffects, LIBRARY, Sandbox, authorities, kill_after, sum_of_outcomes};

const RECORDS: u64 = 12_000;

/// A private server; nothing where PostgreSQL is not installed.
fn server() -> Option<TestServer> {
    TestServer::for_test(&["deadlock_timeout=200ms"])
}

fn sandbox(server: &TestServer) -> Sandbox {
    Sandbox::on_server(LIBRARY, server.new_store_url())
}

/// What is left in a file store by the same imports.
fn effects_on_file_store(bytes: &[u8]) -> ImportEffects {
    let sandbox = Sandbox::library();
    sandbox.import(&[&sandbox.write_file("names.mrc", bytes), "--profile", "upsert"]);
    ImportEffects::of_job(&sandbox, 1)
}

#[test]
fn imports_questions_and_exports_are_those_of_a_file() {
    let Some(server) = server() else { return };
    let (first, second) = (authorities(3_000, 1, 1), authorities(3_000, 2, 1_001));
    let broken = [&first[..40_000], b"\x1dgarbage\x1d".as_slice(), &second].concat();
    let sandboxes = [Sandbox::library(), sandbox(&server)];
    let seen = sandboxes.each_ref().map(|sandbox| {
        let file = sandbox.write_file("names.mrc", &first);
        sandbox.import(&[&file, "--profile", "upsert"]);
        sandbox.import(&[&sandbox.write_file("more.mrc", &broken), "--profile", "upsert"]);
        let query_rows = |query: &str| sandbox.run(&["query", query, "--format", "ndjson", "--limit", "1000000"]).exits(0).out;
        let answers: Vec<Vec<u8>> = [
            "authority heading=Ma* | grep heading, changed | sort changed-, heading",
            "authority kind=personal heading=*an* | sort heading",
            "authority | grep kind | unique",
            "authority changed>=2010-01-01 | count(lccn), min(changed), max(changed)",
            "authority lccn in ['n  00000001 ', 'n  00002500 ']",
        ]
        .map(query_rows)
        .into();
        let on_each_store = [ImportEffects::of_job(sandbox, 1), ImportEffects::of_job(sandbox, 2)];
        sandbox.ok(&["withdraw", "loc", "--collection", "authority", "--key", "n  00000007 "]);
        (answers, on_each_store, sandbox.get("authority", "n  00000007 "), sandbox.troubles(2).len())
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
    let expected = effects_on_file_store(&bytes);
    let mut dice = Dice::new(3);
    let mut killed = 0;
    for _ in 0..30 {
        let sandbox = sandbox(&server);
        let file = sandbox.write_file("names.mrc", &bytes);
        killed += usize::from(kill_after(sandbox.command(&["import", &file, "--profile", "upsert"]), Duration::from_millis(30 + dice.below(900))));
        if sandbox.json(&["jobs", "--json"]) == Json::Array(Vec::new()) {
            continue;
        }
        killed += usize::from(kill_after(sandbox.command(&["import", "--resume", "1"]), Duration::from_millis(30 + dice.below(500))));
        sandbox.run(&["import", "--resume", "1"]).exits(0);
        assert_eq!(sandbox.job(1)["state"], "completed");
        ImportEffects::of_job(&sandbox, 1).equals(&expected);
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
    let expected = effects_on_file_store(&bytes);
    for (mode, pause) in [("immediate", 300), ("fast", 500), ("immediate", 800)] {
        let sandbox = sandbox(&server);
        let file = sandbox.write_file("names.mrc", &bytes);
        let import = sandbox.command(&["import", &file, "--profile", "upsert"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(pause));
        server.stop(mode).unwrap_or_else(|reason| panic!("{reason}\n{}", server.logged()));
        std::thread::sleep(Duration::from_millis(200));
        server.up().unwrap();
        let output = import.wait_with_output().unwrap();
        assert!(output.status.success(), "{mode} after {pause} ms: {}", String::from_utf8_lossy(&output.stderr));
        let job = sandbox.job(1);
        assert_eq!((&job["state"], sum_of_outcomes(&job)), (&"completed".into(), 3 * RECORDS));
        ImportEffects::of_job(&sandbox, 1).equals(&expected);
    }
}

#[test]
fn processes_that_import_the_same_records_at_once_end_as_one_after_the_other() {
    let Some(server) = server() else { return };
    let sandbox = sandbox(&server);
    // the same keys, other contents: whichever is newer wins
    let files: Vec<String> = (1..=3).map(|seed| sandbox.write_file(&format!("names{seed}.mrc"), authorities(4_000, seed, 1))).collect();
    let imports: Vec<_> = files.iter().map(|file| sandbox.command(&["import", file, "--profile", "upsert"]).spawn().unwrap()).collect();
    for import in imports {
        let output = import.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let alone = Sandbox::library();
    for file in &files {
        alone.import(&[file, "--profile", "upsert"]);
    }
    assert!(sandbox.export("authority", "marc") == alone.export("authority", "marc"));
    let logged = server.logged();
    for word in ["deadlock", "serialize access"] {
        assert!(!logged.contains(word), "the server logged a {word}");
    }
}

#[test]
fn an_unprepared_server_is_reported() {
    let Some(server) = server() else { return };
    let url = format!("{}?schema=fresh", server.url("postgres"));
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("names.mrc", authorities(10, 1, 1));
    let with_store = |arguments: &[&str]| sandbox.run(&[arguments, &["--store", &url]].concat());
    with_store(&["import", &file]).exits(1).stderr_contains(&["there is no store in schema `fresh`; create it with `stook prepare`"]);
    with_store(&["prepare"]).exits(0);
    with_store(&["import", &file]).exits(0);
    sandbox.write_definition(
        &LIBRARY.replace("status:         { path: LDR/05, type: text }", "status:         { path: LDR/05, type: text, index: equal }"),
    );
    with_store(&["query", "authority"]).exits(1).stderr_contains(&[
        "this catalogue.yaml is not the one the store was prepared for",
        "index on `authority.status` is new",
        "`stook prepare` applies it",
    ]);
    with_store(&["jobs"]).exits(0);
    with_store(&["prepare"]).exits(0).stderr_contains(&["note: index on `authority.status` is new"]);
    with_store(&["query", "authority status=n"]).exits(0);
}

/// How long eight workers are let loose on the same keys.
const TOGETHER: Duration = Duration::from_secs(60);

#[test]
fn eight_workers_on_the_same_keys_never_disturb_each_other_or_a_search() {
    let Some(server) = server() else { return };
    let url = server.new_store_url();
    let sandbox = Sandbox::on_server(LIBRARY, url.clone());
    let mut workers: Vec<_> = (0..4).map(|_| sandbox.command(&["work", "--workers", "2"]).stderr(Stdio::null()).spawn().unwrap()).collect();
    let ended = AtomicBool::new(false);
    let files = std::thread::scope(|scope| {
        // a search that waits for anybody's lock for a millisecond fails
        let impatient = format!("{url}&options=-clock_timeout%3D1");
        let (sandbox, ended) = (&sandbox, &ended);
        scope.spawn(move || {
            while !ended.load(Ordering::SeqCst) {
                for question in
                    ["authority heading=M* | sort heading | grep heading", "authority kind=personal | count(lccn)", "authority lccn='n  00000007 '"]
                {
                    sandbox.run(&["query", question, "--store", &impatient]).exits(0);
                }
            }
        });
        let mut files: Vec<String> = Vec::new();
        let began = Instant::now();
        while began.elapsed() < TOGETHER {
            let file = sandbox.write_file(&format!("names{}.mrc", files.len()), authorities(1_500, files.len() as u64 + 1, 1));
            sandbox.ok(&["import", &file, "--profile", "upsert", "--detach"]);
            files.push(file);
            std::thread::sleep(Duration::from_millis(100));
        }
        for worker in &mut workers {
            assert!(worker.try_wait().unwrap().is_none(), "a worker has ended");
            assert!(Command::new("kill").arg(worker.id().to_string()).status().unwrap().success());
            assert!(worker.wait().unwrap().success());
        }
        sandbox.run(&["work", "--drain"]).exits(0);
        ended.store(true, Ordering::SeqCst);
        files
    });
    let jobs = sandbox.json(&["jobs", "--json", "--limit", "100000"]);
    let jobs = jobs.as_array().unwrap();
    assert!(jobs.len() == files.len() && files.len() > 50, "{} jobs of {} files", jobs.len(), files.len());
    for job in jobs {
        assert_eq!((&job["state"], sum_of_outcomes(job)), (&"completed".into(), 1_500), "{job}");
    }
    let alone = Sandbox::library();
    alone.import(&[&["--profile", "upsert"], files.iter().map(String::as_str).collect::<Vec<_>>().as_slice()].concat());
    assert!(sandbox.export("authority", "marc") == alone.export("authority", "marc"), "the newest of each wins");
    let logged = server.logged();
    for word in ["deadlock", "serialize access", "lock timeout"] {
        assert!(!logged.contains(word), "the server logged a {word}");
    }
}

#[test]
fn a_connection_lost_during_a_commit_loses_nothing() {
    let Some(server) = server() else { return };
    let bytes = authorities(RECORDS, 1, 1);
    let expected = effects_on_file_store(&bytes);
    for after in [false, true] {
        let url = server.new_store_url();
        let sandbox = Sandbox::on_server(LIBRARY, url.clone());
        let file = sandbox.write_file("names.mrc", &bytes);
        sandbox.ok(&["import", &file, "--profile", "upsert", "--detach"]);
        let proxy = Proxy::start(&server.url(""), after, 3);
        let address = url.replace(&proxy.target, &proxy.address);
        sandbox.run(&["import", "--resume", "1", "--store", &address]).exits(0);
        assert!(proxy.cut() >= 3, "{} connections were cut", proxy.cut());
        ImportEffects::of_job(&sandbox, 1).equals(&expected);
    }
}

#[test]
fn a_statement_that_times_out_stops_an_import_that_can_be_resumed() {
    let Some(server) = server() else { return };
    let bytes = authorities(RECORDS, 1, 1);
    let url = server.new_store_url();
    let sandbox = Sandbox::on_server(LIBRARY, url.clone());
    sandbox.ok(&["import", &sandbox.write_file("names.mrc", &bytes), "--profile", "upsert", "--detach"]);
    // a table that takes longer than a statement may, on any machine
    let schema = url.split("schema=").nth(1).unwrap();
    let sql = |statements: &str| server.sql(&format!("SET search_path TO {schema}; {statements}")).unwrap();
    sql("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$; \
         CREATE TRIGGER slow BEFORE INSERT ON r_authority FOR EACH STATEMENT EXECUTE FUNCTION slow()");
    let hurried = format!("{url}&options=-cstatement_timeout%3D250");
    sandbox.run(&["import", "--resume", "1", "--store", &hurried]).exits(1).stderr_contains(&["statement timeout", "stook import --resume 1"]);
    sql("DROP TRIGGER slow ON r_authority");
    sandbox.run(&["import", "--resume", "1"]).exits(0);
    ImportEffects::of_job(&sandbox, 1).equals(&effects_on_file_store(&bytes));
}

#[test]
fn a_full_disk_of_the_server_stops_an_import_that_can_be_resumed() {
    let Some(server) = server() else { return };
    let small = server.folder().join("small");
    std::fs::create_dir(&small).unwrap();
    let mount = |options: &str| {
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&small).output();
        status.is_ok_and(|output| output.status.success())
    };
    if !mount("size=24m") {
        stook_testkit::skip::left_out("only root makes small disks");
        return;
    }
    let unmount = Unmount(small.clone());
    assert!(Command::new("chown").arg("--reference").arg(server.folder()).arg(&small).status().unwrap().success());
    server.sql(&format!("CREATE TABLESPACE small LOCATION '{}'", small.display())).unwrap();
    server.sql("ALTER DATABASE postgres SET default_tablespace = small").unwrap();
    let bytes = authorities(3 * RECORDS, 1, 1);
    let sandbox = sandbox(&server);
    let file = sandbox.write_file("names.mrc", &bytes);
    sandbox.run(&["import", &file, "--profile", "upsert"]).exits(1).stderr_contains(&["the disk is full", "stook import --resume 1"]);
    assert!(mount("remount,size=1g"));
    sandbox.run(&["import", "--resume", "1"]).exits(0);
    ImportEffects::of_job(&sandbox, 1).equals(&effects_on_file_store(&bytes));
    server.stop("immediate").unwrap();
    drop(unmount);
}

struct Unmount(std::path::PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_role_that_owns_only_its_schema_is_enough() {
    let Some(server) = server() else { return };
    if let Err(reason) = server.sql(
        "REVOKE ALL ON SCHEMA public FROM PUBLIC; REVOKE CREATE ON DATABASE postgres FROM PUBLIC; \
         CREATE ROLE librarian LOGIN; CREATE SCHEMA library AUTHORIZATION librarian",
    ) {
        return stook_testkit::skip::missing(&reason);
    }
    let url = format!("{}?schema=library", server.url("postgres").replace("stook@", "librarian@"));
    let sandbox = Sandbox::on_server(LIBRARY, url.clone());
    let (first, second) = (authorities(3_000, 1, 1), authorities(3_000, 2, 1_001));
    sandbox.import(&[&sandbox.write_file("names.mrc", &first), "--profile", "upsert"]);
    sandbox.import(&[&sandbox.write_file("more.mrc", &second), "--profile", "upsert"]);
    let alone = Sandbox::library();
    alone.import(&[&alone.write_file("names.mrc", &first), "--profile", "upsert"]);
    alone.import(&[&alone.write_file("more.mrc", &second), "--profile", "upsert"]);
    ImportEffects::of_job(&sandbox, 2).equals(&ImportEffects::of_job(&alone, 2));
    let elsewhere = url.replace("schema=library", "schema=elsewhere");
    sandbox.run(&["prepare", "--store", &elsewhere]).exits(1).stderr_contains(&["permission denied"]);
}

#[test]
fn processes_that_prepare_at_once_prepare_once() {
    let Some(server) = server() else { return };
    let sandboxes: Vec<Sandbox> = (0..6).map(|_| Sandbox::library()).collect();
    let more = LIBRARY.replace("status:         { path: LDR/05, type: text }", "status:         { path: LDR/05, type: text, index: equal }");
    let url = server.new_store_url();
    for definition in [LIBRARY, &more] {
        sandboxes.iter().for_each(|sandbox| sandbox.write_definition(definition));
        let running: Vec<_> = sandboxes.iter().map(|sandbox| sandbox.command(&["prepare", "--store", &url]).spawn().unwrap()).collect();
        let mut notes = 0;
        for process in running {
            let output = process.wait_with_output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{stderr}");
            notes += usize::from(stderr.contains("note:"));
        }
        assert_eq!(notes, usize::from(definition != LIBRARY), "one of them applies what is new");
    }
}
