//! Expressions of a coverage, evaluated for a parent, a group and a measured value.

use crate::settle::pass_state::PassState;
use stook_catalogue::eval::{Expression, MemberReference, Name, Scope, text_to_cel, to_cel};
use stook_catalogue::golden::GoldenValues;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::plain::{PlainText, PlainValue};
use stook_catalogue::value::{FieldType, Value};

impl PassState<'_> {
    pub(super) fn holds(&self, condition: &Expression, collection: CollectionId, golden: &[Value]) -> bool {
        matches!(self.evaluate(condition, collection, golden, "", None), Some(cel::Value::Bool(true)))
    }

    pub(super) fn evaluate(
        &self,
        expression: &Expression,
        collection: CollectionId,
        golden: &[Value],
        group: &str,
        value: Option<(i64, &FieldType)>,
    ) -> Option<cel::Value> {
        let golden = GoldenValues::new(&self.rules.catalogue.collections[collection], golden);
        let plain = |plain: PlainValue<'_>| match plain {
            PlainValue::Bool(value) => Some(cel::Value::Bool(value)),
            PlainValue::Int(number) => Some(cel::Value::Int(number)),
            PlainValue::Length(length) => Some(cel::Value::Duration(chrono::Duration::microseconds(length))),
            _ => None,
        };
        self.note_failure(expression, self.evaluator.eval(expression, &CoverageScope { golden, group, value }, plain, Ok))
    }

    /// The result of an expression; a failure is noted.
    pub(super) fn note_failure<T>(&self, expression: &Expression, found: std::result::Result<T, String>) -> Option<T> {
        found.map_err(|error| self.evaluator.note("coverage", expression, &error)).ok()
    }

    /// The result of an expression as an integer; times and durations in microseconds.
    pub(super) fn number(
        &self,
        expression: &Expression,
        collection: CollectionId,
        golden: &[Value],
        group: &str,
        value: Option<(i64, &FieldType)>,
    ) -> Option<i64> {
        match self.evaluate(expression, collection, golden, group, value)? {
            cel::Value::Timestamp(time) => Some(time.timestamp_micros()),
            cel::Value::Duration(length) => length.num_microseconds(),
            other => plain_number(&other).filter(|number| number.is_finite()).map(|number| number.round() as i64),
        }
    }
}

/// The variables of a coverage's expressions: the parent's values, the group, and the measured value.
struct CoverageScope<'s> {
    golden: GoldenValues<'s>,
    group: &'s str,
    value: Option<(i64, &'s FieldType)>,
}

impl Scope for CoverageScope<'_> {
    fn plain(&self, name: &Name, member: Option<&Name>) -> Option<PlainValue<'_>> {
        match (name.as_str(), member, self.value) {
            ("group", None, _) => Some(PlainValue::Text(PlainText::Borrowed(self.group))),
            ("value", None, Some((value, FieldType::Duration))) => Some(PlainValue::Length(value)),
            ("value", None, Some((value, _))) => Some(PlainValue::Int(value)),
            (_, None, _) => self.golden.plain(name, None),
            _ => None,
        }
    }

    fn cel(&self, name: &str, read: &[MemberReference]) -> cel::Value {
        match (name, self.value) {
            ("group", _) => text_to_cel(self.group),
            ("value", Some((value, ty))) => to_cel(&Value::Int(value), ty),
            _ => self.golden.cel(name, read),
        }
    }
}

pub(super) fn plain_number(value: &cel::Value) -> Option<f64> {
    match value {
        cel::Value::Int(number) => Some(*number as f64),
        cel::Value::UInt(number) => Some(*number as f64),
        cel::Value::Float(number) => Some(*number),
        _ => None,
    }
}
