//! Reads records: one with its explanation, all of them for an export, those that cannot be read, and aggregates by source.

pub mod aggregate;
pub mod damage;
pub mod export;
pub mod publish;
pub mod record;
