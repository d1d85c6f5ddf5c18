//! The stages that turn a chunk of input into records, one file each.

pub mod commit;
pub mod consolidate;
pub mod map;
pub mod read;
