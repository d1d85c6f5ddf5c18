//! The tests of the public interface, in one program, which is linked once.

mod steps;
mod trees;
