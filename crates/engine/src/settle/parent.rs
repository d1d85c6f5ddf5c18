//! The pass that settles records as parents: rollups, coverage, sums, from the edges of their children.

use super::measure::{ChildPayload, ValueRun, distinct, gaps, roll, runs, union};
use super::{CausingJobs, ChangeCause, PassState, ValueChange, damaged, measures};
use cel::objects::{Key as CelKey, Map as CelMap};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use stook_catalogue::definition::{Collection, KeyDefinition};
use stook_catalogue::expr::{Evaluator, Expression, MemberReference, Scope, from_cel, text_to_cel, to_cel};
use stook_catalogue::golden::GoldenValues;
use stook_catalogue::key::{Key, MAX_KEY_BYTES};
use stook_catalogue::links::{Coverage, CoverageKind, CoverageTotal, Derivation, GroupedChildren, Measure, MeasureCase};
use stook_catalogue::plain::{PlainText, PlainValue};
use stook_catalogue::record::{Contribution, ContributionContent, ContributionOrigin, Retirement, UNKNOWN_TIME, pack, pack_raw, put_value};
use stook_catalogue::survivorship::Consolidator;
use stook_catalogue::value::{FieldType, SmolStr, Value};
use stook_store::{Edge, PassContext, RecordChange, RecordContent, RecordWrite, Result, StaleMark, StoredRecord};

/// What of a parent is to be settled.
#[derive(Debug, Default)]
struct ParentWork {
    jobs: CausingJobs,
    /// Everything, because the parent itself has changed.
    all: bool,
    /// Whether it exists because others name it, whatever the definition said of that before.
    created_by_link: bool,
    /// Groups whose children have changed.
    groups: BTreeSet<String>,
}

/// What becomes of a parent because of who names it.
#[derive(Default)]
struct LinkedExistence {
    /// Its content if that is something else now; of one that goes, nothing.
    content: Option<Option<RecordContent>>,
    /// Whether only all its children tell.
    asks_all: bool,
}

/// A parent as it is with the pass at hand.
struct ParentState {
    key: Key,
    golden: Arc<[Value]>,
}

/// Children of one parent, by link, in the order of their edges: group, key, what is told.
type ChildrenByLink = HashMap<usize, Vec<(SmolStr, SmolStr, ChildPayload)>>;

/// A row of a coverage while it is computed.
#[derive(Debug, Clone, PartialEq)]
struct CoverageRow {
    /// The type of what is measured.
    ty: FieldType,
    value: i64,
    expected: Option<i64>,
    gaps: Option<Vec<(i64, i64)>>,
}

impl CoverageRow {
    fn adjusted(&self) -> Option<i64> {
        self.expected.filter(|expected| *expected > 0).map(|expected| self.value.min(expected))
    }

    fn percentage(&self) -> Option<f64> {
        let (adjusted, expected) = (self.adjusted()?, self.expected?);
        Some(adjusted as f64 / expected as f64 * 100.0)
    }

    fn status(&self) -> Option<&'static str> {
        let (adjusted, expected) = (self.adjusted()?, self.expected?);
        Some(match adjusted {
            ..=0 => "Missing",
            _ if adjusted >= expected => "Complete",
            _ => "Partial",
        })
    }

    /// Whether there is anything to say.
    fn says(&self) -> bool {
        self.value != 0 || self.adjusted().is_some()
    }
}

/// The part of a mark that asks who brings a parent into being.
pub(super) const MADE: &str = "made";

