//! Merging the contributions of one record: what is stored of each contributor, what is written, and the outcome of each document.
//!
//! [`RecordMerger::decide`] takes the contributions that documents make to a record and the record as it is stored. It skips, fails or
//! withdraws them as the job's policy says, repairs a record that is damaged (`repair.rs`), and otherwise keeps the newest contribution of each
//! contributor (`contribute.rs`), and those that may count again if a job is undone ([`former`]). [`merger`] turns the contributions that stay into the content that is written.
//!
//! Of a contributor's contributions to a record the newest stays, by [`stook_catalogue::record::ContributionAge`]. Outcomes are a function
//! of what was stored before the job and of the job's documents, never of the order in which its chunks are committed: a contribution
//! remembers what it replaced ([`stook_catalogue::record::PreviousContribution`]), and an outcome that another chunk has journalled is corrected
//! when a newer document of the job follows.

mod contribute;
pub mod contribution;
mod decide;
pub mod former;
pub mod merger;
mod repair;
pub mod result;
mod superseded;

pub use contribution::{NewContribution, NumberedContribution, ScopePosition};
pub use merger::RecordMerger;
pub use result::{ChangedOutcome, MergeResult};
pub(crate) use superseded::existence_reason;
