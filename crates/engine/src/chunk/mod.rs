//! Turns a chunk of input into records. The modules are listed in the order in which a chunk passes through them.
//!
//! A worker, a delivery or a dry run calls [`ChunkUnit::map`] for a chunk. `map_documents` (`mapped.rs`) has [`read::documents`] find each document
//! in the chunk's bytes and parses it; [`map::DocumentMapper::map`] makes one contribution for each feed, with the key of the record that it belongs
//! to, or gives the reason why the document fails or is skipped. [`ChunkUnit::consolidate`] then reads the records of all keys of the chunk from the
//! store, in one read per collection, and merges the contributions into each ([`crate::merge::RecordMerger::decide`]): that gives the outcome of each
//! document and the write of each record. `follow` (`follow.rs`) computes the edges and stale marks that result for other records, and settles
//! records inline if possible; `tag` (`tag.rs`) computes the tags of the changed records. [`ChunkUnit::prepare`] collects the writes, and
//! `build_journal` (`journal.rs`) lists the outcome of each document. Finally the chunk is submitted to the store as one unit of work
//! (`protocol.rs`): the store commits it in one transaction, and calls `resolve` to have those records merged again that other transactions have
//! changed meanwhile.

mod header;
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
pub mod changes;
mod journal;
mod protocol;

pub use mapped::ChunkInput;
pub use unit::ChunkUnit;
