//! Withdraws what a service contributed before and does not repeat in a complete answer.

use super::answer::{AnswerStore, ServiceAnswer};
use super::bind::{BoundArguments, holds, implies, key_field, part};
use super::run::FetchRun;
use crate::Result;
use crate::change::removal::{Purpose, Removal, RemoveContributions};
use crate::change::withdraw;
use crate::job::NO_JOB;
use crate::job::sizes::PAGE;
use crate::settle;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stook_catalogue::definition::{Collection, ServiceCall};
use stook_catalogue::ids::FieldId;
use stook_catalogue::parts::PartialList;
use stook_catalogue::record::{Contribution, ContributionContent, ContributionOrigin, Retirement};
use stook_catalogue::value::Value;
use stook_store::SettlePass;
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan, matching_keys};

impl FetchRun<'_> {
    /// Withdraws what the source contributed, before a complete answer was requested, to records that the answer should contain but does not. These
    /// may still exist with other values: older answers that would contain them then are marked as expired.
    pub(super) fn withdraw_unrepeated(
        &self,
        answers: &AnswerStore<'_>,
        (call, arguments): (&ServiceCall, &BoundArguments),
        started: i64,
    ) -> Result<u64> {
        let index = self.source.feeds[0].collection;
        let collection = &self.rules.catalogue.collections[index];
        let key = key_field(collection);
        let tests = tests_of(call, arguments);
        let column = |field: FieldId| if key == Some(field) { PlanColumn::Key } else { PlanColumn::Field(field) };
        let conditions = tests.iter().map(|(field, test)| Condition { column: column(*field), test: test.clone() }).collect();
        let keys = matching_keys(self.store, &QueryPlan { conditions, ..QueryPlan::all(self.tenant.clone(), index) })?;
        let broader = Arc::new(BroaderAnswers::find(answers, &tests, key, started)?);
        // conditions on members select elements, not records
        let tests = tests.into_iter().filter(|(field, _)| collection.member(*field).is_none()).collect();
        let old = PreviousContributions { source: self.source.name.clone(), started, tests, broader: broader.clone() };
        let removes: RemoveContributions = match part(collection, call, arguments) {
            None => Arc::new(move |all| old.withdraw(all)),
            Some(part) => {
                let (rules, contributor) = (self.rules.clone(), format!("{}:{part}", self.source.name));
                Arc::new(move |all| old.withdraw_part(&rules.catalogue.collections[index], &contributor, all))
            }
        };
        let caller = format!("answer of {}", self.service.name);
        let removal = Removal { tenant: self.tenant.clone(), removes, caller, purpose: Purpose::Withdrawal, job: NO_JOB };
        let mut withdrawn = 0;
        for page in keys.chunks(PAGE) {
            withdrawn += withdraw::page(self.rules, self.store, &removal, index, page)?.records;
        }
        for answer in broader.to_expire() {
            answers.expire(answer, self.store.clock())?;
        }
        if withdrawn > 0 {
            let rules: Arc<dyn SettlePass> = self.rules.clone();
            settle::drain(self.store, &rules, self.stop)?;
        }
        Ok(withdrawn)
    }
}

/// The conditions that were passed to a call, by field.
fn tests_of(call: &ServiceCall, arguments: &BoundArguments) -> Vec<(FieldId, Comparison)> {
    arguments.iter().map(|(position, test)| (call.args[*position].field, test.clone())).collect()
}

/// Whether values satisfy conditions by field.
fn all_hold(tests: &[(FieldId, Comparison)], values: &[Value]) -> bool {
    tests.iter().all(|(field, test)| values.get(field.index()).is_some_and(|value| holds(test, value)))
}

/// What a source contributed to some records before a new answer was requested.
struct PreviousContributions {
    source: String,
    /// When the new answer was requested.
    started: i64,
    /// The conditions that were passed, by field.
    tests: Vec<(FieldId, Comparison)>,
    /// Older answers that are marked as expired if they would contain contributions that are withdrawn.
    broader: Arc<BroaderAnswers>,
}

/// Older answers of a source that may also contain records that a newer one lacks because they have changed.
struct BroaderAnswers(Vec<BroaderAnswer>);

struct BroaderAnswer {
    answer: ServiceAnswer,
    /// The conditions on records that were passed.
    tests: Vec<(FieldId, Comparison)>,
    /// Whether it may contain a record of a withdrawn contribution.
    must_expire: AtomicBool,
}

