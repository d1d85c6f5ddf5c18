//! The SQLite store fulfils the contract, and survives what only a store in one file has to survive.

use crate::conformance;

use conformance::calls::CommitRecorder;
use conformance::support::*;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::{CollectionId, LinkId};
use stook_catalogue::value::Value;
use stook_store::plan::QueryPlan;
use stook_store::sqlite::{SqliteOptions, SqliteStore, backup};
use stook_store::*;

fn open(path: &Path, catalogue: &Catalogue, options: SqliteOptions) -> Result<Box<dyn Store>> {
    // small groups and caches: many transactions and spilled pages in little time
    let options = SqliteOptions { group_rows: 500, writer_cache: 1 << 20, reader_cache: 1 << 20, ..options };
    Ok(Box::new(SqliteStore::open(path, Arc::new(catalogue.clone()), options)?))
}

fn new_location() -> StoreLocation {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let path = directory.path().join("store.db");
    let check_path = path.clone();
    let check = move || {
        let _keep_directory = &directory;
        if check_path.exists() {
            assert_sound(&check_path);
        }
    };
    StoreLocation::new(move |catalogue| open(&path, catalogue, SqliteOptions::default()), is_full_scan, check)
}

/// Whether a step of the explanation reads every record of the tenant.
fn is_full_scan(explanation: &[String]) -> bool {
    explanation.iter().any(|line| line.starts_with("scan r_") || line.starts_with("search r_") && line.ends_with("(tenant=?)"))
}

#[test]
fn damage_in_the_indexes_on_keys_is_found() {
    let (_directory, path, catalogue) = counted_store_path();
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("it opens");
    let write = |name: &str| put(CollectionId::from(0), name, None, counted_content(&catalogue, 1));
    TestUnit::new(&main_tenant()).writes(["a", "b"].map(write)).commit_ok(&*store);
    assert_eq!(store.damage().expect("the check runs"), Vec::<String>::new());
    drop(store);
    // a key that is not in the index
    let connection = Connection::open(&path).expect("the file opens");
    connection.execute("UPDATE r_item SET key = 'c' WHERE key = 'b'", []).expect("SQL");
    drop(connection);
    let found = open(&path, &catalogue, SqliteOptions::default()).expect("it opens").damage().expect("the check runs");
    assert!(found.len() == 1 && found[0].contains("\"c\"") && found[0].contains("r_item"), "{found:?}");
}

/// Checks that the database finds nothing wrong, with a connection that has none of this program's functions.
fn assert_sound(path: &Path) {
    let connection = Connection::open(path).expect("the file opens");
    let found: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("the check runs");
    assert_eq!(found, "ok");
}

conformance!(crate::sqlite::new_location);

const COUNTED: &str = "
catalogue: counted
sources:
  deliveries: { format: json, into: item, as_of: meta.received }
collections:
  item:
    key: name
    fields:
      name: text
      count: integer
      words: { type: [text], index: equal }
      note: { type: text, index: contains }
";

/// A folder, the path of a store in it, and the definition.
fn counted_store_path() -> (tempfile::TempDir, PathBuf, Catalogue) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("store.db");
    (directory, path, definition(COUNTED))
}

fn counted_content(catalogue: &Catalogue, count: i64) -> RecordContent {
    let note = format!("a longer text that fills pages, number {count}, {}", "x".repeat(500));
    content(catalogue, CollectionId::from(0), &[("count", Value::Int(count)), ("words", texts(&[&count.to_string(), "all"])), ("note", text(&note))])
}

fn count_of(record: Option<&StoredRecord>) -> i64 {
    record.and_then(|record| record.golden[1].as_int()).unwrap_or(0)
}

/// Adds one to the record that all processes share, merging if another was faster, and writes a record of its own.
fn add_one(store: &dyn Store, catalogue: &Catalogue, own_key: &str) -> Result<CommitReceipt> {
    let shared = store.read(&main_tenant(), CollectionId::from(0), &[key("shared")], ReadDetail::Full)?.remove(0);
    let add = |catalogue: &Catalogue, record: Option<&StoredRecord>| {
        let version = record.map(|record| record.version);
        put(CollectionId::from(0), "shared", version, counted_content(catalogue, count_of(record) + 1))
    };
    let merge_catalogue = catalogue.clone();
    let unit = TestUnit::new(&main_tenant())
        .write(put(CollectionId::from(0), own_key, None, counted_content(catalogue, 1)))
        .write(add(catalogue, shared.as_ref()));
    let unit = unit
        .mark(1, own_key)
        .resolve(move |conflicts| Ok(conflicts.iter().map(|conflict| add(&merge_catalogue, conflict.record.as_ref())).collect()));
    unit.commit(store).0
}

/// Environment of the helper processes: the path of the store, and their task.
const PATH: &str = "STORE_TEST_PATH";
const TASK: &str = "STORE_TEST_TASK";

/// Runs this test program again as another process with a task of [`child_process_of_other_tests`].
fn process(program: &Path, path: &Path, task: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--ignored", "--exact", "sqlite::child_process_of_other_tests", "--nocapture"])
        .env(PATH, path)
        .env(TASK, task)
        .stdout(Stdio::piped());
    command
}

fn this_program() -> PathBuf {
    std::env::current_exe().expect("the test program knows where it is")
}

