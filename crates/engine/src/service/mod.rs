//! Requests to services, and what is collected from them page by page, or file by file.

mod bucket;
pub mod collect;
mod download;
pub mod files;
pub(crate) mod http;
mod oai;
mod oai_page;
mod page;
mod paged;
pub(crate) mod paging;
