//! The pass that settles records as children: which records they link to, and what they read there.

use super::edges::{interval, tuples};
use super::fan::{candidates, merge};
use super::{CausingJobs, ChangeCause, PassState, SettleRules, keys_of};
use cel::objects::{Key as CelKey, Map as CelMap};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use stook_catalogue::definition::{Catalogue, Collection, Field};
use stook_catalogue::expr::{Evaluator, Expression, MemberReference, Scope, to_cel};
use stook_catalogue::golden::GoldenValues;
use stook_catalogue::key::Key;
use stook_catalogue::links::{Derivation, IntervalOverlap, Link, TargetRule, in_order, keyed, members_of};
use stook_catalogue::plain::PlainValue;
use stook_catalogue::value::{FieldType, SmolStr, Value, among};
use stook_store::{Edge, EdgeRange, PassContext, ReadDetail, ReadSet, Result, Store, StoredRecord, Tenant};

impl PassState<'_> {
    /// Settles children of one collection.
    pub(super) fn children(&mut self, desk: &mut dyn PassContext, collection: usize, children: &BTreeMap<Key, CausingJobs>) -> Result<()> {
        let keys: Vec<Key> = children.keys().cloned().collect();
        if keys.is_empty() {
            return Ok(());
        }
        // most are what they must be: only those that are not are held
        let read: Vec<StoredRecord> = desk.read(collection, &keys)?.into_iter().flatten().filter(|record| record.alive).collect();
        let mut golden = self.settled(desk, collection, &read)?;
        if self.missing {
            // a target that is not there may be on its way
            desk.wait_for_new()?;
            golden = self.settled(desk, collection, &read)?;
        }
        let stale = read.iter().zip(&golden).filter(|(record, golden)| record.golden[..] != golden[..]);
        let keys: Vec<Key> = stale.map(|(record, _)| record.key.clone()).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let held: Vec<StoredRecord> = desk.hold(collection, &keys)?.into_iter().flatten().filter(|record| record.alive).collect();
        let golden = self.settled(desk, collection, &held)?;
        for (record, golden) in held.iter().zip(golden) {
            self.settle(collection, record, golden, ChangeCause::ChildPass, &children[&record.key]);
        }
        Ok(())
    }

    /// The values of records as they must be.
    fn settled(&mut self, desk: &mut dyn PassContext, collection: usize, records: &[StoredRecord]) -> Result<Vec<Arc<[Value]>>> {
        let mut golden: Vec<Arc<[Value]>> = records.iter().map(|record| Arc::from(&*record.golden)).collect();
        let own = &self.rules.relations[collection];
        self.missing = false;
        let definition = &self.rules.catalogue.collections[collection];
        // documents have given these; a rule that has changed since gives others
        for link in own.from.iter().map(|link| &self.rules.catalogue.links[*link]) {
            let TargetRule::Key(key) = &link.target_rule else { continue };
            for (values, record) in golden.iter_mut().zip(records) {
                let found = keyed(self.evaluator, definition, &link.name, link.when.as_ref(), key, values);
                self.note_failed(collection, &record.key);
                if values[link.field] != found {
                    Arc::make_mut(values)[link.field] = found;
                }
            }
        }
        for link in &own.lookup_links {
            let mut between = |link: u32, ranges: &[(SmolStr, i64, i64)]| desk.between(link, ranges, stook_store::NO_LIMIT);
            let (rules, evaluator) = (self.rules, self.evaluator);
            let mut seek = |place: usize, link: &Link, values: &[Value]| {
                let sought = sought(rules, evaluator, link, values);
                self.note_failed(collection, &records[place].key);
                sought
            };
            find(rules, *link, &mut golden, &mut seek, &mut between)?;
        }
        if !own.link_expressions.is_empty() {
            self.take(desk, collection, &mut golden, records)?;
        }
        Ok(golden)
    }

    /// Takes the values of settled fields with expressions.
    fn take(&mut self, desk: &mut dyn PassContext, collection: usize, golden: &mut [Arc<[Value]>], records: &[StoredRecord]) -> Result<()> {
        let own = &self.rules.relations[collection];
        let mut targets: HashMap<usize, HashMap<Key, Vec<Value>>> = HashMap::new();
        for index in &own.from {
            let link = &self.rules.catalogue.links[*index];
            if !link.is_read() {
                continue;
            }
            let keys: BTreeSet<Key> = golden.iter().flat_map(|values| keys_of(link, values)).collect();
            let keys: Vec<Key> = keys.into_iter().collect();
            let records = if keys.is_empty() { Vec::new() } else { desk.read(link.target_collection, &keys)? };
            self.missing |= records.iter().any(|record| record.as_ref().is_none_or(|record| !record.alive));
            let there = records.into_iter().flatten().filter(|record| record.alive);
            targets.insert(*index, there.map(|record| (record.key, record.golden)).collect());
        }
        for (values, record) in golden.iter_mut().zip(records) {
            read_through(self.rules, self.evaluator, collection, Arc::make_mut(values), &|link, key| targets.get(&link)?.get(key).map(Vec::as_slice));
            self.note_failed(collection, &record.key);
        }
        Ok(())
    }
}

