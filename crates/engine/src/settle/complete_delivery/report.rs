//! What a job's files have retired, or why they have retired nothing: for reports about jobs and for dry runs.

use super::decide::{DeliveryFile, Verdict, foresee};
use super::keys::{MissingKeys, hash_of};
use super::ledger::DeliveryLedger;
use super::names::{ContributionName, EdgeAge, all_times, job_note_key};
use super::share::FileShare;
use crate::relations::stored::{damaged_edge, number};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use stook_catalogue::definition::{Catalogue, CompleteDelivery};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_store::journal::Outcome;
use stook_store::queue::Job;
use stook_store::{Edge, ReadDetail, Result, StartRange, Store, Tenant};

/// The number of records that a dry run reads at once.
const READ_BATCH: usize = 1_000;
/// The maximum number of failed documents that a reason names.
const MAX_NAMED_FAILURES: usize = 5;

/// What the files of a job have retired of older files' contributions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RetirementReport {
    /// Number of records with contributions that a newer file lacks, and that were therefore retired.
    pub retired: u64,
    /// Number of records with restored contributions, because the file that had retired them no longer counts.
    #[serde(rename = "heard_again", skip_serializing_if = "is_none")]
    pub restored: u64,
    /// Number of records that were not changed because of a unique conflict.
    #[serde(skip_serializing_if = "is_none")]
    pub refused: u64,
    /// What was decided about each file, in each of its scopes.
    pub files: Vec<FileRetirement>,
    /// Whether this is a forecast of what an import would do.
    #[serde(skip)]
    pub foreseen: bool,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// What was decided about a file, in one of its scopes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileRetirement {
    /// Its name.
    pub file: String,
    /// The scope; `None` if the file was not decided about because of failures, or because it was not read completely.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Whether it counts, so that it retires what older files contributed.
    pub counts: bool,
    /// How many keys of the newest older file that counts it lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<MissingKeys>,
    /// How many keys of a file of the same time it lacks: neither replaces the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_time: Option<MissingKeys>,
    /// Why it does not count, or does not replace every other file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl FileRetirement {
    /// A file that retires nothing, in any scope.
    fn none(file: String, reason: String) -> Self {
        Self { file, scope: None, counts: false, lacks: None, same_time: None, reason: Some(reason) }
    }
}

impl RetirementReport {
    /// The report in sentences, each a line.
    pub fn sentences(&self) -> Vec<String> {
        let records = |count: u64| if count == 1 { "1 record".to_owned() } else { format!("{count} records") };
        let mut sentences = Vec::new();
        if self.retired > 0 {
            let are = match (self.foreseen, self.retired) {
                (true, _) => "would be",
                (false, 1) => "was",
                (false, _) => "were",
            };
            let them = if self.retired == 1 { "it" } else { "them" };
            sentences.push(format!("{} {are} retired because the newer complete delivery does not contain {them}", records(self.retired)));
        }
        if self.restored > 0 {
            sentences.push(format!("{} restored, because the delivery that had retired them no longer counts", records(self.restored)));
        }
        if self.refused > 0 {
            let (stay, it) = if self.refused == 1 { ("stays as it was", "it") } else { ("stay as they were", "they") };
            let reason = format!("because without what older files say {it} would have a unique value that another record has");
            sentences.push(format!("{} {stay}, {reason}", records(self.refused)));
        }
        sentences.extend(self.files.iter().filter_map(|own| Some(format!("{}: {}", own.file, own.reason.as_ref()?))));
        sentences
    }
}

/// `be` is "was" for what was done, "would be" for a forecast.
fn missing_keys_reason(replaces: &CompleteDelivery, scope: &str, lack: MissingKeys, be: &str) -> String {
    let about = if lack.sampled { "about " } else { "" };
    format!(
        "nothing {be} retired in scope {scope:?}: {about}{:.0} % of the previous delivery's keys are missing ({} of {}; `most` is {} %); \
         if this is intended, import the file again with --retire-all",
        lack.percent(),
        lack.missing,
        lack.of,
        replaces.max_missing()
    )
}

/// `are` is "are" for what was done, "would be" for a forecast.
fn same_time_reason(scope: &str, lack: MissingKeys, are: &str) -> String {
    let about = if lack.sampled { "about " } else { "" };
    format!(
        "in scope {scope:?} another delivery has the same as-of time, so neither replaces the other: {about}{} of the {} keys of that file \
         {are} not retired although this one lacks them; if this file is newer, give it a later time (`touch` does) and import it again",
        lack.missing, lack.of,
    )
}

