//! Group `postgres`: a store on a server of this machine, beside what the server itself can do; several tenants at once on
//! both stores, beside what the scheduler's policy gives in a simulation; the queue with many chunks waiting.

use crate::Setting;
use crate::figures::{Figures, Samples};
use crate::leases;
use crate::process::{Result, execute, remove_store, reported_rate, stook};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use stook_catalogue::definition::TenantShare;
use stook_store::queue::JobFile;
use stook_store::schedule::{Backlog, LeasableJob, TenantLoad, charge, due};
use stook_testkit::postgres::TestServer;

const ROUNDS: usize = 3;
const RECORDS: u64 = 50_000;
const TENANTS: [&str; 3] = ["one", "two", "three"];
/// Records of a tenant's files, and of a chunk.
const SIZES: [u64; 5] = [50_000, 25_000, 10_000, 5_000, 1_000];
const CHUNK: u64 = 1_000;
const WORKERS: usize = 2;
/// Seconds for which the queue is measured.
const LEASING: f64 = 5.0;
const MANY_CHUNKS: u32 = 1_000_000;
const FEW_CHUNKS: u32 = 1_000;

struct Bench<'s> {
    setting: &'s Setting,
    server: TestServer,
    folder: PathBuf,
    catalogue: String,
}

impl Bench<'_> {
    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn stook(&self, store: &str, words: &[&str]) -> Result<crate::process::Ran> {
        stook(&self.setting.stook, &self.catalogue, store, words)
    }

    /// A new store, and how to get rid of it.
    fn empty_store(&self, name: &str, on_server: bool) -> Result<String> {
        if on_server {
            self.psql(&format!("DROP SCHEMA IF EXISTS {name} CASCADE"))?;
            let url = format!("{}?schema={name}", self.server.url("postgres"));
            self.stook(&url, &["prepare"])?;
            return Ok(url);
        }
        remove_store(&self.folder.join(format!("{name}.sqlite")));
        Ok(self.path(&format!("{name}.sqlite")))
    }

    fn psql(&self, sql: &str) -> Result<String> {
        let url = self.server.url("postgres");
        Ok(execute(&self.server.program("psql"), &["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &url, "-c", sql])?.output)
    }

    fn psql_script(&self, script: &str) -> Result<f64> {
        let url = self.server.url("postgres");
        Ok(execute(&self.server.program("psql"), &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &url, "-f", script])?.seconds)
    }

    fn processor_seconds(&self) -> f64 {
        self.server.processor_seconds().unwrap_or(f64::NAN)
    }
}

pub fn run(setting: &Setting, figures: &mut Figures) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("stook-bench").tempdir().map_err(|error| error.to_string())?;
    let server = TestServer::start(&["shared_buffers=1GB", "max_wal_size=8GB", "checkpoint_timeout=15min"])?;
    let catalogue = setting.root.join("examples/authorities").display().to_string();
    let bench = Bench { setting, server, folder: folder.path().to_owned(), catalogue };
    one_file(&bench, figures)?;
    tenants(&bench, figures)?;
    queue(&bench, figures)
}

