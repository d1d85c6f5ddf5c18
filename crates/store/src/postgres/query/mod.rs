//! Plans to SQL. PostgreSQL's planner chooses among the indexes; every condition is said in the form an index answers.

mod aggregate;
mod columns;
mod comparison;
mod explain;
mod parameters;
mod rows;
mod select;

pub use aggregate::{aggregate, count};
pub use explain::explain;
pub use rows::visit;