/// Why a file retires nothing in a scope, or nothing of a file of the same time.
fn reason(replaces: &CompleteDelivery, scope: &str, (counts, verdict): (bool, &Verdict), is_foreseen: bool) -> Option<String> {
    let (be, are) = if is_foreseen { ("would be", "would be") } else { ("was", "are") };
    if !counts {
        return Some(missing_keys_reason(replaces, scope, verdict.lack, be));
    }
    verdict.same_time.filter(|lack| lack.missing > 0).map(|lack| same_time_reason(scope, lack, are))
}

fn name_of(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).trim_start_matches(crate::job::file::UPLOADED).to_owned()
}

/// What a job's files have retired so far; `None` if its source does not say `replaces:`.
///
/// # Errors
/// When the store fails.
pub fn retirement_report(store: &dyn Store, catalogue: &Catalogue, job: &Job) -> Result<Option<RetirementReport>> {
    let Some(replaces) = catalogue.source(&job.source).and_then(|(_, source)| source.replaces.as_ref()) else { return Ok(None) };
    let file = |number: usize| job.files.get(number).map(|file| name_of(&file.path)).unwrap_or_default();
    let mut found = RetirementReport::default();
    for edge in store.edges(&Tenant::new(&job.tenant)?, replaces.history_link(), &job_note_key(job.id))? {
        let (kind, rest) = edge.child.split_at_checked(1).unwrap_or_default();
        match kind {
            "r" => found.retired += number(&edge)?.max(0) as u64,
            "v" => found.restored += number(&edge)?.max(0) as u64,
            "u" => found.refused += number(&edge)?.max(0) as u64,
            "b" => {
                let (number, failed) = (rest.parse().unwrap_or(0), String::from_utf8_lossy(&edge.payload).into_owned());
                let reason = failures(store, job, number, &failed)?;
                found.files.push(FileRetirement::none(file(number), reason));
            }
            _ => {
                let delivery: DeliveryFile = serde_json::from_slice(&edge.payload).map_err(|error| damaged_edge(&edge, &error.to_string()))?;
                let Some(verdict) = delivery.verdict else { continue };
                let scope = rest.split_once(' ').map_or("", |(_, scope)| scope);
                let (counts, reason) = (verdict.is_effective, reason(replaces, scope, (verdict.is_effective, &verdict), false));
                let (lacks, same_time) = (verdict.against.map(|_| verdict.lack), verdict.same_time);
                found.files.push(FileRetirement { file: file(delivery.file), scope: Some(scope.to_owned()), counts, lacks, same_time, reason });
            }
        }
    }
    Ok(Some(found))
}

/// Why a file with failures retires nothing.
fn failures(store: &dyn Store, job: &Job, file: usize, failed: &str) -> Result<String> {
    let path = job.files.get(file).map(|file| file.path.as_str());
    let troubles = store.journal(job.id, 0, 1_000, true)?;
    let failed_entries = troubles.iter().filter(|entry| Some(entry.file.as_str()) == path && entry.outcome == Outcome::Failed);
    let records: Vec<String> = failed_entries.take(MAX_NAMED_FAILURES).map(|entry| entry.record.to_string()).collect();
    Ok(failed_documents_reason(failed, &records))
}

fn failed_documents_reason(failed: &str, records: &[String]) -> String {
    let documents = if failed == "1" { "document" } else { "documents" };
    let more = if records.len() < MAX_NAMED_FAILURES { "" } else { ", …" };
    format!("nothing was retired, because {failed} {documents} of it failed (record {}{more})", records.join(", "))
}

/// Computes what an import would retire, file by file.
pub struct RetirementDryRun<'t> {
    catalogue: &'t Catalogue,
    store: &'t dyn Store,
    tenant: &'t Tenant,
    replaces: &'t CompleteDelivery,
    file: Option<DryRunFile>,
    found: RetirementReport,
}

/// The file being read.
struct DryRunFile {
    name: String,
    share: FileShare,
    /// Hashes of the names of its contributions, in all scopes.
    named: HashSet<u64>,
    /// The documents that failed, by number.
    failed: Vec<String>,
}

impl<'t> RetirementDryRun<'t> {
    /// A dry run for files of a source with complete deliveries.
    pub fn new(catalogue: &'t Catalogue, store: &'t dyn Store, tenant: &'t Tenant, replaces: &'t CompleteDelivery) -> Self {
        Self { catalogue, store, tenant, replaces, file: None, found: RetirementReport { foreseen: true, ..RetirementReport::default() } }
    }

