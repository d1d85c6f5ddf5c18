//! Fetches what a query needs, one collection after the other: first its own records, then those it reads through links.
//!
//! Linked records are fetched with the conditions that the query's own imply for them (`implied.rs`), and with the values of the link's fields in
//! the records that are stored by then. If a source of the query's own collection requires a condition that the query has only through a link, the
//! linked records are fetched first. Conditions on linked records are processed before columns, because they leave fewer records whose columns
//! must be read.

use super::bind::QueryConditions;
use super::fetcher::{CandidateSource, FetchStep, Fetcher, choose};
use super::implied::{EqualFields, converted, equal_fields, linked_conditions, passed_on, with_implied};
use super::options::{FetchOptions, FetchPolicy};
use super::status::ServiceStatus;
use super::url::path;
use crate::Result;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::ids::{CollectionId, FieldId, SourceId};
use stook_catalogue::links::{LinkEnd, LinkedRead};
use stook_catalogue::value::Value;
use stook_store::Store;
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};

/// The maximum number of calls that a query makes for records it reads through links.
const MAX_LINKED_CALLS: usize = 100;
/// Up to this many calls are made, one for each value, instead of one call without a condition.
const MAX_CALLS_BY_VALUE: usize = 20;
/// The maximum number of links that are followed one after the other.
const MAX_DEPTH: usize = 8;

/// What one query needs, and what has become of it.
struct Gathering<'g> {
    fetcher: &'g Arc<Fetcher>,
    store: &'g Arc<dyn Store>,
    options: FetchOptions,
    started: Instant,
    statuses: Vec<ServiceStatus>,
    calls_left: usize,
    /// Requests to sources of linked records that have been made.
    requested: HashSet<(SourceId, String)>,
}

/// Whether everything that was requested has been answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Answered,
    Running,
}

/// Linked records to be fetched.
struct LinkedPlan {
    /// Which records.
    plan: QueryPlan,
    /// The link by which the query reads them, for the status.
    through: String,
    /// The field at their end of the link, with its values, if several are known.
    values: Option<(PlanColumn, LinkedValues)>,
    /// The fields that are read; a source that has none of them is not fetched from, if another has.
    read: Vec<FieldId>,
    /// If given, only these sources are fetched from.
    sources: Option<Vec<SourceId>>,
}

#[derive(Clone)]
enum LinkedValues {
    Known(Vec<Value>),
    /// More values than a query may make calls for; the first of them.
    TooMany(Value),
}

impl Fetcher {
    /// Makes sure that the store has what services know about a plan's records and about what is read of them: rows, or the columns that are `aggregated`. Returns one
    /// status for each source of the collection, and one for each call for a collection that is read through a link.
    ///
    /// # Errors
    /// When the store fails. Failures of services are in their statuses.
    pub fn fetch(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        plan: &QueryPlan,
        aggregated: &[PlanColumn],
        options: FetchOptions,
    ) -> Result<Vec<ServiceStatus>> {
        if options.when == FetchPolicy::Never {
            return Ok(Vec::new());
        }
        let (statuses, requested) = (Vec::new(), HashSet::new());
        let mut gathering = Gathering { fetcher: self, store, options, started: Instant::now(), statuses, calls_left: MAX_LINKED_CALLS, requested };
        if gathering.fetch_collection(plan, aggregated)? == Progress::Answered && gathering.fetch_collection_by_linked(plan)? == Progress::Answered {
            gathering.fetch_linked(plan, aggregated, 0)?;
        }
        Ok(gathering.statuses)
    }

    /// Whether any service has documents for what a plan reads.
    pub fn has_services_for(&self, plan: &QueryPlan, aggregated: &[PlanColumn]) -> bool {
        let catalogue = self.catalogue();
        let is_linked = |column: &PlanColumn| linked_reads_of(catalogue, plan.collection, column).iter().any(|read| catalogue.needs_fetch(read));
        catalogue.is_fetched(plan.collection)
            || creating(catalogue, plan.collection).iter().any(|read| catalogue.needs_fetch(read))
            || plan.conditions.iter().any(|condition| is_linked(&condition.column))
            || shown(plan, aggregated).chain(&plan.combined_columns()).any(is_linked)
    }
}

