//! Group `pages`: how long the server takes for each page of catalogues with a million records, one visitor after the other.

use crate::Setting;
use crate::figures::{Figures, Samples};
use crate::process::{Result, execute, stook};
use crate::serve::Running;
use std::path::Path;
use stook_report::run::Run;
use stook_testkit::postgres::TestServer;

const ROUNDS: usize = 3;
const RECORDS: &str = "1000000";
/// Days of satellite deliveries that make as many.
const DAYS: &str = "45";
/// What people type, letter by letter.
const TYPED: [&str; 8] = ["au", "authority", "authority head", "authority heading=ma", "authority kind=", "smith", "marc chima", "personal ro"];

pub fn run(setting: &Setting, figures: &mut Figures) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("stook-bench").tempdir().map_err(|error| error.to_string())?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (catalogue, names) = (setting.root.join("examples/authorities").display().to_string(), path("names.mrc"));
    execute(&setting.stook, &["sample", "authorities", "--records", RECORDS, "-o", &names])?;
    on_store(setting, figures, folder.path(), (&catalogue, &path("own.sqlite"), ""), &names)?;
    satellites(setting, figures, folder.path())?;
    match TestServer::start(&["shared_buffers=1GB"]) {
        Ok(server) => {
            let store = server.url("postgres");
            stook(&setting.stook, &catalogue, &store, &["prepare"])?;
            on_store(setting, figures, folder.path(), (&catalogue, &store, "PostgreSQL: "), &names)
        }
        Err(reason) => {
            figures.note(&format!("skipped: {reason}; no figures on PostgreSQL"));
            Ok(())
        }
    }
}

fn on_store(setting: &Setting, figures: &mut Figures, folder: &Path, (catalogue, store, label): (&str, &str, &str), names: &str) -> Result<()> {
    stook(&setting.stook, catalogue, store, &["import", names, "--profile", "upsert"])?;
    let keys = stook(&setting.stook, catalogue, store, &["query", "authority | grep key", "--limit", "5000", "--format", "csv"])?.output;
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"));
    write("keys.csv", keys)?;
    write("typed.txt", TYPED.map(|text| format!("{text}\n")).concat())?;
    let served = Running::start(&setting.stook, &["-C", catalogue, "--store", store, "serve", "--listen", "127.0.0.1:0", "--workers", "0"], None)?;
    let url = format!("http://{}", served.address());
    let pages = [
        ("home", "/t/main/home", 50.0),
        ("search, all records", "/t/main/search?q=authority", 50.0),
        ("search, a prefix", "/t/main/search?q=authority%20heading%3DMa*", 50.0),
        ("counts by field, all records", "/t/main/facets?q=authority&part=1", 50.0),
        ("counts by field, a prefix", "/t/main/facets?q=authority%20heading%3DMa*&part=1", 50.0),
        ("a record", "/t/main/record?collection=authority&key={key}", 50.0),
        ("imports", "/t/main/import", 50.0),
        ("a journal", "/t/main/job?id=1", 50.0),
        ("metrics", "/t/main/metrics", 50.0),
        ("tokens", "/t/main/tokens", 50.0),
        ("the API", "/docs/operations", 50.0),
        ("search as you type", "/t/main/suggestions?q={typed}", 30.0),
    ];
    // what there is to be suggested is learnt with the first question
    let first = format!("{url}/t/main/suggestions?q=smith");
    execute(&setting.stook, &["lab", "load", &first, "--requests", "1", "--timeout", "2min", "--json", "--no-limits"])?;
    for (name, page, bar) in pages {
        page_of(setting, figures, folder, (&format!("{label}{name}"), &format!("{url}{page}"), bar))?;
    }
    if label.is_empty() {
        let mut bytes = 0.0;
        for path in ["/t/main/home", "/assets/stook.css", "/assets/stook.js", "/assets/htmx-2.0.11.min.js"] {
            bytes += size(setting, folder, &format!("{url}{path}"))?;
        }
        let mut all = Samples::default();
        all.push(bytes / 1e3);
        figures.at_most("first load", &all, "kB", 150.0);
    }
    Ok(())
}

