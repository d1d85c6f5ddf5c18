//! Ground activities: sessions in which stations and relay satellites receive data, plans of them, times in which a part of a satellite is
//! unavailable, tickets that explain missing data, probes of interfaces.

use super::{DAY, Datatake, HOUR, Plan, PlanKind, Product, SECOND, SentinelGenerator, named, short, shown};
use md5::{Digest as _, Md5};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

const MINUTE: i64 = 60 * SECOND;
/// Ground stations: their names in reports, and in plans.
const STATIONS: [(&str, &str); 3] = [("Svalbard", "SGS_"), ("Matera", "MTI_"), ("Maspalomas", "MPS_")];
/// A relay satellite, and the ground station that receives from it.
const RELAY: (&str, &str) = ("EDRS-A", "HDGS");

/// The result of a session at a ground station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionFate {
    /// It went as planned.
    Good,
    /// It was not reported.
    Unreported,
    /// The antenna failed.
    Failed,
    /// The antenna failed, and everything was transferred again a day later.
    Repeated,
    /// Its channels were not measured.
    Unmeasured,
    /// One channel has no end of delivery.
    HalfMeasured,
    /// It started later than planned, so that its name differs.
    Renamed,
}

/// A session in which data of a satellite are received.
pub(super) struct Session {
    pub(super) satellite: &'static str,
    pub(super) orbit: i64,
    /// The planned start.
    pub(super) start: i64,
    pub(super) transfer: i64,
    /// The ground station; `None` if the relay satellite receives the data.
    station: Option<(&'static str, &'static str)>,
    fate: SessionFate,
}

impl Session {
    /// Returns its planned name.
    fn planned(&self) -> String {
        self.name(self.start)
    }

    /// Returns its reported name.
    fn reported(&self) -> String {
        self.name(self.start + if self.fate == SessionFate::Renamed { 65 * SECOND } else { 0 })
    }

    fn name(&self, start: i64) -> String {
        let at = digits(start);
        if self.station.is_some() { format!("{}_{at}{:06}", self.satellite, self.orbit) } else { format!("L{at}153{:06}", self.orbit) }
    }

    /// Returns when the last channel was delivered, if known.
    fn delivered(&self) -> Option<i64> {
        let known = match (self.station, self.fate) {
            (_, SessionFate::Unreported) | (Some(_), SessionFate::Unmeasured) => return None,
            (None, _) => self.transfer,
            (Some(_), SessionFate::HalfMeasured) => self.transfer + MINUTE,
            (Some(_), _) => self.transfer + 2 * MINUTE,
        };
        Some(self.start + known)
    }

    /// Returns the ground station in the form of plans, and whether it received the pass as planned; `None` if nothing was reported.
    pub(super) fn reported_by(&self) -> Option<(&'static str, bool)> {
        self.station.filter(|_| self.fate != SessionFate::Unreported).map(|(_, code)| (code, self.fate != SessionFate::Failed))
    }

    fn is_good(&self) -> bool {
        !matches!(self.fate, SessionFate::Unreported | SessionFate::Failed)
    }
}

/// Formats a time for names of sessions.
fn digits(micros: i64) -> String {
    named(micros).replace('T', "")
}

/// Formats a time for plans of Sentinel-2.
fn unzoned(micros: i64) -> String {
    shown(micros).replace('Z', "")
}

/// Formats a time for tickets.
fn zoned(micros: i64) -> String {
    shown(micros).replace('Z', "+0000")
}

fn quoted(cells: &[&str]) -> String {
    cells.iter().map(|cell| format!("\"{cell}\"")).collect::<Vec<_>>().join(",")
}

impl SentinelGenerator {
    pub(super) fn ground(&mut self, first: i64, days: i64) {
        let sessions = self.sessions(first, days);
        for session in &sessions {
            self.received(session);
        }
        self.reports(&sessions);
        self.station_reports(&sessions);
        self.relayed(&sessions);
        for day in (0..days).map(|number| first + number * DAY) {
            let of_day: Vec<&Session> = sessions.iter().filter(|session| (day..day + DAY).contains(&session.start)).collect();
            self.housekeeping(day, &of_day);
            self.downlinks(day, &of_day);
            self.acquisition_downlinks(day, &sessions);
        }
        self.explanations(first, days, &sessions);
        self.probe(first, days);
    }

