//! A document to contributions: paths, conversions, expressions, key, time. Done once per document, whatever it feeds.
//!
//! [`DocumentMapper::map`] computes the `let` values of a document, then the fields of each feed (`values.rs`), in which expressions see what was
//! computed before (`names.rs`), and gives one contribution for each feed, with its key, its as-of time and its hash (`hash.rs`); at last it maps
//! the documents that are embedded in it.

pub mod document;
mod hash;
mod mapper;
mod names;
mod values;

pub use document::{Envelope, MappedDocument, SkippedPlace};
pub use mapper::DocumentMapper;
