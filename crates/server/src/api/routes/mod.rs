//! Declared routes: `serve` finds the route of a request and reads its `parameters`. The route is a `lookup`, a `transition`, or a `query`, whose
//! rows `query_rows` makes, or it is in `steps`, with `writes`.
//!
//! A lookup finds `records` and makes `rows` of them; `columns` reads their values and `fragment` writes JSON.

mod columns;
mod fragment;
mod lookup;
mod parameters;
mod query;
mod query_rows;
mod records;
mod rows;
mod serve;
mod steps;
mod transition;
mod writes;

pub use parameters::MAX_REPEATED;
pub use serve::{cors, router};
