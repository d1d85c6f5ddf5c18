//! Finds the targets of links by equal fields and overlapping intervals, for many children at once.

use super::stop::check_cancelled;
use crate::relations::edges::{interval, registered};
use crate::relations::stored::{damaged_edge, interval_of};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::golden::GoldenValues;
use stook_catalogue::ids::LinkId;
use stook_catalogue::key::Key;
use stook_catalogue::links::{EqualFields, IntervalOverlap, Link, SeveralFound, TargetRule, keys_to_list};
use stook_catalogue::value::{SmolStr, Value};
use stook_store::{Edge, EdgeRange, Result, StartRange, Store, Tenant};

/// Reads the edges of a link that start within ranges.
pub(super) type EdgeReader<'b> = dyn FnMut(u32, &[StartRange]) -> Result<Vec<Edge>> + 'b;

/// Returns what the child at this position looks for by a link.
pub(super) type TargetSearch<'s> = dyn FnMut(usize, &Link, &[Value]) -> Option<TargetCriteria> + 's;

/// What a child looks for: the fields that must be equal, and the interval that must overlap.
pub(super) struct TargetCriteria {
    /// The texts of the fields, by criterion.
    pub(super) tuples: Vec<Vec<SmolStr>>,
    pub(super) span: (i64, i64),
}

/// What was read to find the targets of one link.
#[derive(Default)]
pub(super) struct FoundTargets {
    /// The edges.
    pub(super) edges: EdgeRange,
    /// For each child, whether it looked for any.
    pub(super) has_searched: Vec<bool>,
    /// Children that have no target because they found several, by position, each with a sentence that names these.
    pub(super) ambiguous: Vec<(usize, String)>,
}

/// The maximum number of keys that a sentence names.
const MAX_NAMED: usize = 10;

/// Finds the targets of one link for all children at once.
pub(super) fn find(
    catalogue: &Catalogue,
    link: LinkId,
    golden: &mut [Arc<[Value]>],
    seek: &mut TargetSearch<'_>,
    between: &mut EdgeReader<'_>,
) -> Result<FoundTargets> {
    let link = &catalogue.links[link];
    let TargetRule::Same { overlap, several, criteria: named } = &link.target_rule else {
        return Ok(FoundTargets { has_searched: vec![false; golden.len()], ..FoundTargets::default() });
    };
    let wanted: Vec<Option<TargetCriteria>> = golden.iter().enumerate().map(|(position, values)| seek(position, link, values)).collect();
    let mut ranges = Vec::new();
    for TargetCriteria { tuples, span: (start, stop) } in wanted.iter().flatten() {
        let (low, high) = match overlap {
            Some(overlap) => (start - overlap.tolerance - overlap.reach, stop + overlap.tolerance),
            None => (0, 0),
        };
        ranges.extend(tuples.iter().flatten().map(|tuple| StartRange { target: tuple.clone(), low, high }));
    }
    let ranges = merge(ranges);
    let edges = if ranges.is_empty() { Vec::new() } else { between(link.targets(), &ranges)? };
    let candidates = candidates(&edges)?;
    let mut ambiguous = Vec::new();
    for (position, (values, wanted)) in golden.iter_mut().zip(&wanted).enumerate() {
        check_cancelled()?;
        let by_criterion = wanted.iter().flat_map(|wanted| wanted.tuples.iter().enumerate());
        // the first criterion by which any record is found
        let found = by_criterion.map(|(number, tuples)| (number, matching(tuples, &candidates))).find(|(_, matching)| !matching.is_empty());
        let value = match (found, several) {
            (None, _) => Value::Null,
            (Some((_, found)), SeveralFound::Every) => keys_to_list(keys_of(&found).map(SmolStr::from).collect()),
            (Some((_, found)), SeveralFound::Smallest) => {
                let span = wanted.as_ref().map_or((0, 0), |wanted| wanted.span);
                let best = found.into_iter().filter_map(|own| nearest(own, overlap.as_ref(), span)).min();
                best.map_or(Value::Null, |(.., key)| Value::text(key))
            }
            (Some((number, found)), SeveralFound::Fail) => {
                let keys: BTreeSet<&str> = keys_of(&found).collect();
                if keys.len() > 1 {
                    ambiguous.push((position, why_ambiguous(catalogue, link, &named[number], &keys)));
                }
                keys.first().filter(|_| keys.len() == 1).map_or(Value::Null, |key| Value::text(*key))
            }
        };
        Arc::make_mut(values)[link.field] = value;
    }
    let has_searched = wanted.iter().map(Option::is_some).collect();
    Ok(FoundTargets { edges: EdgeRange { link: link.targets(), ranges, edges }, has_searched, ambiguous })
}

