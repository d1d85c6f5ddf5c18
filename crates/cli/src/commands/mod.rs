//! The commands, one file for each group of them.

pub mod audit;
pub mod backup;
mod changes;
pub mod collect;
mod corrections;
pub mod definition;
pub mod doctor;
pub mod erase;
pub mod follow;
pub mod help;
pub mod import;
pub mod init;
pub mod jobs;
pub mod journal;
#[cfg(feature = "lab")]
pub mod lab;
pub mod man_pages;
pub mod profile;
pub mod query;
pub mod queue;
pub mod record;
#[cfg(feature = "lab")]
pub mod sample;
pub mod serve;
pub mod settle;
pub mod sql;
mod status;
pub mod tag;
pub mod token;
pub mod undo;
pub mod work;
