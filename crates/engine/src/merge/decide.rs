//! Decides about the contributions to one record, by what the job does with records that exist and with others.

use super::contribution::NumberedContribution;
use super::merger::RecordMerger;
use super::result::MergeResult;
use crate::content::history::golden_change;
use stook_catalogue::definition::{OnMatched, OnUnmatched};
use stook_catalogue::record::{Contribution, unpack};
use stook_store::StoredRecord;
use stook_store::journal::Outcome;

impl RecordMerger<'_> {
    /// Decides what `statements`, all to one record, mean for it.
    pub fn decide(&self, stored: Option<&StoredRecord>, statements: &[NumberedContribution]) -> MergeResult {
        let old = match stored {
            None => Vec::new(),
            Some(record) => match self.contributions(record) {
                Ok(old) => old,
                Err(reason) => return self.heal(record, statements, &reason),
            },
        };
        let touched = old.iter().any(|contribution| self.policy.wrote(contribution.origin.job));
        // contributions of a deleted record can still be withdrawn: a withdrawal that empties or deletes a record must not hide it from the next one
        let withdraws = self.policy.matched == OnMatched::Withdraw;
        let existed = stored.is_some_and(|record| !self.policy.wrote(record.created_job) && (record.exists || touched || withdraws));
        let all = |outcome: Outcome, reason: Option<&str>| MergeResult {
            outcomes: statements.iter().map(|_| (outcome, reason.map(str::to_owned))).collect(),
            ..MergeResult::default()
        };
        match (existed, self.policy.matched, self.policy.unmatched) {
            (true, OnMatched::Skip, _) | (false, _, OnUnmatched::Skip) => return all(Outcome::Skipped, None),
            (true, OnMatched::Fail, _) => return all(Outcome::Failed, Some("a record with this key existed before")),
            (false, _, OnUnmatched::Fail) => return all(Outcome::Failed, Some("there is no record with this key")),
            (true, OnMatched::Withdraw, _) => return self.withdraw(stored, old, statements),
            _ => {}
        }
        self.contribute(stored, false, old, existed, statements)
    }

    /// The contributions of a record, or the reason why they cannot all be read.
    fn contributions(&self, record: &StoredRecord) -> std::result::Result<Vec<Contribution>, String> {
        if let Some(reason) = record.reason() {
            return Err(reason);
        }
        let raw = record.raw.as_deref().unwrap_or_default();
        unpack(&record.contributions, self.collection, &record.golden, Some(raw)).map_err(|damaged| damaged.0.to_owned())
    }

    fn withdraw(&self, stored: Option<&StoredRecord>, mut old: Vec<Contribution>, statements: &[NumberedContribution]) -> MergeResult {
        let mut decision = MergeResult::default();
        let (count, before) = (old.len(), old.clone());
        for own in statements {
            let before = old.len();
            old.retain(|contribution| contribution.contributor != own.contribution.contributor);
            let outcome = if old.len() < before { Outcome::Withdrawn } else { Outcome::Skipped };
            decision.outcomes.push((outcome, None));
        }
        if old.len() == count {
            return decision;
        }
        if let Some(record) = stored {
            self.documents(stored, &before, &old, &[], &mut decision);
            let change = self.without(record, old);
            decision.logged = golden_change(self.collection, stored, &change);
            self.remember(stored, &change, &mut decision);
            decision.write = Some((Some(record.version), change));
        }
        decision
    }
}
