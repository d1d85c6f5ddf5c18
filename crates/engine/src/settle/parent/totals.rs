//! Sums over the rows of another coverage.

use super::expressions::plain_number;
use super::rows::CoverageRow;
use crate::settle::pass_state::PassState;
use cel::objects::{Key as CelKey, Map as CelMap};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use stook_catalogue::eval::{Expression, from_cel, text_to_cel};
use stook_catalogue::links::CoverageTotal;
use stook_catalogue::value::FieldType;

impl PassState<'_> {
    /// Sums up the rows that have an expected value.
    pub(super) fn sums(&self, total: &CoverageTotal, ty: &FieldType, rows: &BTreeMap<String, CoverageRow>) -> BTreeMap<String, CoverageRow> {
        let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        let uses_rows =
            [&total.value, &total.expected].into_iter().flatten().any(|expression| expression.variables().iter().any(|name| name == "rows"));
        let rows_as_cel = if uses_rows { rows_to_cel(rows) } else { cel::Value::Null };
        for (group, row) in rows {
            let (Some(adjusted), Some(expected)) = (row.adjusted(), row.expected) else { continue };
            let scope = |_: &str| text_to_cel(group);
            let text = |found: cel::Value| Ok(from_cel(&found, &FieldType::Text).ok());
            let by = self.evaluator.eval(&total.by, &scope, |plain| plain.into_value(&FieldType::Text).map(Some), text);
            let Some(by) = self.note_failure(&total.by, by).flatten().and_then(|by| by.as_text().map(str::to_owned)) else { continue };
            let part = |expression: &Option<Expression>, otherwise: i64| match expression {
                None => otherwise as f64,
                Some(expression) => {
                    let scope = |name: &str| match name {
                        "group" => text_to_cel(group),
                        "by" => text_to_cel(&by),
                        "value" => cel::Value::Float(row.value as f64),
                        "expected" => cel::Value::Float(expected as f64),
                        "adjusted" => cel::Value::Float(adjusted as f64),
                        "rows" => rows_as_cel.clone(),
                        _ => cel::Value::Null,
                    };
                    let found = self.evaluator.eval(expression, &scope, |_| None, |found| Ok(plain_number(&found)));
                    self.note_failure(expression, found).flatten().filter(|number| number.is_finite()).unwrap_or(0.0)
                }
            };
            let (value, expected) = (part(&total.value, adjusted), part(&total.expected, expected));
            let sum = sums.entry(by).or_default();
            *sum = (sum.0 + value, sum.1 + expected);
        }
        let row = |(group, (value, expected)): (String, (f64, f64))| {
            (group, CoverageRow { ty: ty.clone(), value: value.round() as i64, expected: Some(expected.round() as i64), gaps: None, overlaps: None })
        };
        sums.into_iter().map(row).collect()
    }
}

/// The rows by group as the variable `rows` of expressions: numbers, with durations in microseconds.
fn rows_to_cel(rows: &BTreeMap<String, CoverageRow>) -> cel::Value {
    let name = |name: &str| CelKey::String(Arc::new(name.to_owned()));
    let number = |number: Option<i64>| number.map_or(cel::Value::Null, |number| cel::Value::Float(number as f64));
    let entry = |(group, row): (&String, &CoverageRow)| {
        let values = [("value", number(Some(row.value))), ("expected", number(row.expected)), ("adjusted", number(row.adjusted()))];
        let map: HashMap<CelKey, cel::Value> = values.into_iter().map(|(member, value)| (name(member), value)).collect();
        (name(group), cel::Value::Map(CelMap { map: Arc::new(map) }))
    };
    cel::Value::Map(CelMap { map: Arc::new(rows.iter().map(entry).collect()) })
}
