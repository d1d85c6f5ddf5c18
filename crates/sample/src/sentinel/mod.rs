//! Satellites as seen by a ground segment: mission plans, deliveries of production, archives and distribution, sessions of ground stations and relay
//! satellites, tickets, deletions, probes of interfaces, each in the form of the real files. Deliveries arrive out of order, twice, late or not at all. The
//! truth file has the final completeness of everything, which is counted while the sample is generated.

pub mod areas;
mod ground;
mod missions;
mod reports;

use crate::random::Random;
use areas::Footprint;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// What to generate.
#[derive(Debug, Clone, Copy)]
pub struct Sentinel {
    /// Number of days.
    pub days: u64,
    /// Equal seeds give equal files.
    pub seed: u64,
    /// Number of the first day, so that files can have different days.
    pub first: u64,
}

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3_600 * SECOND;
const DAY: i64 = 24 * HOUR;
/// 2024-01-01T00:00:00Z.
const BEGIN: i64 = 1_704_067_200 * SECOND;
/// Documents per delivered page.
const PAGE: usize = 1_000;

const ARCHIVES: [&str; 4] = ["LTA_Acri", "LTA_CloudFerro", "LTA_Exprivia", "LTA_Werum"];
const DISTRIBUTORS: [&str; 2] = ["DD_DHUS", "DD_CREODIAS"];

/// Formats a time for documents.
fn shown(micros: i64) -> String {
    let (date, time) = parts(micros);
    format!("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", date.0, date.1, date.2, time.0, time.1, time.2, micros.rem_euclid(SECOND) / 1_000)
}

/// Formats a time as records show it, without fractions if there are none.
fn short(micros: i64) -> String {
    shown(micros).replace(".000Z", "Z")
}

/// Formats a time for names.
fn named(micros: i64) -> String {
    let (date, time) = parts(micros);
    format!("{:04}{:02}{:02}T{:02}{:02}{:02}", date.0, date.1, date.2, time.0, time.1, time.2)
}

/// Returns year, month and day; hour, minute and second.
fn parts(micros: i64) -> ((i64, i64, i64), (i64, i64, i64)) {
    // days to civil date: Howard Hinnant's algorithm
    let days = micros.div_euclid(DAY) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let second = micros.rem_euclid(DAY) / SECOND;
    ((year, month, day), (second / 3_600, second / 60 % 60, second % 60))
}

/// A product before it is delivered.
struct Product {
    name: String,
    extension: &'static str,
    start: i64,
    stop: i64,
    /// Where it was acquired; `None` if nothing depends on it.
    footprint: Option<Footprint>,
}

/// The kind of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlanKind {
    /// Acquisitions.
    Acquisitions,
    /// Sessions in which housekeeping data are received (Sentinel-1).
    Housekeeping,
    /// Downlinks (Sentinel-2).
    Downlinks,
    /// Downlinks of acquisitions.
    AcquisitionDownlinks,
}

/// A plan of a day; its file also contains the next day.
struct Plan {
    day: i64,
    satellite: &'static str,
    kind: PlanKind,
    rows: Vec<String>,
}