/// Gives settled fields with expressions their values. `target` has the values of linked records, by link and key.
fn read_through<'t>(
    rules: &'t SettleRules,
    evaluator: &'t Evaluator,
    collection: usize,
    values: &mut [Value],
    target: &dyn Fn(usize, &Key) -> Option<&'t [Value]>,
) {
    let own = &rules.relations[collection];
    let definition = &rules.catalogue.collections[collection];
    let of = |index: &usize| {
        let link = &rules.catalogue.links[*index];
        let keys = if link.is_read() { keys_of(link, values) } else { Vec::new() };
        let targets = keys.iter().map(|key| target(*index, key)).collect();
        ResolvedLink { link, of: &rules.catalogue.collections[link.target_collection], key: values[link.field].clone(), targets }
    };
    let linked: Vec<ResolvedLink<'_>> = own.from.iter().map(of).collect();
    for field in &own.link_expressions {
        let field_of = &definition.fields[*field];
        let found = value_through(evaluator, definition, &linked, values, field_of);
        values[*field] = found.unwrap_or_else(|(expression, error)| {
            evaluator.note(&format!("field `{}`", field_of.name), expression, &error);
            Value::Null
        });
    }
}

/// The value of a settled field with an expression, or which expression has failed and why.
fn value_through<'d>(
    evaluator: &Evaluator,
    definition: &Collection,
    linked: &[ResolvedLink<'_>],
    values: &[Value],
    field: &'d Field,
) -> std::result::Result<Value, (&'d Expression, String)> {
    let Field { derive: Some(Derivation::ThroughLinks(expression)), ty, .. } = field else { return Ok(Value::Null) };
    let read = linked.iter().map(|own| (own, own.read_by(expression))).collect();
    let found = evaluator.value(expression, ty, &LinkedScope { golden: GoldenValues::new(definition, values), read });
    found.and_then(|value| among(value, ty, &field.one_of)).map_err(|error| (expression, error))
}

/// What an expression through links knows: the record's own values, and what it reads of each link.
struct LinkedScope<'s> {
    golden: GoldenValues<'s>,
    read: Vec<(&'s ResolvedLink<'s>, Vec<LinkVariable<'s>>)>,
}

impl LinkedScope<'_> {
    fn linked_by(&self, name: &str) -> Option<&(&ResolvedLink<'_>, Vec<LinkVariable<'_>>)> {
        self.read.iter().find(|(own, _)| own.link.name == name)
    }
}

impl Scope for LinkedScope<'_> {
    fn plain(&self, name: &str, member: Option<&str>) -> Option<PlainValue<'_>> {
        match (member, self.linked_by(name)) {
            (Some(member), Some((own, members))) => {
                let (name, made) = members.iter().find(|(name, _)| *name == member)?;
                let (value, ty) = own.member(name, made.as_ref());
                Some(PlainValue::of(value, ty))
            }
            (None, None) => self.golden.plain(name, None),
            _ => None,
        }
    }

    fn cel(&self, name: &str, read: &[MemberReference]) -> cel::Value {
        let Some((own, members)) = self.linked_by(name) else { return self.golden.cel(name, read) };
        let member = |(name, made): &LinkVariable<'_>| {
            let (value, ty) = own.member(name, made.as_ref());
            (CelKey::String(Arc::new((*name).to_owned())), to_cel(value, ty))
        };
        cel::Value::Map(CelMap { map: Arc::new(members.iter().map(member).collect()) })
    }
}

