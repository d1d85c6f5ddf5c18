//! Requests to services, and what is collected from them page by page.

pub mod collect;
pub(crate) mod http;
mod oai;
mod oai_page;
mod page;
