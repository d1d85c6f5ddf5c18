//! The definition of a catalogue and the record model: what a definition may contain, and how records are formed from contributions.
//!
//! This crate does no input or output. [`parse::parse`] turns the text of a `catalogue.yaml` into a [`definition::Catalogue`], or into all errors in
//! it with their positions. [`survivorship`] turns the contributions of a record into golden values; it is pure, and its laws are property tests in
//! `tests/laws.rs`.
//!
//! Its modules, each of which uses only those before it:
//!
//! - [`value`]: the values of fields and their types; times, JSON, and the folding of texts.
//! - [`diagnostic`]: an error at its position in a text, and how it is shown.
//! - [`eval`]: expressions: compiled, type-checked and evaluated. No other module uses the crate `cel`.
//! - [`marcspec`], [`xpath`]: parsers of two path languages.
//! - [`model`]: a definition and a record after parsing, and how golden values follow from contributions.
//! - [`parse`]: from the YAML of a definition to the model, or to its errors; the keywords of the language and its JSON Schema.

pub mod diagnostic;
pub mod eval;
pub mod model;
pub mod parse;
pub mod value;

pub use eval::{functions, plain, types};
pub use model::{definition, golden, ids, key, links, parts, path, record, records_path, route, survivorship};
pub use parse::{keywords, schema, yaml};
pub use stook_marc::marcspec;
pub use stook_xpath as xpath;
pub use value::{fold, json, time, words};
