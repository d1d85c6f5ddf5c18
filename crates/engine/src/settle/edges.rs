//! What a record tells its targets, as a pure function of its golden values; and what follows from a change of them.

use super::fan::SearchBounds;
use super::measure::ChildPayload;
use super::{CHILD, FOUND, PARENT, READ, SettleRules};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::expr::{Evaluator, Expression};
use stook_catalogue::golden::GoldenValues;
use stook_catalogue::key::Key;
use stook_catalogue::links::{Derivation, IntervalOverlap, Link, TargetRule, listed};
use stook_catalogue::value::{FieldType, SmolStr, Value};
use stook_store::queue::JobId;
use stook_store::{Edge, EdgeChange, SettlingChanges, StaleMark};

/// Most rows for an interval that is longer than its link's `reach`.
const MOST_STEPS: i64 = 1_000;

/// Who changed a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeCause {
    /// A document, an edit.
    External,
    /// The same, and its settled values are what they must be.
    InlineSettled,
    /// The pass that settles it as a child.
    ChildPass,
    /// The pass that settles it as a parent.
    ParentPass,
}

/// A change of a record's golden values; nothing where it does not exist.
#[derive(Debug)]
pub struct ValueChange<'c> {
    /// The collection's index.
    pub collection: usize,
    /// The record.
    pub key: &'c Key,
    /// What it was.
    pub before: Option<&'c [Value]>,
    /// What it is.
    pub after: Option<&'c [Value]>,
    /// The job that did it.
    pub job: JobId,
    /// Which part of the work did it.
    pub by: ChangeCause,
}

/// What follows from changes: edges, and marks, each once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Propagation {
    edges: Vec<EdgeChange>,
    /// Stratum, rule, target, part, job.
    marks: BTreeSet<(u32, u32, SmolStr, SmolStr, JobId)>,
    /// Marks of records that are new: needed if others have named them before.
    marks_if_linked: BTreeSet<(u32, u32, SmolStr, SmolStr, JobId)>,
}

