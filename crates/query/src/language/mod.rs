//! The query language itself: parses texts to [`Query`] and replaces aliases. Nothing here reads a store.

mod aliases;
mod parse;
mod syntax;
mod tokens;

pub use aliases::{NamedColumn, named_columns};
pub use parse::{MAX_CONDITIONS, MAX_PARTS, MAX_QUERY, MAX_STARS, parse};
pub use syntax::{ComparisonOperator, FieldPath, GrepItem, Query, QueryCondition, Selection, Stage, ValueLiteral};
pub use tokens::as_value;
