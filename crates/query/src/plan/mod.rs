//! From a parsed query to a plan of the store.
//!
//! `resolve` takes all steps: it replaces aliases; `tags` replaces tags that are queries by their conditions; `compile` makes the plan, with
//! `columns` for names, `linked` for those of linked records, `conditions` for comparisons and `words` for searches. `elements` aggregates members of structs. `filter` makes the filters of rights. `all_collections` does this for each collection of a query of `records`, `everywhere` for words alone.

mod all_collections;
mod columns;
mod combined;
mod compile;
mod conditions;
mod elements;
mod everywhere;
mod filter;
mod linked;
mod resolve;
mod scope;
mod tags;
mod words;

pub use all_collections::{AllCollectionsQuery, may_query_all_collections, resolve_all_collections};
pub use columns::ResultColumn;
pub use compile::{CompiledQuery, compile};
pub use elements::ElementMember;
pub use everywhere::words_alone;
pub use filter::record_filter;
pub use linked::LinkedUse;
pub use resolve::resolve_parsed;
pub use scope::QueryScope;
pub use tags::{TagQuery, check_tag, compile_conditions, tags_of, tags_that_name};
pub use words::Highlights;
