//! A private PostgreSQL server for tests and measurements: from the installed binaries, in a temporary folder, on a free port
//! of the loopback, gone with the process that started it.

use crate::certificates::Identity;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A running server. Dropping it stops it and removes its folder; so does the end of this process, however it ends.
pub struct TestServer {
    folder: PathBuf,
    port: u16,
    binaries: PathBuf,
    /// A shell that waits for this process to go.
    guard: Option<Child>,
}

/// Where the newest installed server's programs are; `STOOK_TEST_POSTGRES` names another folder.
pub fn binaries() -> Option<PathBuf> {
    let named = std::env::var_os("STOOK_TEST_POSTGRES").map(PathBuf::from);
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut versions: Vec<PathBuf> = debian.collect();
    versions.sort_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    let installed = versions.into_iter().rev().map(|path| path.join("bin"));
    let mut folders = named.into_iter().chain(installed).chain(["/usr/local/pgsql/bin".into(), "/usr/bin".into()]);
    folders.find(|folder| folder.join("postgres").exists() && folder.join("initdb").exists())
}

/// Whether `STOOK_TEST_POSTGRES=none` says that the program under test has no stores on PostgreSQL.
fn is_left_out() -> bool {
    let left_out = std::env::var_os("STOOK_TEST_POSTGRES").is_some_and(|value| value == "none");
    if left_out {
        crate::skip::left_out("the program under test is built without PostgreSQL");
    }
    left_out
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0)
}

/// The command such that a server accepts it: the server refuses to run as root.
fn command(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
    command
}