    /// Makes twelve sessions a day, of three satellites; one in four is received by the relay satellite.
    fn sessions(&mut self, first: i64, days: i64) -> Vec<Session> {
        let mut sessions = Vec::new();
        for number in 0..days * 12 {
            let start = first + number * 2 * HOUR + self.random.below(3_000) as i64 * SECOND;
            let transfer = (300 + self.random.below(500) as i64) * SECOND;
            let satellite = ["S1A", "S2A", "S3A"][number as usize % 3];
            let fate = match self.random.below(12) {
                0 => SessionFate::Unreported,
                1 => SessionFate::Failed,
                2 => SessionFate::Repeated,
                3 => SessionFate::Unmeasured,
                4 => SessionFate::HalfMeasured,
                5 => SessionFate::Renamed,
                _ => SessionFate::Good,
            };
            let station = if number % 4 == 0 { None } else { Some(STATIONS[number as usize / 3 % STATIONS.len()]) };
            let orbit = first.div_euclid(DAY) * 12 % 100_000 + number;
            sessions.push(Session { satellite, orbit, start, transfer, station, fate });
            // a second station receives data in the same orbit
            if number % 12 == 6 {
                let other = Some(STATIONS[(number as usize / 3 + 1) % STATIONS.len()]);
                sessions.push(Session { satellite, orbit, start: start + MINUTE, transfer, station: other, fate: SessionFate::Good });
            }
        }
        sessions
    }

    /// Writes the files of the receiving unit, one for each completed channel.
    fn received(&mut self, session: &Session) {
        if session.fate == SessionFate::Unreported {
            return;
        }
        let name = session.reported();
        for channel in 1..=1 + i64::from(session.satellite == "S2A") {
            let file = format!("DCS_02_{name}_ch{channel}_DSIB.xml");
            let (start, stop) = (shown(session.start), shown(session.start + session.transfer));
            let blocks = 1 + self.random.below(9);
            let list: String =
                (1..=blocks).map(|block| format!("        <dsdb_name>DCS_02_{name}_ch{channel}_DSDB_{block:05}.raw</dsdb_name>\n")).collect();
            let text = format!(
                "<DCSU_Session_Information_Block>\n    <session_id>{name}</session_id>\n    <time_start>{start}</time_start>\n    \
                 <time_stop>{stop}</time_stop>\n    <time_created>{start}</time_created>\n    <time_finished>{stop}</time_finished>\n    \
                 <data_size>{}</data_size>\n    <dsdb_list>\n{list}    </dsdb_list>\n</DCSU_Session_Information_Block>\n",
                self.random.below(20_000_000_000)
            );
            // names of sessions of the relay satellite do not contain the satellite
            let satellite = session.station.map(|_| session.satellite);
            let key: String = Md5::digest(format!("{name}{file}")).iter().map(|byte| format!("{byte:02x}")).collect();
            let record = json!({ "session_id": name, "mission": satellite.map(|name| &name[..2]), "satellite": satellite, "transfer": session.transfer, "blocks": blocks });
            self.note("session", &key, record);
            self.file("session", file, text);
        }
    }

    /// Writes the reports of ground stations, a file per station and day.
    fn reports(&mut self, sessions: &[Session]) {
        let mut files: BTreeMap<(&str, i64), Vec<Json>> = BTreeMap::new();
        for session in sessions {
            let Some((station, code)) = session.station.filter(|_| session.fate != SessionFate::Unreported) else { continue };
            let published = session.start + HOUR;
            let failed = matches!(session.fate, SessionFate::Failed | SessionFate::Repeated);
            let (mut report, volume) = self.report(session, !failed);
            report["PublicationDate"] = shown(published).into();
            files.entry((station, published.div_euclid(DAY))).or_default().push(report.clone());
            if session.fate == SessionFate::Repeated {
                let again = published + DAY;
                report["Retransfer"] = true.into();
                report["AntennaStatusOK"] = true.into();
                report["PublicationDate"] = shown(again).into();
                files.entry((station, again.div_euclid(DAY))).or_default().push(report);
            }
            let record = json!({
                "status": if session.is_good() { "OK" } else { "NOK" }, "station": code.trim_end_matches('_'), "orbit": session.orbit.to_string(),
                "volume": volume, "delivery_stop": session.delivered().map(short), "again": session.fate == SessionFate::Repeated,
            });
            self.note("cadip_session", &session.reported(), record);
        }
        for ((station, day), reports) in files {
            let name = format!("CADIP_{station}_Sessions_{}_1.json", named(day * DAY));
            self.file("cadip", name, format!("{}\n", json!({ "value": reports })));
        }
    }

