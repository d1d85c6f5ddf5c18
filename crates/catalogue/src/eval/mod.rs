//! Expressions: compiling, type-checking and evaluating them. This is the only module that uses the crate `cel`, which parses them;
//! [`Evaluator::eval`] evaluates an [`Expression`] over the values of a [`Scope`].
//!
//! Absent values stay absent: `walk`, which evaluates a parsed expression, implements that rule. Most expressions in definitions are plain; [`plain`]
//! evaluates them without converting values to CEL's, with the same results.

mod convert;
mod copies;
mod evaluator;
mod expression;
mod failures;
pub mod functions;
pub mod plain;
mod plain_value;
mod scope;
mod tables;
pub mod types;
mod walk;

pub use convert::{CelValue, cel_to_json, from_cel, json_to_cel, repaired_from_cel, text_to_cel, to_cel};
pub use evaluator::Evaluator;
pub use expression::Expression;
pub use failures::ExpressionFailures;
pub use scope::{MemberReference, Name, Scope};
pub use tables::{ConstantTable, ConstantTables, TableValue};
