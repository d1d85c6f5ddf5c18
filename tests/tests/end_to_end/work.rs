//! Imports left to workers: done once, by whoever is alive, on both stores.

use serde_json::Value as Json;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use stook_testkit::postgres::TestServer;
use stook_tests::{ImportEffects, LIBRARY, Sandbox, authorities, gzip, touch};

/// Enough to be interrupted in.
const RECORDS: u64 = 60_000;

/// Where a sandbox's records are.
#[derive(Debug, Clone, Copy)]
enum Kind {
    File,
    Server,
}

/// Both kinds, where PostgreSQL is installed.
fn kinds() -> Vec<Kind> {
    if TestServer::shared().is_some() { vec![Kind::File, Kind::Server] } else { vec![Kind::File] }
}

fn sandbox(kind: Kind) -> Sandbox {
    match (kind, TestServer::shared()) {
        (Kind::Server, Some(server)) => Sandbox::on_server(LIBRARY, server.new_store_url()),
        _ => Sandbox::library(),
    }
}

fn sandboxes() -> Vec<Sandbox> {
    kinds().into_iter().map(sandbox).collect()
}

/// A sandbox, and a command at work there on job 1 that was sent a signal before the job had ended.
fn signalled_at_work(kind: Kind, bytes: &[u8], prepare: impl Fn(&Sandbox) -> Child, name: &str) -> (Sandbox, Child) {
    for _ in 0..20 {
        let sandbox = sandbox(kind);
        sandbox.write_file("names.mrc", bytes);
        let mut child = prepare(&sandbox);
        wait_until_started(&sandbox, 1);
        signal(&child, name);
        if matches!(name, "-KILL" | "-INT" | "-TERM") {
            wait_for_exit(&mut child);
        }
        // who is asked to end says so, who is killed or stopped cannot
        if sandbox.job(1)["state"] == if matches!(name, "-INT" | "-TERM") { "interrupted" } else { "running" } {
            return (sandbox, child);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
    panic!("it was always done too soon");
}

/// Workers on a detached import.
fn workers<'w>(arguments: &'w [&str], bytes: &'w [u8]) -> impl Fn(&Sandbox) -> Child + 'w {
    move |sandbox| {
        import_detached(sandbox, bytes);
        sandbox.command(&[&["work"], arguments].concat()).stderr(Stdio::null()).spawn().unwrap()
    }
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill runs").success());
}

fn wait_for_exit(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().expect("a state") {
            return status;
        }
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until some documents of a job are in the store.
fn wait_until_started(sandbox: &Sandbox, job: u64) {
    let has_started = || {
        let answer = sandbox.run(&["jobs", "--json"]);
        let jobs = if answer.code == 0 { answer.json() } else { Json::Null };
        jobs.as_array().into_iter().flatten().any(|entry| entry["id"] == job && entry["counts"]["documents"] != 0)
    };
    while !has_started() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn effects_of_undisturbed_import(bytes: &[u8]) -> ImportEffects {
    let sandbox = Sandbox::library();
    sandbox.import(&[&sandbox.write_file("names.mrc", bytes), "--profile", "upsert"]);
    ImportEffects::of_job(&sandbox, 1)
}

fn import_detached(sandbox: &Sandbox, bytes: &[u8]) -> String {
    let file = sandbox.write_file("names.mrc", bytes);
    let job = sandbox.json(&["import", &file, "--profile", "upsert", "--detach", "--json"]);
    assert_eq!((&job["state"], &job["counts"]["documents"]), (&"queued".into(), &0.into()));
    file
}

#[test]
fn a_detached_import_leaves_what_one_in_the_foreground_leaves() {
    let bytes = authorities(10_000, 1, 1);
    let expected = effects_of_undisturbed_import(&bytes);
    for sandbox in sandboxes() {
        import_detached(&sandbox, &bytes);
        let ended = sandbox.run(&["work", "--drain", "--json"]).exits(0).lines();
        assert_eq!((ended.len(), &ended[0]["id"], &ended[0]["state"]), (1, &1.into(), &"completed".into()));
        ImportEffects::of_job(&sandbox, 1).equals(&expected);
        assert_eq!(sandbox.run(&["work", "--drain", "--json"]).exits(0).lines().len(), 0, "nothing is left to do");
    }
}

#[test]
fn workers_wait_for_jobs_and_end_when_terminated() {
    for sandbox in sandboxes() {
        let mut workers = sandbox.command(&["work", "--json"]).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        // a worker may have begun before the import says what it left
        sandbox.ok(&["import", &sandbox.write_file("names.mrc", authorities(500, 1, 1)), "--profile", "upsert", "--detach"]);
        sandbox.ok(&["import", &sandbox.write_file("more.mrc", authorities(500, 2, 501)), "--detach", "--tenant", "other"]);
        let deadline = Instant::now() + Duration::from_secs(30);
        while [1, 2].iter().any(|job| sandbox.job(*job)["state"] != "completed") {
            assert!(Instant::now() < deadline, "the jobs are not done");
            std::thread::sleep(Duration::from_millis(20));
        }
        signal(&workers, "-INT");
        assert!(wait_for_exit(&mut workers).success());
    }
}

#[test]
fn chunks_of_a_killed_worker_are_taken_over() {
    let bytes = authorities(RECORDS, 1, 1);
    let expected = effects_of_undisturbed_import(&bytes);
    for kind in kinds() {
        let (sandbox, _) = signalled_at_work(kind, &bytes, workers(&["--lease", "1"], &bytes), "-KILL");
        sandbox.run(&["work", "--drain", "--lease", "1"]).exits(0);
        ImportEffects::of_job(&sandbox, 1).equals(&expected);
    }
}

#[test]
fn a_worker_that_wakes_up_too_late_writes_nothing_twice() {
    let bytes = authorities(RECORDS, 1, 1);
    let expected = effects_of_undisturbed_import(&bytes);
    for kind in kinds() {
        let (sandbox, mut sleeper) = signalled_at_work(kind, &bytes, workers(&["--lease", "1", "--drain"], &bytes), "-STOP");
        // a file's writer that sleeps in a transaction is waited for: that lock has no lease
        std::thread::sleep(Duration::from_millis(1_500));
        let mut second_worker = sandbox.command(&["work", "--lease", "1", "--drain"]).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1_500));
        signal(&sleeper, "-CONT");
        assert!(wait_for_exit(&mut second_worker).success() && wait_for_exit(&mut sleeper).success());
        ImportEffects::of_job(&sandbox, 1).equals(&expected);
    }
}

#[test]
fn terminated_workers_finish_their_chunks_and_return_the_others() {
    let bytes = authorities(RECORDS, 1, 1);
    let expected = effects_of_undisturbed_import(&bytes);
    for kind in kinds() {
        let (sandbox, mut child) = signalled_at_work(kind, &bytes, workers(&[], &bytes), "-TERM");
        assert!(wait_for_exit(&mut child).success());
        for chunk in sandbox.queue() {
            assert_eq!((&chunk["state"], &chunk["attempts"]), (&"waiting".into(), &0.into()), "{chunk}");
        }
        sandbox.run(&["work", "--drain"]).exits(0);
        ImportEffects::of_job(&sandbox, 1).equals(&expected);
    }
}

#[test]
fn a_terminated_import_can_be_resumed() {
    let bytes = authorities(RECORDS, 1, 1);
    let expected = effects_of_undisturbed_import(&bytes);
    for kind in kinds() {
        let import =
            |sandbox: &Sandbox| sandbox.command(&["import", sandbox.path("names.mrc").to_str().unwrap(), "--profile", "upsert"]).spawn().unwrap();
        let (sandbox, import) = signalled_at_work(kind, &bytes, import, "-INT");
        let output = import.wait_with_output().unwrap();
        let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{output_text}");
        assert_explains_interruption(&sandbox, &output_text);
        sandbox.run(&["import", "--resume", "1"]).exits(0);
        ImportEffects::of_job(&sandbox, 1).equals(&expected);
    }
}

/// Whoever interrupts an import hears what is done, what will happen without them, and both ways to end it.
fn assert_explains_interruption(sandbox: &Sandbox, output_text: &str) {
    let job = sandbox.job(1);
    let (done, planned) = (job["documents"].as_u64().unwrap(), job["planned"].as_u64().unwrap());
    assert!(output_text.contains("job 1 was interrupted: "), "{output_text}");
    let numbers = if job["progress"]["complete"] == true {
        assert!(output_text.contains("workers will process them (`stook work`"), "{output_text}");
        format!("{} of {} documents are committed", spaced(done), spaced(planned))
    } else {
        assert!(output_text.contains("to read the rest of the files"), "{output_text}");
        format!("{} of the {} documents read so far are committed", spaced(done), spaced(planned))
    };
    for words in [&numbers, "stook import --resume 1", "stook cancel 1"] {
        assert!(output_text.contains(words), "{words} is missing in {output_text}");
    }
}

/// A number as it is shown.
fn spaced(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
    groups.join(" ")
}

/// Chunks of a compressed file carry their bytes, so it is cut in several steps, between which it can be interrupted.
#[test]
fn an_import_interrupted_while_splitting_says_how_to_read_the_remaining_file() {
    let bytes = gzip(&authorities(RECORDS, 1, 1));
    let expected = effects_of_undisturbed_import(&authorities(RECORDS, 1, 1));
    for kind in kinds() {
        let import =
            |sandbox: &Sandbox| sandbox.command(&["import", sandbox.path("names.mrc").to_str().unwrap(), "--profile", "upsert"]).spawn().unwrap();
        let (sandbox, import) = signalled_at_work(kind, &bytes, import, "-INT");
        let output_text = String::from_utf8_lossy(&import.wait_with_output().unwrap().stderr).into_owned();
        assert_explains_interruption(&sandbox, &output_text);
        // workers do what was read, and are not thought to be at work after that
        sandbox.run(&["work", "--drain"]).exits(0);
        let job = sandbox.job(1);
        assert_eq!((&job["chunks_left"], &job["chunks_working"], &job["documents"]), (&0.into(), &0.into(), &job["planned"]), "{job}");
        if job["state"] != "completed" {
            assert!(sandbox.ok(&["jobs"]).contains("no worker is processing it now"), "{job}");
            sandbox.run(&["import", "--resume", "1"]).exits(0);
        }
        ImportEffects::of_job(&sandbox, 1).equals(&expected);
    }
}

#[test]
fn a_cancelled_job_keeps_what_is_done_and_reports_how_much() {
    let bytes = authorities(RECORDS, 1, 1);
    for kind in kinds() {
        let (sandbox, mut workers) = signalled_at_work(kind, &bytes, workers(&[], &bytes), "-TERM");
        assert!(wait_for_exit(&mut workers).success());
        let stopped = sandbox.job(1);
        let done = stopped["documents"].as_u64().unwrap();
        assert_eq!((&stopped["planned"], &stopped["counts"]["documents"], &stopped["chunks_working"]), (&RECORDS.into(), &done.into(), &0.into()));
        assert!(0 < done && done < RECORDS, "{stopped}");
        let of_all = format!("{} of {}", spaced(done), spaced(RECORDS));
        assert!(sandbox.ok(&["jobs"]).contains(&of_all));
        let answer = sandbox.run(&["cancel", "1", "--json"]).exits(0).json();
        assert_eq!((&answer["state"], &answer["documents"], &answer["planned"]), (&"cancelled".into(), &done.into(), &RECORDS.into()), "{answer}");
        assert_eq!(answer["reason"], "cancelled by `stook cancel`");
        assert_eq!((sandbox.job(1), sandbox.queue().len()), (answer, 0));
        let listed = sandbox.ok(&["jobs"]);
        assert!(listed.contains("cancelled") && listed.contains(&of_all), "{listed}");
        // nobody goes on with it
        assert_eq!(sandbox.run(&["work", "--drain", "--json"]).exits(0).lines().len(), 0);
        assert!(sandbox.ok(&["import", "--resume", "1"]).contains("job 1 is already cancelled; nothing to do"));
        assert_eq!((sandbox.journal(1).len() as u64, sandbox.records("authority").len() as u64), (done, done));
        sandbox.run(&["cancel", "1"]).exits(1).stderr_contains(&["job 1 has already ended: cancelled"]);
        sandbox.run(&["cancel", "77"]).exits(1).stderr_contains(&["no job 77"]);
        sandbox.run(&["cancel", "first"]).exits(64);
    }
}

/// One worker was killed and still has leases, another one is at work.
#[test]
fn a_job_is_cancelled_whatever_became_of_its_workers() {
    let bytes = authorities(RECORDS, 1, 1);
    for kind in kinds() {
        let (sandbox, _killed) = signalled_at_work(kind, &bytes, workers(&[], &bytes), "-KILL");
        let mut other = sandbox.command(&["work", "--workers", "2"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let answer = sandbox.run(&["cancel", "1", "--json"]).exits(0).json();
        assert_eq!((&answer["state"], &answer["chunks_left"], &answer["chunks_working"]), (&"cancelled".into(), &0.into(), &0.into()), "{answer}");
        let done = answer["documents"].as_u64().unwrap();
        // it waits for other jobs; what it had in hand is not written
        std::thread::sleep(Duration::from_millis(500));
        signal(&other, "-TERM");
        assert!(wait_for_exit(&mut other).success());
        assert_eq!((sandbox.job(1), sandbox.queue().len()), (answer, 0));
        assert_eq!((sandbox.journal(1).len() as u64, sandbox.records("authority").len() as u64), (done, done));
    }
}

#[test]
fn an_import_cancelled_by_another_process_reports_that_and_offers_no_resumption() {
    for (kind, bytes) in kinds().into_iter().flat_map(|kind| [(kind, authorities(RECORDS, 1, 1)), (kind, gzip(&authorities(RECORDS, 1, 1)))]) {
        let cancelled = (0..20).find_map(|_| {
            let sandbox = sandbox(kind);
            let file = sandbox.write_file("names.mrc", &bytes);
            let import = sandbox.command(&["import", &file, "--profile", "upsert"]).spawn().unwrap();
            wait_until_started(&sandbox, 1);
            let answer = sandbox.run(&["cancel", "1"]);
            let output = import.wait_with_output().unwrap();
            (answer.code == 0).then_some((sandbox, answer, output))
        });
        let (sandbox, answer, output) = cancelled.expect("it was always done too soon");
        assert!(answer.text().starts_with("job 1 cancelled; ") && answer.text().contains("of its documents are committed and remain"), "{answer:?}");
        let output_text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(1), "{output_text}");
        assert!(output_text.contains("job 1: cancelled") && !output_text.contains("can go on") && !output_text.contains("--resume"), "{output_text}");
        let job = sandbox.job(1);
        assert_eq!((&job["state"], sandbox.journal(1).len() as u64), (&"cancelled".into(), job["documents"].as_u64().unwrap()), "{job}");
    }
}

#[test]
fn chunks_that_keep_failing_are_dead_until_retried_by_hand() {
    let bytes = authorities(2_500, 1, 1);
    let expected = effects_of_undisturbed_import(&bytes);
    for sandbox in sandboxes() {
        let file = import_detached(&sandbox, &bytes);
        let time = std::fs::metadata(&file).unwrap().modified().unwrap();
        touch(&file, 1_000_000_000);
        let began = Instant::now();
        sandbox.run(&["work", "--drain"]).exits(1);
        assert!(began.elapsed() >= Duration::from_secs(4), "each failure is followed by a longer pause");
        let dead = sandbox.queue();
        assert!(dead.len() > 1);
        assert_eq!(dead.iter().map(|chunk| chunk["documents"].as_u64().unwrap()).sum::<u64>(), 2_500);
        for chunk in &dead {
            assert_eq!((&chunk["state"], &chunk["attempts"]), (&"dead".into(), &3.into()), "{chunk}");
            assert!(chunk["reason"].as_str().unwrap().contains("has changed since the job was created"), "{chunk}");
        }
        assert_eq!(sandbox.job(1)["state"], "failed");
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        sandbox.ok(&["queue", "retry", "1"]);
        sandbox.run(&["work", "--drain"]).exits(0);
        ImportEffects::of_job(&sandbox, 1).equals(&expected);
    }
}

#[test]
fn draining_workers_report_failed_documents_by_their_exit_code() {
    for sandbox in sandboxes() {
        let good = authorities(10, 1, 1);
        import_detached(&sandbox, &[&good[..], b"00026garbage\x1d"].concat());
        sandbox.run(&["work", "--drain"]).exits(2);
    }
}

/// Who collects the logs of workers finds a line for each chunk and pass, and tables of them.
#[test]
fn workers_log_their_stages() {
    for sandbox in sandboxes() {
        import_detached(&sandbox, &authorities(3_000, 1, 1));
        let worked = sandbox.run(&["work", "--drain"]).exits(0);
        let lines: Vec<Json> = worked.err.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let stages: Vec<&Json> = lines.iter().filter(|line| line["event"] == "stage").collect();
        assert!(!stages.is_empty(), "{}", worked.err);
        assert_eq!(stages.iter().map(|line| line["created"].as_u64().unwrap_or(0)).sum::<u64>(), 3_000);
        assert!(stages.iter().all(|line| line["seconds"].is_number() && line["tenant"] == "main" && line["stage"].is_string()), "{stages:?}");
        let table = sandbox.ok(&["lab", "kpi", &sandbox.write_file("work.log", &worked.err)]);
        assert!(table.contains("chunk"), "{table}");
    }
}

/// A store that takes a few milliseconds for each record, on a server that ends statements that take too long.
fn slow_store(server: &TestServer) -> Sandbox {
    server.sql("CREATE DATABASE slow").expect("a database");
    server.sql("ALTER DATABASE slow SET statement_timeout = '400ms'").expect("a limit");
    let url = format!("{}?schema=slow", server.url("slow"));
    let sandbox = Sandbox::on_server(LIBRARY, url);
    let slow = "CREATE FUNCTION slow.down() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.002); RETURN NEW; END $$; \
                DO $$ DECLARE own text; BEGIN SELECT tablename INTO own FROM pg_tables WHERE schemaname = 'slow' AND tablename LIKE '%authority'; \
                EXECUTE format('CREATE TRIGGER slow BEFORE INSERT OR UPDATE ON slow.%I FOR EACH ROW EXECUTE FUNCTION slow.down()', own); END $$";
    let mut command = Command::new(server.program("psql"));
    let status = command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &server.url("slow"), "-c", slow]).status();
    assert!(status.expect("psql runs").success());
    sandbox
}

/// What became of chunks that were far too large, in the system that this one replaces: requests timed out, went back into the
/// queue, and timed out again, while everything after them waited.
#[test]
fn chunks_too_large_for_a_slow_store_are_saved_cut_smaller_and_done() {
    let Some(server) = TestServer::shared() else { return };
    let bytes = authorities(1_500, 1, 1);
    let expected = effects_of_undisturbed_import(&bytes);
    let sandbox = slow_store(server);
    import_detached(&sandbox, &bytes);
    let small = sandbox.write_file("small.mrc", authorities(40, 1, 50_000));
    sandbox.ok(&["import", &small, "--profile", "upsert", "--detach", "--tenant", "two"]);
    let began = Instant::now();
    sandbox.run(&["work", "--drain"]).exits(1);
    // no loop of timeouts: each chunk was tried three times with growing pauses, and others were not kept waiting by it
    assert!(began.elapsed() >= Duration::from_secs(5));
    assert_eq!(sandbox.job(2)["state"], "completed");
    let dead = sandbox.queue();
    assert!(dead.len() >= 3, "{dead:?}");
    for chunk in &dead {
        assert_eq!((&chunk["job"], &chunk["state"], &chunk["attempts"]), (&1.into(), &"dead".into(), &3.into()), "{chunk}");
        assert!(chunk["reason"].as_str().unwrap().contains("timeout"), "{chunk}");
    }
    // saved, out of the way of everybody
    let (dump, before) = (sandbox.path("dump.ndjson"), sandbox.job(1));
    let dump = dump.to_str().unwrap();
    sandbox.ok(&["queue", "dump", "1", "-o", dump]);
    assert_eq!(std::fs::read_to_string(dump).unwrap().lines().count(), dead.len());
    // put back, cut smaller, done
    sandbox.ok(&["queue", "load", dump]);
    for chunk in sandbox.queue() {
        sandbox.ok(&["queue", "rechunk", &format!("1.{}", chunk["ordinal"]), "--documents", "50"]);
    }
    let queue = sandbox.queue();
    assert_eq!(queue.iter().map(|chunk| chunk["documents"].as_u64().unwrap()).sum::<u64>(), 1_500);
    assert!(queue.iter().all(|chunk| chunk["state"] == "waiting" && chunk["documents"].as_u64().unwrap() <= 50), "{queue:?}");
    sandbox.run(&["work", "--drain"]).exits(0);
    // whose it is, what for, which documents of which file: as if nothing had happened
    for part in ["tenant", "source", "profile", "files"] {
        assert_eq!(sandbox.job(1)[part], before[part]);
    }
    ImportEffects::of_job(&sandbox, 1).equals(&expected);
    sandbox.run(&["queue", "load", dump]).exits(1);
    ImportEffects::of_job(&sandbox, 1).equals(&expected);
}
