//! The acquisitions of the four missions, their plans, and the expected results of deliveries.

use super::{BEGIN, DAY, Datatake, DeliveryFate, HOUR, Plan, PlanKind, Product, SECOND, SentinelGenerator, areas, named, shown};
use std::collections::BTreeMap;

/// Numbers of acquisitions that record nothing, by day, start here.
const UNRECORDED: i64 = 800_000;
/// Numbers of acquisitions that are in one plan but not in the next start here.
const DROPPED: i64 = 900_000;

/// A planned acquisition, as a row of a plan.
struct Acquisition {
    number: i64,
    start: i64,
    length: i64,
    orbit: i64,
    scenes: i64,
}

impl Acquisition {
    /// Makes the first acquisition of a day, which records nothing.
    fn unrecorded(day: i64) -> Self {
        let number = UNRECORDED + day.div_euclid(DAY);
        Self { number, start: day, length: 20 * SECOND, orbit: number, scenes: 5 }
    }
}

/// Formats a row of a plan of Sentinel-1.
fn radar_row(own: &Acquisition, mode: &str, timeliness: &str) -> String {
    let (start, length) = (shown(own.start), own.length / 1_000);
    let Acquisition { number, orbit, .. } = own;
    format!("S1A,{number},{start},{length},{start},{length},{orbit},{},DV,{mode},0,{timeliness}", orbit % 175 + 1)
}

/// Formats a row of a plan of Sentinel-2, in which all cells are quoted.
fn optical_row(own: &Acquisition, mode: &str, timeliness: &str) -> String {
    let Acquisition { number, orbit, scenes, .. } = own;
    let (start, stop, relative) = (shown(own.start), shown(own.start + own.length), orbit % 143 + 1);
    format!(
        "\"S2A\",\"{number}-1\",\"{orbit}\",\"{relative}\",\"{mode}\",\"{timeliness}\",\"{scenes}\",\"{start}\",\"{stop}\",\"{}\"",
        own.length / 1_000
    )
}

impl SentinelGenerator {
    /// Adds the next day to each plan. The next plan begins with that day and contains the same, except one dropped acquisition, which is between the
    /// first row, in which nothing is recorded, and the first acquisition.
    pub(super) fn plan_again(&mut self) {
        for place in 0..self.plans.len() {
            let (day, satellite, kind) = (self.plans[place].day, self.plans[place].satellite, self.plans[place].kind);
            let next = |plan: &&Plan| plan.day == day + DAY && plan.satellite == satellite && plan.kind == kind;
            let Some(mut tomorrow) = self.plans.iter().find(next).map(|plan| plan.rows.clone()) else { continue };
            let dropped =
                Acquisition { number: DROPPED + day.div_euclid(DAY), start: day + DAY + 30 * SECOND, length: 120 * SECOND, orbit: 1, scenes: 3 };
            match (kind, satellite) {
                (PlanKind::Acquisitions, "S1A") => tomorrow.push(radar_row(&dropped, "IW", "NTC")),
                (PlanKind::Acquisitions, _) => tomorrow.push(optical_row(&dropped, "NOBS", "NOMINAL")),
                _ => {}
            }
            self.plans[place].rows.extend(tomorrow);
        }
    }

    // --- Sentinel-1 -----------------------------------------------------------------------------------------------------

