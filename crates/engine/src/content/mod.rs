//! What follows for a record from its own values: its key, whether values are allowed, its state, its change log entry, the settled
//! values that it keeps, and how unique values are compared.

pub mod allowed;
pub mod collection;
pub mod history;
pub mod key;
pub mod order;
pub mod settled;
pub mod state;
pub mod sum;
pub mod unique;