/// The output of a helper: the text after `result:` on its line.
fn helper_output(helper: Child) -> String {
    let output = helper.wait_with_output().expect("the helper ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "the helper failed: {text}");
    let result = text.lines().find_map(|line| line.split_once("result:")).unwrap_or_else(|| panic!("the helper printed no result: {text}"));
    result.1.trim().to_owned()
}

#[test]
#[ignore = "runs as another process of the tests below"]
fn child_process_of_other_tests() {
    let (Ok(path), Ok(task)) = (std::env::var(PATH), std::env::var(TASK)) else { return };
    let catalogue = definition(COUNTED);
    let output = match task.split_once(' ') {
        Some(("count", name)) => count_for_a_second(Path::new(&path), &catalogue, name),
        Some(("back", target)) => back_up(Path::new(&path), Path::new(target)),
        Some(("crash", name)) => count_until_killed(Path::new(&path), &catalogue, name),
        _ => try_to_write(Path::new(&path), &catalogue),
    };
    println!("result: {output}");
}

fn count_for_a_second(path: &Path, catalogue: &Catalogue, name: &str) -> String {
    let store = open(path, catalogue, SqliteOptions::default()).expect("the store opens");
    let start = Instant::now();
    let mut written = 0;
    while start.elapsed() < Duration::from_secs(1) {
        match add_one(&*store, catalogue, &format!("{name} {written:06}")) {
            Ok(_) => written += 1,
            Err(StoreError::Busy(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    written.to_string()
}

fn count_until_killed(path: &Path, catalogue: &Catalogue, name: &str) -> String {
    let store = open(path, catalogue, SqliteOptions::default()).expect("the store opens");
    for written in 0.. {
        add_one(&*store, catalogue, &format!("{name} {written:06}")).expect("the unit is written");
        println!("written {written}");
    }
    String::new()
}

/// Opens the store and writes, as a user without permission; returns the result in words.
fn try_to_write(path: &Path, catalogue: &Catalogue) -> String {
    let opened = open(path, catalogue, SqliteOptions::default());
    let written = opened.and_then(|store| add_one(&*store, catalogue, "intruder"));
    let read = open(path, catalogue, SqliteOptions { read_only: true, ..SqliteOptions::default() });
    let read = read.and_then(|store| store.read(&main_tenant(), CollectionId::from(0), &[key("shared")], ReadDetail::Full));
    match (written, read) {
        (Err(StoreError::ReadOnly(reason)), read) => {
            format!("read-only ({reason}), reading gives {:?}", read.map(|records| count_of(records[0].as_ref())))
        }
        (written, _) => format!("{written:?}"),
    }
}

/// Checks that every counted unit was written completely: its own record, its part of the shared one, its mark.
fn assert_counted(path: &Path, catalogue: &Catalogue, min: i64, max: i64) -> i64 {
    let store = open(path, catalogue, SqliteOptions::default()).expect("the store opens");
    let all = QueryPlan::all(main_tenant(), CollectionId::from(0));
    let records = store.count(&all).expect("counting works") as i64;
    let shared = store.read(&main_tenant(), CollectionId::from(0), &[key("shared")], ReadDetail::Full).expect("reading works").remove(0);
    let counted = count_of(shared.as_ref());
    assert!((min..=max).contains(&counted), "{counted} is not between {min} and {max}");
    assert_eq!(records, counted + i64::from(shared.is_some()));
    assert_eq!(store.marks(&main_tenant(), usize::MAX >> 1).expect("reading works").len() as i64, counted);
    let words = plan::Condition { column: column(catalogue, CollectionId::from(0), "words"), test: equal(text("all")) };
    assert_eq!(store.count(&QueryPlan { conditions: vec![words], ..all }).expect("counting works") as i64, records);
    drop(store);
    assert_sound(path);
    counted
}

#[test]
fn two_processes_that_write_at_once_lose_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("store.db");
    let helpers = ["a", "b"].map(|name| process(&this_program(), &path, &format!("count {name}")).spawn().expect("the helper starts"));
    let written: Vec<i64> = helpers.into_iter().map(|helper| helper_output(helper).parse().expect("a number")).collect();
    assert!(written.iter().all(|written| *written > 0), "both had their turn: {written:?}");
    let sum = written.iter().sum();
    assert_counted(&path, &definition(COUNTED), sum, sum);
}

#[test]
fn a_killed_process_leaves_only_complete_units() {
    use std::io::{BufRead, BufReader};
    let (_directory, path, catalogue) = counted_store_path();
    let mut before = 0;
    for round in 0..4 {
        let mut helper = process(&this_program(), &path, &format!("crash {round}")).spawn().expect("the helper starts");
        let lines = BufReader::new(helper.stdout.take().expect("its output is ours")).lines();
        let answered = lines.map_while(std::result::Result::ok).filter(|line| line.contains("written")).take(20 + round * 7).count() as i64;
        helper.kill().expect("it can be killed");
        helper.wait().expect("it ends");
        // answered units are there; the one in progress may be
        before = assert_counted(&path, &catalogue, before + answered, i64::MAX);
    }
}

#[test]
fn a_unit_that_waits_too_long_for_another_process_fails_as_busy_and_may_be_repeated() {
    let (_directory, path, catalogue) = counted_store_path();
    let store = open(&path, &catalogue, SqliteOptions { wait: 1, ..SqliteOptions::default() }).expect("the store opens");
    add_one(&*store, &catalogue, "before").expect("the unit is written");
    let other_process = Connection::open(&path).expect("the file opens");
    other_process.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
    let started = Instant::now();
    let error = add_one(&*store, &catalogue, "blocked").expect_err("the other holds the lock");
    assert!(matches!(error, StoreError::Busy(1)), "{error}");
    assert!(started.elapsed() >= Duration::from_millis(900));
    // reads do not wait for writes
    let started = Instant::now();
    assert_eq!(store.read(&main_tenant(), CollectionId::from(0), &[key("blocked")], ReadDetail::Full).expect("reading works"), [None]);
    assert!(started.elapsed() < Duration::from_millis(500));
    // small writes get the same error, and so does an attempt to open the store with additions to apply
    let job = store.create_job(conformance::queue::new_job(&main_tenant(), 1));
    assert!(matches!(job, Err(StoreError::Busy(1))), "{job:?}");
    let extended = definition(&format!("{COUNTED}      more: text\n"));
    match open(&path, &extended, SqliteOptions { wait: 1, ..SqliteOptions::default() }) {
        Err(StoreError::Busy(1)) => {}
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it cannot have been applied"),
    }
    other_process.execute_batch("COMMIT").expect("the lock is given back");
    add_one(&*store, &catalogue, "after").expect("the unit is written");
    drop(store);
    assert_counted(&path, &catalogue, 2, 2);
}

#[test]
fn a_unit_that_waits_long_enough_for_another_process_is_written_after_it() {
    let (_directory, path, catalogue) = counted_store_path();
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
    let other_process = Connection::open(&path).expect("the file opens");
    other_process.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| add_one(&*store, &catalogue, "patient"));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!waiting.is_finished());
        other_process.execute_batch("COMMIT").expect("the lock is given back");
        waiting.join().expect("no panic").expect("the unit is written");
    });
    drop(store);
    assert_counted(&path, &catalogue, 1, 1);
}