impl PassState<'_> {
    pub(super) fn parents(&mut self, desk: &mut dyn PassContext, collection: usize, marks: &[StaleMark]) -> Result<()> {
        let mut wanted: BTreeMap<Key, ParentWork> = BTreeMap::new();
        for mark in marks {
            self.cleared.push(mark.id);
            let own = wanted.entry(super::key_of(&mark.target)?).or_default();
            own.jobs.insert(mark.job);
            match mark.group.strip_prefix('g') {
                Some(group) => {
                    own.groups.insert(group.to_owned());
                }
                None => {
                    own.all = true;
                    own.created_by_link |= mark.group == MADE;
                }
            }
        }
        let keys: Vec<Key> = wanted.keys().cloned().collect();
        let held = desk.hold(collection, &keys)?;
        self.widen(collection, &held, &mut wanted);
        let told = self.told(desk, collection, &wanted)?;
        let mut parents: Vec<(Key, Option<ParentState>, ParentWork, ChildrenByLink)> = Vec::with_capacity(keys.len());
        for (((key, wanted), record), told) in wanted.into_iter().zip(held).zip(told) {
            let parent = self.exists(collection, &key, record.as_ref(), &wanted, &told)?;
            parents.push((key, parent, wanted, told));
        }
        let mut covered = HashMap::new();
        for coverage in &self.rules.relations[collection].coverages {
            self.cover(desk, *coverage, &parents, &mut covered)?;
        }
        Ok(())
    }

    /// Where a rollup may change, everything may; where a parent came or goes with its children, all of them count.
    fn widen(&self, collection: usize, held: &[Option<StoredRecord>], wanted: &mut BTreeMap<Key, ParentWork>) {
        let own = &self.rules.relations[collection];
        let definition = &self.rules.catalogue.collections[collection];
        let rolls = |group: &str| {
            own.rollups.iter().any(|field| match &definition.fields[*field].derive {
                Some(Derivation::Rollup(rollup)) => rollup.groups.as_ref().is_none_or(|groups| groups.is_match(group)),
                _ => false,
            })
        };
        let created = own.to.iter().any(|link| self.rules.catalogue.links[*link].create);
        let has_runs = own.coverages.iter().any(|coverage| matches!(self.rules.catalogue.coverages[*coverage].kind, CoverageKind::Runs { .. }));
        for (wanted, record) in wanted.values_mut().zip(held) {
            let is_there = record.as_ref().is_some_and(|record| record.alive);
            wanted.all |= has_runs || (created && !is_there) || wanted.groups.iter().any(|group| rolls(group));
        }
    }

    /// Reads edges of parents: of all groups, or of those that have changed.
    fn told(&self, desk: &mut dyn PassContext, collection: usize, wanted: &BTreeMap<Key, ParentWork>) -> Result<Vec<ChildrenByLink>> {
        let own = &self.rules.relations[collection];
        let definition = &self.rules.catalogue.collections[collection];
        let rolled = own.rollups.iter().filter_map(|field| match &definition.fields[*field].derive {
            Some(Derivation::Rollup(rollup)) => Some(rollup.link),
            _ => None,
        });
        let measured = own.coverages.iter().filter_map(|coverage| measures(&self.rules.catalogue.coverages[*coverage].kind));
        let creating = own.to.iter().copied().filter(|link| self.rules.catalogue.links[*link].create);
        let links: BTreeSet<usize> = rolled.chain(measured).chain(creating).collect();
        let places: HashMap<&str, usize> = wanted.keys().enumerate().map(|(place, key)| (key.as_str(), place)).collect();
        let mut told: Vec<ChildrenByLink> = wanted.iter().map(|_| ChildrenByLink::new()).collect();
        let mut asked: Vec<(String, Option<String>)> = Vec::new();
        for (key, wanted) in wanted {
            let target = key.as_str().to_owned();
            if wanted.all {
                asked.push((target, None));
            } else {
                asked.extend(wanted.groups.iter().map(|group| (target.clone(), Some(group.clone()))));
            }
        }
        for link in links {
            let definition = &self.rules.catalogue.links[link];
            for Edge { target, group, child, payload, .. } in desk.edges(definition.edges(), &asked, stook_store::NO_LIMIT)? {
                let Some(place) = places.get(target.as_str()) else { continue };
                let child = (group, child, ChildPayload::unpack(&payload, definition).map_err(damaged)?);
                told[*place].entry(link).or_default().push(child);
            }
        }
        Ok(told)
    }

    /// Brings a parent into being, or ends it, as its children want it, and settles its rollups; returns it if it exists.
    fn exists(
        &mut self,
        collection: usize,
        key: &Key,
        stored: Option<&StoredRecord>,
        wanted: &ParentWork,
        told: &ChildrenByLink,
    ) -> Result<Option<ParentState>> {
        let own = &self.rules.relations[collection];
        let creating: Vec<usize> = own.to.iter().copied().filter(|link| self.rules.catalogue.links[*link].create).collect();
        let asks = wanted.created_by_link || !creating.is_empty();
        let LinkedExistence { content: made, asks_all } =
            if asks { self.made((collection, key), stored, (told, wanted.all), &creating)? } else { LinkedExistence::default() };
        if asks_all {
            for job in &wanted.jobs {
                self.followed.ask_as_parent(self.rules, collection, (key, ""), *job);
            }
        }
        let living = stored.filter(|record| record.alive);
        let mut golden = match &made {
            Some(content) => content.as_ref().filter(|content| content.exists).map(|content| content.golden.clone()),
            None => living.map(|record| Arc::from(&*record.golden)),
        };
        if let Some(golden) = golden.as_mut().filter(|_| wanted.all && !own.rollups.is_empty()) {
            let golden = Arc::make_mut(golden);
            let definition = &self.rules.catalogue.collections[collection];
            for field in &own.rollups {
                let Some(Derivation::Rollup(rollup)) = &definition.fields[*field].derive else { continue };
                let children = told.get(&rollup.link).map(Vec::as_slice).unwrap_or_default();
                let children: Vec<(&str, &ChildPayload)> = children.iter().map(|(group, _, child)| (group.as_str(), child)).collect();
                golden[*field] = roll(&self.rules.catalogue, rollup, &definition.fields[*field].ty, &children).unwrap_or_else(|reason| {
                    let failure = format!("`{}` is left out: {reason}", definition.fields[*field].name);
                    self.failed.entry((collection, key.clone())).or_default().push(failure);
                    Value::Null
                });
            }
        }
        match (made, &golden) {
            (Some(_), _) if self.is_refused(collection, key) => {}
            (Some(content), _) => {
                for job in &wanted.jobs {
                    let before = living.map(|record| &record.golden[..]);
                    let changed = ValueChange { collection, key, before, after: golden.as_deref(), job: *job, by: ChangeCause::ParentPass };
                    self.followed.follow(self.rules, self.evaluator, &changed);
                }
                self.note_failed(collection, key);
                let change = match content {
                    Some(content) => {
                        RecordChange::Put(Box::new(RecordContent { golden: golden.clone().unwrap_or_else(|| content.golden.clone()), ..content }))
                    }
                    None => RecordChange::Delete,
                };
                let expect = stored.map(|record| record.version);
                self.write(RecordWrite { collection, key: key.clone(), expect, change }, &wanted.jobs);
            }
            (None, Some(golden)) => {
                if let Some(record) = living {
                    self.settle(collection, record, golden.clone(), ChangeCause::ParentPass, &wanted.jobs);
                }
            }
            (None, None) => {}
        }
        Ok(golden.map(|golden| ParentState { key: key.clone(), golden }))
    }

    /// What becomes of a parent that children name: it has a contribution of each link whose children do, also where documents speak of it.
    /// Without any contribution it is nothing. `is_all` says whether all children are told.
    fn made(
        &self,
        (collection, key): (usize, &Key),
        stored: Option<&StoredRecord>,
        (told, is_all): (&ChildrenByLink, bool),
        links: &[usize],
    ) -> Result<LinkedExistence> {
        let definition = &self.rules.catalogue.collections[collection];
        let KeyDefinition::Field(key_field) = definition.key else { return Ok(LinkedExistence::default()) };
        let name_of = |link: &usize| -> SmolStr {
            let own = &self.rules.catalogue.links[*link];
            format!("{}.{}", self.rules.catalogue.collections[own.child_collection].name, own.name).into()
        };
        let mut contributions = match stored {
            Some(record) => record.contributions_of(definition)?,
            None => Vec::new(),
        };
        let before: Vec<SmolStr> = contributions.iter().map(|contribution| contribution.contributor.clone()).collect();
        let names: Vec<SmolStr> = links.iter().map(name_of).collect();
        if is_all {
            // links that were there once
            contributions.retain(|own| !own.is_of_a_link() || names.contains(&own.contributor));
        }
        let mut asks_all = false;
        for (link, contributor) in links.iter().zip(names) {
            let named = told.get(link).is_some_and(|children| !children.is_empty());
            let is_there = contributions.iter().any(|contribution| contribution.contributor == contributor);
            if named && !is_there {
                let mut values = vec![Value::Null; definition.fields.len()];
                values[key_field] = stook_catalogue::value::from_text(key.as_str(), &definition.fields[key_field].ty, None).unwrap_or_default();
                contributions.push(Contribution {
                    contributor,
                    as_of: UNKNOWN_TIME,
                    hash: [0; 16],
                    generation: 0,
                    origin: ContributionOrigin::default(),
                    before: None,
                    retired: Retirement::Live,
                    said: ContributionContent::Values(values.into()),
                    raw: None,
                    unread: Vec::new(),
                });
            } else if !named && is_there {
                // its last child may have gone: only all of them tell
                asks_all |= !is_all;
                contributions.retain(|contribution| !is_all || contribution.contributor != contributor);
            }
        }
        contributions.sort_by(|a, b| a.contributor.cmp(&b.contributor));
        if contributions.iter().map(|contribution| &contribution.contributor).eq(&before) {
            return Ok(LinkedExistence { content: None, asks_all });
        }
        if contributions.is_empty() && stored.is_some_and(|record| record.state_set.is_empty()) {
            return Ok(LinkedExistence { content: Some(None), asks_all });
        }
        let mut survived = Consolidator::new(&self.rules.catalogue, definition, self.evaluator).survive(&contributions);
        if let Some(record) = stored {
            carry_settled(definition, &record.golden, &mut survived.values);
        }
        let state_set = stored.map(|record| record.state_set.clone()).unwrap_or_default();
        let content = RecordContent {
            created_job: stored.map_or(stook_store::queue::JobRef::None.number(), |record| record.created_job),
            exists: survived.alive,
            state: crate::chunk::consolidate::effective_state(definition, self.evaluator, &survived.values, &state_set),
            state_set,
            conflicts: survived.conflicts,
            contributions: pack(&contributions, definition, &survived.values),
            raw: pack_raw(&contributions),
            golden: survived.values,
            indexes_unchanged: false,
        };
        Ok(LinkedExistence { content: Some(Some(content)), asks_all })
    }

    /// Brings the rows of a coverage up to date. `covered` has the rows of coverages that came before, by parent and group.
    fn cover(
        &mut self,
        desk: &mut dyn PassContext,
        index: usize,
        parents: &[(Key, Option<ParentState>, ParentWork, ChildrenByLink)],
        covered: &mut HashMap<(usize, usize), BTreeMap<String, CoverageRow>>,
    ) -> Result<()> {
        let coverage = &self.rules.catalogue.coverages[index];
        // where all groups are measured, or summed up, all rows are looked at; else those of groups that have changed
        let is_summed = self.rules.catalogue.coverages.iter().any(|other| matches!(&other.kind, CoverageKind::Total(total) if total.of == index));
        let is_whole = |wanted: &ParentWork| wanted.all || is_summed || !matches!(coverage.kind, CoverageKind::Children(_));
        let names: Vec<&str> = parents.iter().filter(|(.., wanted, _)| is_whole(wanted)).map(|(key, ..)| key.as_str()).collect();
        let mut keys: BTreeSet<Key> = if names.is_empty() { BTreeSet::new() } else { desk.keys_by(coverage.rows, 0, &names)?.into_iter().collect() };
        for (key, _, wanted, _) in parents.iter().filter(|(.., wanted, _)| !is_whole(wanted)) {
            keys.extend(wanted.groups.iter().filter_map(|group| self.row_key(coverage, key, group)));
        }
        let keys: Vec<Key> = keys.into_iter().collect();
        let stored = if keys.is_empty() { Vec::new() } else { desk.hold(coverage.rows, &keys)? };
        let mut known: HashMap<String, Vec<StoredRecord>> = HashMap::new();
        for record in stored.into_iter().flatten() {
            known.entry(record.golden[0].as_text().unwrap_or_default().to_owned()).or_default().push(record);
        }
        for (place, (key, parent, wanted, told)) in parents.iter().enumerate() {
            let stored = known.remove(key.as_str()).unwrap_or_default();
            let counts = |parent: &&ParentState| coverage.when.as_ref().is_none_or(|when| self.holds(when, coverage.parent, &parent.golden));
            let Some(parent) = parent.as_ref().filter(counts) else {
                self.note_failed(coverage.parent, key);
                self.replace(coverage.rows, stored, Vec::new(), &wanted.jobs);
                continue;
            };
            let rows: Vec<(Key, Vec<Value>)> = match &coverage.kind {
                CoverageKind::Runs { link, condition, told: value, max_gap } => {
                    let own = told.get(link).map(Vec::as_slice).unwrap_or_default();
                    let found = observed(own, *condition, *value, *max_gap);
                    found.iter().filter_map(|run| self.run_row(coverage, parent, run)).collect()
                }
                CoverageKind::Children(children) => {
                    let mut rows = BTreeMap::new();
                    let told = told.get(&children.link).map(Vec::as_slice).unwrap_or_default();
                    for record in stored.iter().filter(|_| !wanted.all) {
                        let group = record.golden[1].as_text().unwrap_or_default();
                        if let Some(row) =
                            case_of(children, group).filter(|_| !wanted.groups.contains(group)).map(|case| CoverageRow::stored(record, case))
                        {
                            rows.insert(group.to_owned(), row);
                        }
                    }
                    for (group, row) in self.measured(coverage, children, parent, wanted, told) {
                        rows.insert(group, row);
                    }
                    let shown = rows.iter().filter_map(|(group, row)| self.row(coverage, parent, group, row)).collect();
                    covered.insert((index, place), rows);
                    shown
                }
                CoverageKind::Total(total) => {
                    let ty = self.rules.catalogue.collections[coverage.rows].fields[2].ty.clone();
                    let rows = covered.get(&(total.of, place)).map(|rows| self.sums(total, &ty, rows)).unwrap_or_default();
                    let shown = rows.iter().filter_map(|(group, row)| self.row(coverage, parent, group, row)).collect();
                    covered.insert((index, place), rows);
                    shown
                }
            };
            self.note_failed(coverage.parent, key);
            self.replace(coverage.rows, stored, rows, &wanted.jobs);
        }
        Ok(())
    }

    /// Writes what rows should be where it is not what they are.
    fn replace(&mut self, collection: usize, stored: Vec<StoredRecord>, wanted: Vec<(Key, Vec<Value>)>, jobs: &CausingJobs) {
        let definition = &self.rules.catalogue.collections[collection];
        let mut stored: HashMap<Key, StoredRecord> = stored.into_iter().map(|record| (record.key.clone(), record)).collect();
        for (key, values) in wanted {
            let old = stored.remove(&key);
            if old.as_ref().is_some_and(|old| old.golden == values) {
                continue;
            }
            let content = RecordContent {
                created_job: stook_store::queue::JobRef::None.number(),
                exists: true,
                contributions: pack(&[], definition, &values),
                golden: values.into(),
                state: Vec::new(),
                state_set: Vec::new(),
                conflicts: Vec::new(),
                raw: None,
                indexes_unchanged: false,
            };
            let change = RecordChange::Put(Box::new(content));
            self.write(RecordWrite { collection, key, expect: old.map(|old| old.version), change }, jobs);
        }
        for old in stored.into_values() {
            self.write(RecordWrite { collection, key: old.key, expect: Some(old.version), change: RecordChange::Delete }, jobs);
        }
    }

    /// Rows of groups that are to be measured anew.
    fn measured(
        &self,
        coverage: &Coverage,
        children: &GroupedChildren,
        parent: &ParentState,
        wanted: &ParentWork,
        told: &[(SmolStr, SmolStr, ChildPayload)],
    ) -> BTreeMap<String, CoverageRow> {
        let mut by_group: BTreeMap<&str, Vec<&ChildPayload>> = BTreeMap::new();
        for (group, _, child) in told.iter().filter(|(.., child)| child.meets(children.condition)) {
            by_group.entry(group).or_default().push(child);
        }
        let expected: Option<BTreeSet<String>> = children.groups.as_ref().map(|groups| {
            let found = self.evaluate(groups, coverage.parent, &parent.golden, "", None);
            let list = found.and_then(|found| from_cel(&found, &FieldType::List(Box::new(FieldType::Text))).ok()).unwrap_or_default();
            list.elements().iter().filter_map(|group| group.as_text().map(str::to_owned)).collect()
        });
        let mut groups: BTreeSet<&str> = by_group.keys().copied().collect();
        groups.extend(expected.iter().flatten().map(String::as_str));
        // a group without children has a row only where it is one of those that should have some
        groups.retain(|group| wanted.all || wanted.groups.contains(*group));
        let mut rows = BTreeMap::new();
        for group in groups {
            let Some(case) = case_of(children, group) else { continue };
            let own = by_group.get(group).map(Vec::as_slice).unwrap_or_default();
            let ty = case.measure.ty();
            let measured = measure(&case.measure, own);
            let value = match &case.value {
                Some(value) => self.number(value, coverage.parent, &parent.golden, group, Some((measured, &ty))).unwrap_or(0),
                None => measured,
            };
            let is_expected = expected.as_ref().is_none_or(|expected| expected.contains(group));
            let expected = case.expected.as_ref().filter(|_| is_expected);
            let expected =
                expected.and_then(|expected| self.number(expected, coverage.parent, &parent.golden, group, None)).map(|expected| expected.max(0));
            let missing = case.gaps.as_ref().filter(|_| is_expected).and_then(|asked| {
                let from = self.number(&asked.within.0, coverage.parent, &parent.golden, group, None)?;
                let to = self.number(&asked.within.1, coverage.parent, &parent.golden, group, None)?;
                Some(gaps(own.iter().filter_map(|child| child.span), (from, to), asked.start_tolerance))
            });
            rows.insert(group.to_owned(), CoverageRow { ty, value, expected, gaps: missing });
        }
        rows
    }

    /// Sums over rows that expect something.
    fn sums(&self, total: &CoverageTotal, ty: &FieldType, rows: &BTreeMap<String, CoverageRow>) -> BTreeMap<String, CoverageRow> {
        let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        let uses_rows =
            [&total.value, &total.expected].into_iter().flatten().any(|expression| expression.variables().iter().any(|name| name == "rows"));
        let all = if uses_rows { rows_to_cel(rows) } else { cel::Value::Null };
        for (group, row) in rows {
            let (Some(adjusted), Some(expected)) = (row.adjusted(), row.expected) else { continue };
            let scope = |_: &str| text_to_cel(group);
            let text = |found: cel::Value| Ok(from_cel(&found, &FieldType::Text).ok());
            let by = self.evaluator.eval(&total.by, &scope, |plain| plain.into_value(&FieldType::Text).map(Some), text);
            let Some(by) = self.noted(&total.by, by).flatten().and_then(|by| by.as_text().map(str::to_owned)) else { continue };
            let part = |expression: &Option<Expression>, otherwise: i64| match expression {
                None => otherwise as f64,
                Some(expression) => {
                    let scope = |name: &str| match name {
                        "group" => text_to_cel(group),
                        "by" => text_to_cel(&by),
                        "value" => cel::Value::Float(row.value as f64),
                        "expected" => cel::Value::Float(expected as f64),
                        "adjusted" => cel::Value::Float(adjusted as f64),
                        "rows" => all.clone(),
                        _ => cel::Value::Null,
                    };
                    let found = self.evaluator.eval(expression, &scope, |_| None, |found| Ok(plain_number(&found)));
                    self.noted(expression, found).flatten().filter(|number| number.is_finite()).unwrap_or(0.0)
                }
            };
            let (value, expected) = (part(&total.value, adjusted), part(&total.expected, expected));
            let sum = sums.entry(by).or_default();
            *sum = (sum.0 + value, sum.1 + expected);
        }
        let row = |(group, (value, expected)): (String, (f64, f64))| {
            (group, CoverageRow { ty: ty.clone(), value: value.round() as i64, expected: Some(expected.round() as i64), gaps: None })
        };
        sums.into_iter().map(row).collect()
    }

    /// A row as it is stored, if it says anything.
    fn row(&self, coverage: &Coverage, parent: &ParentState, group: &str, row: &CoverageRow) -> Option<(Key, Vec<Value>)> {
        if !row.says() {
            return None;
        }
        let number = |number: Option<i64>| number.map_or(Value::Null, Value::Int);
        let expected = row.expected.filter(|expected| *expected > 0);
        let shown = |gaps: &Vec<(i64, i64)>| {
            let gap = |(start, stop): &(i64, i64)| {
                serde_json::json!({
                    "start": stook_catalogue::value::show_timestamp(*start),
                    "stop": stook_catalogue::value::show_timestamp(*stop),
                    "duration": Value::Int(stop - start).to_json(&FieldType::Duration),
                })
            };
            Value::Json(Arc::new(gaps.iter().map(gap).collect::<Vec<_>>().into()))
        };
        let values = vec![
            Value::text(parent.key.as_str()),
            Value::text(group),
            Value::Int(row.value),
            number(expected),
            number(row.adjusted()),
            row.percentage().map_or(Value::Null, Value::Float),
            row.status().map_or(Value::Null, Value::text),
            row.gaps.as_ref().filter(|gaps| !gaps.is_empty()).map_or(Value::Null, shown),
        ];
        self.keyed(coverage, parent, values)
    }

    fn run_row(&self, coverage: &Coverage, parent: &ParentState, run: &ValueRun) -> Option<(Key, Vec<Value>)> {
        let length = Value::Int(run.stop - run.start);
        let values = vec![Value::text(parent.key.as_str()), run.value.clone(), Value::Int(run.start), Value::Int(run.stop), length];
        self.keyed(coverage, parent, values)
    }

    /// The key of a group's row.
    fn row_key(&self, coverage: &Coverage, parent: &Key, group: &str) -> Option<Key> {
        let rows = &self.rules.catalogue.collections[coverage.rows];
        let mut values = vec![Value::Null; rows.fields.len()];
        (values[0], values[1]) = (Value::text(parent.as_str()), Value::text(group));
        row_key(rows, &values, self.evaluator)
    }

    /// Values of a row with its key and what it repeats of its parent.
    fn keyed(&self, coverage: &Coverage, parent: &ParentState, mut values: Vec<Value>) -> Option<(Key, Vec<Value>)> {
        let rows = &self.rules.catalogue.collections[coverage.rows];
        let of = &self.rules.catalogue.collections[coverage.parent];
        for field in &rows.fields[values.len()..] {
            values.push(of.field(&field.name).map(|(index, _)| parent.golden[index].clone()).unwrap_or_default());
        }
        let key = row_key(rows, &values, self.evaluator)?;
        Some((key, values))
    }

    fn holds(&self, condition: &Expression, collection: usize, golden: &[Value]) -> bool {
        matches!(self.evaluate(condition, collection, golden, "", None), Some(cel::Value::Bool(true)))
    }

    fn evaluate(
        &self,
        expression: &Expression,
        collection: usize,
        golden: &[Value],
        group: &str,
        value: Option<(i64, &FieldType)>,
    ) -> Option<cel::Value> {
        let golden = GoldenValues::new(&self.rules.catalogue.collections[collection], golden);
        let plain = |plain: PlainValue<'_>| match plain {
            PlainValue::Bool(value) => Some(cel::Value::Bool(value)),
            PlainValue::Int(number) => Some(cel::Value::Int(number)),
            PlainValue::Length(length) => Some(cel::Value::Duration(chrono::Duration::microseconds(length))),
            _ => None,
        };
        self.noted(expression, self.evaluator.eval(expression, &CoverageScope { golden, group, value }, plain, Ok))
    }

    /// What an expression gives; that it has failed is noted.
    fn noted<T>(&self, expression: &Expression, found: std::result::Result<T, String>) -> Option<T> {
        found.map_err(|error| self.evaluator.note("coverage", expression, &error)).ok()
    }

    /// The result of an expression as a whole number; of times and durations their microseconds.
    fn number(&self, expression: &Expression, collection: usize, golden: &[Value], group: &str, value: Option<(i64, &FieldType)>) -> Option<i64> {
        match self.evaluate(expression, collection, golden, group, value)? {
            cel::Value::Timestamp(time) => Some(time.timestamp_micros()),
            cel::Value::Duration(length) => length.num_microseconds(),
            other => plain_number(&other).filter(|number| number.is_finite()).map(|number| number.round() as i64),
        }
    }
}

