//! The handlers of the API: one file for each resource.
//!
//! A handler gets a checked request and returns a response or a problem. `routes` are the paths that a definition declares, `openapi` describes all
//! paths, and `response`, `rows` and `events` are parts of responses that several handlers use.

pub mod audit;
pub mod changes;
pub mod coverage;
pub mod deliver;
mod events;
pub mod export;
pub mod failed;
pub mod health;
pub mod history;
pub mod jobs;
pub mod metrics;
pub mod oai;
pub mod openapi;
pub mod queries;
pub mod reconcile;
pub mod records;
pub mod response;
pub mod routes;
mod rows;
pub mod runs;
pub mod services;
pub mod sources;
pub mod sru;
pub mod suggest;
pub mod summary;
pub mod tags;
pub mod tenants;
pub mod tokens;
pub mod transitions;
pub mod unknown;
pub mod uploads;
