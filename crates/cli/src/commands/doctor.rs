//! `stook doctor`: says whether definition, store, disk, clock, rights, versions and sources are well, and what to do where they are not.

use crate::CommandResult;
use crate::open::{CatalogueLocation, notes_of_areas};
use crate::output::{bytes, clean, count, seconds};
use serde_json::{Value as Json, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::show_timestamp;
use stook_engine::job::health::{LOOKED_AT, SourceHealth, source_health};
use stook_store::Store;
use stook_store::health::StoreHealth;
use stook_store::queue::{ChunkState, Job};

/// How far clocks may be apart.
const CLOCK_TOLERANCE: i64 = 5_000_000;
/// How far in the future a delivery may be dated: the time zones of the Earth differ by as much.
const FUTURE_TOLERANCE: i64 = 26 * 3_600 * 1_000_000;
/// Bytes that a disk should have free, and with less than which little can be done.
const LITTLE_DISK: u64 = 2 << 30;
const FULL_DISK: u64 = 256 << 20;
/// Bytes of a file's WAL that are more than checkpoints leave.
const LONG_LOG: u64 = 1 << 30;
/// Bytes of a replica's backlog that deserve attention.
const LONG_BACKLOG: u64 = 1 << 30;
/// Bytes of a store from which on much free space is mentioned.
const LARGE_STORE: u64 = 1 << 30;

/// How well something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Ok,
    Warn,
    Bad,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }
}

/// What was found about one thing.
struct Finding {
    about: &'static str,
    verdict: Verdict,
    text: String,
    /// What to do; empty if nothing.
    advice: String,
}

/// All findings.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, about: &'static str, text: impl Into<String>) {
        self.0.push(Finding { about, verdict: Verdict::Ok, text: text.into(), advice: String::new() });
    }

    fn warn(&mut self, about: &'static str, text: impl Into<String>, advice: &str) {
        self.0.push(Finding { about, verdict: Verdict::Warn, text: text.into(), advice: advice.to_owned() });
    }

    fn bad(&mut self, about: &'static str, text: impl Into<String>, advice: &str) {
        self.0.push(Finding { about, verdict: Verdict::Bad, text: text.into(), advice: advice.to_owned() });
    }

    fn worst(&self) -> Verdict {
        self.0.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Ok)
    }
}

pub fn doctor(location: &CatalogueLocation, as_json: bool) -> CommandResult {
    let mut findings = Findings::default();
    findings.ok("program", format!("stook {}", env!("CARGO_PKG_VERSION")));
    let mut sources = Vec::new();
    match location.catalogue() {
        Err(error) => findings.bad("definition", first_line(&error.message), "`stook check` shows each mistake at its place"),
        Ok(catalogue) => {
            findings.ok("definition", described(&catalogue));
            for note in notes_of_areas(&catalogue) {
                findings.warn("definition", note, "put the file beside catalogue.yaml, or remove it from `areas`");
            }
            if !location.exists()? {
                findings.warn("store", format!("{} does not exist yet", location.describe()?), "`stook prepare` or the first import creates it");
            } else {
                match location.read() {
                    Err(error) => findings.bad("store", error.message, "do what the message says"),
                    Ok((_, store)) => sources = examine(&catalogue, &*store, &mut findings)?,
                }
            }
        }
    }
    let worst = findings.worst();
    if as_json {
        say!("{}", to_json(&findings, &sources));
    } else {
        show(&findings, &sources);
    }
    Ok(match worst {
        Verdict::Ok => 0,
        Verdict::Warn => 2,
        Verdict::Bad => 1,
    })
}

fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().to_owned()
}

fn described(catalogue: &Catalogue) -> String {
    format!(
        "{} with {}, {}",
        catalogue.name,
        count(catalogue.collections.len() as u64, "collection"),
        count(catalogue.sources.len() as u64, "source")
    )
}

