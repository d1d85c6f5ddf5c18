//! When the machine does not play along: no space, no permission, files that change, other processes, other definitions.

use serde_json::json;
use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use stook_testkit::skip::left_out;
use stook_tests::{LIBRARY, Sandbox, authorities, counts, interrupted_import, stook, sum_of_outcomes, touch};

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Runs a helper program; false when it fails or is not there.
fn helper<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

// --- no space -----------------------------------------------------------------------------------------------------------

/// A small file system of its own, gone when the test ends.
struct SmallDisk<'p>(&'p Path);

impl<'p> SmallDisk<'p> {
    fn mount(path: &'p Path, size: &str) -> Option<Self> {
        std::fs::create_dir(path).unwrap();
        let options = format!("size={size}");
        helper("mount", &[OsStr::new("-t"), "tmpfs".as_ref(), "-o".as_ref(), options.as_ref(), "none".as_ref(), path.as_os_str()])
            .then_some(Self(path))
    }

    fn resize(&self, size: &str) {
        let options = format!("remount,size={size}");
        assert!(helper("mount", &[OsStr::new("-o"), options.as_ref(), self.0.as_os_str()]), "the disk grows");
    }

    /// Nothing can be written from now on.
    fn protect(&self) {
        assert!(helper("mount", &[OsStr::new("-o"), "remount,ro".as_ref(), self.0.as_os_str()]), "the disk is protected");
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        helper("umount", &[self.0]);
    }
}

#[test]
fn a_full_disk_is_reported_and_the_job_can_be_resumed_when_there_is_space() {
    let sandbox = Sandbox::library();
    let bytes = authorities(20_000, 1, 1);
    let file = sandbox.write_file("names.mrc", &bytes);
    let disk = sandbox.path("disk");
    let Some(disk) = SmallDisk::mount(&disk, "6m") else {
        left_out("no small disk can be mounted here");
        return;
    };
    let store = disk.0.join("store.sqlite");
    let store = store.to_str().unwrap();
    let failed = sandbox.run(&["import", &file, "--profile", "upsert", "--store", store]);
    failed.exits(1).stderr_contains(&["stook: the disk is full; free some space", "job 1 was interrupted: ", "stook import --resume 1"]);
    // more space, still not enough: nothing is lost by trying
    disk.resize("16m");
    sandbox.run(&["import", "--resume", "1", "--store", store]).exits(1).stderr_contains(&["the disk is full"]);
    disk.resize("200m");
    let job = sandbox.run(&["import", "--resume", "1", "--json", "--store", store]).exits(0).json();
    assert_eq!((counts(&job), sum_of_outcomes(&job)), ("created 20000".to_owned(), 20_000));
    assert!(sandbox.run(&["export", "authority", "--format", "marc", "--store", store]).exits(0).out == bytes);
}

#[test]
fn a_disk_too_full_for_a_store_is_reported() {
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("names.mrc", authorities(100, 1, 1));
    let disk = sandbox.path("disk");
    let Some(disk) = SmallDisk::mount(&disk, "64k") else {
        left_out("no small disk can be mounted here");
        return;
    };
    let store = disk.0.join("store.sqlite");
    sandbox.run(&["import", &file, "--profile", "upsert", "--store", store.to_str().unwrap()]).exits(1).stderr_contains(&["the disk is full"]);
}