impl BroaderAnswers {
    /// The answers that are fresh and complete and may contain more than what satisfies `tests`.
    fn find(answers: &AnswerStore<'_>, tests: &[(FieldId, Comparison)], key: Option<FieldId>, started: i64) -> Result<Self> {
        // if a request for a key returns nothing, the record exists nowhere
        if tests.iter().all(|(field, _)| Some(*field) == key) {
            return Ok(Self(Vec::new()));
        }
        let now = answers.store.clock();
        let mut broader = Vec::new();
        for answer in answers.newer(i64::MIN)?.into_iter().filter(|answer| answer.started < started && answer.expires > now) {
            let Some((call, arguments)) = answers.bound_arguments(&answer) else { continue };
            let passed = tests_of(&answers.binding.calls[call], &arguments);
            let is_narrower = tests.iter().all(|(field, test)| passed.iter().any(|(other, passed)| other == field && implies(passed, test)));
            if !is_narrower {
                let tests = passed.into_iter().filter(|(field, _)| answers.collection.member(*field).is_none()).collect();
                broader.push(BroaderAnswer { answer, tests, must_expire: AtomicBool::new(false) });
            }
        }
        Ok(Self(broader))
    }

    /// Notes that a contribution with these values is withdrawn.
    fn note_lost(&self, values: &[Value]) {
        for older in &self.0 {
            if all_hold(&older.tests, values) {
                older.must_expire.store(true, Ordering::Relaxed);
            }
        }
    }

    fn to_expire(&self) -> impl Iterator<Item = &ServiceAnswer> {
        self.0.iter().filter(|older| older.must_expire.load(Ordering::Relaxed)).map(|older| &older.answer)
    }
}

impl PreviousContributions {
    /// The values of a contribution, if the source made it before the new answer was requested.
    fn values_before<'c>(&self, contribution: &'c Contribution) -> Option<&'c [Value]> {
        let ContributionContent::Values(values) = &contribution.content else { return None };
        (contribution.source() == self.source && contribution.as_of < self.started && all_hold(&self.tests, values)).then_some(values)
    }

    /// Removes the contributions that a complete answer does not repeat.
    fn withdraw(&self, contributions: &mut Vec<Contribution>) {
        contributions.iter().filter_map(|contribution| self.values_before(contribution)).for_each(|values| self.broader.note_lost(values));
        contributions.retain(|contribution| self.values_before(contribution).is_none());
        self.remove_lone_part_deletions(contributions);
    }

    /// Removes the contribution for a part of a list that an answer for this part does not repeat, and puts a deletion of the part in its place.
    fn withdraw_part(&self, collection: &Collection, contributor: &str, contributions: &mut Vec<Contribution>) {
        let Some(part) = PartialList::from_contributor(collection, contributor) else { return };
        let has_part =
            |values: &&[Value]| values.get(part.list.index()).is_some_and(|list| list.elements().iter().any(|element| part.contains(element)));
        let former_values: Vec<&[Value]> =
            contributions.iter().filter_map(|contribution| self.values_before(contribution)).filter(has_part).collect();
        let is_repeated = contributions.iter().any(|contribution| *contribution.contributor == *contributor && contribution.as_of >= self.started);
        if is_repeated || former_values.is_empty() {
            return;
        }
        former_values.into_iter().for_each(|values| self.broader.note_lost(values));
        contributions.retain(|contribution| *contribution.contributor != *contributor);
        contributions.push(Contribution {
            contributor: contributor.into(),
            as_of: self.started,
            received: None,
            hash: [0; 16],
            generation: 0,
            origin: ContributionOrigin::default(),
            before: None,
            retired: Retirement::None,
            content: ContributionContent::Tombstone,
            raw: None,
            unreadable: Vec::new(),
            corrections: Vec::new(),
        });
        self.remove_lone_part_deletions(contributions);
    }

    /// Removes deletions of parts if the source contributes nothing else.
    fn remove_lone_part_deletions(&self, contributions: &mut Vec<Contribution>) {
        let has_values =
            |contribution: &Contribution| contribution.source() == self.source && matches!(contribution.content, ContributionContent::Values(_));
        if !contributions.iter().any(has_values) {
            contributions.retain(|contribution| contribution.source() != self.source || !contribution.contributor.contains(':'));
        }
    }
}
