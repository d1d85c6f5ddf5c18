//! Turns plans into SQL. PostgreSQL's planner chooses among the indexes; every condition is written in the form that its index supports.

mod aggregate;
mod columns;
mod comparison;
mod explain;
mod group;
mod parameters;
mod rows;
mod select;

pub use aggregate::{aggregate, count};
pub use explain::explain;
pub use group::group;
pub use rows::visit;
