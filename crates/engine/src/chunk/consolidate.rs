//! Statements to records: what is written, and what became of each document.
//!
//! Of what one contributor says of one record the newest `(as_of, hash)` stays. Outcomes are a function of what was stored
//! before the job and of the job's documents, never of the order in which its chunks are committed: a contribution
//! remembers what it replaced ([`PreviousContribution`]), and an outcome another chunk has journalled is corrected when a newer document
//! of the job comes later.

use super::map::NewContribution;
use crate::deliver::NO_JOB;
use crate::settle::{ChangeCause, Propagation, SettleRules, ValueChange, carry_settled};
use crate::tags::document::{self, DocumentChanges};
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;
use std::sync::Arc;
use stook_catalogue::definition::{Collection, OnMatched, OnUnmatched};
use stook_catalogue::expr::Evaluator;
use stook_catalogue::golden::GoldenValues;
use stook_catalogue::key::Key;
use stook_catalogue::parts::prune;
use stook_catalogue::record::{
    self, Contribution, ContributionContent, ContributionOrigin, DecodeError, MAX_CONTRIBUTORS, PreviousContribution, Retirement,
    UnpackedContributions, UnreadableField, keep_newest, pack, pack_raw, unpack,
};
use stook_catalogue::survivorship::{Consolidator, GoldenRecord};
use stook_catalogue::value::{Value, among};
use stook_store::damage::RecordPart;
use stook_store::journal::Outcome;
use stook_store::queue::JobId;
use stook_store::{RecordChange, RecordContent, StoredRecord, Version};

/// What an import does with documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportPolicy {
    /// The job; 0 for none: then nothing that was written before is its own.
    pub job: JobId,
    /// For records that existed before it.
    pub matched: OnMatched,
    /// For the others.
    pub unmatched: OnUnmatched,
}

impl ImportPolicy {
    /// Whether what this job has written is what is asked about.
    fn wrote(&self, job: JobId) -> bool {
        self.job != NO_JOB && self.job == job
    }
}

/// A statement with its document's number and the number of the map that made it.
#[derive(Debug, Clone)]
pub struct NumberedContribution {
    /// Number of the document inside the job.
    pub document: u64,
    /// The store's number for the map.
    pub generation: u32,
    /// What it says.
    pub statement: NewContribution,
}

/// What follows for one record.
#[derive(Debug, Default)]
pub struct MergeResult {
    /// What to write, and the version it is based on.
    pub write: Option<(Option<Version>, RecordChange)>,
    /// The outcome of each statement, in their order, and why where it failed.
    pub outcomes: Vec<(Outcome, Option<String>)>,
    /// Documents of other chunks whose outcome changed: document, from, to.
    pub corrections: Vec<(u64, Outcome, Outcome)>,
    /// What is logged of the record's golden fields.
    pub logged: Option<Json>,
    /// What the record was, where others are told of it and it existed.
    pub before: Option<Vec<Value>>,
    /// What it is with the change, where others are told of it and it exists.
    pub after: Option<Arc<[Value]>>,
    /// Whether its settled values are known to be what they must be.
    pub settled: bool,
    /// Statements that are stored, by their places.
    pub stored: Vec<usize>,
    /// Changes of documents that tags are asked of.
    pub documents: DocumentChanges,
    /// Whether who carries what may follow from the change.
    pub reevaluates_tags: bool,
    /// What the change tells other records; known when all records of the chunk are decided.
    pub propagation: Propagation,
    /// What was wrong with the stored record, if the change heals it.
    pub repaired: Option<String>,
    /// Expressions that failed on the record: it is what it is without their values.
    pub failures: Vec<String>,
}

impl MergeResult {
    /// Takes over what the evaluator has noted.
    pub fn take_failures(&mut self, evaluator: &Evaluator) {
        self.add_failures(evaluator.failures());
    }

    /// Adds failures that are not known yet.
    pub fn add_failures(&mut self, failures: Vec<String>) {
        for failure in failures {
            if !self.failures.contains(&failure) {
                self.failures.push(failure);
            }
        }
    }
}