impl TestServer {
    /// The server that all tests of a process share, for data that need not outlive it; nothing, and a word that the test was
    /// skipped, where there is none.
    pub fn shared() -> Option<&'static Self> {
        if is_left_out() {
            return None;
        }
        static SHARED: OnceLock<Result<TestServer, String>> = OnceLock::new();
        let shared =
            SHARED.get_or_init(|| Self::start_in(&crate::memory::folder(), &["fsync=off", "full_page_writes=off", "deadlock_timeout=200ms"]));
        shared.as_ref().map_err(|reason| crate::skip::missing(reason)).ok()
    }

    /// A server of a test's own, as [`TestServer::start`] starts it; nothing, and a word that the test was skipped, where there is none.
    pub fn for_test(settings: &[&str]) -> Option<Self> {
        if is_left_out() {
            return None;
        }
        Self::start(settings).map_err(|reason| crate::skip::missing(&reason)).ok()
    }

    /// Starts a server with `settings` in the form `name=value`.
    ///
    /// # Errors
    /// In words, when there is no server to start or it does not come up.
    pub fn start(settings: &[&str]) -> Result<Self, String> {
        Self::start_in(&std::env::temp_dir(), settings)
    }

    fn start_in(folder: &Path, settings: &[&str]) -> Result<Self, String> {
        let binaries = binaries().ok_or("PostgreSQL is not installed")?;
        let folder = folder.join(format!("stook-postgres-{}-{}", std::process::id(), free_port()?));
        std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&folder))?;
        }
        let data = folder.join("data");
        run(command(&binaries.join("initdb")).arg("-D").arg(&data).args([
            "-U",
            "stook",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
            "--no-instructions",
        ]))?;
        let mut server = Self { folder, port: free_port()?, binaries, guard: None };
        let required = [
            format!("port={}", server.port),
            "listen_addresses=127.0.0.1".into(),
            format!("unix_socket_directories={}", server.folder.display()),
            "max_connections=200".into(),
            "logging_collector=off".into(),
        ];
        let mut text: String = required.iter().map(|setting| settings_line(setting)).collect();
        text.extend(settings.iter().map(|setting| settings_line(setting)));
        std::fs::write(data.join("postgresql.auto.conf"), text).map_err(|error| error.to_string())?;
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(data.join("postgresql.auto.conf")))?;
        }
        server.up()?;
        // it lives as long as the pipe to this process is open
        let script = "cat >/dev/null; pid=$(head -n 1 \"$1/data/postmaster.pid\" 2>/dev/null); [ -n \"$pid\" ] && kill -QUIT \"$pid\" 2>/dev/null; \
                      sleep 0.3; rm -rf \"$1\"";
        let guard = Command::new("sh").args(["-c", script, "sh"]).arg(&server.folder).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        server.guard = Some(guard.map_err(|error| error.to_string())?);
        Ok(server)
    }

    /// Starts the server, after [`TestServer::stop`] again on the same port.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn up(&self) -> Result<(), String> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log()).map_err(|error| error.to_string())?;
        let mut server = command(&self.binaries.join("postgres"));
        server.arg("-D").arg(self.folder.join("data")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut running = server.spawn().map_err(|error| error.to_string())?;
        let deadline = Instant::now() + Duration::from_secs(60);
        // another server may answer at the port while this one gives up
        while Instant::now() < deadline && running.try_wait().is_ok_and(|ended| ended.is_none()) {
            // the server says so itself, in the eighth line of its file
            let pid = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap_or_default();
            let ready = pid.lines().nth(7).is_some_and(|status| status.trim() == "ready");
            if ready {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("the server does not come up:\n{}", std::fs::read_to_string(self.log()).unwrap_or_default()))
    }

    /// Makes the server encrypt connections with this certificate, from now on; clients may present certificates that `authority` has signed.
    ///
    /// # Errors
    /// When the server does not take it.
    pub fn encrypt(&self, identity: &Identity, authority: &str) -> Result<(), String> {
        let write = |name: &str, text: &str| -> Result<String, String> {
            let path = self.folder.join(name);
            let written = std::fs::write(&path, text).and_then(|()| {
                std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
                let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&self.folder)?);
                std::os::unix::fs::chown(&path, Some(owner), None)
            });
            written.map(|()| path.display().to_string()).map_err(|error| format!("{}: {error}", path.display()))
        };
        let settings = [
            ("ssl_cert_file", write("server.crt", &identity.certificate)?),
            ("ssl_key_file", write("server.key", &identity.key)?),
            ("ssl_ca_file", write("clients.crt", authority)?),
            ("ssl", "on".into()),
        ];
        for (name, value) in settings {
            self.sql(&format!("ALTER SYSTEM SET {name} = '{value}'"))?;
        }
        self.reload()
    }

    /// Decides who may connect how, by lines of `pg_hba.conf`; the server's owner may always.
    ///
    /// # Errors
    /// When the server does not take it.
    pub fn allow(&self, rules: &[&str]) -> Result<(), String> {
        let path = self.folder.join("data/pg_hba.conf");
        let text = rules.iter().fold("local all all trust\n".to_owned(), |text, rule| text + rule + "\n");
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        self.reload()
    }

    /// Makes the server read its settings again, and waits until new connections know them.
    fn reload(&self) -> Result<(), String> {
        self.sql("SELECT pg_reload_conf()")?;
        // the server's first process is told by a signal
        std::thread::sleep(Duration::from_millis(300));
        Ok(())
    }

    /// The port at which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Stops the server: `immediate` as if the machine had gone, `fast` with its connections cut.
    ///
    /// # Errors
    /// When it does not stop.
    pub fn stop(&self, mode: &str) -> Result<(), String> {
        run(command(&self.binaries.join("pg_ctl")).args(["stop", "-w", "-m", mode, "-D"]).arg(self.folder.join("data")))
    }

    /// The number of its first process.
    pub fn pid(&self) -> Option<u32> {
        std::fs::read_to_string(self.folder.join("data/postmaster.pid")).ok()?.lines().next()?.trim().parse().ok()
    }

    /// The URL of one of its databases.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://stook@127.0.0.1:{}/{database}", self.port)
    }

    /// The URL of a store in a schema that nobody else in this process uses.
    pub fn new_store_url(&self) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        format!("{}?schema=place{}", self.url("postgres"), NUMBER.fetch_add(1, Ordering::SeqCst))
    }

    /// Processor time of the server and all its processes so far, in seconds; nothing where the system does not tell.
    pub fn processor_seconds(&self) -> Option<f64> {
        let pid = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).ok()?.lines().next()?.trim().to_owned();
        // fields of a process after its name: state, parent, .. user, system, children's user, children's system
        let fields = |id: &str| {
            let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            let rest: Vec<String> = text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect();
            Some(rest)
        };
        let sum =
            |fields: &[String], range: std::ops::Range<usize>| -> u64 { fields[range].iter().filter_map(|ticks| ticks.parse::<u64>().ok()).sum() };
        let mut ticks = sum(&fields(&pid)?, 11..15);
        for entry in std::fs::read_dir("/proc").ok()?.flatten() {
            let id = entry.file_name();
            if let Some(process_fields) = id.to_str().filter(|id| id.bytes().all(|byte| byte.is_ascii_digit())).and_then(fields)
                && process_fields[1] == pid
            {
                ticks += sum(&process_fields, 11..13);
            }
        }
        // the kernel counts in hundredths
        Some(ticks as f64 / 100.0)
    }

    /// One of the server's programs, or of those that belong to it.
    pub fn program(&self, name: &str) -> PathBuf {
        let program = self.binaries.join(name);
        if program.exists() { program } else { PathBuf::from(name) }
    }

    /// Runs SQL as the server's owner; returns what it answers, unadorned.
    ///
    /// # Errors
    /// When there is no `psql`, or the server refuses.
    pub fn sql(&self, sql: &str) -> Result<String, String> {
        let mut command = Command::new(self.program("psql"));
        // through its socket, whatever rules a test gives for connections over the network
        let socket = format!("host={} port={} user=stook dbname=postgres", self.folder.display(), self.port);
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &socket, "-c", sql]);
        let output = command.stdin(Stdio::null()).output().map_err(|error| format!("psql: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// The folder that is removed with the server; its processes may write here.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the server has logged.
    pub fn logged(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.stop("immediate");
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            let _ = guard.wait();
        }
    }
}

/// A line of the server's settings.
fn settings_line(setting: &str) -> String {
    let (name, value) = setting.split_once('=').unwrap_or((setting, "on"));
    format!("{name} = '{}'\n", value.replace('\'', "''"))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
}

/// A free port below those that connections are given; every call of this process gives another one.
fn free_port() -> Result<u16, String> {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % 10_000) as u16;
    for _ in 0..12_000 {
        let port = 20_000 + (start + GIVEN.fetch_add(1, Ordering::SeqCst)) % 12_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no port is free".into())
}
