//! Realistic generated input, one module for each kind, and sample services that serve some of it. The same seed gives the same bytes on every
//! machine.

pub mod authorities;
pub mod bibliographic;
pub mod businesses;
pub mod datasets;
pub mod machines;
pub mod random;
pub mod sentinel;
pub mod services;
