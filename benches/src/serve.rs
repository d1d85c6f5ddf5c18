//! Group `serve`: the HTTP API beside a bare server, beside what a team would write in Python, under more load than it can
//! take, and while imports run.
//!
//! What serves is bound to the first core, with its database; what asks is bound to the second. Rates are compared as
//! processor time of the served side per request: on shared cores the asking side's own cost would hide half of a difference.

use crate::Setting;
use crate::figures::{Figures, Samples};
use crate::process::{Ran, Result, execute, stook};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use stook_sample::businesses::{id, reference};
use stook_testkit::postgres::TestServer;

const ROUNDS: usize = 5;
/// Businesses of the register.
const BUSINESSES: u64 = 10_000;
/// Files of the register and their sources.
pub const REGISTER: [(&str, &str); 4] =
    [("samples.ndjson", "sample"), ("links.ndjson", "links"), ("respondents.ndjson", "respondents"), ("enrolments.csv", "enrolments")];
/// Seconds of one run under load.
const SECONDS: u64 = 3;
pub const SERVER_CORE: &str = "0";
pub const CLIENT_CORE: &str = "1";

/// A folder to work in, and perhaps a server.
pub struct Bench<'s> {
    /// Programs.
    pub setting: &'s Setting,
    /// The folder.
    pub folder: PathBuf,
    /// PostgreSQL.
    pub server: Option<TestServer>,
}

/// A program that serves, bound to its core.
pub struct Running {
    child: Child,
    address: String,
    token: Option<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

impl Running {
    /// HOST:PORT.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Memory that it has now, in MB.
    pub fn memory(&self) -> f64 {
        memory(self.child.id())
    }

    /// What it counts of itself.
    ///
    /// # Errors
    /// When it does not say.
    pub fn metrics(&self) -> Result<String> {
        self.get("/metrics")
    }

    /// What it answers, its head included.
    ///
    /// # Errors
    /// When that is not 200.
    pub fn get(&self, path: &str) -> Result<String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut connection = std::net::TcpStream::connect(&self.address).map_err(failed)?;
        let token = self.token.iter().map(|token| format!("Authorization: {token}\r\n")).collect::<String>();
        write!(connection, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{token}\r\n", self.address).map_err(failed)?;
        let mut text = String::new();
        connection.read_to_string(&mut text).map_err(failed)?;
        if text.starts_with("HTTP/1.1 200") { Ok(text) } else { Err(text) }
    }

    /// Starts a program that says on standard error where it serves.
    ///
    /// # Errors
    /// When it does not.
    pub fn start(program: &Path, arguments: &[&str], token: Option<String>) -> Result<Self> {
        let failed = |error: std::io::Error| format!("{}: {error}", program.display());
        let mut command = Command::new("taskset");
        command.args(["-c", SERVER_CORE]).arg(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let mut lines = BufReader::new(child.stderr.take().ok_or("no standard error")?);
        let mut first = String::new();
        lines.read_line(&mut first).map_err(failed)?;
        let address = first.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next()).map(str::to_owned);
        std::thread::spawn(move || lines.lines().map_while(std::result::Result::ok).for_each(drop));
        match address {
            Some(address) => Ok(Self { child, address, token }),
            None => Err(format!("{} does not serve: {first}", program.display())),
        }
    }

    fn headers(&self) -> Json {
        match &self.token {
            Some(token) => json!({ "authorization": token }),
            None => json!({}),
        }
    }
}

/// Processor time of a process and all below it, in seconds.
fn processor_seconds(pid: u32) -> f64 {
    let fields = |id: &str| {
        let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let rest: Vec<String> = text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect();
        Some(rest)
    };
    let mut pending = vec![pid.to_string()];
    let mut ticks = 0.0;
    let all: Vec<String> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .collect();
    while let Some(id) = pending.pop() {
        let Some(stat_fields) = fields(&id) else { continue };
        ticks += stat_fields[11..13].iter().filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>();
        pending.extend(all.iter().filter(|child| fields(child).is_some_and(|child| child[1] == id)).cloned());
    }
    ticks / 100.0
}

fn memory(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}

/// Times of answers by status, in microseconds, sorted.
struct Seen(BTreeMap<String, Vec<u64>>);

impl Seen {
    fn percentile(&self, status: &str, share: f64) -> f64 {
        let times = self.0.get(status).map(Vec::as_slice).unwrap_or_default();
        let index = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
        times.get(index).map_or(f64::NAN, |time| *time as f64 / 1_000.0)
    }

    fn count(&self, status: &str) -> u64 {
        self.0.get(status).map_or(0, |times| times.len() as u64)
    }

