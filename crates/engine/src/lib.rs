//! From files, services and requests to committed records: jobs are made and cut into chunks, and what follows from a chunk, an edit or a
//! withdrawal is merged, settled and written.
//!
//! The rooms, each of which uses only rooms below it:
//!
//! - [`fetch`] fetches from services what a query needs; [`service`] sends the requests, and collects what is new page by page.
//! - [`import`] makes jobs of files and uploads and runs them, tries them without writing, and delivers a few documents at once.
//! - [`change`] changes single records: edits, transitions, picks, withdrawals.
//! - [`records`] reads records: explanations, exports, aggregates, damaged rows.
//! - [`work`] is the threads that process chunks of the queue; [`tags`] evaluates tags, also for all records as a job that workers run.
//! - [`chunk`] is the way of a chunk from bytes to one unit of work, step by step.
//! - [`settle`] computes the derived values of records from other records, in passes or at once.
//! - [`merge`] merges the contributions of one record to its content and to the outcomes of documents.
//! - [`job`] is what all work of a job shares; [`relations`] what records pass to each other; `content` what follows for a record from its own values.

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
pub mod work;

pub use change::{edit, edit_answer, pick, transition, withdraw};
pub use error::{EngineError, Result};
pub use import::{deliver, split};
pub use records::{aggregate, damage, export, record};
pub use service::collect;
pub use work::requeue;
