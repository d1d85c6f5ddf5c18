//! The state of records: fields that only transitions write, and the transitions.

use super::field::FieldIndexes;
use crate::eval::Expression;
use crate::value::{FieldType, Value};

/// A field that only transitions write.
#[derive(Debug, Clone)]
pub struct StateField {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: FieldType,
    /// The value until a transition sets one.
    pub initial: Option<Expression>,
    /// Conditions that indexes answer.
    pub index: FieldIndexes,
    /// Allowed values; empty for any.
    pub one_of: Vec<Value>,
}

/// A named, conditional change of state.
#[derive(Debug, Clone)]
pub struct Transition {
    /// Its name.
    pub name: String,
    /// Arguments of the call.
    pub args: Vec<TransitionArgument>,
    /// Conditions under which it is refused.
    pub refuse: Vec<Refusal>,
    /// State fields, by position, with their new values; `None` sets null.
    pub set: Vec<(usize, Option<Expression>)>,
}

/// An argument of a transition.
#[derive(Debug, Clone)]
pub struct TransitionArgument {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: FieldType,
    /// Whether a call without it is refused.
    pub required: bool,
    /// The value if it is not given.
    pub default: Option<Expression>,
    /// Allowed values; empty for any.
    pub one_of: Vec<Value>,
    /// Smallest number.
    pub min: Option<f64>,
    /// Largest number.
    pub max: Option<f64>,
}

/// A refusal of a transition.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The condition.
    pub when: Expression,
    /// The message to the caller.
    pub reason: Expression,
    /// HTTP status.
    pub code: u16,
}
