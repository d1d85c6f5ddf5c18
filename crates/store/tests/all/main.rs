//! The tests of the public interface, in one program: it is linked once, and they share the servers that they start.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

mod citus;
mod conformance;
mod differential;
mod postgres;
mod schedule;
mod sqlite;
