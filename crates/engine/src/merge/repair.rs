//! Writes a record that is damaged in the store again, from documents that contain what cannot be read.

use super::contribution::{NewContribution, NumberedContribution};
use super::merger::RecordMerger;
use super::result::MergeResult;
use stook_catalogue::definition::{Collection, OnMatched};
use stook_catalogue::ids::FieldId;
use stook_catalogue::record::{self, Contribution, ContributionContent, DecodeError, UnpackedContributions};
use stook_catalogue::value::Value;
use stook_store::damage::RecordPart;
use stook_store::journal::Outcome;
use stook_store::{RecordChange, StoredRecord};

impl RecordMerger<'_> {
    /// Decides about a damaged record: it is written again if documents contain what cannot be read of it and no other contributor's values are lost;
    /// otherwise the documents fail, and nothing is written.
    pub(super) fn repair(&self, record: &StoredRecord, incoming: &[NumberedContribution], reason: &str) -> MergeResult {
        let fail = |advice: &str| {
            let name = &self.collection.name;
            let reason = format!("record {:?} of `{name}` is damaged in the store: {reason}; {advice}", record.key.as_str());
            MergeResult { outcomes: incoming.iter().map(|_| (Outcome::Failed, Some(reason.clone()))).collect(), ..MergeResult::default() }
        };
        if !matches!(self.policy.matched, OnMatched::Update | OnMatched::Delete) {
            return fail("import its documents with a profile that updates existing records");
        }
        let RepairedRecord { record, contributions, lost } = match repaired_record(self.collection, record, incoming) {
            Ok(repaired) => repaired,
            Err(advice) => return fail(&advice),
        };
        let touched = contributions.iter().any(|contribution| self.policy.wrote(contribution.origin.job));
        let existed = !self.policy.wrote(record.created_job) && (record.exists || touched);
        let created_job = if existed { record.created_job } else { self.policy.job };
        let mut decision = self.contribute(Some(&record), true, contributions.clone(), existed, incoming);
        if decision.outcomes.iter().all(|(outcome, _)| *outcome == Outcome::Failed) {
            return decision;
        }
        let mut content = match decision.write.take() {
            Some((_, RecordChange::Put(content))) => content,
            // no contribution changed: write those that can be read again
            _ => Box::new(self.content(Some(&record), created_job, self.golden_record(Some(&record), &contributions), &contributions)),
        };
        // damaged columns must be written, even if their values seem unchanged
        content.indexes_unchanged = false;
        let change = RecordChange::Put(content);
        self.keep_new_values(Some(&record), &change, &mut decision);
        decision.reevaluates_tags = self.collection.tag_document().is_some();
        decision.write = Some((Some(record.version), change));
        let lost = if lost { ", now its only contribution; import the other sources' documents again" } else { "" };
        decision.repaired = Some(format!("the stored record was damaged ({reason}), and was written again from this document{lost}"));
        decision
    }
}

/// A repaired record: everything that counts is known again.
struct RepairedRecord {
    record: StoredRecord,
    contributions: Vec<Contribution>,
    /// Whether its former contributors are unknown.
    lost: bool,
}