    /// Returns the report of a session, and the volume of its channels.
    fn report(&mut self, session: &Session, antenna: bool) -> (Json, Option<u64>) {
        let (start, stop) = (session.start, session.start + session.transfer);
        let mut volume = 0;
        let channels: Vec<Json> = (1..=2)
            .map(|channel| {
                let frames = self.random.between(500_000, 1_500_000);
                volume += frames * 2_044;
                let mut told = json!({
                    "Channel": channel, "AcquiredTFs": frames + 1_000, "ErrorTFs": self.random.below(9), "UncorrectableTFs": self.random.below(3),
                    "DataTFs": frames, "TotalVolume": frames * 2_044, "DeliveryStart": shown(start + 10 * SECOND),
                    "DeliveryStop": shown(stop + channel * MINUTE),
                });
                if let Some(told) = told.as_object_mut().filter(|_| channel == 2 && session.fate == SessionFate::HalfMeasured) {
                    told.remove("DeliveryStop");
                }
                told
            })
            .collect();
        // some stations write numbers as text
        let orbit = if session.orbit % 2 == 0 { json!(session.orbit) } else { json!(session.orbit.to_string()) };
        let mut report = json!({
            "SessionId": session.reported(), "NumChannels": 2, "Satellite": session.satellite, "StationUnitId": "01", "DownlinkOrbit": orbit,
            "AcquisitionId": format!("{}_01", session.orbit), "AntennaId": "ANT1", "FrontEndId": "FE2", "Retransfer": false,
            "AntennaStatusOK": antenna, "FrontEndStatusOK": true, "PlannedDataStart": shown(start), "PlannedDataStop": shown(stop),
            "DownlinkStart": shown(start), "DownlinkStop": shown(stop), "DownlinkStatusOK": true, "DeliveryPushOK": true,
        });
        if session.fate == SessionFate::Unmeasured {
            return (report, None);
        }
        report["QualityInfo"] = channels.into();
        (report, Some(volume))
    }

    /// Writes the reports of the relay satellite's sessions, by day.
    fn relayed(&mut self, sessions: &[Session]) {
        let mut files: BTreeMap<i64, Vec<Json>> = BTreeMap::new();
        for session in sessions.iter().filter(|session| session.station.is_none() && session.fate != SessionFate::Unreported) {
            let status = match session.fate {
                SessionFate::Failed => "NOK",
                SessionFate::HalfMeasured => "PARTIAL",
                _ => "OK",
            };
            let (start, stop) = (session.start, session.start + session.transfer);
            files.entry(start.div_euclid(DAY)).or_default().push(json!({
                "link_session_id": session.reported(), "ground_station": RELAY.1, "satellite_id": session.satellite, "geo_satellite_id": RELAY.0,
                "total_status": status, "dissemination_start": shown(start), "dissemination_stop": shown(stop),
            }));
            self.note("edrs_session", &format!("{}/{}", session.reported(), RELAY.1), json!({ "status": status, "dissemination_stop": short(stop) }));
        }
        for (day, reports) in files {
            let name = format!("EDRS_{}.json", &named(day * DAY)[..8]);
            self.file("edrs", name, format!("{}\n", json!({ "value": reports })));
        }
    }

    /// Plans the sessions of Sentinel-1 in which housekeeping data are received.
    fn housekeeping(&mut self, day: i64, sessions: &[&Session]) {
        let mut plan = Plan { day, satellite: "S1A", kind: PlanKind::Housekeeping, rows: Vec::new() };
        for session in sessions.iter().filter(|session| session.satellite == "S1A") {
            let (name, station, complete) = match session.station {
                Some((_, code)) => (format!("DCS_0X_{}", session.planned()), code, "cadip_complete"),
                // it is named by the relay satellite, and its name does not change
                None => (session.reported(), RELAY.0, "edrs_complete"),
            };
            // any good session of the orbit at a ground station suffices
            let done = |other: &&Session| {
                other.orbit == session.orbit && other.station.is_some() && other.is_good() && other.fate != SessionFate::Unmeasured
            };
            let is_received = session.is_good() || session.station.is_some() && sessions.iter().any(done);
            plan.rows.push(format!("S1A,{name},{},{station},1,{}", session.orbit, shown(session.start)));
            self.note("hktm_acquisition", &format!("S1A/{name}/{station}"), json!({ complete: i64::from(is_received) }));
        }
        self.plans.push(plan);
    }