impl Plan {
    /// Returns the source that reads it, the part of its file name, and its header.
    fn form(&self) -> (&'static str, &'static str, &'static str) {
        match (self.kind, self.satellite) {
            // the space after one of these columns is in the real files
            (PlanKind::Acquisitions, "S1A") => (
                "plan_s1",
                "ACQ__L0_",
                "SatelliteID,DatatakeId,ObservationTimeStart,ObservationDuration [msec],L0SensingTimeStart,L0SensingDuration [msec] ,\
                 AbsoluteOrbit,RelativeOrbit,Polarization,InstrumentMode,InstrumentSwath,Timeliness",
            ),
            (PlanKind::Acquisitions, _) => (
                "plan_s2",
                "ACQ__MTL",
                "\"SatelliteID\",\"ID\",\"AbsoluteOrbit\",\"RelativeOrbit\",\"InstrumentMode\",\"Timeliness\",\"NumberOfScenes\",\
                 \"ObservationTimeStart\",\"ObservationTimeStop\",\"ObservationDuration[msec]\"",
            ),
            (PlanKind::Housekeeping, _) => ("plan_hktm", "HKTM_MTL", "SatelliteID,SessionID,AbsoluteOrbit,CGS,channel,ExecutionTime"),
            (PlanKind::Downlinks, _) => (
                "plan_downlink",
                "DWL__MTL",
                "\"Satellite ID\",\"AcquisitionID\",\"AbsoluteOrbit\",\"EffectiveDownlinkStart\",\"EffectiveDownlinkStop\",\"DownlinkStart\",\
                 \"DownlinkStop\",\"DwlMode\",\"DownlinkDuration[msec]\",\"AcquisitionStart\",\"AcquisitionStop\",\
                 \"AcquisitionDuration[msec]\",\"Station\",\"Partial\",\"Latency[min]\",\"Scenes\"",
            ),
            (PlanKind::AcquisitionDownlinks, "S1A") => (
                "plan_all_s1",
                "ALL__MTL",
                "SatelliteID,Status,DatatakeId(dec),SensingTimeStart,SensingDuration [msec],EffectiveDownlinkStart,EffectiveDownlinkStop,\
                 DownlinkDuration [msec],Latency [min],CGS,Timeliness,Polarization,InstrumentMode,DLSession,DownlinkPolarization,\
                 DownlinkAbsoluteOrbit,DownlinkExecutionTime,Channel",
            ),
            (PlanKind::AcquisitionDownlinks, _) => (
                "plan_all_s2",
                "ALL__MTL",
                "\"SatelliteID\",\"AcquisitionID\",\"AbsoluteOrbit\",\"RelativeOrbit\",\"Timeliness\",\"Scenes\",\"AcquisitionStart\",\
                 \"AcquisitionStop\",\"AcquisitionDuration[msec]\",\"EffectiveDownlinkStart\",\"EffectiveDownlinkStop\",\
                 \"DownlinkDuration[msec]\",\"Latency[min]\",\"Station\",\"Partial\"",
            ),
        }
    }
}

/// A planned acquisition that takes place.
struct Datatake {
    satellite: &'static str,
    number: String,
    start: i64,
    stop: i64,
    orbit: i64,
}

impl Datatake {
    fn key(&self) -> String {
        format!("{}-{}", self.satellite, self.number)
    }
}

/// Generates documents, with the expected records.
struct SentinelGenerator {
    random: Random,
    /// Documents by source, interface and day of delivery.
    deliveries: BTreeMap<(&'static str, String, i64), Vec<Json>>,
    plans: Vec<Plan>,
    datatakes: Vec<Datatake>,
    /// Other files, by source and name.
    files: BTreeMap<(&'static str, String), String>,
    truth: BTreeMap<&'static str, BTreeMap<String, Json>>,
    documents: u64,
}

/// What became of a product at its production interface, which decides whether it counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeliveryFate {
    /// It was delivered.
    Delivered,
    /// It was never delivered.
    Missing,
    /// It was delivered and deleted again.
    Deleted,
}

/// The interface that delivers a document.
#[derive(Clone, Copy)]
enum Of<'n> {
    /// A production interface of this name.
    Production(&'n str),
    /// An archive or a distributor, which got it when it was published at this time.
    Copy(i64),
}

impl SentinelGenerator {
    fn uuid(&mut self) -> String {
        let high = u128::from(self.random.number());
        uuid::Builder::from_random_bytes((high << 64 | u128::from(self.random.number())).to_be_bytes()).into_uuid().to_string()
    }