#[test]
fn the_stores_clock_does_not_go_back_with_the_machines_clock() {
    let (_directory, path, catalogue) = counted_store_path();
    drop(open(&path, &catalogue, SqliteOptions::default()).expect("the store opens"));
    let future: i64 = 4_000_000_000_000_000;
    Connection::open(&path).expect("the file opens").execute("INSERT OR REPLACE INTO meta VALUES ('clock', ?)", [future]).expect("it is there");
    for read_only in [true, false] {
        let store = open(&path, &catalogue, SqliteOptions { read_only, ..SqliteOptions::default() }).expect("the store opens");
        assert!(store.clock() > future, "read-only {read_only}");
    }
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
    let commit_times: Vec<i64> =
        (0..5).map(|number| add_one(&*store, &catalogue, &number.to_string()).expect("the unit is written").committed_at).collect();
    assert!(commit_times[0] > future && commit_times.is_sorted_by(|time, next| time < next));
    // commit times are only a microsecond apart now: leases of one chunk still differ
    let job = store.create_job(conformance::queue::new_job(&main_tenant(), 1)).expect("the job is written");
    conformance::queue::add_chunks(&*store, job, 5);
    let mut tokens = std::collections::BTreeSet::new();
    for round in 0..10 {
        let limit = 5 - round % 5;
        for lease in store.lease(None, limit, 60).expect("leasing works") {
            assert!(tokens.insert((lease.chunk, lease.token)), "{lease:?}");
        }
        store.take_over(job).expect("taking over works");
    }
}

#[test]
fn a_store_opened_for_reading_reads_and_refuses_to_write() {
    let (_directory, path, catalogue) = counted_store_path();
    let reading = || open(&path, &catalogue, SqliteOptions { read_only: true, ..SqliteOptions::default() });
    let missing = reading().err().expect("there is no store yet");
    assert!(missing.to_string().contains("there is no store at"), "{missing}");
    assert!(!path.exists(), "and reading makes none");
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
    add_one(&*store, &catalogue, "first").expect("the unit is written");
    // with a writer and without
    for store in [Some(store), None] {
        let reader = reading().expect("the store opens");
        let shared = reader.read(&main_tenant(), CollectionId::from(0), &[key("shared")], ReadDetail::Full).expect("reading works").remove(0);
        assert_eq!(count_of(shared.as_ref()), 1);
        let refused = add_one(&*reader, &catalogue, "intruder");
        assert!(matches!(refused, Err(StoreError::ReadOnly(_))), "{refused:?}");
        let refused = reader.create_job(conformance::queue::new_job(&main_tenant(), 1));
        assert!(matches!(refused, Err(StoreError::ReadOnly(_))), "{refused:?}");
        let times: Vec<i64> = (0..1_000).map(|_| reader.clock()).collect();
        assert!(times.is_sorted_by(|time, next| time < next));
        drop(store);
    }
    let extended = definition(&format!("{COUNTED}      more: text\n"));
    assert!(open(&path, &extended, SqliteOptions { read_only: true, ..SqliteOptions::default() }).is_err(), "reading applies no additions");
    assert_counted(&path, &catalogue, 1, 1);
}

#[test]
fn a_file_without_write_permission_is_reported_as_read_only() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let (directory, path, catalogue) = counted_store_path();
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
    add_one(&*store, &catalogue, "first").expect("the unit is written");
    drop(store);
    let allow = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    // for a process of the superuser no file is read-only: then another user has to try, with a program that it may run
    let privileged = std::fs::metadata("/proc/self").is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0);
    let program = if privileged { directory.path().join("program") } else { this_program() };
    if privileged {
        // by another process: a file that this one is writing cannot be executed while one of its threads starts a program
        let copied = Command::new("cp").arg(this_program()).arg(&program).status();
        assert!(copied.is_ok_and(|status| status.success()), "there is space");
        allow(&program, 0o755);
    }
    allow(&path, 0o444);
    for directory_mode in [0o777, 0o555] {
        allow(directory.path(), directory_mode);
        let mut command = process(&program, &path, "write");
        if privileged {
            command.uid(65_534).gid(65_534);
        }
        let result = helper_output(command.spawn().expect("the helper starts"));
        assert!(result.starts_with("read-only ("), "directory {directory_mode:o}: {result}");
        assert!(directory_mode != 0o777 || result.ends_with("reading gives Ok(1)"), "{result}");
    }
    allow(directory.path(), 0o755);
    allow(&path, 0o644);
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens again");
    add_one(&*store, &catalogue, "second").expect("the unit is written");
    drop(store);
    assert_counted(&path, &catalogue, 2, 2);
}

