//! The words of the command line, by groups of commands.

mod command;
pub mod import;
pub mod lab;
mod named;
pub mod queue;
pub mod records;
pub mod sample;
pub mod serve;
pub mod tag;

pub use command::{Arguments, Command};
