//! `init`, `check`, `schema`, `sample`.

use crate::arguments::{KeyOrder, SampleName};
use crate::open::CatalogueLocation;
use crate::output::{count, stream};
use crate::{CommandError, CommandResult};
use serde_json::json;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use stook_catalogue::diagnostic::render;
use stook_catalogue::parse::parse;
use stook_lab::sample::authorities::{self, Authorities};
use stook_lab::sample::businesses::{self, Businesses};
use stook_lab::sample::datasets::{self, Datasets};
use stook_lab::sample::machines::{self, Machines};
use stook_lab::sample::sentinel::{self, Sentinel};
use stook_lab::services::SampleServices;
use stook_store::shape::StoreSchema;

/// The catalogue a new folder begins with.
const TEMPLATE: &str = include_str!("template.yaml");

pub fn init(dir: &Path) -> CommandResult {
    let file = dir.join("catalogue.yaml");
    if file.exists() {
        return Err(CommandError::new(format!("{} exists already", file.display())));
    }
    fs::create_dir_all(dir)?;
    fs::write(&file, TEMPLATE)?;
    say!("created {}; edit it, then run `stook -C {} check`", file.display(), dir.display());
    Ok(0)
}

pub fn check(place: &CatalogueLocation, as_json: bool) -> CommandResult {
    let text = place.text()?;
    let file = place.definition().display().to_string();
    match parse(&text) {
        Ok(catalogue) => {
            let fields: usize = catalogue.collections.iter().map(|collection| collection.fields.len()).sum();
            // whether a store can be changed as the definition wants it is only asked of one that is named
            let stored = if place.store.is_some() { place.prepared_for()? } else { None };
            let refusals = stored.as_ref().map(|stored| stored.refusals(&StoreSchema::of(&catalogue)));
            let fits = refusals.as_ref().is_none_or(Vec::is_empty);
            if as_json {
                let mut told = json!({"file": file, "sound": true, "problems": [], "hash": catalogue.hash});
                if place.store.is_some() {
                    told["store"] = json!({"there": refusals.is_some(), "fits": fits, "needs_a_new_store": refusals.unwrap_or_default()});
                }
                say!("{told}");
            } else {
                say!(
                    "{file} is valid: {} with {}, {}, {}",
                    count(catalogue.collections.len() as u64, "collection"),
                    count(fields as u64, "field"),
                    count(catalogue.sources.len() as u64, "source"),
                    count(catalogue.profiles.len() as u64, "profile"),
                );
                match refusals.as_deref() {
                    None if place.store.is_some() => say!("there is no store yet to check against"),
                    None => {}
                    Some([]) => say!("the store is compatible"),
                    Some(reasons) => {
                        say!("the store is not compatible; a new one is needed:");
                        reasons.iter().for_each(|reason| say!("  - {reason}"));
                        say!("revert these changes, or export with the old definition and import into a new store (--store)");
                    }
                }
            }
            Ok(u8::from(!fits))
        }
        Err(problems) if as_json => {
            let listed: Vec<_> = problems
                .iter()
                .map(|problem| {
                    let (line, column) = problem.position(&text);
                    json!({"line": line, "column": column, "message": problem.message, "help": problem.help})
                })
                .collect();
            say!("{}", json!({"file": file, "sound": false, "problems": listed}));
            Ok(1)
        }
        Err(problems) => {
            let shown = render(&file, &text, &problems, crate::output::colours());
            Err(CommandError::new(format!("{shown}{}", count(problems.len() as u64, "mistake"))))
        }
    }
}

pub fn schema() -> CommandResult {
    say!("{}", serde_json::to_string_pretty(&stook_catalogue::schema::schema())?);
    Ok(0)
}

/// Samples that describe each business.
const SAMPLES: u64 = 5;

/// `size` is a number of records, of days for satellites.
pub fn sample(name: SampleName, size: u64, seed: u64, keys: KeyOrder, first: u64, output: Option<&Path>) -> CommandResult {
    let mut records = size;
    match name {
        SampleName::Sentinel => {
            let folder = output.ok_or_else(|| CommandError::usage("this sample consists of several files: give a folder with -o"))?;
            records = sentinel::write(&Sentinel { days: size, seed, first: first - 1 }, folder)?;
        }
        SampleName::Businesses => {
            let folder = output.ok_or_else(|| CommandError::usage("businesses are several files: name a folder with -o"))?;
            businesses::write(&Businesses { records: size, seed, first, versions: SAMPLES }, folder)?;
        }
        SampleName::Datasets => {
            let folder = output.ok_or_else(|| CommandError::usage("datasets are several files: name a folder with -o, or --serve ADDR"))?;
            datasets::write(&Datasets { records: size, seed }, folder)?;
        }
        SampleName::Machines => {
            let folder = output.ok_or_else(|| CommandError::usage("machines are several files: name a folder with -o"))?;
            machines::write(&Machines { records: size, seed, first }, folder)?;
        }
        SampleName::Authorities => {
            let mut out = writer(output)?;
            let keys = if keys == KeyOrder::Random { authorities::KeyOrder::Random } else { authorities::KeyOrder::Ascending };
            authorities::write(&Authorities { records: size, seed, keys, first }, &mut out)?;
        }
    }
    if let Some(path) = output {
        eprintln!("wrote {} to {}", count(records, "record"), path.display());
    }
    Ok(0)
}

/// The services of a sample, until the process ends.
pub fn serve_sample(name: SampleName, records: u64, seed: u64, address: std::net::SocketAddr) -> CommandResult {
    if name != SampleName::Datasets {
        return Err(CommandError::usage("--serve is for datasets only; other samples are written to files with -o"));
    }
    let services = SampleServices::new(Datasets { records, seed });
    services.serve(address, |address| {
        let url = format!("http://{address}");
        say!("CATALOG_URL={url}/catalog TRANSFER_URL={url}/transfer SITES_URL={url}/sites RUNS_URL={url}/runs");
        eprintln!("serving {} of seed {seed}; faults: PUT {url}/fault/SERVICE/KIND", count(records, "dataset"));
    })?;
    Ok(0)
}

/// A file, or standard output.
pub fn writer(output: Option<&Path>) -> Result<Box<dyn Write>, CommandError> {
    Ok(match output {
        Some(path) => Box::new(BufWriter::with_capacity(
            1 << 20,
            File::create(path).map_err(|error| CommandError::new(format!("{}: {error}", path.display())))?,
        )),
        None => Box::new(stream()),
    })
}
