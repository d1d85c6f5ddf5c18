//! Reports beside deliveries: which products were deleted and why, how much is expected each day, counters of archives, and how stations received
//! passes.

use super::ground::Session;
use super::{ARCHIVES, DAY, HOUR, SECOND, SentinelGenerator, named, short, shown};
use md5::{Digest as _, Md5};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// Ends of names that are no part of a product's name.
const EXTENSIONS: [&str; 7] = [".SAFE.zip", ".SEN3.zip", ".SAFE", ".tar", ".jp2", ".RAW", ".nc"];
/// Why products are deleted.
const CAUSES: [&str; 3] = ["Corrupt files", "Wrong calibration", "Made again with a newer processor"];

/// A ticket by which products were deleted from some interfaces of one type.
struct Deletion {
    id: String,
    service_type: &'static str,
    /// Names of interfaces without their type.
    interfaces: Vec<&'static str>,
    cause: &'static str,
    at: i64,
    /// The lists' rows.
    names: Vec<String>,
}

impl Deletion {
    fn services(&self) -> Vec<String> {
        self.interfaces.iter().map(|name| format!("{}_{name}", self.service_type)).collect()
    }

    /// Returns the ticket as Jira has it; interfaces are written as people write them.
    fn issue(&self) -> Json {
        let at = shown(self.at).replace('Z', "+0000");
        let mut fields = json!({ "summary": "Deletion of products", "status": { "name": "Closed" }, "updated": at, "customfield_10114": at });
        if self.service_type == "LTA" {
            let interfaces: Vec<Json> = self.interfaces.iter().map(|name| json!({ "value": format!("{} ", name.to_lowercase()) })).collect();
            fields["customfield_10098"] = interfaces.into();
            fields["customfield_10115"] = self.cause.into();
        } else {
            // without a name it is the one that the file is of
            fields["customfield_10116"] = Json::Null;
            fields["customfield_10118"] = json!({ "value": self.cause });
        }
        json!({ "key": self.id, "fields": fields })
    }
}

fn stem(name: &str) -> &str {
    EXTENSIONS.iter().find_map(|extension| name.strip_suffix(extension)).unwrap_or(name)
}

