//! Everything that measures, and the generated input it measures with.

pub mod random;
pub mod sample;
