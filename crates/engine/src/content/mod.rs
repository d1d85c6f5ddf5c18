//! What follows for a record from its own values: its key, values that are allowed, its state, what its change log notes, the settled
//! values that it keeps, and how unique ones are compared.

pub mod allowed;
pub mod collection;
pub mod history;
pub mod key;
pub mod order;
pub mod settled;
pub mod state;
pub mod sum;
pub mod unique;
