//! Changes records without documents: edits, transitions, picks, withdrawals and erasures, each as a unit of work, and several edits and transitions as one.

pub(crate) mod again;
pub mod corrections;
mod corrections_import;
pub mod edit;
pub mod edit_answer;
pub mod erase;
pub mod pick;
pub(crate) mod removal;
pub mod several;
pub mod transition;
pub mod withdraw;