    pub(super) fn radar(&mut self, day: i64) {
        let unrecorded = Acquisition::unrecorded(day);
        let mut plan = Plan { day, satellite: "S1A", kind: PlanKind::Acquisitions, rows: vec![radar_row(&unrecorded, "RFC", "NOT_RECORDING")] };
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
            // leave time before the first one for an acquisition that a newer plan drops
            let start = day + number * 3 * HOUR + (300 + self.random.below(3_000) as i64) * SECOND;
            let length = slices * 25 * SECOND;
            let key = format!("S1A-{datatake}");
            let orbit = 50_000 + (day - BEGIN) / DAY * 15 + number;
            plan.rows.push(radar_row(&Acquisition { number: datatake, start, length, orbit, scenes: 0 }, mode, "NTC"));
            self.datatakes.push(Datatake { satellite: "S1A", number: datatake.to_string(), start, stop: start + length, orbit });
            // the coverage of area products follows from the raw slices delivered
            let (mut ocean, mut slc) = ((0, 0), (0, 0));
            let mut values = Vec::new();
            for kind in types {
                let group = format!("{mode}_{kind}");
                let (mut value, mut overlap) = (0, 0);
                // some types are never produced
                if self.random.per_mille(60) {
                    values.push((group, value, overlap));
                    continue;
                }
                for slice in 0..slices {
                    let from = start + slice * 25 * SECOND;
                    // shares of the masks, in per cent; none is equal to a limit that it is compared with
                    let (ocean_part, reaches_ice) = (self.random.below(100) as f64 + 0.5, self.random.below(3) > 0);
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
                        footprint: Some(areas::radar_footprint(ocean_part, reaches_ice)),
                    };
                    if self.deliver("PRIP_S1A_Serco", &product, false) == DeliveryFate::Delivered {
                        value += 25 * SECOND;
                        // raw data in this polarisation decide what is expected of areas, so they are not made twice
                        if slice == 2 && number % 4 == 1 && kind != "RAW__0S" {
                            overlap = self.make_again(&product);
                        }
                        if kind == "RAW__0S" {
                            if ocean_part > 20.0 {
                                ocean = (ocean.0 + 25 * SECOND, ocean.1 + 1);
                            }
                            if reaches_ice {
                                slc = (slc.0 + 25 * SECOND, slc.1 + 1);
                            }
                        }
                    }
                }
                values.push((group, value, overlap));
            }
            let (mut sum, mut wanted) = (0, 0);
            for (group, value, overlap) in values {
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
                self.expect_overlap("datatake.completeness_s1", &key, &group, overlap);
            }
            self.expect("datatake.sensing_s1", &key, "sensing", sum, Some(wanted));
        }
        self.plans.push(plan);
    }

    /// Makes a product once more, under another name and without its first five seconds; returns the length that is then there twice.
    fn make_again(&mut self, product: &Product) -> i64 {
        let again = Product {
            name: format!("{}{:04X}", &product.name[..product.name.len() - 4], self.random.below(65_536)),
            extension: product.extension,
            start: product.start + 5 * SECOND,
            stop: product.stop,
            footprint: product.footprint,
        };
        match again.name != product.name && self.deliver("PRIP_S1A_Serco", &again, false) == DeliveryFate::Delivered {
            true => again.stop - again.start,
            false => 0,
        }
    }

    // --- Sentinel-2 -----------------------------------------------------------------------------------------------------

    pub(super) fn optical(&mut self, day: i64) {
        let unrecorded = Acquisition::unrecorded(day);
        let mut plan = Plan { day, satellite: "S2A", kind: PlanKind::Acquisitions, rows: vec![optical_row(&unrecorded, "NOBS", "NOT_RECORDING")] };
        for number in 0..6_i64 {
            let orbit = 40_000 + (day - BEGIN) / DAY * 14 + number;
            let key = format!("S2A-{orbit}-1");
            let (mode, levels): (&str, &[&str]) = match number {
                5 => ("DARK-O", &["L0_", "L1A"]),
                4 => ("VIC", &["L0_", "L1B", "L1C"]),
                _ => ("NOBS", &["L0_", "L1B", "L1C", "L2A"]),
            };
            let scenes = 3 + self.random.below(8) as i64;
            let start = day + number * 4 * HOUR + (600 + self.random.below(7_000) as i64) * SECOND;
            let length = scenes * 3_608_000;
            plan.rows.push(optical_row(&Acquisition { number: orbit, start, length, orbit, scenes }, mode, "NOMINAL"));
            self.datatakes.push(Datatake { satellite: "S2A", number: format!("{orbit}-1"), start, stop: start + length, orbit });
            let mut rows: BTreeMap<String, (i64, i64)> = BTreeMap::new();
            let created = start + 5 * HOUR;
            let mut tiles_known = false;
            let (footprint, tiles) = areas::optical_footprint(self.random.number(), 4 + self.random.below(6));
            for level in levels {
                let expected = if *level == "L0_" { length } else { length - 7_216_000 };
                // a datastrip is the datatake without its ends, or half of that
                let whole = length - 4_608_000;
                let half = self.random.per_mille(150);
                let covered = if half { whole / 2 / 1_000 * 1_000 } else { whole };
                let product = Product {
                    name: format!("S2A_OPER_MSI_{level}_DS_2APS_{}_S{}_N05.10", named(created), named(start)),
                    extension: ".tar",
                    start,
                    stop: start + covered,
                    footprint: Some(footprint),
                };
                let made = self.deliver("PRIP_S2A_ATOS", &product, false);
                let value = if made == DeliveryFate::Delivered { covered + 4_608_000 } else { 0 };
                // its footprint is also known if only an archive has it
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
                                footprint: None,
                            };
                            value += i64::from(self.deliver("PRIP_S2A_ATOS", &product, false) == DeliveryFate::Delivered);
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
                            footprint: None,
                        };
                        value += i64::from(self.deliver("PRIP_S2A_ATOS", &product, false) == DeliveryFate::Delivered);
                        if kind == "TC" {
                            let name = format!("S2A_MSI{level}_{}_N0510_R{:03}_T{tile}_{}", named(start), orbit % 143 + 1, named(made));
                            let container = Product { name, extension: ".SAFE", start, stop: start + length, footprint: None };
                            self.deliver("PRIP_S2A_ATOS", &container, true);
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
        self.plans.push(plan);
    }

    // --- Sentinel-3 -----------------------------------------------------------------------------------------------------

    pub(super) fn ocean(&mut self, day: i64) {
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
                        footprint: None,
                    };
                    // any delivery makes the orbit known, and archives deliver everything
                    seen = true;
                    if self.deliver("PRIP_S3A_Serco", &product, false) == DeliveryFate::Delivered {
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

    pub(super) fn air(&mut self, day: i64) {
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
                        footprint: None,
                    };
                    let made = self.deliver("PRIP_S5P_DLR", &product, false);
                    // raw data counts if an archive has it, and archives get everything
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
}

/// Product type, timeliness, minutes of an orbit, tolerance in seconds.
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
