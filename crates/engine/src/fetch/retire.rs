//! Withdraws what a service contributed before and does not repeat in a complete answer.

use super::answer::{AnswerStore, ServiceAnswer};
use super::bind::{BoundArguments, holds, implies, key_field, part};
use super::run::FetchRun;
use crate::Result;
use crate::change::withdraw::{self, Removal, RemoveContributions};
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
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan, keys_of};

impl FetchRun<'_> {
    /// Withdraws what the source contributed, before a complete answer was requested, to records that the answer should contain but does not. These
    /// may still exist with other values: older answers that would contain them then are marked as expired.
    pub(super) fn retire(&self, known: &AnswerStore<'_>, (call, told): (&ServiceCall, &BoundArguments), begun: i64) -> Result<u64> {
        let index = self.source.feeds[0].collection;
        let collection = &self.rules.catalogue.collections[index];
        let key = key_field(collection);
        let tests = tests_of(call, told);
        let column = |field: FieldId| if key == Some(field) { PlanColumn::Key } else { PlanColumn::Field(field) };
        let conditions = tests.iter().map(|(field, test)| Condition { column: column(*field), test: test.clone() }).collect();
        let keys = keys_of(self.store, &QueryPlan { conditions, ..QueryPlan::all(self.tenant.clone(), index) })?;
        let wider = Arc::new(BroaderAnswers::of(known, &tests, key, begun)?);
        // conditions on members select elements, not records
        let tests = tests.into_iter().filter(|(field, _)| collection.member(*field).is_none()).collect();
        let old = PreviousContributions { source: self.source.name.clone(), begun, tests, wider: wider.clone() };
        let removes: RemoveContributions = match part(collection, call, told) {
            None => Arc::new(move |all| old.retire(all)),
            Some(part) => {
                let (rules, contributor) = (self.rules.clone(), format!("{}:{part}", self.source.name));
                Arc::new(move |all| old.retire_part(&rules.catalogue.collections[index], &contributor, all))
            }
        };
        let removal = Removal { tenant: self.tenant, removes: &removes, caller: &format!("answer of {}", self.service.name) };
        let mut retired = 0;
        for page in keys.chunks(PAGE) {
            retired += withdraw::page(self.rules, self.store, &removal, index, page)?.records;
        }
        for answer in wider.doubted() {
            known.expire(answer, self.store.clock())?;
        }
        if retired > 0 {
            let rules: Arc<dyn SettlePass> = self.rules.clone();
            settle::drain(self.store, &rules, self.stop)?;
        }
        Ok(retired)
    }
}

/// The conditions that were passed to a call, by field.
fn tests_of(call: &ServiceCall, told: &BoundArguments) -> Vec<(FieldId, Comparison)> {
    told.iter().map(|(place, test)| (call.args[*place].field, test.clone())).collect()
}

/// Whether values satisfy conditions by field.
fn hold(tests: &[(FieldId, Comparison)], values: &[Value]) -> bool {
    tests.iter().all(|(field, test)| values.get(field.index()).is_some_and(|value| holds(test, value)))
}

/// What a source contributed to some records before a new answer was requested.
struct PreviousContributions {
    source: String,
    /// When the new answer was requested.
    begun: i64,
    /// The conditions that were passed, by field.
    tests: Vec<(FieldId, Comparison)>,
    /// Older answers that are marked as expired if they would contain contributions that are withdrawn.
    wider: Arc<BroaderAnswers>,
}

/// Older answers of a source that may also contain records that a newer one lacks because they have changed.
struct BroaderAnswers(Vec<BroaderAnswer>);

struct BroaderAnswer {
    answer: ServiceAnswer,
    /// The conditions on records that were passed.
    tests: Vec<(FieldId, Comparison)>,
    /// Whether it may contain a record of a withdrawn contribution.
    is_stale: AtomicBool,
}

