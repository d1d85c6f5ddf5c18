//! Keeps the newest contribution of each contributor, and gives each document the outcome that follows.

use super::contribution::NumberedContribution;
use super::merger::{RecordMerger, sorted};
use super::result::{ChangedOutcome, MergeResult};
use super::superseded::{Successor, deleted_by, replaced_by};
use crate::content::history::golden_change;
use std::collections::HashMap;
use stook_catalogue::parts::prune;
use stook_catalogue::record::{Contribution, ContributionContent, MAX_CONTRIBUTORS, PreviousContribution, Retirement, keep_newest, pack};
use stook_store::journal::Outcome;
use stook_store::{RecordChange, StoredRecord};

impl RecordMerger<'_> {
    /// Decides about a record that the job updates or creates. A record that was damaged is written even if nothing changes.
    pub(super) fn contribute(
        &self,
        stored: Option<&StoredRecord>,
        was_damaged: bool,
        old: Vec<Contribution>,
        existed: bool,
        statements: &[NumberedContribution],
    ) -> MergeResult {
        let job = self.policy.job;
        let was_alive = stored.is_some_and(|record| record.exists);
        let mut decision = MergeResult { outcomes: vec![(Outcome::Superseded, None); statements.len()], ..MergeResult::default() };
        // (the contribution that wins, what the contributor had stored before the job), for each contributor that changes
        let mut winners: Vec<(usize, Option<PreviousContribution>)> = Vec::new();
        let mut changed: Vec<Contribution> = Vec::new();
        let mut replaced = vec![false; old.len()];
        for own in by_contributor(statements) {
            let contributor = &statements[own[0]].contribution.contributor;
            let place = old.binary_search_by(|contribution| contribution.contributor.cmp(contributor)).ok();
            let present = place.map(|place| &old[place]);
            let in_job = present.filter(|contribution| self.policy.wrote(contribution.origin.job));
            let before = match (in_job, present) {
                (Some(in_job), _) => in_job.before,
                (None, present) => present.map(Contribution::previous),
            };
            let mut best: Option<usize> = None;
            for index in own.iter().copied() {
                if let Some(before) = before.filter(|before| !statements[index].is_beyond(before)) {
                    let same = before.hash == statements[index].contribution.hash;
                    decision.outcomes[index].0 = if same { Outcome::Unchanged } else { Outcome::Superseded };
                    continue;
                }
                if best.is_none_or(|best| statements[best].age() < statements[index].age()) {
                    best = Some(index);
                }
            }
            let best = best.filter(|best| in_job.is_none_or(|in_job| in_job.age() < statements[*best].age()));
            let winner = best.map(|best| Successor::stated(&statements[best])).or_else(|| in_job.map(Successor::stored));
            for index in own.iter().copied().filter(|index| best != Some(*index) && decision.outcomes[*index].0 == Outcome::Superseded) {
                let stored = before.filter(|before| !statements[index].is_beyond(before)).map(|before| Successor::before(&before));
                let reason = stored.as_ref().or(winner.as_ref()).map(|other| other.counts_instead_of(statements[index].age()));
                decision.superseded.extend(reason.map(|reason| (index, reason)));
            }
            // older contributions provide the fields that could not be read in the newest one
            let older = |newest: &Contribution| own.iter().filter(|index| statements[**index].age() < newest.age()).copied().collect::<Vec<_>>();
            let Some(best) = best else {
                let Some(present) = present.filter(|present| !present.unreadable.is_empty()) else { continue };
                let mut newest = present.clone();
                let taken = older(present).into_iter().fold(false, |taken, index| newest.take_over(&statements[index].stored(None, job)) | taken);
                if taken {
                    replaced[place.unwrap_or_default()] = true;
                    changed.push(newest);
                }
                continue;
            };
            if let Some(in_job) = in_job {
                // a document of another chunk had won so far
                let on_arrival = in_job.retired == Retirement::OnArrival;
                let former = seen(outcome(existed, before, in_job.hash, in_job.generation, on_arrival), &in_job.content, was_alive);
                // an embedded document has no outcome of its own in the journal
                if !statements[best].contribution.embedded {
                    let reason = Successor::stated(&statements[best]).counts_instead_of(in_job.age());
                    let document = in_job.origin.document;
                    decision.corrections.push(ChangedOutcome { document, from: former, to: Outcome::Superseded, reason });
                }
            }
            let winner = &statements[best];
            let replacement = winner.contribution.replaced_by;
            decision.outcomes[best].0 = outcome(existed, before, winner.contribution.hash, winner.generation, replacement.is_some());
            decision.superseded.extend(replacement.map(|delivery| (best, replaced_by(delivery))));
            let mut newest = winner.stored(before, job);
            if !newest.unreadable.is_empty() {
                for index in older(&newest) {
                    newest.take_over(&statements[index].stored(None, job));
                }
                match present {
                    // the same document, read by another mapping
                    Some(present) if present.age().moment() == newest.age().moment() && present.generation != newest.generation => {
                        newest.take_over_unread(present)
                    }
                    Some(present) => newest.take_over(present),
                    None => false,
                };
            }
            if let Some(place) = place {
                replaced[place] = true;
            }
            winners.push((best, before));
            changed.push(newest);
        }
        if changed.is_empty() {
            return decision;
        }
        let same_content = winners.iter().all(|(winner, _)| {
            let own = &statements[*winner];
            let same = |old: &Contribution| {
                let equal = old.hash == own.contribution.hash && old.generation == own.generation && old.counts() != own.contribution.is_retired();
                old.contributor == own.contribution.contributor && equal
            };
            old.iter().zip(&replaced).any(|(old, replaced)| *replaced && same(old))
        });
        let mut contributions: Vec<Contribution> =
            old.iter().zip(&replaced).filter(|(_, replaced)| !**replaced).map(|(own, _)| own.clone()).collect();
        contributions.append(&mut changed);
        if contributions.len() > MAX_CONTRIBUTORS {
            prune(&self.rules.catalogue, &mut contributions);
        }
        if contributions.len() >= MAX_CONTRIBUTORS {
            let left_out = keep_newest(&mut contributions);
            self.leave_out(left_out, (existed, was_alive), &mut winners, statements, &mut decision);
        }
        let created_job = stored.filter(|_| existed).map_or(job, |record| record.created_job);
        let golden = self.golden_record(stored, sorted(&mut contributions));
        self.hide(&contributions, (existed, was_alive, golden.alive), &winners, statements, &mut decision);
        self.documents(stored, &old, &contributions, statements, &mut decision);
        // with one contributor the same content gives the same golden values; with several a newer time may choose another
        let is_golden =
            |stored: &StoredRecord| stored.exists == golden.alive && stored.golden[..] == golden.values[..] && stored.conflicts == golden.conflicts;
        // a deleted record is written in full when this job first contributes to it, so that the job's other chunks see that this job created it
        let golden_stays = !was_damaged && same_content && stored.is_some_and(|stored| stored.created_job == created_job && is_golden(stored));
        let change = if golden_stays {
            RecordChange::Touch { contributions: pack(&contributions, self.collection, &golden.values) }
        } else {
            RecordChange::Put(Box::new(self.content(stored, created_job, golden, &contributions)))
        };
        decision.logged = golden_change(self.collection, stored, &change);
        self.remember(stored, &change, &mut decision);
        decision.write = Some((stored.map(|record| record.version), change));
        decision.stored = winners.into_iter().map(|(winner, _)| winner).collect();
        decision
    }

    /// Gives documents the outcome that follows if a newer deletion counts instead of them, or no longer does. That depends on all contributions
    /// together, so documents that other chunks have stored may get another outcome, too.
    fn hide(
        &self,
        contributions: &[Contribution],
        (existed, was_alive, is_alive): (bool, bool, bool),
        winners: &[(usize, Option<PreviousContribution>)],
        statements: &[NumberedContribution],
        decision: &mut MergeResult,
    ) {
        if is_alive && was_alive {
            return;
        }
        let deletions = contributions.iter().filter(|own| own.counts() && own.content == ContributionContent::Tombstone);
        let deletion = deletions.max_by_key(|own| own.age());
        let reason = || deletion.map_or_else(String::new, deleted_by);
        for (winner, _) in winners {
            let former = decision.outcomes[*winner].0;
            decision.outcomes[*winner].0 = seen(former, &statements[*winner].contribution.content, is_alive);
            if decision.outcomes[*winner].0 != former {
                decision.superseded.insert(*winner, reason());
            }
        }
        let is_winner = |own: &Contribution| winners.iter().any(|(winner, _)| statements[*winner].contribution.contributor == own.contributor);
        for own in contributions.iter().filter(|own| self.policy.wrote(own.origin.job) && !is_winner(own)) {
            let outcome = outcome(existed, own.before, own.hash, own.generation, own.retired == Retirement::OnArrival);
            let (from, to) = (seen(outcome, &own.content, was_alive), seen(outcome, &own.content, is_alive));
            // an embedded document has no outcome of its own in the journal
            if from != to && !self.rules.catalogue.is_embedded(own.source()) {
                let reason = if to == Outcome::Superseded { reason() } else { String::new() };
                decision.corrections.push(ChangedOutcome { document: own.origin.document, from, to, reason });
            }
        }
    }

    /// Gives documents the outcome that follows if a record has too many contributions, so that newer ones displace theirs.
    fn leave_out(
        &self,
        left_out: Vec<Contribution>,
        (existed, was_alive): (bool, bool),
        winners: &mut Vec<(usize, Option<PreviousContribution>)>,
        statements: &[NumberedContribution],
        decision: &mut MergeResult,
    ) {
        let reason = format!("the record already has {MAX_CONTRIBUTORS} newer contributions; this one is ignored");
        for own in left_out {
            let winner = winners.iter().position(|(winner, _)| statements[*winner].contribution.contributor == own.contributor);
            if let Some(winner) = winner {
                let (index, _) = winners.swap_remove(winner);
                decision.outcomes[index] = (Outcome::Superseded, Some(reason.clone()));
                decision.superseded.remove(&index);
            } else if self.policy.wrote(own.origin.job) && !self.rules.catalogue.is_embedded(own.source()) {
                let former = outcome(existed, own.before, own.hash, own.generation, own.retired == Retirement::OnArrival);
                let former = seen(former, &own.content, was_alive);
                let (document, reason) = (own.origin.document, reason.clone());
                decision.corrections.push(ChangedOutcome { document, from: former, to: Outcome::Superseded, reason });
            }
        }
    }
}

/// The outcome of a document that would create or update a record: superseded if the record is deleted nevertheless, because the deletion is
/// newer.
fn seen(outcome: Outcome, content: &ContributionContent, is_alive: bool) -> Outcome {
    let is_hidden = !is_alive && matches!(content, ContributionContent::Values(_)) && matches!(outcome, Outcome::Created | Outcome::Updated);
    if is_hidden { Outcome::Superseded } else { outcome }
}

/// Positions of contributions by contributor, in the order of the first one of each.
fn by_contributor(statements: &[NumberedContribution]) -> Vec<Vec<usize>> {
    if let [_] = statements {
        return vec![vec![0]];
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    for (index, own) in statements.iter().enumerate() {
        let group = *known.entry(&own.contribution.contributor).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(index);
    }
    groups
}

/// The outcome of a contribution that wins.
fn outcome(existed: bool, before: Option<PreviousContribution>, hash: [u8; 16], generation: u32, on_arrival: bool) -> Outcome {
    match before {
        _ if on_arrival => Outcome::Superseded,
        _ if !existed => Outcome::Created,
        Some(before) if before.hash == hash && before.generation == generation && !before.retired => Outcome::Unchanged,
        _ => Outcome::Updated,
    }
}
