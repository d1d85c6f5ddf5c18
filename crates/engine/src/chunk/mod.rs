//! What turns a chunk of input into records, in the order in which a chunk goes through the files.
//!
//! One document on its way: a worker, a delivery or a dry run calls [`ChunkUnit::map`] for the chunk that has the document. `map_documents`
//! (`mapped.rs`) has [`read::documents`] find it in the chunk's bytes and parses it; [`map::DocumentMapper::map`] makes one contribution for each feed,
//! with the key of the record that it is about, or says why the document fails or is skipped. [`ChunkUnit::consolidate`] then reads the
//! records of all keys of the chunk from the store, in one read per collection, and merges each with its contributions
//! ([`crate::merge::RecordMerger::decide`]): that gives the outcome of the document, and what is to be written of the record. `follow`
//! (`propagation.rs`) finds what other records follow from that, and settles at once what can be; `tag` (`tag.rs`) finds the tags that the
//! record carries. [`ChunkUnit::prepare`] collects the writes, and `build_journal` (`journal.rs`) writes down the outcome of each document.
//! At last the chunk is submitted to the store as one unit of work (`unit.rs`): the store commits it in one transaction, and calls `resolve` to
//! have records merged again that others have changed meanwhile.

pub mod read;
// read, then mapped
pub mod map;
pub mod mapped;
// mapped, then consolidated
pub mod consolidate;
mod follow;
mod tag;
pub mod unit;
// consolidated, then committed
mod journal;
mod protocol;

pub use mapped::ChunkInput;
pub use unit::ChunkUnit;