/// Decides about records of one collection. One per thread.
pub struct RecordMerger<'c> {
    collection: &'c Collection,
    consolidator: &'c Consolidator<'c>,
    evaluator: &'c Evaluator,
    policy: ImportPolicy,
    rules: &'c SettleRules,
    index: usize,
}

impl<'c> RecordMerger<'c> {
    /// A decider for the collection with this index, and a policy.
    pub fn new(rules: &'c SettleRules, index: usize, consolidator: &'c Consolidator<'c>, evaluator: &'c Evaluator, policy: ImportPolicy) -> Self {
        Self { collection: &rules.catalogue.collections[index], consolidator, evaluator, policy, rules, index }
    }

    /// What other records are told of a change.
    pub fn follow(&self, key: &Key, stored: Option<&StoredRecord>, change: &RecordChange) -> Propagation {
        let mut followed = Propagation::default();
        let after = match change {
            RecordChange::Put(content) => content.exists.then_some(&content.golden[..]),
            RecordChange::Delete => None,
            RecordChange::Touch { .. } | RecordChange::State { .. } | RecordChange::Settle(_) => return followed,
        };
        let before = stored.filter(|record| record.alive).map(|record| &record.golden[..]);
        let changed = ValueChange { collection: self.index, key, before, after, job: self.policy.job, by: ChangeCause::External };
        followed.follow(self.rules, self.evaluator, &changed);
        followed
    }

    /// Remembers what a record is, for those who are told; what it was is known to whoever has read it.
    fn remember(&self, stored: Option<&StoredRecord>, change: &RecordChange, decision: &mut MergeResult) {
        if !self.rules.concern(self.index) {
            return;
        }
        decision.after = match change {
            RecordChange::Put(content) => content.exists.then(|| content.golden.clone()),
            RecordChange::Delete => None,
            RecordChange::Touch { .. } | RecordChange::State { .. } | RecordChange::Settle(_) => {
                stored.filter(|record| record.alive).map(|record| record.golden.iter().cloned().collect())
            }
        };
    }

    /// Notes which documents of a record change with its contributions, where tags are asked of them.
    fn documents(
        &self,
        stored: Option<&StoredRecord>,
        before: &[Contribution],
        after: &[Contribution],
        said: &[NumberedContribution],
        decision: &mut MergeResult,
    ) {
        let Some(document) = self.collection.tag_document() else { return };
        let known = |own: &Contribution| {
            let same = |own: &Contribution, other: &NewContribution| own.contributor == other.contributor && own.hash == other.hash;
            said.iter().map(|other| &other.statement).find(|other| same(own, other))?.tree.clone()
        };
        decision.documents = document::changes(&self.rules.catalogue, document, before, after, known);
        decision.reevaluates_tags = stored.is_none() || !decision.documents.is_empty();
    }

    /// What contributions add up to, with what settling has found so far.
    fn survive(&self, stored: Option<&StoredRecord>, contributions: &[Contribution]) -> GoldenRecord {
        let mut golden = self.consolidator.survive(contributions);
        if let Some(record) = stored.filter(|record| !record.golden.is_empty()) {
            carry_settled(self.collection, &record.golden, &mut golden.values);
        }
        golden
    }

