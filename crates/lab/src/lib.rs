//! Everything that measures, and the generated input it measures with.

pub mod measure;
pub mod random;
pub mod sample;
pub mod services;
pub mod show;