impl Propagation {
    /// Whether nothing follows.
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty() && self.marks.is_empty() && self.marks_if_linked.is_empty()
    }

    /// Adds what follows from other changes.
    pub fn extend(&mut self, other: &Propagation) {
        self.edges.extend_from_slice(&other.edges);
        self.marks.extend(other.marks.iter().cloned());
        self.marks_if_linked.extend(other.marks_if_linked.iter().cloned());
    }

    /// What one job has caused, others have caused, too.
    pub(super) fn share(&mut self, job: JobId, others: &[JobId]) {
        for marks in [&mut self.marks, &mut self.marks_if_linked] {
            let own: Vec<_> = marks.iter().filter(|(.., caused)| *caused == job).cloned().collect();
            for other in others {
                marks.extend(own.iter().cloned().map(|(stratum, rule, target, part, _)| (stratum, rule, target, part, *other)));
            }
        }
    }

    /// As the store takes it.
    pub fn settling(self) -> SettlingChanges {
        let mark = |(stratum, rule, target, part, job)| StaleMark { id: 0, phase: stratum, rule, target, group: part, job };
        let (marks, new) = (self.marks.into_iter().map(mark).collect(), self.marks_if_linked.into_iter().map(mark).collect());
        SettlingChanges { edges: self.edges, marks, marks_if_linked: new, ..SettlingChanges::default() }
    }

    /// Asks for a pass that settles a record as a child.
    pub fn ask(&mut self, rules: &SettleRules, collection: usize, key: &Key, job: JobId) {
        let own = &rules.relations[collection];
        self.mark(own.order << 2 | CHILD, own.id, key.shared(), "", job);
    }

    /// Asks for a pass that settles a record as a parent, with the part that is asked for.
    pub fn ask_as_parent(&mut self, rules: &SettleRules, collection: usize, (key, part): (&Key, &str), job: JobId) {
        let own = &rules.relations[collection];
        self.mark(own.order << 2 | PARENT, own.id, key.shared(), part, job);
    }

    /// Adds a change of an edge.
    pub fn edge(&mut self, change: EdgeChange) {
        self.edges.push(change);
    }

    pub(super) fn mark(&mut self, stratum: u32, rule: u32, target: impl Into<SmolStr>, part: impl Into<SmolStr>, job: JobId) {
        self.marks.insert((stratum, rule, target.into(), part.into(), job));
    }

    /// Adds what follows from a change.
    pub fn follow(&mut self, rules: &SettleRules, evaluator: &Evaluator, changed: &ValueChange<'_>) {
        let own = &rules.relations[changed.collection];
        if !own.any() || changed.before == changed.after {
            return;
        }
        self.follow_edges(rules, evaluator, changed);
        let collection = &rules.catalogue.collections[changed.collection];
        let key = || changed.key.shared();
        let differs = |field: usize| match (changed.before, changed.after) {
            (Some(before), Some(after)) => before[field] != after[field],
            (before, after) => before.is_some() != after.is_some(),
        };
        let needs_settling = || match (changed.before, changed.after) {
            (Some(before), Some(after)) => !rules.stays_settled(changed.collection, before, after),
            (_, after) => after.is_some(),
        };
        if own.is_child() && !matches!(changed.by, ChangeCause::ChildPass | ChangeCause::InlineSettled) && needs_settling() {
            self.mark(own.order << 2 | CHILD, own.id, key(), "", changed.job);
        }
        for link in own.to.iter().map(|link| &rules.catalogue.links[*link]) {
            let comes_or_goes = changed.before.is_some() != changed.after.is_some();
            if link.read_fields.iter().any(|field| differs(*field)) || link.reads_existence && comes_or_goes {
                let stratum = rules.relations[link.child_collection].order << 2 | READ;
                if changed.before.is_none() {
                    self.marks_if_linked.insert((stratum, link.id, key(), SmolStr::default(), changed.job));
                } else {
                    self.mark(stratum, link.id, key(), "", changed.job);
                }
            }
        }
        let is_rollup = |field: usize| matches!(collection.fields[field].derive, Some(Derivation::Rollup(_)));
        if own.is_parent() && changed.by != ChangeCause::ParentPass && (0..collection.fields.len()).any(|field| !is_rollup(field) && differs(field)) {
            self.ask_as_parent(rules, changed.collection, (changed.key, ""), changed.job);
        }
    }

    fn follow_edges(&mut self, rules: &SettleRules, evaluator: &Evaluator, changed: &ValueChange<'_>) {
        let teller = EdgeBuilder { rules, evaluator, collection: changed.collection, key: changed.key };
        let before = changed.before.map(|values| teller.edges(values)).unwrap_or_default();
        let after = changed.after.map(|values| teller.edges(values)).unwrap_or_default();
        let gone = before.iter().filter(|(id, _)| !after.contains_key(*id));
        let put = after.iter().filter(|(id, payload)| before.get(*id) != Some(*payload));
        for ((id, payload), is_put) in gone.map(|edge| (edge, false)).chain(put.map(|edge| (edge, true))) {
            let Some(link) = rules.links.get(&(id.link & !3)).map(|link| &rules.catalogue.links[*link]) else { continue };
            if id.link == link.edges() {
                if link.is_measured() {
                    let to = &rules.relations[link.target_collection];
                    self.mark(to.order << 2 | PARENT, to.id, id.target.clone(), format!("g{}", id.group), changed.job);
                }
            } else if id.link == link.targets() {
                // it was made here
                let Some((low, high)) = interval_of(payload) else { continue };
                self.mark(
                    rules.relations[link.child_collection].order << 2 | FOUND,
                    link.id,
                    id.target.clone(),
                    SearchBounds { low, high, cursor: None }.text(),
                    changed.job,
                );
            }
            let EdgeKey { link, target, group, start, child } = id.clone();
            let edge = Edge { link, target, group, start, child, payload: payload.clone() };
            self.edges.push(if is_put { EdgeChange::Put(edge) } else { EdgeChange::Delete(edge) });
        }
    }
}

/// What distinguishes an edge from others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct EdgeKey {
    link: u32,
    target: SmolStr,
    group: SmolStr,
    start: i64,
    child: SmolStr,
}

/// What one record tells.
struct EdgeBuilder<'t> {
    rules: &'t SettleRules,
    evaluator: &'t Evaluator,
    collection: usize,
    key: &'t Key,
}