    /// Plans the downlinks of Sentinel-2, with their housekeeping products.
    fn downlinks(&mut self, day: i64, sessions: &[&Session]) {
        let mut plan = Plan { day, satellite: "S2A", kind: PlanKind::Downlinks, rows: Vec::new() };
        for session in sessions.iter().filter(|session| session.satellite == "S2A") {
            let station = session.station.map_or(RELAY.0, |(_, code)| code);
            let (start, stop, orbit) = (session.start, session.start + 11 * SECOND, session.orbit.to_string());
            let (from, until) = (unzoned(start), unzoned(stop));
            let house = session.orbit % 12 != 4;
            let mode = if house { "DOWNLINK_HKTM_SAD" } else { "NOMINAL" };
            plan.rows.push(quoted(&["S2A", "", &orbit, &from, &until, &from, &until, mode, "11000", "", "", "", station, "", "", ""]));
            let is_made = house && session.is_good();
            if is_made {
                let (from, to) = (start + MINUTE, start + 2 * MINUTE);
                let name = format!("S2A_OPER_PRD_HKTM___{}_{}_0001", named(from), named(to));
                self.deliver("PRIP_S2A_ATOS", &Product { name, extension: ".tar", start: from, stop: to, footprint: None }, false);
            }
            let complete = house.then_some(i64::from(is_made));
            self.note("downlink", &format!("S2A/{}/{station}/{orbit}", short(start)), json!({ "complete": complete, "mode": mode }));
        }
        self.plans.push(plan);
    }

    /// Plans where the data of each acquisition are received: in the next session of the satellite.
    fn acquisition_downlinks(&mut self, day: i64, sessions: &[Session]) {
        let mut plans = ["S1A", "S2A"].map(|satellite| Plan { day, satellite, kind: PlanKind::AcquisitionDownlinks, rows: Vec::new() });
        let datatakes = std::mem::take(&mut self.datatakes);
        for datatake in datatakes.iter().filter(|datatake| (day..day + DAY).contains(&datatake.start)) {
            let of = |session: &&Session| session.satellite == datatake.satellite && session.start > datatake.stop;
            let Some(session) = sessions.iter().find(of) else { continue };
            let both: Vec<&Session> = sessions.iter().filter(|other| other.orbit == session.orbit).collect();
            let row = AcquisitionDownlink { datatake, session, both: &both };
            let (key, delivered) = (row.key(), row.delivered());
            let radar = datatake.satellite == "S1A";
            plans[usize::from(!radar)].rows.push(if radar { row.radar() } else { row.optical() });
            let record = json!({
                "observation_start": short(datatake.start), "delivery_stop": delivered.map(short),
                "from_sensing": delivered.map(|at| at - datatake.start),
            });
            self.note("planned_downlink", &key, record);
        }
        self.datatakes = datatakes;
        self.plans.extend(plans);
    }

    /// Writes times in which a part of a satellite was unavailable, and tickets, which explain missing data.
    fn explanations(&mut self, first: i64, days: i64, sessions: &[Session]) {
        let mut tickets: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut unavailable: BTreeSet<String> = BTreeSet::new();
        for day in (0..days).map(|number| first + number * DAY) {
            let of_day: Vec<Datatake> = self.datatakes.extract_if(.., |datatake| (day..day + DAY).contains(&datatake.start)).collect();
            let radar: Vec<&Datatake> = of_day.iter().filter(|datatake| datatake.satellite == "S1A").collect();
            let optical: Vec<&Datatake> = of_day.iter().filter(|datatake| datatake.satellite == "S2A").collect();
            let (from, to) = (radar[2].start - 5 * MINUTE, radar[2].start + 10 * MINUTE);
            self.unavailable(from, to);
            unavailable.extend(radar.iter().filter(|datatake| datatake.start <= to && datatake.stop >= from).map(|datatake| datatake.key()));
            let number = 10 * day.div_euclid(DAY);
            let of_orbit = sessions.iter().find(|session| session.satellite == "S1A" && session.start >= day && session.station.is_some());
            let list = [
                Ticket { number, environment: vec![radar[0].key(), optical[0].key()], observations: None, orbit: None },
                Ticket {
                    number: number + 1,
                    environment: vec![radar[1].key()],
                    observations: Some(vec![optical[1].key()]),
                    orbit: of_orbit.map(|session| session.orbit),
                },
                Ticket { number: number + 2, environment: vec![optical[0].key(), radar[3].key()], observations: None, orbit: None },
            ];
            for ticket in &list {
                for key in ticket.explains() {
                    tickets.entry(key.clone()).or_default().push(ticket.id());
                }
                self.note("ticket", &ticket.id(), ticket.record());
            }
            let name = named(day + DAY);
            let all: Vec<Json> = list.iter().map(|ticket| ticket.document(day)).collect();
            self.file("cams", format!("Jira_CAMS_Cloud_Tickets_{name}_1.json"), format!("{}\n", json!({ "issues": all })));
            let all: Vec<Json> = list.iter().filter_map(|ticket| ticket.correlation(day)).collect();
            self.file("cams_correlation", format!("Jira_CAMS_Cloud_Anomaly_Correlation_{name}_1.json"), format!("{}\n", json!({ "issues": all })));
            for datatake in of_day {
                let (key, of_ticket) = (datatake.key(), tickets.get(&datatake.key()));
                let explained = of_ticket.is_some() || unavailable.contains(&key);
                let record = json!({ "cams_tickets": of_ticket, "last_ticket": of_ticket.and_then(|all| all.last()), "explained": explained, "absolute_orbit": datatake.orbit.to_string() });
                self.note("datatake", &key, record);
                for coverage in ["datatake.completeness_s1", "datatake.completeness_s2"] {
                    let rows = self.truth.get_mut(coverage).into_iter().flat_map(|rows| rows.range_mut(format!("{key}#")..format!("{key}$")));
                    rows.for_each(|(_, row)| row["explained"] = explained.into());
                }
            }
        }
    }

