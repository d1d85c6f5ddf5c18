//! The definition of a catalogue and the record model: what a document may say, and what records follow from it.
//!
//! This crate does no input or output. [`parse::parse`] turns the text of a `catalogue.yaml` into a
//! [`definition::Catalogue`], or into every mistake in it with its place. [`survivorship`] turns the contributions of a
//! record into golden fields; it is pure, and its laws are property tests in `tests/laws.rs`.

pub mod definition;
pub mod diagnostic;
mod eval;
pub mod expr;
pub mod fold;
pub mod functions;
pub mod json;
pub mod key;
pub mod links;
pub mod marcspec;
pub mod parse;
pub mod parts;
pub mod path;
pub mod plain;
pub mod record;
pub mod route;
pub mod schema;
pub mod survivorship;
pub mod time;
pub mod types;
pub mod value;
pub mod words;
pub mod xpath;
pub mod yaml;
