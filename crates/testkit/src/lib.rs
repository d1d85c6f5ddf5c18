//! What tests and benches need around them, and no program of users links: a private PostgreSQL server, folders in memory, and what a
//! test says that cannot run here.

pub mod certificates;
pub mod memory;
pub mod postgres;
pub mod skip;
