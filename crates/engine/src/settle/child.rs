//! The pass that settles records as children: which records they link to, and what they read there.

use super::edges::{interval, tuples};
use super::fan::{candidates, merge};
use super::{By, Jobs, Rules, Work, key_in};
use cel::objects::{Key as CelKey, Map as CelMap};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use stook_catalogue::definition::{Collection, Field};
use stook_catalogue::expr::{Evaluator, from_cel, text_to_cel, to_cel};
use stook_catalogue::key::Key;
use stook_catalogue::links::{Derivation, LinkRule, Overlap, members_of};
use stook_catalogue::plain::Lean;
use stook_catalogue::value::{FieldType, Value};
use stook_store::{Inside, Result, StoredRecord};

impl Work<'_> {
    /// Settles children of one collection.
    pub(super) fn children(&mut self, desk: &mut dyn Inside, collection: usize, children: &BTreeMap<Key, Jobs>) -> Result<()> {
        let keys: Vec<Key> = children.keys().cloned().collect();
        if keys.is_empty() {
            return Ok(());
        }
        let held: Vec<StoredRecord> = desk.hold(collection, &keys)?.into_iter().flatten().filter(|record| record.alive).collect();
        let mut golden: Vec<Vec<Value>> = held.iter().map(|record| record.golden.clone()).collect();
        let own = &self.rules.relations[collection];
        for link in &own.finds {
            self.find(desk, *link, &mut golden)?;
        }
        if !own.through.is_empty() {
            self.take(desk, collection, &mut golden)?;
        }
        for (record, golden) in held.iter().zip(golden) {
            self.settle(collection, record, golden, By::Child, &children[&record.key]);
        }
        Ok(())
    }

    /// Finds the targets of one link, for all children at once.
    fn find(&mut self, desk: &mut dyn Inside, link: usize, golden: &mut [Vec<Value>]) -> Result<()> {
        let link = &self.rules.catalogue.links[link];
        let LinkRule::Same { fields, overlap } = &link.rule else { return Ok(()) };
        let child = &self.rules.catalogue.collections[link.from];
        let mine: Vec<usize> = fields.iter().map(|(own, _)| *own).collect();
        // what must be equal, and the interval that must overlap
        type Sought = (Vec<String>, Option<(i64, i64)>);
        let wanted: Vec<Sought> = golden
            .iter()
            .map(|values| {
                let holds = link.when.as_ref().is_none_or(|when| self.evaluator.holds_of(when, child, values));
                let tuples = if holds { tuples(child, &mine, values) } else { Vec::new() };
                (tuples, interval(overlap.as_ref(), |overlap| overlap.mine, values))
            })
            .collect();
        let mut ranges = Vec::new();
        for (tuples, span) in &wanted {
            let Some((start, stop)) = span else { continue };
            let (low, high) = match overlap {
                Some(overlap) => (start - overlap.tolerance - overlap.reach, stop + overlap.tolerance),
                None => (0, 0),
            };
            ranges.extend(tuples.iter().map(|tuple| (tuple.clone(), low, high)));
        }
        let ranges = merge(ranges);
        let edges = if ranges.is_empty() { Vec::new() } else { desk.between(link.targets(), &ranges, usize::MAX >> 1)? };
        let candidates = candidates(&edges);
        for (values, (tuples, span)) in golden.iter_mut().zip(&wanted) {
            let near = tuples.iter().filter_map(|tuple| candidates.get(tuple.as_str()));
            let best = span.and_then(|span| near.filter_map(|own| nearest(own, overlap.as_ref(), span)).min());
            values[link.field] = best.map_or(Value::Null, |(.., key)| Value::text(key));
        }
        Ok(())
    }

    /// Takes the values of settled fields with expressions.
    fn take(&mut self, desk: &mut dyn Inside, collection: usize, golden: &mut [Vec<Value>]) -> Result<()> {
        let own = &self.rules.relations[collection];
        let mut targets: HashMap<usize, HashMap<Key, Vec<Value>>> = HashMap::new();
        for index in &own.from {
            let link = &self.rules.catalogue.links[*index];
            if link.reads.is_empty() {
                continue;
            }
            let keys: BTreeSet<Key> = golden.iter().filter_map(|values| key_in(&values[link.field])).collect();
            let keys: Vec<Key> = keys.into_iter().collect();
            let records = if keys.is_empty() { Vec::new() } else { desk.read(link.to, &keys)? };
            let there = records.into_iter().flatten().filter(|record| record.alive);
            targets.insert(*index, there.map(|record| (record.key, record.golden)).collect());
        }
        for values in golden {
            read_through(self.rules, self.evaluator, collection, values, &|link, key| targets.get(&link)?.get(key).map(Vec::as_slice));
        }
        Ok(())
    }
}

