//! Declared routes: `serve` finds the route of a request and reads its `parameters`; then it is a `lookup`, a `query`, whose rows are made by `query_rows`, or a `transition`.
//!
//! A lookup finds `records` and makes `rows` of them, of which `columns` shows values and `fragment` writes JSON.

mod columns;
mod fragment;
mod lookup;
mod parameters;
mod query;
mod query_rows;
mod records;
mod rows;
mod serve;
mod transition;

pub use parameters::MOST_REPEATED;
pub use serve::router;
