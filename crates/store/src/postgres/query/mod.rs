//! Turns plans into SQL. PostgreSQL's planner chooses among the indexes; every condition is written in the form that its index supports.
//!
//! - `select.rs` makes the statement of a plan: `SqlBuilder` its FROM and WHERE, `rows_statement` also columns and order.
//! - `columns.rs` has the SQL of columns, `comparison.rs` that of conditions, `parameters.rs` the values that are bound.
//! - `aggregate.rs` makes and runs aggregates and counts, `rows.rs` reads the rows of a plan, `explain.rs` says how the server executes it.

mod aggregate;
mod columns;
mod comparison;
mod explain;
mod group;
mod linked;
mod parameters;
mod rows;
mod select;

pub use aggregate::{aggregate, count};
pub use explain::explain;
pub use group::group;
pub use rows::visit;
