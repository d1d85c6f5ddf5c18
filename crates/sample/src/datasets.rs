//! Datasets of an experiment, with their blocks, sites and runs, as four services know them. Everything is a function of the seed and an item's
//! number, so that services can make any part without the rest, and the expected result is known without merging. Names are made up.

use crate::random::Random;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// What to generate.
#[derive(Debug, Clone, Copy)]
pub struct Datasets {
    /// Number of datasets.
    pub records: u64,
    /// Equal seeds give equal data.
    pub seed: u64,
}

/// Number of blocks of a dataset.
pub const BLOCKS: u64 = 9;
/// Number of sites.
pub const SITES: u64 = 60;
/// The first run's number.
pub const FIRST_RUN: u64 = 130_000;
/// The time of the first item, in seconds since 1970.
const BEGIN: u64 = 1_262_304_000;
const DAY: u64 = 86_400;

const PRIMARIES: [&str; 16] = [
    "Cosmics",
    "MinimumBias",
    "QCD_Pt15",
    "QCD_Pt80",
    "RelValZMM",
    "RelValTTbar",
    "SingleMu",
    "DoubleElectron",
    "Zee",
    "ZMM",
    "WJets",
    "TTJets",
    "Tau",
    "Photon",
    "HT",
    "MuOnia",
];
const TIERS: [&str; 6] = ["RAW", "RECO", "AOD", "AODSIM", "GEN-SIM", "GEN-SIM-RECO"];
const COUNTRIES: [&str; 12] = ["CH", "US", "DE", "FR", "IT", "UK", "ES", "TW", "CN", "BR", "RU", "PL"];
/// Groups that work with datasets.
pub const GROUPS: [&str; 5] = ["B2G", "DataOps", "Higgs", "Top", "local"];
const TOWNS: [&str; 10] = ["Alder", "Birch", "Cedar", "Dorn", "Elm", "Fir", "Gorse", "Hazel", "Iris", "Juniper"];

/// A dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// Its number, from 0.
    pub number: u64,
    /// `/Primary_NUMBER/Era-vN/TIER`
    pub name: String,
    /// The time, in seconds since 1970.
    pub created: u64,
    /// VALID, or PRODUCTION.
    pub status: &'static str,
    /// mc or data.
    pub datatype: &'static str,
    /// The software it was made with.
    pub release: String,
    /// The group that works with it.
    pub group: &'static str,
}

/// A block of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its name: that of the dataset, and an id.
    pub name: String,
    /// The dataset's name.
    pub dataset: String,
    /// The time, in seconds since 1970.
    pub created: u64,
    /// Bytes according to the catalogue service.
    pub size: u64,
    /// Bytes according to the transfer service, which may differ.
    pub transferred: u64,
    /// Files.
    pub files: u64,
    /// Events.
    pub events: u64,
    /// The number of the site at which it was made.
    pub origin: u64,
    /// Whether it still grows.
    pub open: bool,
    /// The numbers of the sites with copies, ascending.
    pub replicas: Vec<u64>,
    /// Whether the catalogue service knows it.
    pub catalogued: bool,
    /// Whether the transfer service knows it.
    pub transferable: bool,
}

/// A file of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Events.
    pub events: u64,
    /// Whether it can be used.
    pub valid: bool,
    /// The runs in which its events were taken, ascending, each with ranges of sections.
    pub lumis: Vec<(u64, Vec<(u64, u64)>)>,
}

/// A copy of a block at a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// The site's name.
    pub site: String,
    /// The host of its storage.
    pub se: String,
    /// Bytes received.
    pub size: u64,
    /// Files received.
    pub files: u64,
    /// Whether all files have been received.
    pub complete: bool,
    /// Whether the site must keep it.
    pub custodial: bool,
}

/// A site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// `T1_CH_Alder0`
    pub name: String,
    /// The host of its storage.
    pub se: String,
    /// Its tier, 0 to 3.
    pub tier: u64,
    /// Its country, as two letters.
    pub country: &'static str,
    /// Its administrators.
    pub admins: Vec<String>,
}

