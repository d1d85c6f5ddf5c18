//! The API described in OpenAPI 3.1: `document` puts together what the other files say of their paths, with `operation` and `schema`.

mod collection;
mod document;
mod jobs;
mod lab;
mod operation;
mod queries;
mod route;
mod schema;
mod service;
mod tokens;

pub use document::{serve, shared};
