//! A row of a coverage, its key and its stored form.

use super::work::ParentState;
use crate::content::key::key_text;
use crate::settle::measure::ValueRun;
use crate::settle::pass_state::PassState;
use std::sync::Arc;
use stook_catalogue::definition::Collection;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::key::{Key, MAX_KEY_BYTES};
use stook_catalogue::links::{COVERAGE_FIELDS, Coverage, CoverageKind, MeasureCase, OVERLAP_FIELDS};
use stook_catalogue::value::{FieldType, Value};
use stook_store::StoredRecord;

/// A row of a coverage while it is computed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CoverageRow {
    /// The type of the measured value.
    pub(super) ty: FieldType,
    pub(super) value: i64,
    pub(super) expected: Option<i64>,
    pub(super) gaps: Option<Vec<(i64, i64)>>,
    pub(super) overlaps: Option<Vec<(i64, i64)>>,
}

impl CoverageRow {
    pub(super) fn adjusted(&self) -> Option<i64> {
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

    /// Whether the row is stored: it has a value, or one is expected.
    fn is_stored(&self) -> bool {
        self.value != 0 || self.adjusted().is_some()
    }

    /// Reads a row from its record.
    pub(super) fn stored(record: &StoredRecord, case: &MeasureCase) -> Self {
        let number = |index: usize| record.golden[index].as_int();
        let overlaps = case.overlaps.map(|_| record.golden.get(OVERLAPS).and_then(read_intervals).unwrap_or_default());
        Self { ty: case.measure.ty(), value: number(2).unwrap_or(0), expected: number(3), gaps: read_intervals(&record.golden[7]), overlaps }
    }

    /// The values of the fields of overlaps.
    fn overlap_values(&self) -> [Value; 2] {
        let Some(parts) = &self.overlaps else { return [Value::Null, Value::Null] };
        [Value::Int(parts.iter().map(|(start, stop)| stop - start).sum()), show_intervals(Some(parts))]
    }
}

/// The position of the intervals that more than one child covers, after the parent's key, the fields of every coverage and their length.
const OVERLAPS: usize = COVERAGE_FIELDS.len() + OVERLAP_FIELDS.len();

/// Intervals as JSON; none if there are none.
fn show_intervals(intervals: Option<&Vec<(i64, i64)>>) -> Value {
    let shown = |(start, stop): &(i64, i64)| {
        serde_json::json!({
            "start": stook_catalogue::value::show_timestamp(*start),
            "stop": stook_catalogue::value::show_timestamp(*stop),
            "duration": Value::Int(stop - start).to_json(&FieldType::Duration),
        })
    };
    let list = intervals.filter(|intervals| !intervals.is_empty());
    list.map_or(Value::Null, |list| Value::Json(Arc::new(list.iter().map(shown).collect::<Vec<_>>().into())))
}

/// Reads intervals as `show_intervals` writes them.
fn read_intervals(shown: &Value) -> Option<Vec<(i64, i64)>> {
    let Value::Json(list) = shown else { return None };
    let time = |interval: &serde_json::Value, name: &str| {
        let shown = interval.get(name).cloned().unwrap_or_default();
        stook_catalogue::value::from_json(&shown, &FieldType::Timestamp, None).ok().and_then(|time| time.as_int()).unwrap_or(0)
    };
    Some(list.as_array()?.iter().map(|interval| (time(interval, "start"), time(interval, "stop"))).collect())
}

impl PassState<'_> {
    /// The key and the values of a row as it is stored, if it is.
    pub(super) fn row(&self, coverage: &Coverage, parent: &ParentState, group: &str, row: &CoverageRow) -> Option<(Key, Vec<Value>)> {
        if !row.is_stored() {
            return None;
        }
        let number = |number: Option<i64>| number.map_or(Value::Null, Value::Int);
        let expected = row.expected.filter(|expected| *expected > 0);
        let mut values = vec![
            Value::text(parent.key.as_str()),
            Value::text(group),
            Value::Int(row.value),
            number(expected),
            number(row.adjusted()),
            row.percentage().map_or(Value::Null, Value::Float),
            row.status().map_or(Value::Null, Value::text),
            show_intervals(row.gaps.as_ref()),
        ];
        if matches!(&coverage.kind, CoverageKind::Children(children) if children.measures_overlaps()) {
            values.extend(row.overlap_values());
        }
        self.with_parent_fields(coverage, parent, values)
    }

    pub(super) fn run_row(&self, coverage: &Coverage, parent: &ParentState, run: &ValueRun) -> Option<(Key, Vec<Value>)> {
        let length = Value::Int(run.stop - run.start);
        let values = vec![Value::text(parent.key.as_str()), run.value.clone(), Value::Int(run.start), Value::Int(run.stop), length];
        self.with_parent_fields(coverage, parent, values)
    }

    /// The key of a group's row.
    pub(super) fn row_key(&self, coverage: &Coverage, parent: &Key, group: &str) -> Option<Key> {
        let rows = &self.rules.catalogue.collections[coverage.rows];
        let mut values = vec![Value::Null; rows.fields.len()];
        (values[0], values[1]) = (Value::text(parent.as_str()), Value::text(group));
        row_key(rows, &values, self.evaluator)
    }

    /// Adds to a row the fields that it copies from its parent; returns its key and values.
    fn with_parent_fields(&self, coverage: &Coverage, parent: &ParentState, mut values: Vec<Value>) -> Option<(Key, Vec<Value>)> {
        let rows = &self.rules.catalogue.collections[coverage.rows];
        let parent_definition = &self.rules.catalogue.collections[coverage.parent];
        for field in rows.fields.iter().skip(values.len()) {
            values.push(parent_definition.field(&field.name).map(|(index, _)| parent.golden[index].clone()).unwrap_or_default());
        }
        let key = row_key(rows, &values, self.evaluator)?;
        Some((key, values))
    }
}

/// The key of a coverage's row: its parent, and its group or interval. A key that would be too long is cut and ends with a hash of all of it.
fn row_key(rows: &Collection, values: &[Value], evaluator: &Evaluator) -> Option<Key> {
    let text = key_text(rows, values, evaluator).ok()?;
    let shortened = || {
        let hash = blake3::hash(text.as_bytes()).to_hex();
        let end = (0..=MAX_KEY_BYTES - 40).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        format!("{}…{}", &text[..end], &hash[..32])
    };
    Key::new(text.clone()).or_else(|_| Key::new(shortened())).ok()
}
