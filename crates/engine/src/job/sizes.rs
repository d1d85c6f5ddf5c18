//! Sizes of units of work: documents and bytes of a chunk, records of a page.

use stook_store::Store;

/// The maximum number of documents in a chunk.
pub const CHUNK_DOCUMENTS: u32 = 1_000;

/// The same for workers that share a store on a server with other writers.
pub const SHARED_CHUNK: u32 = 250;

/// The same if a store writes one unit after the other: nobody waits longer than one of these takes.
pub const SHORT_CHUNK: u32 = 100;

/// The number of bytes after which a chunk ends even with fewer documents.
pub const CHUNK_BYTES: u64 = 8 << 20;

/// The number of records that are changed at once.
pub(crate) const PAGE: usize = 1_000;

/// The maximum number of documents in a chunk that is left in the queue for any worker.
pub(crate) fn queued_chunk(store: &dyn Store) -> u32 {
    if store.is_local() { SHORT_CHUNK } else { SHARED_CHUNK }
}
