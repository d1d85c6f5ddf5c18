//! What all work of a job shares, whether it is an import, a delivery, a fetch or an edit: its source and profile, its files, its policy, and how
//! much of it is done at once.

pub mod context;
pub mod file;
pub mod policy;
pub mod sizes;
pub mod source;

pub use context::JobContext;
pub use policy::{ImportPolicy, NO_JOB};
