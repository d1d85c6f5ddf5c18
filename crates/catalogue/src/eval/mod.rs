//! Expressions: how they are compiled, checked and evaluated. This is the only room that names the crate `cel`.

pub mod expression;
pub mod functions;
pub mod plain;
pub mod types;
mod walk;