/// Repairs a damaged record with what documents contain, or returns the advice what to do if that is not enough.
fn repaired_record(collection: &Collection, stored: &StoredRecord, incoming: &[NumberedContribution]) -> std::result::Result<RepairedRecord, String> {
    let is_damaged = |wanted: RecordPart| stored.damage.iter().any(|damage| damage.part == wanted);
    let is_readable = !is_damaged(RecordPart::Row) && !is_damaged(RecordPart::State);
    if !is_readable {
        return Err("no document contains this; restore a backup of the store".into());
    }
    let mut record = StoredRecord { damage: Vec::new(), ..stored.clone() };
    let raw = stored.raw.as_deref().unwrap_or_default();
    let read = |golden: &[Value]| record::unpack_reporting_damage(&stored.contributions, collection, golden, Some(raw));
    let broken: Vec<FieldId> =
        stored.damage.iter().filter_map(|damage| if let RecordPart::Golden(field) = damage.part { Some(field) } else { None }).collect();
    // contributions that refer to a damaged golden value are those that change if it is replaced
    let mut marked = stored.golden.clone();
    broken.iter().for_each(|field| marked[*field] = Value::text("\u{0}"));
    let (Ok(plain), Ok(marked), false) = (read(&stored.golden), read(&marked), is_damaged(RecordPart::Contributions)) else {
        return Ok(RepairedRecord::from_nothing(record));
    };
    let mut missing: Vec<String> = Vec::new();
    for field in broken {
        let needs = || {
            plain
                .contributions
                .iter()
                .zip(&marked.contributions)
                .filter(|(plain, marked)| value_of(plain, field) != value_of(marked, field))
                .map(|(plain, _)| plain)
        };
        let redelivered = needs().find_map(|contribution| incoming_version_of(contribution, incoming));
        if let Some(ContributionContent::Values(values)) = redelivered.map(|new| &new.content) {
            record.golden[field] = values.get(field.index()).cloned().unwrap_or_default();
            continue;
        }
        let is_replaced = |contribution: &Contribution| {
            let before = contribution.previous();
            incoming.iter().any(|new| new.contribution.contributor == contribution.contributor && new.supersedes(&before))
        };
        missing.extend(needs().filter(|contribution| !is_replaced(contribution)).map(|contribution| contribution.contributor.to_string()));
    }
    if !missing.is_empty() {
        missing.sort();
        missing.dedup();
        return Err(format!("import again the document that contains `{}`, or a newer version of it", missing.join("`, `")));
    }
    let found = read(&record.golden).map_err(|damaged| damaged.0.to_owned())?;
    let is_of = |contribution: &Contribution, new: &NumberedContribution| new.contribution.contributor == contribution.contributor;
    if let [contribution] = &found.contributions[..]
        && (found.golden_is_damaged || !found.damaged.is_empty())
        && incoming.iter().all(|new| is_of(contribution, new))
    {
        // there is no other contributor whose values could be lost
        return Ok(RepairedRecord::from_nothing(record));
    }
    if found.golden_is_damaged {
        record.golden = repaired_golden(collection, &found, incoming, &record.golden, &read)?;
    }
    let mut contributions = read(&record.golden).map_err(|damaged| damaged.0.to_owned())?.contributions;
    for position in found.damaged.iter().rev() {
        // a document of the same contributor replaces it
        let contribution = contributions.remove(*position);
        if !incoming.iter().any(|new| is_of(&contribution, new)) {
            return Err(format!("import again the document that contains `{}`, or a newer version of it", contribution.contributor));
        }
    }
    Ok(RepairedRecord { record, contributions, lost: false })
}

/// The golden values of a record of which some are damaged, with values from documents in their place, if that makes the checksum
/// right.
fn repaired_golden(
    collection: &Collection,
    found: &UnpackedContributions,
    incoming: &[NumberedContribution],
    golden: &[Value],
    read: &dyn Fn(&[Value]) -> std::result::Result<UnpackedContributions, DecodeError>,
) -> std::result::Result<Vec<Value>, String> {
    for (position, contribution) in found.contributions.iter().enumerate() {
        let Some(ContributionContent::Values(values)) = incoming_version_of(contribution, incoming).map(|new| &new.content) else { continue };
        let mut candidate = golden.to_vec();
        for (field, value) in collection.fields.ids().zip(values.iter()).filter(|(field, value)| value_of(contribution, *field) != **value) {
            let former = std::mem::replace(&mut candidate[field], value.clone());
            let is_golden = read(&candidate)
                .is_ok_and(|found| found.contributions.get(position).is_some_and(|contribution| value_of(contribution, field) == *value));
            if !is_golden {
                candidate[field] = former;
            }
        }
        if read(&candidate).is_ok_and(|found| !found.golden_is_damaged) {
            return Ok(candidate);
        }
    }
    let names: Vec<&str> = found.contributions.iter().map(|contribution| &*contribution.contributor).collect();
    Err(format!("import the documents from which `{}` were read again: a value of one of them is damaged", names.join("`, `")))
}

/// The value that a contribution has for a field.
fn value_of(contribution: &Contribution, field: FieldId) -> Value {
    match &contribution.content {
        ContributionContent::Values(values) => values.get(field.index()).cloned().unwrap_or_default(),
        ContributionContent::Tombstone => Value::Null,
    }
}

/// The given contribution from which a stored one was made.
fn incoming_version_of<'n>(contribution: &Contribution, incoming: &'n [NumberedContribution]) -> Option<&'n NewContribution> {
    let is_same = |new: &&NumberedContribution| {
        let incoming_contribution = &new.contribution;
        incoming_contribution.contributor == contribution.contributor
            && incoming_contribution.hash == contribution.hash
            && incoming_contribution.as_of == contribution.as_of
            && new.generation == contribution.generation
    };
    incoming.iter().find(is_same).map(|new| &new.contribution)
}

impl RepairedRecord {
    /// A record that is written again from documents alone.
    fn from_nothing(record: StoredRecord) -> Self {
        Self { record: StoredRecord { contributions: Vec::new(), raw: None, ..record }, contributions: Vec::new(), lost: true }
    }
}
