//! The arguments of the command line, by groups of commands.

mod command;
pub mod import;
pub mod init;
#[cfg(feature = "lab")]
pub mod lab;
pub mod mcp;
mod named;
pub mod queue;
pub mod records;
#[cfg(feature = "lab")]
pub mod sample;
pub mod serve;
pub mod tag;
mod version;

pub use command::{Arguments, Command};