/// Examines an open store; returns how its sources are doing.
fn examine(catalogue: &Catalogue, store: &dyn Store, findings: &mut Findings) -> Result<Vec<SourceHealth>, stook_store::StoreError> {
    let health = store.health()?;
    versions(&health, findings);
    size(&health, findings);
    replication(&health, findings);
    for missing in &health.missing_rights {
        findings.bad("rights", missing.clone(), "grant it to the user or role that runs Stook");
    }
    if health.missing_rights.is_empty() {
        findings.ok("rights", "may read and write the store");
    }
    let jobs = store.jobs(None, LOOKED_AT)?;
    clock(&health, &jobs, findings);
    let dead = store.chunks(None)?.iter().filter(|chunk| chunk.state == ChunkState::Dead).count() as u64;
    match dead {
        0 => findings.ok("queue", "no chunk is dead"),
        _ => findings.bad("queue", format!("{} dead", count(dead, "chunk")), "`stook queue list` says why; `stook queue retry JOB` tries them again"),
    }
    let sources = source_health(catalogue, &jobs);
    for source in &sources {
        let name = format!("{} ({})", source.source, source.tenant);
        if let Some(reason) = &source.failure {
            findings.bad(
                "source",
                format!("{name}: job {} failed: {reason}", source.last_job),
                &format!("`stook journal {} --errors`", source.last_job),
            );
        } else if source.failed_documents > 0 {
            let failed = count(source.failed_documents, "document");
            findings.warn(
                "source",
                format!("{name}: {failed} of job {} failed", source.last_job),
                &format!("`stook journal {} --errors`", source.last_job),
            );
        }
    }
    Ok(sources)
}

fn versions(health: &StoreHealth, findings: &mut Findings) {
    let store = format!("format {} on {}", health.format, health.database);
    match major(&health.database) {
        Some(version) if version < OLDEST_SERVER => {
            findings.warn("store", store, &format!("upgrade the server: versions before {OLDEST_SERVER} get no corrections any more"));
        }
        _ => findings.ok("store", store),
    }
}

/// The oldest version of PostgreSQL that is maintained.
const OLDEST_SERVER: u32 = 14;

/// The version of a server of PostgreSQL.
fn major(database: &str) -> Option<u32> {
    let version = database.strip_prefix("PostgreSQL ")?;
    version.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

fn size(health: &StoreHealth, findings: &mut Findings) {
    let (size, free) = (bytes(health.bytes), bytes(health.free_bytes));
    if health.bytes > LARGE_STORE && health.free_bytes > health.bytes / 2 {
        let advice = "it is used for new rows; `stook backup` and `stook restore` into a new store give it back";
        findings.warn("size", format!("{size}, of which {free} are free"), advice);
    } else {
        findings.ok("size", format!("{size}, of which {free} are free"));
    }
    match health.log_bytes {
        Some(log) if log > LONG_LOG && health.disk_free.is_some() => {
            findings.warn(
                "log",
                format!("the WAL has {}", bytes(log)),
                "a reader or a stopped writer holds it: end long exports, and commands that were suspended",
            );
        }
        Some(log) => findings.ok("log", format!("the WAL has {}", bytes(log))),
        None => {}
    }
    match health.disk_free {
        Some(free) if free < FULL_DISK => {
            findings.bad("disk", format!("{} free", bytes(free)), "free some space now: imports stop when the disk is full")
        }
        Some(free) if free < LITTLE_DISK.max(health.bytes / 10) => {
            findings.warn("disk", format!("{} free", bytes(free)), "free some space, or move the store to a larger disk");
        }
        Some(free) => findings.ok("disk", format!("{} free", bytes(free))),
        None => {}
    }
}

fn replication(health: &StoreHealth, findings: &mut Findings) {
    for replica in &health.replicas {
        let behind = replica.behind_bytes.map_or(String::new(), |behind| format!(", {} behind", bytes(behind)));
        let text = format!("{} is {}{behind}", clean(&replica.name), clean(&replica.state));
        if replica.state == "inactive" {
            findings.warn("replication", text, "the server keeps its log until somebody follows by this slot: start the replica, or drop the slot");
        } else if replica.behind_bytes.is_some_and(|behind| behind > LONG_BACKLOG) {
            findings.warn("replication", text, "see whether the replica and the network between keep up");
        } else {
            findings.ok("replication", text);
        }
    }
}

fn clock(health: &StoreHealth, jobs: &[Job], findings: &mut Findings) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
    let span = |micros: i64| seconds(Duration::from_micros(micros.unsigned_abs()));
    let set_clock = "set the clock, and let it be synchronised (NTP)";
    let difference = health.time - now;
    if difference.abs() > CLOCK_TOLERANCE {
        let direction = if difference > 0 { "ahead of" } else { "after" };
        findings.warn("clock", format!("the database's clock is {} {direction} this machine's", span(difference)), set_clock);
    } else if health.last_commit - now > CLOCK_TOLERANCE {
        let text = format!("the last commit is {} in the future ({})", span(health.last_commit - now), show_timestamp(health.last_commit));
        findings.bad("clock", text, &format!("{set_clock}; until that time revisions only count on"));
    } else {
        findings.ok("clock", "agrees with the store");
    }
    let newest = jobs.iter().filter_map(|job| job.as_of).max();
    if let Some(newest) = newest.filter(|newest| newest - now > FUTURE_TOLERANCE) {
        let text = format!("a delivery is dated {}, which is in the future", show_timestamp(newest));
        findings.warn(
            "clock",
            text,
            "later deliveries with right dates do not win over it: withdraw or undo it, and import it with the right --as-of",
        );
    }
}

