//! What the end-to-end tests are written with: the `stook` program, folders with a catalogue to run it in, and short ways to
//! read what it answers.
//!
//! The program is built once per test process, with the profile and in the target folder of the tests themselves, so that
//! `cargo test -p stook-tests` never tests yesterday's. `STOOK_BIN` names another one, and `STOOK_LAB_BIN` the one for
//! `stook sample` and `stook lab`, if that is built without them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

pub mod datasets;
pub mod http;
pub mod operations;
pub mod service;

use serde_json::Value as Json;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant, UNIX_EPOCH};
use stook_testkit::postgres::TestServer;
use tempfile::TempDir;

/// The definition of a library's authority file, as it stands in the examples.
pub const LIBRARY: &str = include_str!("../../examples/authorities/catalogue.yaml");

/// The repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the repository").to_owned()
}

/// What a JSON Schema validator finds wrong with a file; nothing where there is no Python with jsonschema and PyYAML.
pub fn schema_violations(schema: &str, file: &Path) -> Option<String> {
    let from_environment = std::env::var_os("STOOK_TEST_PYTHON").map(PathBuf::from);
    let in_home = std::env::var_os("HOME").map(|in_home| PathBuf::from(in_home).join(".cache/stook/venv/bin/python"));
    let usable = |python: &PathBuf| Command::new(python).args(["-c", "import jsonschema, yaml"]).output().is_ok_and(|output| output.status.success());
    let Some(python) = from_environment.into_iter().chain(in_home).find(usable) else {
        stook_testkit::skip::missing("there is no Python with jsonschema and PyYAML (STOOK_TEST_PYTHON)");
        return None;
    };
    let validator = repository().join("tests/reference/validate_schema.py");
    let output = Command::new(python).arg(validator).arg(schema).arg(file).output().expect("Python starts");
    let output_text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.success(), output_text.is_empty(), "{output_text}");
    Some(output_text)
}

/// The program under test.
pub fn stook() -> &'static Path {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| match std::env::var_os("STOOK_BIN") {
        Some(program) => Ok(program.into()),
        None => build(),
    });
    program.as_ref().unwrap_or_else(|problem| panic!("{problem}"))
}

/// The program that has `stook sample` and `stook lab`: the one under test, unless it is built without them.
pub fn program_with_lab() -> PathBuf {
    std::env::var_os("STOOK_LAB_BIN").map_or_else(|| stook().to_owned(), PathBuf::from)
}

fn build() -> Result<PathBuf, String> {
    // target/PROFILE/deps/TEST
    let executable = std::env::current_exe().expect("the path of the test");
    let profile_folder = executable.ancestors().nth(2).expect("a profile's folder");
    let target = profile_folder.parent().expect("a target folder");
    let program = profile_folder.join(format!("stook{}", std::env::consts::EXE_SUFFIX));
    let profile = match profile_folder.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(repository()).args(["build", "--quiet", "--package", "stook-cli", "--profile", profile, "--target-dir"]).arg(target);
    // what cargo tells a test about its package would make build scripts run again, and all that depends on them be compiled again
    let of_this_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_this_package)).for_each(|(name, _)| {
        command.env_remove(name);
    });
    match command.output() {
        Ok(output) if output.status.success() => Ok(program),
        Ok(output) => Err(format!("stook does not build:\n{}", String::from_utf8_lossy(&output.stderr))),
        // tests that were copied somewhere without a toolchain use the program beside them
        Err(_) if program.exists() => Ok(program),
        Err(error) => Err(format!("stook cannot be built and is not at {}: {error}", program.display())),
    }
}

/// What a command answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Exit code; -1 when it was killed.
    pub code: i32,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub err: String,
}

impl Answer {
    fn from_output(output: Output) -> Self {
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!err.contains("panicked at"), "stook panicked:\n{err}");
        Self { code: output.status.code().unwrap_or(-1), out: output.stdout, err }
    }

    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.out.clone()).expect("the output is UTF-8")
    }

    /// Standard output as one JSON value.
    pub fn json(&self) -> Json {
        serde_json::from_slice(&self.out).unwrap_or_else(|error| panic!("not JSON: {error}\n{}\n{}", self.text(), self.err))
    }

    /// Standard output as one JSON value a line.
    pub fn lines(&self) -> Vec<Json> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON: {error}: {line}"))).collect()
    }

    /// The same answer, if the command ended with this code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "exit code\nstandard output:\n{}\nstandard error:\n{}", String::from_utf8_lossy(&self.out), self.err);
        self
    }

    /// The same answer, if standard error has all of these words.
    #[track_caller]
    pub fn stderr_contains(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.err.contains(word), "{word:?} is missing in\n{}", self.err);
        }
        self
    }
}