    fn count_except(&self, statuses: &[&str]) -> u64 {
        self.0.iter().filter(|(status, _)| !statuses.contains(&status.as_str())).map(|(_, times)| times.len() as u64).sum()
    }
}

fn single_sample(value: f64) -> Samples {
    let mut samples = Samples::default();
    samples.push(value);
    samples
}

impl Bench<'_> {
    /// A file of the folder.
    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Runs `stook` on an example, or on a catalogue by its whole path.
    ///
    /// # Errors
    /// When it fails.
    pub fn stook(&self, catalogue: &str, store: &str, words: &[&str]) -> Result<Ran> {
        let catalogue = self.setting.root.join("examples").join(catalogue).display().to_string();
        stook(&self.setting.stook, &catalogue, store, words)
    }

    fn url(&self, schema: &str) -> Option<String> {
        self.server.as_ref().map(|server| format!("{}?schema={schema}", server.url("postgres")))
    }

    fn database(&self) -> f64 {
        self.server.as_ref().and_then(TestServer::processor_seconds).unwrap_or(0.0)
    }

    /// Serves a store, asked with a token.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn serve(&self, catalogue: &str, store: &str, words: &[&str]) -> Result<Running> {
        let made = self.stook(catalogue, store, &["token", "create", "--role", "admin", "--json"])?.output;
        let made: Json = serde_json::from_str(&made).map_err(|error| format!("{made}: {error}"))?;
        let token = format!("Bearer {}", made["token"].as_str().unwrap_or_default());
        let folder = self.setting.root.join("examples").join(catalogue).display().to_string();
        let mut command_line = vec!["-C", folder.as_str(), "--store", store, "serve", "--listen", "127.0.0.1:0"];
        command_line.extend_from_slice(words);
        Running::start(&self.setting.stook, &command_line, Some(token))
    }

    /// Closed loop on random paths of a file; requests a second, and processor time of the served side per request in µs.
    fn wrk(&self, running: &Running, paths: &str, connections: &str, with_database: bool) -> Result<(f64, f64)> {
        let cost = || processor_seconds(running.child.id()) + if with_database { self.database() } else { 0.0 };
        let before = cost();
        let (rate, _) = self.closed_loop(running, paths, connections)?;
        Ok((rate, (cost() - before) * 1e6 / (rate * SECONDS as f64)))
    }

    /// Closed loop of clients that repeat what is refused; the numbers of requests that were done and refused.
    fn hammered(&self, running: &Running, paths: &str, connections: &str) -> Result<(f64, f64)> {
        let output = self.run_wrk(running, paths, connections)?;
        let number = |line: Option<&str>| line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        let all = number(output.lines().find(|line| line.contains(" requests in "))).ok_or_else(|| output.clone())?;
        let refused = output.lines().find_map(|line| line.trim().strip_prefix("Non-2xx or 3xx responses:"));
        let refused = number(refused).unwrap_or(0.0);
        Ok((all - refused, refused))
    }

    /// Closed loop on random paths of a file; requests a second, and the 99th percentile of their times in ms.
    ///
    /// # Errors
    /// When not all requests are answered.
    pub fn closed_loop(&self, running: &Running, paths: &str, connections: &str) -> Result<(f64, f64)> {
        let output = self.run_wrk(running, paths, connections)?;
        if output.contains("Non-2xx") || output.contains("Socket errors") {
            return Err(format!("not all requests were answered:\n{output}"));
        }
        let found = |name: &str| output.lines().find_map(|line| line.trim().strip_prefix(name).map(str::trim)).ok_or_else(|| output.clone());
        let number = |text: &str| text.trim_end_matches(|c: char| c.is_alphabetic()).parse::<f64>().map_err(|error| format!("{text}: {error}"));
        let (rate, tail) = (found("Requests/sec:")?, found("99%")?);
        let unit = match tail {
            tail if tail.ends_with("us") => 0.001,
            tail if tail.ends_with("ms") => 1.0,
            _ => 1_000.0,
        };
        let rate = number(rate)?;
        // where nothing was answered wrk shows a tail of nothing
        Ok((rate, if rate > 0.0 { number(tail)? * unit } else { f64::INFINITY }))
    }

    /// What wrk prints of a closed loop on random paths of a file.
    fn run_wrk(&self, running: &Running, paths: &str, connections: &str) -> Result<String> {
        let script = self.setting.root.join("benches/peers/paths.lua").display().to_string();
        let (url, time) = (format!("http://{}", running.address), format!("{SECONDS}s"));
        let header = running.token.as_ref().map(|token| format!("Authorization: {token}")).unwrap_or_else(|| "x-none: 1".into());
        let arguments = [
            "-c",
            CLIENT_CORE,
            "wrk",
            "--latency",
            "-t1",
            "-c",
            connections,
            "-d",
            &time,
            "--timeout",
            "20s",
            "-H",
            &header,
            "-s",
            &script,
            &url,
            "--",
            paths,
        ];
        Ok(execute(Path::new("taskset"), &arguments)?.output)
    }

    /// Open loop: each request with the microsecond at which it begins.
    fn open_loop(&self, running: &Running, requests: Vec<Json>) -> Result<Seen> {
        let plan = self.path("plan.json");
        let plan_json = json!({ "address": running.address, "headers": running.headers(), "requests": requests });
        std::fs::write(&plan, plan_json.to_string()).map_err(|error| error.to_string())?;
        let bench_program = self.setting.bench_program.display().to_string();
        let ran = execute(Path::new("taskset"), &["-c", CLIENT_CORE, &bench_program, "open-loop", &plan])?;
        Ok(Seen(serde_json::from_str(&ran.output).map_err(|error| error.to_string())?))
    }

    /// Writes lines to a file of the folder.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn lines(&self, name: &str, lines: impl Iterator<Item = String>) -> Result<String> {
        let path = self.path(name);
        std::fs::write(&path, lines.map(|line| line + "\n").collect::<String>()).map_err(|error| error.to_string())?;
        Ok(path)
    }

    fn load_register(&self, store: &str) -> Result<()> {
        let data = self.path("register");
        if !Path::new(&data).exists() {
            execute(&self.setting.stook, &["sample", "businesses", "--records", &BUSINESSES.to_string(), "-o", &data])?;
        }
        for (file, source) in REGISTER {
            self.stook("businesses", store, &["import", &format!("{data}/{file}"), "--source", source])?;
        }
        Ok(())
    }
}