/// One file, two workers, beside COPY and an ordered upsert of the same rows by one session.
fn one_file(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    let (records, file, rows, script) = (RECORDS.to_string(), bench.path("names.mrc"), bench.path("rows"), bench.path("raw.sql"));
    execute(&bench.setting.stook, &["sample", "authorities", "--records", &records, "-o", &file])?;
    let (mut create, mut unchanged_rates, mut raw, mut file_rate) = (Samples::default(), Samples::default(), Samples::default(), Samples::default());
    let (mut own_processor, mut raw_processor) = (Samples::default(), Samples::default());
    let workers = WORKERS.to_string();
    for round in 0..=ROUNDS {
        let url = bench.empty_store("own", true)?;
        let import = ["import", &file, "--workers", &workers];
        let before = bench.processor_seconds();
        let created = RECORDS as f64 / bench.stook(&url, &import)?.seconds;
        let stook_seconds = bench.processor_seconds() - before;
        let unchanged = RECORDS as f64 / bench.stook(&url, &import)?.seconds;
        let embedded = bench.empty_store("own", false)?;
        let reference = RECORDS as f64 / bench.stook(&embedded, &import)?.seconds;
        // the rows as they are stored, in the order of their keys, into a table with the same columns and indexes
        bench.psql(&format!("\\copy (SELECT * FROM own.r_authority ORDER BY tenant, key) TO '{rows}' (FORMAT binary)"))?;
        let indexes = bench.psql("SELECT replace(indexdef, 'own.', 'raw.') || ';' FROM pg_indexes WHERE schemaname = 'own' AND tablename = 'r_authority' AND indexname NOT LIKE '%_pkey'")?;
        let set = bench.psql(
            "SELECT string_agg(quote_ident(attname) || ' = excluded.' || quote_ident(attname), ', ') FROM pg_attribute \
             WHERE attrelid = 'own.r_authority'::regclass AND attnum > 0 AND attname NOT IN ('tenant', 'key')",
        )?;
        bench.psql(&format!(
            "DROP SCHEMA IF EXISTS raw CASCADE; CREATE SCHEMA raw; CREATE TABLE raw.r_authority (LIKE own.r_authority); \
             ALTER TABLE raw.r_authority ADD PRIMARY KEY (tenant, key); SET search_path TO own; {indexes}"
        ))?;
        let text = format!(
            "BEGIN;\nCREATE TEMP TABLE stage (LIKE raw.r_authority) ON COMMIT DROP;\n\\copy stage FROM '{rows}' (FORMAT binary)\n\
             INSERT INTO raw.r_authority AS r SELECT * FROM stage ORDER BY tenant, key ON CONFLICT (tenant, key) DO UPDATE SET {} WHERE r.revision = excluded.revision;\nCOMMIT;\n",
            set.trim()
        );
        std::fs::write(&script, text).map_err(|error| error.to_string())?;
        let before = bench.processor_seconds();
        let limit = RECORDS as f64 / bench.psql_script(&script)?;
        let raw_seconds = bench.processor_seconds() - before;
        if round == 0 {
            continue;
        }
        create.push(created);
        unchanged_rates.push(unchanged);
        raw.push(limit);
        file_rate.push(reference);
        // seconds for the file as milliseconds for a thousand of its records
        own_processor.push(stook_seconds * 1e6 / RECORDS as f64);
        raw_processor.push(raw_seconds * 1e6 / RECORDS as f64);
    }
    figures.ratio(
        "PostgreSQL: import 50 000 authorities, 2 workers",
        &create,
        "records/s",
        "COPY + upsert by psql, 1 connection, durable",
        &raw,
        0.4,
    );
    let reference = format!("the same by psql {:.1}", raw_processor.median());
    figures.judged_at_most(
        "PostgreSQL: server CPU per 1 000 records",
        &own_processor,
        "ms",
        &reference,
        &own_processor.divided_by(&raw_processor),
        1.5,
    );
    figures.ratio(
        "PostgreSQL: the same file again, all unchanged",
        &unchanged_rates,
        "records/s",
        "create, same workers and durability",
        &create,
        2.0,
    );
    figures.without_bar("SQLite: import 50 000 authorities, 2 workers", &file_rate, "records/s");
    Ok(())
}

/// When each job of a run ended, in seconds from its start, by tenant and size; and the run's rate.
struct Ran {
    rate: f64,
    seconds: f64,
    ends: BTreeMap<(String, u64), f64>,
    failed: u64,
}

/// Detached imports of some files, then workers until nothing is left.
fn run_jobs(bench: &Bench<'_>, store: &str, jobs: &[(String, u64, String)]) -> Result<Ran> {
    for (tenant, _, file) in jobs {
        bench.stook(store, &["import", file, "--tenant", tenant, "--detach"])?;
    }
    let (jobs_file, workers) = (["jobs", "--json", "--limit", "100"], WORKERS.to_string());
    // what a process needs to start and to reach its store is no work
    let mut started = Instant::now();
    bench.stook(store, &["jobs", "--limit", "1"])?;
    let start_up = started.elapsed();
    started = Instant::now();
    let clock = SystemTime::now() + start_up;
    bench.stook(store, &["work", "--workers", &workers, "--drain"])?;
    let seconds = started.elapsed().saturating_sub(start_up).as_secs_f64();
    let start = clock.duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?.as_secs_f64();
    let listed: Json = serde_json::from_str(&bench.stook(store, &jobs_file)?.output).map_err(|error| error.to_string())?;
    let mut ran = Ran { rate: 0.0, seconds, ends: BTreeMap::new(), failed: 0 };
    let mut documents = 0;
    for job in listed.as_array().into_iter().flatten() {
        if job["state"] != "completed" {
            return Err(format!("job {} is {}", job["id"], job["state"]));
        }
        let of = |name: &str| job["counts"][name].as_u64().unwrap_or(0);
        documents += of("created");
        ran.failed += of("failed");
        let end = job["finished"].as_f64().unwrap_or(f64::NAN) / 1e6 - start;
        ran.ends.insert((job["tenant"].as_str().unwrap_or_default().to_owned(), of("documents")), end);
    }
    ran.rate = documents as f64 / seconds;
    Ok(ran)
}

