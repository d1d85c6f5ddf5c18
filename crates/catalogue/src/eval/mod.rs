//! Expressions: how they are compiled, checked against types, and evaluated. This is the only room that names the crate `cel`, which
//! parses them; an [`Expression`] is evaluated by [`Evaluator::eval`] over the values of a [`Scope`].
//!
//! What is absent stays absent: that rule stands in the module that walks over a parsed expression, `walk`. Definitions mostly have plain
//! expressions; [`plain`] evaluates those without making CEL's values, with the same results.

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

pub use convert::{CelValue, from_cel, json_to_cel, repaired_from_cel, text_to_cel, to_cel};
pub use evaluator::Evaluator;
pub use expression::Expression;
pub use failures::ExpressionFailures;
pub use scope::{MemberReference, Scope};
pub use tables::{ConstantTable, ConstantTables, TableValue};