/// What can be run alone.
pub const PARTS: &[&str] = &["get", "peer", "posts", "matrix", "bulk", "overload", "circulation"];

/// Runs these parts, or all.
pub fn run(setting: &Setting, figures: &mut Figures, parts: &[&str]) -> Result<()> {
    let is_wanted = |part: &str| parts.is_empty() || parts.contains(&part);
    for program in ["wrk", "taskset"] {
        if Command::new(program).arg("-V").output().is_err() {
            figures.note(&format!("skipped: {program} is not installed (Debian: apt install wrk util-linux), no figures of the group serve"));
            return Ok(());
        }
    }
    let folder = tempfile::Builder::new().prefix("stook-bench").tempdir().map_err(|error| error.to_string())?;
    let server = TestServer::start(&["shared_buffers=512MB", "max_connections=200"]);
    if let Err(reason) = &server {
        figures.note(&format!("skipped: {reason}; no figures on PostgreSQL and none beside the peer"));
    }
    let bench = Bench { setting, folder: folder.path().to_owned(), server: server.ok() };
    if let Some(pid) = bench.server.as_ref().and_then(|server| server.pid()) {
        // its processes inherit the core
        execute(Path::new("taskset"), &["-a", "-p", "-c", SERVER_CORE, &pid.to_string()])?;
    }
    // who asks, this process included, is on the other core
    execute(Path::new("taskset"), &["-a", "-p", "-c", CLIENT_CORE, &std::process::id().to_string()])?;
    let file = bench.path("register.sqlite");
    bench.load_register(&file)?;
    let on_server = bench.url("register");
    if let Some(url) = &on_server {
        bench.stook("businesses", url, &["prepare"])?;
        bench.load_register(url)?;
    }
    if is_wanted("get") {
        get_by_key(&bench, figures, &file, on_server.as_deref())?;
    }
    // what loading has left to the server is done before anything is measured
    bench.server.as_ref().map(|server| server.sql("CHECKPOINT")).transpose()?;
    if let (true, Some(peer)) = (is_wanted("peer") || is_wanted("posts"), start_peer(&bench, figures)?) {
        if is_wanted("peer") {
            beside_peer(&bench, figures, &peer, &file, on_server.as_deref())?;
        }
        if is_wanted("posts") {
            posts(&bench, figures, &peer)?;
        }
    }
    if is_wanted("matrix") {
        matrix(&bench, figures, &file)?;
    }
    if is_wanted("bulk") {
        bulk(&bench, figures)?;
    }
    if is_wanted("overload") {
        overload(&bench, figures, &file)?;
    }
    if is_wanted("circulation") {
        circulation(&bench, figures, &bench.path("items.sqlite"), "file")?;
        if let Some(url) = bench.url("items") {
            bench.stook("authorities", &url, &["prepare"])?;
            circulation(&bench, figures, &url, "PostgreSQL")?;
        }
    }
    Ok(())
}