/// A file system of a few megabytes, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(path: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir(&path).expect("the directory is new");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&path).stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(path))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_fails_complete_units_and_the_store_works_again_when_there_is_space() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(disk) = SmallDisk::new(directory.path().join("disk"), "6m") else {
        stook_testkit::skip::left_out("a small file system can be mounted by root only");
        return;
    };
    let path = disk.0.join("store.db");
    let catalogue = definition(COUNTED);
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
    let ballast = disk.0.join("ballast");
    std::fs::write(&ballast, vec![1; 2 << 20]).expect("there is space");
    let mut written = 0;
    let full = loop {
        match add_one(&*store, &catalogue, &format!("{written:06}")) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(written > 10);
    assert!(matches!(full, StoreError::Full), "{full}");
    assert!(full.to_string().contains("disk is full"), "{full}");
    // another program takes the rest
    let filler = disk.0.join("rest");
    let mut file = std::fs::File::create(&filler).expect("a file");
    while std::io::Write::write_all(&mut file, &[1; 4_096]).is_ok() {}
    drop(file);
    // a unit larger than the page cache fails in its middle, and others share its transaction
    let large = (0..4_000).map(|number| put(CollectionId::from(0), &format!("large {number:06}"), None, counted_content(&catalogue, number)));
    let units: Vec<Box<dyn Unit>> = vec![
        Box::new(TestUnit::new(&main_tenant()).write(put(CollectionId::from(0), "small", None, counted_content(&catalogue, 1)))),
        Box::new(TestUnit::new(&main_tenant()).writes(large)),
        Box::new(TestUnit::new(&main_tenant()).write(put(CollectionId::from(0), "small", None, counted_content(&catalogue, 1)))),
    ];
    let pending: Vec<PendingCommit> = units.into_iter().map(|unit| store.submit(unit, Priority::Bulk)).collect();
    for pending in pending {
        let result = pending.wait();
        assert!(matches!(result, Err(StoreError::Full)), "{result:?}");
    }
    // reads still work
    let found = store
        .read(&main_tenant(), CollectionId::from(0), &[key("shared"), key("small"), key("large 000000")], ReadDetail::Full)
        .expect("reading works");
    assert_eq!(count_of(found[0].as_ref()), written);
    assert_eq!(found[1..], [None, None]);

    std::fs::remove_file(&ballast).expect("it is there");
    std::fs::remove_file(&filler).expect("it is there");
    add_one(&*store, &catalogue, "after").expect("there is space again");
    drop(store);
    assert_counted(&path, &catalogue, written + 1, written + 1);
}

