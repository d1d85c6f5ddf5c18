//! Keeps the newest contribution of each contributor, and gives each document the outcome that follows.

use super::contribution::NumberedContribution;
use super::former;
use super::merger::{RecordMerger, sorted};
use super::result::{ChangedOutcome, MergeResult};
use super::superseded::{Successor, existence_reason, replaced_by};
use crate::content::history::golden_change;
use std::collections::HashMap;
use stook_catalogue::parts::prune;
use stook_catalogue::record::{Contribution, ContributionContent, MAX_CONTRIBUTORS, PreviousContribution, Retirement, keep_newest, pack};
use stook_store::former::FormerChange;
use stook_store::journal::Outcome;
use stook_store::{RecordChange, StoredRecord};

impl RecordMerger<'_> {
    /// Decides about a record that the job updates or creates. A record that was damaged is written even if nothing changes.
    pub(super) fn contribute(
        &self,
        stored: Option<&StoredRecord>,
        was_damaged: bool,
        stored_contributions: Vec<Contribution>,
        existed: bool,
        incoming: &[NumberedContribution],
    ) -> MergeResult {
        let job = self.policy.job;
        let was_alive = stored.is_some_and(|record| record.exists);
        let mut decision = MergeResult { outcomes: vec![(Outcome::Superseded, None); incoming.len()], ..MergeResult::default() };
        // (the contribution that wins, what the contributor had stored before the job), for each contributor that changes
        let mut winners: Vec<(usize, Option<PreviousContribution>)> = Vec::new();
        let mut changed: Vec<Contribution> = Vec::new();
        let mut is_replaced = vec![false; stored_contributions.len()];
        for positions in by_contributor(incoming) {
            let contributor = &incoming[positions[0]].contribution.contributor;
            let stored_position = stored_contributions.binary_search_by(|contribution| contribution.contributor.cmp(contributor)).ok();
            let current = stored_position.map(|stored_position| &stored_contributions[stored_position]);
            let in_job = current.filter(|contribution| self.policy.wrote(contribution.origin.job));
            let before = match (in_job, current) {
                (Some(in_job), _) => in_job.before,
                (None, current) => current.map(Contribution::previous),
            };
            let mut best: Option<usize> = None;
            for position in positions.iter().copied() {
                if let Some(before) = before.filter(|before| !incoming[position].supersedes(before)) {
                    let is_equal = before.hash == incoming[position].contribution.hash;
                    decision.outcomes[position].0 = if is_equal { Outcome::Unchanged } else { Outcome::Superseded };
                    continue;
                }
                if best.is_none_or(|best| incoming[best].age() < incoming[position].age()) {
                    best = Some(position);
                }
            }
            let best = best.filter(|best| in_job.is_none_or(|in_job| in_job.age() < incoming[*best].age()));
            let winner = best.map(|best| Successor::incoming(&incoming[best])).or_else(|| in_job.map(Successor::stored));
            for position in
                positions.iter().copied().filter(|position| best != Some(*position) && decision.outcomes[*position].0 == Outcome::Superseded)
            {
                let stored = before.filter(|before| !incoming[position].supersedes(before)).map(|before| Successor::before(&before));
                let reason = stored.as_ref().or(winner.as_ref()).map(|successor| successor.counts_instead_of(incoming[position].age()));
                decision.instead.extend(reason.map(|reason| (position, reason)));
            }
            self.keep_former(incoming, &positions, best, current, &mut decision);
            // older contributions provide the fields that could not be read in the newest one
            let older =
                |newest: &Contribution| positions.iter().filter(|position| incoming[**position].age() < newest.age()).copied().collect::<Vec<_>>();
            let Some(best) = best else {
                let Some(current) = current.filter(|current| !current.unreadable.is_empty()) else { continue };
                let mut newest = current.clone();
                let taken = older(current)
                    .into_iter()
                    .fold(false, |taken, position| newest.inherit_unreadable(&incoming[position].stored(None, job)) | taken);
                if taken {
                    is_replaced[stored_position.unwrap_or_default()] = true;
                    changed.push(newest);
                }
                continue;
            };
            if let Some(in_job) = in_job {
                // a document of another chunk had won so far
                let former = unless_deleted(outcome(existed, in_job), &in_job.content, was_alive);
                // an embedded document has no outcome of its own in the journal
                if !incoming[best].contribution.embedded {
                    let reason = Successor::incoming(&incoming[best]).counts_instead_of(in_job.age());
                    let document = in_job.origin.document;
                    decision.corrections.push(ChangedOutcome { document, from: former, to: Outcome::Superseded, reason });
                }
            }
            let winner = &incoming[best];
            let mut newest = winner.stored(before, job);
            decision.outcomes[best].0 = outcome(existed, &newest);
            decision.instead.extend(replaced_by(&winner.contribution).map(|reason| (best, reason)));
            if !newest.unreadable.is_empty() {
                for position in older(&newest) {
                    newest.inherit_unreadable(&incoming[position].stored(None, job));
                }
                match current {
                    // the same document, read by another mapping
                    Some(current) if current.age().moment() == newest.age().moment() && current.generation != newest.generation => {
                        newest.inherit_unreadable_of_replaced(current)
                    }
                    Some(current) => newest.inherit_unreadable(current),
                    None => false,
                };
            }
            if let Some(stored_position) = stored_position {
                is_replaced[stored_position] = true;
            }
            winners.push((best, before));
            changed.push(newest);
        }
        if changed.is_empty() {
            self.touch(stored, &mut decision);
            return decision;
        }
        let content_stays = winners.iter().all(|(position, _)| {
            let winner = &incoming[*position];
            let is_same = |former: &Contribution| {
                let is_equal = former.hash == winner.contribution.hash
                    && former.generation == winner.generation
                    && former.counts() != winner.contribution.is_retired();
                former.contributor == winner.contribution.contributor && is_equal
            };
            stored_contributions.iter().zip(&is_replaced).any(|(former, is_replaced)| *is_replaced && is_same(former))
        });
        let mut contributions: Vec<Contribution> = stored_contributions
            .iter()
            .zip(&is_replaced)
            .filter(|(_, is_replaced)| !**is_replaced)
            .map(|(contribution, _)| contribution.clone())
            .collect();
        contributions.append(&mut changed);
        if contributions.len() > MAX_CONTRIBUTORS {
            prune(&self.rules.catalogue, &mut contributions);
        }
        if contributions.len() >= MAX_CONTRIBUTORS {
            let displaced = keep_newest(&mut contributions);
            self.displace(displaced, (existed, was_alive), &mut winners, incoming, &mut decision);
        }
        let created_job = stored.filter(|_| existed).map_or(job, |record| record.created_job);
        let golden = self.golden_record(stored, sorted(&mut contributions));
        self.apply_deletion(&contributions, (existed, was_alive, golden.alive), &winners, incoming, &mut decision);
        self.documents(stored, &stored_contributions, &contributions, incoming, &mut decision);
        // with one contributor the same content gives the same golden values; with several a newer time may choose another
        let is_golden =
            |stored: &StoredRecord| stored.exists == golden.alive && stored.golden[..] == golden.values[..] && stored.conflicts == golden.conflicts;
        // a deleted record is written in full when this job first contributes to it, so that the job's other chunks see that this job created it
        let golden_stays = !was_damaged && content_stays && stored.is_some_and(|stored| stored.created_job == created_job && is_golden(stored));
        let change = if golden_stays {
            RecordChange::Touch { contributions: pack(&contributions, self.collection, &golden.values) }
        } else {
            RecordChange::Put(Box::new(self.content(stored, created_job, golden, &contributions)))
        };
        decision.logged = golden_change(self.collection, stored, &change);
        self.keep_new_values(stored, &change, &mut decision);
        decision.write = Some((stored.map(|record| record.version), change));
        decision.stored = winners.into_iter().map(|(position, _)| position).collect();
        decision
    }

    /// Gives documents the outcome that follows if a newer deletion counts instead of them, or no longer does, and says of deletions what the record
    /// remains for. That depends on all contributions together, so documents that other chunks have stored may change, too.
    fn apply_deletion(
        &self,
        contributions: &[Contribution],
        (existed, was_alive, is_alive): (bool, bool, bool),
        winners: &[(usize, Option<PreviousContribution>)],
        incoming: &[NumberedContribution],
        decision: &mut MergeResult,
    ) {
        let reason = || existence_reason(contributions, is_alive);
        for (position, _) in winners {
            let former = decision.outcomes[*position].0;
            let outcome = unless_deleted(former, &incoming[*position].contribution.content, is_alive);
            decision.outcomes[*position].0 = outcome;
            if outcome != former || is_alive && outcome == Outcome::Deleted {
                decision.instead.insert(*position, reason());
            }
        }
        if is_alive == was_alive {
            return;
        }
        let is_winner = |contribution: &Contribution| {
            winners.iter().any(|(position, _)| incoming[*position].contribution.contributor == contribution.contributor)
        };
        for contribution in contributions.iter().filter(|contribution| self.policy.wrote(contribution.origin.job) && !is_winner(contribution)) {
            let outcome = outcome(existed, contribution);
            let (from, to) = (unless_deleted(outcome, &contribution.content, was_alive), unless_deleted(outcome, &contribution.content, is_alive));
            // an embedded document has no outcome of its own in the journal
            if (from != to || to == Outcome::Deleted) && !self.rules.catalogue.is_embedded(contribution.source()) {
                let is_ineffective = to == if is_alive { Outcome::Deleted } else { Outcome::Superseded };
                let reason = if is_ineffective { reason() } else { String::new() };
                decision.corrections.push(ChangedOutcome { document: contribution.origin.document, from, to, reason });
            }
        }
    }

    /// Gives documents the outcome that follows if a record has too many contributions, so that newer ones displace theirs.
    fn displace(
        &self,
        displaced: Vec<Contribution>,
        (existed, was_alive): (bool, bool),
        winners: &mut Vec<(usize, Option<PreviousContribution>)>,
        incoming: &[NumberedContribution],
        decision: &mut MergeResult,
    ) {
        let reason = format!("the record already has {MAX_CONTRIBUTORS} newer contributions; this one is ignored");
        for contribution in displaced {
            if self.keeps_former(contribution.source()) {
                decision.former.push(FormerChange::Add(former::stored(self.collection, &contribution)));
            }
            let winner = winners.iter().position(|(position, _)| incoming[*position].contribution.contributor == contribution.contributor);
            if let Some(winner) = winner {
                let (position, _) = winners.swap_remove(winner);
                decision.outcomes[position] = (Outcome::Superseded, Some(reason.clone()));
                decision.instead.remove(&position);
            } else if self.policy.wrote(contribution.origin.job) && !self.rules.catalogue.is_embedded(contribution.source()) {
                let former = unless_deleted(outcome(existed, &contribution), &contribution.content, was_alive);
                let (document, reason) = (contribution.origin.document, reason.clone());
                decision.corrections.push(ChangedOutcome { document, from: former, to: Outcome::Superseded, reason });
            }
        }
    }
}