/// What the expressions of a coverage know: the parent's values, the group, and what is measured.
struct CoverageScope<'s> {
    golden: GoldenValues<'s>,
    group: &'s str,
    value: Option<(i64, &'s FieldType)>,
}

impl Scope for CoverageScope<'_> {
    fn plain(&self, name: &str, member: Option<&str>) -> Option<PlainValue<'_>> {
        match (name, member, self.value) {
            ("group", None, _) => Some(PlainValue::Text(PlainText::Borrowed(self.group))),
            ("value", None, Some((value, FieldType::Duration))) => Some(PlainValue::Length(value)),
            ("value", None, Some((value, _))) => Some(PlainValue::Int(value)),
            (name, None, _) => self.golden.plain(name, None),
            _ => None,
        }
    }

    fn cel(&self, name: &str, read: &[MemberReference]) -> cel::Value {
        match (name, self.value) {
            ("group", _) => text_to_cel(self.group),
            ("value", Some((value, ty))) => to_cel(&Value::Int(value), ty),
            _ => self.golden.cel(name, read),
        }
    }
}

impl CoverageRow {
    /// A row as it is in the store.
    fn stored(record: &StoredRecord, case: &MeasureCase) -> Self {
        let number = |index: usize| record.golden[index].as_int();
        let gaps = match &record.golden[7] {
            Value::Json(list) => list.as_array().map(|list| {
                let time = |gap: &serde_json::Value, name: &str| {
                    let shown = gap.get(name).cloned().unwrap_or_default();
                    stook_catalogue::value::from_json(&shown, &FieldType::Timestamp, None).ok().and_then(|time| time.as_int()).unwrap_or(0)
                };
                list.iter().map(|gap| (time(gap, "start"), time(gap, "stop"))).collect()
            }),
            _ => None,
        };
        Self { ty: case.measure.ty(), value: number(2).unwrap_or(0), expected: number(3), gaps }
    }
}

