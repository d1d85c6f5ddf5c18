//! `sample`: generated input, as files or as services.

use crate::arguments::sample::{KeyOrder, SampleArgs, SampleName};
use crate::output::count;
use crate::output_file::Output;
use crate::{CommandError, CommandResult};
use stook_sample::authorities::{self, Authorities};
use stook_sample::bibliographic::{self, Bibliographic};
use stook_sample::businesses::{self, Businesses};
use stook_sample::datasets::{self, Datasets};
use stook_sample::machines::{self, Machines};
use stook_sample::sentinel::{self, Sentinel};
use stook_sample::services::SampleServices;

/// Number of samples that describe each business.
const VERSIONS: u64 = 5;

pub fn sample(arguments: &SampleArgs) -> CommandResult {
    let SampleArgs { name, days, seed, keys, first, .. } = *arguments;
    let (output, mut records) = (arguments.output.as_deref(), arguments.records.unwrap_or(name.size()));
    if let Some(address) = arguments.serve {
        return serve(name, records, seed, address);
    }
    match name {
        SampleName::Sentinel => {
            let folder = output.ok_or_else(|| CommandError::usage("this sample consists of several files: give a folder with -o"))?;
            records = sentinel::write(&Sentinel { days, seed, first: first - 1 }, folder)?;
        }
        SampleName::Bibliographic => {
            let folder = output.ok_or_else(|| CommandError::usage("bibliographic records are several files: name a folder with -o"))?;
            bibliographic::write(&Bibliographic { records, seed, first }, folder)?;
        }
        SampleName::Businesses => {
            let folder = output.ok_or_else(|| CommandError::usage("businesses are several files: name a folder with -o"))?;
            businesses::write(&Businesses { records, seed, first, versions: VERSIONS }, folder)?;
        }
        SampleName::Datasets => {
            let folder = output.ok_or_else(|| CommandError::usage("datasets are several files: name a folder with -o, or --serve ADDR"))?;
            datasets::write(&Datasets { records, seed }, folder)?;
        }
        SampleName::Machines => {
            let folder = output.ok_or_else(|| CommandError::usage("machines are several files: name a folder with -o"))?;
            machines::write(&Machines { records, seed, first }, folder)?;
        }
        SampleName::Authorities => {
            let mut out = Output::new(output)?;
            let keys = if keys == KeyOrder::Random { authorities::KeyOrder::Random } else { authorities::KeyOrder::Ascending };
            authorities::write(&Authorities { records, seed, keys, first }, &mut out)?;
            out.finish()?;
        }
    }
    if let Some(path) = output {
        eprintln!("wrote {} to {}", count(records, "record"), path.display());
    }
    Ok(0)
}

/// Serves the services of a sample until the process ends.
fn serve(name: SampleName, records: u64, seed: u64, address: std::net::SocketAddr) -> CommandResult {
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