    /// Decides what becomes of a product, and delivers it to all interfaces. Returns its fate at the production interface.
    fn deliver(&mut self, production: &str, product: &Product, container: bool) -> DeliveryFate {
        let made = match self.random.below(1_000) {
            0..30 => DeliveryFate::Missing,
            30..40 => DeliveryFate::Deleted,
            _ => DeliveryFate::Delivered,
        };
        let published = product.stop + 2 * HOUR + self.random.below(3_600) as i64 * SECOND;
        if made != DeliveryFate::Missing && !container {
            let document = self.document(product, published, Of::Production(production));
            self.put("prip", production, published, document.clone());
            if self.random.per_mille(20) {
                // delivered twice, days later
                self.put("prip", production, published + 2 * DAY, document.clone());
            }
            if made == DeliveryFate::Deleted {
                let mut gone = document;
                gone["DeletionDate"] = shown(published + 30 * HOUR).into();
                self.put("prip", production, published + 30 * HOUR, gone);
            }
        }
        if !container {
            let archives = 1 + self.random.below(2) as usize;
            for archive in 0..archives {
                let at = published + 6 * HOUR + self.random.below(40) as i64 * HOUR;
                let document = self.document(product, at, Of::Copy(published));
                self.put("lta", ARCHIVES[(archive + product.start as usize / 7) % ARCHIVES.len()], at, document);
            }
        }
        if container || self.random.per_mille(400) {
            let at = published + HOUR + self.random.below(10) as i64 * HOUR;
            let document = self.document(product, at, Of::Copy(published));
            let distributor = *self.random.one(&DISTRIBUTORS);
            self.put("dd", distributor, at, document);
        }
        made
    }

    fn document(&mut self, product: &Product, published: i64, of: Of<'_>) -> Json {
        let origin = if let Of::Copy(origin) = of { origin } else { product.stop + HOUR };
        let checksum = format!("{:016x}{:016x}", self.random.number(), self.random.number());
        let (west, south) = (self.random.below(340) as f64 - 170.0, self.random.below(140) as f64 - 70.0);
        let anywhere = [(0.0, 0.0), (2.5, 0.25), (2.25, 2.0), (-0.25, 1.75), (0.0, 0.0)].map(|(x, y)| (west + x, south + y));
        let corners = product.footprint.unwrap_or(anywhere);
        let polygon = corners.map(|(x, y)| format!("{x} {y}")).join(",");
        let mut document = json!({
            "@odata.mediaContentType": "application/octet-stream",
            "Id": self.uuid(),
            "Name": format!("{}{}", product.name, product.extension),
            "ContentType": "application/octet-stream",
            "ContentLength": self.random.between(1_000_000, 900_000_000),
            "OriginDate": shown(origin),
            "PublicationDate": shown(published),
            "ContentDate": { "Start": shown(product.start), "End": shown(product.stop) },
            "ProductionType": "systematic_production",
            "Checksum": [{ "Algorithm": "MD5", "Value": checksum, "ChecksumDate": shown(published - 3 * SECOND) }],
            "GeoFootprint": { "type": "Polygon", "coordinates": [corners.map(|(x, y)| [x, y])] },
            "Footprint": format!("geography'SRID=4326;POLYGON(({polygon}))'"),
        });
        if let Of::Production(interface) = of {
            document["EvictionDate"] = shown(published + 7 * DAY).into();
            if interface.starts_with("PRIP_S2") {
                document["Attributes"] = self.attributes(product);
            }
        }
        document
    }

    /// Returns the attributes that production of Sentinel-2 adds to a product.
    fn attributes(&mut self, product: &Product) -> Json {
        let text =
            |name: &str, value: &str| json!({ "@odata.type": "#OData.CSC.StringAttribute", "Name": name, "ValueType": "String", "Value": value });
        let kind = product.name.get(9..19).unwrap_or_default();
        let clouds = self.random.below(10_000) as f64 / 100.0;
        json!([
            text("platformShortName", "SENTINEL-2"),
            text("processingCenter", "2APS"),
            text("processorVersion", "05.10"),
            text("productType", kind),
            text("qualityStatus", if clouds < 95.0 { "NOMINAL" } else { "DEGRADED" }),
            { "@odata.type": "#OData.CSC.DoubleAttribute", "Name": "cloudCover", "ValueType": "Double", "Value": clouds },
            { "@odata.type": "#OData.CSC.DateTimeOffsetAttribute", "Name": "beginningDateTime", "ValueType": "DateTimeOffset", "Value": shown(product.start) },
        ])
    }

    fn put(&mut self, source: &'static str, interface: &str, at: i64, document: Json) {
        self.documents += 1;
        self.deliveries.entry((source, interface.to_owned(), at.div_euclid(DAY))).or_default().push(document);
    }

