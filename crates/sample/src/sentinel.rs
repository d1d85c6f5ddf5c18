//! Satellites as a ground segment sees them: mission plans, deliveries of production, archives and distribution, probes of
//! interfaces. What is delivered comes out of order, twice, late or not at all; the truth file says what every completeness
//! must be in the end, counted while the sample is made and not by what reads it.

use crate::random::Random;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// What to make.
#[derive(Debug, Clone, Copy)]
pub struct Sentinel {
    /// How many days.
    pub days: u64,
    /// Equal seeds give equal files.
    pub seed: u64,
    /// Number of the first day, so that files can have days of their own.
    pub first: u64,
}

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3_600 * SECOND;
const DAY: i64 = 24 * HOUR;
/// 2024-01-01T00:00:00Z.
const BEGIN: i64 = 1_704_067_200 * SECOND;
/// Documents of a delivered page.
const PAGE: usize = 1_000;

const ARCHIVES: [&str; 4] = ["LTA_Acri", "LTA_CloudFerro", "LTA_Exprivia", "LTA_Werum"];
const DISTRIBUTORS: [&str; 2] = ["DHUS", "CREODIAS"];

/// A time as documents have it.
fn shown(micros: i64) -> String {
    let (date, time) = parts(micros);
    format!("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", date.0, date.1, date.2, time.0, time.1, time.2, micros.rem_euclid(SECOND) / 1_000)
}

/// A time as names have it.
fn named(micros: i64) -> String {
    let (date, time) = parts(micros);
    format!("{:04}{:02}{:02}T{:02}{:02}{:02}", date.0, date.1, date.2, time.0, time.1, time.2)
}

/// Year, month and day; hour, minute and second.
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
    extra: Json,
}

/// What is written, and what must follow from it.
struct SentinelGenerator {
    random: Random,
    /// Documents by source, interface and the day they are delivered on.
    deliveries: BTreeMap<(&'static str, String, i64), Vec<Json>>,
    plans: Vec<(i64, &'static str, Vec<String>)>,
    probes: Vec<Json>,
    sessions: Vec<String>,
    truth: BTreeMap<&'static str, BTreeMap<String, Json>>,
    documents: u64,
}

/// Whether a production interface has what was to be made: what counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeliveryFate {
    /// It was delivered.
    Delivered,
    /// It never came.
    Missing,
    /// It was delivered and deleted again.
    Deleted,
}

impl SentinelGenerator {
    fn uuid(&mut self) -> String {
        let high = u128::from(self.random.number());
        uuid::Builder::from_random_bytes((high << 64 | u128::from(self.random.number())).to_be_bytes()).into_uuid().to_string()
    }

    /// Decides what becomes of a product, and delivers it everywhere. `made` says that production does not deliver it.
    fn deliver(&mut self, production: &str, product: &Product, container: bool) -> DeliveryFate {
        let made = match self.random.below(1_000) {
            0..30 => DeliveryFate::Missing,
            30..40 => DeliveryFate::Deleted,
            _ => DeliveryFate::Delivered,
        };
        let published = product.stop + 2 * HOUR + self.random.below(3_600) as i64 * SECOND;
        if made != DeliveryFate::Missing && !container {
            let document = self.document(product, published, None);
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
                let document = self.document(product, at, Some(published));
                self.put("lta", ARCHIVES[(archive + product.start as usize / 7) % ARCHIVES.len()], at, document);
            }
        }
        if container || self.random.per_mille(400) {
            let at = published + HOUR + self.random.below(10) as i64 * HOUR;
            let document = self.document(product, at, Some(published));
            let distributor = *self.random.one(&DISTRIBUTORS);
            self.put("dd", distributor, at, document);
        }
        made
    }

    fn document(&mut self, product: &Product, published: i64, origin: Option<i64>) -> Json {
        let mut document = json!({
            "@odata.mediaContentType": "application/octet-stream",
            "Id": self.uuid(),
            "Name": format!("{}{}", product.name, product.extension),
            "ContentType": "application/octet-stream",
            "ContentLength": self.random.between(1_000_000, 900_000_000),
            "OriginDate": shown(origin.unwrap_or(product.stop + HOUR)),
            "PublicationDate": shown(published),
            "ContentDate": { "Start": shown(product.start), "End": shown(product.stop) },
            "ProductionType": "systematic_production",
        });
        if let (Some(document), Some(extra)) = (document.as_object_mut(), product.extra.as_object()) {
            document.extend(extra.clone());
        }
        document
    }

