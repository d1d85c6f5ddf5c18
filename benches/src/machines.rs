//! Group `machines`: tags over documents of 19 kB, both directions, beside lxml and PostgreSQL's xpath; machines acquired by
//! tag.

use crate::Setting;
use crate::figures::{Figures, Samples};
use crate::limits::finish;
use crate::process::{Ran, Result, children_cpu, execute, remove_store, stook};
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::parse::parse;
use stook_catalogue::xpath::XPath;
use stook_engine::pick::{self, PickCall, PickGroups};
use stook_engine::transition::{self, TransitionArguments, TransitionRequest, TransitionResult};
use stook_formats::tree::XmlTree;
use stook_formats::xpath::is_true;
use stook_store::postgres::{PostgresOptions as ServerOptions, PostgresStore};
use stook_store::sqlite::{SqliteOptions, SqliteStore};
use stook_store::{Store, Tenant};
use stook_testkit::postgres::TestServer;

const ROUNDS: usize = 3;
const MACHINES: u64 = 10_000;
const MANY_MACHINES: u64 = 100_000;
/// The definition that is evaluated.
const ONE_DEFINITION: &str = "//node[@class='display']/vendor[contains(., 'NVIDIA')]";
const THREE_DEFINITIONS: [&str; 3] =
    [ONE_DEFINITION, "//node[@class='processor']/vendor = 'Intel Corp.'", "//node[@id='firmware']/capabilities/capability/@id = 'uefi'"];
/// Definitions of one record.
const DEFINITIONS: usize = 200;
const CALLERS: usize = 64;
const TRANSITIONS: u64 = 190_000;

struct Bench<'s> {
    setting: &'s Setting,
    folder: PathBuf,
    catalogue: String,
}

impl Bench<'_> {
    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn stook(&self, store: &str, words: &[&str]) -> Result<Ran> {
        stook(&self.setting.stook, &self.catalogue, store, words)
    }

    fn import(&self, store: &str, folder: &str) -> Result<Ran> {
        self.stook(store, &["import", "--source", "enlist", "--workers", "2", &format!("{folder}/machines.ndjson")])
    }

    /// Processor seconds and seconds of a command.
    fn measured(&self, store: &str, words: &[&str]) -> Result<(f64, Ran)> {
        let before = children_cpu();
        let ran = self.stook(store, words)?;
        Ok((children_cpu() - before, ran))
    }

    fn remove(&self, store: &str) {
        remove_store(Path::new(store));
    }

    fn lxml(&self, mode: &str, documents: &str, definitions: &str) -> Result<Option<f64>> {
        let Some(python) = &self.setting.python else { return Ok(None) };
        let script = self.setting.root.join("benches/peers/tags_lxml.py").display().to_string();
        let ran = execute(python, &[&script, mode, &format!("{documents}/machines.ndjson"), definitions])?;
        let json: Json = serde_json::from_str(ran.output.trim()).map_err(|error| error.to_string())?;
        Ok(json["seconds"].as_f64().zip(json["documents"].as_f64()).map(|(seconds, documents)| seconds / documents * 1e6))
    }

    fn run_bench_program(&self, words: &[&str]) -> Result<Json> {
        let ran = execute(&self.setting.bench_program, words)?;
        serde_json::from_str(ran.output.trim()).map_err(|error| format!("{}: {error}", ran.output))
    }
}

pub fn run(setting: &Setting, figures: &mut Figures) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("stook-bench").tempdir().map_err(|error| error.to_string())?;
    let catalogue = setting.root.join("examples/machines").display().to_string();
    let bench = Bench { setting, folder: folder.path().to_owned(), catalogue };
    if bench.setting.python.is_none() {
        figures.note("skipped: STOOK_TEST_PYTHON names no Python with lxml; no figures beside it");
    }
    let server = TestServer::start(&["shared_buffers=1GB", "max_wal_size=8GB", "checkpoint_timeout=15min"]);
    if let Err(reason) = &server {
        figures.note(&format!("skipped: {reason}; no figures on PostgreSQL"));
    }
    let server = server.ok();
    let (sample, store) = (bench.path("machines"), bench.path("own.sqlite"));
    execute(&setting.stook, &["sample", "machines", "--records", &MACHINES.to_string(), "-o", &sample])?;
    bench.import(&store, &sample)?;
    definitions(&bench, server.as_ref(), &sample, &store, figures)?;
    one_machine(&bench, &sample, figures)?;
    imports(&bench, &sample, figures)?;
    many_machines(&bench, &store, figures)?;
    acquire(&bench, server.as_ref(), &sample, figures)
}

