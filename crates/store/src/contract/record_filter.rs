//! The records of a collection that a caller may see or change, as conditions that a plan can have, and that are decided for a record in memory.

use super::plan::{CombinedCondition, Comparison, Condition, PlanColumn, QueryPlan};
use crate::sql::pattern::fold_pieces;
use std::cmp::Ordering;
use std::sync::Arc;
use stook_catalogue::definition::Collection;
use stook_catalogue::fold::fold;
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, Value};

/// The values of a record that a filter looks at.
#[derive(Debug, Clone, Copy)]
pub struct FilteredRecord<'r> {
    /// Its key.
    pub key: &'r Key,
    /// Its golden values.
    pub golden: &'r [Value],
    /// Its effective state.
    pub state: &'r [Value],
}

/// The records of a collection that satisfy conditions on their own values.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordFilter {
    conditions: Vec<CombinedCondition>,
    /// The conditions as they are written.
    pub text: String,
    /// Whether records that do not satisfy them are also invisible.
    pub hides: bool,
}

/// Which records of a collection a caller may read.
#[derive(Debug, Clone, PartialEq)]
pub enum Visibility {
    /// None.
    Nothing,
    /// Those that a filter admits.
    Part(Arc<RecordFilter>),
    /// All.
    Everything,
}

impl From<bool> for Visibility {
    fn from(is_visible: bool) -> Self {
        if is_visible { Self::Everything } else { Self::Nothing }
    }
}

impl RecordFilter {
    /// A filter of these conditions, all of which must hold.
    ///
    /// # Errors
    /// The first condition that cannot be decided by a record's own values, in words.
    pub fn new(collection: &Collection, conditions: Vec<CombinedCondition>, text: String, hides: bool) -> Result<Self, String> {
        let mut single = conditions.iter().flat_map(CombinedCondition::conditions);
        single.try_for_each(|condition| check(collection, condition))?;
        Ok(Self { conditions, text, hides })
    }

    /// Why a change of a record is refused: it is none that the conditions admit, or would be none because of the change.
    pub fn refusal(&self, collection: &str, by_change: bool) -> String {
        let allowed = format!("you may change only records of `{collection}` with {}", self.text);
        if by_change {
            return format!("{allowed}, and this would be none; keep the values that these conditions are on, or ask for the right to change all");
        }
        format!("{allowed}, and this is none; ask for the right to change it")
    }

    /// Adds the conditions to those of a plan for the same collection.
    pub fn apply(&self, plan: &mut QueryPlan) {
        for condition in &self.conditions {
            match condition {
                // an index may find the records by it
                CombinedCondition::Is(condition) => plan.conditions.push(condition.clone()),
                other => plan.combined.push(other.clone()),
            }
        }
    }

    /// Whether a record that exists satisfies the conditions.
    pub fn admits(&self, collection: &Collection, record: FilteredRecord<'_>) -> bool {
        self.conditions.iter().all(|condition| holds(collection, condition, record))
    }
}

/// Checks that a condition is one on a value of the record itself, which no other record changes.
fn check(collection: &Collection, Condition { column, test }: &Condition) -> Result<(), String> {
    let (name, ty) = match *column {
        PlanColumn::Key => return Ok(()),
        PlanColumn::State(index) => (&collection.states[index].name, &collection.states[index].ty),
        PlanColumn::Field(index) => {
            let field = &collection.fields[index];
            if field.is_settled() {
                return Err(format!("`{}` is settled from other records; the conditions of a right are on a record's own values", field.name));
            }
            if field.is_member() {
                return Err(format!("`{}` is a member of structs; the conditions of a right are on fields", field.name));
            }
            (&field.name, field.golden_type())
        }
        _ => return Err("the conditions of a right are on the key, the fields and the state of a record".into()),
    };
    if !ty.element().is_ordered() || matches!(ty.element(), FieldType::PartialDate) {
        return Err(format!("`{name}` is of type {ty}, on which a right has no conditions"));
    }
    match test {
        Comparison::Equal(_) | Comparison::NotEqual(_) | Comparison::In(_) | Comparison::Range { .. } => Ok(()),
        Comparison::Prefix(_) | Comparison::Wildcard(_) | Comparison::NotWildcard(_) => Ok(()),
        _ => Err(format!("`{name}`: the conditions of a right compare values; they do not search for words or places")),
    }
}

fn holds(collection: &Collection, condition: &CombinedCondition, record: FilteredRecord<'_>) -> bool {
    match condition {
        CombinedCondition::Is(condition) => is_met(collection, condition, record),
        CombinedCondition::IsNot(condition) => !is_met(collection, condition, record),
        CombinedCondition::All(inner) => inner.iter().all(|inner| holds(collection, inner, record)),
        CombinedCondition::Any(inner) => inner.iter().any(|inner| holds(collection, inner, record)),
    }
}

fn is_met(collection: &Collection, Condition { column, test }: &Condition, record: FilteredRecord<'_>) -> bool {
    let key;
    let (value, folds) = match *column {
        PlanColumn::Field(index) => (record.golden.get(index.index()), collection.fields[index].fold),
        PlanColumn::State(index) => (record.state.get(index), false),
        PlanColumn::Key => {
            key = Value::text(record.key.as_str());
            (Some(&key), false)
        }
        _ => (None, false),
    };
    let elements = value.map_or(&[][..], Value::elements);
    let folded = |value: &Value| match value {
        Value::Text(text) if folds => Value::text(fold(text)),
        other => other.clone(),
    };
    let pieces = |pieces: &[String]| if folds { fold_pieces(pieces) } else { pieces.to_vec() };
    let any = |test: &dyn Fn(&Value) -> bool| elements.iter().any(|element| test(&folded(element)));
    let equals = |wanted: &Value| {
        let wanted = folded(wanted);
        any(&|element| element.compare(&wanted) == Ordering::Equal)
    };
    let matches = |wanted: Vec<String>| any(&|element| element.as_text().is_some_and(|text| fits(text, &wanted)));
    match test {
        Comparison::Equal(wanted) => equals(wanted),
        Comparison::NotEqual(wanted) => !equals(wanted),
        Comparison::In(wanted) => wanted.iter().any(equals),
        Comparison::Range { low, high } => {
            let (low, high) = (bound(low, &folded), bound(high, &folded));
            any(&|element| {
                let is_after = low.as_ref().is_none_or(|(low, included)| match element.compare(low) {
                    Ordering::Greater => true,
                    order => *included && order == Ordering::Equal,
                });
                let is_before = high.as_ref().is_none_or(|(high, included)| match element.compare(high) {
                    Ordering::Less => true,
                    order => *included && order == Ordering::Equal,
                });
                is_after && is_before
            })
        }
        Comparison::Prefix(prefix) => matches(pieces(&[prefix.clone(), String::new()])),
        Comparison::Wildcard(wanted) => matches(pieces(wanted)),
        Comparison::NotWildcard(wanted) => !matches(pieces(wanted)),
        // no filter has them
        _ => false,
    }
}

fn bound(bound: &Option<(Value, bool)>, folded: &impl Fn(&Value) -> Value) -> Option<(Value, bool)> {
    bound.as_ref().map(|(value, included)| (folded(value), *included))
}

/// Whether a text consists of these pieces in their order, with any characters between them.
fn fits(text: &str, pieces: &[String]) -> bool {
    let [first, between @ .., last] = pieces else { return pieces.first().is_some_and(|only| only == text) };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
    for piece in between {
        match rest.split_once(piece.as_str()) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last.as_str())
}