/// A limit on the size of files is another way to run out of space; the system calls it a failure of the disk.
#[test]
fn a_store_that_may_not_grow_fails_clearly_and_loses_nothing() {
    let sandbox = Sandbox::library();
    let bytes = authorities(20_000, 1, 1);
    let file = sandbox.write_file("names.mrc", &bytes);
    // in blocks of 1024 or 512 bytes; without the trap the signal ends the process, which is what killed.rs is about
    let script = "trap '' XFSZ; ulimit -f 6000 || exit 99; exec \"$0\" \"$@\"";
    let program = stook().to_str().unwrap().to_owned();
    let folder = sandbox.folder().to_str().unwrap().to_owned();
    let output = Command::new("sh").args(["-c", script, &program, "-C", &folder, "import", &file, "--profile", "upsert"]).output().unwrap();
    if output.status.code() == Some(99) {
        left_out("the size of files cannot be limited here");
        return;
    }
    let output_text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(1), "{output_text}");
    assert!(output_text.contains("job 1"), "{output_text}");
    if sandbox.job(1)["state"] == "failed" {
        let reason = sandbox.queue()[0]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains("disk"), "{reason}");
        assert!(sandbox.ok(&["queue", "retry", "1"]).contains("will be retried; run stook work or stook import --resume 1"));
    }
    let job = sandbox.run(&["import", "--resume", "1", "--json"]).exits(0).json();
    assert_eq!((counts(&job), sum_of_outcomes(&job)), ("created 20000".to_owned(), 20_000));
    assert!(sandbox.export("authority", "marc") == bytes);
    sandbox.assert_sound();
}

// --- a damaged file -----------------------------------------------------------------------------------------------------

#[test]
fn a_damaged_file_is_reported_by_a_deep_check() {
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("names.mrc", authorities(500, 1, 1));
    sandbox.ok(&["import", &file]);
    assert_eq!(sandbox.run(&["check", "--deep", "--json"]).exits(0).json()["sound"], true);
    // a page in the middle, of whatever
    let mut bytes = std::fs::read(sandbox.store()).unwrap();
    let page = bytes.len() / 2 / 8192 * 8192;
    bytes[page + 12..page + 8000].fill(0xff);
    std::fs::write(sandbox.store(), bytes).unwrap();
    let report = sandbox.run(&["check", "--deep", "--json"]).exits(1).json();
    assert_eq!(report["sound"], false);
    assert!(!report["damage"].as_array().unwrap().is_empty(), "{report}");
    let report = String::from_utf8_lossy(&sandbox.run(&["check", "--deep"]).exits(1).out).into_owned();
    assert!(report.starts_with("the store is damaged"), "{report}");
    // nothing but the header is left
    let mut bytes = std::fs::read(sandbox.store()).unwrap();
    bytes[8192..].fill(0xff);
    std::fs::write(sandbox.store(), bytes).unwrap();
    for words in [["check", "--deep"], ["import", &file], ["query", "authority"]] {
        sandbox.run(&words).exits(1).stderr_contains(&["the store is damaged", "restore a backup"]);
    }
}

// --- no permission ------------------------------------------------------------------------------------------------------

/// Runs a command without the right to write what is read-only: root does it as nobody. Nothing if that cannot be done.
fn unprivileged(sandbox: &Sandbox, arguments: &[&str]) -> Option<(i32, String)> {
    // nobody may not look into the folder in which the program was built
    let beside = tempfile::tempdir().unwrap();
    permit(beside.path(), 0o755);
    let mut command = if is_root() {
        let program = beside.path().join("stook");
        std::fs::copy(stook(), &program).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(program);
        command
    } else {
        Command::new(stook())
    };
    let output = command.arg("-C").arg(sandbox.folder()).args(arguments).output().ok()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if stderr.starts_with("setpriv:") {
        left_out(&format!("root cannot give up its rights here: {stderr}"));
        return None;
    }
    Some((output.status.code().unwrap_or(-1), stderr))
}