#[test]
fn a_wal_that_is_written_to_all_the_time_restarts_while_others_read_and_write() {
    let (directory, path, catalogue) = counted_store_path();
    let store = open(&path, &catalogue, SqliteOptions { writer_cache: 48 << 20, ..SqliteOptions::default() }).expect("the store opens");
    let wal = directory.path().join("store.db-wal");
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let (max_wal_size, written) = std::thread::scope(|scope| {
        let bulk = scope.spawn(|| {
            let mut waiting = std::collections::VecDeque::new();
            for unit in 0..300 {
                let record = |number: i64| {
                    let note = format!("{unit} {number} {}", "y".repeat(1_500));
                    let content = content(&catalogue, CollectionId::from(0), &[("count", Value::Int(number)), ("note", text(&note))]);
                    put(CollectionId::from(0), &format!("bulk {} {unit}", number * 7_919 % 500), None, content)
                };
                let mut writes: Vec<RecordWrite> = (0..500).map(record).collect();
                writes.sort_by(|a, b| a.key.cmp(&b.key));
                waiting.push_back(store.submit(Box::new(TestUnit::new(&main_tenant()).writes(writes)), Priority::Bulk));
                if waiting.len() > 4 {
                    waiting.pop_front().expect("some wait").wait().expect("it is written");
                }
            }
            for unit in waiting {
                unit.wait().expect("it is written");
            }
            is_done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        let reader = scope.spawn(|| {
            let mut max_wal_size = 0;
            while !is_done.load(std::sync::atomic::Ordering::SeqCst) {
                store.read(&main_tenant(), CollectionId::from(0), &[key("bulk 0 0"), key("shared")], ReadDetail::Full).expect("reading works");
                max_wal_size = max_wal_size.max(std::fs::metadata(&wal).map_or(0, |wal| wal.len()));
                std::thread::sleep(Duration::from_millis(2));
            }
            max_wal_size
        });
        let mut written = 0;
        while !is_done.load(std::sync::atomic::Ordering::SeqCst) {
            add_one(&*store, &catalogue, &format!("own {written}")).expect("it is written");
            written += 1;
            std::thread::sleep(Duration::from_millis(5));
        }
        bulk.join().expect("no panic");
        (reader.join().expect("no panic"), written)
    });
    let size = std::fs::metadata(&path).map_or(0, |file| file.len());
    assert!(size > 220 << 20, "{size} bytes: written once; the log would have twice as much");
    assert!(max_wal_size < 160 << 20, "the log has grown to {max_wal_size} bytes");
    assert_eq!(
        count_of(store.read(&main_tenant(), CollectionId::from(0), &[key("shared")], ReadDetail::Full).expect("reading works")[0].as_ref()),
        written
    );
    drop(store);
    assert_sound(&path);
}

#[test]
fn bulk_units_share_a_transaction_until_a_caller_waits_for_one() {
    let (_directory, path, catalogue) = counted_store_path();
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
    let recorder = Arc::new(CommitRecorder::default());
    store.watch(recorder.clone());
    let commit_count = || recorder.0.lock().expect("not poisoned").len();
    let submit = |number: i64| {
        let write = put(CollectionId::from(0), &format!("{number:02}"), None, counted_content(&catalogue, number));
        let mut pending = store.submit(Box::new(TestUnit::new(&main_tenant()).write(write).rebuilt_if_undone()), Priority::Bulk);
        pending.wait_until_written();
        // the next one takes its time
        std::thread::sleep(Duration::from_millis(5));
        pending
    };
    let grouped: Vec<PendingCommit> = (0..40).map(submit).collect();
    grouped.into_iter().for_each(|pending| assert_eq!(pending.wait().map(|receipt| receipt.rows).expect("it is written"), 1));
    // more than one if the test itself was delayed for a second
    assert!((1..10).contains(&commit_count()), "{} commits", commit_count());
    // callers that wait are not delayed by others
    let before = (Instant::now(), commit_count());
    for number in 40..60 {
        submit(number).wait().expect("it is written");
    }
    assert_eq!(commit_count() - before.1, 20);
    assert!(before.0.elapsed() < Duration::from_secs(20), "each has waited until the group was old");
    drop(store);
    assert_sound(&path);
}

const LINKED: &str = "
catalogue: linked
sources:
  deliveries: { format: json, into: item, as_of: meta.received }
  places: { format: json, into: place, as_of: meta.received }
collections:
  place:
    key: id
    fields: { id: text, name: text }
  item:
    key: name
    survivorship: latest
    fields:
      name: text
      place: text
      kind: { type: text, compare: true }
      words: { type: [text], index: equal }
      shown: { type: text, derive: at.name }
    links:
      at: { to: place, key: '{place}' }
";

/// A store as the version before would have created it: indexes contain results of that version's function.
fn downgrade_to_format_10(path: &Path) {
    let connection = Connection::open(path).expect("the file opens");
    let flags = rusqlite::functions::FunctionFlags::SQLITE_DETERMINISTIC | rusqlite::functions::FunctionFlags::SQLITE_INNOCUOUS;
    for name in ["packed", "digest"] {
        let old_function = |context: &rusqlite::functions::Context<'_>| Ok(context.get_raw(0).as_str().map(|text| format!("<{text}>")).ok());
        connection.create_scalar_function(name, 1, flags, old_function).expect("a function");
    }
    let columns = |table: &str| -> Vec<String> {
        let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?)").expect("SQL");
        statement.query_map([table], |row| row.get(0)).expect("SQL").map(|name| name.expect("a name")).collect()
    };
    for table in ["r_place", "r_item"] {
        let name = &table[2..];
        let mut sql = format!("DROP INDEX k_{name}; DROP INDEX IF EXISTS c_{name};");
        let added: Vec<String> = columns(table).into_iter().filter(|column| column == "packed" || column.starts_with("d_")).collect();
        for column in &added {
            if let Some(field) = column.strip_prefix("d_") {
                sql += &format!("DROP INDEX l_{name}_{field}; CREATE INDEX l_{name}_{field} ON {table}(tenant, digest(f_{field}));");
            }
            sql += &format!("ALTER TABLE {table} DROP COLUMN {column};");
        }
        sql += &format!("CREATE UNIQUE INDEX k_{name} ON {table}(tenant, packed(key));");
        connection.execute_batch(&sql).expect("SQL");
    }
    connection
        .execute_batch(
            "CREATE INDEX c_item ON r_item(tenant, packed(key)) WHERE conflict IS NOT NULL;
             DROP TABLE erased; DROP TABLE record_counts; DROP TABLE audit; ALTER TABLE api_tokens DROP COLUMN expires; ALTER TABLE api_tokens DROP COLUMN used;
             ALTER TABLE api_tokens DROP COLUMN former_digest; ALTER TABLE api_tokens DROP COLUMN former_until;
             UPDATE meta SET value = '10' WHERE name = 'format'; UPDATE meta SET value = substr(value, 4) WHERE name = 'definition';",
        )
        .expect("SQL");
}

#[test]
fn a_store_of_the_previous_format_is_upgraded_in_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("store.db");
    let catalogue = definition(LINKED);
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
    let item = |number: i64| {
        let place_key = || text(&format!("place {}", number % 7));
        let values = [("place", place_key()), ("at", place_key()), ("kind", text("a")), ("words", texts(&["all", &number.to_string()]))];
        let mut content = content(&catalogue, CollectionId::from(1), &values);
        content.conflicts =
            if number % 3 == 0 { vec![catalogue.collections[CollectionId::from(1)].field("kind").expect("a field").0] } else { Vec::new() };
        put(CollectionId::from(1), &format!("{number:05}-\u{e9}"), None, content)
    };
    // more rows than are rewritten in one transaction
    for part in 0..12 {
        TestUnit::new(&main_tenant()).writes((part * 1_000..(part + 1) * 1_000).map(item)).commit_ok(&*store);
    }
    let contents = |store: &dyn Store| {
        let keys = store.keys_after(&main_tenant(), CollectionId::from(1), "", 100_000).expect("reading works");
        let records = store.read(&main_tenant(), CollectionId::from(1), &keys, ReadDetail::Full).expect("reading works");
        let conflict = plan::Condition { column: plan::PlanColumn::Conflict, test: plan::Comparison::Exists(true) };
        let edges = store.edges(&main_tenant(), catalogue.links[LinkId::from(0)].id, "place 3").expect("reading works");
        (
            keys,
            records,
            store.count(&QueryPlan { conditions: vec![conflict], ..QueryPlan::all(main_tenant(), CollectionId::from(1)) }).expect("counting works"),
            edges,
        )
    };
    let before = contents(&*store);
    assert!(before.0.len() == 12_000 && before.2 == 4_000 && !before.3.is_empty(), "{} {} {}", before.0.len(), before.2, before.3.len());
    drop(store);
    downgrade_to_format_10(&path);
    let refused = open(&path, &catalogue, SqliteOptions { read_only: true, ..SqliteOptions::default() }).err().expect("reading changes nothing");
    assert!(refused.to_string().contains("format 10") && refused.to_string().contains("stook prepare"), "{refused}");
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
    assert!(store.changes().iter().any(|change| change.contains("from format 10")), "{:?}", store.changes());
    assert_eq!(contents(&*store), before);
    TestUnit::new(&main_tenant()).write(item(99_999)).commit_ok(&*store);
    assert_eq!(store.damage().expect("the check runs"), Vec::<String>::new());
    drop(store);
    assert_sound(&path);
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
    assert_eq!(store.changes(), [] as [String; 0]);
}