/// The possible targets under any of these texts.
fn matching<'c>(tuples: &[SmolStr], candidates: &'c CandidateTargets<'_>) -> Vec<&'c [(i64, i64, &'c str)]> {
    tuples.iter().filter_map(|tuple| candidates.get(tuple.as_str())).map(Vec::as_slice).collect()
}

fn keys_of<'c>(found: &[&'c [(i64, i64, &'c str)]]) -> impl Iterator<Item = &'c str> {
    found.iter().copied().flatten().map(|(.., key)| *key)
}

/// Why a record has no target although it found some.
fn why_ambiguous(catalogue: &Catalogue, link: &Link, fields: &EqualFields, keys: &BTreeSet<&str>) -> String {
    let child = &catalogue.collections[link.child_collection];
    let names: Vec<&str> = fields.iter().map(|(own, _)| child.fields[*own].name.as_str()).collect();
    let shown: Vec<String> = keys.iter().take(MAX_NAMED).map(|key| format!("{key:?}")).collect();
    let more = if keys.len() > MAX_NAMED { format!(" and {} more", keys.len() - MAX_NAMED) } else { String::new() };
    let target = &catalogue.collections[link.target_collection].name;
    format!(
        "link `{}`: {} records of {target} have its {}: {}{more}; none of them is linked",
        link.name,
        keys.len(),
        names.join(" and "),
        shown.join(", ")
    )
}

/// Why a record has no target by a link, if it found several.
///
/// # Errors
/// When the store fails.
pub fn ambiguity_of(
    (catalogue, evaluator): (&Catalogue, &Evaluator),
    (store, tenant): (&dyn Store, &Tenant),
    link: LinkId,
    values: &[Value],
) -> Result<Option<String>> {
    let mut seek = |_: usize, link: &Link, values: &[Value]| target_criteria(catalogue, evaluator, link, values);
    let mut between = |link: u32, ranges: &[StartRange]| store.edges_starting_between(tenant, link, ranges);
    let found = find(catalogue, link, &mut [Arc::from(values)], &mut seek, &mut between)?;
    Ok(found.ambiguous.into_iter().next().map(|(_, reason)| reason))
}

pub(super) fn target_criteria(catalogue: &Catalogue, evaluator: &Evaluator, link: &Link, values: &[Value]) -> Option<TargetCriteria> {
    if !link.target_rule.is_searched() {
        return None;
    }
    let child = &catalogue.collections[link.child_collection];
    if !link
        .when
        .as_ref()
        .is_none_or(|when| evaluator.holds_or_note(&|| format!("`when` of link `{}`", link.name), when, &GoldenValues::new(child, values)))
    {
        return None;
    }
    let span = interval(link.target_rule.overlap(), |overlap| overlap.mine, values)?;
    let tuples = registered(link, child, &link.target_rule.own_criteria(), values);
    Some(TargetCriteria { tuples, span }).filter(|criteria| criteria.tuples.iter().any(|tuples| !tuples.is_empty()))
}

/// The candidate nearest to an interval, if any is near enough: its distance, start and key.
fn nearest<'c>(candidates: &[(i64, i64, &'c str)], overlap: Option<&IntervalOverlap>, (start, stop): (i64, i64)) -> Option<(i64, i64, &'c str)> {
    let Some(overlap) = overlap else { return candidates.first().map(|(start, _, key)| (0, *start, *key)) };
    let middle = start + (stop - start) / 2;
    let (low, high) = (start - overlap.tolerance, stop + overlap.tolerance);
    // candidates are ordered by their starts
    let end = candidates.partition_point(|(start, ..)| *start <= high);
    let matching = candidates[..end].iter().filter(|(_, stop, _)| *stop >= low);
    matching.map(|(start, stop, key)| ((*start - middle).max(middle - *stop).max(0), *start, *key)).min()
}

/// Merges ranges of the same target that overlap or touch.
pub(super) fn merge(mut ranges: Vec<StartRange>) -> Vec<StartRange> {
    ranges.sort();
    let mut merged: Vec<StartRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.target == range.target && range.low <= last.high.saturating_add(1) => last.high = last.high.max(range.high),
            _ => merged.push(range),
        }
    }
    merged
}

/// Possible targets: the start, end and key of each.
type CandidateTargets<'e> = BTreeMap<&'e str, Vec<(i64, i64, &'e str)>>;

/// The possible targets among edges that register them, ordered by start, end and key.
fn candidates(edges: &[Edge]) -> Result<CandidateTargets<'_>> {
    let mut candidates: BTreeMap<&str, Vec<(i64, i64, &str)>> = BTreeMap::new();
    for edge in edges {
        let (start, stop) = interval_of(&edge.payload).ok_or_else(|| damaged_edge(edge, "it carries no interval"))?;
        candidates.entry(&edge.target).or_default().push((start, stop, &edge.child));
    }
    for targets in candidates.values_mut() {
        targets.sort_unstable();
        targets.dedup();
    }
    Ok(candidates)
}

/// The keys of a child's targets.
pub(super) fn target_keys(link: &Link, values: &[Value]) -> Vec<Key> {
    link.target_keys(values).filter_map(|key| Key::new(key.clone()).ok()).collect()
}
