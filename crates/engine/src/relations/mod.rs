//! What records pass to each other: the rules of a catalogue, the edges and stale marks that follow from a change of a record, and their stored
//! form. They are written in the transaction that changes the record; settle passes ([`crate::settle`]) process the marks.

pub mod edges;
pub mod left_out;
pub mod marks;
pub mod payload;
pub mod propagation;
pub mod rules;
pub mod stored;
pub mod unit;

pub use propagation::{ChangeCause, Propagation, ValueChange};
pub use rules::SettleRules;
pub use unit::SettlingUnit;