/// Why a settled field of a record has no value, where its expression fails on the record and what it is linked to now.
///
/// # Errors
/// When the store fails.
pub fn failure_of(
    (catalogue, evaluator): (&Catalogue, &Evaluator),
    (store, tenant): (&dyn Store, &Tenant),
    definition: &Collection,
    values: &[Value],
    field: &Field,
) -> Result<Option<String>> {
    let mut records: Vec<(&Link, Vec<Option<StoredRecord>>)> = Vec::new();
    for link in catalogue.links.iter().filter(|link| catalogue.collections[link.child_collection].name == definition.name && link.is_read()) {
        let keys = keys_of(link, values);
        records.push((link, if keys.is_empty() { Vec::new() } else { store.read(tenant, link.target_collection, &keys, ReadDetail::Values)? }));
    }
    let linked = records.iter().map(|(link, records)| {
        let targets = records.iter().map(|record| record.as_ref().filter(|record| record.alive).map(|record| &*record.golden)).collect();
        ResolvedLink { link, of: &catalogue.collections[link.target_collection], key: values[link.field].clone(), targets }
    });
    let linked: Vec<ResolvedLink<'_>> = linked.collect();
    Ok(value_through(evaluator, definition, &linked, values, field).err().map(|(_, error)| error))
}

/// A link of a record, with what there is of its targets.
struct ResolvedLink<'t> {
    link: &'t Link,
    of: &'t Collection,
    /// The key of its target, or the keys of all.
    key: Value,
    /// Their values, in the order of their keys; nothing of those that do not exist.
    targets: Vec<Option<&'t [Value]>>,
}

/// Most values that are read of several targets by one name: of lists there may be many.
const MOST_VALUES: usize = 100_000;

/// A name by which an expression reads a link, and what is made of the targets for it.
type LinkVariable<'e> = (&'e str, Option<(Value, FieldType)>);

impl ResolvedLink<'_> {
    fn read_by<'l>(&'l self, expression: &'l Expression) -> Vec<LinkVariable<'l>> {
        members_of(expression, &self.link.name).map(|member| (member.name.as_str(), self.made(&member.name))).collect()
    }

    /// What is read of it by this name, where that is no value of one record: whether all targets exist; the values of several, one
    /// after the other.
    fn made(&self, name: &str) -> Option<(Value, FieldType)> {
        match self.of.field(name) {
            None if name == "exists" => {
                let all = self.targets.iter().all(Option::is_some);
                Some((if self.targets.is_empty() { Value::Null } else { Value::Bool(all) }, FieldType::Boolean))
            }
            None if self.link.many => Some((self.key.clone(), FieldType::List(Box::new(FieldType::Text)))),
            Some((index, field)) if self.link.many => {
                let values = self.targets.iter().flatten().flat_map(|target| target[index].elements());
                let values: Vec<Value> = values.filter(|value| !value.is_null()).take(MOST_VALUES + 1).cloned().collect();
                let has_none = values.is_empty() || values.len() > MOST_VALUES;
                let ty = FieldType::List(Box::new(field.golden_type().element().clone()));
                Some((if has_none { Value::Null } else { Value::List(values) }, ty))
            }
            _ => None,
        }
    }

    /// What is read of it by this name, null where there is no record.
    fn member<'l>(&'l self, name: &str, made: Option<&'l (Value, FieldType)>) -> (&'l Value, &'l FieldType) {
        match (made, self.of.field(name), self.targets.first()) {
            (Some((value, ty)), ..) => (value, ty),
            (_, None, _) => (&self.key, &FieldType::Text),
            (_, Some((index, field)), Some(Some(target))) => (&target[index], field.golden_type()),
            (_, Some((_, field)), _) => (&Value::Null, field.golden_type()),
        }
    }
}

/// Asks for edges of a link that start between bounds.
type EdgeReader<'b> = dyn FnMut(u32, &[(SmolStr, i64, i64)]) -> Result<Vec<Edge>> + 'b;

/// Whether a record is written beside others, and what it is then if it exists.
pub type PendingWrites<'w, 't> = dyn Fn(usize, &Key) -> Option<Option<&'t [Value]>> + 'w;