/// Three tenants at once, the largest files first and the smallest first, on both stores.
fn tenants(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    let mut files = Vec::new();
    for (tenant_number, tenant) in TENANTS.iter().enumerate() {
        let mut first = 1 + tenant_number as u64 * 1_000_000;
        for size in SIZES {
            let file = bench.path(&format!("{tenant}-{size}.mrc"));
            let (records, from) = (size.to_string(), first.to_string());
            execute(&bench.setting.stook, &["sample", "authorities", "--records", &records, "--first", &from, "-o", &file])?;
            first += size;
            files.push(((*tenant).to_owned(), size, file));
        }
    }
    let order = |largest: bool| {
        let mut jobs = files.clone();
        jobs.sort_by_key(|(_, size, _)| if largest { u64::MAX - size } else { *size });
        jobs
    };
    for (name, on_server) in [("PostgreSQL", true), ("SQLite", false)] {
        let (mut three_tenants, mut single_tenant, mut lateness, mut tenant_spread, mut smallest) =
            <(Samples, Samples, Samples, Samples, Samples)>::default();
        let (mut inversions, mut failed, mut worst) = (0, 0, String::new());
        for round in 0..=ROUNDS {
            let largest_first = run_jobs(bench, &bench.empty_store("tenants", on_server)?, &order(true))?;
            // the same files, all of one tenant
            let one_tenant: Vec<_> = order(true).into_iter().map(|(_, size, file)| ("one".to_owned(), size, file)).collect();
            let single = run_jobs(bench, &bench.empty_store("tenants", on_server)?, &one_tenant)?;
            let smallest_first = run_jobs(bench, &bench.empty_store("tenants", on_server)?, &order(false))?;
            inversions += inversions_of(&smallest_first);
            failed += largest_first.failed + smallest_first.failed;
            if round == 0 {
                continue;
            }
            let ideal = simulate(&order(true), largest_first.seconds)?;
            let ratio = |key: &(String, u64)| largest_first.ends[key] / ideal[key];
            let latest = ideal.keys().max_by(|a, b| ratio(a).total_cmp(&ratio(b))).ok_or("no job")?;
            worst = format!("{} of {}: {:.2} s, ideal {:.2} s", latest.1, latest.0, largest_first.ends[latest], ideal[latest]);
            lateness.push(ratio(latest));
            let last = |tenant: &str| largest_first.ends.iter().filter(|((of, _), _)| of == tenant).map(|(_, end)| *end).fold(0.0, f64::max);
            let lasts = TENANTS.map(last);
            tenant_spread.push(lasts.iter().copied().fold(0.0, f64::max) / lasts.iter().copied().fold(f64::MAX, f64::min));
            three_tenants.push(largest_first.rate);
            single_tenant.push(single.rate);
            smallest.push(smallest_first.rate);
        }
        figures.ratio(
            &format!("{name}: three tenants, 15 files, largest first"),
            &three_tenants,
            "records/s",
            "one tenant, same files and workers",
            &single_tenant,
            0.95,
        );
        figures.judged_at_most(&format!("{name}: latest job beside the simulated policy + a chunk"), &lateness, "times", &worst, &lateness, 1.25);
        figures.at_most(&format!("{name}: last tenant beside the first to end"), &tenant_spread, "times", 1.05);
        figures.without_bar(&format!("{name}: the same, smallest first"), &smallest, "records/s");
        figures.forbidden_event(&format!("{name}: larger jobs that ended before smaller ones"), inversions);
        figures.forbidden_event(&format!("{name}: failed documents"), failed);
    }
    Ok(())
}

/// Pairs of jobs of one tenant of which the larger ended first.
fn inversions_of(ran: &Ran) -> u64 {
    let pairs = |((tenant, size), end): (&(String, u64), &f64)| {
        ran.ends.iter().filter(|((other_tenant, larger), other_end)| other_tenant == tenant && larger > size && *other_end < end).count() as u64
    };
    ran.ends.iter().map(pairs).sum()
}

