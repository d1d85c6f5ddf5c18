//! Help with writing queries: suggestions for a free text, completions of a text being typed, facets of what a query finds, and questions about a record.

mod completions;
mod facets;
mod questions;
mod suggest;
mod vocabulary;

pub use completions::{Completion, complete};
pub use facets::{COUNTED, Facet, FacetValue, Facets, facets};
pub use questions::questions;
pub use suggest::{MAX_TEXT, SUGGESTIONS, Suggestion, Vocabulary, suggest};
