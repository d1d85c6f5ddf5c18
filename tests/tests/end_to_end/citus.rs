//! The same catalogue on a Citus cluster: what comes out is what comes out of a file, whoever is killed meanwhile. Runs where
//! `STOOK_TEST_CITUS_URL` names a database of the coordinator that has the extension.

use serde_json::Value as Json;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stook_tests::{Dice, ImportEffects, LIBRARY, Sandbox, authorities, kill_after};

const RECORDS: u64 = 12_000;

fn sandbox() -> Option<Sandbox> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let Ok(cluster) = std::env::var("STOOK_TEST_CITUS_URL") else {
        stook_testkit::skip::left_out("STOOK_TEST_CITUS_URL is not set");
        return None;
    };
    let number = NUMBER.fetch_add(1, Ordering::SeqCst);
    Some(Sandbox::on_server(LIBRARY, format!("{cluster}?schema=e{}_{number}", std::process::id())))
}

fn effects_on_file_store(bytes: &[u8]) -> ImportEffects {
    let sandbox = Sandbox::library();
    sandbox.import(&[&sandbox.write_file("names.mrc", bytes), "--profile", "upsert"]);
    ImportEffects::of_job(&sandbox, 1)
}

#[test]
fn imports_that_are_killed_are_finished_by_resuming_them() {
    let bytes = authorities(RECORDS, 1, 1);
    let expected = effects_on_file_store(&bytes);
    let mut dice = Dice::new(5);
    let mut killed = 0;
    while killed < 5 {
        let Some(sandbox) = sandbox() else { return };
        let file = sandbox.write_file("names.mrc", &bytes);
        killed += usize::from(kill_after(sandbox.command(&["import", &file, "--profile", "upsert"]), Duration::from_millis(100 + dice.below(1_500))));
        if sandbox.json(&["jobs", "--json"]) == Json::Array(Vec::new()) {
            continue;
        }
        killed += usize::from(kill_after(sandbox.command(&["import", "--resume", "1"]), Duration::from_millis(50 + dice.below(500))));
        sandbox.run(&["import", "--resume", "1"]).exits(0);
        ImportEffects::of_job(&sandbox, 1).equals(&expected);
    }
}

#[test]
fn workers_on_the_same_keys_end_as_one_after_the_other() {
    let Some(sandbox) = sandbox() else { return };
    let files: Vec<String> = (1..=4).map(|seed| sandbox.write_file(&format!("names{seed}.mrc"), authorities(3_000, seed, 1))).collect();
    for file in &files {
        sandbox.ok(&["import", file, "--profile", "upsert", "--detach"]);
    }
    let mut workers: Vec<_> =
        (0..3).map(|_| sandbox.command(&["work", "--workers", "2", "--lease", "2"]).stderr(Stdio::null()).spawn().unwrap()).collect();
    std::thread::sleep(Duration::from_millis(700));
    workers[0].kill().unwrap();
    sandbox.run(&["work", "--drain", "--lease", "2"]).exits(0);
    for worker in &mut workers {
        let _ = worker.kill();
        worker.wait().unwrap();
    }
    sandbox.run(&["work", "--drain", "--lease", "2"]).exits(0);
    for job in sandbox.json(&["jobs", "--json"]).as_array().unwrap() {
        assert_eq!((&job["state"], &job["counts"]["documents"]), (&"completed".into(), &3_000.into()), "{job}");
    }
    let alone = Sandbox::library();
    for file in &files {
        alone.import(&[file, "--profile", "upsert"]);
    }
    assert!(sandbox.export("authority", "marc") == alone.export("authority", "marc"), "the newest of each wins");
}
