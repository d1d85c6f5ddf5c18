//! The phase that settles records as parents, from the edges of their children: `process_parent` reads these, `settle_existence`
//! (`existence.rs`) creates and deletes parents depending on whether children link to them, and settles rollups, and `cover` (`coverage.rs`)
//! brings the rows of coverages up to date: `measured` computes those of groups (`groups.rs`), `sums` those that sum up others (`totals.rs`).

mod coverage;
mod existence;
mod expressions;
mod groups;
mod parents;
mod rows;
mod totals;
mod work;
