//! Resource usage of a run: processor, memory and disk of the machine and of programs, connections of a database and its most expensive statements.

use crate::{LabError, Result};
use postgres::Client;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stook_report::run::{Curve, SqlStatementStats};

/// Time between two samples.
const SAMPLING_INTERVAL: Duration = Duration::from_millis(500);
/// Number of statements kept.
const MAX_STATEMENTS: i64 = 5;
/// Bytes of a sector in the kernel's statistics, whatever the disk's own sector size.
const SECTOR: f64 = 512.0;

/// Samples resources on a thread of its own.
pub struct ResourceMonitor {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Vec<Curve>, Vec<SqlStatementStats>)>,
}

impl ResourceMonitor {
    /// Starts sampling. The machine and programs are only sampled if the target is on this machine.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub fn start(target: SocketAddr, programs: &[String], database: Option<&str>) -> Result<Self> {
        let connected = database.map(crate::database::connect).transpose();
        let mut database = connected.map_err(|reason| LabError::Plan(format!("the database to be watched: {reason}")))?;
        if let Some(database) = &mut database {
            // reset, to have statistics of this run alone; without the extension none are shown
            let _ = database.batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements; SELECT pg_stat_statements_reset()");
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, programs) = (stop.clone(), target.ip().is_loopback().then(|| programs.to_vec()));
        let thread = std::thread::spawn(move || watch(&stopped, programs.as_deref(), database));
        Ok(Self { stop, thread })
    }

    /// Stops and returns the samples.
    pub fn stop(self) -> (Vec<Curve>, Vec<SqlStatementStats>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn watch(stop: &AtomicBool, programs: Option<&[String]>, mut database: Option<Client>) -> (Vec<Curve>, Vec<SqlStatementStats>) {
    let mut curves: BTreeMap<(&str, String), Vec<(f64, f64)>> = BTreeMap::new();
    let (began, mut previous) = (Instant::now(), programs.map(ResourceSample::now));
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(SAMPLING_INTERVAL);
        let seconds = began.elapsed().as_secs_f64();
        let mut put = |unit, name: &str, value: f64| curves.entry((unit, name.to_owned())).or_default().push((seconds, value));
        let now = programs.map(ResourceSample::now);
        if let (Some(previous), Some(now)) = (&previous, &now) {
            now.since(previous, &mut put);
        }
        previous = now;
        if let Some(row) = database.as_mut().and_then(|client| client.query_one("SELECT count(*) FROM pg_stat_activity", &[]).ok()) {
            put("connections", "PostgreSQL", row.get::<_, i64>(0) as f64);
        }
    }
    let curves = curves.into_iter().map(|((unit, name), points)| Curve { name, unit: unit.to_owned(), points });
    (curves.collect(), database.as_mut().map(statements).unwrap_or_default())
}

fn statements(database: &mut Client) -> Vec<SqlStatementStats> {
    let sql = "SELECT regexp_replace(query, '\\s+', ' ', 'g'), calls, total_exec_time / 1000, rows FROM pg_stat_statements
        WHERE query NOT LIKE '%pg_stat_%' ORDER BY total_exec_time DESC LIMIT $1";
    let rows = database.query(sql, &[&MAX_STATEMENTS]).unwrap_or_default();
    let statement = |row: &postgres::Row| SqlStatementStats {
        text: row.get(0),
        calls: row.get::<_, i64>(1) as u64,
        seconds: row.get(2),
        rows: row.get::<_, i64>(3) as u64,
    };
    rows.iter().map(statement).collect()
}

/// The kernel's counters at one time, in seconds and bytes.
struct ResourceSample {
    at: Instant,
    /// Processor time of all cores since boot: busy, and total.
    machine: (f64, f64),
    memory: f64,
    written: f64,
    /// By name: processor time by process, and memory.
    programs: Vec<(String, BTreeMap<u32, f64>, f64)>,
}

impl ResourceSample {
    fn now(programs: &[String]) -> Self {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let page = rustix::param::page_size() as f64;
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let stat = read("/proc/stat");
        let times: Vec<f64> = stat.lines().next().unwrap_or_default().split_whitespace().filter_map(|time| time.parse().ok()).collect();
        let (all, idle) = (times.iter().take(8).sum::<f64>(), times.iter().skip(3).take(2).sum::<f64>());
        let memory = read("/proc/meminfo");
        let kilobytes = |name: &str| memory.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().nth(1)?.parse::<f64>().ok());
        let used = kilobytes("MemTotal").unwrap_or(0.0) - kilobytes("MemAvailable").unwrap_or(0.0);
        let disks = read("/proc/diskstats");
        let is_whole_disk = |name: &str| !name.starts_with("loop") && !name.starts_with("ram") && Path::new("/sys/block").join(name).exists();
        let sectors = disks.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.get(2).filter(|name| is_whole_disk(name)).and_then(|_| fields.get(9)?.parse::<f64>().ok())
        });
        let mut sample = Self {
            at: Instant::now(),
            machine: ((all - idle) / ticks, all / ticks),
            memory: used * 1_024.0,
            written: sectors.sum::<f64>() * SECTOR,
            programs: programs.iter().map(|name| (name.clone(), BTreeMap::new(), 0.0)).collect(),
        };
        if sample.programs.is_empty() {
            return sample;
        }
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        for process in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            let stat = read(&format!("/proc/{process}/stat"));
            let Some((name, rest)) = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')) else { continue };
            let Some((_, times, memory)) = sample.programs.iter_mut().find(|(program, ..)| program == name) else { continue };
            let time: f64 = rest.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
            times.insert(process, time / ticks);
            // memory that is not shared, because shared memory would count once per process
            let pages = read(&format!("/proc/{process}/statm"));
            let pages: Vec<f64> = pages.split_whitespace().skip(1).take(2).filter_map(|pages| pages.parse().ok()).collect();
            if let [resident, shared] = pages[..] {
                *memory += (resident - shared) * page;
            }
        }
        sample
    }

    fn since(&self, previous: &Self, put: &mut dyn FnMut(&'static str, &str, f64)) {
        const CPU: &str = "% of a core";
        const MEMORY: &str = "MiB";
        let seconds = (self.at - previous.at).as_secs_f64().max(0.001);
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| usize::from(cores) as f64);
        let (busy, all) = (self.machine.0 - previous.machine.0, self.machine.1 - previous.machine.1);
        put(CPU, "machine", (busy / all.max(1e-9) * cores * 100.0).max(0.0));
        put(MEMORY, "machine", self.memory / f64::from(1 << 20));
        put("MB/s written", "disks", ((self.written - previous.written) / seconds / 1e6).max(0.0));
        for ((name, times, memory), (_, earlier, _)) in self.programs.iter().zip(&previous.programs) {
            let used: f64 = times.iter().map(|(process, time)| time - earlier.get(process).copied().unwrap_or(0.0)).sum();
            put(CPU, name, used.max(0.0) / seconds * 100.0);
            put(MEMORY, name, memory / f64::from(1 << 20));
        }
    }
}
