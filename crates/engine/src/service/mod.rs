//! Requests to services, and what is collected from them page by page.

pub mod collect;
pub(crate) mod http;