fn permit(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_store_without_write_permission_is_reported_and_unchanged() {
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("names.mrc", authorities(50, 1, 1));
    sandbox.import(&[&file, "--profile", "upsert"]);
    let before = std::fs::read(sandbox.store()).unwrap();
    permit(&sandbox.store(), 0o444);
    for folder in [0o755, 0o777] {
        permit(sandbox.folder(), folder);
        let Some((code, stderr)) = unprivileged(&sandbox, &["import", &file, "--profile", "upsert"]) else { return };
        assert_eq!(code, 1, "{stderr}");
        assert!(stderr.contains("the store cannot be written"), "{stderr}");
        assert!(std::fs::read(sandbox.store()).unwrap() == before);
    }
    permit(&sandbox.store(), 0o644);
    assert_eq!(counts(&sandbox.import(&[&file, "--profile", "upsert"])), "unchanged 50");
}

/// What only reads.
const READERS: [&[&str]; 10] = [
    &["query", "authority heading=Ma*"],
    &["query", "authority | count(lccn)", "--format", "json"],
    &["get", "authority", "n  00000042 ", "--explain"],
    &["export", "authority", "--format", "marc"],
    &["suggest", "personal"],
    &["jobs"],
    &["journal", "1"],
    &["queue", "ls"],
    &["token", "ls"],
    &["import", "names.mrc", "--dry-run"],
];

#[test]
fn a_store_on_a_medium_that_cannot_be_written_is_read() {
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("names.mrc", authorities(300, 1, 1));
    let disk = sandbox.path("disk");
    let Some(disk) = SmallDisk::mount(&disk, "20m") else {
        left_out("no small disk can be mounted here");
        return;
    };
    let store = disk.0.join("a store?#%.sqlite");
    let store = store.to_str().unwrap();
    let run = |arguments: &[&str]| sandbox.run(&[arguments, &["--store", store]].concat());
    run(&["import", &file, "--profile", "upsert"]).exits(0);
    let before: Vec<Vec<u8>> = READERS.iter().map(|reader| run(reader).exits(0).out).collect();
    // who writes tidies up, who reads leaves an empty log: without it no lock can be made beside the file
    run(&["prepare"]).exits(0);
    let beside = disk.0.join("a store?#%.sqlite-shm");
    if beside.exists() {
        std::fs::remove_file(beside).unwrap();
    }
    disk.protect();
    for (reader, before) in READERS.iter().zip(before) {
        let answer = run(reader).exits(0);
        assert!(answer.out == before || reader[0] == "jobs", "{reader:?}: {}", answer.text());
    }
    for writer in [&["import", &file][..], &["token", "create", "--role", "read"]] {
        run(writer).exits(1).stderr_contains(&["cannot be written"]);
    }
}

/// What a killed import has written last is in the log beside the file: it is read, or said to be there.
#[test]
fn a_wal_on_a_read_only_medium_is_read_or_reported() {
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("names.mrc", authorities(60_000, 1, 1));
    let disk = sandbox.path("disk");
    let Some(disk) = SmallDisk::mount(&disk, "400m") else {
        left_out("no small disk can be mounted here");
        return;
    };
    let store = disk.0.join("store.sqlite");
    let log = disk.0.join("store.sqlite-wal");
    let mut import = sandbox.command(&["import", &file, "--store", store.to_str().unwrap()]).spawn().unwrap();
    while std::fs::metadata(&log).map_or(0, |log| log.len()) < 1_000_000 {
        assert!(import.try_wait().unwrap().is_none(), "it ended too soon");
        std::thread::sleep(Duration::from_millis(1));
    }
    import.kill().unwrap();
    import.wait().unwrap();
    let index = disk.0.join("store.sqlite-shm");
    let count = |sandbox: &Sandbox| sandbox.run(&["query", "authority | count(lccn)", "--format", "json", "--store", store.to_str().unwrap()]);
    // looked at in a copy, where everything can be written
    let copy = sandbox.path("copy.sqlite");
    std::fs::copy(&store, &copy).unwrap();
    std::fs::copy(&log, sandbox.path("copy.sqlite-wal")).unwrap();
    let wanted = sandbox.run(&["query", "authority | count(lccn)", "--format", "json", "--store", copy.to_str().unwrap()]).exits(0).out;
    disk.protect();
    // its index is there, as the killed process left it
    let answer = count(&sandbox).exits(0);
    assert!(answer.out == wanted, "{}", answer.text());
    disk.resize("400m,rw");
    std::fs::remove_file(index).unwrap();
    disk.protect();
    count(&sandbox).exits(1).stderr_contains(&["the latest changes are in its write-ahead log", "store.sqlite-wal", "copy both files"]);
}

#[test]
fn a_store_of_another_user_can_be_read_without_write_permission() {
    let sandbox = Sandbox::library();
    sandbox.import(&[&sandbox.write_file("names.mrc", authorities(50, 1, 1)), "--profile", "upsert"]);
    let before = std::fs::read(sandbox.store()).unwrap();
    permit(&sandbox.store(), 0o444);
    permit(sandbox.folder(), 0o555);
    let answers: Vec<_> = READERS[..4].iter().map(|reader| unprivileged(&sandbox, reader)).collect();
    permit(sandbox.folder(), 0o755);
    for answer in answers {
        let Some((code, stderr)) = answer else { return };
        assert_eq!(code, 0, "{stderr}");
    }
    assert!(std::fs::read(sandbox.store()).unwrap() == before);
}

#[test]
fn a_folder_without_write_permission_is_reported() {
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("names.mrc", authorities(5, 1, 1));
    permit(sandbox.folder(), 0o555);
    let answer = unprivileged(&sandbox, &["import", &file, "--profile", "upsert"]);
    permit(sandbox.folder(), 0o755);
    let Some((code, stderr)) = answer else { return };
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("stook.sqlite") && stderr.contains("the store cannot be written"), "{stderr}");
}

