//! Finds the targets of links by equal fields and overlapping intervals, for many children at once.

use super::stop::check_cancelled;
use crate::relations::SettleRules;
use crate::relations::edges::{interval, tuples};
use crate::relations::stored::{damaged_edge, interval_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::golden::GoldenValues;
use stook_catalogue::ids::{FieldId, LinkId};
use stook_catalogue::key::Key;
use stook_catalogue::links::{IntervalOverlap, Link, TargetRule, keys_to_list};
use stook_catalogue::value::{SmolStr, Value};
use stook_store::{Edge, EdgeRange, Result, StartRange};

/// Reads the edges of a link that start within ranges.
pub(super) type EdgeReader<'b> = dyn FnMut(u32, &[StartRange]) -> Result<Vec<Edge>> + 'b;

/// Returns what the child at this position looks for by a link.
pub(super) type TargetSearch<'s> = dyn FnMut(usize, &Link, &[Value]) -> Option<TargetCriteria> + 's;

/// What a child looks for: the fields that must be equal, and the interval that must overlap.
pub(super) struct TargetCriteria {
    pub(super) tuples: Vec<SmolStr>,
    pub(super) span: (i64, i64),
}

/// Finds the targets of one link for all children at once; returns the edges read for it, and for each child whether it looked for any.
pub(super) fn find(
    rules: &SettleRules,
    link: LinkId,
    golden: &mut [Arc<[Value]>],
    seek: &mut TargetSearch<'_>,
    between: &mut EdgeReader<'_>,
) -> Result<(EdgeRange, Vec<bool>)> {
    let link = &rules.catalogue.links[link];
    let TargetRule::Same { overlap, .. } = &link.target_rule else { return Ok((EdgeRange::default(), vec![false; golden.len()])) };
    let wanted: Vec<Option<TargetCriteria>> = golden.iter().enumerate().map(|(position, values)| seek(position, link, values)).collect();
    let mut ranges = Vec::new();
    for TargetCriteria { tuples, span: (start, stop) } in wanted.iter().flatten() {
        let (low, high) = match overlap {
            Some(overlap) => (start - overlap.tolerance - overlap.reach, stop + overlap.tolerance),
            None => (0, 0),
        };
        ranges.extend(tuples.iter().map(|tuple| StartRange { target: tuple.clone(), low, high }));
    }
    let ranges = merge(ranges);
    let edges = if ranges.is_empty() { Vec::new() } else { between(link.targets(), &ranges)? };
    let candidates = candidates(&edges)?;
    for (values, criteria) in golden.iter_mut().zip(&wanted) {
        check_cancelled()?;
        if link.many {
            let matching = criteria.iter().flat_map(|criteria| &criteria.tuples).filter_map(|tuple| candidates.get(tuple.as_str()));
            Arc::make_mut(values)[link.field] = keys_to_list(matching.flatten().map(|(.., key)| (*key).into()).collect());
            continue;
        }
        let best = criteria.as_ref().and_then(|TargetCriteria { tuples, span }| {
            let matching = tuples.iter().filter_map(|tuple| candidates.get(tuple.as_str()));
            matching.filter_map(|own| nearest(own, overlap.as_ref(), *span)).min()
        });
        Arc::make_mut(values)[link.field] = best.map_or(Value::Null, |(.., key)| Value::text(key));
    }
    let has_searched = wanted.iter().map(Option::is_some).collect();
    Ok((EdgeRange { link: link.targets(), ranges, edges }, has_searched))
}

pub(super) fn target_criteria(rules: &SettleRules, evaluator: &Evaluator, link: &Link, values: &[Value]) -> Option<TargetCriteria> {
    let TargetRule::Same { fields, overlap } = &link.target_rule else { return None };
    let child = &rules.catalogue.collections[link.child_collection];
    if !link
        .when
        .as_ref()
        .is_none_or(|when| evaluator.holds_or_note(&|| format!("`when` of link `{}`", link.name), when, &GoldenValues::new(child, values)))
    {
        return None;
    }
    let mine: Vec<FieldId> = fields.iter().map(|(own, _)| *own).collect();
    let span = interval(overlap.as_ref(), |overlap| overlap.mine, values)?;
    Some(TargetCriteria { tuples: tuples(link, child, &mine, values), span }).filter(|criteria| !criteria.tuples.is_empty())
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
