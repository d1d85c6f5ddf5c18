//! Group `sentinel`: deliveries of satellite products until everything that follows from them is settled: publications,
//! products, their links, completeness. Beside the rates that the system of the report reached, and a plain import of the
//! same files.

use crate::Setting;
use crate::figures::{Figures, Samples};
use crate::process::{Ran, Result, execute, remove_store, stook};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use stook_testkit::postgres::TestServer;

const ROUNDS: usize = 5;
/// Plans of acquisitions.
const PLANS: [&str; 2] = ["plan_s1", "plan_s2"];
/// Days of deliveries.
const DAYS: u64 = 4;
/// Days of plans whose completeness is brought up to date.
const PLANNED: u64 = 12;
/// Containers, each of two products.
const CONTAINERS: usize = 10_000;
/// Days there are before a day is imported whose cost is compared.
const HISTORY: [u64; 2] = [2, 45];
/// A day takes no longer than a second, and the disk has its part in it.
const HISTORY_ROUNDS: usize = 5;

/// The same documents without anything that follows from them.
const PLAIN: &str = "\
catalogue: plain
sources:
  prip: &source
    format: json
    records: $.value[*]
    as_of: published
    into: delivery
  lta: { <<: *source }
  dd: { <<: *source }
collections:
  delivery:
    key: id
    fields:
      id: { path: $.Id, type: text }
      name: { path: $.Name, type: text, index: equal }
      published: { path: $.PublicationDate, type: timestamp, index: equal }
      origin: { path: $.OriginDate, type: timestamp }
      start: { path: $.ContentDate.Start, type: timestamp }
      stop: { path: $.ContentDate.End, type: timestamp }
      length: { path: $.ContentLength, type: size }
";

struct Bench<'s> {
    setting: &'s Setting,
    server: Option<TestServer>,
    folder: PathBuf,
    satellites: String,
    plain: String,
}

/// Where records are kept: a name for figures, and a bar for each.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StoreKind {
    File,
    Server,
}

impl StoreKind {
    fn name(self) -> &'static str {
        if self == StoreKind::File { "file" } else { "PostgreSQL" }
    }

    /// One of two bars.
    fn bar(self, file: f64, server: f64) -> f64 {
        if self == StoreKind::File { file } else { server }
    }
}

impl Bench<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn stook(&self, catalogue: &str, store: &str, words: &[&str]) -> Result<Ran> {
        stook(&self.setting.stook, catalogue, store, words)
    }

    /// A new store for a catalogue.
    fn empty_store(&self, catalogue: &str, store_kind: StoreKind) -> Result<String> {
        let Some(server) = self.server.as_ref().filter(|_| store_kind == StoreKind::Server) else {
            remove_store(&self.path("own.sqlite"));
            return Ok(self.path("own.sqlite").display().to_string());
        };
        let url = server.url("postgres");
        let drop = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &url, "-c", "DROP SCHEMA IF EXISTS own CASCADE"];
        execute(&server.program("psql"), &drop)?;
        let url = format!("{url}?schema=own");
        self.stook(catalogue, &url, &["prepare"])?;
        Ok(url)
    }

    /// Files of a source in a folder, in the order of their names.
    fn files(&self, folder: &str, source: &str) -> Result<Vec<String>> {
        let entries = std::fs::read_dir(self.path(folder).join(source)).map_err(|error| format!("{folder}/{source}: {error}"))?;
        let mut files: Vec<String> = entries.flatten().map(|entry| entry.path().display().to_string()).collect();
        files.sort();
        Ok(files)
    }

    /// Imports files; returns the seconds until everything is settled.
    fn import(&self, catalogue: &str, store: &str, source: &str, files: &[String]) -> Result<f64> {
        let words: Vec<&str> = ["import", "--source", source, "--workers", "2"].into_iter().chain(files.iter().map(String::as_str)).collect();
        Ok(self.stook(catalogue, store, &words)?.seconds)
    }

    /// Imports the plans of a folder; returns the seconds.
    fn plans(&self, store: &str, folder: &str) -> Result<f64> {
        let mut seconds = 0.0;
        for source in PLANS {
            seconds += self.import(&self.satellites, store, source, &self.files(folder, source)?)?;
        }
        Ok(seconds)
    }

    /// Imports all deliveries of a folder; returns the seconds.
    fn deliveries(&self, catalogue: &str, store: &str, folder: &str) -> Result<f64> {
        let mut seconds = 0.0;
        for source in ["prip", "lta", "dd"] {
            seconds += self.import(catalogue, store, source, &self.files(folder, source)?)?;
        }
        Ok(seconds)
    }

    fn count(&self, store: &str, query: &str) -> Result<f64> {
        let ran =
            self.stook(&self.satellites, store, &["query", &format!("{query} | count({})", query.split(['.', ' ']).next().unwrap_or_default())])?;
        let digits: String = ran.output.lines().nth(2).unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
        digits.parse().map_err(|_| format!("no number in {}", ran.output))
    }

    fn sample(&self, days: u64, first: u64, folder: &str) -> Result<f64> {
        let output = self.path(folder).display().to_string();
        execute(&self.setting.stook, &["sample", "sentinel", "--days", &days.to_string(), "--first", &first.to_string(), "-o", &output])?;
        let mut documents = 0.0;
        for source in ["prip", "lta", "dd"] {
            for file in self.files(folder, source)? {
                let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
                documents += text.matches("\"PublicationDate\"").count() as f64;
            }
        }
        Ok(documents)
    }
}