#[test]
fn a_file_that_may_not_be_read_is_named() {
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("names.mrc", authorities(5, 1, 1));
    permit(sandbox.folder(), 0o777);
    permit(Path::new(&file), 0o000);
    let Some((code, stderr)) = unprivileged(&sandbox, &["import", &file, "--profile", "upsert"]) else { return };
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("names.mrc: Permission denied"), "{stderr}");
}

#[test]
fn a_file_that_is_no_store_is_left_alone() {
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("names.mrc", authorities(5, 1, 1));
    let text = "these are my notes, not a database, and they are longer than a header of one hundred bytes would have to be\n";
    sandbox.write_file("stook.sqlite", text);
    sandbox.run(&["import", &file, "--profile", "upsert"]).exits(1).stderr_contains(&["stook.sqlite", "not a database"]);
    assert_eq!(std::fs::read_to_string(sandbox.store()).unwrap(), text);
}

// --- files that change --------------------------------------------------------------------------------------------------

#[test]
fn a_file_that_changed_since_its_job_was_made_is_refused() {
    let bytes = authorities(10_000, 1, 1);
    let (sandbox, file) = interrupted_import(LIBRARY, "names.mrc", &bytes, |_| true);
    let imported_before = sandbox.job(1)["counts"]["created"].clone();
    // the same length, another time, other records
    let changed_bytes = authorities(12_000, 2, 1);
    std::fs::write(&file, &changed_bytes[..bytes.len()]).unwrap();
    let answer = sandbox.run(&["import", "--resume", "1"]).exits(1);
    let output_text = format!("{}{}", answer.text(), answer.err);
    if !output_text.contains("has changed since the job was created; import it again") {
        // it had been cut to the end: each chunk says so
        assert!(output_text.contains("see `stook queue ls`"), "{output_text}");
        let reasons = sandbox.queue();
        assert!(
            reasons
                .iter()
                .all(|chunk| chunk["reason"].as_str().unwrap().ends_with("names.mrc has changed since the job was created; import it again"))
        );
    }
    assert_eq!(sandbox.job(1)["counts"]["created"], imported_before, "nothing of the other file was imported");
    // with the file it was made of it goes on
    let modified = sandbox.job(1)["files"][0]["modified"].as_u64().unwrap();
    std::fs::write(&file, &bytes).unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(std::time::UNIX_EPOCH + Duration::from_micros(modified)).unwrap();
    sandbox.run(&["queue", "retry", "1"]).exits(0);
    sandbox.run(&["import", "--resume", "1"]).exits(0);
    assert!(sandbox.export("authority", "marc") == bytes);
}

