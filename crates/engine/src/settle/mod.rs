//! Settling: links, fields through links, rollups and coverage are computed from other records after these have changed.
//!
//! A transaction that changes a record also writes the edges from that record to its targets, and stale marks for what must be settled
//! ([`crate::relations`]). A settle pass takes marks of one phase and processes them in one transaction of the store (`pass.rs`). There are four
//! phases, and each may leave marks for later ones:
//!
//! 0. *found*: a record that children find by equal fields has changed: `PassState::process_found` (`fan.rs`) settles its possible children; or a
//!    complete delivery has arrived: `PassState::process_complete_delivery` ([`complete_delivery`]) retires what it does not repeat; or a record has
//!    given up a unique value: `PassState::process_waiting` (`waiting.rs`) marks the records that wait for it,
//! 1. *read*: a field that children read has changed: `PassState::process_read` (`fan.rs`) settles the children,
//! 2. *child*: `PassState::children` (`child.rs`) finds the targets of a record and computes the fields that come from them,
//! 3. *parent*: `PassState::process_parent` (`parent/`) computes the rollups and the coverage of a record from its children's edges.
//!
//! A mark's order is four times the depth of its collection plus the phase (`relations/rules.rs`). The store takes the lowest order first, and a
//! pass processes marks of one rule. Settling terminates, because definitions whose fields depend on themselves are refused
//! (`catalogue/src/parse/settling.rs`), and because a pass writes only values that differ and marks only what follows from these.
//!
//! A pass is a function of what it reads, so it may run late, twice, or needlessly; it only matters that one runs after every change. Until then,
//! values stay as they are. [`drain()`] runs passes until no mark is left; [`settle_inline`] settles records in the transaction that writes
//! them, if everything they depend on is known there. A pass that is stopped ([`until_stopped`]) writes nothing, and its marks stay.

mod check;
mod child;
pub mod complete_delivery;
mod component;
mod drain;
mod fan;
mod inline;
mod linked_values;
pub mod measure;
mod measured;
mod notes;
mod parent;
mod pass;
mod pass_state;
mod remake;
mod stop;
mod targets;
mod waiting;

pub use crate::relations::{ChangeCause, Propagation, SettleRules, SettlingUnit, ValueChange};
pub use check::{CheckedRecord, DeepCheckReport, check};
pub use drain::{drain, round};
pub use inline::{InlineContext, InlineResult, settle_inline};
pub use linked_values::failure_of;
pub use measured::{CoveredChild, measured};
pub(crate) use pass_state::{refusal, why_refused};
pub use remake::{is_settled, mark_outdated};
pub use stop::until_stopped;
pub use targets::ambiguity_of;