    /// Records an expected record.
    fn note(&mut self, collection: &'static str, key: &str, record: Json) {
        self.truth.entry(collection).or_default().insert(key.to_owned(), record);
    }

    fn file(&mut self, source: &'static str, name: String, text: String) {
        self.files.insert((source, name), text);
    }

    /// Records an expected row; a row without value and expected value does not exist.
    fn expect(&mut self, coverage: &'static str, parent: &str, group: &str, value: i64, expected: Option<i64>) {
        let expected = expected.filter(|expected| *expected > 0);
        if value == 0 && expected.is_none() {
            return;
        }
        let mut row = json!({ "value": value });
        if let Some(expected) = expected {
            let adjusted = value.min(expected);
            row["expected"] = expected.into();
            row["status"] = if adjusted <= 0 {
                "Missing"
            } else if adjusted == expected {
                "Complete"
            } else {
                "Partial"
            }
            .into();
        }
        self.truth.entry(coverage).or_default().insert(format!("{parent}#{group}"), row);
    }

    /// Records what an expected row says of time that more than one child covers.
    fn expect_overlap(&mut self, coverage: &'static str, parent: &str, group: &str, overlap: i64) {
        if let Some(row) = self.truth.entry(coverage).or_default().get_mut(&format!("{parent}#{group}")) {
            row["overlap"] = overlap.into();
        }
    }
}

/// Writes plans, deliveries, sessions, tickets, probes and the truth into a folder, with a subfolder for each source; returns the number of delivered
/// documents.
///
/// # Errors
/// When a file cannot be written.
pub fn write(sentinel: &Sentinel, folder: &Path) -> io::Result<u64> {
    let first = BEGIN + sentinel.first as i64 * DAY;
    let mut maker = SentinelGenerator {
        random: Random::of_item(sentinel.seed, sentinel.first),
        deliveries: BTreeMap::new(),
        plans: Vec::new(),
        datatakes: Vec::new(),
        files: BTreeMap::new(),
        truth: BTreeMap::new(),
        documents: 0,
    };
    for number in 0..sentinel.days as i64 {
        let day = first + number * DAY;
        maker.radar(day);
        maker.optical(day);
        maker.ocean(day);
        maker.air(day);
    }
    maker.ground(first, sentinel.days as i64);
    maker.later(first, sentinel.days as i64);
    maker.plan_again();
    for plan in &maker.plans {
        let (source, what, header) = plan.form();
        let name = format!("{}_MP_{what}_{}_{}.csv", plan.satellite, named(plan.day - 5 * DAY), named(plan.day + 2 * DAY));
        maker.files.insert((source, name), format!("{header}\n{}\n", plan.rows.join("\n")));
    }
    for ((source, interface, day), documents) in &maker.deliveries {
        let window = format!("{}_{}", named(day * DAY), named((day + 1) * DAY));
        for (page, documents) in documents.chunks(PAGE).enumerate() {
            let mut out = create(folder, source, &format!("{interface}_{window}_{PAGE}_P{page:06}.json"))?;
            write!(out, "{{\"@odata.context\":\"$metadata#Products(Attributes())\",\"value\":[")?;
            for (place, document) in documents.iter().enumerate() {
                if place > 0 {
                    writeln!(out, ",")?;
                }
                serde_json::to_writer(&mut out, document)?;
            }
            writeln!(out, "]}}")?;
            out.flush()?;
        }
    }
    for ((source, name), text) in &maker.files {
        let mut out = create(folder, source, name)?;
        out.write_all(text.as_bytes())?;
        out.flush()?;
    }
    let mut out = create(folder, "", "truth.json")?;
    serde_json::to_writer_pretty(&mut out, &maker.truth)?;
    writeln!(out)?;
    out.flush()?;
    Ok(maker.documents)
}

fn create(folder: &Path, source: &str, name: &str) -> io::Result<BufWriter<File>> {
    let folder = folder.join(source);
    fs::create_dir_all(&folder)?;
    Ok(BufWriter::new(File::create(folder.join(name))?))
}
