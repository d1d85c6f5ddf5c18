//! Help with writing queries: suggestions for a free text, completions of a text being typed, and facets of what a query finds.

mod completions;
mod facets;
mod suggest;
mod vocabulary;

pub use completions::{Completion, complete};
pub use facets::{COUNTED, Facet, FacetValue, Facets, facets};
pub use suggest::{MAX_TEXT, SUGGESTIONS, Suggestion, Vocabulary, suggest};