/// One record by key.
fn get_by_key(bench: &Bench<'_>, figures: &mut Figures, file: &str, on_server: Option<&str>) -> Result<()> {
    let get_by_key = bench.lines("hot.txt", (1..=200).map(|number| format!("/v1/main/business/{}", reference(number))))?;
    let all = bench.lines("all.txt", (1..=BUSINESSES).map(|number| format!("/v1/main/business/{}", reference(number))))?;
    let hello = Running::start(&bench.setting.bench_program, &["hello", "120"], None)?;
    let warm = bench.serve("businesses", file, &["--workers", "0"])?;
    let cold = bench.serve("businesses", file, &["--workers", "0", "--cache", "0"])?;
    let postgres = on_server.map(|url| bench.serve("businesses", url, &["--workers", "0"])).transpose()?;
    let (mut bare, mut on_file, mut uncached, mut on_server_store) = <(Samples, Samples, Samples, Samples)>::default();
    for round in 0..=ROUNDS {
        let (_, bare_cost) = bench.wrk(&hello, &get_by_key, "64", false)?;
        let (_, cached_cost) = bench.wrk(&warm, &get_by_key, "64", false)?;
        let (_, uncached_cost) = bench.wrk(&cold, &all, "64", false)?;
        let served = postgres.as_ref().map(|running| bench.wrk(running, &get_by_key, "64", true)).transpose()?;
        if round > 0 {
            bare.push(bare_cost);
            on_file.push(cached_cost);
            uncached.push(uncached_cost);
            served.into_iter().for_each(|(_, cost)| on_server_store.push(cost));
        }
    }
    let relative_to_bare = |cost: &Samples| cost.divided_by(&bare);
    let limit = format!("bare axum hello, same core {:.1}", bare.median());
    figures.judged_at_most("get by key, hot, file", &on_file, "CPU µs", &limit, &relative_to_bare(&on_file), 2.0);
    figures.judged_at_most("get by key, cache off, uniform keys, file", &uncached, "CPU µs", &limit, &relative_to_bare(&uncached), 4.0);
    if on_server.is_some() {
        figures.judged_at_most(
            "get by key, hot, PostgreSQL (its CPU too)",
            &on_server_store,
            "CPU µs",
            &limit,
            &relative_to_bare(&on_server_store),
            4.0,
        );
    }
    Ok(())
}

