//! Measures of a record's children: pure functions of the payloads of their edges.

use crate::content::sum::FloatSum;
use crate::relations::payload::ChildPayload;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::links::{Rollup, RollupFunction};
use stook_catalogue::record::put_value;
use stook_catalogue::value::{FieldType, Value};

/// The length of the union of intervals, which must be ordered by their starts.
pub fn union(spans: impl IntoIterator<Item = (i64, i64)>) -> i64 {
    let (mut length, mut covered) = (0_i64, i64::MIN);
    for (start, stop) in spans {
        let from = start.max(covered);
        if stop > from {
            length = length.saturating_add(stop - from);
            covered = stop;
        }
    }
    length
}

/// An interval that should be covered.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Its start.
    pub from: i64,
    /// Its end if no interval covers anything.
    pub to: i64,
    /// Its end if some interval covers something.
    pub until: i64,
    /// If the first interval starts no later than this after `from`, or before it, the window is moved to start there.
    pub start_tolerance: Option<i64>,
}

/// The parts of a window that no interval covers; the intervals must be ordered by their starts.
pub fn gaps(spans: impl IntoIterator<Item = (i64, i64)>, window: &Window) -> Vec<(i64, i64)> {
    let Window { from, to, until, start_tolerance } = *window;
    let mut spans = spans.into_iter().peekable();
    let Some((first, _)) = spans.peek().copied() else { return if to > from { vec![(from, to)] } else { Vec::new() } };
    let late = first.saturating_sub(from);
    let (mut covered, to) = match start_tolerance {
        Some(tolerance) if late <= tolerance => (first, until.saturating_add(late)),
        _ => (from, until),
    };
    let mut gaps = Vec::new();
    for (start, stop) in spans.filter(|(start, stop)| start < stop) {
        if start > covered && covered < to {
            gaps.push((covered, start.min(to)));
        }
        covered = covered.max(stop);
    }
    if covered < to {
        gaps.push((covered, to));
    }
    gaps
}

/// The parts that more than one interval covers, if they are longer than `longer`; the intervals must be ordered by their starts.
pub fn overlaps(spans: impl IntoIterator<Item = (i64, i64)>, longer: i64) -> Vec<(i64, i64)> {
    let (mut parts, mut covered): (Vec<(i64, i64)>, i64) = (Vec::new(), i64::MIN);
    for (start, stop) in spans.into_iter().filter(|(start, stop)| start < stop) {
        let part = (start, stop.min(covered));
        match parts.last_mut() {
            _ if part.0 >= part.1 => {}
            Some(last) if part.0 <= last.1 => last.1 = last.1.max(part.1),
            _ => parts.push(part),
        }
        covered = covered.max(stop);
    }
    parts.retain(|(start, stop)| stop.saturating_sub(*start) > longer);
    parts
}

/// The number of different values. If `tolerance` is given, equal values count again when they start more than `tolerance` after the last one that
/// counted.
pub fn distinct(mut values: Vec<(Vec<u8>, i64)>, tolerance: Option<i64>) -> i64 {
    values.sort();
    let Some(tolerance) = tolerance else {
        values.dedup_by(|a, b| a.0 == b.0);
        return values.len() as i64;
    };
    let (mut number, mut counted): (i64, Option<&(Vec<u8>, i64)>) = (0, None);
    for value in &values {
        if counted.is_none_or(|last| last.0 != value.0 || value.1.saturating_sub(last.1) > tolerance) {
            (number, counted) = (number + 1, Some(value));
        }
    }
    number
}

/// A run of equal values.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueRun {
    /// The value.
    pub value: Value,
    /// The start of its first observation.
    pub start: i64,
    /// Its end: the end of its last observation, or the start of the next run.
    pub stop: i64,
}

/// Merges observations, ordered by their starts, into runs of values: consecutive observations of equal value that are at most `max_gap` apart. A
/// run ends when an observation of another value begins.
pub fn runs(observations: impl IntoIterator<Item = ValueRun>, max_gap: i64) -> Vec<ValueRun> {
    let mut runs: Vec<ValueRun> = Vec::new();
    for ValueRun { value, start, stop } in observations {
        // a run that would end where it begins does not exist
        while runs.last().is_some_and(|last| last.start == start && last.value != value) {
            runs.pop();
        }
        match runs.last_mut().filter(|last| start - last.stop <= max_gap) {
            Some(last) if last.value == value => last.stop = last.stop.max(stop),
            last => {
                if let Some(last) = last {
                    last.stop = start;
                }
                runs.push(ValueRun { value, start, stop });
            }
        }
    }
    runs
}

