//! The phase that settles records as parents, from the edges of their children: `parents` reads these, `exists` (`existence.rs`)
//! creates and deletes parents that their children want and settles rollups, and `cover` (`coverage.rs`) brings rows of coverage up to date: `measured`
//! gives those of groups (`groups.rs`), `sums` those that sum up others (`totals.rs`).

mod coverage;
mod existence;
mod expressions;
mod groups;
mod parents;
mod rows;
mod totals;
mod work;
