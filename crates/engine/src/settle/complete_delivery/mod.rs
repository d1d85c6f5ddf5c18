//! Complete deliveries: files that take the place of older ones; a source's `replaces`.
//!
//! Every chunk writes an edge from its file ([`part`]): how much of it is done, how much failed, where it begins in which scope and which keys it
//! has there. When all of a file is done and nothing failed, each of its scopes decides whether it counts (`decide.rs`). If it does, it
//! enters the *ledger* of the scope ([`ledger`]): (from when on, how old it is). What was contributed in a scope is dead if the ledger has a newer
//! file that begins no later. Chunks look it up before they write; because ledger and contributions are written by different transactions, each also
//! leaves a mark, and the pass that answers it (`phase.rs`) sees both. Dead contributions are kept and do not count (`retire.rs`), and count again when
//! the ledger changes, so that the end does not depend on the order in which files came.

mod decide;
pub(super) mod keys;
pub mod ledger;
pub mod names;
pub mod part;
mod phase;
mod report;
mod retire;

pub use ledger::DeliveryLedger;
pub use names::{contribution_edge, contribution_name, mark_retired, mark_scope};
pub use part::{FilePart, ScopePart};
pub use report::{FileRetirement, RetirementDryRun, RetirementReport, of_job};