#[test]
fn wrong_numbers_of_records_are_named_and_corrected() {
    let (_directory, path, catalogue) = counted_store_path();
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
    let item = |number: i64| put(CollectionId::from(0), &number.to_string(), None, counted_content(&catalogue, number));
    TestUnit::new(&main_tenant()).writes((0..3).map(item)).commit_ok(&*store);
    Connection::open(&path).and_then(|connection| connection.execute_batch("UPDATE record_counts SET records = 5")).expect("SQL");
    let all = QueryPlan::all(main_tenant(), CollectionId::from(0));
    assert_eq!(store.count(&all).expect("counting works"), 5);
    assert_eq!(store.correct_record_counts().expect("counting works"), ["`item` of tenant main has 3 records, but 5 were noted"]);
    assert_eq!(store.count(&all).expect("counting works"), 3);
    assert_eq!(store.correct_record_counts().expect("counting works"), [""; 0]);
}

#[test]
fn any_sqlite_program_can_check_and_copy_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, copy) = (directory.path().join("store.db"), directory.path().join("copy.db"));
    let catalogue = definition(LINKED);
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
    let item = |number: i64| {
        put(
            CollectionId::from(1),
            &number.to_string(),
            None,
            content(&catalogue, CollectionId::from(1), &[("place", text("here")), ("words", texts(&["all"]))]),
        )
    };
    TestUnit::new(&main_tenant()).writes([1, 2, 3].map(item)).commit_ok(&*store);
    assert_sound(&path);
    let connection = Connection::open(&path).expect("the file opens");
    connection.execute("VACUUM INTO ?", [copy.to_str().expect("a path")]).expect("it is copied");
    drop(connection);
    drop(store);
    Connection::open(&path).and_then(|connection| connection.execute_batch("VACUUM; REINDEX; ANALYZE")).expect("it is rebuilt");
    for path in [path, copy] {
        assert_sound(&path);
        let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
        assert_eq!(store.keys_after(&main_tenant(), CollectionId::from(1), "1", 10).expect("reading works"), [key("2"), key("3")]);
        TestUnit::new(&main_tenant()).write(item(4)).commit_ok(&*store);
    }
}

#[test]
fn all_records_are_visited_a_page_at_a_time() {
    let (_directory, path, catalogue) = counted_store_path();
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
    let item = |number: i64| {
        put(CollectionId::from(0), &format!("{number:05}"), None, content(&catalogue, CollectionId::from(0), &[("count", Value::Int(number % 2))]))
    };
    TestUnit::new(&main_tenant()).writes((0..3_500).map(item)).commit_ok(&*store);
    let odd = plan::Condition { column: column(&catalogue, CollectionId::from(0), "count"), test: equal(Value::Int(1)) };
    let all = QueryPlan::all(main_tenant(), CollectionId::from(0));
    for (conditions, step, total) in [(Vec::new(), 1, 3_500), (vec![odd], 2, 1_750)] {
        for limit in [None, Some(999), Some(1_000), Some(1_001), Some(1_700), Some(5_000)] {
            let plan = QueryPlan { conditions: conditions.clone(), limit, ..all.clone() };
            let mut found = Vec::new();
            store
                .visit(&plan, &mut |row| {
                    assert_eq!(row.len(), 1);
                    found.push(row[0].as_text().expect("a key").parse::<u64>().expect("a number"));
                    Ok(())
                })
                .expect("visiting works");
            let expected: Vec<u64> = (0..limit.unwrap_or(u64::MAX).min(total)).map(|index| index * step + step - 1).collect();
            assert_eq!(found, expected);
        }
    }
}

