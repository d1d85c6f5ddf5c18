//! The tests of the public interface, in one program, which is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

mod damaged;
mod differential;
mod files;
mod properties;
mod support;
mod xml;
