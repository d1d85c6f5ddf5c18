//! Reads records: one with its explanation or its MARC record, all of them for an export, what has changed in them, those that cannot be read, and aggregates by source.

pub mod aggregate;
pub mod change_feed;
pub mod composed;
mod corrections;
pub mod damage;
pub mod export;
pub mod publish;
pub mod record;
mod statements;
