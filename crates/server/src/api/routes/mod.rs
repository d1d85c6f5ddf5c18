//! Declared routes: `serve` finds the route of a request and reads its `parameters`. The route is a `lookup`, a `transition`, or a `query`, whose
//! rows `query_rows` makes, `plain` as lines, or it is in `steps`, with `writes`; those of `alone` are transactions of their own. `query_form` shows a
//! parsed query.
//!
//! A lookup finds `records` and makes `rows` of them; `columns` reads their values and `fragment` writes JSON.

mod alone;
mod columns;
mod fragment;
mod lookup;
mod parameters;
mod plain;
mod query;
mod query_form;
mod query_rows;
mod records;
mod rows;
mod serve;
mod steps;
mod transition;
mod writes;

pub use parameters::MAX_REPEATED;
pub use serve::{cors, router};