/// A unit that writes `rows` records, and counts them in the shared one.
fn counted_unit(store: &dyn Store, catalogue: &Catalogue, name: &str, rows: i64) -> Result<CommitReceipt> {
    let shared = store.read(&main_tenant(), CollectionId::from(0), &[key("shared")], ReadDetail::Full)?.remove(0);
    let count = put(
        CollectionId::from(0),
        "shared",
        shared.as_ref().map(|shared| shared.version),
        counted_content(catalogue, count_of(shared.as_ref()) + rows),
    );
    let record = |number: i64| {
        let note = format!("{number} {}", "z".repeat(1_500));
        put(
            CollectionId::from(0),
            &format!("{:04} {name}", number * 7_919 % 1_000),
            None,
            content(catalogue, CollectionId::from(0), &[("count", Value::Int(number)), ("note", text(&note))]),
        )
    };
    let mut writes: Vec<RecordWrite> = (0..rows).map(record).chain([count]).collect();
    writes.sort_by(|a, b| a.key.cmp(&b.key));
    TestUnit::new(&main_tenant()).writes(writes).commit(store).0
}

/// Copies a store while another process writes it, so slowly that much is written meanwhile.
fn back_up(path: &Path, target: &Path) -> String {
    let connection = Connection::open(path).expect("the file opens");
    let rows = || connection.query_row("SELECT count(*) FROM r_item", [], |row| row.get::<_, i64>(0)).expect("SQL");
    let mut blocks = 0;
    let copied = backup(path, target, &mut |_, _| {
        blocks += 1;
        if blocks % 8 == 0 && blocks <= 24 {
            let (before, started) = (rows(), Instant::now());
            while rows() < before + 15_000 && started.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    copied.expect("it is copied").recopied.to_string()
}

#[test]
fn a_backup_taken_during_writes_is_one_snapshot_of_the_store() {
    let (directory, path, catalogue) = counted_store_path();
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
    for unit in 0..30 {
        counted_unit(&*store, &catalogue, &format!("before {unit}"), 500).expect("it is written");
    }
    let target = directory.path().join("copy.db");
    let mut helper = process(&this_program(), &path, &format!("back {}", target.display())).spawn().expect("the helper starts");
    let (wal, mut max_wal_size, mut unit) = (directory.path().join("store.db-wal"), 0, 0);
    while helper.try_wait().expect("it is ours").is_none() {
        counted_unit(&*store, &catalogue, &format!("beside {unit}"), 500).expect("it is written");
        max_wal_size = max_wal_size.max(std::fs::metadata(&wal).map_or(0, |wal| wal.len()));
        unit += 1;
    }
    let recopied_blocks: u64 = helper_output(helper).parse().expect("a number");
    assert!(recopied_blocks > 0, "nothing had changed that was copied");
    assert!(max_wal_size < 256 << 20, "the log has grown to {max_wal_size} bytes");
    assert_sound(&target);
    let copy = open(&target, &catalogue, SqliteOptions::default()).expect("the copy opens");
    assert_eq!(copy.damage().expect("the check runs"), Vec::<String>::new());
    let counted = count_of(copy.read(&main_tenant(), CollectionId::from(0), &[key("shared")], ReadDetail::Full).expect("reading works")[0].as_ref());
    assert!(counted >= 15_000 && counted % 500 == 0, "{counted}");
    assert_eq!(copy.count(&QueryPlan::all(main_tenant(), CollectionId::from(0))).expect("counting works") as i64, counted + 1);
    counted_unit(&*copy, &catalogue, "behind", 500).expect("it can be written");
    // an existing file is not overwritten
    let refused = backup(&path, &target, &mut |_, _| ()).expect_err("it is there");
    assert!(refused.to_string().contains("exists"), "{refused}");
    let missing = backup(&directory.path().join("none.db"), &directory.path().join("other.db"), &mut |_, _| ()).expect_err("there is none");
    assert!(missing.to_string().contains("there is no store at"), "{missing}");
}

/// Reads all the time, each time for a while: there is always a reader that began before.
fn read_until(store: &dyn Store, is_done: &std::sync::atomic::AtomicBool) {
    while !is_done.load(std::sync::atomic::Ordering::SeqCst) {
        let mut seen = 0;
        let sorted = QueryPlan {
            sort: vec![plan::SortKey { column: plan::PlanColumn::Revision, descending: false }],
            limit: Some(40),
            ..QueryPlan::all(main_tenant(), CollectionId::from(0))
        };
        let read = store.visit(&sorted, &mut |_| {
            seen += 1;
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        });
        read.expect("reading works");
    }
}

#[test]
fn changing_readers_do_not_keep_the_wal_from_restarting_and_an_idle_store_truncates_it() {
    let (directory, path, catalogue) = counted_store_path();
    let store = open(&path, &catalogue, SqliteOptions { writer_cache: 16 << 20, ..SqliteOptions::default() }).expect("the store opens");
    let wal = directory.path().join("store.db-wal");
    let wal_size = || std::fs::metadata(&wal).map_or(0, |wal| wal.len());
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let mut max_wal_size = 0;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| read_until(&*store, &is_done));
        }
        let mut waiting = std::collections::VecDeque::new();
        for round in 0..500 {
            let record = |number: i64| {
                let note = format!("{round} {number} {}", "y".repeat(6_000));
                put(
                    CollectionId::from(0),
                    &format!("{:04} {}", number * 7_919 % 1_000, round % 50),
                    None,
                    content(&catalogue, CollectionId::from(0), &[("note", text(&note))]),
                )
            };
            let mut writes: Vec<RecordWrite> = (0..150).map(record).collect();
            writes.sort_by(|a, b| a.key.cmp(&b.key));
            let merge_catalogue = catalogue.clone();
            let unit = TestUnit::new(&main_tenant()).writes(writes).resolve(move |conflicts| {
                let put = |conflict: &WriteConflict| {
                    let version = conflict.record.as_ref().map(|record| record.version);
                    put(
                        CollectionId::from(0),
                        conflict.key.as_str(),
                        version,
                        content(&merge_catalogue, CollectionId::from(0), &[("note", text(&"n".repeat(6_000)))]),
                    )
                };
                Ok(conflicts.iter().map(put).collect())
            });
            waiting.push_back(store.submit(Box::new(unit), Priority::Bulk));
            if waiting.len() > 4 {
                waiting.pop_front().expect("some wait").wait().expect("it is written");
            }
            max_wal_size = max_wal_size.max(wal_size());
        }
        for unit in waiting {
            unit.wait().expect("it is written");
        }
        is_done.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    assert!(max_wal_size < 256 << 20, "the log has grown to {max_wal_size} bytes");
    let is_truncated = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        wal_size() <= 4 << 20
    });
    assert!(is_truncated, "the log still has {} bytes", wal_size());
    counted_unit(&*store, &catalogue, "behind", 10).expect("it is written");
    drop(store);
    assert_sound(&path);
}