    fn put(&mut self, source: &'static str, interface: &str, at: i64, document: Json) {
        self.documents += 1;
        self.deliveries.entry((source, interface.to_owned(), at.div_euclid(DAY))).or_default().push(document);
    }

    /// Notes a row that must be there; one that says nothing is not.
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

    // --- Sentinel-1 -----------------------------------------------------------------------------------------------------

    /// What ground stations report of their sessions with satellites, directly or by way of a relay satellite, whose name stands
    /// before the session's.
    fn downlink(&mut self, first: i64, days: i64) {
        for number in 0..days * 12 {
            let start = first + number * 2 * HOUR + self.random.below(3_000) as i64 * SECOND;
            let transfer = (300 + self.random.below(500) as i64) * SECOND;
            let satellite = ["S1A", "S2A", "S3A"][number as usize % 3];
            let (own, id) = (format!("{satellite}_{}", named(start)), self.uuid());
            let (service, name) = if number % 4 == 0 { ("EDRS_EDIP", format!("EDA_{own}")) } else { ("SGS", own.clone()) };
            self.sessions.push(format!(
                "  <session id=\"{id}\"><session_id>{name}</session_id><service>{service}</service><data_size>{}</data_size>\
                 <time_start>{}</time_start><time_finished>{}</time_finished></session>",
                self.random.below(20_000_000_000),
                shown(start),
                shown(start + transfer)
            ));
            let row = json!({ "session_id": own, "mission": satellite[..2], "satellite": satellite, "transfer": transfer });
            self.truth.entry("session").or_default().insert(id, row);
        }
    }

    /// A plan says what is to be done on the day after its own, too. The next plan begins with that day: it says the same, but
    /// for one acquisition that is not to be made any more.
    fn think_again(&mut self) {
        for place in 0..self.plans.len() {
            let (day, satellite, _) = self.plans[place];
            let Some((_, _, next)) = self.plans.iter().find(|(other, of, _)| *other == day + DAY && *of == satellite) else { continue };
            let (start, length) = (day + DAY + 20 * HOUR, 120 * SECOND);
            let (from, to, number) = (shown(start), shown(start + length), 900_000 + (day - BEGIN) / DAY);
            let dropped = match satellite {
                "S1A" => format!("S1A,{number},IW,,{from},{to},{0},{0},{number},1,VV,NRT-3h,,NOMINAL", length / 1_000),
                _ => format!("{satellite},{number}-1,NOBS,,{from},{to},{},,{number},1,,NOMINAL,3,NOMINAL", length / 1_000),
            };
            let tomorrow: Vec<String> = next.iter().cloned().chain([dropped]).collect();
            self.plans[place].2.extend(tomorrow);
        }
    }