    /// Decides what `statements`, all of one record, mean for it.
    pub fn decide(&self, stored: Option<&StoredRecord>, statements: &[NumberedContribution]) -> MergeResult {
        let old = match stored {
            None => Vec::new(),
            Some(record) => match self.contributions(record) {
                Ok(old) => old,
                Err(reason) => return self.heal(record, statements, &reason),
            },
        };
        let touched = old.iter().any(|contribution| self.policy.wrote(contribution.origin.job));
        // what was deleted can be withdrawn still: a withdrawal that empties or ends a record must not hide it from the next
        let withdraws = self.policy.matched == OnMatched::Withdraw;
        let existed = stored.is_some_and(|record| !self.policy.wrote(record.created_job) && (record.alive || touched || withdraws));
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

    /// The contributions of a record; what is wrong with it where not all of it can be read.
    fn contributions(&self, record: &StoredRecord) -> std::result::Result<Vec<Contribution>, String> {
        if let Some(reason) = record.reason() {
            return Err(reason);
        }
        let raw = record.raw.as_deref().unwrap_or_default();
        unpack(&record.contributions, self.collection, &record.golden, Some(raw)).map_err(|damaged| damaged.0.to_owned())
    }

    /// Decides about a record that cannot be read: it is written again where documents say what cannot be read of it, and what others have
    /// said of it is not lost with that; else the documents fail, and nothing is written.
    fn heal(&self, record: &StoredRecord, statements: &[NumberedContribution], reason: &str) -> MergeResult {
        let fail = |advice: &str| {
            let name = &self.collection.name;
            let reason = format!("record {:?} of `{name}` is damaged in the store: {reason}; {advice}", record.key.as_str());
            MergeResult { outcomes: statements.iter().map(|_| (Outcome::Failed, Some(reason.clone()))).collect(), ..MergeResult::default() }
        };
        if self.policy.matched != OnMatched::Update {
            return fail("import its documents with a profile that updates existing records");
        }
        let RepairedRecord { record, contributions, lost } = match healed(self.collection, record, statements) {
            Ok(healed) => healed,
            Err(advice) => return fail(&advice),
        };
        let touched = contributions.iter().any(|contribution| self.policy.wrote(contribution.origin.job));
        let existed = !self.policy.wrote(record.created_job) && (record.alive || touched);
        let created_job = if existed { record.created_job } else { self.policy.job };
        let mut decision = self.contribute(Some(&record), true, contributions.clone(), existed, statements);
        if decision.outcomes.iter().all(|(outcome, _)| *outcome == Outcome::Failed) {
            return decision;
        }
        let mut content = match decision.write.take() {
            Some((_, RecordChange::Put(content))) => content,
            // nothing new is said: what was said is written again
            _ => Box::new(self.content(Some(&record), created_job, self.survive(Some(&record), &contributions), &contributions)),
        };
        // every column is written
        content.indexes_unchanged = false;
        let change = RecordChange::Put(content);
        self.remember(Some(&record), &change, &mut decision);
        decision.reevaluates_tags = self.collection.tag_document().is_some();
        decision.write = Some((Some(record.version), change));
        let lost = if lost { ", now its only contribution; import the other sources' documents again" } else { "" };
        decision.repaired = Some(format!("the stored record was damaged ({reason}), and was written again from this document{lost}"));
        decision
    }

    /// Decides about a record that is changed; one that was damaged is written whatever comes of it.
    fn contribute(
        &self,
        stored: Option<&StoredRecord>,
        was_damaged: bool,
        old: Vec<Contribution>,
        existed: bool,
        statements: &[NumberedContribution],
    ) -> MergeResult {
        let job = self.policy.job;
        let mut decision = MergeResult { outcomes: vec![(Outcome::Superseded, None); statements.len()], ..MergeResult::default() };
        // (statement that wins, what the contributor had said before the job), per contributor that changes
        let mut winners: Vec<(usize, Option<PreviousContribution>)> = Vec::new();
        let mut changed: Vec<Contribution> = Vec::new();
        let mut replaced = vec![false; old.len()];
        for own in by_contributor(statements) {
            let contributor = &statements[own[0]].statement.contributor;
            let place = old.binary_search_by(|contribution| contribution.contributor.cmp(contributor)).ok();
            let present = place.map(|place| &old[place]);
            let in_job = present.filter(|contribution| self.policy.wrote(contribution.origin.job));
            let before = match (in_job, present) {
                (Some(in_job), _) => in_job.before,
                (None, Some(present)) => {
                    let Contribution { as_of, hash, generation, .. } = *present;
                    Some(PreviousContribution { as_of, hash, generation, retired: !present.is_heard() })
                }
                (None, None) => None,
            };
            let mut best: Option<usize> = None;
            for index in own.iter().copied() {
                if let Some(before) = before.filter(|before| !is_beyond(&statements[index], before)) {
                    let same = before.hash == statements[index].statement.hash;
                    decision.outcomes[index].0 = if same { Outcome::Unchanged } else { Outcome::Superseded };
                    continue;
                }
                if best.is_none_or(|best| age(&statements[best]) < age(&statements[index])) {
                    best = Some(index);
                }
            }
            let best = best.filter(|best| in_job.is_none_or(|in_job| in_job.age() < age(&statements[*best])));
            // what older statements say of fields that the newest one could not be read in
            let older = |newest: &Contribution| own.iter().filter(|index| age(&statements[**index]) < newest.age()).copied().collect::<Vec<_>>();
            let Some(best) = best else {
                let Some(present) = present.filter(|present| !present.unread.is_empty()) else { continue };
                let mut newest = present.clone();
                let taken =
                    older(present).into_iter().fold(false, |taken, index| newest.take_over(&contribution(&statements[index], None, job)) | taken);
                if taken {
                    replaced[place.unwrap_or_default()] = true;
                    changed.push(newest);
                }
                continue;
            };
            if let Some(in_job) = in_job {
                // a document of another chunk had won so far
                let on_arrival = in_job.retired == Retirement::OnArrival;
                let former = outcome(existed, before, in_job.hash, in_job.generation, on_arrival);
                // the journal tells of the document around it
                if !statements[best].statement.embedded {
                    decision.corrections.push((in_job.origin.document, former, Outcome::Superseded));
                }
            }
            let winner = &statements[best];
            decision.outcomes[best].0 = outcome(existed, before, winner.statement.hash, winner.generation, winner.statement.retired);
            let mut newest = contribution(winner, before, job);
            if !newest.unread.is_empty() {
                for index in older(&newest) {
                    newest.take_over(&contribution(&statements[index], None, job));
                }
                match present {
                    // another map read the same document
                    Some(present) if present.as_of == newest.as_of && present.generation != newest.generation => newest.take_over_unread(present),
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
                let equal = old.hash == own.statement.hash && old.generation == own.generation && old.is_heard() != own.statement.retired;
                old.contributor == own.statement.contributor && equal
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
            self.leave_out(left_out, existed, &mut winners, statements, &mut decision);
        }
        let created_job = stored.filter(|_| existed).map_or(job, |record| record.created_job);
        let golden = self.survive(stored, sorted(&mut contributions));
        self.documents(stored, &old, &contributions, statements, &mut decision);
        // with one contributor the same content gives the same golden values; with several a newer time may choose another
        let is_golden =
            |stored: &StoredRecord| stored.alive == golden.alive && stored.golden[..] == golden.values[..] && stored.conflicts == golden.conflicts;
        // a deleted record of which this job speaks first is written whole: the job's other chunks must see whose it is now
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

    /// Says of contributions that a full record leaves out what became of their documents: newer ones have taken their places.
    fn leave_out(
        &self,
        left_out: Vec<Contribution>,
        existed: bool,
        winners: &mut Vec<(usize, Option<PreviousContribution>)>,
        statements: &[NumberedContribution],
        decision: &mut MergeResult,
    ) {
        for own in left_out {
            let winner = winners.iter().position(|(winner, _)| statements[*winner].statement.contributor == own.contributor);
            if let Some(winner) = winner {
                let (index, _) = winners.swap_remove(winner);
                let reason = format!("the record already has {MAX_CONTRIBUTORS} newer contributions; this one is ignored");
                decision.outcomes[index] = (Outcome::Superseded, Some(reason));
            } else if self.policy.wrote(own.origin.job) && !self.rules.catalogue.is_embedded(own.source()) {
                let former = outcome(existed, own.before, own.hash, own.generation, own.retired == Retirement::OnArrival);
                decision.corrections.push((own.origin.document, former, Outcome::Superseded));
            }
        }
    }

    /// The change that retires, of the contributions of a record, what contributors said at a time, or hears it again; nothing where they
    /// have said other things since.
    pub fn restate(
        &self,
        record: &StoredRecord,
        mut contributions: Vec<Contribution>,
        said: &[(&str, i64)],
        retired: Retirement,
    ) -> Option<RecordChange> {
        let mut changed = false;
        let differs = |own: &Contribution| own.is_heard() != (retired == Retirement::Live);
        for contribution in contributions.iter_mut().filter(|own| differs(own)) {
            if said.iter().any(|(contributor, as_of)| *contributor == &*contribution.contributor && *as_of == contribution.as_of) {
                contribution.retired = retired;
                changed = true;
            }
        }
        if !changed {
            return None;
        }
        let golden = self.survive(Some(record), &contributions);
        Some(RecordChange::Put(Box::new(self.content(Some(record), record.created_job, golden, &contributions))))
    }

    fn withdraw(&self, stored: Option<&StoredRecord>, mut old: Vec<Contribution>, statements: &[NumberedContribution]) -> MergeResult {
        let mut decision = MergeResult::default();
        let (count, before) = (old.len(), old.clone());
        for own in statements {
            let before = old.len();
            old.retain(|contribution| contribution.contributor != own.statement.contributor);
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

    /// The change that leaves a record with `contributions`. A record without any goes, unless transitions have set state.
    pub fn without(&self, record: &StoredRecord, mut contributions: Vec<Contribution>) -> RecordChange {
        if contributions.is_empty() && record.state_set.is_empty() {
            return RecordChange::Delete;
        }
        let golden = self.survive(Some(record), sorted(&mut contributions));
        RecordChange::Put(Box::new(self.content(Some(record), record.created_job, golden, &contributions)))
    }

    /// The content of a record with these contributions, in the order they are stored.
    pub fn content(&self, stored: Option<&StoredRecord>, created_job: JobId, golden: GoldenRecord, contributions: &[Contribution]) -> RecordContent {
        let state_set = stored.map(|record| record.state_set.clone()).unwrap_or_default();
        let state = effective_state(self.collection, self.evaluator, &golden.values, &state_set);
        let known = stored.filter(|record| record.alive && golden.alive && !record.golden.is_empty());
        let stays = |record: &StoredRecord| record.state == state && indexed_stay(self.collection, &record.golden, &golden.values);
        let indexed_stay = known.is_some_and(stays);
        RecordContent {
            created_job,
            exists: golden.alive,
            state,
            state_set,
            conflicts: golden.conflicts,
            contributions: pack(contributions, self.collection, &golden.values),
            raw: pack_raw(contributions),
            golden: golden.values,
            indexes_unchanged: indexed_stay,
        }
    }
}

/// Whether values that are indexed or unique are what they were.
pub fn indexed_stay(collection: &Collection, before: &[Value], after: &[Value]) -> bool {
    let mut fields = collection.fields.iter().zip(before).zip(after);
    fields.all(|((field, before), after)| before == after || (field.index == Default::default() && !field.unique))
}

/// What is logged of a change of a record's golden fields, if its collection asks for it: the fields that differ, before and
/// after, null where there was no record. A record that was never there before is not logged.
pub fn golden_change(collection: &Collection, stored: Option<&StoredRecord>, change: &RecordChange) -> Option<Json> {
    let (_, stored) = collection.history.zip(stored)?;
    let after = match change {
        RecordChange::Put(content) => content.exists.then_some(&*content.golden),
        RecordChange::Delete => None,
        RecordChange::Touch { .. } | RecordChange::State { .. } | RecordChange::Settle(_) => return None,
    };
    let before = stored.alive.then_some(&*stored.golden);
    let differs = |index: usize| before.map(|values| &values[index]) != after.map(|values| &values[index]);
    let shown = |values: &[Value]| -> Json {
        let both = before.is_some() && after.is_some();
        let fields = collection.shown_fields().filter(|(index, _)| if both { differs(*index) } else { !values[*index].is_null() });
        fields.map(|(index, field)| (field.name.clone(), values[index].to_json(field.golden_type()))).collect::<Map<_, _>>().into()
    };
    let changed = (before.is_some() || after.is_some()) && (0..collection.fields.len()).any(differs);
    changed.then(|| json!({ "before": before.map(shown), "after": after.map(shown) }))
}

/// State values: what transitions set, else the seeds.
pub fn effective_state(collection: &Collection, evaluator: &Evaluator, golden: &[Value], set: &[(usize, Value)]) -> Vec<Value> {
    let seed = |index: usize| {
        let state = &collection.states[index];
        let seed = state.initial.as_ref()?;
        let found = evaluator.value(seed, &state.ty, &GoldenValues::new(collection, golden));
        let found = found.and_then(|value| among(value, &state.ty, &state.one_of));
        found.map_err(|error| evaluator.note(&format!("state field `{}`", state.name), seed, &error)).ok()
    };
    let value = |index: usize| match set.iter().find(|(set, _)| *set == index) {
        Some((_, value)) => value.clone(),
        None => seed(index).unwrap_or_default(),
    };
    (0..collection.states.len()).map(value).collect()
}

/// A record of which everything that counts is known again.
struct RepairedRecord {
    record: StoredRecord,
    contributions: Vec<Contribution>,
    /// Whether it is not known who had said something of it.
    lost: bool,
}

/// What is known of a damaged record with what documents say again; what can be done where that is not enough.
fn healed(collection: &Collection, stored: &StoredRecord, statements: &[NumberedContribution]) -> std::result::Result<RepairedRecord, String> {
    let is = |wanted: RecordPart| stored.damage.iter().any(|damage| damage.part == wanted);
    let is_readable = !is(RecordPart::Row) && !is(RecordPart::State);
    if !is_readable {
        return Err("no document contains this; restore a backup of the store".into());
    }
    let mut record = StoredRecord { damage: Vec::new(), ..stored.clone() };
    let raw = stored.raw.as_deref().unwrap_or_default();
    let read = |golden: &[Value]| record::find(&stored.contributions, collection, golden, Some(raw));
    let broken: Vec<usize> =
        stored.damage.iter().filter_map(|damage| if let RecordPart::Golden(field) = damage.part { Some(field) } else { None }).collect();
    // who has said what cannot be read differs with what is put in its place
    let mut marked = stored.golden.clone();
    broken.iter().for_each(|field| marked[*field] = Value::text("\u{0}"));
    let (Ok(plain), Ok(marked), false) = (read(&stored.golden), read(&marked), is(RecordPart::Contributions)) else {
        return Ok(RepairedRecord::from_nothing(record));
    };
    let mut missing: Vec<String> = Vec::new();
    for field in broken {
        let needs = || {
            plain
                .contributions
                .iter()
                .zip(&marked.contributions)
                .filter(|(plain, marked)| said(plain, field) != said(marked, field))
                .map(|(plain, _)| plain)
        };
        let said_again = needs().find_map(|own| said_by(own, statements));
        if let Some(ContributionContent::Values(values)) = said_again.map(|new| &new.content) {
            record.golden[field] = values.get(field).cloned().unwrap_or_default();
            continue;
        }
        let is_replaced = |own: &Contribution| {
            let Contribution { as_of, hash, generation, .. } = *own;
            let before = PreviousContribution { as_of, hash, generation, retired: !own.is_heard() };
            statements.iter().any(|new| new.statement.contributor == own.contributor && is_beyond(new, &before))
        };
        missing.extend(needs().filter(|own| !is_replaced(own)).map(|own| own.contributor.to_string()));
    }
    if !missing.is_empty() {
        missing.sort();
        missing.dedup();
        return Err(format!("import again the document that contains `{}`, or a newer version of it", missing.join("`, `")));
    }
    let found = read(&record.golden).map_err(|damaged| damaged.0.to_owned())?;
    let is_of = |own: &Contribution, new: &NumberedContribution| new.statement.contributor == own.contributor;
    if let [own] = &found.contributions[..]
        && (found.golden_is_damaged || !found.damaged.is_empty())
        && statements.iter().all(|new| is_of(own, new))
    {
        // nobody else has said anything of it
        return Ok(RepairedRecord::from_nothing(record));
    }
    if found.golden_is_damaged {
        record.golden = said_again(&found, statements, &record.golden, &read)?;
    }
    let mut contributions = read(&record.golden).map_err(|damaged| damaged.0.to_owned())?.contributions;
    for place in found.damaged.iter().rev() {
        // its own document says it again
        let own = contributions.remove(*place);
        if !statements.iter().any(|new| is_of(&own, new)) {
            return Err(format!("import again the document that contains `{}`, or a newer version of it", own.contributor));
        }
    }
    Ok(RepairedRecord { record, contributions, lost: false })
}

/// The golden values of a record of which some are not what was written, with what documents say again in their place, if that makes
/// them what was written.
fn said_again(
    found: &UnpackedContributions,
    statements: &[NumberedContribution],
    golden: &[Value],
    read: &dyn Fn(&[Value]) -> std::result::Result<UnpackedContributions, DecodeError>,
) -> std::result::Result<Vec<Value>, String> {
    for (place, own) in found.contributions.iter().enumerate() {
        let Some(ContributionContent::Values(values)) = said_by(own, statements).map(|new| &new.content) else { continue };
        let mut again = golden.to_vec();
        for (field, value) in values.iter().enumerate().filter(|(field, value)| said(own, *field) != **value) {
            let former = std::mem::replace(&mut again[field], value.clone());
            let is_golden = read(&again).is_ok_and(|found| found.contributions.get(place).is_some_and(|own| said(own, field) == *value));
            if !is_golden {
                again[field] = former;
            }
        }
        if read(&again).is_ok_and(|found| !found.golden_is_damaged) {
            return Ok(again);
        }
    }
    let names: Vec<&str> = found.contributions.iter().map(|own| &*own.contributor).collect();
    Err(format!("import the documents from which `{}` were read again: a value of one of them is damaged", names.join("`, `")))
}

/// What a contribution says of a field.
fn said(own: &Contribution, field: usize) -> Value {
    match &own.said {
        ContributionContent::Values(values) => values.get(field).cloned().unwrap_or_default(),
        ContributionContent::Tombstone => Value::Null,
    }
}

/// The statement among those given of which a contribution was made.
fn said_by<'n>(own: &Contribution, statements: &'n [NumberedContribution]) -> Option<&'n NewContribution> {
    let is_own = |new: &&NumberedContribution| {
        let statement = &new.statement;
        statement.contributor == own.contributor && statement.hash == own.hash && statement.as_of == own.as_of && new.generation == own.generation
    };
    statements.iter().find(is_own).map(|new| &new.statement)
}

impl RepairedRecord {
    /// A record of which documents say everything again.
    fn from_nothing(record: StoredRecord) -> Self {
        Self { record: StoredRecord { contributions: Vec::new(), raw: None, ..record }, contributions: Vec::new(), lost: true }
    }
}

/// Contributions in the order they are stored.
fn sorted(contributions: &mut [Contribution]) -> &[Contribution] {
    contributions.sort_by(|a, b| a.contributor.cmp(&b.contributor));
    contributions
}

fn contribution(own: &NumberedContribution, before: Option<PreviousContribution>, job: JobId) -> Contribution {
    let statement = &own.statement;
    Contribution {
        contributor: statement.contributor.clone(),
        as_of: statement.as_of,
        hash: statement.hash,
        generation: own.generation,
        origin: ContributionOrigin { job, document: own.document },
        before,
        retired: if statement.retired { Retirement::OnArrival } else { Retirement::Live },
        said: statement.content.clone(),
        raw: statement.raw.clone(),
        unread: statement.unreadable.iter().copied().map(UnreadableField::new).collect(),
    }
}

/// Places of statements by their contributor, in the order of their first ones.
fn by_contributor(statements: &[NumberedContribution]) -> Vec<Vec<usize>> {
    if let [_] = statements {
        return vec![vec![0]];
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    for (index, own) in statements.iter().enumerate() {
        let group = *known.entry(&own.statement.contributor).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(index);
    }
    groups
}

fn age(own: &NumberedContribution) -> (i64, [u8; 16]) {
    (own.statement.as_of, own.statement.hash)
}

/// Whether a statement counts beside what was said before the job: newer, or of the same time and read by another map. What
/// two maps made of documents has no order by hash, the map at hand wins.
fn is_beyond(own: &NumberedContribution, before: &PreviousContribution) -> bool {
    let (as_of, hash) = age(own);
    as_of > before.as_of || (as_of == before.as_of && (hash > before.hash || own.generation != before.generation))
}

/// What a statement that wins is called.
fn outcome(existed: bool, before: Option<PreviousContribution>, hash: [u8; 16], generation: u32, on_arrival: bool) -> Outcome {
    match before {
        _ if on_arrival => Outcome::Superseded,
        _ if !existed => Outcome::Created,
        Some(before) if before.hash == hash && before.generation == generation && !before.retired => Outcome::Unchanged,
        _ => Outcome::Updated,
    }
}