/// Pages of what was planned and what of it is there.
fn satellites(setting: &Setting, figures: &mut Figures, folder: &Path) -> Result<()> {
    let path = |name: &str| folder.join(name).display().to_string();
    let (catalogue, store, data) = (setting.root.join("examples/sentinel").display().to_string(), path("sentinel.sqlite"), path("sentinel"));
    execute(&setting.stook, &["sample", "sentinel", "--days", DAYS, "-o", &data])?;
    for source in ["plan_s1", "plan_s2", "prip", "lta", "dd", "probe"] {
        let files = std::fs::read_dir(folder.join("sentinel").join(source)).map_err(|error| format!("{data}: {error}"))?;
        let mut files: Vec<String> = files.filter_map(|file| Some(file.ok()?.path().display().to_string())).collect();
        files.sort();
        let words: Vec<&str> = ["import"].into_iter().chain(files.iter().map(String::as_str)).chain(["--source", source]).collect();
        stook(&setting.stook, &catalogue, &store, &words)?;
    }
    let keys = stook(&setting.stook, &catalogue, &store, &["query", "datatake mission=S1 | grep key", "--limit", "5000", "--format", "csv"])?.output;
    std::fs::write(folder.join("keys.csv"), keys).map_err(|error| format!("keys.csv: {error}"))?;
    let served = Running::start(&setting.stook, &["-C", &catalogue, "--store", &store, "serve", "--listen", "127.0.0.1:0", "--workers", "0"], None)?;
    let url = format!("http://{}/t/main", served.address());
    let pages = [
        ("home of 27 collections", "/home"),
        ("coverage by day and group", "/coverage?collection=datatake.completeness_s1"),
        ("coverage of a parent along time", "/coverage?collection=datatake.completeness_s1&parent={key}"),
        ("runs along time", "/coverage?collection=interface.status"),
        ("a record that others name", "/record?collection=datatake&key={key}"),
        ("search, what is missing", "/search?q=datatake.completeness_s1%20status=Missing"),
        ("counts by field, products", "/facets?q=product&part=1"),
    ];
    for (name, page) in pages {
        page_of(setting, figures, folder, (name, &format!("{url}{page}"), 50.0))?;
    }
    Ok(())
}

fn page_of(setting: &Setting, figures: &mut Figures, folder: &Path, (name, url, bar): (&str, &str, f64)) -> Result<()> {
    let mut tails = Samples::default();
    for _ in 0..ROUNDS {
        tails.push(tail(setting, folder, url)?);
    }
    figures.at_most(&format!("{name}, p95"), &tails, "ms", bar);
    Ok(())
}

fn sweep(setting: &Setting, folder: &Path, url: &str) -> Result<Run> {
    let file = |name: &str| folder.join(name).display().to_string();
    let (keys, typed) = (format!("key={}#key", file("keys.csv")), format!("typed={}", file("typed.txt")));
    let words = ["lab", "sweep", url, "--param", &keys, "--param", &typed, "--clients", "1", "--for", "2s", "--json", "--no-limits"];
    let run: Run = serde_json::from_str(&execute(&setting.stook, &words)?.output).map_err(|error| error.to_string())?;
    match run.sets.first() {
        Some(set) if set.successes() == set.requests && set.requests > 0 => Ok(run),
        _ => Err(format!("{url}: not all requests were answered")),
    }
}

/// Milliseconds that 95 of 100 requests did not exceed.
fn tail(setting: &Setting, folder: &Path, url: &str) -> Result<f64> {
    Ok(sweep(setting, folder, url)?.sets[0].latency.quantile(0.95).unwrap_or(f64::NAN) * 1e3)
}

/// Bytes of an answer.
fn size(setting: &Setting, folder: &Path, url: &str) -> Result<f64> {
    let run = sweep(setting, folder, url)?;
    Ok(run.sets[0].bytes as f64 / run.sets[0].requests as f64)
}
