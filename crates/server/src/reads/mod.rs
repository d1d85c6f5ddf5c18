//! Lookups: records by key and keys by value, through an exact cache.
//!
//! `lookups` is what a request uses, `cache` what it finds there at once, `reader` what is read from the store meanwhile, with `batch` for
//! several requests together. `record` is what is found.

mod batch;
pub mod cache;
mod lookups;
mod reader;
mod record;

pub use lookups::{LookupService, MissPolicy, RequestLookups};
pub use reader::{MAX_FOUND, packed};
pub use record::{ServedRecord, etag};
