//! Plans to SQL.
//!
//! One condition drives: its index is named with `INDEXED BY` (or a side table is read first), so an indexed condition never
//! scans; the others filter. Where several could drive, their indexes are asked for a few entries each, and the one that has
//! fewest does. Everything is bound, nothing is pasted, except names of columns, which come from the definition.

mod access;
mod aggregate;
mod columns;
mod comparison;
mod explain;
mod pager;
mod rows;
mod select;

pub use aggregate::{aggregate, count};
pub use explain::explain;
pub use pager::KeyPager;
pub use rows::visit;