/// The value of a rollup over children.
pub fn rollup_value(catalogue: &Catalogue, rollup: &Rollup, ty: &FieldType, children: &[(&str, &ChildPayload)]) -> Result<Value, String> {
    let link = &catalogue.links[rollup.link];
    let counted = children
        .iter()
        .filter(|(group, child)| child.satisfies(rollup.condition) && rollup.groups.as_ref().is_none_or(|groups| groups.is_match(group)));
    let Some(edge_field) = rollup.edge_field else { return Ok(Value::Int(counted.count() as i64)) };
    let element = catalogue.collections[link.child_collection].fields[link.edge_fields[edge_field]].ty.element();
    let values = counted.flat_map(|(_, child)| child.fields[edge_field].elements()).filter(|value| !value.is_null());
    Ok(match rollup.function {
        RollupFunction::Count => Value::Int(values.count() as i64),
        RollupFunction::Min => values.min_by(|a, b| a.compare(b)).cloned().unwrap_or_default(),
        RollupFunction::Max => values.max_by(|a, b| a.compare(b)).cloned().unwrap_or_default(),
        RollupFunction::Distinct => {
            let packed = values.map(|value| {
                let mut bytes = Vec::new();
                put_value(&mut bytes, value);
                (bytes, 0)
            });
            Value::Int(distinct(packed.collect(), None))
        }
        RollupFunction::Sum if *ty == FieldType::Float || *element == FieldType::Float => {
            let number = |value: &Value| match value {
                Value::Float(number) => *number,
                other => other.as_int().unwrap_or(0) as f64,
            };
            // in the order of edges, so that rounding is always the same
            let mut sum = FloatSum::default();
            values.map(number).for_each(|number| sum.add(number));
            Value::float(sum.end().ok_or("the sum is too large for a float")?)
        }
        RollupFunction::Sum => {
            let sum: i128 = values.filter_map(Value::as_int).map(i128::from).sum();
            Value::Int(i64::try_from(sum).map_err(|_| "the sum does not fit 64 bits")?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whether a position is covered, by checking every interval.
    fn covered(spans: &[(i64, i64)], position: i64) -> bool {
        spans.iter().any(|(start, stop)| *start <= position && position < *stop)
    }

    #[test]
    fn overlapping_intervals_are_counted_once() {
        for (spans, length) in [
            (vec![(0, 10), (10, 30)], 30),
            (vec![(0, 10), (5, 20)], 20),
            (vec![(0, 10), (20, 30)], 20),
            (vec![(0, 20), (5, 10)], 20),
            // an interval that overlaps a part of another is not counted twice
            (vec![(0, 20), (5, 10), (12, 18)], 20),
        ] {
            assert_eq!(union(spans.iter().copied()), length, "{spans:?}");
        }
    }

    proptest! {
        #[test]
        fn union_and_gaps_equal_a_check_of_every_position(mut spans in prop::collection::vec((0..40_i64, 0..12_i64), 0..12), within in (0..30_i64, 0..30_i64)) {
            spans.iter_mut().for_each(|span| span.1 += span.0);
            spans.sort_unstable();
            let positions = || 0..60_i64;
            prop_assert_eq!(union(spans.iter().copied()), positions().filter(|position| covered(&spans, *position)).count() as i64);
            let (from, to) = (within.0, within.0 + within.1);
            let window = Window { from, to, until: to, start_tolerance: None };
            let missing: i64 = gaps(spans.iter().copied(), &window).iter().map(|(start, stop)| stop - start).sum();
            prop_assert_eq!(missing, (from..to).filter(|position| !covered(&spans, *position)).count() as i64);
        }

        #[test]
        fn overlaps_equal_a_check_of_every_position(mut spans in prop::collection::vec((0..40_i64, 0..12_i64), 0..12), longer in 0..4_i64) {
            spans.iter_mut().for_each(|span| span.1 += span.0);
            spans.sort_unstable();
            let covered_again = |position: i64| spans.iter().filter(|(start, stop)| (*start..*stop).contains(&position)).count() > 1;
            let mut wanted: Vec<(i64, i64)> = Vec::new();
            for position in (0..60).filter(|position| covered_again(*position)) {
                match wanted.last_mut() {
                    Some(last) if last.1 == position => last.1 = position + 1,
                    _ => wanted.push((position, position + 1)),
                }
            }
            wanted.retain(|(start, stop)| stop - start > longer);
            prop_assert_eq!(overlaps(spans.iter().copied(), longer), wanted);
        }

        /// A tolerance moves the window and changes nothing else.
        #[test]
        fn a_late_start_within_the_tolerance_moves_the_window(mut spans in prop::collection::vec((0..40_i64, 1..12_i64), 0..12), lengths in (0..30_i64, 0..30_i64), tolerated in (0..5_i64, 0..9_i64)) {
            spans.iter_mut().for_each(|span| span.1 += span.0);
            spans.sort_unstable();
            let (from, to) = (lengths.0, lengths.0 + lengths.1);
            let found = gaps(spans.iter().copied(), &Window { from, to, until: to - tolerated.0, start_tolerance: Some(tolerated.1) });
            let late = spans.first().map_or(i64::MAX, |(first, _)| first - from);
            let (from, to) = match late {
                i64::MAX => (from, to),
                _ if late <= tolerated.1 => (from + late, to - tolerated.0 + late),
                _ => (from, to - tolerated.0),
            };
            let plain = Window { from, to, until: to, start_tolerance: None };
            prop_assert_eq!(found, gaps(spans.iter().copied(), &plain));
        }

        /// No two starts that count are near each other, and each of the others is near one that counts.
        #[test]
        fn counted_starts_are_further_apart_than_the_tolerance(mut starts in prop::collection::vec(0..60_i64, 0..20), tolerance in 0..6_i64) {
            let number = distinct(starts.iter().map(|start| (vec![1], *start)).collect(), Some(tolerance));
            starts.sort_unstable();
            let mut counted: Vec<i64> = Vec::new();
            for start in starts {
                if counted.iter().all(|other| (start - other).abs() > tolerance) {
                    counted.push(start);
                }
            }
            prop_assert_eq!(number, counted.len() as i64);
        }

        #[test]
        fn runs_do_not_overlap_and_differ_from_their_neighbours(mut seen in prop::collection::vec((0..100_i64, 0..4_i64, 0..2_i64), 0..20), gap in 0..10_i64) {
            seen.sort_unstable();
            let observations = seen.iter().map(|(start, length, value)| ValueRun { value: Value::Int(*value), start: *start, stop: start + length });
            let found = runs(observations, gap);
            for pair in found.windows(2) {
                prop_assert!(pair[0].stop <= pair[1].start || pair[0].start == pair[1].start || pair[1].start - pair[0].stop <= gap);
                prop_assert!(pair[0].value != pair[1].value || pair[1].start - pair[0].stop > gap);
            }
            let first = seen.first().map(|seen| seen.0);
            prop_assert_eq!(found.first().map(|run| run.start), first);
            prop_assert!(found.windows(2).all(|pair| pair[0].start < pair[1].start));
        }
    }

    #[test]
    fn a_contained_interval_adds_nothing_to_the_union() {
        assert_eq!(union([(0, 20), (5, 10), (12, 18)]), 20);
        assert_eq!(union([(0, 10), (10, 30)]), 30);
        assert_eq!(union([(0, 10), (20, 30)]), 20);
    }

    #[test]
    fn a_first_interval_within_the_start_tolerance_moves_the_end() {
        let window = |start_tolerance| Window { from: 0, to: 20, until: 20, start_tolerance };
        assert_eq!(gaps([(10, 30)], &window(Some(20))), []);
        assert_eq!(gaps([(10, 30)], &window(Some(6))), [(0, 10)]);
        assert_eq!(gaps([], &window(Some(6))), [(0, 20)]);
        assert_eq!(gaps([(4, 10), (12, 20)], &window(Some(6))), [(10, 12), (20, 24)]);
        assert_eq!(gaps([(-2, 10)], &window(Some(6))), [(10, 18)], "an early one moves it, too");
        assert_eq!(gaps([(5, 5)], &window(None)), [(0, 20)], "what covers nothing splits nothing");
    }

    #[test]
    fn the_end_may_be_missing_only_if_some_interval_covers_something() {
        let window = Window { from: 0, to: 20, until: 17, start_tolerance: None };
        assert_eq!(gaps([(0, 10)], &window), [(10, 17)]);
        assert_eq!(gaps([(0, 18)], &window), []);
        assert_eq!(gaps([], &window), [(0, 20)]);
        assert_eq!(gaps([], &Window { until: -3, ..window }), [(0, 20)], "also where it is longer than the whole");
    }

    #[test]
    fn equal_values_with_starts_within_the_tolerance_count_once() {
        let at = |start: i64| (vec![3], start);
        assert_eq!(distinct(vec![at(0), at(1_000_000), at(999_000)], Some(2_000)), 2);
        assert_eq!(distinct(vec![at(0), at(1_000_000), at(999_000)], None), 1);
        assert_eq!(distinct(vec![at(1), at(2), at(3), at(4)], Some(2)), 2, "a chain of near ones is not one");
        assert_eq!(distinct(Vec::new(), None), 0);
    }

    #[test]
    fn a_run_lasts_until_the_next_value() {
        let seen = [(0, 1, "OK"), (10, 11, "OK"), (20, 21, "KO"), (30, 31, "OK"), (100, 101, "OK")];
        let found = runs(seen.map(|(start, stop, value)| ValueRun { value: Value::text(value), start, stop }), 15);
        let shown: Vec<_> = found.iter().map(|run| (run.value.as_text().unwrap_or_default(), run.start, run.stop)).collect();
        assert_eq!(shown, [("OK", 0, 20), ("KO", 20, 30), ("OK", 30, 31), ("OK", 100, 101)]);
    }
}