/// What a team would write, serving the register.
fn start_peer(bench: &Bench<'_>, figures: &mut Figures) -> Result<Option<Running>> {
    let python = std::env::var_os("STOOK_PEER_PYTHON").map(PathBuf::from).filter(|python| python.exists());
    let (Some(python), Some(server)) = (python, &bench.server) else {
        figures.note("skipped: no PostgreSQL, or no Python with the peer's packages (STOOK_PEER_PYTHON): no figures beside it");
        return Ok(None);
    };
    let peers = bench.setting.root.join("benches/peers");
    let database = format!("{}/peer", server.url("postgres").rsplit_once('/').map_or("", |(base, _)| base));
    execute(&server.program("psql"), &["-X", "-q", "-d", &server.url("postgres"), "-c", "CREATE DATABASE peer"])?;
    let script = peers.join("register.py").display().to_string();
    execute(&python, &[&script, "load", &database.replace("postgres://", "postgresql://"), &bench.path("register")])?;
    let port = "28471";
    let mut command = Command::new("taskset");
    command.args(["-c", SERVER_CORE]).arg(python.with_file_name("gunicorn"));
    command.args(["--no-control-socket", "-k", "gevent", "-w", "2", "--chdir"]).arg(&peers);
    command.args(["--bind", &format!("127.0.0.1:{port}"), "register:make()"]);
    command.env("DATABASE_URL", database.replace("postgres://", "postgresql://")).env("REGISTER_USER", "user").env("REGISTER_PASSWORD", "secret");
    command.env("REGISTER_POOL", "45").env("PYTHONDONTWRITEBYTECODE", "1").stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(|error| error.to_string())?;
    // user:secret
    let python_served = Running { child, address: format!("127.0.0.1:{port}"), token: Some("Basic dXNlcjpzZWNyZXQ=".into()) };
    let deadline = Instant::now() + Duration::from_secs(20);
    while std::net::TcpStream::connect(&python_served.address).is_err() {
        if Instant::now() > deadline {
            return Err("the peer does not come up".into());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(Some(python_served))
}

/// The three routes beside the peer's.
fn beside_peer(bench: &Bench<'_>, figures: &mut Figures, python_served: &Running, file: &str, on_server: Option<&str>) -> Result<()> {
    let on_file = bench.serve("businesses", file, &["--workers", "0"])?;
    let on_server = on_server.map(|url| bench.serve("businesses", url, &["--workers", "0"])).transpose()?;
    let routes = [("/businesses?id=", true), ("/businesses/id/", true), ("/businesses/ref/", false)];
    for (route, by_id) in routes {
        let name = |number: u64| if by_id { id(&reference(number)).to_string() } else { reference(number) };
        let paths = |prefix: &str| (1..=BUSINESSES).map(|number| format!("{prefix}{route}{}", name(number))).collect::<Vec<_>>();
        let theirs = bench.lines("theirs.txt", paths("").into_iter())?;
        let ours = bench.lines("ours.txt", paths("/party-api/v1").into_iter())?;
        let (mut peer_rate, mut peer_cost, mut cost, mut served_cost) = <(Samples, Samples, Samples, Samples)>::default();
        for round in 0..=3 {
            let (rate, peer_cpu_cost) = bench.wrk(python_served, &theirs, "32", true)?;
            let (_, own_rate) = bench.wrk(&on_file, &ours, "32", false)?;
            let server_cpu_cost = on_server.as_ref().map(|running| bench.wrk(running, &ours, "32", true)).transpose()?;
            if round > 0 {
                peer_rate.push(rate);
                peer_cost.push(1e6 / peer_cpu_cost);
                cost.push(1e6 / own_rate);
                server_cpu_cost.into_iter().for_each(|(_, cost)| served_cost.push(1e6 / cost));
            }
        }
        figures.ratio(&format!("{route}, file"), &cost, "req/CPU s", "Flask register, 2 gevent workers", &peer_cost, 20.0);
        if on_server.is_some() {
            figures.ratio(
                &format!("{route}, PostgreSQL, its CPU too"),
                &served_cost,
                "req/CPU s",
                "Flask register, 2 gevent workers",
                &peer_cost,
                20.0,
            );
        }
        // open loop at 0.9 of what the peer can do
        let rate = 0.9 * peer_rate.median();
        let planned = |paths: Vec<String>| -> Vec<Json> {
            let every = 1e6 / rate;
            (0..(8.0 * rate) as usize).map(|number| json!([(number as f64 * every) as u64, "GET", paths[number * 7919 % paths.len()], ""])).collect()
        };
        let (mut slow, mut fast) = (Samples::default(), Samples::default());
        for _ in 0..3 {
            slow.push(bench.open_loop(python_served, planned(paths("")))?.percentile("200", 0.99));
            fast.push(bench.open_loop(&on_file, planned(paths("/party-api/v1")))?.percentile("200", 0.99));
        }
        let reference = format!("Flask register, 2 gevent workers {:.0} ms", slow.median());
        let title = format!("p99 of {route} at {rate:.0}/s");
        figures.judged_at_most(&title, &fast, "ms", &reference, &fast.divided_by(&slow), 1.0 / 20.0);
    }
    Ok(())
}

/// New businesses one by one, by eight clients that wait for each answer, beside the peer.
fn posts(bench: &Bench<'_>, figures: &mut Figures, python_served: &Running) -> Result<()> {
    let (mut on_file, mut of_server, mut theirs) = <(Samples, Samples, Samples)>::default();
    for round in 0..3 {
        let fresh = bench.path(&format!("posts{round}.sqlite"));
        let reference = |number: u64| (80_000_000_000 + round * 1_000_000 + number).to_string();
        // a business, and what a sample says of it: two records in one transaction, of the same bytes that the peer is sent
        let flat = |number: u64| json!({ "sampleUnitRef": reference(number), "sampleUnitType": "B", "sampleSummaryId": "s1", "runame1": "Posted", "runame2": number.to_string(), "runame3": "x", "tradstyle1": "Post", "tradstyle2": "", "tradstyle3": "", "region": "GB", "currency": "S" });
        let deliver_request = |number: u64| ("/v1/main/deliver?source=sample".to_owned(), flat(number).to_string());
        let running = bench.serve("businesses", &fresh, &["--workers", "0"])?;
        on_file.push(rate_of_eight_clients(&running, BUSINESSES, deliver_request)?);
        drop(running);
        if let Some(url) = bench.url("posts") {
            if round == 0 {
                bench.stook("businesses", &url, &["prepare"])?;
            }
            let running = bench.serve("businesses", &url, &["--workers", "0"])?;
            of_server.push(rate_of_eight_clients(&running, BUSINESSES, deliver_request)?);
        }
        theirs.push(rate_of_eight_clients(python_served, 800, |number| ("/businesses".into(), flat(number).to_string()))?);
    }
    figures.ratio(
        "single businesses by 8 clients, durable, file",
        &on_file,
        "per s",
        "Flask register, 2 gevent workers, PostgreSQL, durable",
        &theirs,
        8.0,
    );
    if bench.server.is_some() {
        figures.ratio(
            "single businesses by 8 clients, durable, PostgreSQL",
            &of_server,
            "per s",
            "Flask register, 2 gevent workers, PostgreSQL, durable",
            &theirs,
            8.0,
        );
    }
    Ok(())
}

fn rate_of_eight_clients(running: &Running, count: u64, request: impl Fn(u64) -> (String, String) + Sync) -> Result<f64> {
    use std::io::{Read, Write};
    let began = Instant::now();
    let failed = std::sync::Mutex::new(None::<String>);
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (request, failed) = (&request, &failed);
            scope.spawn(move || {
                let work = || -> std::io::Result<()> {
                    let mut stream = std::net::TcpStream::connect(&running.address)?;
                    stream.set_nodelay(true)?;
                    for number in (client..count).step_by(8) {
                        let (path, body) = request(number);
                        let token = running.token.as_deref().unwrap_or_default();
                        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: {token}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
                        stream.write_all((head + &body).as_bytes())?;
                        let mut answer = Vec::new();
                        let mut buffer = [0; 8_192];
                        loop {
                            let length = stream.read(&mut buffer)?;
                            answer.extend_from_slice(&buffer[..length]);
                            let text = String::from_utf8_lossy(&answer);
                            let Some((head, rest)) = text.split_once("\r\n\r\n") else { continue };
                            let headers = head.to_lowercase();
                            let length: usize = headers.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok()).unwrap_or(0);
                            if rest.len() >= length {
                                if !(headers.starts_with("http/1.1 200") || headers.starts_with("http/1.1 201")) {
                                    return Err(std::io::Error::other(text.into_owned()));
                                }
                                break;
                            }
                        }
                    }
                    Ok(())
                };
                if let (Err(error), Ok(mut failed)) = (work(), failed.lock()) {
                    *failed = Some(error.to_string());
                }
            });
        }
    });
    match failed.into_inner() {
        Ok(None) => Ok(count as f64 / began.elapsed().as_secs_f64()),
        Ok(Some(reason)) => Err(reason),
        Err(_) => Err("a client failed".into()),
    }
}

