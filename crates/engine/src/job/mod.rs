//! What all work of a job has in common, be it an import, a delivery, a fetch or an edit: its source and profile, its files, its policy, and
//! the sizes of units of work.

pub mod context;
pub mod file;
pub mod health;
pub mod policy;
pub mod sizes;
pub mod source;

pub use context::JobContext;
pub use policy::{ImportPolicy, NO_JOB};
