//! The tests of the public interface, in one program, which is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

mod blanks;
mod columnar;
mod differential;
mod encodings;
mod frame;
mod fuzz;
mod hostile;
mod paths;
mod support;
mod tables;
mod xpath;
