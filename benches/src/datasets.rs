//! Group `datasets`: two services asked for everything they know of blocks, cold, and queries of one record, warm, by many clients.

use crate::Setting;
use crate::figures::{Figures, Samples};
use crate::process::{Result, remove_store};
use crate::serve::{Bench, Running};
use rusqlite::types::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use stook_sample::datasets::{BLOCKS, Datasets};
use stook_sample::random::Random;

const ROUNDS: usize = 3;
pub const SEED: u64 = 1;
/// Datasets whose 392 634 blocks are nearly as many as the report's, and as many of them known to each service.
pub const OF_REPORT: u64 = 43_626;
/// Datasets of 50 000 and 500 000 blocks; of 5 000 000 with `datasets-large`.
pub const SIZES: [(&str, u64); 2] = [("50k", 5_556), ("500k", 55_556)];
pub const LARGE: (&str, u64) = ("5M", 555_556);
/// Clients of the sweep.
const CLIENTS: [&str; 4] = ["1", "10", "100", "500"];
/// Random places in a result are below this.
const MAX_RESULT_INDEX: u64 = 1_000;
/// What each request asks for, of so many.
const PATHS: u64 = 5_000;

/// The sample's services, ended when dropped.
pub struct Services {
    child: Child,
    /// NAME and URL.
    urls: Vec<(String, String)>,
}