/// Gives settled fields with expressions their values. `target` has the values of linked records, by link and key.
pub(super) fn read_through<'t>(
    rules: &'t Rules,
    evaluator: &'t Evaluator,
    collection: usize,
    values: &mut [Value],
    target: &dyn Fn(usize, &Key) -> Option<&'t [Value]>,
) {
    let own = &rules.relations[collection];
    let definition = &rules.catalogue.collections[collection];
    for field in &own.through {
        let Field { derive: Some(Derivation::Through(expression)), ty, .. } = &definition.fields[*field] else { continue };
        let value = {
            let values = &*values;
            let linked_by = |name: &str| -> Option<(&'t Collection, &Value, Option<&'t [Value]>)> {
                let index = own.from.iter().find(|link| rules.catalogue.links[**link].name == name)?;
                let link = &rules.catalogue.links[*index];
                let key = &values[link.field];
                Some((&rules.catalogue.collections[link.to], key, key_in(key).and_then(|key| target(*index, &key))))
            };
            let plain = evaluator.lean(expression, &mut |name, member| match (member, linked_by(name)) {
                (Some(member), Some((of, key, target))) => match (of.field(member), target) {
                    (None, _) => Some(Lean::of(key, &FieldType::Text)),
                    (Some((index, field)), Some(target)) => Some(Lean::of(&target[index], field.golden_type())),
                    (Some(_), None) => Some(Lean::Null),
                },
                (None, None) => definition.field(name).map(|(index, field)| Lean::of(&values[index], field.golden_type())),
                _ => None,
            });
            match plain.and_then(|plain| plain.into_value(ty)) {
                Some(value) => value,
                None => {
                    let found = evaluator.evaluate(expression, |name| match linked_by(name) {
                        Some((of, key, target)) => linked(of, key.as_text(), target, members_of(expression, name).map(|member| member.name.as_str())),
                        None => definition.field(name).map_or(cel::Value::Null, |(index, field)| to_cel(&values[index], field.golden_type())),
                    });
                    found.ok().and_then(|found| from_cel(&found, ty).ok()).unwrap_or_default()
                }
            }
        };
        values[*field] = value;
    }
}

/// The settled values of a record that need no pass, because its targets are written beside it, or it has none; and those
/// targets. `written` says of a record whether it is written beside it, and what it is then. Nothing where a pass is needed.
pub fn at_once<'t>(
    rules: &'t Rules,
    evaluator: &'t Evaluator,
    collection: usize,
    values: &[Value],
    written: &dyn Fn(usize, &Key) -> Option<Option<&'t [Value]>>,
) -> Option<(Vec<Value>, Vec<(usize, Key)>)> {
    let own = &rules.relations[collection];
    let definition = &rules.catalogue.collections[collection];
    let mut settled = values.to_vec();
    for index in &own.finds {
        let link = &rules.catalogue.links[*index];
        let LinkRule::Same { fields, overlap } = &link.rule else { continue };
        let mine: Vec<usize> = fields.iter().map(|(own, _)| *own).collect();
        let looks = link.when.as_ref().is_none_or(|when| evaluator.holds_of(when, definition, values))
            && interval(overlap.as_ref(), |overlap| overlap.mine, values).is_some()
            && !tuples(definition, &mine, values).is_empty();
        if looks {
            return None;
        }
        settled[link.field] = Value::Null;
    }
    let mut targets = Vec::new();
    for index in &own.from {
        let link = &rules.catalogue.links[*index];
        if let Some(key) = key_in(&settled[link.field]).filter(|_| !link.reads.is_empty()) {
            written(link.to, &key)?;
            targets.push((link.to, key));
        }
    }
    let target = |link: usize, key: &Key| written(rules.catalogue.links[link].to, key).flatten();
    read_through(rules, evaluator, collection, &mut settled, &target);
    Some((settled, targets))
}

/// A linked record as expressions see it: the members they read, null where there is no record.
fn linked<'m>(collection: &Collection, key: Option<&str>, values: Option<&[Value]>, members: impl Iterator<Item = &'m str>) -> cel::Value {
    let member = |name: &str| match (collection.field(name), values) {
        (None, _) => key.map_or(cel::Value::Null, text_to_cel),
        (Some((index, field)), Some(values)) => to_cel(&values[index], field.golden_type()),
        (Some(_), None) => cel::Value::Null,
    };
    let map: HashMap<CelKey, cel::Value> = members.map(|name| (CelKey::String(Arc::new(name.to_owned())), member(name))).collect();
    cel::Value::Map(CelMap { map: Arc::new(map) })
}

/// The nearest of candidates to an interval, if any is near enough: its distance, start and key.
fn nearest<'c>(candidates: &[(i64, i64, &'c str)], overlap: Option<&Overlap>, (start, stop): (i64, i64)) -> Option<(i64, i64, &'c str)> {
    let Some(overlap) = overlap else { return candidates.first().map(|(start, _, key)| (0, *start, *key)) };
    let middle = start + (stop - start) / 2;
    let (low, high) = (start - overlap.tolerance, stop + overlap.tolerance);
    // candidates are in the order of their starts
    let end = candidates.partition_point(|(start, ..)| *start <= high);
    let near = candidates[..end].iter().filter(|(_, stop, _)| *stop >= low);
    near.map(|(start, stop, key)| ((*start - middle).max(middle - *stop).max(0), *start, *key)).min()
}
