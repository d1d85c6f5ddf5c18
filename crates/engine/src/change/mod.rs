//! Changes records one by one, without documents: edits, transitions, picks and withdrawals, each as a unit of work.

pub mod edit;
pub mod edit_answer;
pub mod pick;
pub mod transition;
pub mod withdraw;