pub fn run(setting: &Setting, figures: &mut Figures) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("stook-bench").tempdir().map_err(|error| error.to_string())?;
    let server = TestServer::start(&["shared_buffers=1GB", "max_wal_size=8GB", "checkpoint_timeout=15min"]);
    if let Err(reason) = &server {
        figures.note(&format!("skipped: {reason}; no figures on PostgreSQL"));
    }
    let plain = folder.path().join("plain");
    std::fs::create_dir_all(&plain).and_then(|()| std::fs::write(plain.join("catalogue.yaml"), PLAIN)).map_err(|error| error.to_string())?;
    let bench = Bench {
        setting,
        server: server.ok(),
        folder: folder.path().to_owned(),
        satellites: setting.root.join("examples/sentinel").display().to_string(),
        plain: plain.display().to_string(),
    };
    let store_kinds: &[StoreKind] = if bench.server.is_some() { &[StoreKind::File, StoreKind::Server] } else { &[StoreKind::File] };
    for store_kind in store_kinds {
        deliveries(&bench, *store_kind, figures)?;
        completeness(&bench, *store_kind, figures)?;
        containers(&bench, *store_kind, figures)?;
        history(&bench, *store_kind, figures)?;
    }
    Ok(())
}

/// Deliveries of several days behind their plan, until everything is settled.
fn deliveries(bench: &Bench<'_>, store_kind: StoreKind, figures: &mut Figures) -> Result<()> {
    let documents = bench.sample(DAYS, 1, "days")?;
    let (mut rate, mut plain) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        let store = bench.empty_store(&bench.satellites, store_kind)?;
        bench.plans(&store, "days")?;
        rate.push(documents / bench.deliveries(&bench.satellites, &store, "days")?);
        let store = bench.empty_store(&bench.plain, store_kind)?;
        plain.push(documents / bench.deliveries(&bench.plain, &store, "days")?);
    }
    let name = store_kind.name();
    figures.at_least(&format!("{name}: deliveries, settled (report: 186)"), &rate, "docs/s", store_kind.bar(12_000.0, 4_000.0));
    figures.ratio(&format!("{name}: deliveries, settled"), &rate, "docs/s", "plain import, same workers and durability", &plain, 0.30);
    Ok(())
}

/// Another plan of the same datatakes: every value of their completeness is another.
fn completeness(bench: &Bench<'_>, store_kind: StoreKind, figures: &mut Figures) -> Result<()> {
    bench.sample(PLANNED, 1, "planned")?;
    let store = bench.empty_store(&bench.satellites, store_kind)?;
    bench.plans(&store, "planned")?;
    bench.import(&bench.satellites, &store, "prip", &bench.files("planned", "prip")?)?;
    let rows = bench.count(&store, "datatake.completeness_s1")? + bench.count(&store, "datatake.completeness_s2")?;
    let mut rate = Samples::default();
    for round in 0..ROUNDS {
        // the same plan made hours later, each acquisition a millisecond longer
        let mut seconds = 0.0;
        for source in PLANS {
            let mut files = Vec::new();
            for file in bench.files("planned", source)? {
                let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
                let name = Path::new(&file).file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let changed = bench.path(&name.replacen("T000000", &format!("T{:02}0000", round + 1), 1));
                std::fs::write(&changed, longer(&text)).map_err(|error| error.to_string())?;
                std::fs::write(&file, longer(&text)).map_err(|error| error.to_string())?;
                files.push(changed.display().to_string());
            }
            seconds += bench.import(&bench.satellites, &store, source, &files)?;
        }
        rate.push(rows / seconds);
    }
    let bar = store_kind.bar(5_000.0, 2_000.0);
    figures.at_least(&format!("{}: completeness, {rows:.0} values again (0.1)", store_kind.name()), &rate, "values/s", bar);
    Ok(())
}

