//! An import killed anywhere is finished by `--resume`, and nobody can tell afterwards that it was killed.

use std::path::Path;
use std::time::{Duration, Instant};
use stook_tests::{Dice, ImportEffects, Sandbox, authorities, gzip, kill_after, sum_of_outcomes};

const RECORDS: u64 = 20_000;

/// An import that is going to be disturbed.
struct Import {
    bytes: Vec<u8>,
    name: &'static str,
    /// A store to begin with.
    store: Option<Vec<u8>>,
}

impl Import {
    fn prepared_sandbox(&self) -> (Sandbox, String) {
        let sandbox = Sandbox::library();
        let file = sandbox.write_file(self.name, &self.bytes);
        if let Some(store) = &self.store {
            std::fs::write(sandbox.store(), store).unwrap();
        }
        (sandbox, file)
    }

    fn undisturbed(&self) -> (ImportEffects, u64, Duration) {
        let (sandbox, file) = self.prepared_sandbox();
        let began = Instant::now();
        let job = sandbox.import(&[&file, "--profile", "upsert"]);
        let duration = began.elapsed();
        let number = job["id"].as_u64().unwrap();
        (ImportEffects::of_job(&sandbox, number), number, duration)
    }

    /// Kills the import and its resumptions at `kills` moments, over as many imports as it takes.
    fn assert_survives(&self, kills: usize, seed: u64) {
        let (expected, number, duration) = self.undisturbed();
        let mut dice = Dice::new(seed);
        let (mut killed, mut imports) = (0, 0);
        while killed < kills {
            imports += 1;
            assert!(imports < 500, "the import ends before it can be killed: {killed} kills in {imports} imports");
            killed += self.import_with_kills(number, &expected, duration, kills - killed, &mut dice);
        }
        println!("{killed} kills over {imports} imports of {duration:?} each");
    }

    /// One import, killed up to `most` times; returns how often it was.
    fn import_with_kills(&self, number: u64, expected: &ImportEffects, duration: Duration, max_kills: usize, dice: &mut Dice) -> usize {
        let (sandbox, file) = self.prepared_sandbox();
        let resume = number.to_string();
        let mut killed = 0;
        let mut has_job = false;
        while killed < max_kills {
            let command =
                if has_job { sandbox.command(&["import", "--resume", &resume]) } else { sandbox.command(&["import", &file, "--profile", "upsert"]) };
            // some wait for a whole run, some only for its beginning
            let longest = duration.as_micros() as u64 / [1, 2, 8][dice.below(3) as usize];
            if !kill_after(command, Duration::from_micros(dice.below(longest))) {
                break;
            }
            killed += 1;
            has_job = has_job || job_exists(&sandbox.store(), number);
        }
        let last = if has_job { sandbox.run(&["import", "--resume", &resume]) } else { sandbox.run(&["import", &file, "--profile", "upsert"]) };
        last.exits(0);
        assert_eq!(sandbox.job(number)["state"], "completed");
        assert!(sandbox.queue().is_empty());
        sandbox.assert_sound();
        ImportEffects::of_job(&sandbox, number).equals(expected);
        killed
    }
}

/// Looks without opening the store as `stook` does, which would tidy up what the kill left.
fn job_exists(store: &Path, number: u64) -> bool {
    let Ok(connection) = rusqlite::Connection::open_with_flags(store, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY) else { return false };
    connection.query_row("SELECT EXISTS(SELECT 1 FROM jobs WHERE id = ?)", [number as i64], |row| row.get(0)).unwrap_or(false)
}

#[test]
fn an_import_killed_at_fifty_moments_ends_like_an_undisturbed_one() {
    let import = Import { bytes: authorities(RECORDS, 1, 1), name: "names.mrc", store: None };
    let (effects, ..) = import.undisturbed();
    assert_eq!(effects.counts["created"], RECORDS);
    assert!(effects.marc == import.bytes, "the sample's numbers ascend, so the export is the file itself");
    import.assert_survives(50, 1);
}

#[test]
fn a_compressed_file_survives_as_well() {
    let import = Import { bytes: gzip(&authorities(RECORDS, 1, 1)), name: "names.mrc.gz", store: None };
    import.assert_survives(20, 2);
}

#[test]
fn changes_to_an_existing_store_survive_as_well() {
    let (sandbox, file) = Import { bytes: authorities(RECORDS, 1, 1), name: "names.mrc", store: None }.prepared_sandbox();
    sandbox.import(&[&file, "--profile", "upsert"]);
    let store = std::fs::read(sandbox.store()).unwrap();
    // other versions of records that are there, new ones, and two versions of some in the same file
    let bytes = [authorities(12_000, 2, 5_001), authorities(8_000, 3, 15_001)].concat();
    let import = Import { bytes, name: "changes.mrc", store: Some(store) };
    let (effects, ..) = import.undisturbed();
    for outcome in ["created", "updated", "superseded"] {
        assert!(effects.counts[outcome].as_u64().unwrap() > 500, "{outcome} of {}", effects.counts);
    }
    import.assert_survives(30, 3);
}

#[test]
fn a_kill_in_the_first_instants_leaves_a_store_that_can_be_used() {
    let bytes = authorities(1_500, 1, 1);
    let mut dice = Dice::new(4);
    for _ in 0..25 {
        let sandbox = Sandbox::library();
        let file = sandbox.write_file("names.mrc", &bytes);
        kill_after(sandbox.command(&["import", &file, "--profile", "upsert"]), Duration::from_micros(dice.below(30_000)));
        let job = sandbox.import(&[&file, "--profile", "upsert"]);
        assert_eq!(sum_of_outcomes(&job), 1_500);
        // the killed import may have made a job before it died; that one can be finished as well
        for number in 1..job["id"].as_u64().unwrap() {
            sandbox.ok(&["import", "--resume", &number.to_string()]);
            assert_eq!(sum_of_outcomes(&sandbox.job(number)), 1_500);
        }
        assert!(sandbox.export("authority", "marc") == bytes);
        sandbox.assert_sound();
    }
}

#[test]
fn resuming_what_is_complete_changes_nothing() {
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("names.mrc", authorities(100, 1, 1));
    let job = sandbox.import(&[&file, "--profile", "upsert"]);
    assert!(sandbox.ok(&["import", "--resume", "1"]).contains("nothing to do"));
    assert_eq!(sandbox.job(1)["finished"], job["finished"]);
}

// Nothing is done twice, but the process that resumes may end while the other still cuts the file, and calls the job running.
#[test]
fn resuming_a_job_that_still_runs_elsewhere_does_nothing_twice() {
    let bytes = authorities(RECORDS, 1, 1);
    // chunks of compressed files carry their bytes, so that they are cut in several steps, which both processes do
    let compressed = gzip(&bytes);
    let mut dice = Dice::new(5);
    for _ in 0..8 {
        let sandbox = Sandbox::library();
        let file = sandbox.write_file("names.mrc.gz", &compressed);
        let mut first = sandbox.command(&["import", &file, "--profile", "upsert"]).spawn().unwrap();
        while !job_exists(&sandbox.store(), 1) {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(dice.below(120)));
        let second = sandbox.run(&["import", "--resume", "1"]).exits(0);
        let status = first.wait().unwrap();
        assert!(status.success(), "the first import: {status}, the second: {}", second.text());
        let job = sandbox.job(1);
        assert_eq!((&job["state"], &job["counts"]["created"], sum_of_outcomes(&job)), (&"completed".into(), &RECORDS.into(), RECORDS));
        assert!(sandbox.export("authority", "marc") == bytes);
        sandbox.assert_sound();
    }
}
