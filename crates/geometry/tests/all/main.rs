//! The tests of the public interface, in one program, which is linked once.

mod differential;
mod properties;
mod reading;
mod support;