    fn radar(&mut self, day: i64, file: &mut Vec<String>) {
        let tolerance = |group: &str| match (&group[..2], group.as_bytes()[8]) {
            ("IW", b'0') => -512_000,
            ("IW", b'1') => 150_000,
            ("EW", b'0') => -135_000,
            ("EW", b'1') => 230_000,
            _ => 0,
        };
        for number in 0..8_i64 {
            let datatake = 300_000 + (day.div_euclid(DAY) - BEGIN / DAY) * 8 + number;
            let (mode, types) = if number % 4 == 3 {
                ("EW", ["RAW__0A", "RAW__0C", "RAW__0N", "RAW__0S", "SLC__1A", "SLC__1S", "GRDM_1A", "GRDM_1S", "OCN__2A", "OCN__2S"])
            } else {
                ("IW", ["RAW__0A", "RAW__0C", "RAW__0N", "RAW__0S", "SLC__1A", "SLC__1S", "GRDH_1A", "GRDH_1S", "OCN__2A", "OCN__2S"])
            };
            let slices = 4 + self.random.below(14) as i64;
            let start = day + number * 3 * HOUR + self.random.below(3_000) as i64 * SECOND;
            let length = slices * 25 * SECOND;
            let key = format!("S1A-{datatake}");
            let orbit = 50_000 + (day - BEGIN) / DAY * 15 + number;
            file.push(format!(
                "S1A,{datatake},{mode},,{},{},{},{},{},{},VV,NRT-3h,,NOMINAL",
                shown(start),
                shown(start + length),
                length / 1_000,
                length / 1_000,
                orbit,
                orbit % 175 + 1
            ));
            // what area products cover follows from the raw slices that came
            let (mut ocean, mut slc) = ((0, 0), (0, 0));
            let mut values = Vec::new();
            for kind in types {
                let group = format!("{mode}_{kind}");
                let mut value = 0;
                // nothing of some types is ever made
                if self.random.per_mille(60) {
                    values.push((group, value));
                    continue;
                }
                for slice in 0..slices {
                    let from = start + slice * 25 * SECOND;
                    let (ocean_part, slc_part) = (self.random.below(101) as f64, self.random.below(3) as f64 * 40.0);
                    let level = kind.as_bytes()[5] as char;
                    let product = Product {
                        name: format!(
                            "S1A_{mode}_{kind}DV_{}_{}_{orbit:06}_{datatake:06X}_{:04X}",
                            named(from),
                            named(from + 25 * SECOND),
                            self.random.below(65_536)
                        ),
                        extension: if level == '0' { ".SAFE.zip" } else { ".SAFE" },
                        start: from,
                        stop: from + 25 * SECOND,
                        extra: json!({ "OceanPercent": ocean_part, "SlcPercent": slc_part }),
                    };
                    if self.deliver("PRIP_S1A", &product, false) == DeliveryFate::Delivered {
                        value += 25 * SECOND;
                        if kind == "RAW__0S" {
                            if ocean_part > 20.0 {
                                ocean = (ocean.0 + 25 * SECOND, ocean.1 + 1);
                            }
                            if slc_part > 0.0 {
                                slc = (slc.0 + 25 * SECOND, slc.1 + 1);
                            }
                        }
                    }
                }
                values.push((group, value));
            }
            let (mut sum, mut wanted) = (0, 0);
            for (group, value) in values {
                let own = tolerance(&group);
                let area = |(length, slices): (i64, i64), each: i64| if slices > 0 { length + slices * each + own } else { 0 };
                let expected = match &group[3..] {
                    "OCN__2A" | "OCN__2S" => area(ocean, if mode == "IW" { -7_400_000 } else { -8_200_000 }),
                    "SLC__1A" | "SLC__1S" if mode == "EW" => area(slc, -8_200_000),
                    _ => length + own,
                }
                .max(0);
                if expected > 0 {
                    sum += value.min(expected);
                    wanted += expected;
                }
                self.expect("datatake.completeness_s1", &key, &group, value, Some(expected));
            }
            self.expect("datatake.sensing_s1", &key, "sensing", sum, Some(wanted));
        }
    }

    // --- Sentinel-2 -----------------------------------------------------------------------------------------------------