/// Tells what a child, at this place, looks for by a link.
type TargetSearch<'s> = dyn FnMut(usize, &Link, &[Value]) -> Option<TargetCriteria> + 's;

/// Finds the targets of one link for all children at once; returns what was read for it, and for which of them.
fn find(
    rules: &SettleRules,
    link: usize,
    golden: &mut [Arc<[Value]>],
    seek: &mut TargetSearch<'_>,
    between: &mut EdgeReader<'_>,
) -> Result<(EdgeRange, Vec<bool>)> {
    let link = &rules.catalogue.links[link];
    let TargetRule::Same { overlap, .. } = &link.target_rule else { return Ok((EdgeRange::default(), vec![false; golden.len()])) };
    let wanted: Vec<Option<TargetCriteria>> = golden.iter().enumerate().map(|(place, values)| seek(place, link, values)).collect();
    let mut ranges = Vec::new();
    for TargetCriteria { tuples, span: (start, stop) } in wanted.iter().flatten() {
        let (low, high) = match overlap {
            Some(overlap) => (start - overlap.tolerance - overlap.reach, stop + overlap.tolerance),
            None => (0, 0),
        };
        ranges.extend(tuples.iter().map(|tuple| (tuple.clone(), low, high)));
    }
    let ranges = merge(ranges);
    let edges = if ranges.is_empty() { Vec::new() } else { between(link.targets(), &ranges)? };
    let candidates = candidates(&edges)?;
    for (values, sought) in golden.iter_mut().zip(&wanted) {
        if link.many {
            let near = sought.iter().flat_map(|sought| &sought.tuples).filter_map(|tuple| candidates.get(tuple.as_str()));
            Arc::make_mut(values)[link.field] = in_order(near.flatten().map(|(.., key)| (*key).into()).collect());
            continue;
        }
        let best = sought.as_ref().and_then(|TargetCriteria { tuples, span }| {
            let near = tuples.iter().filter_map(|tuple| candidates.get(tuple.as_str()));
            near.filter_map(|own| nearest(own, overlap.as_ref(), *span)).min()
        });
        Arc::make_mut(values)[link.field] = best.map_or(Value::Null, |(.., key)| Value::text(key));
    }
    let looked = wanted.iter().map(Option::is_some).collect();
    Ok((EdgeRange { link: link.targets(), ranges, edges }, looked))
}

/// What a child looks for: what must be equal, and the interval that must overlap.
struct TargetCriteria {
    tuples: Vec<SmolStr>,
    span: (i64, i64),
}

fn sought(rules: &SettleRules, evaluator: &Evaluator, link: &Link, values: &[Value]) -> Option<TargetCriteria> {
    let TargetRule::Same { fields, overlap } = &link.target_rule else { return None };
    let child = &rules.catalogue.collections[link.child_collection];
    if !link
        .when
        .as_ref()
        .is_none_or(|when| evaluator.holds_or_note(&|| format!("`when` of link `{}`", link.name), when, &GoldenValues::new(child, values)))
    {
        return None;
    }
    let mine: Vec<usize> = fields.iter().map(|(own, _)| *own).collect();
    let span = interval(overlap.as_ref(), |overlap| overlap.mine, values)?;
    Some(TargetCriteria { tuples: tuples(link, child, &mine, values), span }).filter(|sought| !sought.tuples.is_empty())
}

/// A record that needs no pass: its settled values, and what they follow from.
pub struct InlineResult {
    /// All its values.
    pub values: Arc<[Value]>,
    /// Linked records.
    pub targets: Vec<(usize, Key)>,
    /// Ranges in which targets were looked for, by their places in the reliance.
    pub ranges: Vec<usize>,
    /// Expressions that failed.
    pub failures: Vec<String>,
}

