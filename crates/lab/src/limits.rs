//! Limits of this machine, measured immediately before the run that is compared with them.

use crate::plan::LoadPlan;
use crate::{LabError, Result, closed};
use rusqlite::Connection;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use stook_report::plan::{PlanFile, RouteEntry};
use stook_report::run::MachineLimit;
use stook_sample::random::Random;

/// Max bytes of a sequential write.
const MAX_WRITTEN: usize = 256 << 20;
const BLOCK: usize = 1 << 20;

fn limit(name: &str, value: f64, unit: &str) -> MachineLimit {
    MachineLimit { name: name.into(), value, unit: unit.into() }
}

/// Returns how often `work` can be done per second.
fn per_second(time: Duration, mut work: impl FnMut() -> Result<u64>) -> Result<f64> {
    let (began, mut done) = (Instant::now(), 0);
    while began.elapsed() < time {
        done += work()?;
    }
    Ok(done as f64 / began.elapsed().as_secs_f64())
}

/// Measures each limit for `time`; files are created in `folder` and removed. `on_limit` is called with the name of each limit.
///
/// # Errors
/// When a file cannot be written, or the database refuses.
pub fn measure(folder: &Path, postgres: Option<&str>, time: Duration, on_limit: &dyn Fn(&str)) -> Result<Vec<MachineLimit>> {
    let temporary_folder = folder.join(format!(".stook-limits-{}", std::process::id()));
    std::fs::create_dir_all(&temporary_folder).map_err(|error| LabError::File(temporary_folder.display().to_string(), error))?;
    let found = measure_in(&temporary_folder, postgres, time, on_limit);
    let _ = std::fs::remove_dir_all(&temporary_folder);
    found
}

fn measure_in(folder: &Path, postgres: Option<&str>, time: Duration, on_limit: &dyn Fn(&str)) -> Result<Vec<MachineLimit>> {
    let mut limits = Vec::new();
    on_limit("memory");
    let (from, mut to) = (vec![1_u8; 64 << 20], vec![0_u8; 64 << 20]);
    let copied = per_second(time, || {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        Ok(1)
    })?;
    limits.push(limit("memory copied", copied * from.len() as f64 / 1e9, "GB/s"));
    on_limit("disk");
    limits.push(limit("written in sequence, synced", sequential(folder, time)? / 1e6, "MB/s"));
    let mut log = std::fs::File::create(folder.join("log"))?;
    let block = [7_u8; 4_096];
    let synced = per_second(time, || {
        log.write_all(&block)?;
        log.sync_data()?;
        Ok(1)
    })?;
    limits.push(limit("4 KiB appended and synced", synced, "1/s"));
    on_limit("JSON");
    let text = sample_json();
    let parsed = per_second(time, || Ok(u64::from(serde_json::from_str::<serde_json::Value>(std::hint::black_box(&text)).is_ok())))?;
    limits.push(limit("JSON parsed by serde_json, one core", parsed * text.len() as f64 / 1e6, "MB/s"));
    on_limit("HTTP");
    limits.push(limit("answers of a bare server, 64 clients, client and server here", http(time)?, "1/s"));
    on_limit("SQLite");
    sqlite(&folder.join("raw.sqlite"), time, &mut limits)?;
    if let Some(url) = postgres {
        on_limit("PostgreSQL");
        server(url, time, &mut limits)?;
    }
    Ok(limits)
}

fn sequential(folder: &Path, time: Duration) -> Result<f64> {
    let mut file = std::fs::File::create(folder.join("sequence"))?;
    let block = vec![3_u8; BLOCK];
    let began = Instant::now();
    let mut written = 0;
    while written < MAX_WRITTEN && (written == 0 || began.elapsed() < time) {
        file.write_all(&block)?;
        written += BLOCK;
    }
    file.sync_all()?;
    Ok(written as f64 / began.elapsed().as_secs_f64())
}

/// Returns an array of objects like those of services.
fn sample_json() -> String {
    let object = |number: u64| {
        format!("{{\"name\":\"/primary/era-v1/tier#{number:012}\",\"size\":{},\"open\":false,\"sites\":[\"T1_A\",\"T2_B\"]}}", number * 7_919)
    };
    format!("[{}]", (0..10_000).map(object).collect::<Vec<_>>().join(","))
}

