//! Definitions and records after parsing. Nothing here parses a definition.

pub mod body_schema;
pub mod definition;
pub mod golden;
pub mod ids;
pub mod key;
pub mod links;
pub mod parts;
pub mod path;
pub mod record;
pub mod records_path;
pub mod route;
mod route_steps;
pub mod survivorship;
mod union;