    fn optical(&mut self, day: i64, file: &mut Vec<String>) {
        for number in 0..6_i64 {
            let orbit = 40_000 + (day - BEGIN) / DAY * 14 + number;
            let key = format!("S2A-{orbit}-1");
            let (mode, levels): (&str, &[&str]) = match number {
                5 => ("DARK-O", &["L0_", "L1A"]),
                4 => ("VIC", &["L0_", "L1B", "L1C"]),
                _ => ("NOBS", &["L0_", "L1B", "L1C", "L2A"]),
            };
            let scenes = 3 + self.random.below(8) as i64;
            let start = day + number * 4 * HOUR + self.random.below(7_000) as i64 * SECOND;
            let length = scenes * 3_608_000;
            file.push(format!(
                "S2A,{orbit}-1,{mode},,{},{},{},,{orbit},{},,NOMINAL,{scenes},NOMINAL",
                shown(start),
                shown(start + length),
                length / 1_000,
                orbit % 143 + 1
            ));
            let mut rows: BTreeMap<String, (i64, i64)> = BTreeMap::new();
            let created = start + 5 * HOUR;
            let (mut tiles, mut tiles_known): (Vec<String>, bool) = (Vec::new(), false);
            for tile in 0..4 + self.random.below(6) {
                tiles.push(format!(
                    "{:02}T{}{}",
                    10 + (orbit as u64 + tile) % 50,
                    ['A', 'B', 'C', 'D'][tile as usize % 4],
                    ['P', 'Q', 'R'][tile as usize / 4]
                ));
            }
            for level in levels {
                let expected = if *level == "L0_" { length } else { length - 7_216_000 };
                // a datastrip is the datatake without its ends, or half of it
                let whole = length - 4_608_000;
                let half = self.random.per_mille(150);
                let covered = if half { whole / 2 / 1_000 * 1_000 } else { whole };
                let extra = if matches!(*level, "L1C" | "L2A") { json!({ "Tiles": tiles }) } else { Json::Null };
                let product = Product {
                    name: format!("S2A_OPER_MSI_{level}_DS_2APS_{}_S{}_N05.10", named(created), named(start)),
                    extension: ".tar",
                    start,
                    stop: start + covered,
                    extra,
                };
                let made = self.deliver("PRIP_S2A", &product, false);
                let value = if made == DeliveryFate::Delivered { covered + 4_608_000 } else { 0 };
                // an archive that has it says as well which tiles it meets
                tiles_known |= *level == "L1C";
                rows.insert(format!("MSI_{level}_DS"), (value, expected));
                if matches!(*level, "L0_" | "L1A" | "L1B") {
                    let scenes_here = if *level == "L0_" { scenes } else { scenes - 2 };
                    let mut value = 0;
                    for scene in 0..scenes_here {
                        for detector in 1..=12 {
                            let from = start + scene * 3_608_000 + detector * 17_000;
                            let product = Product {
                                name: format!(
                                    "S2A_OPER_MSI_{level}_GR_2APS_{}_S{}_D{detector:02}_N05.10",
                                    named(created + scene * SECOND),
                                    named(from)
                                ),
                                extension: ".tar",
                                start: from,
                                stop: from + 3_608_000,
                                extra: Json::Null,
                            };
                            value += i64::from(self.deliver("PRIP_S2A", &product, false) == DeliveryFate::Delivered);
                        }
                    }
                    rows.insert(format!("MSI_{level}_GR"), (value, scenes_here * 12));
                    continue;
                }
                for kind in ["TL", "TC"] {
                    let mut value = 0;
                    for (place, tile) in tiles.iter().enumerate() {
                        let made = created + place as i64 * SECOND;
                        let product = Product {
                            name: format!("S2A_OPER_MSI_{level}_{kind}_2APS_{}_A{orbit:06}_T{tile}_N05.10", named(made)),
                            extension: if kind == "TC" { ".jp2" } else { ".tar" },
                            start,
                            stop: start + length,
                            extra: Json::Null,
                        };
                        value += i64::from(self.deliver("PRIP_S2A", &product, false) == DeliveryFate::Delivered);
                        if kind == "TC" {
                            let name = format!("S2A_MSI{level}_{}_N0510_R{:03}_T{tile}_{}", named(start), orbit % 143 + 1, named(made));
                            let container = Product { name, extension: ".SAFE", start, stop: start + length, extra: Json::Null };
                            self.deliver("PRIP_S2A", &container, true);
                        }
                    }
                    rows.insert(format!("MSI_{level}_{kind}"), (value, tiles.len() as i64));
                }
            }
            for (group, row) in &mut rows {
                if !tiles_known && (group.ends_with("TL") || group.ends_with("TC")) {
                    row.1 = 0;
                }
            }
            let counted: Vec<(&String, i64, i64)> =
                rows.iter().filter(|(_, row)| row.1 > 0).map(|(group, row)| (group, row.0.min(row.1), row.1)).collect();
            let mut parts: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
            let mut by_level: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
            for (group, adjusted, expected) in counted {
                let part = parts.entry(&group[8..10]).or_default();
                *part = (part.0 + adjusted, part.1 + expected);
                let strip = rows[&format!("MSI_{}_DS", &group[4..7])].1 as f64;
                let level = by_level.entry(&group[4..7]).or_default();
                *level = (level.0 + strip * adjusted as f64 / expected as f64, level.1 + strip);
            }
            let mut last = (0, 0);
            let levels: Vec<(String, i64, i64)> =
                by_level.iter().map(|(level, (value, expected))| ((*level).to_owned(), value.round() as i64, expected.round() as i64)).collect();
            let parts: Vec<(String, i64, i64)> = parts.iter().map(|(part, (value, expected))| ((*part).to_owned(), *value, *expected)).collect();
            for (group, (value, expected)) in &rows {
                self.expect("datatake.completeness_s2", &key, group, *value, Some(*expected));
            }
            for (part, value, expected) in parts {
                self.expect("datatake.part_s2", &key, &part, value, Some(expected));
            }
            for (level, value, expected) in levels {
                last = (last.0 + value.min(expected), last.1 + expected);
                self.expect("datatake.level_s2", &key, &level, value, Some(expected));
            }
            self.expect("datatake.final_s2", &key, "all", last.0, Some(last.1));
        }
    }

