//! The tests of the public interface, in one program, which is linked once.

mod damaged;
mod differential;
mod files;
mod properties;
mod support;
mod xml;
