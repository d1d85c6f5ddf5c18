//! The tests of the public interface, in one program: it is linked once, and they share the servers that they start.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

mod change_feed;
mod changed_rules;
mod complete_deliveries;
mod composed;
mod contributors;
mod corrections;
mod damage;
mod elements;
mod expectations;
mod files;
mod geometries;
mod lists;
mod marc;
mod matching;
mod order;
mod settle;
mod stopped;
mod support;
mod tags;
mod undo;
mod unique;
mod work;