/// Forgets what the system keeps of files; false where that is not allowed.
fn drop_caches() -> bool {
    let _ = std::process::Command::new("sync").status();
    std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// Definitions for all machines.
fn definitions(bench: &Bench<'_>, server: Option<&TestServer>, sample: &str, store: &str, figures: &mut Figures) -> Result<()> {
    let three = bench.path("three.ndjson");
    let lines: String = THREE_DEFINITIONS
        .iter()
        .enumerate()
        .map(|(number, xpath)| json!({ "name": format!("t{number}"), "xpath": xpath }).to_string() + "\n")
        .collect();
    std::fs::write(&three, lines).map_err(|error| error.to_string())?;
    let (mut cpu, mut wall, mut cold, mut second, mut all) = <(Samples, Samples, Samples, Samples, Samples)>::default();
    let (mut lxml, mut parsed, mut xpath_exists) = <(Samples, Samples, Samples)>::default();
    let each = |seconds: f64| seconds / MACHINES as f64 * 1e6;
    for round in 0..ROUNDS {
        let name = format!("one{round}");
        let is_cold = drop_caches();
        let (_, ran) = bench.measured(store, &["tag", "create", &format!("cold{round}"), "--xpath", ONE_DEFINITION])?;
        if is_cold {
            cold.push(ran.seconds);
        }
        let (seconds, ran) = bench.measured(store, &["tag", "create", &name, "--xpath", ONE_DEFINITION])?;
        cpu.push(each(seconds));
        wall.push(ran.seconds);
        let (seconds, _) = bench.measured(store, &["tag", "create", &format!("second{round}"), "--xpath", THREE_DEFINITIONS[1]])?;
        second.push(each(seconds));
        let (_, ran) = bench.measured(store, &["tag", "create", "--file", &three])?;
        all.push(ran.seconds);
        for tag in [format!("cold{round}"), name, format!("second{round}"), "t0".into(), "t1".into(), "t2".into()] {
            bench.stook(store, &["tag", "delete", &tag])?;
        }
        let measured = bench.run_bench_program(&["parse-and-evaluate", &format!("{sample}/machines.ndjson"), ONE_DEFINITION])?;
        parsed.push(measured["microseconds"].as_f64().unwrap_or(f64::NAN));
        bench.lxml("one", sample, ONE_DEFINITION)?.into_iter().for_each(|measured| lxml.push(measured));
        if let Some(server) = server {
            xpath_exists.push(in_database(bench, server, sample, round == 0)?);
        }
    }
    if bench.setting.python.is_some() {
        let reference = |peer_samples: &Samples| format!("lxml loop, 1 thread {:.0}", peer_samples.median());
        let title = "one definition, 10 000 machines: CPU each, warm";
        figures.judged_at_most(title, &cpu, "us", &reference(&lxml), &cpu.divided_by(&lxml), 0.5);
        figures.judged_at_most(
            "the same, parsed instead of kept trees, in process",
            &parsed,
            "us",
            &reference(&lxml),
            &parsed.divided_by(&lxml),
            0.5,
        );
        figures.judged_at_most("a second definition: CPU each", &second, "us", &reference(&lxml), &second.divided_by(&lxml), 0.2);
    }
    if server.is_some() {
        let reference = format!("xpath in PostgreSQL, 1 session {:.1}", xpath_exists.median());
        figures.judged_at_most("one definition, committed: wall, warm", &wall, "s", &reference, &wall.divided_by(&xpath_exists), 0.125);
    }
    figures.without_bar("the same with a cold page cache", &cold, "s");
    let reference = format!("one {:.2}", wall.median());
    figures.judged_at_most("three definitions at once: wall", &all, "s", &reference, &all.divided_by(&wall), 1.5);
    Ok(())
}

/// Seconds of PostgreSQL for the same definition over the same documents, by one backend.
fn in_database(bench: &Bench<'_>, server: &TestServer, sample: &str, loads: bool) -> Result<f64> {
    let (psql, url) = (server.program("psql"), server.url("postgres"));
    if loads {
        let file = bench.path("documents.csv");
        let lines = std::io::BufReader::new(std::fs::File::open(format!("{sample}/machines.ndjson")).map_err(|error| error.to_string())?).lines();
        let mut out = std::io::BufWriter::new(std::fs::File::create(&file).map_err(|error| error.to_string())?);
        for line in lines {
            let json: Json = serde_json::from_str(&line.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
            // what is not well-formed cannot be stored there
            let whole = json["lshw"].as_str().filter(|text| XmlTree::parse(text.as_bytes()).is_ok());
            if let Some(text) = whole {
                writeln!(out, "\"{}\"", text.replace('"', "\"\"")).map_err(|error| error.to_string())?;
            }
        }
        out.flush().map_err(|error| error.to_string())?;
        drop(out);
        let load = format!("DROP TABLE IF EXISTS documents; CREATE TABLE documents(d xml); \\copy documents FROM '{file}' (FORMAT csv)");
        for part in load.split("; ") {
            execute(&psql, &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &url, "-c", part])?;
        }
    }
    let quoted = ONE_DEFINITION.replace('\'', "''");
    let sql =
        format!("SET max_parallel_workers_per_gather = 0; SELECT count(*) FROM documents WHERE (xpath('boolean({quoted})', d))[1]::text = 'true'");
    let words = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &url, "-c", &sql];
    execute(&psql, &words)?;
    Ok(execute(&psql, &words)?.seconds)
}

