//! From files, services and requests to committed records: creates jobs and splits them into chunks, and merges, settles and writes what follows
//! from chunks, edits and withdrawals.
//!
//! The modules. Each uses mainly modules below it; `chunk` and `merge` also use `tags`, to evaluate tags in the transaction that writes a document:
//!
//! - [`fetch`] fetches from services what a query needs; [`service`] sends the requests, and collects what is new page by page.
//! - [`import`] creates jobs for files and uploads and runs them, does dry runs, and delivers a few documents at once.
//! - [`change`] changes single records: edits, transitions, picks, withdrawals; and several in one transaction.
//! - [`records`] reads records: explanations, exports, changes, aggregates, damaged rows.
//! - [`work`] has the threads that process chunks of the queue; [`tags`] evaluates tags, also for all records as a job that workers run.
//! - [`undo`] takes out of records what a job has contributed, as a job that workers run.
//! - [`chunk`] turns a chunk into one unit of work, step by step.
//! - [`settle`] computes the derived values of records from other records, in passes or inline.
//! - [`merge`] merges the contributions of one record into its content and the outcomes of documents.
//! - [`job`] has what all work of a job shares; [`relations`] what records pass to each other; `content` what follows for a record from its own
//!   values.

pub mod change;
pub mod chunk;
mod content;
mod error;
pub mod fetch;
pub mod import;
pub mod job;
pub mod merge;
pub mod records;
pub mod relations;
pub mod service;
pub mod settle;
pub mod tags;
pub mod undo;
pub mod work;

pub use change::{corrections, edit, edit_answer, erase, pick, several, transition, withdraw};
pub use error::{EngineError, Result};
pub use import::{deliver, split};
pub use records::{aggregate, change_feed, composed, damage, export, publish, record};
pub use service::collect;
pub use work::requeue;
