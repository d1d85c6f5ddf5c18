//! `stook-bench seeds FOLDER [PART...]`: the five reports repeated with `stook serve` and `stook work`, on the embedded store and on
//! PostgreSQL. Each part leaves a page with its pictures in FOLDER and its runs in FOLDER/runs; every figure of a page is of a run.

use crate::Setting;
use crate::datasets::{LARGE, OF_REPORT, SEED, SIZES, Services, known_block};
use crate::process::{Result, execute, remove_store, stook};
use crate::serve::REGISTER;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use stook_sample::datasets::Datasets;
use stook_sample::random::Random;
use stook_testkit::postgres::TestServer;

/// A report, and what its page says first.
type Part = (&'static str, fn(&Seeds<'_>, &mut String, StoreKind) -> Result<()>, &'static str);

const PARTS: [Part; 5] = [
    ("register", register, include_str!("../seeds/register.md")),
    ("imports", imports, include_str!("../seeds/imports.md")),
    ("aggregator", aggregator, include_str!("../seeds/aggregator.md")),
    ("tags", tags, include_str!("../seeds/tags.md")),
    ("pipeline", pipeline, include_str!("../seeds/pipeline.md")),
];

/// How much faster than in its report requests of the register follow each other.
const FASTER: &str = "20";
const MACHINES: &str = "10000";

struct Seeds<'s> {
    setting: &'s Setting,
    server: Option<TestServer>,
    folder: PathBuf,
    out: PathBuf,
}

/// Where records are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StoreKind {
    Embedded,
    Postgres,
}

impl StoreKind {
    fn name(self) -> &'static str {
        if self == StoreKind::Embedded { "embedded" } else { "postgres" }
    }
}

/// A program, ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// A served catalogue, with workers.
struct Served {
    url: String,
    log: PathBuf,
    _programs: Vec<Running>,
}

pub fn run(setting: &Setting, out: &str, parts: &[&str]) -> Result<()> {
    if let Some(unknown) = parts.iter().find(|part| PARTS.iter().all(|(name, ..)| name != *part)) {
        let known_parts: Vec<&str> = PARTS.iter().map(|(name, ..)| *name).collect();
        return Err(format!("there is no report `{unknown}`; there are {}", known_parts.join(", ")));
    }
    let folder = tempfile::Builder::new().prefix("stook-seeds").tempdir().map_err(|error| error.to_string())?;
    let server = TestServer::start(&["shared_buffers=512MB", "max_connections=200", "shared_preload_libraries=pg_stat_statements"]);
    if let Err(reason) = &server {
        println!("skipped: {reason}; no measurements on PostgreSQL");
    }
    let seeds = Seeds {
        setting,
        server: server.ok(),
        folder: folder.path().to_owned(),
        out: std::path::absolute(out).map_err(|error| format!("{out}: {error}"))?,
    };
    std::fs::create_dir_all(seeds.out.join("runs")).map_err(|error| format!("{out}: {error}"))?;
    for (name, work, words) in PARTS {
        if !parts.is_empty() && !parts.contains(&name) {
            continue;
        }
        let mut page = words.to_owned();
        for store_kind in [StoreKind::Embedded, StoreKind::Postgres] {
            if store_kind == StoreKind::Postgres && seeds.server.is_none() {
                continue;
            }
            println!("{name}, {}", store_kind.name());
            let _ = write!(page, "\n## {}\n", if store_kind == StoreKind::Embedded { "Embedded store" } else { "PostgreSQL" });
            work(&seeds, &mut page, store_kind)?;
        }
        seeds.write(&seeds.out.join(format!("{name}.md")), &page)?;
    }
    Ok(())
}