impl EdgeBuilder<'_> {
    fn edges(&self, values: &[Value]) -> BTreeMap<EdgeKey, Vec<u8>> {
        let mut edges = BTreeMap::new();
        let own = &self.rules.relations[self.collection];
        let child = self.key.shared();
        for link in own.from.iter().map(|link| &self.rules.catalogue.links[*link]) {
            let mut targets = link.leads_to(values).peekable();
            if targets.peek().is_some()
                && let Some((group, start, payload)) = self.told(link, values)
            {
                for target in targets {
                    let id = EdgeKey { link: link.edges(), target: target.clone(), group: group.clone(), start, child: child.clone() };
                    edges.insert(id, payload.clone());
                }
            }
            let TargetRule::Same { fields, overlap } = &link.target_rule else { continue };
            if !self.holds(link, link.when.as_ref(), values) {
                continue;
            }
            let mine: Vec<usize> = fields.iter().map(|(own, _)| *own).collect();
            for target in tuples(link, self.definition(), &mine, values) {
                for start in steps(overlap.as_ref(), |overlap| overlap.mine, values) {
                    let id = EdgeKey { link: link.children(), target: target.clone(), group: SmolStr::default(), start, child: child.clone() };
                    edges.insert(id, Vec::new());
                }
            }
        }
        for link in own.to.iter().map(|link| &self.rules.catalogue.links[*link]) {
            let TargetRule::Same { fields, overlap } = &link.target_rule else { continue };
            let theirs: Vec<usize> = fields.iter().map(|(_, other)| *other).collect();
            let span = interval(overlap.as_ref(), |overlap| overlap.theirs, values);
            for target in tuples(link, self.definition(), &theirs, values) {
                for start in steps(overlap.as_ref(), |overlap| overlap.theirs, values) {
                    let id = EdgeKey { link: link.targets(), target: target.clone(), group: SmolStr::default(), start, child: child.clone() };
                    let (from, to) = span.unwrap_or_default();
                    edges.insert(id, [from.to_le_bytes(), to.to_le_bytes()].concat());
                }
            }
        }
        edges
    }

    fn definition(&self) -> &Collection {
        &self.rules.catalogue.collections[self.collection]
    }

    /// Group, start and payload of the edge to a target, if its rules, or a reader's, need one.
    fn told(&self, link: &Link, values: &[Value]) -> Option<(SmolStr, i64, Vec<u8>)> {
        if !link.is_measured() {
            return link.is_only_read().then(Default::default);
        }
        let mut conditions = 0;
        for (bit, condition) in link.conditions.iter().enumerate() {
            let holds = condition.source() == "true" || self.holds(link, Some(condition), values);
            conditions |= u64::from(holds) << bit;
        }
        if conditions == 0 && !link.create && !link.is_read() {
            return None;
        }
        let group = link.group.as_ref().map(|group| self.group(link, group, values)).unwrap_or_default();
        let span = link.span.and_then(|(start, stop)| Some((values[start].as_int()?, values[stop].as_int()?)));
        let told = link.edge_fields.iter().map(|field| values[*field].clone()).collect();
        Some((group, span.map_or(0, |(start, _)| start), ChildPayload { conditions, span, fields: told }.pack()))
    }

    fn holds(&self, link: &Link, condition: Option<&Expression>, values: &[Value]) -> bool {
        let what = || format!("a condition on link `{}`", link.name);
        condition.is_none_or(|condition| self.evaluator.holds_or_note(&what, condition, &GoldenValues::new(self.definition(), values)))
    }

    fn group(&self, link: &Link, group: &Expression, values: &[Value]) -> SmolStr {
        match self.evaluator.value(group, &FieldType::Text, &GoldenValues::new(self.definition(), values)) {
            Ok(Value::Text(text)) => text,
            Ok(_) => SmolStr::default(),
            Err(error) => {
                self.evaluator.note(&format!("`group` of link `{}`", link.name), group, &error);
                SmolStr::default()
            }
        }
    }
}