/// When each job ends by the scheduler's policy with the same workers, if every round of chunks takes as long and all ends after
/// `seconds`. What is promised is fair within a chunk for each other worker, so much is added.
fn simulate(jobs: &[(String, u64, String)], seconds: f64) -> Result<BTreeMap<(String, u64), f64>> {
    let tenant = |name: &str| TENANTS.iter().position(|tenant| *tenant == name).unwrap_or(0) as i64;
    let tenants = (0..3).map(|tenant| TenantLoad { tenant, share: TenantShare::default(), charged: 0, running: 0 }).collect();
    let mut backlog = Backlog { tenants, ready: Vec::new() };
    let mut waiting: Vec<u64> = Vec::new();
    let mut bytes = Vec::new();
    for (number, (name, size, file)) in jobs.iter().enumerate() {
        let length = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
        let job_file = JobFile { path: file.clone(), size: length, modified: 0, ..JobFile::default() };
        backlog.ready.push(LeasableJob { job: number as u64, tenant: tenant(name), due: due(number as i64, &[job_file]) });
        waiting.push(size / CHUNK);
        bytes.push((length / (size / CHUNK)) as i64);
    }
    let rounds = waiting.iter().sum::<u64>().div_ceil(WORKERS as u64) as f64;
    let round_seconds = seconds / rounds;
    let mut ends = BTreeMap::new();
    let mut time = (WORKERS - 1) as f64 * round_seconds;
    while backlog.next().is_some() {
        time += round_seconds;
        for _ in 0..WORKERS {
            let Some(choice) = backlog.next() else { break };
            let number = choice.job as usize;
            waiting[number] -= 1;
            backlog.note_leased(&choice, 1, charge(CHUNK as i64, bytes[number], choice.share));
            if waiting[number] == 0 {
                backlog.note_nothing_leasable(&choice);
                ends.insert((jobs[number].0.clone(), jobs[number].1), time);
            }
        }
    }
    Ok(ends)
}

/// Leasing and completing chunks, one after the other, beside pgbench with the same statements.
fn queue(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    for (name, on_server) in [("PostgreSQL", true), ("SQLite", false)] {
        let (large, small) = (bench.empty_queue("many", on_server)?, bench.empty_queue("few", on_server)?);
        leases::fill(&large, MANY_CHUNKS)?;
        leases::fill(&small, 0)?;
        let (mut large_queue, mut small_queue, mut peer) = <(Samples, Samples, Samples)>::default();
        for round in 0..=ROUNDS {
            let seconds = if round == 0 { "1".to_owned() } else { LEASING.to_string() };
            let rate = |store: &str, keep: u32| {
                reported_rate(&execute(&bench.setting.bench_program, &["leases", store, &seconds, &keep.to_string()])?.output)
            };
            let with_many = rate(&large, 0)?;
            let with_few = rate(&small, FEW_CHUNKS)?;
            let pgbench = if on_server { Some(bench.pgbench("many", &seconds)?) } else { None };
            if round > 0 {
                large_queue.push(with_many);
                small_queue.push(with_few);
                pgbench.into_iter().for_each(|rate| peer.push(rate));
            }
        }
        if on_server {
            figures.ratio(
                &format!("{name}: leases + completions, 1 000 000 waiting"),
                &large_queue,
                "chunks/s",
                "pgbench, 1 client, same statements and durability",
                &peer,
                0.5,
            );
        } else {
            figures.without_bar(&format!("{name}: leases + completions, 1 000 000 waiting"), &large_queue, "chunks/s");
        }
        let reference = format!("1 000 waiting {:.0}", small_queue.median());
        figures.judged_at_most(
            &format!("{name}: cost beside 1 000 waiting"),
            &large_queue,
            "chunks/s",
            &reference,
            &small_queue.divided_by(&large_queue),
            1.3,
        );
    }
    Ok(())
}

impl Bench<'_> {
    /// A store for a queue alone.
    fn empty_queue(&self, name: &str, on_server: bool) -> Result<String> {
        if !on_server {
            return self.empty_store(name, false);
        }
        self.psql(&format!("DROP SCHEMA IF EXISTS {name} CASCADE"))?;
        Ok(format!("{}?schema={name}", self.server.url("postgres")))
    }

    /// Chunks a second by pgbench, one client.
    fn pgbench(&self, schema: &str, seconds: &str) -> Result<f64> {
        let script = self.setting.root.join("benches/peers/lease.sql").display().to_string();
        // the settings of the store's own sessions
        let settings = [
            "synchronous_commit=off",
            "jit=off",
            "enable_seqscan=off",
            "enable_mergejoin=off",
            "random_page_cost=1",
            "cpu_tuple_cost=0.5",
            "cpu_index_tuple_cost=0.25",
            "cpu_operator_cost=0.05",
        ];
        let settings: String = settings.iter().map(|setting| format!("%20-c{}", setting.replace('=', "%3D"))).collect();
        let url = format!("{}?options=-csearch_path%3D{schema}{settings}", self.server.url("postgres"));
        let words = ["-n", "-M", "prepared", "-c", "1", "-T", seconds, "-f", &script, &url];
        let output = execute(&self.server.program("pgbench"), &words)?.output;
        let rate = output.lines().find_map(|line| line.strip_prefix("tps = ")?.split_whitespace().next()?.parse().ok());
        rate.ok_or_else(|| format!("pgbench does not say how fast it was:\n{output}"))
    }
}
