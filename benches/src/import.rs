//! Group `import`: a library's authority file into an embedded store.

use crate::Setting;
use crate::figures::{Figures, Samples};
use crate::process::{Ran, Result, execute, remove_store, reported_rate, stook};
use std::path::{Path, PathBuf};

const ROUNDS: usize = 5;
const RECORDS: u64 = 50_000;
/// Records of the file that is only read: a file of 50 000 is over before a process has started.
const LONG: u64 = 300_000;
const LARGE_FILE_RECORDS: u64 = 1_000_000;
/// How peers sync what they write, by SQLite's names: each commit, or only when they close the file.
const SYNCS: [&str; 2] = ["FULL", "NORMAL"];

struct Bench<'s> {
    setting: &'s Setting,
    folder: PathBuf,
    catalogue: String,
}

impl Bench<'_> {
    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn remove(&self, name: &str) {
        remove_store(&self.folder.join(name));
    }

    fn sample(&self, name: &str, records: u64, keys: &str) -> Result<()> {
        let records = records.to_string();
        execute(&self.setting.stook, &["sample", "authorities", "--records", &records, "--keys", keys, "-o", &self.path(name)]).map(|_| ())
    }

    /// Imports a file as a process of its own; records per second from start to exit.
    fn import(&self, file: &str, store: &str, profile: &str, records: u64) -> Result<(f64, Ran)> {
        let (file, store) = (self.path(file), self.path(store));
        let ran = stook(&self.setting.stook, &self.catalogue, &store, &["import", &file, "--profile", profile])?;
        Ok((records as f64 / ran.seconds, ran))
    }
}

pub fn run(setting: &Setting, figures: &mut Figures) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("stook-bench").tempdir().map_err(|error| error.to_string())?;
    let catalogue = setting.root.join("examples/authorities").display().to_string();
    let bench = Bench { setting, folder: folder.path().to_owned(), catalogue };
    bench.sample("names.mrc", RECORDS, "ascending")?;
    bench.sample("long.mrc", LONG, "ascending")?;

    let (mut create, mut again, mut visit, mut yaz, mut look_up) = <(Samples, Samples, Samples, Samples, Samples)>::default();
    // peers that sync each of their commits, and the same synced once at the end, as an import is
    let (mut raw, mut script) = <([Samples; 2], [Samples; 2])>::default();
    let has_yaz = execute(Path::new("yaz-marcdump"), &["-V"]).is_ok();
    for round in 0..=ROUNDS {
        bench.remove("own.sqlite");
        let (created, _) = bench.import("names.mrc", "own.sqlite", "create_on_no_match", RECORDS)?;
        let (unchanged, _) = bench.import("names.mrc", "own.sqlite", "upsert", RECORDS)?;
        let mut rows = [0.0; 2];
        for (rate, sync) in rows.iter_mut().zip(SYNCS) {
            bench.remove("raw.sqlite");
            let words = ["raw-rows", &bench.path("own.sqlite"), &bench.path("raw.sqlite"), sync];
            *rate = reported_rate(&execute(&setting.bench_program, &words)?.output)?;
        }
        let fields = execute(&setting.bench_program, &["visit-marc", &bench.path("long.mrc")])?.seconds;
        let found = reported_rate(
            &execute(&setting.bench_program, &["look-ups", &bench.path("own.sqlite"), &format!("{}/catalogue.yaml", bench.catalogue)])?.output,
        )?;
        let mut scripted = [0.0; 2];
        if let Some(python) = &setting.python {
            let path = setting.root.join("benches/peers/pymarc_sqlite.py").display().to_string();
            for (rate, sync) in scripted.iter_mut().zip(SYNCS) {
                bench.remove("peer.sqlite");
                *rate = reported_rate(&execute(python, &[&path, &bench.path("names.mrc"), &bench.path("peer.sqlite"), sync])?.output)?;
            }
        }
        let dumped = if has_yaz { Some(execute(Path::new("yaz-marcdump"), &["-n", &bench.path("long.mrc")])?.seconds) } else { None };
        // the first round warms the page cache
        if round == 0 {
            continue;
        }
        create.push(created);
        again.push(unchanged);
        raw.iter_mut().zip(rows).for_each(|(samples, rate)| samples.push(rate));
        script.iter_mut().zip(scripted).for_each(|(samples, rate)| samples.push(rate));
        visit.push(LONG as f64 / fields);
        look_up.push(found);
        dumped.into_iter().for_each(|seconds| yaz.push(LONG as f64 / seconds));
    }
    let title = "import 50 000 authorities, empty store, synced at the end";
    figures.ratio(title, &create, "records/s", "bare SQLite loop, 1 thread, each 20 000 synced", &raw[0], 0.4);
    figures.ratio_without_bar("the same, equal durability", &create, "records/s", "bare SQLite loop, 1 thread, synced at the end", &raw[1]);
    if setting.python.is_some() {
        figures.ratio(title, &create, "records/s", "pymarc + sqlite3, 1 thread, each 1 000 synced", &script[0], 6.0);
        figures.ratio_without_bar("the same, equal durability", &create, "records/s", "pymarc + sqlite3, 1 thread, synced at the end", &script[1]);
    } else {
        figures.note("skipped: no Python with pymarc (STOOK_TEST_PYTHON), no figure beside the plain script");
    }
    figures.ratio("the same file again, all unchanged", &again, "records/s", "create, same threads and durability", &create, 2.0);
    if has_yaz {
        figures.ratio("MARC read alone, fields visited", &visit, "records/s", "yaz-marcdump -n, 1 thread", &yaz, 2.0);
    } else {
        figures.note("skipped: yaz-marcdump is not installed, no figure for reading alone");
    }
    figures.at_least("look-up by key, warm, in process, one core", &look_up, "look-ups/s", 100_000.0);
    import_large_file(&bench, figures, &create)
}

/// A million records: the rate must not fall far below that of 50 000, and memory must not grow with the file.
fn import_large_file(bench: &Bench<'_>, figures: &mut Figures, small: &Samples) -> Result<()> {
    for (keys, bar) in [("ascending", 0.5), ("random", 0.25)] {
        bench.sample("many.mrc", LARGE_FILE_RECORDS, keys)?;
        let (mut rate, mut memory, mut reference) = (Samples::default(), Samples::default(), Samples::default());
        // one run of this length says as much as several short ones
        bench.remove("many.sqlite");
        let (created, ran) = bench.import("many.mrc", "many.sqlite", "create_on_no_match", LARGE_FILE_RECORDS)?;
        rate.push(created);
        memory.push(ran.memory);
        reference.push(small.median());
        figures.ratio(&format!("import 1 000 000 authorities, {keys} keys"), &rate, "records/s", "50 000 records, same durability", &reference, bar);
        figures.at_most(&format!("peak memory of that, {keys} keys"), &memory, "MB", 256.0);
        bench.remove("many.sqlite");
    }
    Ok(())
}
