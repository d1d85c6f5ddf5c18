//! The edges of a record: what it passes to its targets, as a pure function of its golden values.

use super::payload::ChildPayload;
use super::rules::SettleRules;
use std::collections::{BTreeMap, HashSet};
use stook_catalogue::definition::Collection;
use stook_catalogue::eval::{Evaluator, Expression};
use stook_catalogue::golden::GoldenValues;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;
use stook_catalogue::links::{IntervalOverlap, Link};
use stook_catalogue::value::{FieldType, SmolStr, Value};

/// The maximum number of edges that register one interval, if it is longer than its link's `reach`.
const MAX_STEPS: i64 = 1_000;

/// What identifies an edge within its tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EdgeKey {
    pub(super) link: u32,
    pub(super) target: SmolStr,
    pub(super) group: SmolStr,
    pub(super) start: i64,
    pub(super) child: SmolStr,
}

/// Builds the edges of one record.
pub(super) struct EdgeBuilder<'t> {
    pub(super) rules: &'t SettleRules,
    pub(super) evaluator: &'t Evaluator,
    pub(super) collection: CollectionId,
    pub(super) key: &'t Key,
}

impl EdgeBuilder<'_> {
    pub(super) fn edges(&self, values: &[Value]) -> BTreeMap<EdgeKey, Vec<u8>> {
        let mut edges = BTreeMap::new();
        let relations = &self.rules.relations[self.collection];
        let child = self.key.shared();
        for link in relations.from.iter().map(|link| &self.rules.catalogue.links[*link]) {
            let mut targets = link.target_keys(values).peekable();
            if targets.peek().is_some()
                && let Some((group, start, payload)) = self.edge_content(link, values)
            {
                for target in targets {
                    let id = EdgeKey { link: link.edges(), target: target.clone(), group: group.clone(), start, child: child.clone() };
                    edges.insert(id, payload.clone());
                }
            }
            if !link.target_rule.is_searched() || !self.holds(link, link.when.as_ref(), values) {
                continue;
            }
            let overlap = link.target_rule.overlap();
            for target in registered(link, self.definition(), &link.target_rule.own_criteria(), values).into_iter().flatten() {
                for start in steps(overlap, |overlap| overlap.mine, values) {
                    let id = EdgeKey { link: link.children(), target: target.clone(), group: SmolStr::default(), start, child: child.clone() };
                    edges.insert(id, Vec::new());
                }
            }
        }
        for link in relations.to.iter().map(|link| &self.rules.catalogue.links[*link]) {
            let overlap = link.target_rule.overlap();
            let span = interval(overlap, |overlap| overlap.theirs, values);
            for target in registered(link, self.definition(), &link.target_rule.target_criteria(), values).into_iter().flatten() {
                for start in steps(overlap, |overlap| overlap.theirs, values) {
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

    /// The group, start and payload of the edge to a target; `None` if no rollup, coverage, creation or reading child needs an edge.
    fn edge_content(&self, link: &Link, values: &[Value]) -> Option<(SmolStr, i64, Vec<u8>)> {
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
        let fields = link.edge_fields.iter().map(|field| values[*field].clone()).collect();
        Some((group, span.map_or(0, |(start, _)| start), ChildPayload { conditions, span, fields }.pack()))
    }

    fn holds(&self, link: &Link, condition: Option<&Expression>, values: &[Value]) -> bool {
        let context = || format!("a condition on link `{}`", link.name);
        condition.is_none_or(|condition| self.evaluator.holds_or_note(&context, condition, &GoldenValues::new(self.definition(), values)))
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

/// The texts under which a record registers itself for a link by equal fields, by criterion. Where there are several criteria, a text begins with the
/// number of its own.
pub(crate) fn registered(link: &Link, collection: &Collection, criteria: &[Vec<FieldId>], values: &[Value]) -> Vec<Vec<SmolStr>> {
    let of_criterion = |(number, fields): (usize, &Vec<FieldId>)| -> Vec<SmolStr> {
        let texts = tuples(link, collection, fields, values);
        if criteria.len() == 1 { texts } else { texts.into_iter().map(|text| format!("{number}:{text}").into()).collect() }
    };
    criteria.iter().enumerate().map(of_criterion).collect()
}

/// The texts that must be equal for a link by equal fields: one for each combination of elements of lists, up to a limit; none if a value is missing.
fn tuples(link: &Link, collection: &Collection, fields: &[FieldId], values: &[Value]) -> Vec<SmolStr> {
    if let [only] = fields
        && let Value::Text(text) = &values[*only]
    {
        return vec![text.clone()];
    }
    let max_tuples = link.max_equal_elements(collection, fields.iter().copied());
    let mut tuples: Vec<Vec<String>> = vec![Vec::new()];
    for field in fields {
        let elements = elements(collection, *field, values);
        let longer = tuples.iter().flat_map(|tuple| elements.iter().map(|element| [tuple.as_slice(), std::slice::from_ref(element)].concat()));
        tuples = longer.take(max_tuples).collect();
    }
    // one field gives its text, several give a JSON array
    let text = |tuple: Vec<String>| match tuple.as_slice() {
        [only] => only.into(),
        several => serde_json::Value::from(several).to_string().into(),
    };
    tuples.into_iter().map(text).collect()
}

/// The elements of a list, or a single value, as distinct texts.
pub(super) fn elements(collection: &Collection, field: FieldId, values: &[Value]) -> Vec<String> {
    let ty = collection.fields[field].golden_type().element();
    let mut seen = HashSet::new();
    let elements = values[field].elements().iter().filter(|value| !value.is_null()).map(|value| value.show(ty));
    elements.filter(|element| seen.insert(element.clone())).collect()
}

/// A record's interval for an overlap; (0, 0) if the link compares no intervals, `None` if the record has none.
pub(crate) fn interval(
    overlap: Option<&IntervalOverlap>,
    of: impl Fn(&IntervalOverlap) -> (FieldId, FieldId),
    values: &[Value],
) -> Option<(i64, i64)> {
    let Some(overlap) = overlap else { return Some((0, 0)) };
    let (start, stop) = of(overlap);
    let (start, stop) = (values[start].as_int()?, values[stop].as_int()?);
    Some((start, stop.max(start)))
}

/// The positions at which an interval is registered: its start, and every `reach` after that, so that a search that goes back by `reach` finds
/// it.
fn steps(overlap: Option<&IntervalOverlap>, of: impl Fn(&IntervalOverlap) -> (FieldId, FieldId), values: &[Value]) -> Vec<i64> {
    let Some((start, stop)) = interval(overlap, of, values) else { return Vec::new() };
    let reach = overlap.map_or(1, |overlap| overlap.reach);
    let steps = ((stop - start) / reach).min(MAX_STEPS);
    (0..=steps).map(|step| start + step * reach).collect()
}
