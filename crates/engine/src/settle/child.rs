//! The pass that settles records as children: which records they link to, and what they read there.

use super::edges::{interval, tuples};
use super::fan::{candidates, merge};
use super::{By, Jobs, Work, key_in};
use cel::objects::{Key as CelKey, Map as CelMap};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use stook_catalogue::definition::Field;
use stook_catalogue::expr::{from_cel, text_to_cel, to_cel};
use stook_catalogue::key::Key;
use stook_catalogue::links::{Derivation, Link, LinkRule, Overlap, members_of};
use stook_catalogue::plain::Lean;
use stook_catalogue::value::Value;
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
        let definition = &self.rules.catalogue.collections[collection];
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
            for field in &own.through {
                let Field { derive: Some(Derivation::Through(expression)), ty, .. } = &definition.fields[*field] else { continue };
                let value = {
                    let target_of = |name: &str| -> Option<(&Link, Option<&str>, Option<&Vec<Value>>)> {
                        let index = own.from.iter().find(|link| self.rules.catalogue.links[**link].name == name)?;
                        let link = &self.rules.catalogue.links[*index];
                        let target = key_in(&values[link.field]).and_then(|key| targets.get(index)?.get(&key));
                        Some((link, values[link.field].as_text(), target))
                    };
                    let plain = self.evaluator.lean(expression, &mut |name, member| match (member, target_of(name)) {
                        (Some(member), Some((link, key, target))) => match (self.rules.catalogue.collections[link.to].field(member), target) {
                            (None, _) => Some(key.map_or(Lean::Null, |key| Lean::Text(key.into()))),
                            (Some((index, field)), Some(target)) => Some(Lean::of(&target[index], field.golden_type())),
                            (Some(_), None) => Some(Lean::Null),
                        },
                        (None, None) => definition.field(name).map(|(index, field)| Lean::of(&values[index], field.golden_type())),
                        _ => None,
                    });
                    match plain.and_then(|plain| plain.into_value(ty)) {
                        Some(value) => value,
                        None => {
                            let found = self.evaluator.evaluate(expression, |name| match target_of(name) {
                                Some((link, key, target)) => {
                                    let members = members_of(expression, name).map(|member| member.name.as_str());
                                    linked(&self.rules.catalogue.collections[link.to], key, target.map(Vec::as_slice), members)
                                }
                                None => definition.field(name).map_or(cel::Value::Null, |(index, field)| to_cel(&values[index], field.golden_type())),
                            });
                            found.ok().and_then(|found| from_cel(&found, ty).ok()).unwrap_or_default()
                        }
                    }
                };
                values[*field] = value;
            }
        }
        Ok(())
    }
}

/// A linked record as expressions see it: the members they read, null where there is no record.
fn linked<'m>(
    collection: &stook_catalogue::definition::Collection,
    key: Option<&str>,
    values: Option<&[Value]>,
    members: impl Iterator<Item = &'m str>,
) -> cel::Value {
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
