//! The tests of the public interface, in one program, which is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

mod comparisons;
mod definitions;
mod expressions;
mod geometries;
mod laws;
mod route_steps;
mod types;
mod words;
