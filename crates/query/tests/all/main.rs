//! The tests of the public interface, in one program, which is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

mod aliases;
mod differential;
mod examples;
mod first_records;
mod geometries;
mod grammar;
mod linked;
mod narrow;
mod plans;
mod support;