/// A plan whose acquisitions are longer.
fn longer(plan: &str) -> String {
    let mut lines = plan.lines();
    let header = lines.next().unwrap_or_default();
    let durations: Vec<bool> = header.split(',').map(|name| name.contains("Duration")).collect();
    let mut text = format!("{header}\n");
    for line in lines {
        let longer = |(cell, is_duration): (&str, &bool)| {
            let bare = cell.trim_matches('"');
            match bare.parse::<i64>() {
                Ok(number) if *is_duration => cell.replace(bare, &(number + 1).to_string()),
                _ => cell.to_owned(),
            }
        };
        let cells: Vec<String> = line.split(',').zip(&durations).map(longer).collect();
        let _ = writeln!(text, "{}", cells.join(","));
    }
    text
}

/// Products and the containers they are in, in both orders.
fn containers(bench: &Bench<'_>, store_kind: StoreKind, figures: &mut Figures) -> Result<()> {
    let time = |number: usize| format!("202401{:02}T{:02}{:02}{:02}", 1 + number / 86_400, number / 3_600 % 24, number / 60 % 60, number % 60);
    let document = |name: &str, number: usize| {
        format!(
            "{{\"Id\":\"{name}\",\"Name\":\"{name}\",\"PublicationDate\":\"2024-02-01T00:00:00Z\",\
             \"ContentDate\":{{\"Start\":\"2024-01-{:02}T00:00:00Z\",\"End\":\"2024-01-{0:02}T00:10:00Z\"}}}}",
            1 + number % 28
        )
    };
    let (mut products, mut wholes) = (Vec::new(), Vec::new());
    for number in 0..CONTAINERS {
        let (made, tile) = (time(number * 7), format!("{:02}UF{}", 10 + number % 50, ['P', 'Q', 'R'][number % 3]));
        for kind in ["TL", "TC"] {
            products.push(document(&format!("S2A_OPER_MSI_L1C_{kind}_2APS_{made}_A040000_T{tile}_N05.10.tar"), number));
        }
        wholes.push(document(&format!("S2A_MSIL1C_{}_N0510_R022_T{tile}_{made}.SAFE", time(number)), number));
    }
    let file = |name: &str, documents: &[String]| -> Result<String> {
        let path = bench.path(name);
        std::fs::write(&path, format!("{{\"value\":[{}]}}", documents.join(",\n"))).map_err(|error| error.to_string())?;
        Ok(path.display().to_string())
    };
    let products = [file("PRIP_S2A_ATOS_20240201T000000_20240202T000000_1000_P000000.json", &products)?];
    let wholes = [file("DD_DHUS_20240201T000000_20240202T000000_1000_P000000.json", &wholes)?];
    let links = 2.0 * CONTAINERS as f64;
    let (mut container_first, mut container_last) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        let store = bench.empty_store(&bench.satellites, store_kind)?;
        bench.import(&bench.satellites, &store, "prip", &products)?;
        container_last.push(links / bench.import(&bench.satellites, &store, "dd", &wholes)?);
        let linked = bench.count(&store, "product in_container=S2A_*")?;
        if linked < links {
            return Err(format!("{linked} products are linked, not {links}"));
        }
        let store = bench.empty_store(&bench.satellites, store_kind)?;
        bench.import(&bench.satellites, &store, "dd", &wholes)?;
        container_first.push(links / bench.import(&bench.satellites, &store, "prip", &products)?);
    }
    let bar = store_kind.bar(8_000.0, 3_000.0);
    figures.at_least(&format!("{}: container behind its products (9.9)", store_kind.name()), &container_last, "links/s", bar);
    figures.at_least(&format!("{}: products behind their container", store_kind.name()), &container_first, "links/s", bar);
    Ok(())
}

/// A day's deliveries with little and with much before it.
fn history(bench: &Bench<'_>, store_kind: StoreKind, figures: &mut Figures) -> Result<()> {
    let (mut cost, mut reference) = (Samples::default(), Samples::default());
    let day = bench.sample(1, 100, "day")?;
    bench.sample(HISTORY[1], 1, "long")?;
    bench.sample(HISTORY[0], 1, "short")?;
    for _ in 0..HISTORY_ROUNDS {
        let mut seconds = [0.0; 2];
        for (history_index, folder) in ["short", "long"].into_iter().enumerate() {
            let store = bench.empty_store(&bench.satellites, store_kind)?;
            bench.plans(&store, folder)?;
            bench.import(&bench.satellites, &store, "prip", &bench.files(folder, "prip")?)?;
            bench.plans(&store, "day")?;
            seconds[history_index] = bench.deliveries(&bench.satellites, &store, "day")?;
        }
        reference.push(seconds[0] * 1e6 / day);
        cost.push(seconds[1] * 1e6 / day);
    }
    let short = format!("{} days before {:.0}", HISTORY[0], reference.median());
    figures.judged_at_most(
        &format!("{}: cost beside {} days of history", store_kind.name(), HISTORY[1]),
        &cost,
        "µs/doc",
        &short,
        &cost.divided_by(&reference),
        1.15,
    );
    Ok(())
}