fn show(findings: &Findings, sources: &[SourceHealth]) {
    for Finding { about, verdict, text, advice } in &findings.0 {
        say!("{:<5} {about}: {}", verdict.name(), text.replace('\n', "\n        "));
        if !advice.is_empty() {
            say!("        → {advice}");
        }
    }
    if !sources.is_empty() {
        say!("");
        let rows: Vec<Vec<String>> = sources.iter().map(row).collect();
        say!(
            "{}",
            crate::output::table(&["source", "tenant", "last success", "failed documents", "bytes"], &rows, &[false, false, false, true, true])
        );
    }
}

fn row(source: &SourceHealth) -> Vec<String> {
    vec![
        source.source.clone(),
        source.tenant.clone(),
        source.last_success.map_or("never".to_owned(), show_timestamp),
        source.failed_documents.to_string(),
        bytes(source.bytes),
    ]
}

fn to_json(findings: &Findings, sources: &[SourceHealth]) -> Json {
    let finding = |finding: &Finding| {
        let advice = Some(&finding.advice).filter(|advice| !advice.is_empty());
        json!({ "about": finding.about, "verdict": finding.verdict.name(), "text": finding.text, "advice": advice })
    };
    let source = |source: &SourceHealth| {
        json!({
            "source": source.source, "tenant": source.tenant, "last_success": source.last_success.map(show_timestamp), "last_job": source.last_job,
            "failed_documents": source.failed_documents, "failure": source.failure, "bytes": source.bytes,
        })
    };
    json!({
        "verdict": findings.worst().name(),
        "findings": findings.0.iter().map(finding).collect::<Vec<_>>(),
        "sources": sources.iter().map(source).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(examine: impl FnOnce(&mut Findings)) -> Vec<(&'static str, &'static str)> {
        let mut findings = Findings::default();
        examine(&mut findings);
        assert!(findings.0.iter().all(|finding| (finding.verdict == Verdict::Ok) == finding.advice.is_empty()), "each trouble says what to do");
        findings.0.iter().map(|finding| (finding.about, finding.verdict.name())).collect()
    }

    #[test]
    fn little_space_and_a_long_log_are_noticed() {
        let disk = |free| StoreHealth { disk_free: Some(free), log_bytes: Some(0), ..StoreHealth::default() };
        assert_eq!(verdicts(|findings| size(&disk(1 << 40), findings))[2], ("disk", "ok"));
        assert_eq!(verdicts(|findings| size(&disk(1 << 30), findings))[2], ("disk", "warn"));
        assert_eq!(verdicts(|findings| size(&disk(1 << 20), findings))[2], ("disk", "bad"));
        let long = StoreHealth { log_bytes: Some(2 << 30), bytes: 4 << 30, free_bytes: 3 << 30, ..disk(1 << 40) };
        assert_eq!(verdicts(|findings| size(&long, findings)), [("size", "warn"), ("log", "warn"), ("disk", "ok")]);
    }

    #[test]
    fn clocks_that_differ_are_noticed() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_micros() as i64;
        let at = |time, last_commit| StoreHealth { time, last_commit, ..StoreHealth::default() };
        assert_eq!(verdicts(|findings| clock(&at(now, now - 5), &[], findings)), [("clock", "ok")]);
        assert_eq!(verdicts(|findings| clock(&at(now - 60_000_000, 0), &[], findings)), [("clock", "warn")]);
        assert_eq!(verdicts(|findings| clock(&at(now, now + 3_600_000_000), &[], findings)), [("clock", "bad")]);
    }

    #[test]
    fn servers_and_replicas_are_judged() {
        assert_eq!((major("PostgreSQL 17.2 (Debian)"), major("SQLite 3.50.1")), (Some(17), None));
        let replica = |state: &str, behind| stook_store::health::Replica { name: "r".into(), state: state.into(), behind_bytes: behind };
        let health = StoreHealth {
            replicas: vec![replica("streaming", Some(5)), replica("streaming", Some(2 << 30)), replica("inactive", None)],
            ..StoreHealth::default()
        };
        assert_eq!(
            verdicts(|findings| replication(&health, findings)).iter().map(|(_, verdict)| *verdict).collect::<Vec<_>>(),
            ["ok", "warn", "warn"]
        );
    }
}