#[test]
fn a_deleted_file_is_named() {
    let bytes = authorities(10_000, 1, 1);
    let (sandbox, file) = interrupted_import(LIBRARY, "names.mrc", &bytes, |_| true);
    std::fs::remove_file(&file).unwrap();
    let answer = sandbox.run(&["import", "--resume", "1"]).exits(1);
    let queue = sandbox.queue();
    let output_text = format!("{}{}{queue:?}", answer.text(), answer.err);
    assert!(output_text.contains("names.mrc: No such file"), "{output_text}");
}

#[test]
fn touching_a_file_between_imports_does_not_matter() {
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("names.mrc", authorities(50, 1, 1));
    sandbox.import(&[&file, "--profile", "upsert"]);
    touch(&file, 1_500_000_000);
    assert_eq!(counts(&sandbox.import(&[&file, "--profile", "upsert"])), "unchanged 50");
}

// --- other processes ----------------------------------------------------------------------------------------------------

#[test]
fn two_imports_at_once_on_one_store_both_finish_and_lose_nothing() {
    let (first, second) = (authorities(8_000, 1, 1), authorities(8_000, 2, 4_001));
    for has_store in [true, false] {
        let sandbox = Sandbox::library();
        let (first_file, second_file) = (sandbox.write_file("first.mrc", &first), sandbox.write_file("second.mrc", &second));
        if has_store {
            sandbox.import(&[&sandbox.write_file("some.mrc", authorities(10, 3, 90_001)), "--profile", "upsert"]);
        }
        // a third process asks meanwhile
        let start = |file: &str| sandbox.command(&["import", file, "--profile", "upsert", "--json"]).spawn().unwrap();
        let (first_import, second_import) = (start(&first_file), start(&second_file));
        let written = || sandbox.json(&["query", "authority | count(lccn)", "--format", "json"])[0]["count(lccn)"].as_u64().unwrap();
        while has_store && written() < 1_000 {}
        let (first_import, second_import) = (first_import.wait_with_output().unwrap(), second_import.wait_with_output().unwrap());
        for output in [&first_import, &second_import] {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let jobs: Vec<serde_json::Value> =
            [first_import, second_import].iter().map(|output| serde_json::from_slice(&output.stdout).unwrap()).collect();
        for job in &jobs {
            assert_eq!((&job["state"], sum_of_outcomes(job)), (&json!("completed"), 8_000));
        }
        // golden fields do not care who was first: the same as one after the other
        let calm = Sandbox::library();
        if has_store {
            calm.import(&[&calm.write_file("some.mrc", authorities(10, 3, 90_001)), "--profile", "upsert"]);
        }
        calm.import(&[&calm.write_file("first.mrc", &first), "--profile", "upsert"]);
        calm.import(&[&calm.write_file("second.mrc", &second), "--profile", "upsert"]);
        assert!(sandbox.export("authority", "ndjson") == calm.export("authority", "ndjson"));
        assert!(sandbox.export("authority", "marc") == calm.export("authority", "marc"));
        sandbox.assert_sound();
    }
}

#[test]
fn questions_are_answered_while_an_import_writes() {
    let sandbox = Sandbox::library();
    sandbox.import(&[&sandbox.write_file("some.mrc", authorities(100, 1, 1)), "--profile", "upsert"]);
    let file = sandbox.write_file("names.mrc", authorities(20_000, 2, 1));
    let mut import = sandbox.command(&["import", &file, "--profile", "upsert"]).spawn().unwrap();
    let mut answered = 0;
    while import.try_wait().unwrap().is_none() {
        assert_ne!(sandbox.get("authority", "n  00000042 "), serde_json::Value::Null);
        sandbox.run(&["jobs"]).exits(0);
        sandbox.run(&["query", "authority heading=Ma*", "--limit", "5"]).exits(0);
        answered += 1;
    }
    assert!(import.wait().unwrap().success());
    assert!(answered > 0);
}

// --- other definitions --------------------------------------------------------------------------------------------------

#[test]
fn additions_to_the_definition_are_applied_and_reported() {
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("names.mrc", authorities(100, 1, 1));
    sandbox.import(&[&file, "--profile", "upsert"]);
    let marker = "      changed:        {";
    assert!(LIBRARY.contains(marker));
    sandbox.write_definition(&LIBRARY.replace(marker, &format!("      language:       {{ path: \"377$a\", type: [text], index: equal }}\n{marker}")));
    let answer = sandbox.run(&["prepare"]).exits(0);
    let notes = [
        "note: field `authority.language` is new; import documents again to fill it",
        "note: the store's definition was updated; restart servers and workers that use the previous one",
    ];
    assert_eq!(answer.err.lines().collect::<Vec<_>>(), notes, "what it says goes to standard error and leaves the answer alone");
    assert_eq!(sandbox.run(&["prepare"]).exits(0).err, "", "once");
    let job = sandbox.import(&[&file, "--profile", "upsert"]);
    assert_eq!(counts(&job), "updated 100", "the map is another one, so every document is read anew");
    let with_language = sandbox.records("authority").iter().filter(|record| record["language"].is_array()).count();
    assert!(with_language > 10);
    let found = sandbox.json(&["query", "authority language=eng | count(lccn)", "--format", "json"]);
    assert!(found[0]["count(lccn)"].as_u64().unwrap() > 0);
}

#[test]
fn a_new_collection_and_a_new_index_are_applied_and_reported() {
    let sandbox = Sandbox::library();
    sandbox.import(&[&sandbox.write_file("names.mrc", authorities(100, 1, 1)), "--profile", "upsert"]);
    let definition = LIBRARY
        .replace("status:         { path: LDR/05, type: text }", "status:         { path: LDR/05, type: text, index: equal }")
        .replace("\nprofiles:", "\n  loan:\n    key: number\n    fields: { number: text }\n\nprofiles:")
        .replace("  holdings: {", "  loans: { format: csv, into: loan, as_of: meta.received }\n  holdings: {");
    sandbox.write_definition(&definition);
    let notes = ["note: collection `loan` is new", "note: index on `authority.status` is new", "restart servers and workers"];
    sandbox.run(&["work", "--drain"]).exits(0).stderr_contains(&notes);
    sandbox.run(&["query", "authority status=n", "--limit", "1"]).exits(0);
}

#[test]
fn a_change_that_does_not_fit_the_store_is_refused_with_what_to_do() {
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("names.mrc", authorities(20, 1, 1));
    sandbox.import(&[&file, "--profile", "upsert"]);
    let before = sandbox.export("authority", "ndjson");
    let changes = [
        (LIBRARY.replace("    key: lccn\n", "    key: control_number\n"), "the key of `authority` was `lccn` and is now `control_number`"),
        (
            LIBRARY.replace("found_in:       { path: \"670$a\", type: [text] }", "found_in:       { path: \"670$a\", type: text }"),
            "field `authority.found_in` was of type [text] and is now text",
        ),
        (
            LIBRARY.replace(
                "control_number: { path: \"001\", type: text, clean: trim }",
                "control_number: { path: \"001\", type: text, clean: trim, unique: true }",
            ),
            "`authority.control_number` is now unique, records in the store may not be",
        ),
    ];
    for (definition, reason) in changes {
        assert_ne!(definition, LIBRARY, "{reason}");
        sandbox.write_definition(&definition);
        for command in [&["import", &file, "--profile", "upsert"][..], &["query", "authority"], &["prepare"]] {
            let refusal = sandbox.run(command).exits(1);
            refusal.stderr_contains(&[
                "this catalogue.yaml is not compatible with the store:",
                reason,
                "revert these changes, or export with the old definition and import into a new store (--store)",
            ]);
        }
    }
    sandbox.write_definition(LIBRARY);
    assert!(sandbox.export("authority", "ndjson") == before, "nothing happened");
}

#[test]
fn a_definition_with_mistakes_is_refused_before_the_store_is_touched() {
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("names.mrc", authorities(5, 1, 1));
    sandbox.write_definition(&LIBRARY.replace("raw: keep", "raw: keeep"));
    sandbox.run(&["import", &file, "--profile", "upsert"]).exits(1).stderr_contains(&[
        "`keeep` is not a choice for raw",
        "did you mean `keep`?",
        "1 mistake",
    ]);
    assert!(!sandbox.store().exists());
}

// --- outputs --------------------------------------------------------------------------------------------------------------

#[test]
fn an_output_file_is_complete_or_unchanged() {
    let sandbox = Sandbox::library();
    let bytes = authorities(500, 1, 1);
    sandbox.import(&[&sandbox.write_file("names.mrc", &bytes), "--profile", "upsert"]);
    let folder = sandbox.path("out");
    std::fs::create_dir(&folder).unwrap();
    let output = folder.join("all.mrc");
    std::fs::write(&output, "what was there").unwrap();
    std::fs::set_permissions(&output, std::fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.join("latest.mrc");
    std::os::unix::fs::symlink("all.mrc", &link).unwrap();
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    // files may have 20 blocks of 512 or 1024 bytes, the export has more
    let script = "trap '' XFSZ; ulimit -f 20 || exit 99; exec \"$0\" \"$@\"";
    let limited = |arguments: &[&str]| {
        Command::new("sh").args(["-c", script, stook().to_str().unwrap(), "-C", sandbox.folder().to_str().unwrap()]).args(arguments).output().unwrap()
    };
    let export = ["export", "authority", "--format", "marc", "-o", output.to_str().unwrap()];
    let failed = limited(&export);
    if failed.status.code() == Some(99) {
        left_out("the size of files cannot be limited here");
    } else {
        assert_eq!(failed.status.code(), Some(1), "{}", String::from_utf8_lossy(&failed.stderr));
        assert_eq!(std::fs::read(&output).unwrap(), b"what was there");
        assert_eq!(names(), ["all.mrc", "latest.mrc"], "nothing is left beside it");
    }
    // so does what is refused
    sandbox.run(&["export", "nothing", "--format", "marc", "-o", output.to_str().unwrap()]).exits(1);
    assert_eq!(std::fs::read(&output).unwrap(), b"what was there");
    // through a link, with the permissions that the file had
    sandbox.run(&["export", "authority", "--format", "marc", "-o", link.to_str().unwrap()]).exits(0);
    assert!(std::fs::read(&output).unwrap() == bytes);
    assert!(link.is_symlink() && names() == ["all.mrc", "latest.mrc"]);
    assert_eq!(output.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    // a new file has the permissions of new files, a device is written to
    let fresh = folder.join("new.ndjson");
    sandbox.run(&["export", "authority", "--format", "ndjson", "-o", fresh.to_str().unwrap()]).exits(0);
    let plain = folder.join("plain");
    std::fs::write(&plain, "").unwrap();
    assert_eq!(fresh.metadata().unwrap().permissions().mode(), plain.metadata().unwrap().permissions().mode());
    sandbox.run(&["export", "authority", "--format", "csv", "-o", "/dev/null"]).exits(0);
    assert!(!Path::new("/dev/null").is_file());
    sandbox.run(&["export", "authority", "--format", "csv", "-o", folder.to_str().unwrap()]).exits(1).stderr_contains(&["directory"]);
}
