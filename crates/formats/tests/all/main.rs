//! The tests of the public interface, in one program, which is linked once.

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