    // --- Sentinel-3 -----------------------------------------------------------------------------------------------------

    fn ocean(&mut self, day: i64) {
        for number in 0..14_i64 {
            let orbit = (day - BEGIN) / DAY * 14 + number;
            let (cycle, relative) = (100 + orbit / 385, orbit % 385 + 1);
            let key = format!("S3A-{cycle:03}-{relative:03}");
            let start = day + number * 101 * 60 * SECOND;
            let mut delivered: BTreeMap<String, i64> = BTreeMap::new();
            let mut seen = false;
            for (kind, timeliness, minutes, _) in ORBIT_S3 {
                let pieces = 1 + i64::from(minutes == 101);
                for piece in 0..pieces {
                    let length = minutes * 60 * SECOND / pieces / SECOND * SECOND;
                    let from = start + piece * length;
                    let product = Product {
                        name: format!(
                            "S3A_{kind}_{}_{}_{}_{:04}_{cycle:03}_{relative:03}_{:04}_LN3_O_{timeliness}_003",
                            named(from),
                            named(from + length),
                            named(from + 3 * HOUR),
                            length / SECOND % 10_000,
                            piece * 360
                        ),
                        extension: ".SEN3.zip",
                        start: from,
                        stop: from + length,
                        extra: Json::Null,
                    };
                    // whatever is delivered somewhere makes the orbit known, and archives deliver everything
                    seen = true;
                    if self.deliver("PRIP_S3A", &product, false) == DeliveryFate::Delivered {
                        *delivered.entry(format!("{kind}#{timeliness}")).or_default() += length;
                    }
                }
            }
            for (kind, timeliness, minutes, tolerance) in ORBIT_S3.iter().filter(|_| seen) {
                let group = format!("{kind}#{timeliness}");
                let value = delivered.get(&group).copied().unwrap_or(0);
                self.expect("orbit_s3.completeness", &key, &group, value, Some((minutes * 60 - tolerance) * SECOND));
            }
        }
    }

    // --- Sentinel-5P ----------------------------------------------------------------------------------------------------

    fn air(&mut self, day: i64) {
        for number in 0..14_i64 {
            let orbit = 32_000 + (day - BEGIN) / DAY * 14 + number;
            let key = format!("S5P-{orbit}");
            let start = day + number * 101 * 60 * SECOND;
            for kind in types_s5() {
                let (minutes, slices): (i64, i64) = match &kind[..8] {
                    "OPER_L0_" => (100, 6),
                    "NRTI_L1B" if kind.ends_with("ENG_DB") => (100, 21),
                    "NRTI_L1B" => (60, 13),
                    "NRTI_L2_" => (55, 13),
                    "OFFL_L1B" => (100, 1),
                    _ => (55, 1),
                };
                let raw = kind.starts_with("OPER_L0");
                let (mut value, mut count) = (0, 0);
                for slice in 0..slices {
                    let length = minutes * 60 * SECOND / slices / SECOND * SECOND;
                    let from = start + slice * length;
                    let product = Product {
                        name: format!("S5P_{kind}_{}_{}_{orbit:05}_03_020600_{}", named(from), named(from + length), named(from + 4 * HOUR)),
                        extension: if raw { ".RAW" } else { ".nc" },
                        start: from,
                        stop: from + length,
                        extra: Json::Null,
                    };
                    let made = self.deliver("PRIP_S5P", &product, false);
                    // raw data counts where an archive has it, and archives get everything
                    if made == DeliveryFate::Delivered || raw {
                        value += length;
                        count += 1;
                    }
                }
                self.expect("orbit_s5.completeness", &key, &kind, value, Some((minutes * 60 - 180) * SECOND));
                self.expect("orbit_s5.slices", &key, &kind, count, Some(slices));
            }
        }
    }

