//! Complete deliveries: files that replace older ones; `replaces` of a source.
//!
//! Every chunk writes an edge from its file ([`share`]): how many of its documents are done, how many failed, where it begins in which scope and
//! which keys it has there. When all chunks of a file are done and nothing failed, each of its scopes decides whether the file counts (`decide.rs`).
//! If so, the file enters the *ledger* of the scope ([`ledger`]) with the position from which it counts, and its as-of time. A contribution in a
//! scope is retired if the ledger has a newer file that begins no later. Chunks read the ledger before they write; because ledger and contributions
//! are written by different transactions, each also leaves a mark, and the pass that processes it (`phase.rs`) sees both. Retired contributions are
//! kept but do not count (`retire.rs`). They count again if the ledger no longer retires them, so that the result does not depend on the order in
//! which files came.
//!
//! A document of a source with `each:` is complete by itself: its identity is the scope, and the chunk writes it into the ledger at once.

mod decide;
pub(super) mod keys;
pub mod ledger;
pub mod names;
mod phase;
mod report;
mod retire;
pub mod share;

pub use ledger::{DeliveryAge, DeliveryLedger, is_older};
pub use names::{contribution_edge, contribution_name, document_edge, mark_all, mark_retired, mark_scope};
pub use report::{FileRetirement, RetirementDryRun, RetirementReport, retirement_report};
pub use share::{FileShare, ScopeShare};