fn case_of<'c>(children: &'c GroupedChildren, group: &str) -> Option<&'c MeasureCase> {
    children.cases.iter().find(|case| case.pattern.as_ref().is_none_or(|pattern| pattern.is_match(group)))
}

/// A measure of children, which are in the order of their starts.
fn measure(measure: &Measure, children: &[&ChildPayload]) -> i64 {
    match measure {
        Measure::Union => union(children.iter().filter_map(|child| child.span)),
        Measure::Count => children.len() as i64,
        Measure::Distinct { edge_fields: told, tolerance: near } => {
            let of = |child: &&ChildPayload| {
                let mut bytes = Vec::new();
                for place in told {
                    if child.fields[*place].is_null() {
                        return None;
                    }
                    put_value(&mut bytes, &child.fields[*place]);
                }
                let start = child.span.map(|(start, _)| start);
                if near.is_some() { start.map(|start| (bytes, start)) } else { Some((bytes, 0)) }
            };
            distinct(children.iter().filter_map(of).collect(), *near)
        }
    }
}

/// The runs of what children say, which may be of several groups.
fn observed(children: &[(SmolStr, SmolStr, ChildPayload)], condition: usize, told: usize, max_gap: i64) -> Vec<ValueRun> {
    // an interval that ends before it begins is none
    let is_one = |child: &ChildPayload| child.span.is_some_and(|(start, stop)| start <= stop);
    let said = children.iter().filter(|(.., child)| child.meets(condition) && is_one(child));
    let mut seen: Vec<(i64, i64, &str, Value)> =
        said.filter_map(|(_, key, child)| Some((child.span?.0, child.span?.1, key.as_str(), child.fields[told].clone()))).collect();
    seen.sort_by(|a, b| (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)));
    runs(seen.into_iter().map(|(start, stop, _, value)| (start, stop, value)), max_gap)
}

