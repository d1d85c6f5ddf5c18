//! The query language itself: parses texts to [`Query`] and replaces aliases. Nothing here reads a store.

mod aliases;
mod combined;
mod parse;
mod syntax;
mod tokens;

pub use aliases::{NamedColumn, identity, named_columns};
pub(crate) use combined::split;
pub use parse::{MAX_CONDITIONS, MAX_GROUP_COLUMNS, MAX_PARTS, MAX_QUERY, MAX_STARS, parse};
pub use syntax::{
    ComparisonOperator, ConditionTree, FieldPath, GrepItem, GroupFunction, GroupItem, Query, QueryCondition, Selection, SortItem, Stage,
    ValueLiteral, consists_of,
};
pub use tokens::as_value;