impl Seeds<'_> {
    fn write(&self, path: &Path, text: &str) -> Result<()> {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// A file of an example, copied to the folder in which its plan looks for more.
    fn copy(&self, example: &str) -> Result<String> {
        let from = self.setting.root.join("examples").join(example);
        let to = self.folder.join(from.file_name().unwrap_or_default());
        std::fs::copy(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
        Ok(to.display().to_string())
    }

    /// An empty store.
    fn empty_store(&self, catalogue: &Path, store_kind: StoreKind, name: &str) -> Result<String> {
        let Some(server) = self.server.as_ref().filter(|_| store_kind == StoreKind::Postgres) else {
            let file = self.folder.join(format!("{name}.sqlite"));
            remove_store(&file);
            return Ok(file.display().to_string());
        };
        server.sql(&format!("DROP SCHEMA IF EXISTS {name} CASCADE"))?;
        let url = format!("{}?schema={name}", server.url("postgres"));
        self.stook(catalogue, &url, &["prepare"])?;
        Ok(url)
    }

    fn stook(&self, catalogue: &Path, store: &str, words: &[&str]) -> Result<String> {
        Ok(stook(&self.setting.stook, &catalogue.display().to_string(), store, words)?.output)
    }

    fn sample(&self, words: &[&str]) -> Result<()> {
        execute(&self.setting.stook, &[&["sample"], words].concat()).map(drop)
    }

    fn example(&self, name: &str) -> PathBuf {
        self.setting.root.join("examples").join(name)
    }

    fn start(&self, catalogue: &Path, store: &str, words: &[&str], log: &Path) -> Result<Running> {
        let log = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = Command::new(&self.setting.stook);
        command.arg("-C").arg(catalogue).args(["--store", store]).args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.spawn().map(Running).map_err(|error| format!("stook: {error}"))
    }

    /// A served catalogue with as many workers as there are cores: those of the server itself on a file, `stook work` beside it
    /// on a server of databases, as each begins by default.
    fn serve_with_workers(&self, catalogue: &Path, store: &str, store_kind: StoreKind) -> Result<Served> {
        self.serve(catalogue, store, &[], store_kind == StoreKind::Postgres)
    }

    /// `stook serve`, and `stook work` beside it where that is wanted.
    fn serve(&self, catalogue: &Path, store: &str, words: &[&str], with_workers: bool) -> Result<Served> {
        let log = self.folder.join("serve.log");
        let words = [&["serve", "--listen", "127.0.0.1:0", "--max-requests", "512", "--wait", "5000"], words].concat();
        let mut programs = vec![self.start(catalogue, store, &words, &log)?];
        let started = Instant::now();
        let url = loop {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let found = text.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next());
            match found.filter(|_| text.contains('\n')) {
                Some(address) => break format!("http://{address}"),
                None if started.elapsed() > Duration::from_secs(20) => return Err(format!("it does not serve: {text}")),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        if with_workers {
            programs.push(self.start(catalogue, store, &["work"], &self.folder.join("work.log"))?);
        }
        Ok(Served { url, log, _programs: programs })
    }

    /// A run of the lab, kept, and shown on a page.
    fn lab(&self, page: &mut String, name: &str, token: &str, words: &[&str]) -> Result<()> {
        let run = self.out.join("runs").join(format!("{name}.json"));
        let mut command = Command::new(&self.setting.stook);
        command.arg("lab").args(words).arg("-o").arg(&run).env("STOOK_TOKEN", token).current_dir(&self.folder);
        let output = command.output().map_err(|error| format!("stook lab: {error}"))?;
        if !output.status.success() {
            return Err(format!("stook lab {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)));
        }
        self.show(page, name, &["show", &run.display().to_string()])
    }

    /// Markdown of the lab, one heading deeper, with its pictures beside the page.
    fn show(&self, page: &mut String, name: &str, words: &[&str]) -> Result<()> {
        let file = self.out.join(format!("{name}.md"));
        execute(&self.setting.stook, &[&["lab"], words, &["--md", "-o", &file.display().to_string()]].concat())?;
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        std::fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        page.push('\n');
        for line in text.lines() {
            let _ = writeln!(page, "{}{line}", if line.starts_with('#') { "##" } else { "" });
        }
        Ok(())
    }

    /// Where the server is, for the watcher.
    fn watched_url(&self, store_kind: StoreKind) -> Option<String> {
        self.server.as_ref().filter(|_| store_kind == StoreKind::Postgres).map(|server| server.url("postgres"))
    }

    /// Arguments of a run of imports.
    fn import(&self, page: &mut String, name: &str, store_kind: StoreKind, plan: &str, (url, token): (&str, &str)) -> Result<()> {
        let watched_url = self.watched_url(store_kind);
        let mut words = vec!["import", plan, "--target", url];
        words.extend(watched_url.iter().flat_map(|url| ["--postgres", url.as_str()]));
        self.lab(page, name, token, &words)
    }
}

/// The survey register's matrix of 12 000 requests.
fn register(seeds: &Seeds<'_>, page: &mut String, store_kind: StoreKind) -> Result<()> {
    let (catalogue, data) = (seeds.example("businesses"), seeds.folder.join("register"));
    let store = seeds.empty_store(&catalogue, store_kind, "register")?;
    seeds.sample(&["businesses", "--records", "10000", "-o", &data.display().to_string()])?;
    for (file, source) in REGISTER {
        seeds.stook(&catalogue, &store, &["import", &data.join(file).display().to_string(), "--source", source])?;
    }
    let served = seeds.serve(&catalogue, &store, &["--workers", "0"], false)?;
    let plan = seeds.copy("lab/register.yaml")?;
    seeds.lab(page, &format!("register-{}", store_kind.name()), "", &["load", &plan, "--target", &served.url, "--faster", FASTER])
}

/// The library's five sets of imports.
fn imports(seeds: &Seeds<'_>, page: &mut String, store_kind: StoreKind) -> Result<()> {
    let (catalogue, data) = (seeds.example("authorities"), seeds.folder.join("imports"));
    std::fs::create_dir_all(&data).map_err(|error| error.to_string())?;
    for records in [1_000, 5_000, 10_000, 25_000, 50_000] {
        let (count, first, file) = (records.to_string(), (records * 1_000).to_string(), data.join(format!("names-{records}.mrc")));
        seeds.sample(&["authorities", "--records", &count, "--first", &first, "-o", &file.display().to_string()])?;
    }
    let items = data.join("items.csv");
    seeds.write(&items, &(1..=10_000).fold("barcode,lccn\n".to_owned(), |text, number| text + &format!("b{number:06},\n")))?;
    for set in 1..=5 {
        let store = seeds.empty_store(&catalogue, store_kind, "imports")?;
        seeds.stook(&catalogue, &store, &["import", &items.display().to_string(), "--profile", "stock", "--tenant", "tenant1"])?;
        let made = seeds.stook(&catalogue, &store, &["token", "create", "--tenant", "*", "--role", "write", "--json"])?;
        let made: serde_json::Value = serde_json::from_str(&made).map_err(|error| format!("{made}: {error}"))?;
        let served = seeds.serve_with_workers(&catalogue, &store, store_kind)?;
        let plan = seeds.copy(&format!("lab/imports-{set}.yaml"))?;
        let token = made["token"].as_str().unwrap_or_default();
        seeds.import(page, &format!("imports-{set}-{}", store_kind.name()), store_kind, &plan, (&served.url, token))?;
    }
    Ok(())
}

/// The aggregator's cold query, and reads at growing sizes.
fn aggregator(seeds: &Seeds<'_>, page: &mut String, store_kind: StoreKind) -> Result<()> {
    let folder = seeds.folder.join("datasets");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    {
        let services = Services::start(seeds.setting, OF_REPORT)?;
        services.catalogue(seeds.setting, &folder)?;
        let store = seeds.empty_store(&folder, store_kind, "cold")?;
        let served = seeds.serve(&folder, &store, &["--workers", "0"], false)?;
        let plan = seeds.copy("lab/blocks-cold.yaml")?;
        seeds.lab(page, &format!("aggregator-cold-{}", store_kind.name()), "", &["load", &plan, "--target", &served.url])?;
    }
    let large = std::env::var_os("STOOK_SEEDS_LARGE").is_some();
    for (name, records) in SIZES.into_iter().chain(large.then_some(LARGE)) {
        let services = Services::start(seeds.setting, records)?;
        services.catalogue(seeds.setting, &folder)?;
        let store = seeds.empty_store(&folder, store_kind, "blocks")?;
        seeds.stook(&folder, &store, &["query", "block | count(key)", "--format", "csv"])?;
        let served = seeds.serve(&folder, &store, &["--workers", "0"], false)?;
        write_block_names(seeds, records)?;
        let plan = seeds.copy("lab/blocks.yaml")?;
        let text = std::fs::read_to_string(&plan).map_err(|error| format!("{plan}: {error}"))?;
        seeds.write(Path::new(&plan), &text.replace("name: reads of blocks", &format!("name: reads of {name} blocks")))?;
        seeds.lab(page, &format!("aggregator-{name}-{}", store_kind.name()), "", &["sweep", &plan, "--target", &served.url])?;
    }
    Ok(())
}

/// What is asked for of so many datasets.
fn write_block_names(seeds: &Seeds<'_>, records: u64) -> Result<()> {
    let (data, mut random) = (Datasets { records, seed: SEED }, Random::new(SEED));
    let one_block = known_block(&data, &mut random);
    let folder = seeds.folder.join("blocks");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let begins = |random: &mut Random| {
        let name = data.dataset(random.below(records)).name;
        name[..random.between(2, 4) as usize].to_owned()
    };
    let lines = |all: Vec<String>| all.join("\n") + "\n";
    seeds.write(&folder.join("one.txt"), &lines(vec![one_block]))?;
    seeds.write(&folder.join("prefixes.txt"), &lines(('A'..='Z').map(String::from).collect()))?;
    seeds.write(&folder.join("random.txt"), &lines((0..5_000).map(|_| begins(&mut random)).collect()))?;
    seeds.write(&folder.join("places.txt"), &lines((0..1_000).map(|index| index.to_string()).collect()))
}

/// The data centre's tags, and what 100 000 machines need.
fn tags(seeds: &Seeds<'_>, page: &mut String, store_kind: StoreKind) -> Result<()> {
    let (catalogue, data) = (seeds.example("machines"), seeds.folder.join("machines"));
    let store = seeds.empty_store(&catalogue, store_kind, "machines")?;
    seeds.sample(&["machines", "--records", MACHINES, "-o", &data.display().to_string()])?;
    seeds.stook(&catalogue, &store, &["import", &data.join("machines.ndjson").display().to_string(), "--source", "enlist"])?;
    for (tag, definition) in [
        ("gpu", "//node[@class='display']/vendor[contains(., 'NVIDIA')]"),
        ("intel", "//node[@class='processor']/vendor = 'Intel Corp.'"),
        ("uefi", "//node[@id='firmware']/capabilities/capability/@id = 'uefi'"),
    ] {
        seeds.stook(&catalogue, &store, &["tag", "create", tag, "--xpath", definition])?;
    }
    let served = seeds.serve_with_workers(&catalogue, &store, store_kind)?;
    for plan in ["tags-one", "tags-three"] {
        let path = seeds.copy(&format!("lab/{plan}.yaml"))?;
        seeds.import(page, &format!("{plan}-{}", store_kind.name()), store_kind, &path, (&served.url, ""))?;
    }
    if store_kind == StoreKind::Embedded {
        let points = seeds.example("lab/tags-100k.yaml").display().to_string();
        seeds.show(page, "tags-100k", &["plan", &points, "--target", "8333"])?;
    }
    Ok(())
}

/// The satellite pipeline's tables.
fn pipeline(seeds: &Seeds<'_>, page: &mut String, store_kind: StoreKind) -> Result<()> {
    let (catalogue, data) = (seeds.example("sentinel"), seeds.folder.join("deliveries"));
    let store = seeds.empty_store(&catalogue, store_kind, "deliveries")?;
    seeds.sample(&["sentinel", "--days", "4", "-o", &data.display().to_string()])?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let served = seeds.serve(&catalogue, &store, &["--workers", &cores], false)?;
    let plan = seeds.copy("lab/deliveries.yaml")?;
    seeds.import(page, &format!("pipeline-{}", store_kind.name()), store_kind, &plan, (&served.url, ""))?;
    seeds.show(page, &format!("pipeline-stages-{}", store_kind.name()), &["kpi", &served.log.display().to_string()])
}
