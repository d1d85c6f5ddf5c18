//! Realistic generated input, one file a kind. The same seed gives the same bytes on every machine.

pub mod authorities;
pub mod businesses;
pub mod datasets;
pub mod machines;
pub mod sentinel;