impl BroaderAnswers {
    /// The answers that are fresh and complete and may contain more than what satisfies `tests`.
    fn of(known: &AnswerStore<'_>, tests: &[(FieldId, Comparison)], key: Option<FieldId>, begun: i64) -> Result<Self> {
        // if a request for a key returns nothing, the record exists nowhere
        if tests.iter().all(|(field, _)| Some(*field) == key) {
            return Ok(Self(Vec::new()));
        }
        let now = known.store.clock();
        let mut wider = Vec::new();
        for answer in known.newer(i64::MIN)?.into_iter().filter(|answer| answer.begun < begun && answer.expires > now) {
            let Some((call, told)) = known.told(&answer) else { continue };
            let own = tests_of(&known.asks.calls[call], &told);
            let is_narrower = tests.iter().all(|(field, test)| own.iter().any(|(other, own)| other == field && implies(own, test)));
            if !is_narrower {
                let tests = own.into_iter().filter(|(field, _)| known.collection.member(*field).is_none()).collect();
                wider.push(BroaderAnswer { answer, tests, is_stale: AtomicBool::new(false) });
            }
        }
        Ok(Self(wider))
    }

    /// Notes that a contribution with these values is withdrawn.
    fn doubt(&self, values: &[Value]) {
        for older in &self.0 {
            if hold(&older.tests, values) {
                older.is_stale.store(true, Ordering::Relaxed);
            }
        }
    }

    fn doubted(&self) -> impl Iterator<Item = &ServiceAnswer> {
        self.0.iter().filter(|older| older.is_stale.load(Ordering::Relaxed)).map(|older| &older.answer)
    }
}

impl PreviousContributions {
    /// The values of a contribution, if the source made it before the new answer was requested.
    fn said<'c>(&self, own: &'c Contribution) -> Option<&'c [Value]> {
        let ContributionContent::Values(values) = &own.content else { return None };
        (own.source() == self.source && own.as_of < self.begun && hold(&self.tests, values)).then_some(values)
    }

    /// Removes the contributions that a complete answer does not repeat.
    fn retire(&self, contributions: &mut Vec<Contribution>) {
        contributions.iter().filter_map(|own| self.said(own)).for_each(|values| self.wider.doubt(values));
        contributions.retain(|own| self.said(own).is_none());
        self.leave_out_nothing(contributions);
    }

    /// Removes the contribution for a part of a list that an answer for this part does not repeat, and puts a deletion of the part in its place.
    fn retire_part(&self, collection: &Collection, contributor: &str, contributions: &mut Vec<Contribution>) {
        let Some(part) = PartialList::of(collection, contributor) else { return };
        let tells = |values: &&[Value]| values.get(part.list.index()).is_some_and(|list| list.elements().iter().any(|element| part.holds(element)));
        let told: Vec<&[Value]> = contributions.iter().filter_map(|own| self.said(own)).filter(tells).collect();
        let is_said_anew = contributions.iter().any(|own| *own.contributor == *contributor && own.as_of >= self.begun);
        if is_said_anew || told.is_empty() {
            return;
        }
        told.into_iter().for_each(|values| self.wider.doubt(values));
        contributions.retain(|own| *own.contributor != *contributor);
        contributions.push(Contribution {
            contributor: contributor.into(),
            as_of: self.begun,
            received: None,
            hash: [0; 16],
            generation: 0,
            origin: ContributionOrigin::default(),
            before: None,
            retired: Retirement::Live,
            content: ContributionContent::Tombstone,
            raw: None,
            unreadable: Vec::new(),
        });
        self.leave_out_nothing(contributions);
    }

    /// Removes deletions of parts if the source contributes nothing else.
    fn leave_out_nothing(&self, contributions: &mut Vec<Contribution>) {
        let is_said = |own: &Contribution| own.source() == self.source && matches!(own.content, ContributionContent::Values(_));
        if !contributions.iter().any(is_said) {
            contributions.retain(|own| own.source() != self.source || !own.contributor.contains(':'));
        }
    }
}