/// A folder with a catalogue, deleted when the test ends.
pub struct Sandbox {
    folder: TempDir,
    server: Option<String>,
}

impl Sandbox {
    /// A folder with this `catalogue.yaml`.
    pub fn new(definition: &str) -> Self {
        let sandbox = Self { folder: tempfile::Builder::new().prefix("stook").tempdir().expect("a folder"), server: None };
        sandbox.write_definition(definition);
        sandbox
    }

    /// The same with its store on a server, which is prepared.
    pub fn on_server(definition: &str, url: String) -> Self {
        let sandbox = Self { server: Some(url), ..Self::new(definition) };
        sandbox.ok(&["prepare"]);
        sandbox
    }

    /// The same sandbox with a store that is on a server.
    pub fn with_store(self, url: String) -> Self {
        Self { server: Some(url), ..self }
    }

    /// An empty sandbox on a file, and one on the tests' server where PostgreSQL is installed.
    pub fn on_each_store(definition: &str) -> Vec<Self> {
        let on_server = TestServer::shared().map(|server| Self::on_server(definition, server.new_store_url()));
        std::iter::once(Self::new(definition)).chain(on_server).collect()
    }

    /// A library's authority file.
    pub fn library() -> Self {
        Self::new(LIBRARY)
    }

    /// Gives the folder another `catalogue.yaml`.
    pub fn write_definition(&self, definition: &str) {
        std::fs::write(self.path("catalogue.yaml"), definition).expect("a definition");
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file of the folder, whether it is there or not.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The URL of its store on a server.
    pub fn server_url(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// The schema of its store on a server.
    pub fn schema(&self) -> Option<&str> {
        self.server.as_deref()?.split("schema=").nth(1)
    }

    /// The store's file.
    pub fn store(&self) -> PathBuf {
        self.path("stook.sqlite")
    }

    /// Where its store is, as `--store` says it.
    pub fn address(&self) -> String {
        self.server.clone().unwrap_or_else(|| self.store().display().to_string())
    }

    /// Writes a file and gives its path as an argument.
    pub fn write_file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    }

    /// A command in this sandbox, not yet started. Nothing of the environment tells it where its store is.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let of_lab = arguments.first().is_some_and(|first| first.as_ref() == "sample" || first.as_ref() == "lab");
        let mut command = if of_lab { Command::new(program_with_lab()) } else { Command::new(stook()) };
        match &self.server {
            Some(url) => command.env("STOOK_STORE", url),
            None => command.env_remove("STOOK_STORE"),
        };
        command.current_dir(self.folder.path()).env("NO_COLOR", "1").arg("-C").arg(self.folder.path()).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Answer {
        Answer::from_output(self.command(arguments).output().expect("stook runs"))
    }

    /// Runs `COMMAND --json` with variables of the environment to its end.
    pub fn run_json(&self, command: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Answer {
        let words: Vec<&str> = [command, "--json"].iter().chain(arguments).copied().collect();
        let answer = Answer::from_output(self.command(&words).envs(variables.iter().copied()).output().expect("stook runs"));
        assert!(!answer.err.contains("panicked"), "{}", answer.err);
        answer
    }

    /// Runs a command that must have ended after so long; its output fits into a pipe.
    ///
    /// # Panics
    /// When it has not ended.
    #[track_caller]
    pub fn run_within<S: AsRef<OsStr>>(&self, arguments: &[S], limit: Duration) -> Answer {
        let mut child = self.command(arguments).spawn().expect("stook runs");
        let started = Instant::now();
        while child.try_wait().expect("a state").is_none() {
            if started.elapsed() > limit {
                child.kill().and_then(|()| child.wait()).expect("it is stopped");
                panic!("it has not ended after {limit:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Answer::from_output(child.wait_with_output().expect("its output"))
    }

    /// Runs a command that succeeds and gives its standard output.
    #[track_caller]
    pub fn ok<S: AsRef<OsStr>>(&self, arguments: &[S]) -> String {
        self.run(arguments).exits(0).text()
    }

    /// Runs a command that succeeds and gives its standard output as JSON.
    #[track_caller]
    pub fn json<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Json {
        self.run(arguments).exits(0).json()
    }

    /// Imports with these arguments and gives the job. The exit code must be the one that fits its state.
    #[track_caller]
    pub fn import(&self, arguments: &[&str]) -> Json {
        let answer = self.run(&[&["import", "--json"], arguments].concat());
        let code = answer.code;
        assert!(code == 0 || code == 2, "exit code {code}\n{}", answer.err);
        let job = answer.json();
        let state = if code == 0 { "completed" } else { "completed_with_errors" };
        assert_eq!(job["state"], state, "{job}");
        assert_eq!((&job["chunks_left"], &job["chunks_dead"]), (&Json::from(0), &Json::from(0)));
        job
    }

    /// Fills a sandbox of `examples/businesses` with a sample; returns the folder of its files.
    pub fn import_businesses(&self, businesses: u64) -> String {
        let folder = self.path("data").display().to_string();
        self.ok(&["sample", "businesses", "--records", &businesses.to_string(), "-o", &folder]);
        for (file, source) in
            [("samples.ndjson", "sample"), ("links.ndjson", "links"), ("respondents.ndjson", "respondents"), ("enrolments.csv", "enrolments")]
        {
            self.import(&[&format!("{folder}/{file}"), "--source", source]);
        }
        folder
    }

    /// Says what an import would do, and checks that the answer's exit code fits.
    #[track_caller]
    pub fn dry_run(&self, arguments: &[&str]) -> Json {
        let answer = self.run(&[&["import", "--json", "--dry-run"], arguments].concat());
        let preview = answer.json();
        let code = if preview["counts"]["failed"] == 0 { 0 } else { 2 };
        answer.exits(code);
        assert_eq!(preview["dry_run"], true);
        preview
    }

    /// A job by its number.
    #[track_caller]
    pub fn job(&self, number: u64) -> Json {
        let jobs = self.json(&["jobs", "--json", "--limit", "1000000"]);
        let found = jobs.as_array().expect("a list").iter().find(|job| job["id"] == number);
        found.unwrap_or_else(|| panic!("there is no job {number} in {jobs}")).clone()
    }

    /// The journal of a job.
    #[track_caller]
    pub fn journal(&self, job: u64) -> Vec<Json> {
        self.run(&["journal", &job.to_string(), "--json"]).exits(0).lines()
    }

    /// Failures and warnings of a job.
    #[track_caller]
    pub fn troubles(&self, job: u64) -> Vec<Json> {
        self.run(&["journal", &job.to_string(), "--json", "--errors"]).exits(0).lines()
    }

    /// Chunks in the queue.
    #[track_caller]
    pub fn queue(&self) -> Vec<Json> {
        self.json(&["queue", "ls", "--json"]).as_array().expect("a list").clone()
    }

    /// A record as JSON; null when there is none.
    pub fn get(&self, collection: &str, key: &str) -> Json {
        let answer = self.run(&["get", collection, key, "--format", "json"]);
        if answer.code == 0 { answer.json() } else { Json::Null }
    }

    /// Every record of a collection, as `format` writes it.
    #[track_caller]
    pub fn export(&self, collection: &str, format: &str) -> Vec<u8> {
        self.run(&["export", collection, "--format", format]).exits(0).out
    }

    /// Every record of a collection, as JSON in the order of keys.
    #[track_caller]
    pub fn records(&self, collection: &str) -> Vec<Json> {
        self.run(&["export", collection, "--format", "ndjson"]).exits(0).lines()
    }

    /// Does to the store what no command does.
    #[track_caller]
    pub fn sql(&self, statement: &str) {
        let Some(schema) = self.schema() else {
            return rusqlite::Connection::open(self.store()).and_then(|connection| connection.execute_batch(statement)).expect("SQL");
        };
        TestServer::shared().expect("the tests' server").sql(&format!("SET search_path TO \"{schema}\"; {statement}")).expect("SQL");
    }

    /// What the database itself thinks of its file.
    #[track_caller]
    pub fn assert_sound(&self) {
        let connection = rusqlite::Connection::open(self.store()).expect("a database");
        let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("an answer");
        assert_eq!(verdict, "ok");
    }
}

/// Everything an import of authorities leaves behind, paths on this disk and times aside.
pub struct ImportEffects {
    /// The job's counts.
    pub counts: Json,
    journal: Vec<Json>,
    ndjson: Vec<u8>,
    /// The documents.
    pub marc: Vec<u8>,
}

impl ImportEffects {
    /// What a job has left, with every document in its journal once, in order.
    #[track_caller]
    pub fn of_job(sandbox: &Sandbox, number: u64) -> Self {
        let job = sandbox.job(number);
        assert_eq!(sum_of_outcomes(&job), job["counts"]["documents"].as_u64().expect("a number"));
        let mut journal = sandbox.journal(number);
        for (index, entry) in journal.iter_mut().enumerate() {
            assert_eq!(entry["document"], index + 1, "every document is in the journal once, in order");
            entry["file"].take();
        }
        assert_eq!(job["counts"]["documents"], journal.len());
        // damaged documents are exported repaired, which is exit code 2
        let marc = sandbox.run(&["export", "authority", "--format", "marc"]);
        let marc = if marc.err.starts_with("changed: ") { marc.exits(2) } else { marc.exits(0) }.out;
        Self { counts: job["counts"].clone(), journal, ndjson: sandbox.export("authority", "ndjson"), marc }
    }

    /// Compares with what another import has left.
    #[track_caller]
    pub fn equals(&self, expected: &Self) {
        assert_eq!(self.counts, expected.counts);
        let first_difference = self.journal.iter().zip(&expected.journal).find(|(found, expected)| found != expected);
        assert_eq!(first_difference, None, "the journal tells of the same outcomes");
        assert!(self.ndjson == expected.ndjson, "golden fields are equal byte for byte");
        assert!(self.marc == expected.marc, "documents are equal byte for byte");
    }
}

/// Starts a command, kills it after a time, and says whether it was killed before it ended by itself.
pub fn kill_after(mut command: Command, time: Duration) -> bool {
    let mut child: Child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("stook runs");
    std::thread::sleep(time);
    let ended = child.try_wait().expect("a state").is_some();
    child.kill().expect("it is killed or gone");
    let status = child.wait().expect("a state");
    // it may have ended between the question and the signal
    !ended && status.code().is_none()
}

/// A sandbox where the import of a file (and its path) was killed with chunks left in the queue, in a state that `fits`.
pub fn interrupted_import(definition: &str, name: &str, bytes: &[u8], fits: impl Fn(&Sandbox) -> bool) -> (Sandbox, String) {
    let mut dice = Dice::new(11);
    for _ in 0..300 {
        let sandbox = Sandbox::new(definition);
        let file = sandbox.write_file(name, bytes);
        let killed = kill_after(sandbox.command(&["import", &file]), Duration::from_millis(20 + dice.below(200)));
        // it may have been killed before there was a store in the file
        let waits = |answer: Answer| answer.code == 0 && answer.json() != Json::Array(Vec::new());
        if killed && waits(sandbox.run(&["queue", "ls", "--json"])) && fits(&sandbox) {
            return (sandbox, file);
        }
    }
    panic!("no import could be killed at work");
}

/// The counts of a job or a dry run that are not zero, documents aside, as "created 3, failed 1".
pub fn counts(job: &Json) -> String {
    let counts = job["counts"].as_object().unwrap_or_else(|| panic!("no counts in {job}"));
    let nonzero = counts.iter().filter(|(name, count)| *name != "documents" && **count != 0);
    nonzero.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

/// The sum of a job's outcomes.
pub fn sum_of_outcomes(job: &Json) -> u64 {
    let names = ["created", "updated", "unchanged", "deleted", "superseded", "skipped", "withdrawn", "failed"];
    names.iter().map(|name| job["counts"][name].as_u64().unwrap_or_else(|| panic!("{name} of {job}"))).sum()
}

/// Made-up authority records in ISO 2709.
pub fn authorities(records: u64, seed: u64, first: u64) -> Vec<u8> {
    let (records, seed, first) = (records.to_string(), seed.to_string(), first.to_string());
    let arguments = ["sample", "authorities", "--records", &records, "--seed", &seed, "--first", &first];
    let output = Command::new(program_with_lab()).args(arguments).output().expect("stook runs");
    Answer::from_output(output).exits(0).out
}

/// Bytes as gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Bytes as Zstandard.
pub fn zstandard(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("memory")
}

/// Sets a file's modification time, in seconds since 1970.
pub fn touch(path: impl AsRef<Path>, seconds: u64) {
    let file = std::fs::File::options().write(true).open(path).expect("the file");
    file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).expect("a time");
}

/// Numbers that look random; equal seeds give equal ones.
pub struct Dice(u64);

impl Dice {
    /// A sequence.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit.max(1)
    }
}
