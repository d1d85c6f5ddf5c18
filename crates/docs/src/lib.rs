//! The documentation of exactly this version: the Markdown files of `docs/`, embedded in the binary, as a tree of pages ([`tree`]), with search
//! ([`search`]) and navigation ([`view`]). `stook serve` shows them under `/docs`; `examples/write.rs` writes them as files.

mod files;
mod markdown;
pub mod search;
pub mod tree;
pub mod view;

pub use markdown::{Heading, Section};
pub use search::{Found, Hit};
pub use tree::{Address, Docs, Kind, Page};

/// The version of this documentation.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
