//! When contributed values of a field are a conflict.

use crate::value::Value;
use crate::value::fold::fold;
use std::fmt;

/// How the values that contributors give to a field are compared to find conflicts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Comparison {
    /// Values that are not equal are a conflict.
    Exact,
    /// Texts, and lists of texts, are a conflict if they differ after [`fold`].
    Folded,
    /// Whole numbers, and times, durations and sizes in the unit of their type, are a conflict if they are farther apart than this.
    Within(u64),
    /// The same for floats.
    WithinFloat(f64),
}

impl Comparison {
    /// Whether these values are no conflict. The result does not depend on their order: distances are those between the smallest and the largest value.
    pub fn agree<'v>(self, values: impl IntoIterator<Item = &'v Value>) -> bool {
        let mut values = values.into_iter();
        let Some(first) = values.next() else { return true };
        match self {
            Comparison::Exact => values.all(|value| value == first),
            Comparison::Folded => {
                let folded_first = folded(first);
                values.all(|value| value == first || folded(value) == folded_first)
            }
            Comparison::Within(_) | Comparison::WithinFloat(_) => {
                let (lowest, highest) = values.fold((first, first), |(lowest, highest), value| {
                    (if value.compare(lowest).is_lt() { value } else { lowest }, if value.compare(highest).is_gt() { value } else { highest })
                });
                self.reaches(lowest, highest)
            }
        }
    }

    fn reaches(self, lowest: &Value, highest: &Value) -> bool {
        match (self, lowest, highest) {
            (Comparison::Within(distance), Value::Int(lowest), Value::Int(highest)) => highest.abs_diff(*lowest) <= distance,
            (Comparison::WithinFloat(distance), Value::Float(lowest), Value::Float(highest)) => {
                // 1.01 and 1.00 are 0.01 apart, although binary fractions make it a little more
                let rounding = f64::EPSILON * lowest.abs().max(highest.abs());
                highest - lowest <= distance + rounding
            }
            // a value that its contributor cleared
            _ => lowest == highest,
        }
    }
}

/// The text as in the definition, to recognise that a definition compares differently.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Comparison::Exact => f.write_str("true"),
            Comparison::Folded => f.write_str("folded"),
            Comparison::Within(distance) => write!(f, "within {distance}"),
            Comparison::WithinFloat(distance) => write!(f, "within {distance}"),
        }
    }
}

fn folded(value: &Value) -> Value {
    match value {
        Value::Text(text) => Value::text(fold(text)),
        Value::List(items) => Value::List(items.iter().map(folded).collect()),
        other => other.clone(),
    }
}