fn digest(text: &str) -> String {
    Md5::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text_of(document: &Json, member: &str) -> String {
    document[member].as_str().unwrap_or_default().to_owned()
}

impl SentinelGenerator {
    /// Writes what is reported beside deliveries, which have been made already.
    pub(super) fn later(&mut self, first: i64, days: i64) {
        let deletions: Vec<Deletion> = (0..days).flat_map(|number| self.deletions(first + number * DAY)).collect();
        for deletion in &deletions {
            self.list(deletion);
        }
        self.deleted(&deletions);
        self.budget();
        for day in (0..days).map(|number| first + number * DAY) {
            self.counters(day);
        }
    }

    /// Makes two tickets of a day: of archives, and of a distributor.
    fn deletions(&mut self, day: i64) -> Vec<Deletion> {
        let number = day.div_euclid(DAY) * 10;
        let mut delivered = |source: &str, interfaces: &[String]| -> Vec<String> {
            let of = |((of, interface, at), _): &(&(&'static str, String, i64), &Vec<Json>)| {
                *of == source && *at == day.div_euclid(DAY) && interfaces.contains(interface)
            };
            let documents: Vec<&Json> = self.deliveries.iter().filter(of).flat_map(|(_, documents)| documents).collect();
            let count = documents.len() as u64;
            (0..12).filter(|_| count > 0).map(|_| text_of(documents[self.random.below(count) as usize], "Name")).collect()
        };
        let archives = [day.div_euclid(DAY) as usize % 4, (day.div_euclid(DAY) as usize + 1) % 4].map(|place| &ARCHIVES[place]["LTA_".len()..]);
        let mut archived = delivered("lta", &archives.map(|name| format!("LTA_{name}")));
        // nobody has delivered it
        archived.push(format!("S1A_IW_RAW__0SDV_{}_{}_000001_000001_0000.SAFE.zip", named(day), named(day + 25 * SECOND)));
        let mut distributed = delivered("dd", &["DD_DHUS".to_owned()]);
        // and the first container
        let hub = ("dd", "DD_DHUS".to_owned(), day.div_euclid(DAY));
        let names = self.deliveries.get(&hub).into_iter().flatten().map(|document| text_of(document, "Name"));
        distributed.extend(names.filter(|name| name.contains("_MSIL")).take(1));
        let cause = |place: i64| CAUSES[(day.div_euclid(DAY) + place) as usize % CAUSES.len()];
        let lta = Deletion {
            id: format!("DEMO-{number}"),
            service_type: "LTA",
            interfaces: archives.to_vec(),
            cause: cause(0),
            at: day + 3 * DAY,
            names: archived,
        };
        let dd = Deletion {
            id: format!("DEMO-{}", number + 1),
            service_type: "DD",
            interfaces: vec!["DHUS"],
            cause: cause(1),
            at: day + 4 * DAY,
            names: distributed,
        };
        vec![lta, dd]
    }

    /// Writes a ticket and its list.
    fn list(&mut self, deletion: &Deletion) {
        let Deletion { id, service_type, at, names, .. } = deletion;
        let kind = if *service_type == "LTA" { "LTA" } else { "DHUS" };
        let rows: String = names.iter().map(|name| format!("{name}\n")).collect();
        self.file("deletion_list", format!("{id}_{kind}_S__DelList_{}.csv", &named(*at)[..8]), rows);
        let issues = json!({ "issues": [deletion.issue()] });
        self.file("deletion_ticket", format!("Jira_OMCS_Deletion_{kind}_{}_1.json", named(*at)), format!("{issues}\n"));
        let stems: BTreeSet<&str> = names.iter().map(|name| stem(name)).collect();
        let services = deletion.services();
        let record = json!({ "products": stems.len(), "services": services, "date": short(*at), "cause": deletion.cause, "publications": stems.len() * services.len() });
        self.note("deletion_ticket", id, record);
        for name in stems {
            self.note("deletion", &format!("{id}/{name}"), json!({ "date": short(*at), "cause": deletion.cause, "services": services }));
        }
    }

    /// Records which products and publications are known to be deleted.
    fn deleted(&mut self, deletions: &[Deletion]) {
        let mut of_name: BTreeMap<String, Vec<&Deletion>> = BTreeMap::new();
        for deletion in deletions {
            let stems: BTreeSet<&str> = deletion.names.iter().map(|name| stem(name)).collect();
            for name in stems {
                of_name.entry(name.to_owned()).or_default().push(deletion);
            }
        }
        for (name, deletions) in &of_name {
            // a container is none
            if name.contains("_MSIL") {
                continue;
            }
            let services: Vec<String> = deletions.iter().flat_map(|deletion| deletion.services()).collect();
            let archives = services.iter().filter(|service| service.starts_with("LTA_")).collect::<BTreeSet<_>>().len();
            let record = json!({
                "name": name, "deletion_tickets": deletions.iter().map(|deletion| &deletion.id).collect::<Vec<_>>(), "deleted_from": services,
                "deletion_date": deletions.iter().map(|deletion| deletion.at).max().map(short), "lta_deleted": archives,
            });
            self.note("product deletion_tickets=DEMO-*", &digest(name), record);
        }
        let mut records = Vec::new();
        for ((_, interface, _), documents) in self.deliveries.iter().filter(|((source, ..), _)| matches!(*source, "lta" | "dd")) {
            for document in documents {
                let name = text_of(document, "Name");
                let of_interface = |deletion: &&&Deletion| deletion.services().contains(interface);
                let Some(last) = of_name.get(stem(&name)).into_iter().flatten().filter(of_interface).max_by_key(|deletion| deletion.at) else {
                    continue;
                };
                let key = digest(&format!("{}{interface}", text_of(document, "Id")));
                records.push((
                    key,
                    json!({ "deleted_by": last.id, "deletion_date": short(last.at), "deletion_cause": last.cause, "service": interface }),
                ));
            }
        }
        for (key, record) in records {
            self.note("publication deleted_by=DEMO-*", &key, record);
        }
    }

    /// Writes how many products of each type are expected each day, and of which volume.
    fn budget(&mut self) {
        let header = "TYPE;#Num/day;Level;Timeliness;P;A;D;Volume per day [GB];Mission;Version";
        // type, number, level, timeliness, marks, volume, mission; then what becomes of level, timeliness and types
        let rows = [
            ("IW_GRDH_1S (SH/SV/DH/DV)", "180,5", "L1", "NTC", "PAD", "215,25", "S1", ("L1", "NTC", "IW_GRDH_1S")),
            ("IW_SLC__1S", "180", "1", "_", "PA", "1400", "S1", ("L1", "UNDERSCORE", "IW_SLC__1S")),
            (
                "S[1..6]_ETA__AX",
                "12",
                "L0",
                "NTC",
                "P",
                "0,5",
                "S1",
                ("L0", "A", "S1_ETA__AX,S2_ETA__AX,S3_ETA__AX,S4_ETA__AX,S5_ETA__AX,S6_ETA__AX"),
            ),
            (
                "S(1.2.3.4.5.6)_RAW__0S",
                "24",
                "0",
                "NRT",
                "PA",
                "60,75",
                "S1",
                ("L0", "NRT", "S1_RAW__0S,S2_RAW__0S,S3_RAW__0S,S4_RAW__0S,S5_RAW__0S,S6_RAW__0S"),
            ),
            ("MSI_L1C_TL (EUP)", "5200", "L1C", "NTC", "PAD", "2900", "S2", ("L1", "NTC", "MSI_L1C_TL")),
            ("SR_2_SIC{N,S}AX", "4", "L2", "STC", "AD", "-", "S3", ("L2", "STC", "SR_2_SICNAX,SR_2_SICSAX")),
            ("OFFL_L2__HCCO_", "14", "L2", "NTC", "PAD", "7,25", "S5", ("L2", "NTC", "OFFL_L2__HCHO_")),
        ];
        let mut text = format!("{header}\n");
        for (kind, number, level, timeliness, marks, volume, mission, (own_level, own_timeliness, types)) in rows {
            let mark = |letter: char| if marks.contains(letter) { letter } else { ' ' };
            text += &format!("{kind};{number};{level};{timeliness};{};{};{};{volume};{mission};1\n", mark('P'), mark('A'), mark('D'));
            let own = kind.split(" (").next().unwrap_or(kind).replace("HCCO", "HCHO");
            let decimal = |text: &str| text.replace(',', ".").parse::<f64>().ok();
            let record = json!({
                "number": decimal(number), "volume": decimal(volume), "level": own_level, "timeliness": own_timeliness,
                "is_produced": marks.contains('P'), "is_archived": marks.contains('A'), "is_disseminated": marks.contains('D'),
                "product_types": types.split(',').collect::<Vec<_>>(),
            });
            self.note("databudget", &format!("1/{mission}/{own}/{own_level}/{own_timeliness}"), record);
        }
        // what has no level is left out
        text += "AUX_WND;5;_;_;P; ; ;1;S1;1\n";
        self.file("databudget", "Databudget_v1.csv".to_owned(), text);
    }

    /// Writes the counters of archives as they were at the end of a day.
    fn counters(&mut self, day: i64) {
        let at = day + DAY - HOUR;
        for interface in ["metrics_LTA_Acri", "metrics_LTA_Exprivia_S1"] {
            let mut values = Vec::new();
            for (name, kind, satellite, user) in [
                ("Archived.IW_RAW__0S.SENTINEL-1.A", "IW_RAW__0S", "S1A", None),
                ("Archived.OFFL_L2__CH4___.SENTINEL-5P.P", "OFFL_L2__CH4___", "S5P", None),
                ("Download.IW_RAW__0S.SENTINEL-1.A.production", "IW_RAW__0S", "S1A", Some("production")),
            ] {
                for measure in ["size", "count"] {
                    let (name, counter) = (format!("{name}.{measure}"), self.random.below(10_000_000_000));
                    values.push(json!({ "Name": name, "Timestamp": shown(at), "MetricType": "Counter", "Counter": counter }));
                    let record = json!({
                        "counter": counter, "measure": measure, "product_type": kind, "satellite": satellite, "user": user,
                        "metric": if user.is_some() { "download" } else { "archived" },
                    });
                    self.note("metric", &format!("{interface}/{name}/{}", short(at)), record);
                }
            }
            // of all types together: no counter of a type
            values.push(json!({ "Name": "Archived.SENTINEL-1.A.size", "Timestamp": shown(at), "MetricType": "Counter", "Counter": 1 }));
            let name = format!("{interface}_{}_{}_1000_P000000.json", named(day), named(day + DAY));
            self.file("metrics", name, format!("{}\n", json!({ "value": values })));
        }
    }

    /// Writes the reports of stations about passes, a file for each.
    pub(super) fn station_reports(&mut self, sessions: &[Session]) {
        for session in sessions {
            let Some((code, is_received)) = session.reported_by() else { continue };
            let station = code.trim_end_matches('_');
            let (start, stop) = (session.start, session.start + session.transfer);
            let told = |at: i64| shown(at).replace('Z', "");
            let (satellite, orbit, status) = (session.satellite, session.orbit, if is_received { "OK" } else { "NOK" });
            let name = format!("{satellite}_OPER_REP_STNACQ_{code}_{}_V{}_{}", named(stop + HOUR), named(start), named(stop));
            let text = format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Earth_Explorer_File><Earth_Explorer_Header><Fixed_Header><File_Name>{name}</File_Name>\
                 <Mission>Sentinel-{}</Mission></Fixed_Header><Variable_Header><Downlink_Orbit>{orbit:06}</Downlink_Orbit></Variable_Header>\
                 </Earth_Explorer_Header><Data_Block type=\"xml\"><StationAcquisitionReport><StationId>{code}</StationId><StationDownlinkDetails>\
                 <Acq_Id>{orbit}_01</Acq_Id><AntennaId>ANT1</AntennaId><DownlinkStartTime>UTC={}</DownlinkStartTime>\
                 <DownlinkEndTime>UTC={}</DownlinkEndTime><DownlinkStatus>{status}</DownlinkStatus><FEP_Information>\
                 <FER_Downlink>2,5E-7</FER_Downlink><FER_Data>n/a</FER_Data></FEP_Information><Comments></Comments></StationDownlinkDetails>\
                 </StationAcquisitionReport></Data_Block></Earth_Explorer_File>\n",
                &satellite[1..],
                told(start),
                told(stop)
            );
            let record = json!({
                "status": status, "station": station, "stop": short(stop), "fer_downlink": 2.5e-7, "fer_data": null,
                "on": format!("{satellite}_X-Band_{orbit}_{station}"),
            });
            self.note("station_pass", &format!("{satellite}/{orbit}/ANT1/{}", short(start)), record);
            self.file("station_report", format!("{name}.EOF"), text);
        }
    }
}