/// A run of the detector.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its number.
    pub number: u64,
    /// The time, in seconds since 1970.
    pub start: u64,
    /// The time, in seconds since 1970.
    pub stop: u64,
    /// The magnetic field, in thousandths of a tesla.
    pub bfield: u64,
    /// Events.
    pub events: u64,
    /// The datasets taken in it, by number.
    pub datasets: Vec<u64>,
    /// Number of sections.
    pub sections: u64,
    /// Delivered luminosity, in tenths.
    pub delivered: u64,
}

impl Datasets {
    /// Returns the number of runs.
    pub fn runs(&self) -> u64 {
        (self.records / 10).clamp(10, 5_000)
    }

    fn random(&self, kind: u64, item: u64) -> Random {
        Random::of_item(self.seed.wrapping_mul(31).wrapping_add(kind), item)
    }

    /// Returns a dataset by number.
    pub fn dataset(&self, number: u64) -> Dataset {
        let mut random = self.random(1, number);
        let primary = random.one(&PRIMARIES);
        let (year, era) = (random.between(2010, 2012), random.one(&["A", "B", "C", "D"]));
        let (version, tier) = (random.between(1, 4), random.one(&TIERS));
        let is_data = !tier.contains("SIM");
        let campaign = if is_data { format!("Run{year}{era}") } else { format!("Summer{}", year - 2000) };
        Dataset {
            number,
            name: format!("/{primary}_{number:06}/{campaign}-v{version}/{tier}"),
            created: BEGIN + random.below(900 * DAY),
            status: if random.per_mille(950) { "VALID" } else { "PRODUCTION" },
            datatype: if is_data { "data" } else { "mc" },
            release: format!("CMSSW_{}_{}_{}", random.between(3, 5), random.below(4), random.below(9)),
            group: random.one::<&str>(&GROUPS),
        }
    }

    /// Returns the first of the two runs in which a dataset was taken.
    fn first_run(&self, number: u64) -> u64 {
        FIRST_RUN + number % (self.runs() - 1)
    }

    /// Returns the datasets with files of a run, by number.
    fn taken_in(&self, run: u64) -> Vec<u64> {
        let step = self.runs() - 1;
        let of = |first: u64| (first % step..self.records).step_by(step as usize).filter(move |_| first < step);
        let place = run - FIRST_RUN;
        let mut found: Vec<u64> = of(place).chain(place.checked_sub(1).into_iter().flat_map(of)).collect();
        found.retain(|number| self.blocks(&self.dataset(*number)).any(|block| block.catalogued));
        found.sort_unstable();
        found
    }

    /// Returns the dataset that a dataset was made from: they form families of three, each made from the one before.
    pub fn parent(&self, number: u64) -> Option<u64> {
        number.checked_sub(1).filter(|_| !number.is_multiple_of(3))
    }

    /// Returns a dataset as another instance of the catalogue service knows it, which has copied one of three and keeps it under a status of its own.
    pub fn local_dataset(&self, number: u64) -> Option<Dataset> {
        number.is_multiple_of(3).then(|| Dataset { status: "PRODUCTION", group: "local", ..self.dataset(number) })
    }

    /// Returns the number in a dataset's name, if there is such a dataset.
    pub fn number_of(&self, name: &str) -> Option<u64> {
        let primary = name.strip_prefix('/')?.split('/').next()?;
        let number = primary.rsplit('_').next()?.parse().ok().filter(|number| *number < self.records)?;
        (self.dataset(number).name == name).then_some(number)
    }

    /// Returns a block of a dataset; `block` is less than [`BLOCKS`].
    pub fn block(&self, dataset: &Dataset, block: u64) -> Block {
        let mut random = self.random(2, dataset.number * BLOCKS + block);
        let id = (random.number(), random.number());
        let (one, two, three) = (id.0 >> 32, (id.0 >> 16) & 0xffff, id.0 & 0xffff);
        let name = format!("{}#{one:08x}-{two:04x}-{three:04x}-{:04x}-{:012x}", dataset.name, id.1 >> 48, id.1 & 0xffff_ffff_ffff);
        let files = random.between(1, 40);
        let size = files * random.between(500_000_000, 4_000_000_000);
        let transferred = if random.per_mille(995) { size } else { size + random.between(1, 1_000_000) };
        // real proportions: of 392 636 blocks, one service knew 387 137 and the other 189 901
        let known = random.below(10_000);
        let mut replicas: Vec<u64> = (0..random.between(1, 4)).map(|_| random.below(SITES)).collect();
        replicas.sort_unstable();
        replicas.dedup();
        Block {
            name,
            dataset: dataset.name.clone(),
            created: dataset.created + random.below(30 * DAY),
            size,
            transferred,
            files,
            events: files * random.between(100, 20_000),
            origin: random.below(SITES),
            open: random.per_mille(20),
            replicas,
            catalogued: known < 9_860,
            transferable: !(4_697..9_860).contains(&known),
        }
    }

