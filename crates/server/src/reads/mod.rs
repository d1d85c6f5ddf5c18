//! Lookups: records by key and keys by value, through an exact cache.
//!
//! Requests use `lookups`, which answers from `cache` if possible. `reader` reads everything else from the store, and `batch` combines the reads of
//! several requests. `record` is a record as it is served.

mod batch;
pub mod cache;
mod lookups;
mod reader;
mod record;

pub use lookups::{LookupService, MissPolicy, RequestLookups};
pub use reader::{MAX_FOUND, packed};
pub use record::{ServedRecord, etag};