/// Definitions of a mix: comparisons, node sets, texts, conjunctions, counts; some of them carried by nobody, some by all.
fn mix() -> Vec<String> {
    let mut mix = Vec::new();
    for number in 0..DEFINITIONS {
        let unit = number / 20;
        mix.push(match number % 20 {
            0..=6 => format!("//node[@class='processor']/configuration/setting[@id='cores']/@value >= {}", 2 + unit),
            7..=8 => format!("//node[@id='bank:{unit}']"),
            9..=11 => format!("//node[@class='network']/vendor[starts-with(., 'Mellanox')][{}]", 1 + unit % 2),
            12..=13 => format!("//vendor[contains(., 'NVIDIA')][position() <= {}]", 1 + unit),
            14 => format!("contains(//node[@id='display']/product, 'K6{unit}0')"),
            15..=16 => format!(
                "//capability/@id = 'vmx' and //capability/@id = 'aes' and //node[@id='core']/vendor = 'HP' and count(//node[@class='disk']) > {unit}"
            ),
            17 => format!("sum(//node[@id='memory']/size) div 1024 > {}", 1_048_576 * (1 + unit)),
            18 => format!("//node[@id='nothing{unit}']"),
            _ => format!("not(//node[@id='nothing{unit}'])"),
        });
    }
    mix
}

/// One changed machine against many definitions.
fn one_machine(bench: &Bench<'_>, sample: &str, figures: &mut Figures) -> Result<()> {
    let file = bench.path("definitions");
    std::fs::write(&file, mix().join("\n") + "\n").map_err(|error| error.to_string())?;
    let (mut stook_samples, mut lxml) = <(Samples, Samples)>::default();
    for _ in 0..ROUNDS {
        let json = bench.run_bench_program(&["evaluate", &format!("{sample}/machines.ndjson"), &file])?;
        stook_samples.push(json["microseconds"].as_f64().unwrap_or(f64::NAN));
        bench.lxml("many", sample, &file)?.into_iter().for_each(|time| lxml.push(time));
    }
    if bench.setting.python.is_some() {
        let reference = format!("libxml2 by lxml, 1 thread {:.0}", lxml.median());
        figures.judged_at_most("one machine, 200 definitions, evaluated", &stook_samples, "us", &reference, &stook_samples.divided_by(&lxml), 0.4);
    }
    Ok(())
}

fn imports(bench: &Bench<'_>, sample: &str, figures: &mut Figures) -> Result<()> {
    let (mut with, mut without) = <(Samples, Samples)>::default();
    let store = bench.path("import.sqlite");
    for _ in 0..ROUNDS {
        bench.remove(&store);
        without.push(MACHINES as f64 / bench.import(&store, sample)?.seconds);
        bench.remove(&store);
        bench.stook(&store, &["tag", "create", "--file", &format!("{sample}/tags.ndjson")])?;
        with.push(MACHINES as f64 / bench.import(&store, sample)?.seconds);
    }
    bench.remove(&store);
    figures.ratio("import of 10 000 machines with 20 definitions", &with, "records/s", "without definitions, same workers", &without, 0.6);
    Ok(())
}