    /// Returns all blocks of a dataset.
    pub fn blocks(&self, dataset: &Dataset) -> impl Iterator<Item = Block> {
        (0..BLOCKS).map(|block| self.block(dataset, block))
    }

    /// Returns the copies of a block, by site.
    pub fn replicas(&self, block: &Block) -> Vec<Replica> {
        let replica = |number: &u64| {
            let Site { name: site, se, tier, .. } = self.site(*number);
            let complete = number % 7 != 3;
            let files = if complete { block.files } else { block.files / 2 };
            Replica { site, se, size: block.transferred / block.files * files, files, complete, custodial: tier < 2 }
        };
        block.replicas.iter().map(replica).collect()
    }

    /// Returns the files of a block.
    pub fn files(&self, dataset: &Dataset, block: u64) -> impl Iterator<Item = StoredFile> {
        let own = self.block(dataset, block);
        let mut random = self.random(3, dataset.number * BLOCKS + block);
        (0..own.files).map(move |number| StoredFile {
            name: format!("/store{}/{number:04}.root", own.name.replace('#', "/")),
            size: random.between(500_000_000, 4_000_000_000),
            events: random.between(100, 20_000),
            valid: number % 50 != 7,
            lumis: {
                let first = self.first_run(dataset.number);
                // the first file of a block has events of both runs of its dataset
                let more = random.between(1, 2);
                (0..if number == 0 { 2 } else { more }).map(|later| (first + later, sections(&mut random))).collect()
            },
        })
    }

    /// Returns a site by number.
    pub fn site(&self, number: u64) -> Site {
        let mut random = self.random(4, number);
        let tier = if number == 0 { 0 } else { 1 + random.below(3) };
        let (country, town) = (random.one(&COUNTRIES), random.one(&TOWNS));
        let admins = (0..random.between(1, 3)).map(|admin| format!("admin{admin}@site{number}.example")).collect();
        Site { name: format!("T{tier}_{country}_{town}{number}"), se: format!("srm.site{number}.example"), tier, country, admins }
    }

    /// Returns a run by number.
    pub fn run(&self, number: u64) -> Run {
        let mut random = self.random(5, number);
        let start = BEGIN + (number - FIRST_RUN) * 5_400;
        let stop = start + random.between(600, 5_000);
        let (bfield, events) = (random.between(0, 3_811), random.below(1 << 24));
        let (sections, delivered) = (random.between(1, 700), random.below(1_000));
        Run { number, start, stop, bfield, events, datasets: self.taken_in(number), sections, delivered }
    }
}

/// Returns ranges of sections, ascending and separate.
fn sections(random: &mut Random) -> Vec<(u64, u64)> {
    let (mut from, count) = (random.between(1, 20), random.between(1, 3));
    let range = |_| {
        let range = (from, from + random.below(30));
        from = range.1 + random.between(2, 10);
        range
    };
    (0..count).map(range).collect()
}

/// Formats a dataset as the catalogue service does.
pub fn dataset_json(dataset: &Dataset) -> Json {
    json!({
        "dataset": dataset.name, "creation_date": dataset.created, "dataset_access_type": dataset.status, "primary_ds_type": dataset.datatype,
        "release_version": dataset.release, "physics_group_name": dataset.group,
    })
}

/// Formats a block as the catalogue service does, as an element of an array.
pub fn block_json(data: &Datasets, block: &Block, out: &mut String) {
    let origin = data.site(block.origin).name;
    let Block { name, dataset, created, size, files, events, .. } = block;
    let _ = write!(
        out,
        r#"{{"block_name":"{name}","dataset":"{dataset}","block_size":{size},"file_count":{files},"event_count":{events},"creation_date":{created},"origin_site_name":"{origin}"}}"#
    );
}

