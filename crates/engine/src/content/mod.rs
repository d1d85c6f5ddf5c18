//! What follows for a record from its own values: its key, values that are allowed, its state, what its change log notes, and the settled
//! values that it keeps.

pub mod allowed;
pub mod collection;
pub mod history;
pub mod key;
pub mod order;
pub mod settled;
pub mod state;
pub mod sum;
