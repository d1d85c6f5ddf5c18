//! What a definition and a record are, once both are read. Nothing here reads a definition.

pub mod definition;
pub mod golden;
pub mod ids;
pub mod key;
pub mod links;
pub mod parts;
pub mod path;
pub mod record;
pub mod route;
pub mod survivorship;
mod union;
