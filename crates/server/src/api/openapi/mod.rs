//! The API described in OpenAPI 3.1: `document` combines the paths that the other files describe, using `operation` and `schema`.

mod collection;
mod document;
mod jobs;
mod lab;
mod operation;
mod queries;
mod reconcile;
mod route;
mod schema;
mod service;
mod tokens;

pub use document::{serve, shared};
