//! The definition of a catalogue and the record model: what a document may say, and what records follow from it.
//!
//! This crate does no input or output. [`parse::parse`] turns the text of a `catalogue.yaml` into a
//! [`definition::Catalogue`], or into every mistake in it with its place. [`survivorship`] turns the contributions of a
//! record into golden fields; it is pure, and its laws are property tests in `tests/laws.rs`.
//!
//! Its rooms, each of which uses only those before it:
//!
//! - [`value`]: the values of fields and their types; times, JSON, and the folding of texts.
//! - [`diagnostic`]: a mistake at its place in a text, and how it is shown.
//! - [`eval`]: expressions: compiled, checked against types, and evaluated. Nothing else here names the crate `cel`.
//! - [`marcspec`], [`xpath`]: two of the languages in which paths are written, parsed.
//! - [`model`]: what a definition and a record are once both are read, and how golden values follow from contributions.
//! - [`parse`]: from the YAML of a definition to the model, or to its mistakes; the words of the language and its JSON Schema.

pub mod diagnostic;
pub mod eval;
pub mod model;
pub mod parse;
pub mod value;

pub use eval::{functions, plain, types};
pub use model::{definition, golden, ids, key, links, parts, path, record, route, survivorship};
pub use parse::{keywords, schema, yaml};
pub use stook_marc::marcspec;
pub use stook_xpath as xpath;
pub use value::{fold, json, time};
