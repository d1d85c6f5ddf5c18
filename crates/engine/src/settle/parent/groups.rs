//! Measures the children of a parent by group, or as runs of values.

use super::rows::CoverageRow;
use super::work::{EdgeChild, ParentState, ParentWork};
use crate::relations::payload::ChildPayload;
use crate::settle::measure::{ValueRun, Window, distinct, gaps, overlaps, runs, union};
use crate::settle::pass_state::PassState;
use std::collections::{BTreeMap, BTreeSet};
use stook_catalogue::eval::from_cel;
use stook_catalogue::links::{Coverage, GroupedChildren, Measure, MeasureCase};
use stook_catalogue::record::put_value;
use stook_catalogue::value::{FieldType, Value};

impl PassState<'_> {
    /// Computes the rows of the groups that are to be measured.
    pub(super) fn measured(
        &self,
        coverage: &Coverage,
        children: &GroupedChildren,
        parent: &ParentState,
        work: &ParentWork,
        linked: &[EdgeChild],
    ) -> BTreeMap<String, CoverageRow> {
        let mut by_group: BTreeMap<&str, Vec<&ChildPayload>> = BTreeMap::new();
        for child in linked.iter().filter(|child| child.payload.satisfies(children.condition)) {
            by_group.entry(&child.group).or_default().push(&child.payload);
        }
        let expected: Option<BTreeSet<String>> = children.groups.as_ref().map(|groups| {
            let found = self.evaluate(groups, coverage.parent, &parent.golden, "", None);
            let list = found.and_then(|found| from_cel(&found, &FieldType::List(Box::new(FieldType::Text))).ok()).unwrap_or_default();
            list.elements().iter().filter_map(|group| group.as_text().map(str::to_owned)).collect()
        });
        let mut groups: BTreeSet<&str> = by_group.keys().copied().collect();
        groups.extend(expected.iter().flatten().map(String::as_str));
        // a group without children has a row only if the coverage expects it
        groups.retain(|group| work.all || work.groups.contains(*group));
        let mut rows = BTreeMap::new();
        for group in groups {
            let Some(case) = case_of(children, group) else { continue };
            let members = by_group.get(group).map(Vec::as_slice).unwrap_or_default();
            let ty = case.measure.ty();
            let measured = measure(&case.measure, members);
            let value = match &case.value {
                Some(value) => self.number(value, coverage.parent, &parent.golden, group, Some((measured, &ty))).unwrap_or(0),
                None => measured,
            };
            let is_expected = expected.as_ref().is_none_or(|expected| expected.contains(group));
            let expected = case.expected.as_ref().filter(|_| is_expected);
            let expected =
                expected.and_then(|expected| self.number(expected, coverage.parent, &parent.golden, group, None)).map(|expected| expected.max(0));
            // a group that reaches the expected value has no gaps, wherever the intervals of its children are
            let is_complete = expected.is_some_and(|expected| value >= expected);
            let missing = case.gaps.as_ref().filter(|_| is_expected && !is_complete).and_then(|rule| {
                let time = |expression| self.number(expression, coverage.parent, &parent.golden, group, None);
                let (from, to) = (time(&rule.within.0)?, time(&rule.within.1)?);
                let until = match &rule.until {
                    Some(until) => time(until)?,
                    None => to,
                };
                let window = Window { from, to, until, start_tolerance: rule.start_tolerance };
                Some(gaps(members.iter().filter_map(|child| child.span), &window))
            });
            let repeated = case.overlaps.map(|rule| overlaps(members.iter().filter_map(|child| child.span), rule.longer));
            rows.insert(group.to_owned(), CoverageRow { ty, value, expected, gaps: missing, overlaps: repeated });
        }
        rows
    }
}

pub(super) fn case_of<'c>(children: &'c GroupedChildren, group: &str) -> Option<&'c MeasureCase> {
    children.cases.iter().find(|case| case.pattern.as_ref().is_none_or(|pattern| pattern.is_match(group)))
}

/// The measured value of children, which must be ordered by their starts.
fn measure(measure: &Measure, children: &[&ChildPayload]) -> i64 {
    match measure {
        Measure::Union => union(children.iter().filter_map(|child| child.span)),
        Measure::Count => children.len() as i64,
        Measure::Distinct { edge_fields, tolerance } => {
            let identity = |child: &&ChildPayload| {
                let mut bytes = Vec::new();
                for edge_field in edge_fields {
                    if child.fields[*edge_field].is_null() {
                        return None;
                    }
                    put_value(&mut bytes, &child.fields[*edge_field]);
                }
                let start = child.span.map(|(start, _)| start);
                if tolerance.is_some() { start.map(|start| (bytes, start)) } else { Some((bytes, 0)) }
            };
            distinct(children.iter().filter_map(identity).collect(), *tolerance)
        }
    }
}

/// The runs of the values of children, which may belong to several groups.
pub(super) fn observed(children: &[EdgeChild], condition: usize, edge_field: usize, max_gap: i64) -> Vec<ValueRun> {
    // intervals that end before they begin are ignored
    let is_interval = |child: &ChildPayload| child.span.is_some_and(|(start, stop)| start <= stop);
    let counted = children.iter().filter(|child| child.payload.satisfies(condition) && is_interval(&child.payload));
    let mut seen: Vec<(i64, i64, &str, Value)> = counted
        .filter_map(|child| Some((child.payload.span?.0, child.payload.span?.1, child.key.as_str(), child.payload.fields[edge_field].clone())))
        .collect();
    seen.sort_by(|a, b| (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)));
    runs(seen.into_iter().map(|(start, stop, _, value)| ValueRun { value, start, stop }), max_gap)
}