fn many_machines(bench: &Bench<'_>, few: &str, figures: &mut Figures) -> Result<()> {
    let (sample, store) = (bench.path("many"), bench.path("many.sqlite"));
    execute(&bench.setting.stook, &["sample", "machines", "--records", &MANY_MACHINES.to_string(), "-o", &sample])?;
    bench.import(&store, &sample)?;
    let _ = std::fs::remove_dir_all(&sample);
    let (mut large, mut small, mut memory) = <(Samples, Samples, Samples)>::default();
    for round in 0..ROUNDS {
        let name = format!("one{round}");
        let ran = bench.stook(&store, &["tag", "create", &name, "--xpath", ONE_DEFINITION])?;
        large.push(ran.seconds);
        memory.push(ran.memory);
        small.push(bench.stook(few, &["tag", "create", &name, "--xpath", ONE_DEFINITION])?.seconds);
        bench.stook(few, &["tag", "delete", &name])?;
    }
    bench.remove(&store);
    let reference = format!("10 000 machines {:.2}", small.median());
    figures.judged_at_most("one definition, 100 000 machines: wall", &large, "s", &reference, &large.divided_by(&small), 12.0);
    figures.at_most("peak memory of that", &memory, "MB", 512.0);
    Ok(())
}

/// Machines acquired by tag and released, by many callers at once.
fn acquire(bench: &Bench<'_>, server: Option<&TestServer>, sample: &str, figures: &mut Figures) -> Result<()> {
    let tag = ["tag", "create", "vmx-or-svm", "--xpath", "//capability/@id = 'vmx' or //capability/@id = 'svm'"];
    let store = bench.path("acquire.sqlite");
    let mut rates = Samples::default();
    bench.import(&store, sample)?;
    bench.stook(&store, &tag)?;
    let catalogue = format!("{}/catalogue.yaml", bench.catalogue);
    let mut doubles = 0;
    let mut grant = |store: &str, rates: &mut Samples, transitions: u64| -> Result<()> {
        let json = bench.run_bench_program(&["acquire", store, &catalogue, &transitions.to_string()])?;
        doubles += json["doubles"].as_u64().unwrap_or(1);
        rates.push(json["rate"].as_f64().unwrap_or(f64::NAN));
        Ok(())
    };
    grant(&store, &mut rates, TRANSITIONS)?;
    bench.remove(&store);
    let mut on_server = (Samples::default(), Samples::default());
    if let Some(server) = server {
        let (psql, url) = (server.program("psql"), server.url("postgres"));
        execute(&psql, &["-X", "-q", "-d", &url, "-c", "DROP SCHEMA IF EXISTS machines CASCADE"])?;
        let store = format!("{url}?schema=machines");
        bench.stook(&store, &["prepare"])?;
        bench.import(&store, sample)?;
        bench.stook(&store, &tag)?;
        for _ in 0..ROUNDS {
            grant(&store, &mut on_server.0, TRANSITIONS / 10)?;
            let script = bench.setting.root.join("benches/peers/acquire.sql").display().to_string();
            let with_schema = format!("{url}?options=-csearch_path%3Dmachines");
            let words = ["-n", "-M", "prepared", "-c", "64", "-j", "2", "-T", "10", "-f", &script, &with_schema];
            let output = execute(&server.program("pgbench"), &words)?.output;
            let rate: Option<f64> = output.lines().find_map(|line| line.strip_prefix("tps = ")?.split_whitespace().next()?.parse().ok());
            // two transitions each
            on_server.1.push(2.0 * rate.ok_or_else(|| format!("pgbench does not say how fast it was:\n{output}"))?);
        }
    }
    figures.at_least("acquire and release by tag, 64 callers, file", &rates, "per s", 2_000.0);
    if server.is_some() {
        figures.ratio("the same, PostgreSQL", &on_server.0, "per s", "pgbench update, 64 clients, 2 threads, durable", &on_server.1, 0.4);
    }
    figures.forbidden_event("machines granted twice", doubles);
    Ok(())
}

fn documents(file: &str) -> std::result::Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut found = Vec::new();
    for line in std::io::BufReader::new(std::fs::File::open(file)?).lines() {
        let json: Json = serde_json::from_str(&line?)?;
        found.extend(json["lshw"].as_str().filter(|text| !text.is_empty()).map(str::to_owned));
    }
    Ok(found)
}

/// Parses each document and evaluates one definition; prints microseconds of each.
pub fn parse_and_evaluate(file: &str, definition: &str) -> ExitCode {
    finish((|| {
        let documents = documents(file)?;
        let xpath = XPath::parse(definition, &[]).map_err(|error| error.message)?;
        let started = Instant::now();
        let mut matched = 0;
        for document in &documents {
            matched += u64::from(XmlTree::parse(document.as_bytes()).is_ok_and(|tree| is_true(&xpath, &tree, 1_000_000) == Ok(true)));
        }
        let microseconds = started.elapsed().as_secs_f64() * 1e6 / documents.len() as f64;
        Ok(json!({ "microseconds": microseconds, "matched": matched }))
    })())
}