/// Formats a block as the transfer service does.
pub fn block_xml(block: &Block, replicas: &[Replica], out: &mut String) {
    let Block { name, transferred, files, .. } = block;
    let open = if block.open { "y" } else { "n" };
    let _ = write!(out, r#"<block bytes="{transferred}" files="{files}" is_open="{open}" name="{name}">"#);
    let yes = |yes: bool| if yes { "y" } else { "n" };
    for Replica { site, se, size, files, complete, custodial } in replicas {
        let (complete, custodial) = (yes(*complete), yes(*custodial));
        let _ = write!(out, r#"<replica bytes="{size}" complete="{complete}" custodial="{custodial}" files="{files}" node="{site}" se="{se}"/>"#);
    }
    out.push_str("</block>\n");
}

/// Formats a file as the catalogue service does.
pub fn file_json(block: &Block, file: &StoredFile) -> Json {
    let lumis: Vec<Json> = file.lumis.iter().map(|(run, sections)| json!({ "run_num": run, "sections": sections })).collect();
    let valid = u8::from(file.valid);
    json!({
        "logical_file_name": file.name, "is_file_valid": valid, "block_name": block.name, "dataset": block.dataset, "file_size": file.size,
        "event_count": file.events, "lumis": lumis,
    })
}

/// Formats the sections of a file as the catalogue service does where it is asked for nothing else: a row for each section of a run. The events of a
/// file are spread over its sections.
pub fn section_rows(file: &StoredFile, run: Option<u64>) -> Vec<Json> {
    let sections =
        || file.lumis.iter().flat_map(|(run, ranges)| ranges.iter().flat_map(move |(low, high)| (*low..=*high).map(move |own| (*run, own))));
    let count = sections().count().max(1) as u64;
    let wanted = sections().enumerate().filter(|(_, (own, _))| run.is_none_or(|run| run == *own));
    let row = |(number, (run, section)): (usize, (u64, u64))| {
        let events = file.events / count + u64::from((number as u64) < file.events % count);
        json!({ "logical_file_name": file.name, "run_num": run, "lumi_section_num": section, "event_count": events })
    };
    wanted.map(row).collect()
}

/// Formats a site as the site service does.
pub fn site_json(site: &Site) -> Json {
    let admins: Vec<Json> = site.admins.iter().map(|email| json!({ "email": email })).collect();
    json!({ "cms_name": site.name, "se": [site.se], "tier": site.tier, "country": site.country, "admins": admins })
}

/// Formats a run as the run service does.
pub fn run_json(data: &Datasets, run: &Run) -> Json {
    let Run { number, start, stop, bfield, events, sections, delivered, .. } = run;
    let datasets: Vec<String> = run.datasets.iter().map(|number| data.dataset(*number).name).collect();
    json!({
        "run": number, "start": start, "stop": stop, "bfield": *bfield as f64 / 1_000.0, "events": events, "lumi_sections": sections,
        "delivered_lumi": *delivered as f64 / 10.0, "datasets": datasets,
    })
}

/// Beginning and end of responses of the transfer service.
pub const TRANSFERS: (&str, &str) = ("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<phedex request_timestamp=\"1290000000\">\n", "</phedex>\n");

/// Writes the data of all services to files, and the expected blocks after both services have contributed.
///
/// # Errors
/// When a file cannot be written.
pub fn write(data: &Datasets, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let create = |name: &str| File::create(folder.join(name)).map(|file| BufWriter::with_capacity(1 << 20, file));
    let list = |name: &str, items: &mut dyn Iterator<Item = Json>| {
        let mut out = create(name)?;
        for item in items {
            writeln!(out, "{item}")?;
        }
        out.flush()
    };
    let (mut blocks, mut replicas, mut known) = (create("blocks.ndjson")?, create("replicas.xml")?, create("truth.ndjson")?);
    replicas.write_all(TRANSFERS.0.as_bytes())?;
    let mut text = String::new();
    for dataset in (0..data.records).map(|number| data.dataset(number)) {
        for block in data.blocks(&dataset) {
            text.clear();
            if block.catalogued || block.transferable {
                writeln!(known, "{}", truth(data, &block))?;
            }
            if block.catalogued {
                block_json(data, &block, &mut text);
                text.push('\n');
                blocks.write_all(text.as_bytes())?;
                text.clear();
            }
            if block.transferable {
                block_xml(&block, &data.replicas(&block), &mut text);
                replicas.write_all(text.as_bytes())?;
            }
        }
    }
    replicas.write_all(TRANSFERS.1.as_bytes())?;
    blocks.flush()?;
    known.flush()?;
    replicas.flush()?;
    list("datasets.ndjson", &mut (0..data.records).map(|number| dataset_json(&data.dataset(number))))?;
    list("sites.ndjson", &mut (0..SITES).map(|number| site_json(&data.site(number))))?;
    list("runs.ndjson", &mut (FIRST_RUN..FIRST_RUN + data.runs()).map(|number| run_json(data, &data.run(number))))
}

/// Formats what the catalogue service says of the valid files of a dataset or a block, or of those with events of one run.
pub fn summary_json<'f>(files: impl Iterator<Item = (&'f Block, StoredFile)>, run: Option<u64>) -> Json {
    let (mut count, mut size, mut events) = (0, 0, 0);
    let (mut blocks, mut sections) = (BTreeSet::new(), BTreeSet::new());
    for (block, file) in files.filter(|(_, file)| file.valid && run.is_none_or(|run| file.lumis.iter().any(|(own, _)| *own == run))) {
        (count, size, events) = (count + 1, size + file.size, events + file.events);
        blocks.insert(block.name.as_str());
        // a section of a run counts once, in however many files it is
        let of_run = file.lumis.iter().filter(|(own, _)| run.is_none_or(|run| *own == run));
        sections.extend(of_run.flat_map(|(run, ranges)| ranges.iter().flat_map(|(low, high)| (*low..=*high).map(|section| (*run, section)))));
    }
    json!({ "num_file": count, "num_block": blocks.len(), "num_event": events, "num_lumi": sections.len(), "file_size": size })
}