/// A refused write makes the store checkpoint and truncate the WAL: after a while there is space again.
fn assert_has_space(store: &dyn Store, catalogue: &Catalogue, name: &str) {
    let tries = (0..20).find(|_| {
        let written = counted_unit(store, catalogue, name, 5);
        written.as_ref().inspect_err(|_| std::thread::sleep(Duration::from_millis(200))).is_ok()
    });
    assert!(tries.is_some(), "there is no room for {name}");
}

#[test]
fn a_disk_filled_by_the_wal_has_space_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(disk) = SmallDisk::new(directory.path().join("disk"), "100m") else {
        stook_testkit::skip::left_out("a small file system can be mounted by root only");
        return;
    };
    let path = disk.0.join("store.db");
    let catalogue = definition(COUNTED);
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
    counted_unit(&*store, &catalogue, "first", 200).expect("there is space");
    // the same records again and again: the WAL grows, the file does not
    let rewrite = |number: usize| {
        let keys: Vec<stook_catalogue::key::Key> =
            (0..20).map(|offset| key(&format!("{:04} first", (number * 20 + offset) % 200 * 7_919 % 1_000))).collect();
        let found = store.read(&main_tenant(), CollectionId::from(0), &keys, ReadDetail::Full).expect("reading works");
        let mut writes: Vec<RecordWrite> = found
            .into_iter()
            .flatten()
            .map(|record| {
                let values = [("note", text(&format!("{number} {}", "w".repeat(1_500))))];
                put(CollectionId::from(0), record.key.as_str(), Some(record.version), content(&catalogue, CollectionId::from(0), &values))
            })
            .collect();
        writes.sort_by(|a, b| a.key.cmp(&b.key));
        TestUnit::new(&main_tenant()).writes(writes).commit(&*store).0
    };
    for number in 0..200 {
        rewrite(number).expect("there is space");
    }
    // the file has its final size once the WAL is truncated
    let wal = disk.0.join("store.db-wal");
    let is_truncated = || wal.metadata().is_ok_and(|wal| wal.len() < 8 << 20);
    assert!(
        (0..200).any(|_| is_truncated() || {
            std::thread::sleep(Duration::from_millis(100));
            false
        }),
        "the log is given back"
    );
    // there are readers all the time, so the WAL cannot start again
    let reader = Connection::open(&path).expect("the file opens");
    reader.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").expect("it reads");
    let (mut full, mut written) = (0, 0);
    for number in 0..3_000 {
        match rewrite(number) {
            Ok(_) => written += 1,
            Err(StoreError::Full) => full += 1,
            Err(error) => panic!("{error}"),
        }
        if full > 1 && written > 3 {
            break;
        }
    }
    assert!(full > 0, "the log has not filled the disk: the test is too small");
    drop(reader);
    for name in ["a", "b", "c"] {
        assert_has_space(&*store, &catalogue, name);
    }
    drop(store);
    assert_sound(&path);
}

#[test]
fn a_disk_filled_by_new_records_during_a_read_has_space_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(disk) = SmallDisk::new(directory.path().join("disk"), "40m") else {
        stook_testkit::skip::left_out("a small file system can be mounted by root only");
        return;
    };
    let path = disk.0.join("store.db");
    let catalogue = definition(COUNTED);
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens");
    counted_unit(&*store, &catalogue, "first", 10).expect("there is space");
    // there are readers all the time, so nothing of the WAL is copied into the file, which must still grow for all of it
    let reader = Connection::open(&path).expect("the file opens");
    reader.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").expect("it reads");
    let mut written = 0;
    let refused = (0..10_000).find_map(|number| match counted_unit(&*store, &catalogue, &format!("unit {number}"), 200) {
        Ok(_) => {
            written += 1;
            None
        }
        Err(error) => Some(error),
    });
    assert!(matches!(refused, Some(StoreError::Full)), "{refused:?}");
    assert!(written > 3, "the disk was full after {written} units");
    drop(reader);
    assert_has_space(&*store, &catalogue, "again");
    drop(store);
    assert_sound(&path);
    let store = open(&path, &catalogue, SqliteOptions::default()).expect("the store opens again");
    let count = store.count(&stook_store::plan::QueryPlan::all(main_tenant(), CollectionId::from(0))).expect("it counts");
    assert!(count as usize > written * 200, "{count}");
}