/// The columns that a plan reads apart from its conditions.
fn shown<'p>(plan: &'p QueryPlan, aggregated: &'p [PlanColumn]) -> impl Iterator<Item = &'p PlanColumn> {
    let rows = plan.columns.iter().filter(|_| aggregated.is_empty() || plan.distinct);
    rows.chain(plan.sort.iter().map(|sort| &sort.column)).chain(aggregated)
}

/// What a column reads of linked records.
fn linked_reads_of(catalogue: &Catalogue, collection: CollectionId, column: &PlanColumn) -> Vec<LinkedRead> {
    match column {
        PlanColumn::Field(field) => catalogue.linked_reads(collection, *field),
        PlanColumn::TargetsExist(link) => vec![LinkedRead { link: *link, end: LinkEnd::Targets, fields: Vec::new() }],
        _ => Vec::new(),
    }
}

/// The children because of which records of a collection exist.
fn creating(catalogue: &Catalogue, collection: CollectionId) -> Vec<LinkedRead> {
    catalogue.creating_links(collection).map(|link| LinkedRead { link, end: LinkEnd::Children, fields: Vec::new() }).collect()
}

impl Gathering<'_> {
    fn catalogue(&self) -> &Arc<Catalogue> {
        self.fetcher.catalogue()
    }

    /// Waits for the calls that were started, and collects their statuses.
    fn wait(&mut self, steps: Vec<(SourceId, FetchStep)>, through: Option<&str>) -> Progress {
        let longest = steps.iter().filter(|(_, step)| matches!(step, FetchStep::Wait(..))).map(|(source, _)| self.fetcher.deadline(*source)).max();
        // calls that were already in progress end earlier
        let until = self.options.time.map_or(Instant::now() + longest.unwrap_or(Duration::ZERO), |time| self.started + time);
        let mut progress = Progress::Answered;
        for (_, step) in steps {
            let status = match step {
                FetchStep::Done(status) => status,
                FetchStep::Wait(status, flight) => match flight.wait(until) {
                    Some(answer) => ServiceStatus { answer: Some(answer), ..status },
                    None => {
                        let reason = format!("no answer after {:.1} s; still waiting", self.started.elapsed().as_secs_f64());
                        ServiceStatus { reason: Some(reason), ..status }
                    }
                },
            };
            if status.state() == "running" {
                progress = Progress::Running;
            }
            self.statuses.push(ServiceStatus { through: through.map(str::to_owned), ..status });
        }
        progress
    }

    /// Fetches from the sources of a plan's own collection.
    fn fetch_collection(&mut self, plan: &QueryPlan, aggregated: &[PlanColumn]) -> Result<Progress> {
        let mut steps = Vec::new();
        for candidate in self.fetcher.candidates(plan.collection) {
            steps.push((candidate.index, self.fetcher.step(self.store, (plan, aggregated), self.options, &candidate)?));
        }
        Ok(self.wait(steps, None))
    }

    /// Fetches from sources of the own collection that require a condition which the query has only through a link, with values of the linked
    /// records.
    fn fetch_collection_by_linked(&mut self, plan: &QueryPlan) -> Result<Progress> {
        let catalogue = self.catalogue().clone();
        let is_unfetched = |status: &ServiceStatus| status.through.is_none() && status.state() == "unasked";
        let sources: Vec<SourceId> =
            self.statuses.iter().filter(|status| is_unfetched(status)).filter_map(|status| Some(catalogue.source(&status.source)?.0)).collect();
        if sources.is_empty() {
            return Ok(Progress::Answered);
        }
        let is_local =
            |condition: &&Condition| linked_reads_of(&catalogue, plan.collection, &condition.column).iter().all(|read| !catalogue.needs_fetch(read));
        let before = QueryPlan { conditions: plan.conditions.iter().filter(is_local).cloned().collect(), ..plan.clone() };
        let linked = plan.conditions.iter().flat_map(|condition| linked_conditions(&catalogue, plan.collection, condition));
        for linked_condition in linked.filter(|linked| catalogue.needs_fetch(&linked.read)) {
            let Some(test) = linked_condition.test else { continue };
            let is_argument = |pair: &EqualFields| pair.own.field().is_some_and(|field| self.fetcher.takes(plan.collection, field));
            let Some(pair) = equal_fields(&catalogue, &linked_condition.read).into_iter().find(is_argument) else { continue };
            if self.fetch_read(&before, &linked_condition.read, Some(&test), None, 0)? == Progress::Running {
                return Ok(Progress::Running);
            }
            let target_collection = linked_condition.read.collection(&catalogue);
            let mut conditions = passed_on(&catalogue, plan.collection, &linked_condition.read, &before.conditions);
            conditions.push(test);
            let found = QueryPlan { conditions, ..QueryPlan::all(plan.tenant.clone(), target_collection) };
            let reversed = EqualFields { own: pair.other, other: pair.own };
            let values = self.values(&found, &reversed, (&catalogue.collections[target_collection], &catalogue.collections[plan.collection]))?;
            let mut unfetched = Vec::new();
            if !matches!(&values, LinkedValues::Known(values) if values.is_empty()) {
                let through = name_of(&catalogue, &linked_condition.read);
                let values = Some((pair.own, values));
                let linked_plan = LinkedPlan { plan: before.clone(), through, values, read: Vec::new(), sources: Some(sources.clone()) };
                if self.fetch_linked_sources(&linked_plan, &mut unfetched)? == Progress::Running {
                    return Ok(Progress::Running);
                }
            }
            // the values of one link are enough
            if unfetched.is_empty() {
                self.statuses.retain(|status| !is_unfetched(status));
                break;
            }
        }
        Ok(Progress::Answered)
    }

    /// Fetches everything that a plan reads through links.
    fn fetch_linked(&mut self, plan: &QueryPlan, aggregated: &[PlanColumn], depth: usize) -> Result<Progress> {
        let catalogue = self.catalogue().clone();
        let reads = |column: &PlanColumn| {
            let mut reads = linked_reads_of(&catalogue, plan.collection, column);
            reads.retain(|read| catalogue.needs_fetch(read));
            reads
        };
        if depth >= MAX_DEPTH {
            return Ok(Progress::Answered);
        }
        for read in creating(&catalogue, plan.collection).iter().filter(|read| catalogue.needs_fetch(read)) {
            if self.fetch_read(plan, read, None, None, depth)? == Progress::Running {
                return Ok(Progress::Running);
            }
        }
        // nothing is known about the elements that are rows before their records are read
        let of_records = || plan.conditions.iter().filter(|condition| !matches!(condition.column, PlanColumn::Element(_))).cloned();
        let all =
            QueryPlan { collection: plan.collection, conditions: of_records().collect(), ..QueryPlan::all(plan.tenant.clone(), plan.collection) };
        let unlinked: Vec<Condition> = of_records().filter(|condition| reads(&condition.column).is_empty()).collect();
        let before = QueryPlan { conditions: unlinked, ..all.clone() };
        for condition in plan.conditions.iter().filter(|condition| !reads(&condition.column).is_empty()) {
            for linked in linked_conditions(&catalogue, plan.collection, condition) {
                if self.fetch_read(&before, &linked.read, linked.test.as_ref(), Some(&before), depth)? == Progress::Running {
                    return Ok(Progress::Running);
                }
            }
        }
        // records are found by combined conditions only after everything that these read is here
        let combined_columns = plan.combined_columns();
        let is_page = combined_columns.iter().all(|column| reads(column).is_empty())
            && aggregated.is_empty()
            && !plan.distinct
            && plan.each.is_none()
            && plan.sort.iter().all(|sort| reads(&sort.column).is_empty());
        let page = if is_page { plan } else { &all };
        let mut seen: Vec<LinkedRead> = Vec::new();
        for read in shown(plan, aggregated).chain(&combined_columns).flat_map(reads) {
            match seen.iter_mut().find(|known| known.link == read.link && known.end == read.end) {
                Some(known) => known.fields.extend(read.fields),
                None => seen.push(read),
            }
        }
        for read in &mut seen {
            read.fields.sort_unstable();
            read.fields.dedup();
            if self.fetch_read(&all, read, None, Some(page), depth)? == Progress::Running {
                return Ok(Progress::Running);
            }
        }
        Ok(Progress::Answered)
    }

    /// Fetches what is read through one link: records that satisfy `test`, and only if `readers` finds any record that reads them.
    fn fetch_read(
        &mut self,
        plan: &QueryPlan,
        read: &LinkedRead,
        test: Option<&Condition>,
        readers: Option<&QueryPlan>,
        depth: usize,
    ) -> Result<Progress> {
        let catalogue = self.catalogue().clone();
        let (target_collection, pairs) = (read.collection(&catalogue), equal_fields(&catalogue, read));
        let (own, other) = (&catalogue.collections[plan.collection], &catalogue.collections[target_collection]);
        if let Some(readers) = readers
            && self.store.find(&QueryPlan { columns: vec![PlanColumn::Key], limit: Some(1), ..readers.clone() })?.rows.is_empty()
        {
            return Ok(Progress::Answered);
        }
        let mut conditions = passed_on(&catalogue, plan.collection, read, &plan.conditions);
        conditions.extend(test.cloned());
        let is_named = |column: PlanColumn| conditions.iter().any(|condition| condition.column == column);
        // read a complete list if its elements decide which record reads them and no condition is on it
        let of_link = pairs.iter().map(|pair| pair.other).filter(|column| !is_named(*column)).filter_map(PlanColumn::field);
        let lists: Vec<FieldId> = of_link.filter(|field| other.member(*field).is_some()).collect();
        let columns: Vec<FieldId> = if test.is_some() { lists } else { read.fields.iter().copied().chain(lists).collect() };
        let columns: Vec<PlanColumn> = columns.into_iter().map(PlanColumn::Field).collect();
        let is_argument = |column: PlanColumn| column.field().is_some_and(|field| self.fetcher.takes(target_collection, field));
        let is_known = |column: PlanColumn| conditions.iter().any(|own| own.column == column && matches!(own.test, Comparison::Equal(_)));
        let pair = pairs.iter().find(|pair| is_argument(pair.other) && !is_known(pair.other));
        let values = match (pair, readers) {
            (Some(pair), Some(readers)) => Some((pair.other, self.values(readers, pair, (own, other))?)),
            _ => None,
        };
        let through = name_of(&catalogue, read);
        let mut wanted: Vec<FieldId> = read.fields.clone();
        wanted.extend(test.and_then(|test| test.column.field()));
        let of_link: Vec<FieldId> = pairs.iter().filter_map(|pair| pair.other.field()).collect();
        let read_fields = self.needed_of(target_collection, &wanted, &of_link);
        let values = match values {
            Some((_, LinkedValues::Known(values))) if values.is_empty() => return Ok(Progress::Answered),
            Some((column, LinkedValues::Known(values))) if values.len() == 1 => {
                conditions.extend(values.into_iter().map(|value| Condition { column, test: Comparison::Equal(value) }));
                None
            }
            values => values,
        };
        let linked_plan = |conditions: Vec<Condition>| {
            let plan = QueryPlan { conditions, columns: columns.clone(), ..QueryPlan::all(plan.tenant.clone(), target_collection) };
            LinkedPlan { plan, through: through.clone(), values: values.clone(), read: read_fields.clone(), sources: None }
        };
        self.fetch_alternatives(with_implied(other, &conditions).into_iter().map(linked_plan).collect(), depth)
    }

    /// The values that a link's field has in the records that `readers` finds.
    fn values(&self, readers: &QueryPlan, pair: &EqualFields, (own, other): (&Collection, &Collection)) -> Result<LinkedValues> {
        let mut plan = QueryPlan { columns: vec![pair.own], ..readers.clone() };
        if plan.limit.is_none_or(|limit| limit > MAX_LINKED_CALLS as u64) {
            // even if there are more records than that, there may be fewer distinct values
            plan = QueryPlan { sort: Vec::new(), offset: 0, limit: Some(MAX_LINKED_CALLS as u64 + 1), distinct: true, ..plan };
        }
        let mut values: Vec<Value> = Vec::new();
        let mut seen = BTreeSet::new();
        for row in self.store.find(&plan)?.rows {
            for value in row.first().map(Value::elements).unwrap_or_default() {
                let Some(value) = converted(value, (own, pair.own), (other, pair.other)) else { continue };
                if seen.insert(format!("{value:?}")) {
                    values.push(value);
                }
            }
        }
        Ok(match values.first() {
            Some(first) if values.len() > MAX_LINKED_CALLS => LinkedValues::TooMany(first.clone()),
            _ => LinkedValues::Known(values),
        })
    }

    /// The fields for which sources are fetched from: those that are read, and those by which records are found.
    fn needed_of(&self, collection: CollectionId, wanted: &[FieldId], of_link: &[FieldId]) -> Vec<FieldId> {
        let catalogue = self.catalogue();
        let bases = |fields: &[FieldId]| {
            let mut bases: Vec<FieldId> = fields.iter().flat_map(|field| catalogue.contributed(collection, *field)).collect();
            bases.sort_unstable();
            bases.dedup();
            bases
        };
        let wanted = bases(wanted);
        let maps = |candidate: &CandidateSource<'_>, field: FieldId| candidate.source.feeds[0].map.iter().any(|rule| rule.field == field);
        let mut needed = wanted.clone();
        if !wanted.is_empty() {
            let of_wanted = |candidate: &CandidateSource<'_>| wanted.iter().any(|field| maps(candidate, *field));
            for field in bases(of_link) {
                // a source of the fields that are read also has the link's field
                if !self.fetcher.candidates(collection).filter(of_wanted).all(|candidate| maps(&candidate, field)) {
                    needed.push(field);
                }
            }
        }
        needed
    }

    /// Fetches linked records, and what is read through them. Of several alternative sets of conditions, it is enough if some can be passed to
    /// services.
    fn fetch_alternatives(&mut self, linked: Vec<LinkedPlan>, depth: usize) -> Result<Progress> {
        let mut unfetched = Vec::new();
        let (is_only, mut is_fetched) = (linked.len() == 1, false);
        for linked_plan in linked {
            let mut reasons = Vec::new();
            if self.fetch_linked_sources(&linked_plan, &mut reasons)? == Progress::Running {
                return Ok(Progress::Running);
            }
            let is_complete = reasons.is_empty();
            unfetched.extend(reasons);
            if !is_complete && !is_only {
                continue;
            }
            is_fetched |= is_complete;
            let mut plan = linked_plan.plan;
            if let Some((column, LinkedValues::Known(values))) = linked_plan.values {
                plan.conditions.push(Condition { column, test: Comparison::In(values) });
            }
            if self.fetch_linked(&plan, &[], depth + 1)? == Progress::Running {
                return Ok(Progress::Running);
            }
        }
        if !is_fetched {
            self.statuses.extend(unfetched);
        }
        Ok(Progress::Answered)
    }

    /// Fetches from the sources of linked records.
    fn fetch_linked_sources(&mut self, linked: &LinkedPlan, unfetched: &mut Vec<ServiceStatus>) -> Result<Progress> {
        let maps_read_field = |candidate: &CandidateSource<'_>| candidate.source.feeds[0].map.iter().any(|rule| linked.read.contains(&rule.field));
        let mut candidates: Vec<CandidateSource<'_>> = self.fetcher.candidates(linked.plan.collection).collect();
        if candidates.iter().any(maps_read_field) {
            candidates.retain(maps_read_field);
        }
        candidates.retain(|candidate| linked.sources.as_ref().is_none_or(|sources| sources.contains(&candidate.index)));
        let mut steps = Vec::new();
        for candidate in &candidates {
            match self.plans(linked, candidate) {
                Ok(plans) => {
                    for plan in plans {
                        let conditions = QueryConditions::from_plan(candidate.collection, candidate.binding, &plan, &[]);
                        let request = choose(candidate, &conditions);
                        let request = request.map(|(call, arguments)| {
                            path(candidate.collection, &candidate.binding.calls[call], &arguments, &candidate.service.wildcard)
                        });
                        let is_new = request.map_or(true, |request| self.requested.insert((candidate.index, request)));
                        if is_new {
                            self.calls_left = self.calls_left.saturating_sub(1);
                            steps.push((candidate.index, self.fetcher.step(self.store, (&plan, &[]), self.options, candidate)?));
                        }
                    }
                }
                Err(reason) => {
                    let reason = Some(format!("{reason}; it is read through {}", linked.through));
                    unfetched.push(ServiceStatus { reason, through: Some(linked.through.clone()), ..candidate.unfetched() });
                }
            }
        }
        Ok(self.wait(steps, Some(&linked.through)))
    }

    /// The plans by which a source is fetched from: one for all values, or one for each value.
    fn plans(&self, linked: &LinkedPlan, candidate: &CandidateSource<'_>) -> std::result::Result<Vec<QueryPlan>, String> {
        let argument_count = |plan: &QueryPlan| {
            let conditions = QueryConditions::from_plan(candidate.collection, candidate.binding, plan, &[]);
            choose(candidate, &conditions).map(|(_, arguments)| arguments.len()).map_err(|missing| format!("it requires {missing}"))
        };
        let with = |column: PlanColumn, test: Comparison| {
            let mut plan = linked.plan.clone();
            plan.conditions.push(Condition { column, test });
            plan
        };
        let calls_left = self.calls_left;
        let of_values = |column: PlanColumn| column.field().map_or("key", |field| &candidate.collection.fields[field].name);
        let limit = |number: String, of: &str| {
            format!("it would take {number} calls{of}, and a query makes at most {MAX_LINKED_CALLS} for what it reads through links")
        };
        let (at_once, column, first) = match &linked.values {
            None => {
                argument_count(&linked.plan)?;
                return if calls_left == 0 { Err(limit("more".into(), "")) } else { Ok(vec![linked.plan.clone()]) };
            }
            Some((column, LinkedValues::Known(values))) => (with(*column, Comparison::In(values.clone())), *column, &values[0]),
            Some((column, LinkedValues::TooMany(first))) => (linked.plan.clone(), *column, first),
        };
        let single_arguments = argument_count(&with(column, Comparison::Equal(first.clone())))?;
        let limit = |number: String| limit(number, &format!(", one for each value of {}", of_values(column)));
        match (argument_count(&at_once), &linked.values) {
            (Ok(at_once_arguments), Some((_, LinkedValues::Known(values))))
                if at_once_arguments < single_arguments && at_once_arguments == 0 && values.len() <= MAX_CALLS_BY_VALUE.min(calls_left) =>
            {
                Ok(values.iter().map(|value| with(column, Comparison::Equal(value.clone()))).collect())
            }
            (Ok(_), _) if calls_left > 0 => Ok(vec![at_once]),
            (Err(_), Some((_, LinkedValues::Known(values)))) if values.len() <= calls_left => {
                Ok(values.iter().map(|value| with(column, Comparison::Equal(value.clone()))).collect())
            }
            (_, Some((_, LinkedValues::Known(values)))) => Err(limit(values.len().to_string())),
            _ => Err(limit(format!("more than {MAX_LINKED_CALLS}"))),
        }
    }
}

/// The name of a link, for statuses.
fn name_of(catalogue: &Catalogue, read: &LinkedRead) -> String {
    let link = &catalogue.links[read.link];
    format!("{}.{}", catalogue.collections[link.child_collection].name, link.name)
}