    // --- interfaces -----------------------------------------------------------------------------------------------------

    fn probe(&mut self, first: i64, days: i64) {
        for interface in ["PRIP_S1A", "PRIP_S2A", "DHUS"] {
            let mut runs: Vec<(&str, i64, i64)> = Vec::new();
            let mut status = "OK";
            for turn in 0..days * 96 {
                let start = first + turn * 900 * SECOND;
                let stop = start + self.random.between(100, 2_000) as i64 * 1_000;
                if self.random.per_mille(30) {
                    status = if status == "OK" { "KO" } else { "OK" };
                }
                // some probes are never made: three in a row leave a hole
                if turn % 200 >= 197 {
                    continue;
                }
                self.probes.push(json!({
                    "interface_name": interface, "probe_time_start": shown(start), "probe_time_stop": shown(stop),
                    "status": status, "status_code": if status == "OK" { 200 } else { 503 },
                }));
                match runs.last_mut().filter(|last| start - last.2 <= 25 * 60 * SECOND) {
                    Some(last) if last.0 == status => last.2 = stop,
                    last => {
                        if let Some(last) = last {
                            last.2 = start;
                        }
                        runs.push((status, start, stop));
                    }
                }
            }
            for (status, start, stop) in runs {
                let key = format!("{interface}@{}", shown(start).replace(".000Z", "Z"));
                let row = json!({ "value": status, "stop": shown(stop) });
                self.truth.entry("interface.status").or_default().insert(key, row);
            }
        }
    }
}

/// Type, timeliness, minutes of an orbit, tolerance in seconds.
type ExpectedProduct = (&'static str, &'static str, i64, i64);

const ORBIT_S3: [ExpectedProduct; 42] = [
    ("DO_0_DOP___", "NR", 101, 180),
    ("DO_0_NAV___", "AL", 101, 180),
    ("GN_0_GNS___", "NR", 101, 180),
    ("MW_0_MWR___", "NR", 101, 180),
    ("MW_1_CAL___", "NR", 101, 180),
    ("MW_1_MWR___", "NR", 101, 180),
    ("MW_1_MWR___", "NT", 101, 180),
    ("MW_1_MWR___", "ST", 101, 180),
    ("SL_0_SLT___", "NR", 101, 240),
    ("SL_1_RBT___", "NR", 101, 240),
    ("SL_1_RBT___", "NT", 101, 240),
    ("SL_2_FRP___", "NT", 101, 240),
    ("SL_2_LST___", "NR", 101, 240),
    ("SL_2_LST___", "NT", 101, 240),
    ("SR_0_SRA___", "NR", 101, 540),
    ("SR_0_SRA___", "ST", 101, 540),
    ("SR_1_SRA_A_", "NT", 101, 540),
    ("SR_1_SRA_A_", "ST", 101, 540),
    ("SR_1_LAN_RD", "NT", 101, 540),
    ("SR_1_LAN_RD", "ST", 101, 540),
    ("SR_1_LAN_RD", "NR", 101, 540),
    ("TM_0_HKM2__", "NR", 101, 180),
    ("TM_0_HKM___", "NR", 101, 180),
    ("TM_0_NAT___", "AL", 101, 180),
    ("OL_0_EFR___", "NR", 44, 0),
    ("OL_1_EFR___", "NR", 44, 0),
    ("OL_1_EFR___", "NT", 44, 0),
    ("OL_1_ERR___", "NR", 44, 0),
    ("OL_1_ERR___", "NT", 44, 0),
    ("OL_2_LFR___", "NR", 44, 0),
    ("OL_2_LFR___", "NT", 44, 0),
    ("OL_2_LRR___", "NR", 44, 0),
    ("OL_2_LRR___", "NT", 44, 0),
    ("SY_1_MISR__", "NT", 44, 0),
    ("SY_1_MISR__", "ST", 44, 0),
    ("SY_2_SYN___", "NT", 44, 0),
    ("SY_2_SYN___", "ST", 44, 0),
    ("SY_2_VGK___", "NT", 44, 0),
    ("SY_2_VGK___", "ST", 44, 0),
    ("SY_2_VGP___", "NT", 44, 0),
    ("SY_2_VGP___", "ST", 44, 0),
    ("SY_2_AOD___", "NT", 44, 0),
];