/// The report's 45 sets of requests, their spacing a hundredth.
fn matrix(bench: &Bench<'_>, figures: &mut Figures, file: &str) -> Result<()> {
    let running = bench.serve("businesses", file, &["--workers", "0"])?;
    // the service has run before the report's requests come
    let paths = (1..=BUSINESSES).map(|number| format!("/party-api/v1/businesses/ref/{}", reference(number)));
    let paths = bench.lines("warm.txt", paths)?;
    bench.wrk(&running, &paths, "8", false)?;
    let mut times_by_status: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut number = 0_u64;
    for route in ["/businesses?id=", "/businesses/ref/", "/businesses/id/"] {
        for count in [100, 200, 500] {
            for offset in [50, 100, 200, 1_000, 2_000_u64] {
                let requests = (0..count).map(|request_number| {
                    number += 7_919;
                    let name = reference(1 + number % BUSINESSES);
                    let name = if route.ends_with("ref/") { name } else { id(&name).to_string() };
                    json!([request_number * offset * 1_000 / 100, "GET", format!("/party-api/v1{route}{name}"), ""])
                });
                let requests: Vec<Json> = requests.collect();
                for (status, times) in bench.open_loop(&running, requests)?.0 {
                    times_by_status.entry(status).or_default().extend(times);
                }
            }
        }
    }
    times_by_status.values_mut().for_each(|times| times.sort_unstable());
    let times_by_status = Seen(times_by_status);
    figures.forbidden_event("the report's 12 000 requests: not answered 200", times_by_status.count_except(&["200"]));
    figures.at_most("the same: p99, from the intended start", &single_sample(times_by_status.percentile("200", 0.99)), "ms", 10.0);
    Ok(())
}

/// Businesses as one upload, beside the same file imported on the command line.
fn bulk(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    let all = std::fs::read_to_string(bench.folder.join("register/samples.ndjson")).map_err(|error| error.to_string())?;
    let lines = bench.lines("ten.ndjson", all.lines().take(BUSINESSES as usize).map(str::to_owned))?;
    let (mut upload, mut import) = (Samples::default(), Samples::default());
    for round in 0..=3 {
        let store = bench.path(&format!("bulk{round}.sqlite"));
        let folder = bench.setting.root.join("examples/businesses").display().to_string();
        let stook = bench.setting.stook.display().to_string();
        let ran =
            execute(Path::new("taskset"), &["-c", SERVER_CORE, &stook, "-C", &folder, "--store", &store, "import", &lines, "--source", "sample"])?;
        let running = bench.serve("businesses", &bench.path(&format!("upload{round}.sqlite")), &["--workers", "1"])?;
        let token = running.token.clone().unwrap_or_default();
        let began = Instant::now();
        let (url, data, header) =
            (format!("http://{}/v1/main/import?source=sample", running.address), format!("@{lines}"), format!("Authorization: {token}"));
        let job: Json = serde_json::from_str(&execute(Path::new("curl"), &["-s", "-H", &header, "--data-binary", &data, &url])?.output)
            .map_err(|error| error.to_string())?;
        let url = format!("http://{}/v1/main/jobs/{}", running.address, job["id"]);
        loop {
            let job_state: Json =
                serde_json::from_str(&execute(Path::new("curl"), &["-s", "-H", &header, &url])?.output).map_err(|error| error.to_string())?;
            match job_state["state"].as_str() {
                Some("completed") => break,
                Some("queued" | "running" | "interrupted") => std::thread::sleep(Duration::from_millis(5)),
                _ => return Err(job_state.to_string()),
            }
        }
        if round > 0 {
            upload.push(BUSINESSES as f64 / began.elapsed().as_secs_f64());
            import.push(BUSINESSES as f64 / ran.seconds);
        }
    }
    figures.ratio("10 000 businesses as one upload", &upload, "docs/s", "stook import, 1 core, synced at the end", &import, 0.5);
    Ok(())
}