/// Returns the expected block after both services have contributed: the catalogue service wins.
pub fn truth(data: &Datasets, block: &Block) -> Json {
    let replica = |own: Replica| {
        let Replica { site, se, size, files, complete, custodial } = own;
        json!({ "site": site, "se": se, "size": size, "nfiles": files, "complete": complete, "custodial": custodial })
    };
    let replicas: Vec<Json> = data.replicas(block).into_iter().map(replica).collect();
    let of = |known: bool, value: Json| if known { value } else { Json::Null };
    json!({
        "name": block.name,
        "dataset": block.dataset,
        "size": if block.catalogued { block.size } else { block.transferred },
        "nfiles": block.files,
        "nevents": of(block.catalogued, json!(block.events)),
        "is_open": of(block.transferable, json!(block.open)),
        "replica": of(block.transferable, json!(replicas)),
        "conflict": block.catalogued && block.transferable && block.size != block.transferred,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows are the sections of the file, each once, and their events are those of the file.
    #[test]
    fn sections_of_a_file_are_rows_with_all_of_its_events() {
        let data = Datasets { records: 30, seed: 3 };
        for file in (0..data.records).flat_map(|number| data.files(&data.dataset(number), number % BLOCKS).collect::<Vec<_>>()) {
            let number = |row: &Json, name: &str| row[name].as_u64().unwrap_or_default();
            let rows = section_rows(&file, None);
            let pairs: BTreeSet<(u64, u64)> = rows.iter().map(|row| (number(row, "run_num"), number(row, "lumi_section_num"))).collect();
            let lumis = file.lumis.iter().flat_map(|(run, ranges)| ranges.iter().flat_map(|(low, high)| (*low..=*high).map(|own| (*run, own))));
            assert_eq!((pairs.len(), &pairs), (rows.len(), &lumis.collect()));
            assert_eq!(rows.iter().map(|row| number(row, "event_count")).sum::<u64>(), file.events);
            let run = file.lumis[0].0;
            let of_run: Vec<Json> = rows.into_iter().filter(|row| number(row, "run_num") == run).collect();
            assert_eq!(section_rows(&file, Some(run)), of_run);
        }
    }
}
