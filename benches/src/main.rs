//! Figures beside their peers and limits: `stook-bench GROUP... [--write FILE]` prints one line a figure and exits with 1 when one is
//! short. With `--write` each group that has run whole replaces its section of the file.
//!
//! Method: everything of a group runs interleaved (A B C A B C ...), each figure is the median of its runs and its spread is
//! shown; a figure below its bar is SHORT, one above it whose spread reaches below it says NOISY. Peers are programs of `benches/peers`, limits are
//! bare loops in this crate. Measured programs run as processes of their own, from start to exit.

mod datasets;
mod figures;
mod import;
mod lab;
mod leases;
mod limits;
mod load;
mod machines;
mod pages;
mod postgres;
mod process;
mod report;
mod seeds;
mod sentinel;
mod serve;

use std::path::PathBuf;
use std::process::ExitCode;

/// As `stook` has it, for what is measured in this process and for limits.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a group needs to know.
pub struct Setting {
    /// The `stook` program.
    pub stook: PathBuf,
    /// This program, for limits that run as processes.
    pub bench_program: PathBuf,
    /// The repository.
    pub root: PathBuf,
    /// Python with the peers' packages.
    pub python: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let write_to = words.iter().position(|word| *word == "--write").and_then(|index| {
        let file = words.get(index + 1).copied();
        words.drain(index..(index + 2).min(words.len()));
        file.map(PathBuf::from)
    });
    match words.as_slice() {
        ["raw-rows", source, target, synchronous] => return limits::raw_rows(source, target, synchronous),
        ["visit-marc", file] => return limits::visit_marc(file),
        ["look-ups", store, catalogue] => return limits::look_ups(store, catalogue),
        ["leases", store, seconds, keep] => return leases::run(store, seconds.parse().unwrap_or(5.0), keep.parse().unwrap_or(0)),
        ["hello", bytes] => return load::hello(bytes.parse().unwrap_or(300), 0),
        ["hello", bytes, work] => return load::hello(bytes.parse().unwrap_or(300), work.parse().unwrap_or(0)),
        ["parse-and-evaluate", file, definition] => return machines::parse_and_evaluate(file, definition),
        ["evaluate", file, definitions] => return machines::evaluate(file, definitions),
        ["acquire", store, catalogue, transitions] => return machines::acquire_and_release(store, catalogue, transitions.parse().unwrap_or(1_000)),
        ["open-loop", plan] => return load::open_loop(plan),
        _ => {}
    }
    let Ok(bench_program) = std::env::current_exe() else { return ExitCode::FAILURE };
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let python = std::env::var_os("STOOK_TEST_PYTHON").map(PathBuf::from).filter(|path| path.exists());
    let setting = Setting { stook: bench_program.with_file_name("stook"), bench_program, root, python };
    if let ["seeds", out, parts @ ..] = words.as_slice() {
        return match seeds::run(&setting, out, parts) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("stook-bench: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let mut figures = figures::Figures::default();
    let groups: &[&str] = if matches!(words.as_slice(), [] | ["all"]) {
        &["datasets", "import", "lab", "machines", "pages", "postgres", "sentinel", "serve"]
    } else {
        &words
    };
    for group in groups {
        let run = report::Run::begin(&setting.root);
        let result = match *group {
            "import" => import::run(&setting, &mut figures),
            "datasets" => datasets::run(&setting, &mut figures, false),
            "datasets-large" => datasets::run(&setting, &mut figures, true),
            "lab" => lab::run(&setting, &mut figures),
            "machines" => machines::run(&setting, &mut figures),
            "pages" => pages::run(&setting, &mut figures),
            "postgres" => postgres::run(&setting, &mut figures),
            "sentinel" => sentinel::run(&setting, &mut figures),
            "serve" => serve::run(&setting, &mut figures, &[]),
            part if serve::PARTS.contains(&part) => serve::run(&setting, &mut figures, &[part]),
            other => Err(format!(
                "there is no group `{other}`; there are datasets, datasets-large, import, lab, machines, pages, postgres, sentinel, serve, and its parts {}",
                serve::PARTS.join(", ")
            )),
        };
        let lines = figures.end_group();
        let finished = result.and_then(|()| match &write_to {
            Some(file) => report::write(file, &setting.root, group, &run.description(group), &lines),
            None => Ok(()),
        });
        if let Err(error) = finished {
            eprintln!("stook-bench: {error}");
            return ExitCode::FAILURE;
        }
    }
    if figures.is_short() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
