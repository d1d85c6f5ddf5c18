//! Maps a document to contributions: paths, conversions, expressions, key, as-of time. `let` values are computed once, however many feeds use them.
//!
//! [`DocumentMapper::map`] computes the `let` values of a document, then the fields of each feed (`values.rs`), in which expressions can use what
//! was computed before (`names.rs`), and makes one contribution for each feed, or for each element of
//! a feed that says `each:`, with its key, its as-of time and its hash (`hash.rs`). Finally it maps
//! the documents that are embedded in it.

pub mod document;
mod hash;
mod mapper;
mod names;
mod values;

pub use document::{CompleteDocument, Envelope, MappedDocument, SkippedContribution};
pub use mapper::DocumentMapper;
