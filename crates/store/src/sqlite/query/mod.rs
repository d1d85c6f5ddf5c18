//! Turns plans into SQL.
//!
//! One condition is chosen to find the records: its index is named with `INDEXED BY` (or a side table is read first), so an indexed condition never
//! scans; the other conditions filter. If several could be chosen, a few entries are counted in each of their indexes, and the one with fewest is
//! chosen. Alternatives find the records if each of them has an index. All values are bound; only names of columns, which come from the definition, are put into the SQL text.

mod access;
mod aggregate;
mod alternatives;
mod columns;
mod comparison;
mod explain;
mod group;
mod linked;
mod pager;
mod rows;
mod select;

pub use aggregate::{aggregate, count};
pub use explain::explain;
pub use group::group;
pub use pager::KeyPager;
pub use rows::visit;