fn plain_number(value: &cel::Value) -> Option<f64> {
    match value {
        cel::Value::Int(number) => Some(*number as f64),
        cel::Value::UInt(number) => Some(*number as f64),
        cel::Value::Float(number) => Some(*number),
        _ => None,
    }
}

/// Rows by group as expressions see them: numbers, durations in microseconds.
fn rows_to_cel(rows: &BTreeMap<String, CoverageRow>) -> cel::Value {
    let name = |name: &str| CelKey::String(Arc::new(name.to_owned()));
    let number = |number: Option<i64>| number.map_or(cel::Value::Null, |number| cel::Value::Float(number as f64));
    let entry = |(group, row): (&String, &CoverageRow)| {
        let values = [("value", number(Some(row.value))), ("expected", number(row.expected)), ("adjusted", number(row.adjusted()))];
        let map: HashMap<CelKey, cel::Value> = values.into_iter().map(|(member, value)| (name(member), value)).collect();
        (name(group), cel::Value::Map(CelMap { map: Arc::new(map) }))
    };
    cel::Value::Map(CelMap { map: Arc::new(rows.iter().map(entry).collect()) })
}

/// Keeps the settled values a record had: whoever changes what documents say of it does not know better.
pub(crate) fn carry_settled(collection: &Collection, before: &[Value], after: &mut Arc<[Value]>) {
    if !collection.settles() {
        return;
    }
    let after = Arc::make_mut(after);
    for (index, _) in collection.fields.iter().enumerate().filter(|(_, field)| field.is_settled()) {
        after[index] = before[index].clone();
    }
}

/// The key of a coverage's row: its parent, and its group or interval. Where that is longer than a key may be, its end is a hash of all.
fn row_key(rows: &Collection, values: &[Value], evaluator: &Evaluator) -> Option<Key> {
    let text = crate::chunk::map::key_text(rows, values, evaluator).ok()?;
    let shortened = || {
        let hash = blake3::hash(text.as_bytes()).to_hex();
        let end = (0..=MAX_KEY_BYTES - 40).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        format!("{}…{}", &text[..end], &hash[..32])
    };
    Key::new(text.clone()).or_else(|_| Key::new(shortened())).ok()
}