fn dropped_connections() -> u64 {
    let text = std::fs::read_to_string("/proc/net/netstat").unwrap_or_default();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let named = names.split_whitespace().zip(values.split_whitespace());
    named.filter(|(name, _)| ["ListenDrops", "ListenOverflows"].contains(name)).filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

/// A question that costs the server some milliseconds: the versions of a tenth of the businesses sorted by what has no index.
const COSTLY: &str = "/v1/main/query?limit=20&q=version%20ref%3E%3D49900009001%20%7C%20sort%20name-";

/// Ten times what a server can do, for a minute. It is `stook serve` with eight places, so that all of them are taken.
fn overload(bench: &Bench<'_>, figures: &mut Figures, file: &str) -> Result<()> {
    let running = bench.serve("businesses", file, &["--workers", "0", "--max-requests", "8", "--wait", "15"])?;
    let paths = bench.lines("costly.txt", std::iter::once(COSTLY.to_owned()))?;
    // eight callers that wait for each other: as much as it can do, and nobody is refused
    bench.closed_loop(&running, &paths, "8")?;
    let (max_rate, busy) = bench.closed_loop(&running, &paths, "8")?;
    let requests_at = |rate: f64, seconds: u64| -> Vec<Json> {
        let all = (rate * seconds as f64) as u64;
        (0..all).map(|number| json!([(number as f64 * 1e6 / rate) as u64, "GET", COSTLY, ""])).collect()
    };
    // callers that ask again as soon as they are refused
    const HAMMERING: &str = "200";
    let calm_cost = bench.wrk(&running, &paths, "8", false)?.1;
    let cost = || processor_seconds(running.child.id());
    let before = cost();
    let (done, refused) = bench.hammered(&running, &paths, HAMMERING)?;
    let spent = (cost() - before) * 1e6;
    let per_refusal = (spent - done * calm_cost).max(0.0) / refused.max(1.0);
    let rate = single_sample(done / SECONDS as f64);
    let title = format!("stook serve --max-requests 8, {HAMMERING} clients that repeat what is refused at once: done");
    figures.ratio(&title, &rate, "req/s", "8 clients that wait for answers", &single_sample(max_rate), 0.9);
    let refusal = single_sample(per_refusal);
    let reference = format!("what is done {calm_cost:.0}");
    figures.judged_at_most("the same: a refusal", &refusal, "CPU µs", &reference, &refusal.divided_by(&single_sample(calm_cost)), 0.1);
    figures.ratio_without_bar("the same: refused", &single_sample(refused / SECONDS as f64), "req/s", "done", &rate);
    let (calm, storm) = (max_rate / 4.0, max_rate * 10.0);
    let calm_before = bench.open_loop(&running, requests_at(calm, 5))?;
    let (before, drops) = (memory(running.child.id()), dropped_connections());
    let first = bench.open_loop(&running, requests_at(storm, 10))?;
    let middle = memory(running.child.id());
    let later = bench.open_loop(&running, requests_at(storm, 50))?;
    let after = memory(running.child.id());
    std::thread::sleep(Duration::from_secs(1));
    let calm_again = bench.open_loop(&running, requests_at(calm, 5))?;
    let title = format!("stook serve --max-requests 8, {storm:.0}/s where {max_rate:.0}/s can be done, 60 s: no answer");
    figures.forbidden_event(&title, first.count_except(&["200", "503"]) + later.count_except(&["200", "503"]));
    figures.forbidden_event("the same: connections dropped", dropped_connections() - drops);
    let done = single_sample(later.count("200") as f64 / 50.0);
    figures.ratio_without_bar("the same: done", &done, "req/s", "8 clients that wait for answers", &single_sample(max_rate));
    figures.at_most("the same: p99 of 503", &single_sample(later.percentile("503", 0.99)), "ms", 50.0);
    let accepted = single_sample(later.percentile("200", 0.99));
    let reference = format!("8 clients that wait for answers {busy:.1} ms");
    figures.judged_at_most("the same: p99 of what was done", &accepted, "ms", &reference, &accepted.divided_by(&single_sample(busy)), 2.0);
    let grown = single_sample(after);
    let reference = format!("after 10 s {middle:.1}, calm {before:.1}");
    figures.judged_at_most("the same: memory at the end", &grown, "MB", &reference, &grown.divided_by(&single_sample(middle)), 1.2);
    let calm_p99 = single_sample(calm_before.percentile("200", 0.99));
    let after_storm = single_sample(calm_again.percentile("200", 0.99));
    let reference = format!("{calm:.0}/s before {:.1} ms", calm_p99.median());
    figures.judged_at_most("one second later: p99", &after_storm, "ms", &reference, &after_storm.divided_by(&calm_p99), 1.5);
    Ok(())
}

/// Check-outs and check-ins while files are imported.
fn circulation(bench: &Bench<'_>, figures: &mut Figures, store: &str, name: &str) -> Result<()> {
    const ITEMS: u64 = 5_000;
    const PART: u64 = 50_000;
    let items = bench.lines("items.csv", std::iter::once("barcode,lccn".to_owned()).chain((0..ITEMS).map(|number| format!("b{number},x"))))?;
    bench.stook("authorities", store, &["import", &items, "--profile", "stock"])?;
    let mut first = 1;
    let mut parts = Vec::new();
    for part in 0..40 {
        let file = bench.path(&format!("part{part}.mrc"));
        if !Path::new(&file).exists() {
            execute(&bench.setting.stook, &["sample", "authorities", "--records", &PART.to_string(), "--first", &first.to_string(), "-o", &file])?;
        }
        first += PART;
        parts.push(format!("part{part}.mrc"));
    }
    let folder = bench.folder.display().to_string();
    // both cores for whoever serves: an import takes what it gets
    let running = bench.serve("authorities", store, &["--workers", "1", "--files", &folder])?;
    execute(Path::new("taskset"), &["-a", "-p", "-c", "0,1", &running.child.id().to_string()])?;
    if let Some(pid) = bench.server.as_ref().and_then(TestServer::pid) {
        execute(Path::new("taskset"), &["-a", "-p", "-c", "0,1", &pid.to_string()])?;
    }
    let header = format!("Authorization: {}", running.token.clone().unwrap_or_default());
    let curl = |method: &str, path: &str| -> Result<Json> {
        let url = format!("http://{}{path}", running.address);
        let output = execute(Path::new("curl"), &["-s", "-X", method, "-H", &header, &url])?.output;
        serde_json::from_str(&output).map_err(|error| format!("{output}: {error}"))
    };
    // imports files one after the other until the time is over; documents a second
    let import = |parts: &mut std::vec::IntoIter<String>, seconds: f64| -> Result<f64> {
        let began = Instant::now();
        let mut documents = 0;
        while began.elapsed().as_secs_f64() < seconds {
            let Some(part) = parts.next() else { break };
            let job = curl("POST", &format!("/v1/main/import?path={part}&profile=upsert"))?;
            loop {
                let job_state = curl("GET", &format!("/v1/main/jobs/{}", job["id"]))?;
                match job_state["state"].as_str() {
                    Some("completed") => break,
                    Some("queued" | "running" | "interrupted") => std::thread::sleep(Duration::from_millis(20)),
                    _ => return Err(job_state.to_string()),
                }
            }
            documents += PART;
        }
        Ok(documents as f64 / began.elapsed().as_secs_f64())
    };
    let requests = |seconds: u64, turn: u64| -> Vec<Json> {
        let item_request = |number: u64| {
            // every item goes out, then comes back
            let (item, out) = ((number / 2 + turn) % ITEMS, number.is_multiple_of(2));
            let (transition, body) = if out { ("check_out", r#"{"patron":"p1"}"#) } else { ("check_in", "{}") };
            json!([number * 10_000, "POST", format!("/v1/main/item/b{item}/{transition}"), body])
        };
        (0..seconds * 100).map(item_request).collect()
    };
    let mut parts = parts.into_iter();
    let idle_import = import(&mut parts, 8.0)?;
    let idle = bench.open_loop(&running, requests(10, 0))?;
    let (busy, busy_import) = std::thread::scope(|scope| {
        let circulation_load = scope.spawn(|| bench.open_loop(&running, requests(62, 1_000)));
        let rate = import(&mut parts, 60.0);
        (circulation_load.join().unwrap_or_else(|_| Err("the load failed".into())), rate)
    });
    let (busy, busy_import) = (busy?, busy_import?);
    figures.forbidden_event(&format!("check-outs and check-ins, 100/s, {name}: not done"), busy.count_except(&["200"]) + idle.count_except(&["200"]));
    let (calm_p95, p95) = (idle.percentile("200", 0.95), single_sample(busy.percentile("200", 0.95)));
    figures.without_bar("the same: median during imports", &single_sample(busy.percentile("200", 0.5)), "ms");
    figures.judged_at_most(
        "the same: p95 during imports",
        &p95,
        "ms",
        &format!("idle p95 {calm_p95:.2} ms, times 3 or 15 ms"),
        &p95,
        (3.0 * calm_p95).max(15.0),
    );
    figures.ratio("the same: import meanwhile", &single_sample(busy_import), "docs/s", "import alone", &single_sample(idle_import), 0.6);
    Ok(())
}