    fn unavailable(&mut self, from: i64, to: i64) {
        let name = format!("S1A_OPER_REP__SUP___{}_{}_0001", named(from), named(to));
        let told = |at: i64| shown(at)[..19].to_owned();
        let text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Earth_Explorer_File><Earth_Explorer_Header><Fixed_Header><File_Name>{name}</File_Name>\
             <Mission>Sentinel-1A</Mission></Fixed_Header></Earth_Explorer_Header><Data_Block type=\"xml\"><Unavailability_Reference>1\
             </Unavailability_Reference><Unavailability_Type>Return to Operations</Unavailability_Type>\
             <List_Of_Subsystem_Unavailabilities count=\"1\"><Subsystem_Unavailability><Subsystem>SAR</Subsystem><StartTime>UTC={}</StartTime>\
             <StartOrbit>00789</StartOrbit><EndTime>UTC={}</EndTime><EndOrbit></EndOrbit><Type>UNPLANNED</Type><Comment>safe mode</Comment>\
             </Subsystem_Unavailability></List_Of_Subsystem_Unavailabilities></Data_Block></Earth_Explorer_File>\n",
            told(from),
            told(to)
        );
        self.note("unavailability", &format!("S1A/SAR/{}", short(from)), json!({ "duration": to - from, "kind": "UNPLANNED", "start_orbit": 789 }));
        self.file("unavailability", format!("{name}.EOF"), text);
    }

    /// Writes probes of interfaces, one every quarter of an hour.
    fn probe(&mut self, first: i64, days: i64) {
        let mut probes = Vec::new();
        for interface in ["PRIP_S1A_Serco", "PRIP_S2A_ATOS", "DD_DHUS"] {
            let mut runs: Vec<(&str, i64, i64)> = Vec::new();
            let mut status = "OK";
            for turn in 0..days * 96 {
                let start = first + turn * 900 * SECOND;
                let stop = start + self.random.between(100, 2_000) as i64 * 1_000;
                if self.random.per_mille(30) {
                    status = if status == "OK" { "KO" } else { "OK" };
                }
                // some probes are missing: three in a row leave a gap
                if turn % 200 >= 197 {
                    continue;
                }
                probes.push(json!({
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
                let key = format!("{interface}@{}", short(start));
                let row = json!({ "value": status, "stop": shown(stop) });
                self.note("interface.status", &key, row);
            }
        }
        // probes arrive out of order
        let (even, odd): (Vec<_>, Vec<_>) = probes.iter().enumerate().partition(|(place, _): &(usize, &Json)| place % 3 != 0);
        let lines = odd.into_iter().chain(even).map(|(_, probe)| format!("{probe}\n"));
        self.file("probe", "probes.ndjson".to_owned(), lines.collect());
    }
}

/// A row of a plan of downlinks of acquisitions.
struct AcquisitionDownlink<'s> {
    datatake: &'s Datatake,
    session: &'s Session,
    /// All sessions of the orbit.
    both: &'s [&'s Session],
}