/// The outcome of a document that would create or update a record: superseded if the record is deleted nevertheless, because the deletion is
/// newer.
fn unless_deleted(outcome: Outcome, content: &ContributionContent, is_alive: bool) -> Outcome {
    let is_hidden = !is_alive && matches!(content, ContributionContent::Values(_)) && matches!(outcome, Outcome::Created | Outcome::Updated);
    if is_hidden { Outcome::Superseded } else { outcome }
}

/// Positions of contributions by contributor, in the order of the first one of each.
fn by_contributor(incoming: &[NumberedContribution]) -> Vec<Vec<usize>> {
    if let [_] = incoming {
        return vec![vec![0]];
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut group_of: HashMap<&str, usize> = HashMap::new();
    for (position, numbered) in incoming.iter().enumerate() {
        let group = *group_of.entry(&numbered.contribution.contributor).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(position);
    }
    groups
}

/// The outcome of a contribution that wins.
fn outcome(existed: bool, winner: &Contribution) -> Outcome {
    let is_same = |before: &PreviousContribution| before.hash == winner.hash && before.generation == winner.generation;
    let before = winner.before.filter(|before| !before.retired);
    match winner.content {
        _ if winner.retired == Retirement::OnArrival => Outcome::Superseded,
        ContributionContent::Tombstone if before.is_some_and(|before| before.deletes || is_same(&before)) => Outcome::Unchanged,
        ContributionContent::Tombstone => Outcome::Deleted,
        ContributionContent::Values(_) if !existed => Outcome::Created,
        ContributionContent::Values(_) if before.is_some_and(|before| is_same(&before)) => Outcome::Unchanged,
        ContributionContent::Values(_) => Outcome::Updated,
    }
}