    /// Adds a chunk of a file: how much of the file it is, the names of its contributions, and its failed documents.
    ///
    /// # Errors
    /// When the store fails.
    pub fn chunk(&mut self, path: &str, share: &FileShare, names: impl Iterator<Item = String>, failed: Vec<String>) -> Result<()> {
        let name = name_of(path);
        if self.file.as_ref().is_some_and(|own| own.name != name) {
            self.end_file()?;
        }
        let file = self.file.get_or_insert_with(|| DryRunFile { name, share: FileShare::default(), named: HashSet::new(), failed: Vec::new() });
        file.share.include(share);
        file.named.extend(names.map(|name| hash_of(&name)));
        file.failed.extend(failed);
        Ok(())
    }

    fn end_file(&mut self) -> Result<()> {
        let Some(DryRunFile { name: file, share, named, failed }) = self.file.take() else { return Ok(()) };
        if !failed.is_empty() {
            let reason = failed_documents_reason(&failed.len().to_string(), &failed[..failed.len().min(MAX_NAMED_FAILURES)]);
            self.found.files.push(FileRetirement::none(file, reason));
            return Ok(());
        }
        if share.file_documents != Some(share.documents) {
            self.found.files.push(FileRetirement::none(file, "the file was not read completely, so what it would retire is unknown".to_owned()));
            return Ok(());
        }
        let mut retired = 0;
        for (scope, scope_share) in &share.scopes {
            let verdict = foresee(self.store, self.tenant, self.replaces, scope, scope_share)?;
            let counts = verdict.is_effective || share.retires_all;
            if counts {
                let ledger = DeliveryLedger::read(self.store, self.tenant, self.replaces, std::iter::once(scope.as_str()))?;
                let range = StartRange { low: scope_share.from, ..all_times(scope) };
                let contribution_edges = self.store.edges_starting_between(self.tenant, self.replaces.contributions_link(), &[range])?;
                let mut lacking = Vec::new();
                for edge in contribution_edges.into_iter().filter(|edge| !named.contains(&hash_of(&edge.child))) {
                    let age = EdgeAge::from_edge(&edge)?;
                    if age.as_of < scope_share.as_of && !ledger.is_replaced(scope, edge.start, age.delivery_age()) {
                        lacking.push((edge, age));
                    }
                }
                retired += self.count_effective(&lacking)?;
            }
            let reason = reason(self.replaces, scope, (counts, &verdict), true);
            let (lacks, same_time) = (verdict.against.map(|_| verdict.lack), verdict.same_time);
            self.found.files.push(FileRetirement { file: file.clone(), scope: Some(scope.clone()), counts, lacks, same_time, reason });
        }
        self.found.retired += retired;
        Ok(())
    }

    /// Counts the records of which a contribution that one of these edges is about still counts. An edge remains if the contribution has moved to
    /// another scope, or to another position in it.
    fn count_effective(&self, edges: &[(Edge, EdgeAge)]) -> Result<u64> {
        let mut named: BTreeMap<(CollectionId, Key), Vec<(String, EdgeAge)>> = BTreeMap::new();
        for (edge, age) in edges {
            let name = ContributionName::from_edge(edge)?;
            if let Some(record_id) = name.record(self.catalogue) {
                named.entry(record_id).or_default().push((name.contributor, *age));
            }
        }
        let mut count = 0;
        let named: Vec<_> = named.into_iter().collect();
        for by_collection in named.chunk_by(|a, b| a.0.0 == b.0.0) {
            let collection = by_collection[0].0.0;
            for page in by_collection.chunks(READ_BATCH) {
                let keys: Vec<Key> = page.iter().map(|((_, key), _)| key.clone()).collect();
                let stored = self.store.read(self.tenant, collection, &keys, ReadDetail::Full)?;
                for ((_, ages), record) in page.iter().zip(stored) {
                    let Some(record) = record else { continue };
                    let contributions = record.contributions_of(&self.catalogue.collections[collection])?;
                    let is_effective = |(contributor, age): &(String, EdgeAge)| {
                        contributions.iter().any(|own| *own.contributor == **contributor && own.counts() && age.is_of(own))
                    };
                    count += u64::from(ages.iter().any(is_effective));
                }
            }
        }
        Ok(count)
    }

    /// Ends the last file and returns the report.
    ///
    /// # Errors
    /// When the store fails.
    pub fn end(mut self) -> Result<RetirementReport> {
        self.end_file()?;
        Ok(self.found)
    }
}
