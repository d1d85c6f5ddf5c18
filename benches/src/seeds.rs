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
type Part = (&'static str, fn(&Seeds<'_>, &mut String, Kept) -> Result<()>, &'static str);

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
enum Kept {
    Embedded,
    Postgres,
}

impl Kept {
    fn name(self) -> &'static str {
        if self == Kept::Embedded { "embedded" } else { "postgres" }
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
        let known: Vec<&str> = PARTS.iter().map(|(name, ..)| *name).collect();
        return Err(format!("there is no report `{unknown}`; there are {}", known.join(", ")));
    }
    let folder = tempfile::Builder::new().prefix("stook-seeds").tempdir().map_err(|error| error.to_string())?;
    let server = TestServer::start(&["shared_buffers=512MB", "max_connections=200", "shared_preload_libraries=pg_stat_statements"]);
    if let Err(reason) = &server {
        println!("skipped: {reason}; no measurements on PostgreSQL");
    }
    let own = Seeds {
        setting,
        server: server.ok(),
        folder: folder.path().to_owned(),
        out: std::path::absolute(out).map_err(|error| format!("{out}: {error}"))?,
    };
    std::fs::create_dir_all(own.out.join("runs")).map_err(|error| format!("{out}: {error}"))?;
    for (name, work, words) in PARTS {
        if !parts.is_empty() && !parts.contains(&name) {
            continue;
        }
        let mut page = words.to_owned();
        for kept in [Kept::Embedded, Kept::Postgres] {
            if kept == Kept::Postgres && own.server.is_none() {
                continue;
            }
            println!("{name}, {}", kept.name());
            let _ = write!(page, "\n## {}\n", if kept == Kept::Embedded { "Embedded store" } else { "PostgreSQL" });
            work(&own, &mut page, kept)?;
        }
        own.write(&own.out.join(format!("{name}.md")), &page)?;
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
    fn fresh(&self, catalogue: &Path, kept: Kept, name: &str) -> Result<String> {
        let Some(server) = self.server.as_ref().filter(|_| kept == Kept::Postgres) else {
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
    fn serve_with_workers(&self, catalogue: &Path, store: &str, kept: Kept) -> Result<Served> {
        self.serve(catalogue, store, &[], kept == Kept::Postgres)
    }

    /// `stook serve`, and `stook work` beside it where that is wanted.
    fn serve(&self, catalogue: &Path, store: &str, words: &[&str], works: bool) -> Result<Served> {
        let log = self.folder.join("serve.log");
        let words = [&["serve", "--listen", "127.0.0.1:0", "--most", "512", "--wait", "5000"], words].concat();
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
        if works {
            programs.push(self.start(catalogue, store, &["work"], &self.folder.join("work.log"))?);
        }
        Ok(Served { url, log, _programs: programs })
    }

    /// A run of the lab, kept, and shown on a page.
    fn lab(&self, page: &mut String, name: &str, token: &str, words: &[&str]) -> Result<()> {
        let run = self.out.join("runs").join(format!("{name}.json"));
        let mut command = Command::new(&self.setting.stook);
        command.arg("lab").args(words).arg("-o").arg(&run).env("STOOK_TOKEN", token).current_dir(&self.folder);
        let ran = command.output().map_err(|error| format!("stook lab: {error}"))?;
        if !ran.status.success() {
            return Err(format!("stook lab {}: {}", words.join(" "), String::from_utf8_lossy(&ran.stderr)));
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
    fn watched(&self, kept: Kept) -> Option<String> {
        self.server.as_ref().filter(|_| kept == Kept::Postgres).map(|server| server.url("postgres"))
    }

    /// Arguments of a run of imports.
    fn import(&self, page: &mut String, name: &str, kept: Kept, plan: &str, (url, token): (&str, &str)) -> Result<()> {
        let watched = self.watched(kept);
        let mut words = vec!["import", plan, "--target", url];
        words.extend(watched.iter().flat_map(|url| ["--postgres", url.as_str()]));
        self.lab(page, name, token, &words)
    }
}

/// The survey register's matrix of 12 000 requests.
fn register(own: &Seeds<'_>, page: &mut String, kept: Kept) -> Result<()> {
    let (catalogue, data) = (own.example("businesses"), own.folder.join("register"));
    let store = own.fresh(&catalogue, kept, "register")?;
    own.sample(&["businesses", "--records", "10000", "-o", &data.display().to_string()])?;
    for (file, source) in REGISTER {
        own.stook(&catalogue, &store, &["import", &data.join(file).display().to_string(), "--source", source])?;
    }
    let served = own.serve(&catalogue, &store, &["--workers", "0"], false)?;
    let plan = own.copy("lab/register.yaml")?;
    own.lab(page, &format!("register-{}", kept.name()), "", &["load", &plan, "--target", &served.url, "--faster", FASTER])
}

/// The library's five sets of imports.
fn imports(own: &Seeds<'_>, page: &mut String, kept: Kept) -> Result<()> {
    let (catalogue, data) = (own.example("authorities"), own.folder.join("imports"));
    std::fs::create_dir_all(&data).map_err(|error| error.to_string())?;
    for records in [1_000, 5_000, 10_000, 25_000, 50_000] {
        let (count, first, file) = (records.to_string(), (records * 1_000).to_string(), data.join(format!("names-{records}.mrc")));
        own.sample(&["authorities", "--records", &count, "--first", &first, "-o", &file.display().to_string()])?;
    }
    let items = data.join("items.csv");
    own.write(&items, &(1..=10_000).fold("barcode,lccn\n".to_owned(), |text, number| text + &format!("b{number:06},\n")))?;
    for set in 1..=5 {
        let store = own.fresh(&catalogue, kept, "imports")?;
        own.stook(&catalogue, &store, &["import", &items.display().to_string(), "--profile", "stock", "--tenant", "tenant1"])?;
        let made = own.stook(&catalogue, &store, &["token", "create", "--tenant", "*", "--role", "write", "--json"])?;
        let made: serde_json::Value = serde_json::from_str(&made).map_err(|error| format!("{made}: {error}"))?;
        let served = own.serve_with_workers(&catalogue, &store, kept)?;
        let plan = own.copy(&format!("lab/imports-{set}.yaml"))?;
        let token = made["token"].as_str().unwrap_or_default();
        own.import(page, &format!("imports-{set}-{}", kept.name()), kept, &plan, (&served.url, token))?;
    }
    Ok(())
}

/// The aggregator's cold query, and reads at growing sizes.
fn aggregator(own: &Seeds<'_>, page: &mut String, kept: Kept) -> Result<()> {
    let folder = own.folder.join("datasets");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    {
        let services = Services::start(own.setting, OF_REPORT)?;
        services.catalogue(own.setting, &folder)?;
        let store = own.fresh(&folder, kept, "cold")?;
        let served = own.serve(&folder, &store, &["--workers", "0"], false)?;
        let plan = own.copy("lab/blocks-cold.yaml")?;
        own.lab(page, &format!("aggregator-cold-{}", kept.name()), "", &["load", &plan, "--target", &served.url])?;
    }
    let large = std::env::var_os("STOOK_SEEDS_LARGE").is_some();
    for (name, records) in SIZES.into_iter().chain(large.then_some(LARGE)) {
        let services = Services::start(own.setting, records)?;
        services.catalogue(own.setting, &folder)?;
        let store = own.fresh(&folder, kept, "blocks")?;
        own.stook(&folder, &store, &["query", "block | count(key)", "--format", "csv"])?;
        let served = own.serve(&folder, &store, &["--workers", "0"], false)?;
        places(own, records)?;
        let plan = own.copy("lab/blocks.yaml")?;
        let text = std::fs::read_to_string(&plan).map_err(|error| format!("{plan}: {error}"))?;
        own.write(Path::new(&plan), &text.replace("name: reads of blocks", &format!("name: reads of {name} blocks")))?;
        own.lab(page, &format!("aggregator-{name}-{}", kept.name()), "", &["sweep", &plan, "--target", &served.url])?;
    }
    Ok(())
}

/// What is asked for of so many datasets.
fn places(own: &Seeds<'_>, records: u64) -> Result<()> {
    let (data, mut random) = (Datasets { records, seed: SEED }, Random::new(SEED));
    let one = known_block(&data, &mut random);
    let folder = own.folder.join("blocks");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let begins = |random: &mut Random| {
        let name = data.dataset(random.below(records)).name;
        name[..random.between(2, 4) as usize].to_owned()
    };
    let lines = |all: Vec<String>| all.join("\n") + "\n";
    own.write(&folder.join("one.txt"), &lines(vec![one]))?;
    own.write(&folder.join("prefixes.txt"), &lines(('A'..='Z').map(String::from).collect()))?;
    own.write(&folder.join("random.txt"), &lines((0..5_000).map(|_| begins(&mut random)).collect()))?;
    own.write(&folder.join("places.txt"), &lines((0..1_000).map(|place| place.to_string()).collect()))
}

/// The data centre's tags, and what 100 000 machines need.
fn tags(own: &Seeds<'_>, page: &mut String, kept: Kept) -> Result<()> {
    let (catalogue, data) = (own.example("machines"), own.folder.join("machines"));
    let store = own.fresh(&catalogue, kept, "machines")?;
    own.sample(&["machines", "--records", MACHINES, "-o", &data.display().to_string()])?;
    own.stook(&catalogue, &store, &["import", &data.join("machines.ndjson").display().to_string(), "--source", "enlist"])?;
    for (tag, definition) in [
        ("gpu", "//node[@class='display']/vendor[contains(., 'NVIDIA')]"),
        ("intel", "//node[@class='processor']/vendor = 'Intel Corp.'"),
        ("uefi", "//node[@id='firmware']/capabilities/capability/@id = 'uefi'"),
    ] {
        own.stook(&catalogue, &store, &["tag", "create", tag, "--xpath", definition])?;
    }
    let served = own.serve_with_workers(&catalogue, &store, kept)?;
    for plan in ["tags-one", "tags-three"] {
        let path = own.copy(&format!("lab/{plan}.yaml"))?;
        own.import(page, &format!("{plan}-{}", kept.name()), kept, &path, (&served.url, ""))?;
    }
    if kept == Kept::Embedded {
        let points = own.example("lab/tags-100k.yaml").display().to_string();
        own.show(page, "tags-100k", &["plan", &points, "--target", "8333"])?;
    }
    Ok(())
}

/// The satellite pipeline's tables.
fn pipeline(own: &Seeds<'_>, page: &mut String, kept: Kept) -> Result<()> {
    let (catalogue, data) = (own.example("sentinel"), own.folder.join("deliveries"));
    let store = own.fresh(&catalogue, kept, "deliveries")?;
    own.sample(&["sentinel", "--days", "4", "-o", &data.display().to_string()])?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let served = own.serve(&catalogue, &store, &["--workers", &cores], false)?;
    let plan = own.copy("lab/deliveries.yaml")?;
    own.import(page, &format!("pipeline-{}", kept.name()), kept, &plan, (&served.url, ""))?;
    own.show(page, &format!("pipeline-stages-{}", kept.name()), &["kpi", &served.log.display().to_string()])
}