/// Evaluates all definitions of a file on parsed documents; prints microseconds of each document.
pub fn evaluate(file: &str, definitions: &str) -> ExitCode {
    finish((|| {
        let trees: Vec<XmlTree<'_>> = documents(file)?.iter().take(500).filter_map(|text| XmlTree::parse(text.as_bytes()).ok()).collect();
        let text = std::fs::read_to_string(definitions)?;
        let xpaths: Vec<XPath> =
            text.lines().map(|line| XPath::parse(line, &[]).map_err(|error| error.message)).collect::<std::result::Result<_, _>>()?;
        let started = Instant::now();
        let mut matched = 0;
        for tree in &trees {
            matched += xpaths.iter().filter(|xpath| is_true(xpath, tree, 1_000_000) == Ok(true)).count();
        }
        let microseconds = started.elapsed().as_secs_f64() * 1e6 / trees.len() as f64;
        Ok(json!({ "microseconds": microseconds, "matched": matched }))
    })())
}

/// Callers that acquire machines by tag and release most of them; prints transitions a second, and how often a machine was granted
/// to two at a time.
pub fn acquire_and_release(store: &str, catalogue: &str, transitions: u64) -> ExitCode {
    finish((|| {
        let text = std::fs::read_to_string(Path::new(catalogue))?;
        let catalogue = Arc::new(parse(&text).map_err(|problems| format!("{problems:?}"))?);
        let store: Box<dyn Store> = match store.starts_with("postgres") {
            true => Box::new(PostgresStore::open(store, catalogue.clone(), &ServerOptions::default())?),
            false => Box::new(SqliteStore::open(Path::new(store), catalogue.clone(), SqliteOptions::default())?),
        };
        let tenant = Tenant::new("main")?;
        let transition_index =
            |name: &str| catalogue.collections[CollectionId::from(0)].transitions.iter().position(|transition| transition.name == name).unwrap_or(0);
        let transition_request = |name: &str| {
            let (tenant, args, caller) = (tenant.clone(), TransitionArguments::default(), "bench".to_owned());
            Arc::new(TransitionRequest {
                tenant,
                collection: CollectionId::from(0),
                transition: transition_index(name),
                args,
                caller,
                role: "admin",
                call: None,
                part: None,
            })
        };
        let (acquire, release) = (transition_request("acquire"), transition_request("release"));
        let resolved =
            stook_query::resolve("machine status=Ready tag=vmx-or-svm", &stook_query::QueryScope::all(&catalogue, &*store, &tenant), store.clock())?;
        let plan = resolved.map_err(|problem| problem.message)?.plan;
        let (transitions_done, granted_twice) = (AtomicU64::new(0), AtomicU64::new(0));
        let picks = PickGroups::default();
        let held_keys: Mutex<HashSet<String>> = Mutex::default();
        let held_keys = || held_keys.lock().unwrap_or_else(PoisonError::into_inner);
        let started = Instant::now();
        std::thread::scope(|scope| {
            for caller in 0..CALLERS as u64 {
                let (picks, catalogue, store, plan, acquire, release, transitions_done, granted_twice, held_keys) =
                    (&picks, &catalogue, &*store, &plan, &acquire, &release, &transitions_done, &granted_twice, &held_keys);
                scope.spawn(move || -> std::result::Result<(), String> {
                    let evaluator = Evaluator::new(catalogue.tables.clone());
                    let mut turn = caller.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    while transitions_done.load(Ordering::Relaxed) < transitions {
                        turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        let granted =
                            pick::pick(picks, &PickCall { catalogue, store, evaluator: &evaluator, request: acquire, plan, turn: turn >> 33 });
                        let Ok(Some(TransitionResult::Done(record))) = granted else { continue };
                        let key = record["key"].as_str().unwrap_or_default().to_owned();
                        granted_twice.fetch_add(u64::from(!held_keys().insert(key.clone())), Ordering::Relaxed);
                        // a twentieth is kept
                        if transitions_done.fetch_add(1, Ordering::Relaxed) % 40 != 0 {
                            held_keys().remove(&key);
                            let key = Key::new(key).map_err(|error| error.to_string())?;
                            let ended = transition::run(catalogue, store, &evaluator, release, &key).map_err(|error| error.to_string())?;
                            if !matches!(ended, TransitionResult::Done(_)) {
                                return Err(format!("{} was not released", key.as_str()));
                            }
                            transitions_done.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    Ok(())
                });
            }
        });
        let rate = transitions_done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64();
        Ok(json!({ "rate": rate, "doubles": granted_twice.load(Ordering::Relaxed) }))
    })())
}
