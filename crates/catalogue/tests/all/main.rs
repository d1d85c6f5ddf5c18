//! The tests of the public interface, in one program, which is linked once.

mod comparisons;
mod definitions;
mod expressions;
mod geometries;
mod laws;
mod route_steps;
mod types;
mod words;
