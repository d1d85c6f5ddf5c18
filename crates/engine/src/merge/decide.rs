//! Decides about the contributions to one record, by what the job does with records that exist and with others.

use super::contribution::NumberedContribution;
use super::merger::RecordMerger;
use super::result::MergeResult;
use crate::content::history::golden_change;
use stook_catalogue::definition::{OnMatched, OnUnmatched};
use stook_catalogue::record::{Contribution, unpack};
use stook_store::StoredRecord;
use stook_store::former::FormerChange;
use stook_store::journal::Outcome;

impl RecordMerger<'_> {
    /// Decides what `incoming`, all to one record, mean for it.
    pub fn decide(&self, stored: Option<&StoredRecord>, incoming: &[NumberedContribution]) -> MergeResult {
        let contributions = match stored {
            None => Vec::new(),
            Some(record) => match self.contributions(record) {
                Ok(contributions) => contributions,
                Err(reason) => return self.repair(record, incoming, &reason),
            },
        };
        let touched = contributions.iter().any(|contribution| self.policy.wrote(contribution.origin.job));
        // contributions of a deleted record can still be withdrawn: a withdrawal that empties or deletes a record must not hide it from the next one
        let withdraws = self.policy.matched == OnMatched::Withdraw;
        let existed = stored.is_some_and(|record| !self.policy.wrote(record.created_job) && (record.exists || touched || withdraws));
        let all = |outcome: Outcome, reason: Option<&str>| MergeResult {
            outcomes: incoming.iter().map(|_| (outcome, reason.map(str::to_owned))).collect(),
            ..MergeResult::default()
        };
        match (existed, self.policy.matched, self.policy.unmatched) {
            (true, OnMatched::Skip, _) | (false, _, OnUnmatched::Skip) => return all(Outcome::Skipped, None),
            (true, OnMatched::Fail, _) => return all(Outcome::Failed, Some("a record with this key existed before")),
            (false, _, OnUnmatched::Fail) => return all(Outcome::Failed, Some("there is no record with this key")),
            (true, OnMatched::Withdraw, _) => return self.withdraw(stored, contributions, incoming),
            _ => {}
        }
        self.contribute(stored, false, contributions, existed, incoming)
    }

    /// The contributions of a record, or the reason why they cannot all be read.
    fn contributions(&self, record: &StoredRecord) -> std::result::Result<Vec<Contribution>, String> {
        if let Some(reason) = record.reason() {
            return Err(reason);
        }
        let raw = record.raw.as_deref().unwrap_or_default();
        unpack(&record.contributions, self.collection, &record.golden, Some(raw)).map_err(|damaged| damaged.0.to_owned())
    }

    fn withdraw(&self, stored: Option<&StoredRecord>, mut contributions: Vec<Contribution>, incoming: &[NumberedContribution]) -> MergeResult {
        let mut decision = MergeResult::default();
        let (count, former) = (contributions.len(), contributions.clone());
        for withdrawn in incoming {
            let count_before = contributions.len();
            contributions.retain(|contribution| contribution.contributor != withdrawn.contribution.contributor);
            if contributions.len() < count_before && self.keeps_former(withdrawn.contribution.contributor.split(':').next().unwrap_or_default()) {
                decision.former.push(FormerChange::RemoveAll(withdrawn.contribution.contributor.clone()));
            }
            let outcome = if contributions.len() < count_before { Outcome::Withdrawn } else { Outcome::Skipped };
            decision.outcomes.push((outcome, None));
        }
        if contributions.len() == count {
            return decision;
        }
        if let Some(record) = stored {
            self.documents(stored, &former, &contributions, &[], &mut decision);
            let change = self.without(record, contributions);
            decision.logged = golden_change(self.collection, stored, &change);
            self.keep_new_values(stored, &change, &mut decision);
            decision.write = Some((Some(record.version), change));
        }
        decision
    }
}