fn http(time: Duration) -> Result<f64> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.spawn(async move {
        let routes = axum::Router::new().route("/", axum::routing::get(|| async { "hello" }));
        let listener = tokio::net::TcpListener::from_std(listener);
        if let Ok(listener) = listener {
            let _ = axum::serve(listener, routes).await;
        }
    });
    let text = PlanFile {
        target: format!("http://{address}"),
        routes: vec![RouteEntry { get: "/".into(), ..RouteEntry::default() }],
        clients: vec![64],
        ..PlanFile::default()
    };
    let sets = closed::run(LoadPlan::new(&text, Path::new("."))?, time, &|_| true)?;
    runtime.shutdown_background();
    Ok(sets.first().map_or(0.0, |set| set.successes() as f64 / set.seconds))
}

fn sqlite(path: &Path, time: Duration, limits: &mut Vec<MachineLimit>) -> Result<()> {
    let failed = |error: rusqlite::Error| LabError::Plan(format!("SQLite: {error}"));
    let connection = Connection::open(path).map_err(failed)?;
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE r(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;",
        )
        .map_err(failed)?;
    let mut next = 0_u64;
    let inserted = per_second(time, || {
        connection.execute_batch("BEGIN").map_err(failed)?;
        let mut statement = connection.prepare_cached("INSERT INTO r VALUES (?, ?)").map_err(failed)?;
        for _ in 0..1_000 {
            statement.execute((format!("{:016x}", next.wrapping_mul(0x9e37_79b9_7f4a_7c15)), VALUE)).map_err(failed)?;
            next += 1;
        }
        connection.execute_batch("COMMIT").map_err(failed)?;
        Ok(1_000)
    })?;
    limits.push(limit("SQLite: rows inserted, 1 000 a commit", inserted, "1/s"));
    let mut random = Random::new(1);
    let looked_up = per_second(time, || {
        let mut statement = connection.prepare_cached("SELECT value FROM r WHERE key = ?").map_err(failed)?;
        for _ in 0..1_000 {
            let key = format!("{:016x}", random.below(next).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let _: String = statement.query_row([key], |row| row.get(0)).map_err(failed)?;
        }
        Ok(1_000)
    })?;
    limits.push(limit("SQLite: rows looked up by key", looked_up, "1/s"));
    Ok(())
}

const VALUE: &str =
    "{\"name\":\"a record of about a hundred and twenty bytes\",\"size\":1234567890,\"sites\":[\"T1_CH_A\",\"T2_US_B\"],\"open\":false}";

fn server(url: &str, time: Duration, limits: &mut Vec<MachineLimit>) -> Result<()> {
    let failed = |error: postgres::Error| LabError::Plan(format!("PostgreSQL: {error}"));
    let mut client = crate::database::connect(url).map_err(|reason| LabError::Plan(format!("PostgreSQL: {reason}")))?;
    client.batch_execute("CREATE TEMPORARY TABLE stook_limits(key text PRIMARY KEY, value text NOT NULL)").map_err(failed)?;
    let mut next = 0_u64;
    let inserted = per_second(time, || {
        let mut writer = client.copy_in("COPY stook_limits FROM STDIN").map_err(failed)?;
        for _ in 0..1_000 {
            writeln!(writer, "{:016x}\t{VALUE}", next.wrapping_mul(0x9e37_79b9_7f4a_7c15))?;
            next += 1;
        }
        writer.finish().map_err(failed)?;
        Ok(1_000)
    })?;
    limits.push(limit("PostgreSQL: rows copied, 1 000 a commit", inserted, "1/s"));
    let statement = client.prepare("SELECT value FROM stook_limits WHERE key = $1").map_err(failed)?;
    let mut random = Random::new(1);
    let looked_up = per_second(time, || {
        let key = format!("{:016x}", random.below(next).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        client.query_one(&statement, &[&key]).map_err(failed)?;
        Ok(1)
    })?;
    limits.push(limit("PostgreSQL: rows looked up by key, one connection", looked_up, "1/s"));
    Ok(())
}