fn types_s5() -> Vec<String> {
    let mut types: Vec<String> = vec!["OPER_L0__ENG_A_".into(), "OPER_L0__SAT_A_".into()];
    types.extend((1..=8).map(|band| format!("OPER_L0__ODB_{band}_")));
    for timeliness in ["NRTI", "OFFL"] {
        types.push(format!("{timeliness}_L1B_ENG_DB"));
        types.extend((1..=8).map(|band| format!("{timeliness}_L1B_RA_BD{band}")));
        for kind in ["AER_AI", "AER_LH", "CLOUD_", "CO____", "FRESCO", "HCHO__", "NO2___", "O3__PR", "O3____", "SO2___"] {
            types.push(format!("{timeliness}_L2__{kind}"));
        }
    }
    types.extend(["CH4___", "NP_BD3", "NP_BD6", "NP_BD7"].map(|kind| format!("OFFL_L2__{kind}")));
    types
}

/// Columns of a mission plan.
const PLAN: &str = "satellite,datatake_id,mode,swath,observation_time_start,observation_time_stop,observation_duration,l0_sensing_duration,\
                    absolute_orbit,relative_orbit,polarisation,timeliness,number_of_scenes,recording";

/// Writes plans, deliveries, probes and the truth into a folder; returns how many documents were delivered.
///
/// # Errors
/// When a file cannot be written.
pub fn write(sentinel: &Sentinel, folder: &Path) -> io::Result<u64> {
    let first = BEGIN + sentinel.first as i64 * DAY;
    let mut maker = SentinelGenerator {
        random: Random::of_item(sentinel.seed, sentinel.first),
        deliveries: BTreeMap::new(),
        plans: Vec::new(),
        probes: Vec::new(),
        sessions: Vec::new(),
        truth: BTreeMap::new(),
        documents: 0,
    };
    for number in 0..sentinel.days as i64 {
        let day = first + number * DAY;
        let (mut radar, mut optical) = (Vec::new(), Vec::new());
        maker.radar(day, &mut radar);
        maker.optical(day, &mut optical);
        maker.plans.push((day, "S1A", radar));
        maker.plans.push((day, "S2A", optical));
        maker.ocean(day);
        maker.air(day);
    }
    maker.think_again();
    maker.probe(first, sentinel.days as i64);
    maker.downlink(first, sentinel.days as i64);
    for source in ["prip", "lta", "dd", "plan"] {
        fs::create_dir_all(folder.join(source))?;
    }
    for ((source, interface, day), documents) in &maker.deliveries {
        for (page, documents) in documents.chunks(PAGE).enumerate() {
            let path = folder.join(source).join(format!("{interface}_{}_{page}.json", named(day * DAY)));
            let mut out = BufWriter::new(File::create(path)?);
            write!(out, "{{\"@odata.context\":\"$metadata#Products\",\"value\":[")?;
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
    for (day, satellite, rows) in &maker.plans {
        let path = folder.join("plan").join(format!("{satellite}_MP_ACQ__L0__{}_{}.csv", named(day - 5 * DAY), named(day + 2 * DAY)));
        let mut out = BufWriter::new(File::create(path)?);
        writeln!(out, "{PLAN}")?;
        for row in rows {
            writeln!(out, "{row}")?;
        }
        out.flush()?;
    }
    let mut out = BufWriter::new(File::create(folder.join("probes.ndjson"))?);
    // probes come out of order
    let (even, odd): (Vec<_>, Vec<_>) = maker.probes.iter().enumerate().partition(|(place, _)| place % 3 != 0);
    for (_, probe) in odd.into_iter().chain(even) {
        serde_json::to_writer(&mut out, probe)?;
        writeln!(out)?;
    }
    out.flush()?;
    let mut out = BufWriter::new(File::create(folder.join("sessions.xml"))?);
    writeln!(out, "<?xml version=\"1.0\"?>\n<sessions>\n{}\n</sessions>", maker.sessions.join("\n"))?;
    out.flush()?;
    let mut out = BufWriter::new(File::create(folder.join("truth.json"))?);
    serde_json::to_writer_pretty(&mut out, &maker.truth)?;
    writeln!(out)?;
    out.flush()?;
    Ok(maker.documents)
}