/// Settles records of a collection, of which `golden` is what they are so far, before they are written, as far as that can be known: their targets are written beside
/// them, which `written` tells (what they are then, if they exist); or there is a store that can tell when they are written
/// whether what was read of it, which is noted in `reliance`, is still so. The others need a pass.
///
/// # Errors
/// When the store fails.
pub fn at_once<'t>(
    (rules, evaluator, tenant): (&'t SettleRules, &'t Evaluator, &Tenant),
    collection: usize,
    mut golden: Vec<Arc<[Value]>>,
    written: &PendingWrites<'_, 't>,
    store: Option<&dyn Store>,
    reliance: &mut ReadSet,
) -> Result<Vec<Option<InlineResult>>> {
    let own = &rules.relations[collection];
    let mut ranges: Vec<Vec<usize>> = vec![Vec::new(); golden.len()];
    let mut waits = vec![false; golden.len()];
    for index in &own.lookup_links {
        let link = &rules.catalogue.links[*index];
        let Some(store) = store else {
            for (values, waits) in golden.iter_mut().zip(&mut waits) {
                *waits |= sought(rules, evaluator, link, values).is_some();
                Arc::make_mut(values)[link.field] = Value::Null;
            }
            continue;
        };
        let mut between = |link: u32, ranges: &[(SmolStr, i64, i64)]| store.between(tenant, link, ranges);
        let mut seek = |_, link: &Link, values: &[Value]| sought(rules, evaluator, link, values);
        let (read, looked) = find(rules, *index, &mut golden, &mut seek, &mut between)?;
        ranges.iter_mut().zip(looked).filter(|(_, looked)| *looked).for_each(|(ranges, _)| ranges.push(reliance.ranges.len()));
        reliance.ranges.push(read);
    }
    let mut outside: HashMap<(usize, Key), Option<Vec<Value>>> = HashMap::new();
    for link in own.from.iter().map(|link| &rules.catalogue.links[*link]).filter(|link| link.is_read()) {
        let mut keys: BTreeSet<Key> = BTreeSet::new();
        for (values, waits) in golden.iter().zip(&mut waits) {
            for key in keys_of(link, values).into_iter().filter(|key| written(link.target_collection, key).is_none()) {
                *waits |= store.is_none();
                keys.insert(key);
            }
        }
        let Some(store) = store.filter(|_| !keys.is_empty()) else { continue };
        let keys: Vec<Key> = keys.into_iter().filter(|key| !outside.contains_key(&(link.target_collection, key.clone()))).collect();
        let found = store.read(tenant, link.target_collection, &keys, ReadDetail::Values)?;
        for (key, record) in keys.into_iter().zip(found) {
            reliance.records.push((link.target_collection, key.clone(), record.as_ref().map(|record| record.version)));
            outside.insert((link.target_collection, key), record.filter(|record| record.alive).map(|record| record.golden));
        }
    }
    let mut settled = Vec::with_capacity(golden.len());
    // conditions are evaluated again by what each record tells
    drop(evaluator.failures());
    for ((mut values, ranges), waits) in golden.into_iter().zip(ranges).zip(waits) {
        if waits {
            settled.push(None);
            continue;
        }
        let reads = own.from.iter().map(|link| &rules.catalogue.links[*link]).filter(|link| link.is_read());
        let targets = reads.flat_map(|link| keys_of(link, &values).into_iter().map(|key| (link.target_collection, key))).collect();
        let target = |link: usize, key: &Key| {
            let to = rules.catalogue.links[link].target_collection;
            match written(to, key) {
                Some(written) => written,
                None => outside.get(&(to, key.clone()))?.as_deref(),
            }
        };
        read_through(rules, evaluator, collection, Arc::make_mut(&mut values), &target);
        settled.push(Some(InlineResult { values, targets, ranges, failures: evaluator.failures() }));
    }
    Ok(settled)
}

/// The nearest of candidates to an interval, if any is near enough: its distance, start and key.
fn nearest<'c>(candidates: &[(i64, i64, &'c str)], overlap: Option<&IntervalOverlap>, (start, stop): (i64, i64)) -> Option<(i64, i64, &'c str)> {
    let Some(overlap) = overlap else { return candidates.first().map(|(start, _, key)| (0, *start, *key)) };
    let middle = start + (stop - start) / 2;
    let (low, high) = (start - overlap.tolerance, stop + overlap.tolerance);
    // candidates are in the order of their starts
    let end = candidates.partition_point(|(start, ..)| *start <= high);
    let near = candidates[..end].iter().filter(|(_, stop, _)| *stop >= low);
    near.map(|(start, stop, key)| ((*start - middle).max(middle - *stop).max(0), *start, *key)).min()
}
