//! The documentation of exactly this version: the Markdown files of `docs/`, in the binary, as pages in a tree ([`tree`]), with search
//! ([`search`]) and with what surrounds a page ([`view`]). `stook serve` shows them under `/docs`; `examples/write.rs` writes them as files.

mod files;
mod markdown;
pub mod search;
pub mod tree;
pub mod view;

pub use markdown::{Heading, Section};
pub use search::{Found, Hit};
pub use tree::{Address, Docs, Kind, Page};

/// The version whose documentation this is.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
