//! The tests of the public interface, in one program: it is linked once, and they share the servers that they start.

mod citus;
mod conformance;
mod differential;
mod postgres;
mod schedule;
mod sqlite;