/// What must be equal, as texts: one for each combination of elements of lists, as many as there may be; none where a value is missing.
pub(super) fn tuples(link: &Link, collection: &Collection, fields: &[usize], values: &[Value]) -> Vec<SmolStr> {
    if let [only] = fields
        && let Value::Text(text) = &values[*only]
    {
        return vec![text.clone()];
    }
    let most = link.most_equal(collection, fields.iter().copied());
    let mut tuples: Vec<Vec<String>> = vec![Vec::new()];
    for field in fields {
        let elements = elements(collection, *field, values);
        let longer = tuples.iter().flat_map(|tuple| elements.iter().map(|element| [tuple.as_slice(), std::slice::from_ref(element)].concat()));
        tuples = longer.take(most).collect();
    }
    // one text is itself, several are JSON
    let text = |tuple: Vec<String>| match tuple.as_slice() {
        [only] => only.into(),
        several => serde_json::Value::from(several).to_string().into(),
    };
    tuples.into_iter().map(text).collect()
}

/// The elements of a field, or its value, as texts: each once.
fn elements(collection: &Collection, field: usize, values: &[Value]) -> Vec<String> {
    let ty = collection.fields[field].golden_type().element();
    let mut seen = HashSet::new();
    let elements = values[field].elements().iter().filter(|value| !value.is_null()).map(|value| value.show(ty));
    elements.filter(|element| seen.insert(element.clone())).collect()
}

/// What links of a record leave out because there is more of it than they take, in sentences.
pub(crate) fn left_out(catalogue: &Catalogue, collection: usize, values: &[Value]) -> Vec<String> {
    let definition = &catalogue.collections[collection];
    let mut left_out = Vec::new();
    for link in catalogue.links.iter().filter(|link| link.speaks_of_lists(&catalogue.collections)) {
        // of a link to its own collection both ends are here
        for is_target in
            [false, true].into_iter().filter(|is_target| collection == if *is_target { link.target_collection } else { link.child_collection })
        {
            let fields: Vec<usize> = match &link.target_rule {
                TargetRule::Same { fields, .. } => fields.iter().map(|(own, other)| if is_target { *other } else { *own }).collect(),
                TargetRule::Key(key) if !is_target => listed(definition, key).into_iter().collect(),
                TargetRule::Key(_) => continue,
            };
            let most = link.most_equal(definition, fields.iter().copied());
            // lists that are short, which nearly all are, are not looked into
            if fields.iter().map(|field| values[*field].elements().len()).fold(1, usize::saturating_mul) <= most {
                continue;
            }
            let number = fields.iter().map(|field| elements(definition, *field, values).len()).fold(1, usize::saturating_mul);
            if number > most {
                let names: Vec<&str> = fields.iter().map(|field| definition.fields[*field].name.as_str()).collect();
                let (of, names, rest) = (&catalogue.collections[link.child_collection].name, names.join("`, `"), number - most);
                left_out.push(format!("link `{of}.{}` uses only the first {most} values of `{names}`; {rest} are ignored", link.name));
            }
        }
    }
    left_out
}

/// A record's interval for an overlap; every time where there is none to compare, nothing where the record has none.
pub(super) fn interval(overlap: Option<&IntervalOverlap>, of: impl Fn(&IntervalOverlap) -> (usize, usize), values: &[Value]) -> Option<(i64, i64)> {
    let Some(overlap) = overlap else { return Some((0, 0)) };
    let (start, stop) = of(overlap);
    let (start, stop) = (values[start].as_int()?, values[stop].as_int()?);
    Some((start, stop.max(start)))
}

/// Where an interval is registered: where it starts, and once for each `reach` of its length, so that whoever looks that far
/// back finds it.
fn steps(overlap: Option<&IntervalOverlap>, of: impl Fn(&IntervalOverlap) -> (usize, usize), values: &[Value]) -> Vec<i64> {
    let Some((start, stop)) = interval(overlap, of, values) else { return Vec::new() };
    let reach = overlap.map_or(1, |overlap| overlap.reach);
    let steps = ((stop - start) / reach).min(MOST_STEPS);
    (0..=steps).map(|step| start + step * reach).collect()
}

/// The interval that the registration of a target carries.
pub(super) fn interval_of(payload: &[u8]) -> Option<(i64, i64)> {
    let (start, stop) = payload.split_first_chunk::<8>()?;
    Some((i64::from_le_bytes(*start), i64::from_le_bytes(stop.try_into().ok()?)))
}
