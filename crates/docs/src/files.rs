//! The files of the documentation, in the binary: lists made by `build.rs` from the folders `docs` and `examples`.

include!(concat!(env!("OUT_DIR"), "/files.rs"));
