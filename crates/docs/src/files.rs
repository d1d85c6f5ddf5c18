//! The files of the documentation, embedded in the binary: lists that `build.rs` makes from the folders `docs` and `examples`.

include!(concat!(env!("OUT_DIR"), "/files.rs"));
