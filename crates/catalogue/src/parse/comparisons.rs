//! Parses `compare` of a field: when values of its contributors are a conflict.

use super::keywords;
use super::parser::DefinitionParser;
use super::yaml::{Node, NodeKind};
use crate::model::definition::Comparison;
use crate::value::{FieldType, Value, from_text};

/// Microseconds of a day, the unit of dates.
const DAY: u64 = 86_400_000_000;

impl DefinitionParser<'_> {
    pub(super) fn comparison(&mut self, node: Option<&Node>, name: &str, ty: &FieldType) -> Option<Comparison> {
        let node = node?;
        if matches!(node.kind, NodeKind::Map(_)) {
            self.section(node, "compare", &[keywords::COMPARISON])?;
            let within = self.required(node, "within")?;
            return self.within(within, name, ty);
        }
        let choices = [("true", Some(Comparison::Exact)), ("false", None), ("folded", Some(Comparison::Folded))];
        let comparison = self.choice(Some(node), "comparison", &choices)?;
        if comparison == Some(Comparison::Folded) && ty.element() != &FieldType::Text {
            self.problem_with_help(
                node,
                format!("only texts can be compared folded; `{name}` is {ty}"),
                "`compare: true` compares values of any type, `compare: { within: … }` numbers and times",
            );
            return None;
        }
        comparison
    }

    /// Parses how far apart values may be.
    fn within(&mut self, node: &Node, name: &str, ty: &FieldType) -> Option<Comparison> {
        let text = self.text_of(node, "`within`")?.to_owned();
        let read = |ty: &FieldType| from_text(&text, ty, None).ok();
        let not_negative = |value: Value| value.as_int().and_then(|number| u64::try_from(number).ok());
        let (distance, expected) = match ty {
            FieldType::Float => {
                let distance = read(ty).and_then(|value| value.as_number()).filter(|distance| *distance >= 0.0);
                (distance.map(Comparison::WithinFloat), "a number such as 0.01")
            }
            FieldType::Integer => (read(ty).and_then(not_negative).map(Comparison::Within), "a whole number such as 5"),
            FieldType::Size => (read(ty).and_then(not_negative).map(Comparison::Within), "a size such as 10 kB"),
            FieldType::Timestamp | FieldType::Duration => {
                (read(&FieldType::Duration).and_then(not_negative).map(Comparison::Within), "a duration such as 15s or 1h")
            }
            FieldType::Date => {
                let whole_days = |micros: u64| micros.is_multiple_of(DAY).then_some(micros / DAY);
                (read(&FieldType::Duration).and_then(not_negative).and_then(whole_days).map(Comparison::Within), "whole days such as 2d")
            }
            _ => {
                let help = if ty.element() == &FieldType::Text { "texts can be compared folded: compare: folded" } else { "compare: true" };
                let message = format!("`within` compares numbers, timestamps, dates, durations and sizes; `{name}` is {ty}");
                self.problem_with_help(node, message, help);
                return None;
            }
        };
        if distance.is_none() {
            self.problem(node, format!("how far apart values of {ty} may be is {expected}; `{text}` is not, or is negative"));
        }
        distance
    }
}