impl Services {
    /// Starts them, with so many datasets.
    ///
    /// # Errors
    /// When they do not come up.
    pub fn start(setting: &Setting, records: u64) -> Result<Self> {
        let mut command = Command::new(&setting.stook);
        command.args(["sample", "datasets", "--records", &records.to_string(), "--seed", &SEED.to_string(), "--serve", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
        let mut first = String::new();
        let out = child.stdout.take().ok_or("no standard output")?;
        BufReader::new(out).read_line(&mut first).map_err(|error| error.to_string())?;
        let urls = first.split_whitespace().filter_map(|part| part.split_once('=')).map(|(name, url)| (name.to_owned(), url.to_owned())).collect();
        Ok(Self { child, urls })
    }

    /// The example's catalogue, with these services in it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn catalogue(&self, setting: &Setting, folder: &Path) -> Result<String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut text = std::fs::read_to_string(setting.root.join("examples/datasets/catalogue.yaml")).map_err(failed)?;
        for (name, url) in &self.urls {
            text = text.replace(&format!("${{{name}}}"), url);
        }
        // what is here stays fresh while it is measured
        let text = text.replace("ttl: 15m", "ttl: 24h").replace("ttl: 1h", "ttl: 24h").replace("deadline: 120s", "deadline: 1h");
        std::fs::write(folder.join("catalogue.yaml"), text).map_err(failed)?;
        Ok(folder.display().to_string())
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A block that a service knows.
pub fn known_block(data: &Datasets, random: &mut Random) -> String {
    let dataset = data.dataset(random.below(data.records));
    loop {
        let block = data.block(&dataset, random.below(BLOCKS));
        if block.catalogued || block.transferable {
            return block.name;
        }
    }
}

pub fn run(setting: &Setting, figures: &mut Figures, large: bool) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("stook-bench").tempdir().map_err(|error| error.to_string())?;
    let bench = Bench { setting, folder: folder.path().to_owned(), server: None };
    cold_query(&bench, figures)?;
    for program in ["wrk", "taskset"] {
        if Command::new(program).arg("-V").output().is_err() {
            figures.note(&format!("skipped: {program} is not installed (Debian: apt install wrk util-linux), no warm figures"));
            return Ok(());
        }
    }
    vocabulary(&bench, figures)?;
    let hello = Running::start(&setting.bench_program, &["hello", "400"], None)?;
    let mut first: Option<f64> = None;
    for (name, records) in SIZES.into_iter().chain(large.then_some(LARGE)) {
        let fixed = warm_queries(&bench, figures, &hello, name, records)?;
        match first {
            None => first = Some(fixed),
            Some(first) => {
                let mut growth = Samples::default();
                growth.push(fixed / first);
                figures.at_most(&format!("one record, {name} blocks beside {}, p99 at 500 clients", SIZES[0].0), &growth, "x", 1.3);
            }
        }
    }
    Ok(())
}

/// Everything that both services know, by one question.
fn cold_query(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    let services = Services::start(bench.setting, OF_REPORT)?;
    let catalogue = services.catalogue(bench.setting, &bench.folder)?;
    let store = bench.path("cold.sqlite");
    let (mut seconds, mut memory, mut reference) = <(Samples, Samples, Samples)>::default();
    for _ in 0..ROUNDS {
        remove_store(Path::new(&store));
        let ran = bench.stook(&catalogue, &store, &["query", "block | count(key)", "--format", "csv"])?;
        let blocks: u64 = ran.output.lines().nth(1).and_then(|line| line.parse().ok()).ok_or_else(|| ran.output.clone())?;
        if blocks < 392_000 {
            return Err(format!("there are only {blocks} blocks"));
        }
        seconds.push(ran.seconds);
        memory.push(ran.memory);
        reference.push(241.8 / ran.seconds);
    }
    figures.judged_at_most(
        "cold block query of both services, file",
        &seconds,
        "s",
        &format!("report 241.8 s, {:.0}x", reference.median()),
        &seconds,
        20.0,
    );
    figures.at_most("its memory", &memory, "MB", 512.0);
    Ok(())
}

/// Queries of what is here; returns the 99th percentile of those for one record at 500 clients, in ms.
fn warm_queries(bench: &Bench<'_>, figures: &mut Figures, hello: &Running, name: &str, records: u64) -> Result<f64> {
    let data = Datasets { records, seed: SEED };
    let store = bench.path(&format!("{name}.sqlite"));
    let services = Services::start(bench.setting, records)?;
    let catalogue = services.catalogue(bench.setting, &bench.folder)?;
    bench.stook(&catalogue, &store, &["query", "block | count(key)", "--format", "csv"])?;
    // as many places as there are clients: who is turned away is not measured here
    let served = bench.serve(&catalogue, &store, &["--workers", "0", "--max-requests", "512", "--wait", "2000"])?;
    let mut random = Random::new(SEED);
    let path = |query: &str, index: u64| format!("/v1/main/query?limit=1&idx={index}&q={}", url_encoded(query));
    let one_block = known_block(&data, &mut random);
    let letter = |random: &mut Random| char::from(b'A' + random.below(26) as u8);
    let kinds = [
        ("one record by its key", vec![path(&format!("block name={one_block}"), 0)]),
        ("a pattern", vec![path("block name=/QCD*", 0)]),
        ("random patterns", (0..PATHS).map(|_| path(&format!("block name=/{}*", letter(&mut random)), 0)).collect()),
        (
            "random queries, random place",
            (0..PATHS)
                .map(|_| {
                    let dataset = data.dataset(random.below(records)).name;
                    let length = random.between(2, 4) as usize;
                    path(&format!("block name={}*", &dataset[..length]), random.below(MAX_RESULT_INDEX))
                })
                .collect(),
        ),
    ];
    let mut by_key_tails = Samples::default();
    for (kind_number, (kind, paths)) in kinds.iter().enumerate() {
        let lines = bench.lines("paths.txt", paths.iter().cloned())?;
        let mut shown = Vec::new();
        let mut bare_tails = Samples::default();
        let mut tails = Samples::default();
        for clients in CLIENTS {
            let rounds = if clients == "500" { ROUNDS } else { 1 };
            let mut tail_samples = Samples::default();
            for _ in 0..rounds {
                let (_, tail) = bench.closed_loop(&served, &lines, clients)?;
                tail_samples.push(tail);
                if clients == "500" {
                    let (_, bare_tail) = bench.closed_loop(hello, &lines, clients)?;
                    tails.push(tail);
                    bare_tails.push(bare_tail);
                }
            }
            shown.push(format!("{clients}: {:.2}", tail_samples.median()));
        }
        figures.note(&format!("  {name} blocks, {kind}, p99 in ms by clients: {}", shown.join(", ")));
        if kind_number == 0 {
            by_key_tails = tails.clone();
            figures.judged_at_most(
                &format!("{name}: {kind}, p99 at 500 clients"),
                &tails,
                "ms",
                &format!("bare axum hello, same core {:.1}", bare_tails.median()),
                &tails.divided_by(&bare_tails),
                3.0,
            );
        } else {
            let bar = if kind_number == 3 { 2.5 } else { 1.5 };
            figures.judged_at_most(
                &format!("{name}: {kind}, p99 at 500 clients"),
                &tails,
                "ms",
                &format!("by key {:.1}", by_key_tails.median()),
                &tails.divided_by(&by_key_tails),
                bar,
            );
        }
    }
    service_time(bench, figures, &served, &store, (name, &data), &mut random)?;
    free_text(bench, figures, &served, name, &data, &mut random)?;
    Ok(by_key_tails.median())
}

/// How long the server has a record's request in hand, by its own count, beside reading the same rows from the file and nothing else.
fn service_time(
    bench: &Bench<'_>,
    figures: &mut Figures,
    served: &Running,
    store: &str,
    (name, data): (&str, &Datasets),
    random: &mut Random,
) -> Result<()> {
    let keys: Vec<String> = (0..PATHS).map(|_| known_block(data, random)).collect();
    let keys: Vec<String> = keys.into_iter().map(|name| format!("prod/global:{name}")).collect();
    let lines = bench.lines("paths.txt", keys.iter().map(|key| format!("/v1/main/block?key={}", url_encoded(key))))?;
    let (mut service, mut raw) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        let before = record_requests_served(served)?;
        bench.closed_loop(served, &lines, "10")?;
        let (seconds, requests) = record_requests_served(served)?;
        service.push((seconds - before.0) / (requests - before.1) * 1e6);
        raw.push(read_rows(store, &keys).map_err(|error| error.to_string())?);
    }
    let reference = format!("raw SQLite reads, 1 thread {:.1}", raw.median());
    figures.judged_at_most(&format!("{name}: service time of a record, 10 clients"), &service, "us", &reference, &service.divided_by(&raw), 2.0);
    Ok(())
}

/// Seconds and requests for records by key that a server has counted.
fn record_requests_served(served: &Running) -> Result<(f64, f64)> {
    let text = served.metrics()?;
    let sum_of = |suffix: &str| {
        let metric_lines =
            text.lines().filter(|line| line.starts_with(&format!("stook_request_duration_seconds_{suffix}{{")) && line.contains("/{tenant}/block\""));
        metric_lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    Ok((sum_of("sum"), sum_of("count")))
}

/// Microseconds that a row takes to read with all its columns, by its key.
fn read_rows(store: &str, keys: &[String]) -> rusqlite::Result<f64> {
    let connection = rusqlite::Connection::open_with_flags(store, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    stook_store::sqlite::register_functions(&connection)?;
    let mut read = connection.prepare("SELECT * FROM r_block WHERE tenant = 1 AND packed(key) = packed(?)")?;
    let columns = read.column_count();
    let mut pass = || -> rusqlite::Result<Vec<Vec<Value>>> {
        let row = |row: &rusqlite::Row<'_>| (0..columns).map(|index| row.get(index)).collect();
        keys.iter().map(|key| read.query_row([key], row)).collect()
    };
    pass()?;
    let began = Instant::now();
    std::hint::black_box(pass()?);
    Ok(began.elapsed().as_secs_f64() / keys.len() as f64 * 1e6)
}

/// Free text: a dataset's parts as people remember them, and a site.
fn free_text(bench: &Bench<'_>, figures: &mut Figures, served: &Running, name: &str, data: &Datasets, random: &mut Random) -> Result<()> {
    let text = |random: &mut Random| {
        let dataset = data.dataset(random.below(data.records));
        let parts: Vec<&str> = dataset.name.split('/').collect();
        let primary = parts[1].rsplit_once('_').map_or(parts[1], |(primary, _)| primary).to_lowercase();
        match random.below(4) {
            0 => format!("{primary} {}", dataset.datatype),
            1 => format!("datsets {primary} {}", parts[3].to_lowercase()),
            2 => format!("blocks at {} of {primary}", data.site(random.below(60)).name),
            _ => format!("{} {}", parts[2], dataset.release),
        }
    };
    let paths = (0..PATHS).map(|_| format!("/v1/main/suggest?text={}", url_encoded(&text(random))));
    let lines = bench.lines("paths.txt", paths.collect::<Vec<_>>().into_iter())?;
    // what is there is learnt with the first
    bench.closed_loop(served, &lines, "1")?;
    let (mut one_client, mut twenty_clients) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        one_client.push(bench.closed_loop(served, &lines, "1")?.1);
        twenty_clients.push(bench.closed_loop(served, &lines, "20")?.1);
    }
    figures.at_most(&format!("{name}: free text, p99 at 1 client"), &one_client, "ms", 50.0);
    figures.at_most(&format!("{name}: free text, p99 at 20 clients"), &twenty_clients, "ms", 100.0);
    Ok(())
}

/// Different values of which words are learnt.
const VALUES: u64 = 500_000;

/// A word that can be spoken, another one for each number below a million.
fn pronounceable_word(number: u64) -> String {
    let mut remaining = number * 7_919 % 1_000_003 + 1_000_003;
    let mut word = String::new();
    while remaining > 0 {
        word.push(char::from(b"bdfgklmnprstvz"[(remaining % 14) as usize]));
        remaining /= 14;
        word.push(char::from(b"aeiou"[(remaining % 5) as usize]));
        remaining /= 5;
    }
    word
}

/// Free text where half a million values are all different: what knowing them takes, and how long a misspelt one is looked for.
fn vocabulary(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    let failed = |error: std::io::Error| error.to_string();
    let folder = bench.path("vocabulary");
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let definition = "catalogue: words\nsources:\n  s: { format: json, into: thing, as_of: meta.received }\ncollections:\n  thing:\n    key: id\n    \
                      fields: { id: text, name: { type: text, index: [equal, prefix] } }\n";
    std::fs::write(format!("{folder}/catalogue.yaml"), definition).map_err(failed)?;
    let lines = (0..VALUES).map(|number| format!("{{\"id\":\"{number}\",\"name\":\"{}\"}}", pronounceable_word(number)));
    let (values, store) = (bench.lines("values.ndjson", lines)?, bench.path("vocabulary.sqlite"));
    bench.stook(&folder, &store, &["import", &values, "--source", "s"])?;
    let served = bench.serve(&folder, &store, &["--workers", "0"])?;
    let mut random = Random::new(1);
    // one letter of it is another
    let misspelt = |word: &str, random: &mut Random| {
        let letter_index = 1 + random.below(word.len() as u64 - 1) as usize;
        format!("{}x{}", &word[..letter_index], &word[letter_index + 1..])
    };
    let text = |random: &mut Random| {
        let words = [0, 1].map(|_| pronounceable_word(random.below(VALUES)));
        words.map(|word| misspelt(&word, random)).join(" ")
    };
    let texts: Vec<String> = (0..PATHS).map(|_| format!("/v1/main/suggest?text={}", url_encoded(&text(&mut random)))).collect();
    let paths = bench.lines("paths.txt", texts.into_iter())?;
    let ready = bench.lines("ready.txt", std::iter::once("/v1/main/query?q=thing&limit=1".to_owned()))?;
    bench.closed_loop(&served, &ready, "1")?;
    let before = served.memory();
    // they are learnt beside the first of these
    let mut rounds = 0;
    loop {
        bench.closed_loop(&served, &paths, "1")?;
        let shown = served.get("/v1/main/suggest?text=xy")?;
        rounds += 1;
        if shown.contains("\"learning\":false") {
            break;
        }
        if rounds > 60 {
            return Err("the values are never learnt".into());
        }
    }
    let mut memory = Samples::default();
    memory.push(served.memory() - before);
    let mut one_client = Samples::default();
    for _ in 0..ROUNDS {
        one_client.push(bench.closed_loop(&served, &paths, "1")?.1);
    }
    figures.at_most("500 000 different values: memory of what is known of them", &memory, "MB", 100.0);
    figures.at_most("500 000 different values: two misspelt words, p99 at 1 client", &one_client, "ms", 50.0);
    Ok(())
}

fn url_encoded(query: &str) -> String {
    query.bytes().map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