impl AcquisitionDownlink<'_> {
    /// Formats all stations of a session for one cell.
    fn stations(&self) -> String {
        if self.datatake.satellite != "S1A" || self.session.station.is_none() {
            return self.session.station.map_or(RELAY.0, |(_, code)| code).to_owned();
        }
        self.both.iter().filter_map(|session| session.station).map(|(_, code)| code).collect()
    }

    fn key(&self) -> String {
        let channel = if self.datatake.satellite == "S1A" { "1" } else { "-" };
        let Datatake { satellite, number, .. } = self.datatake;
        format!("{satellite}/{number}/{}/{}/{channel}", short(self.session.start), self.stations())
    }

    /// Returns when the data were delivered. Plans of Sentinel-2 do not contain the orbit in which data are received, so sessions at ground stations
    /// are not found.
    fn delivered(&self) -> Option<i64> {
        match (self.session.station, self.datatake.satellite) {
            (None, _) => self.session.delivered(),
            (Some(_), "S1A") => self.both.iter().filter_map(|session| session.delivered()).max(),
            _ => None,
        }
    }

    fn radar(&self) -> String {
        let (datatake, session) = (self.datatake, self.session);
        let (start, stop) = (shown(session.start), shown(session.start + 5 * MINUTE));
        let (names, orbit) = match session.station {
            Some(_) => {
                (self.both.iter().map(|session| format!("DCS_0X_{}", session.planned())).collect::<Vec<_>>().join("-"), session.orbit.to_string())
            }
            None => (session.reported(), String::new()),
        };
        let (sensed, latency) = ((datatake.stop - datatake.start) / 1_000, (session.start - datatake.stop) / MINUTE);
        format!(
            "S1A,OK,{},{},{sensed},{start},{stop},300000,{latency},{},NTC,DV,IW,{names},V,{orbit},{start},1",
            datatake.number,
            shown(datatake.start),
            self.stations()
        )
    }

    fn optical(&self) -> String {
        let (datatake, session) = (self.datatake, self.session);
        let (orbit, latency) = (datatake.orbit.to_string(), ((session.start - datatake.stop) / MINUTE).to_string());
        let (relative, sensed) = ((datatake.orbit % 143 + 1).to_string(), ((datatake.stop - datatake.start) / 1_000).to_string());
        let [from, to, start, stop] = [datatake.start, datatake.stop, session.start, session.start + 5 * MINUTE].map(unzoned);
        let stations = self.stations();
        quoted(&["S2A", &datatake.number, &orbit, &relative, "NOMINAL", "5", &from, &to, &sensed, &start, &stop, "300000", &latency, &stations, ""])
    }
}

/// A ticket, and what it has been found to explain.
struct Ticket {
    number: i64,
    environment: Vec<String>,
    observations: Option<Vec<String>>,
    orbit: Option<i64>,
}

impl Ticket {
    fn id(&self) -> String {
        format!("GSANOM-{}", self.number)
    }

    /// Returns what the ticket explains: its observations, or its environment if there are none.
    fn explains(&self) -> &[String] {
        self.observations.as_ref().unwrap_or(&self.environment)
    }

    fn record(&self) -> Json {
        let passes = self.orbit.map(|orbit| [format!("S1A_X-Band_{orbit}_SGS")]);
        json!({ "explains": self.explains(), "passes": passes, "status": "Closed" })
    }

    fn document(&self, day: i64) -> Json {
        json!({ "key": self.id(), "fields": {
            "summary": "Data missing", "status": { "name": "Closed" }, "created": zoned(day + HOUR), "updated": zoned(day + DAY + self.number % 10 * MINUTE),
            "environment": self.environment.join("; "), "customfield_10263": { "name": "Svalbard Station" }, "customfield_10270": [{ "value": "Major" }],
        } })
    }

    fn correlation(&self, day: i64) -> Option<Json> {
        let observations = self.observations.as_ref()?;
        Some(json!({ "key": format!("AN-{}", self.number), "fields": {
            "summary": format!("{} - anomaly correlation", self.id()), "status": { "name": "Done" }, "description": "Missing data",
            "created": zoned(day + 2 * HOUR), "updated": zoned(day + DAY + HOUR), "customfield_10237": observations.join(";"),
            "customfield_10238": self.orbit.map(|orbit| format!("S1A-{orbit}")), "customfield_10226": { "value": "Acquisition" },
            "customfield_10225": { "value": "X-Band", "child": { "value": "SGS" } }, "customfield_10242": [{ "value": "S1A" }],
            "issuelinks": [{ "outwardIssue": { "key": self.id() } }],
        } }))
    }
}
